/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "graph/ops/op.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"

#include <string.h>

static bool is_op(const tw_node *n, const char *op) {
    return n && !*n->domain && !strcmp(n->op, op);
}

/* ---- Reshape, and what does the same */

static bool keeps_order(const tw_node *n) {
    return is_op(n, "Reshape") || is_op(n, "Flatten") || is_op(n, "Squeeze") || is_op(n, "Unsqueeze");
}

/* Whether a node's second operand is a constant, the extents of its result. */
static bool has_plain_extents(const tw_graph *g, const tw_node *n) {
    const tw_value *y = &g->values[n->out[0]];
    const tw_array *a = n->n_in == 2 ? g->values[n->in[1]].content : NULL;
    if (!a || a->type != TW_E_i64 || a->rank != 1 || a->dims[0] != y->rank) return false;
    for (int i = 0; i < y->rank; i++)
        if (tw_array_integer(a, i) != y->dims[i]) return false;
    return true;
}

static bool is_empty(const tw_value *v) {
    tw_array a;
    return !tw_value_array(v, &a) || tw_array_elements(&a) == 0;
}

/* Makes a node a Reshape of what the reshapes before it began with, to extents that are numbers. */
static void merge_reshape(tw_rewrite *w, tw_node *n) {
    const tw_value y = w->g->values[n->out[0]];
    const tw_node *before = tw_rewrite_producer(w, n->in[0]);
    const bool plain = is_op(n, "Reshape") && !n->n_attributes && has_plain_extents(w->g, n);
    /* Old versions have no Reshape to given extents. */
    if (!tw_op_find(n->domain, "Reshape", n->version)) return;
    /* Extents of 0 mean others. */
    if (is_empty(&y) || (plain && !keeps_order(before))) return;
    const int from = keeps_order(before) ? before->in[0] : n->in[0];
    const int extents = plain ? n->in[1] : tw_rewrite_integers(w, y.dims, y.rank);
    tw_rewrite_op(w, n, "Reshape");
    n->n_attributes = 0;
    tw_rewrite_operands(w, n, (int[]){from, extents}, 2);
}

/* ---- Transpose */

static void get_perm(const tw_graph *g, const tw_node *n, int perm[TW_ARRAY_RANK]) {
    const tw_attribute *a = tw_node_attribute(n, "perm");
    const int rank = g->values[n->in[0]].rank;
    for (int i = 0; i < rank; i++) perm[i] = a ? (int)tw_array_integer(a->array, i) : rank - 1 - i;
}

/* Makes a node a Transpose of a value. */
static void make_transpose(tw_rewrite *w, tw_node *n, int from, const int *perm, int rank) {
    tw_arena *arena = &w->g->arena;
    int64_t *list = tw_arena_array(arena, (size_t)rank + 1, sizeof *list);
    tw_array *array = tw_arena_alloc(arena, sizeof *array);
    tw_attribute *a = tw_arena_alloc(arena, sizeof *a);
    if (!list || !array || !a) {
        w->st = TW_ERR_MEMORY;
        return;
    }
    for (int i = 0; i < rank; i++) list[i] = perm[i];
    *array = (tw_array){.type = TW_E_i64, .rank = 1, .dims = {rank}, .data = list};
    *a = (tw_attribute){.name = "perm", .kind = TW_ATTRIBUTE_ARRAY, .array = array};
    tw_rewrite_op(w, n, "Transpose");
    n->attributes = a;
    n->n_attributes = 1;
    tw_rewrite_operands(w, n, &from, 1);
}

static void merge_transpose(tw_rewrite *w, tw_node *n) {
    const tw_node *before = tw_rewrite_producer(w, n->in[0]);
    int p[TW_ARRAY_RANK], q[TW_ARRAY_RANK], both[TW_ARRAY_RANK];
    if (!is_op(before, "Transpose")) return;
    const int rank = w->g->values[n->in[0]].rank;
    get_perm(w->g, before, p);
    get_perm(w->g, n, q);
    for (int i = 0; i < rank; i++) both[i] = p[q[i]];
    make_transpose(w, n, before->in[0], both, rank);
}

/* Finds which dimensions of a make up each dimension of b: from[j] to below from[j + 1]. False: some do not. */
static bool group(const tw_value *a, const tw_value *b, int from[TW_ARRAY_RANK + 1]) {
    int at = 0;
    for (int j = 0; j < b->rank; j++) {
        int64_t n = 1;
        from[j] = at;
        while (at < a->rank && n < b->dims[j]) n *= a->dims[at++];
        if (n != b->dims[j]) return false;
    }
    while (at < a->rank && a->dims[at] == 1 && b->rank) at++;
    from[b->rank] = at;
    return at == a->rank;
}

/* Reshape of Transpose of Reshape, where dimensions that were joined are moved together and then come apart again, is a
   Transpose. Exporters write products of more than three dimensions so. */
