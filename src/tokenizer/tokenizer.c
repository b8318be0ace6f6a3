/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "base/file.h"
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

bool tw_ids_push(tw_ids *ids, int32_t id) {
    if (ids->failed) return false;
    if (ids->n == ids->room) {
        size_t room = ids->room ? ids->room * 2 : 64;
        int32_t *v = realloc(ids->v, room * sizeof *v);
        if (!v) return !(ids->failed = true);
        ids->v = v;
        ids->room = room;
    }
    ids->v[ids->n++] = id;
    return true;
}

tw_status tw_tokenizer_open_memory(tw_tokenizer **out, const char *data, size_t size, const char *path, tw_diag *diag) {
    *out = NULL;
    json_t *root = NULL;
    tw_tokenizer *t = NULL;
    tw_status s = tw_json_parse(&root, data, size, path, -1, diag);
    if (s != TW_OK) goto done;
    t = calloc(1, sizeof *t);
    if (!t) {
        s = tw_fail_memory(diag);
        goto done;
    }
    s = tw_tokenizer_load(t, root, path, diag);
done:
    json_decref(root);
    if (s != TW_OK) {
        tw_tokenizer_close(t);
        t = NULL;
    }
    *out = t;
    return s;
}

tw_status tw_tokenizer_open(tw_tokenizer **out, const char *path, tw_diag *diag) {
    if (!out || !path) return tw_fail(diag, TW_ERR_USAGE, "tw_tokenizer_open needs a path and somewhere to put it");
    *out = NULL;
    tw_diag_clear(diag);
    tw_buf name = {0}, text = {0};
    tw_status s = TW_OK;
    tw_buf_str(&name, path);
    if (tw_path_is_dir(path)) tw_buf_str(&name, "/tokenizer.json");
    if (name.failed) {
        s = tw_fail_memory(diag);
        goto done;
    }
    s = tw_file_read(&text, name.data, diag);
    if (s == TW_OK) s = tw_tokenizer_open_memory(out, text.data, text.size, name.data, diag);
done:
    tw_buf_free(&name);
    tw_buf_free(&text);
    return s;
}

void tw_tokenizer_close(tw_tokenizer *t) {
    if (!t) return;
    for (int i = 0; i < t->n_normalizers; i++) tw_regex_free(t->normalizers[i].pattern);
    for (int i = 0; i < t->n_pretokenizers; i++) tw_regex_free(t->pretokenizers[i].pattern);
    for (int i = 0; i < t->n_decoders; i++) tw_regex_free(t->decoders[i].pattern);
    tw_bpe_free(&t->bpe);
    tw_vocab_free(&t->vocab);
    tw_arena_free(&t->arena);
    free(t);
}

int64_t tw_tokenizer_size(const tw_tokenizer *t) {
    return t->vocab.size;
}

const char *tw_tokenizer_piece(const tw_tokenizer *t, int64_t id) {
    return id >= 0 && id < t->vocab.size ? t->vocab.pieces[id] : NULL;
}

int64_t tw_tokenizer_id(const tw_tokenizer *t, const char *piece) {
    return piece ? tw_vocab_find(&t->vocab, piece, strlen(piece)) : -1;
}

bool tw_tokenizer_is_special(const tw_tokenizer *t, int64_t id) {
    return id >= 0 && id < t->vocab.size && t->vocab.flags[id] & TW_TOKEN_SPECIAL;
}

/* Normalizes the pieces of the raw text that are text, and splits them again. */
static tw_status normalize_pieces(const tw_tokenizer *t, tw_scratch *scratch, const char *text,
                                  const unsigned char *typed, const tw_pieces *raw, tw_cutting *c, tw_diag *diag) {
    tw_text now = {0}, spare = {0};
    tw_status s = TW_OK;
    for (size_t i = 0; i < raw->n && s == TW_OK; i++) {
        const tw_piece *p = &raw->v[i];
        if (p->id >= 0) {
            tw_pieces_push(&c->pieces, *p);
            continue;
        }
        size_t base = c->text.size;
        if (t->n_normalizers) {
            tw_buf_clear(&now.b);
            tw_buf_add(&now.b, text + p->start, p->size);
            now.zero = p->zero;
            if (now.b.failed)
                s = tw_fail_memory(diag);
            else
                s = tw_normalize(t->normalizers, t->n_normalizers, scratch, &now, &spare, diag);
            if (s != TW_OK) break;
            if (!now.b.size) continue;
            tw_buf_add(&c->text, now.b.data, now.b.size);
        } else {
            tw_buf_add(&c->text, text + p->start, p->size);
            now.zero = p->zero;
        }
        if (!c->text.failed)
            tw_added_split(&t->normalized, c->text.data + base, c->text.size - base, base, now.zero,
                           typed ? &(tw_typed){.text = text + p->start,
                                               .marks = typed + p->start,
                                               .size = p->size,
                                               .normalized = t->n_normalizers > 0}
                                 : NULL,
                           &c->pieces);
    }
    if (s == TW_OK && (c->text.failed || c->pieces.failed)) s = tw_fail_memory(diag);
    tw_buf_free(&now.b);
    tw_buf_free(&spare.b);
    return s;
}

