/* SPDX-License-Identifier: Apache-2.0 */
/* How evenly multiprocessors are loaded, and what the end of a kernel leaves idle. */
#ifndef TW_PROF_BALANCE_H
#define TW_PROF_BALANCE_H

#include "prof/trace.h"

typedef struct tw_balance_sm {
    int sm, blocks;
    double busy; /* At least one track works, or a copy or product is on its way. */
    double last; /* When its last track ended. */
} tw_balance_sm;

/* A region of a name on all multiprocessors: a stage of a persistent kernel. */
typedef struct tw_balance_stage {
    int name;
    int sms;       /* Multiprocessors that do it. */
    int64_t count; /* Of all of them. */
    double mean;   /* Of one event. */
    int slowest;   /* The multiprocessor whose events take longest on average, */
    double slowest_mean;
    double total;      /* Of a multiprocessor, on average. */
    int most;          /* The multiprocessor that spends most on it, */
    double most_total; /* over how much it spends. */
} tw_balance_stage;

typedef struct tw_balance {
    tw_balance_sm *sms; /* Ascending. */
    int n_sms;
    int unused;         /* Multiprocessors of the device that have no block. */
    double begin, end;  /* Of the first track and of the last one. */
    double mean, most;  /* Busy time. */
    int busiest;        /* The multiprocessor with the most. */
    double imbalance;   /* most / mean. 0: nothing is busy. */
    double tail;        /* From when the first multiprocessor had nothing more to do until the end. */
    double idle_at_end; /* Over all multiprocessors, with unused ones: from when each had nothing more to do until the
                           end. */
    double idle_share;  /* Of the time of all multiprocessors. */
    tw_balance_stage *stages; /* Those of more than one multiprocessor, by how much slower than the mean the slowest
                                 multiprocessor is, in time over all of its events. */
    int n_stages;
} tw_balance;

/* `sms`: multiprocessors of the device. Fewer than the trace has, or 0: those of the trace. */
tw_status tw_balance_find(tw_balance *out, const tw_trace *t, int sms, tw_diag *diag);
void tw_balance_free(tw_balance *b);

#endif
