/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that whole passes are compared with differ from those that were measured alone by their epilogues. They are
   compiled side by side before the first of them is opened, all by the compiler whose kernels were measured. */
#include "base/clock.h"
#include "base/grow.h"
#include "vm/network/machine.h"

#include <stdlib.h>
#include <string.h>

typedef struct text {
    const tw_gpu *gpu;
    char *words, *configuration;
    tw_cubin_key key; /* Of the text, once it is printed. */
} text;

struct tw_network_code {
    tw_arena arena;
    int64_t began;
    text **texts;
    int n, room;
    tw_ptx_job *jobs;
    tw_machine_code *all; /* What the GPU was lent before, and these. */
    const tw_machine_code *before;
    int n_before;
};

static tw_status print(const void *context, tw_buf *ptx, tw_diag *diag) {
    text *t = *(text *const *)context;
    const tw_status st = tw_kernel_text(t->gpu, t->words, t->configuration, ptx, diag);
    if (st == TW_OK) t->key = tw_machine_code_name(ptx->data, ptx->size, t->gpu->target->name);
    return st;
}

/* Adds the kernel of a way to those that are compiled. False: there is no memory. */
static bool add(tw_network_code *c, const tw_network_way *w, const tw_gpu *g) {
    /* A choice that is not legal for the step leaves it with another, which may be there. */
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->texts[i]->words, w->words) && !strcmp(c->texts[i]->configuration, w->configuration)) return true;
    text **grown = tw_grow(c->texts, c->n, &c->room, 32, sizeof *grown);
    if (grown) c->texts = grown;
    text *t = grown ? tw_arena_alloc(&c->arena, sizeof *t) : NULL;
    if (!t) return false;
    *t = (text){.gpu = g,
                .words = tw_arena_strdup(&c->arena, w->words),
                .configuration = tw_arena_strdup(&c->arena, w->configuration)};
    if (c->arena.failed) return false;
    c->texts[c->n++] = t;
    return true;
}

static double since(int64_t began) {
    return (double)(tw_now_ns() - began) * 1e-9;
}

/* Tells whether no time is left for comparing. */
static bool is_late(const tw_cuda_network *n, const tw_network_code *c) {
    return n->options.seconds > 0 && n->searching.spent + since(c->began) >= n->options.seconds;
}

/* Adds a way, if it is a kernel of ours. */
static bool add_way(tw_cuda_network *n, tw_network_code *c, const tw_network_way *w) {
    return w->chosen.vendor || w->cudnn || add(c, w, n->gpu);
}

/* Adds the kernel that a step has now, and while there is time those of all choices that are to be compared for it. */
static bool add_step(tw_cuda_network *n, tw_network_code *c, int step) {
    tw_network_way w;
    int choices[TW_NETWORK_PROMISING];
    if (tw_network_way_of(n, step, &w, NULL) != TW_OK || !w.chosen.entry) return true;
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->texts[i]->words, w.words)) return true; /* An equal step has come before. */
    const char *problem = n->plan->choices[w.chosen.entry - 1].problem;
    const int count = tw_network_promising(n->plan, problem, choices);
    if (count < 2) return true;
    bool good = add_way(n, c, &w);
    for (int i = 0; i < count && good && !is_late(n, c); i++) {
        tw_network_plan_settle(n->plan, problem, choices[i]);
        if (tw_network_way_of(n, step, &w, NULL) == TW_OK) good = add_way(n, c, &w);
    }
    tw_network_plan_settle(n->plan, problem, -1);
    return good;
}

/* Compiles all, and lends them. What is not compiled is left to whoever opens it. */
static bool compile(tw_cuda_network *n, tw_network_code *c) {
    tw_gpu *g = n->gpu;
    const int before = g->n_code;
    c->jobs = calloc((size_t)c->n, sizeof *c->jobs);
    c->all = calloc((size_t)before + (size_t)c->n, sizeof *c->all);
    if (!c->jobs || !c->all) return false;
    for (int i = 0; i < c->n; i++) c->jobs[i] = (tw_ptx_job){.print = print, .context = &c->texts[i]};
    if (!n->searching.compiler.cuda) n->searching.compiler = tw_ptx_compiler_for_many(g->cuda);
    tw_ptx_compile_all_by(&n->searching.compiler, c->jobs, c->n, 0);
    if (before) memcpy(c->all, g->code, (size_t)before * sizeof *c->all);
    c->before = g->code;
    c->n_before = before;
    g->code = c->all;
    for (int i = 0; i < c->n; i++) {
        const tw_ptx_job *j = &c->jobs[i];
        n->plan->costs.threads += j->print_seconds + j->cubin.seconds;
        if (j->status != TW_OK || !tw_is_machine_code(j->cubin.data, j->cubin.bytes)) continue;
        c->all[g->n_code++] = (tw_machine_code){.key = c->texts[i]->key,
                                                .target = g->target->name,
                                                .data = j->cubin.data,
                                                .bytes = j->cubin.bytes,
                                                .registers = j->cubin.registers,
                                                .spill_bytes = j->cubin.spill_bytes,
                                                .from = j->cubin.cached ? "cache" : "compiler"};
    }
    return true;
}

tw_network_code *tw_network_compile(tw_cuda_network *n) {
    const int64_t began = tw_now_ns();
    tw_network_code *c = calloc(1, sizeof *c);
    bool good = c;
    if (c) c->began = began;
    for (int i = 0; i < n->p->n_steps && good; i++) {
        const tw_step_kind kind = n->p->steps[i].kind;
        if (kind == TW_STEP_PRODUCT || kind == TW_STEP_ATTENTION) good = add_step(n, c, i);
    }
    if (good && c->n) good = compile(n, c);
    if (!good) {
        tw_network_code_free(n, c);
        c = NULL;
    }
    const double took = since(began);
    n->searching.spent += took;
    n->plan->costs.settle += took;
    n->plan->seconds += took;
    return c;
}

void tw_network_code_free(tw_cuda_network *n, tw_network_code *c) {
    if (!c) return;
    if (n->gpu->code == c->all && c->all) {
        n->gpu->code = c->before;
        n->gpu->n_code = c->n_before;
    }
    for (int i = 0; i < c->n && c->jobs; i++) tw_cubin_free(&c->jobs[i].cubin);
    free(c->jobs);
    free(c->all);
    free(c->texts);
    tw_arena_free(&c->arena);
    free(c);
}
