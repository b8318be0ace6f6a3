/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/make.h"

#include "graph/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDED = 16 << 20 /* The most bytes of a constant that is computed. */ };

static tw_array array_of(const tw_graph *g, int value) {
    const tw_value *v = &g->values[value];
    tw_array a = {.type = v->type, .rank = v->rank, .data = v->content ? v->content->data : NULL};
    memcpy(a.dims, v->dims, sizeof a.dims);
    return a;
}

static bool is_like(const tw_value *v, const tw_array *a) {
    return v->type == a->type && v->rank == a->rank && !memcmp(v->dims, a->dims, sizeof(int64_t) * (size_t)a->rank);
}

/* ---- nodes */

static int new_value(tw_maker *k, const tw_array *a) {
    const char *what = *k->name ? k->name : "fused";
    const char *name = tw_arena_printf(&k->g->arena, "%s.%d", what, (*k->serial)++);
    const int v = name ? tw_graph_add_value(k->g, name) : -1;
    if (v < 0) return -1;
    k->g->values[v].type = a->type;
    k->g->values[v].rank = a->rank;
    memcpy(k->g->values[v].dims, a->dims, sizeof a->dims);
    return v;
}

/* Computes what only constants decide. */
static bool fold(tw_maker *k, tw_call *c, int value) {
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i] && !c->in[i]->data) return false;
    if (c->n_out != 1 || tw_step_compute(c, FOLDED) != TW_OK) return false;
    if (!tw_graph_own(k->g, (void *)c->out[0].data)) return true;
    tw_graph_set_content(k->g, value, &c->out[0]);
    k->g->values[value].producer = -1;
    return true;
}

/* Finds types of a node's results. The operands of the copy have numbers in `values`. */
static tw_call *begin(const tw_graph *g, const tw_node *n, tw_array *values, tw_node *copy, tw_arena *arena) {
    tw_diag why = {0};
    tw_call *c;
    int *in = tw_arena_array(arena, (size_t)n->n_in + 1, sizeof *in);
    if (!in) return NULL;
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i] < 0 ? -1 : i;
        if (n->in[i] >= 0) values[i] = array_of(g, n->in[i]);
    }
    *copy = *n;
    copy->in = in;
    if (tw_step_begin(&c, copy, values, arena, &why) != TW_OK) return NULL;
    c->diag = NULL;
    return c;
}

int tw_make_node(tw_maker *k, tw_node *n, int want) {
    tw_graph *g = k->g;
    tw_arena scratch = {0};
    tw_array values[TW_OP_OPERANDS];
    tw_node copy;
    n->impl = tw_op_find(n->domain, n->op, n->version);
    if (!n->impl || n->n_in < n->impl->least || n->n_in > n->impl->most) return -1;
    tw_call *c = begin(g, n, values, &copy, &scratch);
    int made = -1;
    for (int i = 0; c && i < n->n_out; i++) {
        if (n->out[i] < 0 && i > 0) continue;
        if (i == 0) n->out[0] = want < 0 ? new_value(k, &c->out[0]) : want;
        if (n->out[i] < 0 || !is_like(&g->values[n->out[i]], &c->out[i])) goto end;
    }
    if (!c) goto end;
    made = n->out[0];
    if (fold(k, c, made)) goto end;
    const int at = tw_graph_add_node(g, n);
    for (int i = 0; i < n->n_out && at >= 0; i++)
        if (n->out[i] >= 0) g->values[n->out[i]].producer = at;
    if (at < 0) made = -1;
end:
    tw_arena_free(&scratch);
    return g->arena.failed ? -1 : made;
}

int tw_make_constant(tw_maker *k, const tw_array *content) {
    const int v = new_value(k, content);
    if (v >= 0) tw_graph_set_content(k->g, v, content);
    return v;
}

static bool lists(tw_maker *k, tw_node *n, int n_in, int n_out) {
    n->in = tw_arena_array(&k->g->arena, (size_t)n_in + 1, sizeof(int));
    n->out = tw_arena_array(&k->g->arena, (size_t)n_out + 1, sizeof(int));
    n->n_in = n_in;
    n->n_out = n_out;
    n->name = k->name;
    for (int i = 0; i < n_out && n->out; i++) n->out[i] = -1;
    return n->in && n->out;
}

int tw_make_reshape(tw_maker *k, int x, int rank, const int64_t *dims, int want) {
    const tw_value *v = &k->g->values[x];
    if (want < 0 && v->rank == rank && !memcmp(v->dims, dims, sizeof(int64_t) * (size_t)rank)) return x;
    tw_node n = {.op = "Reshape", .domain = "", .version = TW_MAKE_VERSION};
    int64_t *list = tw_arena_array(&k->g->arena, (size_t)rank + 1, sizeof *list);
    if (!list || !lists(k, &n, 2, 1)) return -1;
    memcpy(list, dims, sizeof(int64_t) * (size_t)rank);
    n.in[0] = x;
    n.in[1] = tw_make_constant(k, &(tw_array){.type = TW_E_i64, .rank = 1, .dims = {rank}, .data = list});
    return n.in[1] < 0 ? -1 : tw_make_node(k, &n, want);
}

