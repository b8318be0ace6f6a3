/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a kernel's text, and what they stand for: words, numbers, types and strings. */
#include "ir/parse_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tw_ir_fail_expected(tw_ir_parser *p, const char *what) {
    const tw_ir_token t = p->now;
    if (t.kind == TW_IR_NEWLINE)
        TW_IR_FAIL(p, t, "expected %s, not the end of the line", what);
    else if (t.kind == TW_IR_END)
        TW_IR_FAIL(p, t, "expected %s, not the end of the text", what);
    else
        TW_IR_FAIL(p, t, "expected %s, not '%.*s'", what, TW_IR_SHOWN(t));
}

void tw_ir_fail_memory(tw_ir_parser *p) {
    if (p->status == TW_OK) p->status = tw_fail_memory(p->diag);
}

/* -- tokens */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool tw_ir_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static void skip_word(tw_ir_parser *p) {
    while (p->at < p->end && (is_letter(*p->at) || tw_ir_is_digit(*p->at))) p->at++;
}

static tw_ir_token_kind scan(tw_ir_parser *p) {
    char c = *p->at++;
    if (c == '\n') return TW_IR_NEWLINE;
    if (is_letter(c)) {
        skip_word(p);
        return TW_IR_WORD;
    }
    if (tw_ir_is_digit(c) || c == '-') {
        skip_word(p);
        return TW_IR_NUMBER;
    }
    if (c == '%' || c == '$' || c == '@') {
        skip_word(p);
        if (c == '@') return TW_IR_AT;
        if (p->at < p->end && *p->at == '.') {
            p->at++;
            skip_word(p);
        }
        return TW_IR_VALUE;
    }
    if (c == '"') {
        while (p->at < p->end && *p->at != '"' && *p->at != '\n') p->at += *p->at == '\\' && p->end - p->at > 1 ? 2 : 1;
        if (p->at >= p->end || *p->at != '"') return TW_IR_WRONG;
        p->at++;
        return TW_IR_STRING;
    }
    return memchr("{}(),=:", c, 7) ? TW_IR_PUNCTUATION : TW_IR_WRONG;
}

void tw_ir_next_token(tw_ir_parser *p) {
    if (p->status != TW_OK) {
        p->now.kind = TW_IR_END;
        return;
    }
    if (p->now.kind == TW_IR_NEWLINE) {
        p->line++;
        p->line_start = p->at;
    }
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')) p->at++;
    if (p->at < p->end && *p->at == '#')
        while (p->at < p->end && *p->at != '\n') p->at++;
    p->now = (tw_ir_token){.kind = TW_IR_END, .at = p->at, .line = p->line, .column = (int)(p->at - p->line_start) + 1};
    if (p->at == p->end) return;
    p->now.kind = scan(p);
    p->now.n = (size_t)(p->at - p->now.at);
    if (p->now.kind == TW_IR_WRONG) {
        TW_IR_FAIL(p, p->now,
                   *p->now.at == '"' ? "a string that does not end on its line"
                                     : "a character that means nothing here");
        p->now.kind = TW_IR_END;
    }
}

bool tw_ir_token_is(const tw_ir_token *t, const char *word) {
    return t->n == strlen(word) && !memcmp(t->at, word, t->n) &&
           (t->kind == TW_IR_WORD || t->kind == TW_IR_PUNCTUATION);
}

bool tw_ir_accept(tw_ir_parser *p, const char *word) {
    if (p->status != TW_OK || !tw_ir_token_is(&p->now, word)) return false;
    tw_ir_next_token(p);
    return true;
}

void tw_ir_expect(tw_ir_parser *p, const char *word) {
    if (tw_ir_accept(p, word)) return;
    char what[32];
    snprintf(what, sizeof what, "'%.20s'", word);
    tw_ir_fail_expected(p, what);
}

void tw_ir_skip_lines(tw_ir_parser *p) {
    while (p->now.kind == TW_IR_NEWLINE) tw_ir_next_token(p);
}

void tw_ir_end_of_line(tw_ir_parser *p) {
    if (p->now.kind != TW_IR_NEWLINE) tw_ir_fail_expected(p, "the end of the line");
    tw_ir_skip_lines(p);
}

