/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a tokenizer with a reference file. */
#include "tilewright/tokenizer.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct golden {
    const tw_tokenizer *t;
    const char *path;
    size_t i; /* Index of the current case in the file, from 0. */
    tw_diag *diag;
} golden;

static tw_status broken(const golden *g, const char *field, const char *want) {
    return tw_fail_at(g->diag, TW_ERR_FORMAT, g->path, -1, "cases[%zu].%s is not %s", g->i, field, want);
}

/* Prints the text around byte `at`. */
static void excerpt(const char *s, size_t n, size_t at, char out[64]) {
    size_t from = at > 8 ? at - 8 : 0, k = 0;
    for (size_t i = from; i < n && k < 48; i++) {
        unsigned char c = (unsigned char)s[i];
        k += (size_t)snprintf(out + k, 64 - k, c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
    out[k] = 0;
}

/* Reads a field of a case that is a list of token ids. The caller frees the array. */
static tw_status read_ids(const golden *g, const json_t *c, const char *field, int32_t **ids, size_t *n) {
    const json_t *v = json_object_get(c, field);
    *ids = NULL;
    *n = json_array_size(v);
    if (!json_is_array(v)) return broken(g, field, "a list of ids");
    int32_t *out = malloc((*n + 1) * sizeof *out);
    if (!out) return tw_fail_memory(g->diag);
    for (size_t i = 0; i < *n; i++) {
        int64_t id;
        if (!tw_json_int(json_array_get(v, i), 0, INT32_MAX, &id)) {
            free(out);
            return broken(g, field, "a list of ids");
        }
        out[i] = (int32_t)id;
    }
    *ids = out;
    return TW_OK;
}

static tw_status check_ids(const golden *g, const json_t *c, const char *field, bool special) {
    const json_t *text = json_object_get(c, "text");
    int32_t *want = NULL, *got = NULL;
    size_t n, k, i = 0;
    tw_status s = read_ids(g, c, field, &want, &n);
    if (s != TW_OK) return s;
    s = tw_tokenizer_encode(g->t, json_string_value(text), json_string_length(text), special, &got, &k, g->diag);
    if (s == TW_OK) {
        while (i < n && i < k && want[i] == got[i]) i++;
        if (i < n || i < k) {
            char a[16] = "the end", b[16] = "the end";
            if (i < n) snprintf(a, sizeof a, "%d", want[i]);
            if (i < k) snprintf(b, sizeof b, "%d", got[i]);
            s = tw_fail_at(g->diag, TW_ERR_MISMATCH, g->path, -1, "cases[%zu].%s[%zu] is %s, not %s (%zu ids, not %zu)",
                           g->i, field, i, a, b, n, k);
        }
    }
    free(want);
    free(got);
    return s;
}

/* Checks that the same ids, one by one, give the same text. */
static tw_status check_stream(const golden *g, const int32_t *ids, size_t n, bool keep, const char *field,
                              const char *want, size_t size) {
    tw_token_stream *stream = NULL;
    tw_buf got = {0};
    const char *text;
    tw_status s = tw_token_stream_open(&stream, g->t, keep, g->diag);
    for (size_t i = 0; i <= n && s == TW_OK; i++) {
        s = i < n ? tw_token_stream_push(stream, ids[i], &text, g->diag)
                  : tw_token_stream_flush(stream, &text, g->diag);
        if (s == TW_OK && !tw_buf_add(&got, text, tw_token_stream_size(stream))) s = tw_fail_memory(g->diag);
    }
    if (s == TW_OK && (got.size != size || (size && memcmp(got.data, want, size) != 0)))
        s = tw_fail_at(g->diag, TW_ERR_MISMATCH, g->path, -1, "cases[%zu].%s: streaming gives another text", g->i,
                       field);
    tw_buf_free(&got);
    tw_token_stream_close(stream);
    return s;
}

static tw_status check_text(const golden *g, const json_t *c, const char *field, bool keep) {
    const json_t *v = json_object_get(c, field);
    if (!json_is_string(v)) return broken(g, field, "a string");
    const char *want = json_string_value(v);
    size_t n = json_string_length(v), k, i = 0, n_ids;
    int32_t *ids = NULL;
    char *got = NULL;
    tw_status s = read_ids(g, c, "ids", &ids, &n_ids);
    if (s == TW_OK) s = tw_tokenizer_decode(g->t, ids, n_ids, keep, &got, &k, g->diag);
    if (s == TW_OK) {
        while (i < n && i < k && want[i] == got[i]) i++;
        if (i < n || i < k) {
            char a[64], b[64];
            excerpt(want, n, i, a);
            excerpt(got, k, i, b);
            s = tw_fail_at(g->diag, TW_ERR_MISMATCH, g->path, -1, "cases[%zu].%s: byte %zu: \"%s\", not \"%s\"", g->i,
                           field, i, a, b);
        } else
            s = check_stream(g, ids, n_ids, keep, field, want, n);
    }
    free(ids);
    free(got);
    return s;
}

tw_status tw_tokenizer_check_golden(const tw_tokenizer *t, const char *golden_path, int64_t *cases, tw_diag *diag) {
    if (!t || !golden_path)
        return tw_fail(diag, TW_ERR_USAGE, "tw_tokenizer_check_golden needs a tokenizer and a path");
    json_t *root = NULL;
    golden g = {t, golden_path, 0, diag};
    if (cases) *cases = 0;
    tw_status s = tw_json_load(&root, golden_path, diag);
    const json_t *list = json_object_get(root, "cases");
    if (s == TW_OK && (!json_is_array(list) || !json_array_size(list)))
        s = tw_fail_at(diag, TW_ERR_FORMAT, golden_path, -1, "no list of cases");
    for (; s == TW_OK && g.i < json_array_size(list); g.i++) {
        const json_t *c = json_array_get(list, g.i);
        if (!json_is_string(json_object_get(c, "text"))) {
            s = broken(&g, "text", "a string");
            break;
        }
        s = check_ids(&g, c, "ids", false);
        if (s == TW_OK) s = check_ids(&g, c, "ids_with_special", true);
        if (s == TW_OK) s = check_text(&g, c, "decoded", false);
        if (s == TW_OK) s = check_text(&g, c, "decoded_keep_special", true);
        if (s == TW_OK && cases) ++*cases;
    }
    json_decref(root);
    return s;
}
