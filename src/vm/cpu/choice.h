/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses who computes a product of many positions: our kernel, or a vendor's library after the weights are unpacked.
   An artefact of this machine decides the products that it lists or predicts (vm/cpu/selected.h). For all others every
   choice is measured, and a file in the user's cache folder keeps the fastest. */
#ifndef TW_VM_CPU_CHOICE_H
#define TW_VM_CPU_CHOICE_H

#include "space/space.h"
#include "vm/cpu/vm.h"

/* A choice, as a configuration of tw_choice_space. */
typedef struct tw_choice_config {
    int by; /* 0: our kernel. Otherwise 1 + the number of the vendor. */
} tw_choice_config;

/* What tw_choice_space checks configurations against. */
typedef struct tw_choice_space_context {
    int vendors; /* Number of vendors on this machine. */
} tw_choice_space_context;
extern const tw_space tw_choice_space; /* The space of tw_choice_config. */

typedef struct tw_choices tw_choices;

/* Reads the file of choices. A missing or broken file counts as empty. */
tw_status tw_choices_open(tw_choices **out, tw_vm *vm, tw_diag *diag);
void tw_choices_close(tw_choices *c); /* NULL is allowed. */

/* Chooses for every strip of a program of more than one position. Measures the shapes that have no choice yet. */
tw_status tw_choices_make(tw_choices *c, tw_program *p, tw_diag *diag);

/* Chooses anew for every loaded program. `artefact` is as in tw_vm_choose. */
tw_status tw_choices_select(tw_choices *c, const char *artefact, tw_diag *diag);

/* Lists the products that were decided. Arguments and result are those of tw_vm_products. */
int tw_choices_products(const tw_choices *c, tw_vm_product *out, int most);

/* Writes the choices for people, one per line, each with its origin. */
void tw_choices_explain(const tw_choices *c, char *out, size_t size);

#endif
