/* SPDX-License-Identifier: Apache-2.0 */
/* Artefacts for tests and benches. They are allocated in an arena. */
#ifndef TW_TEST_ARTEFACTS_H
#define TW_TEST_ARTEFACTS_H

#include "base/arena.h"
#include "base/random.h"
#include "select/artefact.h"

/* Makes an artefact like that of a GPU's matrix products: `macros` tiles of three axes, each with fits of `waves` waves
   and one of all later ones, and four micro choices. Times are those of a simple model of such kernels, with random
   errors of a few per cent. */
tw_artefact *artefact_of_products(tw_arena *a, tw_random *r, int macros, int waves);

/* Adds random corrections of up to a tenth, on a lattice of nine nodes along m, five along n and three along k. */
void artefact_correct(tw_arena *a, tw_random *r, tw_artefact *out);

/* Makes an artefact direct: each macro choice keeps the fit of the first wave, and gets terms of waves and of last
   tiles along m and n, and corrections of fills of up to a tenth. */
void artefact_direct(tw_arena *a, tw_random *r, tw_artefact *out);

/* What a random artefact may have. */
typedef struct artefact_limits {
    int axes, macros, micros, fits, exact; /* Largest numbers, up to which each is drawn. */
    /* True: coefficients are small whole numbers, which the file holds exactly. */
    bool plain;
} artefact_limits;
tw_artefact *artefact_random(tw_arena *a, tw_random *r, const artefact_limits *l);

/* Draws a problem. Most problems are small enough to have few waves. */
void artefact_problem(const tw_artefact *a, tw_random *r, int64_t *problem);

/* ---- the reference: decisions by the definition, in double precision */

/* Returns the number of parts of an extent. The last part may be smaller. `part` 0: there is one part. */
double artefact_parts(int64_t size, int64_t part);
/* Returns the number of tiles along an axis. */
double artefact_tiles(const tw_artefact *a, const tw_artefact_macro *m, int x, const int64_t *problem);

/* The prediction of a macro choice. */
typedef struct artefact_prediction {
    bool known;  /* True: there is a prediction. */
    bool exact;  /* True: with coefficients that are small whole numbers `time` is exact, since all sums are below 2^53.
                  */
    double time; /* The predicted time in the artefact's unit. */
    double slack; /* The most that a prediction from coefficients of 20 bits may differ from `time`. */
    int micro;    /* The micro choice. */
    int other;    /* A micro choice that is as good as `micro` if L is rounded, as where blocks shrink. */
} artefact_prediction;
/* Predicts the time of a macro choice. */
artefact_prediction artefact_refer(const tw_artefact *a, int macro, const int64_t *problem);

/* Tells whether flags and rules allow a macro choice. */
bool artefact_allows(const tw_artefact *a, int macro, const int64_t *problem, unsigned flags);

/* Tells whether a decision's configuration is that of its macro and micro choice. */
bool artefact_is_config(const tw_artefact *a, const tw_selection *s);

/* Returns why a decision by the model is wrong. NULL: it is right. A right decision has the least prediction of all
   allowed macro choices, up to the error of coefficients of 20 bits. */
const char *artefact_refute(const tw_artefact *a, const int64_t *problem, unsigned flags, const tw_selection *s);

#endif
