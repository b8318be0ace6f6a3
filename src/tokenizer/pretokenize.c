/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers. Each cuts the pieces that are text into smaller ones, and some rewrite the text. */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

bool tw_pieces_push(tw_pieces *p, tw_piece piece) {
    if (p->failed) return false;
    if (p->n == p->room) {
        size_t room = p->room ? p->room * 2 : 64;
        tw_piece *v = realloc(p->v, room * sizeof *v);
        if (!v) return !(p->failed = true);
        p->v = v;
        p->room = room;
    }
    p->v[p->n++] = piece;
    return true;
}

void tw_cutting_free(tw_cutting *c) {
    tw_buf_free(&c->text);
    tw_buf_free(&c->spare_text);
    free(c->pieces.v);
    free(c->spare_pieces.v);
    free(c->spans.v);
    *c = (tw_cutting){0};
}

/* Adds the part [a, b) of a piece, whose text begins at `base` of the current text. */
static void cut(tw_pieces *out, const tw_piece *p, size_t base, size_t a, size_t b) {
    if (a >= b) return;
    size_t zero = p->zero > a ? (p->zero < b ? p->zero : b) - a : 0;
    tw_pieces_push(out, (tw_piece){base + a, b - a, zero, -1, zero > 0});
}

/* Cuts along spans, and joins neighbours as the behavior says. Joining considers spans, not pieces. */
static void cut_spans(tw_pieces *out, const tw_piece *p, size_t base, tw_spans *s, tw_behavior behavior) {
    size_t first = out->n;
    switch (behavior) {
    case TW_REMOVED:
        for (size_t i = 0; i < s->n; i++)
            if (!s->v[i].match) cut(out, p, base, s->v[i].start, s->v[i].end);
        break;
    case TW_ISOLATED:
        for (size_t i = 0; i < s->n; i++) cut(out, p, base, s->v[i].start, s->v[i].end);
        break;
    case TW_CONTIGUOUS:
    case TW_MERGED_WITH_PREVIOUS: {
        size_t a = 0, b = 0;
        bool open = false, before = false;
        for (size_t i = 0; i < s->n; i++) {
            bool m = s->v[i].match, join = behavior == TW_CONTIGUOUS ? m == before : m && !before;
            if (!open || !join) {
                if (open) cut(out, p, base, a, b);
                a = s->v[i].start;
                open = true;
            }
            b = s->v[i].end;
            before = m;
        }
        if (open) cut(out, p, base, a, b);
        break;
    }
    case TW_MERGED_WITH_NEXT: { /* Like TW_MERGED_WITH_PREVIOUS, from the last span to the first. */
        size_t a = 0, b = 0;
        bool open = false, before = false;
        for (size_t i = s->n; i-- > 0;) {
            bool m = s->v[i].match;
            if (!open || !(m && !before)) {
                if (open) cut(out, p, base, a, b);
                b = s->v[i].end;
                open = true;
            }
            a = s->v[i].start;
            before = m;
        }
        if (open) cut(out, p, base, a, b);
        for (size_t i = first, k = out->n; i + 1 < k; i++, k--) {
            tw_piece x = out->v[i];
            out->v[i] = out->v[k - 1];
            out->v[k - 1] = x;
        }
        break;
    }
    }
}

/* ---- spans of characters of a class ---- */

typedef bool is_char(uint32_t cp);

static bool is_numeric(uint32_t cp) {
    return cp < 0x80 ? cp >= '0' && cp <= '9' : tw_class_has(&tw_class_numeric, cp);
}
static bool is_punctuation(uint32_t cp) {
    return tw_class_has(&tw_class_punctuation, cp);
}

/* Divides the text into spans. Each character of the class is a match of its own. */
static void char_spans(is_char *f, const char *text, size_t size, tw_spans *out) {
    size_t covered = 0;
    for (size_t i = 0; i < size;) {
        size_t at = i;
        if (!f(tw_utf8_next(text, &i))) continue;
        if (covered < at) tw_spans_push(out, covered, at, false);
        tw_spans_push(out, at, i, true);
        covered = i;
    }
    if (covered < size) tw_spans_push(out, covered, size, false);
}

static int whitespace_kind(uint32_t cp) {
    return tw_is_space(cp) ? 0 : tw_class_has(&tw_class_word, cp) ? 1 : 2;
}

