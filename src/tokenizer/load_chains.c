/* SPDX-License-Identifier: Apache-2.0 */
/* The chains of tokenizer.json: normalizers, pre-tokenizers, decoders and post-processors. Sequences are flattened. */
#include "tokenizer/load_parts.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 16 /* Depth of Sequences within Sequences. */

typedef struct chain {
    const char *name; /* The chain's name, for messages. */
    const char *list; /* The field of a Sequence that has its members. */
    void (*part)(tw_loader *l, const json_t *o, const char *type, const char *where);
} chain;

static void walk(tw_loader *l, const chain *c, const json_t *o, const char *where, int depth) {
    const json_t *type = json_object_get(o, "type");
    if (!json_is_object(o) || !json_is_string(type)) {
        tw_loader_against(l, TW_ERR_FORMAT, "%s is %s, not an object with a type", where, tw_loader_kind(o));
        return;
    }
    if (strcmp(json_string_value(type), "Sequence") != 0) {
        c->part(l, o, json_string_value(type), where);
        return;
    }
    const json_t *members = json_object_get(o, c->list);
    if (!json_is_array(members)) {
        tw_loader_wrong(l, where, c->list, members, "a list");
        return;
    }
    if (depth >= MAX_DEPTH) {
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s holds Sequences more than %d deep", c->name, MAX_DEPTH);
        return;
    }
    for (size_t i = 0; i < json_array_size(members) && l->status != TW_ERR_MEMORY; i++) {
        char here[160];
        snprintf(here, sizeof here, "%.100s[%zu]", where, i);
        walk(l, c, json_array_get(members, i), here, depth + 1);
    }
}

/* Returns room for the next part of a chain. NULL: there is none, and the reason has been added. */
static void *next(tw_loader *l, void *v, int n, size_t size, const char *name) {
    if (n < TW_LOADER_STAGES) return (char *)v + (size_t)n * size;
    tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s has more than %d parts", name, TW_LOADER_STAGES);
    return NULL;
}

/* ---- a part of each kind ---- */

static void normalizer(tw_loader *l, const json_t *o, const char *type, const char *where) {
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
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s: the normalizer %.60s is not supported", where, type);
        return;
    }
    tw_tokenizer *t = l->t;
    tw_normalizer *p = next(l, t->normalizers, t->n_normalizers, sizeof *p, "normalizer");
    if (!p) return;
    tw_loader_only(l, o, where, kinds[k].fields);
    t->n_normalizers++;
    p->kind = kinds[k].kind;
    switch (p->kind) {
    case TW_NORM_BERT:
        p->clean = tw_loader_bool(l, o, where, "clean_text", TW_REQUIRED, false);
        p->chinese = tw_loader_bool(l, o, where, "handle_chinese_chars", TW_REQUIRED, false);
        p->lowercase = tw_loader_bool(l, o, where, "lowercase", TW_REQUIRED, false);
        p->accents = tw_loader_bool(l, o, where, "strip_accents", TW_OPTIONAL, p->lowercase);
        break;
    case TW_NORM_STRIP:
        p->left = tw_loader_bool(l, o, where, "strip_left", TW_REQUIRED, false);
        p->right = tw_loader_bool(l, o, where, "strip_right", TW_REQUIRED, false);
        break;
    case TW_NORM_REPLACE:
        p->pattern = tw_loader_pattern(l, o, where);
        p->text = tw_loader_string(l, o, where, "content", TW_REQUIRED, &p->text_size);
        break;
    case TW_NORM_PREPEND:
        p->text = tw_loader_string(l, o, where, "prepend", TW_REQUIRED, &p->text_size);
        break;
    default:
        break;
    }
}

static tw_behavior get_behavior(tw_loader *l, const json_t *o, const char *where, tw_need need) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const json_t *v = json_object_get(o, "behavior");
    if (need == TW_OPTIONAL && !v) return TW_ISOLATED;
    for (int i = 0; json_is_string(v) && i < 5; i++)
        if (!strcmp(json_string_value(v), names[i])) return (tw_behavior)i;
    if (json_is_string(v))
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s.behavior %.60s is not supported", where, json_string_value(v));
    else
        tw_loader_wrong(l, where, "behavior", v, "a string");
    return TW_ISOLATED;
}

