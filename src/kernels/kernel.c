/* SPDX-License-Identifier: Apache-2.0 */
/* The public objects for kernels and their launches. */
#define _POSIX_C_SOURCE 200809L
#include "kernels/kernel.h"
#include "base/diag.h"
#include "kernels/module.h"
#include "ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

static const tw_kernel_kind kinds[] = {
    {"gemm", tw_gemm_plan_words}, {"attention", tw_attention_plan_words}, {"combine", tw_combine_plan_words},
    {"map", tw_map_plan_words},   {"rows", tw_rows_plan_words},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static tw_status plan(tw_plan *out, const tw_target *target, char *words, char *configuration, tw_diag *diag) {
    const size_t n = strcspn(words, " ");
    for (int i = 0; i < KINDS; i++)
        if (strlen(kinds[i].name) == n && !strncmp(kinds[i].name, words, n))
            return kinds[i].plan(out, words + n, configuration, target, diag);
    return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\" is no kernel; there are gemm, attention, combine, map and rows",
                   (int)n, words);
}

static void describe(tw_gpu_kernel *k) {
    tw_gpu_kernel_info *info = &k->info;
    int64_t fixed;
    *info = (tw_gpu_kernel_info){.problem = k->plan.problem,
                                 .configuration = k->plan.configuration,
                                 .threads = k->plan.kernel->threads,
                                 .registers = -1,
                                 .spill_bytes = -1};
    memcpy(info->grid, k->plan.launch.grid, sizeof info->grid);
    k->dynamic_shared = tw_kernel_shared_layout(k->plan.kernel, &fixed);
    info->shared_bytes = k->dynamic_shared + fixed;
    for (int i = 0; i < k->plan.n_buffers; i++) {
        const tw_gpu_buffer *b = &k->plan.buffers[i];
        if (!strcmp(b->name, "workspace") || !strcmp(b->name, "counters")) info->workspace_bytes += (int64_t)b->bytes;
    }
}

static tw_status compile(tw_gpu_kernel *k, tw_diag *diag) {
    const tw_status st = tw_shared_module_open(&k->module, k->gpu, k->plan.kernel, diag);
    if (st != TW_OK) return st;
    k->info.registers = k->module->registers;
    k->info.spill_bytes = k->module->spill_bytes;
    k->info.code = k->module->code;
    return TW_OK;
}

/* Compiles the kernel of a plan. */
static tw_status finish(tw_gpu_kernel *k, tw_diag *diag) {
    k->signature = tw_signature_of(k->plan.kernel);
    describe(k);
    return k->gpu->cuda ? compile(k, diag) : TW_OK;
}

static tw_status open_kernel(tw_gpu_kernel *k, const char *words, const char *configuration, tw_kernel_change *change,
                             void *context, tw_diag *diag) {
    char *problem = strdup(words), *chosen = strdup(configuration ? configuration : "");
    k->words = strdup(words);
    k->chosen = strdup(configuration ? configuration : "");
    tw_diag own;
    if (!diag) diag = &own;
    tw_status st = problem && chosen && k->words && k->chosen ? plan(&k->plan, k->gpu->target, problem, chosen, diag)
                                                              : tw_fail_memory(diag);
    free(problem);
    free(chosen);
    if (st == TW_OK && change) st = change(context, &k->plan, diag);
    return st == TW_OK ? finish(k, diag) : st;
}

tw_status tw_kernel_text(const tw_gpu *g, const char *words, const char *configuration, tw_buf *ptx, tw_diag *diag) {
    tw_plan *p = calloc(1, sizeof *p);
    char *problem = strdup(words), *chosen = strdup(configuration);
    tw_status st = TW_ERR_MEMORY;
    if (p && problem && chosen) {
        st = plan(p, g->target, problem, chosen, diag);
        if (st == TW_OK) st = tw_ptx_print(ptx, p->kernel, g->target, diag);
        tw_kernel_free(p->kernel);
    } else {
        tw_fail_memory(diag);
    }
    free(p);
    free(problem);
    free(chosen);
    return st;
}

