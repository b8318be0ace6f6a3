/* SPDX-License-Identifier: Apache-2.0 */
/* The library takes a graph of operations on tensors, all of them descriptors with attributes. It knows attention by
   the operations that it consists of: those here, of these types and in this order, the logarithms of sums among them,
   which nobody reads. */
#include "base/grow.h"
#include "kernels/vendor/cudnn_parts.h"

#include <stdlib.h>

/* Numbers of the library's interface. */
enum {
    /* Descriptors. */
    POINTWISE = 0,
    POINTWISE_OPERATION = 13,
    GRAPH = 15,
    TENSOR = 17,
    MATMUL = 18,
    MATMUL_OPERATION = 19,
    REDUCTION = 21,
    REDUCTION_OPERATION = 22,

    /* Attributes. */
    POINTWISE_MODE = 0,
    POINTWISE_TYPE = 1,
    POINTWISE_AXIS = 9,
    POINTWISE_OF = 750,
    POINTWISE_X = 751,
    POINTWISE_B = 752,
    POINTWISE_Y = 753,
    POINTWISE_T = 758,
    GRAPH_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE = 901,
    TENSOR_DIMS = 902,
    TENSOR_STRIDES = 903,
    TENSOR_ID = 906,
    TENSOR_VIRTUAL = 907,
    TENSOR_BY_VALUE = 908,
    MATMUL_TYPE = 1500,
    MATMUL_A = 1520,
    MATMUL_B = 1521,
    MATMUL_C = 1522,
    MATMUL_OF = 1523,
    REDUCTION_OPERATOR = 1600,
    REDUCTION_TYPE = 1601,
    REDUCTION_X = 1610,
    REDUCTION_Y = 1611,
    REDUCTION_OF = 1612,

    /* Element types beside tw_cudnn_type. */
    I32 = 4,
    TRUTH = 11,

    /* Operations on elements. */
    ADD = 0,
    MUL = 1,
    DIV = 6,
    SUB = 9,
    EXP = 13,
    LOG = 15,
    GREATER_EQUAL = 303,
    INDEX = 501,
    SELECT = 601,

    /* Reductions. */
    SUM = 0,
    MAX = 3,

    ALIGNMENT = 16, /* Bytes, of all addresses. */
};

/* ---- descriptors */

void tw_cudnn_note(tw_cudnn_maker *m, int status, const char *what) {
    if (m->status || !status) return;
    m->status = status;
    m->what = what;
}

void *tw_cudnn_create(tw_cudnn_maker *m, int type) {
    void *d = NULL;
    if (m->status) return NULL;
    void **grown = tw_grow(m->made, m->n, &m->room, 64, sizeof *grown);
    if (grown) m->made = grown;
    tw_cudnn_note(m, grown ? m->dnn->cudnnBackendCreateDescriptor(type, &d) : TW_CUDNN_NO_HOST_MEMORY,
                  "make a descriptor");
    if (m->status) return NULL;
    return m->made[m->n++] = d;
}

void tw_cudnn_set(tw_cudnn_maker *m, void *d, int attribute, int type, int64_t count, const void *values) {
    if (!m->status)
        tw_cudnn_note(m, m->dnn->cudnnBackendSetAttribute(d, attribute, type, count, values), "describe attention");
}

void tw_cudnn_set_number(tw_cudnn_maker *m, void *d, int attribute, int type, int32_t value) {
    tw_cudnn_set(m, d, attribute, type, 1, &value);
}

void tw_cudnn_set_descriptor(tw_cudnn_maker *m, void *d, int attribute, void *value) {
    tw_cudnn_set(m, d, attribute, TW_CUDNN_DESCRIPTOR, 1, &value);
}

void tw_cudnn_finish(tw_cudnn_maker *m, void *d, const char *what) {
    if (!m->status) tw_cudnn_note(m, m->dnn->cudnnBackendFinalize(d), what);
}

void tw_cudnn_destroy(tw_cudnn_maker *m) {
    while (m->n) m->dnn->cudnnBackendDestroyDescriptor(m->made[--m->n]);
    free(m->made);
    m->made = NULL;
    m->room = 0;
}

/* ---- the graph */

