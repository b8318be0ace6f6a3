/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, running and timing. */
#include "base/diag.h"
#include "base/grow.h"
#include "ptx/ptx.h"
#include "vm/network/machine.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = TW_PROGRAM_ALIGN };

static int64_t padded(int64_t bytes) {
    return (bytes + ALIGN) / ALIGN * ALIGN; /* At least one unit, also of nothing. */
}

/* ---- constants */

tw_status tw_network_weights_open(tw_network_weights **out, tw_gpu *gpu, tw_diag *diag) {
    tw_network_weights *w = *out = calloc(1, sizeof *w);
    if (!w) return tw_fail_memory(diag);
    w->gpu = gpu;
    return TW_OK;
}

void tw_network_weights_close(tw_network_weights *w) {
    if (!w) return;
    for (int i = 0; i < w->n; i++) tw_gpu_release(w->gpu, w->list[i].address);
    tw_cublaslt_close(w->vendor);
    tw_cudnn_close(w->cudnn);
    free(w->list);
    free(w);
}

int64_t tw_network_weights_bytes(const tw_network_weights *w) {
    return w->bytes;
}

/* Finds a constant on the device, or uploads it. */
static tw_status upload(tw_network_weights *w, const tw_program_buffer *b, uint64_t *address, tw_diag *diag) {
    for (int i = 0; i < w->n; i++)
        if (w->list[i].content == b->content && w->list[i].bytes == b->bytes) {
            *address = w->list[i].address;
            return TW_OK;
        }
    tw_network_constant *grown = tw_grow(w->list, w->n, &w->room, 64, sizeof *grown);
    if (!grown) return tw_fail_memory(diag);
    w->list = grown;
    tw_status st = tw_gpu_alloc_named(w->gpu, b->name, (size_t)padded(b->bytes), address, diag);
    if (st != TW_OK) return st;
    w->list[w->n++] = (tw_network_constant){b->content, b->bytes, *address};
    w->bytes += padded(b->bytes);
    return b->bytes ? tw_gpu_upload(w->gpu, *address, b->content, (size_t)b->bytes, diag) : TW_OK;
}

/* Releases constants but the first n. What made them may be gone, and another's contents lie in their place. */
static void forget(tw_network_weights *w, int n) {
    while (w->n > n) {
        const tw_network_constant *last = &w->list[--w->n];
        tw_gpu_release(w->gpu, last->address);
        w->bytes -= padded(last->bytes);
    }
}

/* ---- memory */

/* Adds a block of memory to those that are released with the network. */
static tw_status keep(tw_cuda_network *n, uint64_t address, tw_diag *diag) {
    uint64_t *grown = tw_grow(n->tables, n->n_tables, &n->room_tables, 16, sizeof *grown);
    if (!grown) {
        tw_gpu_release(n->gpu, address);
        return tw_fail_memory(diag);
    }
    n->tables = grown;
    n->tables[n->n_tables++] = address;
    return TW_OK;
}

static tw_status allocate(tw_cuda_network *n, const char *name, int64_t bytes, uint64_t *address, tw_diag *diag) {
    tw_status st = tw_gpu_alloc_named(n->gpu, name, (size_t)padded(bytes), address, diag);
    if (st == TW_OK) st = keep(n, *address, diag);
    n->bytes += padded(bytes);
    return st;
}

tw_status tw_network_alloc(tw_cuda_network *n, const char *name, int64_t bytes, uint64_t *address, tw_diag *diag) {
    tw_status st = allocate(n, name, bytes, address, diag);
    if (st != TW_OK) return st;
    if (n->gpu->cuda) return tw_cuda_fill(n->gpu->cuda, *address, 0, (size_t)padded(bytes) / 4, diag);
    void *zeros = calloc(1, (size_t)padded(bytes));
    st = zeros ? tw_gpu_upload(n->gpu, *address, zeros, (size_t)padded(bytes), diag) : tw_fail_memory(diag);
    free(zeros);
    return st;
}

/* A constant that no other program may take for its own: another's content may come to lie where this one was. */
static tw_status upload_own(tw_cuda_network *n, const tw_program_buffer *b, uint64_t *address, tw_diag *diag) {
    const tw_status st = allocate(n, b->name, b->bytes, address, diag);
    return st == TW_OK && b->bytes ? tw_gpu_upload(n->gpu, *address, b->content, (size_t)b->bytes, diag) : st;
}

