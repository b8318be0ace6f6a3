/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/weights.h"

#include "base/diag.h"

#include <stdio.h>
#include <string.h>

/* Names with this part, such as "layers.3.experts.gate", stand for the matrices of all experts. */
static const char *const all_experts = ".experts.";

/* Counts the weights that a name stands for. */
static int64_t copies_of(const tw_model *m, const char *name) {
    return strstr(name, all_experts) ? m->n_experts : 1;
}

/* Finds a weight by its canonical name. A name that does not fit in the buffer names no weight. */
static const tw_weight *find(const tw_model *m, const char *name, int64_t copy) {
    char one[128];
    const char *at = strstr(name, all_experts);
    if (!at) return tw_model_find(m, name);
    const int n = snprintf(one, sizeof one, "%.*s%s%lld.%s", (int)(at - name), name, all_experts, (long long)copy,
                           at + strlen(all_experts));
    return n < (int)sizeof one ? tw_model_find(m, one) : NULL;
}

static tw_status resolve(const tw_weight **out, const tw_model *m, const tw_buffer *b, tw_diag *diag) {
    const int64_t copies = copies_of(m, b->name);
    const bool quantised = b->dtype == TW_I8 || b->dtype == TW_I4;
    if (b->shape[0] != copies)
        return tw_fail(diag, TW_ERR_MISMATCH, "the schedule's %.80s has %lld copies, the model %lld", b->name,
                       (long long)b->shape[0], (long long)copies);
    for (int64_t i = 0; i < copies; i++) {
        const tw_weight *w = out[i] = find(m, b->name, i);
        if (!w || w->rows != b->shape[1] || w->cols != b->shape[2])
            return tw_fail(diag, TW_ERR_MISMATCH, "the schedule's %.80s [%lld, %lld] is not a weight of this model",
                           b->name, (long long)b->shape[1], (long long)b->shape[2]);
        if (!quantised && w->dtype != b->dtype)
            return tw_fail(diag, TW_ERR_MISMATCH, "the schedule's %.80s is %s, the model's is %s", b->name,
                           tw_dtype_name(b->dtype), tw_dtype_name(w->dtype));
    }
    return TW_OK;
}

tw_status tw_weights_resolve(tw_schedule_weights *out, const tw_schedule *s, const tw_model *m, tw_arena *arena,
                             tw_diag *diag) {
    int64_t n = 0;
    for (int i = 0; i < s->n_buffers; i++)
        if (s->buffers[i].kind == TW_BUFFER_WEIGHT) n += copies_of(m, s->buffers[i].name);
    out->of = tw_arena_array(arena, (size_t)n + 1, sizeof *out->of);
    out->first = tw_arena_array(arena, (size_t)s->n_buffers + 1, sizeof *out->first);
    if (!out->of || !out->first) return tw_fail_memory(diag);
    tw_status st = TW_OK;
    n = 0;
    for (int i = 0; i < s->n_buffers && st == TW_OK; i++) {
        if (s->buffers[i].kind != TW_BUFFER_WEIGHT) continue;
        out->first[i] = (int)n;
        st = resolve(out->of + n, m, &s->buffers[i], diag);
        n += copies_of(m, s->buffers[i].name);
    }
    return st;
}
