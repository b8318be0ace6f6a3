/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as JSON. Buffers, counters and instructions refer to each other by name. Each instruction has a line. */
#include "base/json.h"

#include "base/diag.h"
#include "base/file.h"
#include "schedule/builder.h"
#include "schedule/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT_VERSION = 1 };

/* ---- writing ---- */

static void put_string(tw_buf *b, const char *s) {
    json_t *v = json_string(s);
    if (!tw_json_append(b, v, 0)) b->failed = true;
    json_decref(v);
}

static void put_buffer(tw_buf *out, const tw_buffer *b) {
    tw_buf_str(out, "  {\"name\": ");
    put_string(out, b->name);
    tw_buf_printf(out, ", \"kind\": \"%s\", \"dtype\": \"%s\"", tw_buffer_kind_name(b->kind), tw_dtype_name(b->dtype));
    if (b->group) tw_buf_printf(out, ", \"group\": %d", b->group);
    tw_buf_printf(out, ", \"shape\": [%lld, %lld, %lld]}", (long long)b->shape[0], (long long)b->shape[1],
                  (long long)b->shape[2]);
}

static void put_instr(tw_buf *out, const tw_schedule *s, const tw_instr *in) {
    const tw_instr_op_info *info = tw_instr_op_describe(in->op);
    tw_buf_printf(out, "   {\"op\": \"%s\", ", info->name);
    const char *comma = "";
    for (int i = 0; i < info->n_operands; i++) {
        if (in->operand[i] < 0) continue;
        tw_buf_printf(out, "%s\"%s\": ", comma, info->operands[i].name);
        put_string(out, s->buffers[in->operand[i]].name);
        comma = ", ";
    }
    for (int i = 0; i < info->n_params; i++)
        tw_buf_printf(out, ", \"%s\": %lld", info->params[i], (long long)in->param[i]);
    tw_buf_str(out, ", \"wait\": [");
    for (int i = 0; i < in->n_waits; i++) {
        tw_buf_str(out, i ? ", [" : "[");
        put_string(out, s->counters[in->waits[i].counter].name);
        tw_buf_printf(out, ", %lld]", (long long)in->waits[i].threshold);
    }
    tw_buf_str(out, "]");
    if (in->arrive >= 0) {
        tw_buf_str(out, ", \"arrive\": ");
        put_string(out, s->counters[in->arrive].name);
    }
    tw_buf_str(out, "}");
}

static void put_schedule(tw_buf *out, const tw_schedule *s) {
    tw_buf_printf(out, "{\"tilewright_schedule\": %d,\n \"tokens\": %lld, \"max_seq\": %lld,", FORMAT_VERSION,
                  (long long)s->tokens, (long long)s->max_seq);
    if (s->sequences > 1) tw_buf_printf(out, " \"sequences\": %lld,", (long long)s->sequences);
    tw_buf_str(out, "\n \"buffers\": [\n");
    for (int i = 0; i < s->n_buffers; i++) {
        put_buffer(out, &s->buffers[i]);
        tw_buf_str(out, i + 1 < s->n_buffers ? ",\n" : "\n");
    }
    tw_buf_str(out, " ],\n \"counters\": [\n");
    for (int i = 0; i < s->n_counters; i++) {
        tw_buf_str(out, "  {\"name\": ");
        put_string(out, s->counters[i].name);
        tw_buf_printf(out, ", \"init\": %lld}%s", (long long)s->counters[i].init, i + 1 < s->n_counters ? ",\n" : "\n");
    }
    tw_buf_str(out, " ],\n \"workers\": [\n");
    for (int w = 0; w < s->n_workers; w++) {
        tw_buf_str(out, "  [\n");
        for (int i = 0; i < s->workers[w].count; i++) {
            put_instr(out, s, &s->workers[w].list[i]);
            tw_buf_str(out, i + 1 < s->workers[w].count ? ",\n" : "\n");
        }
        tw_buf_str(out, w + 1 < s->n_workers ? "  ],\n" : "  ]\n");
    }
    tw_buf_str(out, " ]}\n");
}

tw_status tw_schedule_write(const tw_schedule *s, const char *path, tw_diag *diag) {
    tw_buf out = {0};
    put_schedule(&out, s);
    tw_status st = out.failed ? tw_fail_memory(diag) : tw_file_write(path, out.data, out.size, diag);
    tw_buf_free(&out);
    return st;
}

/* ---- reading ---- */

typedef struct reader {
    tw_schedule *s;
    const char *path;
    tw_diag *diag;
    json_t *buffers, *counters; /* Objects that map names to indices. */
    char where[64];             /* The place in the file, such as "workers[1][7]". */
} reader;

static tw_status refuse(reader *r, const char *what, const char *detail) {
    return tw_fail_at(r->diag, TW_ERR_FORMAT, r->path, -1, "%s: %s%s", r->where, what, detail);
}

