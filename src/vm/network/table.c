/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a program's steps: which rows and bytes of buffers their units access. A buffer's rows are those of the
   view that is written first. What a unit writes is said exactly; where it reads with gaps, what lies between counts as
   read as well. */
#include "base/diag.h"
#include "kernels/rows/rows.h"
#include "vm/network/deal.h"

#include <stdio.h>

enum {
    INNER = -1, /* In place of an axis: each unit has all indices of the dimension. */
    MOST_TERMS = 2 * TW_ARRAY_RANK,
    MOST_PIECES = 4096 /* Most accesses that a result with gaps becomes. */
};

/* A dimension of a view. */
typedef struct term {
    int axis;              /* The axis of the step's units that goes along it, or INNER. */
    int64_t count, stride; /* Indices, and bytes from one to the next. */
} term;

/* How a step goes through a view: one term for each dimension that has more than one index. */
typedef struct walk {
    int buffer;
    bool write;
    int64_t offset; /* Bytes from the buffer's beginning. */
    int64_t bytes;  /* Bytes of an element. */
    term terms[MOST_TERMS];
    int n;
} walk;

static walk begin(const tw_view *v, bool write) {
    return (walk){.buffer = v->buffer, .write = write, .offset = v->offset, .bytes = tw_element_bits(v->type) / 8};
}

/* Adds a dimension; `stride` is in elements. */
static void add(walk *w, int axis, int64_t count, int64_t stride) {
    if (count <= 1 || !stride) return;
    /* From the last index to the first. An axis cannot be turned round, so that all of it counts as each unit's. */
    if (stride < 0) {
        w->offset += stride * w->bytes * (count - 1);
        stride = -stride;
        axis = INNER;
    }
    w->terms[w->n++] = (term){axis, count, stride * w->bytes};
}

/* Adds a view's dimension that no axis goes along. */
static void add_inner(walk *w, const tw_view *v, int dim) {
    add(w, INNER, v->dims[dim], v->strides[dim]);
}

/* ---- rows and bytes */

typedef struct table {
    tw_ranges *r;
    const tw_program *p;
    tw_diag *diag;
} table;

/* Tells whether dimensions fill rows and stay within them, where rows have `pitch` bytes. */
static bool fits(const walk *w, int64_t pitch) {
    int64_t reach = w->offset % pitch + w->bytes;
    for (int i = 0; i < w->n; i++)
        if (w->terms[i].stride % pitch) reach += w->terms[i].stride * (w->terms[i].count - 1);
    return reach <= pitch;
}

/* Chooses a buffer's rows for the view that is written first: those of its largest stride below all of the buffer. */
static int64_t choose_pitch(const walk *w, int64_t bytes) {
    int64_t best = 0;
    for (int i = 0; i < w->n; i++) {
        const int64_t stride = w->terms[i].stride;
        if (stride <= w->bytes || bytes % stride || !fits(w, stride)) continue;
        if (!best || stride < best) best = stride;
    }
    return best ? best : bytes;
}

/* Joins what each unit accesses to one interval, the smallest steps first. False: there are gaps, of which `gap` is the
   smallest step. */
static bool join(const walk *w, int64_t pitch, bool rows, int64_t *extent, int *gap) {
    bool done[MOST_TERMS] = {false};
    bool whole = true;
    for (;;) {
        int least = -1;
        for (int i = 0; i < w->n; i++) {
            const term *t = &w->terms[i];
            if (done[i] || t->axis != INNER || (t->stride % pitch == 0) != rows) continue;
            if (least < 0 || t->stride < w->terms[least].stride) least = i;
        }
        if (least < 0) return whole;
        const int64_t stride = rows ? w->terms[least].stride / pitch : w->terms[least].stride;
        if (stride > *extent && whole) {
            whole = false;
            *gap = least;
        }
        *extent += stride * (w->terms[least].count - 1);
        done[least] = true;
    }
}

/* Adds an access to all that lies between a view's first and last byte. */
static tw_status add_all(const table *t, tw_range_step *s, const walk *w, int64_t pitch) {
    tw_range_access *a = tw_ranges_add_access(t->r, s, w->buffer, w->write);
    if (!a) return tw_fail_memory(t->diag);
    int64_t last = w->offset + w->bytes - 1;
    for (int i = 0; i < w->n; i++) last += w->terms[i].stride * (w->terms[i].count - 1);
    a->rows = (tw_range_span){w->offset / pitch, last / pitch - w->offset / pitch + 1, {0}};
    a->bytes = (tw_range_span){0, pitch, {0}};
    if (a->rows.extent == 1) a->bytes = (tw_range_span){w->offset % pitch, last - w->offset + 1, {0}};
    return TW_OK;
}

static tw_status add_walk(const table *t, tw_range_step *s, const walk *w);

