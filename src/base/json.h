/* SPDX-License-Identifier: Apache-2.0 */
/* Jansson with located errors. */
#ifndef TW_BASE_JSON_H
#define TW_BASE_JSON_H

#include "base/buf.h"
#include "tilewright/base.h"

#include <jansson.h>

/* Tells whether Jansson failed to parse because memory ran out. */
bool tw_json_lacks_memory(const json_error_t *e);

/* Parses `size` bytes; `path` is only for the diagnostic. Duplicate keys and trailing text are errors. `base` is
   added to byte offsets (a header inside a larger file), or -1 to report line and column instead. */
tw_status tw_json_parse(json_t **out, const char *data, size_t size, const char *path, int64_t base, tw_diag *diag);
tw_status tw_json_load(json_t **out, const char *path, tw_diag *diag);

/* Appends a value of any type as JSON, with the flags of json_dumps. False: memory ran out, or `o` is NULL. json_dumps
   itself does not notice if its text cannot grow by the name of a field. */
bool tw_json_append(tw_buf *out, const json_t *o, size_t flags);
/* Makes such a text. NULL: memory ran out, or `o` is NULL. The caller frees it. */
char *tw_json_text(const json_t *o, size_t flags);

/* An integer in [lo, hi]; real numbers that are whole count (JSON does not tell 4 from 4.0). */
bool tw_json_int(const json_t *v, int64_t lo, int64_t hi, int64_t *out);

#endif
