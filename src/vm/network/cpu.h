/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph's program on a processor: one checked schedule, whose workers stay as long as it is open. */
#ifndef TW_VM_NETWORK_CPU_H
#define TW_VM_NETWORK_CPU_H

#include "graph/program/program.h"
#include "schedule/ranges/ranges.h"

typedef struct tw_cpu_network tw_cpu_network;

typedef struct tw_cpu_network_options {
    bool no_pin;    /* Workers are not pinned to processors. */
    bool limit_isa; /* Only instruction sets of `isa` are used. */
    uint32_t isa;
    bool exact; /* Products of f32 are added up in f32, not as sums of products of bf16. */
} tw_cpu_network_options;

/* Deals the program out, has the check prove the schedule, and packs constants. The program, and its graph, must
   outlive the network; its memory is planned. `options` may be NULL. `threads` 0: as many as there are processors that
   this process may use. */
tw_status tw_cpu_network_open(tw_cpu_network **out, const tw_program *p, int threads,
                              const tw_cpu_network_options *options, tw_diag *diag);

/* Runs the program once. in[i] has the content of the graph's input i, dense and row-major, and the content of output i
   goes to out[i]. */
tw_status tw_cpu_network_run(tw_cpu_network *n, const void *const *in, void *const *out, tw_diag *diag);
void tw_cpu_network_close(tw_cpu_network *n); /* NULL is fine. */

const tw_ranges *tw_cpu_network_schedule(const tw_cpu_network *n);

typedef struct tw_cpu_network_memory {
    int64_t packed, scratch; /* Bytes of packed constants, and of values between steps and workers' own memory. */
} tw_cpu_network_memory;
tw_cpu_network_memory tw_cpu_network_memory_of(const tw_cpu_network *n);

#endif
