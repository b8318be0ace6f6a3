/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and their memory, on a device or in the emulator. */
#ifndef TW_VM_CUDA_MACHINE_H
#define TW_VM_CUDA_MACHINE_H

#include "emu/emu.h"
#include "kernels/arguments.h"
#include "prof/layout.h"
#include "vm/cuda/mega.h"
#include "vm/memory.h"
#include "vm/weights.h"

#include <pthread.h>

typedef struct tw_mega_program {
    int id; /* Number of the program, from 0. */
    const tw_schedule *s;
    tw_mega_plan plan;
    tw_schedule_weights weights;
    tw_kernel *kernel;      /* The kernel in the emulator. NULL: the program runs on a device. */
    tw_cuda_module *module; /* The kernel on a device. NULL: the program is emulated. */
    tw_cuda_ready *ready;   /* The module's launch. NULL before the first. */
    tw_signature signature; /* The kernel's parameters, in the order of TW_MEGA_ARG_. */
    uint64_t *buffer;       /* Address of each buffer. 0: no record uses it. */
    /* The kernel's arguments. Addresses are set by loading, the others by each launch. */
    uint64_t arguments[TW_MEGA_ARGS + 1]; /* The last one is the profile buffer, with records. */
    tw_prof_layout profile;               /* Where a traced kernel leaves its records. No sites: it is not traced. */
    uint64_t slot_rows;                   /* Address of the slots' rows (TW_W_SLOT_ROWS). */
    uint64_t routes; /* Address of f32 [layers][2][used]: the last step's choices of experts. 0: it is no mixture. */
    struct tw_mega_tape **tapes; /* The tape of each worker. */
    int32_t *kinds;              /* tw_mega_kind of each record. Each worker has most_records of them. */
    int32_t epoch;               /* Number of steps that were launched. */
    bool gave_up;                /* True: the machine gave up, and the program cannot run any more. */
    /* Host memory of ARG_OUT, followed by that of ARG_TOKENS. NULL: the program is emulated. */
    _Atomic int32_t *said;
    int64_t pending;                                /* Steps of a launch that was not waited for. */
    tw_sample_rules rules_there[TW_CUDA_VM_TOKENS]; /* Sampling rules, as the device's memory has them. */
    float *logits;                                  /* Host memory for all rows of the logits buffer. */
    int64_t streamed_bytes;                         /* Bytes of all tapes. A step reads each once. */
    struct tw_mega_program *next;
} tw_mega_program;

/* An allocation. */
typedef struct tw_mega_memory {
    struct tw_mega_memory *next;
    const void *owner; /* The program. NULL: the machine. */
    uint64_t address;
    void *host;   /* Host memory that the device sees at `address`. NULL: device memory. */
    size_t bytes; /* Bytes of device memory. */
} tw_mega_memory;

/* A cache, or a vector or table of the model. All programs share it by its buffer's name. */
typedef struct tw_mega_named {
    struct tw_mega_named *next;
    const char *name;
    int64_t shape[3];
    tw_dtype dtype;
    uint64_t address;
} tw_mega_named;

/* A worker's tape. Programs that pack the same rows in the same way share it. */
typedef struct tw_mega_tape {
    struct tw_mega_tape *next;
    uint64_t key[2];
    uint64_t address; /* Address of the tape. 0: it is not packed yet. */
    int64_t bytes;
    int stages, before_head; /* Number of stages, and how many of them precede the head's. */
    uint64_t *biases;        /* Address of each strip's biases. 0: the strip has none. */
} tw_mega_tape;

struct tw_cuda_vm {
    const tw_model *m;
    tw_cuda_vm_options options;
    const tw_target *target;
    int workers;
    tw_cuda *cuda;
    tw_emu *emu;
    tw_arena arena;
    pthread_mutex_t lock; /* Guards `memory` while threads pack tapes. */
    tw_mega_memory *memory;
    tw_mega_named *named;
    tw_mega_tape *tapes;
    tw_mega_program *programs;
    tw_memory_need loaded;     /* What loaded programs take. */
    int64_t bytes, most_bytes; /* Device memory that is allocated now, and the most that was at once. */
    uint64_t angles;
    bool has_angles;
    uint64_t counts; /* Address of u32[sequences][vocab], the penalties' counts. 0: not allocated. */
    /* The last step that was launched. */
    struct {
        const tw_mega_program *program; /* NULL: there was none. */
        int64_t n, pos;
    } last;
};

/* memory.c. Allocates memory and copies `data` there. NULL: the memory is not initialised. */
tw_status tw_mega_alloc(tw_cuda_vm *vm, const void *owner, const char *name, const void *data, size_t bytes,
                        bool read_only, uint64_t *address, tw_diag *diag);
/* Allocates zeroed memory. */
tw_status tw_mega_alloc_zeros(tw_cuda_vm *vm, const void *owner, const char *name, size_t bytes, uint64_t *address,
                              tw_diag *diag);
void tw_mega_free(tw_cuda_vm *vm, const void *owner); /* Frees all memory of the owner. */
tw_status tw_mega_write(tw_cuda_vm *vm, uint64_t to, const void *data, size_t bytes, tw_diag *diag);
tw_status tw_mega_read(tw_cuda_vm *vm, void *data, uint64_t from, size_t bytes, tw_diag *diag);