/* Notes which buffers steps read. What lowering made other constants of is not read any more. */
static void note_read(const tw_program *p, bool *read) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_in; k++)
            if (p->steps[i].in[k].buffer >= 0) read[p->steps[i].in[k].buffer] = true;
}

/* Gives each buffer an address, but for constants that nobody reads. */
static tw_status place_buffers(tw_cuda_network *n, tw_diag *diag) {
    const tw_program *p = n->p;
    bool *read = tw_arena_array(&n->arena, (size_t)p->n_buffers + 1, sizeof *read);
    if (!read) return tw_fail_memory(diag);
    note_read(p, read);
    tw_status st = allocate(n, "scratch", p->scratch_bytes, &n->scratch, diag);
    for (int i = 0; i < p->n_buffers && st == TW_OK; i++) {
        const tw_program_buffer *b = &p->buffers[i];
        if (b->kind == TW_PROGRAM_CONSTANT && !read[i]) continue;
        if (b->kind == TW_PROGRAM_SCRATCH)
            n->at[i] = n->scratch + (uint64_t)(b->offset < 0 ? 0 : b->offset);
        else if (b->kind == TW_PROGRAM_CONSTANT)
            st = b->own ? upload_own(n, b, &n->at[i], diag) : upload(n->weights, b, &n->at[i], diag);
        else
            st = allocate(n, b->name, b->bytes, &n->at[i], diag);
    }
    return st;
}

/* ---- opening */

static tw_status open_network(tw_cuda_network *n, tw_diag *diag) {
    const tw_cuda_info emulated = {
        .name = "NVIDIA H200", .sm = 90, .sms = 132, .clock_khz = 1980000, .target = n->gpu->target};
    n->info = n->gpu->cuda ? *tw_cuda_describe(n->gpu->cuda) : emulated;
    n->at = tw_arena_array(&n->arena, (size_t)n->p->n_buffers + 1, sizeof *n->at);
    tw_status st = n->at ? place_buffers(n, diag) : tw_fail_memory(diag);
    const bool searches = n->options.search && n->plan && n->gpu->cuda;
    if (st == TW_OK && searches) st = tw_network_search_all(n, diag);
    tw_network_code *code = st == TW_OK && searches ? tw_network_compile(n) : NULL;
    for (int i = 0; i < n->p->n_steps && st == TW_OK; i++) st = tw_network_add_step(n, i, diag);
    if (st == TW_OK) st = tw_network_alloc_workspace(n, diag);
    for (int i = 0; i < n->n && st == TW_OK; i++) st = tw_network_bind(n, &n->launches[i], diag);
    if (st == TW_OK && searches) tw_network_settle(n);
    tw_network_code_free(n, code);
    if (st == TW_OK) tw_network_keep_cudnn(n);
    return st;
}

tw_status tw_cuda_network_open(tw_cuda_network **out, const tw_program *program, tw_network_weights *weights,
                               const tw_cuda_network_options *options, tw_network_plan *plan, tw_diag *diag) {
    tw_cuda_network *n = calloc(1, sizeof *n);
    *out = NULL;
    if (!n) return tw_fail_memory(diag);
    n->p = program;
    n->weights = weights;
    n->gpu = weights->gpu;
    n->options = *options;
    n->plan = plan;
    const int constants = weights->n;
    const tw_status st = open_network(n, diag);
    n->plan = NULL;
    if (st == TW_OK) {
        *out = n;
        return TW_OK;
    }
    tw_cuda_network_close(n);
    forget(weights, constants);
    return st;
}

void tw_network_close_launch(tw_network_launch *l) {
    tw_gpu_launch_close(l->launch);
    tw_cublaslt_plan_free(l->vendor.plan);
}

