/* SPDX-License-Identifier: Apache-2.0 */
/* T1 is a file format that describes a tuning problem: a kernel's parameters, the values of each, and the conditions
   that a configuration must meet. Its schema is TuningSchema, version 1. Kernel Tuner and KTT read it, too. */
#ifndef TW_TUNE_T1_H
#define TW_TUNE_T1_H

#include "base/arena.h"
#include "tilewright/base.h"

#include <jansson.h>

typedef struct tw_t1_param {
    const char *name;
    json_t *values; /* Array of the values that it may have: numbers, strings and truth values. */
} tw_t1_param;

/* A description. Its texts and arrays belong to it, except `path`. */
typedef struct tw_t1 {
    const char *kernel;  /* Name of the kernel. */
    const char *device;  /* Name of the device. NULL: the file does not say. */
    const char *problem; /* The problem in words, "x=4096 y=4096". NULL: the file does not say. */
    tw_t1_param *params;
    int n_params;
    const char **conditions; /* The conditions as expressions of tune/condition.h. */
    int n_conditions;
    const char *path; /* The caller's path of the file, for messages. */
    json_t *json;     /* The file. */
    tw_arena arena;
} tw_t1;

/* Reads a description. The file has the values of a parameter as a text that tw_condition_list reads. TW_ERR_FORMAT:
   the file is no T1, or a list of values cannot be read. Conditions are not read before tw_t1_check. The caller frees
   *out with tw_t1_free, which is not needed after a failure. */
tw_status tw_t1_read(tw_t1 *out, const char *path, tw_diag *diag);
void tw_t1_free(tw_t1 *t);

/* Checks that the object `config` has one of the listed values for each parameter, and no other fields, and meets the
   conditions. With `illegal` it need not meet them. TW_ERR_FORMAT: the check failed, or a condition cannot be
   evaluated. The message says that configuration `where` of file `path` is wrong. */
tw_status tw_t1_check(const tw_t1 *t, const json_t *config, bool illegal, const char *path, const char *where,
                      tw_diag *diag);

#endif
