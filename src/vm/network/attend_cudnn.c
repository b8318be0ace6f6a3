/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by cuDNN: its engines as candidates, and those that were chosen. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/stats.h"
#include "vm/network/machine.h"

#include <stdio.h>
#include <string.h>

enum { ENGINES = 4 /* To measure. A plan of each takes about a second. */, SAMPLES = 7 };

/* Engines that are this many times slower than the fastest so far are sampled once. */
static const double give_up = 1.5;

/* Keeps the first reason why cuDNN is left out. */
static void leave_out(tw_cuda_network *n, const tw_diag *d) {
    char *to = n->weights->left_out;
    if (!*to) snprintf(to, sizeof n->weights->left_out, "%.255s", d->message);
}

static tw_cudnn *library(tw_cuda_network *n) {
    tw_network_weights *w = n->weights;
    tw_diag why;
    if (!w->asked_cudnn && n->gpu->cuda && tw_cudnn_open(&w->cudnn, n->gpu->cuda, &why) != TW_OK) leave_out(n, &why);
    w->asked_cudnn = true;
    return w->cudnn;
}

static tw_cudnn_type type_of(tw_type t) {
    return t == TW_T_f32 ? TW_CUDNN_F32 : t == TW_T_f16 ? TW_CUDNN_F16 : TW_CUDNN_BF16;
}

/* Describes attention as cuDNN knows it. False: it does not know it. */
static bool problem_of(const tw_attention_problem *p, tw_cudnn_problem *out) {
    const bool only_device_knows = p->ragged || p->page || p->kv;
    /* Of a query that sees no key cuDNN makes no zeros. */
    const bool blind = p->causal && p->queries > p->keys;
    if (only_device_knows || blind || p->window || p->cap != 0 || p->lse || p->sinks || p->mask == TW_T_i8)
        return false;
    const int64_t row = p->queries * p->ldm;
    *out = (tw_cudnn_problem){
        .type = type_of(p->type),
        .batch = p->batch,
        .heads = p->heads,
        .kv_heads = p->kv_heads,
        .queries = p->queries,
        .keys = p->keys,
        .head = p->head,
        .q = {p->queries * p->ldq, p->head, p->ldq},
        .kv = p->capacity ? (tw_cudnn_strides){p->kv_heads * p->capacity * p->ldk, p->capacity * p->ldk, p->ldk}
                          : (tw_cudnn_strides){p->keys * p->ldk, p->head, p->ldk},
        .out = {p->queries * p->ldo, p->head, p->ldo},
        .scale = p->scale,
        .causal = p->causal,
        .masked = p->mask,
        .mask_type = type_of(p->mask),
        .mask_batch = p->mask_batch,
        .mask_heads = p->mask_heads,
        .mask = {p->mask_heads * row, row, p->ldm},
    };
    return true;
}

/* Describes attention, if there is cuDNN and it may know it. */
static bool knows(tw_cuda_network *n, const tw_attention_problem *p, tw_cudnn_problem *out) {
    tw_diag why;
    if (!library(n)) return false;
    if (problem_of(p, out)) return true;
    tw_fail(&why, TW_ERR_UNSUPPORTED, "it is not asked for such masks, limits of scores or queries without keys");
    leave_out(n, &why);
    return false;
}

bool tw_network_has_cudnn(tw_cuda_network *n, const tw_attention_problem *p) {
    tw_cudnn_problem unused;
    return knows(n, p, &unused);
}

/* Makes a plan that the network frees. */
static tw_status open_engine(tw_cuda_network *n, const tw_cudnn_problem *p, const char *words, const char *text,
                             const tw_network_foreign **out, tw_diag *diag) {
    tw_cudnn_engine e;
    tw_network_foreign *f = n->foreign;
    while (f && (strcmp(f->words, words) != 0 || strcmp(f->engine, text) != 0)) f = f->next;
    *out = f && f->plan ? f : NULL;
    if (*out) return TW_OK;
    if (f) return tw_fail(diag, TW_ERR_UNSUPPORTED, "\"%s\" was not made before", text);
    if (!tw_cudnn_engine_parse(&e, text)) return tw_fail(diag, TW_ERR_UNSUPPORTED, "\"%s\" is no engine", text);
    f = tw_arena_alloc(&n->arena, sizeof *f);
    const char *kept[] = {tw_arena_strdup(&n->arena, words), tw_arena_strdup(&n->arena, text)};
    if (n->arena.failed) return tw_fail_memory(diag);
    const tw_status st = tw_cudnn_plan_make(n->weights->cudnn, p, &e, &f->plan, diag);
    if (st != TW_OK && st != TW_ERR_UNSUPPORTED) return st;
    *f = (tw_network_foreign){n->foreign, kept[0], kept[1], f->plan};
    n->foreign = f;
    if (st == TW_OK) *out = f;
    return st;
}