tw_status tw_kernel_open_changed(tw_gpu_kernel **out, tw_gpu *g, const char *words, const char *configuration,
                                 tw_kernel_change *change, void *context, tw_diag *diag) {
    tw_gpu_kernel *k = calloc(1, sizeof *k);
    *out = NULL;
    if (!k) return tw_fail_memory(diag);
    k->gpu = g;
    const tw_status st = open_kernel(k, words, configuration, change, context, diag);
    if (st == TW_OK)
        *out = k;
    else
        tw_gpu_kernel_close(k);
    return st;
}

tw_status tw_kernel_open_made(tw_gpu_kernel **out, tw_gpu *g, tw_kernel_maker *make, const void *problem,
                              tw_diag *diag) {
    tw_gpu_kernel *k = calloc(1, sizeof *k);
    *out = NULL;
    if (!k) return tw_fail_memory(diag);
    k->gpu = g;
    tw_status st = make(problem, &k->plan, g->target, diag);
    if (st == TW_OK) st = finish(k, diag);
    if (st == TW_OK)
        *out = k;
    else
        tw_gpu_kernel_close(k);
    return st;
}

tw_status tw_gpu_kernel_open(tw_gpu_kernel **out, tw_gpu *g, const char *words, const char *configuration,
                             tw_diag *diag) {
    return tw_kernel_open_changed(out, g, words, configuration, NULL, NULL, diag);
}

void tw_gpu_kernel_close(tw_gpu_kernel *k) {
    if (!k) return;
    tw_tracer_free(k->tracer);
    tw_tracer_free(k->detached);
    tw_shared_module_close(k->gpu, k->module);
    tw_kernel_free(k->plan.kernel);
    free(k->words);
    free(k->chosen);
    free(k);
}

int tw_gpu_kernel_buffers(const tw_gpu_kernel *k) {
    return k->plan.n_buffers;
}

const tw_gpu_buffer *tw_gpu_kernel_buffer(const tw_gpu_kernel *k, int i) {
    return i >= 0 && i < k->plan.n_buffers ? &k->plan.buffers[i] : NULL;
}

void tw_gpu_kernel_describe(const tw_gpu_kernel *k, tw_gpu_kernel_info *info) {
    *info = k->info;
}

/* -- launches */

struct tw_gpu_launch {
    const tw_gpu_kernel *kernel;
    tw_cuda_ready *ready; /* NULL until every buffer is bound, and in the emulator. */
    tw_tensor_map maps[TW_ARGUMENT_MAPS];
    uint64_t words[TW_ARGUMENTS];
    unsigned unbound;                    /* Bit i: buffer i is not bound, or its last binding failed. */
    uint64_t addresses[TW_PLAN_BUFFERS]; /* Of the bound buffers. */
    tw_gpu_launch *traced;               /* The launch of the tracer's kernel. NULL: there is none yet. */
};

tw_status tw_gpu_launch_open(tw_gpu_launch **out, const tw_gpu_kernel *k, tw_diag *diag) {
    tw_gpu_launch *l = calloc(1, sizeof *l);
    *out = l;
    if (!l) return tw_fail_memory(diag);
    const tw_arguments *a = &k->plan.launch.arguments;
    l->kernel = k;
    l->unbound = (1u << k->plan.n_buffers) - 1;
    tw_arguments_place(a, &k->signature, l->words);
    memcpy(l->maps, a->maps, sizeof l->maps);
    for (int i = 0; i < k->signature.n; i++) {
        const tw_argument *x = tw_argument_of(a, &k->signature, i);
        if (x->map) l->words[i] = (uint64_t)(uintptr_t)&l->maps[x->map - a->maps];
    }
    return TW_OK;
}

void tw_gpu_launch_close(tw_gpu_launch *l) {
    if (!l) return;
    tw_gpu_launch_close(l->traced);
    tw_cuda_ready_free(l->ready);
    free(l);
}

static tw_status make_ready(tw_gpu_launch *l, tw_diag *diag) {
    const tw_gpu_kernel *k = l->kernel;
    const tw_launch_values *v = &k->plan.launch;
    const tw_cuda_launch launch = {.module = k->module->module,
                                   .grid = {v->grid[0], v->grid[1], v->grid[2]},
                                   .threads = k->info.threads,
                                   .dynamic_shared = k->dynamic_shared,
                                   .cluster = v->cluster,
                                   .programmatic = v->early,
                                   .cooperative = k->plan.kernel->cooperative,
                                   .arguments = l->words,
                                   .argument_bytes = k->signature.bytes,
                                   .n_arguments = k->signature.n};
    return tw_cuda_ready_make(k->gpu->cuda, &l->ready, &launch, diag);
}

