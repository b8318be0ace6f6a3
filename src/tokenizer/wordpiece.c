/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece: the longest piece that begins a word, then the longest continuing piece, and so on. A word that cannot be
   covered is unknown as a whole. */
#include "tokenizer/tokenizer.h"

#include "base/diag.h"
#include "tokenizer/unicode.h"

#include <string.h>

static tw_status unknown(const tw_tokenizer *t, tw_ids *out, tw_diag *diag) {
    const tw_wordpiece *w = &t->wordpiece;
    if (w->unk_id < 0)
        return tw_fail(diag, TW_ERR_FORMAT, "the text needs the unknown token %s, which is not in the vocabulary",
                       w->unk);
    return tw_ids_push(out, w->unk_id) ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_wordpiece_encode(const tw_tokenizer *t, tw_buf *spare, const char *word, size_t size, tw_ids *out,
                              tw_diag *diag) {
    const tw_wordpiece *w = &t->wordpiece;
    int64_t chars = 0;
    for (size_t i = 0; i < size; chars++) tw_utf8_next(word, &i);
    if (chars > w->max_chars) return unknown(t, out, diag);
    size_t before = out->n;
    for (size_t start = 0; start < size;) {
        size_t lead = start ? w->prefix_size : 0;
        size_t end = size - start > w->longest ? start + w->longest : size;
        while (end > start && end < size && ((unsigned char)word[end] & 0xc0) == 0x80) end--;
        tw_buf_clear(spare);
        if (lead) tw_buf_add(spare, w->prefix, lead);
        tw_buf_add(spare, word + start, end - start);
        if (spare->failed) return tw_fail_memory(diag);
        int32_t id = -1;
        while (end > start) {
            id = tw_vocab_model(&t->vocab, spare->data, lead + end - start);
            if (id >= 0) break;
            end = tw_utf8_before(word, end);
        }
        if (id < 0) {
            out->n = before;
            return unknown(t, out, diag);
        }
        if (!tw_ids_push(out, id)) return tw_fail_memory(diag);
        start = end;
    }
    return TW_OK;
}
