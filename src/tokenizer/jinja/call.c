/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of macros, loops, methods and globals, and the attributes of loops. */
#include "tokenizer/jinja/jinja.h"

#include <string.h>

bool jinja_is_callable(jinja_value v) {
    /* An undefined value has a __call__, which fails. */
    return v.kind == JINJA_MACRO || v.kind == JINJA_FUNCTION || v.kind == JINJA_METHOD || v.kind == JINJA_LOOP ||
           v.kind == JINJA_JOINER || v.kind == JINJA_UNDEFINED || v.kind == JINJA_MISSING;
}

jinja_value jinja_call_method(jinja_env *env, const jinja_method *m, const jinja_args *args) {
    if (!m->info->call) return jinja_refuse(env, args->at, "the method %s is not supported", m->info->name);
    return m->info->call(env, m->self, args);
}

static jinja_value call_joiner(jinja_env *env, jinja_joiner *j, const jinja_args *args) {
    jinja_value none[JINJA_BOUND];
    if (!jinja_bind(env, args, "the joiner", "", 0, none)) return JINJA_NULL;
    if (j->used) return j->separator;
    j->used = true;
    return jinja_text(env, "");
}

jinja_value jinja_call(jinja_env *env, jinja_value callee, const jinja_args *args) {
    switch (callee.kind) {
    case JINJA_MACRO:
        return jinja_call_macro(env, callee.macro, args);
    case JINJA_FUNCTION:
        if (!callee.function->call)
            return jinja_refuse(env, args->at, "the function %s is not supported", callee.function->name);
        return callee.function->call(env, args);
    case JINJA_METHOD:
        return jinja_call_method(env, callee.method, args);
    case JINJA_LOOP:
        return jinja_loop_call(env, callee.loop, args);
    case JINJA_JOINER:
        return call_joiner(env, callee.joiner, args);
    case JINJA_UNDEFINED:
        return jinja_fail(env, args->at, "%.80s is undefined", callee.why ? callee.why : "what is called");
    default:
        return jinja_fail(env, args->at, "a %s cannot be called", jinja_type_name(callee));
    }
}

/* ---- macros ---- */

static bool is_caller(const jinja_string *s) {
    return s->size == 6 && !memcmp(s->data, "caller", 6);
}

/* Takes a named argument out of the list. */
static jinja_value take_keyword(jinja_keyword *v, size_t *n, const jinja_string *name) {
    for (size_t i = 0; i < *n; i++) {
        if (v[i].name->size != name->size || memcmp(v[i].name->data, name->data, name->size) != 0) continue;
        jinja_value found = v[i].value;
        memmove(v + i, v + i + 1, (*n - i - 1) * sizeof *v);
        --*n;
        return found;
    }
    return (jinja_value){.kind = JINJA_MISSING};
}

static void bind_macro(jinja_env *env, const jinja_node *n, jinja_value *slots, const jinja_args *args) {
    size_t count = n->list.n, left = args->n_keywords;
    jinja_keyword *keywords = jinja_alloc(env, left, sizeof *keywords);
    if (left && !keywords) return;
    if (left) memcpy(keywords, args->keywords, left * sizeof *keywords);
    bool declared = false, found = false;
    for (size_t i = 0; i < count; i++) {
        const jinja_string *name = env->t->names.v[n->list.v[i]->name];
        bool given = i < args->n;
        declared = declared || is_caller(name);
        found = found || (is_caller(name) && (!given || args->n >= count));
        slots[n->list.v[i]->place.slot] = given ? args->v[i] : take_keyword(keywords, &left, name);
    }
    if (n->caller && !found) {
        static const jinja_string word = {.data = "caller", .size = 6, .chars = 6};
        jinja_value caller = take_keyword(keywords, &left, &word);
        if (caller.kind == JINJA_MISSING || caller.kind == JINJA_NONE) caller = jinja_undefined("caller");
        if (declared) jinja_fail(env, args->at, "the macro is given too much");
        slots[n->special[0].slot] = caller;
    }
    if (n->kwargs) {
        jinja_value d = jinja_dict_new(env);
        for (size_t i = 0; i < left && !env->failed; i++)
            jinja_dict_put(env, args->at, d.dict, (jinja_value){.kind = JINJA_STRING, .s = keywords[i].name},
                           keywords[i].value);
        slots[n->special[1].slot] = d;
    } else if (left)
        jinja_fail(env, args->at, "the macro takes no argument by the name %.60s", keywords[0].name->data);
    if (n->varargs) {
        jinja_value t = jinja_list_new(env, JINJA_TUPLE, 0);
        for (size_t i = count; i < args->n; i++) jinja_push(env, t, args->v[i]);
        slots[n->special[2].slot] = t;
    } else if (args->n > count)
        jinja_fail(env, args->at, "the macro takes %zu arguments at most, not %zu", count, args->n);
}

