/* SPDX-License-Identifier: Apache-2.0 */
#include "decode_programs.h"

#include "base/diag.h"
#include "base/dtype.h"
#include "model/model.h"

tw_status decode_lower(const tw_model *m, tw_lowering l, tw_checked **out, tw_diag *d) {
    tw_schedule *s = NULL;
    tw_status st = tw_schedule_lower(&s, m, &l, d);
    if (st == TW_OK) st = tw_schedule_check(out, &s, NULL, d);
    tw_schedule_free(s);
    return st;
}

static tw_status load(decode_machine *m, decode_program which, tw_lowering l, tw_diag *d) {
    tw_status st = decode_lower(m->model, l, &m->checked[which], d);
    return st == TW_OK ? tw_cuda_vm_load(m->vm, m->checked[which], &m->id[which], d) : st;
}

tw_status decode_machine_open(decode_machine *m, const tw_model *model, const tw_cuda_vm_options *o,
                              const tw_lowering *l, tw_diag *d) {
    *m = (decode_machine){.model = model, .lowering = *l, .batch = l->sequences > 1 ? (int)l->sequences : 1};
    tw_status st = tw_cuda_vm_open(&m->vm, model, o, d);
    if (st != TW_OK) return st;
    tw_cuda_vm_lowering(m->vm, &m->lowering);
    m->short_past = l->kv_splits ? 0 : tw_cuda_vm_short_past(m->vm, &m->lowering);
    if (m->short_past > l->max_seq) m->short_past = l->max_seq;
    st = load(m, DECODE_ANY, m->lowering, d);
    tw_lowering other = m->lowering;
    other.kv_splits = 1;
    if (st == TW_OK && m->short_past) st = load(m, DECODE_SHORT, other, d);
    other = *l;
    other.tokens = tw_cuda_vm_tokens(m->vm) < l->max_seq ? tw_cuda_vm_tokens(m->vm) : l->max_seq;
    tw_cuda_vm_lowering(m->vm, &other);
    if (st == TW_OK && m->batch == 1) st = load(m, DECODE_PROMPT, other, d);
    return st;
}

void decode_machine_close(decode_machine *m) {
    tw_cuda_vm_close(m->vm);
    for (int i = 0; i < DECODE_PROGRAMS; i++) tw_checked_free(m->checked[i]);
}

int decode_machine_decoder(const decode_machine *m, int64_t context) {
    return m->id[context <= m->short_past ? DECODE_SHORT : DECODE_ANY];
}

int64_t decode_machine_bytes(const decode_machine *m, int64_t context) {
    const tw_model *w = m->model;
    const int64_t position = 2 * w->n_layers * w->n_kv_heads * w->head_dim * (int64_t)tw_dtype_bits(m->lowering.kv) / 8;
    return tw_cuda_vm_streamed_bytes(m->vm) + position * context * m->batch;
}
