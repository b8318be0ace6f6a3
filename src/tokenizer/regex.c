/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: literal text, or a regular expression that PCRE2 runs. Matches are found one after the other as the
   reference finds them: an empty match right behind another match is skipped, by one character. */
#define _GNU_SOURCE /* memmem */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "tokenizer/unicode.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps of a match before it is given up as hopeless backtracking, as in the reference's defaults. */
#define MATCH_STEPS 10000000u

struct tw_regex {
    pcre2_code *code; /* NULL: the pattern is literal. */
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    bool jit;
    size_t literal_size;
    char literal[];
};

static void *take(size_t n, void *context) {
    (void)context;
    return malloc(n);
}

static void drop(void *p, void *context) {
    (void)context;
    free(p);
}

bool tw_spans_push(tw_spans *s, size_t start, size_t end, bool match) {
    if (s->failed) return false;
    if (s->n == s->room) {
        size_t room = s->room ? s->room * 2 : 64;
        tw_span *v = realloc(s->v, room * sizeof *v);
        if (!v) return !(s->failed = true);
        s->v = v;
        s->room = room;
    }
    s->v[s->n++] = (tw_span){start, end, match};
    return true;
}

tw_status tw_regex_literal(tw_regex **out, const char *text, size_t size) {
    tw_regex *r = calloc(1, sizeof *r + size + 1);
    if (!r) return TW_ERR_MEMORY;
    memcpy(r->literal, text, size);
    r->literal_size = size;
    *out = r;
    return TW_OK;
}

bool tw_regex_is_literal(const tw_regex *r, const char **text, size_t *size) {
    if (r->code) return false;
    *text = r->literal;
    *size = r->literal_size;
    return true;
}

void tw_regex_free(tw_regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->limits);
    pcre2_general_context_free(r->memory);
    free(r);
}

tw_status tw_regex_compile(tw_regex **out, const char *pattern, size_t size, char *why, size_t why_size) {
    tw_buf text = {0};
    tw_status s = tw_regex_translate(&text, pattern, size, why, why_size);
    pcre2_compile_context *context = NULL;
    tw_regex *r = NULL;
    if (s != TW_OK) goto done;
    s = TW_ERR_MEMORY;
    r = calloc(1, sizeof *r + 1);
    if (!r || !(r->memory = pcre2_general_context_create(take, drop, NULL))) goto done;
    if (!(r->limits = pcre2_match_context_create(r->memory))) goto done;
    if (!(context = pcre2_compile_context_create(r->memory))) goto done;
    pcre2_set_match_limit(r->limits, MATCH_STEPS);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
    int error;
    PCRE2_SIZE at;
    r->code = pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.size,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C,
                            &error, &at, context);
    if (!r->code && error == PCRE2_ERROR_HEAP_FAILED) goto done;
    if (!r->code) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(error, message, sizeof message);
        snprintf(why, why_size, "%s (at byte %zu of %.200s)", (char *)message, (size_t)at, text.data ? text.data : "");
        s = TW_ERR_UNSUPPORTED;
        goto done;
    }
    /* If code cannot be compiled or must not run, matching is only slower. */
    r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    s = TW_OK;
done:
    pcre2_compile_context_free(context);
    tw_buf_free(&text);
    if (s != TW_OK) {
        tw_regex_free(r);
        r = NULL;
    }
    *out = r;
    return s;
}

void tw_scratch_free(tw_scratch *s) {
    pcre2_match_data_free(s->match);
    s->match = NULL;
}

/* Finds one match at or behind `from`. 1: found. 0: none. Negative: PCRE2's error. */
static int find(const tw_regex *r, tw_scratch *scratch, const char *text, size_t size, size_t from, size_t *start,
                size_t *end) {
    if (!r->code) {
        const char *p = r->literal_size ? memmem(text + from, size - from, r->literal, r->literal_size) : text + from;
        if (!p) return 0;
        *start = (size_t)(p - text);
        *end = *start + r->literal_size;
        return 1;
    }
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(r->code, (PCRE2_SPTR)text, size, from, options, scratch->match, r->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(r->code, (PCRE2_SPTR)text, size, from, options | PCRE2_NO_JIT, scratch->match, r->limits);
    if (rc == PCRE2_ERROR_NOMATCH) return 0;
    if (rc < 0) return rc;
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(scratch->match);
    *start = v[0];
    *end = v[1];
    return 1;
}

tw_status tw_regex_spans(const tw_regex *r, tw_scratch *scratch, const char *text, size_t size, tw_spans *out,
                         tw_diag *diag) {
    if (!size) return tw_spans_push(out, 0, 0, false) ? TW_OK : tw_fail_memory(diag);
    if (r->code && !scratch->match) {
        pcre2_general_context *memory = pcre2_general_context_create(take, drop, NULL);
        if (memory) scratch->match = pcre2_match_data_create(1, memory);
        pcre2_general_context_free(memory);
        if (!scratch->match) return tw_fail_memory(diag);
    }
    size_t from = 0, covered = 0, last = SIZE_MAX /* The end of the previous match. */;
    while (from <= size) {
        size_t start, end;
        int rc = find(r, scratch, text, size, from, &start, &end);
        if (rc == PCRE2_ERROR_NOMEMORY) return tw_fail_memory(diag);
        if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT)
            return tw_fail(diag, TW_ERR_UNSUPPORTED,
                           "the tokenizer's pattern backtracks without end on this text (byte %zu of a piece of %zu)",
                           from, size);
        if (rc < 0 || (rc > 0 && (start > end || start < covered)))
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "matching the tokenizer's pattern failed (PCRE2 error %d)", rc);
        if (!rc) break;
        if (start == end && end == last) {
            if (from == size) break;
            tw_utf8_next(text, &from);
            continue;
        }
        if (covered != start) tw_spans_push(out, covered, start, false);
        tw_spans_push(out, start, end, true);
        from = covered = last = end;
    }
    if (covered != size) tw_spans_push(out, covered, size, false);
    return out->failed ? tw_fail_memory(diag) : TW_OK;
}
