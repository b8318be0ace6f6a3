/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tokenizer.json. Every part is read to the end, so that all reasons against a file are reported at once. */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "tokenizer/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH   16        /* Depth of Sequences within Sequences. */
#define MAX_STAGES  256       /* Parts of a chain. */
#define MAX_ID      (1 << 22) /* Ids index arrays. The largest vocabularies in use have 2^18. */
#define NO_PIECE(i) ((i) < 0)

typedef struct loader {
    tw_tokenizer *t;
    const char *path;
    tw_diag *diag;
    tw_status status;
} loader;

/* Adds a reason against the file. */
static void against(loader *l, tw_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void against(loader *l, tw_status s, const char *fmt, ...) {
    char text[480];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (l->status == TW_OK) l->status = s;
    if (l->status != TW_ERR_MEMORY) tw_diag_add(l->diag, s, l->path, "%s", text);
}

static void no_memory(loader *l) {
    l->status = tw_fail_memory(l->diag);
}

/* ---- fields ---- */

static const char *kind_of(const json_t *v) {
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        break;
    }
    return v ? "null" : "missing";
}

static void wrong(loader *l, const char *where, const char *key, const json_t *v, const char *want) {
    against(l, TW_ERR_FORMAT, "%s.%s is %s, not %s", where, key, kind_of(v), want);
}

/* Refuses, by name, fields that are neither null nor in `known` (separated by spaces, with a space at both ends). */
static void only(loader *l, const json_t *object, const char *where, const char *known) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v) {
        char spaced[80];
        int n = snprintf(spaced, sizeof spaced, " %s ", key);
        if (json_is_null(v) || (n < (int)sizeof spaced && strstr(known, spaced))) continue;
        against(l, TW_ERR_UNSUPPORTED, "%s.%s is not known", where, key);
    }
}

enum need { REQUIRED, OPTIONAL };

static bool get_bool(loader *l, const json_t *o, const char *where, const char *key, enum need need, bool otherwise) {
    const json_t *v = json_object_get(o, key);
    if (json_is_boolean(v)) return json_is_true(v);
    if (need == REQUIRED || (v && !json_is_null(v))) wrong(l, where, key, v, "a boolean");
    return otherwise;
}

/* Copies a string to the arena. NULL: there is none. */
static const char *get_string(loader *l, const json_t *o, const char *where, const char *key, enum need need,
                              size_t *size) {
    const json_t *v = json_object_get(o, key);
    *size = 0;
    if (!json_is_string(v)) {
        if (need == REQUIRED || (v && !json_is_null(v))) wrong(l, where, key, v, "a string");
        return NULL;
    }
    *size = json_string_length(v);
    char *s = tw_arena_alloc(&l->t->arena, *size + 1);
    if (!s)
        no_memory(l);
    else
        memcpy(s, json_string_value(v), *size);
    return s;
}

static int64_t get_int(loader *l, const json_t *o, const char *where, const char *key, int64_t lo, int64_t hi) {
    const json_t *v = json_object_get(o, key);
    int64_t n = 0;
    if (!tw_json_int(v, lo, hi, &n)) {
        if (json_is_number(v))
            against(l, TW_ERR_FORMAT, "%s.%s is out of range", where, key);
        else
            wrong(l, where, key, v, "a number");
    }
    return n;
}

static bool one_char(const char *s, size_t n) {
    size_t i = 0;
    if (!n) return false;
    tw_utf8_next(s, &i);
    return i == n;
}

/* Reads a field of one character. */
static const char *get_char(loader *l, const json_t *o, const char *where, const char *key, size_t *size) {
    const char *s = get_string(l, o, where, key, REQUIRED, size);
    if (s && !one_char(s, *size)) against(l, TW_ERR_FORMAT, "%s.%s is not one character", where, key);
    return s;
}

/* Reads {"String": …} or {"Regex": …}. */
static tw_regex *get_pattern(loader *l, const json_t *o, const char *where) {
    const json_t *p = json_object_get(o, "pattern"), *s = json_object_get(p, "String"),
                 *r = json_object_get(p, "Regex");
    const json_t *v = s ? s : r;
    tw_regex *out = NULL;
    char why[400] = "";
    if (!json_is_string(v) || json_object_size(p) != 1) {
        wrong(l, where, "pattern", p, "{\"String\": …} or {\"Regex\": …}");
        return NULL;
    }
    tw_status st = s ? tw_regex_literal(&out, json_string_value(v), json_string_length(v))
                     : tw_regex_compile(&out, json_string_value(v), json_string_length(v), why, sizeof why);
    if (st == TW_ERR_MEMORY)
        no_memory(l);
    else if (st != TW_OK)
        against(l, st, "%s.pattern has %s", where, why);
    return out;
}

