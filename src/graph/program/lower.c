/* SPDX-License-Identifier: Apache-2.0 */
/* From a graph to a program: walks the nodes in order. */
#include "graph/program/lower.h"

#include <stdlib.h>

static bool is_reshape(const tw_node *n) {
    static const char *const ops[] = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (tw_is_op(n, "", ops[i])) return true;
    return false;
}

/* Counts uses of values by the nodes that outputs need. */
static void count_uses(tw_lowering *l) {
    const tw_graph *g = l->g;
    for (int i = 0; i < g->n_values; i++) l->consumers[i] = -1;
    for (int i = 0; i < g->n_outputs; i++) l->uses[g->outputs[i]]++;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const tw_node *n = &g->nodes[i];
        for (int o = 0; o < n->n_out; o++) l->live[i] |= n->out[o] >= 0 && l->uses[n->out[o]];
        for (int o = 0; o < n->n_in && l->live[i]; o++) {
            if (n->in[o] < 0) continue;
            l->uses[n->in[o]]++;
            l->consumers[n->in[o]] = i;
        }
    }
}

static void add_ends(tw_lowering *l) {
    const tw_graph *g = l->g;
    tw_program *p = l->p;
    p->n_inputs = g->n_inputs;
    p->n_outputs = g->n_outputs;
    p->inputs = tw_arena_array(&p->arena, (size_t)g->n_inputs, sizeof *p->inputs);
    p->outputs = tw_arena_array(&p->arena, (size_t)g->n_outputs, sizeof *p->outputs);
    if (p->arena.failed) return;
    for (int i = 0; i < g->n_inputs + g->n_outputs; i++) {
        const bool in = i < g->n_inputs;
        const int number = in ? i : i - g->n_inputs, value = in ? g->inputs[number] : g->outputs[number];
        const tw_value *v = &g->values[value];
        tw_program_buffer b = {
            .name = v->name, .kind = in ? TW_PROGRAM_INPUT : TW_PROGRAM_OUTPUT, .number = number, .offset = -1};
        tw_view all = tw_view_dense(0, v->type, v->rank, v->dims);
        b.bytes = tw_view_elements(&all) * (tw_element_bits(v->type) / 8);
        all.buffer = (in ? p->inputs : p->outputs)[number] = tw_program_add_buffer(p, &b);
        if (in && !v->content) tw_lower_set_view(l, value, &all);
        /* A value that is several outputs lies in the first of them. */
        if (!in && v->producer >= 0 && l->targets[value].buffer < 0) l->targets[value] = all;
    }
}

/* Hands what is only reshaped on to the place of the result. */
static void hand_targets_on(tw_lowering *l) {
    for (int i = l->g->n_nodes - 1; i >= 0; i--) {
        const tw_node *n = &l->g->nodes[i];
        if (!l->live[i] || n->n_in < 1 || n->in[0] < 0) continue;
        const tw_value *v = tw_lower_of(l, n->in[0]), *out = tw_lower_of(l, n->out[0]);
        const tw_view *to = &l->targets[n->out[0]];
        if (!is_reshape(n) || to->buffer < 0 || l->uses[n->in[0]] != 1 || v->producer < 0) continue;
        if (!tw_view_is_dense(to) || v->type != out->type) continue;
        tw_view same = tw_view_dense(to->buffer, v->type, v->rank, v->dims);
        same.offset = to->offset;
        l->targets[n->in[0]] = same;
    }
}

/* Gives the operands of a concatenation their parts of it, where a step stores them for nobody else. */
static void place_parts(tw_lowering *l, const tw_node *n) {
    const tw_value *v = tw_lower_of(l, n->out[0]);
    int64_t axis = tw_node_integer(n, "axis", 0), start = 0;
    axis += axis < 0 ? v->rank : 0;
    const tw_view whole = tw_lower_target(l, n->out[0]);
    l->targets[n->out[0]] = whole;
    for (int i = 0; i < n->n_in; i++) {
        tw_lazy part = tw_lazy_of_view(&whole);
        const int64_t count = tw_lower_of(l, n->in[i])->dims[axis];
        tw_lazy_slice(&part, (int)axis, start, 1, count);
        start += count;
        const bool ours = l->uses[n->in[i]] == 1 && tw_lower_of(l, n->in[i])->producer >= 0;
        if (ours && l->targets[n->in[i]].buffer < 0) l->targets[n->in[i]] = tw_lazy_view(&part);
    }
}

