/* SPDX-License-Identifier: Apache-2.0 */
/* y = (x - mean) * r * gain + beta enters alpha * y B as alpha * r * (x B') + alpha * (beta B): B' is B with its rows
   times the gains, and then with columns whose mean is 0, which takes x's mean out of the product. As a residual y
   stays what it is, with beta in the bias. Whoever computes x stores what mean and r are made of. */
#include "graph/program/norms.h"

#include "graph/program/product.h"
#include "graph/program/scale.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { EIGHT = 8 /* Elements of 16 bits that a GPU reads together. */ };

static bool is_half(tw_element t) {
    return t == TW_E_f16 || t == TW_E_bf16;
}

/* Tells whether a value is a constant vector of n reals. */
static bool is_vector(const tw_lowering *l, int value, int64_t n) {
    const tw_array *a = tw_lower_of(l, value)->content;
    return a && tw_element_kind(a->type) == TW_KIND_real && a->rank > 0 && a->dims[a->rank - 1] == n &&
           tw_array_elements(a) == n;
}

/* The step that has computed what lies in a view, if it is a product whose rows are the view's. -1: there is none. */
static int find_product(const tw_lowering *l, const tw_view *x) {
    const int64_t n = x->dims[x->rank - 1];
    for (int i = l->p->n_steps - 1; i >= 0; i--) {
        const tw_step *s = &l->p->steps[i];
        const tw_program_product *p = &s->of.product;
        if (s->kind != TW_STEP_PRODUCT || s->out[0].buffer != x->buffer || s->out[0].offset != x->offset) continue;
        const bool one = p->batch[0] * p->batch[1] * p->batch[2] == 1 && !p->gated;
        const bool same = p->n == n && p->ldc == n && p->m * n == tw_view_elements(x);
        return one && same && p->type == x->type && p->out == x->type ? i : -1;
    }
    return -1;
}

static bool bias_fits(const tw_lowering *l, const tw_product_node *p, int64_t n) {
    return p->bias < 0 || (p->beta == 1 && is_vector(l, p->bias, n));
}

/* Tells whether the norm can be one of a product's A. `out` is what the product computes. */
static bool fits_a(const tw_lowering *l, const tw_norm *norm, const tw_product_node *p, int out) {
    const tw_value *y = tw_lower_of(l, norm->value), *b = tw_lower_of(l, p->b);
    tw_gemm_activation unused;
    if (p->a != norm->value || p->mul == norm->value || p->residual == norm->value || p->trans_a) return false;
    if (!b->content || b->rank != 2 || b->type != y->type || tw_lower_of(l, out)->type != y->type) return false;
    const int64_t k = b->dims[p->trans_b], n = b->dims[!p->trans_b];
    return k == y->dims[y->rank - 1] && n > 0 && (p->trans_b || n % EIGHT == 0) && bias_fits(l, p, n) &&
           tw_gemm_activation_from_name(p->activation, &unused);
}

/* Tells whether the norm can be one of a product's residual. */
static bool fits_residual(const tw_lowering *l, const tw_norm *norm, const tw_product_node *p, int out) {
    const tw_value *y = tw_lower_of(l, norm->value), *c = tw_lower_of(l, out);
    const int64_t n = y->dims[y->rank - 1];
    if (p->residual != norm->value || p->a == norm->value || p->b == norm->value || p->mul >= 0) return false;
    if (!norm->layer || p->trans_a || strcmp(p->activation, "none") != 0 || !bias_fits(l, p, n)) return false;
    if (c->type != y->type || c->rank != y->rank || memcmp(c->dims, y->dims, (size_t)c->rank * sizeof *c->dims) != 0)
        return false;
    return tw_lower_of(l, norm->gain)->type == y->type && tw_lower_of(l, p->a)->rank == c->rank &&
           tw_lower_of(l, p->b)->rank == 2;
}

