/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: a step where there is a kernel for it, and otherwise two products with a softmax between them. */
#include "kernels/attention/attention.h"
#include "base/divide.h"
#include "graph/program/lower.h"

#include <math.h>

enum { EIGHT = 8 /* Elements: rows of masks and of scores begin at multiples of them. */, WHOLE = 16 /* Bytes. */ };
static const int by_rows[TW_ARRAY_RANK] = {0, 2, 1, 3}; /* [sequence][row][head][element] */

/* Operands of a node. -1: it is left out. */
enum { Q, K, V, MASK, PAST_K, PAST_V, COUNTS, SINKS, OPERANDS };

/* Scores as products, behind the cap, behind masks, and behind the softmax. */
typedef enum stage { PRODUCTS, CAPPED, MASKED, WEIGHTS } stage;

typedef struct attention {
    int in[OPERANDS];
    tw_program_attention p;
    tw_view q, k, v, mask;
    tw_view to;     /* [sequence][head][query][element] */
    int64_t first;  /* Causal: query i sees keys 0 to i + first. */
    bool zero_rows; /* What sees no key becomes 0, and otherwise no number. */
    int told;       /* The value of scores that somebody wants. -1: nobody does. */
    stage stage;    /* Which scores those are. */
} attention;

bool tw_lower_heads(tw_lowering *l, int value, int64_t heads, tw_view *out) {
    static const int turn[] = {0, 2, 1, 3};
    const tw_value *v = tw_lower_of(l, value);
    if ((v->rank == 4 && heads && v->dims[1] != heads) || !tw_lower_in_memory(l, value, out)) return false;
    if (v->rank == 4) return true;
    if (v->rank != 3 || heads < 1 || v->dims[2] % heads) return false;
    const int64_t dims[] = {v->dims[0], v->dims[1], heads, v->dims[2] / heads};
    tw_lazy x = tw_lazy_of_view(out);
    if (!tw_lazy_reshape(&x, 4, dims)) return false;
    tw_lazy_transpose(&x, turn);
    *out = tw_lazy_view(&x);
    return true;
}

bool tw_heads_fit(const tw_view *v) {
    const int64_t heads = v->dims[1], rows = v->dims[2], head = v->dims[3], ld = v->strides[2];
    if (v->strides[3] != 1 || v->offset % WHOLE || ld % EIGHT || ld < heads * head) return false;
    return (heads == 1 || v->strides[1] == head) && (v->dims[0] == 1 || v->strides[0] == rows * ld);
}

/* Tells whether the GPU's kernel reads keys or values where they lie, the rows of a head behind one another, as caches
   have them. Returns the rows from a head to the next, or 0. */
static int64_t capacity_of(const tw_view *v) {
    const int64_t heads = v->dims[1], rows = v->dims[2], ld = v->strides[2];
    if (v->strides[3] != 1 || v->offset % WHOLE || ld % EIGHT || ld < v->dims[3]) return 0;
    const int64_t next = heads > 1 ? v->strides[1] : v->dims[0] > 1 ? v->strides[0] : rows * ld;
    if (next % ld || next < rows * ld) return 0;
    return v->dims[0] == 1 || v->strides[0] == heads * next ? next / ld : 0;
}

/* Tells whether there is a kernel for it on a GPU, wherever operands lie. */
static bool has_kernel(const attention *a) {
    const tw_program_attention *p = &a->p;
    tw_attention_problem problem = {.type = p->type == TW_E_f16 ? TW_T_f16 : TW_T_bf16,
                                    .heads = p->heads,
                                    .kv_heads = p->kv_heads,
                                    .head = p->head,
                                    .queries = p->queries,
                                    .keys = p->keys,
                                    .batch = p->batch,
                                    .scale = p->scale,
                                    .cap = p->cap,
                                    .causal = p->causal};
    if ((p->type != TW_E_f16 && p->type != TW_E_bf16) || p->head != p->head_v) return false;
    return tw_attention_complete(&problem, NULL) == TW_OK;
}

/* Tells whether steps know the types: runners read no others. */
static bool has_types(const tw_lowering *l, const attention *a) {
    const tw_element t = a->p.type, mask = a->in[MASK] < 0 ? t : tw_lower_of(l, a->in[MASK])->type;
    if (t == TW_E_f64) return l->options.gpu && (mask == t || mask == TW_E_bool);
    const bool known = t == TW_E_f32 || t == TW_E_f16 || t == TW_E_bf16;
    return known && (mask == TW_E_f32 || mask == TW_E_f16 || mask == TW_E_bf16 || mask == TW_E_bool);
}

