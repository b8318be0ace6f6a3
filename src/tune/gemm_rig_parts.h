/* SPDX-License-Identifier: Apache-2.0 */
/* The data and functions that the files of tune/gemm_rig.h share. */
#ifndef TW_TUNE_GEMM_RIG_PARTS_H
#define TW_TUNE_GEMM_RIG_PARTS_H

#include "tune/gemm_rig.h"

enum { TW_GEMM_RIG_SETS = 64 /* The most sets. */, TW_GEMM_RIG_COUNTERS = 1 << 20 /* Bytes. */ };

struct tw_gemm_rig {
    tw_cuda *cuda;
    const tw_gemm_data *data;
    tw_gemm_data of_pool; /* The problem's sizes if a pool has the matrices; `data` then points here. */
    int sets;
    tw_gemm_buffers set[TW_GEMM_RIG_SETS];
    /* A batch by pointers: where the matrices of A, B and C lie, the last one first. */
    uint64_t apart[TW_GEMM_RIG_SETS][TW_GEMM_C + 1];
    uint64_t tape[TW_GEMM_RIG_SETS];   /* The tape of each set's B. 0: B is none, or lies in a pool. */
    uint64_t others[TW_GEMM_MATRICES]; /* Zeros in the place of other matrices, where a rig only times. 0: none. */
    uint64_t table[TW_GEMM_RIG_SETS];  /* The units of each set's tape that lies in a pool. 0: there is none. */
    /* Atomic splits find their workspace zero, and leave it zero. Other splits leave anything in theirs. */
    uint64_t zero_workspace, workspace, counters;
    int64_t workspace_bytes;
    uint64_t want, tolerance, twice, verdict; /* As tw_gemm_data has them. `verdict` is what a comparison found. */
    double worst;                             /* As tw_gemm_rig_worst returns it. */
    uint64_t squares;                         /* Sums of squares, with room for what any configuration leaves. */
    uint64_t scaled;                          /* C's cells times gains. */
    uint64_t ends; /* Ends of groups, for each set, of a problem whose matrices are in a pool. */
    uint64_t sums; /* Sums of rows that a norm is made of, where a pool has the matrices. */
    tw_cuda_module *compare;
    tw_cuda_module *compare_sums; /* NULL: the host compares sums of rows, or there are none. */
};

/* A matrix of a batch by pointers. */
typedef struct tw_gemm_rig_apart {
    int64_t at, host; /* Bytes from the first one on the device, and on the host. */
    size_t bytes;
} tw_gemm_rig_apart;

/* Returns how many bytes apart such matrices lie on the device. There are gaps between them. */
int64_t tw_gemm_rig_apart_pitch(tw_gemm_matrix m);
/* Returns where matrix `i` lies. */
tw_gemm_rig_apart tw_gemm_rig_apart_of(tw_gemm_matrix m, int64_t i);
/* Uploads the problem's matrices of a kind to where they lie from `to` on. */
tw_status tw_gemm_rig_upload_apart(tw_gemm_rig *r, tw_gemm_buffer which, uint64_t to, tw_diag *diag);

/* Tells whether the device compares sums of squares that a problem's kernels leave. */
bool tw_gemm_rig_sums_here(const tw_gemm_problem *p);
/* Returns the size of the buffer for sums of squares, in bytes. */
size_t tw_gemm_rig_squares_bytes(const tw_gemm_problem *p, const tw_gemm_squares *s);
/* Returns the size of the buffer for C's cells times gains, in bytes. */
size_t tw_gemm_rig_scaled_bytes(const tw_gemm_problem *p);

#endif