/* Adds an access for each index of a dimension. */
static tw_status add_pieces(const table *t, tw_range_step *s, const walk *w, int dim) {
    tw_status st = TW_OK;
    if (s->n_accesses + w->terms[dim].count > MOST_PIECES)
        return tw_fail(t->diag, TW_ERR_UNSUPPORTED, "%s: writes too many pieces of a buffer", s->name);
    for (int64_t i = 0; i < w->terms[dim].count && st == TW_OK; i++) {
        walk piece = *w;
        piece.offset += i * w->terms[dim].stride;
        piece.terms[dim] = w->terms[w->n - 1];
        piece.n--;
        st = add_walk(t, s, &piece);
    }
    return st;
}

/* Splits a dimension that runs through several rows into one within a row and one from row to row. */
static walk split(const walk *w, int64_t pitch) {
    walk out = *w;
    for (int i = 0; i < w->n && out.n < MOST_TERMS; i++) {
        term *t = &out.terms[i];
        const int64_t in_row = pitch / t->stride;
        if (t->axis != INNER || t->stride >= pitch || pitch % t->stride || t->count <= in_row || t->count % in_row)
            continue;
        out.terms[out.n++] = (term){INNER, t->count / in_row, pitch};
        t->count = in_row;
    }
    return out;
}

static tw_status add_walk(const table *t, tw_range_step *s, const walk *w) {
    const int64_t pitch = t->r->buffers[w->buffer].bytes;
    int64_t rows = 1, bytes = w->bytes;
    int gap = -1;
    const walk in_rows = split(w, pitch);
    if (!fits(w, pitch)) w = &in_rows;
    if (!fits(w, pitch)) return add_all(t, s, w, pitch);
    const bool by_bytes = join(w, pitch, false, &bytes, &gap), whole = join(w, pitch, true, &rows, &gap) && by_bytes;
    if (!whole && w->write) return add_pieces(t, s, w, gap);
    tw_range_access *a = tw_ranges_add_access(t->r, s, w->buffer, w->write);
    if (!a) return tw_fail_memory(t->diag);
    a->rows = (tw_range_span){w->offset / pitch, rows, {0}};
    a->bytes = (tw_range_span){w->offset % pitch, bytes, {0}};
    for (int i = 0; i < w->n; i++) {
        const term *x = &w->terms[i];
        if (x->axis == INNER) continue;
        if (x->stride % pitch)
            a->bytes.step[x->axis] += x->stride;
        else
            a->rows.step[x->axis] += x->stride / pitch;
    }
    return TW_OK;
}

/* ---- kinds of steps */

/* Views of a step by the axes of its units, operands first. */
enum { MOST_WALKS = TW_STEP_IN + TW_STEP_OUT };
typedef struct plan {
    int n_axes;
    int64_t units[TW_RANGE_AXES];
    walk walks[MOST_WALKS];
    int n_walks;
} plan;

static walk *push(plan *p, const tw_view *v, bool write) {
    if (v->buffer < 0 || p->n_walks == MOST_WALKS) return NULL;
    p->walks[p->n_walks] = begin(v, write);
    return &p->walks[p->n_walks++];
}

/* A matrix of a product. An axis of INNER: each unit has all of the dimension. */
static void push_matrix(plan *p, const tw_view *v, const tw_program_product *x, const int64_t batch[TW_PROGRAM_BATCH],
                        int rows_axis, int64_t rows, int cols_axis, int64_t cols, int64_t ld, bool turned, bool write) {
    walk *w = push(p, v, write);
    if (!w) return;
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) add(w, i, x->batch[i], batch[i]);
    add(w, rows_axis, rows, turned ? 1 : ld);
    add(w, cols_axis, cols, turned ? ld : 1);
}

static void plan_product(plan *p, const tw_step *s) {
    const tw_program_product *x = &s->of.product;
    *p = (plan){.n_axes = TW_PRODUCT_COLS + 1, .units = {x->batch[0], x->batch[1], x->batch[2], x->m, x->n}};
    push_matrix(p, &s->in[0], x, x->stride_a, TW_PRODUCT_ROWS, x->m, INNER, x->k, x->lda, x->trans_a, false);
    push_matrix(p, &s->in[1], x, x->stride_b, INNER, x->k, TW_PRODUCT_COLS, x->n, x->ldb, x->trans_b, false);
    if (s->n_in > 2) {
        walk *bias = push(p, &s->in[2], false);
        if (bias) add(bias, TW_PRODUCT_COLS, x->n, 1);
    }
    for (int i = 3; i < s->n_in; i++)
        push_matrix(p, &s->in[i], x, x->stride_c, TW_PRODUCT_ROWS, x->m, TW_PRODUCT_COLS, x->n, x->ldc, false, false);
    push_matrix(p, &s->out[0], x, x->stride_c, TW_PRODUCT_ROWS, x->m, TW_PRODUCT_COLS, x->n, x->ldc, false, true);
}

