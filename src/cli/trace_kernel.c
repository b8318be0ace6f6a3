/* SPDX-License-Identifier: Apache-2.0 */
/* `trace kernel gemm WORD...` runs one kernel with its records, on a GPU or in the emulator. */
#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/random.h"
#include "cli/problem.h"
#include "cli/trace.h"
#include "kernels/gemm/space.h"
#include "kernels/kernel.h"
#include "ptx/ptx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64, TEXT = 1024 };

typedef struct request {
    cli_trace_flags out;
    const char *device, *ir, *emit;
    tw_trace_options options;
    int64_t first, every, frames, warps, seed;
    bool memory;
    tw_prof_memory_report used; /* With `memory`. */
} request;

/* A kernel with a launch, all of its buffers bound. */
typedef struct bound {
    tw_gpu *gpu;
    tw_gpu_kernel *kernel;
    tw_gpu_launch *launch;
    uint64_t addresses[TW_PLAN_BUFFERS];
} bound;

static void close_bound(bound *b) {
    tw_gpu_launch_close(b->launch);
    for (int i = 0; b->kernel && i < tw_gpu_kernel_buffers(b->kernel); i++)
        if (b->addresses[i]) tw_gpu_release(b->gpu, b->addresses[i]);
    tw_gpu_kernel_close(b->kernel);
    tw_gpu_close(b->gpu);
}

/* Splits the words into a problem's and a configuration's. */
static tw_status split(const char *const *list, int n, char words[TEXT], char configuration[TEXT], tw_diag *diag) {
    tw_gemm_problem p = {.alpha = 1};
    size_t w = (size_t)snprintf(words, TEXT, "%s", list[0]), c = 0;
    configuration[0] = 0;
    for (int i = 1; i < n; i++) {
        tw_status st;
        const bool problem = tw_gemm_problem_word(&p, list[i], &st, diag);
        if (problem && st != TW_OK) return st;
        char *to = problem ? words : configuration;
        size_t *at = problem ? &w : &c;
        *at += (size_t)snprintf(to + *at, TEXT - *at, "%s%s", *at ? " " : "", list[i]);
        if (*at >= TEXT) return tw_fail(diag, TW_ERR_USAGE, "the words are longer than %d letters", TEXT);
    }
    return TW_OK;
}

/* Random bytes with small exponents are numbers from -1 to 1 in every type of 16 bits and more, and any in others. */
static void fill(void *data, size_t bytes, tw_random *r) {
    uint16_t *x = data;
    for (size_t i = 0; i < bytes / 2; i++) x[i] = (uint16_t)(0x3800 | (tw_random_u64(r) & 0x83ff));
}

static tw_status bind_all(bound *b, uint64_t seed, tw_diag *diag) {
    tw_random r = tw_random_seed(seed);
    tw_status st = TW_OK;
    for (int i = 0; i < tw_gpu_kernel_buffers(b->kernel) && st == TW_OK; i++) {
        const tw_gpu_buffer *x = tw_gpu_kernel_buffer(b->kernel, i);
        void *data = calloc(1, x->bytes);
        if (!data) return tw_fail_memory(diag);
        if (!x->written) fill(data, x->bytes, &r);
        st = tw_gpu_alloc_named(b->gpu, x->name, x->bytes, &b->addresses[i], diag);
        if (st == TW_OK) st = tw_gpu_upload(b->gpu, b->addresses[i], data, x->bytes, diag);
        if (st == TW_OK) st = tw_gpu_launch_bind(b->launch, x->name, b->addresses[i], diag);
        free(data);
    }
    return st;
}

static tw_status open_all(bound *b, const request *r, const char *const *words, int n, tw_diag *diag) {
    char problem[TEXT], configuration[TEXT];
    tw_status st = split(words, n, problem, configuration, diag);
    if (st == TW_OK) st = tw_gpu_open(&b->gpu, r->device, diag);
    if (st == TW_OK && r->memory && b->gpu->cuda)
        st = tw_fail(diag, TW_ERR_USAGE, "--memory needs --device emulator, which sees addresses");
    if (st == TW_OK) st = tw_gpu_kernel_open(&b->kernel, b->gpu, problem, configuration, diag);
    if (st == TW_OK) st = tw_gpu_launch_open(&b->launch, b->kernel, diag);
    return st == TW_OK ? bind_all(b, (uint64_t)r->seed, diag) : st;
}

