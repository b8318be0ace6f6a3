/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers. Each rewrites the whole text. Each also keeps `zero`, the number of bytes at the text's front that come
   from the input's first character. The Metaspace pre-tokenizer treats the input's start differently. */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Returns a byte's character in byte-level vocabularies. Printable bytes of Latin-1 stand for themselves. The others
   follow in order from U+0100. */
uint32_t tw_byte_char(uint8_t b) {
    if ((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae) return b;
    if (b <= 0x20) return 0x100u + b;
    if (b <= 0xa0) return 0x100u + 33 + (b - 0x7fu);
    return 0x100u + 67; /* 0xad */
}

int tw_char_byte(uint32_t cp) {
    if (cp < 0x100) return tw_byte_char((uint8_t)cp) == cp ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    if (cp <= 0x142) return (int)(cp - 0x121 + 0x7f);
    return cp == 0x143 ? 0xad : -1;
}

static void put(tw_buf *b, uint32_t cp) {
    char s[4];
    tw_buf_add(b, s, tw_utf8_put(s, cp));
}

/* ---- rewriting character by character ---- */

/* Appends what one character becomes. */
typedef void rewrite(const tw_normalizer *n, uint32_t cp, tw_buf *out);

static void clean(const tw_normalizer *n, uint32_t cp, tw_buf *out) {
    (void)n;
    if (!cp || tw_class_has(&tw_class_control, cp)) return;
    put(out, tw_is_space(cp) ? ' ' : cp);
}

static void space_chinese(const tw_normalizer *n, uint32_t cp, tw_buf *out) {
    (void)n;
    bool c = tw_is_chinese(cp);
    if (c) put(out, ' ');
    put(out, cp);
    if (c) put(out, ' ');
}

static void drop_nonspacing(const tw_normalizer *n, uint32_t cp, tw_buf *out) {
    (void)n;
    if (cp < 0x300 || !tw_class_has(&tw_class_nonspacing, cp)) put(out, cp);
}

static void drop_marks(const tw_normalizer *n, uint32_t cp, tw_buf *out) {
    (void)n;
    if (cp < 0x300 || !tw_class_has(&tw_class_mark, cp)) put(out, cp);
}

static void lower(const tw_normalizer *n, uint32_t cp, tw_buf *out) {
    (void)n;
    uint32_t l[2];
    for (int i = 0, k = tw_lowercase(cp, l); i < k; i++) put(out, l[i]);
}

static void nmt(const tw_normalizer *n, uint32_t cp, tw_buf *out) {
    (void)n;
    if ((cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f || cp == 0x8f || cp == 0x9f)
        return;
    bool space = cp == 9 || cp == 0xa || cp == 0xc || cp == 0xd || cp == 0x1680 || (cp >= 0x200b && cp <= 0x200f) ||
                 cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xfeff || cp == 0xfffd;
    put(out, space ? ' ' : cp);
}

static void each(const tw_normalizer *n, rewrite *f, const tw_text *in, tw_text *out) {
    for (size_t i = 0; i < in->b.size;) {
        size_t at = i;
        f(n, tw_utf8_next(in->b.data, &i), &out->b);
        if (at < in->zero) out->zero = out->b.size;
    }
}

static void byte_level(const tw_text *in, tw_text *out) {
    for (size_t i = 0; i < in->b.size; i++) {
        put(&out->b, tw_byte_char((uint8_t)in->b.data[i]));
        if (i < in->zero) out->zero = out->b.size;
    }
}

/* ---- Unicode's normalization forms ---- */

#define EXTRA 0x40000000 /* Marks code points of a decomposition except its first. */

/* Returns the combining class. 0 for characters that the reference does not know. */
static int combining(int32_t cp) {
    cp &= ~EXTRA;
    if (cp < 0x300) return 0;
    int c = utf8proc_get_property(cp)->combining_class;
    return c && tw_class_has(&tw_class_opaque, (uint32_t)cp) ? 0 : c;
}

/* Sorts marks between starters by class, stably: the canonical order. Long runs, which only hostile text has, are
   sorted by counting, so that the time stays linear. */
static bool order(int32_t *cp, size_t n) {
    for (size_t i = 0; i < n;) {
        if (!combining(cp[i])) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < n && combining(cp[end])) end++;
        if (end - i < 32)
            for (size_t k = i + 1; k < end; k++) {
                int32_t c = cp[k];
                size_t to = k;
                for (; to > i && combining(cp[to - 1]) > combining(c); to--) cp[to] = cp[to - 1];
                cp[to] = c;
            }
        else {
            size_t at[257] = {0};
            int32_t *copy = malloc((end - i) * sizeof *copy);
            if (!copy) return false;
            memcpy(copy, cp + i, (end - i) * sizeof *copy);
            for (size_t k = i; k < end; k++) at[combining(cp[k]) + 1]++;
            for (int c = 0; c < 256; c++) at[c + 1] += at[c];
            for (size_t k = 0; k < end - i; k++) cp[i + at[combining(copy[k])]++] = copy[k];
            free(copy);
        }
        i = end;
    }
    return true;
}

/* Decomposes a character fully, into at most 18 code points (U+FDFA). */
static size_t decompose(int32_t cp, bool compatible, int32_t out[32]) {
    if (cp < 0x80 || (cp >= 0x3000 && tw_class_has(&tw_class_opaque, (uint32_t)cp))) {
        out[0] = cp;
        return 1;
    }
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(
        cp, out, 32, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0), &boundary);
    if (n > 0 && n <= 32) return (size_t)n;
    out[0] = cp;
    return 1;
}