/* ---- chains of parts, Sequences flattened ---- */

typedef struct chain {
    const char *name; /* The chain's name, for messages. */
    const char *list; /* The field of a Sequence that has its members. */
    void (*part)(loader *l, const json_t *o, const char *type, const char *where);
} chain;

static void walk(loader *l, const chain *c, const json_t *o, const char *where, int depth) {
    const json_t *type = json_object_get(o, "type");
    if (!json_is_object(o) || !json_is_string(type)) {
        against(l, TW_ERR_FORMAT, "%s is %s, not an object with a type", where, kind_of(o));
        return;
    }
    if (strcmp(json_string_value(type), "Sequence") != 0) {
        c->part(l, o, json_string_value(type), where);
        return;
    }
    const json_t *members = json_object_get(o, c->list);
    if (!json_is_array(members)) {
        wrong(l, where, c->list, members, "a list");
        return;
    }
    if (depth >= MAX_DEPTH) {
        against(l, TW_ERR_UNSUPPORTED, "%s holds Sequences more than %d deep", c->name, MAX_DEPTH);
        return;
    }
    for (size_t i = 0; i < json_array_size(members) && l->status != TW_ERR_MEMORY; i++) {
        char here[160];
        snprintf(here, sizeof here, "%.100s[%zu]", where, i);
        walk(l, c, json_array_get(members, i), here, depth + 1);
    }
}

/* Returns room for the next part of a chain. NULL: there is none, and the reason has been added. */
static void *next(loader *l, void *v, int n, size_t size, const char *name) {
    if (n < MAX_STAGES) return (char *)v + (size_t)n * size;
    against(l, TW_ERR_UNSUPPORTED, "%s has more than %d parts", name, MAX_STAGES);
    return NULL;
}

static void normalizer(loader *l, const json_t *o, const char *type, const char *where) {
    static const struct {
        const char *name;
        tw_normalizer_kind kind;
        const char *fields;
    } kinds[] = {{"BertNormalizer", TW_NORM_BERT, " type clean_text handle_chinese_chars strip_accents lowercase "},
                 {"Strip", TW_NORM_STRIP, " type strip_left strip_right "},
                 {"StripAccents", TW_NORM_STRIP_ACCENTS, " type "},
                 {"NFC", TW_NORM_NFC, " type "},
                 {"NFD", TW_NORM_NFD, " type "},
                 {"NFKC", TW_NORM_NFKC, " type "},
                 {"NFKD", TW_NORM_NFKD, " type "},
                 {"Lowercase", TW_NORM_LOWERCASE, " type "},
                 {"Nmt", TW_NORM_NMT, " type "},
                 {"Replace", TW_NORM_REPLACE, " type pattern content "},
                 {"Prepend", TW_NORM_PREPEND, " type prepend "},
                 {"ByteLevel", TW_NORM_BYTE_LEVEL, " type "}};
    size_t k = 0, n = sizeof kinds / sizeof *kinds;
    while (k < n && strcmp(kinds[k].name, type) != 0) k++;
    if (k == n) {
        against(l, TW_ERR_UNSUPPORTED, "%s: the normalizer %.60s is not supported", where, type);
        return;
    }
    tw_tokenizer *t = l->t;
    tw_normalizer *p = next(l, t->normalizers, t->n_normalizers, sizeof *p, "normalizer");
    if (!p) return;
    only(l, o, where, kinds[k].fields);
    t->n_normalizers++;
    p->kind = kinds[k].kind;
    switch (p->kind) {
    case TW_NORM_BERT:
        p->clean = get_bool(l, o, where, "clean_text", REQUIRED, false);
        p->chinese = get_bool(l, o, where, "handle_chinese_chars", REQUIRED, false);
        p->lowercase = get_bool(l, o, where, "lowercase", REQUIRED, false);
        p->accents = get_bool(l, o, where, "strip_accents", OPTIONAL, p->lowercase);
        break;
    case TW_NORM_STRIP:
        p->left = get_bool(l, o, where, "strip_left", REQUIRED, false);
        p->right = get_bool(l, o, where, "strip_right", REQUIRED, false);
        break;
    case TW_NORM_REPLACE:
        p->pattern = get_pattern(l, o, where);
        p->text = get_string(l, o, where, "content", REQUIRED, &p->text_size);
        break;
    case TW_NORM_PREPEND:
        p->text = get_string(l, o, where, "prepend", REQUIRED, &p->text_size);
        break;
    default:
        break;
    }
}

