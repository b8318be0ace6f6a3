/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements in the formats of other autotuners: T4, their open format of results (schema version 1.0.0), and the
   cache file of Kernel Tuner (version 1). A file of either format has the measurements of one problem of one space in
   one environment. Its times are milliseconds, and its energies joules. A file that is written also has a field
   "tilewright", with all that the format has no field for. So it is read as the measurements that were written. */
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

/* Finds the format of a text: the first field of its outermost object that only one format has decides. Without such a
   field the text counts as lines. */
tw_interchange tw_interchange_detect(const char *text, size_t size);

/* ---- writing */

/* Adds a measurement to the array *all, from which a file is written. *all is NULL before the first call. The caller
   frees it. TW_ERR_USAGE: the measurement has another environment, space or problem than the first one. */
tw_status tw_interchange_add(json_t **all, const tw_measurement *m, tw_diag *diag);
/* Append the file of an array of measurements. `all` NULL: there are no measurements. A cache has one entry for each
   configuration. The entry's figures are those of the measurement with the most samples, and among equals of the last
   one. */
tw_status tw_interchange_write_t4(tw_buf *out, const json_t *all, tw_diag *diag);
/* TW_ERR_USAGE: there are no measurements. */
tw_status tw_interchange_write_cache(tw_buf *out, const json_t *all, tw_diag *diag);

/* ---- reading */

/* Names for what a file leaves out. They also replace names that the file has. A field that is NULL names nothing. */
typedef struct tw_interchange_names {
    const char *device;  /* Name of the device. */
    const char *space;   /* Name of the space. */
    const char *problem; /* The problem in words. */
    /* A measurement without a key gets the key of a spread trial of this campaign. NULL: its key is a hash of its
       fields (tw_line.key). */
    const char *campaign;
    /* Description of the space. Each configuration must pass tw_t1_check. The description also gives the names that the
       file leaves out. NULL: there is no description. */
    const tw_t1 *space_of;
} tw_interchange_names;

/* Calls `take` for each measurement of a file in T4 or of a cache. The measurement is valid during the call. A cache
   may end after any entry, as it does if its writer was interrupted. `names` may be NULL. `path` is for messages.
   TW_ERR_FORMAT: the text is of neither format, or a measurement is wrong, after `take` was called for those before it.
   TW_ERR_USAGE: a name is left out. */
tw_status tw_interchange_read(const char *text, size_t size, const char *path, const tw_interchange_names *names,
                              tw_status (*take)(void *context, const tw_measurement *m, tw_diag *diag), void *context,
                              tw_diag *diag);

#endif