static tw_status encode_pieces(const tw_tokenizer *t, const tw_cutting *c, tw_ids *out, tw_diag *diag) {
    tw_bpe_work *work = NULL;
    tw_buf spare = {0};
    tw_status s = TW_OK;
    for (size_t i = 0; i < c->pieces.n && s == TW_OK; i++) {
        const tw_piece *p = &c->pieces.v[i];
        if (p->id >= 0)
            s = tw_ids_push(out, p->id) ? TW_OK : tw_fail_memory(diag);
        else if (t->model == TW_MODEL_BPE)
            s = tw_bpe_encode(t, &work, c->text.data + p->start, p->size, out, diag);
        else
            s = tw_wordpiece_encode(t, &spare, c->text.data + p->start, p->size, out, diag);
    }
    tw_bpe_work_free(work);
    tw_buf_free(&spare);
    return s;
}

/* Truncates, and adds what the post-processor puts around. */
static tw_status finish(const tw_tokenizer *t, bool special, tw_ids *ids, tw_ids *out, tw_diag *diag) {
    size_t from = 0, n = ids->n;
    if (t->max_length >= 0) {
        size_t max = (size_t)t->max_length;
        if (special)
            for (int i = 0; i < t->n_post; i++) max -= t->post[i] >= 0;
        if (n > max) {
            from = t->truncate_left ? n - max : 0;
            n = max;
        }
    }
    for (int i = 0; i < t->n_post; i++) {
        if (t->post[i] >= 0 && special) tw_ids_push(out, t->post[i]);
        for (size_t k = 0; t->post[i] < 0 && k < n; k++) tw_ids_push(out, ids->v[from + k]);
    }
    /* An empty result is an array too. */
    if (!out->v && !out->failed) out->failed = !(out->v = malloc(sizeof *out->v));
    return out->failed ? tw_fail_memory(diag) : TW_OK;
}

tw_status tw_tokenizer_encode(const tw_tokenizer *t, const char *text, size_t size, bool special, int32_t **ids,
                              size_t *count, tw_diag *diag) {
    return tw_tokenizer_encode_typed(t, text, NULL, size, special, ids, count, diag);
}

tw_status tw_tokenizer_encode_typed(const tw_tokenizer *t, const char *text, const unsigned char *typed, size_t size,
                                    bool special, int32_t **ids, size_t *count, tw_diag *diag) {
    if (!t || !ids || !count || (!text && size))
        return tw_fail(diag, TW_ERR_USAGE,
                       "tw_tokenizer_encode needs a tokenizer, a text and somewhere to put the ids");
    *ids = NULL;
    *count = 0;
    size_t bad = tw_utf8_check(text, size);
    if (bad != size) return tw_fail_at(diag, TW_ERR_FORMAT, "(text)", (int64_t)bad, "not UTF-8");
    tw_pieces raw = {0};
    tw_cutting c = {0};
    tw_scratch scratch = {0};
    tw_ids found = {0}, out = {0};
    size_t first = 0;
    if (size) tw_utf8_next(text, &first);
    tw_added_split(&t->raw, text, size, 0, first,
                   typed ? &(tw_typed){.text = text, .marks = typed, .size = size} : NULL, &raw);
    tw_status s = raw.failed ? tw_fail_memory(diag) : normalize_pieces(t, &scratch, text, typed, &raw, &c, diag);
    if (s == TW_OK) s = tw_pretokenize(t->pretokenizers, t->n_pretokenizers, &scratch, &c, diag);
    if (s == TW_OK) s = encode_pieces(t, &c, &found, diag);
    if (s == TW_OK) s = finish(t, special, &found, &out, diag);
    if (s == TW_OK) {
        *ids = out.v;
        *count = out.n;
    } else
        free(out.v);
    free(found.v);
    free(raw.v);
    tw_cutting_free(&c);
    tw_scratch_free(&scratch);
    return s;
}
