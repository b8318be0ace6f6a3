/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/read_perfetto.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- the schema: of each message the fields that may occur */

typedef enum type { END, UINT, BOOL, INT, FIXED, REAL, TEXT, BYTES, MESSAGE } type;

typedef struct field {
    int number;
    type type;
    const char *name;
    const struct field *inner; /* Of a message. */
} field;

static const field annotation[] = {
    {1, UINT, "name", NULL}, {4, INT, "int", NULL}, {5, REAL, "double", NULL}, {6, TEXT, "string", NULL}, {0}};
static const field event[] = {{3, UINT, "category", NULL},   {4, MESSAGE, "note", annotation},
                              {9, UINT, "type", NULL},       {10, UINT, "name", NULL},
                              {11, UINT, "track", NULL},     {23, TEXT, "name", NULL},
                              {30, INT, "value", NULL},      {47, FIXED, "flow", NULL},
                              {48, FIXED, "flow_end", NULL}, {0}};
static const field process[] = {
    {1, INT, "pid", NULL}, {3, INT, "sort", NULL}, {6, TEXT, "name", NULL}, {8, TEXT, "label", NULL}, {0}};
static const field thread[] = {
    {1, INT, "pid", NULL}, {2, INT, "tid", NULL}, {3, INT, "sort", NULL}, {5, TEXT, "name", NULL}, {0}};
static const field counter[] = {{0}};
static const field track[] = {{1, UINT, "uuid", NULL},          {2, TEXT, "name", NULL},
                              {3, MESSAGE, "process", process}, {4, MESSAGE, "thread", thread},
                              {5, UINT, "parent", NULL},        {8, MESSAGE, "counter", counter},
                              {15, UINT, "merge", NULL},        {0}};
static const field defaults[] = {{58, UINT, "clock", NULL}, {0}};
static const field interned_text[] = {{1, UINT, "iid", NULL}, {2, TEXT, "text", NULL}, {0}};
static const field interned[] = {{1, MESSAGE, "category", interned_text},
                                 {2, MESSAGE, "name", interned_text},
                                 {3, MESSAGE, "note", interned_text},
                                 {0}};
static const field reading[] = {{1, UINT, "clock", NULL}, {2, UINT, "at", NULL}, {0}};
static const field snapshot[] = {{1, MESSAGE, "reading", reading}, {2, UINT, "primary", NULL}, {0}};
static const field packet[] = {{6, MESSAGE, "snapshot", snapshot},
                               {8, UINT, "time", NULL},
                               {10, UINT, "sequence", NULL},
                               {11, MESSAGE, "event", event},
                               {12, MESSAGE, "interned", interned},
                               {13, UINT, "flags", NULL},
                               {50, BYTES, "compressed", NULL},
                               {59, MESSAGE, "defaults", defaults},
                               {60, MESSAGE, "track", track},
                               {87, BOOL, "first", NULL},
                               {0}};
static const field trace[] = {{1, MESSAGE, "packet", packet}, {0}};

/* ---- what is known of the sequence */

enum { MOST = 1 << 16, DEEPEST = 64 };

typedef struct known_track {
    bool described, is_counter;
    int depth;
    uint64_t last;
} known_track;

typedef struct reader {
    const char *wrong;
    tw_buf *out;
    read_counts *counts;
    bool has_state, has_clock;
    int iids[3]; /* Categories, names and notes that are known, which are numbered from 1. */
    known_track *tracks;
    unsigned char *flows; /* 0: unknown. 1: has begun. 2: is over. */
} reader;

/* The fields of a packet that matter beyond it. Absent ones are ABSENT. */
static const uint64_t ABSENT = UINT64_MAX;
typedef struct seen {
    uint64_t time, sequence, flags, first;
    uint64_t uuid, parent, event_track, type, category, name, note;
    bool is_track, is_counter, is_event, is_snapshot, has_name, has_value, is_interned;
    int flows_begun, flows_ended, readings;
} seen;

static void fail(reader *r, const char *what) {
    if (!r->wrong) r->wrong = what;
}

static bool get_varint(reader *r, const unsigned char **p, const unsigned char *end, uint64_t *v) {
    *v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*p == end) break;
        const unsigned char c = *(*p)++;
        if (shift == 63 && c > 1) break;
        *v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) return true;
    }
    fail(r, "a number of the wire does not end");
    return false;
}

static void say(reader *r, const char *name) {
    if (r->out) tw_buf_printf(r->out, " %s=", name);
}

