/* SPDX-License-Identifier: Apache-2.0 */
/* A rendering: its memory, its limits, and its first error. */
#include "base/diag.h"
#include "tokenizer/jinja/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const jinja_limits jinja_default_limits = {
    .steps = 20 * 1000 * 1000, .bytes = (int64_t)512 << 20, .output = (int64_t)64 << 20};

static void fail(jinja_env *env, const jinja_node *at, tw_status s, const char *fmt, va_list ap) {
    if (env->failed) return;
    env->failed = true;
    env->status = s;
    char text[1024];
    int line, column;
    vsnprintf(text, sizeof text, fmt, ap);
    if (!at) at = env->at;
    jinja_place_of(env->t, at ? at->at : 0, &line, &column);
    tw_fail_line(env->diag, s, env->t->path, line, column, "%s", text);
}

jinja_value jinja_fail(jinja_env *env, const jinja_node *at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fail(env, at, TW_ERR_FORMAT, fmt, ap);
    va_end(ap);
    return jinja_undefined(NULL);
}

jinja_value jinja_refuse(jinja_env *env, const jinja_node *at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fail(env, at, TW_ERR_UNSUPPORTED, fmt, ap);
    va_end(ap);
    return jinja_undefined(NULL);
}

void jinja_fail_memory(jinja_env *env) {
    if (env->failed) return;
    env->failed = true;
    env->status = tw_fail_memory(env->diag);
}

bool jinja_step(jinja_env *env, const jinja_node *at, int64_t n) {
    if (env->failed) return false;
    env->left.steps -= n < 1 ? 1 : n;
    if (env->left.steps >= 0) return true;
    jinja_refuse(env, at, "the template does not come to an end: too many steps");
    return false;
}

bool jinja_deeper(jinja_env *env, const jinja_node *at) {
    if (env->failed) return false;
    if (env->depth < JINJA_DEPTH) {
        env->depth++;
        return true;
    }
    jinja_refuse(env, at, "nested more than %d deep", JINJA_DEPTH);
    return false;
}

void *jinja_alloc(jinja_env *env, size_t count, size_t size) {
    if (env->failed) return NULL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)env->left.bytes) {
        jinja_refuse(env, NULL, "the template needs too much memory");
        return NULL;
    }
    env->left.bytes -= (int64_t)bytes;
    void *p = tw_arena_alloc(&env->arena, bytes ? bytes : 1);
    if (!p) jinja_fail_memory(env);
    return p;
}

tw_status jinja_begin(jinja_env **out, const jinja_template *t, const jinja_limits *limits, int64_t now,
                      tw_diag *diag) {
    *out = NULL;
    jinja_env *env = calloc(1, sizeof *env);
    if (!env) return tw_fail_memory(diag);
    env->t = t;
    env->diag = diag;
    env->left = limits ? *limits : jinja_default_limits;
    env->output_limit = env->left.output;
    env->now = now;
    env->by_name = calloc(t->names.n + 1, sizeof *env->by_name);
    if (!env->by_name) {
        jinja_end(env);
        return tw_fail_memory(diag);
    }
    for (uint32_t i = 0; i < t->names.n; i++) {
        const jinja_function *f = jinja_find_global(t->names.v[i]->data);
        if (f) env->by_name[i] = (jinja_value){.kind = JINJA_FUNCTION, .function = f};
    }
    *out = env;
    return TW_OK;
}

void jinja_set(jinja_env *env, const char *name, jinja_value v) {
    for (uint32_t i = 0; i < env->t->names.n; i++)
        if (!strcmp(env->t->names.v[i]->data, name)) env->by_name[i] = v;
}

/* Hands the text over. Its marks may all be 0. */
static tw_status finished(jinja_env *env, jinja_buffer *b, char **text, unsigned char **typed, size_t *size) {
    char *data = realloc(b->data, b->size + 1);
    unsigned char *marks = b->typed ? b->typed : calloc(1, b->size + 1);
    if (data) b->data = data;
    if (!data || !marks) {
        if (marks != b->typed) free(marks);
        jinja_drop(b);
        jinja_fail_memory(env);
        return env->status;
    }
    data[b->size] = 0;
    *text = data;
    *typed = marks;
    *size = b->size;
    return TW_OK;
}

tw_status jinja_run(jinja_env *env, char **text, unsigned char **typed, size_t *size) {
    jinja_buffer b = {0};
    *text = NULL;
    *typed = NULL;
    *size = 0;
    env->out = &b;
    env->active = jinja_activate(env, env->t->scope, NULL);
    if (env->active) {
        jinja_enter_frame(env, env->t->frame);
        jinja_execute(env, env->t->body);
    }
    env->out = NULL;
    if (env->failed) {
        jinja_drop(&b);
        return env->status;
    }
    return finished(env, &b, text, typed, size);
}

void jinja_end(jinja_env *env) {
    if (!env) return;
    tw_arena_free(&env->arena);
    free(env->by_name);
    free(env);
}