static tw_behavior get_behavior(loader *l, const json_t *o, const char *where, enum need need) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const json_t *v = json_object_get(o, "behavior");
    if (need == OPTIONAL && !v) return TW_ISOLATED;
    for (int i = 0; json_is_string(v) && i < 5; i++)
        if (!strcmp(json_string_value(v), names[i])) return (tw_behavior)i;
    if (json_is_string(v))
        against(l, TW_ERR_UNSUPPORTED, "%s.behavior %.60s is not supported", where, json_string_value(v));
    else
        wrong(l, where, "behavior", v, "a string");
    return TW_ISOLATED;
}

/* Reads prepend_scheme, or old files' add_prefix_space. */
static tw_prepend get_prepend(loader *l, const json_t *o, const char *where) {
    const json_t *scheme = json_object_get(o, "prepend_scheme"), *old = json_object_get(o, "add_prefix_space");
    tw_prepend p = json_is_false(old) ? TW_PREPEND_NEVER : TW_PREPEND_ALWAYS;
    if (old && !json_is_null(old) && !json_is_boolean(old)) wrong(l, where, "add_prefix_space", old, "a boolean");
    if (!scheme) return p;
    const char *s = json_is_string(scheme) ? json_string_value(scheme) : "";
    if (!strcmp(s, "always"))
        p = TW_PREPEND_ALWAYS;
    else if (!strcmp(s, "first"))
        p = TW_PREPEND_FIRST;
    else if (!strcmp(s, "never"))
        p = TW_PREPEND_NEVER;
    else
        against(l, TW_ERR_UNSUPPORTED, "%s.prepend_scheme is not always, first or never", where);
    if (json_is_false(old) && p != TW_PREPEND_NEVER)
        against(l, TW_ERR_FORMAT, "%s.add_prefix_space contradicts its prepend_scheme", where);
    return p;
}

/* GPT-2's regex, by which a byte-level part splits if it brings its own. */
static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static void pretokenizer(loader *l, const json_t *o, const char *type, const char *where) {
    static const struct {
        const char *name;
        tw_pretokenizer_kind kind;
        const char *fields;
    } kinds[] = {{"Split", TW_PRE_SPLIT, " type pattern behavior invert "},
                 {"CharDelimiterSplit", TW_PRE_SPLIT, " type delimiter "},
                 {"ByteLevel", TW_PRE_BYTE_LEVEL, " type add_prefix_space trim_offsets use_regex "},
                 {"Digits", TW_PRE_DIGITS, " type individual_digits "},
                 {"BertPreTokenizer", TW_PRE_BERT, " type "},
                 {"Metaspace", TW_PRE_METASPACE, " type replacement str_rep add_prefix_space prepend_scheme split "},
                 {"Whitespace", TW_PRE_WHITESPACE, " type "},
                 {"WhitespaceSplit", TW_PRE_WHITESPACE_SPLIT, " type "},
                 {"Punctuation", TW_PRE_PUNCTUATION, " type behavior "}};
    size_t k = 0, n = sizeof kinds / sizeof *kinds, size;
    while (k < n && strcmp(kinds[k].name, type) != 0) k++;
    if (k == n) {
        against(l, TW_ERR_UNSUPPORTED, "%s: the pre-tokenizer %.60s is not supported", where, type);
        return;
    }
    tw_tokenizer *t = l->t;
    tw_pretokenizer *p = next(l, t->pretokenizers, t->n_pretokenizers, sizeof *p, "pre_tokenizer");
    if (!p) return;
    only(l, o, where, kinds[k].fields);
    t->n_pretokenizers++;
    p->kind = kinds[k].kind;
    switch (p->kind) {
    case TW_PRE_SPLIT:
        if (!strcmp(type, "Split")) {
            p->pattern = get_pattern(l, o, where);
            p->behavior = get_behavior(l, o, where, REQUIRED);
            p->invert = get_bool(l, o, where, "invert", REQUIRED, false);
            break;
        }
        p->behavior = TW_REMOVED;
        const char *delimiter = get_char(l, o, where, "delimiter", &size);
        if (delimiter && tw_regex_literal(&p->pattern, delimiter, size) != TW_OK) no_memory(l);
        break;
    case TW_PRE_BYTE_LEVEL:
        p->add_prefix_space = get_bool(l, o, where, "add_prefix_space", REQUIRED, false);
        if (get_bool(l, o, where, "use_regex", OPTIONAL, true)) {
            char why[200];
            if (tw_regex_compile(&p->pattern, gpt2, sizeof gpt2 - 1, why, sizeof why) != TW_OK) no_memory(l);
        }
        break;
    case TW_PRE_DIGITS:
        p->individual = get_bool(l, o, where, "individual_digits", REQUIRED, false);
        break;
    case TW_PRE_METASPACE:
        p->replacement = get_char(l, o, where, "replacement", &p->replacement_size);
        p->prepend = get_prepend(l, o, where);
        p->split = get_bool(l, o, where, "split", OPTIONAL, true);
        break;
    case TW_PRE_PUNCTUATION:
        p->behavior = get_behavior(l, o, where, OPTIONAL);
        break;
    default:
        break;
    }
}

