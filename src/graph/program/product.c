/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, and what is computed of their sums. */
#include "graph/program/product.h"
#include "base/divide.h"

#include <stdlib.h>

enum { WHOLE = 16 /* Bytes that a GPU reads together: rows begin at multiples of them. */ };

/* A stack of matrices as a product reads it: the last two dimensions, and up to two strides of 1 among them. */
typedef struct matrices {
    tw_view v;
    bool trans; /* Columns lie as rows would. */
    int64_t ld;
} matrices;

/* Finds how matrices lie. False: no product reads them so. */
static bool describe(const tw_lowering *l, matrices *x) {
    const tw_view *v = &x->v;
    const int r = v->rank - 2, c = v->rank - 1;
    const int64_t rows = v->dims[r], columns = v->dims[c], size = tw_element_bits(v->type) / 8;
    const bool across = columns == 1 || v->strides[c] == 1, along = rows == 1 || v->strides[r] == 1;
    if (!across && !along) return false;
    x->trans = !across || (columns == 1 && rows > 1 && v->strides[r] == 1);
    const int64_t inner = x->trans ? rows : columns, outer = x->trans ? columns : rows;
    x->ld = x->trans ? v->strides[c] : v->strides[r];
    if (outer == 1) x->ld = l->options.gpu ? tw_ceil_div(inner * size, WHOLE) * WHOLE / size : inner;
    if (x->ld < inner) return false;
    if (!l->options.gpu) return true;
    if (v->offset % WHOLE || x->ld * size % WHOLE) return false;
    for (int i = 0; i < r; i++)
        if (v->dims[i] > 1 && (v->strides[i] < 0 || v->strides[i] * size % WHOLE)) return false;
    return true;
}

/* The same of results, whose rows may begin anywhere. */
static bool describe_result(matrices *x) {
    const tw_view *v = &x->v;
    const int r = v->rank - 2, c = v->rank - 1;
    x->ld = v->dims[r] == 1 ? v->dims[c] : v->strides[r];
    return (v->dims[c] == 1 || v->strides[c] == 1) && x->ld >= v->dims[c];
}

/* Copies strided elements to a dense array with padded rows. NULL: out of memory. */
static void *pack(const void *content, const tw_view *from, const tw_view *to, int64_t bytes) {
    const int64_t size = tw_element_bits(from->type) / 8, n = tw_view_elements(from);
    int64_t index[TW_ARRAY_RANK] = {0};
    char *packed = calloc(1, (size_t)bytes + 1);
    for (int64_t i = 0; i < n && packed; i++) {
        int64_t at = 0, in = from->offset;
        for (int d = 0; d < from->rank; d++) {
            at += index[d] * to->strides[d] * size;
            in += index[d] * from->strides[d] * size;
        }
        memcpy(packed + at, (const char *)content + in, (size_t)size);
        for (int d = from->rank - 1; d >= 0 && ++index[d] == from->dims[d]; d--) index[d] = 0;
    }
    return packed;
}

/* A constant that is packed when the program is made. */
static int packed(tw_lowering *l, const tw_view *from, const tw_view *to, int64_t bytes) {
    const tw_program_buffer *b = &l->p->buffers[from->buffer];
    const int64_t words[] = {(intptr_t)b->content, from->offset, from->type, bytes};
    tw_made m = {.key = {.kind = TW_MADE_PACKED}};
    tw_made_words(&m.key, words, 4);
    tw_made_words(&m.key, from->dims, from->rank);
    tw_made_words(&m.key, from->strides, from->rank);
    tw_made_words(&m.key, to->strides, from->rank);
    if (!tw_made_find(l->made, &m)) {
        m.data = pack(b->content, from, to, bytes);
        l->failed |= !m.data;
        tw_lower_keep(l, &m);
    }
    return tw_lower_made(l, b->name, m.data, bytes);
}

