/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "vm/cpu/pages.h"

#include <sys/mman.h>

void *tw_pages(size_t size) {
    if (!size) size = 1;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, size, MADV_HUGEPAGE); /* A page walk every 4 KiB costs a tenth of the bandwidth. Failure does no harm. */
    return p;
}

void tw_pages_free(void *p, size_t size) {
    if (p) munmap(p, size ? size : 1);
}
