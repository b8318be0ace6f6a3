/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/regime.h"

enum { SKINNY = 8, SQUARE = 2, DEEP = 2, WHOLE = 64 };

unsigned tw_regimes_of(const tw_family *f, const int64_t *problem) {
    const int64_t r = problem[f->rows], c = problem[f->columns];
    const int64_t longer = r > c ? r : c, shorter = r > c ? c : r;
    return (longer >= SKINNY * shorter ? TW_REGIME_SKINNY : 0u) | (longer <= SQUARE * shorter ? TW_REGIME_SQUARE : 0u) |
           (problem[f->loops] >= DEEP * longer ? TW_REGIME_DEEP : 0u) |
           (r % WHOLE || c % WHOLE ? TW_REGIME_RAGGED : 0u);
}

static const struct {
    const char *name, *meaning;
} regimes[TW_REGIMES] = {{"skinny", "one side of the result at least 8 times the other"},
                         {"square", "one side of the result at most twice the other"},
                         {"deep", "the sum at least twice as long as the longer side"},
                         {"ragged", "a side that is no multiple of 64"}};

const char *tw_regime_name(int i) {
    return regimes[i].name;
}

const char *tw_regime_meaning(int i) {
    return regimes[i].meaning;
}