/* Tells whether the norm can be a part of every node that reads it. */
static bool all_fit(const tw_lowering *l, const tw_norm *norm) {
    int found = 0;
    for (int i = norm->node + 1; i < l->g->n_nodes; i++) {
        const tw_node *n = &l->g->nodes[i];
        int reads = 0;
        for (int k = 0; k < n->n_in && l->live[i]; k++) reads += n->in[k] == norm->value;
        tw_product_node p;
        if (!reads) continue;
        if (reads > 1 || n->n_out != 1 || !tw_product_read(n, &p)) return false;
        if (!fits_a(l, norm, &p, n->out[0]) && !fits_residual(l, norm, &p, n->out[0])) return false;
        found += reads;
    }
    return found == l->uses[norm->value]; /* Others are outputs of the graph. */
}

/* Tells whether norms of another kind wait for the same product, which leaves sums for one kind. */
static bool differs(const tw_lowering *l, const tw_norm *norm) {
    const tw_step *s = &l->p->steps[norm->step];
    bool other = s->n_out > 1 && s->of.product.moments != norm->layer;
    for (int i = 0; i < l->g->n_values && !other; i++) {
        const tw_norm *x = l->norms[i];
        other = x && x->step == norm->step && x->layer != norm->layer;
    }
    return other;
}

bool tw_norm_wait(tw_lowering *l, const tw_norm *norm) {
    const tw_node *n = &l->g->nodes[norm->node];
    const tw_value *y = tw_lower_of(l, norm->value);
    const tw_lazy *x = l->values[n->in[0]];
    if (!l->options.gpu || !l->options.norms || !is_half(y->type) || y->rank < 2 || !x || !tw_lazy_is_view(x))
        return false;
    const int64_t columns = y->dims[y->rank - 1];
    tw_norm waits = *norm;
    waits.x = tw_lazy_view(x);
    if (waits.x.type != y->type || waits.x.rank != y->rank || !tw_view_is_dense(&waits.x) || columns % EIGHT)
        return false;
    if (!is_vector(l, norm->gain, columns) || (norm->beta >= 0 && !is_vector(l, norm->beta, columns))) return false;
    waits.step = find_product(l, &waits.x);
    if (norm->layer && tw_view_elements(&waits.x) / columns < l->options.norm_rows) return false;
    if (waits.step < 0 || !all_fit(l, norm) || differs(l, &waits)) return false;
    tw_norm *kept = l->norms[norm->value] = tw_arena_alloc(&l->p->arena, sizeof *kept);
    l->failed |= !kept;
    if (kept) *kept = waits;
    return true;
}

const tw_norm *tw_norm_of(const tw_lowering *l, int value) {
    return value < 0 ? NULL : l->norms[value];
}

void tw_norm_store(tw_lowering *l, int value) {
    const int node = l->node;
    l->node = l->norms[value]->node;
    l->norms[value] = NULL;
    tw_lower_norm(l, &l->g->nodes[l->node]);
    l->node = node;
}

tw_view tw_norm_x(const tw_lowering *l, const tw_norm *norm) {
    const tw_value *y = tw_lower_of(l, norm->value);
    tw_view v = tw_view_dense(norm->x.buffer, y->type, y->rank, y->dims);
    v.offset = norm->x.offset;
    return v;
}

/* ---- constants */

static double *reals(tw_lowering *l, int value, int64_t n) {
    double *x = tw_arena_array(&l->p->arena, (size_t)n + 1, sizeof *x);
    l->failed |= !x;
    if (x && value >= 0) tw_array_get_reals(tw_lower_of(l, value)->content, 0, n, x);
    return x;
}

/* A constant vector. */
static tw_view constant(tw_lowering *l, const char *name, tw_element type, const double *x, int64_t n) {
    void *data = tw_arena_array(&l->p->arena, (size_t)n + 1, sizeof(float));
    tw_view v = tw_view_dense(-1, type, 1, &n);
    l->failed |= !data;
    if (!data) return v;
    tw_array_set_reals(type, data, 0, n, x);
    v.buffer = tw_lower_constant(l, name, data, n * (tw_element_bits(type) / 8));
    return v;
}