/* Runs the kernel on a poisoned result, which it returns. The caller frees it. */
static tw_status run(bound *b, int c, void **out, tw_diag *diag) {
    const size_t bytes = tw_gpu_kernel_buffer(b->kernel, c)->bytes;
    *out = malloc(bytes);
    if (!*out) return tw_fail_memory(diag);
    memset(*out, 0xff, bytes);
    tw_status st = tw_gpu_upload(b->gpu, b->addresses[c], *out, bytes, diag);
    if (st == TW_OK) st = tw_gpu_launch_run(b->launch, NULL, diag);
    if (st == TW_OK) st = tw_gpu_wait(b->gpu, diag);
    return st == TW_OK ? tw_gpu_download(b->gpu, *out, b->addresses[c], bytes, diag) : st;
}

/* Runs the kernel like `run`, and reports how it uses memory. */
static tw_status run_observed(bound *b, int c, void **out, request *r, tw_diag *diag) {
    tw_prof_memory *m = tw_prof_memory_new();
    if (!m) return tw_fail_memory(diag);
    b->gpu->observer = tw_prof_memory_observe;
    b->gpu->observer_context = m;
    tw_status st = run(b, c, out, diag);
    b->gpu->observer = NULL;
    b->gpu->observer_context = NULL;
    if (st == TW_OK) st = tw_prof_memory_finish(m, &r->used, diag);
    if (st == TW_OK) r->out.memory = &r->used;
    tw_prof_memory_free(m);
    return st;
}

/* Runs the kernel without and with records. Their results must be the same. */
static tw_status trace(bound *b, request *r, tw_trace **t, tw_diag *diag) {
    void *clean = NULL, *traced = NULL;
    tw_trace_times times = {0};
    int c = 0;
    while (strcmp(tw_gpu_kernel_buffer(b->kernel, c)->name, "c") != 0) c++;
    tw_status st = r->memory ? run_observed(b, c, &clean, r, diag) : run(b, c, &clean, diag);
    if (st == TW_OK) st = tw_gpu_kernel_attach(b->kernel, &r->options, diag);
    if (st == TW_OK) st = tw_kernel_trace_times(b->kernel, b->launch, &times, diag);
    if (st == TW_OK) st = run(b, c, &traced, diag);
    if (st == TW_OK && memcmp(clean, traced, tw_gpu_kernel_buffer(b->kernel, c)->bytes) != 0)
        st = tw_fail(diag, TW_ERR_MISMATCH, "the kernel with records has other results than without");
    if (st == TW_OK) st = tw_kernel_trace(b->kernel, t, diag);
    if (st == TW_OK) {
        (*t)->clean = times.clean;
        (*t)->traced = times.traced;
    }
    free(clean);
    free(traced);
    return st;
}

/* Prints the PTX of the kernel with records. */
static tw_status emit(const bound *b, tw_diag *diag) {
    tw_buf text = {0};
    tw_status st = tw_ptx_print(&text, tw_tracer_kernel(b->kernel->tracer)->plan.kernel, b->gpu->target, diag);
    if (st == TW_OK) st = tw_file_write("-", text.data, text.size, diag);
    tw_buf_free(&text);
    return st;
}

/* Says where tracing changes the kernel in more than time. `asked`: for records in global memory. */
static void warn(const tw_gpu_kernel *k, bool asked) {
    tw_trace_cost cost;
    if (!tw_gpu_kernel_traced(k, &cost)) return;
    if (cost.blocks_traced < cost.blocks)
        fprintf(stderr, "tilewright: with records a multiprocessor holds %d blocks at once, without %d\n",
                cost.blocks_traced, cost.blocks);
    if (cost.global && !asked)
        fprintf(stderr, "tilewright: the kernel leaves no shared memory for records; they go to global memory\n");
}