/* Divides the text into runs of word characters, of other characters, and of white space. White space counts as a
   match, which is removed. */
static void word_spans(const char *text, size_t size, tw_spans *out) {
    size_t start = 0;
    int kind = -1;
    for (size_t i = 0; i <= size;) {
        size_t at = i;
        int k = -1;
        if (i < size)
            k = whitespace_kind(tw_utf8_next(text, &i));
        else
            i++;
        if (k == kind) continue;
        if (kind >= 0) tw_spans_push(out, start, at, kind == 0);
        start = at;
        kind = k;
    }
}

/* ---- the stages ---- */

/* A stage reads its piece's text, may write another one, and cuts. */
typedef struct stage {
    const tw_pretokenizer *p;
    tw_scratch *scratch;
    tw_cutting *c;
    tw_diag *diag;
} stage;

static bool rewrites(const tw_pretokenizer *p) {
    return p->kind == TW_PRE_METASPACE || (p->kind == TW_PRE_BYTE_LEVEL);
}

static tw_status spans_of(const stage *s, tw_regex *pattern, const char *text, size_t size) {
    s->c->spans.n = 0;
    return tw_regex_spans(pattern, s->scratch, text, size, &s->c->spans, s->diag);
}

/* Adds a space before the first word, cuts by the regex, and turns every byte into its printable character. */
static tw_status byte_level(const stage *s, const tw_piece *p, tw_pieces *out) {
    tw_cutting *c = s->c;
    const char *text = c->text.data + p->start;
    tw_piece whole = *p;
    tw_buf spaced = {0};
    tw_status st = TW_OK;
    if (s->p->add_prefix_space && text[0] != ' ') {
        tw_buf_add(&spaced, " ", 1);
        tw_buf_add(&spaced, text, p->size);
        if (spaced.failed) {
            st = tw_fail_memory(s->diag);
            goto done;
        }
        text = spaced.data;
        whole.size = spaced.size;
        if (whole.zero) whole.zero++;
    }
    c->spans.n = 0;
    if (s->p->pattern)
        st = tw_regex_spans(s->p->pattern, s->scratch, text, whole.size, &c->spans, s->diag);
    else if (!tw_spans_push(&c->spans, 0, whole.size, true))
        st = tw_fail_memory(s->diag);
    for (size_t i = 0; st == TW_OK && i < c->spans.n; i++) {
        size_t a = c->spans.v[i].start, b = c->spans.v[i].end, start = c->spare_text.size, zero = 0;
        if (a == b) continue;
        for (size_t k = a; k < b; k++) {
            char u[4];
            tw_buf_add(&c->spare_text, u, tw_utf8_put(u, tw_byte_char((uint8_t)text[k])));
            if (k < whole.zero) zero = c->spare_text.size - start;
        }
        bool first = s->p->pattern ? zero > 0 : whole.first;
        tw_pieces_push(out, (tw_piece){start, c->spare_text.size - start, zero, -1, first});
    }
done:
    tw_buf_free(&spaced);
    return st;
}

/* Replaces spaces, and may add a replacement in front. Each replacement begins a piece. */
static void metaspace(const stage *s, const tw_piece *p, tw_pieces *out) {
    tw_cutting *c = s->c;
    const char *text = c->text.data + p->start, *mark = s->p->replacement;
    size_t n = s->p->replacement_size, start = c->spare_text.size, zero = 0;
    bool marked = text[0] == ' ' || (p->size >= n && !memcmp(text, mark, n));
    if (!marked && (s->p->prepend == TW_PREPEND_ALWAYS || (s->p->prepend == TW_PREPEND_FIRST && p->first)))
        tw_buf_add(&c->spare_text, mark, n);
    for (size_t i = 0; i < p->size; i++) {
        if (text[i] == ' ')
            tw_buf_add(&c->spare_text, mark, n);
        else
            tw_buf_add(&c->spare_text, text + i, 1);
        if (i < p->zero) zero = c->spare_text.size - start;
    }
    if (c->spare_text.failed) return;
    size_t size = c->spare_text.size - start;
    if (!s->p->split) {
        tw_pieces_push(out, (tw_piece){start, size, zero, -1, p->first});
        return;
    }
    const char *now = c->spare_text.data + start;
    tw_piece whole = {start, size, zero, -1, p->first};
    c->spans.n = 0;
    size_t covered = 0;
    for (size_t i = 0; i + n <= size;) {
        if (memcmp(now + i, mark, n) != 0) {
            i++;
            continue;
        }
        if (covered < i) tw_spans_push(&c->spans, covered, i, false);
        tw_spans_push(&c->spans, i, i + n, true);
        covered = i += n;
    }
    if (covered < size) tw_spans_push(&c->spans, covered, size, false);
    cut_spans(out, &whole, start, &c->spans, TW_MERGED_WITH_NEXT);
}

