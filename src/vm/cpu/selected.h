/* SPDX-License-Identifier: Apache-2.0 */
/* Artefacts that say who computes a product of several positions on this machine. There is one for each storage format
   of weights, of the family of strips (tune/gemm_cpu.h). They are opened when they are first asked. An artefact that is
   missing, damaged, of another machine or of another family decides nothing. */
#ifndef TW_VM_CPU_SELECTED_H
#define TW_VM_CPU_SELECTED_H

#include "tilewright/vm.h"

typedef struct tw_selected tw_selected;

/* `path` names the only artefact. NULL: that of the environment's TILEWRIGHT_SELECT, or, if it is not set, the files
   NAME.select of the user's cache folder, with NAME the family's. "": there is none. `whole` false: the machine does
   not use all of the processor's instruction sets, so no artefact is of it. NULL: out of memory. The caller closes the
   result. */
tw_selected *tw_selected_open(const char *path, int threads, bool whole);
void tw_selected_close(tw_selected *s); /* NULL is fine. */

/* Returns who computes a product: 0: our kernel; n: vendor n - 1. It is below `legal`. -1: no artefact knows. Else *by
   is "exact" or "model", and *us is the expected time in microseconds. */
int tw_selected_choose(tw_selected *s, const tw_vm_product *p, int legal, const char **by, double *us);

#endif
