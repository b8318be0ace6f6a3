/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "prof/perfetto.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/utf8.h"
#include "prof/perfetto_parts.h"
#include "prof/rows.h"
#include "prof/steps.h"
#include "prof/wire.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What annotations are called. Their interned numbers are these and one more. */
enum {
    NOTE_ITERATION,
    NOTE_LEAST,
    NOTE_MOST,
    NOTE_BLOCK,
    NOTE_DROPPED,
    NOTE_UNCERTAINTY,
    NOTE_DEVICE,
    NOTE_UNIT,
    NOTE_CLEAN,
    NOTE_TRACED,
    NOTES
};
static const char *const notes[NOTES] = {"iteration",   "least",  "most", "block", "dropped",
                                         "uncertainty", "device", "unit", "clean", "traced"};

typedef struct counter {
    int row, name;
} counter;

typedef struct writer {
    const tw_trace *t;
    tw_layout layout;
    tw_buf out;              /* The packets. */
    tw_buf packet, in, deep; /* A message, one in it, and one in that. */
    counter *counters;       /* Ascending by row, then by name. */
    int n_counters;
    int n_groups;    /* SMs. */
    int *flow_first; /* Of each event, and one more: its first entry in `flows`. NULL: there are no edges. */
    int *flows;      /* Edges by the events that they begin at. */
    int *wait_first; /* Of each event, and one more: the first edge that ends at it. */
} writer;

/* ---- packets */

static void add_text(tw_buf *b, int field, const char *text) {
    const size_t n = strlen(text);
    tw_buf copy = {0};
    if (tw_utf8_check(text, n) == n) {
        tw_wire_bytes(b, field, text, n);
        return;
    }
    if (tw_buf_str(&copy, text)) tw_utf8_mend(copy.data);
    if (copy.failed)
        b->failed = true;
    else
        tw_wire_str(b, field, copy.data);
    tw_buf_free(&copy);
}

static void begin_packet(writer *w, unsigned flags) {
    if (w->packet.data) tw_buf_clear(&w->packet);
    tw_wire_uint(&w->packet, PACKET_SEQUENCE, SEQUENCE);
    tw_wire_uint(&w->packet, PACKET_FLAGS, flags);
}

static void end_packet(writer *w) {
    tw_wire_message(&w->out, TRACE_PACKET, &w->packet);
}

static void intern(writer *w, int kind, uint64_t number, const char *text) {
    tw_wire_uint(&w->deep, INTERNED_IID, number);
    add_text(&w->deep, INTERNED_TEXT, text);
    tw_wire_message(&w->in, kind, &w->deep);
}

/* Writes the first packet of the sequence, with all names, and the clock. */
static void add_state(writer *w) {
    const tw_trace *t = w->t;
    begin_packet(w, FLAG_CLEARED);
    tw_wire_uint(&w->packet, PACKET_FIRST, 1);
    tw_wire_uint(&w->in, DEFAULTS_CLOCK, CLOCK_OURS);
    tw_wire_message(&w->packet, PACKET_DEFAULTS, &w->in);
    for (int i = 0; i < TW_ENGINES; i++)
        intern(w, INTERNED_CATEGORIES, (uint64_t)i + 1, tw_trace_engine_name((tw_trace_engine)i));
    for (int i = 0; i < t->n_names; i++) intern(w, INTERNED_NAMES, (uint64_t)i + 1, t->names[i].text);
    for (int i = 0; i < NOTES; i++) intern(w, INTERNED_ANNOTATIONS, (uint64_t)i + 1, notes[i]);
    tw_wire_message(&w->packet, PACKET_INTERNED, &w->in);
    end_packet(w);
}

static void add_clock_reading(writer *w, uint64_t id, uint64_t ns) {
    tw_wire_uint(&w->deep, CLOCK_ID, id);
    tw_wire_uint(&w->deep, CLOCK_TIMESTAMP, ns);
    tw_wire_message(&w->in, SNAPSHOT_CLOCK, &w->deep);
}

static void add_clock(writer *w) {
    begin_packet(w, FLAG_NEEDS_STATE);
    add_clock_reading(w, CLOCK_REALTIME, (uint64_t)tw_layout_began(&w->layout, w->t));
    add_clock_reading(w, CLOCK_OURS, 0);
    tw_wire_uint(&w->in, SNAPSHOT_PRIMARY, CLOCK_REALTIME);
    tw_wire_message(&w->packet, PACKET_CLOCK_SNAPSHOT, &w->in);
    end_packet(w);
}

