/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of attention, of its masks, and of rotations. */
#include "graph/ops/op.h"
#include "graph/patterns/checks.h"
#include "graph/patterns/groups.h"

#include <math.h>
#include <string.h>

/* ---- heads */

/* Heads before rows, or rows before heads. */
static bool swaps_heads(const tw_graph *g, int v) {
    return tw_has_perm(g, v, (const int64_t[]){0, 2, 1, 3}, 4);
}

/* [batch][row][head][width] of rows that are [batch][row][head * width]. */
static bool splits_heads(const tw_graph *g, int v) {
    const tw_value *y = &g->values[v], *x = &g->values[tw_value_node(g, v)->in[0]];
    if (y->rank != 4 || (x->rank != 2 && x->rank != 3)) return false;
    const int64_t row = y->dims[2] * y->dims[3];
    return x->dims[x->rank - 1] == row && (x->rank == 2 || x->dims[1] == y->dims[1]);
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

/* Tells whether three dimensions are four, of which the first two are one. */
static bool are_joined(const tw_value *three, const tw_value *four) {
    return three->rank == 3 && four->rank == 4 && four->dims[0] * four->dims[1] == three->dims[0] &&
           four->dims[2] == three->dims[1] && four->dims[3] == three->dims[2];
}

/* A Reshape that makes batch and heads of one dimension. */
static bool splits_first(const tw_graph *g, int v) {
    return are_joined(&g->values[tw_value_node(g, v)->in[0]], &g->values[v]);
}

/* One that makes one dimension of them. */
static bool joins_first(const tw_graph *g, int v) {
    return are_joined(&g->values[v], &g->values[tw_value_node(g, v)->in[0]]);
}

/* ---- rotations */

static int64_t number_at(const tw_graph *g, const tw_node *n, int operand, int64_t usual) {
    if (!tw_node_has(n, operand)) return usual;
    const tw_array *a = g->values[n->in[operand]].content;
    return a && tw_array_elements(a) == 1 && tw_element_kind(a->type) == TW_KIND_integer ? tw_array_integer(a, 0)
                                                                                         : INT64_MIN;
}

bool tw_is_end(const tw_graph *g, int v, bool back) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *x = &g->values[n->in[0]], *y = &g->values[v];
    if (!x->rank || n->n_in < 4) return false;
    const int last = x->rank - 1;
    int64_t from = number_at(g, n, 1, INT64_MIN);
    if (from < 0) from = from < -x->dims[last] ? -1 : from + x->dims[last];
    return tw_axis(number_at(g, n, 3, INT64_MIN), x->rank) == last && number_at(g, n, 4, 1) == 1 &&
           from == (back ? x->dims[last] - y->dims[last] : 0);
}

static bool is_front(const tw_graph *g, int v) {
    return tw_is_end(g, v, false);
}

static bool is_back(const tw_graph *g, int v) {
    return tw_is_end(g, v, true);
}

/* A half of the last axis. */
static bool is_half(const tw_graph *g, int v, bool second) {
    const tw_value *x = &g->values[tw_value_node(g, v)->in[0]], *y = &g->values[v];
    return tw_is_end(g, v, second) && 2 * y->dims[x->rank - 1] == x->dims[x->rank - 1];
}

static bool takes_first(const tw_graph *g, int v) {
    return is_half(g, v, false);
}

static bool takes_second(const tw_graph *g, int v) {
    return is_half(g, v, true);
}

/* Tells whether elements of each row of a constant come twice: halves are alike, or neighbours. */
static bool repeats(const tw_array *a, bool neighbours) {
    const int64_t n = a->dims[a->rank - 1], all = tw_array_elements(a);
    for (int64_t i = 0; i < all; i++) {
        const bool first = neighbours ? i % n % 2 == 0 : i % n < n / 2;
        if (first && tw_array_real(a, i) != tw_array_real(a, i + (neighbours ? 1 : n / 2))) return false;
    }
    return true;
}

/* Tells whether all dimensions but the last of the one with fewer are those of the other. */
static bool begin_alike(const tw_value *x, const tw_value *y) {
    const int rank = (x->rank < y->rank ? x->rank : y->rank) - 1;
    return rank >= 0 && !memcmp(x->dims, y->dims, sizeof(int64_t) * (size_t)rank);
}