int cli_trace_kernel(const cli_verb *verb, int argc, char **argv) {
    request r = {.device = "auto", .seed = 1};
    const cli_flag flags[] = {
        CLI_TRACE_FLAGS(r.out),
        {"--device", CLI_TEXT, &r.device, "auto|cuda[:N]|emulator[:TARGET]",
         "where to run (default auto: the first GPU)"},
        {"--only", CLI_TEXT, &r.options.only, "A,B", "record these regions, waits and marks alone"},
        {"--granularity", CLI_TEXT, &r.options.granularity, "warpgroup|warp|block", "who records (default warpgroup)"},
        {"--metric", CLI_TEXT, &r.options.metric, "clock|globaltimer|smid", "what is recorded (default clock)"},
        {"--warps", CLI_INT, &r.warps, "MASK", "a bit for each warp that may record (default all)"},
        {"--first", CLI_INT, &r.first, "N", "the first thread block that is recorded (default 0)"},
        {"--every", CLI_INT, &r.every, "N", "record every N-th block from there on (default every one)"},
        {"--frames", CLI_INT, &r.frames, "N", "iterations of a loop to keep (default 64, in global memory 1024)"},
        {"--global", CLI_FLAG, &r.options.global, NULL, "keep records in global memory"},
        {"--flush", CLI_FLAG, &r.options.flush, NULL, "lose no record: write them out when shared memory is full"},
        {"--iterations", CLI_FLAG, &r.options.iterations, NULL, "show the iterations of loops, too"},
        {"--ir", CLI_TEXT, &r.ir, "FILE",
         "trace this IR, which `kernel gemm ... --emit ir` printed; - is standard input"},
        {"--emit", CLI_TEXT, &r.emit, "ptx", "print the kernel with records in place of running it"},
        {"--memory", CLI_FLAG, &r.memory, NULL,
         "print how operations and buffers use memory, too; the emulator alone sees addresses"},
        {"--seed", CLI_INT, &r.seed, "N", "decides the data (default 1)"},
    };
    const char *words[WORDS];
    int n, status;
    tw_diag diag;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, WORDS, &n, &status)) return status;
    if (strcmp(words[0], "gemm") != 0) return cli_usage("\"%s\" is no kernel; there is gemm", words[0]);
    if (r.first < 0 || r.first > INT_MAX || r.every < 0 || r.every > INT_MAX || r.frames < 0 || r.frames > INT_MAX)
        return cli_usage("--first, --every, --frames: out of range");
    r.options.first = (int)r.first;
    r.options.every = (int)r.every;
    r.options.frames = (int)r.frames;
    r.options.warps = (uint64_t)r.warps;
    if (r.emit && r.memory) return cli_usage("--memory is of a run, which --emit replaces");
    if (r.emit && strcmp(r.emit, "ptx") != 0) return cli_usage("--emit: \"%s\" is not ptx", r.emit);
    bound b = {0};
    tw_buf ir = {0};
    tw_trace *t = NULL;
    tw_status st = cli_trace_check(&r.out, &diag);
    if (st == TW_OK && r.ir) st = tw_file_read(&ir, r.ir, &diag);
    if (r.ir) r.options.ir = ir.data ? ir.data : "";
    if (st == TW_OK) st = open_all(&b, &r, words, n, &diag);
    if (st == TW_OK && r.emit) {
        st = tw_gpu_kernel_attach(b.kernel, &r.options, &diag);
        if (st == TW_OK) st = emit(&b, &diag);
    } else if (st == TW_OK) {
        st = trace(&b, &r, &t, &diag);
        if (st == TW_OK) warn(b.kernel, r.options.global);
        if (st == TW_OK) st = cli_trace_print(t, &r.out, &diag);
    }
    if (r.ir) cli_blame(&diag, st, r.ir);
    tw_trace_free(t);
    tw_prof_memory_report_free(&r.used);
    tw_buf_free(&ir);
    close_bound(&b);
    return st == TW_OK ? CLI_OK : cli_fail(&diag);
}