/* ---- tracks */

static uint64_t uuid_of_row(int row) {
    return (uint64_t)UUID_ROWS + (uint64_t)row;
}

static uint64_t uuid_of_group(const writer *w, int group) {
    return uuid_of_row(w->layout.n_rows + group);
}

static uint64_t uuid_of_counter(const writer *w, int i) {
    return uuid_of_group(w, w->n_groups + i);
}

/* Begins the description of a track in `in`. */
static void begin_track(writer *w, uint64_t uuid) {
    begin_packet(w, FLAG_NEEDS_STATE);
    tw_wire_uint(&w->in, TRACK_UUID, uuid);
}

static void end_track(writer *w) {
    tw_wire_message(&w->packet, PACKET_TRACK, &w->in);
    end_packet(w);
}

static void add_group(writer *w, int group, int sm) {
    char name[TW_ROW_NAME];
    tw_layout_group_name(w->t, sm, name);
    begin_track(w, uuid_of_group(w, group));
    tw_wire_uint(&w->deep, PROCESS_PID, (uint64_t)group + 1);
    tw_wire_uint(&w->deep, PROCESS_SORT, (uint64_t)group);
    tw_wire_str(&w->deep, PROCESS_NAME, name);
    if (strcmp(w->t->unit, "ns")) tw_wire_str(&w->deep, PROCESS_LABEL, "1 ns is 1 operation");
    tw_wire_message(&w->in, TRACK_PROCESS, &w->deep);
    end_track(w);
}

/* Describes a row. Numbers of threads are larger than those of processes: a thread with its process's number would
   count as the main one. */
static void add_row(writer *w, int row, int group) {
    char name[TW_ROW_NAME];
    tw_layout_name(&w->layout, w->t, row, name);
    begin_track(w, uuid_of_row(row));
    if (w->layout.rows[row].lane) {
        tw_wire_uint(&w->in, TRACK_PARENT, uuid_of_group(w, group));
        tw_wire_str(&w->in, TRACK_NAME, name);
        tw_wire_uint(&w->in, TRACK_MERGE, MERGE_NONE);
    } else {
        tw_wire_uint(&w->deep, THREAD_PID, (uint64_t)group + 1);
        tw_wire_uint(&w->deep, THREAD_TID, (uint64_t)w->n_groups + 1 + (uint64_t)row);
        tw_wire_uint(&w->deep, THREAD_SORT, (uint64_t)row);
        tw_wire_str(&w->deep, THREAD_NAME, name);
        tw_wire_message(&w->in, TRACK_THREAD, &w->deep);
    }
    end_track(w);
}

static void add_counter(writer *w, int i, int group) {
    const counter *c = &w->counters[i];
    char row[TW_ROW_NAME];
    tw_buf name = {0};
    tw_layout_name(&w->layout, w->t, c->row, row);
    tw_buf_printf(&name, "%s, %s", row, w->t->names[c->name].text);
    begin_track(w, uuid_of_counter(w, i));
    tw_wire_uint(&w->in, TRACK_PARENT, uuid_of_group(w, group));
    if (!name.failed) add_text(&w->in, TRACK_NAME, name.data);
    w->in.failed |= name.failed;
    tw_wire_message(&w->in, TRACK_COUNTER, &w->deep); /* Empty: values are plain numbers. */
    tw_wire_uint(&w->in, TRACK_MERGE, MERGE_NONE);
    end_track(w);
    tw_buf_free(&name);
}

static void add_tracks(writer *w) {
    const tw_layout *l = &w->layout;
    begin_track(w, UUID_ABOUT);
    tw_wire_str(&w->in, TRACK_NAME, "Tilewright");
    tw_wire_uint(&w->in, TRACK_MERGE, MERGE_NONE);
    end_track(w);
    for (int row = 0, group = -1, c = 0; row < l->n_rows; row++) {
        if (!row || l->rows[row].sm != l->rows[row - 1].sm) add_group(w, ++group, l->rows[row].sm);
        add_row(w, row, group);
        for (; c < w->n_counters && w->counters[c].row == row; c++) add_counter(w, c, group);
    }
}

/* ---- counters */

