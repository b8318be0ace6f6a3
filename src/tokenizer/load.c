/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tokenizer.json. Every part is read to the end, so that all reasons against a file are reported at once. Here
   are the model, truncation and padding, and the order of the parts. */
#include "tokenizer/load_parts.h"

#include <string.h>

/* ---- models ---- */

static void bpe_model(tw_loader *l, const json_t *o) {
    tw_tokenizer *t = l->t;
    tw_bpe *b = &t->bpe;
    size_t n;
    tw_loader_only(
        l, o, "model",
        " type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges "
        "vocab "
        "merges ");
    const json_t *dropout = json_object_get(o, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "model.dropout is set: encoding would be random");
    b->unk = tw_loader_string(l, o, "model", "unk_token", TW_OPTIONAL, &n);
    b->prefix = tw_loader_string(l, o, "model", "continuing_subword_prefix", TW_OPTIONAL, &b->prefix_size);
    b->suffix = tw_loader_string(l, o, "model", "end_of_word_suffix", TW_OPTIONAL, &b->suffix_size);
    b->fuse_unk = tw_loader_bool(l, o, "model", "fuse_unk", TW_OPTIONAL, false);
    b->byte_fallback = tw_loader_bool(l, o, "model", "byte_fallback", TW_OPTIONAL, false);
    b->ignore_merges = tw_loader_bool(l, o, "model", "ignore_merges", TW_OPTIONAL, false);
    t->model = TW_MODEL_BPE;
    const json_t *merges = json_object_get(o, "merges");
    if (!json_is_array(merges)) tw_loader_wrong(l, "model", "merges", merges, "a list");
    tw_loader_vocabulary(l, o);
    if (l->status == TW_OK) l->status = tw_bpe_load(t, o, l->path, l->diag);
}

static void wordpiece_model(tw_loader *l, const json_t *o) {
    tw_tokenizer *t = l->t;
    tw_wordpiece *w = &t->wordpiece;
    size_t n;
    tw_loader_only(l, o, "model", " type unk_token continuing_subword_prefix max_input_chars_per_word vocab ");
    w->unk = tw_loader_string(l, o, "model", "unk_token", TW_REQUIRED, &n);
    w->prefix = tw_loader_string(l, o, "model", "continuing_subword_prefix", TW_REQUIRED, &w->prefix_size);
    w->max_chars = tw_loader_int(l, o, "model", "max_input_chars_per_word", 0, INT32_MAX);
    t->model = TW_MODEL_WORDPIECE;
    tw_loader_vocabulary(l, o);
    if (l->status != TW_OK) return;
    w->unk_id = tw_vocab_model(&t->vocab, w->unk, n);
    for (int64_t i = 0; i < t->vocab.size; i++)
        if (t->vocab.lengths[i] > w->longest) w->longest = t->vocab.lengths[i];
}

static void model(tw_loader *l, const json_t *root) {
    const json_t *o = json_object_get(root, "model"), *type = json_object_get(o, "type");
    if (!json_is_object(o)) {
        tw_loader_wrong(l, "tokenizer", "model", o, "an object");
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
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "the model %.60s is not supported (BPE and WordPiece are)", name);
}

/* ---- truncation, padding, and the whole ---- */

static void truncation(tw_loader *l, const json_t *root) {
    const json_t *o = json_object_get(root, "truncation");
    tw_tokenizer *t = l->t;
    t->max_length = -1;
    if (!o || json_is_null(o)) return;
    tw_loader_only(l, o, "truncation", " direction max_length strategy stride ");
    const json_t *direction = json_object_get(o, "direction"), *strategy = json_object_get(o, "strategy");
    const char *d = json_is_string(direction) ? json_string_value(direction) : direction ? "" : "Right";
    const char *s = json_is_string(strategy) ? json_string_value(strategy) : "";
    if (strcmp(d, "Right") != 0 && strcmp(d, "Left") != 0)
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "truncation.direction is not Right or Left");
    if (strcmp(s, "LongestFirst") != 0 && strcmp(s, "OnlyFirst") != 0)
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "truncation.strategy is not LongestFirst or OnlyFirst");
    t->truncate_left = !strcmp(d, "Left");
    t->max_length = tw_loader_int(l, o, "truncation", "max_length", 0, INT32_MAX);
    int64_t stride = tw_loader_int(l, o, "truncation", "stride", 0, INT32_MAX), around = 0;
    for (int i = 0; i < t->n_post; i++) around += t->post[i] >= 0;
    if (l->status == TW_OK && t->max_length - around <= stride)
        tw_loader_against(l, TW_ERR_UNSUPPORTED,
                          "truncation.max_length %lld leaves no room beside %lld special tokens and a stride of %lld",
                          (long long)t->max_length, (long long)around, (long long)stride);
}

static void padding(tw_loader *l, const json_t *root) {
    const json_t *o = json_object_get(root, "padding"), *strategy = json_object_get(o, "strategy");
    int64_t multiple = 0;
    if (!o || json_is_null(o)) return;
    if (!json_is_string(strategy) || strcmp(json_string_value(strategy), "BatchLongest") != 0)
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "padding.strategy is not BatchLongest: a single text would be padded");
    const json_t *m = json_object_get(o, "pad_to_multiple_of");
    if (m && !json_is_null(m) && !tw_json_int(m, 0, 1, &multiple))
        tw_loader_against(l, TW_ERR_UNSUPPORTED, "padding.pad_to_multiple_of is set: a single text would be padded");
}

tw_status tw_tokenizer_load(tw_tokenizer *t, const json_t *root, const char *path, tw_diag *diag) {
    tw_loader l = {t, path, diag, TW_OK};
    tw_diag_clear(diag);
    t->normalizers = tw_arena_array(&t->arena, TW_LOADER_STAGES, sizeof *t->normalizers);
    t->pretokenizers = tw_arena_array(&t->arena, TW_LOADER_STAGES, sizeof *t->pretokenizers);
    t->decoders = tw_arena_array(&t->arena, TW_LOADER_STAGES, sizeof *t->decoders);
    t->post = tw_arena_array(&t->arena, TW_LOADER_STAGES, sizeof *t->post);
    if (t->arena.failed) return tw_fail_memory(diag);
    if (!json_is_object(root)) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "not a JSON object");
    const json_t *version = json_object_get(root, "version");
    if (version && (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0))
        tw_loader_against(&l, TW_ERR_UNSUPPORTED, "version is not \"1.0\"");
    tw_loader_only(&l, root, "tokenizer",
                   " version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model ");
    tw_loader_normalizers(&l, root);
    tw_loader_pretokenizers(&l, root);
    tw_loader_decoders(&l, root);
    if (l.status != TW_ERR_MEMORY) model(&l, root);
    padding(&l, root);
    if (l.status == TW_OK) tw_loader_added_tokens(&l, root); /* Added tokens need a whole vocabulary. */
    if (l.status != TW_ERR_MEMORY) tw_loader_postprocessors(&l, root);
    if (l.status != TW_ERR_MEMORY) truncation(&l, root);
    if (l.status != TW_ERR_MEMORY && t->arena.failed) tw_loader_no_memory(&l);
    return l.status;
}