/* Allocates host memory that the device sees. In the emulator *host is NULL. */
tw_status tw_mega_alloc_shared(tw_cuda_vm *vm, const void *owner, const char *name, size_t bytes, void **host,
                               uint64_t *address, tw_diag *diag);

/* vm.c. Finds a loaded program. NULL: there is none. */
tw_mega_program *tw_mega_program_of(const tw_cuda_vm *vm, int id);
/* Allocates vm->counts, unless it is there. */
tw_status tw_mega_alloc_counts(tw_cuda_vm *vm, tw_diag *diag);
/* Makes rows first to first + n - 1 of rope's angles, at vm->angles, for a sequence of `length` positions: a row of
   cosines and sines for each position of the cache. Angles that do not depend on the length are all made at once. */
tw_status tw_mega_make_angles(tw_cuda_vm *vm, int64_t max_seq, int64_t first, int64_t n, int64_t length, tw_diag *diag);

/* load.c: the program's buffers, tapes and records. */
/* Returns the bytes of a cache of a program of `sequences`, with room for as many as the machine's options say. */
int64_t tw_mega_cache_bytes(const tw_cuda_vm *vm, const tw_buffer *b, int64_t sequences);
int tw_mega_records(const tw_schedule *s, int worker);
int tw_mega_most_records(const tw_schedule *s); /* The most records of a worker. */
tw_status tw_mega_load(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag);
const tw_mega_named *tw_mega_named_find(const tw_cuda_vm *vm, const char *name);
/* Returns a worker's tape, neither packed nor listed. */
tw_mega_tape tw_mega_tape_of(const tw_mega_program *p, int worker);
/* Finds a tape by its key. NULL: it is not listed. */
tw_mega_tape *tw_mega_tape_find(tw_mega_tape *list, const uint64_t key[2]);
/* Returns the output instruction. */
static inline const tw_instr *tw_mega_last(const tw_schedule *s) {
    return &s->workers[0].list[s->workers[0].count - 1];
}

/* marks.c: marks of instructions, for machines that are traced. */
typedef struct tw_mega_anchor {
    int sm;
    int64_t clock[2]; /* Its clock when the worker began and when it ended. */
    uint64_t time[2]; /* The GPU's timer then, in nanoseconds. */
} tw_mega_anchor;
/* Lowers a kernel's marks, and allocates the memory that they go to. All passes have run on the kernel. */
tw_status tw_mega_lower_marks(tw_cuda_vm *vm, tw_mega_program *p, tw_kernel *k, tw_diag *diag);
/* Reads the last step's: marks[worker * plan.most_records + record] are clocks of the worker's multiprocessor, 0 where
   there is none, and anchors[worker]. */
tw_status tw_mega_read_marks(tw_cuda_vm *vm, const tw_mega_program *p, int64_t (*marks)[TW_MEGA_MARKS],
                             tw_mega_anchor *anchors, tw_diag *diag);
/* Sums them up as tw_cuda_vm_trace does. */
tw_status tw_mega_sum_marks(tw_cuda_vm *vm, const tw_mega_program *p, tw_cuda_vm_times times[TW_CUDA_VM_KINDS],
                            tw_diag *diag);
/* Makes a trace of them. */
tw_status tw_mega_trace_marks(tw_cuda_vm *vm, const tw_mega_program *p, int64_t n, int64_t pos, const char *title,
                              struct tw_trace **out, tw_diag *diag);

/* tape.c: an instruction's part of the tape. */
typedef struct tw_mega_strip {
    unsigned char *stages; /* Memory of the stages that tw_mega_shape counts. */
    float *bias;           /* [units * 8]: biases of the rows in the tape's order. 0: the row has none. */
    bool has_bias;         /* A row has a bias. */
} tw_mega_strip;
/* Returns false if memory runs out. */
bool tw_mega_pack(const tw_mega_program *p, const tw_model *m, const tw_instr *in, tw_mega_strip *out);
/* Packs an expert's part of the pool of an instruction. The strip has no use for biases but needs room for them. */
bool tw_mega_pack_expert(const tw_mega_program *p, const tw_model *m, const tw_instr *in, int64_t expert,
                         tw_mega_strip *out);

/* pool.c: a mixture's pools. */
tw_mega_tape tw_mega_pool_tape(const tw_mega_program *p, const tw_instr *in); /* A pool, neither packed nor listed. */
/* Returns the pool of an instruction. NULL: it is not listed. */
const tw_mega_tape *tw_mega_pool_find(const tw_cuda_vm *vm, const tw_mega_program *p, const tw_instr *in);
/* Packs the program's pools, as far as they are not listed yet. */
tw_status tw_mega_load_pools(tw_cuda_vm *vm, const tw_mega_program *p, tw_diag *diag);
int64_t tw_mega_expert_bytes(const tw_mega_program *p); /* Bytes of chosen experts that a step reads. */
/* Writes a worker's legs, and returns their number. `tape` is where its tape begins. NULL `out`: counts alone. */
int tw_mega_legs(const tw_cuda_vm *vm, const tw_mega_program *p, int worker, uint64_t tape, tw_mega_leg *out);

/* need.c: does what tw_vm_need does. Of the programs it uses `s`, `plan` and `weights`. */
tw_status tw_mega_need(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag);
tw_status tw_mega_fits(const tw_cuda_vm *vm, const tw_mega_program *programs, int n, tw_memory_need *need,
                       tw_diag *diag);

#endif
