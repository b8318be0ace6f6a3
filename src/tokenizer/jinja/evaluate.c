/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions. */
#include "tokenizer/jinja/jinja.h"

#include <string.h>

static jinja_value *slot_of(jinja_env *env, jinja_place p) {
    jinja_activation *a = env->active;
    for (int i = 0; i < p.hops; i++) a = a->parent;
    return &a->slots[p.slot];
}

static jinja_value name_value(jinja_env *env, const jinja_node *n) {
    jinja_value v = *slot_of(env, n->place);
    return v.kind == JINJA_MISSING ? jinja_undefined(env->t->names.v[n->name]->data) : v;
}

static jinja_value list_value(jinja_env *env, const jinja_node *n) {
    jinja_value out = jinja_list_new(env, n->type == JN_TUPLE ? JINJA_TUPLE : JINJA_LIST, n->list.n);
    for (size_t i = 0; i < n->list.n && !env->failed; i++) jinja_push(env, out, jinja_evaluate(env, n->list.v[i]));
    return out;
}

static jinja_value dict_value(jinja_env *env, const jinja_node *n) {
    jinja_value out = jinja_dict_new(env);
    for (size_t i = 0; i + 1 < n->list.n && !env->failed; i += 2) {
        jinja_value key = jinja_evaluate(env, n->list.v[i]), v = jinja_evaluate(env, n->list.v[i + 1]);
        if (!env->failed) jinja_dict_put(env, n->list.v[i], out.dict, key, v);
    }
    return out;
}

static jinja_value concat_value(jinja_env *env, const jinja_node *n) {
    jinja_buffer b = {0};
    for (size_t i = 0; i < n->list.n && !env->failed; i++) {
        jinja_value v = jinja_evaluate(env, n->list.v[i]);
        if (!env->failed) jinja_add_value(env, n->list.v[i], &b, v);
    }
    return jinja_take(env, &b);
}

static bool compare(jinja_env *env, const jinja_node *at, jinja_op op, jinja_value a, jinja_value b) {
    switch (op) {
    case JO_EQ:
        return jinja_equal(env, at, a, b);
    case JO_NE:
        return !jinja_equal(env, at, a, b);
    case JO_IN:
        return jinja_contains(env, at, b, a);
    case JO_NOTIN:
        return !jinja_contains(env, at, b, a);
    default:
        return jinja_order(env, at, a, b, op);
    }
}

static jinja_value compare_value(jinja_env *env, const jinja_node *n) {
    jinja_value left = jinja_evaluate(env, n->a);
    bool r = true;
    for (size_t i = 0; i < n->list.n && r && !env->failed; i++) {
        const jinja_node *o = n->list.v[i];
        jinja_value right = jinja_evaluate(env, o->a);
        if (!env->failed) r = compare(env, o, (jinja_op)o->op, left, right);
        left = right;
    }
    return jinja_bool(r);
}

static jinja_value item_value(jinja_env *env, const jinja_node *n) {
    jinja_value of = jinja_evaluate(env, n->a);
    if (n->b->type != JN_SLICE) {
        jinja_value key = jinja_evaluate(env, n->b);
        return env->failed ? of : jinja_get_item(env, n, of, key);
    }
    jinja_value part[3];
    const jinja_node *from[3] = {n->b->a, n->b->b, n->b->c};
    for (int i = 0; i < 3; i++) part[i] = from[i] ? jinja_evaluate(env, from[i]) : JINJA_NULL;
    return env->failed ? of : jinja_get_slice(env, n, of, part[0], part[1], part[2]);
}

/* ---- arguments ---- */

static void add_keyword(jinja_env *env, const jinja_node *at, jinja_args *a, size_t room, const jinja_string *name,
                        jinja_value v) {
    for (size_t i = 0; i < a->n_keywords; i++)
        if (a->keywords[i].name->size == name->size && !memcmp(a->keywords[i].name->data, name->data, name->size))
            jinja_fail(env, at, "the argument %.60s is given twice", name->data);
    if (!env->failed && a->n_keywords < room) a->keywords[a->n_keywords++] = (jinja_keyword){name, v};
}

