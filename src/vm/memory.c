/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/memory.h"

#include "base/diag.h"

#include <stdio.h>

int64_t tw_memory_buffer(const tw_buffer *b) {
    return b->shape[0] * b->shape[1] * tw_buffer_row_bytes(b);
}

int64_t tw_memory_sum(const tw_memory_need *need) {
    return need->weights + need->caches + need->scratch;
}

void tw_memory_add(tw_memory_need *to, const tw_memory_need *need) {
    to->weights += need->weights;
    to->caches += need->caches;
    to->scratch += need->scratch;
}

tw_dtype tw_memory_weights(const tw_schedule *s) {
    for (int i = 0; i < s->n_buffers; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->kind == TW_BUFFER_WEIGHT && (b->dtype == TW_I8 || b->dtype == TW_I4)) return b->dtype;
    }
    return TW_F32;
}

/* Writes a size with at least three digits, so that two sizes that differ look different. */
static const char *show(int64_t bytes, char *out, size_t size) {
    const double n = (double)bytes;
    if (n >= 1e10)
        snprintf(out, size, "%.1f GB", n / 1e9);
    else
        snprintf(out, size, "%.*f MB", n >= 1e8 ? 0 : 2, n / 1e6);
    return out;
}

tw_status tw_memory_fits(const tw_memory_need *need, int64_t available, const tw_model *model, tw_dtype weights,
                         const char *whose, tw_diag *diag) {
    const int64_t all = need->weights + need->caches + need->scratch;
    char n[32], a[32], w[32], c[32], sequences[48] = "";
    if (available <= 0 || all <= available) return TW_OK;
    if (need->sequences > 1) snprintf(sequences, sizeof sequences, " of %lld sequences", (long long)need->sequences);
    const bool many = need->sequences > 1;
    const char *less = need->caches > need->weights && many
                           ? "fewer sequences, or a shorter context (-c), would need less"
                       : need->caches > need->weights ? "a shorter context (-c) would need less"
                       : weights == TW_I4             ? "a smaller model is needed"
                       : weights == TW_I8             ? "--weights int4 would need less"
                                                      : "--weights int8 or int4 would need less";
    return tw_fail_at(diag, TW_ERR_MEMORY, model->name, -1,
                      "needs %s of %s, of which %s are available: %s for weights, %s for keys and values%s; %s",
                      show(all, n, sizeof n), whose, show(available, a, sizeof a), show(need->weights, w, sizeof w),
                      show(need->caches, c, sizeof c), sequences, less);
}
