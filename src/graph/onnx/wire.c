/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/onnx/wire.h"

#include <string.h>

static bool fail(tw_wire *w, const char *why) {
    if (!w->wrong) w->wrong = why;
    return false;
}

static bool varint(tw_wire *w, uint64_t *out) {
    uint64_t x = 0;
    for (int i = 0; i < 10; i++) {
        if (w->at + i == w->end) return fail(w, "the file ends within a number");
        const unsigned char byte = w->at[i];
        if (i == 9 && byte > 1) return fail(w, "a number has more than 64 bits");
        x |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            w->at += i + 1;
            *out = x;
            return true;
        }
    }
    return fail(w, "a number has more than 64 bits");
}

static bool fixed(tw_wire *w, size_t bytes, uint64_t *out) {
    if ((size_t)(w->end - w->at) < bytes) return fail(w, "the file ends within a number");
    *out = 0;
    memcpy(out, w->at, bytes); /* The machine is little-endian, as the format is. */
    w->at += bytes;
    return true;
}

static bool value(tw_wire *w, tw_wire_kind kind, uint64_t *out) {
    return kind == TW_WIRE_VARINT ? varint(w, out) : fixed(w, kind == TW_WIRE_64 ? 8 : 4, out);
}

bool tw_wire_next(tw_wire *w, tw_wire_field *f) {
    uint64_t tag, size;
    if (w->wrong || w->at == w->end) return false;
    const unsigned char *begin = w->at;
    if (!varint(w, &tag)) return false;
    *f = (tw_wire_field){.number = (uint32_t)(tag >> 3), .kind = (tw_wire_kind)(tag & 7)};
    if (!f->number || tag >> 32) {
        w->at = begin;
        return fail(w, "a field has no number of the format");
    }
    if (f->kind == TW_WIRE_BYTES) {
        if (!varint(w, &size)) return false;
        if (size > (size_t)(w->end - w->at)) {
            w->at = begin;
            return fail(w, "a field is longer than what it is in");
        }
        f->data = w->at;
        f->size = (size_t)size;
        w->at += size;
        return true;
    }
    if (f->kind == TW_WIRE_VARINT || f->kind == TW_WIRE_64 || f->kind == TW_WIRE_32)
        return value(w, f->kind, &f->value);
    w->at = begin;
    return fail(w, "a field is of a kind that the format does not have");
}

tw_wire tw_wire_of(const tw_wire_field *f) {
    return (tw_wire){.at = f->data, .end = f->data ? f->data + f->size : NULL};
}

bool tw_wire_number(tw_wire *packed, tw_wire_kind kind, uint64_t *out) {
    return !packed->wrong && packed->at != packed->end && value(packed, kind, out);
}

float tw_wire_f32(uint64_t v) {
    const uint32_t bits = (uint32_t)v;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

double tw_wire_f64(uint64_t v) {
    double d;
    memcpy(&d, &v, sizeof d);
    return d;
}
