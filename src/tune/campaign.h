/* SPDX-License-Identifier: Apache-2.0 */
/* Campaigns measure problems of a family in configurations, within a budget, and add the measurements to a store. A
   campaign may be interrupted and run again at any time. A measurement that the store has is not repeated. Several
   processes may run the same campaign at once: each job is done by the process that claims it (tw_store_claim). */
#ifndef TW_TUNE_CAMPAIGN_H
#define TW_TUNE_CAMPAIGN_H

#include "tune/family.h"
#include "tune/store.h"

/* The progress of a campaign. */
typedef struct tw_campaign_progress {
    int64_t jobs;     /* Number of jobs that are done. A job is a problem in several configurations. */
    int64_t planned;  /* Number of jobs that are planned so far, done ones included. */
    int64_t measured; /* Number of configurations that this run measured. */
    int64_t had;      /* Number of configurations that the store had a measurement of. */
    int64_t wrong;    /* Number of configurations that this run measured whose result was wrong. */
    int64_t failed;   /* Number of configurations that this run could not measure. */
    double seconds;   /* Seconds since the run began. */
    double best;      /* Highest rate of this run in operations a second. With `energy`: in operations a joule. */
    bool energy;      /* True: samples are energies. False: samples are times. */
    int references;   /* Number of measurements of the reference (tw_campaign_options.reference). */
    /* The drift of the reference. Let r be the time of a measurement divided by the time of the first one. The drift is
       the largest of all r - 1 and 1 / r - 1. 0: the reference was not measured twice. */
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
    int cover;   /* Number of configurations of the second phase. 0: there is no such phase. A shared device has a third
                    of them. */
    int spread;  /* Number of problems of the second phase. A shared device has three times as many. */
    int waves;   /* Number of waves, from the first on, that have points. 0: the campaign has no corners and points. */
    int parts;   /* Number of points in each of these waves. */
    int far;     /* Number of points in later waves. The grid of each is 1.5 times the grid of the one before. */
    int rounds;  /* Number of values of L at each point, at least 1. */
    int micros;  /* Number of micro choices of a macro choice that are measured at points. They are the ones that were
                    fastest at the corners. 0: all micro choices. */
    int samples; /* Number of samples of a configuration, at least 1. One more is discarded before them. Spread problems
                    have twice as many on a shared device. */
    /* Least number of seconds between two measurements of the reference, which are made between jobs. The reference is
       the family's default on the problem in the middle of the usual ones. Its time should stay the same. 0: it is not
       measured. It is never measured of a recorded family, nor where energy is measured. */
    double reference;
    uint64_t seed;                      /* Seed of the jobs. Processes with the same seed share the jobs. */
    bool (*interrupted)(void *context); /* Returns true to end the run. May be NULL. */
    void (*progress)(void *context, const tw_campaign_progress *progress); /* Called after each job. May be NULL. */
    void *context;                                                         /* Passed to both functions. */
} tw_campaign_options;

/* The share of tw_campaign_options.seconds after which screening ends if the spread phase follows it. */
#define TW_CAMPAIGN_SCREEN 0.4

/* Least number of seconds over which the power is measured for a sample of energy. A GPU renews its counter several
   times in it. */
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

/* Plans the wave-aware jobs of a family (WaveTune, arXiv 2604.10187, section 4.2). A job is a usual problem in whole
   tiles of its macro choice. Its grid is that of a point, and its L is one of a few values.
   - Where each value of the columns' axis is a block, as heads of attention are, this axis counts as a further one, and
     the grid is a multiple of its value.
   - Where rounds divide the axis of rows or that of columns, as in causal attention, L decides the blocks along that
     axis, and the point those along the other one.
   - Each further axis has three values. Points take one combination of these values after the other. Axes among them
     that multiply the grid form groups, and the blocks of a point are divided among the groups.
   Macro choices take turns, so that any prefix of the plan covers them evenly. The corners of a macro choice come
   first, its other jobs in random order. Macro choice i is left out if keep[i] is false. The caller frees *jobs.
   TW_ERR_USAGE: the family has no such jobs. */
tw_status tw_campaign_plan(const tw_family *f, const tw_campaign_options *o, const bool *keep, tw_campaign_job **jobs,
                           int64_t *n, tw_diag *diag);

/* Checks that a family has wave-aware jobs: the axes of rows and of columns differ, and each macro choice has tiles of
   both and rounds. TW_ERR_USAGE: it has none. */
tw_status tw_campaign_check_points(const tw_family *f, tw_diag *diag);

/* Evaluates the phases that the store has. keep[i] becomes true if macro choice i is kept: a macro choice without
   measurements is kept, too. likes[i * TW_ARTEFACT_MICROS + j] becomes true if micro choice j of macro choice i is
   among the best at the points so far. Without points all micro choices are. */
tw_status tw_campaign_learn(const tw_family *f, tw_store *s, const tw_campaign_options *o, bool *keep, bool *likes,
                            tw_diag *diag);

/* Measures n configurations of a problem in phase `phase` of campaign `name`, and adds the measurements to a store
   under keys of tw_trials_key. Configurations that the store has are not measured, and none of a recorded family.
   Counts are added to *progress, and its `cut` becomes true if measuring ended before the last configuration. */
tw_status tw_campaign_measure(const tw_family *f, tw_store *s, const char *name, const char *phase,
                              const int64_t *problem, const char *const *configs, int n, const tw_measure_protocol *p,
                              bool (*interrupted)(void *context), void *context, tw_campaign_progress *progress,
                              tw_diag *diag);

#endif