/* ---- plain steps */

static bool dense(tw_lowering *l, int value, tw_view *out) {
    if (!tw_lower_in_memory(l, value, out)) return false;
    if (tw_view_is_dense(out)) return true;
    const tw_lazy x = tw_lazy_of_view(out);
    *out = tw_lower_scratch(l, tw_lower_of(l, value)->name, x.type, x.rank, x.dims, NULL);
    return !l->failed && tw_lower_store(l, &x, out);
}

/* Returns why there is no plain step. NULL: there is one. */
static const char *plain(tw_lowering *l, const tw_node *n) {
    tw_view *in = tw_arena_array(&l->p->arena, (size_t)n->n_in, sizeof *in);
    tw_view *out = tw_arena_array(&l->p->arena, (size_t)n->n_out, sizeof *out);
    const char *why = NULL;
    if (l->p->arena.failed) return NULL;
    for (int i = 0; i < n->n_in && !why; i++) {
        in[i] = (tw_view){.buffer = -1};
        if (n->in[i] >= 0 && !dense(l, n->in[i], &in[i])) why = "an operand is of a type that no kernel copies";
    }
    for (int i = 0; i < n->n_out; i++) {
        out[i] = (tw_view){.buffer = -1};
        if (n->out[i] < 0) continue;
        const tw_value *v = tw_lower_of(l, n->out[i]);
        out[i] = tw_lower_target(l, n->out[i]);
        if (!tw_view_is_dense(&out[i])) out[i] = tw_lower_scratch(l, v->name, v->type, v->rank, v->dims, NULL);
        tw_lower_set_view(l, n->out[i], &out[i]);
    }
    if (!why) tw_lower_step(l, TW_STEP_PLAIN, &(tw_step){.of.node = n}, in, n->n_in, out, n->n_out);
    if (l->options.gpu) why = "no kernel computes it";
    return why;
}

/* Tells whether a node stays a plain step: on a processor nodes with operands or results of f64 do. Maps and rows have
   no vectors of f64 there, so the plain node is faster. A constant operand does not count: it becomes a number of an
   expression. */
static bool is_left_plain(const tw_lowering *l, const tw_node *n) {
    bool doubles = false;
    for (int i = 0; i < n->n_in; i++)
        doubles |= n->in[i] >= 0 && tw_lower_of(l, n->in[i])->type == TW_E_f64 && !tw_lower_of(l, n->in[i])->content;
    for (int i = 0; i < n->n_out; i++) doubles |= n->out[i] >= 0 && tw_lower_of(l, n->out[i])->type == TW_E_f64;
    return doubles && !l->options.gpu;
}

static tw_status lower_nodes(tw_lowering *l, tw_diag *diag) {
    static tw_lower_fn *const all[] = {tw_lower_product, tw_lower_attention, tw_lower_rotary,
                                       tw_lower_rows,    tw_lower_reduce,    tw_lower_move,
                                       tw_lower_places,  tw_lower_scatter,   tw_lower_elementwise};
    tw_status st = TW_OK;
    for (l->node = 0; l->node < l->g->n_nodes && !l->failed; l->node++) {
        const tw_node *n = &l->g->nodes[l->node];
        if (!l->live[l->node]) continue;
        bool done = n->n_out == 1 && l->values[n->out[0]]; /* It became a part of the step before. */
        if (!done && is_left_plain(l, n))
            done = tw_lower_move(l, n);
        else
            for (size_t i = 0; i < sizeof all / sizeof *all && !done && !l->failed; i++) done = all[i](l, n);
        const char *why = done || l->failed ? NULL : plain(l, n);
        l->failed |= l->p->arena.failed;
        if (!why) continue;
        char name[256];
        tw_node_describe(n, name, sizeof name);
        tw_diag_add(diag, TW_ERR_UNSUPPORTED, "", "%s: %s", name, why);
        st = TW_ERR_UNSUPPORTED;
    }
    l->node = -1;
    return l->failed ? tw_fail_memory(diag) : st;
}

