/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/chrome.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/utf8.h"
#include "prof/rows.h"
#include "prof/steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    const tw_trace *t;
    tw_layout layout;
    tw_buf *out;
    tw_buf texts;    /* All names as JSON. */
    size_t *text_of; /* Where each name begins in `texts`, and where the last one ends. */
    int *threads;    /* Of each row. */
    bool has_event;  /* A comma is needed before the next event. */
} writer;

/* ---- values */

/* Adds a text with its quotes. Bytes that are not UTF-8 become question marks. */
static void add_text(tw_buf *b, const char *text) {
    const size_t n = strlen(text);
    tw_buf_str(b, "\"");
    for (size_t i = 0, good = tw_utf8_check(text, n); i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (i == good) {
            tw_buf_str(b, "?");
            good = i + 1 + tw_utf8_check(text + i + 1, n - i - 1);
        } else if (c == '"' || c == '\\') {
            tw_buf_printf(b, "\\%c", c);
        } else if (c < 0x20) {
            tw_buf_printf(b, "\\u%04x", c);
        } else {
            tw_buf_add(b, text + i, 1);
        }
    }
    tw_buf_str(b, "\"");
}

static void add_member_text(tw_buf *b, const char *name, const char *text) {
    tw_buf_printf(b, "\"%s\":", name);
    add_text(b, text);
}

/* Adds a number, or null if it is none that JSON has. */
static void add_number(tw_buf *b, double x) {
    if (isfinite(x))
        tw_buf_printf(b, "%.9g", x);
    else
        tw_buf_str(b, "null");
}

static char *put_text(char *p, const char *text) {
    const size_t n = strlen(text);
    memcpy(p, text, n);
    return p + n;
}

static char *put_int(char *p, int64_t v) {
    char digits[24];
    int n = 0;
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (v < 0) *p++ = '-';
    do digits[n++] = (char)('0' + left % 10);
    while (left /= 10);
    while (n) *p++ = digits[--n];
    return p;
}

/* Writes nanoseconds as microseconds. */
static char *put_time(char *p, int64_t ns) {
    p = put_int(p, ns / 1000);
    *p++ = '.';
    for (int64_t part = ns % 1000, unit = 100; unit; unit /= 10) *p++ = (char)('0' + part / unit % 10);
    return p;
}

/* ---- events */

enum { HEAD = 256 /* Bytes of an event without texts. */ };

