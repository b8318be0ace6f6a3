/* SPDX-License-Identifier: Apache-2.0 */
/* Programs to judge: lowerings of tiny models, the same with finer counters, and random ones. All are drawn from a
   generator, so a seed names a program. Out of memory ends the process. */
#ifndef TW_SOUNDNESS_PROGRAM_H
#define TW_SOUNDNESS_PROGRAM_H

#include "base/random.h"
#include "schedule/schedule.h"

/* In [0, n); and true once in n. */
int draw_below(tw_random *r, int n);
bool draw_once_in(tw_random *r, int n);

/* A model of one of the families, with or without a window, biases, q and k norms, experts; eight wide. */
tw_model *tiny_model(tw_random *r);

/* A lowering of it, with whatever can be chosen. */
tw_schedule *lower_any(const tw_model *m, tw_random *r);

/* Models and their lowerings, made once. */
typedef struct program_pool {
    tw_model **models;
    tw_schedule **lowered;
    int n_models, n_lowered;
} program_pool;
program_pool program_pool_open(int models, int lowered);
void program_pool_close(program_pool *p);

/* A copy that may be changed; names stay with the original. */
tw_schedule *program_copy(const tw_schedule *s);

/* Changing a program. */
int program_instructions(const tw_schedule *s);
void program_add_wait(tw_schedule *s, tw_instr *in, tw_wait wait);
void program_drop_wait(tw_instr *in, int i);
void program_insert(tw_schedule *s, int worker, int at, tw_instr in);
void program_remove(tw_schedule *s, int worker, int at);
int program_add_counter(tw_schedule *s);
int program_arrivals(const tw_schedule *s, int counter); /* a step */

/* Every arrival gets a counter of its own, and of the waits that this makes, those for instructions with which one
   shares no element are dropped `sparse` times in four. */
void program_refine(tw_schedule *s, tw_random *r, int sparse);

/* A program of random stages over few buffers, whose waits are what the elements ask for; some are forgotten. */
tw_schedule *random_program(tw_random *r, bool forget);

#endif
