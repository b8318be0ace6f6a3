/* SPDX-License-Identifier: Apache-2.0 */
/* The product with q, k and v that does what is to be done to them, too. */
#ifndef TW_VM_PREFILL_QKV_H
#define TW_VM_PREFILL_QKV_H

#include "kernels/gemm/gemm.h"
#include "vm/prefill/generate.h"

/* What the kernel is opened by. Its result goes to buffers "queries", "keys" and "values", as that of the kind "rope"
   goes to "q", "k" and "v"; it reads "q_norm" and "k_norm" if heads have norms, "step" and "angles", and nothing uses
   the product's C. */
typedef struct tw_prefill_qkv {
    const char *words, *configuration; /* The product's. C has f32. */
    tw_prefill_shape shape;            /* As of the kind "rope". */
} tw_prefill_qkv;

/* Tells whether the kernel does what the kind "rope" does, and whether it does so with a configuration. */
bool tw_prefill_qkv_covers(const tw_prefill_shape *s);
bool tw_prefill_qkv_fits(const tw_prefill_shape *s, const tw_gemm_config *c);
tw_status tw_prefill_qkv_make(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag);

#endif
