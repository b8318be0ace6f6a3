/* SPDX-License-Identifier: Apache-2.0 */
/* `run` and `verify` of ONNX models and packages. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/file.h"
#include "cli/network.h"
#include "cli/results.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- run */

/* Prints an output's type, shape and first elements. */
static void print_output(const tw_tensor *t) {
    enum { SHOWN = 6 };
    const int64_t n = tw_tensor_elements(t);
    printf("%s %s[", t->name, t->type);
    for (int i = 0; i < t->rank; i++) printf("%s%lld", i ? ", " : "", (long long)t->dims[i]);
    printf("]:");
    for (int64_t i = 0; i < n && i < SHOWN; i++) printf(" %.6g", tw_tensor_real(t, i));
    printf("%s\n", n > SHOWN ? " ..." : "");
}

static void print_run(const tw_network *n, const tw_tensor *out, double seconds, const char *path, bool json) {
    tw_network_info info;
    tw_network_describe(n, &info);
    if (!json) {
        for (int i = 0; i < info.outputs && (!path || strcmp(path, "-") != 0); i++) print_output(&out[i]);
        fprintf(stderr, "[%d steps on %s in %.3f ms, prepared in %.3f s]\n", info.steps, info.device, seconds * 1e3,
                info.prepare_seconds);
        return;
    }
    json_t *outputs = json_array();
    for (int i = 0; i < info.outputs; i++) {
        json_t *dims = json_array();
        for (int k = 0; k < out[i].rank; k++) json_array_append_new(dims, json_integer(out[i].dims[k]));
        json_array_append_new(outputs,
                              json_pack("{s:s, s:s, s:o}", "name", out[i].name, "type", out[i].type, "shape", dims));
    }
    cli_results_print(json_pack("{s:o, s:s, s:s, s:i, s:f, s:f, s:s}", "outputs", outputs, "device", info.device,
                                "dtype", info.dtype, "steps", info.steps, "seconds", seconds, "prepare_seconds",
                                info.prepare_seconds, "written", path ? path : ""),
                      CLI_RESULTS_DIGITS);
}

/* An input needs a content to be run with. */
static tw_status check_contents(const tw_network *n, const tw_tensors *in, const char *path, tw_diag *d) {
    tw_network_info info;
    tw_network_describe(n, &info);
    for (int i = 0; i < info.inputs; i++) {
        const tw_tensor *t = &tw_tensors_list(in)[i];
        if (!t->data && tw_tensor_elements(t))
            return tw_fail_at(d, TW_ERR_USAGE, path, -1,
                              "input \"%s\" has no content; --input %s=FILE reads it, and --random draws it", t->name,
                              t->name);
    }
    return TW_OK;
}

static const cli_verb run_verb = {
    "run", "M.onnx|M.tw", "compute a model's outputs",
    "tilewright run tests/data/onnx/encoder/model.onnx --input tests/data/onnx/encoder/case.npz -o out.npz", NULL};

