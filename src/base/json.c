/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/diag.h"
#include "base/file.h"

bool tw_json_lacks_memory(const json_error_t *e) {
    /* Jansson has no text for most failed allocations. */
    return json_error_code(e) == json_error_out_of_memory || !e->text[0];
}

tw_status tw_json_parse(json_t **out, const char *data, size_t size, const char *path, int64_t base, tw_diag *diag) {
    json_error_t e;
    *out = json_loadb(data ? data : "", size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (*out) return TW_OK;
    if (tw_json_lacks_memory(&e)) return tw_fail_memory(diag);
    if (base >= 0) return tw_fail_at(diag, TW_ERR_FORMAT, path, base + e.position, "invalid JSON: %s", e.text);
    return tw_fail_line(diag, TW_ERR_FORMAT, path, e.line, e.column, "invalid JSON: %s", e.text);
}

tw_status tw_json_load(json_t **out, const char *path, tw_diag *diag) {
    *out = NULL;
    tw_buf text = {0};
    tw_status s = tw_file_read(&text, path, diag);
    if (s == TW_OK) s = tw_json_parse(out, text.data, text.size, path, -1, diag);
    tw_buf_free(&text);
    return s;
}

static int append(const char *text, size_t size, void *context) {
    return tw_buf_add(context, text, size) ? 0 : -1;
}

bool tw_json_append(tw_buf *out, const json_t *o, size_t flags) {
    /* json_dump_callback does not look at the result for the name of a field. The buffer's failure sticks, so that it
       sees the one for the field's value. */
    return o && !json_dump_callback(o, append, out, flags | JSON_ENCODE_ANY);
}

char *tw_json_text(const json_t *o, size_t flags) {
    tw_buf b = {0};
    if (tw_json_append(&b, o, flags)) return b.data;
    tw_buf_free(&b);
    return NULL;
}

bool tw_json_int(const json_t *v, int64_t lo, int64_t hi, int64_t *out) {
    int64_t n;
    if (json_is_integer(v))
        n = json_integer_value(v);
    else if (json_is_real(v)) {
        double d = json_real_value(v);
        if (!(d >= -0x1p53 && d <= 0x1p53) || d != (double)(int64_t)d) return false;
        n = (int64_t)d;
    } else
        return false;
    if (n < lo || n > hi) return false;
    *out = n;
    return true;
}