/* A Reshape that makes one dimension of the last two, of which the last has 2 elements. */
static bool joins_pairs(const tw_graph *g, int v) {
    const tw_value *y = &g->values[v], *x = &g->values[tw_value_node(g, v)->in[0]];
    return x->rank == y->rank + 1 && x->rank > 1 && x->dims[x->rank - 1] == 2 && begin_alike(x, y) &&
           y->dims[y->rank - 1] == 2 * x->dims[x->rank - 2];
}

/* A Reshape that adds a last dimension of 1. */
static bool adds_one(const tw_graph *g, int v) {
    const tw_value *y = &g->values[v], *x = &g->values[tw_value_node(g, v)->in[0]];
    return y->rank == x->rank + 1 && x->rank && y->dims[x->rank] == 1 && begin_alike(x, y) &&
           y->dims[x->rank - 1] == x->dims[x->rank - 1];
}

/* Each element comes twice, one beside the other: Reshape of Expand, or of Tile. */
static bool are_twins(const tw_graph *g, int v) {
    const tw_node *n = tw_value_node(g, v), *pairs = n && n->n_in ? tw_value_node(g, n->in[0]) : NULL;
    if (!pairs || strcmp(n->op, "Reshape") != 0 || !joins_pairs(g, v)) return false;
    if (strcmp(pairs->op, "Expand") != 0 && strcmp(pairs->op, "Tile") != 0) return false;
    const tw_value *x = &g->values[pairs->in[0]], *y = &g->values[n->in[0]];
    return x->rank == y->rank && x->dims[x->rank - 1] == 1 && begin_alike(x, y);
}

/* Tells whether the last dimension of a value has each element twice: side by side with `neighbours`, otherwise in its
   two halves. The value is a constant, or is computed from one element by element. */
static bool come_twice(const tw_graph *g, int v, bool neighbours) {
    static const char *const ops[] = {"Cos", "Sin", "Cast", "Mul", "Reshape", "Unsqueeze", "Squeeze", "Expand"};
    const int64_t width = g->values[v].dims[g->values[v].rank - 1];
    while (!g->values[v].content) {
        const tw_node *n = tw_value_node(g, v);
        const tw_value *y = &g->values[v];
        if (!n || !y->rank || y->dims[y->rank - 1] != width) return false;
        if (neighbours && are_twins(g, v)) return true;
        if (!neighbours && !strcmp(n->op, "Concat")) return n->n_in == 2 && n->in[0] == n->in[1] && tw_is_last(g, v);
        size_t i = 0;
        while (i < sizeof ops / sizeof *ops && strcmp(ops[i], n->op) != 0) i++;
        if (i == sizeof ops / sizeof *ops) return false;
        if (!strcmp(n->op, "Mul") && !tw_is_scalar(g, n->in[1])) return false;
        v = n->in[0];
    }
    const tw_array *a = g->values[v].content;
    return a->rank && a->dims[a->rank - 1] == width && repeats(a, neighbours);
}

/* Angles of rows, or functions of them: the same for all heads, which are the dimension `heads` from the end. */
static bool angles_of(const tw_graph *g, int v, int heads, bool neighbours) {
    const tw_value *x = &g->values[v];
    const int rank = x->rank;
    if (rank < 2 || rank > 4 || x->dims[rank - 1] % 2 || (rank >= heads && x->dims[rank - heads] != 1)) return false;
    return come_twice(g, v, neighbours);
}

/* Each of them comes twice, in halves. */
static bool are_angles(const tw_graph *g, int v) {
    return angles_of(g, v, 3, false);
}

/* Each of them comes twice, one beside the other. */
static bool are_twin_angles(const tw_graph *g, int v) {
    return angles_of(g, v, 3, true);
}

/* The same, where rows come before heads. */
static bool are_twin_angles_of_rows(const tw_graph *g, int v) {
    return g->values[v].rank == 4 && angles_of(g, v, 2, true);
}

/* Every second element of the last axis, from the first or from the second one. */
static bool is_every_second(const tw_graph *g, int v, int64_t from) {
    const tw_node *n = tw_value_node(g, v);
    const tw_value *x = &g->values[n->in[0]], *y = &g->values[v];
    if (!x->rank || n->n_in < 5) return false;
    const int last = x->rank - 1;
    return tw_axis(number_at(g, n, 3, INT64_MIN), x->rank) == last && number_at(g, n, 4, 1) == 2 &&
           number_at(g, n, 1, INT64_MIN) == from && 2 * y->dims[last] == x->dims[last];
}

static bool is_even(const tw_graph *g, int v) {
    return is_every_second(g, v, 0);
}

static bool is_odd(const tw_graph *g, int v) {
    return is_every_second(g, v, 1);
}

