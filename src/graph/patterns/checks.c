/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that patterns name. */
#include "graph/patterns/checks.h"
#include "graph/ops/op.h"
#include "graph/patterns/part.h"

#include <math.h>
#include <string.h>

const tw_node *tw_value_node(const tw_graph *g, int value) {
    const int p = g->values[value].producer;
    return p < 0 ? NULL : &g->nodes[p];
}

bool tw_value_uniform(const tw_graph *g, int value, double *out) {
    const tw_array *a = g->values[value].content;
    const int64_t n = a ? tw_array_elements(a) : 0;
    if (n < 1 || tw_element_kind(a->type) == TW_KIND_other) return false;
    *out = tw_array_real(a, 0);
    for (int64_t i = 1; i < n; i++)
        if (tw_array_real(a, i) != *out) return false;
    return true;
}

/* ---- values */

static bool is_constant(const tw_graph *g, int v) {
    return g->values[v].content != NULL;
}

bool tw_is_scalar(const tw_graph *g, int v) {
    double x;
    return tw_value_uniform(g, v, &x) && isfinite(x) && tw_element_kind(g->values[v].type) == TW_KIND_real;
}

static bool is_uniform(const tw_graph *g, int v) {
    double x;
    return tw_value_uniform(g, v, &x);
}

/* A bias that hides what it is added to, as exporters write it. */
static bool hides(const tw_graph *g, int v) {
    double x;
    return tw_value_uniform(g, v, &x) && x <= -1e4;
}

/* One that hides it even where it is added to nothing but such. */
static bool hides_all(const tw_graph *g, int v) {
    double x;
    return tw_value_uniform(g, v, &x) && x <= -1e30;
}

/* Elements differ along the last dimension alone. */
static bool is_row(const tw_graph *g, int v) {
    const tw_value *x = &g->values[v];
    for (int i = 0; i + 1 < x->rank; i++)
        if (x->dims[i] != 1) return false;
    return x->rank > 0;
}

static bool has_rank_3(const tw_graph *g, int v) {
    return g->values[v].rank == 3;
}

static bool has_rank_4(const tw_graph *g, int v) {
    return g->values[v].rank == 4;
}

static bool is_real(const tw_graph *g, int v) {
    return tw_element_kind(g->values[v].type) == TW_KIND_real;
}

/* All elements are true. */
static bool is_true(const tw_graph *g, int v) {
    double x;
    return g->values[v].type == TW_E_bool && tw_value_uniform(g, v, &x) && x != 0;
}

/* 0, 1, 2, and so on. */
static bool counts(const tw_graph *g, int v) {
    const tw_array *a = g->values[v].content;
    const int64_t n = a ? tw_array_elements(a) : 0;
    for (int64_t i = 0; i < n; i++)
        if (tw_array_integer(a, i) != i) return false;
    return n > 0;
}

/* ---- nodes */

static int n_operands(const tw_node *n) {
    int k = n->n_in;
    while (k && n->in[k - 1] < 0) k--;
    return k;
}

bool tw_node_has(const tw_node *n, int operand) {
    return operand < n->n_in && n->in[operand] >= 0;
}

/* A reduction, a softmax or a concatenation is along the last axis, which stays. */
bool tw_is_last(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *y = &g->values[v];
    if (!strncmp(n->op, "Reduce", 6)) {
        const tw_value *x = &g->values[n->in[0]];
        if (!y->rank || y->rank != x->rank || y->dims[y->rank - 1] != 1) return false;
        if (x->dims[x->rank - 1] == 1) return false; /* It cannot be told which. */
        return !memcmp(y->dims, x->dims, sizeof(int64_t) * (size_t)(y->rank - 1));
    }
    const int64_t usual = !strcmp(n->op, "Softmax") && n->version < 13 ? 1 : -1;
    const int axis = tw_axis(tw_node_integer(n, "axis", usual), y->rank);
    return axis >= 0 && axis == y->rank - 1;
}

