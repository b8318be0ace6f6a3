/* SPDX-License-Identifier: Apache-2.0 */
/* Artefacts that say who computes a product of several positions on this machine. Each storage format of weights has
   its own artefact, of the kernel that tw_tiled_name names for strips. An artefact is opened when it is first asked.
   One that is missing, damaged, of another machine or of another kernel decides nothing. */
#ifndef TW_VM_CPU_SELECTED_H
#define TW_VM_CPU_SELECTED_H

#include "tilewright/vm.h"

typedef struct tw_selected tw_selected;

/* `path` names the only artefact. NULL: the file that $TILEWRIGHT_SELECT names, or, if it is not set, the files
   NAME.select of the user's cache folder, with the kernel's NAME. "": there is none. `whole` false: the machine does
   not use all of the processor's instruction sets, and no artefact decides. Returns NULL if memory runs out. The caller
   closes the result. */
tw_selected *tw_selected_open(const char *path, int threads, bool whole);
void tw_selected_close(tw_selected *s); /* NULL is fine. */

/* Returns who computes a product, as a number below `legal`. 0: our kernel. i + 1: vendor i. -1: no artefact decides.
   Otherwise *by is set to "exact" or "model", and *us to the expected time in microseconds. */
int tw_selected_choose(tw_selected *s, const tw_vm_product *p, int legal, const char **by, double *us);

#endif
