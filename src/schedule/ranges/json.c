/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/file.h"
#include "schedule/ranges/ranges.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT_VERSION = 1, MOST_WORKERS = 1024 };
#define MOST_BYTES (INT64_C(1) << 46) /* Sums and products of what a file says stay within 64 bits. */

static const char *const kinds[] = {"constant", "scratch", "output"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- writing ---- */

static void put_string(tw_buf *out, const char *text) {
    json_t *s = json_stringn_nocheck(text, strlen(text));
    if (!tw_json_append(out, s, JSON_ENCODE_ANY)) out->failed = true;
    json_decref(s);
}

static void put_span(tw_buf *out, const char *name, const tw_range_span *s, int n_axes) {
    tw_buf_printf(out, ", \"%s\": [%lld, %lld", name, (long long)s->first, (long long)s->extent);
    for (int a = 0; a < n_axes; a++) tw_buf_printf(out, ", %lld", (long long)s->step[a]);
    tw_buf_str(out, "]");
}

static void put_step(tw_buf *out, const tw_ranges *r, const tw_range_step *s) {
    tw_buf_str(out, "  {\"name\": ");
    put_string(out, s->name);
    tw_buf_str(out, ", \"units\": [");
    for (int a = 0; a < s->n_axes; a++) tw_buf_printf(out, "%s%lld", a ? ", " : "", (long long)s->units[a]);
    tw_buf_str(out, "], \"accesses\": [");
    for (int i = 0; i < s->n_accesses; i++) {
        const tw_range_access *a = &s->accesses[i];
        tw_buf_printf(out, "%s{\"%s\": ", i ? ", " : "", a->write ? "write" : "read");
        put_string(out, r->buffers[a->buffer].name);
        put_span(out, "rows", &a->rows, s->n_axes);
        put_span(out, "bytes", &a->bytes, s->n_axes);
        tw_buf_str(out, "}");
    }
    tw_buf_str(out, "]}");
}

static void put_task(tw_buf *out, const tw_ranges *r, const tw_range_task *t) {
    const tw_range_step *s = &r->steps[t->step];
    tw_buf_str(out, "   {\"step\": ");
    put_string(out, s->name);
    tw_buf_str(out, ", \"range\": [");
    for (int a = 0; a < s->n_axes; a++)
        tw_buf_printf(out, "%s[%lld, %lld]", a ? ", " : "", (long long)t->from[a], (long long)t->to[a]);
    tw_buf_str(out, "], \"wait\": [");
    for (int i = 0; i < t->n_waits; i++) {
        tw_buf_str(out, i ? ", [" : "[");
        put_string(out, r->counters[t->waits[i].counter]);
        tw_buf_printf(out, ", %lld]", (long long)t->waits[i].threshold);
    }
    tw_buf_str(out, "]");
    if (t->arrive >= 0) {
        tw_buf_str(out, ", \"arrive\": ");
        put_string(out, r->counters[t->arrive]);
    }
    tw_buf_str(out, "}");
}

static void put_buffer(tw_buf *out, const tw_range_buffer *b) {
    tw_buf_str(out, "  {\"name\": ");
    put_string(out, b->name);
    tw_buf_printf(out, ", \"kind\": \"%s\", \"rows\": %lld, \"bytes\": %lld", kinds[b->kind], (long long)b->rows,
                  (long long)b->bytes);
    if (b->kind == TW_RANGE_SCRATCH) tw_buf_printf(out, ", \"offset\": %lld", (long long)b->offset);
    tw_buf_str(out, "}");
}

bool tw_ranges_print(const tw_ranges *r, tw_buf *out) {
    tw_buf_printf(out, "{\"tilewright_ranges\": %d, \"scratch\": %lld,\n \"buffers\": [\n", FORMAT_VERSION,
                  (long long)r->scratch);
    for (int i = 0; i < r->n_buffers; i++) {
        put_buffer(out, &r->buffers[i]);
        tw_buf_str(out, i + 1 < r->n_buffers ? ",\n" : "\n");
    }
    tw_buf_str(out, " ],\n \"steps\": [\n");
    for (int i = 0; i < r->n_steps; i++) {
        put_step(out, r, &r->steps[i]);
        tw_buf_str(out, i + 1 < r->n_steps ? ",\n" : "\n");
    }
    tw_buf_str(out, " ],\n \"counters\": [");
    for (int i = 0; i < r->n_counters; i++) {
        tw_buf_str(out, i ? ", " : "");
        put_string(out, r->counters[i]);
    }
    tw_buf_str(out, "],\n \"workers\": [\n");
    for (int w = 0; w < r->n_workers; w++) {
        tw_buf_str(out, "  [\n");
        for (int i = 0; i < r->workers[w].count; i++) {
            put_task(out, r, &r->workers[w].list[i]);
            tw_buf_str(out, i + 1 < r->workers[w].count ? ",\n" : "\n");
        }
        tw_buf_str(out, w + 1 < r->n_workers ? "  ],\n" : "  ]\n");
    }
    return tw_buf_str(out, " ]}\n");
}

tw_status tw_ranges_write(const tw_ranges *r, const char *path, tw_diag *diag) {
    tw_buf out = {0};
    tw_status st = !tw_ranges_print(r, &out) ? tw_fail_memory(diag) : tw_file_write(path, out.data, out.size, diag);
    tw_buf_free(&out);
    return st;
}

/* ---- reading ---- */

typedef struct reader {
    tw_ranges *r;
    const char *path;
    tw_diag *diag;
    json_t *buffers, *steps, *counters; /* Objects that map names to numbers. */
    char where[64];                     /* The place in the file, such as "workers[1][7]". */
} reader;

static tw_status refuse(reader *r, const char *what) {
    return tw_fail_at(r->diag, TW_ERR_FORMAT, r->path, -1, "%s: %s", r->where, what);
}

/* Remembers a name's number. Refuses a name that is used twice. */
static tw_status remember(reader *r, json_t *map, const char *name, int number) {
    if (json_object_get(map, name)) return refuse(r, "the name is used twice");
    return number < 0 || json_object_set_new(map, name, json_integer(number)) ? tw_fail_memory(r->diag) : TW_OK;
}

static int lookup(const json_t *map, const json_t *name) {
    const char *text = json_string_value(name);
    const json_t *v = text ? json_object_get(map, text) : NULL;
    return v ? (int)json_integer_value(v) : -1;
}

static tw_status read_buffer(reader *r, const json_t *o) {
    const char *name = json_string_value(json_object_get(o, "name")),
               *kind = json_string_value(json_object_get(o, "kind"));
    tw_range_buffer b = {.name = name};
    int k = 0;
    while (k < KINDS && kind && strcmp(kind, kinds[k])) k++;
    if (!name || !kind || k == KINDS) return refuse(r, "a buffer needs a name, and is constant, scratch or output");
    b.kind = (tw_range_kind)k;
    const json_t *offset = json_object_get(o, "offset");
    if (!tw_json_int(json_object_get(o, "rows"), 1, MOST_BYTES, &b.rows) ||
        !tw_json_int(json_object_get(o, "bytes"), 1, MOST_BYTES, &b.bytes) ||
        (double)b.rows * (double)b.bytes > (double)MOST_BYTES)
        return refuse(r, "rows and bytes are no extents of a buffer");
    if (k == TW_RANGE_SCRATCH ? !tw_json_int(offset, 0, MOST_BYTES, &b.offset) : offset != NULL)
        return refuse(r, "scratch has an offset, other buffers have none");
    return remember(r, r->buffers, name, tw_ranges_add_buffer(r->r, &b));
}

static bool read_span(const json_t *list, int n_axes, tw_range_span *s) {
    if (json_array_size(list) != 2 + (size_t)n_axes) return false;
    if (!tw_json_int(json_array_get(list, 0), 0, MOST_BYTES, &s->first) ||
        !tw_json_int(json_array_get(list, 1), 1, MOST_BYTES, &s->extent))
        return false;
    for (int a = 0; a < n_axes; a++)
        if (!tw_json_int(json_array_get(list, 2 + (size_t)a), 0, MOST_BYTES, &s->step[a])) return false;
    return true;
}

static tw_status read_access(reader *r, tw_range_step *s, const json_t *o) {
    const json_t *write = json_object_get(o, "write"), *name = write ? write : json_object_get(o, "read");
    const int buffer = lookup(r->buffers, name);
    if (buffer < 0) return refuse(r, "an access names no buffer");
    tw_range_access *a = tw_ranges_add_access(r->r, s, buffer, write != NULL);
    if (!a) return tw_fail_memory(r->diag);
    return read_span(json_object_get(o, "rows"), s->n_axes, &a->rows) &&
                   read_span(json_object_get(o, "bytes"), s->n_axes, &a->bytes)
               ? TW_OK
               : refuse(r, "rows and bytes are [first, extent, step of each axis]");
}

static tw_status read_step(reader *r, const json_t *o) {
    const char *name = json_string_value(json_object_get(o, "name"));
    const json_t *units = json_object_get(o, "units"), *accesses = json_object_get(o, "accesses");
    int64_t extent[TW_RANGE_AXES];
    size_t n = json_array_size(units), i;
    json_t *access;
    if (!name || n < 1 || n > TW_RANGE_AXES) return refuse(r, "a step needs a name, and units along 1 to 5 axes");
    for (size_t a = 0; a < n; a++)
        if (!tw_json_int(json_array_get(units, a), 1, MOST_BYTES, &extent[a])) return refuse(r, "units are no extents");
    tw_range_step *s = tw_ranges_add_step(r->r, name, (int)n, extent);
    tw_status st = remember(r, r->steps, name, s ? r->r->n_steps - 1 : -1);
    json_array_foreach(accesses, i, access) if (st == TW_OK) st = read_access(r, s, access);
    return st;
}

static tw_status read_counter(reader *r, const json_t *o) {
    const char *name = json_string_value(o);
    if (!name) return refuse(r, "a counter is a name");
    return remember(r, r->counters, name, tw_ranges_add_counter(r->r, name));
}

static tw_status read_waits(reader *r, tw_range_task *t, const json_t *waits) {
    size_t i;
    json_t *w;
    json_array_foreach(waits, i, w) {
        int64_t threshold;
        int counter = lookup(r->counters, json_array_get(w, 0));
        if (json_array_size(w) != 2 || counter < 0 ||
            !tw_json_int(json_array_get(w, 1), INT32_MIN, INT32_MAX, &threshold))
            return refuse(r, "a wait is [counter, threshold], the counter by name");
        tw_ranges_add_wait(r->r, t, counter, threshold);
    }
    return TW_OK;
}

static tw_status read_task(reader *r, int worker, const json_t *o) {
    const int step = lookup(r->steps, json_object_get(o, "step"));
    const json_t *range = json_object_get(o, "range"), *arrive = json_object_get(o, "arrive");
    if (step < 0) return refuse(r, "names no step");
    tw_range_task *t = tw_ranges_add_task(r->r, worker, step);
    if (!t) return tw_fail_memory(r->diag);
    if (json_array_size(range) != (size_t)r->r->steps[step].n_axes) return refuse(r, "range has not an entry an axis");
    for (size_t a = 0; a < json_array_size(range); a++) {
        const json_t *pair = json_array_get(range, a);
        if (json_array_size(pair) != 2 || !tw_json_int(json_array_get(pair, 0), 0, MOST_BYTES, &t->from[a]) ||
            !tw_json_int(json_array_get(pair, 1), 0, MOST_BYTES, &t->to[a]))
            return refuse(r, "a range is [from, to]");
    }
    if (arrive) t->arrive = lookup(r->counters, arrive);
    if (arrive && t->arrive < 0) return refuse(r, "arrive names no counter");
    return read_waits(r, t, json_object_get(o, "wait"));
}

static tw_status read_each(reader *r, const json_t *root, const char *key, tw_status (*one)(reader *, const json_t *)) {
    const json_t *list = json_object_get(root, key);
    size_t i;
    json_t *o;
    tw_status st = TW_OK;
    snprintf(r->where, sizeof r->where, "%s", key);
    if (!json_is_array(list)) return refuse(r, "not a list");
    json_array_foreach(list, i, o) {
        snprintf(r->where, sizeof r->where, "%s[%zu]", key, i);
        if (st == TW_OK) st = one(r, o);
    }
    return st;
}

static tw_status read_workers(reader *r, const json_t *workers) {
    size_t w, i;
    json_t *list, *o;
    tw_status st = TW_OK;
    json_array_foreach(workers, w, list) json_array_foreach(list, i, o) {
        if (st != TW_OK) return st;
        snprintf(r->where, sizeof r->where, "workers[%zu][%zu]", w, i);
        st = read_task(r, (int)w, o);
    }
    return st;
}

static tw_status read_root(reader *r, const json_t *root) {
    int64_t version;
    const json_t *workers = json_object_get(root, "workers");
    const size_t n = json_array_size(workers);
    snprintf(r->where, sizeof r->where, "schedule");
    if (!tw_json_int(json_object_get(root, "tilewright_ranges"), FORMAT_VERSION, FORMAT_VERSION, &version))
        return refuse(r, "unknown format version");
    if (n < 1 || n > MOST_WORKERS) return refuse(r, "workers is not a list of 1 to 1024 lists");
    r->r = tw_ranges_new((int)n);
    if (!r->r || !r->buffers || !r->steps || !r->counters) return tw_fail_memory(r->diag);
    if (!tw_json_int(json_object_get(root, "scratch"), 0, MOST_BYTES, &r->r->scratch))
        return refuse(r, "scratch is no number of bytes");
    tw_status st = read_each(r, root, "buffers", read_buffer);
    if (st == TW_OK) st = read_each(r, root, "steps", read_step);
    if (st == TW_OK) st = read_each(r, root, "counters", read_counter);
    if (st == TW_OK) st = read_workers(r, workers);
    if (st == TW_OK && r->r->arena.failed) st = tw_fail_memory(r->diag);
    return st;
}

bool tw_ranges_recognise(const json_t *root) {
    return json_object_get(root, "tilewright_ranges") != NULL;
}

tw_status tw_ranges_from_json(tw_ranges **out, const json_t *root, const char *path, tw_diag *diag) {
    reader r = {
        .path = path, .diag = diag, .buffers = json_object(), .steps = json_object(), .counters = json_object()};
    tw_status st = read_root(&r, root);
    *out = st == TW_OK ? r.r : NULL;
    if (st != TW_OK) tw_ranges_free(r.r);
    json_decref(r.buffers);
    json_decref(r.steps);
    json_decref(r.counters);
    return st;
}