static int64_t int_field(const json_t *o, const char *key, int64_t lo, int64_t hi, bool *ok) {
    int64_t n = 0;
    if (!tw_json_int(json_object_get(o, key), lo, hi, &n)) *ok = false;
    return n;
}

/* Remembers a name's index. Refuses a name that is used twice. */
static tw_status remember(reader *r, json_t *map, const char *name, int index) {
    if (json_object_get(map, name)) return refuse(r, "the name is used twice: ", name);
    return index < 0 || json_object_set_new(map, name, json_integer(index)) ? tw_fail_memory(r->diag) : TW_OK;
}

static int lookup(const json_t *map, const json_t *name) {
    const char *text = json_string_value(name);
    const json_t *v = text ? json_object_get(map, text) : NULL;
    return v ? (int)json_integer_value(v) : -1;
}

static tw_status read_buffer(reader *r, const json_t *o) {
    const char *name = json_string_value(json_object_get(o, "name")),
               *kind = json_string_value(json_object_get(o, "kind")),
               *dtype = json_string_value(json_object_get(o, "dtype"));
    const json_t *shape = json_object_get(o, "shape");
    tw_buffer_kind k;
    tw_dtype t;
    int64_t dim[3], group = 0;
    if (!name) return refuse(r, "a buffer needs a name", "");
    if (!kind || !tw_buffer_kind_from_name(kind, &k)) return refuse(r, "kind is not a buffer kind in ", name);
    if (!dtype || !tw_dtype_from_name(dtype, &t)) return refuse(r, "dtype is not an element type in ", name);
    if (json_array_size(shape) != 3) return refuse(r, "shape is not three extents in ", name);
    for (size_t i = 0; i < 3; i++)
        if (!tw_json_int(json_array_get(shape, i), 1, INT32_MAX, &dim[i]))
            return refuse(r, "shape is not three extents in ", name);
    if (json_object_get(o, "group") && !tw_json_int(json_object_get(o, "group"), 0, 1 << 20, &group))
        return refuse(r, "group is not a number of columns in ", name);
    if ((double)dim[0] * (double)dim[1] * (double)dim[2] > 0x1p50) return refuse(r, "the shape is too large in ", name);
    return remember(r, r->buffers, name, tw_schedule_add_buffer(r->s, name, k, t, (int)group, dim[0], dim[1], dim[2]));
}

static tw_status read_counter(reader *r, const json_t *o) {
    const char *name = json_string_value(json_object_get(o, "name"));
    bool ok = true;
    int64_t init = json_object_get(o, "init") ? int_field(o, "init", INT32_MIN, INT32_MAX, &ok) : 0;
    if (!name || !ok) return refuse(r, "a counter needs a name, and init is an integer", "");
    int index = tw_schedule_add_counter(r->s, name);
    if (index >= 0) r->s->counters[index].init = init;
    return remember(r, r->counters, name, index);
}

static tw_status read_waits(reader *r, tw_instr *in, const json_t *waits) {
    size_t i;
    json_t *w;
    if (waits && !json_is_array(waits)) return refuse(r, "wait is not a list", "");
    json_array_foreach(waits, i, w) {
        int64_t threshold;
        int counter = lookup(r->counters, json_array_get(w, 0));
        if (json_array_size(w) != 2 || counter < 0)
            return refuse(r, "a wait is [counter, threshold], the counter by name", "");
        if (!tw_json_int(json_array_get(w, 1), INT32_MIN, INT32_MAX, &threshold))
            return refuse(r, "a threshold is an integer", "");
        tw_schedule_add_wait(r->s, in, counter, threshold);
    }
    return TW_OK;
}

static tw_status read_field(reader *r, tw_instr *in, const tw_instr_op_info *info, const char *key, const json_t *v) {
    for (int i = 0; i < info->n_operands; i++)
        if (!strcmp(key, info->operands[i].name)) {
            in->operand[i] = lookup(r->buffers, v);
            return in->operand[i] < 0 ? refuse(r, "names no buffer: ", key) : TW_OK;
        }
    for (int i = 0; i < info->n_params; i++)
        if (!strcmp(key, info->params[i]))
            return tw_json_int(v, -(INT64_C(1) << 40), INT64_C(1) << 40, &in->param[i])
                       ? TW_OK
                       : refuse(r, "not an integer: ", key);
    if (!strcmp(key, "op")) return TW_OK;
    if (!strcmp(key, "wait")) return read_waits(r, in, v);
    if (!strcmp(key, "arrive")) {
        in->arrive = lookup(r->counters, v);
        return in->arrive < 0 ? refuse(r, "arrive names no counter", "") : TW_OK;
    }
    return refuse(r, "unknown field ", key);
}