static void plan_attention(plan *p, const tw_step *s) {
    const tw_program_attention *x = &s->of.attention;
    *p = (plan){.n_axes = 3, .units = {x->batch, x->heads, x->queries}};
    for (int i = 0; i < s->n_in + 1; i++) {
        const bool keys = i == 1 || i == 2, out = i == s->n_in;
        const tw_view *v = out ? &s->out[0] : &s->in[i];
        walk *w = push(p, v, out);
        if (!w) continue;
        /* Heads of keys are shared by several of queries: all count as read. */
        add(w, TW_ATTENTION_BATCH, v->dims[0], v->strides[0]);
        add(w, keys && x->heads != x->kv_heads ? INNER : TW_ATTENTION_HEADS, v->dims[1], v->strides[1]);
        add(w, keys ? INNER : TW_ATTENTION_QUERIES, v->dims[2], v->strides[2]);
        add_inner(w, v, 3);
    }
}

/* How a view goes through the dimensions of a map, in elements. */
typedef struct course {
    const tw_view *view;
    int64_t strides[TW_POINT_RANK];
    bool write, anywhere; /* Anywhere: elements are gathered. */
} course;

/* Joins dimensions before the last that all courses walk through alike: group[d] is the axis of dimension d. Where
   there are too many, those behind belong to each unit. */
static void group(plan *p, const tw_points *x, const course *c, int n, int axis_of[TW_POINT_RANK]) {
    int axis = -1;
    for (int d = 0; d + 1 < x->rank; d++) {
        bool joined = d > 0;
        for (int i = 0; i < n && joined; i++) joined = c[i].strides[d - 1] == c[i].strides[d] * x->dims[d];
        if (!joined) axis++;
        axis_of[d] = axis < TW_RANGE_AXES ? axis : INNER;
        if (axis >= TW_RANGE_AXES) continue;
        p->units[axis] = joined ? p->units[axis] * x->dims[d] : x->dims[d];
        p->n_axes = axis + 1;
    }
    if (p->n_axes) return;
    p->n_axes = 1;
    p->units[0] = 1;
}

static void plan_points(plan *p, const tw_points *x, const course *c, int n) {
    int axis_of[TW_POINT_RANK];
    *p = (plan){.n_axes = 0};
    group(p, x, c, n, axis_of);
    for (int i = 0; i < n; i++) {
        walk *w = push(p, c[i].view, c[i].write);
        if (!w) continue;
        if (c[i].anywhere) {
            for (int d = 0; d < c[i].view->rank; d++) add_inner(w, c[i].view, d);
            continue;
        }
        /* Joined dimensions are one: the last of them has the stride. */
        for (int d = 0; d < x->rank; d++) {
            const bool last = d + 1 == x->rank;
            const int axis = last ? INNER : axis_of[d];
            if (!last && axis != INNER && d + 2 < x->rank && axis_of[d + 1] == axis) continue;
            add(w, axis, axis == INNER ? x->dims[d] : p->units[axis], c[i].strides[d]);
        }
    }
}

static int courses_of(const tw_step *s, const tw_points *x, const tw_point_operand *out, course *c) {
    int n = 0;
    for (int i = 0; i < x->n_operands && i < s->n_in; i++, n++) {
        c[n] = (course){&s->in[i], {0}, false, x->operands[i].gathers};
        for (int d = 0; d < x->rank; d++) c[n].strides[d] = x->operands[i].strides[d];
    }
    c[n] = (course){&s->out[0], {0}, true, false};
    for (int d = 0; d < x->rank; d++) c[n].strides[d] = out->strides[d];
    return n + 1;
}

static void plan_map(plan *p, const tw_step *s) {
    course c[TW_POINT_OPERANDS + 1];
    const int n = courses_of(s, &s->of.map->x, &s->of.map->out, c);
    plan_points(p, &s->of.map->x, c, n);
}

/* Gain and bias, behind the operands of the prologue, are vectors along the last dimension. */
static void plan_rows(plan *p, const tw_step *s) {
    const tw_rows_problem *x = s->of.rows;
    course c[TW_POINT_OPERANDS + 4];
    int n = courses_of(s, &x->x, &x->out, c);
    if (s->n_out > 1) {
        c[n] = (course){&s->out[1], {0}, true, false};
        for (int d = 0; d < x->x.rank; d++) c[n].strides[d] = x->kept.strides[d];
        n++;
    }
    /* A reduction has one element a row. */
    for (int i = 0; i < n; i++)
        if (c[i].write && c[i].view == &s->out[0] && tw_rows_reduces(x->of)) c[i].strides[x->x.rank - 1] = 0;
    for (int i = x->x.n_operands; i < s->n_in; i++) {
        c[n] = (course){&s->in[i], {0}, false, true};
        n++;
    }
    plan_points(p, &x->x, c, n);
}

