/* SPDX-License-Identifier: Apache-2.0 */
/* Campaigns measure problems of a family in configurations, within a budget, and add the measurements to a store. A
   campaign may be interrupted and run again at any time, and several processes may work on it at once: measurements
   that the store has are not repeated, and a process leaves a job to the one that claimed it (tune/store.h). */
#ifndef TW_TUNE_CAMPAIGN_H
#define TW_TUNE_CAMPAIGN_H

#include "tune/family.h"
#include "tune/store.h"

/* The progress of a campaign. */
typedef struct tw_campaign_progress {
    int64_t jobs, planned; /* Jobs that are done, and jobs in all. A job is a problem in several configurations. */
    int64_t measured, had; /* Configurations that this run measured, and those that the store had. */
    /* Configurations that this run measured with a wrong result, and those that failed to run. */
    int64_t wrong, failed;
    double seconds; /* Seconds since the run began. */
    double best;    /* The highest rate of this run in operations a second, or a joule. */
    bool energy;    /* True: samples are of energy. */
    /* The reference (tw_campaign_options.reference): how often it was measured, and the largest ratio of its time to
       the first one's or the other way round, less 1. */
    int references;
    double drift;
    bool cut; /* True: a limit or an interruption ended the run before all configurations were measured. */
} tw_campaign_progress;

typedef struct tw_campaign_options {
    const char *name; /* Name of the campaign, with which the keys of its measurements begin. */
    double seconds;   /* Budget in seconds. 0: no limit. */
    int64_t most;     /* The most configurations to measure. 0: no limit. */
    int screens;      /* Number of random problems for screening. 0: all macro choices are kept. */
    bool thorough;    /* True: screening measures all micro choices. False: the first of each macro choice alone. */
    double slow; /* A macro choice is kept if it takes at most so many times the least time on a screened problem. */
    int cover;   /* Number of configurations of the second phase. 0: there is no such phase. */
    int spread;  /* Number of problems of the second phase. */
    int waves,
        parts;   /* Number of first waves with points, and of grids in each of them. 0 waves: there are no points. */
    int far;     /* Number of grids in later waves, each half as large again as the one before. */
    int rounds;  /* Number of values of L, at least 1. */
    int micros;  /* Number of micro choices that are measured at points, the best ones at corners. 0: all. */
    int samples; /* Number of samples of a configuration, at least 1. One more is thrown away before them. */
    /* Seconds after which the reference is measured again, between jobs: the family's default in the middle of the
       usual problems, whose time should stay the same. 0: it is not measured. A recorded family, and one whose
       energy is measured, have none. */
    double reference;
    uint64_t seed; /* Seed of the jobs. Processes with the same seed share them; those with others have other jobs. */
    bool (*interrupted)(void *context); /* Returns true to end the run. May be NULL. */
    void (*progress)(void *context, const tw_campaign_progress *progress); /* Called after each job. May be NULL. */
    void *context;                                                         /* Passed to both functions. */
} tw_campaign_options;

/* The share of `seconds` after which screening ends if the spread phase follows it. */
#define TW_CAMPAIGN_SCREEN 0.4

/* Seconds in which the power of a sample of energy is measured: several ticks of a GPU's counter. */
#define TW_CAMPAIGN_POWER 0.3

/* Runs a campaign in up to four phases. Returns TW_OK also if a limit or an interruption ended the run. `out` may be
   NULL. TW_ERR_USAGE: corners and points are asked of a family that has none.
   1. Screening: random problems in all macro choices, with one sample each.
   2. Spread: problems of a sequence of low discrepancy, in the few configurations that cover the screened problems
      (tune/cover.h).
   3. Corners: the smallest and the largest grid of each kept macro choice with the least and the most rounds, in all
      micro choices.
   4. Points: waves and rounds between the corners, in the micro choices that were best at the corners.
   Corners and points are the jobs of tw_campaign_plan. */
tw_status tw_campaign_run(const tw_family *f, tw_store *s, const tw_campaign_options *o, tw_campaign_progress *out,
                          tw_diag *diag);

/* ---- the plan */

typedef struct tw_campaign_job {
    int macro;   /* Index of the macro choice that the job measures. */
    bool corner; /* True: the job is one of the macro choice's corners. */
    int64_t problem[TW_SELECT_AXES];
} tw_campaign_job;

/* Plans the wave-aware jobs of a family (WaveTune, arXiv 2604.10187, section 4.2): usual problems in whole tiles of
   each macro choice, with grids at the waves' points and a few values of L. Where blocks are heads, each value of the
   columns' axis being one, grids are multiples of a number of heads. Where rounds divide the axis of a side, as those
   of causal attention do, that side has the blocks that L asks for, and the other one as many as the point leaves.
   Further axes have three values each, in all combinations, of which points take one after the other; those that
   multiply the grid are groups, among which the point divides. Macro choices take turns, so that any prefix of the plan
   covers them evenly. The corners of a macro choice come first, its other jobs in random order. Macro choice i is left
   out if keep[i] is false. The caller frees *jobs. TW_ERR_USAGE: the family has no such jobs. */
tw_status tw_campaign_plan(const tw_family *f, const tw_campaign_options *o, const bool *keep, tw_campaign_job **jobs,
                           int64_t *n, tw_diag *diag);

/* Checks that a family has wave-aware jobs: rows and columns are two axes, and each macro choice has tiles of them and
   of rounds. TW_ERR_USAGE: it has none. */
tw_status tw_campaign_check_points(const tw_family *f, tw_diag *diag);

/* Evaluates the phases that the store has. keep[i] tells whether macro choice i is kept; one without measurements is.
   likes[i * TW_ARTEFACT_MICROS + j] tells whether micro choice j of macro choice i is among the best at the points so
   far; without points all are. */
tw_status tw_campaign_learn(const tw_family *f, tw_store *s, const tw_campaign_options *o, bool *keep, bool *likes,
                            tw_diag *diag);

/* Measures configurations of a problem in a phase of a campaign, and adds them to a store under keys of tw_trials_key.
   Configurations that the store has are not measured, and none of a recorded family. Counts are added to *progress, and
   its `cut` becomes true if measuring ended before the last configuration. */
tw_status tw_campaign_measure(const tw_family *f, tw_store *s, const char *name, const char *phase,
                              const int64_t *problem, const char *const *configs, int n, const tw_measure_protocol *p,
                              bool (*interrupted)(void *context), void *context, tw_campaign_progress *progress,
                              tw_diag *diag);

#endif