/* Copies matrices to where products can read them. Dimensions that share elements are not multiplied. */
static bool copy(tw_lowering *l, matrices *x) {
    const tw_view from = x->v;
    const int64_t size = tw_element_bits(from.type) / 8, unit = l->options.gpu ? WHOLE / size : 1;
    tw_view distinct = from, to = from;
    int64_t stride = tw_ceil_div(from.dims[from.rank - 1], unit) * unit;
    to.offset = 0;
    to.strides[from.rank - 1] = 1;
    for (int i = from.rank - 2; i >= 0; i--) {
        const bool shared = i < from.rank - 2 && from.strides[i] == 0;
        if (shared) distinct.dims[i] = 1;
        to.strides[i] = shared ? 0 : stride;
        stride *= distinct.dims[i];
    }
    if (l->p->buffers[from.buffer].kind == TW_PROGRAM_CONSTANT) {
        to.buffer = packed(l, &distinct, &to, stride * size);
    } else {
        to.buffer = tw_lower_scratch(l, l->p->buffers[from.buffer].name, from.type, 1, &stride, NULL).buffer;
        tw_view stored = to;
        const tw_lazy source = tw_lazy_of_view(&distinct);
        memcpy(stored.dims, distinct.dims, sizeof stored.dims);
        if (l->failed || !tw_lower_store(l, &source, &stored)) return false;
    }
    x->v = to;
    return !l->failed && describe(l, x);
}

/* Gives a stack of matrices other dimensions than the last. */
static void restack(tw_view *v, int rank, const int64_t *dims, const int64_t *strides, int64_t rows, int64_t stride) {
    const int64_t columns = v->dims[v->rank - 1], step = v->strides[v->rank - 1];
    memset(v->dims, 0, sizeof v->dims);
    memset(v->strides, 0, sizeof v->strides);
    for (int i = 0; i < rank; i++) {
        v->dims[i] = dims[i];
        v->strides[i] = strides[i];
    }
    v->dims[rank] = rows;
    v->strides[rank] = stride;
    v->dims[rank + 1] = columns;
    v->strides[rank + 1] = step;
    v->rank = rank + 2;
}

/* Folds dimensions of the batch into rows where B is shared, and joins what is left. False: it has too many. */
static bool join_batch(tw_view *a, tw_view *b, tw_view *c) {
    int64_t dims[TW_ARRAY_RANK], s[3][TW_ARRAY_RANK] = {{0}}, rows = c->dims[c->rank - 2];
    int64_t *const strides[] = {s[0], s[1], s[2]};
    int64_t of_a = a->strides[a->rank - 2], of_c = c->strides[c->rank - 2];
    const int64_t inner = b->dims[b->rank - 2], of_b = b->strides[b->rank - 2];
    int rank = c->rank - 2;
    bool shared = true;
    for (int i = 0; i < rank; i++) shared &= b->dims[i] == 1 || b->strides[i] == 0;
    const int n = rank + shared; /* Rows are one more dimension. */
    memcpy(dims, c->dims, sizeof dims);
    memcpy(s[0], a->strides, sizeof s[0]);
    memcpy(s[1], c->strides, sizeof s[1]);
    if (!shared) memcpy(s[2], b->strides, sizeof s[2]);
    rank = tw_collapse(n, dims, strides, shared ? 2 : 3, n);
    if (shared && rank) {
        rank--;
        rows = dims[rank];
        of_a = s[0][rank];
        of_c = s[1][rank];
    }
    if (rank > TW_PROGRAM_BATCH) return false;
    restack(a, rank, dims, s[0], rows, of_a);
    restack(c, rank, dims, s[1], rows, of_c);
    restack(b, rank, dims, s[2], inner, of_b);
    return true;
}

static bool is_number(tw_element t) {
    return t == TW_E_f32 || t == TW_E_f16 || t == TW_E_bf16;
}

static void strides_of(const matrices *x, int rank, int64_t out[TW_PROGRAM_BATCH]) {
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) {
        const int d = i - (TW_PROGRAM_BATCH - rank);
        out[i] = d < 0 || x->v.dims[d] == 1 ? 0 : x->v.strides[d];
    }
}

/* Tells whether products of a batch lie equally far from one another, or do so in sets. */
static bool is_regular(const tw_program_product *p) {
    int more = 0;
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) more += p->batch[i] > 1;
    return more < 3;
}

/* Tells whether nothing is done to sums but scaling. */
static bool is_plain(const tw_lower_epilogue *e) {
    return e->bias.buffer < 0 && e->mul.buffer < 0 && e->residual.buffer < 0 && e->activation == TW_GEMM_LINEAR &&
           !e->gated && e->norm == TW_PROGRAM_NORM_NONE && !e->norm_residual;
}

