/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "engine/reasoning.h"

#include <string.h>

static const char opening[] = "<think>", closing[] = "</think>";

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool tw_split_is_open(const char *prompt) {
    size_t n = strlen(prompt);
    while (n && is_space(prompt[n - 1])) n--;
    return n >= sizeof opening - 1 && !strncmp(prompt + n - (sizeof opening - 1), opening, sizeof opening - 1);
}

bool tw_split_failed(const tw_split *s) {
    return s->held.failed || s->reasoning.failed || s->answer.failed;
}

void tw_split_free(tw_split *s) {
    tw_buf_free(&s->held);
    tw_buf_free(&s->reasoning);
    tw_buf_free(&s->answer);
}

static bool say(tw_split *s, const char *text) {
    s->said = true;
    return !s->emit || s->emit(s->user, s->state == TW_SPLIT_ANSWER ? TW_TURN_ANSWER : TW_TURN_REASONING, text);
}

/* Emits the first n held bytes and removes them. */
static bool let_out(tw_split *s, size_t n) {
    if (!n) return true;
    const bool answer = s->state == TW_SPLIT_ANSWER;
    tw_buf *whole = answer ? &s->answer : &s->reasoning;
    const size_t at = whole->size;
    if (!tw_buf_add(whole, s->held.data, n)) return false;
    tw_buf_drop(&s->held, n);
    if (!answer) s->begun = true;
    return say(s, whole->data + at);
}

static size_t spaces(const tw_split *s) {
    size_t n = 0;
    while (n < s->held.size && is_space(s->held.data[n])) n++;
    return n;
}

static void start(tw_split *s) {
    const size_t skip = spaces(s), left = s->held.size - skip, tag = sizeof opening - 1;
    if (strncmp(s->held.data + skip, opening, left < tag ? left : tag) != 0)
        s->state = TW_SPLIT_ANSWER;
    else if (left >= tag) {
        tw_buf_drop(&s->held, skip + tag);
        s->state = TW_SPLIT_REASONING;
    }
}

/* Returns how many bytes at the end may still become </think>, with the white space before it. */
static size_t may_close(const tw_split *s) {
    const size_t tag = sizeof closing - 1;
    size_t n = s->held.size < tag - 1 ? s->held.size : tag - 1;
    while (n && strncmp(s->held.data + s->held.size - n, closing, n) != 0) n--;
    while (n < s->held.size && is_space(s->held.data[s->held.size - n - 1])) n++;
    return n;
}

static bool reason(tw_split *s) {
    if (!s->begun) tw_buf_drop(&s->held, spaces(s));
    const char *end = s->held.size ? strstr(s->held.data, closing) : NULL;
    size_t n = end ? (size_t)(end - s->held.data) : s->held.size - may_close(s);
    while (end && n && is_space(s->held.data[n - 1])) n--;
    const size_t rest = end ? (size_t)(end - s->held.data) - n + sizeof closing - 1 : 0;
    if (!let_out(s, n)) return false;
    if (!end) return true;
    tw_buf_drop(&s->held, rest);
    s->state = TW_SPLIT_BETWEEN;
    return true;
}

static bool take(tw_split *s, const char *text) {
    if (!*text) return true;
    if (!tw_buf_str(&s->held, text)) return false;
    if (s->state == TW_SPLIT_START) start(s);
    if (s->state == TW_SPLIT_REASONING && !reason(s)) return false;
    if (s->state == TW_SPLIT_BETWEEN) {
        tw_buf_drop(&s->held, spaces(s));
        if (s->held.size) s->state = TW_SPLIT_ANSWER;
    }
    return s->state != TW_SPLIT_ANSWER || let_out(s, s->held.size);
}

bool tw_split_text(tw_split *s, const char *text) {
    s->said = false;
    if (!take(s, text)) return false;
    return s->said || say(s, "");
}

bool tw_split_end(tw_split *s) {
    if (s->state == TW_SPLIT_START) s->state = TW_SPLIT_ANSWER;
    if (s->state == TW_SPLIT_REASONING)
        while (s->held.size && is_space(s->held.data[s->held.size - 1])) s->held.data[--s->held.size] = 0;
    return s->state == TW_SPLIT_BETWEEN || let_out(s, s->held.size);
}