tw_status tw_gpu_launch_bind(tw_gpu_launch *l, const char *name, uint64_t address, tw_diag *diag) {
    const tw_gpu_kernel *k = l->kernel;
    int b = 0;
    while (b < k->plan.n_buffers && strcmp(k->plan.buffers[b].name, name) != 0) b++;
    if (b == k->plan.n_buffers) return tw_fail(diag, TW_ERR_USAGE, "the kernel has no buffer \"%s\"", name);
    const int align = k->plan.buffers[b].align;
    if (!address || address % (uint64_t)align)
        return tw_fail(diag, TW_ERR_USAGE, "%s: 0x%llx is no address at a multiple of %d bytes", name,
                       (unsigned long long)address, align);
    tw_status st = TW_OK;
    const tw_arguments *a = &k->plan.launch.arguments;
    for (int i = 0; i < k->signature.n && st == TW_OK; i++) {
        const tw_argument *x = tw_argument_of(a, &k->signature, i);
        if (!x->buffer || strcmp(x->buffer, name) != 0) continue;
        if (x->map)
            l->maps[x->map - a->maps].address = address;
        else
            l->words[i] = address;
        if (l->ready) st = tw_cuda_ready_set(l->ready, i, l->words[i], diag);
    }
    const unsigned others = l->unbound & ~(1u << b);
    if (st == TW_OK && !others && !l->ready && k->gpu->cuda) st = make_ready(l, diag);
    /* After a failure the prepared launch may hold a mixture of old and new addresses. */
    l->unbound = st == TW_OK ? others : others | 1u << b;
    l->addresses[b] = address;
    /* A traced launch is prepared anew by the next run. */
    tw_gpu_launch_close(l->traced);
    l->traced = NULL;
    return st;
}

/* Prepares the launch of the tracer's kernel with this one's buffers. */
static tw_status trace(tw_gpu_launch *l, tw_diag *diag) {
    const tw_gpu_kernel *k = l->kernel, *traced = tw_tracer_kernel(k->tracer);
    if (l->traced && l->traced->kernel == traced) return TW_OK;
    tw_gpu_launch_close(l->traced);
    tw_status st = tw_gpu_launch_open(&l->traced, traced, diag);
    for (int i = 0; i < k->plan.n_buffers && st == TW_OK; i++)
        st = tw_gpu_launch_bind(l->traced, k->plan.buffers[i].name, l->addresses[i], diag);
    if (st == TW_OK) st = tw_gpu_launch_bind(l->traced, TW_TRACER_BUFFER, tw_tracer_buffer(k->tracer), diag);
    if (st == TW_OK) return st;
    tw_gpu_launch_close(l->traced);
    l->traced = NULL;
    return st;
}

static tw_status emulate(const tw_gpu_launch *l, tw_diag *diag) {
    const tw_gpu_kernel *k = l->kernel;
    const int *grid = k->plan.launch.grid;
    const tw_emu_options o = {.seed = 1,
                              .grid = {grid[0], grid[1], grid[2]},
                              .observer = k->gpu->observer,
                              .observer_context = k->gpu->observer_context};
    tw_emu_report report;
    const tw_status st = tw_emu_launch(k->gpu->emu, k->plan.kernel, l->words, &o, &report, diag);
    return st == TW_ERR_REJECTED ? tw_emu_explain(&report, diag) : st;
}

tw_status tw_gpu_launch_run(tw_gpu_launch *l, void *stream, tw_diag *diag) {
    const tw_gpu_kernel *k = l->kernel;
    if (l->unbound)
        return tw_fail(diag, TW_ERR_USAGE, "buffer \"%s\" is not bound",
                       k->plan.buffers[__builtin_ctz(l->unbound)].name);
    if (k->tracer) {
        const tw_status st = trace(l, diag);
        return st == TW_OK ? tw_gpu_launch_run(l->traced, stream, diag) : st;
    }
    if (!k->gpu->cuda) return emulate(l, diag);
    if (!l->ready) return tw_fail(diag, TW_ERR_USAGE, "the launch is not prepared");
    return tw_cuda_ready_run(l->ready, stream ? stream : tw_cuda_stream(k->gpu->cuda), diag);
}