bool tw_lower_multiply(tw_lowering *l, const tw_view *a, const tw_view *b, const tw_lower_epilogue *e,
                       const tw_view *to) {
    matrices of_a = {.v = *a}, of_b = {.v = *b}, of_c = {.v = *to};
    const int64_t k = a->dims[a->rank - 1];
    const bool doubles = a->type == TW_E_f64 && b->type == TW_E_f64 && to->type == TW_E_f64;
    if (doubles && l->options.gpu && is_plain(e)) return tw_lower_multiply_doubles(l, a, b, e->alpha, to);
    if (!is_number(a->type) || a->type != b->type || !is_number(to->type) || k < 1) return false;
    if (!tw_view_elements(to)) return true;
    if (!join_batch(&of_a.v, &of_b.v, &of_c.v)) return false;
    if (e->norm != TW_PROGRAM_NORM_NONE && of_c.v.rank > 2) return false;
    if (!describe_result(&of_c) || (l->options.gpu && to->offset % WHOLE)) return false;
    if (!describe(l, &of_a) && !copy(l, &of_a)) return false;
    if (!describe(l, &of_b) && !copy(l, &of_b)) return false;
    const int rank = of_c.v.rank - 2;
    tw_program_product p = {.type = a->type,
                            .out = to->type,
                            .m = of_c.v.dims[rank],
                            .n = e->gated ? of_b.v.dims[of_b.v.rank - 1] : of_c.v.dims[rank + 1],
                            .gated = e->gated,
                            .k = k,
                            .trans_a = of_a.trans,
                            .trans_b = of_b.trans,
                            .lda = of_a.ld,
                            .ldb = of_b.ld,
                            .ldc = of_c.ld,
                            .alpha = e->alpha,
                            .activation = e->activation,
                            .norm = e->norm,
                            .norm_residual = e->norm_residual,
                            .eps = e->eps};
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) {
        const int d = i - (TW_PROGRAM_BATCH - rank);
        p.batch[i] = d < 0 ? 1 : of_c.v.dims[d];
    }
    strides_of(&of_a, rank, p.stride_a);
    strides_of(&of_b, rank, p.stride_b);
    strides_of(&of_c, rank, p.stride_c);
    const bool more = e->mul.buffer >= 0 || e->residual.buffer >= 0;
    if (more && !is_regular(&p)) return false;
    const tw_view in[TW_PROGRAM_PRODUCT_IN] = {of_a.v, of_b.v, e->bias, e->mul, e->residual, {.buffer = -1}, e->vector};
    tw_lower_step(l, TW_STEP_PRODUCT, &(tw_step){.of.product = p}, in, TW_PROGRAM_PRODUCT_IN, &of_c.v, 1);
    return !l->failed;
}

/* ---- nodes */

void tw_product_swap(tw_view *v) {
    const int64_t d = v->dims[v->rank - 1], s = v->strides[v->rank - 1];
    v->dims[v->rank - 1] = v->dims[v->rank - 2];
    v->strides[v->rank - 1] = v->strides[v->rank - 2];
    v->dims[v->rank - 2] = d;
    v->strides[v->rank - 2] = s;
}

/* A view with a dimension of one element more, in front of dimension `at`. */
static void insert(tw_view *v, int at) {
    for (int i = v->rank; i > at; i--) {
        v->dims[i] = v->dims[i - 1];
        v->strides[i] = v->strides[i - 1];
    }
    v->dims[at] = 1;
    v->strides[at] = 0;
    v->rank++;
}

void tw_product_spread(tw_view *v, const tw_view *to) {
    int64_t dims[TW_ARRAY_RANK];
    memcpy(dims, to->dims, sizeof dims);
    dims[to->rank - 2] = v->dims[v->rank - 2];
    dims[to->rank - 1] = v->dims[v->rank - 1];
    tw_lazy x = tw_lazy_of_view(v);
    tw_lazy_expand(&x, to->rank, dims);
    *v = tw_lazy_view(&x);
}

/* A constant in another type. Returns its view as a vector. */
static tw_view converted(tw_lowering *l, const tw_view *v, const tw_array *a, tw_element type) {
    const int64_t n = tw_view_elements(v);
    double *x = tw_arena_array(&l->p->arena, (size_t)n + 1, sizeof *x);
    char *data = tw_arena_array(&l->p->arena, (size_t)n + 1, sizeof(float));
    tw_view to = tw_view_dense(-1, type, v->rank, v->dims);
    l->failed |= !x || !data;
    if (l->failed) return to;
    tw_array_get_reals(a, 0, n, x);
    tw_array_set_reals(type, data, 0, n, x);
    to.buffer = tw_lower_constant(l, l->p->buffers[v->buffer].name, data, n * (tw_element_bits(type) / 8));
    return to;
}

