/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of attention get zeros among their elements, by columns of zeros in the products before it, so that they have
   as many as a GPU's kernel wants. Zeros add nothing to scores. The product behind it gets rows of zeros. Zeros come
   behind the elements, or behind each half of them where halves are rotated into one another, so that a rotation is
   still one of whole heads. */
#include "base/diag.h"
#include "base/divide.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEVERAL = 8, /* Elements of heads become multiples of it. */
    LEAST = 32   /* No kernel has smaller heads. */
};

/* What becomes of a node. */
typedef enum change {
    STAYS,
    COLUMNS,    /* A product: columns of B, and elements of the bias, are those of heads. */
    SPLITS,     /* A Split of such columns. */
    TURNS,      /* A RotaryEmbedding of heads, whose angles get zeros, too. */
    TURNS_SOME, /* One that leaves the zeros, and what it makes of them, alone. */
    ATTENDS,
    ROWS /* A product: rows of B are those of heads. */
} change;

typedef struct widening {
    tw_graph *g;
    int *uses;      /* Of each value, outputs included. */
    char *changes;  /* Of each node: a change. */
    int64_t *heads; /* Of a node that changes: the elements of a head. */
    char *parts;    /* Of a node that changes: the parts of a head that get zeros behind them, 1 or 2. */
    int *angles;    /* Of each value: the one with zeros for rotations, or 0. */
    bool any;       /* A node changes. */
} widening;

static int64_t wide(int64_t head) {
    return tw_ceil_div(head, SEVERAL) * SEVERAL;
}

static const tw_node *producer(const widening *w, int value) {
    const int node = value < 0 ? -1 : w->g->values[value].producer;
    return node < 0 ? NULL : &w->g->nodes[node];
}

static bool is_op(const tw_node *n, const char *op) {
    return n && !strcmp(n->op, op);
}

/* Whether an operand is there. */
static bool has(const tw_node *n, int operand) {
    return operand < n->n_in && n->in[operand] >= 0;
}

/* A product by a constant matrix. */
static bool multiplies(const widening *w, const tw_node *n) {
    const tw_value *b = is_op(n, "Product") ? &w->g->values[n->in[1]] : NULL;
    return b && b->content && b->rank == 2 && tw_element_bits(b->type) % 8 == 0;
}

/* A product by constants alone whose result is what heads consist of. */
static bool makes_heads(const widening *w, const tw_node *n) {
    return multiplies(w, n) && (!has(n, 2) || w->g->values[n->in[2]].content) && !has(n, 3) && !has(n, 4) &&
           !strcmp(tw_node_text(n, "activation", "none"), "none");
}

/* Notes what a node becomes. Nodes of one attention are those of no other, since nobody else uses their results. */
static void note(widening *w, const tw_node *n, change what, int64_t head, int parts) {
    const ptrdiff_t number = n - w->g->nodes;
    w->changes[number] = (char)what;
    w->heads[number] = head;
    w->parts[number] = (char)parts;
    w->any = true;
}

/* Finds where an operand of attention comes from. *split: the Split that it is a part of, or NULL. */
static const tw_node *source(const widening *w, int value, int64_t head, const tw_node **turn, const tw_node **split) {
    const tw_node *n = producer(w, value);
    *turn = *split = NULL;
    if (w->uses[value] != 1) return NULL;
    if (is_op(n, "RotaryEmbedding") && !*n->domain) {
        const int64_t dims = tw_node_integer(n, "rotary_embedding_dim", 0);
        if (tw_node_integer(n, "num_heads", 0) < 1 || (dims && dims != head) || w->uses[n->in[0]] != 1) return NULL;
        *turn = n;
        n = producer(w, n->in[0]);
    }
    if (is_op(n, "Split")) {
        const tw_value *x = &w->g->values[n->in[0]];
        const int64_t axis = tw_node_integer(n, "axis", 0);
        if ((axis != -1 && axis != x->rank - 1) || w->uses[n->in[0]] != 1 || !has(n, 1)) return NULL;
        *split = n;
        n = producer(w, n->in[0]);
    }
    return makes_heads(w, n) ? n : NULL;
}

/* The product that alone reads a value, as its A. NULL: there is none. */
static const tw_node *reader(const widening *w, int value) {
    for (int i = 0; i < w->g->n_nodes; i++) {
        const tw_node *n = &w->g->nodes[i];
        if (is_op(n, "Product") && n->in[0] == value)
            return multiplies(w, n) && !tw_node_integer(n, "trans_a", 0) ? n : NULL;
    }
    return NULL;
}

