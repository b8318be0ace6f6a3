/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation measures how good choices are on problems that no model has seen. It measures every legal configuration of
   such a problem; the fastest is the oracle. The oracle, the strategies' choices and the baselines are then measured
   again, in turn. A baseline that is none of the family's configurations may be faster than the oracle. */
#ifndef TW_TUNE_EVALUATE_H
#define TW_TUNE_EVALUATE_H

#include "tune/campaign.h"
#include "tune/cover.h"

/* A way of choosing configurations. */
typedef struct tw_strategy {
    const char *name; /* Name of the strategy, "wave". */
    bool own;         /* The strategy leaves out vendors, and its choices are compared with the own oracle. */
    /* Writes the configuration for a problem. False: the strategy has none. */
    bool (*choose)(void *context, const int64_t *problem, char *out, size_t size);
    void *context;
} tw_strategy;

enum { TW_EVALUATE_STRATEGIES = 12 /* The most strategies, a family's baselines included. */ };

/* The result of a strategy's choice. */
typedef struct tw_evaluated {
    const char *name;
    char config[TW_FAMILY_WORDS]; /* The choice in words. "": the strategy had none. */
    /* Time of the choice's last measurement by tw_family_time. 0: there is no choice, it did not run, or a result of it
       was wrong in any measurement. */
    double time;
    double share; /* The oracle's time divided by `time`. 0: there is no time. */
    double ns;    /* Nanoseconds that the choice took. The strategy had not seen the problem before. */
    bool own;     /* True: `share` is of the own oracle. */
} tw_evaluated;

/* The result of a problem. */
typedef struct tw_evaluation {
    int64_t problem[TW_SELECT_AXES];
    int configs;  /* Configurations that were measured and right. */
    int wrong;    /* Configurations, baselines and choices with a wrong result in any measurement. */
    int failed;   /* Configurations that could not be run. */
    bool correct; /* There is an oracle, and no result was wrong. All that has a time was then checked and right. */
    char oracle[TW_FAMILY_WORDS]; /* The oracle: the fastest configuration of the last measurement. */
    double time;                  /* Time of the oracle, in the family's unit. 0: there is none. */
    char
        own[TW_FAMILY_WORDS]; /* The own oracle: the fastest configuration that is not a vendor's. "": there is none. */
    double own_time;          /* Time of the own oracle. 0: there is none. */
    double vendor;            /* Time of the fastest configuration of a vendor, baselines included. 0: there is none. */
    double noise; /* Half the distance from the 10th to the 90th percentile of the oracle's samples, over `time`. */
    tw_evaluated of[TW_EVALUATE_STRATEGIES]; /* The family's baselines, then the strategies. */
    int n;                                   /* Number of elements of `of`. */
} tw_evaluation;

typedef struct tw_evaluate_options {
    const char *name; /* Campaign of the measurements, with which their keys begin. */
    int problems;     /* The most problems to evaluate. */
    double seconds;   /* Seconds after which no problem begins. 0: no limit. */
    uint64_t seed;    /* Seed of the problems. */
    const tw_strategy *strategies;
    int n_strategies;
    const tw_choice *only; /* The configurations that are measured to find the oracles. NULL: every legal one. */
    int n_only;            /* Number of elements of `only`. */
    bool (*interrupted)(void *context);
    /* Returns true to have another problem drawn instead. NULL: no problem is left out. */
    bool (*leaves_out)(void *context, const int64_t *problem);
    /* Receives the result of each problem. */
    tw_status (*result)(void *context, const tw_evaluation *e, tw_diag *diag);
    void *context; /* Passed to the three functions. */
} tw_evaluate_options;

/* Evaluates strategies. The family's baselines after the first are taken for a vendor's. Fewer problems than asked for
   are evaluated if too many are left out. What the store has of these problems is not measured again. */
tw_status tw_evaluate(const tw_family *f, tw_store *s, const tw_evaluate_options *o, tw_diag *diag);

/* A summary of a strategy's shares. */
typedef struct tw_evaluate_summary {
    int n;        /* Number of problems for which the strategy had a choice. The others do not count. */
    double mean;  /* Geometric mean of the shares. */
    double low5;  /* The share that 5 % of the problems are below. */
    double worst; /* The least share. */
} tw_evaluate_summary;
/* Summarises n shares, which it sorts. Shares of 0 do not count. */
tw_evaluate_summary tw_evaluate_summarise(double *shares, int n);

#endif
