/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that patterns name in what they make. */
#include "graph/ops/op.h"
#include "graph/patterns/groups.h"
#include "graph/patterns/part.h"

#include <string.h>

static int root_of(const tw_maker *k, int want) {
    return want >= 0 ? want : k->g->nodes[k->root].out[0];
}

/* ones(x): a scale of the rows of x that changes nothing. */
static int ones(tw_maker *k, const int *args, int n, int want) {
    const tw_value *x = &k->g->values[args[0]];
    (void)n, (void)want;
    if (!x->rank) return -1;
    const tw_element type = x->type;
    const int64_t all = x->dims[x->rank - 1];
    void *data = tw_arena_array(&k->g->arena, (size_t)all + 1, (size_t)tw_element_bits(type) / 8);
    const double one = 1;
    for (int64_t i = 0; i < all && data; i++) tw_array_set_reals(type, data, i, 1, &one);
    return data ? tw_make_constant(k, &(tw_array){.type = type, .rank = 1, .dims = {all}, .data = data}) : -1;
}

/* shaped(x): x with the root's extents. */
static int shaped(tw_maker *k, const int *args, int n, int want) {
    const tw_value *to = &k->g->values[root_of(k, want)];
    const int rank = to->rank;
    int64_t dims[TW_ARRAY_RANK];
    (void)n;
    memcpy(dims, to->dims, sizeof dims);
    return tw_make_reshape(k, args[0], rank, dims, want);
}

/* like(x, y): x with the extents of y. */
static int like(tw_maker *k, const int *args, int n, int want) {
    int64_t dims[TW_ARRAY_RANK];
    (void)n;
    memcpy(dims, k->g->values[args[1]].dims, sizeof dims);
    return tw_make_reshape(k, args[0], k->g->values[args[1]].rank, dims, want);
}

/* rows(x): [batch][row][head * width] of [batch][row][head][width]. */
static int rows(tw_maker *k, const int *args, int n, int want) {
    const tw_value *x = &k->g->values[args[0]];
    (void)n;
    if (x->rank != 4) return -1;
    return tw_make_reshape(k, args[0], 3, (const int64_t[]){x->dims[0], x->dims[1], x->dims[2] * x->dims[3]}, want);
}

/* split(x): [batch][head][row][width] of [batch * head][row][width], as the root's. */
static int split(tw_maker *k, const int *args, int n, int want) {
    const tw_value x = k->g->values[args[0]], to = k->g->values[root_of(k, -1)];
    (void)n;
    if (x.rank != 3 || to.rank != 4) return -1;
    const bool one = x.dims[0] == 1;
    const int64_t dims[] = {one ? 1 : to.dims[0], one ? 1 : to.dims[1], x.dims[1], x.dims[2]};
    return tw_make_reshape(k, args[0], 4, dims, want);
}

/* row(x): x, which is a row with dimensions of 1 before it, with one dimension. */
static int row(tw_maker *k, const int *args, int n, int want) {
    const tw_value *x = &k->g->values[args[0]];
    (void)n;
    return x->rank ? tw_make_reshape(k, args[0], 1, (const int64_t[]){x->dims[x->rank - 1]}, want) : -1;
}

/* expanded(x): x, expanded to the root's extents. */
static int expanded(tw_maker *k, const int *args, int n, int want) {
    const tw_value *to = &k->g->values[root_of(k, want)];
    const int rank = to->rank;
    int64_t *list = tw_arena_array(&k->g->arena, (size_t)rank + 1, sizeof *list);
    (void)n;
    if (!list) return -1;
    memcpy(list, to->dims, sizeof(int64_t) * (size_t)rank);
    const int extents = tw_make_constant(k, &(tw_array){.type = TW_E_i64, .rank = 1, .dims = {rank}, .data = list});
    return tw_make_op(k, "Expand", (int[]){args[0], extents}, 2, NULL, 0, want);
}

/* typed(x): x in the root's type. */
static int typed(tw_maker *k, const int *args, int n, int want) {
    const tw_element type = k->g->values[root_of(k, want)].type;
    (void)n;
    if (k->g->values[args[0]].type == type) return args[0];
    tw_attribute *a = tw_arena_alloc(&k->g->arena, sizeof *a);
    if (!a) return -1;
    *a = (tw_attribute){.name = "to", .kind = TW_ATTRIBUTE_INT, .integer = tw_element_onnx(type)};
    return tw_make_op(k, "Cast", args, 1, a, 1, -1);
}

/* gemm_bias(n): what Gemm adds. */
static int gemm_bias(tw_maker *k, const int *args, int n, int want) {
    const tw_node *gemm = tw_value_node(k->g, args[0]);
    const double beta = tw_node_real(gemm, "beta", 1);
    const int c = gemm->in[2];
    (void)n, (void)want;
    if (beta == 1) return c;
    const tw_element type = k->g->values[c].type;
    double *data = tw_arena_alloc(&k->g->arena, sizeof *data);
    if (!data) return -1;
    tw_array_set_reals(type, data, 0, 1, &beta);
    const int factor = tw_make_constant(k, &(tw_array){.type = type, .data = data});
    return tw_make_op(k, "Mul", (int[]){c, factor}, 2, NULL, 0, -1);
}

