/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SPACE_LIST_H
#define TW_SPACE_LIST_H

#include <stddef.h>

enum { TW_SPACE_LIST = 256 }; /* room for any parameter's words */

/* "auto, counters or data"; `words` end with NULL. */
void tw_space_list(const char *const *words, char *out, size_t size);

#endif
