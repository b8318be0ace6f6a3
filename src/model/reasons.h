/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons for refusing a model: all of them are collected, one a line, before anything is returned. */
#ifndef TW_MODEL_REASONS_H
#define TW_MODEL_REASONS_H

#include "base/diag.h"
#include "base/json.h"

typedef struct tw_reasons {
    tw_diag *diag;    /* may be NULL; `count` and `status` still tell */
    const char *path; /* what the first reason is located at */
    tw_status status; /* of the first reason */
    int64_t count;
    bool no_memory; /* an allocation failed; whatever was found is then incomplete */
} tw_reasons;

/* Adds one line. Bytes that a terminal would act on are replaced. */
void tw_reason(tw_reasons *r, tw_status s, const char *fmt, ...) TW_PRINTF(3, 4);

/* TW_OK when there are none; the diagnostic is filled already, save for a failed allocation. */
tw_status tw_reasons_end(tw_reasons *r);

/* A JSON value on one short line: strings bare, the rest as JSON, long ones cut. Returns `out`. */
const char *tw_show_json(const json_t *v, char *out, size_t size);

#endif