/* Tells whether a rotation's angles can be padded: they are constants. */
static bool has_angles(const widening *w, const tw_node *turn) {
    for (int i = 1; i < 3; i++) {
        const tw_value *v = turn ? &w->g->values[turn->in[i]] : NULL;
        if (!v || !v->content || v->rank < 2 || tw_element_bits(v->type) % 8) return false;
    }
    return true;
}

/* Returns how many parts of a head get zeros. 0: rotations leave the zeros, which are behind the head, alone. */
static int parts_of(const widening *w, const tw_node *const turns[3]) {
    if (turns[2] || !has_angles(w, turns[0]) || !has_angles(w, turns[1])) return 0;
    const int64_t one = tw_node_integer(turns[0], "interleaved", 0),
                  other = tw_node_integer(turns[1], "interleaved", 0);
    return one != other ? 0 : one ? 1 : 2;
}

/* Notes all nodes of an attention that can be widened. A Split has no parts but queries, keys and values. */
static void look_at(widening *w, const tw_node *n) {
    const tw_value *q = &w->g->values[n->in[0]], *v = &w->g->values[n->in[2]];
    const int64_t heads = tw_node_integer(n, "q_num_heads", 0), kv = tw_node_integer(n, "kv_num_heads", 0);
    const tw_node *from[3], *turns[3], *splits[3];
    if (q->rank != 3 || heads < 1 || kv < 1 || has(n, 4) || has(n, 5) || has(n, 6)) return;
    const int64_t head = q->dims[2] / heads;
    if (tw_element_bits(q->type) != 16 || head < LEAST || head == wide(head)) return;
    if (v->rank != 3 || v->dims[2] != kv * head) return;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] >= 0 && w->uses[n->out[i]]) return;
    const tw_node *out = w->uses[n->out[0]] == 1 ? reader(w, n->out[0]) : NULL;
    for (int i = 0; i < 3; i++) {
        from[i] = source(w, n->in[i], head, &turns[i], &splits[i]);
        if (!from[i] || splits[i] != splits[0]) return;
    }
    if (!out || (splits[0] && splits[0]->n_out != 3)) return;
    const int parts = parts_of(w, turns), at = parts ? parts : 1;
    note(w, n, ATTENDS, head, at);
    note(w, out, ROWS, head, at);
    for (int i = 0; i < 3; i++) {
        note(w, from[i], COLUMNS, head, at);
        if (turns[i]) note(w, turns[i], parts ? TURNS : TURNS_SOME, head, at);
        if (splits[i]) note(w, splits[i], SPLITS, head, at);
    }
}

/* ---- nodes that change */

/* Adds a constant with blocks of `more` elements, of which `less` come from `a`, one block behind the other, and the
   rest is 0. `dims` are its extents. */
