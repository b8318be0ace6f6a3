/* SPDX-License-Identifier: Apache-2.0 */
/* The families of products C = A B^T on a GPU with warpgroups, one for each kind (tune/gemm_kind.h) of f16, bf16, e4m3,
   tf32x3 and f32, but for groups of f32. Products of f32 need no warpgroups. Times are microseconds of a launch with a
   cold L2. */
#ifndef TW_TUNE_GEMM_GPU_H
#define TW_TUNE_GEMM_GPU_H

#include "kernels/gemm/gemm.h"
#include "tune/family.h"
#include "tune/gemm_kind.h"
#include "tune/store.h"

typedef struct tw_gemm_gpu_options {
    tw_gemm_kind kind;
    int device; /* Number of the GPU. */
} tw_gemm_gpu_options;

/* Tells whether there is a family of a type's products. */
bool tw_gemm_gpu_has(tw_gemm_type type);

/* Opens the family. The macro choices are our kernels', and where cuBLASLt is installed also the library's: except of
   groups, the places of its own ranking, "by=cublaslt", and of plain products the algorithms that it proposes most
   often (tune/gemm_algorithms.h). The caller closes the family. TW_ERR_UNSUPPORTED: there is no such GPU, it has no
   warpgroups, or there is no family of the kind. */
tw_status tw_gemm_gpu_open(tw_family *out, const tw_gemm_gpu_options *o, tw_diag *diag);

/* Opens the recorded family of a device from the environment of its measurements. Its algorithms of cuBLASLt are those
   that the store has been given measurements of. `store` NULL: it has none. The family measures nothing. The caller
   closes it. TW_ERR_FORMAT: no family of products on a GPU has this environment. */
tw_status tw_gemm_gpu_recorded(tw_family *out, tw_gemm_kind kind, const char *environment, tw_store *store,
                               tw_diag *diag);

/* Lists the macro choices of a target with `sms` SMs, as tw_family has them. It needs no GPU. The arena owns texts and
   lists. Returns the number of macro choices. -1: out of memory. */
struct tw_arena;
int tw_gemm_gpu_list(struct tw_arena *arena, tw_gemm_kind kind, const tw_target *target, int sms,
                     tw_artefact_macro **out);

#endif
