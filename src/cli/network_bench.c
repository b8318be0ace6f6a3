/* SPDX-License-Identifier: Apache-2.0 */
/* `bench` of ONNX models and packages: the time of a pass. */
#include "base/diag.h"
#include "base/stats.h"
#include "base/utf8.h"
#include "cli/network.h"
#include "cli/results.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 1000 };
/* Operations that are computed node by node for a verdict without a file: some seconds. */
#define CHECKED 3e9

typedef struct bench {
    tw_network *net;
    int64_t repetitions;
    bool json, check;
    int wrong; /* Rows whose outputs differ from their reference. */
} bench;

typedef struct row {
    char shapes[512];
    double us[MOST_SAMPLES];
    tw_stats time;
    bool judged; /* There is a verdict. */
    const char *reference;
    tw_network_verdict verdict;
} row;

/* The largest difference that is allowed in a type, as the root of the mean square: single elements of many are always
   off by more. */
static double allowed_in(const char *type) {
    return !strcmp(type, "bf16") ? 8e-2 : !strcmp(type, "f16") ? 1e-2 : 1e-4;
}

/* The coarsest type decides, of what is computed in and of the outputs. */
static bool is_correct(const bench *b, const row *r, const tw_network_info *info) {
    double allowed = allowed_in(info->dtype);
    for (int i = 0; i < info->outputs; i++) {
        tw_tensor out;
        tw_network_output(b->net, i, &out);
        allowed = fmax(allowed, allowed_in(out.type));
    }
    return r->verdict.rms <= allowed;
}

static void print(bench *b, const row *r) {
    tw_network_info info;
    tw_network_describe(b->net, &info);
    const bool wrong = r->judged && !is_correct(b, r, &info);
    b->wrong += wrong;
    const double us = r->time.median, spread = (r->time.max - r->time.min) / us;
    if (!b->json) {
        printf("%s: %.1f us (%.1f to %.1f), %.2f TFLOP/s, %d steps on %s in %s, %s\n", r->shapes, us, r->time.min,
               r->time.max, info.operations / us / 1e6, info.steps, info.device, info.dtype,
               !r->judged ? "not compared"
               : wrong    ? "WRONG"
                          : "correct");
        return;
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:i, s:f, s:f, s:I, s:I, s:f}", "case", r->shapes,
                          "device", info.device, "dtype", info.dtype, "us", us, "spread", spread, "us_least",
                          r->time.min, "steps", info.steps, "launches", info.launches, "operations", info.operations,
                          "tflops", info.operations / us / 1e6, "weight_bytes", (json_int_t)info.weight_bytes,
                          "memory_bytes", (json_int_t)info.memory_bytes, "prepare_seconds", info.prepare_seconds);
    if (r->judged) {
        json_object_set_new(o, "reference", json_string(r->reference));
        json_object_set_new(o, "worst", json_real(isfinite(r->verdict.worst) ? r->verdict.worst : 1e300));
        json_object_set_new(o, "rms", json_real(isfinite(r->verdict.rms) ? r->verdict.rms : 1e300));
        json_object_set_new(o, "correct", json_boolean(!wrong));
    }
    cli_results_print(o, JSON_REAL_PRECISION(9));
    fflush(stdout);
}

/* Runs with random inputs, and compares with the model computed node by node if that takes seconds. */
static tw_status run_drawn(bench *b, const tw_tensors *in, row *r, tw_diag *d) {
    tw_network_info info;
    tw_tensor *outputs;
    tw_status st = cli_network_compute(b->net, in, &outputs, d);
    tw_network_describe(b->net, &info);
    r->judged = st == TW_OK && (b->check || info.operations <= CHECKED);
    r->reference = "node by node";
    if (r->judged) st = tw_network_check(b->net, &r->verdict, NULL, 0, d);
    free(outputs);
    return st;
}

