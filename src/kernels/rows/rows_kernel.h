/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of rows, on its own. kernels/plan.h plans one with its launch. */
#ifndef TW_KERNELS_ROWS_ROWS_KERNEL_H
#define TW_KERNELS_ROWS_ROWS_KERNEL_H

#include "device/target.h"
#include "emu/emu.h"
#include "kernels/pointwise/launch.h"
#include "kernels/rows/rows.h"

enum {
    TW_ROWS_WARPS = 16,      /* Most warps of a row that is kept in registers. */
    TW_ROWS_LONG_WARPS = 32, /* Warps of a longer row. */
    TW_ROWS_LANE = 32        /* Most elements of a row that a thread keeps. */
};

/* How a kernel divides rows. */
typedef struct tw_rows_config {
    int warps; /* Warps of a row: a power of two. */
    int rows;  /* Rows of a block. */
} tw_rows_config;

/* Reads words like "of=layer_norm dims=4x512x768 x0=f16 x1=f16 expr=add(x0,x1) eps=1e-5 gain=f16 bias=f16 out=f16
   kept=f16 early=1" (docs/kernels.md). TW_ERR_USAGE: a word is unknown, or the problem makes no sense. The text is
   overwritten. */
tw_status tw_rows_parse(tw_rows_problem *p, char *words, tw_diag *diag);
/* Writes them, cut to `size` bytes with the end. */
void tw_rows_print(const tw_rows_problem *p, char *out, size_t size);

/* The configuration that rows get where nothing else is said. */
tw_rows_config tw_rows_config_default(const tw_rows_problem *p);
/* Changes it by words like "warps=2 rows=4". TW_ERR_USAGE: a word is unknown. The text is overwritten. */
tw_status tw_rows_config_parse(tw_rows_config *c, char *words, tw_diag *diag);
/* The buffers of a problem, which must outlive them. */
void tw_rows_buffers(const tw_rows_problem *p, tw_point_buffers *all);
/* Builds the kernel and runs the passes. `c` may be NULL: the default. NULL, with *diag, on failure: TW_ERR_USAGE says
   why a configuration is not legal. */
tw_kernel *tw_rows_make(const tw_rows_problem *p, const tw_rows_config *c, const tw_target *t, bool verify,
                        tw_diag *diag);
/* Runs the kernel in the emulator on random data, and compares with tw_rows_run. Statuses are those of
   tw_map_emulate. */
tw_status tw_rows_emulate(const tw_rows_problem *p, const tw_rows_config *c, const tw_target *t, uint64_t seed,
                          tw_emu_report *report, tw_diag *diag);

#endif