static void decoder(loader *l, const json_t *o, const char *type, const char *where) {
    static const struct {
        const char *name;
        tw_decoder_kind kind;
        const char *fields;
    } kinds[] = {{"ByteLevel", TW_DEC_BYTE_LEVEL, " type add_prefix_space trim_offsets use_regex "},
                 {"WordPiece", TW_DEC_WORDPIECE, " type prefix cleanup "},
                 {"Metaspace", TW_DEC_METASPACE, " type replacement str_rep add_prefix_space prepend_scheme split "},
                 {"Replace", TW_DEC_REPLACE, " type pattern content "},
                 {"ByteFallback", TW_DEC_BYTE_FALLBACK, " type "},
                 {"Fuse", TW_DEC_FUSE, " type "},
                 {"Strip", TW_DEC_STRIP, " type content start stop "},
                 {"BPEDecoder", TW_DEC_BPE, " type suffix "}};
    size_t k = 0, n = sizeof kinds / sizeof *kinds;
    while (k < n && strcmp(kinds[k].name, type) != 0) k++;
    if (k == n) {
        against(l, TW_ERR_UNSUPPORTED, "%s: the decoder %.60s is not supported", where, type);
        return;
    }
    tw_tokenizer *t = l->t;
    tw_decoder *p = next(l, t->decoders, t->n_decoders, sizeof *p, "decoder");
    if (!p) return;
    only(l, o, where, kinds[k].fields);
    t->n_decoders++;
    p->kind = kinds[k].kind;
    switch (p->kind) {
    case TW_DEC_WORDPIECE:
        p->text = get_string(l, o, where, "prefix", REQUIRED, &p->text_size);
        p->cleanup = get_bool(l, o, where, "cleanup", REQUIRED, false);
        break;
    case TW_DEC_METASPACE:
        p->text = get_char(l, o, where, "replacement", &p->text_size);
        p->drop_first = get_prepend(l, o, where) != TW_PREPEND_NEVER;
        break;
    case TW_DEC_REPLACE:
        p->pattern = get_pattern(l, o, where);
        p->text = get_string(l, o, where, "content", REQUIRED, &p->text_size);
        break;
    case TW_DEC_STRIP:
        p->text = get_char(l, o, where, "content", &p->text_size);
        p->start = (size_t)get_int(l, o, where, "start", 0, INT32_MAX);
        p->stop = (size_t)get_int(l, o, where, "stop", 0, INT32_MAX);
        break;
    case TW_DEC_BPE:
        p->text = get_string(l, o, where, "suffix", REQUIRED, &p->text_size);
        if (p->text && !p->text_size) against(l, TW_ERR_UNSUPPORTED, "%s.suffix is empty", where);
        break;
    default:
        break;
    }
}

static void read_chain(loader *l, const json_t *root, const chain *c) {
    const json_t *o = json_object_get(root, c->name);
    if (o && !json_is_null(o)) walk(l, c, o, c->name, 0);
}

/* ---- the post-processor ---- */

static void put_post(loader *l, int32_t id) {
    tw_tokenizer *t = l->t;
    if (t->n_post == MAX_STAGES) {
        against(l, TW_ERR_UNSUPPORTED, "post_processor puts more than %d tokens around", MAX_STAGES);
        return;
    }
    t->post[t->n_post++] = id;
}

static void put_token(loader *l, const char *where, int64_t id) {
    if (l->status == TW_OK && !tw_tokenizer_piece(l->t, id))
        against(l, TW_ERR_FORMAT, "%s names the id %lld, which no token has", where, (long long)id);
    else
        put_post(l, (int32_t)id);
}

/* Puts a pair such as ["[CLS]", 101]. */
static void put_pair(loader *l, const json_t *o, const char *where, const char *key) {
    const json_t *v = json_object_get(o, key);
    int64_t id;
    if (json_array_size(v) != 2 || !tw_json_int(json_array_get(v, 1), 0, INT32_MAX, &id))
        wrong(l, where, key, v, "a token and its id");
    else
        put_token(l, where, id);
}