/* Notes what a number is, by the message that it is in. */
static void note(reader *r, seen *s, const field *in, const field *f, uint64_t v) {
    if (in == packet) {
        if (f->number == 8) s->time = v;
        if (f->number == 10) s->sequence = v;
        if (f->number == 13) s->flags = v;
        if (f->number == 87) s->first = v;
    } else if (in == track) {
        if (f->number == 1) s->uuid = v;
        if (f->number == 5) s->parent = v;
    } else if (in == event) {
        if (f->number == 3) s->category = v;
        if (f->number == 9) s->type = v;
        if (f->number == 10) s->name = v;
        if (f->number == 11) s->event_track = v;
        if (f->number == 30) s->has_value = true;
        if (f->number == 47 || f->number == 48) {
            const bool ends = f->number == 48;
            if (v >= MOST * 64) fail(r, "a flow's number is too large");
            if (r->wrong) return;
            if (r->flows[v] != ends) fail(r, ends ? "a flow ends that has not begun" : "a flow begins twice");
            r->flows[v] = ends ? 2 : 1;
            s->flows_begun += !ends;
            s->flows_ended += ends;
        }
    } else if (in == annotation && f->number == 1) {
        if (v < 1 || v > (uint64_t)r->iids[2]) fail(r, "a note's name is not interned");
    } else if (in == reading && f->number == 1) {
        s->readings++;
    }
}

static void read_message(reader *r, seen *s, const field *in, const unsigned char *p, const unsigned char *end);

static void read_bytes(reader *r, seen *s, const field *in, const field *f, const unsigned char *p, size_t n) {
    if (f->type == MESSAGE) {
        if (f->inner == interned_text) {
            const int list = f->number - 1;
            seen text = {.uuid = ABSENT};
            if (r->out) tw_buf_printf(r->out, " %s {", f->name);
            read_message(r, &text, f->inner, p, p + n);
            r->iids[list]++;
        } else {
            s->is_track |= f->inner == track;
            s->is_counter |= f->inner == counter;
            s->is_event |= f->inner == event;
            s->is_snapshot |= f->inner == snapshot;
            s->is_interned |= f->inner == interned;
            if (r->out) tw_buf_printf(r->out, " %s {", f->name);
            read_message(r, s, f->inner, p, p + n);
        }
        if (r->out) tw_buf_str(r->out, " }");
    } else if (f->type == TEXT) {
        if (tw_utf8_check((const char *)p, n) != n) fail(r, "a text is not UTF-8");
        say(r, f->name);
        if (r->out) tw_buf_printf(r->out, "\"%.*s\"", (int)n, (const char *)p);
        if (in == event) s->has_name = true;
    }
}

static void read_field(reader *r, seen *s, const field *in, const field *f, uint64_t wire, const unsigned char **p,
                       const unsigned char *end) {
    static const unsigned wires[] = {
        [UINT] = 0, [BOOL] = 0, [INT] = 0, [FIXED] = 1, [REAL] = 1, [TEXT] = 2, [BYTES] = 2, [MESSAGE] = 2};
    uint64_t v = 0;
    if (wire != wires[f->type]) {
        fail(r, "a field has a wrong type of the wire");
    } else if (wire == 1) {
        if (end - *p < 8) {
            fail(r, "a number of eight bytes does not end");
            return;
        }
        for (int i = 0; i < 8; i++) v |= (uint64_t) * (*p)++ << (8 * i);
        double x;
        memcpy(&x, &v, sizeof x);
        say(r, f->name);
        if (r->out) f->type == REAL ? tw_buf_printf(r->out, "%g", x) : tw_buf_printf(r->out, "%" PRIu64, v);
        note(r, s, in, f, v);
    } else if (get_varint(r, p, end, &v)) {
        if (wire == 2) {
            if (v > (uint64_t)(end - *p)) {
                fail(r, "a length reaches beyond its message");
                return;
            }
            read_bytes(r, s, in, f, *p, (size_t)v);
            *p += v;
            return;
        }
        if (f->type == BOOL && v > 1) fail(r, "a truth is neither 0 nor 1");
        say(r, f->name);
        if (r->out) tw_buf_printf(r->out, "%" PRId64, (int64_t)v);
        note(r, s, in, f, v);
    }
}

static void read_message(reader *r, seen *s, const field *in, const unsigned char *p, const unsigned char *end) {
    while (p < end && !r->wrong) {
        uint64_t key;
        const field *f = in;
        if (!get_varint(r, &p, end, &key)) return;
        while (f->type != END && f->number != (int)(key >> 3)) f++;
        if (f->type == END)
            fail(r, "a field is unknown");
        else
            read_field(r, s, in, f, key & 7, &p, end);
    }
}

/* ---- what a packet says */

static known_track *track_of(reader *r, uint64_t uuid) {
    static known_track none;
    if (uuid == 0 || uuid >= MOST) {
        fail(r, "a track's number is 0 or too large");
        return &none;
    }
    return &r->tracks[uuid];
}

static void judge_track(reader *r, const seen *s) {
    known_track *k = track_of(r, s->uuid);
    if (k->described) fail(r, "a track is described twice");
    if (s->parent != ABSENT && !track_of(r, s->parent)->described) fail(r, "a track's parent is not described");
    k->described = true;
    k->is_counter = s->is_counter;
    r->counts->tracks++;
}

