/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of a map, on its own. kernels/plan.h plans one with its launch. */
#ifndef TW_KERNELS_POINTWISE_MAP_KERNEL_H
#define TW_KERNELS_POINTWISE_MAP_KERNEL_H

#include "device/target.h"
#include "emu/emu.h"
#include "kernels/pointwise/launch.h"
#include "kernels/pointwise/map.h"

/* Reads words like "dims=4x512x768 x0=f16 x1=f16[0,0,1] expr=add(x0,x1) out=f16 early=1" (docs/kernels.md).
   TW_ERR_USAGE: a word is unknown, or the problem makes no sense. The text is overwritten. */
tw_status tw_map_parse(tw_map_problem *p, char *words, tw_diag *diag);
/* Writes them, cut to `size` bytes with the end. */
void tw_map_print(const tw_map_problem *p, char *out, size_t size);
/* The buffers of a problem, which must outlive them. */
void tw_map_buffers(const tw_map_problem *p, tw_point_buffers *all);
/* Builds the kernel and runs the passes. NULL, with *diag, on failure. */
tw_kernel *tw_map_make(const tw_map_problem *p, const tw_target *t, bool verify, tw_diag *diag);
/* Runs the kernel in the emulator on random data, and compares with tw_map_run. TW_OK: nothing was found, and all
   elements are right. TW_ERR_MISMATCH: one is wrong. TW_ERR_REJECTED names what was found. *report (may be NULL) is the
   launch's report. */
tw_status tw_map_emulate(const tw_map_problem *p, const tw_target *t, uint64_t seed, tw_emu_report *report,
                         tw_diag *diag);

#endif