/* Cuts `p` by characters of a class. */
static void by_class(const stage *s, const tw_piece *p, is_char *f, tw_behavior behavior, tw_pieces *out) {
    s->c->spans.n = 0;
    char_spans(f, s->c->text.data + p->start, p->size, &s->c->spans);
    cut_spans(out, p, p->start, &s->c->spans, behavior);
}

static tw_status bert(const stage *s, const tw_piece *p, tw_pieces *out) {
    tw_pieces words = {0};
    by_class(s, p, tw_is_space, TW_REMOVED, &words);
    for (size_t i = 0; i < words.n; i++) by_class(s, &words.v[i], is_punctuation, TW_ISOLATED, out);
    bool failed = words.failed;
    free(words.v);
    return failed ? tw_fail_memory(s->diag) : TW_OK;
}

static tw_status cut_piece(const stage *s, const tw_piece *p, tw_pieces *out) {
    const tw_pretokenizer *q = s->p;
    tw_cutting *c = s->c;
    const char *text = c->text.data + p->start;
    tw_status st = TW_OK;
    switch (q->kind) {
    case TW_PRE_SPLIT:
        st = spans_of(s, q->pattern, text, p->size);
        if (q->invert)
            for (size_t i = 0; i < c->spans.n; i++) c->spans.v[i].match = !c->spans.v[i].match;
        if (st == TW_OK) cut_spans(out, p, p->start, &c->spans, q->behavior);
        break;
    case TW_PRE_BYTE_LEVEL:
        st = byte_level(s, p, out);
        break;
    case TW_PRE_DIGITS:
        by_class(s, p, is_numeric, q->individual ? TW_ISOLATED : TW_CONTIGUOUS, out);
        break;
    case TW_PRE_BERT:
        st = bert(s, p, out);
        break;
    case TW_PRE_METASPACE:
        metaspace(s, p, out);
        break;
    case TW_PRE_WHITESPACE:
        c->spans.n = 0;
        word_spans(text, p->size, &c->spans);
        cut_spans(out, p, p->start, &c->spans, TW_REMOVED);
        break;
    case TW_PRE_WHITESPACE_SPLIT:
        by_class(s, p, tw_is_space, TW_REMOVED, out);
        break;
    case TW_PRE_PUNCTUATION:
        by_class(s, p, is_punctuation, q->behavior, out);
        break;
    }
    return st;
}

tw_status tw_pretokenize(const tw_pretokenizer *chain, int n, tw_scratch *scratch, tw_cutting *c, tw_diag *diag) {
    size_t size = c->text.size;
    for (const tw_pretokenizer *p = chain; p < chain + n; p++) {
        stage s = {p, scratch, c, diag};
        c->spare_pieces.n = 0;
        tw_buf_clear(&c->spare_text);
        for (size_t i = 0; i < c->pieces.n; i++) {
            const tw_piece *piece = &c->pieces.v[i];
            if (piece->id >= 0) {
                tw_pieces_push(&c->spare_pieces, *piece);
                continue;
            }
            tw_status st = cut_piece(&s, piece, &c->spare_pieces);
            if (st != TW_OK) return st;
            if (tw_grown_wild(size, c->spare_text.size))
                return tw_fail(diag, TW_ERR_UNSUPPORTED, "the tokenizer's pre-tokenizers make %zu bytes of %zu",
                               c->spare_text.size, size);
        }
        if (c->spare_pieces.failed || c->spans.failed || c->spare_text.failed) return tw_fail_memory(diag);
        tw_pieces x = c->pieces;
        c->pieces = c->spare_pieces;
        c->spare_pieces = x;
        if (rewrites(p)) {
            tw_buf t = c->text;
            c->text = c->spare_text;
            c->spare_text = t;
        }
    }
    return TW_OK;
}
