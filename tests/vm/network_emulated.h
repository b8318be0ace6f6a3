/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as programs in the emulator of a GPU, compared with what they are when they are run plainly. A failure fails
   the test. */
#ifndef TW_TESTS_VM_NETWORK_EMULATED_H
#define TW_TESTS_VM_NETWORK_EMULATED_H

#include "graph/build.h"
#include "graph/program/program.h"
#include "support/support.h"
#include "vm/network/machine.h"

#define DIMS(...) ((const tw_dim[]){__VA_ARGS__})

static inline void good(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

/* Makes a graph concrete and fuses it, converts it to the type `to` (TW_E_none: it stays), and runs it both ways on
   random inputs. Frees the graph. dims: the extents of each input whose own are open. `most`: the largest difference of
   an element, relative to it or to the root of the mean square of all. `show` prints the program. Returns how many of
   its products are split along k. */
int network_check_ways(tw_graph *g, const int64_t *const *dims, const tw_program_options *o,
                       const tw_cuda_network_options *ways, tw_network_plan *plan, double most, tw_element to,
                       bool show);
/* The same as GPUs run it usually. */
void network_check_random(tw_graph *g, const int64_t *const *dims, const tw_program_options *o, double most,
                          tw_element to, bool show);
/* Adds a constant of random numbers. Returns the value. */
int network_constant(tw_graph *g, tw_element type, int rank, const int64_t *dims, uint64_t seed);

#endif
