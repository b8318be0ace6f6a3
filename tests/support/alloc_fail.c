/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/alloc_fail.h"

#include "support/support.h"

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* In place of the library's: no request shares a block with another, so that each fails once. */
#define TW_ARENA_FIRST 0
#define TW_ARENA_BLOCK 0
#include "base/arena.c"

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

/* Where each allocation of an attempt came from: a hash of its callers. */
enum { CALLERS = 16, MOST = 1 << 20 };
/* How many allocations of one place fail, a place being often in a loop: alone, and with every later one. Of those that
   fail alone, the second finds what the first left, which is what may leak. With every later one failing, what is
   cleaned up is the same. */
static const int same[2] = {TEST_SANITIZED ? 2 : 3, TEST_SANITIZED ? 1 : 3};
/* Under sanitizers one in so many of an attempt of more than FEW allocations fails: thousands of them are operations of
   a kernel, one like the other. Those that fail alone are others than those after which all fail. */
enum { FEW = 1000, ONE_IN = TEST_SANITIZED ? 5 : 1 };
static uint64_t *places;
static atomic_long n_places = -1; /* -1: none is noted */

static void note_place(void) {
    void *callers[CALLERS];
    uint64_t h = 0;
    const long at = atomic_fetch_add(&n_places, 1);
    const int n = backtrace(callers, CALLERS);
    for (int i = 0; i < n; i++) h = (h ^ (uint64_t)(uintptr_t)callers[i]) * 0x9e3779b97f4a7c15u;
    if (at < MOST) places[at] = h;
}

static bool refuse(void) {
    if (atomic_load(&n_places) >= 0) note_place();
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

/* Plays an attempt in which nothing fails; the number of its allocations. */
static long note_places(int (*attempt)(void *), void *context) {
    void *warm[1];
    backtrace(warm, 1); /* what it loads, it loads now */
    places = __real_calloc(MOST, sizeof *places);
    assert_non_null(places);
    atomic_store(&n_places, 0);
    const int r = attempt(context);
    const long n = atomic_exchange(&n_places, -1);
    if (r != 0) fail_msg("failed although no allocation did");
    assert_true(n <= MOST);
    return n;
}

/* Whether so many allocations before it came from the same place. */
static bool known(long n, int times) {
    for (long i = 0; i < n && times > 0; i++) times -= places[i] == places[n];
    return times <= 0;
}

void alloc_fail_exhaust(int (*attempt)(void *), void *context) {
    const long count = note_places(attempt, context);
    const long step = count > FEW ? ONE_IN : 1;
    for (int persist = 0; persist < 2; persist++)
        for (long n = persist * (step / 2); n < count; n += step) {
            if (known(n, same[persist])) continue;
            alloc_fail_after(n, persist);
            const int r = attempt(context);
            alloc_fail_after(-1, false);
            if (r != 0 && r != 1) fail_msg("allocation %ld failing: attempt returned %d", n, r);
        }
    free(places);
    places = NULL;
}
