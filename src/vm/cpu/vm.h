/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's inside: programs resolved to pointers, workers, and what an instruction's execution may use. */
#ifndef TW_VM_CPU_VM_H
#define TW_VM_CPU_VM_H

#include "base/arena.h"
#include "base/thread.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vendor.h"
#include "model/model.h"
#include "schedule/schedule.h"
#include "tilewright/vm.h"
#include "vm/memory.h"
#include "vm/weights.h"

static inline int64_t tw_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A monotonic counter on a line of its own. It wraps; comparisons are of differences. */
typedef struct tw_counter_cell {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} tw_counter_cell;

/* Gate and up alternate so that what gemm hands on at once holds both for the same rows of h. */
enum { TW_UNIT_ROWS = TW_SINK_COLS / 2 };

/* Rows of one matrix (or of several that share an input) as a worker keeps them. */
typedef struct tw_strip {
    const void *panels;
    int64_t n_panels, cols; /* n_panels of one copy; experts follow each other */
    size_t copy_bytes;
    tw_panel_format format;
    int choice; /* who computes products of many rows: 0 own, 1.. vendor */
} tw_strip;

typedef struct tw_exec {
    const tw_instr *in;
    void *buffer[TW_MAX_OPERANDS];        /* activations, caches, inputs, outputs */
    const float *vector[TW_MAX_OPERANDS]; /* norms and biases as floats, whole */
    const tw_weight *table[TW_MAX_OPERANDS];
    tw_strip strip; /* of gate and up: TW_UNIT_ROWS rows of one, then of the other, and so on */
    struct {
        tw_counter_cell *cell;
        uint32_t threshold;
    } * waits;
    int n_waits;
    tw_counter_cell *arrive;
} tw_exec;

typedef struct tw_program {
    const tw_schedule *s;
    tw_schedule_weights weights;
    tw_exec **exec; /* [worker][instruction] */
    tw_counter_cell *counters;
    void **buffers; /* [buffer]; NULL: weights */
    uint32_t epoch; /* steps begun */
    struct tw_program *next;
} tw_program;

struct tw_vm_thread;

/* A job for all workers at once: loading, measuring. Returns what went wrong. */
typedef tw_status tw_job_fn(struct tw_vm_thread *thread, void *context);

/* One worker: its thread, its tape, its scratch. */
typedef struct tw_vm_thread {
    tw_vm *vm;
    int index, cpu;
    pthread_t handle;
    bool started;
    struct tw_strip_entry *strips; /* what is on the tape, newest first */
    tw_arena arena;                /* entries of `strips` */
    struct tw_tape_block *blocks;
    int64_t tape_bytes;
    tw_vendor *vendor;
    unsigned char *scratch;
    size_t scratch_bytes;
    tw_status status; /* of the last job */
    tw_diag diag;
} tw_vm_thread;

struct tw_vm {
    const tw_model *m;
    tw_vm_options options;
    tw_kernels k;
    tw_arena arena;
    tw_vm_thread *threads;
    int n_threads;
    tw_program *programs;
    int n_programs;
    int64_t taken;                   /* bytes, by what is loaded */
    struct tw_shared_buffer *shared; /* the cache, by name */
    struct tw_buffer_pages *pages;
    struct tw_vector_entry *vectors;
    float *inv_freq;
    int64_t inv_freq_length;
    struct tw_choices *choices;

    /* The launch: written by the caller while every other worker is idle. */
    tw_counter_cell launch;
    tw_counter_cell idle; /* workers that finished the launch, over all launches */
    uint32_t launches;
    bool own_only; /* vendors' products are left aside */
    bool quit;
    tw_job_fn *job; /* NULL: run `program` */
    void *job_context;
    tw_program *program;
    tw_vm_step step;
};

/* tape.c: rows onto a thread's tape, or found there. */
size_t tw_tape_missing(const tw_vm_thread *thread, const tw_schedule *s,
                       const tw_instr *in); /* bytes; 0 when it is there */
/* The same whether it is there or not; with it the strip without its panels, and what names the rows. */
enum { TW_TAPE_KEY = 512 };
size_t tw_tape_measure(const tw_vm_thread *thread, const tw_schedule *s, const tw_instr *in, tw_strip *strip,
                       char key[TW_TAPE_KEY], bool *there);
tw_status tw_tape_reserve(tw_vm_thread *thread, size_t size, tw_diag *diag);
tw_status tw_tape_strip(tw_vm_thread *thread, const tw_program *p, const tw_instr *in, tw_strip *out, tw_diag *diag);
uint32_t tw_tape_types(const tw_vm_thread *thread); /* of what is on it: bits 1 << tw_dtype */
void tw_tape_free(tw_vm_thread *thread);
void *tw_vm_pages(size_t size); /* zeroed, huge pages where the kernel gives them; NULL when there are none */
void tw_vm_pages_free(void *p, size_t size);

/* exec.c: one instruction, and the scratch that it needs. */
void tw_exec_run(tw_vm_thread *thread, const tw_exec *e);
size_t tw_exec_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e);

/* buffers.c: allocates a program's buffers. Programs share the key/value cache by its name. */
tw_status tw_vm_make_buffers(tw_vm *vm, tw_program *p, tw_diag *diag);
void tw_vm_free_buffers(tw_vm *vm);                      /* Frees the buffers of all programs. */
int64_t tw_vm_buffer_bytes(const tw_vm *vm);             /* Counts the bytes of all buffers. */
bool tw_vm_has_cache(const tw_vm *vm, const char *name); /* True if a program has a cache of this name. */

/* need.c: what loading these programs would take beyond what is loaded, each thing counted once. */
tw_status tw_vm_need(const tw_vm *vm, const tw_schedule *const *s, int n, tw_memory_need *need, tw_diag *diag);

/* ceiling.c: passes of each unit for one multiply-add of such a step. Where kernels differ it is the fewest. 0: the
   unit is not used. Attention and a vendor's products count as float. */
void tw_vm_units(const tw_vm *vm, int64_t positions, int passes[TW_CPU_UNIT_COUNT]);

/* workers.c: starts the workers. vm->threads has room for them. On failure some may run. */
tw_status tw_workers_start(tw_vm *vm, tw_diag *diag);
void tw_workers_stop(tw_vm *vm); /* Ends the workers that were started. */
/* Runs a job on every worker. Returns the first failure. */
tw_status tw_vm_run_job(tw_vm *vm, tw_job_fn *job, void *context, tw_diag *diag);

#endif
