/* SPDX-License-Identifier: Apache-2.0 */
/* Is a kernel well formed? */
#ifndef TW_IR_VERIFY_H
#define TW_IR_VERIFY_H

#include "ir/ir.h"

/* Types and number of operands and results, attributes, that every use comes after a definition which dominates it,
   that variables are assigned before use, that constants are within range, that every operation is legal for sm
   `target` (0: k->target). Every finding becomes a line of the diagnostic, which names the operation's place ("body/for
   3/mma 7"). TW_ERR_REJECTED when there is any. */
tw_status tw_kernel_verify(const tw_kernel *k, int target, tw_diag *diag);

#endif