/* Computes how many code points the first n compose to. */
static bool composed_size(const int32_t *cp, size_t *n) {
    if (!*n) return true;
    int32_t *copy = malloc(*n * sizeof *copy);
    if (!copy) return false;
    memcpy(copy, cp, *n * sizeof *copy);
    utf8proc_ssize_t k = utf8proc_normalize_utf32(copy, (utf8proc_ssize_t)*n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (k >= 0 && (size_t)k <= *n) *n = (size_t)k;
    free(copy);
    return true;
}

static tw_status normal_form(bool composed, bool compatible, const tw_text *in, tw_text *out, tw_diag *diag) {
    /* Text below U+0300 is composed already. ASCII has every form already. */
    size_t i = 0;
    while (i < in->b.size && (unsigned char)in->b.data[i] < (composed && !compatible ? 0xcc : 0x80)) i++;
    if (i == in->b.size) {
        tw_buf_add(&out->b, in->b.data, in->b.size);
        out->zero = in->zero;
        return TW_OK;
    }
    size_t n = 0, room = in->b.size + 32, zero = 0, leading = 0;
    int32_t *cp = malloc(room * sizeof *cp);
    if (!cp) return tw_fail_memory(diag);
    tw_status s = TW_OK;
    for (i = 0; i < in->b.size;) {
        size_t at = i;
        if (room - n < 32) {
            int32_t *p = realloc(cp, room * 2 * sizeof *cp);
            if (!p) {
                s = tw_fail_memory(diag);
                goto done;
            }
            cp = p;
            room *= 2;
        }
        size_t k = decompose((int32_t)tw_utf8_next(in->b.data, &i), compatible, cp + n);
        for (size_t x = 1; x < k; x++) cp[n + x] |= EXTRA;
        n += k;
        leading += at < in->zero;
    }
    if (!order(cp, n)) {
        s = tw_fail_memory(diag);
        goto done;
    }
    /* After ordering, every first code point takes the place of the next character, whichever it came from. */
    while (in->zero && zero < n && (leading || cp[zero] & EXTRA)) leading -= !(cp[zero++] & EXTRA);
    for (size_t k = 0; k < n; k++) cp[k] &= ~EXTRA;
    if (composed) {
        if (!composed_size(cp, &zero)) {
            s = tw_fail_memory(diag);
            goto done;
        }
        utf8proc_ssize_t k = utf8proc_normalize_utf32(cp, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (k >= 0 && (size_t)k <= n) n = (size_t)k;
    }
    for (size_t k = 0; k < n; k++) {
        put(&out->b, (uint32_t)cp[k]);
        if (k < zero) out->zero = out->b.size;
    }
done:
    free(cp);
    return s;
}

/* ---- the others ---- */

static void strip(const tw_normalizer *n, const tw_text *in, tw_text *out) {
    size_t from = 0, to = in->b.size;
    while (n->left && from < to) {
        size_t i = from;
        if (!tw_is_space(tw_utf8_next(in->b.data, &i))) break;
        from = i;
    }
    while (n->right && to > from) {
        size_t i = tw_utf8_before(in->b.data, to), k = i;
        if (!tw_is_space(tw_utf8_next(in->b.data, &k))) break;
        to = i;
    }
    if (to > from) tw_buf_add(&out->b, in->b.data + from, to - from);
    out->zero = in->zero > from ? in->zero - from : 0;
    if (out->zero > out->b.size) out->zero = out->b.size;
}

/* Replaces each match of the pattern by the text. out->zero follows: the replacement counts as coming from the match's
   last character. */
static tw_status replace(const tw_normalizer *n, tw_scratch *scratch, const tw_text *in, tw_text *out, tw_diag *diag) {
    tw_spans spans = {0};
    tw_status s = tw_regex_spans(n->pattern, scratch, in->b.data, in->b.size, &spans, diag);
    for (size_t i = 0; s == TW_OK && i < spans.n; i++) {
        const tw_span *p = &spans.v[i];
        size_t before = out->b.size;
        if (p->match)
            tw_buf_add(&out->b, n->text, n->text_size);
        else
            tw_buf_add(&out->b, in->b.data + p->start, p->end - p->start);
        if (out->b.failed || out->zero != before) continue;
        if (!p->match)
            out->zero += in->zero <= p->start ? 0 : (in->zero < p->end ? in->zero : p->end) - p->start;
        else {
            size_t last = p->end ? tw_utf8_before(in->b.data, p->end) : 0;
            if (last < in->zero || !p->end) out->zero = out->b.size;
        }
    }
    free(spans.v);
    return s;
}

static void prepend(const tw_normalizer *n, const tw_text *in, tw_text *out) {
    if (in->b.size) tw_buf_add(&out->b, n->text, n->text_size);
    tw_buf_add(&out->b, in->b.data, in->b.size);
    out->zero = in->zero ? in->zero + n->text_size : 0;
}

static void turn(tw_text *t, tw_text *spare) {
    tw_text x = *t;
    *t = *spare;
    *spare = x;
    tw_buf_clear(&spare->b);
    spare->zero = 0;
}

tw_status tw_normalize(const tw_normalizer *chain, int n, tw_scratch *scratch, tw_text *t, tw_text *spare,
                       tw_diag *diag) {
    tw_status s = TW_OK;
    size_t size = t->b.size;
    tw_buf_clear(&spare->b);
    spare->zero = 0;
    for (const tw_normalizer *p = chain; p < chain + n && s == TW_OK; p++) {
        if (!t->b.size) break; /* An empty text stays empty. */
        switch (p->kind) {
        case TW_NORM_BERT:
            if (p->clean) {
                each(p, clean, t, spare);
                turn(t, spare);
            }
            if (p->chinese) {
                each(p, space_chinese, t, spare);
                turn(t, spare);
            }
            if (p->accents && t->b.size) {
                s = normal_form(false, false, t, spare, diag);
                turn(t, spare);
                each(p, drop_nonspacing, t, spare);
                turn(t, spare);
            }
            if (p->lowercase) {
                each(p, lower, t, spare);
                turn(t, spare);
            }
            if (spare->b.failed || t->b.failed) return tw_fail_memory(diag);
            continue;
        case TW_NORM_STRIP:
            strip(p, t, spare);
            break;
        case TW_NORM_STRIP_ACCENTS:
            each(p, drop_marks, t, spare);
            break;
        case TW_NORM_NFC:
            s = normal_form(true, false, t, spare, diag);
            break;
        case TW_NORM_NFD:
            s = normal_form(false, false, t, spare, diag);
            break;
        case TW_NORM_NFKC:
            s = normal_form(true, true, t, spare, diag);
            break;
        case TW_NORM_NFKD:
            s = normal_form(false, true, t, spare, diag);
            break;
        case TW_NORM_LOWERCASE:
            each(p, lower, t, spare);
            break;
        case TW_NORM_NMT:
            each(p, nmt, t, spare);
            break;
        case TW_NORM_REPLACE:
            s = replace(p, scratch, t, spare, diag);
            break;
        case TW_NORM_PREPEND:
            prepend(p, t, spare);
            break;
        case TW_NORM_BYTE_LEVEL:
            byte_level(t, spare);
            break;
        }
        turn(t, spare);
        if (t->b.failed || spare->b.failed) return tw_fail_memory(diag);
        if (s == TW_OK && tw_grown_wild(size, t->b.size))
            s = tw_fail(diag, TW_ERR_UNSUPPORTED, "the tokenizer's normalizers make %zu bytes of %zu", t->b.size, size);
    }
    return s;
}
