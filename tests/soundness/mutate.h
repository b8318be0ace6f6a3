/* SPDX-License-Identifier: Apache-2.0 */
/* One fault at a time, put into a program. Most make it unsafe; which do is for the oracle to say. */
#ifndef TW_SOUNDNESS_MUTATE_H
#define TW_SOUNDNESS_MUTATE_H

#include "soundness/program.h"

typedef bool mutation_fn(tw_schedule *s, tw_random *r); /* false: there is no place for it in this program */

/* Which programs a fault goes into: lowerings, lowerings with finer counters, random programs. */
enum { BASE_LOWERED = 1, BASE_REFINED = 2, BASE_RANDOM = 4, BASE_ANY = 7, BASE_FINE = 6 };

typedef struct mutation {
    const char *name;
    mutation_fn *apply;
    unsigned bases;
} mutation;

extern const mutation mutations_of_order[], mutations_of_memory[];
extern const int n_mutations_of_order, n_mutations_of_memory;

/* A random instruction that `fits` (NULL: any), with its place; NULL: there is none. */
typedef bool fits_fn(const tw_instr *in);
typedef struct place {
    tw_instr *in;
    int worker, index;
} place;
place pick(tw_schedule *s, tw_random *r, fits_fn *fits);

/* Adds `change` to every wait for `counter`. */
void change_waits(tw_schedule *s, int counter, int change);

/* Kinds of operand access, by operand number. */
bool op_writes(tw_instr_op op, int operand);
int op_operands(tw_instr_op op);

#endif
