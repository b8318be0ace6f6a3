/* SPDX-License-Identifier: Apache-2.0 */
/* Artefacts for tests and benches. All is allocated in an arena. */
#ifndef TW_TEST_ARTEFACTS_H
#define TW_TEST_ARTEFACTS_H

#include "base/arena.h"
#include "base/random.h"
#include "select/artefact.h"

/* One that looks like a GPU's matrix products: `macros` tiles of three axes, so many waves and one beyond, four micro
   choices each. Times are of a simple model of such a kernel, and differ from it by a few hundredths. */
tw_artefact *artefact_of_products(tw_arena *a, tw_random *r, int macros, int waves);

/* What a random artefact may have. */
typedef struct artefact_limits {
    int axes, macros, micros, fits, exact; /* At most, each drawn. */
    bool plain;                            /* Coefficients are small whole numbers, which are stored exactly. */
} artefact_limits;
tw_artefact *artefact_random(tw_arena *a, tw_random *r, const artefact_limits *l);

/* Draws a problem, most often one of a size that its tiles divide into few waves. */
void artefact_problem(const tw_artefact *a, tw_random *r, int64_t *problem);
#endif