/* Operands and results of a plain step may be more than the plan has room for: its accesses are added at once. */
static tw_status add_plain(const table *t, tw_range_step *s, const tw_step *from) {
    tw_status st = TW_OK;
    for (int i = 0; i < from->n_in + from->n_out && st == TW_OK; i++) {
        const bool out = i >= from->n_in;
        const tw_view *v = out ? &from->out[i - from->n_in] : &from->in[i];
        if (v->buffer < 0 || !tw_view_elements(v)) continue;
        walk w = begin(v, out);
        for (int d = 0; d < v->rank; d++) add_inner(&w, v, d);
        st = add_walk(t, s, &w);
    }
    return st;
}

static void plan_step(plan *p, const tw_step *s) {
    switch (s->kind) {
    case TW_STEP_PRODUCT:
        plan_product(p, s);
        break;
    case TW_STEP_ATTENTION:
        plan_attention(p, s);
        break;
    case TW_STEP_MAP:
        plan_map(p, s);
        break;
    case TW_STEP_ROWS:
        plan_rows(p, s);
        break;
    default:
        *p = (plan){.n_axes = 1, .units = {1}};
        break;
    }
}

/* ---- buffers */

/* Sets rows of the buffers that a step writes. Where steps write one by different rows, it is a single one. */
static void set_pitches(tw_ranges *r, const plan *p, const tw_step *s) {
    for (int i = 0; i < p->n_walks; i++) {
        const walk *w = &p->walks[i];
        tw_range_buffer *b = &r->buffers[w->buffer];
        if (!w->write) continue;
        const int64_t bytes = b->rows ? b->rows * b->bytes : b->bytes;
        const int64_t pitch = b->rows ? b->bytes : choose_pitch(w, bytes);
        const walk in_rows = split(w, pitch);
        b->bytes = fits(w, pitch) || fits(&in_rows, pitch) ? pitch : bytes;
        b->rows = bytes / b->bytes;
    }
    for (int i = 0; s->kind == TW_STEP_PLAIN && i < s->n_out; i++) {
        tw_range_buffer *b = s->out[i].buffer >= 0 ? &r->buffers[s->out[i].buffer] : NULL;
        if (!b) continue;
        b->bytes *= b->rows ? b->rows : 1;
        b->rows = 1;
    }
}

static tw_status add_buffers(const table *t) {
    for (int i = 0; i < t->p->n_buffers; i++) {
        const tw_program_buffer *from = &t->p->buffers[i];
        char name[128];
        snprintf(name, sizeof name, "%d %.100s", i, from->name ? from->name : "");
        tw_range_buffer b = {.name = name, .kind = TW_RANGE_CONSTANT, .bytes = from->bytes > 0 ? from->bytes : 1};
        /* Nobody writes an output without elements. */
        if (from->kind == TW_PROGRAM_OUTPUT && from->bytes > 0) b.kind = TW_RANGE_OUTPUT;
        if (from->kind == TW_PROGRAM_SCRATCH) b.kind = TW_RANGE_SCRATCH;
        if (b.kind == TW_RANGE_CONSTANT) b.rows = 1;
        if (tw_ranges_add_buffer(t->r, &b) < 0) return tw_fail_memory(t->diag);
    }
    return TW_OK;
}

static tw_status add_step(const table *t, int i) {
    const tw_step *from = &t->p->steps[i];
    char name[128];
    plan p;
    plan_step(&p, from);
    snprintf(name, sizeof name, "%d %s %.80s", i, tw_step_kind_names[from->kind],
             from->origin && from->origin->name ? from->origin->name : "");
    tw_range_step *s = tw_ranges_add_step(t->r, name, p.n_axes, p.units);
    tw_status st = s ? TW_OK : tw_fail_memory(t->diag);
    if (from->kind == TW_STEP_PLAIN) return st == TW_OK ? add_plain(t, s, from) : st;
    for (int k = 0; k < p.n_walks && st == TW_OK; k++) st = add_walk(t, s, &p.walks[k]);
    return st;
}

tw_status tw_network_table(tw_ranges *r, const tw_program *p, tw_diag *diag) {
    const table t = {r, p, diag};
    tw_status st = add_buffers(&t);
    for (int i = 0; i < p->n_steps && st == TW_OK; i++) {
        plan of;
        plan_step(&of, &p->steps[i]);
        set_pitches(r, &of, &p->steps[i]);
    }
    /* What no step writes has a row, too. */
    for (int i = 0; i < r->n_buffers; i++)
        if (!r->buffers[i].rows) r->buffers[i].rows = 1;
    for (int i = 0; i < p->n_steps && st == TW_OK; i++) st = add_step(&t, i);
    return st;
}
