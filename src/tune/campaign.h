/* SPDX-License-Identifier: Apache-2.0 */
/* Campaigns: which problems of a family are measured in which configurations, within a budget, into a store. A campaign
   may be ended and begun again at any time, and several processes may work on it: what the store has is not measured
   again. */
#ifndef TW_TUNE_CAMPAIGN_H
#define TW_TUNE_CAMPAIGN_H

#include "tune/family.h"
#include "tune/store.h"

/* How far a campaign has come. */
typedef struct tw_campaign_progress {
    int64_t jobs, planned; /* Jobs that are done, and all. A job is a problem in several configurations. */
    int64_t measured, had; /* Configurations measured now, and found in the store. */
    int64_t wrong, failed; /* Of those measured now: with a wrong result, and not run. */
    double seconds;        /* Since the campaign began. */
    double best;           /* The most operations a second so far. */
    bool cut;              /* The budget or an interruption ended it before all jobs were done. */
} tw_campaign_progress;

typedef struct tw_campaign_options {
    const char *name; /* Begins the keys of its measurements. */
    double seconds;   /* Budget. 0: no limit. */
    int64_t most;     /* Configurations to measure at most. 0: no limit. */
    int screens;      /* Random problems that all macro choices are screened with. 0: all macro choices are kept. */
    bool thorough;    /* They are screened in all micro choices, not in the first alone. */
    double slow; /* A macro choice is kept if it takes at most so many times the fastest one's time on one of them. */
    int cover;   /* Configurations of the second phase. 0: there is no such phase. */
    int spread;  /* Problems of the second phase. */
    int waves, parts; /* Each of so many first waves has so many grids. 0 waves: there are no points. */
    int far;          /* Grids of later waves, each half as large again as the one before. */
    int rounds;       /* Values of L, at least 1. */
    int micros;       /* Micro choices that are measured at all points. The others are measured at corners. 0: all. */
    int samples;      /* Samples of a configuration, at least 1. One more is thrown away before them. */
    uint64_t seed;    /* Decides the order of jobs. Processes of different seeds meet rarely. */
    bool (*interrupted)(void *context);                                    /* NULL: nothing interrupts. */
    void (*progress)(void *context, const tw_campaign_progress *progress); /* Told after each job. May be NULL. */
    void *context;                                                         /* Passed to both. */
} tw_campaign_options;

/* Measures what there is to learn of a family, in four phases. Returns TW_OK also if a limit or an interruption ended
   it. `out` may be NULL.
   1. Screen: random problems in all macro choices, by one sample each. Where a second phase follows it ends after
   TW_CAMPAIGN_SCREEN of the budget.
   2. Spread: problems that are spread evenly (a sequence of low discrepancy), in a few configurations that were,
   together, the fastest at the screened problems (tune/cover.h).
   3. Corners of the macro choices that are kept: the smallest and the largest grid, with the least and the most rounds,
   in all micro choices.
   4. Points of waves and rounds in between, in the best micro choices of the corners. */
#define TW_CAMPAIGN_SCREEN 0.4
tw_status tw_campaign_run(const tw_family *f, tw_store *s, const tw_campaign_options *o, tw_campaign_progress *out,
                          tw_diag *diag);

/* ---- the plan */

typedef struct tw_campaign_job {
    int macro; /* The macro choice. */
    bool corner;
    int64_t problem[TW_SELECT_AXES];
} tw_campaign_job;

/* Plans the wave-aware jobs of a family (WaveTune, arXiv 2604.10187, section 4.2): problems in whole tiles of each
   macro choice, of grids at the waves' points and a few values of L. Only usual problems are planned. Corners come
   first, then the others in random order, a macro choice after the other, so that any part of the plan covers all
   choices alike. Choices whose keep[i] is false are left out. The caller frees *jobs. */
tw_status tw_campaign_plan(const tw_family *f, const tw_campaign_options *o, const bool *keep, tw_campaign_job **jobs,
                           int64_t *n, tw_diag *diag);

/* Finds what the store says of earlier phases: keep[i] for each macro choice, and for micro choice j of macro choice i
   likes[i * TW_ARTEFACT_MICROS + j], whether it is one of the best at the corners. A choice without measurements is
   kept, and all micro choices of a macro choice without corners are liked. */
tw_status tw_campaign_learn(const tw_family *f, tw_store *s, const tw_campaign_options *o, bool *keep, bool *likes,
                            tw_diag *diag);

/* Measures configurations of a problem in a phase of a campaign into a store (tw_trials_key). Those that the store has
   are left out, and all of a recorded family. What `had` and its like count is added to *progress. */
tw_status tw_campaign_measure(const tw_family *f, tw_store *s, const char *name, const char *phase,
                              const int64_t *problem, const char *const *configs, int n, const tw_measure_protocol *p,
                              bool (*interrupted)(void *context), void *context, tw_campaign_progress *progress,
                              tw_diag *diag);

#endif