static int by_row(const void *a, const void *b) {
    const counter *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

static bool find_counters(writer *w) {
    const tw_trace *t = w->t;
    int n = 0, kept = 0;
    for (int i = 0; i < t->n_events; i++) n += t->events[i].kind == TW_EVENT_VALUE;
    w->counters = malloc((size_t)(n + 1) * sizeof *w->counters);
    if (!w->counters) return false;
    n = 0;
    for (int i = 0; i < t->n_events; i++)
        if (t->events[i].kind == TW_EVENT_VALUE)
            w->counters[n++] = (counter){w->layout.events[i].row, t->events[i].name};
    qsort(w->counters, (size_t)n, sizeof *w->counters, by_row);
    for (int i = 0; i < n; i++)
        if (!i || by_row(&w->counters[i], &w->counters[i - 1])) w->counters[kept++] = w->counters[i];
    w->n_counters = kept;
    return true;
}

static int counter_of(const writer *w, int event) {
    const counter key = {w->layout.events[event].row, w->t->events[event].name};
    const counter *at = bsearch(&key, w->counters, (size_t)w->n_counters, sizeof key, by_row);
    return (int)(at - w->counters);
}

/* ---- flows */

static bool find_flows(writer *w) {
    const tw_trace *t = w->t;
    const size_t n = (size_t)t->n_events;
    if (!t->n_edges) return true;
    w->flow_first = calloc(n + 2, sizeof *w->flow_first);
    w->wait_first = calloc(n + 2, sizeof *w->wait_first);
    w->flows = malloc((size_t)t->n_edges * sizeof *w->flows);
    if (!w->flow_first || !w->wait_first || !w->flows) return false;
    /* Counts stand two places further on, so that filling leaves each list's first place where it belongs. */
    for (int i = 0; i < t->n_edges; i++) {
        if (!tw_edge_is_drawn(&w->layout, t, &t->edges[i])) continue;
        w->flow_first[t->edges[i].from + 2]++;
    }
    for (int i = 0; i < t->n_edges; i++) w->wait_first[t->edges[i].to + 1]++;
    for (size_t i = 1; i < n + 2; i++) {
        w->flow_first[i] += w->flow_first[i - 1];
        w->wait_first[i] += w->wait_first[i - 1];
    }
    for (int i = 0; i < t->n_edges; i++)
        if (tw_edge_is_drawn(&w->layout, t, &t->edges[i])) w->flows[w->flow_first[t->edges[i].from + 1]++] = i;
    return true;
}

/* Adds the numbers of the edges that begin at an event. */
static void add_flows(const writer *w, tw_buf *b, int event) {
    unsigned char bytes[2 * TW_WIRE_LONGEST];
    for (int i = w->flow_first[event]; i < w->flow_first[event + 1]; i++)
        tw_buf_add(b, bytes, (size_t)(tw_wire_put_fixed64(bytes, EVENT_FLOW, (uint64_t)w->flows[i] + 1) - bytes));
}

static void add_flow_ends(const writer *w, tw_buf *b, int event) {
    unsigned char bytes[2 * TW_WIRE_LONGEST];
    for (int i = w->wait_first[event]; i < w->wait_first[event + 1]; i++)
        if (tw_edge_is_drawn(&w->layout, w->t, &w->t->edges[i]))
            tw_buf_add(b, bytes, (size_t)(tw_wire_put_fixed64(bytes, EVENT_FLOW_END, (uint64_t)i + 1) - bytes));
}

/* ---- events */

static unsigned char *put_note(unsigned char *p, int note, unsigned char *value_end, unsigned char *value) {
    const size_t n = (size_t)(value_end - value);
    p = tw_wire_put_field(p, EVENT_ANNOTATION, TW_WIRE_BYTES);
    p = tw_wire_put(p, n + 2);
    p = tw_wire_put_uint(p, ANNOTATION_NAME, (uint64_t)note + 1);
    memcpy(p, value, n);
    return p + n;
}

static unsigned char *put_note_int(unsigned char *p, int note, int64_t value) {
    unsigned char bytes[2 * TW_WIRE_LONGEST];
    return put_note(p, note, tw_wire_put_uint(bytes, ANNOTATION_INT, (uint64_t)value), bytes);
}

static unsigned char *put_note_double(unsigned char *p, int note, double value) {
    unsigned char bytes[2 * TW_WIRE_LONGEST];
    return put_note(p, note, tw_wire_put_double(bytes, ANNOTATION_DOUBLE, value), bytes);
}

static void add_note_text(tw_buf *b, tw_buf *deep, int note, const char *text) {
    tw_wire_uint(deep, ANNOTATION_NAME, (uint64_t)note + 1);
    add_text(deep, ANNOTATION_STRING, text);
    tw_wire_message(b, EVENT_ANNOTATION, deep);
}

enum { EVENT_BYTES = 256 /* Of a packet with an event, without flows and texts. */ };

static unsigned char *put_packet(unsigned char *p, int64_t time) {
    p = tw_wire_put_uint(p, PACKET_TIMESTAMP, (uint64_t)time);
    p = tw_wire_put_uint(p, PACKET_SEQUENCE, SEQUENCE);
    return tw_wire_put_uint(p, PACKET_FLAGS, FLAG_NEEDS_STATE);
}

/* Writes a packet whose event is made of `n` bytes and of those of `rest`. */
static void add_event_packet(writer *w, int64_t time, const unsigned char *event, size_t n, const tw_buf *rest) {
    unsigned char before[EVENT_BYTES], all[2 * EVENT_BYTES], *p = put_packet(before, time);
    const size_t more = rest ? rest->size : 0;
    p = tw_wire_put_field(p, PACKET_TRACK_EVENT, TW_WIRE_BYTES);
    p = tw_wire_put(p, n + more);
    const size_t head = (size_t)(p - before);
    p = tw_wire_put_field(all, TRACE_PACKET, TW_WIRE_BYTES);
    p = tw_wire_put(p, head + n + more);
    memcpy(p, before, head);
    memcpy(p + head, event, n);
    tw_buf_add(&w->out, all, (size_t)(p - all) + head + n);
    if (more) tw_buf_add(&w->out, rest->data, more);
}

static unsigned char *put_event(unsigned char *p, int type, uint64_t track) {
    p = tw_wire_put_uint(p, EVENT_TYPE, (uint64_t)type);
    return tw_wire_put_uint(p, EVENT_TRACK, track);
}

static unsigned char *put_what(unsigned char *p, const tw_trace *t, const tw_trace_event *e) {
    p = tw_wire_put_uint(p, EVENT_CATEGORY, (uint64_t)t->names[e->name].engine + 1);
    p = tw_wire_put_uint(p, EVENT_NAME_IID, (uint64_t)e->name + 1);
    if (e->iteration >= 0) p = put_note_int(p, NOTE_ITERATION, e->iteration);
    if (e->least < e->most) {
        p = put_note_double(p, NOTE_LEAST, e->least);
        p = put_note_double(p, NOTE_MOST, e->most);
    }
    return p;
}

static void add_event(writer *w, int64_t time, const tw_step *s) {
    const tw_trace_event *e = &w->t->events[s->index];
    const uint64_t track = uuid_of_row(w->layout.events[s->index].row);
    unsigned char bytes[EVENT_BYTES], *p = bytes;
    tw_buf *rest = NULL;
    const bool has_value = e->kind == TW_EVENT_VALUE;
    if (has_value) {
        p = put_event(p, TYPE_COUNTER, uuid_of_counter(w, counter_of(w, s->index)));
        p = tw_wire_put_uint(p, EVENT_COUNTER, (uint64_t)e->value);
    } else if (s->kind == TW_STEP_END) {
        p = put_event(p, TYPE_END, track);
    } else {
        p = put_event(p, s->kind == TW_STEP_MOMENT ? TYPE_INSTANT : TYPE_BEGIN, track);
        p = put_what(p, w->t, e);
    }
    if (w->flows && !has_value) {
        rest = &w->deep;
        if (s->kind != TW_STEP_END) add_flows(w, rest, s->index);
        if (s->kind != TW_STEP_BEGIN) add_flow_ends(w, rest, s->index);
    }
    add_event_packet(w, time, bytes, (size_t)(p - bytes), rest);
    if (!rest) return;
    w->out.failed |= rest->failed;
    if (rest->data) tw_buf_clear(rest);
}

static void add_track_step(writer *w, int64_t time, const tw_step *s) {
    const tw_trace_track *k = &w->t->tracks[s->index];
    const uint64_t track = uuid_of_row(w->layout.tracks[s->index].row);
    unsigned char bytes[EVENT_BYTES], *p;
    char name[32];
    if (s->kind == TW_STEP_TRACK_END) {
        p = put_event(bytes, TYPE_END, track);
        add_event_packet(w, time, bytes, (size_t)(p - bytes), NULL);
        return;
    }
    p = put_event(bytes, TYPE_BEGIN, track);
    if (w->layout.blocks) {
        snprintf(name, sizeof name, "block %d", k->block);
        p = tw_wire_put_field(p, EVENT_NAME, TW_WIRE_BYTES);
        p = tw_wire_put(p, strlen(name));
        memcpy(p, name, strlen(name));
        p += strlen(name);
    } else {
        p = tw_wire_put_uint(p, EVENT_NAME_IID, (uint64_t)k->role + 1);
    }
    if (!w->t->on_processor) p = put_note_int(p, NOTE_BLOCK, k->block);
    if (k->dropped) p = put_note_int(p, NOTE_DROPPED, k->dropped);
    if (k->uncertainty > 0) p = put_note_double(p, NOTE_UNCERTAINTY, k->uncertainty);
    add_event_packet(w, time, bytes, (size_t)(p - bytes), NULL);
}

/* Begins a slice over the whole trace that tells what it is of. */
static void add_about(writer *w) {
    const tw_trace *t = w->t;
    unsigned char bytes[EVENT_BYTES], *p = put_event(bytes, TYPE_BEGIN, UUID_ABOUT);
    int64_t dropped = 0;
    for (int i = 0; i < t->n_tracks; i++) dropped += t->tracks[i].dropped;
    p = put_note_int(p, NOTE_DROPPED, dropped);
    if (t->clean > 0) p = put_note_double(p, NOTE_CLEAN, t->clean);
    if (t->traced > 0) p = put_note_double(p, NOTE_TRACED, t->traced);
    add_text(&w->in, EVENT_NAME, t->title);
    add_note_text(&w->in, &w->deep, NOTE_DEVICE, t->device);
    add_note_text(&w->in, &w->deep, NOTE_UNIT, t->unit);
    w->out.failed |= w->in.failed;
    add_event_packet(w, 0, bytes, (size_t)(p - bytes), &w->in);
    tw_buf_free(&w->in);
}

static bool add_events(writer *w) {
    size_t n;
    tw_step *steps = tw_steps_make(&w->layout, w->t, &n);
    if (!steps) return false;
    add_about(w);
    for (size_t i = 0; i < n; i++) {
        const tw_step *s = &steps[i];
        const int64_t time = (int64_t)(s->when / 2);
        if (s->kind == TW_STEP_TRACK_BEGIN || s->kind == TW_STEP_TRACK_END)
            add_track_step(w, time, s);
        else
            add_event(w, time, s);
    }
    unsigned char bytes[EVENT_BYTES], *p = put_event(bytes, TYPE_END, UUID_ABOUT);
    add_event_packet(w, w->layout.end, bytes, (size_t)(p - bytes), NULL);
    free(steps);
    return true;
}

/* ---- */

static void close_writer(writer *w) {
    tw_layout_free(&w->layout);
    tw_buf_free(&w->out);
    tw_buf_free(&w->packet);
    tw_buf_free(&w->in);
    tw_buf_free(&w->deep);
    free(w->counters);
    free(w->flow_first);
    free(w->flows);
    free(w->wait_first);
}

tw_status tw_perfetto_encode_above(tw_buf *out, const tw_trace *t, size_t plain, tw_diag *diag) {
    writer w = {.t = t};
    tw_status st = tw_layout_make(&w.layout, t, diag);
    if (st == TW_OK && find_counters(&w) && find_flows(&w)) {
        for (int i = 0; i < w.layout.n_rows; i++) w.n_groups += !i || w.layout.rows[i].sm != w.layout.rows[i - 1].sm;
        add_state(&w);
        add_clock(&w);
        add_tracks(&w);
        if (!add_events(&w) || w.packet.failed) w.out.failed = true;
        if (w.out.failed)
            out->failed = true;
        else if (w.out.size > plain)
            perfetto_compress(out, &w.out);
        else
            tw_buf_add(out, w.out.data, w.out.size);
    } else if (st == TW_OK) {
        out->failed = true;
    }
    if (st == TW_OK && out->failed) st = tw_fail_memory(diag);
    close_writer(&w);
    return st;
}

tw_status tw_perfetto_encode(tw_buf *out, const tw_trace *t, tw_diag *diag) {
    return tw_perfetto_encode_above(out, t, TW_PERFETTO_PLAIN, diag);
}

tw_status tw_perfetto_write(const tw_trace *t, const char *path, tw_diag *diag) {
    tw_buf out = {0};
    tw_status st = tw_perfetto_encode(&out, t, diag);
    if (st == TW_OK) st = tw_file_write(path, out.data, out.size, diag);
    tw_buf_free(&out);
    return st;
}
