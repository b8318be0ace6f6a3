/* SPDX-License-Identifier: Apache-2.0 */
/* Measures candidates. The caller's functions prepare, check and time each candidate; this room decides their order.
   Candidates are numbered from 0. */
#ifndef TW_TUNE_MEASURE_H
#define TW_TUNE_MEASURE_H

#include "base/stats.h"
#include "device/power.h"
#include "tilewright/base.h"

/* The result of a candidate. */
typedef struct tw_measured {
    int candidate; /* Its number. */

    tw_status status;      /* TW_ERR_MISMATCH: its output is wrong. Any other error: it could not be run. */
    const tw_diag *diag;   /* The message of the error. Empty if `status` is TW_OK. */
    tw_stats time;         /* Its times, in the unit of tw_measure_calls.sample. n is 0 if it was not timed. */
    const double *samples; /* The times in the order they were taken: time.n of them. Valid during the call. */
    int64_t began;         /* When the candidate was opened: nanoseconds since 1970. */
} tw_measured;

/* The functions that tw_measure calls, in this order. Each may be NULL, except `sample`. A candidate is closed as soon
   as its open, check, warm or sample fails. */
typedef struct tw_measure_calls {
    /* Prepares n candidates together, for example by compiling them. Every call is followed by a call of `release`,
       also after a failure. A failure ends the measurement, so an error of a single candidate belongs in `open`. */
    tw_status (*prepare)(void *context, int first, int n, tw_diag *diag);
    tw_status (*open)(void *context, int i, tw_diag *diag); /* Opens a candidate. */
    /* Runs a candidate once at full size and compares its output. TW_ERR_MISMATCH: the output is wrong. */
    tw_status (*check)(void *context, int i, tw_diag *diag);
    tw_status (*warm)(void *context, int i, tw_diag *diag); /* Warms a candidate up. */
    /* Takes one time. The caller decides whether caches are warm or cold. */
    tw_status (*sample)(void *context, int i, double *time, tw_diag *diag);
    void (*close)(void *context, int i); /* Closes an open candidate. */
    /* Receives a candidate's result. A failure ends the measurement. */
    tw_status (*result)(void *context, const tw_measured *m, tw_diag *diag);
    void (*release)(void *context, int first, int n); /* Releases what `prepare` prepared. */
    /* Returns true to interrupt. It is called before every candidate and every sample. Open candidates are then closed
       without a result. */
    bool (*interrupted)(void *context);
    /* Returns true for a candidate that is timed even if its output is wrong. NULL: no candidate is. */
    bool (*time_wrong)(void *context, int i);
} tw_measure_calls;

typedef struct tw_measure_protocol {
    int batch;   /* Candidates per call of `prepare`. 0: all. */
    int warmups; /* Samples of a candidate that are discarded. */
    int samples; /* Samples of a candidate that count, at least 1. */
    bool turns;  /* True: candidates of a batch are sampled in turn, so that drift affects all alike. */
    /* A candidate gets no more samples if its first one is beyond this many times the least median so far. 0: all get
       all. It is not used with turns. */
    double give_up;
    double seconds; /* Time after which no candidate, or round of turns, begins. 0: no limit. */
    /* Meter of the device's power. A sample is then the energy of a run in microjoules, if tw_measure_calls.sample
       takes times in microseconds. For a sample the candidate runs again and again, from one change of the meter's
       counter to another one at least `power_seconds` later. The sample is the mean power in between times the mean
       time of the runs. Time in which the device waits for the host between runs lowers this power, and so the sample.
       NULL: samples are what tw_measure_calls.sample takes. */
    tw_power *power;
    double power_seconds; /* Least number of seconds between these two changes of the counter. */
    int64_t most_samples; /* Samples, warm-ups included, after which no candidate or round begins. 0: no limit. */
} tw_measure_protocol;

typedef struct tw_measure_report {
    int right;       /* Candidates with correct output. */
    int wrong;       /* Candidates with wrong output. */
    int failed;      /* Candidates that could not be run. */
    int64_t samples; /* Samples taken, warm-ups included. */
    double seconds;  /* Time that the measurement took. */
    bool cut;        /* True: a limit or an interruption ended it early. */
} tw_measure_report;

/* Measures candidates 0 to n - 1. `report` may be NULL. Returns TW_OK also if a limit or an interruption ended it. */
tw_status tw_measure(const tw_measure_calls *calls, void *context, int n, const tw_measure_protocol *p,
                     tw_measure_report *report, tw_diag *diag);

#endif
