/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks a line as Python's textwrap does: first into chunks (white space, words, parts of words that end in a hyphen,
   dashes between words), then chunks into lines. */
#include "tokenizer/jinja/wrap.h"

#include "tokenizer/unicode.h"

#include <string.h>

typedef struct chunk {
    size_t from, to; /* Characters. */
} chunk;

typedef struct text {
    uint32_t *c;   /* Code points. */
    size_t *bytes; /* Where each character begins, and the end. */
    size_t n;
} text;

static bool is_blank(const text *t, size_t i) {
    uint32_t c = t->c[i];
    return (c >= 9 && c <= 13) || c == ' ';
}

static bool is_letter(const text *t, size_t i) {
    return i < t->n && jinja_is(t->c[i], JC_WORD) && !jinja_is(t->c[i], JC_DECIMAL);
}

/* Tells whether a dash may follow a character. */
static bool is_word_mark(const text *t, size_t i) {
    uint32_t c = t->c[i];
    return jinja_is(c, JC_WORD) || (c < 0x80 && c && strchr("!\"'&.,?", (int)c));
}

/* Finds the end of two or more hyphens at i that a word follows. 0: there is no dash. */
static size_t dash_end(const text *t, size_t i) {
    size_t k = i;
    if (!i || !is_word_mark(t, i - 1)) return 0;
    while (k < t->n && t->c[k] == '-') k++;
    return k - i >= 2 && k < t->n && jinja_is(t->c[k], JC_WORD) ? k : 0;
}

/* Tells whether a hyphen at i is inside a word that may be broken behind it. */
static bool breaks(const text *t, size_t i) {
    if (t->c[i] != '-' || i < 2 || !is_letter(t, i - 1)) return false;
    if (!is_letter(t, i - 2) && !(t->c[i - 2] == '-' && i >= 3 && is_letter(t, i - 3))) return false;
    if (!is_letter(t, i + 1)) return false;
    return is_letter(t, i + 2) || (i + 2 < t->n && t->c[i + 2] == '-' && is_letter(t, i + 3));
}

static size_t chunk_end(const text *t, size_t i, bool hyphens) {
    size_t k = i;
    if (is_blank(t, i)) {
        while (k < t->n && is_blank(t, k)) k++;
        return k;
    }
    if (hyphens && t->c[i] == '-' && dash_end(t, i)) return dash_end(t, i);
    for (k = i + 1; k < t->n && !is_blank(t, k); k++) {
        if (!hyphens) continue;
        if (breaks(t, k)) return k + 1;
        if (t->c[k] == '-' && dash_end(t, k)) return k;
    }
    return k;
}

static bool all_space(const text *t, chunk c) {
    for (size_t i = c.from; i < c.to; i++)
        if (!jinja_is_space(t->c[i])) return false;
    return true;
}

/* Computes how much of a chunk that fits no line goes into this one. */
static size_t long_part(const text *t, chunk c, size_t room, const jinja_wrapping *w) {
    size_t end = room;
    if (!w->break_hyphens || c.to - c.from <= room) return end;
    for (size_t k = room; k-- > 1;) {
        if (t->c[c.from + k] != '-') continue;
        for (size_t i = 0; i < k; i++)
            if (t->c[c.from + i] != '-') return k + 1;
        break;
    }
    return end;
}

static bool read_text(jinja_env *env, const jinja_string *s, text *t) {
    t->c = jinja_alloc(env, s->chars, sizeof *t->c);
    t->bytes = jinja_alloc(env, s->chars + 1, sizeof *t->bytes);
    if (!t->c || !t->bytes) return false;
    for (size_t i = 0; i < s->size; t->n++) {
        t->bytes[t->n] = i;
        t->c[t->n] = tw_utf8_next(s->data, &i);
    }
    t->bytes[t->n] = s->size;
    return true;
}

bool jinja_wrap(jinja_env *env, const jinja_node *at, jinja_buffer *out, const jinja_string *line,
                const jinja_wrapping *w, const jinja_string *between) {
    text t = {0};
    if (w->width <= 0) jinja_fail(env, at, "wordwrap: the width is not positive");
    if (env->failed || !line->size || !read_text(env, line, &t)) return !env->failed;
    chunk *chunks = jinja_alloc(env, t.n, sizeof *chunks), *now = jinja_alloc(env, t.n + 1, sizeof *now);
    size_t n = 0, i = 0, width = (size_t)w->width;
    bool any = false;
    for (size_t k = 0; chunks && k < t.n && jinja_step(env, at, 1); n++) {
        size_t end = chunk_end(&t, k, w->break_hyphens);
        chunks[n] = (chunk){k, end};
        k = end;
    }
    while (chunks && now && i < n && jinja_step(env, at, 1)) {
        size_t held = 0, length = 0;
        if (any && all_space(&t, chunks[i])) i++;
        for (; i < n && length + (chunks[i].to - chunks[i].from) <= width; i++) {
            now[held++] = chunks[i];
            length += chunks[i].to - chunks[i].from;
        }
        if (i < n && chunks[i].to - chunks[i].from > width) {
            if (w->break_words) {
                size_t part = long_part(&t, chunks[i], width - length, w);
                now[held++] = (chunk){chunks[i].from, chunks[i].from + part};
                chunks[i].from += part;
            } else if (!held)
                now[held++] = chunks[i++];
        }
        if (held && all_space(&t, now[held - 1])) held--;
        if (!held) continue;
        if (any) jinja_add_string(env, out, between);
        any = true;
        for (size_t k = 0; k < held; k++) jinja_add_bytes(env, out, line, t.bytes[now[k].from], t.bytes[now[k].to]);
    }
    return !env->failed;
}