void tw_cuda_network_close(tw_cuda_network *n) {
    if (!n) return;
    tw_cuda_graph_free(n->graph);
    for (int i = 0; i < n->n; i++) tw_network_close_launch(&n->launches[i]);
    for (tw_network_kernel *k = n->kernels; k; k = k->next) tw_gpu_kernel_close(k->kernel);
    for (tw_network_foreign *f = n->foreign; f; f = f->next) tw_cudnn_plan_free(f->plan);
    for (int i = 0; i < n->n_tables; i++) tw_gpu_release(n->gpu, n->tables[i]);
    free(n->tables);
    free(n->launches);
    tw_arena_free(&n->arena);
    free(n);
}

void tw_cuda_network_code(const tw_cuda_network *n, int counts[3]) {
    static const char *const from[] = {"package", "cache", "compiler"};
    for (const tw_network_kernel *k = n->kernels; k; k = k->next)
        for (int i = 0; i < 3; i++) counts[i] += k->kernel->info.code && !strcmp(k->kernel->info.code, from[i]);
}

tw_status tw_cuda_network_ptx(const tw_cuda_network *n, int i, tw_buf *out, bool *more, tw_diag *diag) {
    const tw_network_kernel *k = n->kernels;
    for (; k && i; i--) k = k->next;
    *more = k;
    return k ? tw_ptx_print(out, k->kernel->plan.kernel, n->gpu->target, diag) : TW_OK;
}

int tw_cuda_network_launches(const tw_cuda_network *n) {
    return n->n;
}

int64_t tw_cuda_network_bytes(const tw_cuda_network *n) {
    return n->bytes;
}

/* ---- running */

static tw_status launch(tw_cuda_network *n, tw_network_launch *l, tw_diag *diag) {
    const tw_step *s = &n->p->steps[l->step];
    const bool clear = n->options.clear && s->kind == TW_STEP_PRODUCT && l->kernel && !l->epilogue;
    const tw_status st = clear ? tw_network_clear(n, l, diag) : TW_OK;
    if (st != TW_OK) return st;
    if (l->launch) return tw_gpu_launch_run(l->launch, NULL, diag);
    if (l->cudnn)
        return tw_cudnn_run(l->cudnn->plan, tw_network_address(n, &s->in[0]), tw_network_address(n, &s->in[1]),
                            tw_network_address(n, &s->in[2]), tw_network_address(n, &s->in[3]),
                            tw_network_address(n, &s->out[0]), diag);
    /* The library is column-major: a row-major product is its product with exchanged factors. */
    return tw_cublaslt_run(l->vendor.plan, l->vendor.algorithm, tw_network_address(n, &s->in[1]),
                           tw_network_address(n, &s->in[0]), tw_network_address(n, &s->out[0]), NULL, diag);
}

tw_status tw_network_launch_all(tw_cuda_network *n, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < n->n && st == TW_OK; i++) {
        char what[512];
        st = launch(n, &n->launches[i], diag);
        if (st == TW_OK || !diag || st != TW_ERR_REJECTED) continue;
        const tw_diag found = *diag;
        tw_step_describe(n->p, &n->p->steps[n->launches[i].step], what, sizeof what);
        tw_fail(diag, st, "step %d, %s: %.2000s", n->launches[i].step, what, found.message);
    }
    return st;
}

tw_status tw_network_capture(tw_cuda_network *n, tw_cuda_graph **out, tw_diag *diag) {
    *out = NULL;
    tw_status st = tw_cuda_capture_begin(n->gpu->cuda, diag);
    if (st != TW_OK) return st;
    const tw_status launched = tw_network_launch_all(n, diag);
    st = tw_cuda_capture_end(n->gpu->cuda, out, launched == TW_OK ? diag : NULL);
    if (launched == TW_OK) return st;
    tw_cuda_graph_free(*out);
    *out = NULL;
    return launched;
}

/* Captures a network that has run, once. */
static void capture(tw_cuda_network *n) {
    if (!n->gpu->cuda || n->graph || n->one_by_one || !n->n) return;
    n->one_by_one = tw_network_capture(n, &n->graph, NULL) != TW_OK;
}

static tw_status copy_all(tw_cuda_network *n, const int *buffers, int count, const void *const *from, void *const *to,
                          tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < count && st == TW_OK; i++) {
        const tw_program_buffer *b = &n->p->buffers[buffers[i]];
        if (!b->bytes) continue;
        st = from ? tw_gpu_upload(n->gpu, n->at[buffers[i]], from[i], (size_t)b->bytes, diag)
                  : tw_gpu_download(n->gpu, to[i], n->at[buffers[i]], (size_t)b->bytes, diag);
    }
    return st;
}

