/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that runs an engine's programs: a processor's or a GPU's. Each kind is a back end, a table of functions.
   The rest of the room calls these functions and does not distinguish the kinds. */
#ifndef TW_ENGINE_MACHINE_H
#define TW_ENGINE_MACHINE_H

#include "tilewright/engine.h"
#include "tilewright/vm.h"
#include "vm/sample.h"

struct tw_trace;
struct tw_prefill_part;

/* A machine and its limits. */
typedef struct tw_machine {
    const struct tw_engine_backend *backend; /* NULL: no machine is open. */
    void *vm;                                /* A tw_vm or a tw_cuda_vm, owned by the back end. */
    void *prefill;                           /* A GPU's tw_prefill, owned by the back end. NULL: none is loaded. */
    int prompts;                             /* A GPU: the tw_prompts of the configuration. */
    int o_parts, down_parts;                 /* A GPU: prompts' parts of the configuration. */
    int gpu;                                 /* Number of the GPU. -1: a processor, or an emulated GPU. */
    int workers;                             /* Workers that run at the same time. */
    int64_t tokens;                          /* The most positions of a step. */
    tw_dtype kv;                             /* Element type of the key/value cache. */
} tw_machine;

/* The largest differences at which a machine's results agree with a reference. */
typedef struct tw_tolerance {
    double logit_relative; /* Difference of a logit, relative to the largest magnitude. */
    double logit_absolute; /* Difference of a logit, in addition to the relative one. */
    double loss_relative;  /* Difference of a loss, relative to the loss. */
    double score_relative; /* Difference of an expert's score, relative to the largest magnitude. */
    bool close; /* True: a greedy token may differ if its logit is within twice the tolerance of the largest. */
} tw_tolerance;