static void put_template(loader *l, const json_t *o, const char *where) {
    const json_t *single = json_object_get(o, "single"), *tokens = json_object_get(o, "special_tokens");
    if (!json_is_array(single)) {
        wrong(l, where, "single", single, "a list");
        return;
    }
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i), *sequence = json_object_get(piece, "Sequence");
        const json_t *special = json_object_get(piece, "SpecialToken"), *name = json_object_get(special, "id");
        if (sequence) {
            const json_t *which = json_object_get(sequence, "id");
            if (json_is_string(which) && !strcmp(json_string_value(which), "A"))
                put_post(l, -1);
            else
                against(l, TW_ERR_FORMAT, "%s.single[%zu] is not the sequence A", where, i);
            continue;
        }
        const json_t *ids =
            json_is_string(name) ? json_object_get(json_object_get(tokens, json_string_value(name)), "ids") : NULL;
        if (!json_is_array(ids)) {
            against(l, TW_ERR_FORMAT, "%s.single[%zu] names no special token", where, i);
            continue;
        }
        for (size_t k = 0; k < json_array_size(ids); k++) {
            int64_t id;
            if (tw_json_int(json_array_get(ids, k), 0, INT32_MAX, &id))
                put_token(l, where, id);
            else
                against(l, TW_ERR_FORMAT, "%s.special_tokens holds an id that is none", where);
        }
    }
}

/* Reads a processor that puts tokens around the text. Several in a row are not well defined. */
static void postprocessor(loader *l, const json_t *o, const char *type, const char *where) {
    tw_tokenizer *t = l->t;
    if (!strcmp(type, "ByteLevel")) {
        only(l, o, where, " type add_prefix_space trim_offsets use_regex ");
        return;
    }
    bool template = !strcmp(type, "TemplateProcessing"), roberta = !strcmp(type, "RobertaProcessing");
    if (!template && !roberta && strcmp(type, "BertProcessing") != 0) {
        against(l, TW_ERR_UNSUPPORTED, "%s: the post-processor %.60s is not supported", where, type);
        return;
    }
    if (t->n_post) {
        against(l, TW_ERR_UNSUPPORTED, "%s: a second post-processor that puts tokens around", where);
        return;
    }
    if (template) {
        only(l, o, where, " type single pair special_tokens ");
        put_template(l, o, where);
    } else {
        only(l, o, where, roberta ? " type sep cls trim_offsets add_prefix_space " : " type sep cls ");
        put_pair(l, o, where, "cls");
        put_post(l, -1);
        put_pair(l, o, where, "sep");
    }
    if (!t->n_post && l->status == TW_OK) /* A template without the text is legal, and always empty. */
        against(l, TW_ERR_UNSUPPORTED, "%s puts nothing into the result", where);
}

/* ---- vocabulary and added tokens ---- */

static void vocabulary(loader *l, const json_t *model) {
    tw_tokenizer *t = l->t;
    const json_t *vocab = json_object_get(model, "vocab");
    const char *key;
    json_t *v;
    if (!json_is_object(vocab)) {
        wrong(l, "model", "vocab", vocab, "an object");
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)vocab, key, v) {
        int64_t id;
        if (!tw_json_int(v, 0, INT32_MAX, &id)) {
            against(l, TW_ERR_FORMAT, "model.vocab: the id of %.200s is not a whole number from 0 to 2^31 - 1", key);
            continue;
        }
        if (id >= MAX_ID) {
            against(l, TW_ERR_UNSUPPORTED, "model.vocab: the id %lld of %.200s is beyond %d", (long long)id, key,
                    MAX_ID - 1);
            continue;
        }
        size_t n = strlen(key);
        char *piece = tw_arena_strndup(&t->arena, key, n);
        switch (piece ? tw_vocab_add(&t->vocab, piece, n, id, TW_TOKEN_MODEL) : TW_VOCAB_MEMORY) {
        case TW_VOCAB_OK:
            break;
        case TW_VOCAB_ID_TAKEN:
            against(l, TW_ERR_FORMAT, "model.vocab: %.200s and %.200s have the same id %lld", t->vocab.pieces[id], key,
                    (long long)id);
            break;
        case TW_VOCAB_PIECE_TAKEN:
            against(l, TW_ERR_FORMAT, "model.vocab: %.200s is there twice", key);
            break;
        case TW_VOCAB_MEMORY:
            no_memory(l);
            return;
        }
    }
}

