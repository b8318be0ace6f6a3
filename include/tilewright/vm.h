/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that run checked schedules. This one is the processor's: a persistent thread per worker walks its list. */
#ifndef TILEWRIGHT_VM_H
#define TILEWRIGHT_VM_H

#include "tilewright/device.h"
#include "tilewright/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_vm tw_vm;

/* What a processor's products take of their activations, which are floats everywhere else. */
typedef enum tw_activations {
    TW_ACTIVATIONS_FLOAT, /* As they are. Where a matrix unit multiplies bf16, two terms of it for each. */
    TW_ACTIVATIONS_BF16,  /* Rounded to bf16, as PyTorch does for weights of bf16. */
    /* Rounded to integers of 8 bits where weights are integers: one scale a group of the weights' columns, or 128 where
       a row of weights has one scale. With weights of floats they are as they are. */
    TW_ACTIVATIONS_INT8,
    TW_ACTIVATIONS_COUNT
} tw_activations;
/* Returns "float", "bf16" or "int8". */
const char *tw_activations_name(tw_activations a);

typedef struct tw_vm_options {
    int workers;    /* threads, the caller's included; every program must have as many */
    bool limit_isa; /* use only the instruction sets of `isa` (TW_CPU_*) */
    uint32_t isa;
    bool dequantise; /* quantise, then keep the weights as the floats they stand for: a reference for quantised runs */
    bool no_vendor;  /* matrix products by own kernels only, nothing measured */
    tw_activations activations;
    bool stored_rope;     /* rope frequencies rounded to the weights' type: see tw_engine_options */
    bool no_pin;          /* leave threads where the kernel puts them */
    int64_t memory_limit; /* bytes that programs may take; 0: what the machine has available */
} tw_vm_options;

/* `model` must outlive the machine. The caller closes it. */
tw_status tw_vm_open(tw_vm **out, const tw_model *model, const tw_vm_options *options, tw_diag *diag);
void tw_vm_close(tw_vm *vm); /* NULL is fine */

/* Loads a checked program: its weights are packed onto the workers' tapes, unless an earlier program has packed the
   same rows. All programs share one key/value cache, so they must agree on max_seq. The program must outlive the
   machine. */
tw_status tw_vm_load(tw_vm *vm, const tw_checked *program, int *id, tw_diag *diag);

/* Whether there is memory for all of these: what they share counts once, what is loaded not at all. TW_ERR_MEMORY names
   the model, what it needs and what is available. tw_vm_load asks the same for its program before it packs anything. */
tw_status tw_vm_fits(const tw_vm *vm, const tw_schedule *const *schedules, int n, tw_diag *diag);

struct tw_routing;

typedef struct tw_vm_step {
    int program;
    const int32_t *tokens; /* n of them, each below the vocabulary's size */
    int64_t n;             /* 1 .. the program's tokens */
    int64_t pos;           /* of the first; everything below it has been run before; pos + n <= max_seq */
    int64_t length;        /* positions the sequence will have reached when the whole prompt is in; 0: pos + n */
    bool no_logits;        /* only the token is wanted: `logits` is not set */
    /* A mixture's choices of experts, for the library's own checks (src/vm/routing.h). NULL: nobody wants them. */
    struct tw_routing *routing;
    const float *logits; /* out: rows of vocab floats (the last position's, or n); valid until the next step */
    int32_t token;       /* out: the most likely next token */
} tw_vm_step;

/* Runs one step on all workers; returns when every instruction has run. One step at a time. */
tw_status tw_vm_run(tw_vm *vm, tw_vm_step *step, tw_diag *diag);

int64_t tw_vm_tape_bytes(const tw_vm *vm); /* on all tapes */
/* Bytes that programs took for packed weights, and for keys and values. */
void tw_vm_memory(const tw_vm *vm, int64_t *weights, int64_t *caches);

/* Weight bytes that one step of one position streams: all of the tapes, but of a mixture's experts only those used. */
int64_t tw_vm_streamed_bytes(const tw_vm *vm);

/* What bounds the arithmetic of a step. */
typedef struct tw_vm_ceiling {
    double operations; /* a second, a multiply-add in float being two */
    tw_cpu_unit unit;  /* where that is reached */
    int passes;        /* of the unit's products for one multiply-add in float */
} tw_vm_ceiling;

/* Measured now, on all cores: the fastest of the units that compute steps of `positions` with this machine's kernels
   and weights, counted in multiply-adds in float. A step is never faster, whichever of them does which part of it. */
tw_status tw_vm_measure_arithmetic(const tw_vm *vm, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag);

/* From now on only kernels of these instruction sets run, on the same tapes, and with `own_only` none of a vendor's:
   how a fast run is compared with a plainer one. */
tw_status tw_vm_limit_isa(tw_vm *vm, uint32_t isa, bool own_only, tw_diag *diag);

/* A product y = x W^T of several positions, by all workers. x is m x k, W is n x k. */
typedef struct tw_vm_product {
    tw_dtype weights; /* Storage type of W. */
    int group;        /* Columns of W that share a scale. 0: a row has one scale, or W has none. */
    int64_t m;        /* The largest number of positions. */
    int64_t n;        /* Rows of W: those of a worker's strip times the number of workers. */
    int64_t k;        /* Columns of x and W. */
} tw_vm_product;

/* Lists the products of several positions of the loaded programs, at most `most`. Products too small for a choice of
   who computes them are left out. Returns the number of listed products. */
int tw_vm_products(const tw_vm *vm, tw_vm_product *out, int most);

/* Chooses anew who computes the products of all loaded programs. Call it between steps. `artefact` names a file of
   tilewright/select.h, which decides the products that it lists or predicts. NULL: the file that $TILEWRIGHT_SELECT
   names, or those of the user's cache folder. "": no file. Products that no file decides are measured. A file that is
   missing, damaged or of another machine is no error. */
tw_status tw_vm_choose(tw_vm *vm, const char *artefact, tw_diag *diag);

/* How each kind of product is computed, one line each, for people. `out` is always terminated. */
void tw_vm_explain(const tw_vm *vm, char *out, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
