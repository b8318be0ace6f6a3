/* SPDX-License-Identifier: Apache-2.0 */
/* Iterators. Those of filters are Python's generators: they are lazy, and good for one pass. */
#include "tokenizer/jinja/jinja.h"
#include "tokenizer/unicode.h"

#include <string.h>

bool jinja_is_iterable(jinja_value v) {
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_RANGE:
    case JINJA_VIEW:
    case JINJA_ITERATOR:
    case JINJA_LOOP:
        return true;
    default:
        return false;
    }
}

static jinja_iterator *iterator_new(jinja_env *env, jinja_iteration type, jinja_value source, size_t n) {
    jinja_iterator *it = jinja_alloc(env, 1, sizeof *it);
    if (it) *it = (jinja_iterator){.type = type, .source = source, .n = n};
    return it;
}

jinja_iterator *jinja_iterate(jinja_env *env, const jinja_node *at, jinja_value v) {
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
        return iterator_new(env, JI_EMPTY, v, 0);
    case JINJA_STRING:
        return iterator_new(env, JI_CHARS, v, v.s->size);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return iterator_new(env, JI_LIST, v, v.list->n);
    case JINJA_DICT: {
        jinja_view *keys = jinja_alloc(env, 1, sizeof *keys);
        if (!keys) return NULL;
        *keys = (jinja_view){v.dict, JINJA_KEYS};
        return iterator_new(env, JI_VIEW, (jinja_value){.kind = JINJA_VIEW, .view = keys}, v.dict->n);
    }
    case JINJA_VIEW:
        return iterator_new(env, JI_VIEW, v, v.view->dict->n);
    case JINJA_RANGE:
        return iterator_new(env, JI_RANGE, v, (size_t)v.range->n);
    case JINJA_ITERATOR:
        return v.iterator;
    case JINJA_LOOP:
        jinja_refuse(env, at, "a loop is iterated");
        return NULL;
    default:
        jinja_fail(env, at, "a %s cannot be iterated", jinja_type_name(v));
        return NULL;
    }
}

jinja_value jinja_generator(jinja_env *env, jinja_iterator from) {
    jinja_iterator *it = jinja_alloc(env, 1, sizeof *it);
    if (!it) return jinja_undefined(NULL);
    *it = from;
    return (jinja_value){.kind = JINJA_ITERATOR, .iterator = it};
}

jinja_value jinja_reversed(jinja_env *env, const jinja_node *at, jinja_value v) {
    jinja_iterator *it = NULL;
    switch (v.kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        it = iterator_new(env, JI_LIST_BACK, v, v.list->n);
        break;
    case JINJA_RANGE: {
        jinja_range *r = jinja_alloc(env, 1, sizeof *r);
        if (!r) return v;
        const jinja_range *o = v.range;
        *r = (jinja_range){o->start + (o->n - 1) * o->step, 0, -o->step, o->n};
        it = iterator_new(env, JI_RANGE, (jinja_value){.kind = JINJA_RANGE, .range = r}, (size_t)o->n);
        break;
    }
    case JINJA_DICT:
    case JINJA_VIEW:
        it = jinja_iterate(env, at, v);
        if (it) it->type = JI_VIEW_BACK;
        break;
    default:
        return jinja_undefined(NULL);
    }
    return it ? (jinja_value){.kind = JINJA_ITERATOR, .iterator = it} : jinja_undefined(NULL);
}

/* ---- steps of plain iterators ---- */

static jinja_value view_item(jinja_env *env, const jinja_view *v, size_t i) {
    const jinja_entry *e = &v->dict->v[i];
    return v->part == JINJA_KEYS ? e->key : v->part == JINJA_VALUES ? e->value : jinja_pair(env, e->key, e->value);
}

static bool next_plain(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    if (it->at >= it->n) return false;
    size_t i = it->at++;
    switch (it->type) {
    case JI_LIST:
        *out = it->source.list->v[i];
        return true;
    case JI_LIST_BACK:
        *out = it->source.list->v[it->n - 1 - i];
        return true;
    case JI_CHARS:
        it->at = i;
        tw_utf8_next(it->source.s->data, &it->at);
        *out = jinja_with_safe(env, jinja_slice_bytes(env, it->source.s, i, it->at), false);
        return true;
    case JI_RANGE:
        *out = jinja_int(it->source.range->start + (int64_t)i * it->source.range->step);
        return true;
    case JI_VIEW:
        *out = view_item(env, it->source.view, i);
        return true;
    case JI_VIEW_BACK:
        *out = view_item(env, it->source.view, it->n - 1 - i);
        return true;
    default:
        return false;
    }
}

/* ---- generators ---- */

/* Gets the source's iterator at the first step. With `or_nothing` a source that is false has no items. */
static bool start(jinja_env *env, jinja_iterator *it, bool or_nothing) {
    if (!it->started) {
        it->started = true;
        if (or_nothing && !jinja_truth(env, it->source)) return false;
        it->inner = jinja_iterate(env, it->node, it->source);
    }
    return it->inner && !env->failed;
}