/* ---- keys and values */

/* Stores two arrays one behind the other along an axis of `all`. */
static bool store_both(tw_lowering *l, const tw_lazy *first, const tw_lazy *second, int axis, const tw_view *all) {
    const tw_lazy *const parts[] = {first, second};
    for (int i = 0; i < 2; i++) {
        tw_lazy to = tw_lazy_of_view(all);
        tw_lazy_slice(&to, axis, i ? first->dims[axis] : 0, 1, parts[i]->dims[axis]);
        const tw_view part = tw_lazy_view(&to);
        if (!tw_lower_store(l, parts[i], &part)) return false;
    }
    return true;
}

/* Stores what is past and what is new behind one another, as a result wants it. */
static bool join_past(tw_lowering *l, const tw_node *n, int past, int result, tw_view *present) {
    const int value = result < n->n_out ? n->out[result] : -1;
    tw_view old;
    if (past < 0) return value < 0 || !l->uses[value];
    if (!tw_lower_in_memory(l, past, &old)) return false;
    int64_t dims[] = {present->dims[0], present->dims[1], old.dims[2] + present->dims[2], present->dims[3]};
    const tw_view all =
        value >= 0 ? tw_lower_target(l, value) : tw_lower_scratch(l, "keys", present->type, 4, dims, NULL);
    if (l->failed) return false;
    const tw_lazy past_rows = tw_lazy_of_view(&old), new_rows = tw_lazy_of_view(present);
    if (!store_both(l, &past_rows, &new_rows, 2, &all)) return false;
    *present = all;
    if (value >= 0) tw_lower_set_view(l, value, &all);
    return true;
}

/* A row that is the only one of its sequence lies as far from the next as sequences do, so that kernels read it where
   it is. */
static void set_only_row(tw_view *v) {
    if (v->dims[2] == 1 && !v->strides[2]) v->strides[2] = v->dims[0] > 1 ? v->strides[0] : v->dims[1] * v->dims[3];
}

static bool operands_of(tw_lowering *l, const tw_node *n, attention *a) {
    const int64_t heads = tw_node_integer(n, "q_num_heads", 0), kv = tw_node_integer(n, "kv_num_heads", 0);
    tw_program_attention *p = &a->p;
    for (int i = 0; i < OPERANDS; i++) a->in[i] = i < n->n_in ? n->in[i] : -1;
    a->told = n->n_out > 3 && n->out[3] >= 0 && l->uses[n->out[3]] ? n->out[3] : -1;
    a->stage = (stage)tw_node_integer(n, "qk_matmul_output_mode", 0);
    if (!tw_lower_heads(l, a->in[Q], heads, &a->q) || !tw_lower_heads(l, a->in[K], kv, &a->k) ||
        !tw_lower_heads(l, a->in[V], kv, &a->v))
        return false;
    tw_view *const all[] = {&a->q, &a->k, &a->v};
    for (int i = 0; i < 3; i++) set_only_row(all[i]);
    const int64_t fresh = a->k.dims[2];
    if (!join_past(l, n, a->in[PAST_K], 1, &a->k) || !join_past(l, n, a->in[PAST_V], 2, &a->v)) return false;
    *p = (tw_program_attention){.type = a->q.type,
                                .batch = a->q.dims[0],
                                .heads = a->q.dims[1],
                                .kv_heads = a->k.dims[1],
                                .queries = a->q.dims[2],
                                .keys = a->k.dims[2],
                                .head = a->q.dims[3],
                                .head_v = a->v.dims[3],
                                .cap = tw_node_real(n, "softcap", 0),
                                .causal = tw_node_integer(n, "is_causal", 0)};
    p->scale = tw_node_real(n, "scale", 1 / sqrt((double)p->head));
    a->first = p->keys - fresh;
    a->zero_rows = tw_node_integer(n, "zero_rows", 0);
    return true;
}

/* ---- the mask */

