/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a schedule is unsafe, by playing it: an answer "unsafe" names a run of the machine in which it happens, at
   concrete positions. It shares no code with the check. What it plays is a machine without barriers between steps, in
   which an instruction takes time. "Safe" means: in no interleaving of the steps and positions that were played. */
#ifndef TW_SOUNDNESS_ORACLE_H
#define TW_SOUNDNESS_ORACLE_H

#include "base/random.h"
#include "soundness/memory.h"

typedef struct oracle {
    order order;
    touch_space space;
    memory memory;
} oracle;

typedef struct oracle_verdict {
    hazard kind; /* HAZARD_NONE: safe in everything that was played */
    bool played; /* false: too large to play, nothing is known */
    int a, b;    /* instances: two that race, or the one at fault and what it meets; -1: none */
    int steps;
    touch_step step[ORDER_MAX_STEPS];
    char text[320];
} oracle_verdict;

/* Positions are drawn from `r`. */
void oracle_judge(oracle *o, const tw_schedule *s, tw_random *r, oracle_verdict *v);

/* The same at given positions. */
void oracle_judge_at(oracle *o, const tw_schedule *s, int steps, const touch_step *step, oracle_verdict *v);

void oracle_free(oracle *o);

#endif
