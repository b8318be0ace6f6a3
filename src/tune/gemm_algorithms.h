/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms of cuBLASLt as configurations of products on a GPU. What stands at a place of the library's ranking
   differs from problem to problem. An algorithm does not, and its tiles are known, so that its time can be modeled. */
#ifndef TW_TUNE_GEMM_ALGORITHMS_H
#define TW_TUNE_GEMM_ALGORITHMS_H

#include "base/arena.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vendor/cublaslt.h"
#include "tune/family.h"

enum { TW_GEMM_ALGORITHMS = 512 /* The most algorithms of a family. */ };

/* Configurations that are algorithms begin so. */
#define TW_GEMM_ALGORITHMS_PREFIX "by=cublaslt id="

typedef struct tw_gemm_algorithm {
    tw_cublaslt_algorithm of;
    uint32_t tm, tn; /* Rows and columns of its tiles of C, which is row-major. */
} tw_gemm_algorithm;

/* Writes an algorithm as a configuration, such as "by=cublaslt id=66 tile=209 tm=128 tn=192 split=1 cluster=5 custom=6
   stages=35". Attributes that are 0 are left out. */
void tw_gemm_algorithm_print(const tw_gemm_algorithm *a, char *out, size_t size);
/* Reads what tw_gemm_algorithm_print writes. False: the words are anything else. */
bool tw_gemm_algorithm_parse(tw_gemm_algorithm *out, const char *words);

/* Returns the macro choice of a configuration on a device with `sms` SMs. `words` must outlive it, and
   tw_gemm_algorithm_parse must read it. */
tw_artefact_macro tw_gemm_algorithm_macro(const char *words, int sms);

/* Lists the algorithms that the library proposes most often and most highly for products A B^T of `type` over the
   family's usual problems, as configurations in ascending order. Algorithms whose tiles cannot be found are left out.
   Nothing is timed. The list is the same each time. The arena owns it. */
tw_status tw_gemm_algorithms_find(tw_arena *arena, const tw_family *f, tw_gemm_type type, tw_cublaslt *lt, int sms,
                                  const char ***out, int *n, tw_diag *diag);

#endif
