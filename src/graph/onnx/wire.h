/* SPDX-License-Identifier: Apache-2.0 */
/* Protocol buffers' wire format, read where it lies: a message is a run of bytes, and its fields are found one after
   another. Nothing is copied. (https://protobuf.dev/programming-guides/encoding/) */
#ifndef TW_GRAPH_ONNX_WIRE_H
#define TW_GRAPH_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tw_wire {
    const unsigned char *at, *end;
    const char
        *wrong; /* What is wrong with the bytes at `at`. NULL: nothing so far. Afterwards there are no more fields. */
} tw_wire;

typedef enum tw_wire_kind { TW_WIRE_VARINT = 0, TW_WIRE_64 = 1, TW_WIRE_BYTES = 2, TW_WIRE_32 = 5 } tw_wire_kind;

typedef struct tw_wire_field {
    uint32_t number;
    tw_wire_kind kind;
    uint64_t value; /* The number of a varint, or the bits of one of 32 or 64 bits. */
    const unsigned char
        *data; /* The bytes of a string, of a message or of packed numbers. NULL: the field is a number. */
    size_t size;
} tw_wire_field;

/* Finds the next field. False: there is none, or something is wrong. */
bool tw_wire_next(tw_wire *w, tw_wire_field *f);

/* Begins with the fields of a message. */
tw_wire tw_wire_of(const tw_wire_field *f);

/* Finds the next number of a repeated field, which has either one number or many, packed, whose kind is `kind`.
   `packed` is what is left of it: the caller sets it by tw_wire_of. False: there is none. */
bool tw_wire_number(tw_wire *packed, tw_wire_kind kind, uint64_t *value);

float tw_wire_f32(uint64_t value);
double tw_wire_f64(uint64_t value);

#endif
