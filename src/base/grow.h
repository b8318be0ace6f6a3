/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays. */
#ifndef TW_BASE_GROW_H
#define TW_BASE_GROW_H

#include <stddef.h>

/* Makes room for one more element of an array from malloc that has `n` elements and room for *room. A full array
   doubles, from `first` elements, and may move. Returns the array. NULL: out of memory, and the array and *room are
   unchanged. `list` may be NULL with *room 0. */
void *tw_grow(void *list, int n, int *room, int first, size_t size);

#endif
