/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose names are resolved to pointers, the workers that run them, and the launch. */
#ifndef TW_VM_CPU_VM_H
#define TW_VM_CPU_VM_H

#include "base/arena.h"
#include "base/counter.h"
#include "base/team.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vendor.h"
#include "model/model.h"
#include "schedule/schedule.h"
#include "tilewright/vm.h"
#include "vm/cpu/pages.h"
#include "vm/memory.h"
#include "vm/weights.h"

static inline int64_t tw_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Rows of a unit of gate or up. A strip has a unit of gate, the same rows of up, and so on. What gemm hands on at once
   then has both for the same rows of h. */
enum { TW_UNIT_ROWS = TW_SINK_COLS / 2 };

/* Rows of a matrix, or of several matrices with one input, as they lie on a worker's tape. */
typedef struct tw_strip {
    const void *panels;
    int64_t n_panels;       /* Panels of a copy. */
    int64_t cols;           /* Columns of the matrix. */
    size_t copy_bytes;      /* Bytes from a copy to the next. Each expert has a copy. */
    tw_panel_format format; /* Format of the panels. */
    int choice;             /* Who multiplies several positions. 0: our kernels. n: vendor n - 1. */
} tw_strip;

/* An instruction. Arrays have an element for each operand, which is NULL for operands of other kinds. */
typedef struct tw_exec {
    const tw_instr *in;
    void *buffer[TW_MAX_OPERANDS];           /* Activations, caches, inputs and outputs. */
    const float *vector[TW_MAX_OPERANDS];    /* Norms and biases, as floats. */
    const tw_weight *table[TW_MAX_OPERANDS]; /* Tables of embed. */
    tw_strip strip;                          /* Rows that the instruction multiplies by. */
    struct tw_pack *pack;                    /* Packed activations that it shares with other workers. NULL: none. */
    int64_t layer;                           /* route, choose: the layer. -1: it is not known. */
    bool reports;                            /* route, choose: it enters its layer's choice in step.routing. */
    struct {
        tw_counter_cell *cell;
        uint32_t threshold; /* Arrivals in one step. */
    } * waits;
    int n_waits;
    tw_counter_cell *arrive; /* The counter to arrive at. NULL: none. */
} tw_exec;

typedef struct tw_program {
    const tw_schedule *s;
    tw_schedule_weights weights;
    tw_exec **exec; /* [worker][instruction]. */
    tw_counter_cell *counters;
    void **buffers;        /* [buffer]: memory of each buffer. NULL: it holds weights. */
    uint32_t epoch;        /* Number of steps that have begun. */
    struct tw_pack *packs; /* Packed activations that workers share (share.h). */
    int n_packs;
    struct tw_program *next;
} tw_program;

struct tw_vm_thread;

/* A job that all workers do at once, such as loading or measuring. Returns what went wrong. */
typedef tw_status tw_job_fn(struct tw_vm_thread *thread, void *context);

/* One worker: its thread, its tape, its scratch. */
typedef struct tw_vm_thread {
    tw_vm *vm;
    int index;                     /* Number of the worker. The caller of tw_vm_run is worker 0. */
    struct tw_strip_entry *strips; /* Strips on the tape, newest first. */
    tw_arena arena;                /* Memory of the entries of `strips`. */
    struct tw_tape_block *blocks;
    int64_t tape_bytes;
    tw_vendor *vendor;
    unsigned char *scratch;
    size_t scratch_bytes;
    tw_status status; /* Status of the last job. */
    tw_diag diag;     /* Diagnostic of the last job. */
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
    tw_memory_need loaded;           /* What loaded programs take. */
    struct tw_shared_buffer *shared; /* Caches by name. Programs share them. */
    struct tw_buffer_pages *pages;
    struct tw_vector_entry *vectors;
    struct {
        float *inv_freq;
        int64_t length; /* That the table is for. 0: there is none yet. */
    } rope[2];          /* Tables of the model's ropes. */
    struct tw_choices *choices;

    tw_team *team; /* The workers. */

    struct tw_recorded *recorded; /* The trace that is recorded (trace.h). NULL: none. */

    /* The launch. The caller writes these fields while every other worker is idle. */
    bool own_only;       /* Vendors' products are not used. */
    tw_job_fn *job;      /* The job that is launched. NULL: a step of `program`. */
    void *job_context;   /* Passed to `job`. */
    tw_program *program; /* The program whose step is launched. */
    tw_vm_step step;     /* The step that is launched. */
};