static bool is_interned(const reader *r, int list, uint64_t v) {
    return v >= 1 && v <= (uint64_t)r->iids[list];
}

static void judge_event(reader *r, const seen *s) {
    known_track *k = track_of(r, s->event_track);
    if (!r->has_clock || s->time == ABSENT) fail(r, "an event has no time");
    if (!k->described) fail(r, "an event's track is not described");
    if (k->is_counter != (s->type == 4)) fail(r, "a counter's event is elsewhere, or another on its track");
    if (k->is_counter != s->has_value) fail(r, "a value is missing, or is where it does not belong");
    if (s->category != ABSENT && !is_interned(r, 0, s->category)) fail(r, "a category is not interned");
    if (s->name != ABSENT && !is_interned(r, 1, s->name)) fail(r, "a name is not interned");
    if ((s->type == 1 || s->type == 3) != (s->name != ABSENT || s->has_name)) fail(r, "a name is missing, or too much");
    if (s->time < k->last) fail(r, "times of a track go back");
    k->last = s->time;
    switch (s->type) {
    case 1:
        r->counts->begins++;
        k->depth++;
        break;
    case 2:
        r->counts->ends++;
        if (--k->depth < 0) fail(r, "an end has no begin");
        break;
    case 3:
        r->counts->instants++;
        break;
    case 4:
        r->counts->counters++;
        break;
    default:
        fail(r, "an event is of no known type");
    }
    r->counts->flows += s->flows_begun - s->flows_ended;
}

static void read_packets(reader *r, const unsigned char *p, size_t size, bool inside);

static void read_compressed(reader *r, const unsigned char *p, size_t n) {
    uLongf size = 4 << 20;
    unsigned char *bytes = malloc(size);
    if (!bytes || uncompress(bytes, &size, p, (uLong)n) != Z_OK)
        fail(r, "what is compressed cannot be read");
    else
        read_packets(r, bytes, size, true);
    free(bytes);
    r->counts->compressed++;
}

static void read_packet(reader *r, const unsigned char *p, size_t n, bool inside) {
    seen s = {ABSENT, ABSENT, 0, 0, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, .is_track = false};
    const unsigned char *at = p;
    uint64_t key = 0, size = 0;
    r->counts->packets++;
    /* A compressed packet has nothing else in it. */
    if (n && get_varint(r, &at, p + n, &key) && key == (50 << 3 | 2)) {
        if (inside || !get_varint(r, &at, p + n, &size) || size != (uint64_t)(p + n - at))
            fail(r, "a compressed packet is not all");
        else
            read_compressed(r, at, (size_t)size);
        return;
    }
    if (r->out) tw_buf_str(r->out, "-");
    read_message(r, &s, packet, p, p + n);
    if (r->out) tw_buf_str(r->out, "\n");
    if (s.sequence == ABSENT) fail(r, "a packet has no sequence");
    if (s.flags & 1) {
        if (r->has_state) fail(r, "the state is cleared twice");
        r->has_state = true;
    } else if (!(s.flags & 2)) {
        fail(r, "a packet does not say that it needs the state");
    }
    if (!r->has_state) fail(r, "a packet has no state");
    if (s.is_snapshot) {
        if (s.readings != 2) fail(r, "two clocks are needed");
        r->has_clock = true;
    }
    if (s.is_track + s.is_event + s.is_snapshot + s.is_interned != 1) fail(r, "a packet is of none or several kinds");
    if (s.is_track) judge_track(r, &s);
    if (s.is_event) judge_event(r, &s);
}

static void read_packets(reader *r, const unsigned char *p, size_t size, bool inside) {
    const unsigned char *end = p + size;
    while (p < end && !r->wrong) {
        uint64_t key, n;
        if (!get_varint(r, &p, end, &key) || !get_varint(r, &p, end, &n)) return;
        if (key != (uint64_t)(trace[0].number << 3 | 2) || n > (uint64_t)(end - p)) {
            fail(r, "a packet is none, or reaches beyond the end");
            return;
        }
        read_packet(r, p, (size_t)n, inside);
        p += n;
    }
}

const char *read_perfetto(const void *data, size_t size, tw_buf *out, read_counts *counts) {
    reader r = {
        .out = out, .counts = counts, .tracks = calloc(MOST, sizeof *r.tracks), .flows = calloc((size_t)MOST * 64, 1)};
    *counts = (read_counts){0};
    if (!r.tracks || !r.flows) abort();
    read_packets(&r, data, size, false);
    for (int i = 0; i < MOST; i++)
        if (r.tracks[i].depth > 0) fail(&r, "a begin has no end");
    for (int i = 0; i < MOST * 64; i++)
        if (r.flows[i] == 1) fail(&r, "a flow does not end");
    free(r.tracks);
    free(r.flows);
    return r.wrong;
}
