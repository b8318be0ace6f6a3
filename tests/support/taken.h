/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what a fast path must not do. Programs that use it are linked with these functions wrapped
   (tests/CMakeLists.txt). */
#ifndef TW_TEST_TAKEN_H
#define TW_TEST_TAKEN_H

int taken_locks(void); /* Mutexes locked so far by this program's objects. */
int taken_texts(void); /* Texts formatted so far, likewise. */

#endif
