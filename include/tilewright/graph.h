/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: models of the ONNX format, opened, understood whole, or refused with every reason. */
#ifndef TILEWRIGHT_GRAPH_H
#define TILEWRIGHT_GRAPH_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_graph tw_graph;

/* Opens a model. The file is mapped, and so are files with external data, which must lie in its folder. Constants are
   not copied. TW_ERR_FORMAT: the file is damaged, or no model. TW_ERR_UNSUPPORTED: the diagnostic lists
   all nodes that are not supported, those of one operator and one reason in a line. The caller closes the graph. */
tw_status tw_graph_open(tw_graph **out, const char *path, tw_diag *diag);
void tw_graph_close(tw_graph *graph); /* NULL is fine. */

/* Plain facts. */
typedef struct tw_graph_info {
    const char *name; /* Owned by the graph. */
    int64_t nodes, constants, inputs, outputs;
    int64_t constant_bytes; /* Bytes of all constants. */
} tw_graph_info;
void tw_graph_describe(const tw_graph *graph, tw_graph_info *info);

/* Returns the graph as text, a line for each input, constant, node and output. The caller frees it. NULL: out of
   memory. */
char *tw_graph_text(const tw_graph *graph);

/* What a comparison came to. */
typedef struct tw_graph_verdict {
    int64_t outputs, elements; /* Numbers of outputs and of elements that were compared. */
    /* The largest difference, as a share of what is allowed: 1e-4 of the greater of an element's magnitude and the root
       of the mean square of its output, and 1e-2 for outputs of 16 bits. */
    double worst;
} tw_graph_verdict;

/* Computes the outputs of a .npz file's inputs, and compares them with its outputs. Arrays are named in_NAME and
   out_NAME, or out_0, out_1 and so on in the graph's order. Dimensions that the graph leaves open are those of the
   inputs. TW_ERR_MISMATCH: the first output that differs. TW_ERR_USAGE: the file lacks an input, has no output, or
   has an out_ array that is none of the graph's outputs. */
tw_status tw_graph_verify(const tw_graph *graph, const char *golden, tw_graph_verdict *verdict, tw_diag *diag);

/* ---- networks: models that are run */

enum { TW_TENSOR_RANK = 8 /* The most dimensions of a tensor. */ };

/* An input or output: row-major, dense. */
typedef struct tw_tensor {
    const char *name;
    const char *type;                    /* "f32", "i64" and so on. */
    int rank;                            /* -1: the model does not say. */
    int64_t dims[TW_TENSOR_RANK];        /* Extents. */
    const char *symbols[TW_TENSOR_RANK]; /* Of a model's input: the names of dimensions that are open, or NULL. */
    const void *data; /* Elements; those of type "bool" are bytes. NULL: only the type and the extents are told. */
} tw_tensor;

/* Bits: what may compute products and attention on a GPU. The vendor's are cuBLASLt and cuDNN. */
enum { TW_PRODUCTS_OWN = 1, TW_PRODUCTS_VENDOR = 2 };

typedef struct tw_network_options {
    const char *device;   /* NULL or "auto": a GPU that has all kernels, or else the processor. "cpu", "cuda", "cuda:1",
                             "emulator", or "plain": node by node in double, for comparison. */
    const char *dtype;    /* NULL: as the model has it. "f16", "bf16": what it computes in f32 is computed in it. */
    int threads;          /* Of a processor. 0: one for each core. */
    int products;         /* TW_PRODUCTS_ bits. 0: both. */
    bool search;          /* On a GPU: measure how products and attention are computed best, and keep that. */
    double seconds;       /* With `search`: time for a program's searches, spent where its time is. 0: no limit. */
    bool unsplit;         /* On a GPU: no product is split along k. */
    bool unsplit_batches; /* On a GPU: no product of a batch is split along k, while others may be. */
    /* On a GPU: counters of products that are split along k are zeroed in each run, in place of once when the program
       is made. */
    bool clear_counters;
    bool unfused;     /* No patterns are looked for. */
    bool apart;       /* On a GPU: attention is computed as products and softmax. */
    bool norms_apart; /* On a GPU: no norm becomes part of the products around it. */
} tw_network_options;

typedef struct tw_network tw_network;

