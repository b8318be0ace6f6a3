/* SPDX-License-Identifier: Apache-2.0 */
/* Executes statements, which append text to the open buffer. */
#include "tokenizer/jinja/jinja.h"

#include <string.h>

static jinja_value *slot_at(jinja_activation *a, jinja_place p) {
    for (int i = 0; i < p.hops; i++) a = a->parent;
    return &a->slots[p.slot];
}

jinja_activation *jinja_activate(jinja_env *env, const jinja_scope *s, jinja_activation *parent) {
    jinja_activation *a = jinja_alloc(env, 1, sizeof *a + (size_t)s->slots * sizeof *a->slots);
    if (a) a->parent = parent;
    return a;
}

void jinja_enter_frame(jinja_env *env, const jinja_frame *f) {
    for (const jinja_symbol *s = f->first; s; s = s->next) {
        jinja_value *slot = &env->active->slots[s->slot];
        if (s->load == JL_RESOLVE)
            *slot = env->by_name[s->name];
        else if (s->load == JL_ALIAS)
            *slot = *slot_at(env->active, s->from);
        else if (s->load == JL_UNDEFINED)
            *slot = (jinja_value){.kind = JINJA_MISSING};
    }
}

void jinja_leave_frame(jinja_env *env, const jinja_frame *f) {
    for (const jinja_symbol *s = f->first; s; s = s->next)
        env->active->slots[s->slot] = (jinja_value){.kind = JINJA_MISSING};
}

/* Executes statements into a separate buffer. */
static jinja_value captured(jinja_env *env, const jinja_node *body, jinja_flow *flow) {
    jinja_buffer text = {0}, *out = env->out;
    env->out = &text;
    *flow = jinja_execute(env, body);
    env->out = out;
    return jinja_take(env, &text);
}

/* ---- for ---- */

static jinja_value loop_source(jinja_env *env, const jinja_node *n, jinja_value iterable) {
    if (!n->d) return iterable;
    jinja_activation *outer = n->recursive ? env->active->parent : env->active;
    jinja_activation *active = jinja_activate(env, n->test_scope, outer);
    if (!active) return iterable;
    return jinja_generator(env, (jinja_iterator){.type = JI_WHERE, .source = iterable, .node = n, .active = active});
}

static jinja_flow run_for(jinja_env *env, const jinja_node *n, jinja_value iterable, int64_t depth,
                          jinja_activation *outer) {
    jinja_value source = loop_source(env, n, iterable), item;
    jinja_iterator *it = env->failed ? NULL : jinja_iterate(env, n->a, source);
    jinja_loop *loop = n->extended && it ? jinja_alloc(env, 1, sizeof *loop) : NULL;
    bool completed = false; /* An iteration reached the end of the body. */
    if (n->extended && !loop) return JINJA_GO_ON;
    if (loop)
        *loop = (jinja_loop){
            .node = n, .active = outer, .iterable = source, .it = it, .index0 = -1, .length = -1, .depth0 = depth};
    while (loop ? jinja_loop_next(env, loop, &item) : jinja_next(env, it, &item)) {
        if (!jinja_assign(env, n->target, item)) break;
        if (loop) *slot_at(env->active, n->loop_place) = (jinja_value){.kind = JINJA_LOOP, .loop = loop};
        jinja_enter_frame(env, n->frame);
        jinja_flow flow = jinja_execute(env, n->b);
        if (env->failed || flow == JINJA_BREAK) break;
        if (flow == JINJA_GO_ON) completed = true;
    }
    if (env->failed) return JINJA_GO_ON;
    jinja_leave_frame(env, n->frame);
    if (completed || !n->c) return JINJA_GO_ON;
    jinja_enter_frame(env, n->else_frame);
    jinja_flow flow = jinja_execute(env, n->c);
    jinja_leave_frame(env, n->else_frame);
    return flow;
}

jinja_value jinja_run_recursive(jinja_env *env, const jinja_node *n, jinja_activation *active, jinja_value iterable,
                                int64_t depth) {
    jinja_activation *saved = env->active, *own = jinja_activate(env, n->scope, active);
    jinja_buffer text = {0}, *out = env->out;
    if (!own) return JINJA_NULL;
    env->active = own;
    env->out = &text;
    run_for(env, n, iterable, depth, active);
    env->out = out;
    env->active = saved;
    return jinja_take(env, &text);
}

static jinja_flow execute_for(jinja_env *env, const jinja_node *n) {
    jinja_value iterable = jinja_evaluate(env, n->a);
    if (env->failed) return JINJA_GO_ON;
    if (!n->recursive) return run_for(env, n, iterable, 0, env->active);
    jinja_value text = jinja_run_recursive(env, n, env->active, iterable, 0);
    jinja_add_value(env, n, env->out, text);
    return JINJA_GO_ON;
}

/* ---- other blocks ---- */

