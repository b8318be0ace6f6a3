/* SPDX-License-Identifier: Apache-2.0 */
/* A writer of Protocol buffers' wire format, for files that tests make byte by byte. */
#ifndef TW_TEST_WIRE_H
#define TW_TEST_WIRE_H

#include "base/buf.h"

#include <stdint.h>

void wire_varint(tw_buf *b, uint64_t x);
void wire_number(tw_buf *b, int field, uint64_t x);
void wire_bytes(tw_buf *b, int field, const void *data, size_t n);
void wire_text(tw_buf *b, int field, const char *s);
void wire_message(tw_buf *b, int field, tw_buf *m); /* Frees the message. */

#endif
