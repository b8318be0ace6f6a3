/* SPDX-License-Identifier: Apache-2.0 */
/* Target records: what kernels for a GPU must keep to. A new GPU is a new row of targets.def. */
#ifndef TW_DEVICE_TARGET_H
#define TW_DEVICE_TARGET_H

#include <stdbool.h>

typedef struct tw_target {
    const char *name;     /* "sm_90a": what PTX's .target line says */
    int sm;               /* 90: compared with the `sm` column of ir/ops.def */
    const char *ptx;      /* PTX version of the .version line, "8.7": the least that has all it needs */
    int warps, blocks;    /* most that an SM holds at once */
    int registers;        /* of an SM, 32 bits each */
    int register_unit;    /* a warp's registers are given out in multiples of this */
    int thread_registers; /* most a thread may have */
    int parts;            /* that an SM's registers and schedulers are divided into; a warp lives in one */
    int shared_sm, shared_block,
        shared_reserved; /* bytes: of an SM; most a block may ask for; taken by the system from each */
    int shared_unit;
    /* Multiply-adds that an SM can finish in a clock, at most: by SIMT, then tensor cores, dense, by the fastest
       instruction there is. */
    int rate_f32, rate_f64, tensor_f64, tensor_tf32, tensor_f16, tensor_s8;
} tw_target;

const tw_target *tw_target_find(const char *name); /* NULL when unknown; "sm_90" finds sm_90a */
const tw_target *tw_target_at(int index);          /* NULL past the last */
/* The record for a device of this compute capability (major * 10 + minor): the newest that runs on it; NULL if none.
   Code for a name that ends in 'a' runs on that capability alone, other code on all later ones. */
const tw_target *tw_target_for(int sm);

/* Blocks of this size that an SM holds at once; 0 when not even one fits. `registers` is a thread's, `shared_bytes` a
   block's, static and dynamic together. */
int tw_target_blocks(const tw_target *t, int threads, int registers, int shared_bytes);

#endif