/* Writes a block's value. Jinja joins it to the text as it is, so it must be a string. */
static void write_block(jinja_env *env, const jinja_node *n, jinja_value text) {
    if (env->failed) return;
    if (text.kind == JINJA_STRING)
        jinja_add_string(env, env->out, text.s);
    else
        jinja_fail(env, n, "the block gives a %s, not a string", jinja_type_name(text));
}

static jinja_flow execute_if(jinja_env *env, const jinja_node *n) {
    if (jinja_truth(env, jinja_evaluate(env, n->a))) return env->failed ? JINJA_GO_ON : jinja_execute(env, n->b);
    for (size_t i = 0; i < n->list.n && !env->failed; i++)
        if (jinja_truth(env, jinja_evaluate(env, n->list.v[i]->a)))
            return env->failed ? JINJA_GO_ON : jinja_execute(env, n->list.v[i]->b);
    return n->c && !env->failed ? jinja_execute(env, n->c) : JINJA_GO_ON;
}

static jinja_flow execute_captured(jinja_env *env, const jinja_node *n) {
    jinja_flow flow;
    jinja_enter_frame(env, n->frame);
    jinja_value text = captured(env, n->b, &flow);
    if (env->failed || flow != JINJA_GO_ON) return flow;
    if (n->a) text = jinja_apply_filter(env, n->a, text);
    if (n->type == JN_SETBLOCK)
        jinja_assign(env, n->target, text);
    else
        write_block(env, n, text);
    if (!env->failed) jinja_leave_frame(env, n->frame);
    return JINJA_GO_ON;
}

static jinja_flow execute_with(jinja_env *env, const jinja_node *n) {
    jinja_enter_frame(env, n->frame);
    for (size_t i = 0; i < n->list.n && !env->failed; i++)
        jinja_assign(env, n->target->list.v[i], jinja_evaluate(env, n->list.v[i]));
    jinja_flow flow = env->failed ? JINJA_GO_ON : jinja_execute(env, n->b);
    if (!env->failed) jinja_leave_frame(env, n->frame);
    return flow;
}

static jinja_value macro_value(jinja_env *env, const jinja_node *n) {
    jinja_macro *m = jinja_alloc(env, 1, sizeof *m);
    if (!m) return JINJA_NULL;
    *m = (jinja_macro){n, env->active};
    return (jinja_value){.kind = JINJA_MACRO, .macro = m};
}

static void execute_call(jinja_env *env, const jinja_node *n) {
    static const jinja_string word = {.data = "caller", .size = 6, .chars = 6};
    jinja_value caller = macro_value(env, n), text;
    jinja_args args = {.at = n};
    if (env->failed) return;
    if (n->generation)
        text = jinja_call_macro(env, caller.macro, &args);
    else {
        jinja_value callee = jinja_evaluate(env, n->a->a);
        if (env->failed) return;
        jinja_arguments(env, n->a, &args);
        if (env->failed) return;
        for (size_t i = 0; i < args.n_keywords; i++)
            if (args.keywords[i].name->size == 6 && !memcmp(args.keywords[i].name->data, "caller", 6))
                jinja_fail(env, n, "the argument caller is given twice");
        if (env->failed) return;
        args.keywords[args.n_keywords++] = (jinja_keyword){&word, caller};
        env->at = n->a;
        text = jinja_call(env, callee, &args);
    }
    write_block(env, n, text);
}

static jinja_flow execute(jinja_env *env, const jinja_node *n) {
    jinja_flow flow = JINJA_GO_ON;
    jinja_value v;
    switch (n->type) {
    case JN_BODY:
        for (size_t i = 0; i < n->list.n && flow == JINJA_GO_ON && !env->failed; i++)
            flow = jinja_execute(env, n->list.v[i]);
        return flow;
    case JN_PRINT:
        v = jinja_evaluate(env, n->a);
        if (!env->failed) jinja_add_value(env, n->a, env->out, v);
        break;
    case JN_IF:
        return execute_if(env, n);
    case JN_FOR:
        return execute_for(env, n);
    case JN_SET:
        v = jinja_evaluate(env, n->a);
        if (!env->failed) jinja_assign(env, n->target, v);
        break;
    case JN_SETBLOCK:
    case JN_FILTERBLOCK:
        return execute_captured(env, n);
    case JN_MACRO:
        v = macro_value(env, n);
        if (!env->failed) *slot_at(env->active, n->place) = v;
        break;
    case JN_CALLBLOCK:
        execute_call(env, n);
        break;
    case JN_WITH:
        return execute_with(env, n);
    case JN_BREAK:
        return JINJA_BREAK;
    case JN_CONTINUE:
        return JINJA_CONTINUE;
    default:
        break;
    }
    return JINJA_GO_ON;
}

jinja_flow jinja_execute(jinja_env *env, const jinja_node *n) {
    if (!jinja_step(env, n, 1)) return JINJA_GO_ON;
    if (n->type == JN_TEXT) {
        jinja_add_string(env, env->out, n->value.s);
        return JINJA_GO_ON;
    }
    if (!jinja_deeper(env, n)) return JINJA_GO_ON;
    jinja_flow flow = execute(env, n);
    env->depth--;
    return flow;
}
