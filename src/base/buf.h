/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer whose failure sticks, as the arena's does. Start from {0}; always NUL-terminated once
 * non-empty. */
#ifndef TW_BASE_BUF_H
#define TW_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tw_buf {
    char *data;
    size_t size, room;
    bool failed;
} tw_buf;

bool tw_buf_add(tw_buf *b, const void *data, size_t n);
bool tw_buf_str(tw_buf *b, const char *s);
bool tw_buf_printf(tw_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tw_buf_drop(tw_buf *b, size_t n); /* Removes the first n bytes. */
void tw_buf_clear(tw_buf *b);          /* Removes all bytes and keeps the memory. */
void tw_buf_free(tw_buf *b);

#endif