static void fill_defaults(jinja_env *env, const jinja_node *n) {
    size_t required = n->list.n - n->defaults.n;
    for (size_t i = 0; i < n->list.n && !env->failed; i++) {
        jinja_value *slot = &env->active->slots[n->list.v[i]->place.slot];
        if (slot->kind != JINJA_MISSING) continue;
        if (i >= required)
            *slot = jinja_evaluate(env, n->defaults.v[i - required]);
        else
            *slot = jinja_undefined(env->t->names.v[n->list.v[i]->name]->data);
    }
}

jinja_value jinja_call_macro(jinja_env *env, jinja_macro *m, const jinja_args *args) {
    const jinja_node *n = m->node;
    jinja_activation *saved = env->active, *own = jinja_activate(env, n->scope, m->active);
    if (!own) return JINJA_NULL;
    bind_macro(env, n, own->slots, args);
    if (env->failed || !jinja_deeper(env, args->at)) return JINJA_NULL;
    jinja_buffer text = {0}, *out = env->out;
    env->active = own;
    env->out = &text;
    jinja_enter_frame(env, n->frame);
    fill_defaults(env, n);
    if (!env->failed) jinja_execute(env, n->b);
    env->out = out;
    env->active = saved;
    env->depth--;
    return jinja_take(env, &text);
}

/* ---- loops ---- */

bool jinja_loop_next(jinja_env *env, jinja_loop *l, jinja_value *out) {
    if (l->after.kind != JINJA_MISSING) {
        *out = l->after;
        l->after = (jinja_value){.kind = JINJA_MISSING};
    } else if (!jinja_next(env, l->it, out))
        return false;
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return !env->failed;
}

int64_t jinja_loop_length(jinja_env *env, jinja_loop *l) {
    if (l->length >= 0 || env->failed) return l->length;
    if (jinja_has_length(l->iterable)) return l->length = jinja_length(env, l->node, l->iterable);
    /* The source is a generator. Its remaining items are computed. */
    jinja_value rest = jinja_to_list(env, l->node, (jinja_value){.kind = JINJA_ITERATOR, .iterator = l->it});
    if (env->failed) return 0;
    l->it = jinja_iterate(env, l->node, rest);
    return l->length = (int64_t)rest.list->n + l->index0 + 1 + (l->after.kind != JINJA_MISSING);
}

static bool peek(jinja_env *env, jinja_loop *l) {
    if (l->after.kind == JINJA_MISSING) {
        jinja_value v;
        if (jinja_next(env, l->it, &v)) l->after = v;
    }
    return l->after.kind != JINJA_MISSING;
}

jinja_value jinja_loop_attribute(jinja_env *env, jinja_loop *l, const jinja_string *name) {
#define IS(word) (name->size == sizeof word - 1 && !memcmp(name->data, word, name->size))
    if (IS("index0")) return jinja_int(l->index0);
    if (IS("index")) return jinja_int(l->index0 + 1);
    if (IS("first")) return jinja_bool(l->index0 == 0);
    if (IS("last")) return jinja_bool(!peek(env, l));
    if (IS("length")) return jinja_int(jinja_loop_length(env, l));
    if (IS("revindex")) return jinja_int(jinja_loop_length(env, l) - l->index0);
    if (IS("revindex0")) return jinja_int(jinja_loop_length(env, l) - l->index0 - 1);
    if (IS("depth")) return jinja_int(l->depth0 + 1);
    if (IS("depth0")) return jinja_int(l->depth0);
    if (IS("previtem"))
        return l->index0 == 0 || l->before.kind == JINJA_MISSING ? jinja_undefined("the previous item") : l->before;
    if (IS("nextitem")) return peek(env, l) ? l->after : jinja_undefined("the next item");
    return (jinja_value){.kind = JINJA_MISSING};
#undef IS
}

jinja_value jinja_loop_call(jinja_env *env, jinja_loop *l, const jinja_args *args) {
    jinja_value v[JINJA_BOUND];
    if (!jinja_bind(env, args, "loop", "iterable", 1, v)) return JINJA_NULL;
    if (!l->node->recursive) return jinja_fail(env, args->at, "the loop is not marked recursive");
    if (!jinja_deeper(env, args->at)) return JINJA_NULL;
    jinja_value text = jinja_run_recursive(env, l->node, l->active, v[0], l->depth0 + 1);
    env->depth--;
    return text;
}

jinja_value jinja_loop_cycle(jinja_env *env, jinja_value self, const jinja_args *args) {
    if (args->n_keywords) return jinja_fail(env, args->at, "cycle takes no arguments by name");
    if (!args->n) return jinja_fail(env, args->at, "cycle has no items");
    return args->v[(size_t)(self.loop->index0 < 0 ? 0 : self.loop->index0) % args->n];
}

jinja_value jinja_loop_changed(jinja_env *env, jinja_value self, const jinja_args *args) {
    if (args->n_keywords) return jinja_fail(env, args->at, "changed takes no arguments by name");
    jinja_value now = jinja_list_new(env, JINJA_TUPLE, args->n), *last = &self.loop->last_changed;
    for (size_t i = 0; i < args->n; i++) jinja_push(env, now, args->v[i]);
    bool changed = last->kind == JINJA_MISSING || !jinja_equal(env, args->at, *last, now);
    if (changed) *last = now;
    return jinja_bool(changed);
}
