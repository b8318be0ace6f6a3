/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs share that take a model of the ONNX format, or a package made of one. */
#ifndef TW_CLI_NETWORK_H
#define TW_CLI_NETWORK_H

#include "cli/cli.h"
#include "tilewright/graph.h"

bool cli_ends(const char *s, const char *with); /* Whether a longer text ends with another. */
/* Whether an argument names such a file by its ending: .onnx or .tw. */
bool cli_is_network(int argc, char **argv);

/* The verbs, of such files. */
int cli_run_network(int argc, char **argv);
int cli_verify_network(int argc, char **argv);
int cli_bench_network(int argc, char **argv);
int cli_compile_network(int argc, char **argv);

typedef struct cli_network_flags {
    const char *device, *dtype, *products;
    int64_t threads, seconds;
    bool search, unsplit, unsplit_batches, clear_counters, unfused, apart, norms_apart;
} cli_network_flags;
#define CLI_NETWORK_FLAGS(f)                                                                                           \
    {"--device", CLI_TEXT, &(f).device, "auto|cpu|cuda[:N]|plain",                                                     \
     "where to run (default auto: a GPU that has all kernels, else cpu); plain: node by node in double"},              \
        {"--dtype", CLI_TEXT, &(f).dtype, "f32|f16|bf16", "what f32 is computed in (default: as the file has it)"},    \
        {"-t", CLI_INT, &(f).threads, "N", "threads of a processor (default: every core)"},                            \
        {"--products", CLI_TEXT, &(f).products, "best|own|vendor",                                                     \
         "who computes products and attention on a GPU (default best)"},                                               \
        {"--search", CLI_FLAG, &(f).search, NULL, "on a GPU: measure how products and attention are computed best"},   \
        {"--seconds", CLI_INT, &(f).seconds, "N", "search for so long, where most time is (default: to the end)"},     \
        {"--unsplit", CLI_FLAG, &(f).unsplit, NULL, "on a GPU: split no product along k"},                             \
        {"--unsplit-batches", CLI_FLAG, &(f).unsplit_batches, NULL, "on a GPU: split no product of a batch along k"},  \
        {"--clear-counters", CLI_FLAG, &(f).clear_counters, NULL,                                                      \
         "on a GPU: zero the counters of splits in each run"},                                                         \
        {"--apart", CLI_FLAG, &(f).apart, NULL, "compute attention as products and softmax"},                          \
        {"--norms-apart", CLI_FLAG, &(f).norms_apart, NULL, "on a GPU: compute norms apart from products"}, {          \
        "--unfused", CLI_FLAG, &(f).unfused, NULL, "look for no patterns"                                              \
    }
#define CLI_DIM_FLAG(list)                                                                                             \
    { "--dim", CLI_LIST, &(list), "NAME=N", "the extent of a dimension that the model leaves open" }

/* Opens a network by flags. */
tw_status cli_network_open(tw_network **out, const char *path, const cli_network_flags *f, tw_diag *d);

/* Returns how many combinations `--dim NAME=N,N` gives. 0: a message was printed that one is not NAME=N[,N...]. */
int cli_dims_count(const cli_list *list);
/* Makes inputs: files are NAME=FILE, or FILE with arrays of all (NULL: none); `number` is the combination of extents.
 */
tw_status cli_inputs(tw_tensors **out, const tw_network *n, const cli_list *files, const cli_list *dims, int number,
                     bool random, tw_diag *d);
/* Runs a network. The caller frees *outputs, also after a failure. */
tw_status cli_network_compute(tw_network *n, const tw_tensors *in, tw_tensor **outputs, tw_diag *d);

#endif