/* Reads prepend_scheme, or old files' add_prefix_space. */
static tw_prepend get_prepend(tw_loader *l, const json_t *o, const char *where) {
    const json_t *scheme = json_object_get(o, "prepend_scheme"), *old = json_object_get(o, "add_prefix_space");
    tw_prepend p = json_is_false(old) ? TW_PREPEND_NEVER : TW_PREPEND_ALWAYS;
    if (old && !json_is_null(old) && !json_is_boolean(old))
        tw_loader_wrong(l, where, "add_prefix_space", old, "a boolean");
    if (!scheme) return p;
    const char *s = json_is_string(scheme) ? json_string_value(scheme) : "";
    if (!strcmp(s, "always"))
        p = TW_PREPEND_ALWAYS;
    else if (!strcmp(s, "first"))
        p = TW_PREPEND_FIRST;
    else if (!strcmp(s, "never"))
        p = TW_PREPEND_NEVER;
    else
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s.prepend_scheme is not always, first or never", where);
    if (json_is_false(old) && p != TW_PREPEND_NEVER)
        tw_loader_against(l, TW_ERR_FORMAT, "%s.add_prefix_space contradicts its prepend_scheme", where);
    return p;
}

/* GPT-2's regex, by which a byte-level part splits if it brings its own. */
static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static void pretokenizer(tw_loader *l, const json_t *o, const char *type, const char *where) {
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
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s: the pre-tokenizer %.60s is not supported", where, type);
        return;
    }
    tw_tokenizer *t = l->t;
    tw_pretokenizer *p = next(l, t->pretokenizers, t->n_pretokenizers, sizeof *p, "pre_tokenizer");
    if (!p) return;
    tw_loader_only(l, o, where, kinds[k].fields);
    t->n_pretokenizers++;
    p->kind = kinds[k].kind;
    switch (p->kind) {
    case TW_PRE_SPLIT:
        if (!strcmp(type, "Split")) {
            p->pattern = tw_loader_pattern(l, o, where);
            p->behavior = get_behavior(l, o, where, TW_REQUIRED);
            p->invert = tw_loader_bool(l, o, where, "invert", TW_REQUIRED, false);
            break;
        }
        p->behavior = TW_REMOVED;
        const char *delimiter = tw_loader_char(l, o, where, "delimiter", &size);
        if (delimiter && tw_regex_literal(&p->pattern, delimiter, size) != TW_OK) tw_loader_no_memory(l);
        break;
    case TW_PRE_BYTE_LEVEL:
        p->add_prefix_space = tw_loader_bool(l, o, where, "add_prefix_space", TW_REQUIRED, false);
        if (tw_loader_bool(l, o, where, "use_regex", TW_OPTIONAL, true)) {
            char why[200];
            if (tw_regex_compile(&p->pattern, gpt2, sizeof gpt2 - 1, why, sizeof why) != TW_OK) tw_loader_no_memory(l);
        }
        break;
    case TW_PRE_DIGITS:
        p->individual = tw_loader_bool(l, o, where, "individual_digits", TW_REQUIRED, false);
        break;
    case TW_PRE_METASPACE:
        p->replacement = tw_loader_char(l, o, where, "replacement", &p->replacement_size);
        p->prepend = get_prepend(l, o, where);
        p->split = tw_loader_bool(l, o, where, "split", TW_OPTIONAL, true);
        break;
    case TW_PRE_PUNCTUATION:
        p->behavior = get_behavior(l, o, where, TW_OPTIONAL);
        break;
    default:
        break;
    }
}

static void decoder(tw_loader *l, const json_t *o, const char *type, const char *where) {
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
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s: the decoder %.60s is not supported", where, type);
        return;
    }
    tw_tokenizer *t = l->t;
    tw_decoder *p = next(l, t->decoders, t->n_decoders, sizeof *p, "decoder");
    if (!p) return;
    tw_loader_only(l, o, where, kinds[k].fields);
    t->n_decoders++;
    p->kind = kinds[k].kind;
    switch (p->kind) {
    case TW_DEC_WORDPIECE:
        p->text = tw_loader_string(l, o, where, "prefix", TW_REQUIRED, &p->text_size);
        p->cleanup = tw_loader_bool(l, o, where, "cleanup", TW_REQUIRED, false);
        break;
    case TW_DEC_METASPACE:
        p->text = tw_loader_char(l, o, where, "replacement", &p->text_size);
        p->drop_first = get_prepend(l, o, where) != TW_PREPEND_NEVER;
        break;
    case TW_DEC_REPLACE:
        p->pattern = tw_loader_pattern(l, o, where);
        p->text = tw_loader_string(l, o, where, "content", TW_REQUIRED, &p->text_size);
        break;
    case TW_DEC_STRIP:
        p->text = tw_loader_char(l, o, where, "content", &p->text_size);
        p->start = (size_t)tw_loader_int(l, o, where, "start", 0, INT32_MAX);
        p->stop = (size_t)tw_loader_int(l, o, where, "stop", 0, INT32_MAX);
        break;
    case TW_DEC_BPE:
        p->text = tw_loader_string(l, o, where, "suffix", TW_REQUIRED, &p->text_size);
        if (p->text && !p->text_size) tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s.suffix is empty", where);
        break;
    default:
        break;
    }
}