/* tape.c: strips of rows on a thread's tape. */
/* Returns the bytes that the instruction's strip would add to the tape. 0: it is there. */
size_t tw_tape_missing(const tw_vm_thread *thread, const tw_schedule *s, const tw_instr *in);
enum { TW_TAPE_KEY = 512 };
/* Returns the strip's bytes, and whether it is *there. Sets *strip except for its panels, and a key of its rows. */
size_t tw_tape_measure(const tw_vm_thread *thread, const tw_schedule *s, const tw_instr *in, tw_strip *strip,
                       char key[TW_TAPE_KEY], bool *there);
tw_status tw_tape_reserve(tw_vm_thread *thread, size_t size, tw_diag *diag);
tw_status tw_tape_strip(tw_vm_thread *thread, const tw_program *p, const tw_instr *in, tw_strip *out, tw_diag *diag);
uint32_t tw_tape_types(const tw_vm_thread *thread); /* Returns the types of the tape's strips as bits 1 << tw_dtype. */
void tw_tape_free(tw_vm_thread *thread);

/* True if activations are rounded to integers of 8 bits where such weights multiply them. */
static inline bool tw_vm_takes_bytes(const tw_vm *vm, tw_dtype weights) {
    return vm->options.activations == TW_ACTIVATIONS_INT8 && (weights == TW_I8 || weights == TW_I4);
}

/* The format of a matrix's panels. */
static inline tw_panel_format tw_vm_format(const tw_vm *vm, const tw_buffer *matrix) {
    const bool integers = matrix->dtype == TW_I8 || matrix->dtype == TW_I4;
    return vm->options.dequantise && integers ? (tw_panel_format){TW_F32, 0}
                                              : (tw_panel_format){matrix->dtype, matrix->group};
}

/* Terms of bf16 that a packed activation has where such weights multiply it. TW_PACK_BYTES: it is a byte. */
static inline int tw_vm_terms(const tw_vm *vm, tw_dtype weights) {
    if (vm->options.activations == TW_ACTIVATIONS_BF16) return 1;
    return tw_vm_takes_bytes(vm, weights) ? TW_PACK_BYTES : 2;
}

/* exec.c: runs an instruction, and computes the bytes of scratch that it needs. */
void tw_exec_run(tw_vm_thread *thread, const tw_exec *e);
size_t tw_exec_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e);

/* buffers.c: allocates a program's buffers. Programs share the key/value cache by its name. */
tw_status tw_vm_make_buffers(tw_vm *vm, tw_program *p, tw_diag *diag);
/* Takes zeroed memory that is freed with the machine. */
tw_status tw_vm_take_pages(tw_vm *vm, size_t size, const char *what, void **out, tw_diag *diag);
void tw_vm_free_buffers(tw_vm *vm);                      /* Frees the buffers of all programs. */
int64_t tw_vm_buffer_bytes(const tw_vm *vm);             /* Counts the bytes of all buffers. */
bool tw_vm_has_cache(const tw_vm *vm, const char *name); /* True if a program has a cache of this name. */

/* need.c: computes what loading these programs would take beyond what is loaded. What they share counts once. */
tw_status tw_vm_need(const tw_vm *vm, const tw_schedule *const *s, int n, tw_memory_need *need, tw_diag *diag);

/* ceiling.c: passes of each unit for one multiply-add of such a step. Where kernels differ it is the fewest. 0: the
   unit is not used. Attention and a vendor's products count as float. */
void tw_vm_units(const tw_vm *vm, int64_t positions, int passes[TW_CPU_UNIT_COUNT]);

/* Runs a job on every worker (workers.c). Returns the first failure. */
tw_status tw_vm_run_job(tw_vm *vm, tw_job_fn *job, void *context, tw_diag *diag);

#endif
