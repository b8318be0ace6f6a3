/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul, Gemm and Product. Integers are multiplied as doubles, which is exact up to 2^53. */
#include "graph/ops/elementwise.h"
#include "graph/ops/reduce.h"

#include <math.h>
#include <string.h>

/* A matrix of a batch. */
typedef struct matrix {
    const double *x;
    int64_t row, column; /* Elements from a row to the next, and from a column. */
} matrix;

/* c[m][n] = sum over k of a[m][k] b[k][n], rows of b after one another so that memory is read in order. */
static void multiply(const matrix *a, const matrix *b, int64_t m, int64_t n, int64_t k, double *c) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            const double x = a->x[i * a->row + l * a->column];
            for (int64_t j = 0; j < n; j++) c[i * n + j] += x * b->x[l * b->row + j * b->column];
        }
}

/* An operand as a stack of matrices: a vector is one row (the first operand) or one column. */
static tw_array stack_of(const tw_array *a, bool first) {
    tw_array s = *a;
    if (a->rank != 1) return s;
    s.rank = 2;
    s.dims[first ? 1 : 0] = a->dims[0];
    s.dims[first ? 0 : 1] = 1;
    return s;
}

tw_status tw_matmul_shape(tw_call *c) {
    const tw_array a = stack_of(c->in[0], true), b = stack_of(c->in[1], false);
    tw_array batch_a = {.rank = a.rank - 2}, batch_b = {.rank = b.rank - 2}, *out = &c->out[0];
    if (a.rank < 2 || b.rank < 2 || c->in[0]->type != c->in[1]->type || a.dims[a.rank - 1] != b.dims[b.rank - 2]) {
        char x[96], y[96];
        tw_array_describe(c->in[0], x, sizeof x);
        tw_array_describe(c->in[1], y, sizeof y);
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit, %s and %s", x, y);
    }
    memcpy(batch_a.dims, a.dims, sizeof a.dims);
    memcpy(batch_b.dims, b.dims, sizeof b.dims);
    if (!tw_broadcast(&batch_a, &batch_b, out)) return tw_call_fail(c, TW_ERR_FORMAT, "batches do not fit");
    out->type = a.type;
    if (out->rank + 2 > TW_ARRAY_RANK) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "has too many dimensions");
    if (c->in[0]->rank > 1) out->dims[out->rank++] = a.dims[a.rank - 2];
    if (c->in[1]->rank > 1) out->dims[out->rank++] = b.dims[b.rank - 1];
    return tw_element_kind(a.type) == TW_KIND_other || a.type == TW_E_bool ? tw_call_refuse_type(c, a.type) : TW_OK;
}

/* What is done with the products of a matrix of the batch, of which there were `before` elements. */
typedef void finish(tw_call *c, int64_t before, int64_t elements, double *z);

/* Multiplies two stacks of matrices. ta, tb: those of an operand are transposed in memory, while its extents are those
   of what is multiplied. */
static tw_status multiply_stacks(tw_call *c, const tw_array *pa, const tw_array *pb, bool ta, bool tb, finish *end) {
    const tw_array a = *pa, b = *pb;
    tw_array batch, batch_a = {.rank = a.rank - 2}, batch_b = {.rank = b.rank - 2};
    const int64_t m = a.dims[a.rank - 2], k = a.dims[a.rank - 1], n = b.dims[b.rank - 1];
    int64_t index[TW_ARRAY_RANK] = {0}, strides_a[TW_ARRAY_RANK], strides_b[TW_ARRAY_RANK], number = 0;
    memcpy(batch_a.dims, a.dims, sizeof a.dims);
    memcpy(batch_b.dims, b.dims, sizeof b.dims);
    tw_broadcast(&batch_a, &batch_b, &batch);
    tw_broadcast_strides(&batch_a, &batch, strides_a);
    tw_broadcast_strides(&batch_b, &batch, strides_b);
    const double *x = tw_call_reals(c, c->in[0]), *y = tw_call_reals(c, c->in[1]);
    double *z = tw_arena_array(c->arena, (size_t)(m * n) + 1, sizeof *z);
    if (!x || !y || !z) return tw_fail_memory(c->diag);
    if (!tw_array_elements(&batch)) return TW_OK;
    do {
        int64_t at_a = 0, at_b = 0;
        for (int i = 0; i < batch.rank; i++) {
            at_a += index[i] * strides_a[i];
            at_b += index[i] * strides_b[i];
        }
        multiply(&(matrix){x + at_a * m * k, ta ? 1 : k, ta ? m : 1},
                 &(matrix){y + at_b * k * n, tb ? 1 : n, tb ? k : 1}, m, n, k, z);
        if (end) end(c, number * m * n, m * n, z);
        tw_array_set_reals(c->out[0].type, tw_call_out(c, 0), number++ * m * n, m * n, z);
    } while (tw_index_next(&batch, index));
    return TW_OK;
}

tw_status tw_matmul_compute(tw_call *c) {
    const tw_array a = stack_of(c->in[0], true), b = stack_of(c->in[1], false);
    return multiply_stacks(c, &a, &b, false, false, NULL);
}

