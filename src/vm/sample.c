/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/sample.h"

#include "base/diag.h"
#include "vm/sample_draw.h"

/* Room for the candidates, and after them for the penalised logits. */
size_t tw_sample_room(int64_t vocab) {
    return (size_t)vocab * (sizeof(tw_sample_candidate) + sizeof(float));
}

tw_status tw_sample_rules_of(tw_sample_rules *r, const tw_sample_wish *w, int64_t vocab, tw_diag *diag) {
    *r = (tw_sample_rules){.seed = {(uint32_t)w->seed, (uint32_t)(w->seed >> 32)}, .min_p = TW_SAMPLE_FAR - 1};
    if (!(w->repetition >= 0) || !isfinite(w->repetition))
        return tw_fail(diag, TW_ERR_USAGE, "a repetition penalty is not negative");
    if (!isfinite(w->presence) || !isfinite(w->frequency))
        return tw_fail(diag, TW_ERR_USAGE, "presence and frequency penalties are finite");
    if (!(w->temperature >= 0) || w->top_k < 0 || !(w->top_p >= 0 && w->top_p <= 1) ||
        !(w->min_p >= 0 && w->min_p <= 1))
        return tw_fail(diag, TW_ERR_USAGE, "temperature and top-k are not negative; top-p and min-p lie within 0..1");
    r->repetition = w->repetition > 0 ? (float)w->repetition : 1;
    r->presence = (float)w->presence;
    r->frequency = (float)w->frequency;
    if (r->repetition != 1 || r->presence != 0 || r->frequency != 0) r->mode |= TW_SAMPLE_PENALISES;
    /* At lower temperatures f32 cannot tell noise from rounding, and the largest logit always wins. */
    if (w->temperature < 1.0 / 1024) return TW_OK;
    r->mode |= TW_SAMPLE_DRAWS;
    r->scale = (float)(1.4426950408889634 / w->temperature);
    if (w->top_k < vocab) r->top_k = (int32_t)w->top_k;
    if (w->top_p > 0 && w->top_p < 1) {
        const double p = w->top_p * 0x1p32;
        r->top_p = p < 1 ? 1 : p > 0x1p32 - 1 ? UINT32_MAX : (uint32_t)p;
    }
    if (w->min_p > 0) {
        const double steps = rint(-log2(w->min_p) * (1 << TW_SAMPLE_STEPS));
        if (steps < TW_SAMPLE_FAR - 1) r->min_p = (int32_t)steps;
    }
    if (r->top_k || r->top_p || r->min_p < TW_SAMPLE_FAR - 1) r->mode |= TW_SAMPLE_CUTS;
    return TW_OK;
}

int32_t tw_sample_draw(const tw_sample_rules *r, const float *logits, const uint32_t *counts, int64_t vocab,
                       int64_t position, void *room) {
    const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return (fast ? tw_sample_draw_avx2 : tw_sample_draw_c)(r, logits, counts, vocab, position, room);
}
