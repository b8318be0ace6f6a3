/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's machine: a checked schedule as one persistent kernel. A worker is a block that has an SM to itself; it
   streams its weights from a tape of its own through a ring of shared memory, and runs its list of instructions. The
   same kernel runs on a device or, for tests, in the emulator.

   Covers models of dense layers with rms norms and SiLU (llama, mistral, qwen2, qwen3), weights as stored or quantised
   to int8 and int4, and up to TW_CUDA_VM_TOKENS positions a step: of one sequence, or one of each of as many sequences.
   What it does not cover is TW_ERR_UNSUPPORTED, with the reason and the way out: the processor's machine runs every
   model.

   Weights of bf16 and f32 meet activations as sums of two bf16; those of int8 and int4, activations as integers with a
   scale for every 128; those of f16, activations as sums of two f16, which must stay below 65504 in magnitude: inputs
   of a normed product are taken times the norm's weights, before they are divided by their root mean square. */
#ifndef TW_VM_CUDA_VM_H
#define TW_VM_CUDA_VM_H

#include "device/cuda/cuda.h"
#include "tilewright/vm.h"
#include "vm/sample.h"

enum { TW_CUDA_VM_TOKENS = 8 };

typedef struct tw_cuda_vm tw_cuda_vm;

enum { TW_CUDA_VM_COUNTERS = TW_EDGES_COUNTERS, TW_CUDA_VM_DATA = TW_EDGES_DATA };

typedef tw_machine_tuning tw_cuda_vm_tuning;

typedef struct tw_cuda_vm_options {
    int device;         /* number of the GPU */
    bool emulate;       /* no GPU: run the kernel in the emulator, with every checker on */
    const char *target; /* the kernel's; NULL: the device's own, emulated sm_90a. A later GPU runs an older target's */
    int workers;        /* emulated: SMs; 0: 2 */
    uint64_t seed;      /* emulated: of the interleaving */
    bool stored_rope;   /* as tw_vm_options */
    bool dequantise;    /* as tw_vm_options: run the floats that integers stand for */
    bool trace;         /* keep clocks of the last step: tw_cuda_vm_trace */
    int64_t memory_limit; /* as tw_vm_options, of the GPU's memory */
    int cut_list;         /* for tests, 16 or more: candidates that top-k and the like put in order at once; 0: 512 */
    tw_cuda_vm_tuning tuning;
} tw_cuda_vm_options;

/* `model` must outlive the machine. The caller closes it. TW_ERR_UNSUPPORTED: no device, or a model that is not
 * covered. */
tw_status tw_cuda_vm_open(tw_cuda_vm **out, const tw_model *model, const tw_cuda_vm_options *options, tw_diag *diag);
void tw_cuda_vm_close(tw_cuda_vm *vm); /* NULL is fine */

/* What to lower a program with: sets the fields of `l` that are 0 to what suits the machine, its number of workers
   among them. */
void tw_cuda_vm_lowering(const tw_cuda_vm *vm, tw_lowering *l);

/* Positions of the past, the new one included, up to which a step is fastest with attention in one part (kv_splits 1):
   there is nothing to merge then. 0: never, of several positions a step or few workers. `l`: completed. */
int64_t tw_cuda_vm_short_past(const tw_cuda_vm *vm, const tw_lowering *l);

/* Whether the machine can be built for this schedule, as it was opened; if not, why. Nothing is loaded. */
tw_status tw_cuda_vm_fits(const tw_cuda_vm *vm, const tw_schedule *s, tw_diag *diag);
/* As tw_vm_fits: whether there is memory. */
tw_status tw_cuda_vm_room(const tw_cuda_vm *vm, const tw_schedule *const *schedules, int n, tw_diag *diag);

/* As tw_vm_load, tw_vm_run and so on, for programs of at most TW_CUDA_VM_TOKENS positions a step; run is for those of
   one sequence. */
tw_status tw_cuda_vm_load(tw_cuda_vm *vm, const tw_checked *program, int *id, tw_diag *diag);
tw_status tw_cuda_vm_run(tw_cuda_vm *vm, tw_vm_step *step, tw_diag *diag);
int64_t tw_cuda_vm_tape_bytes(const tw_cuda_vm *vm);
int64_t tw_cuda_vm_streamed_bytes(const tw_cuda_vm *vm);
void tw_cuda_vm_explain(const tw_cuda_vm *vm, char *out, size_t size);

