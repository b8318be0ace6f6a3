/* SPDX-License-Identifier: Apache-2.0 */
/* A family with known times. The time of a problem is that of its waves, whose blocks last as long as their rounds.
   Measuring returns these times and counts calls. */
#ifndef TW_TESTS_TUNE_TOY_FAMILY_H
#define TW_TESTS_TUNE_TOY_FAMILY_H

#include "support/support.h"

#include "base/diag.h"
#include "base/grow.h"
#include "tune/trials.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOY_SLOTS = 8, TOY_MACROS = 4 };

typedef struct toy {
    tw_family family;
    int measured;      /* Configurations that were measured. */
    int end;           /* Configurations until an interruption. Negative: there is none. */
    const char *wrong; /* The configuration with a wrong result. NULL: there is none. */
    int wrong_times;   /* Number of first results of `wrong` that are wrong. 0: all are. */
} toy;

static const char *const toy_micros[] = {"stages=2", "stages=4", "stages=8"};
static const char *const toy_baselines[] = {"default"};

/* Microseconds of a round of each macro choice. The last one is never the fastest. */
static const double toy_round[TOY_MACROS] = {1, 1.8, 3.2, 40};

static const tw_artefact_macro toy_macros[TOY_MACROS] = {
    {.config = "tile=16",
     .grid = {16, 16},
     .rounds = {0, 0, 32},
     .slots = TOY_SLOTS,
     .micros = toy_micros,
     .n_micros = 3},
    {.config = "tile=32",
     .grid = {32, 16},
     .rounds = {0, 0, 32},
     .slots = TOY_SLOTS,
     .micros = toy_micros,
     .n_micros = 3},
    {.config = "tile=64",
     .grid = {64, 16},
     .rounds = {0, 0, 32},
     .slots = TOY_SLOTS,
     .micros = toy_micros,
     .n_micros = 3},
    {.config = "tile=128",
     .grid = {64, 32},
     .rounds = {0, 0, 64},
     .slots = TOY_SLOTS,
     .micros = toy_micros,
     .n_micros = 3},
};

/* Returns the time of a configuration in microseconds. The fewer rounds there are, the fewer stages are best. */
static inline double toy_time(const tw_family *f, const char *config, const int64_t *problem) {
    int macro, micro;
    /* The configuration is a baseline that the family does not have. */
    if (!tw_family_find(f, config, &macro, &micro)) return 1e6;
    const tw_wave_division d = tw_family_divide(f, macro, problem);
    const double waves = ceil((double)d.grid / TOY_SLOTS), best = d.loops < 8 ? 0 : d.loops < 24 ? 1 : 2;
    return (waves * (d.loops * toy_round[macro] + 3) + 5) * (1 + 0.1 * fabs(best - micro));
}

static inline tw_status toy_measure(void *self, const int64_t *problem, const char *const *configs, int n,
                                    const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    toy *t = self;
    for (int i = 0; i < n; i++) {
        if (t->end == 0 && l->interrupted && l->interrupted(l->context)) return TW_OK;
        double samples[16], sorted[16];
        const bool wrong = t->wrong && !strcmp(configs[i], t->wrong);
        if (wrong && t->wrong_times && !--t->wrong_times) t->wrong = NULL;
        const tw_diag why = {.message = "1 of 1 cells are wrong"}, none = {.status = TW_OK};
        for (int s = 0; s < p->samples; s++) samples[s] = sorted[s] = toy_time(&t->family, configs[i], problem);
        const tw_measured m = {.candidate = i,
                               .status = wrong ? TW_ERR_MISMATCH : TW_OK,
                               .diag = wrong ? &why : &none,
                               .time = tw_stats_of(sorted, wrong ? 0 : (size_t)p->samples),
                               .samples = samples,
                               .began = 1};
        t->measured++;
        if (t->end > 0) t->end--;
        const tw_status st = l->result(l->context, &m, diag);
        if (st != TW_OK) return st;
    }
    return TW_OK;
}

static inline void toy_baseline(const void *self, int i, const int64_t *problem, char *out, size_t size) {
    (void)self, (void)i, (void)problem;
    snprintf(out, size, "tile=128 stages=2");
}

static inline void toy_close(void *self) {
    (void)self;
}

static const tw_family_calls toy_calls = {.measure = toy_measure, .baseline = toy_baseline, .close = toy_close};

static inline void toy_open(toy *t) {
    *t = (toy){.end = -1};
    t->family = (tw_family){.name = "toy",
                            .unit = "us",
                            .environment = "{\"device\": \"toy\"}",
                            .protocol = "caches=none",
                            .device = "toy",
                            .alike = "toys",
                            .architecture = "wood",
                            .axes = {"m", "n", "k"},
                            .n_axes = 3,
                            .columns = 1,
                            .loops = 2,
                            .least = {16, 16, 64},
                            .most = {512, 512, 2048},
                            .step = {1, 16, 32},
                            .macros = toy_macros,
                            .n_macros = TOY_MACROS,
                            .micro = 1,
                            .baselines = toy_baselines,
                            .n_baselines = 1,
                            .calls = &toy_calls,
                            .self = t};
}

/* Options of a campaign by waves that is small, but learns the toy family well. */
#define TOY_CAMPAIGN                                                                                                   \
    {                                                                                                                  \
        .name = "tune", .screens = 6, .slow = 1.5, .waves = 4, .parts = 2, .far = 4, .rounds = 4, .micros = 2,         \
        .samples = 3, .seed = 1                                                                                        \
    }

/* Adds a trial to a list. The caller frees the list's trials. */
static inline void toy_add(tw_trial_list *l, const int64_t *problem, int macro, int micro, double time) {
    tw_trial *const at = tw_grow(l->at, l->n, &l->room, 256, sizeof *at);
    assert_non_null(at);
    l->at = at;
    at[l->n] = (tw_trial){.macro = macro, .micro = micro, .time = time};
    memcpy(at[l->n++].problem, problem, sizeof at->problem);
}

/* Interrupts when toy.end reaches 0. */
static inline bool toy_interrupted(void *context) {
    const toy *t = context;
    return t->end == 0;
}

#endif
