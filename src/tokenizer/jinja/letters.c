/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and cases of characters, as Python's str has them. */
#include "tokenizer/jinja/letters.h"

#include "tokenizer/jinja/jinja.h"

#include <utf8proc.h>

static bool in(utf8proc_category_t c, utf8proc_category_t first, utf8proc_category_t last) {
    return c >= first && c <= last;
}

static utf8proc_category_t category(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

bool jinja_is_space(uint32_t c) {
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jinja_is_printable(uint32_t c) {
    if (c < 0x7f) return c >= 0x20;
    utf8proc_category_t k = category(c);
    return k != UTF8PROC_CATEGORY_CN && !in(k, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO);
}

int jinja_decimal(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9' ? (int)c - '0' : -1;
    if (category(c) != UTF8PROC_CATEGORY_ND) return -1;
    uint32_t first = c; /* Digits come in runs of ten that begin with zero. */
    while (category(first - 1) == UTF8PROC_CATEGORY_ND) first--;
    return (int)((c - first) % 10);
}

static bool is_cased(uint32_t c) {
    utf8proc_category_t k = category(c);
    return in(k, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT) || tw_class_has(&jinja_class_lower, c) ||
           tw_class_has(&jinja_class_upper, c);
}

bool jinja_is(uint32_t c, jinja_class class) {
    utf8proc_category_t k = category(c);
    bool letter = in(k, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO),
         number = in(k, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
    switch (class) {
    case JC_ALPHA:
        return letter;
    case JC_DECIMAL:
        return k == UTF8PROC_CATEGORY_ND;
    case JC_DIGIT:
        return k == UTF8PROC_CATEGORY_ND || tw_class_has(&jinja_class_digit, c);
    case JC_NUMERIC:
        return number || tw_class_has(&jinja_class_numeric, c);
    case JC_ALNUM:
        return letter || number;
    case JC_WORD:
        return letter || number || c == '_';
    case JC_LOWER:
        return k == UTF8PROC_CATEGORY_LL || tw_class_has(&jinja_class_lower, c);
    case JC_UPPER:
        return k == UTF8PROC_CATEGORY_LU || tw_class_has(&jinja_class_upper, c);
    case JC_TITLE:
        return k == UTF8PROC_CATEGORY_LT;
    case JC_ID_START:
        return letter || k == UTF8PROC_CATEGORY_NL || c == '_';
    case JC_ID_CONTINUE:
        break;
    }
    return letter || k == UTF8PROC_CATEGORY_NL || c == '_' || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN ||
           k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC;
}

/* ---- cases ---- */

static const jinja_long_case *long_case(uint32_t c) {
    size_t lo = 0, hi = jinja_n_long_cases;
    if (c < 0xdf) return NULL;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (jinja_long_cases[mid].c < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < jinja_n_long_cases && jinja_long_cases[lo].c == c ? &jinja_long_cases[lo] : NULL;
}

/* Tells whether the rule for a final Greek sigma ignores a character. */
static bool is_ignorable(uint32_t c) {
    static const uint32_t marks[] = {0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                     0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    utf8proc_category_t k = category(c);
    if (k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
        k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK)
        return true;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (marks[i] == c) return true;
    return false;
}

/* Tells whether the sigma at byte `at` ends its word. */
static bool is_final(const jinja_string *s, size_t from, size_t to, size_t at) {
    size_t i = at;
    bool cased = false;
    while (i > from) {
        size_t k = i = tw_utf8_before(s->data, i);
        uint32_t c = tw_utf8_next(s->data, &k);
        if (is_ignorable(c)) continue;
        cased = is_cased(c);
        break;
    }
    if (!cased) return false;
    for (i = at + 2; i < to;) {
        uint32_t c = tw_utf8_next(s->data, &i);
        if (!is_ignorable(c)) return !is_cased(c);
    }
    return true;
}

typedef struct casing {
    jinja_env *env;
    jinja_buffer *out;
    const jinja_string *s;
    size_t from, to, at;
} casing;

static void put_lower(const casing *k, uint32_t c) {
    if (c == 0x3a3) {
        jinja_add_char(k->env, k->out, is_final(k->s, k->from, k->to, k->at) ? 0x3c2 : 0x3c3, k->s, k->at);
    } else if (c == 0x130) {
        jinja_add_char(k->env, k->out, 'i', k->s, k->at);
        jinja_add_char(k->env, k->out, 0x307, k->s, k->at);
    } else
        jinja_add_char(k->env, k->out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c), k->s, k->at);
}

static void put_upper(const casing *k, uint32_t c, bool title) {
    const jinja_long_case *l = long_case(c);
    const uint32_t *many = l ? title ? l->title : l->upper : NULL;
    for (int i = 0; many && i < 3 && many[i]; i++) jinja_add_char(k->env, k->out, many[i], k->s, k->at);
    if (!many)
        jinja_add_char(
            k->env, k->out,
            (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)c) : utf8proc_toupper((utf8proc_int32_t)c)), k->s,
            k->at);
}

static void put_folded(const casing *k, uint32_t c) {
    utf8proc_int32_t out[8];
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, out, 8, UTF8PROC_CASEFOLD, NULL);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++) jinja_add_char(k->env, k->out, (uint32_t)out[i], k->s, k->at);
}

bool jinja_add_cased(jinja_env *env, jinja_buffer *b, const jinja_string *s, size_t from, size_t to, jinja_case how) {
    casing k = {env, b, s, from, to, from};
    bool cased = false; /* The previous character is cased. */
    for (size_t i = from; i < to && !env->failed;) {
        k.at = i;
        uint32_t c = tw_utf8_next(s->data, &i);
        if (how == JINJA_FOLD)
            put_folded(&k, c);
        else if (how == JINJA_SWAP && !jinja_is(c, JC_UPPER) && !jinja_is(c, JC_LOWER))
            jinja_add_char(env, b, c, s, k.at);
        else if (how == JINJA_LOWER || (how == JINJA_TITLE && cased) || (how == JINJA_CAPITALIZE && k.at > from) ||
                 (how == JINJA_SWAP && jinja_is(c, JC_UPPER)))
            put_lower(&k, c);
        else
            put_upper(&k, c, how == JINJA_TITLE || how == JINJA_CAPITALIZE);
        if (how == JINJA_TITLE) cased = is_cased(c);
    }
    return !env->failed;
}

jinja_value jinja_cased(jinja_env *env, const jinja_string *s, jinja_case how) {
    jinja_buffer b = {0};
    jinja_add_cased(env, &b, s, 0, s->size, how);
    return jinja_with_safe(env, jinja_take(env, &b), s->safe);
}
