/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices. */
#ifndef TW_DEVICE_NAME_H
#define TW_DEVICE_NAME_H

#include <stdbool.h>

/* Reads "cuda" (GPU number 0) or "cuda:N". Returns false for any other text. */
bool tw_device_gpu_number(const char *text, int *number);

#endif