static tw_status read_instr(reader *r, int worker, const json_t *o) {
    const char *name = json_string_value(json_object_get(o, "op")), *key;
    json_t *v;
    tw_instr_op op;
    if (!name || !tw_instr_op_from_name(name, &op)) return refuse(r, "unknown op ", name ? name : "");
    const tw_instr_op_info *info = tw_instr_op_describe(op);
    tw_instr *in = tw_schedule_add_instr(r->s, worker, op);
    if (!in) return tw_fail_memory(r->diag);
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        tw_status st = read_field(r, in, info, key, v);
        if (st != TW_OK) return st;
    }
    for (int i = 0; i < info->n_params; i++)
        if (!json_object_get(o, info->params[i])) return refuse(r, "missing ", info->params[i]);
    return TW_OK;
}

static tw_status read_each(reader *r, const json_t *root, const char *key, tw_status (*one)(reader *, const json_t *)) {
    const json_t *list = json_object_get(root, key);
    size_t i;
    json_t *o;
    snprintf(r->where, sizeof r->where, "%s", key);
    if (!json_is_array(list)) return refuse(r, "not a list", "");
    json_array_foreach(list, i, o) {
        snprintf(r->where, sizeof r->where, "%s[%zu]", key, i);
        tw_status st = one(r, o);
        if (st != TW_OK) return st;
    }
    return TW_OK;
}

static tw_status read_workers(reader *r, const json_t *workers) {
    size_t w, i;
    json_t *list, *o;
    json_array_foreach(workers, w, list) {
        snprintf(r->where, sizeof r->where, "workers[%zu]", w);
        if (!json_is_array(list)) return refuse(r, "not a list", "");
        json_array_foreach(list, i, o) {
            snprintf(r->where, sizeof r->where, "workers[%zu][%zu]", w, i);
            tw_status st = read_instr(r, (int)w, o);
            if (st != TW_OK) return st;
        }
    }
    return TW_OK;
}

static tw_status read_root(reader *r, const json_t *root) {
    bool ok = json_is_object(root);
    snprintf(r->where, sizeof r->where, "schedule");
    int64_t version = int_field(root, "tilewright_schedule", 0, INT32_MAX, &ok);
    if (!ok) return refuse(r, "not a schedule: no tilewright_schedule field", "");
    if (version != FORMAT_VERSION) return refuse(r, "unknown format version", "");
    int64_t tokens = int_field(root, "tokens", 1, 1 << 20, &ok),
            max_seq = int_field(root, "max_seq", 1, INT32_MAX, &ok), sequences = 1;
    const json_t *workers = json_object_get(root, "workers");
    size_t n = json_array_size(workers);
    if (!ok) return refuse(r, "1 <= tokens <= max_seq does not hold", "");
    if (json_object_get(root, "sequences")) sequences = int_field(root, "sequences", 1, 1 << 20, &ok);
    if (!ok || (sequences > 1 && sequences != tokens)) return refuse(r, "sequences is neither 1 nor tokens", "");
    if (tokens / sequences > max_seq) return refuse(r, "1 <= tokens <= max_seq does not hold", "");
    if (n < 1 || n > TW_MAX_WORKERS) return refuse(r, "workers is not a list of 1 to 1024 lists", "");
    r->s = tw_schedule_begin((int)n, tokens, max_seq);
    if (!r->s || !r->buffers || !r->counters) return tw_fail_memory(r->diag);
    r->s->sequences = sequences;
    tw_status st = read_each(r, root, "buffers", read_buffer);
    if (st == TW_OK) st = read_each(r, root, "counters", read_counter);
    if (st == TW_OK) st = read_workers(r, workers);
    if (st == TW_OK && r->s->arena.failed) st = tw_fail_memory(r->diag);
    return st;
}

tw_status tw_schedule_from_json(tw_schedule **out, const json_t *root, const char *path, tw_diag *diag) {
    *out = NULL;
    reader r = {.path = path, .diag = diag, .buffers = json_object(), .counters = json_object()};
    tw_status st = read_root(&r, root);
    if (st == TW_OK)
        *out = r.s;
    else
        tw_schedule_free(r.s);
    json_decref(r.buffers);
    json_decref(r.counters);
    return st;
}

tw_status tw_schedule_parse(tw_schedule **out, const char *data, size_t size, const char *path, tw_diag *diag) {
    json_t *root = NULL;
    *out = NULL;
    tw_status st = tw_json_parse(&root, data, size, path, -1, diag);
    if (st == TW_OK) st = tw_schedule_from_json(out, root, path, diag);
    json_decref(root);
    return st;
}

tw_status tw_schedule_read(tw_schedule **out, const char *path, tw_diag *diag) {
    tw_buf text = {0};
    *out = NULL;
    tw_status st = tw_file_read(&text, path, diag);
    if (st == TW_OK) st = tw_schedule_parse(out, text.data, text.size, path, diag);
    tw_buf_free(&text);
    return st;
}
