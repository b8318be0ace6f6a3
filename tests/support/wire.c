/* SPDX-License-Identifier: Apache-2.0 */
#include "support/wire.h"

#include <string.h>

void wire_varint(tw_buf *b, uint64_t x) {
    do {
        const unsigned char byte = (unsigned char)((x & 0x7f) | (x > 0x7f ? 0x80 : 0));
        tw_buf_add(b, &byte, 1);
        x >>= 7;
    } while (x);
}

void wire_number(tw_buf *b, int field, uint64_t x) {
    wire_varint(b, (uint64_t)field << 3);
    wire_varint(b, x);
}

void wire_bytes(tw_buf *b, int field, const void *data, size_t n) {
    wire_varint(b, (uint64_t)field << 3 | 2);
    wire_varint(b, n);
    tw_buf_add(b, data, n);
}

void wire_text(tw_buf *b, int field, const char *s) {
    wire_bytes(b, field, s, strlen(s));
}

void wire_message(tw_buf *b, int field, tw_buf *m) {
    wire_bytes(b, field, m->data, m->size);
    tw_buf_free(m);
}
