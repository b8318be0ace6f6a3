/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph's program on a processor: one checked schedule, whose workers stay as long as it is open. */
#ifndef TW_VM_NETWORK_CPU_H
#define TW_VM_NETWORK_CPU_H

#include "graph/program/program.h"
#include "schedule/ranges/ranges.h"

typedef struct tw_cpu_pool_options {
    bool no_pin;    /* Workers are not pinned to processors. */
    bool limit_isa; /* Only instruction sets of `isa` are used. */
    uint32_t isa;
    bool exact; /* Products of f32 are added up in f32, not as sums of products of bf16. */
} tw_cpu_pool_options;

/* Workers, and packed constants, which networks share: those of one graph for several extents. One of them runs at a
   time. */
typedef struct tw_cpu_pool tw_cpu_pool;

/* `options` may be NULL. `threads` 0: as many as there are processors that this process may use. */
tw_status tw_cpu_pool_open(tw_cpu_pool **out, int threads, const tw_cpu_pool_options *options, tw_diag *diag);
void tw_cpu_pool_close(tw_cpu_pool *pool);          /* NULL is fine. Networks on it are closed before. */
int64_t tw_cpu_pool_bytes(const tw_cpu_pool *pool); /* Bytes of packed constants that the pool has made. */

/* A constant as kernels read it, aligned to 64 bytes. */
typedef struct tw_cpu_panels {
    uint64_t name[2]; /* A hash of what is packed, and how. */
    const void *data;
    size_t bytes;
} tw_cpu_panels;
/* Lends a pool panels, which must outlive it, so that it does not make them. */
tw_status tw_cpu_pool_lend(tw_cpu_pool *pool, const tw_cpu_panels *panels, tw_diag *diag);
/* Describes the panels that a pool has made or was lent, from number 0 on. False: there are no more. */
bool tw_cpu_pool_panels(const tw_cpu_pool *pool, int i, tw_cpu_panels *out);
/* Tells a pool the sum (base/sum.h) of a content that stays at its place, so that it is not read for that. */
tw_status tw_cpu_pool_know(tw_cpu_pool *pool, const void *content, int64_t bytes, uint64_t sum, tw_diag *diag);

typedef struct tw_cpu_network tw_cpu_network;

/* Deals the program out, has the check prove the schedule, and packs constants that the pool lacks. The program, its
   graph and the pool must outlive the network. */
tw_status tw_cpu_network_open(tw_cpu_network **out, const tw_program *p, tw_cpu_pool *pool, tw_diag *diag);

/* Runs the program once. in[i] has the content of the graph's input i, dense and row-major, and the content of output i
   goes to out[i]. */
tw_status tw_cpu_network_run(tw_cpu_network *n, const void *const *in, void *const *out, tw_diag *diag);
void tw_cpu_network_close(tw_cpu_network *n); /* NULL is fine. */

/* Tells whether runs read panels that were lent. */
bool tw_cpu_network_takes(const tw_cpu_network *n, const void *panels);
/* Tells whether anything may read a constant of the program's graph: runs, packing, or making the program, which has
   copies of some. False: steps only multiply by it, in panels that were lent. */
bool tw_cpu_network_reads(const tw_cpu_network *n, const void *content);

const tw_ranges *tw_cpu_network_schedule(const tw_cpu_network *n);

/* Bytes of values between steps, and of workers' own memory. */
int64_t tw_cpu_network_bytes(const tw_cpu_network *n);

#endif
