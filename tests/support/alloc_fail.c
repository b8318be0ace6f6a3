/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/alloc_fail.h"

#include "support/support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long countdown = -1;
static bool sticky, hit;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
char *__wrap_strdup(const char *s);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);

static bool refuse(void) {
    if (countdown < 0) return false;
    if (countdown > 0) {
        countdown--;
        return false;
    }
    hit = true;
    if (!sticky) countdown = -1;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t n) {
    return refuse() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t m) {
    return refuse() ? NULL : __real_calloc(n, m);
}
void *__wrap_realloc(void *p, size_t n) {
    return refuse() ? NULL : __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t a, size_t n) {
    return refuse() ? NULL : __real_aligned_alloc(a, n);
}
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    return refuse() ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
}

char *__wrap_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *p = __wrap_malloc(n);
    return p ? memcpy(p, s, n) : NULL;
}

void alloc_fail_after(long n, bool persist) {
    countdown = n;
    sticky = persist;
    hit = false;
}

bool alloc_fail_hit(void) {
    return hit;
}

void alloc_fail_exhaust(int (*attempt)(void *), void *context) {
    for (int persist = 0; persist < 2; persist++)
        for (long n = 0;; n++) {
            alloc_fail_after(n, persist);
            int r = attempt(context);
            bool injected = hit;
            alloc_fail_after(-1, false);
            if (r != 0 && r != 1) fail_msg("allocation %ld failing: attempt returned %d", n, r);
            if (!injected) {
                if (r != 0) fail_msg("failed although no allocation did");
                break;
            }
        }
}