/* Takes what comes twice once. */
static bool picks(const tw_graph *g, int v) {
    return is_even(g, v) || takes_first(g, v);
}

/* ---- masks of Attention */

/* Queries, keys and values have heads as a dimension. */
static bool has_heads(const tw_graph *g, int v) {
    return g->values[tw_value_node(g, v)->in[0]].rank == 4;
}

/* Returns the rows of the past. */
static int64_t past_of(const tw_graph *g, const tw_node *n) {
    return tw_node_has(n, 4) ? g->values[n->in[4]].dims[2] : 0;
}

static bool mask_is(const tw_graph *g, int v, bool causal) {
    enum { BLOCK = 256 };
    const tw_node *n = tw_value_node(g, v);
    const tw_array *m = tw_node_has(n, 3) ? g->values[n->in[3]].content : NULL;
    const int64_t past = past_of(g, n), keys = g->values[n->in[1]].dims[g->values[n->in[1]].rank - 2] + past,
                  rows = g->values[n->in[0]].dims[g->values[n->in[0]].rank - 2];
    if (!m || m->rank < 2 || tw_node_integer(n, "is_causal", 0)) return false;
    const bool truths = m->type == TW_E_bool;
    const int64_t all = tw_array_elements(m), of_keys = m->dims[m->rank - 1], of_rows = m->dims[m->rank - 2];
    if (all < 1 || (of_keys != keys && (causal || of_keys != 1))) return false;
    if (causal && of_rows != rows) return false;
    double x[BLOCK];
    for (int64_t row = 0; row < all / of_keys; row++)
        for (int64_t from = 0; from < of_keys; from += BLOCK) {
            const int64_t some = of_keys - from < BLOCK ? of_keys - from : BLOCK;
            const int64_t last = causal ? row % of_rows + past : INT64_MAX; /* The last key that it sees. */
            tw_array_get_reals(m, row * of_keys + from, some, x);
            for (int64_t i = 0; i < some; i++) {
                const bool seen = truths ? x[i] != 0 : x[i] == 0, hidden = truths ? x[i] == 0 : x[i] <= -1e4;
                if (from + i <= last ? !seen : !hidden) return false;
            }
        }
    return true;
}

/* Tells whether each row of a constant has an element that is true, or false. */
static bool has_in_rows(const tw_graph *g, int v, bool truth) {
    const tw_array *m = g->values[v].content;
    const int64_t all = m ? tw_array_elements(m) : 0, columns = m && m->rank ? m->dims[m->rank - 1] : 1;
    if (all < 1 || m->type != TW_E_bool) return false;
    for (int64_t row = 0; row < all / columns; row++) {
        bool any = false;
        for (int64_t i = 0; i < columns && !any; i++) any = (tw_array_integer(m, row * columns + i) != 0) == truth;
        if (!any) return false;
    }
    return true;
}

static bool has_true(const tw_graph *g, int v) {
    return has_in_rows(g, v, true);
}

static bool has_false(const tw_graph *g, int v) {
    return has_in_rows(g, v, false);
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
    return !past_of(g, n) && !tw_node_integer(n, "is_causal", 0);
}

static bool is_causal(const tw_graph *g, int v) {
    return mask_is(g, v, true);
}

static bool hides_nothing(const tw_graph *g, int v) {
    return mask_is(g, v, false);
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

const tw_check_row tw_attention_checks[] = {
    {"swaps_heads", swaps_heads},
    {"splits_heads", splits_heads},
    {"repeats_heads", repeats_heads},
    {"causal", is_causal},
    {"hides_nothing", hides_nothing},
    {"heads", has_heads},
    {"prompt", tw_is_prompt},
    {"groups", tw_is_groups},
    {"scaled", has_scale},
    {"positions", has_positions},
    {"some_true", has_true},
    {"some_false", has_false},
    {"lower", is_lower},
    {"infinite", is_infinite},
    {"no_past", has_no_past},
    {"front", is_front},
    {"back", is_back},
    {"first_half", takes_first},
    {"second_half", takes_second},
    {"splits_first", splits_first},
    {"joins_first", joins_first},
    {"angles", are_angles},
    {"twin_angles", are_twin_angles},
    {"twin_angles_of_rows", are_twin_angles_of_rows},
    {"twins", are_twins},
    {"joins_pairs", joins_pairs},
    {"adds_one", adds_one},
    {"even", is_even},
    {"odd", is_odd},
    {"picks", picks},
    {NULL, NULL},
};
