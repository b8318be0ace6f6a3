/* SPDX-License-Identifier: Apache-2.0 */
/* IR to PTX text. */
#ifndef TW_PTX_PTX_H
#define TW_PTX_PTX_H

#include "base/buf.h"
#include "device/target.h"
#include "ir/ir.h"

/* Appends a whole PTX module that holds `k` as its one entry, named as the kernel, for this target. The kernel must be
   verified. Dynamic shared memory is one `.extern .shared` array; launch with tw_kernel_shared_layout's bytes. Fails
   with TW_ERR_UNSUPPORTED, naming the operation, where the target lacks one. */
tw_status tw_ptx_print(tw_buf *out, const tw_kernel *k, const tw_target *target, tw_diag *diag);

#endif
