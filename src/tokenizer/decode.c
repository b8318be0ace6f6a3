/* SPDX-License-Identifier: Apache-2.0 */
/* Turns tokens into text. The decoders of tokenizer.json form a pipeline of stages. Fuse and ByteLevel join all tokens
   into one: a stage before them gets whole tokens, and a stage after them gets the chunks of a single token, which ends
   with the text. A stage passes on only what no later token can change, so that text can be streamed. Decoding without
   streaming feeds all tokens to the same pipeline. */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

typedef struct stage {
    const tw_decoder *d;
    bool open;      /* The stage takes one open token. */
    size_t tokens;  /* Tokens taken so far. */
    tw_buf held;    /* Input that is not decided yet. */
    size_t run;     /* BYTE_FALLBACK: bytes of the current run. STRIP: content characters held back at the end. */
    size_t dropped; /* STRIP: content characters dropped at the front. */
    bool inside;    /* STRIP: the front is past. */
    bool broken;    /* BYTE_FALLBACK: the run can no longer become UTF-8. */
} stage;

struct tw_token_stream {
    const tw_tokenizer *t;
    bool keep_special;
    tw_buf out;
    tw_scratch scratch;
    tw_diag *diag; /* The current call's diagnostic. */
    size_t size;   /* Bytes of the pieces that went in. */
    int n;
    stage stages[];
};

static tw_status feed(tw_token_stream *s, int k, const char *text, size_t n);

static tw_status memory(tw_token_stream *s) {
    return tw_fail_memory(s->diag);
}

/* ---- UTF-8 that arrives in pieces ---- */

/* Counts the bytes of the sequence that begins at p[0], valid up to byte n. > 0: complete. 0: not complete yet. < 0:
   wrong after -r bytes, for which one U+FFFD stands. */
static int sequence(const unsigned char *p, size_t n) {
    unsigned char b = p[0];
    if (b < 0x80) return 1;
    int size = b >= 0xc2 && b <= 0xdf ? 2 : (b & 0xf0) == 0xe0 ? 3 : b >= 0xf0 && b <= 0xf4 ? 4 : 0;
    if (!size) return -1;
    unsigned char lo = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80, hi = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < size; i++, lo = 0x80, hi = 0xbf) {
        if ((size_t)i == n) return 0;
        if (p[i] < lo || p[i] > hi) return -i;
    }
    return size;
}

/* Passes on the decided part of held bytes: whole characters, and U+FFFD for bytes that cannot become one. */
static tw_status flow_bytes(tw_token_stream *s, int k, bool last) {
    stage *g = &s->stages[k];
    tw_buf text = {0};
    size_t i = 0;
    while (i < g->held.size) {
        int r = sequence((const unsigned char *)g->held.data + i, g->held.size - i);
        if (!r && !last) break;
        if (r > 0)
            tw_buf_add(&text, g->held.data + i, (size_t)r);
        else
            tw_buf_add(&text, replacement, 3);
        i = !r ? g->held.size : i + (size_t)(r > 0 ? r : -r);
    }
    if (i) {
        memmove(g->held.data, g->held.data + i, g->held.size - i);
        g->held.size -= i;
    }
    tw_status st = text.failed ? memory(s) : TW_OK;
    if (st == TW_OK && text.size) st = feed(s, k + 1, text.data, text.size);
    tw_buf_free(&text);
    return st;
}

/* ---- stages on whole tokens ---- */

/* Takes the bytes that a byte-level token stands for. A token with other characters stands for itself. */
static tw_status take_byte_level(tw_token_stream *s, int k, const char *text, size_t n) {
    stage *g = &s->stages[k];
    size_t before = g->held.size;
    for (size_t i = 0; i < n;) {
        int b = tw_char_byte(tw_utf8_next(text, &i));
        if (b < 0) {
            g->held.size = before;
            tw_buf_add(&g->held, text, n);
            break;
        }
        char c = (char)b;
        tw_buf_add(&g->held, &c, 1);
    }
    return g->held.failed ? memory(s) : flow_bytes(s, k, false);
}

static void replace_all(tw_buf *t, const char *from, const char *to, tw_buf *spare) {
    size_t n = strlen(from), at = 0;
    tw_buf_clear(spare);
    for (size_t i = 0; i + n <= t->size;) {
        if (memcmp(t->data + i, from, n) != 0) {
            i++;
            continue;
        }
        tw_buf_add(spare, t->data + at, i - at);
        tw_buf_str(spare, to);
        at = i += n;
    }
    if (!at) return;
    tw_buf_add(spare, t->data + at, t->size - at);
    tw_buf x = *t;
    *t = *spare;
    *spare = x;
}