bool tw_product_operand(tw_lowering *l, int value, const tw_view *to, bool vector, tw_view *out) {
    *out = (tw_view){.buffer = -1};
    if (value < 0) return true;
    const tw_value *v = tw_lower_of(l, value);
    tw_view found;
    const bool other = v->type != to->type;
    if ((other && !(vector && v->content)) || v->rank > to->rank || !tw_lower_in_memory(l, value, &found)) return false;
    if (other) found = converted(l, &found, v->content, to->type);
    if (l->failed) return false;
    tw_lazy x = tw_lazy_of_view(&found);
    tw_lazy_expand(&x, to->rank, to->dims);
    *out = tw_lazy_view(&x);
    for (int i = 0; i < to->rank; i++) {
        const bool last = i == to->rank - 1;
        if (to->dims[i] == 1) continue;
        if (vector ? out->strides[i] != last : out->strides[i] != to->strides[i]) return false;
    }
    if (!vector) return true;
    tw_lazy_slice(&x, 0, 0, 1, x.dims[0]);
    *out = (tw_view){.buffer = found.buffer,
                     .offset = x.of[0].offset,
                     .type = found.type,
                     .rank = 1,
                     .dims = {to->dims[to->rank - 1]},
                     .strides = {1}};
    return true;
}

/* Operators of an expression behind a product, on what it has stored. */
static bool finish(tw_lowering *l, const tw_product_node *p, const tw_view *sums, bool bias, int out) {
    static const char *const known[] = {"gelu", "gelu_erf", "silu", "relu", "tanh"};
    const tw_value *v = tw_lower_of(l, out);
    const int terms[] = {bias ? p->bias : -1, p->mul, p->residual};
    static const tw_cell_op ops[] = {TW_CELL_add, TW_CELL_mul, TW_CELL_add};
    tw_lazy x = tw_lazy_begin(v->type, v->rank, v->dims), of_sums = tw_lazy_of_view(sums);
    if (!tw_lazy_reshape(&of_sums, v->rank, v->dims)) return false;
    int cell = tw_lazy_add(&x, &of_sums);
    for (int i = 0; i < 3 && cell >= 0; i++) {
        for (size_t a = 0; a < sizeof known / sizeof *known && i == 1; a++) {
            tw_cell_op op;
            if (!strcmp(known[a], p->activation) && tw_cell_from_name(known[a], &op))
                cell = tw_cells_apply(&x.cells, op, cell, -1, -1);
        }
        if (terms[i] < 0) continue;
        const tw_lazy *term = tw_lower_take(l, terms[i]);
        int added = term ? tw_lazy_add(&x, term) : -1;
        if (!i && added >= 0 && p->beta != 1)
            added = tw_cells_apply(&x.cells, TW_CELL_mul, added, tw_cells_real(&x.cells, p->beta), -1);
        cell = added < 0 ? -1 : tw_cells_apply(&x.cells, ops[i], cell, added, -1);
    }
    if (cell < 0) return false;
    x.cells.value = cell;
    tw_lower_set(l, out, &x);
    return true;
}

