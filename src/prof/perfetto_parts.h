/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the writer for Perfetto share. */
#ifndef TW_PROF_PERFETTO_PARTS_H
#define TW_PROF_PERFETTO_PARTS_H

#include "base/buf.h"

/* Numbers of fields, by their messages in Perfetto's schema. */
enum { TRACE_PACKET = 1 };
enum {
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_COMPRESSED = 50,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK = 60,
    PACKET_FIRST = 87
};
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { SNAPSHOT_CLOCK = 1, SNAPSHOT_PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2 };
enum { DEFAULTS_CLOCK = 58 };
enum { INTERNED_CATEGORIES = 1, INTERNED_NAMES = 2, INTERNED_ANNOTATIONS = 3, INTERNED_IID = 1, INTERNED_TEXT = 2 };
enum {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    TRACK_MERGE = 15
};
enum { MERGE_NONE = 2 };
enum { PROCESS_PID = 1, PROCESS_SORT = 3, PROCESS_NAME = 6, PROCESS_LABEL = 8 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_SORT = 3, THREAD_NAME = 5 };
enum {
    EVENT_CATEGORY = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    EVENT_FLOW = 47,
    EVENT_FLOW_END = 48
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { ANNOTATION_NAME = 1, ANNOTATION_INT = 4, ANNOTATION_DOUBLE = 5, ANNOTATION_STRING = 6 };

enum { CLOCK_REALTIME = 1, CLOCK_OURS = 64, SEQUENCE = 1, UUID_ABOUT = 1, UUID_ROWS = 2 };

/* Appends the packets of `from`, which must be whole, as packets that hold compressed ones. `out` fails if memory runs
 * out. */
void perfetto_compress(tw_buf *out, const tw_buf *from);

#endif
