/* SPDX-License-Identifier: Apache-2.0 */
/* What a test can ask of the stand-in for cuDNN (fake_cudnn.c). */
#ifndef TW_TEST_FAKE_CUDNN_H
#define TW_TEST_FAKE_CUDNN_H

void fake_cudnn_reset(void);
/* The nth call from now (0: the next) of those that can fail fails with `status`. */
void fake_cudnn_fail(int nth, int status);
int fake_cudnn_alive(void); /* Handles and descriptors that were made and not destroyed. */
int fake_cudnn_calls(void); /* Calls of those that can fail. */
int fake_cudnn_runs(void);  /* Plans that were executed. */

#endif
