/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements in a file (SQLite, write-ahead log). Several processes may add to it at once. A measurement is added
   whole or not at all, also if the process is killed; none is changed or removed afterwards. Each has a checksum, so
   that a damaged one is left out, and the others are read. */
#ifndef TW_TUNE_STORE_H
#define TW_TUNE_STORE_H

#include "base/stats.h"
#include "tilewright/base.h"

typedef struct tw_store tw_store;

enum { TW_STORE_SAMPLES = 100000 /* The most samples of a measurement. */ };

/* A measurement of one configuration. All texts are UTF-8. The caller owns texts and samples. */
typedef struct tw_measurement {
    const char *key;         /* A name that no other measurement of the store has. NULL: it needs none. */
    const char *environment; /* Device, driver and versions that the samples depend on, as a JSON object. */
    const char *space;       /* Name of the space, such as "gemm". */
    const char *problem;     /* The problem, as words such as "m=64 n=64 k=64". */
    const char *config;      /* The parameters' values, as words such as "ml=64 mma=1". */
    const char *protocol;    /* How samples were taken, as words such as "samples=3 caches=cold". */
    const char *unit;        /* Unit of the samples, such as "us" or "J". */
    tw_status status;        /* TW_ERR_MISMATCH: the output was wrong. Any other error: it could not be run. */
    const char *message;     /* The message of the error. "" if `status` is TW_OK. */
    const double *samples;   /* Raw samples in the order they were taken. Finite, and not below 0. */
    int n;                   /* Number of samples. */
    double clock_mhz;        /* Mean clock rate of the device during the samples, in MHz. 0: not known. */
    double watts;            /* Mean power of the device during the samples, in watts. 0: not known. */
    int64_t began;           /* When the first sample was taken: nanoseconds since 1970. */
} tw_measurement;

/* Returns the name of a field that is missing or out of range. NULL: all fields are valid. */
const char *tw_store_wrong(const tw_measurement *m);
/* Computes the statistics of the samples, whose order stays. All are 0 if there are no samples. */
tw_status tw_store_stats(const tw_measurement *m, tw_stats *out, tw_diag *diag);
/* Computes a hash of all fields. */
void tw_store_checksum(const tw_measurement *m, uint64_t sum[2]);

/* Opens a store, and makes the file if it is not there. With `reads` the file must be there, and nothing can be added.
   TW_ERR_FORMAT: the file is no store, or damaged. TW_ERR_UNSUPPORTED: a later version made it. The caller closes it.
 */
tw_status tw_store_open(tw_store **out, const char *path, bool reads, tw_diag *diag);
void tw_store_close(tw_store *s); /* NULL is fine. */

/* Adds a measurement. *added (may be NULL) becomes false if the store has one with this key; then nothing changes.
   TW_ERR_USAGE: a field is missing or out of range. */
tw_status tw_store_add(tw_store *s, const tw_measurement *m, bool *added, tw_diag *diag);

/* What a store has under a key. */
typedef enum tw_store_found {
    TW_STORE_NONE,  /* There is no measurement. */
    TW_STORE_SAME,  /* There is a measurement of the given environment and space. */
    TW_STORE_OTHER, /* There is a measurement of another environment or space. */
} tw_store_found;
/* Finds what the store has under a key. */
tw_status tw_store_find(tw_store *s, const char *key, const char *environment, const char *space, tw_store_found *found,
                        tw_diag *diag);

/* Claims a job for this handle of the store. `job` may be any text. *mine becomes false if another handle of the file,
   in this or another process of this machine, has claimed the job. A claim ends when it is released, when the handle is
   closed, or when the process ends in any way. *mine is true without a claim if the handle only reads, or if the file
   system has no locks. A handle that has claimed jobs must not be closed while the process has another handle of the
   file: closing it removes all POSIX locks that the process has on the file (fcntl(2)), and with them those of SQLite
   for the other handle. */
tw_status tw_store_claim(tw_store *s, const char *job, bool *mine, tw_diag *diag);
/* Ends the claim of a job. */
void tw_store_release(tw_store *s, const char *job);

/* Selects measurements by the text of a field. A field that is NULL selects all. */
typedef struct tw_store_filter {
    const char *environment;
    const char *space;
    const char *problem;
} tw_store_filter;

typedef struct tw_store_report {
    int64_t right;   /* Measurements that were read. */
    int64_t damaged; /* Measurements that were left out, since their checksum or a field is wrong. */
} tw_store_report;

/* Calls `take` for each measurement, in the order in which they were added. Its texts and samples are valid during the
   call. An error of `take` ends the reading. `report` may be NULL. */
tw_status tw_store_read(tw_store *s, const tw_store_filter *f,
                        tw_status (*take)(void *context, const tw_measurement *m, tw_diag *diag), void *context,
                        tw_store_report *report, tw_diag *diag);

/* Calls `take` once for each configuration that begins with `prefix`, in ascending order of bytes. It is fast, since
   measurements are not read. So configurations of damaged measurements are among them. */
tw_status tw_store_configs(tw_store *s, const tw_store_filter *f, const char *prefix,
                           tw_status (*take)(void *context, const char *config, tw_diag *diag), void *context,
                           tw_diag *diag);

#endif