/* Adds a Slice of what comes twice in the last dimension: every second element, or the first half. */
static int make_single(tw_maker *k, int x, bool neighbours) {
    const int rank = k->g->values[x].rank;
    const int64_t width = rank ? k->g->values[x].dims[rank - 1] : 0;
    return tw_make_slice(k, x, -1, 0, neighbours ? width : width / 2, neighbours ? 2 : 1);
}

/* picked(s, x): what the Slice s picks, of x. */
static int picked(tw_maker *k, const int *args, int n, int want) {
    const tw_node *slice = tw_value_node(k->g, args[0]);
    (void)n, (void)want;
    return k->g->values[args[1]].rank ? make_single(k, args[1], slice->n_in > 4 && slice->in[4] >= 0) : -1;
}

/* single(c): of a Reshape of an Expand that makes twins of elements, the elements. */
static int single(tw_maker *k, const int *args, int n, int want) {
    const tw_node *reshape = tw_value_node(k->g, args[0]), *expand = tw_value_node(k->g, reshape->in[0]);
    const int x = expand->in[0];
    return shaped(k, &x, n, want);
}

/* Makes angles of [batch][row][width / 2], of ones that heads of all batches share and that come twice. */
static int make_angles(tw_maker *k, int value, bool neighbours, bool rows_first) {
    const tw_value c = k->g->values[value];
    const int64_t dims[] = {c.rank == 4 ? c.dims[0] : 1, rows_first ? c.dims[1] : c.dims[c.rank - 2],
                            c.dims[c.rank - 1] / 2};
    const int narrow = make_single(k, value, neighbours);
    return narrow < 0 ? -1 : tw_make_reshape(k, narrow, 3, dims, -1);
}

static int half(tw_maker *k, const int *args, int n, int want) {
    (void)n, (void)want;
    return make_angles(k, args[0], false, false);
}

static int evens(tw_maker *k, const int *args, int n, int want) {
    (void)n, (void)want;
    return make_angles(k, args[0], true, false);
}

static int evens_of_rows(tw_maker *k, const int *args, int n, int want) {
    (void)n, (void)want;
    return make_angles(k, args[0], true, true);
}

/* places(x): places of rows, without their last dimension of 1. */
static int places(tw_maker *k, const int *args, int n, int want) {
    const tw_value x = k->g->values[args[0]];
    (void)n, (void)want;
    return tw_make_reshape(k, args[0], x.rank - 1, x.dims, -1);
}

static const tw_attribute *perm_of(const tw_maker *k, int value) {
    const tw_node *n = value < 0 ? NULL : tw_value_node(k->g, value);
    return n && !strcmp(n->op, "Transpose") ? tw_node_attribute(n, "perm") : NULL;
}

/* transposed(t): what t transposes, whose operand is transposed, in one. */
static int transposed(tw_maker *k, const int *args, int n, int want) {
    const tw_node *outer = tw_value_node(k->g, args[0]);
    const tw_attribute *of_outer = perm_of(k, args[0]), *of_inner = outer ? perm_of(k, outer->in[0]) : NULL;
    int64_t *perm = tw_arena_array(&k->g->arena, TW_ARRAY_RANK, sizeof *perm);
    (void)n;
    if (!of_outer || !of_inner || !perm) return -1;
    for (int i = 0; i < k->g->values[args[0]].rank; i++)
        perm[i] = tw_array_integer(of_inner->array, tw_array_integer(of_outer->array, i));
    return tw_make_transpose(k, tw_value_node(k->g, outer->in[0])->in[0], perm, want);
}

/* swapped(x): the last two dimensions of x change places. */
static int swapped(tw_maker *k, const int *args, int n, int want) {
    const int rank = k->g->values[args[0]].rank;
    int64_t *perm = tw_arena_array(&k->g->arena, TW_ARRAY_RANK, sizeof *perm);
    (void)n;
    if (rank < 2 || !perm) return -1;
    for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return tw_make_transpose(k, args[0], perm, want);
}

/* apart(x): x with the root's extents, of which the last two change places. */
static int apart(tw_maker *k, const int *args, int n, int want) {
    const tw_value to = k->g->values[root_of(k, want)];
    int64_t dims[TW_ARRAY_RANK];
    (void)n;
    memcpy(dims, to.dims, sizeof dims);
    dims[to.rank - 2] = to.dims[to.rank - 1];
    dims[to.rank - 1] = to.dims[to.rank - 2];
    return tw_make_reshape(k, args[0], to.rank, dims, -1);
}

static const struct {
    const char *name;
    tw_make_function *make;
} table[] = {{"ones", ones},
             {"shaped", shaped},
             {"rows", rows},
             {"row", row},
             {"transposed", transposed},
             {"expanded", expanded},
             {"gemm_bias", gemm_bias},
             {"like", like},
             {"half", half},
             {"typed", typed},
             {"swapped", swapped},
             {"apart", apart},
             {"picked", picked},
             {"split", split},
             {"single", single},
             {"evens", evens},
             {"evens_of_rows", evens_of_rows},
             {"places", places},
             {"part", tw_make_part},
             {"queries", tw_make_queries},
             {"keys", tw_make_keys},
             {"values", tw_make_values},
             {"cached_keys", tw_make_cached_keys},
             {"cached_values", tw_make_cached_values},
             {"known", tw_make_known},
             {"sight", tw_make_sight}};

tw_make_function *tw_make_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return table[i].make;
    return NULL;
}