/* Opens a model (.onnx) or a package (.tw), by the path's ending. `options` may be NULL, and is copied. The caller
   closes the network, which belongs to one thread at a time. TW_ERR_USAGE: the device or the type is unknown, or a
   package is of another type. TW_ERR_FORMAT, TW_ERR_UNSUPPORTED: as of tw_graph_open, or there is no such GPU. */
tw_status tw_network_open(tw_network **out, const char *path, const tw_network_options *options, tw_diag *diag);
void tw_network_close(tw_network *n); /* NULL is fine. */

/* Plain facts. Texts are the network's. */
typedef struct tw_network_info {
    const char *name, *device, *dtype;
    int inputs, outputs;
    int prepared;           /* Numbers of extents that there are programs for. */
    int steps, launches;    /* Of the program that was prepared last. launches: on a GPU. */
    int64_t weight_bytes;   /* Of constants of that program. */
    int64_t memory_bytes;   /* Beside weights, of that program. 0: not known. */
    double operations;      /* Of its products and attention: multiplications and additions. */
    double prepare_seconds; /* That its preparation took. */
} tw_network_info;
void tw_network_describe(const tw_network *n, tw_network_info *info);
/* Describe an input or output of the model, by its number from 0. Extents that the model leaves open are -1, and
   `data` is NULL. Names are the network's. */
void tw_network_input(const tw_network *n, int i, tw_tensor *out);
void tw_network_output(const tw_network *n, int i, tw_tensor *out);
/* Returns the number that an input of integers must be below, as far as the model says: rows of a table that it looks
   up. 0: it does not say. */
int64_t tw_network_input_limit(const tw_network *n, int i);

/* Makes the program for extents of `inputs`, an array with all inputs in the model's order, unless there is one. Of a
   tensor only type, rank and extents are read. A network keeps up to 32 programs. TW_ERR_USAGE: an input's type or
   extents are not the model's. TW_ERR_UNSUPPORTED: a GPU lacks kernels for nodes, all of which are listed; a package
   has neither such extents nor the model; or there are 32 programs. TW_ERR_MEMORY: memory, here or on the GPU, is not
   enough. */
tw_status tw_network_prepare(tw_network *n, const tw_tensor *inputs, tw_diag *diag);
/* Computes outputs, and prepares for the inputs' extents if need be. Contents of inputs are copied. `outputs` has room
   for all outputs; their contents lie in memory of the network until the next call that prepares, runs or times. Errors
   are those of tw_network_prepare, and TW_ERR_USAGE: an input has no content. */
tw_status tw_network_run(tw_network *n, const tw_tensor *inputs, tw_tensor *outputs, tw_diag *diag);
/* Runs as the last time, `samples` times, and writes the microseconds of each into us[]: on a GPU those of the device,
   without copies of inputs and outputs, and elsewhere those of the call. TW_ERR_USAGE: nothing was run yet.
   TW_ERR_UNSUPPORTED: the device is an emulator. */
tw_status tw_network_time(tw_network *n, double *us, int samples, tw_diag *diag);

/* What a comparison of a network came to: differences are relative to the root of the mean square of an output. */
typedef struct tw_network_verdict {
    tw_graph_verdict
        elements;      /* As of tw_graph_verify, but a network in f16 may differ by 1e-2, and in bf16 by 8e-2. */
    double worst, rms; /* The largest difference, and the root of the mean square of differences. */
    bool agrees;       /* All elements are within what is allowed. */
} tw_network_verdict;

/* Does what tw_graph_verify does, on the network's device. A difference that is not allowed is no error: the verdict
   has it, and `why`, if not NULL, a text of less than `why_size` bytes, which is empty if all agrees. */
tw_status tw_network_verify(tw_network *n, const char *golden, tw_network_verdict *verdict, char *why, size_t why_size,
                            tw_diag *diag);

/* Compares the outputs of the last run with those of the model, computed node by node in double. That takes seconds for
   each 10^9 operations. A package is compared with its own graph. TW_ERR_USAGE: nothing was run yet. TW_ERR_FORMAT: the
   package is damaged. */
tw_status tw_network_check(tw_network *n, tw_network_verdict *verdict, char *why, size_t why_size, tw_diag *diag);