int tw_make_op(tw_maker *k, const char *op, const int *operands, int n, tw_attribute *attributes, int n_attributes,
               int want) {
    const bool own = !tw_op_find("", op, TW_MAKE_VERSION);
    tw_node node = {.op = op,
                    .domain = own ? "tilewright" : "",
                    .version = own ? 1 : TW_MAKE_VERSION,
                    .attributes = attributes,
                    .n_attributes = n_attributes};
    if (!lists(k, &node, n, 1)) return -1;
    for (int i = 0; i < n; i++) {
        if (operands[i] < 0) return -1;
        node.in[i] = operands[i];
    }
    return tw_make_node(k, &node, want);
}

static int make_integer(tw_maker *k, int64_t x) {
    int64_t *data = tw_arena_alloc(&k->g->arena, sizeof *data);
    if (!data) return -1;
    *data = x;
    return tw_make_constant(k, &(tw_array){.type = TW_E_i64, .rank = 1, .dims = {1}, .data = data});
}

int tw_make_slice(tw_maker *k, int x, int64_t axis, int64_t from, int64_t to, int64_t step) {
    const int begin = make_integer(k, from), end = make_integer(k, to), along = make_integer(k, axis);
    const int by = step == 1 ? -1 : make_integer(k, step);
    return tw_make_op(k, "Slice", (int[]){x, begin, end, along, by}, step == 1 ? 4 : 5, NULL, 0, -1);
}

int tw_make_transpose(tw_maker *k, int x, int64_t *perm, int want) {
    tw_array *list = tw_arena_alloc(&k->g->arena, sizeof *list);
    tw_attribute *a = tw_arena_alloc(&k->g->arena, sizeof *a);
    if (x < 0 || !perm || !list || !a) return -1;
    *list = (tw_array){.type = TW_E_i64, .rank = 1, .dims = {k->g->values[x].rank}, .data = perm};
    *a = (tw_attribute){.name = "perm", .kind = TW_ATTRIBUTE_ARRAY, .array = list};
    return tw_make_op(k, "Transpose", &x, 1, a, 1, want);
}

/* ---- attributes */

static bool factor_of(const tw_maker *k, const tw_factor *f, double *x) {
    const tw_graph *g = k->g;
    *x = f->number;
    if (f->slot < 0) return true;
    const int value = k->match->bound[f->slot];
    if (f->attribute) {
        const tw_node *n = value < 0 ? NULL : tw_value_node(g, value);
        const tw_attribute *a = n ? tw_node_attribute(n, f->attribute) : NULL;
        if (a) *x = a->kind == TW_ATTRIBUTE_INT ? (double)a->integer : a->real;
        return n != NULL;
    }
    if (f->extent >= 0) {
        if (value < 0 || f->extent >= g->values[value].rank) return false;
        *x = (double)g->values[value].dims[f->extent];
        return true;
    }
    *x = 1;
    return value < 0 || tw_value_uniform(g, value, x);
}

