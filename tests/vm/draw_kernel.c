/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/draw_kernel.h"

#include "vm/cuda/generate.h"

tw_mega_plan draw_plan(const draw_shape *s, const tw_target *target) {
    tw_mega_plan p = {.target = target,
                      .tuning = {.warps = s->warps},
                      .tokens = s->sequences,
                      .sequences = s->sequences,
                      .vocab = s->vocab,
                      .slots = s->slots,
                      .samples = true,
                      .fours = s->vocab % 4 == 0,
                      .cut_list = s->cut_list};
    p.shared_bytes = (int)tw_mega_cut_bytes(&p);
    return p;
}

void draw_rows(const draw_shape *s, int32_t *rows) {
    const int64_t unit = s->vocab % 4 ? 1 : 4, units = s->vocab / unit;
    for (int64_t i = 0; i < s->slots; i++) {
        const int64_t from = units * i / s->slots * unit, to = units * (i + 1) / s->slots * unit;
        rows[2 * i] = (int32_t)from;
        rows[2 * i + 1] = (int32_t)(to - from);
    }
}

/* A warp takes slots: each row's value, and the best of them. */
static void build_slots(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence) {
    tw_builder *b = g->b;
    const int n = g->p->sequences;
    const tw_scope slots = tw_push_for(b, g->warp, o->slots, tw_i32(b, g->p->tuning.warps), false);
    tw_val slot = slots.i, rows[2] = {{0}};
    tw_ld_vec(b, (tw_attrs){.type = TW_T_i32, .vec = 2, .cache = TW_CACHE_nc}, tw_mega_at(b, o->rows, slot, 8), rows);
    tw_val best = tw_var_of(b, tw_f32(b, -3.4e38f)), best_row = tw_var_of(b, tw_i32(b, INT32_MAX));
    const tw_scope each = tw_push_for(b, g->lane, rows[1], tw_i32(b, 32), false);
    tw_val id = tw_add(b, rows[0], each.i);
    tw_val at = tw_mega_at(b, tw_mega_at(b, o->logits, sequence, 4 * g->p->vocab), id, 4);
    tw_val z = tw_ld(b, (tw_attrs){.type = TW_T_f32}, at), value = z;
    tw_mega_build_value(g, sequence, id, &z, &value);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, at, &z);
    const tw_scope branch = tw_push_if(b, tw_lt(b, best, value));
    tw_assign(b, best, value);
    tw_assign(b, best_row, id);
    tw_pop(b, branch);
    tw_pop(b, each);
    tw_val mine = tw_add(b, best, tw_f32(b, 0)), most = tw_part_warp_max(b, mine, 1, 32);
    tw_val row = tw_select(b, tw_eq(b, most, mine), best_row, tw_i32(b, INT32_MAX));
    for (int d = 1; d < 32; d *= 2) row = tw_min(b, row, tw_shfl(b, TW_MODE_bfly, row, tw_i32(b, d), tw_i32(b, -1)));
    const tw_scope first_lane = tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    tw_val cell = tw_mega_at(b, tw_mega_at(b, o->best, slot, 8 * n), sequence, 8);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, cell, &most);
    tw_st(b, (tw_attrs){.type = TW_T_i32, .offset = 4}, cell, &row);
    tw_pop(b, first_lane);
    tw_pop(b, slots);
}

tw_kernel *draw_kernel(const tw_mega_plan *p) {
    static const char *const names[DRAW_ARGS] = {"logits", "rows",  "best",   "tokens", "out", "token",
                                                 "abort",  "rules", "counts", "pos",    "mode"};
    tw_kernel *k = tw_kernel_new("draw", p->target->sm, tw_mega_threads(p));
    if (!k) return NULL;
    tw_builder b = tw_builder_of(k);
    tw_mega_gen g = {.b = &b, .p = p};
    tw_val arg[DRAW_ARGS];
    for (int i = 0; i < DRAW_ARGS; i++) {
        const bool only_read = i == DRAW_ROWS || i == DRAW_TOKENS || i == DRAW_RULES;
        arg[i] = i < DRAW_POS ? tw_pointer_add(&b, names[i], i == DRAW_RULES || i == DRAW_LOGITS ? 32 : 8, only_read)
                              : tw_parameter_add(&b, names[i], TW_T_i32);
    }
    tw_shared_add(&b, "memory", p->shared_bytes, 128, true);
    g.shared = tw_shared_base(&b, "memory");
    g.arg[TW_MEGA_ARG_TOKENS] = arg[DRAW_TOKENS];
    g.arg[TW_MEGA_ARG_OUT] = arg[DRAW_OUT];
    g.arg[TW_MEGA_ARG_ABORT] = arg[DRAW_ABORT];
    g.arg[TW_MEGA_ARG_RULES] = arg[DRAW_RULES];
    g.arg[TW_MEGA_ARG_COUNTS] = arg[DRAW_COUNTS];
    g.arg[TW_MEGA_ARG_MODE] = arg[DRAW_MODE];
    g.thread = tw_sreg(&b, TW_SREG_tid_x);
    g.lane = tw_rem(&b, g.thread, 32);
    g.warp = tw_shr(&b, g.thread, 5);
    g.step = tw_i32(&b, 0);
    g.pos = arg[DRAW_POS];
    tw_mega_output o = {.slots = tw_i32(&b, p->slots),
                        .best = arg[DRAW_BEST],
                        .token = arg[DRAW_TOKEN],
                        .logits = arg[DRAW_LOGITS],
                        .rows = arg[DRAW_ROWS]};
    const tw_scope loop = tw_push_for(&b, tw_i32(&b, 0), tw_i32(&b, p->sequences), tw_i32(&b, 1), false);
    tw_val sequence = loop.i;
    build_slots(&g, &o, sequence);
    tw_pop(&b, loop);
    tw_mega_barrier(&g);
    o.aborted = tw_ld(&b, (tw_attrs){.type = TW_T_i32}, arg[DRAW_ABORT]);
    tw_mega_build_output_of(&g, &o);
    return k;
}
