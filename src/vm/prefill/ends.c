/* SPDX-License-Identifier: Apache-2.0 */
/* What comes of the rows behind the last layer: logits and tokens. */
#include "vm/prefill/builder.h"

#include <string.h>

/* Finds the head's instruction. */
static const tw_instr *head_of(const tw_schedule *s) {
    const tw_instr *in = s->workers[0].list;
    while (in->op != TW_INSTR_HEAD) in++;
    return in;
}

tw_status tw_prefill_add_ends(const tw_prefill_builder *o, tw_diag *diag) {
    tw_prefill *p = o->p;
    const tw_prefill_memory *m = o->memory;
    const tw_instr *in = head_of(p->s);
    const tw_prefill_product head = {.a = m->end_rows, .c = m->end_logits, .epilogue = "out=f32", .matrix = &p->head};
    const int bias = in->operand[TW_HEAD_NORM_BIAS];
    tw_prefill_shape norm, draw;
    tw_prefill_shape_of(o, p->vm->m->dim, &norm);
    norm.bias = bias >= 0;
    tw_prefill_shape_of(o, 0, &draw);
    draw.rows = p->head.rows;
    draw.cut_list = p->decode->plan.cut_list;
    const tw_prefill_binding rows[] = {{"step", m->step},
                                       {"x", m->x},
                                       {"weight", tw_prefill_shared(p, in->operand[TW_HEAD_NORM])},
                                       {"y", m->end_rows},
                                       {"bias", tw_prefill_shared(p, bias)},
                                       {NULL, 0}};
    const tw_prefill_binding values[] = {
        {"step", m->step}, {"logits", m->end_logits}, {"counts", p->vm->counts}, {"cells", m->end_cells}, {NULL, 0}};
    const tw_prefill_binding pick[] = {
        {"step", m->step},   {"logits", m->end_logits}, {"counts", p->vm->counts}, {"cells", m->end_cells},
        {"slots", m->slots}, {"found", m->found},       {"out", m->out},           {NULL, 0}};
    tw_status st = tw_prefill_add_kind(o, &tw_prefill_norm, &norm, rows, diag);
    if (st == TW_OK) st = tw_prefill_add_product(o, in, &head, diag);
    if (st == TW_OK) st = tw_prefill_add_kind(o, &tw_prefill_values, &draw, values, diag);
    return st == TW_OK ? tw_prefill_add_kind(o, &tw_prefill_pick, &draw, pick, diag) : st;
}

tw_status tw_prefill_add_end(const tw_prefill_builder *o, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const tw_prefill_memory *m = o->memory;
    const tw_instr *in = head_of(p->s);
    const int bias = in->operand[TW_HEAD_NORM_BIAS];
    tw_prefill_shape shape;
    memcpy(&shape, &p->head.shape, sizeof shape);
    shape.m = p->vm->m;
    shape.bias = bias >= 0;
    shape.early = true;
    const tw_prefill_binding head[] = {{"x", m->x},
                                       {"weight", tw_prefill_shared(p, in->operand[TW_HEAD_NORM])},
                                       {"bias", tw_prefill_shared(p, bias)},
                                       {"units", p->head.table},
                                       {"logits", m->logits},
                                       {"cells", m->cells},
                                       {NULL, 0}};
    const tw_prefill_binding best[] = {{"cells", m->cells}, {"token", m->token}, {NULL, 0}};
    const tw_status st = tw_prefill_add_kind(o, &tw_prefill_head, &shape, head, diag);
    return st == TW_OK ? tw_prefill_add_kind(o, &tw_prefill_best, &shape, best, diag) : st;
}