tw_status tw_gemm_op_shape(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1], *add = tw_call_in(c, 2);
    const bool ta = tw_node_integer(c->node, "transA", 0), tb = tw_node_integer(c->node, "transB", 0);
    if (a->rank != 2 || b->rank != 2 || a->type != b->type || a->dims[!ta] != b->dims[tb])
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    tw_array out = {.type = a->type, .rank = 2, .dims = {a->dims[ta], b->dims[!tb]}}, all = out;
    if (add && (add->type != a->type || !tw_broadcast(&out, add, &all) || all.rank != 2 || all.dims[0] != out.dims[0] ||
                all.dims[1] != out.dims[1]))
        return tw_call_fail(c, TW_ERR_FORMAT, "C does not fit");
    c->out[0] = out;
    return tw_element_kind(a->type) == TW_KIND_other || a->type == TW_E_bool ? tw_call_refuse_type(c, a->type) : TW_OK;
}

tw_status tw_gemm_op_compute(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1], *add = tw_call_in(c, 2), *out = &c->out[0];
    const bool ta = tw_node_integer(c->node, "transA", 0), tb = tw_node_integer(c->node, "transB", 0);
    const double alpha = tw_node_real(c->node, "alpha", 1), beta = tw_node_real(c->node, "beta", 1);
    const int64_t m = out->dims[0], n = out->dims[1], k = a->dims[!ta];
    const double *x = tw_call_reals(c, a), *y = tw_call_reals(c, b);
    double *z = tw_arena_array(c->arena, (size_t)(m * n) + 1, sizeof *z);
    if (!x || !y || !z) return tw_fail_memory(c->diag);
    multiply(&(matrix){x, ta ? 1 : k, ta ? m : 1}, &(matrix){y, tb ? 1 : n, tb ? k : 1}, m, n, k, z);
    int64_t strides[TW_ARRAY_RANK] = {0};
    if (add) tw_broadcast_strides(add, out, strides);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double *cell = &z[i * n + j];
            *cell = alpha * *cell + (add ? beta * tw_array_real(add, i * strides[0] + j * strides[1]) : 0);
        }
    tw_array_set_reals(out->type, tw_call_out(c, 0), 0, m * n, z);
    return TW_OK;
}

/* ---- Product (A, B, bias, mul, residual): activation(alpha A B + bias) * mul + residual */

typedef double activation(double x);

static double none(double x) {
    return x;
}
static double gelu(double x) {
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); /* sqrt(2 / pi) */
}
static double gelu_erf(double x) {
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double silu(double x) {
    return x / (1 + exp(-x));
}
static double relu(double x) {
    return x > 0 || isnan(x) ? x : 0;
}

static activation *activation_of(const tw_call *c) {
    static const struct {
        const char *name;
        activation *of;
    } table[] = {{"none", none}, {"gelu", gelu}, {"gelu_erf", gelu_erf},
                 {"silu", silu}, {"relu", relu}, {"tanh", tanh}};
    const char *name = tw_node_text(c->node, "activation", "none");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return table[i].of;
    return NULL;
}

/* An operand's extents as they are multiplied. */
static tw_array turned(const tw_array *a, bool t) {
    tw_array r = *a;
    if (!t || a->rank < 2) return r;
    r.dims[a->rank - 1] = a->dims[a->rank - 2];
    r.dims[a->rank - 2] = a->dims[a->rank - 1];
    return r;
}

tw_status tw_product_shape(tw_call *c) {
    const tw_array a = turned(c->in[0], tw_node_integer(c->node, "trans_a", 0)),
                   b = turned(c->in[1], tw_node_integer(c->node, "trans_b", 0));
    tw_call of = *c;
    of.in[0] = &a;
    of.in[1] = &b;
    if (a.rank < 2 || b.rank < 2) return tw_call_fail(c, TW_ERR_FORMAT, "operands are no matrices");
    const tw_status st = tw_matmul_shape(&of);
    if (st != TW_OK) return st;
    tw_array *out = &c->out[0], all;
    *out = of.out[0];
    for (int i = 2; i < c->n_in; i++) {
        const tw_array *x = c->in[i];
        if (x && (x->type != out->type || x->rank > out->rank || !tw_broadcast(out, x, &all) ||
                  memcmp(all.dims, out->dims, sizeof(int64_t) * (size_t)out->rank) != 0))
            return tw_call_fail(c, TW_ERR_FORMAT, "operand %d does not fit", i);
    }
    if (!activation_of(c)) return tw_call_fail(c, TW_ERR_FORMAT, "there is no such activation");
    return tw_element_kind(out->type) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, out->type);
}

static void finish_product(tw_call *c, int64_t before, int64_t elements, double *z) {
    const tw_array *out = &c->out[0];
    const double alpha = tw_node_real(c->node, "alpha", 1);
    activation *of = activation_of(c);
    tw_places places[5] = {0};
    int64_t index[TW_ARRAY_RANK] = {0}, left = before;
    for (int i = out->rank - 1; i >= 0; i--) {
        index[i] = left % out->dims[i];
        left /= out->dims[i];
    }
    for (int i = 2; i < c->n_in; i++)
        if (c->in[i]) tw_places_of(c->in[i], out, &places[i]);
    for (int64_t j = 0; j < elements; j++, tw_index_next(out, index)) {
        double more[5] = {0, 0, 0, 1, 0};
        for (int i = 2; i < c->n_in; i++)
            if (c->in[i]) more[i] = tw_array_real(c->in[i], tw_place(&places[i], out, index));
        z[j] = of(alpha * z[j] + more[2]) * more[3] + more[4];
    }
}

tw_status tw_product_compute(tw_call *c) {
    const bool ta = tw_node_integer(c->node, "trans_a", 0), tb = tw_node_integer(c->node, "trans_b", 0);
    const tw_array a = turned(c->in[0], ta), b = turned(c->in[1], tb);
    return multiply_stacks(c, &a, &b, ta, tb, finish_product);
}
