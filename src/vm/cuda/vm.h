/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's machine runs a checked schedule as one persistent kernel. A worker is a block that has an SM to itself. It
   streams its weights from a tape of its own through a ring of shared memory, and runs its list of instructions. The
   same kernel runs on a device or, for tests, in the emulator.

   The machine covers every family of models that is imported: dense layers and mixtures of experts, RMS norms and layer
   norms, any activation, and weights as stored or quantised to int8 and int4. Sizes have limits, which docs/vm-cuda.md
   lists. A step has up to TW_CUDA_VM_TOKENS positions, one of a mixture: all of one sequence, or one of each of several
   sequences. Anything else is TW_ERR_UNSUPPORTED with the reason. The processor's machine runs every model.

   Weights of bf16 and f32 are multiplied by activations that are sums of two bf16. Weights of int8 and int4 are
   multiplied by activations that are integers, 128 of which share a scale. Weights of f16 are multiplied by activations
   that are sums of two f16, which must stay below 65504 in magnitude. If an RMS norm precedes a product, activations
   are multiplied by the norm's weights before the product, and the product is divided by their root mean square. */
#ifndef TW_VM_CUDA_VM_H
#define TW_VM_CUDA_VM_H

#include "device/cuda/cuda.h"
#include "tilewright/vm.h"
#include "vm/memory.h"
#include "vm/sample.h"

enum { TW_CUDA_VM_TOKENS = 8 };

typedef struct tw_cuda_vm tw_cuda_vm;

typedef tw_machine_tuning tw_cuda_vm_tuning;

typedef struct tw_cuda_vm_options {
    int device;           /* Number of the GPU. */
    bool emulate;         /* Run the kernel in the emulator, with every checker on. False: on a GPU. */
    const char *target;   /* The kernel's target, at most as new as the GPU. NULL: the GPU's own; emulated: sm_90a. */
    int workers;          /* Emulated: number of SMs. 0: 2. */
    uint64_t seed;        /* Emulated: seed of the interleaving. */
    bool stored_rope;     /* As in tw_vm_options. */
    bool dequantise;      /* As in tw_vm_options: run the floats that quantised weights stand for. */
    bool trace;           /* Keep clocks of the last step for tw_cuda_vm_trace. */
    int64_t memory_limit; /* As in tw_vm_options, for the GPU's memory. */
    int64_t sequences;    /* Caches and counts have room for so many sequences. 0: for those of the programs. */
    int cut_list;         /* For tests: the most candidates of a draw that are sorted at once, 16 or more. 0: 512. */
    tw_cuda_vm_tuning tuning;
} tw_cuda_vm_options;

/* `model` must outlive the machine. The caller closes it. TW_ERR_UNSUPPORTED: no device, or a model that is not
 * covered. */
tw_status tw_cuda_vm_open(tw_cuda_vm **out, const tw_model *model, const tw_cuda_vm_options *options, tw_diag *diag);
void tw_cuda_vm_close(tw_cuda_vm *vm); /* NULL is fine. */

/* Sets options.sequences. No program may be loaded. */
void tw_cuda_vm_reserve(tw_cuda_vm *vm, int64_t sequences);

/* Sets fields of `l` that are 0, such as the number of workers, to what suits the machine. */
void tw_cuda_vm_lowering(const tw_cuda_vm *vm, tw_lowering *l);

/* Returns the most positions of the past, the new one included, at which attention in one part (kv_splits 1) is
   fastest. 0: at none, as if a step has several positions of a sequence, or workers are few. `l` is completed. */
int64_t tw_cuda_vm_short_past(const tw_cuda_vm *vm, const tw_lowering *l);

/* TW_OK: the kernel can be built for this schedule. Otherwise *diag says why not. Nothing is loaded. */
tw_status tw_cuda_vm_fits(const tw_cuda_vm *vm, const tw_schedule *s, tw_diag *diag);
/* Does what tw_vm_fits does: TW_OK if there is memory for the schedules. */
tw_status tw_cuda_vm_room(const tw_cuda_vm *vm, const tw_schedule *const *schedules, int n, tw_diag *diag);

/* Of the next functions load, run, tape_bytes, streamed_bytes and explain do what their namesakes tw_vm_load etc. do,
   for programs of at most TW_CUDA_VM_TOKENS positions a step. tw_cuda_vm_run takes programs of one sequence. */
tw_status tw_cuda_vm_load(tw_cuda_vm *vm, const tw_checked *program, int *id, tw_diag *diag);
tw_status tw_cuda_vm_run(tw_cuda_vm *vm, tw_vm_step *step, tw_diag *diag);
/* Returns the most positions of a step of a program of one sequence. */
int64_t tw_cuda_vm_tokens(const tw_cuda_vm *vm);
int64_t tw_cuda_vm_tape_bytes(const tw_cuda_vm *vm);
/* Returns the most device memory that the machine and what runs beside it had at once, in bytes. *loaded receives what
   decode programs take of it. */
