/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file. Wrong types and names are errors of the file, reported with their place. The check does everything
   else. */
#include "base/diag.h"
#include "schedule/amk/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    tw_amk *p;
    const char *path;
    tw_diag *diag;
    char where[48]; /* The place in the file, such as "tasks[17]". */
} reader;

static tw_status refuse(const reader *r, const char *field, const char *what) {
    return tw_fail_at(r->diag, TW_ERR_FORMAT, r->path, -1, "%s: %s %s", r->where, field, what);
}

enum { MAX_TEXT = 200 };

/* Copies a text for findings, which are lines. Characters that do not print become question marks. */
static char *copy_text(reader *r, const char *text) {
    size_t n = strlen(text);
    char *s = tw_arena_strndup(&r->p->arena, text, n < MAX_TEXT ? n : MAX_TEXT);
    for (char *c = s; c && *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return s;
}

static int find_name(const char *const *names, int n, const json_t *v) {
    const char *text = json_string_value(v);
    for (int i = 0; text && i < n; i++)
        if (!strcmp(text, names[i])) return i;
    return -1;
}

static bool is_int32(const json_t *v) {
    return json_is_integer(v) && json_integer_value(v) >= INT32_MIN && json_integer_value(v) <= INT32_MAX;
}

static tw_status read_int(const reader *r, const json_t *o, const char *key, int64_t *out) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) return refuse(r, key, "is not an integer");
    *out = json_integer_value(v);
    return TW_OK;
}

static tw_status read_ids(reader *r, const json_t *o, const char *key, int **out, int *n) {
    const json_t *list = json_object_get(o, key);
    size_t count = json_array_size(list);
    if (!json_is_array(list)) return refuse(r, key, "is not a list");
    *out = tw_arena_array(&r->p->arena, count + 1, sizeof **out);
    if (!*out) return tw_fail_memory(r->diag);
    for (size_t i = 0; i < count; i++) {
        if (!is_int32(json_array_get(list, i))) return refuse(r, key, "is not a list of ids");
        (*out)[i] = (int)json_integer_value(json_array_get(list, i));
    }
    *n = (int)count;
    return TW_OK;
}

static tw_status read_buffer(reader *r, const json_t *o, int i) {
    amk_buffer *b = &r->p->buffers[i];
    const char *name = json_string_value(json_object_get(o, "name"));
    const json_t *shape = json_object_get(o, "shape");
    int kind = find_name(amk_kind_names, AMK_KIND_COUNT, json_object_get(o, "kind")),
        dtype = find_name(amk_dtype_names, AMK_DTYPE_COUNT, json_object_get(o, "dtype")),
        space = find_name(amk_space_names, AMK_SPACE_COUNT, json_object_get(o, "space"));
    if (!name) return refuse(r, "name", "is not a text");
    if (kind < 0) return refuse(r, "kind", "is not a kind of buffer");
    if (dtype < 0) return refuse(r, "dtype", "is not an element type");
    if (space < 0) return refuse(r, "space", "is not a memory space");
    if (!json_is_array(shape)) return refuse(r, "shape", "is not a list");
    b->name = copy_text(r, name);
    b->kind = (amk_kind)kind;
    b->dtype = (amk_dtype)dtype;
    b->space = (amk_space)space;
    b->page = -1;
    b->rank = (int)json_array_size(shape);
    b->shape = tw_arena_array(&r->p->arena, (size_t)b->rank + 1, sizeof *b->shape);
    if (!b->name || !b->shape) return tw_fail_memory(r->diag);
    for (int d = 0; d < b->rank; d++) {
        const json_t *v = json_array_get(shape, (size_t)d);
        if (!json_is_integer(v)) return refuse(r, "shape", "is not a list of integers");
        b->shape[d] = json_integer_value(v);
    }
    return read_int(r, o, "id", &b->id);
}

static tw_status read_counter(reader *r, const json_t *o, int i) {
    amk_counter *c = &r->p->counters[i];
    const char *note = json_string_value(json_object_get(o, "note"));
    char *clean = copy_text(r, note ? note : "");
    c->name = clean && *clean ? tw_arena_printf(&r->p->arena, "counter %d (%s)", i, clean)
                              : tw_arena_printf(&r->p->arena, "counter %d", i);
    if (!clean || !c->name) return tw_fail_memory(r->diag);
    if (json_object_get(o, "init")) {
        tw_status st = read_int(r, o, "init", &c->init);
        if (st != TW_OK) return st;
    }
    return read_int(r, o, "id", &c->id);
}