static void *tensor(tw_cudnn_maker *m, int64_t id, int type, const int64_t dims[4], const int64_t strides[4]) {
    const bool yes = true;
    const int64_t alignment = ALIGNMENT;
    void *t = tw_cudnn_create(m, TENSOR);
    tw_cudnn_set_number(m, t, TENSOR_TYPE, TW_CUDNN_DATA_TYPE, type);
    tw_cudnn_set(m, t, TENSOR_DIMS, TW_CUDNN_INT64, 4, dims);
    tw_cudnn_set(m, t, TENSOR_STRIDES, TW_CUDNN_INT64, 4, strides);
    tw_cudnn_set(m, t, TENSOR_ID, TW_CUDNN_INT64, 1, &id);
    tw_cudnn_set(m, t, TENSOR_ALIGNMENT, TW_CUDNN_INT64, 1, &alignment);
    if (id >= TW_CUDNN_SCALE && id < TW_CUDNN_TENSORS) tw_cudnn_set(m, t, TENSOR_BY_VALUE, TW_CUDNN_BOOLEAN, 1, &yes);
    if (id >= TW_CUDNN_TENSORS) tw_cudnn_set(m, t, TENSOR_VIRTUAL, TW_CUDNN_BOOLEAN, 1, &yes);
    tw_cudnn_finish(m, t, "take a tensor");
    return t;
}

/* A number that each run gives. */
static void *number(tw_cudnn_maker *m, int64_t id, int type) {
    static const int64_t ones[4] = {1, 1, 1, 1};
    return tensor(m, id, type, ones, ones);
}

/* What is between operations: a value for each query, and for each of `keys`. */
static void *between(tw_cudnn_maker *m, int type, int64_t keys) {
    const tw_cudnn_problem *p = m->p;
    const int64_t dims[4] = {p->batch, p->heads, p->queries, keys},
                  strides[4] = {p->heads * p->queries * keys, p->queries * keys, keys, 1};
    return tensor(m, m->id++, type, dims, strides);
}

static void add_operation(tw_cudnn_maker *m, void *operation) {
    tw_cudnn_finish(m, operation, "take an operation");
    m->operations[m->n_operations++] = operation;
}

static void *multiply(tw_cudnn_maker *m, void *a, void *b, void *c) {
    void *how = tw_cudnn_create(m, MATMUL);
    tw_cudnn_set_number(m, how, MATMUL_TYPE, TW_CUDNN_DATA_TYPE, TW_CUDNN_F32);
    tw_cudnn_finish(m, how, "multiply");
    void *o = tw_cudnn_create(m, MATMUL_OPERATION);
    tw_cudnn_set_descriptor(m, o, MATMUL_A, a);
    tw_cudnn_set_descriptor(m, o, MATMUL_B, b);
    tw_cudnn_set_descriptor(m, o, MATMUL_C, c);
    tw_cudnn_set_descriptor(m, o, MATMUL_OF, how);
    add_operation(m, o);
    return c;
}

/* Adds y = mode(x, b, t), computed in `type`. b and t may be NULL. */
static void *compute_of(tw_cudnn_maker *m, int mode, int type, int64_t axis, void *x, void *b, void *t, void *y) {
    void *how = tw_cudnn_create(m, POINTWISE);
    tw_cudnn_set_number(m, how, POINTWISE_MODE, TW_CUDNN_POINTWISE, mode);
    tw_cudnn_set_number(m, how, POINTWISE_TYPE, TW_CUDNN_DATA_TYPE, type);
    if (mode == INDEX) tw_cudnn_set(m, how, POINTWISE_AXIS, TW_CUDNN_INT64, 1, &axis);
    tw_cudnn_finish(m, how, "compute elements");
    void *o = tw_cudnn_create(m, POINTWISE_OPERATION);
    tw_cudnn_set_descriptor(m, o, POINTWISE_OF, how);
    tw_cudnn_set_descriptor(m, o, POINTWISE_X, x);
    if (b) tw_cudnn_set_descriptor(m, o, POINTWISE_B, b);
    if (t) tw_cudnn_set_descriptor(m, o, POINTWISE_T, t);
    tw_cudnn_set_descriptor(m, o, POINTWISE_Y, y);
    add_operation(m, o);
    return y;
}

static void *compute(tw_cudnn_maker *m, int mode, void *x, void *b, void *y) {
    return compute_of(m, mode, TW_CUDNN_F32, 0, x, b, NULL, y);
}

static void *reduce(tw_cudnn_maker *m, int mode, void *x, void *y) {
    void *how = tw_cudnn_create(m, REDUCTION);
    tw_cudnn_set_number(m, how, REDUCTION_OPERATOR, TW_CUDNN_REDUCTION, mode);
    tw_cudnn_set_number(m, how, REDUCTION_TYPE, TW_CUDNN_DATA_TYPE, TW_CUDNN_F32);
    tw_cudnn_finish(m, how, "reduce");
    void *o = tw_cudnn_create(m, REDUCTION_OPERATION);
    tw_cudnn_set_descriptor(m, o, REDUCTION_X, x);
    tw_cudnn_set_descriptor(m, o, REDUCTION_Y, y);
    tw_cudnn_set_descriptor(m, o, REDUCTION_OF, how);
    add_operation(m, o);
    return y;
}