/* Begins an event, up to its time. */
static void begin(writer *w, char kind, int row, int64_t time) {
    char head[HEAD], *p = put_text(head, w->has_event ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    *p++ = kind;
    p = put_text(p, "\",\"pid\":");
    p = put_int(p, w->layout.rows[row].sm);
    p = put_text(p, ",\"tid\":");
    p = put_int(p, w->threads[row]);
    p = put_text(p, ",\"ts\":");
    p = put_time(p, time);
    tw_buf_add(w->out, head, (size_t)(p - head));
    w->has_event = true;
}

static void end(writer *w) {
    tw_buf_str(w->out, "}");
}

/* Adds a member whose value is a whole number. */
static void add_int(writer *w, const char *before, int64_t v) {
    char bytes[HEAD], *p = put_int(put_text(bytes, before), v);
    tw_buf_add(w->out, bytes, (size_t)(p - bytes));
}

static void add_name(writer *w, int name) {
    tw_buf_str(w->out, ",\"name\":");
    tw_buf_add(w->out, w->texts.data + w->text_of[name], w->text_of[name + 1] - w->text_of[name]);
}

static void add_category(writer *w, const char *category) {
    tw_buf_str(w->out, ",\"cat\":\"");
    tw_buf_str(w->out, category);
    tw_buf_str(w->out, "\"");
}

/* Adds what is known of an event beside its times. */
static void add_notes(writer *w, const tw_trace_event *e) {
    const bool open = e->least < e->most;
    if (e->iteration < 0 && !open) return;
    tw_buf_str(w->out, ",\"args\":{");
    if (e->iteration >= 0) add_int(w, "\"iteration\":", e->iteration);
    if (open) {
        tw_buf_str(w->out, e->iteration >= 0 ? ",\"least\":" : "\"least\":");
        add_number(w->out, e->least);
        tw_buf_str(w->out, ",\"most\":");
        add_number(w->out, e->most);
    }
    tw_buf_str(w->out, "}");
}

static const char *engine_of(const writer *w, const tw_trace_event *e) {
    return tw_trace_engine_name(w->t->names[e->name].engine);
}

/* Adds the beginning or the end of an asynchronous event. Its id is the number of its lane. */
static void add_async(writer *w, const tw_trace_event *e, const tw_layout_span *s, bool ends) {
    begin(w, ends ? 'e' : 'b', s->row, ends ? s->end : s->begin);
    add_int(w, ",\"id\":", s->row + 1);
    add_name(w, e->name);
    add_category(w, "async");
    if (!ends) add_notes(w, e);
    end(w);
}

static void add_value(writer *w, const tw_trace_event *e, const tw_layout_span *s) {
    char row[TW_ROW_NAME];
    tw_buf name = {0};
    tw_layout_name(&w->layout, w->t, s->row, row);
    tw_buf_printf(&name, "%s, %s", row, w->t->names[e->name].text);
    begin(w, 'C', s->row, s->begin);
    tw_buf_str(w->out, ",");
    if (!name.failed) add_member_text(w->out, "name", name.data);
    w->out->failed |= name.failed;
    add_int(w, ",\"args\":{\"value\":", e->value);
    tw_buf_str(w->out, "}");
    end(w);
    tw_buf_free(&name);
}

/* Adds the end of a slice. Readers match it with the latest beginning on its row that has no end yet. */
static void add_end(writer *w, const tw_layout_span *s) {
    begin(w, 'E', s->row, s->end);
    end(w);
}

/* Adds a mark, or the beginning of a slice. */
static void add_begin(writer *w, const tw_trace_event *e, const tw_layout_span *s) {
    const bool is_mark = e->kind == TW_EVENT_MARK;
    begin(w, is_mark ? 'i' : 'B', s->row, s->begin);
    if (is_mark) tw_buf_str(w->out, ",\"s\":\"t\"");
    add_name(w, e->name);
    add_category(w, engine_of(w, e));
    add_notes(w, e);
    end(w);
}

static void add_event(writer *w, int i, bool ends) {
    const tw_trace_event *e = &w->t->events[i];
    const tw_layout_span *s = &w->layout.events[i];
    if (e->kind == TW_EVENT_ASYNC)
        add_async(w, e, s, ends);
    else if (e->kind == TW_EVENT_VALUE)
        add_value(w, e, s);
    else if (ends)
        add_end(w, s);
    else
        add_begin(w, e, s);
}

/* Adds the beginning of the slice that is around all events of a track. */
static void begin_track(writer *w, int track) {
    const tw_trace_track *k = &w->t->tracks[track];
    const tw_layout_span *s = &w->layout.tracks[track];
    begin(w, 'B', s->row, s->begin);
    if (w->layout.blocks)
        tw_buf_printf(w->out, ",\"name\":\"block %d\"", k->block);
    else
        add_name(w, k->role);
    add_category(w, "block");
    add_int(w, ",\"args\":{\"block\":", k->block);
    add_int(w, ",\"dropped\":", k->dropped);
    tw_buf_str(w->out, ",\"uncertainty\":");
    add_number(w->out, k->uncertainty);
    tw_buf_str(w->out, "}");
    end(w);
}

/* ---- edges */

/* The moment of an event at which the slice that it is, or is in, certainly is open. */
static int64_t moment_in(const writer *w, int i) {
    const tw_layout_span *s = &w->layout.events[i];
    if (w->t->events[i].kind == TW_EVENT_ASYNC) return s->begin; /* On the row itself something else is there later. */
    return s->end > s->begin ? s->end - 1 : s->begin;
}

static int own_row(const writer *w, int i) {
    return w->layout.tracks[w->t->events[i].track].row;
}

/* Adds an arrow. It leads from a region's last nanosecond to the wait's. A mark in the moment in which the wait ends
   has its arrow a nanosecond earlier. */
static void add_edge(writer *w, int i) {
    const tw_trace_edge *e = &w->t->edges[i];
    const int64_t to = moment_in(w, e->to), from = moment_in(w, e->from);
    if (!tw_edge_is_drawn(&w->layout, w->t, e)) return;
    for (int half = 0; half < 2; half++) {
        begin(w, half ? 'f' : 's', own_row(w, half ? e->to : e->from), half || from > to ? to : from);
        add_int(w, ",\"id\":", i + 1);
        tw_buf_str(w->out,
                   half ? ",\"name\":\"edge\",\"cat\":\"edge\",\"bp\":\"e\"" : ",\"name\":\"edge\",\"cat\":\"edge\"");
        end(w);
    }
}

/* ---- names of processes and threads */

/* Gives each row a thread's number, which no other row of its SM has. Lanes have their row's. */
static void number_threads(writer *w) {
    const tw_layout *l = &w->layout;
    for (int row = 0, first = 0; row < l->n_rows; row++) {
        const tw_layout_row *r = &l->rows[row];
        if (r->sm != l->rows[first].sm) first = row;
        if (r->lane) {
            w->threads[row] = w->threads[row - 1];
            continue;
        }
        int number = r->place * 64 + r->warp;
        for (int other = first; other < row; other++)
            if (!l->rows[other].lane && w->threads[other] == number) {
                number += 64 * 64;
                other = first - 1;
            }
        w->threads[row] = number;
    }
}

static void add_metadata(writer *w, const char *kind, int row, const char *name, int sort) {
    begin(w, 'M', row, 0);
    tw_buf_printf(w->out, ",\"name\":\"%s\",\"args\":{", kind);
    if (name)
        add_member_text(w->out, "name", name);
    else
        tw_buf_printf(w->out, "\"sort_index\":%d", sort);
    tw_buf_str(w->out, "}");
    end(w);
}

static void add_all_metadata(writer *w) {
    const tw_layout *l = &w->layout;
    for (int row = 0; row < l->n_rows; row++) {
        char name[TW_ROW_NAME];
        if (!row || l->rows[row].sm != l->rows[row - 1].sm) {
            tw_layout_group_name(w->t, l->rows[row].sm, name);
            add_metadata(w, "process_name", row, name, 0);
            add_metadata(w, "process_sort_index", row, NULL, row);
        }
        if (l->rows[row].lane) continue;
        tw_layout_name(l, w->t, row, name);
        add_metadata(w, "thread_name", row, name, 0);
        add_metadata(w, "thread_sort_index", row, NULL, row);
    }
}

/* ---- */

static bool make_texts(writer *w) {
    const tw_trace *t = w->t;
    w->text_of = malloc(((size_t)t->n_names + 1) * sizeof *w->text_of);
    w->threads = malloc(((size_t)w->layout.n_rows + 1) * sizeof *w->threads);
    if (!w->text_of || !w->threads) return false;
    for (int i = 0; i < t->n_names; i++) {
        w->text_of[i] = w->texts.size;
        add_text(&w->texts, t->names[i].text);
    }
    w->text_of[t->n_names] = w->texts.size;
    return !w->texts.failed;
}

static void add_head(writer *w) {
    const tw_trace *t = w->t;
    int64_t dropped = 0;
    for (int i = 0; i < t->n_tracks; i++) dropped += t->tracks[i].dropped;
    tw_buf_printf(w->out, "{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":%" PRId64 ",\n\"otherData\":{",
                  tw_layout_began(&w->layout, t));
    add_member_text(w->out, "title", t->title);
    tw_buf_str(w->out, ",");
    add_member_text(w->out, "device", t->device);
    tw_buf_str(w->out, ",");
    add_member_text(w->out, "unit", t->unit);
    tw_buf_printf(w->out, ",\"dropped\":%" PRId64 ",\"clean\":", dropped);
    add_number(w->out, t->clean);
    tw_buf_str(w->out, ",\"traced\":");
    add_number(w->out, t->traced);
    tw_buf_str(w->out, "},\n\"traceEvents\":[");
}

/* Adds a step. A slice has a step for its beginning and one for its end, and no duration. Perfetto's reader rounds
   times to nanoseconds, and drops a slice that ends after the slice around it. With a duration, which is rounded apart,
   a slice could end so. */
static void add_step(writer *w, const tw_step *step) {
    switch (step->kind) {
    case TW_STEP_TRACK_BEGIN:
        begin_track(w, step->index);
        break;
    case TW_STEP_TRACK_END:
        add_end(w, &w->layout.tracks[step->index]);
        break;
    case TW_STEP_BEGIN:
    case TW_STEP_MOMENT:
        add_event(w, step->index, false);
        break;
    case TW_STEP_END:
        add_event(w, step->index, true);
        break;
    }
}

tw_status tw_chrome_encode(tw_buf *out, const tw_trace *t, tw_diag *diag) {
    writer w = {.t = t, .out = out};
    size_t n = 0;
    tw_status st = tw_layout_make(&w.layout, t, diag);
    tw_step *const steps = st == TW_OK ? tw_steps_make(&w.layout, t, &n) : NULL;
    if (steps && make_texts(&w)) {
        number_threads(&w);
        add_head(&w);
        add_all_metadata(&w);
        for (size_t i = 0; i < n; i++) add_step(&w, &steps[i]);
        for (int i = 0; i < t->n_edges; i++) add_edge(&w, i);
        tw_buf_str(out, "\n]}\n");
    } else if (st == TW_OK) {
        out->failed = true;
    }
    if (st == TW_OK && out->failed) st = tw_fail_memory(diag);
    tw_layout_free(&w.layout);
    tw_buf_free(&w.texts);
    free(w.text_of);
    free(w.threads);
    free(steps);
    return st;
}

tw_status tw_chrome_write(const tw_trace *t, const char *path, tw_diag *diag) {
    tw_buf out = {0};
    tw_status st = tw_chrome_encode(&out, t, diag);
    if (st == TW_OK) st = tw_file_write(path, out.data, out.size, diag);
    tw_buf_free(&out);
    return st;
}
