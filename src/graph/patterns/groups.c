/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/groups.h"

#include "graph/ops/op.h"
#include "graph/patterns/checks.h"

#include <math.h>
#include <string.h>

/* Operands of a GroupQueryAttention. */
enum { Q, K, V, PAST_K, PAST_V, COUNTS, TOTAL, COSINE, SINE, POSITIONS, BIAS, SINKS };

/* A GroupQueryAttention. Its node is a copy, since nodes move when others are added. */
typedef struct group {
    tw_node n;
    int64_t batch, rows, heads, kv_heads;
    int64_t width;   /* Elements of a head. */
    int64_t total;   /* Keys of the longest sequence, new ones included. */
    int64_t present; /* Rows of the caches that come out. */
    int64_t window;  /* Keys that a query sees at most. 0: all. */
    bool first;      /* No sequence has keys but the new ones. */
    bool causal;     /* Queries see no later keys. */
} group;

static bool group_of(const tw_graph *g, int value, group *out) {
    const tw_node *n = tw_value_node(g, value);
    const tw_value *q = &g->values[n->in[Q]], *total = &g->values[n->in[TOTAL]];
    const int64_t window = tw_node_integer(n, "local_window_size", -1);
    group x = {.n = *n,
               .heads = tw_node_integer(n, "num_heads", 0),
               .kv_heads = tw_node_integer(n, "kv_num_heads", 0),
               .window = window > 0 ? window : 0};
    if (q->rank != 3 || !total->content || tw_array_elements(total->content) != 1 || x.heads < 1 || x.kv_heads < 1)
        return false;
    x.batch = q->dims[0];
    x.rows = q->dims[1];
    x.width = q->dims[2] / (tw_node_has(n, K) ? x.heads : x.heads + 2 * x.kv_heads);
    x.total = tw_array_integer(total->content, 0);
    x.first = x.total == x.rows;
    x.causal = tw_node_integer(n, "causal", 1);
    x.present = x.total;
    if (tw_node_has(n, PAST_K) && g->values[n->in[PAST_K]].dims[2] > x.present)
        x.present = g->values[n->in[PAST_K]].dims[2];
    if (x.window >= x.total) x.window = 0;
    *out = x;
    return x.rows > 0 && x.batch > 0 && x.present <= INT32_MAX && x.width > 0;
}

bool tw_is_groups(const tw_graph *g, int value) {
    group x;
    if (!group_of(g, value, &x)) return false;
    const bool rotates = tw_node_integer(&x.n, "do_rotary", 0);
    if (tw_node_has(&x.n, POSITIONS) && !rotates) return false;
    if (rotates && (!tw_node_has(&x.n, COSINE) || !tw_node_has(&x.n, SINE) || g->values[x.n.in[COSINE]].rank != 2 ||
                    g->values[x.n.in[COSINE]].dims[0] < x.rows))
        return false;
    if (!tw_node_has(&x.n, BIAS)) return true;
    const tw_value *bias = &g->values[x.n.in[BIAS]];
    return bias->rank == 4 && bias->dims[3] >= x.total && bias->dims[2] == x.rows;
}

bool tw_is_prompt(const tw_graph *g, int value) {
    group x;
    return tw_is_groups(g, value) && group_of(g, value, &x) && x.first && x.causal && !x.window &&
           !tw_node_has(&x.n, BIAS);
}

/* ---- places */

static tw_attribute *integer(tw_maker *k, const char *name, int64_t x) {
    tw_attribute *a = tw_arena_alloc(&k->g->arena, sizeof *a);
    if (a) *a = (tw_attribute){.name = name, .kind = TW_ATTRIBUTE_INT, .integer = x};
    return a;
}

static int cast(tw_maker *k, int x, tw_element to) {
    tw_attribute *a = integer(k, "to", tw_element_onnx(to));
    return a ? tw_make_op(k, "Cast", &x, 1, a, 1, -1) : -1;
}

/* Adds from, from + 1 and so on, as rows of a matrix or as its only row. */
static int range(tw_maker *k, int64_t from, int64_t n, bool rows) {
    int32_t *data = tw_arena_array(&k->g->arena, (size_t)n + 1, sizeof *data);
    if (!data) return -1;
    for (int64_t i = 0; i < n; i++) data[i] = (int32_t)(from + i);
    return tw_make_constant(
        k, &(tw_array){.type = TW_E_i32, .rank = 2, .dims = {rows ? n : 1, rows ? 1 : n}, .data = data});
}

/* Adds the place of each sequence's first new row, as a column. A prompt that is padded behind its end begins at 0.
   Whatever counts are, no sum is beyond 32 bits. */
static int first_places(tw_maker *k, const group *x) {
    if (x->first) return range(k, 0, 1, true);
    const int keys = tw_make_reshape(k, x->n.in[COUNTS], 2, (const int64_t[]){x->batch, 1}, -1);
    const int last = tw_make_op(k, "Max", (int[]){keys, range(k, x->rows - 1, 1, true)}, 2, NULL, 0, -1);
    return tw_make_op(k, "Add", (int[]){last, range(k, 1 - x->rows, 1, true)}, 2, NULL, 0, -1);
}