static bool is_integer(const char *name) {
    static const char *const names[] = {"axis",
                                        "trans_a",
                                        "transA",
                                        "transB",
                                        "trans_b",
                                        "is_causal",
                                        "q_num_heads",
                                        "kv_num_heads",
                                        "num_heads",
                                        "zero_rows",
                                        "interleaved",
                                        "keepdims",
                                        "num_outputs",
                                        "do_rotary",
                                        "rotary_interleaved",
                                        "local_window_size",
                                        "rotary_embedding_dim",
                                        "to",
                                        "batch_dims",
                                        "softmax_precision"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static bool attribute_of(tw_maker *k, const tw_setting *s, tw_attribute *a) {
    a->name = s->name;
    if (s->text) {
        a->kind = TW_ATTRIBUTE_TEXT;
        a->text = tw_arena_strdup(&k->g->arena, s->text);
        return a->text != NULL;
    }
    if (s->n_list >= 0) {
        tw_array *list = tw_arena_alloc(&k->g->arena, sizeof *list + sizeof s->list);
        if (!list) return false;
        memcpy(list + 1, s->list, sizeof s->list);
        *list = (tw_array){.type = TW_E_i64, .rank = 1, .dims = {s->n_list}, .data = list + 1};
        a->kind = TW_ATTRIBUTE_ARRAY;
        a->array = list;
        return true;
    }
    double x = 1;
    for (int i = 0; i < s->n_factors; i++) {
        double f;
        if (!factor_of(k, &s->factors[i], &f)) return false;
        x = s->factors[i].divides ? x / f : x * f;
    }
    if (s->times) x *= a->kind == TW_ATTRIBUTE_INT ? (double)a->integer : a->real;
    a->kind = is_integer(s->name) ? TW_ATTRIBUTE_INT : TW_ATTRIBUTE_REAL;
    a->integer = (int64_t)x;
    a->real = x;
    return isfinite(x);
}

/* Sets attributes and operands of a node that has room for them. */
static bool set(tw_maker *k, const tw_term *t, tw_node *n) {
    for (int i = 0; i < t->n_settings; i++) {
        const tw_setting *s = &t->settings[i];
        if (s->when >= 0 && k->match->bound[s->when] < 0) continue;
        if (s->operand >= 0) {
            const bool none = s->term->kind == TW_TERM_ANY;
            const int value = none ? -1 : tw_make(k, s->term, -1);
            if (value < 0 && !none) return false;
            while (n->n_in <= s->operand) n->in[n->n_in++] = -1;
            n->in[s->operand] = value;
            continue;
        }
        int at = 0;
        while (at < n->n_attributes && strcmp(n->attributes[at].name, s->name) != 0) at++;
        if (at == n->n_attributes)
            n->attributes[n->n_attributes++] = (tw_attribute){.kind = TW_ATTRIBUTE_REAL, .real = 1};
        if (!attribute_of(k, s, &n->attributes[at])) return false;
    }
    while (n->n_in && n->in[n->n_in - 1] < 0) n->n_in--;
    return true;
}

/* ---- terms */

static bool operands(tw_maker *k, const tw_term *t, int *in) {
    for (int i = 0; i < t->n_args; i++) {
        const tw_term *a = t->args[i];
        const bool none = a->kind == TW_TERM_ANY || (a->kind == TW_TERM_VALUE && k->match->bound[a->slot] < 0);
        in[i] = none ? -1 : tw_make(k, a, -1);
        if (in[i] < 0 && !none) return false;
    }
    return true;
}

static int make_new(tw_maker *k, const tw_term *t, int want) {
    tw_node n = {.op = t->op, .domain = t->domain, .version = *t->domain ? 1 : TW_MAKE_VERSION};
    const tw_node *root = &k->g->nodes[k->root];
    if (!lists(k, &n, t->n_args, t->all ? root->n_out : 1)) return -1;
    for (int i = 1; i < n.n_out; i++) n.out[i] = root->out[i];
    if (!operands(k, t, n.in)) return -1;
    n.op = tw_arena_strdup(&k->g->arena, t->op);
    n.domain = tw_arena_strdup(&k->g->arena, t->domain);
    n.attributes = tw_arena_array(&k->g->arena, (size_t)t->n_settings + 1, sizeof *n.attributes);
    if (!n.op || !n.domain || !n.attributes || !set(k, t, &n)) return -1;
    for (int i = 0; i < n.n_attributes; i++) {
        n.attributes[i].name = tw_arena_strdup(&k->g->arena, n.attributes[i].name);
        if (!n.attributes[i].name) return -1;
    }
    return tw_make_node(k, &n, want);
}

static int make_copy(tw_maker *k, const tw_term *t, int want) {
    const int value = k->match->bound[t->slot];
    const tw_node *of = value < 0 ? NULL : tw_value_node(k->g, value);
    if (!of) return -1;
    tw_node n = *of;
    const int n_in = n.n_in, *in = n.in, *out = n.out;
    if (!lists(k, &n, n_in + TW_TERM_SETTINGS, of->n_out)) return -1;
    n.n_in = n_in;
    memcpy(n.in, in, (size_t)n_in * sizeof *in);
    for (int i = 1; i < n.n_out; i++) n.out[i] = out[i];
    n.name = of->name;
    n.attributes = tw_arena_array(&k->g->arena, (size_t)(n.n_attributes + t->n_settings) + 1, sizeof *n.attributes);
    if (!n.attributes) return -1;
    if (n.n_attributes) memcpy(n.attributes, of->attributes, (size_t)n.n_attributes * sizeof *n.attributes);
    if (!set(k, t, &n)) return -1;
    for (int i = 0; i < n.n_attributes; i++) {
        n.attributes[i].name = tw_arena_strdup(&k->g->arena, n.attributes[i].name);
        if (!n.attributes[i].name) return -1;
    }
    return tw_make_node(k, &n, want);
}

static int make_function(tw_maker *k, const tw_term *t, int want) {
    int args[TW_TERM_ARGS];
    tw_make_function *f = tw_make_find(t->op);
    return f && operands(k, t, args) ? f(k, args, t->n_args, want) : -1;
}

/* Makes a number of the root's type. */
static int make_number(tw_maker *k, double x) {
    const tw_element type = k->g->values[k->g->nodes[k->root].out[0]].type;
    void *data = tw_arena_alloc(&k->g->arena, sizeof(double));
    if (!data) return -1;
    tw_array_set_reals(type, data, 0, 1, &x);
    return tw_make_constant(k, &(tw_array){.type = type, .data = data});
}

int tw_make(tw_maker *k, const tw_term *t, int want) {
    int value = -1;
    if (k->g->arena.failed) return -1;
    switch (t->kind) {
    case TW_TERM_VALUE:
        return k->match->bound[t->slot];
    case TW_TERM_NODE:
        value = make_new(k, t, want);
        break;
    case TW_TERM_COPY:
        return make_copy(k, t, want);
    case TW_TERM_FUNCTION:
        value = make_function(k, t, want);
        break;
    case TW_TERM_NUMBER:
        return make_number(k, t->number);
    default:
        return -1;
    }
    if (t->slot >= 0) k->match->bound[t->slot] = value;
    return value;
}
