/* SPDX-License-Identifier: Apache-2.0 */
/* A strict reader of Perfetto's format, as far as Tilewright writes it. */
#ifndef TW_TEST_PROF_READ_PERFETTO_H
#define TW_TEST_PROF_READ_PERFETTO_H

#include "base/buf.h"

/* Numbers that `read_perfetto` found. */
typedef struct read_counts {
    int packets, compressed; /* Of the latter: packets that hold compressed ones. */
    int tracks, begins, ends, instants, counters, flows;
} read_counts;

/* Reads a file and appends a line for each packet to `out`, which may be NULL. Returns NULL, or says what is wrong: an
   unknown field, a wrong type of the wire, a length that does not fit, text that is not UTF-8, an event on a track that
   is not described, a number that was not interned, ends without begins and the other way round, times of a track that
   go back, flows that end before they begin or do not end. */
const char *read_perfetto(const void *data, size_t size, tw_buf *out, read_counts *counts);

#endif
