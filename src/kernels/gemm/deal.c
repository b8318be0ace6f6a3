/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of groups on warpgroups. The producer's first warp takes tiles from a counter, and finds their groups. It tells
   the block's other warps by a ring in shared memory (kernels/parts/scheduler.h). */
#include "kernels/gemm/wgmma.h"

static tw_groups groups_of(const tw_gemm_gen *g) {
    const bool swap = g->c->swap;
    tw_val rows = swap ? g->arg.n : g->arg.m;
    return (tw_groups){
        .ends = g->arg.ends,
        .rows = rows,
        .reserved = g->v->masked ? tw_binary(g->b, TW_OP_div_u32, rows, g->arg.groups) : TW_NONE,
        .count = g->arg.groups,
        .matrix = {.columns = swap ? g->arg.tiles_m : g->arg.tiles_n, .band = g->c->group},
        .height = swap ? g->c->nl : g->c->ml,
        .lane = g->lane,
    };
}

/* Makes variables for a tile, which a loop's predicate assigns and its body uses. */
static tw_groups_tile tile_variables(tw_builder *b) {
    tw_val zero = tw_i32(b, 0);
    return (tw_groups_tile){tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero)};
}

static void assign_tile(tw_builder *b, const tw_groups_tile *variables, tw_groups_tile t) {
    tw_assign(b, variables->group, t.group);
    tw_assign(b, variables->row, t.row);
    tw_assign(b, variables->end, t.end);
    tw_assign(b, variables->column, t.column);
}

/* Makes a group's tile the current one. A's rows are those of X, or columns of Y with swapped operands. */
static void set_tile(tw_gemm_gen *g, const tw_groups_tile *t) {
    const bool swap = g->c->swap;
    tw_gemm_operand *rows = swap ? &g->y : &g->x, *weights = swap ? &g->x : &g->y;
    g->matrix = t->group;
    rows->origin = t->row;
    rows->limit = t->end;
    weights->origin = tw_mul_imm(g->b, t->column, swap ? g->c->ml : g->c->nl);
}

/* Finds the next tile and tells it to the other warps, in the end each team that there are no more. */
static tw_groups_tile find_and_tell(tw_gemm_gen *g, tw_gemm_dealer *d) {
    tw_builder *b = g->b;
    tw_val zero = tw_i32(b, 0);
    const tw_groups_tile t = tw_groups_find(b, &d->groups, tw_deal_number(b, &d->deal));
    TW_IF (b, d->lowest) {
        tw_groups_tell(b, &g->told, &d->told, &t);
        if (g->plan.teams > 1) {
            TW_IF (b, tw_lt(b, t.group, zero))
                tw_groups_tell(b, &g->told, &d->told, &(tw_groups_tile){tw_i32(b, TW_GEMM_LAST_END), zero, zero, zero});
        }
    }
    return t;
}

tw_scope tw_gemm_push_groups(tw_gemm_gen *g, tw_gemm_dealer *d, tw_val lowest, tw_val first_warp) {
    tw_builder *b = g->b;
    *d = (tw_gemm_dealer){.groups = groups_of(g), .lowest = lowest, .told = tw_ring_begin(b, &g->told, 1)};
    tw_groups_begin(b, &d->groups);
    d->deal = tw_deal_begin(b, g->arg.counters);
    const tw_ring_cursor heard = tw_ring_begin(b, &g->told, 0);
    const tw_groups_tile t = tile_variables(b);
    const tw_scope loop = tw_push_while(b);
    if (g->plan.fetchers > 1) {
        TW_IF (b, first_warp) find_and_tell(g, d);
        assign_tile(b, &t, tw_groups_hear(b, &g->told, &heard));
    } else {
        assign_tile(b, &t, find_and_tell(g, d));
    }
    tw_push_while_body(b, loop, tw_le(b, tw_i32(b, 0), t.group));
    tw_deal_next(b, &d->deal, lowest);
    set_tile(g, &t);
    return loop;
}

tw_scope tw_gemm_push_told(tw_gemm_gen *g, tw_val team) {
    tw_builder *b = g->b;
    const tw_ring_cursor c = tw_ring_begin(b, &g->told, 0);
    if (team.id) tw_ring_skip(b, &g->told, &c, team);
    tw_val zero = tw_i32(b, 0), index = tw_var_of(b, team.id ? team : zero);
    const tw_groups_tile t = tile_variables(b);
    const tw_scope loop = tw_push_while(b);
    assign_tile(b, &t, tw_groups_hear(b, &g->told, &c));
    if (team.id) tw_ring_advance(b, &g->told, &c); /* The other team's tile. */
    tw_push_while_body(b, loop, tw_le(b, zero, t.group));
    if (team.id) g->turn = (tw_gemm_turn){tw_eq(b, index, zero), tw_const(b, TW_T_pred, 1), index, t.group};
    if (team.id) tw_add_to(b, index, tw_i32(b, g->plan.teams));
    set_tile(g, &t);
    return loop;
}
