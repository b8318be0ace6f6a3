/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of a macro choice's time. With them a decision reads few fits. Within a fit time is linear in x and in L; a
   bound is linear in the number of waves and in L. Their ratio is therefore monotone along x and along L, and least and
   largest at corners. */
#include "select/selector.h"

#include "base/least.h"

#include <float.h>
#include <math.h>

enum { TERMS = 4, PER_FIT = 3, LATER = 2 };

static void add(double ratio, double *low, double *high) {
    *low = fmin(*low, ratio);
    *high = fmax(*high, ratio);
}

/* Tells whether a sum is above 0 and its terms do not nearly cancel. `terms` is the sum of their magnitudes. Decisions
   compute the sum in floats, where cancellation would leave rounding errors. */
static bool is_sound(double sum, double terms) {
    return sum > 1e-3 * terms && terms < (double)FLT_MAX;
}

bool select_ratios(const select_fits *f, const double bound[4], double *low, double *high) {
    *low = (double)INFINITY;
    *high = 0;
    bool right = f->n > 0;
    for (int end = 0; end < 2; end++) {
        const double l = end ? f->most : f->least, slope = bound[0] * l + bound[1], start = bound[2] * l + bound[3];
        const double slope_terms = fabs(bound[0]) * l + fabs(bound[1]),
                     start_terms = fabs(bound[2]) * l + fabs(bound[3]);
        for (int i = 0; i < f->n; i++) {
            const select_record r = select_unpack(f->records + (size_t)i * f->words, f->words);
            const double s = slope * (i + 1) + start, first = select_time(&r, 1 / f->slots, l),
                         last = select_time(&r, 1, l);
            right = right && is_sound(s, slope_terms * (i + 1) + start_terms) && first > 0 && last > 0;
            add(first / s, low, high);
            add(last / s, low, high);
            if (i < f->n - 1) continue;
            /* The last fit serves any number of waves, towards which the ratio tends to that of the slopes. Numbers of
               waves above 2^24 count as 2^24. */
            const double steep = (double)r.c[0] * l + (double)r.c[1];
            right = right && is_sound(slope, slope_terms) && slope_terms * SELECT_EXACT < (double)FLT_MAX && steep > 0;
            add(steep / slope, low, high);
        }
    }
    return right;
}

/* Fits the bound's coefficients to the predicted times by least squares of relative errors. */
static void fit(const select_fits *f, double *rows, double c[TERMS]) {
    int m = 0;
    for (int i = 0; i < f->n + LATER; i++) {
        const int of = i < f->n ? i : f->n - 1, w = i < f->n ? i + 1 : f->n * (2 << (i - f->n));
        const select_record r = select_unpack(f->records + (size_t)of * f->words, f->words);
        for (int k = 0; k < PER_FIT; k++) {
            const double l = f->least * pow(f->most / f->least, k / (PER_FIT - 1.0));
            const double time = select_time(&r, w - of - 0.4, l);
            if (!(time > 0)) continue;
            const double row[TERMS + 1] = {w * l / time, w / time, l / time, 1 / time, 1};
            memcpy(rows + (size_t)m++ * (TERMS + 1), row, sizeof row);
        }
    }
    tw_least_squares(rows, m, TERMS, c);
}

static uint16_t to_bf16(double x, bool up) {
    const uint32_t bits = tw_f32_bits((float)x);
    return (uint16_t)((bits + (up ? 0xffff : 0x8000)) >> 16);
}

void select_bound(const select_fits *f, uint16_t bound[4], uint16_t *ratio) {
    double rows[(TW_ARTEFACT_FITS + LATER) * PER_FIT * (TERMS + 1)], c[TERMS], low, high;
    memset(bound, 0, TERMS * sizeof *bound);
    *ratio = SELECT_NO_RATIO;
    if (!f->n) return;
    fit(f, rows, c);
    if (!select_ratios(f, c, &low, &high)) return;
    for (int tries = 0; tries < 8; tries++) {
        double rounded[TERMS], least, most;
        uint16_t bits[TERMS];
        for (int t = 0; t < TERMS; t++) {
            bits[t] = to_bf16(c[t] * low * (1 - 0.004 * tries), false);
            rounded[t] = (double)tw_bf16_to_f32(bits[t]);
        }
        if (!select_ratios(f, rounded, &least, &most) || least < SELECT_MARGIN) continue;
        memcpy(bound, bits, sizeof bits);
        if (most * SELECT_MARGIN < 1e6) *ratio = to_bf16(most * SELECT_MARGIN, true);
        return;
    }
}