/* Takes a WordPiece token. A word begins with a space, and a continuing piece loses its prefix. The clean-up moves
   punctuation to the left. */
static tw_status take_wordpiece(tw_token_stream *s, int k, const char *text, size_t n) {
    static const char *const cleanups[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                              {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                              {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    const tw_decoder *d = s->stages[k].d;
    tw_buf token = {0}, spare = {0};
    if (s->stages[k].tokens) {
        if (n >= d->text_size && !memcmp(text, d->text, d->text_size)) {
            text += d->text_size;
            n -= d->text_size;
        } else
            tw_buf_add(&token, " ", 1);
    }
    tw_buf_add(&token, text, n);
    for (size_t i = 0; d->cleanup && !token.failed && !spare.failed && i < sizeof cleanups / sizeof *cleanups; i++)
        replace_all(&token, cleanups[i][0], cleanups[i][1], &spare);
    tw_status st = token.failed || spare.failed ? memory(s) : feed(s, k + 1, token.data, token.size);
    tw_buf_free(&token);
    tw_buf_free(&spare);
    return st;
}

static tw_status take_metaspace(tw_token_stream *s, int k, const char *text, size_t n) {
    const tw_decoder *d = s->stages[k].d;
    bool drop = d->drop_first && !s->stages[k].tokens;
    tw_buf token = {0};
    for (size_t i = 0; i < n;) {
        size_t at = i;
        tw_utf8_next(text, &i);
        if (i - at != d->text_size || memcmp(text + at, d->text, d->text_size) != 0)
            tw_buf_add(&token, text + at, i - at);
        else if (!drop)
            tw_buf_add(&token, " ", 1);
    }
    tw_status st = token.failed ? memory(s) : feed(s, k + 1, token.data, token.size);
    tw_buf_free(&token);
    return st;
}

static tw_status take_replace(tw_token_stream *s, int k, const char *text, size_t n) {
    const tw_decoder *d = s->stages[k].d;
    tw_spans spans = {0};
    tw_buf token = {0};
    tw_status st = tw_regex_spans(d->pattern, &s->scratch, text, n, &spans, s->diag);
    for (size_t i = 0; st == TW_OK && i < spans.n; i++) {
        if (spans.v[i].match)
            tw_buf_add(&token, d->text, d->text_size);
        else if (n)
            tw_buf_add(&token, text + spans.v[i].start, spans.v[i].end - spans.v[i].start);
    }
    if (st == TW_OK) st = token.failed ? memory(s) : feed(s, k + 1, token.data, token.size);
    free(spans.v);
    tw_buf_free(&token);
    return st;
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Returns the byte of <0xAB>, or -1. The reference parses the digits as a number, so a plus sign is allowed. */
static int byte_of(const char *text, size_t n) {
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int a = text[3] == '+' ? 0 : hex(text[3]), b = hex(text[4]);
    return a < 0 || b < 0 ? -1 : a * 16 + b;
}

/* Ends a run of byte tokens. If the held bytes are UTF-8, they are passed on as text. Otherwise each becomes U+FFFD. A
   run that is broken has passed on a U+FFFD for each of its bytes already. */
static tw_status end_run(tw_token_stream *s, int k) {
    stage *g = &s->stages[k];
    tw_status st = TW_OK;
    if (!g->broken && g->held.size) {
        if (tw_utf8_check(g->held.data, g->held.size) == g->held.size)
            st = feed(s, k + 1, g->held.data, g->held.size);
        else
            for (size_t i = 0; i < g->held.size && st == TW_OK; i++) st = feed(s, k + 1, replacement, 3);
    }
    tw_buf_clear(&g->held);
    g->broken = false;
    g->run = 0;
    return st;
}

/* Takes a token. A byte token joins the run, and any other token ends it. A run becomes text only if all of its bytes
   are UTF-8, so bytes are held until the run's end or its first error. g->run counts the held bytes that form whole
   characters. */
static tw_status take_byte_fallback(tw_token_stream *s, int k, const char *text, size_t n) {
    stage *g = &s->stages[k];
    int b = byte_of(text, n);
    if (b < 0) {
        tw_status st = end_run(s, k);
        return st == TW_OK ? feed(s, k + 1, text, n) : st;
    }
    if (g->broken) return feed(s, k + 1, replacement, 3);
    char c = (char)b;
    if (!tw_buf_add(&g->held, &c, 1)) return memory(s);
    int r = sequence((const unsigned char *)g->held.data + g->run, g->held.size - g->run);
    if (r > 0) g->run += (size_t)r;
    if (r >= 0) return TW_OK;
    g->broken = true;
    tw_status st = TW_OK;
    for (size_t i = 0; i < g->held.size && st == TW_OK; i++) st = feed(s, k + 1, replacement, 3);
    tw_buf_clear(&g->held);
    return st;
}

static bool is_content(const tw_decoder *d, const char *text, size_t from, size_t to) {
    return to - from == d->text_size && !memcmp(text + from, d->text, d->text_size);
}

static tw_status take_strip(tw_token_stream *s, int k, const char *text, size_t n) {
    const tw_decoder *d = s->stages[k].d;
    size_t a = 0, b = n;
    for (size_t c = 0; c < d->start && a < n; c++) {
        size_t i = a;
        tw_utf8_next(text, &i);
        if (!is_content(d, text, a, i)) break;
        a = i;
    }
    for (size_t c = 0; c < d->stop && b > 0; c++) {
        size_t i = tw_utf8_before(text, b);
        if (!is_content(d, text, i, b)) break;
        b = i;
    }
    return feed(s, k + 1, text + a, b > a ? b - a : 0);
}

/* Passes a token on. The suffix that ends words becomes a space, or nothing in the last token. */
static tw_status pass_bpe(tw_token_stream *s, int k, const char *space) {
    stage *g = &s->stages[k];
    tw_buf token = {0}, spare = {0};
    tw_buf_add(&token, g->held.data, g->held.size);
    if (!token.failed) replace_all(&token, g->d->text, space, &spare);
    tw_status st = token.failed || spare.failed ? memory(s) : feed(s, k + 1, token.data, token.size);
    tw_buf_free(&token);
    tw_buf_free(&spare);
    return st;
}

static tw_status take_bpe(tw_token_stream *s, int k, const char *text, size_t n) {
    stage *g = &s->stages[k];
    tw_status st = g->tokens ? pass_bpe(s, k, " ") : TW_OK;
    tw_buf_clear(&g->held);
    tw_buf_add(&g->held, text, n);
    return st == TW_OK && g->held.failed ? memory(s) : st;
}

static tw_status take(tw_token_stream *s, int k, const char *text, size_t n) {
    tw_status st = TW_OK;
    switch (s->stages[k].d->kind) {
    case TW_DEC_JOIN:
        if (s->stages[k].tokens) st = feed(s, k + 1, " ", 1);
        if (st == TW_OK) st = feed(s, k + 1, text, n);
        break;
    case TW_DEC_BYTE_LEVEL:
        st = take_byte_level(s, k, text, n);
        break;
    case TW_DEC_WORDPIECE:
        st = take_wordpiece(s, k, text, n);
        break;
    case TW_DEC_METASPACE:
        st = take_metaspace(s, k, text, n);
        break;
    case TW_DEC_REPLACE:
        st = take_replace(s, k, text, n);
        break;
    case TW_DEC_BYTE_FALLBACK:
        st = take_byte_fallback(s, k, text, n);
        break;
    case TW_DEC_FUSE:
        st = feed(s, k + 1, text, n);
        break;
    case TW_DEC_STRIP:
        st = take_strip(s, k, text, n);
        break;
    case TW_DEC_BPE:
        st = take_bpe(s, k, text, n);
        break;
    }
    s->stages[k].tokens++;
    return st;
}

static tw_status end_whole(tw_token_stream *s, int k) {
    stage *g = &s->stages[k];
    if (g->d->kind == TW_DEC_BYTE_LEVEL) return flow_bytes(s, k, true);
    if (g->d->kind == TW_DEC_BYTE_FALLBACK) return end_run(s, k);
    if (g->d->kind == TW_DEC_BPE && g->tokens) return pass_bpe(s, k, "");
    return TW_OK;
}

/* ---- stages on one open token ---- */

/* Drops content characters in front, and holds them back while they may be the end. */
static tw_status flow_strip(tw_token_stream *s, int k, const char *text, size_t n) {
    stage *g = &s->stages[k];
    const tw_decoder *d = g->d;
    tw_buf now = {0};
    for (size_t i = 0; i < n;) {
        size_t at = i;
        tw_utf8_next(text, &i);
        bool content = is_content(d, text, at, i);
        if (!g->inside && content && g->dropped < d->start) {
            g->dropped++;
            continue;
        }
        g->inside = true;
        if (content) {
            g->run++;
            if (g->run <= d->stop) continue;
            g->run = d->stop;
            tw_buf_add(&now, d->text, d->text_size);
            continue;
        }
        for (; g->run; g->run--) tw_buf_add(&now, d->text, d->text_size);
        tw_buf_add(&now, text + at, i - at);
    }
    tw_status st = now.failed ? memory(s) : TW_OK;
    if (st == TW_OK && now.size) st = feed(s, k + 1, now.data, now.size);
    tw_buf_free(&now);
    return st;
}

/* Replaces each occurrence of a literal. The end of the input is held back while it may be the beginning of one. */
static tw_status flow_literal(tw_token_stream *s, int k, const char *text, size_t n, bool last) {
    stage *g = &s->stages[k];
    const char *literal = NULL;
    size_t size = 0, i = 0, at = 0;
    tw_regex_is_literal(g->d->pattern, &literal, &size);
    tw_buf now = {0};
    tw_buf_add(&g->held, text, n);
    while (!g->held.failed && i < g->held.size) {
        size_t left = g->held.size - i;
        if (left < size && !last && !memcmp(g->held.data + i, literal, left)) break;
        if (left < size || memcmp(g->held.data + i, literal, size) != 0) {
            i++;
            continue;
        }
        tw_buf_add(&now, g->held.data + at, i - at);
        tw_buf_add(&now, g->d->text, g->d->text_size);
        at = i += size;
    }
    tw_status st = TW_OK;
    if (!g->held.failed && i > at) tw_buf_add(&now, g->held.data + at, i - at);
    if (g->held.failed || now.failed)
        st = memory(s);
    else {
        if (i) memmove(g->held.data, g->held.data + i, g->held.size - i);
        g->held.size -= i;
        if (now.size) st = feed(s, k + 1, now.data, now.size);
    }
    tw_buf_free(&now);
    return st;
}

static bool streams_literal(const stage *g) {
    const char *literal;
    size_t size;
    return g->d->kind == TW_DEC_REPLACE && tw_regex_is_literal(g->d->pattern, &literal, &size) && size;
}

static tw_status flow(tw_token_stream *s, int k, const char *text, size_t n) {
    stage *g = &s->stages[k];
    if (g->d->kind == TW_DEC_FUSE) return feed(s, k + 1, text, n);
    if (g->d->kind == TW_DEC_STRIP) return flow_strip(s, k, text, n);
    if (streams_literal(g)) return flow_literal(s, k, text, n, false);
    return tw_buf_add(&g->held, text, n) ? TW_OK : memory(s); /* Other decoders need the whole token. */
}

static tw_status end_open(tw_token_stream *s, int k) {
    stage *g = &s->stages[k];
    if (g->d->kind == TW_DEC_FUSE || g->d->kind == TW_DEC_STRIP) return TW_OK;
    if (streams_literal(g)) return flow_literal(s, k, "", 0, true);
    tw_buf whole = g->held;
    g->held = (tw_buf){0};
    tw_status st = take(s, k, whole.data ? whole.data : "", whole.size);
    if (st == TW_OK) st = end_whole(s, k);
    tw_buf_free(&whole);
    return st;
}

/* ---- the row ---- */

static tw_status feed(tw_token_stream *s, int k, const char *text, size_t n) {
    if (!n) text = "";
    if (tw_grown_wild(s->size, n))
        return tw_fail(s->diag, TW_ERR_UNSUPPORTED, "the tokenizer's decoders make %zu bytes of %zu", n, s->size);
    if (k == s->n) return tw_buf_add(&s->out, text, n) ? TW_OK : memory(s);
    return s->stages[k].open ? flow(s, k, text, n) : take(s, k, text, n);
}

static void reset(tw_token_stream *s) {
    s->size = 0;
    for (int k = 0; k < s->n; k++) {
        stage *g = &s->stages[k];
        tw_buf held = g->held;
        tw_buf_clear(&held);
        held.failed = false;
        *g = (stage){.d = g->d, .open = g->open, .held = held};
    }
}

static tw_status finish(tw_token_stream *s) {
    tw_status st = TW_OK;
    for (int k = 0; k < s->n && st == TW_OK; k++) st = s->stages[k].open ? end_open(s, k) : end_whole(s, k);
    reset(s);
    return st;
}

static tw_status push(tw_token_stream *s, int32_t id) {
    const tw_vocab *v = &s->t->vocab;
    if (id < 0) return tw_fail(s->diag, TW_ERR_USAGE, "%d is not the id of a token: ids are not negative", id);
    /* Models have more rows than there are tokens, and may choose such a row. It has no text. */
    const char *piece = tw_tokenizer_piece(s->t, id);
    if (!piece) return TW_OK;
    if (!s->keep_special && v->flags[id] & TW_TOKEN_SKIP) return TW_OK;
    const char *other = s->t->decoded[id];
    s->size += other ? strlen(other) : v->lengths[id];
    return other ? feed(s, 0, other, strlen(other)) : feed(s, 0, piece, v->lengths[id]);
}

tw_status tw_token_stream_open(tw_token_stream **out, const tw_tokenizer *t, bool keep_special, tw_diag *diag) {
    if (!out || !t)
        return tw_fail(diag, TW_ERR_USAGE, "tw_token_stream_open needs a tokenizer and somewhere to put the stream");
    *out = NULL;
    tw_token_stream *s = calloc(1, sizeof *s + (size_t)t->n_decoders * sizeof *s->stages);
    if (!s) return tw_fail_memory(diag);
    s->t = t;
    s->keep_special = keep_special;
    s->n = t->n_decoders;
    bool open = false;
    for (int k = 0; k < s->n; k++) {
        s->stages[k].d = &t->decoders[k];
        s->stages[k].open = open;
        open = open || t->decoders[k].kind == TW_DEC_FUSE || t->decoders[k].kind == TW_DEC_BYTE_LEVEL;
    }
    *out = s;
    return TW_OK;
}

void tw_token_stream_close(tw_token_stream *s) {
    if (!s) return;
    for (int k = 0; k < s->n; k++) tw_buf_free(&s->stages[k].held);
    tw_buf_free(&s->out);
    tw_scratch_free(&s->scratch);
    free(s);
}

size_t tw_token_stream_size(const tw_token_stream *s) {
    return s->out.size;
}

/* Runs a call on the stream. Its text is what the last stage passed on. */
static tw_status answer(tw_token_stream *s, const int32_t *id, const char **text, tw_diag *diag) {
    s->diag = diag;
    tw_buf_clear(&s->out);
    s->out.failed = false;
    *text = "";
    tw_status st = id ? push(s, *id) : finish(s);
    if (st == TW_OK && s->out.size) *text = s->out.data;
    s->diag = NULL;
    return st;
}

tw_status tw_token_stream_push(tw_token_stream *s, int32_t id, const char **text, tw_diag *diag) {
    if (!s || !text)
        return tw_fail(diag, TW_ERR_USAGE, "tw_token_stream_push needs a stream and somewhere to put the text");
    return answer(s, &id, text, diag);
}

tw_status tw_token_stream_flush(tw_token_stream *s, const char **text, tw_diag *diag) {
    if (!s || !text)
        return tw_fail(diag, TW_ERR_USAGE, "tw_token_stream_flush needs a stream and somewhere to put the text");
    return answer(s, NULL, text, diag);
}

tw_status tw_tokenizer_decode(const tw_tokenizer *t, const int32_t *ids, size_t count, bool keep_special, char **text,
                              size_t *size, tw_diag *diag) {
    if (!t || !text || (!ids && count))
        return tw_fail(diag, TW_ERR_USAGE, "tw_tokenizer_decode needs a tokenizer, ids and somewhere to put the text");
    *text = NULL;
    tw_token_stream *s = NULL;
    tw_status st = tw_token_stream_open(&s, t, keep_special, diag);
    if (st != TW_OK) return st;
    s->diag = diag;
    for (size_t i = 0; i < count && st == TW_OK; i++) st = push(s, ids[i]);
    if (st == TW_OK) st = finish(s);
    if (st == TW_OK && !tw_buf_add(&s->out, "", 0)) st = tw_fail_memory(diag);
    if (st == TW_OK) {
        *text = s->out.data;
        if (size) *size = s->out.size;
        s->out = (tw_buf){0};
    }
    tw_token_stream_close(s);
    return st;
}
