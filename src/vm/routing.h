/* SPDX-License-Identifier: Apache-2.0 */
/* Choices of experts, which one machine makes and another follows.

   Experts whose scores differ by less than rounding are chosen by chance: two right machines may choose differently,
   and have different results from there on. So a reference is told the other machine's choices. It computes all scores
   itself, by which the choices are judged afterwards, and goes on with the experts that it was told. */
#ifndef TW_VM_ROUTING_H
#define TW_VM_ROUTING_H

#include "model/model.h"
#include "schedule/schedule.h"

typedef struct tw_routing {
    int64_t layers, positions, experts, used; /* Extents. `positions` are those of a sequence, from 0. */
    bool renormalised;                        /* Weights of chosen experts sum to 1. */
    const bool *mixture;                      /* [layers]: the layer has experts. */
    bool told;       /* A machine follows these choices, and enters its scores. False: it enters its choices. */
    int32_t *expert; /* [layers][positions][used]: chosen experts. -1: nobody has chosen. */
    float *weight;   /* [layers][positions][used]: their weights. */
    float *score;    /* [layers][positions][experts]: scores of the machine that follows. NaN: there are none. */
} tw_routing;

/* How far a machine's score may be from a reference's. */
typedef struct tw_routing_tolerance {
    double relative; /* Relative to the largest magnitude of a position's scores. */
    double absolute; /* In addition. */
} tw_routing_tolerance;

/* What judging found. Results are added to those of earlier positions. */
typedef struct tw_routing_verdict {
    int64_t choices; /* Choices of all layers and positions. */
    int64_t others;  /* Those in which the reference would have chosen other experts. */
    double worst;    /* The largest difference of scores or weights over what is allowed. */
} tw_routing_verdict;

/* Makes room for a model's choices at so many positions. The caller closes it. */
tw_status tw_routing_open(tw_routing **out, const tw_model *m, int64_t positions, tw_diag *diag);
void tw_routing_close(tw_routing *r); /* NULL is fine. */

static inline int64_t tw_routing_row(const tw_routing *r, int64_t layer, int64_t position) {
    return layer * r->positions + position;
}

/* Forgets choices and scores of n positions from `pos` on. */
void tw_routing_forget(tw_routing *r, int64_t pos, int64_t n);
/* Enters a layer's choice at n positions from `pos` on, as machines have it: route[n][2][used], numbers and weights. */
void tw_routing_enter(tw_routing *r, int64_t layer, int64_t pos, int64_t n, const float *route);

/* Checks before they are followed that there are choices of n positions from `pos` on, of different experts that exist.
   Of the model's last layer nobody needs those before the last position. TW_ERR_MISMATCH names the first that is not
   such. */
tw_status tw_routing_check(const tw_routing *r, int64_t pos, int64_t n, tw_diag *diag);
/* Judges choices that were followed, by the scores of the machine that followed. No expert that was left out may have a
   score above a chosen one's by more than two scores may be off together, and weights may be off by as much as such
   scores make them. TW_ERR_MISMATCH names the first that is wrong. */
tw_status tw_routing_judge(const tw_routing *r, int64_t pos, int64_t n, const tw_routing_tolerance *allowed,
                           tw_routing_verdict *verdict, tw_diag *diag);

/* Finds the layer whose experts are chosen by instruction `in` of a worker, a route or a choose. -1: it is not known,
   as the worker has no rows of them. */
int64_t tw_routing_layer(const tw_schedule *s, const tw_worker *w, const tw_instr *in);

#endif
