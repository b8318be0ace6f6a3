/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SPACE_LIST_H
#define TW_SPACE_LIST_H

#include <stddef.h>

enum { TW_SPACE_LIST = 256 }; /* Bytes that hold the list of any parameter's words. */

/* Writes words as a list, such as "auto, counters or data". NULL ends `words`. */
void tw_space_list(const char *const *words, char *out, size_t size);

#endif