static int padded(tw_rewrite *r, int value, const int64_t *dims, int64_t less, int64_t more) {
    const tw_value *v = &r->g->values[value];
    const size_t element = (size_t)tw_element_bits(v->type) / 8;
    tw_array a = {.type = v->type, .rank = v->rank};
    memcpy(a.dims, dims, (size_t)v->rank * sizeof *dims);
    const int64_t n = tw_array_elements(v->content) / less;
    char *data = calloc((size_t)(n * more) + 1, element);
    if (!data || !tw_graph_own(r->g, data)) {
        r->st = TW_ERR_MEMORY;
        return value;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(data + (size_t)(i * more) * element, (const char *)v->content->data + (size_t)(i * less) * element,
               (size_t)less * element);
    a.data = data;
    return tw_rewrite_borrow(r, v->name, &a);
}

/* Pads what lies along a dimension of a matrix, or of a vector. */
static int pad_along(tw_rewrite *r, int value, int dimension, int64_t head, int64_t more) {
    const tw_value *v = &r->g->values[value];
    int64_t dims[TW_ARRAY_RANK], inner = 1;
    memcpy(dims, v->dims, sizeof dims);
    for (int i = dimension + 1; i < v->rank; i++) inner *= dims[i];
    dims[dimension] = dims[dimension] / head * more;
    return padded(r, value, dims, head * inner, more * inner);
}

/* Lets a node's results have padded heads in their last dimension. */
static void widen_results(tw_graph *g, const tw_node *n, int64_t head, int64_t more) {
    for (int i = 0; i < n->n_out; i++) {
        tw_value *y = n->out[i] < 0 ? NULL : &g->values[n->out[i]];
        if (y) y->dims[y->rank - 1] = y->dims[y->rank - 1] / head * more;
    }
}

/* Sets an attribute in a new list. */
static void set_attribute(tw_rewrite *r, tw_node *n, tw_attribute a) {
    tw_attribute *list = tw_arena_array(&r->g->arena, (size_t)n->n_attributes + 1, sizeof *list);
    int count = 0;
    if (!list) {
        r->st = TW_ERR_MEMORY;
        return;
    }
    for (int i = 0; i < n->n_attributes; i++)
        if (strcmp(n->attributes[i].name, a.name) != 0) list[count++] = n->attributes[i];
    list[count++] = a;
    n->attributes = list;
    n->n_attributes = count;
}

/* `part` and `more` are elements of the part of a head that gets zeros, before and after. */
static void change_product(tw_rewrite *r, tw_node *n, bool rows, int64_t part, int64_t more) {
    const bool tb = tw_node_integer(n, "trans_b", 0);
    int in[8];
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    in[1] = pad_along(r, in[1], rows == tb, part, more);
    if (!rows && has(n, 2)) in[2] = pad_along(r, in[2], 0, part, more);
    tw_rewrite_operands(r, n, in, n->n_in);
    if (!rows) widen_results(r->g, n, part, more);
}

/* Layers share angles. */
static void change_angles(widening *w, tw_rewrite *r, tw_node *n, int64_t half, int64_t more) {
    int in[8];
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    for (int i = 1; i < 3; i++) {
        int *known = &w->angles[in[i]];
        if (!*known) *known = pad_along(r, in[i], r->g->values[in[i]].rank - 1, half, more);
        in[i] = *known;
    }
    tw_rewrite_operands(r, n, in, n->n_in);
}

static void change_split(tw_rewrite *r, tw_node *n, int64_t head, int64_t more) {
    int64_t sizes[3];
    widen_results(r->g, n, head, more);
    for (int i = 0; i < 3; i++) {
        const tw_value *y = &r->g->values[n->out[i]];
        sizes[i] = y->dims[y->rank - 1];
    }
    const int list = tw_rewrite_integers(r, sizes, 3);
    tw_rewrite_operands(r, n, (int[]){n->in[0], list}, 2);
}

static void change_node(widening *w, tw_rewrite *r, tw_node *n, int number) {
    const change what = (change)w->changes[number];
    const int64_t head = w->heads[number], more = wide(head), parts = w->parts[number];
    const int64_t turned = what == TURNS ? more : head;
    if (what == COLUMNS || what == ROWS) change_product(r, n, what == ROWS, head / parts, more / parts);
    if (what == SPLITS) change_split(r, n, head, more);
    if (what == TURNS || what == TURNS_SOME || what == ATTENDS) widen_results(r->g, n, head, more);
    if (what == TURNS) change_angles(w, r, n, head / 2, more / 2);
    if (what == TURNS || what == TURNS_SOME)
        set_attribute(r, n,
                      (tw_attribute){.name = "rotary_embedding_dim", .kind = TW_ATTRIBUTE_INT, .integer = turned});
    if (what == ATTENDS && !tw_node_attribute(n, "scale"))
        set_attribute(r, n, (tw_attribute){.name = "scale", .kind = TW_ATTRIBUTE_REAL, .real = 1 / sqrt((double)head)});
}

static tw_status rewrite(widening *w, bool *changed, tw_diag *diag) {
    tw_rewrite r;
    if (!tw_rewrite_begin(&r, w->g)) return tw_fail_memory(diag);
    for (tw_node *n; (n = tw_rewrite_next(&r));) {
        const int number = r.at - 1;
        if (w->changes[number] != STAYS) {
            change_node(w, &r, n, number);
            r.changed = true;
        }
        tw_rewrite_put(&r, n);
    }
    return tw_rewrite_end(&r, changed, diag);
}

static void count_uses(const widening *w) {
    const tw_graph *g = w->g;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] >= 0) w->uses[g->nodes[i].in[k]]++;
    for (int i = 0; i < g->n_outputs; i++) w->uses[g->outputs[i]]++;
}

tw_status tw_pass_heads(tw_graph *g, bool *changed, tw_diag *diag) {
    widening w = {.g = g,
                  .uses = calloc((size_t)g->n_values + 1, sizeof *w.uses),
                  .changes = calloc((size_t)g->n_nodes + 1, 1),
                  .heads = calloc((size_t)g->n_nodes + 1, sizeof *w.heads),
                  .parts = calloc((size_t)g->n_nodes + 1, 1),
                  .angles = calloc((size_t)g->n_values + 1, sizeof *w.angles)};
    tw_status st = w.uses && w.changes && w.heads && w.parts && w.angles ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) {
        count_uses(&w);
        for (int i = 0; i < g->n_nodes; i++)
            if (is_op(&g->nodes[i], "Attention") && !*g->nodes[i].domain && g->nodes[i].n_in > 2)
                look_at(&w, &g->nodes[i]);
        if (w.any) st = rewrite(&w, changed, diag);
    }
    free(w.uses);
    free(w.changes);
    free(w.heads);
    free(w.parts);
    free(w.angles);
    return st;
}