/* Adds the number of the new row that each place of a cache has; before the first one it is below 0. */
static int new_rows(tw_maker *k, const group *x) {
    return tw_make_op(k, "Sub", (int[]){range(k, 0, x->present, false), first_places(k, x)}, 2, NULL, 0, -1);
}

/* ---- operands of attention */

/* Adds RotaryEmbedding of one operand of attention, by angles of its rows' positions. */
static int rotate(tw_maker *k, const group *x, int value, int64_t heads) {
    const tw_node *n = &x->n;
    const tw_value angles = k->g->values[n->in[COSINE]];
    const bool placed = tw_node_has(n, POSITIONS) || !x->first;
    const int64_t width = angles.dims[1], dims[] = {1, x->rows, width};
    int in[] = {value, n->in[COSINE], n->in[SINE], -1};
    tw_attribute *a = tw_arena_array(&k->g->arena, 3, sizeof *a);
    if (!a) return -1;
    a[0] = (tw_attribute){.name = "num_heads", .kind = TW_ATTRIBUTE_INT, .integer = heads};
    a[1] = (tw_attribute){
        .name = "interleaved", .kind = TW_ATTRIBUTE_INT, .integer = tw_node_integer(n, "rotary_interleaved", 0) != 0};
    a[2] = (tw_attribute){.name = "rotary_embedding_dim", .kind = TW_ATTRIBUTE_INT, .integer = 2 * width};
    if (tw_node_has(n, POSITIONS)) {
        in[3] = n->in[POSITIONS];
    } else if (placed) {
        const int operands[] = {first_places(k, x), range(k, 0, x->rows, false)};
        in[3] = cast(k, tw_make_op(k, "Add", operands, 2, NULL, 0, -1), TW_E_i64);
    }
    for (int i = 1; i < 3 && !placed; i++) in[i] = tw_make_slice(k, in[i], 0, 0, x->rows, 1);
    for (int i = 1; i < 3 && !placed && in[i] >= 0; i++) in[i] = tw_make_reshape(k, in[i], 3, dims, -1);
    return tw_make_op(k, "RotaryEmbedding", in, placed ? 4 : 3, a, 3, -1);
}

/* Makes what is attended: queries, keys or values, which may lie beside one another in the queries. */
static int part_of(tw_maker *k, int value, int which) {
    group x;
    if (!group_of(k->g, value, &x)) return -1;
    const int64_t heads = which == Q ? x.heads : x.kv_heads;
    int part = x.n.in[which];
    if (!tw_node_has(&x.n, K)) {
        const int64_t from = which == Q ? 0 : which == K ? x.heads : x.heads + x.kv_heads;
        part = tw_make_slice(k, x.n.in[Q], 2, from * x.width, (from + heads) * x.width, 1);
    }
    return part < 0 || which == V || !tw_node_integer(&x.n, "do_rotary", 0) ? part : rotate(k, &x, part, heads);
}

int tw_make_queries(tw_maker *k, const int *args, int n, int want) {
    (void)n, (void)want;
    return part_of(k, args[0], Q);
}

int tw_make_keys(tw_maker *k, const int *args, int n, int want) {
    (void)n, (void)want;
    return part_of(k, args[0], K);
}

int tw_make_values(tw_maker *k, const int *args, int n, int want) {
    (void)n, (void)want;
    return part_of(k, args[0], V);
}

/* Makes a cache of new rows alone. */
static int turned(tw_maker *k, const group *x, int value, int want) {
    static const int64_t by_heads[] = {0, 2, 1, 3};
    const int64_t dims[] = {x->batch, x->rows, x->kv_heads, x->width};
    int64_t *perm = tw_arena_array(&k->g->arena, 4, sizeof *perm);
    if (perm) memcpy(perm, by_heads, sizeof by_heads);
    return tw_make_transpose(k, tw_make_reshape(k, value, 4, dims, -1), perm, want);
}

static int cached(tw_maker *k, const int *args, int of_past, int want) {
    group x;
    if (args[1] < 0 || !group_of(k->g, args[0], &x)) return -1;
    if (x.first && x.present == x.rows) return turned(k, &x, args[1], want);
    tw_attribute *heads = integer(k, "kv_num_heads", x.kv_heads);
    const bool past = tw_node_has(&x.n, of_past);
    const int in[] = {args[1], new_rows(k, &x), past ? x.n.in[of_past] : -1};
    return heads ? tw_make_op(k, "Cache", in, past ? 3 : 2, heads, 1, want) : -1;
}

int tw_make_cached_keys(tw_maker *k, const int *args, int n, int want) {
    (void)n;
    return cached(k, args, PAST_K, want);
}

int tw_make_cached_values(tw_maker *k, const int *args, int n, int want) {
    (void)n;
    return cached(k, args, PAST_V, want);
}

