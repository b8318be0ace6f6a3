/* SPDX-License-Identifier: Apache-2.0 */
/* What a tokenizer is made of. Text goes through: added tokens split off the raw text, normalizers, added tokens that
   match normalized text, pre-tokenizers, the model, the post-processor. Ids come back through the decoders. */
#ifndef TW_TOKENIZER_INTERNAL_H
#define TW_TOKENIZER_INTERNAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "tilewright/tokenizer.h"

/* Parts in a row can double a text each; what grows beyond every use is an error before it is a lack of memory. */
static inline bool tw_grown_wild(size_t from, size_t to) {
    return to > 65536 && to / 1024 > from;
}

/* ---- growing arrays of plain things; failure sticks ---- */

typedef struct tw_ids {
    int32_t *v;
    size_t n, room;
    bool failed;
} tw_ids;
bool tw_ids_push(tw_ids *ids, int32_t id);

/* ---- regular expressions and literal patterns ---- */

typedef struct tw_regex tw_regex; /* a compiled pattern in the reference's syntax (Oniguruma's Ruby) */

/* What an encode or a decode needs beside the tokenizer: memory for matching. One a thread. */
typedef struct tw_scratch {
    struct pcre2_real_match_data_8 *match;
} tw_scratch;

typedef struct tw_span {
    size_t start, end;
    bool match;
} tw_span;

typedef struct tw_spans {
    tw_span *v;
    size_t n, room;
    bool failed;
} tw_spans;
bool tw_spans_push(tw_spans *s, size_t start, size_t end, bool match);

/* Translates and compiles. TW_ERR_UNSUPPORTED with the reason in `why` when the syntax is not understood. */
tw_status tw_regex_compile(tw_regex **out, const char *pattern, size_t size, char *why, size_t why_size);
tw_status tw_regex_literal(tw_regex **out, const char *text, size_t size);
void tw_regex_free(tw_regex *r);

/* Covers text[0, size) with spans, matched and not, in order; empty matches are spans too. Text must be valid UTF-8. */
tw_status tw_regex_spans(const tw_regex *r, tw_scratch *scratch, const char *text, size_t size, tw_spans *out,
                         tw_diag *diag);
/* Whether it is a plain text, and which. */
bool tw_regex_is_literal(const tw_regex *r, const char **text, size_t *size);
void tw_scratch_free(tw_scratch *s);

/* The translation alone, for tests: PCRE2's spelling of an Oniguruma pattern, appended to `out`. */
tw_status tw_regex_translate(tw_buf *out, const char *pattern, size_t size, char *why, size_t why_size);

/* ---- vocabulary ---- */

typedef struct tw_vocab {
    const char **pieces; /* by id, NUL-terminated; NULL for a hole */
    uint32_t *lengths;
    uint8_t *flags;     /* TW_TOKEN_* */
    int64_t size, room; /* one more than the largest id */
    int32_t *slots;     /* hash table of ids, -1 when empty; a power of two */
    uint32_t mask;
    int64_t used;
} tw_vocab;

enum {
    TW_TOKEN_MODEL = 1, /* the model may produce it */
    TW_TOKEN_ADDED = 2, /* split off before the model */
    TW_TOKEN_SKIP = 4,  /* left out of a decode unless special tokens are kept */
    TW_TOKEN_SPECIAL = 8
};

/* `piece` must outlive the vocabulary. Fails on an id or a piece that is there already. */
typedef enum tw_vocab_result { TW_VOCAB_OK, TW_VOCAB_ID_TAKEN, TW_VOCAB_PIECE_TAKEN, TW_VOCAB_MEMORY } tw_vocab_result;
tw_vocab_result tw_vocab_add(tw_vocab *v, const char *piece, size_t size, int64_t id, uint8_t flags);
int32_t tw_vocab_find(const tw_vocab *v, const char *piece, size_t size);  /* any token; -1: none */
int32_t tw_vocab_model(const tw_vocab *v, const char *piece, size_t size); /* only what the model knows */
void tw_vocab_free(tw_vocab *v);

/* ---- normalizers ---- */

typedef enum tw_normalizer_kind {
    TW_NORM_BERT,
    TW_NORM_STRIP,
    TW_NORM_STRIP_ACCENTS,
    TW_NORM_NFC,
    TW_NORM_NFD,
    TW_NORM_NFKC,
    TW_NORM_NFKD,
    TW_NORM_LOWERCASE,
    TW_NORM_NMT,
    TW_NORM_REPLACE,
    TW_NORM_PREPEND,
    TW_NORM_BYTE_LEVEL
} tw_normalizer_kind;

