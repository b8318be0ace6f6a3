/* SPDX-License-Identifier: Apache-2.0 */
/* An arena whose failure sticks: after one allocation failed, every further one returns NULL, so builders and parsers
   stay linear and test `failed` once at the end. Memory comes zeroed and is freed all at once. */
#ifndef TW_BASE_ARENA_H
#define TW_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tw_arena {
    struct tw_arena_block *blocks;
    bool failed;
} tw_arena;

void *tw_arena_alloc(tw_arena *a, size_t size);               /* 16-byte aligned, zeroed */
void *tw_arena_array(tw_arena *a, size_t count, size_t size); /* NULL on overflow too */
char *tw_arena_strdup(tw_arena *a, const char *s);
char *tw_arena_strndup(tw_arena *a, const char *s, size_t n);
char *tw_arena_printf(tw_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tw_arena_free(tw_arena *a); /* leaves an empty, usable arena */

#endif