int tw_make_known(tw_maker *k, const int *args, int n, int want) {
    group x;
    (void)n, (void)want;
    if (args[1] < 0 || !group_of(k->g, args[0], &x)) return -1;
    if (x.first) return args[2];
    return x.total == x.present ? args[1] : tw_make_slice(k, args[1], 2, 0, x.total, 1);
}

/* Adds truths: the new rows that keys have are at most those of the queries, or are above them less the window. */
static int compare(tw_maker *k, const group *x, const char *op, int keys, int64_t from) {
    return tw_make_op(k, op, (int[]){keys, range(k, from, x->rows, true)}, 2, NULL, 0, -1);
}

/* Makes truths: which keys queries see. */
static int seen_keys(tw_maker *k, const group *x) {
    const int64_t every[] = {x->batch, 1, 1, 1}, shared[] = {x->first ? 1 : x->batch, 1, 1, x->total};
    if (!x->causal) {
        const int all[] = {range(k, 0, x->total, false), tw_make_reshape(k, x->n.in[COUNTS], 4, every, -1)};
        return tw_make_op(k, "LessOrEqual", all, 2, NULL, 0, -1);
    }
    int keys = new_rows(k, x);
    if (keys >= 0 && x->total < x->present) keys = tw_make_slice(k, keys, 1, 0, x->total, 1);
    if (keys < 0) return -1;
    keys = tw_make_reshape(k, keys, 4, shared, -1);
    const int seen = compare(k, x, "LessOrEqual", keys, 0);
    if (!x->window) return seen;
    return tw_make_op(k, "And", (int[]){seen, compare(k, x, "Greater", keys, -x->window)}, 2, NULL, 0, -1);
}

/* Makes the mask of the keys that queries see, with what is added to scores. */
static int sight(tw_maker *k, const group *x) {
    const int seen = seen_keys(k, x);
    if (!tw_node_has(&x->n, BIAS)) return seen;
    const int bias = tw_make_slice(k, x->n.in[BIAS], 3, 0, x->total, 1);
    const tw_element type = k->g->values[x->n.in[BIAS]].type;
    const double hidden = -INFINITY;
    void *data = tw_arena_alloc(&k->g->arena, sizeof hidden);
    if (!data) return -1;
    tw_array_set_reals(type, data, 0, 1, &hidden);
    const int least = tw_make_constant(k, &(tw_array){.type = type, .data = data});
    return tw_make_op(k, "Where", (int[]){seen, bias, least}, 3, NULL, 0, -1);
}

/* Makes the sinks, a score for each head to which no value belongs: those of the node, or zeros. */
static int sinks_of(tw_maker *k, const group *x) {
    if (tw_node_has(&x->n, SINKS)) return x->n.in[SINKS];
    const tw_element type = k->g->values[x->n.in[Q]].type;
    const double zero = 0;
    void *data = tw_arena_array(&k->g->arena, (size_t)x->heads, sizeof zero);
    for (int64_t i = 0; i < x->heads && data; i++) tw_array_set_reals(type, data, i, 1, &zero);
    return data ? tw_make_constant(k, &(tw_array){.type = type, .rank = 1, .dims = {x->heads}, .data = data}) : -1;
}

int tw_make_attended(tw_maker *k, const int *args, int n, int want) {
    enum { SETTINGS = 5, OPERANDS = 8 };
    group x;
    (void)n;
    if (!group_of(k->g, args[0], &x)) return -1;
    const bool prompt = tw_is_prompt(k->g, args[0]);
    const bool smooth = tw_node_has(&x.n, SINKS) || tw_node_integer(&x.n, "smooth_softmax", 0) > 0;
    const double scale = tw_node_real(&x.n, "scale", 0);
    tw_attribute *a = tw_arena_array(&k->g->arena, SETTINGS, sizeof *a);
    int in[OPERANDS] = {args[1], args[2], args[3]}, count = 0;
    if (!a) return -1;
    for (int i = 3; i < OPERANDS; i++) in[i] = TW_MAKE_NONE;
    a[count++] = (tw_attribute){.name = "q_num_heads", .kind = TW_ATTRIBUTE_INT, .integer = x.heads};
    a[count++] = (tw_attribute){.name = "kv_num_heads", .kind = TW_ATTRIBUTE_INT, .integer = x.kv_heads};
    a[count++] = (tw_attribute){.name = "softcap", .kind = TW_ATTRIBUTE_REAL, .real = tw_node_real(&x.n, "softcap", 0)};
    if (scale != 0) a[count++] = (tw_attribute){.name = "scale", .kind = TW_ATTRIBUTE_REAL, .real = scale};
    if (prompt) a[count++] = (tw_attribute){.name = "is_causal", .kind = TW_ATTRIBUTE_INT, .integer = 1};
    if (!prompt) in[3] = sight(k, &x);
    if (smooth) in[OPERANDS - 1] = sinks_of(k, &x);
    return tw_make_op(k, "Attention", in, smooth ? OPERANDS : prompt ? 3 : 4, a, count, want);
}
