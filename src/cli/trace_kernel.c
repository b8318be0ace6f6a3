/* SPDX-License-Identifier: Apache-2.0 */
/* `trace kernel gemm|attention WORD...` runs one kernel with its records, on a GPU or in the emulator. */
#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "cli/problem.h"
#include "cli/trace_improve.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/space.h"
#include "ptx/ptx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64, TEXT = 1024 };

typedef struct request {
    cli_trace_flags out;
    const char *ir, *emit;
    cli_traced_as as;
    int64_t first, every, frames, warps;
    bool improve;
    tw_prof_memory_report used; /* How the kernel uses memory. Empty without as.memory. */
    cli_improvements improvements;
} request;

/* Splits the words into a problem's and a configuration's. */
static tw_status split(const char *const *list, int n, char words[TEXT], char configuration[TEXT], tw_diag *diag) {
    tw_gemm_problem p = {.alpha = 1};
    tw_attention_problem a = {0};
    const bool attention = !strcmp(list[0], "attention");
    size_t w = (size_t)snprintf(words, TEXT, "%s", list[0]), c = 0;
    configuration[0] = 0;
    for (int i = 1; i < n; i++) {
        tw_status st;
        const bool problem =
            attention ? tw_attention_word(&a, list[i], &st, diag) : tw_gemm_problem_word(&p, list[i], &st, diag);
        if (problem && st != TW_OK) return st;
        char *to = problem ? words : configuration;
        size_t *at = problem ? &w : &c;
        *at += (size_t)snprintf(to + *at, TEXT - *at, "%s%s", *at ? " " : "", list[i]);
        if (*at >= TEXT) return tw_fail(diag, TW_ERR_USAGE, "the words are longer than %d letters", TEXT);
    }
    return TW_OK;
}

/* Prints the PTX of the kernel with records. */
static tw_status emit(const cli_traced *b, tw_diag *diag) {
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

/* Traces the kernel. --improve then edits the kernel, and *t becomes the trace of the fastest one. */
static tw_status trace(cli_traced *b, request *r, tw_trace **t, tw_diag *diag) {
    tw_status st = cli_traced_run(b, t, r->as.memory ? &r->used : NULL, diag);
    if (st == TW_OK && r->as.memory) r->out.memory = &r->used;
    if (st != TW_OK || !r->improve) return st;
    r->out.improvements = &r->improvements;
    return cli_trace_improve(b, t, &r->improvements, diag);
}

int cli_trace_kernel(const cli_verb *verb, int argc, char **argv) {
    request r = {.as = {.device = "auto", .seed = 1}};
    const cli_flag flags[] = {
        CLI_TRACE_FLAGS(r.out),
        {"--device", CLI_TEXT, &r.as.device, "auto|cuda[:N]|emulator[:TARGET]",
         "where to run (default auto: the first GPU)"},
        {"--only", CLI_TEXT, &r.as.options.only, "A,B", "record these regions, waits and marks alone"},
        {"--granularity", CLI_TEXT, &r.as.options.granularity, "warpgroup|warp|block",
         "who records (default warpgroup)"},
        {"--metric", CLI_TEXT, &r.as.options.metric, "clock|globaltimer|smid", "what is recorded (default clock)"},
        {"--warps", CLI_INT, &r.warps, "MASK", "a bit for each warp that may record (default all)"},
        {"--first", CLI_INT, &r.first, "N", "the first thread block that is recorded (default 0)"},
        {"--every", CLI_INT, &r.every, "N", "record every N-th block from there on (default every one)"},
        {"--frames", CLI_INT, &r.frames, "N", "iterations of a loop to keep (default 64, in global memory 1024)"},
        {"--global", CLI_FLAG, &r.as.options.global, NULL, "keep records in global memory"},
        {"--flush", CLI_FLAG, &r.as.options.flush, NULL, "lose no record: write them out when shared memory is full"},
        {"--iterations", CLI_FLAG, &r.as.options.iterations, NULL, "show the iterations of loops, too"},
        {"--ir", CLI_TEXT, &r.ir, "FILE", "trace this IR, which `kernel ... --emit ir` printed; - is standard input"},
        {"--emit", CLI_TEXT, &r.emit, "ptx", "print the kernel with records in place of running it"},
        {"--memory", CLI_FLAG, &r.as.memory, NULL,
         "print how operations and buffers use memory, too; the emulator alone sees addresses"},
        {"--improve", CLI_FLAG, &r.improve, NULL,
         "try edits of the configuration that the trace predicts to pay, and keep those that do"},
        {"--seed", CLI_INT, &r.as.seed, "N", "decides the data (default 1)"},
    };
    const char *words[WORDS];
    char problem[TEXT], configuration[TEXT];
    int n, status;
    tw_diag diag;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, WORDS, &n, &status)) return status;
    if (strcmp(words[0], "gemm") != 0 && strcmp(words[0], "attention") != 0)
        return cli_usage("\"%s\" is no kernel; there are gemm and attention", words[0]);
    if (r.first < 0 || r.first > INT_MAX || r.every < 0 || r.every > INT_MAX || r.frames < 0 || r.frames > INT_MAX)
        return cli_usage("--first, --every, --frames: out of range");
    r.as.options.first = (int)r.first;
    r.as.options.every = (int)r.every;
    r.as.options.frames = (int)r.frames;
    r.as.options.warps = (uint64_t)r.warps;
    if (r.emit && r.as.memory) return cli_usage("--memory is of a run, which --emit replaces");
    if (r.emit && strcmp(r.emit, "ptx") != 0) return cli_usage("--emit: \"%s\" is not ptx", r.emit);
    if (r.improve && r.as.memory) return cli_usage("--memory is of one kernel, and --improve makes several");
    if (r.improve && (r.ir || r.emit))
        return cli_usage("--improve changes the configuration, which --ir and --emit do not");
    cli_traced b = {0};
    tw_buf ir = {0};
    tw_trace *t = NULL;
    tw_status st = cli_trace_check(&r.out, &diag);
    if (st == TW_OK && r.ir) st = tw_file_read(&ir, r.ir, &diag);
    if (r.ir) r.as.options.ir = ir.data ? ir.data : "";
    if (st == TW_OK) st = split(words, n, problem, configuration, &diag);
    if (st == TW_OK) st = cli_traced_open(&b, &r.as, problem, configuration, &diag);
    if (st == TW_OK && r.emit) {
        st = tw_gpu_kernel_attach(b.kernel, &r.as.options, &diag);
        if (st == TW_OK) st = emit(&b, &diag);
    } else if (st == TW_OK) {
        st = trace(&b, &r, &t, &diag);
        if (st == TW_OK) warn(b.kernel, r.as.options.global);
        if (st == TW_OK) st = cli_trace_print(t, &r.out, &diag);
    }
    if (r.ir) cli_blame(&diag, st, r.ir);
    tw_trace_free(t);
    tw_prof_memory_report_free(&r.used);
    tw_buf_free(&ir);
    cli_traced_close(&b);
    return st == TW_OK ? CLI_OK : cli_fail(&diag);
}
