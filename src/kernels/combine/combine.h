/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of neighbouring rows. Row t of Y is the sum of rows t * top to t * top + top - 1 of X, added up in f32 in this
   order and rounded once. A mixture of experts ends in it: X has a row for each token's choice, which a product with
   scattered rows has stored there, already multiplied by the choice's weight. */
#ifndef TW_KERNELS_COMBINE_COMBINE_H
#define TW_KERNELS_COMBINE_COMBINE_H

#include "emu/emu.h"
#include "kernels/plan.h"

enum { TW_COMBINE_TOP = 32 /* The most rows of a sum. */ };

typedef struct tw_combine_problem {
    tw_type type;   /* Element type of X and Y: f32, f16 or bf16. */
    int64_t tokens; /* Rows of Y. */
    int64_t top;    /* Rows of X for each of them. */
    int64_t n;      /* Columns. Rows are densely packed. */
    bool early;     /* The launch begins, and waits, before the one before it is over. */
} tw_combine_problem;

/* Reads words like "type=bf16 tokens=64 top=8 n=2048 early=1". TW_ERR_USAGE: a word is unknown, or the problem makes no
   sense. The text is overwritten. */
tw_status tw_combine_parse(tw_combine_problem *p, char *words, tw_diag *diag);
/* Builds the kernel and runs the passes. NULL, with *diag, on failure. */
tw_kernel *tw_combine_make(const tw_combine_problem *p, const tw_target *t, bool verify, tw_diag *diag);
/* Runs the kernel in the emulator on random data. TW_OK: nothing was found, and all sums are right. TW_ERR_MISMATCH: a
   sum is wrong. TW_ERR_REJECTED names what was found. *report (may be NULL) is the launch's report. */
tw_status tw_combine_emulate(const tw_combine_problem *p, const tw_target *t, uint64_t seed, tw_emu_report *report,
                             tw_diag *diag);

#endif
