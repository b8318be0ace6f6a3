/* SPDX-License-Identifier: Apache-2.0 */
/* Which values may differ between the lanes of a warp. */
#ifndef TW_PROF_UNIFORM_H
#define TW_PROF_UNIFORM_H

#include "ir/ir.h"

/* Says for each value of the kernel whether lanes of a warp may differ in it. What is loaded may always; of what is
   computed it follows from the operands, and from the control flow around an assignment. NULL: out of memory. The
   caller frees it. */
bool *tw_prof_find_varying(const tw_kernel *k);

/* Returns whether lanes that come to the operation together may be apart in its blocks. A role has whole warps, so it
   parts no lanes. */
bool tw_prof_parts_lanes(const bool *varying, const tw_ir_op *op);

#endif