/* Lengthens a mask that has fewer columns than there are keys. It hides the other keys. */
static bool lengthen_mask(tw_lowering *l, int64_t keys, tw_lazy *mask) {
    const int last = mask->rank - 1;
    int64_t dims[TW_ARRAY_RANK];
    memcpy(dims, mask->dims, sizeof dims);
    dims[last] = keys;
    const tw_view all = tw_lower_scratch(l, "mask", mask->type, mask->rank, dims, NULL);
    dims[last] -= mask->dims[last];
    tw_lazy hidden = tw_lazy_begin(mask->type, mask->rank, dims);
    if (mask->type == TW_E_bool)
        tw_cells_truth(&hidden.cells, false);
    else
        tw_cells_number(&hidden.cells, mask->type == TW_E_f64 ? TW_CLASS_double : TW_CLASS_real, -INFINITY);
    if (l->failed || !store_both(l, mask, &hidden, last, &all)) return false;
    *mask = tw_lazy_of_view(&all);
    return true;
}

/* The mask as it is given, with the extents of the scores. */
static bool spread_mask(tw_lowering *l, const attention *a, tw_lazy *out) {
    const int64_t dims[] = {a->p.batch, a->p.heads, a->p.queries, a->p.keys};
    const tw_lazy *x = tw_lower_peek(l, a->in[MASK]);
    if (!x || x->rank < 1 || x->dims[x->rank - 1] > a->p.keys) return false;
    *out = *x;
    if (x->dims[x->rank - 1] != a->p.keys && x->dims[x->rank - 1] != 1 && !lengthen_mask(l, a->p.keys, out))
        return false;
    tw_lazy_expand(out, 4, dims);
    return true;
}

static bool mask_fits(const tw_view *v) {
    const int64_t ld = v->strides[2], head = v->strides[1], batch = v->strides[0], one = v->dims[2] * ld;
    if (v->strides[3] != 1 || v->offset % WHOLE || ld % EIGHT || ld < v->dims[3]) return false;
    const bool heads = v->dims[1] == 1 || head == 0 || head == one;
    return heads && (v->dims[0] == 1 || batch == 0 || batch == (head ? v->dims[1] : 1) * one);
}

/* Tells whether an expression is the same along a dimension. */
static bool is_same_along(const tw_lazy *x, int dimension) {
    for (int i = 0; i < x->n; i++)
        if (x->dims[dimension] != 1 && x->of[i].strides[dimension]) return false;
    return true;
}

/* Fills what rows have behind their last key, since kernels read it. */
static bool pad_mask(tw_lowering *l, const tw_view *mask, int64_t keys) {
    tw_lazy to = tw_lazy_of_view(mask), zeros = tw_lazy_begin(mask->type, 4, mask->dims);
    if (mask->dims[3] == keys) return true;
    zeros.dims[3] -= keys;
    tw_lazy_slice(&to, 3, keys, 1, zeros.dims[3]);
    const tw_view part = tw_lazy_view(&to);
    if (mask->type == TW_E_bool ? tw_cells_truth(&zeros.cells, false) < 0 : tw_cells_real(&zeros.cells, 0) < 0)
        return false;
    return tw_lower_store(l, &zeros, &part);
}

/* Stores the mask as the GPU's kernel reads it, once for all that use it. */
static bool store_mask(tw_lowering *l, attention *a) {
    tw_lazy x;
    tw_view *known = &l->masks[a->in[MASK]];
    const int64_t wanted[] = {a->p.batch, a->p.heads, a->p.queries, a->p.keys};
    if (!spread_mask(l, a, &x)) return false;
    if (known->buffer >= 0 && !memcmp(known->dims, wanted, sizeof wanted)) {
        a->mask = *known;
        return true;
    }
    if (tw_lazy_is_view(&x)) a->mask = tw_lazy_view(&x);
    if (!tw_lazy_is_view(&x) || !mask_fits(&a->mask)) {
        const bool batch = is_same_along(&x, 0), heads = is_same_along(&x, 1);
        const int64_t ld = tw_ceil_div(a->p.keys, EIGHT) * EIGHT;
        int64_t dims[] = {batch ? 1 : a->p.batch, heads ? 1 : a->p.heads, a->p.queries, ld};
        a->mask = tw_lower_scratch(l, tw_lower_of(l, a->in[MASK])->name, x.type, 4, dims, NULL);
        dims[3] = a->p.keys;
        tw_view part = a->mask;
        memcpy(part.dims, dims, sizeof dims);
        memcpy(x.dims, dims, sizeof dims);
        if (l->failed || !tw_lower_store(l, &x, &part) || !pad_mask(l, &a->mask, a->p.keys)) return false;
        memcpy(a->mask.dims, wanted, sizeof wanted);
        if (batch) a->mask.strides[0] = 0;
        if (heads) a->mask.strides[1] = 0;
    }
    *known = a->mask;
    return true;
}

/* ---- one step */

