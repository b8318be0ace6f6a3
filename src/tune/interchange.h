/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements in the formats of other autotuners: T4, the open format of their results (schema version 1.0.0), and the
   cache file of Kernel Tuner (version 1). A file of either has the measurements of one problem of one space in one
   environment, and its times are milliseconds. What a format has no field for stands in a field "tilewright", so
   measurements that were written are read as they were. */
#ifndef TW_TUNE_INTERCHANGE_H
#define TW_TUNE_INTERCHANGE_H

#include "base/buf.h"
#include "tune/store.h"
#include "tune/t1.h"

#include <jansson.h>

typedef enum tw_interchange {
    TW_INTERCHANGE_LINES, /* Lines of tune/lines.h. */
    TW_INTERCHANGE_T4,
    TW_INTERCHANGE_CACHE, /* Kernel Tuner's cache. */
    TW_INTERCHANGE_T1     /* The description of a tuning problem (tune/t1.h), which has no measurements. */
} tw_interchange;

/* Finds the format of a text by the names of its first fields. What is no other format counts as lines. */
tw_interchange tw_interchange_detect(const char *text, size_t size);

/* ---- writing */

/* Adds a measurement to those of a file. *all is NULL before the first, and a JSON array afterwards, which the caller
   frees. TW_ERR_USAGE: it has another environment, space or problem than the first. */
tw_status tw_interchange_add(json_t **all, const tw_measurement *m, tw_diag *diag);
/* Appends a file of measurements. `all` NULL: there are none. A cache has one entry for each configuration, with the
   times of the measurement that has the most samples, of equal ones the last. */
tw_status tw_interchange_write_t4(tw_buf *out, const json_t *all, tw_diag *diag);
/* TW_ERR_USAGE: there are no measurements. */
tw_status tw_interchange_write_cache(tw_buf *out, const json_t *all, tw_diag *diag);

/* ---- reading */

/* What a file leaves out, or what replaces its own names. Fields that are NULL replace nothing. */
typedef struct tw_interchange_names {
    const char *device;    /* Name of the device. */
    const char *space;     /* Name of the space. */
    const char *problem;   /* The problem in words. */
    const char *campaign;  /* Measurements without a key get that of spread trials of this campaign (tune/trials.h). */
    const tw_t1 *space_of; /* Configurations must lie in this space, whose names stand for those left out. */
} tw_interchange_names;

/* Calls `take` for each measurement of a file in T4 or of a cache. The measurement is valid during the call. A cache
   may end after any entry, as one does whose writer was interrupted. `path` is for messages.
   TW_ERR_FORMAT: the file is neither, or a measurement is wrong; `take` was called for those before it. TW_ERR_USAGE: a
   name is left out. */
tw_status tw_interchange_read(const char *text, size_t size, const char *path, const tw_interchange_names *names,
                              tw_status (*take)(void *context, const tw_measurement *m, tw_diag *diag), void *context,
                              tw_diag *diag);

#endif