int64_t tw_cuda_vm_memory(const tw_cuda_vm *vm, tw_memory_need *loaded);
int64_t tw_cuda_vm_streamed_bytes(const tw_cuda_vm *vm);
void tw_cuda_vm_explain(const tw_cuda_vm *vm, char *out, size_t size);

/* The most steps of a launch. They take some seconds, after which a launch that gave up has ended. */
enum { TW_CUDA_VM_GREEDY = 4096 };

/* Runs `n` greedy steps of a program of S sequences (one position: S is 1) in a single launch. n is at most
   TW_CUDA_VM_GREEDY. Sequence i begins with tokens[i] at positions[i]. Each step takes the token that the step before
   found, at the next position. out[step * S + i] is the token that a step found. All positions are within the cache,
   and those below a sequence's first one were run before. *logits (may be NULL) is [S][vocab] of the last step, owned
   by the machine and valid until it runs again. *microseconds (may be NULL) is host time from before the launch
   until the host knows that it is over. */
tw_status tw_cuda_vm_batch(tw_cuda_vm *vm, int program, const int32_t *tokens, const int64_t *positions, int64_t n,
                           int32_t *out, const float **logits, double *microseconds, tw_diag *diag);

/* A launch whose steps draw tokens by rules (vm/sample.h). Arguments of tw_cuda_vm_batch have fields of their names. */
typedef struct tw_cuda_vm_draw {
    int program;
    const int32_t *tokens;
    const int64_t *positions;
    int64_t n;
    const tw_sample_rules *rules; /* [S]: rules of each sequence. NULL: greedy. */
    /* Called with each step's S tokens as soon as they are known, while later steps run. False: no more are wanted, and
       the draw returns at once. The launch then still writes to the cache, at later positions. */
    bool (*take)(void *user, const int32_t *tokens);
    void *user;    /* Passed to `take`. */
    int64_t taken; /* Result: steps that `take` was called for. */
} tw_cuda_vm_draw;
tw_status tw_cuda_vm_draw_tokens(tw_cuda_vm *vm, tw_cuda_vm_draw *draw, tw_diag *diag);
/* Returns true if the program can draw on the device. Otherwise the host draws from its logits. */
bool tw_cuda_vm_draws(const tw_cuda_vm *vm, int program);
/* Sets counts[vocab] (TW_SAMPLE_SEEN) of a sequence, for penalties. The device adds each token that is drawn with
   penalties, even if `take` is not called for it. */
tw_status tw_cuda_vm_count(tw_cuda_vm *vm, int64_t sequence, const uint32_t *counts, tw_diag *diag);

/* Phases of an instruction. If its rows take several groups, MULTIPLY includes the finishing of all but the last group.
   If its activations take several chunks, PREPARE lasts until the first group's last chunk. */
typedef enum tw_cuda_vm_phase {
    TW_CUDA_VM_WAIT,     /* Does what does not depend on earlier instructions, then waits for them. */
    TW_CUDA_VM_PREPARE,  /* Copies activations to shared memory. */
    TW_CUDA_VM_MULTIPLY, /* Multiplies weights. Instructions without weights do all of their work here. */
    TW_CUDA_VM_FINISH,   /* Joins sums and stores results. */
    TW_CUDA_VM_ARRIVE,   /* Publishes the results. */
    TW_CUDA_VM_PHASES
} tw_cuda_vm_phase;
/* Times of a kind of instruction in a step. */
typedef struct tw_cuda_vm_times {
    const char *name;                                          /* "qkv", "attend" and so on, owned by the library. */
    int count;                                                 /* Instructions of all workers together. */
    double clocks[TW_CUDA_VM_PHASES], most[TW_CUDA_VM_PHASES]; /* Mean and largest time in clocks of an SM. */
} tw_cuda_vm_times;
enum { TW_CUDA_VM_KINDS = 17 };
/* Gets the times of the last step. tw_cuda_vm_options.trace must have been set. */
tw_status tw_cuda_vm_trace(tw_cuda_vm *vm, int program, tw_cuda_vm_times times[TW_CUDA_VM_KINDS], tw_diag *diag);

/* Makes a trace of the last step (vm/cuda/timeline.h), which had n positions from `pos` on. tw_cuda_vm_options.trace
   must have been set. The caller frees the trace. */
struct tw_trace;
tw_status tw_cuda_vm_timeline(tw_cuda_vm *vm, int program, int64_t n, int64_t pos, const char *title,
                              struct tw_trace **out, tw_diag *diag);
/* The same of the last step that any program made. */
tw_status tw_cuda_vm_last_timeline(tw_cuda_vm *vm, const char *title, struct tw_trace **out, tw_diag *diag);

const char *tw_cuda_vm_device(const tw_cuda_vm *vm); /* Returns the device's name, or "emulator". */

#endif