static bool next_where(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    if (!start(env, it, false)) return false;
    jinja_activation *active = env->active;
    const jinja_node *loop = it->node;
    bool found = false;
    if (!it->entered) {
        env->active = it->active;
        jinja_enter_frame(env, loop->test_frame);
        env->active = active;
        it->entered = true;
    }
    while (!found && jinja_next(env, it->inner, out)) {
        env->active = it->active;
        found = jinja_assign(env, loop->test_target, *out) && jinja_truth(env, jinja_evaluate(env, loop->d));
        env->active = active;
    }
    return found && !env->failed;
}

static bool next_select(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    if (!start(env, it, true)) return false;
    while (jinja_next(env, it->inner, out)) {
        jinja_value v = it->by_path ? jinja_get_path(env, it->node, *out, &it->path) : *out;
        if (it->named && !it->found) {
            jinja_fail(env, it->node, "there is no such test");
            return false;
        }
        bool yes = it->found ? ((const jinja_test *)it->found)->call(env, v, &it->args) : jinja_truth(env, v);
        if (env->failed) return false;
        if (yes != it->reject) return true;
    }
    return false;
}

static bool next_unique(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    if (!start(env, it, false)) return false;
    while (jinja_next(env, it->inner, out)) {
        jinja_value key = jinja_get_path(env, it->node, *out, &it->path);
        if (jinja_dict_find(env, it->node, it->seen, key)) continue;
        jinja_dict_put(env, it->node, it->seen, key, JINJA_NULL);
        return !env->failed;
    }
    return false;
}

static bool next_batch(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    if (!start(env, it, false)) return false;
    jinja_value list = jinja_list_new(env, JINJA_LIST, 0), item;
    if (it->held.kind != JINJA_MISSING) jinja_push(env, list, it->held);
    it->held = (jinja_value){0};
    while (!env->failed && jinja_next(env, it->inner, &item)) {
        if ((int64_t)list.list->n == it->count) {
            it->held = item;
            *out = list;
            return true;
        }
        jinja_push(env, list, item);
    }
    if (env->failed || !list.list->n) return false;
    if (it->fill.kind != JINJA_NONE)
        while ((int64_t)list.list->n < it->count && jinja_step(env, it->node, 1)) jinja_push(env, list, it->fill);
    *out = list;
    return !env->failed;
}

static bool next_slice(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    if (!it->started) {
        it->started = true;
        jinja_value all = jinja_to_list(env, it->node, it->source);
        if (env->failed) return false;
        if (!it->count) {
            jinja_fail(env, it->node, "division by zero");
            return false;
        }
        it->list = all.list;
    }
    if (env->failed || !it->list || (int64_t)it->at >= it->count) return false;
    size_t each = it->list->n / (size_t)it->count, extra = it->list->n % (size_t)it->count, i = it->at++;
    size_t from = i * each + (i < extra ? i : extra), to = from + each + (i < extra);
    *out = jinja_list_new(env, JINJA_LIST, to - from + 1);
    for (size_t k = from; k < to && jinja_step(env, it->node, 1); k++) jinja_push(env, *out, it->list->v[k]);
    if (it->fill.kind != JINJA_NONE && i >= extra) jinja_push(env, *out, it->fill);
    return !env->failed;
}

static bool next_generated(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    switch (it->type) {
    case JI_WHERE:
        return next_where(env, it, out);
    case JI_MAP:
        if (!start(env, it, true) || !jinja_next(env, it->inner, out)) return false;
        *out = jinja_call_filter(env, it->node, it->found, *out, &it->args);
        return !env->failed;
    case JI_GET:
        if (!start(env, it, true) || !jinja_next(env, it->inner, out)) return false;
        *out = jinja_get_path(env, it->node, *out, &it->path);
        return !env->failed;
    case JI_SELECT:
        return next_select(env, it, out);
    case JI_UNIQUE:
        return next_unique(env, it, out);
    case JI_BATCH:
        return next_batch(env, it, out);
    case JI_SLICE:
        return next_slice(env, it, out);
    case JI_ITEMS:
        if (it->source.kind == JINJA_UNDEFINED) return false;
        if (!it->started && it->source.kind != JINJA_DICT)
            jinja_fail(env, it->node, "a %s has no items", jinja_type_name(it->source));
        it->started = true;
        if (env->failed || it->at >= it->source.dict->n) return false;
        *out = view_item(env, &(jinja_view){it->source.dict, JINJA_ITEMS}, it->at++);
        return !env->failed;
    default:
        return false;
    }
}

bool jinja_next(jinja_env *env, jinja_iterator *it, jinja_value *out) {
    if (!it || !jinja_step(env, it->node, 1)) return false;
    if (it->type < JI_WHERE) return next_plain(env, it, out) && !env->failed;
    if (!jinja_deeper(env, it->node)) return false;
    bool more = next_generated(env, it, out);
    env->depth--;
    return more;
}

jinja_value jinja_to_list(jinja_env *env, const jinja_node *at, jinja_value v) {
    jinja_value out = jinja_list_new(env, JINJA_LIST, jinja_has_length(v) && v.kind == JINJA_LIST ? v.list->n : 0),
                item;
    jinja_iterator *it = jinja_iterate(env, at, v);
    while (jinja_next(env, it, &item)) jinja_push(env, out, item);
    return out;
}