/* Stores the outputs that lie elsewhere. */
static tw_status store_outputs(tw_lowering *l, tw_diag *diag) {
    for (int i = 0; i < l->g->n_outputs; i++) {
        const int value = l->g->outputs[i];
        const tw_value *v = tw_lower_of(l, value);
        const tw_view to = tw_view_dense(l->p->outputs[i], v->type, v->rank, v->dims);
        const tw_lazy *x = tw_lower_peek(l, value);
        if (x && tw_lazy_is_view(x) && x->of[0].buffer == to.buffer) continue;
        if (x && tw_lower_store(l, x, &to)) {
            if (!tw_lazy_is_view(x)) tw_lower_set_view(l, value, &to);
            continue;
        }
        if (l->failed || l->p->arena.failed) return tw_fail_memory(diag);
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "output \"%s\" is of a type that no kernel copies", v->name);
    }
    return l->failed ? tw_fail_memory(diag) : TW_OK;
}

/* Leaves out steps whose results nobody reads. */
static void drop_steps(tw_program *p) {
    bool *wanted = tw_arena_array(&p->arena, (size_t)p->n_buffers + 1, sizeof *wanted);
    bool *needed = tw_arena_array(&p->arena, (size_t)p->n_steps + 1, sizeof *needed);
    int n = 0;
    if (p->arena.failed) return;
    for (int i = 0; i < p->n_buffers; i++) wanted[i] = p->buffers[i].kind == TW_PROGRAM_OUTPUT;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const tw_step *s = &p->steps[i];
        for (int o = 0; o < s->n_out; o++) needed[i] |= s->out[o].buffer >= 0 && wanted[s->out[o].buffer];
        for (int o = 0; o < s->n_in && needed[i]; o++)
            if (s->in[o].buffer >= 0) wanted[s->in[o].buffer] = true;
    }
    for (int i = 0; i < p->n_steps; i++)
        if (needed[i]) p->steps[n++] = p->steps[i];
    p->n_steps = n;
}

static tw_status lower(tw_lowering *l, tw_diag *diag) {
    l->made = l->options.made ? l->options.made : &l->p->made;
    count_uses(l);
    for (int i = 0; i < l->g->n_values; i++) l->targets[i].buffer = l->masks[i].buffer = -1;
    add_ends(l);
    hand_targets_on(l);
    for (int i = 0; i < l->g->n_nodes && !l->failed; i++)
        if (l->live[i] && tw_is_op(&l->g->nodes[i], "", "Concat")) place_parts(l, &l->g->nodes[i]);
    if (l->p->arena.failed) return tw_fail_memory(diag);
    tw_status st = lower_nodes(l, diag);
    if (st == TW_OK) st = store_outputs(l, diag);
    if (st == TW_OK) drop_steps(l->p);
    if (st == TW_OK && l->p->arena.failed) st = tw_fail_memory(diag);
    if (st == TW_OK) st = tw_program_plan_memory(l->p, diag);
    return st == TW_OK ? tw_program_verify(l->p, diag) : st;
}

tw_status tw_program_lower(tw_program **out, const tw_graph *g, const tw_program_options *o, tw_diag *diag) {
    const size_t n = (size_t)g->n_values + 1;
    tw_diag own;
    if (!diag) diag = &own;
    tw_lowering l = {.p = tw_program_new(g),
                     .g = g,
                     .options = *o,
                     .values = calloc(n, sizeof *l.values),
                     .uses = calloc(n, sizeof *l.uses),
                     .consumers = calloc(n, sizeof *l.consumers),
                     .live = calloc((size_t)g->n_nodes + 1, sizeof *l.live),
                     .masks = calloc(n, sizeof *l.masks),
                     .targets = calloc(n, sizeof *l.targets),
                     .norms = calloc(n, sizeof *l.norms),
                     .node = -1};
    const bool there = l.p && l.values && l.uses && l.consumers && l.live && l.masks && l.targets && l.norms;
    *out = NULL;
    const tw_status st = there ? lower(&l, diag) : tw_fail_memory(diag);
    if (st == TW_OK)
        *out = l.p;
    else
        tw_program_free(l.p);
    free(l.values);
    free(l.uses);
    free(l.consumers);
    free(l.live);
    free(l.masks);
    free(l.targets);
    free(l.norms);
    return st;
}
