/* SPDX-License-Identifier: Apache-2.0 */
/* Regimes of problems, which reports show apart. A problem may be in several, or in none. R and C are the extents that
   rows and columns of blocks divide, and L is the extent that rounds divide (tune/family.h): of a product m, n and k.
 */
#ifndef TW_TUNE_REGIME_H
#define TW_TUNE_REGIME_H

#include "tune/family.h"

enum {
    TW_REGIME_SKINNY = 1, /* The longer of R and C is at least 8 times the shorter. */
    TW_REGIME_SQUARE = 2, /* The longer of R and C is at most twice the shorter. */
    TW_REGIME_DEEP = 4,   /* L is at least twice the longer of R and C. */
    TW_REGIME_RAGGED = 8, /* R or C is no multiple of 64, so that tiles stick out. */
    TW_REGIMES = 4
};

/* Returns the sum of a problem's regimes. */
unsigned tw_regimes_of(const tw_family *f, const int64_t *problem);

/* Returns the name of regime i, whose number is 1 << i, and its definition in words. */
const char *tw_regime_name(int i);
const char *tw_regime_meaning(int i);

#endif