int cli_run_network(int argc, char **argv) {
    cli_network_flags f = {0};
    cli_list files = {0}, dims = {0};
    const char *path, *out = NULL;
    bool random = false, json = false;
    const cli_flag flags[] = {
        {"--input", CLI_LIST, &files, "NAME=FILE",
         "content of an input: .npy, .npz or TensorProto (.pb); FILE.npz: all"},
        {"--random", CLI_FLAG, &random, NULL, "draw inputs that have no file"},
        CLI_DIM_FLAG(dims),
        {"-o", CLI_TEXT, &out, "OUT.npz", "write the outputs; - is standard output"},
        {"--json", CLI_FLAG, &json, NULL, "print shapes and timings as JSON"},
        CLI_NETWORK_FLAGS(f),
    };
    int status, n;
    if (!cli_parse(&run_verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &n, &status)) return status;
    const int choices = cli_dims_count(&dims);
    if (choices != 1) return choices ? cli_usage("run: a dimension has one extent") : CLI_USAGE;
    if (json && out && !strcmp(out, "-")) return cli_usage("run: --json and -o - both write to standard output");
    tw_network *net;
    tw_tensors *in = NULL;
    tw_tensor *outputs = NULL;
    tw_diag d;
    tw_network_info info = {0};
    tw_status st = cli_network_open(&net, path, &f, &d);
    if (st == TW_OK && out) st = tw_file_check(out, &d);
    if (st == TW_OK) st = cli_inputs(&in, net, &files, &dims, 0, random, &d);
    if (st == TW_OK) st = check_contents(net, in, path, &d);
    if (st == TW_OK) st = tw_network_prepare(net, tw_tensors_list(in), &d);
    const int64_t begin = tw_now_ns();
    if (st == TW_OK) st = cli_network_compute(net, in, &outputs, &d);
    const double seconds = (double)(tw_now_ns() - begin) / 1e9;
    if (st == TW_OK) tw_network_describe(net, &info);
    if (st == TW_OK && out) st = tw_tensors_write(out, outputs, info.outputs, &d);
    if (st == TW_OK) print_run(net, outputs, seconds, out, json);
    free(outputs);
    tw_tensors_free(in);
    tw_network_close(net);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

/* ---- verify */

static double finite(double x) {
    return isfinite(x) ? x : 1e300;
}

static void print_verdict(const char *golden, const tw_network_info *info, const tw_network_verdict *v, bool json) {
    if (json)
        cli_results_print(json_pack("{s:b, s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "agrees", v->agrees, "reference",
                                    golden, "device", info->device, "dtype", info->dtype, "outputs",
                                    (json_int_t)v->elements.outputs, "elements", (json_int_t)v->elements.elements,
                                    "worst", finite(v->elements.worst), "worst_relative", finite(v->worst),
                                    "rms_relative", finite(v->rms)),
                          JSON_REAL_PRECISION(9));
    else if (v->agrees)
        printf("agrees with %s: %lld outputs, %lld elements within %.3f of what is allowed%s%s\n", golden,
               (long long)v->elements.outputs, (long long)v->elements.elements, v->elements.worst,
               strcmp(info->device, "cpu") ? " on " : "", strcmp(info->device, "cpu") ? info->device : "");
}

static const cli_verb verify_verb = {
    "verify", "M.onnx|M.tw", "compare a model's outputs with those of a file, or with plainer ways to compute them",
    "tilewright verify tests/data/onnx/encoder/model.onnx --golden tests/data/onnx/encoder/case.npz", NULL};

/* Without a file outputs of random inputs are compared with those that the model has node by node. */
static tw_status verify(tw_network *net, const char *golden, const cli_list *dims, tw_network_verdict *v, char *why,
                        size_t size, tw_diag *d) {
    if (golden) return tw_network_verify(net, golden, v, why, size, d);
    tw_tensors *in;
    tw_tensor *outputs = NULL;
    tw_status st = cli_inputs(&in, net, NULL, dims, 0, true, d);
    if (st == TW_OK) st = cli_network_compute(net, in, &outputs, d);
    if (st == TW_OK) st = tw_network_check(net, v, why, size, d);
    free(outputs);
    tw_tensors_free(in);
    return st;
}

int cli_verify_network(int argc, char **argv) {
    cli_network_flags f = {0};
    cli_list dims = {0};
    const char *path, *golden = NULL;
    bool json = false;
    const cli_flag flags[] = {
        {"--golden", CLI_TEXT, &golden, "CASE.npz",
         "arrays in_NAME and out_NAME, or out_0, out_1 and so on (default: the model itself, node by node)"},
        CLI_DIM_FLAG(dims),
        {"--json", CLI_FLAG, &json, NULL, "print the verdict as JSON"},
        CLI_NETWORK_FLAGS(f),
    };
    int status, count;
    if (!cli_parse(&verify_verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &count, &status))
        return status;
    const int choices = cli_dims_count(&dims);
    if (choices != 1) return choices ? cli_usage("verify: a dimension has one extent") : CLI_USAGE;
    if (golden && dims.count) return cli_usage("verify: extents are those of --golden, or of --dim, not of both");
    tw_network *net;
    tw_network_info info;
    tw_network_verdict v;
    tw_diag d;
    char why[512];
    tw_status st = cli_network_open(&net, path, &f, &d);
    if (st == TW_OK) st = tw_network_check_file(net, &d);
    if (st == TW_OK) st = verify(net, golden, &dims, &v, why, sizeof why, &d);
    if (st == TW_OK) {
        tw_network_describe(net, &info);
        print_verdict(golden ? golden : "the model, node by node", &info, &v, json);
        if (!v.agrees) st = tw_fail_at(&d, TW_ERR_MISMATCH, golden ? golden : path, -1, "%s", why);
    }
    tw_network_close(net);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}