/* ---- the post-processor ---- */

static void put_post(tw_loader *l, int32_t id) {
    tw_tokenizer *t = l->t;
    if (t->n_post == TW_LOADER_STAGES) {
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "post_processor puts more than %d tokens around", TW_LOADER_STAGES);
        return;
    }
    t->post[t->n_post++] = id;
}

static void put_token(tw_loader *l, const char *where, int64_t id) {
    if (l->status == TW_OK && !tw_tokenizer_piece(l->t, id))
        tw_loader_against(l, TW_ERR_FORMAT, "%s names the id %lld, which no token has", where, (long long)id);
    else
        put_post(l, (int32_t)id);
}

/* Puts a pair such as ["[CLS]", 101]. */
static void put_pair(tw_loader *l, const json_t *o, const char *where, const char *key) {
    const json_t *v = json_object_get(o, key);
    int64_t id;
    if (json_array_size(v) != 2 || !tw_json_int(json_array_get(v, 1), 0, INT32_MAX, &id))
        tw_loader_wrong(l, where, key, v, "a token and its id");
    else
        put_token(l, where, id);
}

static void put_template(tw_loader *l, const json_t *o, const char *where) {
    const json_t *single = json_object_get(o, "single"), *tokens = json_object_get(o, "special_tokens");
    if (!json_is_array(single)) {
        tw_loader_wrong(l, where, "single", single, "a list");
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
                tw_loader_against(l, TW_ERR_FORMAT, "%s.single[%zu] is not the sequence A", where, i);
            continue;
        }
        const json_t *ids =
            json_is_string(name) ? json_object_get(json_object_get(tokens, json_string_value(name)), "ids") : NULL;
        if (!json_is_array(ids)) {
            tw_loader_against(l, TW_ERR_FORMAT, "%s.single[%zu] names no special token", where, i);
            continue;
        }
        for (size_t k = 0; k < json_array_size(ids); k++) {
            int64_t id;
            if (tw_json_int(json_array_get(ids, k), 0, INT32_MAX, &id))
                put_token(l, where, id);
            else
                tw_loader_against(l, TW_ERR_FORMAT, "%s.special_tokens holds an id that is none", where);
        }
    }
}

/* Reads a processor that puts tokens around the text. Several in a row are not well defined. */
static void postprocessor(tw_loader *l, const json_t *o, const char *type, const char *where) {
    tw_tokenizer *t = l->t;
    if (!strcmp(type, "ByteLevel")) {
        tw_loader_only(l, o, where, " type add_prefix_space trim_offsets use_regex ");
        return;
    }
    bool template = !strcmp(type, "TemplateProcessing"), roberta = !strcmp(type, "RobertaProcessing");
    if (!template && !roberta && strcmp(type, "BertProcessing") != 0) {
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s: the post-processor %.60s is not supported", where, type);
        return;
    }
    if (t->n_post) {
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s: a second post-processor that puts tokens around", where);
        return;
    }
    if (template) {
        tw_loader_only(l, o, where, " type single pair special_tokens ");
        put_template(l, o, where);
    } else {
        tw_loader_only(l, o, where, roberta ? " type sep cls trim_offsets add_prefix_space " : " type sep cls ");
        put_pair(l, o, where, "cls");
        put_post(l, -1);
        put_pair(l, o, where, "sep");
    }
    if (!t->n_post && l->status == TW_OK) /* A template without the text is legal, and always empty. */
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s puts nothing into the result", where);
}

/* ---- the chains ---- */

static void read_chain(tw_loader *l, const json_t *root, const chain *c) {
    const json_t *o = json_object_get(root, c->name);
    if (o && !json_is_null(o)) walk(l, c, o, c->name, 0);
}

void tw_loader_normalizers(tw_loader *l, const json_t *root) {
    static const chain c = {"normalizer", "normalizers", normalizer};
    read_chain(l, root, &c);
}

void tw_loader_pretokenizers(tw_loader *l, const json_t *root) {
    static const chain c = {"pre_tokenizer", "pretokenizers", pretokenizer};
    read_chain(l, root, &c);
}

void tw_loader_decoders(tw_loader *l, const json_t *root) {
    static const chain c = {"decoder", "decoders", decoder};
    const json_t *o = json_object_get(root, "decoder");
    if (!o || json_is_null(o))
        l->t->decoders[l->t->n_decoders++].kind = TW_DEC_JOIN;
    else
        read_chain(l, root, &c);
}

void tw_loader_postprocessors(tw_loader *l, const json_t *root) {
    static const chain c = {"post_processor", "processors", postprocessor};
    read_chain(l, root, &c);
    if (l->status == TW_OK && !l->t->n_post) put_post(l, -1);
}
