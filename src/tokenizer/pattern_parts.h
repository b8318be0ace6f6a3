/* SPDX-License-Identifier: Apache-2.0 */
/* What the files share that translate a pattern. Readers return false if they have refused it. */
#ifndef TW_TOKENIZER_PATTERN_PARTS_H
#define TW_TOKENIZER_PATTERN_PARTS_H

#include "base/diag.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

enum { TW_REGEX_MAX_DEPTH = 64 }; /* Depth of groups, and of classes. */

typedef struct tw_regex_translator {
    const char *s;
    size_t n, i;
    tw_buf *out;
    char *why;
    size_t why_size;
    bool bad;
    bool names, references; /* The pattern has named groups, or back references. */
    int groups, highest;    /* Number of capturing groups, and the highest reference. */
} tw_regex_translator;

static inline bool tw_regex_more(const tw_regex_translator *t) {
    return t->i < t->n;
}

static inline char tw_regex_peek(const tw_regex_translator *t, size_t ahead) {
    return t->i + ahead < t->n ? t->s[t->i + ahead] : 0;
}

static inline bool tw_regex_looks_at(const tw_regex_translator *t, const char *s) {
    size_t n = strlen(s);
    return t->n - t->i >= n && !memcmp(t->s + t->i, s, n);
}

/* pattern.c. Refuses the pattern for the first reason. Returns false. */
bool tw_regex_refuse(tw_regex_translator *t, const char *fmt, ...) TW_PRINTF(2, 3);

/* pattern_class.c */
/* A set of characters. `members` are in PCRE2's class syntax. `parts` are complete matchers of one character. */
typedef struct tw_regex_set {
    tw_buf members, parts;
    bool any; /* `members` is not empty. */
} tw_regex_set;
void tw_regex_set_free(tw_regex_set *s);
/* Writes the set's matcher. */
void tw_regex_set_emit(const tw_regex_set *s, bool negated, tw_buf *out);
/* Adds the class of a letter: w W d D s S h H. Outside brackets \w also has the superscripts and fractions of
   Latin-1. False: there is no such class. */
bool tw_regex_letter_class(char c, bool in_brackets, tw_regex_set *s);
/* Reads \p{…} or \P{…}, with i behind the letter. */
bool tw_regex_read_property(tw_regex_translator *t, bool negated, tw_regex_set *s);
/* Reads an escape that stands for one character, with i at the letter. False: it is another escape. */
bool tw_regex_read_point(tw_regex_translator *t, uint32_t *cp);
/* Reads a [...] class and writes its matcher. t->i is the index behind the bracket. */
bool tw_regex_read_class(tw_regex_translator *t, tw_buf *out, int depth);

#endif