/* Takes the scores of keys behind a query's own out. */
static void *mask_future(tw_cudnn_maker *m, void *scores) {
    const int64_t keys = m->p->keys;
    void *row = compute_of(m, INDEX, TW_CUDNN_F32, 2, scores, NULL, NULL, between(m, I32, keys));
    void *column = compute_of(m, INDEX, TW_CUDNN_F32, 3, scores, NULL, NULL, between(m, I32, keys));
    if (m->p->queries != keys) {
        row = compute_of(m, ADD, I32, 0, row, number(m, TW_CUDNN_KEYS, I32), NULL, between(m, I32, keys));
        row = compute_of(m, SUB, I32, 0, row, number(m, TW_CUDNN_QUERIES, I32), NULL, between(m, I32, keys));
    }
    void *seen = compute_of(m, GREATER_EQUAL, TRUTH, 0, row, column, NULL, between(m, TRUTH, keys));
    return compute_of(m, SELECT, TW_CUDNN_F32, 0, scores, number(m, TW_CUDNN_LOWEST, TW_CUDNN_F32), seen,
                      between(m, TW_CUDNN_F32, keys));
}

static void *softmax(tw_cudnn_maker *m, void *scores) {
    const int64_t keys = m->p->keys;
    void *most = reduce(m, MAX, scores, between(m, TW_CUDNN_F32, 1));
    void *less = compute(m, SUB, scores, most, between(m, TW_CUDNN_F32, keys));
    void *weights = compute(m, EXP, less, NULL, between(m, TW_CUDNN_F32, keys));
    void *sum = reduce(m, SUM, weights, between(m, TW_CUDNN_F32, 1));
    void *logarithm = compute(m, LOG, sum, NULL, between(m, TW_CUDNN_F32, 1));
    compute(m, ADD, most, logarithm, between(m, TW_CUDNN_F32, 1));
    return compute(m, DIV, weights, sum, between(m, m->p->type, keys));
}

/* Adds a tensor of memory. */
static void *place(tw_cudnn_maker *m, int64_t id, int type, const int64_t dims[4], const tw_cudnn_strides *s) {
    return tensor(m, id, type, dims, (const int64_t[4]){s->batch, s->head, s->row, 1});
}

void *tw_cudnn_graph(tw_cudnn_maker *m) {
    const tw_cudnn_problem *p = m->p;
    const int64_t rows[4] = {p->batch, p->heads, p->queries, p->head},
                  keys[4] = {p->batch, p->kv_heads, p->keys, p->head},
                  columns[4] = {p->batch, p->kv_heads, p->head, p->keys},
                  transposed[4] = {p->kv.batch, p->kv.head, 1, p->kv.row},
                  mask[4] = {p->mask_batch, p->mask_heads, p->queries, p->keys};
    m->id = TW_CUDNN_TENSORS;
    void *q = place(m, TW_CUDNN_Q, p->type, rows, &p->q), *k = tensor(m, TW_CUDNN_K, p->type, columns, transposed);
    void *scores = multiply(m, q, k, between(m, TW_CUDNN_F32, p->keys));
    scores = compute(m, MUL, scores, number(m, TW_CUDNN_SCALE, TW_CUDNN_F32), between(m, TW_CUDNN_F32, p->keys));
    if (p->masked)
        scores = compute(m, ADD, scores, place(m, TW_CUDNN_MASK, p->mask_type, mask, &p->mask),
                         between(m, TW_CUDNN_F32, p->keys));
    if (p->causal) scores = mask_future(m, scores);
    void *weights = softmax(m, scores);
    multiply(m, weights, place(m, TW_CUDNN_V, p->type, keys, &p->kv), place(m, TW_CUDNN_OUT, p->type, rows, &p->out));
    void *g = tw_cudnn_create(m, GRAPH);
    tw_cudnn_set(m, g, GRAPH_HANDLE, TW_CUDNN_HANDLE, 1, &m->dnn->handle);
    tw_cudnn_set(m, g, GRAPH_OPERATIONS, TW_CUDNN_DESCRIPTOR, m->n_operations, m->operations);
    tw_cudnn_finish(m, g, "compute this attention");
    return g;
}