tw_status tw_cuda_network_run(tw_cuda_network *n, const void *const *inputs, void *const *outputs, tw_diag *diag) {
    tw_status st = copy_all(n, n->p->inputs, n->p->n_inputs, inputs, NULL, diag);
    if (st == TW_OK) st = n->graph ? tw_cuda_graph_run(n->gpu->cuda, n->graph, diag) : tw_network_launch_all(n, diag);
    if (st == TW_OK) st = copy_all(n, n->p->outputs, n->p->n_outputs, NULL, outputs, diag);
    if (st != TW_OK) return st;
    n->ran = true;
    capture(n);
    return TW_OK;
}

/* ---- times */

tw_status tw_cuda_network_time(tw_cuda_network *n, int times, double *samples, int n_samples, tw_diag *diag) {
    tw_status st = TW_OK;
    if (!n->gpu->cuda) return tw_fail(diag, TW_ERR_UNSUPPORTED, "an emulator's passes have no times; a GPU's have");
    if (!n->n) return tw_fail(diag, TW_ERR_UNSUPPORTED, "a pass without launches has no time");
    if (!n->graph) return tw_fail(diag, TW_ERR_UNSUPPORTED, "the launches were not captured as a graph");
    for (int i = 0; i < n_samples && st == TW_OK; i++) {
        st = tw_cuda_graph_time(n->gpu->cuda, n->graph, times, &samples[i], diag);
        samples[i] /= times;
    }
    return st;
}

/* Times a launch alone, as often as it takes to hide what a graph costs. */
static tw_status time_launch(tw_cuda_network *n, tw_network_launch *l, double *us, tw_diag *diag) {
    enum { LAUNCHES = 20, TIMES = 5 };
    tw_cuda_graph *graph = NULL;
    tw_status st = tw_cuda_capture_begin(n->gpu->cuda, diag), launched = TW_OK;
    if (st != TW_OK) return st;
    for (int i = 0; i < LAUNCHES && launched == TW_OK; i++) launched = launch(n, l, diag);
    st = tw_cuda_capture_end(n->gpu->cuda, &graph, diag);
    if (launched != TW_OK) st = launched;
    if (st == TW_OK) st = tw_cuda_graph_time(n->gpu->cuda, graph, 1, us, diag);
    if (st == TW_OK) st = tw_cuda_graph_time(n->gpu->cuda, graph, TIMES, us, diag);
    tw_cuda_graph_free(graph);
    *us /= LAUNCHES * TIMES;
    return st;
}

tw_status tw_cuda_network_explain(tw_cuda_network *n, bool timed, tw_buf *out, tw_diag *diag) {
    for (int i = 0; i < n->n; i++) {
        tw_network_launch *l = &n->launches[i];
        const tw_step *s = &n->p->steps[l->step];
        char step[512], name[256] = "";
        double us = 0;
        tw_gpu_kernel_info info = {0};
        const tw_status st = timed && n->gpu->cuda ? time_launch(n, l, &us, diag) : TW_OK;
        if (st != TW_OK) return st;
        tw_step_describe(n->p, s, step, sizeof step);
        if (s->origin) tw_node_describe(s->origin, name, sizeof name);
        if (l->kernel) tw_gpu_kernel_describe(l->kernel->kernel, &info);
        bool good = true;
        if (timed) good &= tw_buf_printf(out, "%9.2f us  ", us);
        const char *how = l->kernel ? info.configuration : l->cudnn ? "cudnn " : "cublaslt";
        good &= tw_buf_printf(out, "%3d %s; %s; %s%s%s%s\n", l->step, step, name, how, l->cudnn ? l->cudnn->engine : "",
                              info.code ? "; by the " : "", info.code ? info.code : "");
        if (!good) return tw_fail_memory(diag);
    }
    bool used = false;
    for (int i = 0; i < n->n; i++) used |= n->launches[i].cudnn != NULL;
    const char *why = n->weights->left_out;
    return used || !*why || tw_buf_printf(out, "# cudnn is left out: %s\n", why) ? TW_OK : tw_fail_memory(diag);
}
