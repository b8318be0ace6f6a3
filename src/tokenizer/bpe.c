/* SPDX-License-Identifier: Apache-2.0 */
/* Byte pair encoding. The characters of a word are merged: first the pair of lowest rank, and of equal ones the
   leftmost. A heap over a linked list takes n log n for a word of n characters. */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

typedef struct symbol {
    int32_t id;
    int32_t prev, next; /* -1: none */
    bool gone;          /* The symbol was merged into its left neighbour. */
} symbol;

typedef struct candidate {
    uint64_t key; /* rank << 32 | position */
    int32_t id;   /* The token that the pair becomes. */
} candidate;

struct tw_bpe_work {
    symbol *symbols;
    size_t n, room;
    candidate *heap;
    size_t n_heap, heap_room;
};

/* ---- the table of merges ---- */

static uint64_t pair_of(int32_t a, int32_t b) {
    return (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
}

static uint64_t hash(uint64_t pair) {
    pair *= 0x9e3779b97f4a7c15u;
    return pair ^ pair >> 32;
}

static const tw_merge *find_merge(const tw_bpe *b, int32_t left, int32_t right) {
    uint64_t pair = pair_of(left, right);
    for (uint64_t h = hash(pair) & b->mask;; h = (h + 1) & b->mask) {
        if (b->merges[h].pair == pair) return &b->merges[h];
        if (b->merges[h].pair == UINT64_MAX) return NULL;
    }
}

static void put_merge(tw_bpe *b, tw_merge m) {
    uint64_t h = hash(m.pair) & b->mask;
    while (b->merges[h].pair != UINT64_MAX && b->merges[h].pair != m.pair) h = (h + 1) & b->mask;
    b->merges[h] = m; /* The later rank counts if a pair is listed twice. */
}

void tw_bpe_free(tw_bpe *b) {
    free(b->merges);
    b->merges = NULL;
}

/* Reads both parts of a merge, from "a b" or ["a", "b"]. False: it is neither. */
static bool merge_parts(const json_t *m, const char **a, size_t *na, const char **b, size_t *nb) {
    if (json_is_array(m)) {
        const json_t *x = json_array_get(m, 0), *y = json_array_get(m, 1);
        if (json_array_size(m) != 2 || !json_is_string(x) || !json_is_string(y)) return false;
        *a = json_string_value(x);
        *na = json_string_length(x);
        *b = json_string_value(y);
        *nb = json_string_length(y);
        return true;
    }
    if (!json_is_string(m)) return false;
    const char *s = json_string_value(m);
    size_t n = json_string_length(m);
    const char *space = memchr(s, ' ', n);
    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - s))) return false;
    *a = s;
    *na = (size_t)(space - s);
    *b = space + 1;
    *nb = n - *na - 1;
    return true;
}

static tw_status load_merges(tw_tokenizer *t, const json_t *merges, const char *path, tw_diag *diag) {
    tw_bpe *b = &t->bpe;
    size_t n = json_array_size(merges);
    uint64_t slots = 16;
    while (slots < n + n / 2) slots *= 2;
    b->merges = malloc(slots * sizeof *b->merges);
    if (!b->merges) return tw_fail_memory(diag);
    for (uint64_t i = 0; i < slots; i++) b->merges[i].pair = UINT64_MAX;
    b->mask = slots - 1;
    tw_buf joined = {0};
    tw_status s = TW_OK;
    uint32_t rank = 0;
    bool pairs = n && json_is_array(json_array_get(merges, 0));
    for (size_t i = 0; i < n && s == TW_OK; i++) {
        const json_t *m = json_array_get(merges, i);
        const char *x, *y;
        size_t nx, ny;
        if (!pairs && json_is_string(m) && !strncmp(json_string_value(m), "#version", 8)) continue;
        if (json_is_array(m) != pairs || !merge_parts(m, &x, &nx, &y, &ny)) {
            s = tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "model.merges[%zu] is not a pair of pieces", i);
            break;
        }
        int32_t left = tw_vocab_model(&t->vocab, x, nx), right = tw_vocab_model(&t->vocab, y, ny);
        if (left < 0 || right < 0) {
            const char *p = left < 0 ? x : y;
            size_t np = left < 0 ? nx : ny;
            s = tw_fail_at(diag, TW_ERR_FORMAT, path, -1,
                           "model.merges[%zu] names %.*s, which is not in the vocabulary", i,
                           (int)(np > 200 ? 200 : np), p);
            break;
        }
        tw_buf_clear(&joined);
        tw_buf_add(&joined, x, nx);
        if (ny >= b->prefix_size) tw_buf_add(&joined, y + b->prefix_size, ny - b->prefix_size);
        if (joined.failed) {
            s = tw_fail_memory(diag);
            break;
        }
        int32_t id = ny >= b->prefix_size ? tw_vocab_model(&t->vocab, joined.data, joined.size) : -1;
        if (id < 0)
            s = tw_fail_at(diag, TW_ERR_FORMAT, path, -1,
                           "model.merges[%zu] makes %.200s, which is not in the vocabulary", i, joined.data);
        else
            put_merge(b, (tw_merge){pair_of(left, right), rank++, id});
    }
    tw_buf_free(&joined);
    return s;
}