tw_ir_word tw_ir_word_of(const tw_ir_token *t) {
    tw_ir_word w = {""};
    if (t->n < sizeof w.text) memcpy(w.text, t->at, t->n);
    return w;
}

/* -- numbers, types and strings */

bool tw_ir_take_number(tw_ir_parser *p, uint64_t *magnitude, bool *negative, bool *hex) {
    const tw_ir_token t = p->now;
    if (t.kind != TW_IR_NUMBER) {
        tw_ir_fail_expected(p, "a number");
        return false;
    }
    const char *s = t.at, *end = t.at + t.n;
    *negative = *s == '-';
    if (*negative) s++;
    *hex = end - s > 2 && s[0] == '0' && s[1] == 'x';
    if (*hex) s += 2;
    *magnitude = 0;
    bool good = s < end;
    for (; s < end && good; s++) {
        uint64_t base = *hex ? 16 : 10;
        int digit = tw_ir_is_digit(*s) ? *s - '0' : *hex && *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
        good = digit >= 0 && *magnitude <= (UINT64_MAX - (uint64_t)digit) / base;
        *magnitude = *magnitude * base + (uint64_t)digit;
    }
    if (!good) {
        TW_IR_FAIL(p, t, "'%.*s' is no number of 64 bits, like 12, -3 or 0x1f", TW_IR_SHOWN(t));
        return false;
    }
    tw_ir_next_token(p);
    return true;
}

int64_t tw_ir_take_integer(tw_ir_parser *p, int64_t least, int64_t most) {
    const tw_ir_token t = p->now;
    uint64_t magnitude;
    bool negative, hex;
    if (!tw_ir_take_number(p, &magnitude, &negative, &hex)) return least;
    if (magnitude <= INT64_MAX) {
        int64_t x = negative ? -(int64_t)magnitude : (int64_t)magnitude;
        if (x >= least && x <= most) return x;
    }
    TW_IR_FAIL(p, t, "%.*s is not within %" PRId64 " to %" PRId64, TW_IR_SHOWN(t), least, most);
    return least;
}

tw_type tw_ir_take_type(tw_ir_parser *p) {
    const tw_ir_token t = p->now;
    if (t.kind == TW_IR_WORD) {
        tw_ir_word w = tw_ir_word_of(&t);
        for (int i = TW_T_none + 1; i < TW_T_COUNT; i++)
            if (i != TW_T_i8 && i != TW_T_e4m3 && !strcmp(w.text, tw_type_name((tw_type)i))) {
                tw_ir_next_token(p);
                return (tw_type)i;
            }
    }
    tw_ir_fail_expected(p, "a type: pred, i16, i32, i64, f16, bf16, f16x2, bf16x2, f32 or f64");
    return TW_T_i32;
}

static int hex_digit(char c) {
    return tw_ir_is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *tw_ir_take_string(tw_ir_parser *p) {
    const tw_ir_token t = p->now;
    if (t.kind != TW_IR_STRING) {
        tw_ir_fail_expected(p, "a string in quotes");
        return NULL;
    }
    char *out = tw_arena_alloc(&p->k->arena, t.n), *to = out;
    if (!out) {
        tw_ir_fail_memory(p);
        return NULL;
    }
    const char *s = t.at + 1, *end = t.at + t.n - 1;
    while (s < end) {
        if (*s != '\\') {
            *to++ = *s++;
        } else if (end - s >= 2 && (s[1] == '"' || s[1] == '\\')) {
            *to++ = s[1];
            s += 2;
        } else {
            int high = end - s >= 4 && s[1] == 'x' ? hex_digit(s[2]) : -1, low = high >= 0 ? hex_digit(s[3]) : -1;
            if (low < 0 || !(high | low)) {
                TW_IR_FAIL(p, t, "in a string, a backslash is followed by \\, \" or x and two hexadecimal digits");
                return NULL;
            }
            *to++ = (char)(high * 16 + low);
            s += 4;
        }
        if (!to[-1]) {
            TW_IR_FAIL(p, t, "a string cannot hold a zero byte");
            return NULL;
        }
    }
    tw_ir_next_token(p);
    return out;
}
