/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that patterns name. */
#include "graph/ops/op.h"
#include "graph/patterns/term.h"

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

static bool is_scalar(const tw_graph *g, int v) {
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
    return tw_value_uniform(g, v, &x) && (x <= -1e30 || (g->values[v].type == TW_E_f16 && x <= -65504));
}

/* Elements differ along the last dimension alone. */
static bool is_row(const tw_graph *g, int v) {
    const tw_value *x = &g->values[v];
    for (int i = 0; i + 1 < x->rank; i++)
        if (x->dims[i] != 1) return false;
    return x->rank > 0;
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

static bool has(const tw_node *n, int operand) {
    return operand < n->n_in && n->in[operand] >= 0;
}

/* A reduction, a softmax or a concatenation is along the last axis, which stays. */
static bool is_last(const tw_graph *g, int v) {
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

static bool has_perm(const tw_graph *g, int v, const int64_t *want, int rank) {
    int64_t perm[TW_ARRAY_RANK];
    return g->values[v].rank == rank && perm_of(g, v, perm) && !memcmp(perm, want, sizeof *want * (size_t)rank);
}

/* Heads before rows, or rows before heads. */
static bool swaps_heads(const tw_graph *g, int v) {
    return has_perm(g, v, (const int64_t[]){0, 2, 1, 3}, 4);
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
static bool is_linear(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    return has_no_activation(n) && !has(n, 3) && !has(n, 4);
}
static bool has_no_mul(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    return !has(n, 3) && !has(n, 4);
}
static bool has_no_residual(const tw_graph *g, int v) {
    return !has(tw_value_node(g, v), 4);
}
/* A, which is [rows, k], has its rows in several dimensions before it is reshaped. */
static bool has_rows_apart(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_node *shape = tw_value_node(g, n->in[0]);
    const tw_value *a = &g->values[n->in[0]];
    if (!shape || strcmp(shape->op, "Reshape") != 0 || a->rank != 2 || tw_node_integer(n, "trans_a", 0) ||
        !is_linear(g, v))
        return false;
    const tw_value *x = &g->values[shape->in[0]];
    return g->values[n->in[1]].rank == 2 && x->rank > 2 && x->dims[x->rank - 1] == a->dims[1] &&
           (!has(n, 2) || is_row(g, n->in[2]));
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

static bool casts_wider(const tw_graph *g, int v) {
    const tw_element from = g->values[tw_value_node(g, v)->in[0]].type, to = g->values[v].type;
    return tw_element_kind(from) == TW_KIND_real && tw_element_kind(to) == TW_KIND_real &&
           tw_element_bits(from) <= tw_element_bits(to);
}

static bool casts_real(const tw_graph *g, int v) {
    return is_real(g, v) && is_real(g, tw_value_node(g, v)->in[0]);
}

/* [batch][row][head][width] of rows that are [batch][row][head * width]. */
static bool splits_heads(const tw_graph *g, int v) {
    const tw_value *y = &g->values[v], *x = &g->values[tw_value_node(g, v)->in[0]];
    if (y->rank != 4 || (x->rank != 2 && x->rank != 3)) return false;
    const int64_t row = y->dims[2] * y->dims[3];
    return x->dims[x->rank - 1] == row && (x->rank == 2 || x->dims[1] == y->dims[1]);
}

/* Reshape(Transpose(0, 2, 1)(x)), which splits the first dimension: a Transpose of the last two. */
static bool swaps_apart(const tw_graph *g, int v) {
    const int swapped = tw_value_node(g, v)->in[0];
    const tw_value *y = &g->values[v], *m = &g->values[swapped];
    const int n = y->rank;
    return n > 3 && m->rank == 3 && has_perm(g, swapped, (const int64_t[]){0, 2, 1}, 3) &&
           y->dims[n - 2] == m->dims[1] && y->dims[n - 1] == m->dims[2];
}

/* Reshape(Expand(Unsqueeze(k))): each head of k is repeated for its group. */
static bool repeats_heads(const tw_graph *g, int v) {
    const tw_node *expand = tw_value_node(g, tw_value_node(g, v)->in[0]);
    const tw_value *y = &g->values[v];
    if (!expand || strcmp(expand->op, "Expand") != 0) return false;
    const tw_value *few = &g->values[expand->in[0]], *many = &g->values[tw_value_node(g, v)->in[0]];
    return y->rank == 4 && few->rank == 5 && many->rank == 5 && few->dims[2] == 1 && few->dims[1] == many->dims[1] &&
           few->dims[0] == many->dims[0] && few->dims[3] == many->dims[3] && few->dims[4] == many->dims[4] &&
           y->dims[0] == many->dims[0] && y->dims[1] == many->dims[1] * many->dims[2] && y->dims[2] == many->dims[3];
}

/* ---- rotations */

static int64_t number_at(const tw_graph *g, const tw_node *n, int operand, int64_t usual) {
    if (!has(n, operand)) return usual;
    const tw_array *a = g->values[n->in[operand]].content;
    return a && tw_array_elements(a) == 1 && tw_element_kind(a->type) == TW_KIND_integer ? tw_array_integer(a, 0)
                                                                                         : INT64_MIN;
}

/* Tells whether a Slice takes the first or the second half of the last axis. */
static bool takes(const tw_graph *g, int v, bool second) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *x = &g->values[n->in[0]];
    if (!x->rank || n->n_in < 4 || x->dims[x->rank - 1] % 2) return false;
    const int64_t all = x->dims[x->rank - 1], axis = number_at(g, n, 3, INT64_MIN);
    int64_t from = number_at(g, n, 1, INT64_MIN);
    if (from < 0) from = from < -all ? -1 : from + all;
    return tw_axis(axis, x->rank) == x->rank - 1 && number_at(g, n, 4, 1) == 1 && from == (second ? all / 2 : 0) &&
           g->values[v].dims[x->rank - 1] == all / 2;
}

static bool takes_first(const tw_graph *g, int v) {
    return takes(g, v, false);
}

static bool takes_second(const tw_graph *g, int v) {
    return takes(g, v, true);
}

/* Tells whether the second half of each row of a constant is the first once more. */
static bool repeats(const tw_array *a) {
    const int64_t n = a->dims[a->rank - 1], all = tw_array_elements(a);
    for (int64_t i = 0; i < all; i++)
        if (i % n < n / 2 && tw_array_real(a, i) != tw_array_real(a, i + n / 2)) return false;
    return true;
}

/* Angles of rows, or functions of them: the same for all heads, and each of them twice. */
static bool are_angles(const tw_graph *g, int v) {
    static const char *const ops[] = {"Cos", "Sin", "Cast", "Mul", "Reshape", "Unsqueeze", "Squeeze", "Expand"};
    const tw_value *x = &g->values[v];
    const int rank = x->rank;
    if (rank < 2 || rank > 4 || x->dims[rank - 1] % 2 || (rank > 2 && x->dims[rank - 3] != 1)) return false;
    const int64_t width = x->dims[rank - 1];
    while (!g->values[v].content) {
        const tw_node *n = tw_value_node(g, v);
        const tw_value *y = &g->values[v];
        if (!n || !y->rank || y->dims[y->rank - 1] != width) return false;
        if (!strcmp(n->op, "Concat")) return n->n_in == 2 && n->in[0] == n->in[1] && is_last(g, v);
        size_t i = 0;
        while (i < sizeof ops / sizeof *ops && strcmp(ops[i], n->op) != 0) i++;
        if (i == sizeof ops / sizeof *ops) return false;
        if (!strcmp(n->op, "Mul") && !is_scalar(g, n->in[1])) return false;
        v = n->in[0];
    }
    return g->values[v].content->dims[g->values[v].rank - 1] == width && repeats(g->values[v].content);
}

/* ---- masks of Attention */

/* Queries, keys and values have heads as a dimension. */
static bool has_heads(const tw_graph *g, int v) {
    return g->values[tw_value_node(g, v)->in[0]].rank == 4;
}

/* Returns the rows of the past. */
static int64_t past_of(const tw_graph *g, const tw_node *n) {
    return has(n, 4) ? g->values[n->in[4]].dims[2] : 0;
}

static bool mask_is(const tw_graph *g, int v, bool causal) {
    const tw_node *n = tw_value_node(g, v);
    const tw_array *m = has(n, 3) ? g->values[n->in[3]].content : NULL;
    const int64_t past = past_of(g, n), keys = g->values[n->in[1]].dims[g->values[n->in[1]].rank - 2] + past,
                  rows = g->values[n->in[0]].dims[g->values[n->in[0]].rank - 2];
    if (!m || m->rank < 2 || tw_node_integer(n, "is_causal", 0)) return false;
    const int64_t all = tw_array_elements(m), of_keys = m->dims[m->rank - 1], of_rows = m->dims[m->rank - 2];
    if (of_keys != keys && (causal || of_keys != 1)) return false;
    if (causal && of_rows != rows) return false;
    for (int64_t i = 0; i < all; i++) {
        const bool want = !causal || i % of_keys <= i / of_keys % of_rows + past;
        const double x = tw_array_real(m, i);
        const bool seen = m->type == TW_E_bool ? x != 0 : x == 0, hidden = m->type == TW_E_bool ? x == 0 : x <= -1e4;
        if (want ? !seen : !hidden) return false;
    }
    return true;
}

/* Truths of the elements on the diagonal and below it. */
static bool is_lower(const tw_graph *g, int v) {
    const tw_array *m = g->values[v].content;
    const int64_t n = m && m->rank > 1 ? m->dims[m->rank - 1] : 0, all = m ? tw_array_elements(m) : 0;
    if (n < 2 || m->dims[m->rank - 2] != n || m->type != TW_E_bool) return false;
    for (int64_t i = 0; i < all; i++)
        if ((tw_array_integer(m, i) != 0) != (i % n <= i / n % n)) return false;
    return true;
}

static bool is_infinite(const tw_graph *g, int v) {
    double x;
    return tw_value_uniform(g, v, &x) && isinf(x) && x < 0;
}

static bool has_no_past(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    return has_heads(g, v) && !past_of(g, n) && !tw_node_integer(n, "is_causal", 0);
}

static bool is_causal(const tw_graph *g, int v) {
    return mask_is(g, v, true);
}

static bool hides_nothing(const tw_graph *g, int v) {
    return mask_is(g, v, false);
}

/* A GroupQueryAttention of a prompt: no sequence has keys that are not among the rows that come with it, so that row i
   is at position i. */
static bool is_prompt(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *q = &g->values[n->in[0]];
    const bool rotates = tw_node_integer(n, "do_rotary", 0);
    const int64_t window = tw_node_integer(n, "local_window_size", -1);
    if (q->rank != 3 || number_at(g, n, 6, 0) != q->dims[1] || has(n, 10) || (has(n, 9) && !rotates)) return false;
    if (has(n, 3) && g->values[n->in[3]].dims[2]) return false;
    if (rotates && (!has(n, 7) || !has(n, 8) || g->values[n->in[7]].rank != 2)) return false;
    return window < 1 || window >= q->dims[1];
}

static bool has_scale(const tw_graph *g, int v) {
    return tw_node_real(tw_value_node(g, v), "scale", 0) != 0;
}

/* A RotaryEmbedding with a position for each row. */
static bool has_positions(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *x = &g->values[n->in[0]], *places = &g->values[n->in[1]];
    return places->rank == 2 && places->dims[1] == x->dims[x->rank - 2] &&
           (x->rank == 4 || tw_node_integer(n, "num_heads", 0));
}

static const struct {
    const char *name;
    tw_check *check;
} table[] = {
    {"constant", is_constant},
    {"scalar", is_scalar},
    {"uniform", is_uniform},
    {"hides", hides},
    {"hides_all", hides_all},
    {"row", is_row},
    {"rank_4", has_rank_4},
    {"real", is_real},
    {"true", is_true},
    {"counts", counts},
    {"last", is_last},
    {"swaps_heads", swaps_heads},
    {"swaps_last", swaps_last},
    {"keeps_order", keeps_order},
    {"keeps_extents", keeps_extents},
    {"plain", is_plain},
    {"no_bias", has_no_bias},
    {"bare", is_bare},
    {"linear", is_linear},
    {"no_mul", has_no_mul},
    {"no_residual", has_no_residual},
    {"rows_apart", has_rows_apart},
    {"wider", casts_wider},
    {"real_cast", casts_real},
    {"splits_heads", splits_heads},
    {"swaps_apart", swaps_apart},
    {"repeats_heads", repeats_heads},
    {"causal", is_causal},
    {"hides_nothing", hides_nothing},
    {"heads", has_heads},
    {"prompt", is_prompt},
    {"scaled", has_scale},
    {"positions", has_positions},
    {"lower", is_lower},
    {"infinite", is_infinite},
    {"no_past", has_no_past},
    {"first_half", takes_first},
    {"second_half", takes_second},
    {"angles", are_angles},
    {"alike", is_alike},
    {"by_erf", is_by_erf},
    {"by_tanh", is_by_tanh},
    {"of_one", has_alpha_1},
    {"whole", is_whole},
    {"all", takes_all},
};

tw_check *tw_check_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return table[i].check;
    return NULL;
}
