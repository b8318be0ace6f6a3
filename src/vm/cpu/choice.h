/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes a product of many positions: our kernel, or a vendor's after unpacking panels. Decided by measuring both
   on this machine for each shape, and remembered in a file below the user's cache folder. */
#ifndef TW_VM_CPU_CHOICE_H
#define TW_VM_CPU_CHOICE_H

#include "space/space.h"
#include "vm/cpu/exec.h"

/* The choice as a space: whose code computes a product. */
typedef struct tw_choice_config {
    int by; /* 0: our own kernel; else 1 + the vendor's number */
} tw_choice_config;
typedef struct tw_choice_space_context {
    int vendors; /* that are on this machine */
} tw_choice_space_context;
extern const tw_space tw_choice_space;

typedef struct tw_choices tw_choices;

/* Reads what is remembered; a missing or broken file is an empty memory, never an error. */
tw_status tw_choices_open(tw_choices **out, tw_vm *vm, tw_diag *diag);
void tw_choices_close(tw_choices *c); /* NULL is fine */

/* Decides for every strip of a program of more than one position; measures what is not remembered. */
tw_status tw_choices_make(tw_choices *c, tw_program *p, tw_diag *diag);

/* y = x W^T by the vendor that the strip's choice names. */
void tw_choice_product(tw_lane *lane, tw_scratch scratch, const tw_strip *s, const void *panels, const float *x,
                       int64_t ldx, int64_t n, float *y);
size_t tw_choice_scratch(const tw_strip *s);

/* One line a decision, for people. */
void tw_choices_explain(const tw_choices *c, char *out, size_t size);

#endif
