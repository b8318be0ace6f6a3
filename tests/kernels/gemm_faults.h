/* SPDX-License-Identifier: Apache-2.0 */
/* Faults for the IR of generated kernels, and what must find each. */
#ifndef TW_TEST_GEMM_FAULTS_H
#define TW_TEST_GEMM_FAULTS_H

#include "emu/emu.h"
#include "kernels/gemm_specimen.h"

/* Verdicts beside the emulator's rules: the comparison's, the verifier's. */
enum { MISMATCH = TW_EMU_RULES, VERIFIER, VERDICTS };

typedef struct gemm_fault {
    const char *kind;
    int has;                                             /* of the specimens that may have a place for it */
    bool (*plant)(tw_kernel *k, const gemm_specimen *s); /* false: the kernel has none */
    unsigned by;                                         /* a set of verdicts: any of them fits */
    const char *at;                                      /* what the finding speaks of; NULL: anything */
} gemm_fault;

const gemm_fault *gemm_faults(int *count);

#endif
