/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs share that take a model of the ONNX format, or a package made of one. */
#ifndef TW_CLI_NETWORK_H
#define TW_CLI_NETWORK_H

#include "base/arena.h"
#include "cli/cli.h"
#include "tilewright/graph.h"

/* Whether an argument names such a file by its ending: .onnx or .tw. */
bool cli_is_network(int argc, char **argv);

/* The verbs, of such files. */
int cli_run_network(int argc, char **argv);
int cli_verify_network(int argc, char **argv);
int cli_bench_network(int argc, char **argv);
int cli_compile_network(int argc, char **argv);

typedef struct cli_network_flags {
    const char *device, *dtype, *products;
    int64_t threads;
    bool search, unsplit, unfused, apart;
} cli_network_flags;
#define CLI_NETWORK_FLAGS(f)                                                                                           \
    {"--device", CLI_TEXT, &(f).device, "auto|cpu|cuda[:N]|plain",                                                     \
     "where to run (default auto: a GPU that has all kernels, else cpu); plain: node by node in double"},              \
        {"--dtype", CLI_TEXT, &(f).dtype, "f32|f16|bf16", "what f32 is computed in (default: as the file has it)"},    \
        {"-t", CLI_INT, &(f).threads, "N", "threads of a processor (default: every core)"},                            \
        {"--products", CLI_TEXT, &(f).products, "best|own|vendor", "who computes products on a GPU (default best)"},   \
        {"--search", CLI_FLAG, &(f).search, NULL, "on a GPU: measure how each product is computed best"},              \
        {"--unsplit", CLI_FLAG, &(f).unsplit, NULL, "on a GPU: split no product along k"},                             \
        {"--apart", CLI_FLAG, &(f).apart, NULL, "compute attention as products and softmax"}, {                        \
        "--unfused", CLI_FLAG, &(f).unfused, NULL, "look for no patterns"                                              \
    }
#define CLI_DIM_FLAG(list)                                                                                             \
    { "--dim", CLI_LIST, &(list), "NAME=N", "an open dimension's extent, or as a NUMBER of all that have no name" }

/* Opens a network by flags. */
tw_status cli_network_open(tw_network **out, const char *path, const cli_network_flags *f, tw_diag *d);

/* Contents of inputs. Starts from {0}. */
typedef struct cli_inputs {
    tw_arena arena;
    int n;
    tw_tensor *list; /* In the model's order. */
} cli_inputs;
void cli_inputs_free(cli_inputs *in);

/* Extents of open dimensions: the choice `number` of those that `--dim NAME=N,N` gives, the last list running fastest.
 */
typedef struct cli_dims {
    const cli_list *list;
    int number;
} cli_dims;
/* Returns how many choices there are. 0: a message was printed that one is not NAME=N[,N...]. */
int cli_dims_count(const cli_list *list);

/* Sets types and extents of all inputs by `dims`, without contents. TW_ERR_USAGE: a dimension has no extent. */
tw_status cli_inputs_shape(cli_inputs *in, const tw_network *n, cli_dims dims, tw_diag *d);
/* Reads inputs from files: NAME=FILE, or FILE.npz with all. Others are drawn at random if `dims` says their extents, or
   else are an error. */
tw_status cli_inputs_read(cli_inputs *in, const tw_network *n, const cli_list *files, cli_dims dims, bool draw,
                          tw_diag *d);

/* Writes "input_ids i64[1, 512]". */
void cli_inputs_describe(const cli_inputs *in, char *out, size_t size);

#endif