tw_status tw_bpe_load(tw_tokenizer *t, const json_t *model, const char *path, tw_diag *diag) {
    tw_bpe *b = &t->bpe;
    tw_status s = load_merges(t, json_object_get(model, "merges"), path, diag);
    if (s != TW_OK) return s;
    b->unk_id = b->unk ? tw_vocab_model(&t->vocab, b->unk, strlen(b->unk)) : -1;
    for (int i = 0; i < 256; i++) {
        static const char hex[] = "0123456789ABCDEF";
        char code[] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
        b->byte_ids[i] = tw_vocab_model(&t->vocab, code, sizeof code);
    }
    for (uint32_t c = 0; c < sizeof b->char_ids / sizeof *b->char_ids; c++) {
        char u[4];
        b->char_ids[c] = tw_vocab_model(&t->vocab, u, tw_utf8_put(u, c));
    }
    return TW_OK;
}

/* ---- encoding ---- */

void tw_bpe_work_free(tw_bpe_work *w) {
    if (!w) return;
    free(w->symbols);
    free(w->heap);
    free(w);
}

static bool reserve(tw_bpe_work *w, size_t symbols) {
    if (symbols <= w->room) return true;
    size_t room = w->room ? w->room : 64;
    while (room < symbols) room *= 2;
    symbol *s = realloc(w->symbols, room * sizeof *s);
    if (!s) return false;
    w->symbols = s;
    w->room = room;
    /* Every merge removes one symbol and offers at most two pairs. */
    candidate *h = realloc(w->heap, room * 3 * sizeof *h);
    if (!h) {
        w->room = 0;
        return false;
    }
    w->heap = h;
    return true;
}

static void add_symbol(tw_bpe_work *w, int32_t id) {
    int32_t at = (int32_t)w->n++;
    w->symbols[at] = (symbol){id, at - 1, -1, false};
    if (at) w->symbols[at - 1].next = at;
}

static void push(tw_bpe_work *w, const tw_merge *m, int32_t at) {
    size_t i = w->n_heap++;
    candidate c = {(uint64_t)m->rank << 32 | (uint32_t)at, m->id};
    for (; i && w->heap[(i - 1) / 2].key > c.key; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static candidate pop(tw_bpe_work *w) {
    candidate top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < w->n_heap; i = k) {
        if (k + 1 < w->n_heap && w->heap[k + 1].key < w->heap[k].key) k++;
        if (w->heap[k].key >= last.key) break;
        w->heap[i] = w->heap[k];
    }
    if (w->n_heap) w->heap[i] = last;
    return top;
}

static void offer(const tw_bpe *b, tw_bpe_work *w, int32_t left) {
    int32_t right = left < 0 ? -1 : w->symbols[left].next;
    const tw_merge *m = right < 0 ? NULL : find_merge(b, w->symbols[left].id, w->symbols[right].id);
    if (m) push(w, m, left);
}

static void merge_all(const tw_bpe *b, tw_bpe_work *w) {
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n; i++) offer(b, w, (int32_t)i);
    while (w->n_heap) {
        candidate c = pop(w);
        int32_t at = (int32_t)(uint32_t)c.key;
        symbol *left = &w->symbols[at];
        if (left->gone || left->next < 0) continue;
        symbol *right = &w->symbols[left->next];
        /* The pair may have changed since it was offered. */
        const tw_merge *m = find_merge(b, left->id, right->id);
        if (!m || m->id != c.id) continue;
        left->id = c.id;
        left->next = right->next;
        right->gone = true;
        if (left->next >= 0) w->symbols[left->next].prev = at;
        offer(b, w, left->prev);
        offer(b, w, at);
    }
}

