/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over verified kernels. Each leaves a verified kernel, and says whether it changed anything. */
#ifndef TW_IR_PASSES_PASSES_H
#define TW_IR_PASSES_PASSES_H

#include "ir/ir.h"

bool tw_pass_fold(tw_kernel *k);      /* constants, identities, branches on constants */
bool tw_pass_common(tw_kernel *k);    /* what a register holds already is not computed again */
bool tw_pass_dead_code(tw_kernel *k); /* pure operations, and loads, whose results nothing uses */
bool tw_pass_addresses(tw_kernel *k); /* constant parts of addresses into the `offset` attribute */

typedef struct tw_pass {
    const char *name;
    bool (*run)(tw_kernel *k);
} tw_pass;

/* Runs the passes in order, over and over while they change something (at most `rounds` times; 0: 4). `verify` checks
   the kernel before the first and after each; a finding names the pass. */
tw_status tw_pipeline_run(tw_kernel *k, const tw_pass *passes, int n, int rounds, bool verify, tw_diag *diag);
/* The usual ones: fold, common, addresses, dead code. */
tw_status tw_pipeline_default(tw_kernel *k, bool verify, tw_diag *diag);

#endif
