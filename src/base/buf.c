/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(tw_buf *b, size_t more) {
    if (b->failed) return false;
    if (more < b->room - b->size) return true; /* one byte is kept for the NUL */
    if (more >= SIZE_MAX / 2 - b->size) return !(b->failed = true);
    size_t room = b->room ? b->room : 64;
    while (room <= b->size + more) room *= 2;
    char *p = realloc(b->data, room);
    if (!p) return !(b->failed = true);
    b->data = p;
    b->room = room;
    return true;
}

bool tw_buf_add(tw_buf *b, const void *data, size_t n) {
    if (!reserve(b, n)) return false;
    if (n) memcpy(b->data + b->size, data, n);
    b->size += n;
    b->data[b->size] = 0;
    return true;
}

bool tw_buf_str(tw_buf *b, const char *s) {
    return tw_buf_add(b, s, strlen(s));
}

bool tw_buf_printf(tw_buf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    bool ok = n >= 0 && reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->data + b->size, (size_t)n + 1, fmt, again);
        b->size += (size_t)n;
    }
    va_end(again);
    va_end(ap);
    return ok;
}

void tw_buf_drop(tw_buf *b, size_t n) {
    if (!n) return;
    b->size -= n;
    memmove(b->data, b->data + n, b->size + 1);
}

void tw_buf_clear(tw_buf *b) {
    b->size = 0;
    if (b->data) b->data[0] = 0;
}

void tw_buf_free(tw_buf *b) {
    free(b->data);
    *b = (tw_buf){0};
}