void jinja_arguments(jinja_env *env, const jinja_node *n, jinja_args *out) {
    *out = (jinja_args){.at = n};
    jinja_value list = jinja_list_new(env, JINJA_LIST, n->list.n), rest, more = JINJA_NULL, item;
    for (size_t i = 0; i < n->list.n && !env->failed; i++) jinja_push(env, list, jinja_evaluate(env, n->list.v[i]));
    if (n->rest && !env->failed) {
        rest = jinja_evaluate(env, n->rest);
        jinja_iterator *it = env->failed ? NULL : jinja_iterate(env, n->rest, rest);
        while (jinja_next(env, it, &item)) jinja_push(env, list, item);
    }
    if (env->failed) return;
    out->v = list.list->v;
    out->n = list.list->n;
    /* A call block's caller needs one more. */
    size_t room = n->keywords.n + 1;
    if (n->keyword_rest) {
        more = jinja_evaluate(env, n->keyword_rest);
        if (!env->failed && more.kind != JINJA_DICT)
            jinja_fail(env, n->keyword_rest, "a %s cannot be given as arguments by name", jinja_type_name(more));
        if (env->failed) return;
        room += more.dict->n;
        if (room > 1000) jinja_refuse(env, n, "more than 1000 arguments by name");
    }
    out->keywords = jinja_alloc(env, room, sizeof *out->keywords);
    for (size_t i = 0; i < n->keywords.n && !env->failed; i++) {
        const jinja_node *k = n->keywords.v[i];
        jinja_value v = jinja_evaluate(env, k->a);
        add_keyword(env, k, out, room, env->t->names.v[k->name], v);
    }
    for (size_t i = 0; n->keyword_rest && i < more.dict->n && !env->failed; i++) {
        if (more.dict->v[i].key.kind != JINJA_STRING)
            jinja_fail(env, n->keyword_rest, "an argument's name is no string");
        else
            add_keyword(env, n->keyword_rest, out, room, more.dict->v[i].key.s, more.dict->v[i].value);
    }
}

static bool same_word(const char *word, size_t n, const jinja_string *s) {
    return s->size == n && !memcmp(word, s->data, n);
}

bool jinja_bind(jinja_env *env, const jinja_args *args, const char *what, const char *names, size_t needed,
                jinja_value out[JINJA_BOUND]) {
    size_t n = 0;
    memset(out, 0, JINJA_BOUND * sizeof *out);
    if (env->failed) return false;
    size_t bound = 0;
    for (const char *p = names; *p; n++) {
        size_t k = strcspn(p, " ");
        if (n < args->n) out[n] = args->v[n];
        for (size_t i = 0; i < args->n_keywords; i++) {
            if (!same_word(p, k, args->keywords[i].name)) continue;
            if (n < args->n) {
                jinja_fail(env, args->at, "%s is given the argument %.*s twice", what, (int)k, p);
                return false;
            }
            out[n] = args->keywords[i].value;
            bound++;
        }
        p += k + (p[k] == ' ');
    }
    if (args->n > n)
        jinja_fail(env, args->at, "%s takes %zu arguments at most, not %zu", what, n, args->n);
    else if (bound < args->n_keywords)
        jinja_fail(env, args->at, "%s has no such argument by name", what);
    for (size_t i = 0; i < needed && !env->failed; i++)
        if (out[i].kind == JINJA_MISSING) jinja_fail(env, args->at, "%s needs %zu arguments", what, needed);
    return !env->failed;
}

/* ---- calls, filters, tests ---- */

static jinja_value call_value(jinja_env *env, const jinja_node *n) {
    jinja_args args;
    jinja_value callee = jinja_evaluate(env, n->a);
    if (env->failed) return callee;
    jinja_arguments(env, n, &args);
    env->at = n;
    return env->failed ? callee : jinja_call(env, callee, &args);
}

jinja_value jinja_call_filter(jinja_env *env, const jinja_node *at, const void *found, jinja_value v,
                              const jinja_args *args) {
    const jinja_filter *f = found;
    if (!f) return jinja_fail(env, at, "there is no such filter");
    if (!f->call) return jinja_refuse(env, at, "the filter %s is not supported", f->name);
    return f->call(env, v, args);
}

static jinja_value filtered(jinja_env *env, const jinja_node *n, jinja_value v) {
    jinja_args args;
    if (env->failed) return v;
    if (!n->found) return jinja_fail(env, n, "there is no filter %.60s", n->value.s->data);
    jinja_arguments(env, n, &args);
    env->at = n;
    return env->failed ? v : jinja_call_filter(env, n, n->found, v, &args);
}

