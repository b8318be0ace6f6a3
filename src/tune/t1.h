/* SPDX-License-Identifier: Apache-2.0 */
/* T1, the open description of a tuning problem that Kernel Tuner and KTT read (TuningSchema, version 1): the parameters
   of a kernel, their values, and the conditions that configurations meet. */
#ifndef TW_TUNE_T1_H
#define TW_TUNE_T1_H

#include "base/arena.h"
#include "tilewright/base.h"

#include <jansson.h>

typedef struct tw_t1_param {
    const char *name;
    json_t *values; /* A list of numbers, strings and truth values. */
} tw_t1_param;

typedef struct tw_t1 {
    const char *kernel;  /* Name of the kernel. */
    const char *device;  /* Name of the device. NULL: the file does not say. */
    const char *problem; /* The problem as words, "x=4096 y=4096". NULL: the file does not say. */
    tw_t1_param *params;
    int n_params;
    const char **conditions; /* Python expressions of the parameters. */
    int n_conditions;
    const char *path;
    json_t *json;
    tw_arena arena;
} tw_t1;

/* Reads a description. Values are a list such as "[16, 32]", a tuple, or range(first, end, step), also as list(...).
   TW_ERR_FORMAT: the file is no T1, or its values or conditions are others than this module reads. The caller frees it.
 */
tw_status tw_t1_read(tw_t1 *out, const char *path, tw_diag *diag);
void tw_t1_free(tw_t1 *t);

/* Checks that a configuration, an object of values, is in the space; with `illegal` it need not meet the conditions.
   TW_ERR_FORMAT: it is not, and the message says why. `path` and `where` are its place for the message. */
tw_status tw_t1_check(const tw_t1 *t, const json_t *config, bool illegal, const char *path, const char *where,
                      tw_diag *diag);

#endif