static bool is_used(const tw_cuda_network *n, const tw_network_foreign *f) {
    for (int i = 0; i < n->n; i++)
        if (n->launches[i].cudnn == f) return true;
    return false;
}

void tw_network_keep_cudnn(tw_cuda_network *n) {
    tw_network_foreign **at = &n->foreign;
    while (*at) {
        tw_network_foreign *f = *at;
        if (is_used(n, f)) {
            n->bytes += tw_cudnn_plan_bytes(f->plan);
            at = &f->next;
            continue;
        }
        *at = f->next;
        tw_cudnn_plan_free(f->plan);
    }
}

tw_status tw_network_open_cudnn(tw_cuda_network *n, const tw_attention_problem *p, const char *words,
                                const char *engine, const tw_network_foreign **out, tw_diag *diag) {
    tw_cudnn_problem problem;
    tw_cudnn_engine proposed[ENGINES];
    tw_diag why;
    int count = 0;
    tw_status st = TW_ERR_UNSUPPORTED;
    *out = NULL;
    if (!knows(n, p, &problem)) return TW_OK;
    if (engine)
        st = open_engine(n, &problem, words, engine, out, &why);
    else
        st = tw_cudnn_propose(n->weights->cudnn, &problem, ENGINES, proposed, &count, &why);
    for (int i = 0; i < count && !*out && (st == TW_OK || st == TW_ERR_UNSUPPORTED); i++) {
        char text[TW_CUDNN_ENGINE_TEXT];
        tw_cudnn_engine_print(&proposed[i], text);
        st = open_engine(n, &problem, words, text, out, &why);
    }
    if (st == TW_OK) return TW_OK;
    if (st != TW_ERR_UNSUPPORTED) return tw_fail(diag, st, "%s", why.message);
    leave_out(n, &why);
    return TW_OK;
}

static tw_status enqueue(void *context, const uint64_t at[TW_ATTENTION_BUFFERS], tw_diag *diag) {
    return tw_cudnn_run(context, at[TW_ATTENTION_Q], at[TW_ATTENTION_K], at[TW_ATTENTION_V], at[TW_ATTENTION_MASK],
                        at[TW_ATTENTION_OUT], diag);
}

/* Checks and times an engine. Returns its microseconds. 1e30: it is wrong, or does not run. */
static double measure(tw_cuda_network *n, const tw_cudnn_problem *p, tw_attention_rig *rig, const tw_cudnn_engine *e,
                      double best, tw_diag *why) {
    double samples[SAMPLES];
    tw_cudnn_plan *plan;
    int taken = 0;
    n->plan->measured++;
    tw_status st = tw_cudnn_plan_make(n->weights->cudnn, p, e, &plan, why);
    if (st == TW_OK)
        st = tw_attention_rig_try_other(rig, enqueue, plan, samples, SAMPLES, best < 1e30 ? give_up * best : 0, &taken,
                                        why);
    tw_cudnn_plan_free(plan);
    return st == TW_OK ? tw_stats_of(samples, (size_t)taken).median : 1e30;
}

tw_status tw_network_search_cudnn(tw_cuda_network *n, const tw_attention_problem *p, tw_attention_rig *rig,
                                  const char *words, int64_t began, tw_diag *diag) {
    tw_cudnn_problem problem;
    tw_cudnn_engine engines[ENGINES];
    tw_diag why;
    double best = 1e30;
    char text[TW_CUDNN_ENGINE_TEXT];
    int count = 0;
    const int64_t now = tw_now_ns();
    const double limit = n->searching.seconds;
    if (!knows(n, p, &problem)) return TW_OK;
    tw_cudnn_propose(n->weights->cudnn, &problem, ENGINES, engines, &count, &why);
    for (int i = 0; i < count; i++) {
        if (i && limit > 0 && (double)(tw_now_ns() - began) * 1e-9 > limit) break;
        const double us = measure(n, &problem, rig, &engines[i], best, &why);
        if (us >= best) continue;
        best = us;
        tw_cudnn_engine_print(&engines[i], text);
    }
    n->plan->costs.vendor += (double)(tw_now_ns() - now) * 1e-9;
    if (best < 1e30) return tw_network_plan_add(n->plan, &(tw_network_choice){"cudnn", words, text, best, false}, diag);
    leave_out(n, &why);
    return TW_OK;
}