typedef struct tw_normalizer {
    tw_normalizer_kind kind;
    bool clean, chinese, accents, lowercase; /* BERT */
    bool left, right;                        /* STRIP */
    const char *text;                        /* REPLACE, PREPEND */
    size_t text_size;
    tw_regex *pattern; /* REPLACE */
} tw_normalizer;

/* Text between two steps of the tokenizer. `zero` is the number of bytes at its front that come from the first
   character of the input. Metaspace asks for them if its prepend_scheme is "first". */
typedef struct tw_text {
    tw_buf b;
    size_t zero;
} tw_text;

/* Runs the chain on `t` in place; `spare` is a buffer for it to use. */
tw_status tw_normalize(const tw_normalizer *chain, int n, tw_scratch *scratch, tw_text *t, tw_text *spare,
                       tw_diag *diag);

/* The printable character that byte-level vocabularies write a byte as, and back (-1: none). */
uint32_t tw_byte_char(uint8_t byte);
int tw_char_byte(uint32_t cp);

/* ---- pre-tokenizers ---- */

typedef enum tw_behavior {
    TW_REMOVED,
    TW_ISOLATED,
    TW_MERGED_WITH_PREVIOUS,
    TW_MERGED_WITH_NEXT,
    TW_CONTIGUOUS
} tw_behavior;

typedef enum tw_pretokenizer_kind {
    TW_PRE_SPLIT,
    TW_PRE_BYTE_LEVEL,
    TW_PRE_DIGITS,
    TW_PRE_BERT,
    TW_PRE_METASPACE,
    TW_PRE_WHITESPACE,
    TW_PRE_WHITESPACE_SPLIT,
    TW_PRE_PUNCTUATION
} tw_pretokenizer_kind;

typedef enum tw_prepend { TW_PREPEND_NEVER, TW_PREPEND_FIRST, TW_PREPEND_ALWAYS } tw_prepend;

typedef struct tw_pretokenizer {
    tw_pretokenizer_kind kind;
    tw_regex *pattern; /* SPLIT, BYTE_LEVEL with its regex */
    tw_behavior behavior;
    bool invert;
    bool add_prefix_space;   /* BYTE_LEVEL */
    bool individual;         /* DIGITS */
    const char *replacement; /* METASPACE: one character */
    size_t replacement_size;
    tw_prepend prepend;
    bool split;
} tw_pretokenizer;

typedef struct tw_piece {
    size_t start, size, zero;
    int32_t id; /* an added token's, or -1: text */
    bool first; /* starts where the input starts */
} tw_piece;

typedef struct tw_pieces {
    tw_piece *v;
    size_t n, room;
    bool failed;
} tw_pieces;
bool tw_pieces_push(tw_pieces *p, tw_piece piece);

/* What pre-tokenizing works on: text and the pieces of it, and spares of both. */
typedef struct tw_cutting {
    tw_buf text, spare_text;
    tw_pieces pieces, spare_pieces;
    tw_spans spans;
} tw_cutting;
void tw_cutting_free(tw_cutting *c);

tw_status tw_pretokenize(const tw_pretokenizer *chain, int n, tw_scratch *scratch, tw_cutting *c, tw_diag *diag);

/* ---- added tokens ---- */

typedef struct tw_added_token {
    const char *pattern; /* what it looks like in the text it is searched in */
    size_t size;
    int32_t id;
    bool single_word, lstrip, rstrip, special;
    const char *content; /* what it looks like before the normalizers */
    size_t content_size;
} tw_added_token;

/* What of a text was typed by somebody: no special token is found where any of its bytes was. */
typedef struct tw_typed {
    const char *text; /* before the normalizers */
    const unsigned char *marks;
    size_t size;
    bool normalized; /* what is searched is not `text`, but what the normalizers made of it */
    struct {         /* how far a token was followed in both */
        const tw_added_token *token;
        const char *there, *here; /* of the searched text and of `text`; here NULL: it has no more */
    } seen[8];
} tw_typed;

typedef struct tw_added {
    tw_added_token *v; /* sorted by pattern */
    size_t n;
    size_t first[257]; /* patterns that begin with byte b are v[first[b]] … v[first[b + 1] - 1] */
} tw_added;

