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

/* Limits of random artefacts. */
typedef struct artefact_limits {
    int axes, macros, micros, fits, exact; /* Largest numbers, up to which each is drawn. */
    /* True: coefficients are small whole numbers, which the file holds exactly. */
    bool plain;
} artefact_limits;
tw_artefact *artefact_random(tw_arena *a, tw_random *r, const artefact_limits *l);

/* Draws a problem. Most problems are small enough to have few waves. */
void artefact_problem(const tw_artefact *a, tw_random *r, int64_t *problem);
#endif