/* Reads all of a package. TW_ERR_FORMAT: it is damaged. Of a model it does nothing. */
tw_status tw_network_check_file(const tw_network *n, tw_diag *diag);

/* Writes a package of what was prepared so far: graphs, constants in the network's type, and what searches found. It
   opens without passes over graphs and without searches, on this kind of device or another. TW_ERR_USAGE: nothing was
   prepared. TW_ERR_UNSUPPORTED: extents depend on what inputs contain. TW_ERR_FORMAT: the network is a package itself,
   which is damaged. */
tw_status tw_network_save(const tw_network *n, const char *path, tw_diag *diag);

/* What a package also has. All may be left out. */
typedef struct tw_package_options {
    /* Machine code for a GPU, "sm_90a", compiled by the program ptxas (TILEWRIGHT_PTXAS names another), so that a
       machine without a compiler starts at once. NULL: on a GPU what its driver compiled, on the emulator none. */
    const char *target;
    bool packed; /* On a processor: constants as its kernels read them, beside constants as they are. */
    bool model;  /* The model itself, from which programs for other extents are made. */
} tw_package_options;
/* Does what tw_network_save does. TW_ERR_UNSUPPORTED: also, there is no ptxas. TW_ERR_USAGE: also, the network is for
   another target, or on another kind of device. */
tw_status tw_network_save_with(const tw_network *n, const char *path, const tw_package_options *options, tw_diag *diag);

/* What tw_network_text writes. */
typedef enum tw_network_view {
    TW_NETWORK_FUSIONS, /* Which patterns were found, and how often. Of a package: what it has, and what was taken. */
    TW_NETWORK_GRAPH,   /* The graph after all passes, as text. */
    TW_NETWORK_DOT,     /* The same for Graphviz. */
    TW_NETWORK_STEPS,   /* The program's steps. */
    TW_NETWORK_LAUNCHES /* On a GPU: kernels, with the microseconds of each. On a processor: the schedule as JSON. */
} tw_network_view;
/* Returns a text about the program that was prepared last, which the caller frees. NULL: `diag` says why. */
char *tw_network_text(tw_network *n, tw_network_view view, tw_diag *diag);

/* ---- contents of a network's inputs */

typedef struct tw_tensors tw_tensors;
/* Makes an empty one, which the caller frees. The network must outlive it. */
tw_status tw_tensors_new(tw_tensors **out, const tw_network *n, tw_diag *diag);
void tw_tensors_free(tw_tensors *t); /* NULL is fine. */
/* Reads a file: .npy, .npz or a TensorProto. `input` is whose content it has; NULL: the inputs' that its arrays are
   named after, NAME or in_NAME. TW_ERR_USAGE: it has none of these. */
tw_status tw_tensors_read(tw_tensors *t, const char *input, const char *path, tw_diag *diag);
/* Says the extent of a dimension that the model leaves open. What is wrong with it tw_tensors_complete says. */
tw_status tw_tensors_extent(tw_tensors *t, const char *symbol, int64_t extent, tw_diag *diag);
/* Finds types and extents of all inputs. With `random` those without a file are drawn. Where no extent and no file was
   given, a package of one shape has that. TW_ERR_USAGE: an extent is not known, there is no such dimension, or a file
   has something else. */
tw_status tw_tensors_complete(tw_tensors *t, bool random, tw_diag *diag);
/* Returns all inputs in the model's order, with contents where they have any. They are owned by `t`, which is complete.
 */
const tw_tensor *tw_tensors_list(const tw_tensors *t);
/* Writes types and extents of all inputs, like "input_ids i64[1, 512]". What is longer than `size` is cut. */
void tw_tensors_describe(const tw_tensors *t, char *out, size_t size);

int64_t tw_tensor_elements(const tw_tensor *t);       /* -1: too many, or no type. */
double tw_tensor_real(const tw_tensor *t, int64_t i); /* Element i, in row-major order, as a real. */
/* Writes n tensors as a .npz file, by their names; "-" is standard output. Elements of bf16 are written as f32.
   TW_ERR_UNSUPPORTED: NumPy has no such elements. */
tw_status tw_tensors_write(const char *path, const tw_tensor *list, int n, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