/* Lowers a product whose result is stored in the type of value `out`. */
static bool lower(tw_lowering *l, const tw_product_node *p, int out) {
    const tw_value *v = tw_lower_of(l, out);
    const tw_gemm_activation none = TW_GEMM_LINEAR;
    tw_lower_epilogue e = tw_lower_no_epilogue();
    tw_view a, b;
    e.alpha = p->alpha;
    const bool doubles = l->options.gpu && v->type == TW_E_f64;
    if ((!is_number(v->type) && !doubles) || !tw_lower_in_memory(l, p->a, &a) || !tw_lower_in_memory(l, p->b, &b))
        return false;
    if ((!is_number(a.type) && !doubles) || a.type != b.type) return false;
    /* Operands that are not in memory yet come before the result, which may lie where they do not. */
    const int others[] = {p->bias, p->mul, p->residual};
    tw_view unused;
    const tw_lazy *known[3];
    for (int i = 0; i < 3; i++) {
        known[i] = others[i] < 0 ? NULL : tw_lower_peek(l, others[i]);
        if (others[i] >= 0 && (!known[i] || (i == 0 && !tw_lower_in_memory(l, others[i], &unused)))) return false;
    }
    tw_view to = tw_lower_target(l, out), stored = to;
    if (l->failed) return false;
    if (a.rank == 1) insert(&a, 0), insert(&to, to.rank - (b.rank > 1));
    if (b.rank == 1) insert(&b, 1), insert(&to, to.rank);
    if (p->trans_a) tw_product_swap(&a);
    if (p->trans_b) tw_product_swap(&b);
    tw_product_spread(&a, &to);
    tw_product_spread(&b, &to);
    const bool with_bias = !doubles && p->beta == 1 && tw_product_operand(l, p->bias, &to, true, &e.bias);
    bool whole = with_bias && tw_gemm_activation_from_name(p->activation, &e.activation);
    whole = whole && tw_product_operand(l, p->mul, &to, false, &e.mul) &&
            tw_product_operand(l, p->residual, &to, false, &e.residual);
    if (whole && tw_lower_multiply(l, &a, &b, &e, &to)) {
        tw_lower_set_view(l, out, &stored);
        return true;
    }
    /* What the product cannot do comes behind it. */
    e.mul.buffer = e.residual.buffer = -1;
    e.activation = none;
    if (!with_bias) e.bias.buffer = -1;
    const bool more = !with_bias || p->mul >= 0 || p->residual >= 0 || strcmp(p->activation, "none") != 0;
    tw_view sums = more || !tw_view_is_dense(&to) ? tw_lower_scratch(l, v->name, v->type, to.rank, to.dims, NULL) : to;
    if (l->failed || !tw_lower_multiply(l, &a, &b, &e, &sums)) return false;
    return finish(l, p, &sums, !with_bias, out);
}

bool tw_product_read(const tw_node *n, tw_product_node *p) {
    *p = (tw_product_node){.bias = -1, .mul = -1, .residual = -1, .alpha = 1, .beta = 1, .activation = "none"};
    if (n->n_in < 2 || n->in[0] < 0 || n->in[1] < 0) return false;
    p->a = n->in[0];
    p->b = n->in[1];
    if (tw_is_op(n, "tilewright", "Product")) {
        int *const more[] = {&p->bias, &p->mul, &p->residual};
        for (int i = 2; i < n->n_in && i < 5; i++) *more[i - 2] = n->in[i];
        p->trans_a = tw_node_integer(n, "trans_a", 0);
        p->trans_b = tw_node_integer(n, "trans_b", 0);
        p->alpha = tw_node_real(n, "alpha", 1);
        p->activation = tw_node_text(n, "activation", "none");
        return true;
    }
    if (!tw_is_op(n, "", "Gemm")) return tw_is_op(n, "", "MatMul");
    p->trans_a = tw_node_integer(n, "transA", 0);
    p->trans_b = tw_node_integer(n, "transB", 0);
    p->alpha = tw_node_real(n, "alpha", 1);
    if (n->n_in > 2) p->bias = n->in[2];
    if (p->bias >= 0) p->beta = tw_node_real(n, "beta", 1);
    return true;
}

/* ---- all of them */

/* The value that a product's result becomes by a Cast that nothing else comes before, if it can store that at once. */
static int cast_of(const tw_lowering *l, const tw_product_node *p, int out) {
    const int consumer = l->consumers[out];
    if (l->uses[out] != 1 || consumer < 0 || p->mul >= 0 || p->residual >= 0) return out;
    const tw_node *n = &l->g->nodes[consumer];
    const bool later = !strcmp(p->activation, "relu") || !strcmp(p->activation, "tanh");
    if (!tw_is_op(n, "", "Cast") || later || !is_number(tw_lower_of(l, n->out[0])->type)) return out;
    if (p->bias >= 0 && !tw_lower_of(l, p->bias)->content) return out;
    return n->out[0];
}

bool tw_lower_product(tw_lowering *l, const tw_node *n) {
    tw_product_node p, other;
    const int out = n->n_out ? n->out[0] : -1, consumer = out < 0 ? -1 : l->consumers[out];
    if (out < 0 || !tw_product_read(n, &p)) return false;
    /* A gate is computed with its values. */
    const tw_node *next = consumer < 0 ? NULL : &l->g->nodes[consumer];
    if (next && tw_product_read(next, &other) && tw_product_is_gate(l, &p, out, &other, next->out[0])) return true;
    if (tw_product_find_gate(l, &p, out, &other)) return tw_lower_gated(l, &other, &p, out);
    const int cast = cast_of(l, &p, out);
    if (cast == out && tw_lower_normed(l, &p, out)) return true;
    return (cast != out && lower(l, &p, cast)) || lower(l, &p, out);
}