/* Heads as the GPU's kernel reads them: rows of all heads, `ld` apart (0: as close as may be). */
static bool fit(tw_lowering *l, tw_view *v, int64_t ld) {
    if (!l->options.gpu || (tw_heads_fit(v) && (!ld || v->strides[2] == ld))) return true;
    const tw_lazy x = tw_lazy_of_view(v);
    const int64_t row = ld ? ld : v->dims[1] * v->dims[3], all[] = {v->dims[0], v->dims[2], row};
    const tw_view rows = tw_lower_scratch(l, l->p->buffers[v->buffer].name, v->type, 3, all, NULL);
    *v = (tw_view){.buffer = rows.buffer,
                   .type = v->type,
                   .rank = 4,
                   .dims = {v->dims[0], v->dims[1], v->dims[2], v->dims[3]},
                   .strides = {v->dims[2] * row, v->dims[3], row, 1}};
    return !l->failed && tw_lower_store(l, &x, v);
}

/* Keys and values lie alike: head by head, or else the one that is closer moves. */
static bool fit_keys(tw_lowering *l, attention *a) {
    const bool k_fits = tw_heads_fit(&a->k), v_fits = tw_heads_fit(&a->v);
    const int64_t k = capacity_of(&a->k), v = capacity_of(&a->v);
    if (l->options.gpu && !(k_fits && v_fits) && k && k == v && a->k.strides[2] == a->v.strides[2]) {
        a->p.capacity = k;
        return true;
    }
    return fit(l, &a->k, v_fits && (!k_fits || a->v.strides[2] > a->k.strides[2]) ? a->v.strides[2] : 0) &&
           fit(l, &a->v, a->k.strides[2]);
}

static bool in_one_step(tw_lowering *l, attention *a) {
    tw_view in[4], to = a->to;
    a->mask.buffer = -1;
    if (!fit(l, &a->q, 0)) return false;
    if (!fit_keys(l, a)) return false;
    if (a->in[MASK] >= 0 && l->options.gpu && !store_mask(l, a)) return false;
    if (a->in[MASK] >= 0 && !l->options.gpu) {
        tw_lazy x;
        if (!tw_lower_in_memory(l, a->in[MASK], &a->mask) || !spread_mask(l, a, &x)) return false;
        a->mask = tw_lazy_view(&x);
    }
    if (l->options.gpu && !tw_heads_fit(&to)) to = tw_lower_scratch(l, "attended", a->to.type, 4, a->to.dims, by_rows);
    in[0] = a->q;
    in[1] = a->k;
    in[2] = a->v;
    in[3] = a->mask;
    tw_lower_step(l, TW_STEP_ATTENTION, &(tw_step){.of.attention = a->p}, in, 4, &to, 1);
    if (to.buffer == a->to.buffer) return !l->failed;
    const tw_lazy result = tw_lazy_of_view(&to);
    return tw_lower_store(l, &result, &a->to);
}

/* ---- products */

/* Numbers heads of Q by those of K: [sequence][kv_head][head of it][row][element]. */
static tw_view by_groups(const tw_view *v, int64_t kv_heads) {
    const int64_t dims[] = {v->dims[0], kv_heads, v->dims[1] / kv_heads, v->dims[2], v->dims[3]};
    tw_lazy x = tw_lazy_of_view(v);
    tw_lazy_reshape(&x, 5, dims); /* Heads are equally far from one another. */
    return tw_lazy_view(&x);
}

/* K or V for each of them. */
static tw_view for_groups(const tw_view *v, int64_t group, bool transposed) {
    tw_view g = {.buffer = v->buffer, .offset = v->offset, .type = v->type, .rank = 5};
    const int rows = transposed ? 3 : 2, columns = transposed ? 2 : 3;
    const int from[] = {0, 1, -1, rows, columns};
    for (int i = 0; i < 5; i++) {
        g.dims[i] = from[i] < 0 ? group : v->dims[from[i]];
        g.strides[i] = from[i] < 0 ? 0 : v->strides[from[i]];
    }
    return g;
}

/* Stores scores, if it is these that somebody wants. */
static bool tell(tw_lowering *l, const attention *a, stage at, const tw_lazy *scores, int cell) {
    if (a->told < 0 || a->stage != at) return true;
    const tw_value *v = tw_lower_of(l, a->told);
    const tw_view to = tw_lower_target(l, a->told);
    tw_lazy x = *scores;
    x.cells.value = cell;
    if (l->failed || v->rank != 4 || (cell < 0 && !tw_lazy_is_view(scores)) || !tw_lower_store(l, &x, &to))
        return false;
    tw_lower_set_view(l, a->told, &to);
    return true;
}

