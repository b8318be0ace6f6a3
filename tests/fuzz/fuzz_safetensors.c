/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file: refused with a place and a reason, or tensors that lie within the file and cover it.
 */
#include "base/diag.h"
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_arena arena = {0};
    tw_tensors t;
    tw_diag diag;
    tw_diag_clear(&diag);
    tw_status s = tw_safetensors_parse(&t, &arena, data, size, "f", &diag);
    if (s != TW_OK && (!diag.message[0] || diag.status != s || diag.offset < 0 || diag.offset > (int64_t)size)) abort();
    int64_t covered = 0;
    for (size_t i = 0; s == TW_OK && i < t.count; i++) {
        const tw_tensor *x = &t.items[i];
        if (x->data < data || x->bytes < 0 || x->data + x->bytes > data + size) abort();
        if (x->is_weight && x->bytes != x->elements * (int64_t)(tw_dtype_bits(x->dtype) / 8)) abort();
        if (i && strcmp(t.items[i - 1].name, x->name) >= 0) abort();
        if (tw_tensors_find(&t, x->name) != x) abort();
        covered += x->bytes;
    }
    if (s == TW_OK && covered > (int64_t)size - 8) abort();
    tw_arena_free(&arena);
    return 0;
}