static tw_status time_row(bench *b, row *r, tw_diag *d) {
    double warm;
    tw_status st = tw_network_time(b->net, &warm, 1, d);
    if (st == TW_OK) st = tw_network_time(b->net, r->us, (int)b->repetitions, d);
    if (st != TW_OK) return st;
    r->time = tw_stats_of(r->us, (size_t)b->repetitions);
    print(b, r);
    return TW_OK;
}

static tw_status bench_drawn(bench *b, const cli_list *files, const cli_list *dims, int number, tw_diag *d) {
    row r = {.judged = false};
    tw_tensors *in;
    tw_status st = cli_inputs(&in, b->net, files, dims, number, true, d);
    if (st == TW_OK) st = run_drawn(b, in, &r, d);
    if (st == TW_OK) tw_tensors_describe(in, r.shapes, sizeof r.shapes);
    if (st == TW_OK) st = time_row(b, &r, d);
    tw_tensors_free(in);
    return st;
}

static tw_status bench_golden(bench *b, const char *golden, tw_diag *d) {
    row r = {.judged = true, .reference = golden};
    snprintf(r.shapes, sizeof r.shapes, "%.500s", golden);
    tw_utf8_mend(r.shapes);
    const tw_status st = tw_network_verify(b->net, golden, &r.verdict, NULL, 0, d);
    return st == TW_OK ? time_row(b, &r, d) : st;
}

static const cli_verb bench_verb = {
    "bench", "M.onnx|M.tw", "the time of a pass",
    "tilewright bench tests/data/onnx/encoder/model.onnx --dim batch=1,4 --dim length=32 --json", NULL};

int cli_bench_network(int argc, char **argv) {
    cli_network_flags f = {0};
    cli_list files = {0}, dims = {0}, golden = {0};
    bench b = {.repetitions = 20};
    const char *path;
    bool explain = false;
    const cli_flag flags[] = {
        {"--dim", CLI_LIST, &dims, "NAME=N[,N...]",
         "an open dimension's extents: a row for each of their combinations"},
        {"--input", CLI_LIST, &files, "NAME=FILE", "content of an input (default: random)"},
        {"--golden", CLI_LIST, &golden, "CASE.npz", "inputs and outputs to compare with, instead: a row for each"},
        {"--check", CLI_FLAG, &b.check, NULL, "compare with the model node by node, however long that takes"},
        {"-r", CLI_INT, &b.repetitions, "N", "repetitions (default 20)"},
        {"--explain", CLI_FLAG, &explain, NULL, "also what each kernel takes on a GPU, on stderr"},
        {"--json", CLI_FLAG, &b.json, NULL, "a line of JSON for each row"},
        CLI_NETWORK_FLAGS(f),
    };
    int status, count;
    if (!cli_parse(&bench_verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &count, &status))
        return status;
    const int choices = cli_dims_count(&dims);
    if (!choices) return CLI_USAGE;
    if (golden.count && (dims.count || files.count))
        return cli_usage("bench: inputs are those of --golden, or of --dim and --input, not of both");
    if (b.repetitions < 1 || b.repetitions > MOST_SAMPLES)
        return cli_usage("-r: %lld is not within 1..%d", (long long)b.repetitions, MOST_SAMPLES);
    tw_diag d;
    tw_status st = cli_network_open(&b.net, path, &f, &d);
    for (int i = 0; i < golden.count && st == TW_OK; i++) st = bench_golden(&b, golden.item[i], &d);
    for (int i = 0; i < choices && !golden.count && st == TW_OK; i++) st = bench_drawn(&b, &files, &dims, i, &d);
    if (st == TW_OK && explain) {
        char *text = tw_network_text(b.net, TW_NETWORK_LAUNCHES, &d);
        if (text)
            fputs(text, stderr);
        else
            st = d.status;
        free(text);
    }
    if (st == TW_OK && b.wrong)
        st = tw_fail_at(&d, TW_ERR_MISMATCH, path, -1, "%d of the times are of wrong outputs", b.wrong);
    tw_network_close(b.net);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}