static tw_status read_waits(reader *r, const json_t *o, amk_task *t) {
    const json_t *list = json_object_get(o, "waits");
    if (list && !json_is_array(list)) return refuse(r, "waits", "is not a list");
    t->n_waits = (int)json_array_size(list);
    t->waits = tw_arena_array(&r->p->arena, (size_t)t->n_waits + 1, sizeof *t->waits);
    if (!t->waits) return tw_fail_memory(r->diag);
    for (int i = 0; i < t->n_waits; i++) {
        const json_t *w = json_array_get(list, (size_t)i), *c = json_object_get(w, "counter"),
                     *n = json_object_get(w, "threshold");
        if (!is_int32(c) || !is_int32(n)) return refuse(r, "waits", "is not a list of counter and threshold");
        t->waits[i] = (tw_wait){(int)json_integer_value(c), json_integer_value(n)};
    }
    return TW_OK;
}

/* Unknown parameters do not reach the device and change nothing. */
static tw_status read_params(reader *r, const json_t *o, amk_task *t) {
    const json_t *map = json_object_get(o, "params");
    if (map && !json_is_object(map)) return refuse(r, "params", "is not an object");
    for (int i = 0; i < AMK_PARAM_COUNT; i++) {
        const json_t *v = json_object_get(map, amk_param_names[i]);
        if (!v) continue;
        t->has |= UINT32_C(1) << i;
        if (i < AMK_INT_PARAM_COUNT ? !is_int32(v) : !json_is_number(v))
            t->bad |= UINT32_C(1) << i;
        else if (i < AMK_INT_PARAM_COUNT)
            t->param[i] = (int32_t)json_integer_value(v);
    }
    return TW_OK;
}

static tw_status read_task(reader *r, const json_t *o, int i) {
    amk_task *t = &r->p->tasks[i];
    const char *op = json_string_value(json_object_get(o, "op")),
               *label = json_string_value(json_object_get(o, "label"));
    const json_t *sm = json_object_get(o, "sm");
    int64_t counter = 0;
    if (!op) return refuse(r, "op", "is not a text");
    t->op = amk_op_find(op);
    t->op_name = copy_text(r, op);
    t->label = copy_text(r, label && *label ? label : op);
    if (!t->op_name || !t->label) return tw_fail_memory(r->diag);
    tw_status st = read_int(r, o, "id", &t->id);
    if (st == TW_OK) st = read_int(r, o, "out_counter", &counter);
    if (st == TW_OK && (t->pinned = sm && !json_is_null(sm))) st = read_int(r, o, "sm", &t->sm);
    if (st == TW_OK) st = read_ids(r, o, "inputs", &t->inputs, &t->n_inputs);
    if (st == TW_OK) st = read_ids(r, o, "outputs", &t->outputs, &t->n_outputs);
    if (st == TW_OK) st = read_waits(r, o, t);
    if (st == TW_OK) st = read_params(r, o, t);
    t->out_counter = counter < -1 || counter > INT32_MAX ? -1 : (int)counter;
    return st;
}

static tw_status read_page(reader *r, const json_t *o, int i) {
    amk_page *page = &r->p->pages[i];
    int space = find_name(amk_space_names, AMK_SPACE_COUNT, json_object_get(o, "space"));
    if (space < 0) return refuse(r, "space", "is not a memory space");
    page->space = (amk_space)space;
    tw_status st = read_int(r, o, "id", &page->id);
    return st == TW_OK ? read_int(r, o, "nbytes", &page->bytes) : st;
}

static tw_status count_list(reader *r, const json_t *list, const char *name, int *n) {
    snprintf(r->where, sizeof r->where, "%s", name);
    if (!json_is_array(list) || json_array_size(list) > INT32_MAX / 4) return refuse(r, "the list", "is missing");
    *n = (int)json_array_size(list);
    return TW_OK;
}

static tw_status read_each(reader *r, const json_t *list, const char *name, const void *room, int n,
                           tw_status (*one)(reader *, const json_t *, int)) {
    if (!room) return tw_fail_memory(r->diag);
    for (int i = 0; i < n; i++) {
        snprintf(r->where, sizeof r->where, "%s[%d]", name, i);
        tw_status st = one(r, json_array_get(list, (size_t)i), i);
        if (st != TW_OK) return st;
    }
    return TW_OK;
}

#define READ_LIST(r, list, name, array, n, one)                                                                        \
    do {                                                                                                               \
        tw_status list_st = count_list(r, list, name, &(n));                                                           \
        if (list_st != TW_OK) return list_st;                                                                          \
        (array) = tw_arena_array(&(r)->p->arena, (size_t)(n) + 1, sizeof *(array));                                    \
        list_st = read_each(r, list, name, array, n, one);                                                             \
        if (list_st != TW_OK) return list_st;                                                                          \
    } while (0)

