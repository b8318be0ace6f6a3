/* SPDX-License-Identifier: Apache-2.0 */
/* A prompt's program: its kernels, its memory and the launches of a step. */
#ifndef TW_VM_PREFILL_PROGRAM_H
#define TW_VM_PREFILL_PROGRAM_H

#include "kernels/gpu.h"
#include "vm/cuda/machine.h"
#include "vm/prefill/generate.h"
#include "vm/prefill/prefill.h"

/* A kernel, which launches of several instructions share. */
typedef struct tw_prefill_kernel {
    struct tw_prefill_kernel *next;
    tw_prefill_problem problem; /* problem.kind NULL: the kernel is a product. */
    const char *words;          /* Words of a product. */
    tw_gpu_kernel *kernel;
} tw_prefill_kernel;

/* Addresses of activations and of what all steps use. */
typedef struct tw_prefill_memory {
    uint64_t step;     /* Words TW_STEP_. */
    uint64_t x;        /* f32 [tokens][dim]: the residual stream. */
    uint64_t normed;   /* [tokens][dim] */
    uint64_t sums;     /* f32: what products leave for rope, and for gate. */
    uint64_t q;        /* [tokens][heads][head] */
    uint64_t attended; /* [tokens][heads * head] */
    uint64_t h;        /* [tokens][ffn] */
    uint64_t matrix;   /* An unpacked matrix. */
    uint64_t counter;  /* The products' counter. */
} tw_prefill_memory;

struct tw_prefill {
    tw_cuda_vm *vm;
    const tw_mega_program *decode; /* The program whose tapes and caches are used. */
    const tw_schedule *s;
    tw_schedule_weights weights;
    tw_prefill_options options;
    tw_gpu gpu; /* The machine's device or emulator, for kernels. */
    tw_type type;
    tw_dtype kv;
    int h; /* The buffer that the last ffn wrote. -1: there was none. */
    tw_arena arena;
    tw_prefill_kernel *kernels;
    tw_prefill_memory memory;
    tw_gpu_launch **launches; /* The launches of a step, in order. */
    tw_cuda_graph *graph;     /* All launches, captured when they ran for the first time. NULL: not yet. */
    int n_launches, room;     /* Number of launches, and how many `launches` has room for. */
    int32_t *step;            /* Words of a step on the host. */
};

/* matrix.c. Finds where the rows of an instruction's matrix lie on the decode program's tapes, and uploads a table of
   them: *table has an entry for each 8 of the *rows rows. An ffn's matrix has eight rows of gate, eight of up, and so
   on. */
typedef struct tw_prefill_matrix {
    uint64_t table;         /* Address of tw_prefill_unit[rows / 8]. */
    int64_t rows, columns;  /* Extents of the matrix. */
    tw_prefill_shape shape; /* What unpack is generated for. */
} tw_prefill_matrix;
tw_status tw_prefill_find_matrix(tw_prefill *p, const tw_instr *in, tw_prefill_matrix *out, tw_diag *diag);
/* Uploads the biases of an instruction's matrix, as f32 in the order of its rows. *address is 0 if there are none. */
tw_status tw_prefill_find_bias(tw_prefill *p, const tw_instr *in, uint64_t *address, tw_diag *diag);

/* product.c. Opens the kernel of a product with the matrix. `epilogue` has words. *reads_tapes tells whether B is the
   matrix's table, or the unpacked matrix. */
tw_status tw_prefill_open_product(tw_prefill *p, const tw_prefill_matrix *matrix, const char *epilogue,
                                  tw_prefill_kernel **out, bool *reads_tapes, tw_diag *diag);

#endif
