/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sample.h"

#include "base/diag.h"
#include "tilewright/engine.h"

#include <stdlib.h>

tw_status tw_sampler_open(tw_sampler **out, const tw_sampling *s, int64_t vocab, tw_diag *diag) {
    *out = NULL;
    const tw_sample_wish wish = {.temperature = s->temperature,
                                 .top_k = s->top_k,
                                 .top_p = s->top_p,
                                 .min_p = s->min_p,
                                 .seed = s->seed,
                                 .repetition = s->repetition_penalty,
                                 .presence = s->presence_penalty,
                                 .frequency = s->frequency_penalty};
    tw_sample_rules rules;
    tw_status st = tw_sample_rules_of(&rules, &wish, vocab, diag);
    if (st != TW_OK) return st;
    tw_sampler *p = malloc(sizeof *p);
    if (!p) return tw_fail_memory(diag);
    *p = (tw_sampler){.rules = rules, .vocab = vocab};
    const bool counts = rules.mode & TW_SAMPLE_PENALISES;
    if (counts) p->counts = calloc((size_t)vocab + 1, sizeof *p->counts);
    p->room = malloc(tw_sample_room(vocab) + 1);
    if (!p->room || (counts && !p->counts)) {
        tw_sampler_close(p);
        return tw_fail_memory(diag);
    }
    *out = p;
    return TW_OK;
}

void tw_sampler_close(tw_sampler *s) {
    if (!s) return;
    free(s->counts);
    free(s->room);
    free(s);
}

void tw_sampler_see(tw_sampler *s, int32_t id) {
    if (s->counts && id >= 0 && id < s->vocab) s->counts[id] |= TW_SAMPLE_SEEN;
    s->changes++;
}

void tw_sampler_take(tw_sampler *s, int32_t id) {
    if (s->counts && id >= 0 && id < s->vocab) s->counts[id] = (s->counts[id] + 1) | TW_SAMPLE_SEEN;
    s->changes++;
}

int32_t tw_sampler_draw(tw_sampler *s, const float *logits, int64_t position) {
    return tw_sample_draw(&s->rules, logits, s->counts, s->vocab, position, s->room);
}
