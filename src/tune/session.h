/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning session does all of it in one run: it measures a family, trains, and evaluates the artefact on problems that
   the campaign did not measure. A session that was ended at any moment, and is run again with the same store, goes on
   where it was: nothing that the store has is measured again. */
#ifndef TW_TUNE_SESSION_H
#define TW_TUNE_SESSION_H

#include "tune/strategies.h"

typedef enum tw_session_phase { TW_SESSION_MEASURING, TW_SESSION_TRAINING, TW_SESSION_EVALUATING } tw_session_phase;

/* How far a session has come. */
typedef struct tw_session_progress {
    tw_session_phase phase;
    const tw_campaign_progress *campaign;
    int problems;   /* Number of held-out problems that were evaluated. */
    int planned;    /* Number of held-out problems that are wanted. */
    double share;   /* Geometric mean of the artefact's shares of the oracle so far. 0: there is none yet. */
    double seconds; /* Seconds since the session began. */
    double left;    /* Seconds that are left, estimated. */
} tw_session_progress;

typedef struct tw_session_options {
    tw_campaign_options campaign;       /* Options of the campaign. `seconds` and the functions are ignored. */
    double seconds;                     /* Budget in seconds. 0: no limit. A problem that was begun is ended. */
    int problems;                       /* The most held-out problems, at least 1. */
    uint64_t seed;                      /* Seed of the held-out problems. */
    const char *artefact;               /* Path of the artefact. */
    bool (*interrupted)(void *context); /* Returns true to end the session. May be NULL. */
    void (*progress)(void *context, const tw_session_progress *progress); /* Called at each step. May be NULL. */
    void *context;                                                        /* Passed to both functions. */
} tw_session_options;

/* A held-out problem. */
typedef struct tw_session_problem {
    tw_evaluation result;
    double predicted; /* Time that the artefact predicts for its choice, in the family's unit. 0: there is none. */
} tw_session_problem;

/* Times of decisions in nanoseconds: medians over random problems. 0: not measured. */
typedef struct tw_session_decisions {
    double first;                /* Of the artefact, for a problem that it was not asked before. */
    double again;                /* Of the artefact, for a problem in its cache. */
    double forms[TW_WAVE_FORMS]; /* Of the models by waves in memory, which predict every macro choice. */
} tw_session_decisions;

typedef struct tw_session {
    double most_work; /* The most operations of a problem. 0: any. */
    tw_campaign_progress campaign;
    tw_trained trained;
    tw_session_problem *problems; /* The held-out problems that have an oracle. */
    int n;
    int select;  /* Index of the artefact's choice in result.of of each problem. 0: there is no problem. */
    int without; /* Number of problems without an oracle: the device is not here, and the store has nothing of them. */
    tw_session_decisions decisions;
    size_t artefact_bytes;
    double measure_seconds, train_seconds, evaluate_seconds; /* Seconds that the phases took in this run. */
    bool interrupted; /* True: the session was interrupted. Later phases have no results. */
} tw_session;

/* Runs a session. Seven tenths of the budget are for measuring, the rest for evaluating; more problems are screened
   than the campaign's options say if time for measuring is left. With a budget, problems of more work than suits it are
   not drawn, neither for measuring nor for evaluating: what suits it is decided by the rate of the family's default,
   which is measured once for a store. TW_ERR_USAGE: the budget was over before there were points to learn from. The
   caller frees *out, also after a failure. */
tw_status tw_session_run(tw_session *out, const tw_family *f, tw_store *store, const tw_session_options *o,
                         tw_diag *diag);
void tw_session_free(tw_session *s);

/* Stand for strategies where an index of tw_evaluation.of is asked for: the oracle, and the fastest of any vendor. */
enum { TW_SESSION_ORACLE = -1, TW_SESSION_VENDOR = -2 };
/* Returns the time of a strategy on a problem. 0: it has none. */
double tw_session_time(const tw_evaluation *e, int of);

/* A strategy's speeds over the problems of a session. Its share of the oracle is the oracle's time divided by its own.
 */
typedef struct tw_session_summary {
    int n;        /* Number of problems on which the strategy has a time. The others do not count. */
    double mean;  /* Geometric mean of its shares of the oracle. */
    double low1;  /* The share that 1 % of the problems are below. */
    double low5;  /* The share that 5 % of the problems are below. */
    double worst; /* The least share. */
    double over;  /* Geometric mean of its speed over the default's. 0: there is no default. */
} tw_session_summary;

/* Summarises a strategy over the problems of the regimes in `regimes` (tune/regime.h). 0: over all problems. */
tw_session_summary tw_session_summarise(const tw_family *f, const tw_session *s, int of, unsigned regimes);

#endif
