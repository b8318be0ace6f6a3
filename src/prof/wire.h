/* SPDX-License-Identifier: Apache-2.0 */
/* Writing messages in the wire format of Protocol Buffers. A message inside another is built in a buffer of its own. */
#ifndef TW_PROF_WIRE_H
#define TW_PROF_WIRE_H

#include "base/buf.h"

#include <stdint.h>
#include <string.h>

enum {
    TW_WIRE_VARINT = 0,
    TW_WIRE_FIXED64 = 1,
    TW_WIRE_BYTES = 2,
    TW_WIRE_LONGEST = 10 /* Bytes of the longest varint. */
};

/* Writes a varint. Returns the byte behind it. */
static inline unsigned char *tw_wire_put(unsigned char *p, uint64_t v) {
    for (; v >= 0x80; v >>= 7) *p++ = (unsigned char)(v | 0x80);
    *p++ = (unsigned char)v;
    return p;
}

static inline unsigned char *tw_wire_put_field(unsigned char *p, int field, int type) {
    return tw_wire_put(p, (uint64_t)field << 3 | (unsigned)type);
}

static inline unsigned char *tw_wire_put_uint(unsigned char *p, int field, uint64_t v) {
    return tw_wire_put(tw_wire_put_field(p, field, TW_WIRE_VARINT), v);
}

/* Writes eight bytes, the lowest first. */
static inline unsigned char *tw_wire_put_fixed64(unsigned char *p, int field, uint64_t v) {
    p = tw_wire_put_field(p, field, TW_WIRE_FIXED64);
    for (int i = 0; i < 8; i++) *p++ = (unsigned char)(v >> (8 * i));
    return p;
}

static inline unsigned char *tw_wire_put_double(unsigned char *p, int field, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return tw_wire_put_fixed64(p, field, bits);
}

static inline void tw_wire_uint(tw_buf *b, int field, uint64_t v) {
    unsigned char bytes[2 * TW_WIRE_LONGEST];
    tw_buf_add(b, bytes, (size_t)(tw_wire_put_uint(bytes, field, v) - bytes));
}

static inline void tw_wire_double(tw_buf *b, int field, double x) {
    unsigned char bytes[2 * TW_WIRE_LONGEST];
    tw_buf_add(b, bytes, (size_t)(tw_wire_put_double(bytes, field, x) - bytes));
}

static inline void tw_wire_bytes(tw_buf *b, int field, const void *data, size_t n) {
    unsigned char bytes[2 * TW_WIRE_LONGEST];
    unsigned char *end = tw_wire_put(tw_wire_put_field(bytes, field, TW_WIRE_BYTES), n);
    tw_buf_add(b, bytes, (size_t)(end - bytes));
    tw_buf_add(b, data, n);
}

static inline void tw_wire_str(tw_buf *b, int field, const char *text) {
    tw_wire_bytes(b, field, text, strlen(text));
}

/* Adds a message, and empties the buffer that it was built in. */
static inline void tw_wire_message(tw_buf *b, int field, tw_buf *inner) {
    tw_wire_bytes(b, field, inner->size ? inner->data : "", inner->size);
    b->failed |= inner->failed;
    if (inner->data) tw_buf_clear(inner);
}

#endif
