/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that an engine runs its programs on: the processor's, or a GPU's. Each is a back end: a table of
   functions, and nothing else in the room asks which one it is. */
#ifndef TW_ENGINE_MACHINE_H
#define TW_ENGINE_MACHINE_H

#include "tilewright/engine.h"
#include "tilewright/vm.h"
#include "vm/sample.h"

typedef struct tw_machine {
    const struct tw_engine_backend *backend; /* NULL: no machine was opened. */
    void *vm;                                /* The back end's tw_vm or tw_cuda_vm. */
    int gpu;                                 /* Number of the GPU. -1: none, or emulated. */
    int workers;
    int64_t tokens; /* Positions a step may have at most. */
    tw_dtype kv;    /* Element type of the cache. */
} tw_machine;

/* What counts as agreement between a machine's results and a reference. */
typedef struct tw_tolerance {
    double logit_relative; /* Allowed difference of a logit, as a part of the largest in magnitude. */
    double logit_absolute; /* Allowed difference of a logit, added to the relative one. */
    double loss_relative;
    bool close; /* A greedy token may differ where its logit is within twice the tolerance of the most likely one's. */
} tw_tolerance;

/* One kind of machine. Every function takes an open machine, but for `open`. */
typedef struct tw_engine_backend {
    bool gpu; /* A GPU's machine, also where it is emulated. */
    tw_tolerance tolerance;

    /* Opens the machine of `m`, whose backend is set. `threads` is how many workers a processor has. */
    tw_status (*open)(tw_machine *m, const tw_model *model, const tw_engine_options *options, int threads,
                      tw_diag *diag);
    void (*close)(tw_machine *m); /* Also of a machine that failed to open. */

    /* As tw_vm_fits. */
    tw_status (*fits)(const tw_machine *m, const tw_schedule *const *schedules, int n, tw_diag *diag);
    /* Completes a lowering with what suits the machine. The number of workers is the machine's. */
    void (*complete_lowering)(const tw_machine *m, tw_lowering *l);
    /* As tw_cuda_vm_short_past. 0 on a processor. */
    int64_t (*short_past)(const tw_machine *m, const tw_lowering *l);

    /* As tw_vm_load, tw_vm_run and so on. */
    tw_status (*load)(tw_machine *m, const tw_checked *program, int *id, tw_diag *diag);
    tw_status (*run)(tw_machine *m, tw_vm_step *step, tw_diag *diag);
    int64_t (*tape_bytes)(const tw_machine *m);
    int64_t (*streamed_bytes)(const tw_machine *m);
    void (*explain)(const tw_machine *m, char *out, size_t size);
    const char *(*name)(const tw_machine *m); /* "cpu", or the GPU's name. */

    /* Runs n steps of a decode program, each with the token before it. *seconds is by the host's clock, on a GPU from
       before a launch until it is known to be over. */
    tw_status (*greedy)(tw_machine *m, int program, int32_t token, int64_t pos, int64_t n, int32_t *tokens,
                        double *seconds, tw_diag *diag);

    /* Whether a program draws tokens on the device. `draw` and `count` are for such programs alone, and NULL where no
       program does. */
    bool (*draws)(const tw_machine *m, int program);
    /* Runs n steps of a decode program that draw by a sampler's rules. take() is as in tw_cuda_vm_draw. */
    tw_status (*draw)(tw_machine *m, int program, const tw_sample_rules *rules, int32_t token, int64_t pos, int64_t n,
                      bool (*take)(void *user, const int32_t *tokens), void *user, tw_diag *diag);
    /* Sets what penalties count of every id: [vocab]. */
    tw_status (*count)(tw_machine *m, const uint32_t *counts, tw_diag *diag);

    /* As tw_vm_measure_arithmetic. TW_ERR_UNSUPPORTED on a GPU. */
    tw_status (*arithmetic)(const tw_machine *m, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag);
    /* Bytes a second of reading what a decoded token streams, measured now: on a GPU from its memory, on a processor
       from wherever as many bytes stay between two tokens. */
    tw_status (*bandwidth)(const tw_machine *m, double *bytes_per_second, tw_diag *diag);

    /* As tw_vm_limit_isa. NULL where there is one set of kernels. */
    tw_status (*limit_isa)(tw_machine *m, uint32_t isa, bool own_only, tw_diag *diag);
} tw_engine_backend;

extern const tw_engine_backend tw_engine_cpu, tw_engine_gpu;

enum { TW_ENGINE_BACKENDS = 2 };

/* The back ends that options->device allows, in the order in which they are tried. */
tw_status tw_engine_backends(const tw_engine_options *options, const tw_engine_backend *out[TW_ENGINE_BACKENDS], int *n,
                             tw_diag *diag);

#endif