/* Finds where a Transpose takes its dimensions from. */
static bool perm_of(const tw_graph *g, int v, int64_t perm[TW_ARRAY_RANK]) {
    const tw_node *n = tw_value_node(g, v);
    if (!n || strcmp(n->op, "Transpose") != 0) return false;
    const tw_attribute *a = tw_node_attribute(n, "perm");
    const int rank = g->values[v].rank;
    for (int i = 0; i < rank; i++) perm[i] = rank - 1 - i;
    if (a && (a->kind != TW_ATTRIBUTE_ARRAY || a->array->dims[0] != rank)) return false;
    if (a) tw_array_get_integers(a->array, 0, rank, perm);
    return true;
}

bool tw_has_perm(const tw_graph *g, int v, const int64_t *want, int rank) {
    int64_t perm[TW_ARRAY_RANK];
    return g->values[v].rank == rank && perm_of(g, v, perm) && !memcmp(perm, want, sizeof *want * (size_t)rank);
}

/* The last two dimensions change places. */
static bool swaps_last(const tw_graph *g, int v) {
    int64_t perm[TW_ARRAY_RANK];
    const int rank = g->values[v].rank;
    if (rank < 2 || !perm_of(g, v, perm)) return false;
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i) return false;
    return perm[rank - 2] == rank - 1;
}

static bool keeps_order(const tw_graph *g, int v) {
    int64_t perm[TW_ARRAY_RANK];
    if (!perm_of(g, v, perm)) return false;
    for (int i = 0; i < g->values[v].rank; i++)
        if (perm[i] != i) return false;
    return true;
}

static bool keeps_extents(const tw_graph *g, int v) {
    const tw_value *y = &g->values[v], *x = &g->values[tw_value_node(g, v)->in[0]];
    return x->rank == y->rank && !memcmp(x->dims, y->dims, sizeof(int64_t) * (size_t)x->rank);
}

/* The last dimension stays. */
static bool keeps_last(const tw_graph *g, int v) {
    const tw_value *y = &g->values[v], *x = &g->values[tw_value_node(g, v)->in[0]];
    return x->rank && y->rank && x->dims[x->rank - 1] == y->dims[y->rank - 1];
}

/* A norm whose scale is all ones, without a bias. */
static bool is_plain(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    double x;
    return n_operands(n) == 2 && tw_value_uniform(g, n->in[1], &x) && x == 1;
}

static bool has_no_bias(const tw_graph *g, int v) {
    return n_operands(tw_value_node(g, v)) == 2;
}

static bool has_no_activation(const tw_node *n) {
    return !strcmp(tw_node_text(n, "activation", "none"), "none");
}

/* A Product: y = activation(alpha A B + bias) * mul + residual. */
static bool is_bare(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    return n_operands(n) == 2 && has_no_activation(n);
}
/* A bias can still be added, before or after a residual. */
static bool has_room_for_bias(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    return has_no_activation(n) && !tw_node_has(n, 2) && !tw_node_has(n, 3);
}
static bool is_linear(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    return has_no_activation(n) && !tw_node_has(n, 3) && !tw_node_has(n, 4);
}
static bool has_no_mul(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    return !tw_node_has(n, 3) && !tw_node_has(n, 4);
}
static bool has_no_residual(const tw_graph *g, int v) {
    return !tw_node_has(tw_value_node(g, v), 4);
}
/* A, which is [rows, k], tw_node_has its rows in several dimensions before it is reshaped. */
static bool has_rows_apart(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_node *shape = tw_value_node(g, n->in[0]);
    const tw_value *a = &g->values[n->in[0]];
    if (!shape || strcmp(shape->op, "Reshape") != 0 || a->rank != 2 || tw_node_integer(n, "trans_a", 0) ||
        !is_linear(g, v))
        return false;
    const tw_value *x = &g->values[shape->in[0]];
    return g->values[n->in[1]].rank == 2 && x->rank > 2 && x->dims[x->rank - 1] == a->dims[1] &&
           (!tw_node_has(n, 2) || is_row(g, n->in[2]));
}

/* Both operands have the result's extents. */
static bool is_alike(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *y = &g->values[v];
    for (int i = 0; i < 2; i++) {
        const tw_value *x = &g->values[n->in[i]];
        if (x->rank != y->rank || memcmp(x->dims, y->dims, sizeof(int64_t) * (size_t)y->rank) != 0) return false;
    }
    return true;
}

static bool is_by_erf(const tw_graph *g, int v) {
    return !strcmp(tw_node_text(tw_value_node(g, v), "approximate", "none"), "none");
}