/* Sorts; returns the index of a pattern that is there twice or empty, or -1. */
int64_t tw_added_prepare(tw_added *a);
/* Pieces of text[0, size), offsets from `base`, appended to `out`; `zero` as in tw_text. */
void tw_added_split(const tw_added *a, const char *text, size_t size, size_t base, size_t zero, tw_typed *typed,
                    tw_pieces *out); /* typed NULL: nothing was */

/* ---- models ---- */

typedef struct tw_merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX when the slot is empty */
    uint32_t rank;
    int32_t id;
} tw_merge;

typedef struct tw_bpe {
    tw_merge *merges; /* hash table, a power of two */
    uint64_t mask;
    const char *prefix, *suffix; /* continuing_subword_prefix, end_of_word_suffix; NULL: none */
    size_t prefix_size, suffix_size;
    const char *unk; /* NULL: unknown characters vanish */
    int32_t unk_id;  /* -1: named but not in the vocabulary */
    bool fuse_unk, byte_fallback, ignore_merges;
    int32_t byte_ids[256];  /* of <0x00> … <0xFF>; -1: none */
    int32_t char_ids[1024]; /* of the one-character pieces below U+0400, without prefix and suffix; -1: none */
} tw_bpe;

typedef struct tw_wordpiece {
    const char *prefix, *unk;
    size_t prefix_size;
    int32_t unk_id;
    int64_t max_chars;
    size_t longest; /* bytes of the longest piece */
} tw_wordpiece;

typedef struct tw_bpe_work tw_bpe_work; /* reused from word to word */

tw_status tw_bpe_load(tw_tokenizer *t, const json_t *model, const char *path, tw_diag *diag);
tw_status tw_bpe_encode(const tw_tokenizer *t, tw_bpe_work **work, const char *word, size_t size, tw_ids *out,
                        tw_diag *diag);
void tw_bpe_work_free(tw_bpe_work *w);
void tw_bpe_free(tw_bpe *b);
tw_status tw_wordpiece_encode(const tw_tokenizer *t, tw_buf *spare, const char *word, size_t size, tw_ids *out,
                              tw_diag *diag);

/* ---- decoders ---- */

typedef enum tw_decoder_kind {
    TW_DEC_JOIN, /* what the absence of a decoder means: a space between tokens */
    TW_DEC_BYTE_LEVEL,
    TW_DEC_WORDPIECE,
    TW_DEC_METASPACE,
    TW_DEC_REPLACE,
    TW_DEC_BYTE_FALLBACK,
    TW_DEC_FUSE,
    TW_DEC_STRIP,
    TW_DEC_BPE
} tw_decoder_kind;

typedef struct tw_decoder {
    tw_decoder_kind kind;
    const char *text; /* REPLACE: content; METASPACE: replacement; STRIP: content; WORDPIECE: prefix; BPE: suffix */
    size_t text_size;
    tw_regex *pattern;  /* REPLACE */
    bool cleanup;       /* WORDPIECE */
    bool drop_first;    /* METASPACE: the replacement vanishes in the first token */
    size_t start, stop; /* STRIP */
} tw_decoder;

/* ---- the whole ---- */

typedef enum tw_tokenizer_model { TW_MODEL_BPE, TW_MODEL_WORDPIECE } tw_tokenizer_model;

struct tw_tokenizer {
    tw_arena arena;
    tw_vocab vocab;
    tw_added raw, normalized; /* added tokens by where they are searched */
    tw_normalizer *normalizers;
    int n_normalizers;
    tw_pretokenizer *pretokenizers;
    int n_pretokenizers;
    tw_decoder *decoders;
    int n_decoders;
    const char **decoded; /* by id: what a decoder is given where it is not the piece; NULL: the piece */
    tw_tokenizer_model model;
    tw_bpe bpe;
    tw_wordpiece wordpiece;
    int32_t *post; /* ids around the text; -1: the text */
    int n_post;
    int64_t max_length; /* truncation; -1: none */
    bool truncate_left;
};

/* As tw_tokenizer_encode. `typed` has a byte for each of the text's: special tokens are text where it is set. */
tw_status tw_tokenizer_encode_typed(const tw_tokenizer *t, const char *text, const unsigned char *typed, size_t size,
                                    bool special, int32_t **ids, size_t *count, tw_diag *diag);

/* tokenizer.json from memory; `path` is only for the diagnostic. */
tw_status tw_tokenizer_open_memory(tw_tokenizer **out, const char *data, size_t size, const char *path, tw_diag *diag);
tw_status tw_tokenizer_load(tw_tokenizer *t, const json_t *root, const char *path, tw_diag *diag);

#endif