bool tw_norm_scale(tw_lowering *l, const tw_norm *norm, const void *from, void *to, int64_t n, bool trans,
                   double *shift) {
    const tw_value *y = tw_lower_of(l, norm->value);
    const int64_t k = y->dims[y->rank - 1];
    const double *gain = reals(l, norm->gain, k);
    float *factors = tw_arena_array(&l->p->arena, (size_t)k + 1, sizeof *factors);
    tw_scaling s = {.type = y->type == TW_E_f16 ? TW_F16 : TW_BF16,
                    .k = k,
                    .n = n,
                    .trans = trans,
                    .gain = factors,
                    .beta = shift ? reals(l, norm->beta, k) : NULL,
                    .means = norm->layer ? reals(l, -1, n) : NULL,
                    .shift = shift};
    l->failed |= !factors;
    if (l->failed) return false;
    for (int64_t i = 0; i < k; i++) factors[i] = (float)gain[i];
    return tw_scale_rows(&s, from, to);
}

void tw_norm_words(const tw_lowering *l, const tw_norm *norm, bool beta, tw_made_key *key) {
    const tw_array *of_gain = tw_lower_of(l, norm->gain)->content,
                   *of_beta = beta ? tw_lower_of(l, norm->beta)->content : NULL;
    const int64_t words[] = {norm->layer, (intptr_t)of_gain->data, of_gain->type, of_beta ? (intptr_t)of_beta->data : 0,
                             of_beta ? (int64_t)of_beta->type : 0};
    tw_made_words(key, words, 5);
}

void tw_norm_enter(const tw_norm *norm, tw_lower_epilogue *e) {
    e->norm = norm->layer ? TW_PROGRAM_NORM_LAYER : TW_PROGRAM_NORM_RMS;
    e->eps = norm->eps;
}

/* The bias with what beta adds to it. False: it leaves the type's range. */
static bool shifted(tw_lowering *l, const tw_product_node *p, tw_element type, const double *shift, double alpha,
                    int64_t n, tw_view *out) {
    const double most = type == TW_E_f16 ? 65504 : (double)FLT_MAX / 2;
    double *sum = reals(l, p->bias, n);
    bool fits = !l->failed;
    for (int64_t i = 0; i < n && !l->failed; i++) {
        sum[i] += alpha * shift[i];
        fits &= fabs(sum[i]) <= most;
    }
    if (fits) *out = constant(l, "shifted", type, sum, n);
    return fits && !l->failed;
}

/* ---- products */

/* Finds or makes B with the norm's gains, and beta's shares of the bias. False: there is no such matrix, or no memory
   for it. */
static bool scale_b(tw_lowering *l, const tw_norm *norm, const tw_array *b, bool trans, tw_made *m) {
    const int64_t n = b->dims[!trans], words[] = {(intptr_t)b->data, b->type, b->dims[0], b->dims[1], trans};
    const bool beta = norm->beta >= 0;
    *m = (tw_made){.key = {.kind = TW_MADE_SCALED}};
    tw_made_words(&m->key, words, 5);
    tw_norm_words(l, norm, beta, &m->key);
    if (tw_made_find(l->made, m)) return m->data;
    m->data = malloc((size_t)tw_array_bytes(b) + 1);
    m->shift = beta ? calloc((size_t)n + 1, sizeof *m->shift) : NULL;
    l->failed |= !m->data || (beta && !m->shift);
    if (!l->failed && !tw_norm_scale(l, norm, b->data, m->data, n, trans, m->shift)) tw_made_drop(m);
    return tw_lower_keep(l, m);
}