/* Enters a token in the vocabulary and returns its id. -1: the reason has been added. */
static int32_t enter_added(loader *l, const char *content, size_t n, int64_t id) {
    tw_tokenizer *t = l->t;
    int32_t had = tw_vocab_find(&t->vocab, content, n);
    if (had >= 0) {
        if (had == id && t->vocab.flags[id] & TW_TOKEN_ADDED)
            against(l, TW_ERR_FORMAT, "added_tokens: %.200s is there twice", content);
        else if (had == id)
            return had;
        else
            against(l, TW_ERR_FORMAT, "added_tokens: %.200s has the id %lld, but %d before", content, (long long)id,
                    had);
        return -1;
    }
    if (id >= MAX_ID) {
        against(l, TW_ERR_UNSUPPORTED, "added_tokens: the id %lld of %.200s is beyond %d", (long long)id, content,
                MAX_ID - 1);
        return -1;
    }
    switch (tw_vocab_add(&t->vocab, content, n, id, 0)) {
    case TW_VOCAB_OK:
        return (int32_t)id;
    case TW_VOCAB_MEMORY:
        no_memory(l);
        return -1;
    default:
        against(l, TW_ERR_FORMAT, "added_tokens: the id %lld of %.200s belongs to %.200s", (long long)id, content,
                t->vocab.pieces[id]);
        return -1;
    }
}

/* Normalizes a token that matches normalized text. */
static const char *normal(loader *l, const char *content, size_t *n) {
    tw_text now = {0}, spare = {0};
    tw_scratch scratch = {0};
    char *out = NULL;
    size_t first = 0;
    tw_utf8_next(content, &first);
    now.zero = first;
    tw_buf_add(&now.b, content, *n);
    tw_diag why;
    tw_status s = now.b.failed ? TW_ERR_MEMORY
                               : tw_normalize(l->t->normalizers, l->t->n_normalizers, &scratch, &now, &spare, &why);
    if (s == TW_OK) {
        out = tw_arena_strndup(&l->t->arena, now.b.data, now.b.size);
        *n = now.b.size;
        if (!out) s = TW_ERR_MEMORY;
    }
    if (s == TW_ERR_MEMORY)
        no_memory(l);
    else if (s != TW_OK)
        against(l, s, "added_tokens: %.200s cannot be normalized: %.200s", content, why.message);
    tw_buf_free(&now.b);
    tw_buf_free(&spare.b);
    tw_scratch_free(&scratch);
    return out;
}

static void added_token(loader *l, const json_t *o, const char *where) {
    tw_tokenizer *t = l->t;
    size_t n;
    only(l, o, where, " id content single_word lstrip rstrip normalized special ");
    const char *content = get_string(l, o, where, "content", REQUIRED, &n);
    int64_t id = get_int(l, o, where, "id", 0, INT32_MAX);
    tw_added_token a = {.single_word = get_bool(l, o, where, "single_word", REQUIRED, false),
                        .lstrip = get_bool(l, o, where, "lstrip", REQUIRED, false),
                        .rstrip = get_bool(l, o, where, "rstrip", REQUIRED, false)};
    bool normalized = get_bool(l, o, where, "normalized", REQUIRED, false);
    bool special = get_bool(l, o, where, "special", REQUIRED, false);
    if (!content || !n || l->status != TW_OK) return; /* An empty token never matches. */
    if (memchr(content, 0, n)) {
        against(l, TW_ERR_UNSUPPORTED, "%s.content holds a NUL character", where);
        return;
    }
    a.id = enter_added(l, content, n, id);
    if (NO_PIECE(a.id)) return;
    t->vocab.flags[a.id] |= (uint8_t)(TW_TOKEN_ADDED | (special ? TW_TOKEN_SPECIAL : 0));
    a.pattern = a.content = content;
    a.size = a.content_size = n;
    a.special = special;
    if (normalized && t->n_normalizers) {
        a.pattern = normal(l, content, &a.size);
        if (!a.pattern) return;
        if (a.size != n || memcmp(a.pattern, content, n) != 0) t->decoded[a.id] = a.pattern;
    }
    tw_added *to = normalized ? &t->normalized : &t->raw;
    to->v[to->n++] = a;
}