/* Returns the index along an axis of the scores. Scores that a map stores read it from a constant, since maps may join
   dimensions. */
static int index_along(tw_lowering *l, const attention *a, tw_lazy *x, int axis) {
    const bool stored = a->told >= 0 || a->in[SINKS] >= 0 || a->p.type == TW_E_f64;
    return stored ? tw_lower_index(l, x, axis) : tw_cells_index(&x->cells, axis);
}

/* Scores behind the cap, the mask and what is not seen yet. */
static bool weigh(tw_lowering *l, const attention *a, const tw_view *scores, tw_lazy *out) {
    tw_lazy x = tw_lazy_begin(scores->type, 4, scores->dims), mask;
    const tw_lazy of_scores = tw_lazy_of_view(scores);
    tw_cells *c = &x.cells;
    int s = tw_lazy_add(&x, &of_scores);
    if (a->p.cap > 0)
        s = tw_cells_apply(
            c, TW_CELL_mul, tw_cells_real(c, a->p.cap),
            tw_cells_apply(c, TW_CELL_tanh, tw_cells_apply(c, TW_CELL_div, s, tw_cells_real(c, a->p.cap), -1), -1, -1),
            -1);
    if (!tell(l, a, CAPPED, &x, s)) return false;
    if (a->in[COUNTS] >= 0) {
        tw_lazy counts;
        const int64_t each[] = {a->p.batch, 1, 1, 1};
        tw_view stored;
        if (!tw_lower_in_memory(l, a->in[COUNTS], &stored)) return false;
        counts = tw_lazy_of_view(&stored);
        if (!tw_lazy_reshape(&counts, 4, each)) return false;
        const int seen = tw_cells_apply(c, TW_CELL_less, tw_lower_index(l, &x, 3), tw_lazy_add(&x, &counts), -1);
        s = tw_cells_apply(c, TW_CELL_where, seen, s, tw_cells_like(c, s, -INFINITY));
    }
    if (a->in[MASK] >= 0) {
        tw_view unused; /* Layers share it. */
        if (!tw_lower_in_memory(l, a->in[MASK], &unused) || !spread_mask(l, a, &mask)) return false;
        const int m = tw_lazy_add(&x, &mask);
        s = mask.type == TW_E_bool ? tw_cells_apply(c, TW_CELL_where, m, s, tw_cells_like(c, s, -INFINITY))
                                   : tw_cells_apply(c, TW_CELL_add, s, m, -1);
    }
    if (a->p.causal) {
        const int first = tw_cells_integer(c, a->first);
        const int last = tw_cells_apply(c, TW_CELL_add, index_along(l, a, &x, 2), first, -1);
        const int seen = tw_cells_apply(c, TW_CELL_less_equal, index_along(l, a, &x, 3), last, -1);
        s = tw_cells_apply(c, TW_CELL_where, seen, s, tw_cells_like(c, s, -INFINITY));
    }
    if (!tell(l, a, MASKED, &x, s)) return false;
    x.cells.value = s;
    *out = x;
    return s >= 0 && !c->failed;
}

/* Stores scores behind one another, and the head's sink behind the last of them. */
static bool add_sinks(tw_lowering *l, const attention *a, tw_lazy *scores) {
    const int64_t padded = tw_ceil_div(a->p.keys + 1, EIGHT) * EIGHT, each[] = {1, a->p.heads, 1, 1};
    const int64_t dims[] = {a->p.batch, a->p.heads, a->p.queries, padded}, one[] = {dims[0], dims[1], dims[2], 1};
    tw_view all = tw_lower_scratch(l, "scores", a->p.type, 4, dims, NULL), sinks;
    all.dims[3] = a->p.keys + 1;
    if (l->failed || !tw_lower_in_memory(l, a->in[SINKS], &sinks)) return false;
    tw_lazy of_heads = tw_lazy_of_view(&sinks);
    if (!tw_lazy_reshape(&of_heads, 4, each)) return false;
    tw_lazy_expand(&of_heads, 4, one);
    if (!store_both(l, scores, &of_heads, 3, &all)) return false;
    *scores = tw_lazy_of_view(&all);
    return true;
}