static bool fold_a(tw_lowering *l, const tw_norm *norm, const tw_product_node *p, const tw_view *to, tw_view *a,
                   tw_view *b, tw_lower_epilogue *e) {
    const tw_array *from = tw_lower_of(l, p->b)->content;
    const char *name = tw_lower_of(l, p->b)->name;
    tw_made m;
    if (!scale_b(l, norm, from, p->trans_b, &m)) return false;
    tw_norm_enter(norm, e);
    *a = tw_norm_x(l, norm);
    *b = tw_view_dense(tw_lower_made(l, name, m.data, tw_array_bytes(from)), from->type, 2, from->dims);
    if (p->trans_b) tw_product_swap(b);
    const int64_t n = from->dims[!p->trans_b];
    if (m.shift && !shifted(l, p, to->type, m.shift, p->alpha, n, &e->bias)) return false;
    return !l->failed && (m.shift || tw_product_operand(l, p->bias, to, true, &e->bias));
}

static bool fold_residual(tw_lowering *l, const tw_norm *norm, const tw_product_node *p, const tw_view *to, tw_view *a,
                          tw_view *b, tw_lower_epilogue *e) {
    const int64_t n = to->dims[to->rank - 1];
    if (!tw_lower_in_memory(l, p->a, a) || !tw_lower_in_memory(l, p->b, b) || a->type != b->type) return false;
    if (p->trans_b) tw_product_swap(b);
    double *shift = norm->beta < 0 ? NULL : reals(l, norm->beta, n), *gain = reals(l, norm->gain, n);
    if (l->failed) return false;
    e->norm = TW_PROGRAM_NORM_LAYER;
    e->norm_residual = true;
    e->eps = norm->eps;
    e->vector = constant(l, tw_lower_of(l, norm->gain)->name, to->type, gain, n);
    e->residual = tw_norm_x(l, norm);
    if (shift && !shifted(l, p, to->type, shift, 1, n, &e->bias)) return false;
    return !l->failed && (shift || tw_product_operand(l, p->bias, to, true, &e->bias));
}

void tw_norm_attach(tw_lowering *l, const tw_norm *norm) {
    tw_step *from = &l->p->steps[norm->step], *to = &l->p->steps[l->p->n_steps - 1];
    if (from->n_out < 2) {
        const int64_t dims[] = {2 * tw_program_parts(from->of.product.n), from->of.product.m};
        tw_view *out = tw_arena_array(&l->p->arena, 2, sizeof *out);
        l->failed |= !out;
        if (!out) return;
        out[0] = from->out[0];
        out[1] = tw_lower_scratch(l, "row sums", TW_E_f32, 2, dims, NULL);
        from->out = out;
        from->n_out = 2;
    }
    from->of.product.moments = norm->layer;
    to->in[5] = from->out[1];
}

bool tw_lower_normed(tw_lowering *l, const tw_product_node *p, int out) {
    const tw_norm *of_a = tw_norm_of(l, p->a), *of_residual = tw_norm_of(l, p->residual),
                  *norm = of_a ? of_a : of_residual;
    tw_lower_epilogue e = tw_lower_no_epilogue();
    tw_view a, b;
    if (!norm || (of_a ? !fits_a(l, norm, p, out) : !fits_residual(l, norm, p, out))) return false;
    /* Operands that are not in memory yet come before the result, which may lie where they do not. */
    const int others[] = {p->mul, of_a ? p->residual : -1};
    for (int i = 0; i < 2; i++)
        if (others[i] >= 0 && !tw_lower_peek(l, others[i])) return false;
    const tw_view to = tw_lower_target(l, out);
    if (l->failed || !tw_view_is_dense(&to)) return false;
    e.alpha = p->alpha;
    tw_gemm_activation_from_name(p->activation, &e.activation);
    if (of_a && (!tw_product_operand(l, p->mul, &to, false, &e.mul) ||
                 !tw_product_operand(l, p->residual, &to, false, &e.residual)))
        return false;
    if (of_a ? !fold_a(l, norm, p, &to, &a, &b, &e) : !fold_residual(l, norm, p, &to, &a, &b, &e)) return false;
    tw_product_spread(&a, &to);
    tw_product_spread(&b, &to);
    if (!tw_lower_multiply(l, &a, &b, &e, &to)) return false;
    tw_norm_attach(l, norm);
    tw_lower_set_view(l, out, &to);
    return !l->failed;
}
