/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
/* Finds added tokens in text: the leftmost one, and the longest of those that begin there. The search goes on behind
   it. */
#include "tokenizer/tokenizer.h"

#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

static int by_pattern(const void *a, const void *b) {
    const tw_added_token *x = a, *y = b;
    size_t n = x->size < y->size ? x->size : y->size;
    int c = memcmp(x->pattern, y->pattern, n);
    return c ? c : (x->size > y->size) - (x->size < y->size);
}

int64_t tw_added_prepare(tw_added *a) {
    if (a->n) qsort(a->v, a->n, sizeof *a->v, by_pattern);
    for (size_t i = 0; i < a->n; i++)
        if (!a->v[i].size || (i && !by_pattern(&a->v[i - 1], &a->v[i]))) return (int64_t)i;
    size_t k = 0;
    for (int b = 0; b <= 256; b++) {
        while (k < a->n && (unsigned char)a->v[k].pattern[0] < b) k++;
        a->first[b] = k;
    }
    return -1;
}

/* Tells whether the token of content[0, n) that is found at byte i of the searched text was typed, at least in part. In
   normalized text the token's place before the normalizers is found by counting: the nth occurrence in one is the nth
   occurrence in the other. */
static bool was_typed(tw_typed *typed, const tw_added_token *t, const char *text, size_t i) {
    size_t at = i, n = t->size;
    if (typed->normalized) {
        const char *end = typed->text + typed->size, *goal = text + i;
        n = t->content_size;
        unsigned k = (unsigned)t->id % 8;
        if (typed->seen[k].token != t) {
            typed->seen[k].token = t;
            typed->seen[k].there = memmem(text, (size_t)(goal - text) + t->size, t->pattern, t->size);
            typed->seen[k].here = memmem(typed->text, typed->size, t->content, n);
        }
        while (typed->seen[k].here && typed->seen[k].there && typed->seen[k].there < goal) {
            const char *there = typed->seen[k].there + 1, *here = typed->seen[k].here + 1;
            typed->seen[k].there = memmem(there, (size_t)(goal - there) + t->size, t->pattern, t->size);
            typed->seen[k].here = memmem(here, (size_t)(end - here), t->content, n);
        }
        if (!typed->seen[k].here) return true;
        at = (size_t)(typed->seen[k].here - typed->text);
    }
    for (size_t k = 0; k < n; k++)
        if (typed->marks[at + k]) return true;
    return false;
}

/* Finds the longest added token that begins at byte i. NULL: there is none. Each byte of the text narrows the range of
   candidates. The tokens are sorted, so the candidates are neighbours, and a token that ends at this byte is the first
   of them. */
static const tw_added_token *longest(const tw_added *a, const char *text, size_t i, size_t end, tw_typed *typed) {
    const char *s = text + i;
    size_t size = end - i;
    size_t lo = a->first[(unsigned char)s[0]], hi = a->first[(unsigned char)s[0] + 1];
    const tw_added_token *best = NULL;
    for (size_t depth = 1; lo < hi; depth++) {
        if (a->v[lo].size == depth) {
            const tw_added_token *t = &a->v[lo++];
            if (!typed || !t->special || !was_typed(typed, t, text, i)) best = t;
        }
        if (depth == size || lo == hi) break;
        unsigned char c = (unsigned char)s[depth];
        for (int upper = 0; upper < 2; upper++) { /* First token with byte >= c, then with byte > c. */
            size_t x = lo, y = hi;
            while (x < y) {
                size_t mid = x + (y - x) / 2;
                unsigned char m = (unsigned char)a->v[mid].pattern[depth];
                if (upper ? m > c : m >= c)
                    y = mid;
                else
                    x = mid + 1;
            }
            if (upper)
                hi = x;
            else
                lo = x;
        }
    }
    return best;
}

static bool word_before(const char *s, size_t at) {
    size_t i = tw_utf8_before(s, at);
    return tw_class_has(&tw_class_word, tw_utf8_next(s, &i));
}

static bool word_at(const char *s, size_t at) {
    return tw_class_has(&tw_class_word, tw_utf8_next(s, &at));
}

static void push(tw_pieces *out, size_t base, size_t zero, size_t a, size_t b, int32_t id) {
    if (a >= b) return;
    size_t z = zero > a ? (zero < b ? zero : b) - a : 0;
    tw_pieces_push(out, (tw_piece){base + a, b - a, z, id, z > 0});
}

void tw_added_split(const tw_added *a, const char *text, size_t size, size_t base, size_t zero, tw_typed *typed,
                    tw_pieces *out) {
    size_t covered = 0, run = 0, run_end = 0; /* The white space that was walked over last. */
    for (size_t i = 0; a->n && i < size;) {
        const tw_added_token *t = longest(a, text, i, size, typed);
        if (!t) {
            i++;
            continue;
        }
        size_t start = i, end = i + t->size;
        i = end;
        if (t->single_word && ((start && word_before(text, start)) || (end < size && word_at(text, end)))) continue;
        if (t->lstrip) {
            /* White space in front belongs to the token, unless another token has it. */
            size_t s = start;
            while (s > covered) {
                size_t k = tw_utf8_before(text, s), next = k;
                if (!tw_is_space(tw_utf8_next(text, &next))) break;
                s = k;
            }
            start = s > covered ? s : covered;
        }
        if (t->rstrip) {
            if (end < run || end > run_end) {
                run = run_end = end;
                while (run_end < size) {
                    size_t k = run_end;
                    if (!tw_is_space(tw_utf8_next(text, &k))) break;
                    run_end = k;
                }
            }
            end = run_end;
        }
        push(out, base, zero, covered, start, -1);
        push(out, base, zero, start, end, t->id);
        covered = end;
    }
    push(out, base, zero, covered, size, -1);
}
