/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's inside: programs and their memory, on a device or in the emulator. */
#ifndef TW_VM_CUDA_MACHINE_H
#define TW_VM_CUDA_MACHINE_H

#include "emu/emu.h"
#include "kernels/arguments.h"
#include "vm/cuda/mega.h"
#include "vm/memory.h"
#include "vm/weights.h"

#include <pthread.h>

typedef struct tw_mega_program {
    const tw_schedule *s;
    tw_mega_plan plan;
    tw_schedule_weights weights;
    tw_kernel *kernel;      /* emulated */
    tw_cuda_module *module; /* on a device */
    tw_cuda_ready *ready;   /* Its launch on a device. NULL before the first. */
    tw_signature signature; /* The kernel's parameters, in the order of TW_MEGA_ARG_. */
    uint64_t *buffer;       /* [buffer]: addresses; 0: weights */
    uint64_t workers, counters, tokens, out, abort, trace, slot_rows, rules;
    int32_t *kinds; /* of traced records: [worker][trace_records] */
    int32_t epoch;  /* steps begun */
    bool gave_up;   /* of no further use */
    /* The tokens found, as the host sees them while a launch runs: [step][sequence]; behind them what goes to `tokens`.
       NULL: emulated. */
    _Atomic int32_t *said;
    int64_t pending;                                /* steps of a launch whose end nobody waited for */
    tw_sample_rules rules_there[TW_CUDA_VM_TOKENS]; /* what `rules` holds */
    float *logits;                                  /* host */
    int64_t logit_rows, streamed_bytes;
    struct tw_mega_program *next;
} tw_mega_program;

typedef struct tw_mega_memory { /* everything allocated on the device, to be given back */
    struct tw_mega_memory *next;
    const void *owner; /* a program, or NULL: the machine */
    uint64_t address;
    void *host; /* the host's own, which the device sees */
} tw_mega_memory;

typedef struct tw_mega_named { /* caches by name, weights' vectors by weight */
    struct tw_mega_named *next;
    const char *name;
    const void *weight;
    int64_t shape[3];
    tw_dtype dtype;
    uint64_t address;
} tw_mega_named;

/* A worker's tape, for every program that packs the same rows in the same way. */
typedef struct tw_mega_tape {
    struct tw_mega_tape *next;
    uint64_t key[2], address;
    int64_t bytes;
    uint64_t *biases; /* of each of its strips; 0: none */
} tw_mega_tape;

struct tw_cuda_vm {
    const tw_model *m;
    tw_cuda_vm_options options;
    const tw_target *target;
    int workers;
    tw_cuda *cuda;
    tw_emu *emu;
    tw_arena arena;
    pthread_mutex_t lock; /* of the device's memory, while tapes are packed */
    tw_mega_memory *memory;
    tw_mega_named *named;
    tw_mega_tape *tapes;
    tw_mega_program *programs;
    int n_programs;
    int64_t taken; /* bytes, by what is loaded */
    uint64_t angles;
    bool has_angles;
    uint64_t counts; /* [TW_CUDA_VM_TOKENS][vocab]; 0: none yet */
};

/* memory.c. `data` NULL: uninitialised. */
tw_status tw_mega_alloc(tw_cuda_vm *vm, const void *owner, const char *name, const void *data, size_t bytes,
                        bool read_only, uint64_t *address, tw_diag *diag);
void tw_mega_free(tw_cuda_vm *vm, const void *owner); /* everything of that owner */
tw_status tw_mega_write(tw_cuda_vm *vm, uint64_t to, const void *data, size_t bytes, tw_diag *diag);
tw_status tw_mega_read(tw_cuda_vm *vm, void *data, uint64_t from, size_t bytes, tw_diag *diag);

/* Memory that the host sees, too: *host is NULL in the emulator. */
tw_status tw_mega_alloc_shared(tw_cuda_vm *vm, const void *owner, const char *name, size_t bytes, void **host,
                               uint64_t *address, tw_diag *diag);

/* load.c: the program's buffers, tapes and records. */
int tw_mega_most_records(const tw_schedule *s); /* of a worker */
tw_status tw_mega_load(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag);
int64_t tw_mega_tape_bytes(const tw_mega_program *p, int worker);
void tw_mega_tape_key(const tw_mega_program *p, int worker, uint64_t key[2]);

/* tape.c: one instruction's part of the tape: tw_mega_stages stages, and the biases of its rows in the tape's order.
   Rows without a bias have zeros. */
typedef struct tw_mega_strip {
    unsigned char *stages;
    float *bias; /* units * 8 */
    bool has_bias;
} tw_mega_strip;
tw_status tw_mega_pack(const tw_mega_program *p, const tw_model *m, const tw_instr *in, tw_mega_strip *out,
                       tw_diag *diag);

/* need.c: does what tw_vm_need does. Of the programs it uses `s`, `plan` and `weights`. */
tw_status tw_mega_need(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag);
tw_status tw_mega_fits(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag);

#endif