/* A kind of machine. Every function but `open` takes an open machine. */
typedef struct tw_engine_backend {
    bool gpu;                                     /* The machine is a GPU's, real or emulated. */
    bool follows;                                 /* Steps follow choices of experts (vm/routing.h). */
    tw_tolerance tolerance[TW_ACTIVATIONS_COUNT]; /* Agreement with references. A GPU's activations are floats. */

    /* Opens a machine. m->backend is set. `threads` is the number of workers on a processor. */
    tw_status (*open)(tw_machine *m, const tw_model *model, const tw_engine_options *options, int threads,
                      tw_diag *diag);
    void (*close)(tw_machine *m); /* Closes a machine, also one whose `open` failed. */

    /* Does what tw_vm_fits does. */
    tw_status (*fits)(const tw_machine *m, const tw_schedule *const *schedules, int n, tw_diag *diag);
    /* Sets what a lowering leaves open, such as the number of workers, to what suits the machine. */
    void (*complete_lowering)(const tw_machine *m, tw_lowering *l);
    /* Does what tw_cuda_vm_short_past does. Returns 0 on a processor. */
    int64_t (*short_past)(const tw_machine *m, const tw_lowering *l);

    /* load, run, tape_bytes, streamed_bytes and explain do what their namesakes in tilewright/vm.h do. */
    tw_status (*load)(tw_machine *m, const tw_checked *program, int *id, tw_diag *diag);
    tw_status (*run)(tw_machine *m, tw_vm_step *step, tw_diag *diag);
    /* Does what tw_prefill_covers does. NULL: nothing is covered. */
    bool (*covers_prompts)(const tw_machine *m);
    /* Load, prepare and run a program for prompts as tw_prefill_open, tw_prefill_warm and tw_prefill_run do. NULL: the
     * machine has none. */
    tw_status (*load_prefill)(tw_machine *m, int decode, const tw_checked *program, tw_diag *diag);
    /* Reserve room for caches of many sequences, load a program for their steps, and run those, as tw_cuda_vm_reserve,
       tw_prefill_open, tw_prefill_begin and tw_prefill_end do. `many` is the schedule of a position of each sequence.
       NULL: the machine has none. */
    void (*reserve)(tw_machine *m, int64_t sequences);
    tw_status (*load_many)(tw_machine *m, int decode, const tw_checked *program, const tw_checked *many, int64_t rows,
                           tw_diag *diag);
    tw_status (*begin_many)(tw_machine *m, const struct tw_prefill_part *parts, int n, tw_diag *diag);
    tw_status (*end_many)(tw_machine *m, int32_t *tokens, tw_diag *diag);
    tw_status (*warm_prefill)(tw_machine *m, int64_t n, int64_t pos, tw_diag *diag);
    tw_status (*run_prefill)(tw_machine *m, int64_t sequence, tw_vm_step *step, bool ends, tw_diag *diag);
    int64_t (*tape_bytes)(const tw_machine *m);
    tw_engine_memory (*memory)(const tw_machine *m);
    int64_t (*streamed_bytes)(const tw_machine *m);
    void (*explain)(const tw_machine *m, char *out, size_t size);
    /* Lists products as tw_vm_products does. NULL: the machine has none. */
    int (*products)(const tw_machine *m, tw_vm_product *out, int most);
    /* Chooses who computes products as tw_vm_choose does. NULL: the machine has no choice. */
    tw_status (*choose)(tw_machine *m, const char *artefact, tw_diag *diag);
    const char *(*name)(const tw_machine *m); /* Returns "cpu" or the GPU's name. */

    /* Runs n greedy steps of a decode program. The first step takes `token`, each other step the token before it.
     *seconds is host time; on a GPU it includes the launches and the wait for their end. */
    tw_status (*greedy)(tw_machine *m, int program, int32_t token, int64_t pos, int64_t n, int32_t *tokens,
                        double *seconds, tw_diag *diag);

    /* Returns true if a program samples tokens on the device. `draw` and `count` serve such programs only, and are NULL
       if the back end has none. */
    bool (*draws)(const tw_machine *m, int program);
    /* Runs n steps of a decode program that sample, each sequence by its own rules. Arguments are as in
     * tw_cuda_vm_draw.
     */
    tw_status (*draw)(tw_machine *m, int program, const tw_sample_rules *rules, const int32_t *tokens,
                      const int64_t *positions, int64_t n, bool (*take)(void *user, const int32_t *tokens), void *user,
                      tw_diag *diag);
    /* Sets how often each token id occurred in a sequence, for penalties: counts[vocab]. */
    tw_status (*count)(tw_machine *m, int64_t sequence, const uint32_t *counts, tw_diag *diag);

    int64_t (*most_sequences)(const tw_machine *m); /* Returns the most sequences of a decode program. */
    /* Runs one step of a program of several sequences. out[sequence] is the most likely token. *logits (may be NULL) is
       [sequences][vocab], valid until the machine runs again. NULL: there are no such programs. */
    tw_status (*step_all)(tw_machine *m, int program, const int32_t *tokens, const int64_t *positions, int32_t *out,
                          const float **logits, tw_diag *diag);

    /* Does what tw_vm_measure_arithmetic does. TW_ERR_UNSUPPORTED: the machine is a GPU's. */
    tw_status (*arithmetic)(const tw_machine *m, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag);
    /* Measures the bandwidth of reading as many bytes as a decoded token streams. On a GPU they come from its memory.
       On a processor they come from the cache or memory that holds that many bytes. */
    tw_status (*bandwidth)(const tw_machine *m, double *bytes_per_second, tw_diag *diag);

    /* Do what tw_vm_trace_begin and tw_vm_trace_end do. A GPU must have been opened with tw_engine_options.traced, and
       has the last step alone. */
    tw_status (*trace_begin)(tw_machine *m, int64_t steps, tw_diag *diag);
    tw_status (*trace_end)(tw_machine *m, const char *title, struct tw_trace **out, tw_diag *diag);

    /* Does what tw_vm_limit_isa does. NULL: the machine has a single set of kernels. */
    tw_status (*limit_isa)(tw_machine *m, uint32_t isa, bool own_only, tw_diag *diag);
} tw_engine_backend;

extern const tw_engine_backend tw_engine_cpu, tw_engine_gpu;

enum { TW_ENGINE_BACKENDS = 2 };

/* Lists the back ends that options->device allows, in the order in which the engine tries them. */
tw_status tw_engine_backends(const tw_engine_options *options, const tw_engine_backend *out[TW_ENGINE_BACKENDS], int *n,
                             tw_diag *diag);

#endif
