/* SPDX-License-Identifier: Apache-2.0 */
/* Counts calls that a fast path must not make. Programs that use it are linked with wrapped functions
   (tests/CMakeLists.txt). */
#ifndef TW_TEST_TAKEN_H
#define TW_TEST_TAKEN_H

int taken_locks(void); /* Returns how many times this program's objects locked a mutex. */
int taken_texts(void); /* Returns how many times this program's objects formatted a text. */

#endif
