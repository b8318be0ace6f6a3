/* SPDX-License-Identifier: Apache-2.0 */
/* `build`, and `compile` of ONNX models. */
#include "base/diag.h"
#include "base/file.h"
#include "cli/network.h"
#include "cli/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prepares a network for each combination of extents. */
static tw_status prepare_all(tw_network *net, const cli_list *dims, int choices, tw_diag *d) {
    tw_status st = TW_OK;
    for (int i = 0; i < choices && st == TW_OK; i++) {
        tw_tensors *in;
        st = cli_inputs(&in, net, NULL, dims, i, false, d);
        if (st == TW_OK) st = tw_network_prepare(net, tw_tensors_list(in), d);
        tw_tensors_free(in);
    }
    return st;
}

static int build(const cli_verb *verb, int argc, char **argv) {
    cli_network_flags f = {0};
    cli_list dims = {0};
    const char *path, *out = NULL;
    bool json = false;
    tw_package_options o = {0};
    const cli_flag flags[] = {
        {"-o", CLI_TEXT, &out, "M.tw", "the package"},
        {"--dim", CLI_LIST, &dims, "NAME=N[,N...]", "an open dimension's extents: the package has all combinations"},
        {"--target", CLI_TEXT, &o.target, "sm_90a",
         "keep machine code for a GPU, compiled by ptxas; no GPU is needed (default with --device cuda: its driver's)"},
        {"--packed", CLI_FLAG, &o.packed, NULL, "on a processor: keep constants as its kernels read them, too"},
        {"--model", CLI_FLAG, &o.model, NULL, "keep the model, too, from which programs for other extents are made"},
        {"--json", CLI_FLAG, &json, NULL, "print what was built as JSON"},
        CLI_NETWORK_FLAGS(f),
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &n, &status)) return status;
    if (!out) return cli_usage("build: needs -o M.tw");
    const bool piped = !strcmp(out, "-");
    if (piped && json) return cli_usage("build: --json and -o - both write to standard output");
    if (!piped && !cli_ends(out, ".tw"))
        return cli_usage("-o: \"%s\" does not end with .tw, by which packages are known", out);
    const int choices = cli_dims_count(&dims);
    if (!choices) return CLI_USAGE;
    char emulator[64];
    snprintf(emulator, sizeof emulator, "emulator:%.32s", o.target ? o.target : "");
    if (o.target && !f.device) f.device = emulator;
    tw_network *net;
    tw_network_info info;
    tw_diag d;
    tw_status st = cli_network_open(&net, path, &f, &d);
    if (st == TW_OK) st = tw_file_check(out, &d);
    if (st == TW_OK) st = prepare_all(net, &dims, choices, &d);
    if (st == TW_OK) st = tw_network_save_with(net, out, &o, &d);
    if (st == TW_OK) {
        tw_network_describe(net, &info);
        if (json)
            cli_results_print(json_pack("{s:s, s:i, s:s, s:i, s:I}", "written", out, "shapes", info.prepared, "dtype",
                                        info.dtype, "steps", info.steps, "weight_bytes", (json_int_t)info.weight_bytes),
                              0);
        else
            fprintf(piped ? stderr : stdout, "%s: %d shape%s in %s, %d steps, %.1f MB of weights\n", out, info.prepared,
                    info.prepared == 1 ? "" : "s", info.dtype, info.steps, (double)info.weight_bytes / 1e6);
    }
    tw_network_close(net);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_build = {"build", "M.onnx -o M.tw", "an ONNX model into a package that starts at once",
                            "tilewright build model.onnx -o model.tw --dim batch=1,4 --dim sequence=512 --dtype f16",
                            build};

static const cli_verb compile_verb = {
    "compile", "M.onnx|M.tw", "what a model becomes: patterns that were found, its graph, its steps",
    "tilewright compile tests/data/onnx/encoder/model.onnx --dim batch=1 --dim length=32 --explain", NULL};

static tw_status write_view(tw_network *net, tw_network_view view, const char *out, tw_diag *d) {
    char *text = tw_network_text(net, view, d);
    if (!text) return d->status;
    const tw_status st = tw_file_write(out, text, strlen(text), d);
    free(text);
    return st;
}

int cli_compile_network(int argc, char **argv) {
    cli_network_flags f = {0};
    cli_list dims = {0};
    const char *path, *out = "-";
    bool explain = false, dot = false, steps = false, launches = false;
    const cli_flag flags[] = {
        CLI_DIM_FLAG(dims),
        {"--explain", CLI_FLAG, &explain, NULL, "which patterns were found, and how often"},
        {"--steps", CLI_FLAG, &steps, NULL, "the program's steps"},
        {"--launches", CLI_FLAG, &launches, NULL,
         "on a GPU: kernels, with the microseconds of each; on a processor: the schedule, for `tilewright check`"},
        {"--dot", CLI_FLAG, &dot, NULL, "the graph for Graphviz, instead of as text"},
        {"-o", CLI_TEXT, &out, "FILE", "where to write (default: standard output)"},
        CLI_NETWORK_FLAGS(f),
    };
    int status, n;
    if (!cli_parse(&compile_verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &n, &status))
        return status;
    if (explain + dot + steps + launches > 1)
        return cli_usage("compile: --explain, --steps, --launches and --dot exclude one another");
    const int choices = cli_dims_count(&dims);
    if (choices != 1) return choices ? cli_usage("compile: a dimension has one extent") : CLI_USAGE;
    tw_network *net;
    tw_diag d;
    const tw_network_view view = explain    ? TW_NETWORK_FUSIONS
                                 : dot      ? TW_NETWORK_DOT
                                 : steps    ? TW_NETWORK_STEPS
                                 : launches ? TW_NETWORK_LAUNCHES
                                            : TW_NETWORK_GRAPH;
    if (!f.device && !launches) f.device = steps ? "cpu" : "plain";
    tw_status st = cli_network_open(&net, path, &f, &d);
    if (st == TW_OK) st = prepare_all(net, &dims, 1, &d);
    if (st == TW_OK) st = write_view(net, view, out, &d);
    tw_network_close(net);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}