jinja_value jinja_apply_filter(jinja_env *env, const jinja_node *n, jinja_value text) {
    return filtered(env, n, n->a ? jinja_apply_filter(env, n->a, text) : text);
}

static jinja_value test_value(jinja_env *env, const jinja_node *n) {
    jinja_args args;
    jinja_value v = jinja_evaluate(env, n->a);
    if (env->failed) return v;
    if (!n->found) return jinja_fail(env, n, "there is no test %.60s", n->value.s->data);
    jinja_arguments(env, n, &args);
    env->at = n;
    if (env->failed) return v;
    bool yes = ((const jinja_test *)n->found)->call(env, v, &args);
    return jinja_bool(yes != n->negated);
}

/* ---- the whole ---- */

static jinja_value operator_value(jinja_env *env, const jinja_node *n) {
    jinja_value a = jinja_evaluate(env, n->a), b;
    if (env->failed) return a;
    switch (n->type) {
    case JN_NEG:
    case JN_POS:
        return jinja_negate(env, n, a, n->type == JN_NEG);
    case JN_NOT:
        return jinja_bool(!jinja_truth(env, a));
    case JN_AND:
        return jinja_truth(env, a) ? jinja_evaluate(env, n->b) : a;
    case JN_OR:
        return jinja_truth(env, a) ? a : jinja_evaluate(env, n->b);
    case JN_ATTRIBUTE:
        return jinja_get_attribute(env, n, a, n->value.s);
    default:
        b = jinja_evaluate(env, n->b);
        return env->failed ? b : jinja_arithmetic(env, n, n->type, a, b);
    }
}

static jinja_value evaluate(jinja_env *env, const jinja_node *n) {
    switch (n->type) {
    case JN_TUPLE:
    case JN_LIST:
        return list_value(env, n);
    case JN_DICT:
        return dict_value(env, n);
    case JN_CONCAT:
        return concat_value(env, n);
    case JN_COMPARE:
        return compare_value(env, n);
    case JN_IFELSE:
        if (jinja_truth(env, jinja_evaluate(env, n->b))) return env->failed ? JINJA_NULL : jinja_evaluate(env, n->a);
        return n->c && !env->failed ? jinja_evaluate(env, n->c) : jinja_undefined("an inline if without else");
    case JN_ITEM:
        return item_value(env, n);
    case JN_CALL:
        return call_value(env, n);
    case JN_FILTER:
        return filtered(env, n, jinja_evaluate(env, n->a));
    case JN_TEST:
        return test_value(env, n);
    default:
        return operator_value(env, n);
    }
}

jinja_value jinja_evaluate(jinja_env *env, const jinja_node *n) {
    if (n->type == JN_CONST) return n->value;
    if (!jinja_step(env, n, 1)) return jinja_undefined(NULL);
    if (n->type == JN_NAME) return name_value(env, n);
    if (!jinja_deeper(env, n)) return jinja_undefined(NULL);
    jinja_value v = evaluate(env, n);
    env->depth--;
    return v;
}

/* ---- targets ---- */

static bool unpack(jinja_env *env, const jinja_node *target, jinja_value v) {
    jinja_iterator *it = jinja_iterate(env, target, v);
    jinja_value item, *items = jinja_alloc(env, target->list.n, sizeof *items);
    size_t n = 0;
    while (items && n <= target->list.n && jinja_next(env, it, &item)) {
        if (n < target->list.n) items[n] = item;
        n++;
    }
    if (!env->failed && n != target->list.n)
        jinja_fail(env, target, "%s values for %zu names", n > target->list.n ? "too many" : "too few", target->list.n);
    for (size_t i = 0; i < target->list.n && !env->failed; i++) jinja_assign(env, target->list.v[i], items[i]);
    return !env->failed;
}

bool jinja_assign(jinja_env *env, const jinja_node *target, jinja_value v) {
    if (env->failed) return false;
    if (target->type == JN_TUPLE) return unpack(env, target, v);
    jinja_value *slot = slot_of(env, target->place);
    if (target->type == JN_NAME) {
        *slot = v;
        return true;
    }
    if (slot->kind != JINJA_NAMESPACE) {
        jinja_fail(env, target, "%.60s is no namespace", env->t->names.v[target->name]->data);
        return false;
    }
    if (target->value.s->data[0] == '_') {
        jinja_fail(env, target, "a namespace has no names that begin with an underscore");
        return false;
    }
    jinja_dict_put(env, target, slot->names->names, target->value, v);
    return !env->failed;
}