/* Finds the id of one character of a word. The vocabulary has the continuing prefix before characters that are not the
   word's first, and the end-of-word suffix behind the last. -1: the character is unknown. */
static int32_t find_char(const tw_tokenizer *t, const char *s, size_t n, bool first, bool last, tw_buf *spare) {
    const tw_bpe *b = &t->bpe;
    bool prefix = !first && b->prefix_size, suffix = last && b->suffix_size;
    tw_buf_clear(spare);
    if (prefix) tw_buf_add(spare, b->prefix, b->prefix_size);
    tw_buf_add(spare, s, n);
    if (suffix) tw_buf_add(spare, b->suffix, b->suffix_size);
    return spare->failed ? -1 : tw_vocab_model(&t->vocab, spare->data, spare->size);
}

/* Splits a word into symbols, one for each character. While `unk` is set, an unknown token is pending, so that the
   unknown characters that follow may be fused with it. As in the reference, a character that falls back to bytes leaves
   it pending. */
static tw_status split_chars(const tw_tokenizer *t, tw_bpe_work *w, const char *word, size_t size, tw_diag *diag) {
    const tw_bpe *b = &t->bpe;
    tw_buf spare = {0};
    tw_status s = TW_OK;
    bool unk = false, plain = !b->prefix_size && !b->suffix_size;
    w->n = 0;
    for (size_t i = 0; i < size;) {
        size_t at = i;
        uint32_t cp = tw_utf8_next(word, &i);
        int32_t id;
        if (plain)
            id = cp < 1024 ? b->char_ids[cp] : tw_vocab_model(&t->vocab, word + at, i - at);
        else
            id = find_char(t, word + at, i - at, at == 0, i == size, &spare);
        if (spare.failed) {
            s = tw_fail_memory(diag);
            break;
        }
        if (id >= 0) {
            if (unk) add_symbol(w, b->unk_id);
            unk = false;
            add_symbol(w, id);
            continue;
        }
        if (b->byte_fallback) {
            const char *bytes = plain ? word + at : spare.data;
            size_t n = plain ? i - at : spare.size;
            bool all = true;
            for (size_t k = 0; k < n; k++) all = all && b->byte_ids[(unsigned char)bytes[k]] >= 0;
            if (all) {
                if (!reserve(w, w->n + n + size - at + 1)) {
                    s = tw_fail_memory(diag);
                    break;
                }
                for (size_t k = 0; k < n; k++) add_symbol(w, b->byte_ids[(unsigned char)bytes[k]]);
                continue;
            }
        }
        if (!b->unk) continue;
        if (b->unk_id < 0) {
            s = tw_fail(diag, TW_ERR_FORMAT, "the text needs the unknown token %s, which is not in the vocabulary",
                        b->unk);
            break;
        }
        if (unk && !b->fuse_unk) add_symbol(w, b->unk_id);
        unk = true;
    }
    if (s == TW_OK && unk) add_symbol(w, b->unk_id);
    tw_buf_free(&spare);
    return s;
}

tw_status tw_bpe_encode(const tw_tokenizer *t, tw_bpe_work **work, const char *word, size_t size, tw_ids *out,
                        tw_diag *diag) {
    const tw_bpe *b = &t->bpe;
    if (b->ignore_merges) {
        int32_t id = tw_vocab_model(&t->vocab, word, size);
        if (id >= 0) return tw_ids_push(out, id) ? TW_OK : tw_fail_memory(diag);
    }
    if (!*work && !(*work = calloc(1, sizeof **work))) return tw_fail_memory(diag);
    tw_bpe_work *w = *work;
    if (size > INT32_MAX / 4) return tw_fail(diag, TW_ERR_UNSUPPORTED, "a word of %zu bytes", size);
    if (!reserve(w, size + 1)) return tw_fail_memory(diag);
    tw_status s = split_chars(t, w, word, size, diag);
    if (s != TW_OK) return s;
    if (w->n > 1) merge_all(b, w);
    for (int32_t i = w->n ? 0 : -1; i >= 0; i = w->symbols[i].next)
        if (!tw_ids_push(out, w->symbols[i].id)) return tw_fail_memory(diag);
    return TW_OK;
}