/* Steps of one launch at most: some seconds, after which one that gave up has ended. */
enum { TW_CUDA_VM_GREEDY = 4096 };

/* `n` greedy steps of a program of one position in a single launch: tokens[0] follows `token` at position `pos`, and so
   on; all of pos .. pos + n - 1 are within the cache. *microseconds (may be NULL): from before the launch until the
   host knows that it is over, by the host's clock. */
tw_status tw_cuda_vm_greedy(tw_cuda_vm *vm, int program, int32_t token, int64_t pos, int64_t n, int32_t *tokens,
                            double *microseconds, tw_diag *diag);

/* `n` greedy steps of a program of S sequences (or of one position: S is 1) in a single launch. Sequence i begins with
   tokens[i] at position positions[i]; each step moves it on by one and feeds it what the step before found.
   out[step * S + i]: the tokens found; n is at most TW_CUDA_VM_GREEDY. All positions are within the cache, and what
   lies below a sequence's first one was run before. *logits (may be NULL): [S][vocab] of the last step, the machine's
   own and valid until it runs again. *microseconds (may be NULL): as above. */
tw_status tw_cuda_vm_batch(tw_cuda_vm *vm, int program, const int32_t *tokens, const int64_t *positions, int64_t n,
                           int32_t *out, const float **logits, double *microseconds, tw_diag *diag);

/* A launch of steps that draw tokens by rules (vm/sample.h). Otherwise as tw_cuda_vm_batch. */
typedef struct tw_cuda_vm_draw {
    int program;
    const int32_t *tokens;
    const int64_t *positions;
    int64_t n;
    const tw_sample_rules *rules; /* [S]; NULL: greedy */
    /* Called with each step's S tokens as soon as they are known, while later steps run. False: no more are wanted, and
       the call returns at once; what the rest of the launch writes to the cache lies at later positions. */
    bool (*take)(void *user, const int32_t *tokens);
    void *user;
    int64_t taken; /* out: steps */
} tw_cuda_vm_draw;
tw_status tw_cuda_vm_draw_tokens(tw_cuda_vm *vm, tw_cuda_vm_draw *draw, tw_diag *diag);
/* True if the program can draw on the device. Programs whose edges are data cannot; the host draws from their logits.
 */
bool tw_cuda_vm_draws(const tw_cuda_vm *vm, int program);
/* What penalties count (TW_SAMPLE_SEEN) of a sequence from now on: [vocab]. Each token that is drawn with penalties is
   added on the device, also such as nobody takes. */
tw_status tw_cuda_vm_count(tw_cuda_vm *vm, int64_t sequence, const uint32_t *counts, tw_diag *diag);

/* Where the time of the last step went, by kind of instruction: means over workers and instructions, in clocks of an
   SM. Where an instruction's rows take several groups, all but the last one's finishing counts as multiplying; where
   its activations take several chunks, all before the first group's last one counts as preparing. Needs the option. */
typedef enum tw_cuda_vm_phase {
    TW_CUDA_VM_WAIT,     /* for the instructions before it; what does not wait for them is done meanwhile */
    TW_CUDA_VM_PREPARE,  /* activations brought into shared memory */
    TW_CUDA_VM_MULTIPLY, /* the weights' stream; attention and the like, whole */
    TW_CUDA_VM_FINISH,   /* sums joined and written */
    TW_CUDA_VM_ARRIVE,
    TW_CUDA_VM_PHASES
} tw_cuda_vm_phase;
typedef struct tw_cuda_vm_times {
    const char *name;                                          /* "qkv", ...; owned by the library */
    int count;                                                 /* instructions of all workers together */
    double clocks[TW_CUDA_VM_PHASES], most[TW_CUDA_VM_PHASES]; /* mean and largest */
} tw_cuda_vm_times;
enum { TW_CUDA_VM_KINDS = 9 };
tw_status tw_cuda_vm_trace(tw_cuda_vm *vm, int program, tw_cuda_vm_times times[TW_CUDA_VM_KINDS], tw_diag *diag);

const char *tw_cuda_vm_device(const tw_cuda_vm *vm); /* its name, for people */

#endif
