/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks double in size, since clearing a large block would cost a short-lived arena too much. Tests of allocation
   failures set both sizes to 0, so that every request allocates. */
#ifndef TW_ARENA_FIRST
#define TW_ARENA_FIRST (4 << 10)
#define TW_ARENA_BLOCK (64 << 10)
#endif
enum { FIRST = TW_ARENA_FIRST, BLOCK = TW_ARENA_BLOCK, ALIGN = 16 };

struct tw_arena_block {
    struct tw_arena_block *next;
    size_t used, size;
    _Alignas(ALIGN) unsigned char data[];
};

void *tw_arena_alloc(tw_arena *a, size_t size) {
    if (a->failed) return NULL;
    if (size > SIZE_MAX / 2) goto fail;
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct tw_arena_block *b = a->blocks;
    if (!b || b->size - b->used < size) {
        size_t room = b ? 2 * b->size : FIRST;
        if (room > BLOCK) room = BLOCK;
        if (room < size) room = size;
        b = calloc(1, sizeof *b + room);
        if (!b) goto fail;
        b->size = room;
        b->next = a->blocks;
        a->blocks = b;
    }
    void *p = b->data + b->used;
    b->used += size;
    return p;
fail:
    a->failed = true;
    return NULL;
}

void *tw_arena_array(tw_arena *a, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) {
        a->failed = true;
        return NULL;
    }
    return tw_arena_alloc(a, count * size);
}

char *tw_arena_strndup(tw_arena *a, const char *s, size_t n) {
    char *p = tw_arena_alloc(a, n + 1);
    if (p && n) memcpy(p, s, n);
    return p;
}

char *tw_arena_strdup(tw_arena *a, const char *s) {
    return tw_arena_strndup(a, s, strlen(s));
}

char *tw_arena_printf(tw_arena *a, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n < 0 ? NULL : tw_arena_alloc(a, (size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return p;
}

void tw_arena_free(tw_arena *a) {
    for (struct tw_arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (tw_arena){0};
}
