/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph's program on a GPU, or in the emulator: a list of launches, captured as one graph of the driver. */
#ifndef TW_VM_NETWORK_NETWORK_H
#define TW_VM_NETWORK_NETWORK_H

#include "graph/program/program.h"
#include "tilewright/kernel.h"
#include "vm/network/plan.h"

typedef struct tw_cuda_network tw_cuda_network;
typedef struct tw_network_weights tw_network_weights;

/* What may compute products and attention. */
enum { TW_NETWORK_OWN = 1, TW_NETWORK_VENDOR = 2 };

typedef struct tw_cuda_network_options {
    int by;               /* TW_NETWORK_ bits. 0: both, where there was a search, and otherwise our own kernels. */
    bool unsplit;         /* No product is split along k. */
    bool unsplit_batches; /* No product of a batch is split along k, while others may be. */
    bool clear;           /* Counters of splits along k are zeroed before each launch, in place of once. */
    bool search;          /* Products that the plan has no entry of are searched on the device, and entered. */
    int measured;         /* With `search`: configurations to measure of each. 0: as many as is usual. */
    double seconds;       /* With `search`: time for all of it, spent where the network's time is. 0: no limit. */
    bool late;            /* No launch begins before the one before it is over. */
} tw_cuda_network_options;

/* Constants on a device, which programs with the same constants share: those of one graph for several extents. They are
   known by where their contents lie, which must stay there until they are closed. */
tw_status tw_network_weights_open(tw_network_weights **out, tw_gpu *gpu, tw_diag *diag);
void tw_network_weights_close(tw_network_weights *w); /* NULL is fine. Networks on it are closed before. */
int64_t tw_network_weights_bytes(const tw_network_weights *w);

/* Tells whether a GPU's kernels compute norms as parts of products (tw_program_options.norms). */
bool tw_cuda_network_joins_norms(const tw_gpu *gpu);
/* The fewest rows for which they do so well (tw_program_options.norm_rows). Tiles of fewer rows have B's columns in the
   place of rows, and know no layer norm. */
enum { TW_CUDA_NETWORK_NORM_ROWS = 64 };

/* Makes kernels and launches of a program that was lowered for a GPU. The program, the weights and their GPU must
   outlive the result. `plan` says how products are computed, and gets what a search finds. It may be NULL, and need not
   outlive the call. TW_ERR_UNSUPPORTED: a step has no kernel. TW_ERR_MEMORY: the device has no memory for it. */
tw_status tw_cuda_network_open(tw_cuda_network **out, const tw_program *program, tw_network_weights *weights,
                               const tw_cuda_network_options *options, tw_network_plan *plan, tw_diag *diag);
void tw_cuda_network_close(tw_cuda_network *n); /* NULL is fine. */

/* Computes outputs from contents of inputs, both dense, in the graph's order, and waits for them. */
tw_status tw_cuda_network_run(tw_cuda_network *n, const void *const *inputs, void *const *outputs, tw_diag *diag);

/* Takes samples of the device's microseconds for a run: each is the mean of `times` runs in turn, without copies of
   inputs and outputs. The network has run before. TW_ERR_UNSUPPORTED: the device is an emulator. */
tw_status tw_cuda_network_time(tw_cuda_network *n, int times, double *samples, int n_samples, tw_diag *diag);

/* Writes a line for each launch: its step, its kernel, and if `timed` the microseconds it takes by itself. A line more
   says why cuDNN was left out, if it was looked for and computes nothing. */
tw_status tw_cuda_network_explain(tw_cuda_network *n, bool timed, tw_buf *out, tw_diag *diag);

/* Counts the network's kernels whose machine code came from a package, the cache and the compiler. */
void tw_cuda_network_code(const tw_cuda_network *n, int counts[3]);
/* Prints kernel i of the network, from 0 on, as PTX. *more is false, and nothing printed: there is no such kernel. */
tw_status tw_cuda_network_ptx(const tw_cuda_network *n, int i, tw_buf *out, bool *more, tw_diag *diag);

int tw_cuda_network_launches(const tw_cuda_network *n);
int64_t tw_cuda_network_bytes(const tw_cuda_network *n); /* Bytes of the device's memory beside weights. */

#endif
