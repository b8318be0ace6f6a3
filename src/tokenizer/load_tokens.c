/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of tokenizer.json: the model's vocabulary and the added tokens. */
#include "tokenizer/load_parts.h"

#include "tokenizer/unicode.h"

#include <stdio.h>
#include <string.h>

#define MAX_ID      (1 << 22) /* Ids index arrays. The largest vocabularies in use have 2^18. */
#define NO_PIECE(i) ((i) < 0)

void tw_loader_vocabulary(tw_loader *l, const json_t *model) {
    tw_tokenizer *t = l->t;
    const json_t *vocab = json_object_get(model, "vocab");
    const char *key;
    json_t *v;
    if (!json_is_object(vocab)) {
        tw_loader_wrong(l, "model", "vocab", vocab, "an object");
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)vocab, key, v) {
        int64_t id;
        if (!tw_json_int(v, 0, INT32_MAX, &id)) {
            tw_loader_against(l, TW_ERR_FORMAT,
                              "model.vocab: the id of %.200s is not a whole number from 0 to 2^31 - 1", key);
            continue;
        }
        if (id >= MAX_ID) {
            tw_loader_against(l, TW_ERR_UNSUPPORTED, "model.vocab: the id %lld of %.200s is beyond %d", (long long)id,
                              key, MAX_ID - 1);
            continue;
        }
        size_t n = strlen(key);
        char *piece = tw_arena_strndup(&t->arena, key, n);
        switch (piece ? tw_vocab_add(&t->vocab, piece, n, id, TW_TOKEN_MODEL) : TW_VOCAB_MEMORY) {
        case TW_VOCAB_OK:
            break;
        case TW_VOCAB_ID_TAKEN:
            tw_loader_against(l, TW_ERR_FORMAT, "model.vocab: %.200s and %.200s have the same id %lld",
                              t->vocab.pieces[id], key, (long long)id);
            break;
        case TW_VOCAB_PIECE_TAKEN:
            tw_loader_against(l, TW_ERR_FORMAT, "model.vocab: %.200s is there twice", key);
            break;
        case TW_VOCAB_MEMORY:
            tw_loader_no_memory(l);
            return;
        }
    }
}

/* Enters a token in the vocabulary and returns its id. -1: the reason has been added. */
static int32_t enter_added(tw_loader *l, const char *content, size_t n, int64_t id) {
    tw_tokenizer *t = l->t;
    int32_t had = tw_vocab_find(&t->vocab, content, n);
    if (had >= 0) {
        if (had == id && t->vocab.flags[id] & TW_TOKEN_ADDED)
            tw_loader_against(l, TW_ERR_FORMAT, "added_tokens: %.200s is there twice", content);
        else if (had == id)
            return had;
        else
            tw_loader_against(l, TW_ERR_FORMAT, "added_tokens: %.200s has the id %lld, but %d before", content,
                              (long long)id, had);
        return -1;
    }
    if (id >= MAX_ID) {
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "added_tokens: the id %lld of %.200s is beyond %d", (long long)id,
                          content, MAX_ID - 1);
        return -1;
    }
    switch (tw_vocab_add(&t->vocab, content, n, id, 0)) {
    case TW_VOCAB_OK:
        return (int32_t)id;
    case TW_VOCAB_MEMORY:
        tw_loader_no_memory(l);
        return -1;
    default:
        tw_loader_against(l, TW_ERR_FORMAT, "added_tokens: the id %lld of %.200s belongs to %.200s", (long long)id,
                          content, t->vocab.pieces[id]);
        return -1;
    }
}

/* Normalizes a token that matches normalized text. */
static const char *normal(tw_loader *l, const char *content, size_t *n) {
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
        tw_loader_no_memory(l);
    else if (s != TW_OK)
        tw_loader_against(l, s, "added_tokens: %.200s cannot be normalized: %.200s", content, why.message);
    tw_buf_free(&now.b);
    tw_buf_free(&spare.b);
    tw_scratch_free(&scratch);
    return out;
}

static void added_token(tw_loader *l, const json_t *o, const char *where) {
    tw_tokenizer *t = l->t;
    size_t n;
    tw_loader_only(l, o, where, " id content single_word lstrip rstrip normalized special ");
    const char *content = tw_loader_string(l, o, where, "content", TW_REQUIRED, &n);
    int64_t id = tw_loader_int(l, o, where, "id", 0, INT32_MAX);
    tw_added_token a = {.single_word = tw_loader_bool(l, o, where, "single_word", TW_REQUIRED, false),
                        .lstrip = tw_loader_bool(l, o, where, "lstrip", TW_REQUIRED, false),
                        .rstrip = tw_loader_bool(l, o, where, "rstrip", TW_REQUIRED, false)};
    bool normalized = tw_loader_bool(l, o, where, "normalized", TW_REQUIRED, false);
    bool special = tw_loader_bool(l, o, where, "special", TW_REQUIRED, false);
    if (!content || !n || l->status != TW_OK) return; /* An empty token never matches. */
    if (memchr(content, 0, n)) {
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "%s.content holds a NUL character", where);
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

void tw_loader_added_tokens(tw_loader *l, const json_t *root) {
    tw_tokenizer *t = l->t;
    const json_t *list = json_object_get(root, "added_tokens");
    size_t n = json_array_size(list);
    if (list && !json_is_array(list) && !json_is_null(list))
        tw_loader_wrong(l, "tokenizer", "added_tokens", list, "a list");
    int64_t top = t->vocab.size;
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        if (tw_json_int(json_object_get(json_array_get(list, i), "id"), 0, MAX_ID - 1, &id) && id >= top) top = id + 1;
    }
    t->raw.v = tw_arena_array(&t->arena, n + 1, sizeof *t->raw.v);
    t->normalized.v = tw_arena_array(&t->arena, n + 1, sizeof *t->normalized.v);
    t->decoded = tw_arena_array(&t->arena, (size_t)top + 1, sizeof *t->decoded);
    if (t->arena.failed) {
        tw_loader_no_memory(l);
        return;
    }
    for (size_t i = 0; i < n && l->status != TW_ERR_MEMORY; i++) {
        char where[64];
        snprintf(where, sizeof where, "added_tokens[%zu]", i);
        const json_t *o = json_array_get(list, i);
        if (json_is_object(o))
            added_token(l, o, where);
        else
            tw_loader_against(l, TW_ERR_FORMAT, "%s is %s, not an object", where, tw_loader_kind(o));
    }
    if (l->status != TW_OK) return;
    for (int pass = 0; pass < 2; pass++) {
        tw_added *a = pass ? &t->normalized : &t->raw;
        int64_t bad = tw_added_prepare(a);
        if (bad >= 0)
            tw_loader_against(l, TW_ERR_UNSUPPORTED, "added_tokens: %.200s looks like %s in the text",
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