static void added_tokens(loader *l, const json_t *root) {
    tw_tokenizer *t = l->t;
    const json_t *list = json_object_get(root, "added_tokens");
    size_t n = json_array_size(list);
    if (list && !json_is_array(list) && !json_is_null(list)) wrong(l, "tokenizer", "added_tokens", list, "a list");
    int64_t top = t->vocab.size;
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        if (tw_json_int(json_object_get(json_array_get(list, i), "id"), 0, MAX_ID - 1, &id) && id >= top) top = id + 1;
    }
    t->raw.v = tw_arena_array(&t->arena, n + 1, sizeof *t->raw.v);
    t->normalized.v = tw_arena_array(&t->arena, n + 1, sizeof *t->normalized.v);
    t->decoded = tw_arena_array(&t->arena, (size_t)top + 1, sizeof *t->decoded);
    if (t->arena.failed) {
        no_memory(l);
        return;
    }
    for (size_t i = 0; i < n && l->status != TW_ERR_MEMORY; i++) {
        char where[64];
        snprintf(where, sizeof where, "added_tokens[%zu]", i);
        const json_t *o = json_array_get(list, i);
        if (json_is_object(o))
            added_token(l, o, where);
        else
            against(l, TW_ERR_FORMAT, "%s is %s, not an object", where, kind_of(o));
    }
    if (l->status != TW_OK) return;
    for (int pass = 0; pass < 2; pass++) {
        tw_added *a = pass ? &t->normalized : &t->raw;
        int64_t bad = tw_added_prepare(a);
        if (bad >= 0)
            against(l, TW_ERR_UNSUPPORTED, "added_tokens: %.200s looks like %s in the text",
                    t->vocab.pieces[a->v[bad].id], a->v[bad].size ? "another token" : "nothing");
    }
    /* Decoding leaves out tokens whose text is that of a special token. */
    for (int64_t i = 0; i < t->vocab.size; i++) {
        if (!(t->vocab.flags[i] & TW_TOKEN_ADDED)) continue;
        const char *reads = t->decoded[i] ? t->decoded[i] : t->vocab.pieces[i];
        int32_t id = tw_vocab_find(&t->vocab, reads, strlen(reads));
        if (id >= 0 && t->vocab.flags[id] & TW_TOKEN_SPECIAL) t->vocab.flags[i] |= TW_TOKEN_SKIP;
    }
}

/* ---- models ---- */

