/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's machine with the programs that decode on it: as the engine loads them, for one sequence or several. */
#ifndef TW_BENCH_DECODE_PROGRAMS_H
#define TW_BENCH_DECODE_PROGRAMS_H

#include "schedule/schedule.h"
#include "vm/cuda/vm.h"

typedef enum decode_program {
    DECODE_ANY,    /* decodes at every position */
    DECODE_SHORT,  /* decodes while the past is short */
    DECODE_PROMPT, /* reads a prompt of one sequence, TW_CUDA_VM_TOKENS positions a step */
    DECODE_PROGRAMS
} decode_program;

typedef struct decode_machine {
    tw_cuda_vm *vm;
    const tw_model *model;
    tw_lowering lowering; /* of DECODE_ANY, completed */
    tw_checked *checked[DECODE_PROGRAMS];
    int id[DECODE_PROGRAMS];
    int batch;          /* sequences */
    int64_t short_past; /* positions up to which DECODE_SHORT decodes; 0: never */
} decode_machine;

/* `l`: sequences, max_seq, weights and kv_splits; the rest is chosen. Close it also when this fails. */
tw_status decode_machine_open(decode_machine *m, const tw_model *model, const tw_cuda_vm_options *o,
                              const tw_lowering *l, tw_diag *d);
void decode_machine_close(decode_machine *m);

/* The program for a launch whose last token sees `context` positions, its own included. */
int decode_machine_decoder(const decode_machine *m, int64_t context);

/* Bytes that a step reads: weights, and keys and values of `context` positions of every sequence. */
int64_t decode_machine_bytes(const decode_machine *m, int64_t context);

/* A schedule of this lowering, checked. */
tw_status decode_lower(const tw_model *m, tw_lowering l, tw_checked **out, tw_diag *d);

#endif
