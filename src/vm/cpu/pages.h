/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_VM_CPU_PAGES_H
#define TW_VM_CPU_PAGES_H

#include <stddef.h>

/* Allocates zeroed memory, in huge pages if possible. NULL: out of memory. Pages that are never touched take none. */
void *tw_pages(size_t size);
void tw_pages_free(void *p, size_t size); /* NULL is fine. */

#endif