static void bpe_model(loader *l, const json_t *o) {
    tw_tokenizer *t = l->t;
    tw_bpe *b = &t->bpe;
    size_t n;
    only(l, o, "model",
         " type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges "
         "vocab "
         "merges ");
    const json_t *dropout = json_object_get(o, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        against(l, TW_ERR_UNSUPPORTED, "model.dropout is set: encoding would be random");
    b->unk = get_string(l, o, "model", "unk_token", OPTIONAL, &n);
    b->prefix = get_string(l, o, "model", "continuing_subword_prefix", OPTIONAL, &b->prefix_size);
    b->suffix = get_string(l, o, "model", "end_of_word_suffix", OPTIONAL, &b->suffix_size);
    b->fuse_unk = get_bool(l, o, "model", "fuse_unk", OPTIONAL, false);
    b->byte_fallback = get_bool(l, o, "model", "byte_fallback", OPTIONAL, false);
    b->ignore_merges = get_bool(l, o, "model", "ignore_merges", OPTIONAL, false);
    t->model = TW_MODEL_BPE;
    const json_t *merges = json_object_get(o, "merges");
    if (!json_is_array(merges)) wrong(l, "model", "merges", merges, "a list");
    vocabulary(l, o);
    if (l->status == TW_OK) l->status = tw_bpe_load(t, o, l->path, l->diag);
}

static void wordpiece_model(loader *l, const json_t *o) {
    tw_tokenizer *t = l->t;
    tw_wordpiece *w = &t->wordpiece;
    size_t n;
    only(l, o, "model", " type unk_token continuing_subword_prefix max_input_chars_per_word vocab ");
    w->unk = get_string(l, o, "model", "unk_token", REQUIRED, &n);
    w->prefix = get_string(l, o, "model", "continuing_subword_prefix", REQUIRED, &w->prefix_size);
    w->max_chars = get_int(l, o, "model", "max_input_chars_per_word", 0, INT32_MAX);
    t->model = TW_MODEL_WORDPIECE;
    vocabulary(l, o);
    if (l->status != TW_OK) return;
    w->unk_id = tw_vocab_model(&t->vocab, w->unk, n);
    for (int64_t i = 0; i < t->vocab.size; i++)
        if (t->vocab.lengths[i] > w->longest) w->longest = t->vocab.lengths[i];
}

static void model(loader *l, const json_t *root) {
    const json_t *o = json_object_get(root, "model"), *type = json_object_get(o, "type");
    if (!json_is_object(o)) {
        wrong(l, "tokenizer", "model", o, "an object");
        return;
    }
    /* Files of 2020 do not name the type, so their fields decide. */
    const char *name = json_is_string(type)                             ? json_string_value(type)
                       : type && !json_is_null(type)                    ? "of no name"
                       : json_object_get(o, "merges")                   ? "BPE"
                       : json_object_get(o, "max_input_chars_per_word") ? "WordPiece"
                                                                        : "of no name";
    if (!strcmp(name, "BPE"))
        bpe_model(l, o);
    else if (!strcmp(name, "WordPiece"))
        wordpiece_model(l, o);
    else
        against(l, TW_ERR_UNSUPPORTED, "the model %.60s is not supported (BPE and WordPiece are)", name);
}

/* ---- the whole ---- */

static void truncation(loader *l, const json_t *root) {
    const json_t *o = json_object_get(root, "truncation");
    tw_tokenizer *t = l->t;
    t->max_length = -1;
    if (!o || json_is_null(o)) return;
    only(l, o, "truncation", " direction max_length strategy stride ");
    const json_t *direction = json_object_get(o, "direction"), *strategy = json_object_get(o, "strategy");
    const char *d = json_is_string(direction) ? json_string_value(direction) : direction ? "" : "Right";
    const char *s = json_is_string(strategy) ? json_string_value(strategy) : "";
    if (strcmp(d, "Right") != 0 && strcmp(d, "Left") != 0)
        against(l, TW_ERR_UNSUPPORTED, "truncation.direction is not Right or Left");
    if (strcmp(s, "LongestFirst") != 0 && strcmp(s, "OnlyFirst") != 0)
        against(l, TW_ERR_UNSUPPORTED, "truncation.strategy is not LongestFirst or OnlyFirst");
    t->truncate_left = !strcmp(d, "Left");
    t->max_length = get_int(l, o, "truncation", "max_length", 0, INT32_MAX);
    int64_t stride = get_int(l, o, "truncation", "stride", 0, INT32_MAX), around = 0;
    for (int i = 0; i < t->n_post; i++) around += t->post[i] >= 0;
    if (l->status == TW_OK && t->max_length - around <= stride)
        against(l, TW_ERR_UNSUPPORTED,
                "truncation.max_length %lld leaves no room beside %lld special tokens and a stride of %lld",
                (long long)t->max_length, (long long)around, (long long)stride);
}

static void padding(loader *l, const json_t *root) {
    const json_t *o = json_object_get(root, "padding"), *strategy = json_object_get(o, "strategy");
    int64_t multiple = 0;
    if (!o || json_is_null(o)) return;
    if (!json_is_string(strategy) || strcmp(json_string_value(strategy), "BatchLongest") != 0)
        against(l, TW_ERR_UNSUPPORTED, "padding.strategy is not BatchLongest: a single text would be padded");
    const json_t *m = json_object_get(o, "pad_to_multiple_of");
    if (m && !json_is_null(m) && !tw_json_int(m, 0, 1, &multiple))
        against(l, TW_ERR_UNSUPPORTED, "padding.pad_to_multiple_of is set: a single text would be padded");
}

tw_status tw_tokenizer_load(tw_tokenizer *t, const json_t *root, const char *path, tw_diag *diag) {
    static const chain normalizers = {"normalizer", "normalizers", normalizer};
    static const chain pretokenizers = {"pre_tokenizer", "pretokenizers", pretokenizer};
    static const chain postprocessors = {"post_processor", "processors", postprocessor};
    static const chain decoders = {"decoder", "decoders", decoder};
    loader l = {t, path, diag, TW_OK};
    tw_diag_clear(diag);
    t->normalizers = tw_arena_array(&t->arena, MAX_STAGES, sizeof *t->normalizers);
    t->pretokenizers = tw_arena_array(&t->arena, MAX_STAGES, sizeof *t->pretokenizers);
    t->decoders = tw_arena_array(&t->arena, MAX_STAGES, sizeof *t->decoders);
    t->post = tw_arena_array(&t->arena, MAX_STAGES, sizeof *t->post);
    if (t->arena.failed) return tw_fail_memory(diag);
    if (!json_is_object(root)) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "not a JSON object");
    const json_t *version = json_object_get(root, "version");
    if (version && (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0))
        against(&l, TW_ERR_UNSUPPORTED, "version is not \"1.0\"");
    only(&l, root, "tokenizer",
         " version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model ");
    read_chain(&l, root, &normalizers);
    read_chain(&l, root, &pretokenizers);
    const json_t *d = json_object_get(root, "decoder");
    if (!d || json_is_null(d))
        t->decoders[t->n_decoders++].kind = TW_DEC_JOIN;
    else
        read_chain(&l, root, &decoders);
    if (l.status != TW_ERR_MEMORY) model(&l, root);
    padding(&l, root);
    if (l.status == TW_OK) added_tokens(&l, root); /* Added tokens need a whole vocabulary. */
    if (l.status != TW_ERR_MEMORY) read_chain(&l, root, &postprocessors);
    if (l.status == TW_OK && !t->n_post) put_post(&l, -1);
    if (l.status != TW_ERR_MEMORY) truncation(&l, root);
    if (l.status != TW_ERR_MEMORY && t->arena.failed) no_memory(&l);
    return l.status;
}