/* Makes weights that are no numbers zeros. */
static bool clear_hidden(tw_lowering *l, const int64_t *dims, tw_view *weights) {
    tw_view to = tw_lower_scratch(l, "weights", weights->type, 4, dims, NULL);
    tw_lazy x = tw_lazy_of_view(weights);
    tw_cells *c = &x.cells;
    if (l->failed || !tw_lazy_open(&x)) return false;
    const int w = c->value, none = tw_cells_apply(c, TW_CELL_isnan, w, -1, -1);
    c->value = tw_cells_apply(c, TW_CELL_where, none, tw_cells_like(c, w, 0), w);
    to.dims[3] = weights->dims[3];
    *weights = to;
    return !c->failed && tw_lower_store(l, &x, &to);
}

static bool in_products(tw_lowering *l, attention *a) {
    const bool sinks = a->in[SINKS] >= 0;
    const int64_t group = a->p.heads / a->p.kv_heads, padded = tw_ceil_div(a->p.keys + sinks, EIGHT) * EIGHT;
    const int64_t dims[] = {a->p.batch, a->p.heads, a->p.queries, padded};
    tw_lower_epilogue e = tw_lower_no_epilogue();
    tw_view scores = tw_lower_scratch(l, "scores", a->p.type, 4, dims, NULL);
    tw_view weights = tw_lower_scratch(l, "weights", a->p.type, 4, dims, NULL);
    tw_lazy x;
    e.alpha = a->p.scale;
    scores.dims[3] = weights.dims[3] = a->p.keys;
    if (l->failed) return false;
    const tw_view q = by_groups(&a->q, a->p.kv_heads), k = for_groups(&a->k, group, true),
                  v = for_groups(&a->v, group, false), s = by_groups(&scores, a->p.kv_heads),
                  to = by_groups(&a->to, a->p.kv_heads);
    if (!tw_lower_multiply(l, &q, &k, &e, &s)) return false;
    e.alpha = 1;
    tw_lazy plain = tw_lazy_of_view(&scores);
    if (!tell(l, a, PRODUCTS, &plain, 0)) return false;
    if (!weigh(l, a, &scores, &x) || (sinks && !add_sinks(l, a, &x))) return false;
    weights.dims[3] += sinks;
    if (!tw_lower_softmax(l, &x, &weights)) return false;
    weights.dims[3] = a->p.keys;
    if (a->zero_rows && a->in[MASK] >= 0 && !clear_hidden(l, dims, &weights)) return false;
    plain = tw_lazy_of_view(&weights);
    if (!tell(l, a, WEIGHTS, &plain, 0)) return false;
    const tw_view w = by_groups(&weights, a->p.kv_heads);
    return tw_lower_multiply(l, &w, &v, &e, &to);
}

bool tw_lower_attention(tw_lowering *l, const tw_node *n) {
    attention a = {0};
    if (!tw_is_op(n, "", "Attention") || !tw_lower_rotations(l, n)) return false;
    if (n->n_in < 3 || n->out[0] < 0) return false;
    const tw_value *out = tw_lower_of(l, n->out[0]);
    if (!operands_of(l, n, &a) || !has_types(l, &a)) return false;
    const tw_program_fuse fuse = l->options.attention;
    /* Queries of a step are the last keys, as new ones are in general. */
    const bool last =
        (!a.p.causal || a.first == a.p.keys - a.p.queries) && a.told < 0 && a.in[COUNTS] < 0 && a.in[SINKS] < 0;
    const bool kernel = has_kernel(&a),
               one = last &&
                     (fuse == TW_PROGRAM_FUSE_ALL ? kernel || !l->options.gpu : fuse == TW_PROGRAM_FUSE_GPU && kernel);
    const tw_view stored = out->rank == 4 && one && l->options.gpu && l->targets[n->out[0]].buffer < 0
                               ? tw_lower_scratch(l, out->name, out->type, 4, out->dims, by_rows)
                               : tw_lower_target(l, n->out[0]);
    if (l->failed) return false;
    a.to = stored;
    if (out->rank == 3) {
        const int64_t dims[] = {a.p.batch, a.p.queries, a.p.heads, a.p.head_v};
        tw_lazy x = tw_lazy_of_view(&stored);
        if (!tw_lazy_reshape(&x, 4, dims)) return false;
        tw_lazy_transpose(&x, by_rows);
        a.to = tw_lazy_view(&x);
    }
    set_only_row(&a.to);
    if (!(one ? in_one_step(l, &a) : in_products(l, &a))) return false;
    tw_lower_set_view(l, n->out[0], &stored);
    return true;
}