static bool is_by_tanh(const tw_graph *g, int v) {
    return !strcmp(tw_node_text(tw_value_node(g, v), "approximate", "none"), "tanh");
}

static bool has_alpha_1(const tw_graph *g, int v) {
    return tw_node_real(tw_value_node(g, v), "alpha", 1) == 1;
}

/* A Gather of as many as there are. */
static bool is_whole(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *x = &g->values[n->in[0]];
    const tw_array *indices = g->values[n->in[1]].content;
    return tw_axis(tw_node_integer(n, "axis", 0), x->rank) == 0 && indices && tw_array_elements(indices) == x->dims[0];
}

/* A GatherND that takes each element once, in order. */
static bool takes_all(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *x = &g->values[n->in[0]];
    const tw_array *at = g->values[n->in[1]].content;
    const int rank = x->rank;
    if (!at || at->rank < 1 || at->dims[at->rank - 1] != rank || tw_node_integer(n, "batch_dims", 0)) return false;
    const int64_t all = tw_array_elements(at);
    int64_t elements = 1, place = 0;
    for (int i = 0; i < rank; i++) elements *= x->dims[i];
    if (all != elements * rank) return false;
    for (int64_t i = 0; i < all; i++) {
        place = place * x->dims[i % rank] + tw_array_integer(at, i);
        if (i % rank < rank - 1) continue;
        if (place != i / rank) return false;
        place = 0;
    }
    return true;
}

/* A GatherND by places of the first dimension. */
static bool takes_rows(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *at = &g->values[n->in[1]];
    return at->rank && at->dims[at->rank - 1] == 1 && !tw_node_integer(n, "batch_dims", 0);
}

static bool casts_wider(const tw_graph *g, int v) {
    const tw_element from = g->values[tw_value_node(g, v)->in[0]].type, to = g->values[v].type;
    return tw_element_kind(from) == TW_KIND_real && tw_element_kind(to) == TW_KIND_real &&
           tw_element_bits(from) <= tw_element_bits(to);
}

static bool casts_real(const tw_graph *g, int v) {
    return is_real(g, v) && is_real(g, tw_value_node(g, v)->in[0]);
}

/* Reshape(Transpose(0, 2, 1)(x)), which splits the first dimension: a Transpose of the last two. */
static bool swaps_apart(const tw_graph *g, int v) {
    const int swapped = tw_value_node(g, v)->in[0];
    const tw_value *y = &g->values[v], *m = &g->values[swapped];
    const int n = y->rank;
    return n > 3 && m->rank == 3 && tw_has_perm(g, swapped, (const int64_t[]){0, 2, 1}, 3) &&
           y->dims[n - 2] == m->dims[1] && y->dims[n - 1] == m->dims[2];
}

static const tw_check_row table[] = {
    {"constant", is_constant},
    {"scalar", tw_is_scalar},
    {"uniform", is_uniform},
    {"hides", hides},
    {"hides_all", hides_all},
    {"row", is_row},
    {"rank_3", has_rank_3},
    {"rank_4", has_rank_4},
    {"real", is_real},
    {"true", is_true},
    {"counts", counts},
    {"last", tw_is_last},
    {"swaps_last", swaps_last},
    {"keeps_order", keeps_order},
    {"keeps_extents", keeps_extents},
    {"keeps_last", keeps_last},
    {"plain", is_plain},
    {"no_bias", has_no_bias},
    {"bare", is_bare},
    {"unbiased", has_room_for_bias},
    {"linear", is_linear},
    {"no_mul", has_no_mul},
    {"no_residual", has_no_residual},
    {"rows_apart", has_rows_apart},
    {"wider", casts_wider},
    {"real_cast", casts_real},
    {"swaps_apart", swaps_apart},
    {"alike", is_alike},
    {"by_erf", is_by_erf},
    {"by_tanh", is_by_tanh},
    {"of_one", has_alpha_1},
    {"whole", is_whole},
    {"all", takes_all},
    {"rows", takes_rows},
    {"half_of_product", tw_is_half_of_product},
};

tw_check *tw_check_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return table[i].check;
    for (const tw_check_row *r = tw_attention_checks; r->name; r++)
        if (!strcmp(r->name, name)) return r->check;
    return NULL;
}