/* Reads a key, which is an id written as text. */
static bool id_of_key(const char *key, int64_t *id) {
    size_t n = strspn(key, "0123456789");
    if (!n || n > 9 || key[n] || (n > 1 && *key == '0')) return false;
    *id = strtol(key, NULL, 10);
    return true;
}

static tw_status read_pages(reader *r, json_t *pages) {
    if (!pages || json_is_null(pages)) return TW_OK;
    READ_LIST(r, json_object_get(pages, "pages"), "pages.pages", r->p->pages, r->p->n_pages, read_page);
    json_t *map = json_object_get(pages, "buffer_to_page"), *v;
    const char *key;
    snprintf(r->where, sizeof r->where, "pages");
    if (!json_is_object(map)) return refuse(r, "buffer_to_page", "is not an object");
    r->p->bindings = tw_arena_array(&r->p->arena, json_object_size(map) + 1, sizeof *r->p->bindings);
    if (!r->p->bindings) return tw_fail_memory(r->diag);
    json_object_foreach(map, key, v) {
        amk_binding *b = &r->p->bindings[r->p->n_bindings++];
        if (!id_of_key(key, &b->buffer) || !json_is_integer(v))
            return refuse(r, "buffer_to_page", "does not map ids of buffers to ids of pages");
        b->page = json_integer_value(v);
    }
    return TW_OK;
}

static tw_status read_version(reader *r, const json_t *root, const char *key) {
    const json_t *v = json_object_get(root, key);
    const char *text = json_string_value(v);
    if (!v || (text && !strncmp(text, "0.2", 3) && (!text[3] || text[3] == '.'))) return TW_OK;
    return refuse(r, key, "is not 0.2, the only one that is known");
}

static tw_status read_meta(reader *r, const json_t *root) {
    tw_amk *p = r->p;
    const json_t *meta = json_object_get(root, "meta"), *target = json_object_get(root, "target");
    tw_status st = TW_OK;
    snprintf(r->where, sizeof r->where, "meta");
    if ((p->has_pos = json_object_get(meta, "pos") != NULL)) st = read_int(r, meta, "pos", &p->pos);
    if (st == TW_OK && (p->has_kv_len = json_object_get(meta, "kv_len") != NULL))
        st = read_int(r, meta, "kv_len", &p->kv_len);
    snprintf(r->where, sizeof r->where, "target");
    if ((p->has_target = target && !json_is_null(target))) {
        if (st == TW_OK) st = read_int(r, target, "num_sms", &p->num_sms);
        if (st == TW_OK) st = read_int(r, target, "smem_bytes_per_block_optin", &p->smem_bytes);
    }
    return st;
}

static tw_status read_root(reader *r, const json_t *root) {
    tw_amk *p = r->p;
    snprintf(r->where, sizeof r->where, "schedule");
    if (!tw_amk_recognise(root)) return refuse(r, "ir_version", "and tasks are missing: not AutoMegaKernel's");
    tw_status st = read_version(r, root, "ir_version");
    if (st == TW_OK) st = read_version(r, root, "abi_version");
    if (st == TW_OK) st = read_meta(r, root);
    if (st != TW_OK) return st;
    READ_LIST(r, json_object_get(root, "buffers"), "buffers", p->buffers, p->n_buffers, read_buffer);
    READ_LIST(r, json_object_get(root, "counters"), "counters", p->counters, p->n_counters, read_counter);
    READ_LIST(r, json_object_get(root, "tasks"), "tasks", p->tasks, p->n_tasks, read_task);
    return read_pages(r, json_object_get(root, "pages"));
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool count_sms(tw_amk *p) {
    int64_t *sm = tw_arena_array(&p->arena, (size_t)p->n_tasks + 1, sizeof *sm);
    size_t n = 0;
    if (!sm) return false;
    for (int i = 0; i < p->n_tasks; i++)
        if (p->tasks[i].pinned) sm[n++] = p->tasks[i].sm;
    qsort(sm, n, sizeof *sm, by_value);
    for (size_t i = 0; i < n; i++) p->sms += !i || sm[i] != sm[i - 1];
    return true;
}

bool tw_amk_recognise(const json_t *root) {
    return json_object_get(root, "ir_version") || json_object_get(root, "tasks");
}

tw_status tw_amk_from_json(tw_amk **out, const json_t *root, const char *path, tw_diag *diag) {
    *out = NULL;
    reader r = {calloc(1, sizeof *r.p), path, diag, ""};
    if (!r.p) return tw_fail_memory(diag);
    tw_status st = read_root(&r, root);
    if (st == TW_OK && !count_sms(r.p)) st = tw_fail_memory(diag);
    if (st == TW_OK)
        *out = r.p;
    else
        tw_amk_free(r.p);
    return st;
}

void tw_amk_free(tw_amk *p) {
    if (!p) return;
    tw_arena_free(&p->arena);
    free(p);
}
