/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tokenizer.json, and behind a NUL a text for it: refused, or every id of the text has a piece, the ids
   decode, and the stream lets out the same text in whole characters. */
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void stream(const tw_tokenizer *t, const int32_t *ids, size_t n, bool keep, const char *want, size_t size) {
    tw_token_stream *s = NULL;
    tw_buf got = {0};
    const char *text;
    if (tw_token_stream_open(&s, t, keep, NULL) != TW_OK) abort();
    for (size_t i = 0; i <= n; i++) {
        tw_status st = i < n ? tw_token_stream_push(s, ids[i], &text, NULL) : tw_token_stream_flush(s, &text, NULL);
        size_t k = tw_token_stream_size(s);
        if (st != TW_OK || tw_utf8_check(text, k) != k) abort();
        tw_buf_add(&got, text, k);
    }
    if (got.size != size || (size && memcmp(got.data, want, size) != 0)) abort();
    tw_buf_free(&got);
    tw_token_stream_close(s);
}

static void decode(const tw_tokenizer *t, const int32_t *ids, size_t n, bool keep) {
    char *text = NULL;
    size_t size;
    if (tw_tokenizer_decode(t, ids, n, keep, &text, &size, NULL) == TW_OK) {
        if (tw_utf8_check(text, size) != size) abort();
        stream(t, ids, n, keep, text, size);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char otherwise[] = "Hello, \xe6\x97\xa5  a\xcc\x81\xcc\xa3 <s>12\n\n \xf0\x9f\x99\x82 don't";
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    const char *text = nul ? (const char *)nul + 1 : otherwise;
    size_t text_size = nul ? size - n - 1 : sizeof otherwise - 1;
    tw_tokenizer *t = NULL;
    tw_diag diag;
    if (tw_tokenizer_open_memory(&t, (const char *)data, n, "fuzz.json", &diag) != TW_OK) return 0;
    for (int special = 0; special < 2; special++) {
        int32_t *ids = NULL;
        size_t count = 0;
        if (tw_tokenizer_encode(t, text, text_size, special, &ids, &count, &diag) == TW_OK) {
            for (size_t i = 0; i < count; i++)
                if (!tw_tokenizer_piece(t, ids[i])) abort();
            decode(t, ids, count, special);
        }
        free(ids);
    }
    /* Every token there is, in order, up to a number. */
    int32_t all[256];
    size_t k = 0;
    for (int64_t id = 0; id < tw_tokenizer_size(t) && k < 256; id++)
        if (tw_tokenizer_piece(t, id)) all[k++] = (int32_t)id;
    decode(t, all, k, true);
    tw_tokenizer_close(t);
    return 0;
}