static bool merge_moved(tw_rewrite *w, tw_node *n) {
    const tw_graph *g = w->g;
    const tw_node *moved = tw_rewrite_producer(w, n->in[0]);
    const tw_node *joined = is_op(moved, "Transpose") ? tw_rewrite_producer(w, moved->in[0]) : NULL;
    if (!is_op(n, "Reshape") || !joined || !keeps_order(joined)) return false;
    const tw_value *a = &g->values[joined->in[0]], *b = &g->values[joined->out[0]], *y = &g->values[n->out[0]];
    int from[TW_ARRAY_RANK + 1], perm[TW_ARRAY_RANK], all[TW_ARRAY_RANK], rank = 0;
    if (is_empty(y) || is_empty(a) || a->rank != y->rank || !group(a, b, from)) return false;
    get_perm(g, moved, perm);
    for (int j = 0; j < b->rank; j++)
        for (int i = from[perm[j]]; i < from[perm[j] + 1]; i++) all[rank++] = i;
    for (int i = 0; i < rank; i++)
        if (a->dims[all[i]] != y->dims[i]) return false;
    make_transpose(w, n, joined->in[0], all, rank);
    return true;
}

/* ---- Cast */

/* Whether every value of a type is a value of another. */
static bool holds_all(tw_element from, tw_element to) {
    const tw_kind a = tw_element_kind(from), b = tw_element_kind(to);
    const int bits = tw_element_bits(from), room = tw_element_bits(to);
    if (from == to) return true;
    if (a == TW_KIND_other || b == TW_KIND_other || b == TW_KIND_truth) return false;
    if (a == TW_KIND_truth) return true;
    if (a == TW_KIND_real) return b == TW_KIND_real && room > bits;
    if (b == TW_KIND_real) return bits < (to == TW_E_f64 ? 53 : to == TW_E_f32 ? 24 : to == TW_E_f16 ? 11 : 8);
    return a == b ? room > bits : a == TW_KIND_natural && room > bits;
}

static void merge_cast(tw_rewrite *w, tw_node *n) {
    tw_graph *g = w->g;
    const tw_node *before = tw_rewrite_producer(w, n->in[0]);
    if (is_op(before, "Cast") && holds_all(g->values[before->in[0]].type, g->values[n->in[0]].type))
        tw_rewrite_operands(w, n, before->in, 1);
}

/* Makes a CastLike a Cast. */
static void plain_cast(tw_rewrite *w, tw_node *n) {
    tw_attribute *to = tw_arena_alloc(&w->g->arena, sizeof *to);
    if (!to) {
        w->st = TW_ERR_MEMORY;
        return;
    }
    *to = (tw_attribute){
        .name = "to", .kind = TW_ATTRIBUTE_INT, .integer = tw_element_onnx(w->g->values[n->out[0]].type)};
    tw_rewrite_op(w, n, "Cast");
    n->attributes = to;
    n->n_attributes = 1;
    tw_rewrite_operands(w, n, n->in, 1);
}

/* ---- others */

/* Takes operands without elements out of a Concat, such as a cache before the first token. */
static void drop_empty(tw_rewrite *w, tw_node *n) {
    int in[TW_ARRAY_RANK * TW_ARRAY_RANK], kept = 0;
    if (n->n_in > (int)(sizeof in / sizeof *in) || is_empty(&w->g->values[n->out[0]])) return;
    for (int i = 0; i < n->n_in; i++)
        if (!is_empty(&w->g->values[n->in[i]])) in[kept++] = n->in[i];
    if (kept < n->n_in) tw_rewrite_operands(w, n, in, kept);
}

static void merge_expand(tw_rewrite *w, tw_node *n) {
    const tw_node *before = tw_rewrite_producer(w, n->in[0]);
    if (is_op(before, "Expand") && has_plain_extents(w->g, n)) {
        const int in[] = {before->in[0], n->in[1]};
        tw_rewrite_operands(w, n, in, 2);
    }
}

static void merge(tw_rewrite *w, tw_node *n) {
    if (*n->domain || n->n_out < 1 || n->out[0] < 0) return;
    if (merge_moved(w, n)) return;
    if (keeps_order(n)) merge_reshape(w, n);
    if (is_op(n, "Transpose")) merge_transpose(w, n);
    if (is_op(n, "CastLike")) plain_cast(w, n);
    if (is_op(n, "Cast")) merge_cast(w, n);
    if (is_op(n, "Concat")) drop_empty(w, n);
    if (is_op(n, "Expand")) merge_expand(w, n);
}

tw_status tw_pass_merges(tw_graph *g, bool *changed, tw_diag *diag) {
    tw_rewrite w;
    if (!tw_rewrite_begin(&w, g)) return tw_fail_memory(diag);
    for (tw_node *n; (n = tw_rewrite_next(&w));) {
        merge(&w, n);
        tw_rewrite_put(&w, n);
    }
    return tw_rewrite_end(&w, changed, diag);
}
