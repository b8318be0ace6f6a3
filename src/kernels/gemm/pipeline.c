/* SPDX-License-Identifier: Apache-2.0 */
/* The plan and the pipeline along k of SIMT and mma.sync kernels, whose threads copy tiles themselves. */
#include "kernels/gemm/generate.h"

/* -- the plan: layouts in shared memory, copies and registers */

static int round_up(int x, int to) {
    return (x + to - 1) / to * to;
}

/* Chooses the bytes from row to row in shared memory, so that a warp's loads have no bank conflicts. */
static int pitch_of(const tw_gemm_tile *t, const tw_gemm_config *c, tw_gemm_type type) {
    const int bytes = (t->k_stored ? c->u : t->extent) * t->es, row = round_up(bytes, 16);
    /* A half-warp reads four elements of four rows. Rows that are an odd multiple of 32 bytes apart have no bank
       conflicts. */
    if (c->mma && type == TW_GEMM_F64) return round_up(bytes, 32) | 32;
    if (c->mma && (type == TW_GEMM_TF32 || type == TW_GEMM_TF32X3) && !t->k_stored) return round_up(bytes, 128) + 32;
    if (!c->mma && !t->k_stored)
        return t->k_major ? row + 16 : row; /* The padding spares a transposing copy's stores bank conflicts. */
    return row | 16;
}

/* Plans the tile of an operand. Returns NULL, or why the configuration is illegal. */
static const char *plan_tile(tw_gemm_plan *p, const tw_gemm_variant *v, const tw_gemm_config *c, bool is_x) {
    tw_gemm_tile *t = is_x ? &p->x : &p->y;
    t->k_major = is_x ? v->a_k_major : v->b_k_major;
    t->extent = is_x ? c->ml : c->nl;
    t->es = tw_type_bits(tw_gemm_types[v->type].element) / 8;
    t->vec = is_x ? v->vec_a : v->vec_b;
    t->outer = t->k_major ? t->extent : c->u;
    t->inner = t->k_major ? c->u : t->extent;
    while (t->vec > t->es && t->inner * t->es % t->vec) t->vec /= 2;
    REFUSE(!c->copy && t->vec < 4,
           "asynchronous copies move 4 bytes at least, and rows of a matrix or a tile are aligned to less");
    /* SIMT reads runs along rows of C. A copy of single elements can transpose a tile to that order. */
    t->transposed = t->k_major && !c->mma && (t->vec == t->es || (c->copy && t->es >= 4));
    t->k_stored = t->k_major && !t->transposed;
    /* In a transposing copy adjacent threads copy eight elements along k before the next row. Their stores then have no
       bank conflicts. */
    const int width = t->vec / t->es > 8 ? t->vec / t->es : 8;
    t->width = t->transposed && t->inner > width ? width : t->inner;
    t->per_row = t->width * t->es / t->vec;
    t->total = t->outer * t->inner * t->es / t->vec;
    t->per_thread = (t->total + p->threads - 1) / p->threads;
    REFUSE(t->per_thread > TW_GEMM_MAX_COPIES, "too many copies a thread");
    t->pitch = pitch_of(t, c, v->type);
    t->bytes = (t->k_stored ? t->extent : c->u) * t->pitch;
    /* SIMT loads fragments of as many adjacent elements as there are. */
    const int frag = t->k_stored && c->frag < 16 ? (c->frag > t->es ? c->frag : t->es) : 16;
    const int together = t->k_stored ? p->depth : is_x ? c->ms : c->ns;
    t->v = frag / t->es < 4 ? frag / t->es : 4;
    while (t->v > 1 && together % t->v) t->v /= 2;
    return NULL;
}

/* Estimates registers per thread: sums, fragments of a step, copies in registers, and some for addresses. */
static int registers_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p, int fragments) {
    const int of_value = tw_type_bits(tw_gemm_types[v->type].accumulator) / 32;
    const int held = !c->copy ? 0 : (p->x.per_thread * p->x.vec + p->y.per_thread * p->y.vec + 3) / 4;
    const int registers = (p->accumulators * c->ks + fragments) * of_value + held + 24;
    /* ptxas uses at least 64 registers with f64 tensor-core operations. */
    return c->mma && v->type == TW_GEMM_F64 && registers < 64 ? 64 : registers;
}

const char *tw_gemm_pipeline_plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t,
                                  tw_gemm_plan *p) {
    const tw_gemm_way *way = tw_gemm_way_of(c);
    const char *why;
    REFUSE(v->type == TW_GEMM_E4M3, "e4m3 needs mma=2");
    REFUSE(v->grouped || v->epilogue.gated || v->epilogue.squares, "groups, gated products and squares need mma=2");
    REFUSE(v->sums || v->epilogue.scaled || v->epilogue.means, "sums of rows, and scaled cells, need mma=2");
    REFUSE(c->staged || c->persistent || c->multicast || c->pingpong || c->stream || c->early,
           "staged, persistent, pingpong, stream, early and multicast need mma=2");
    p->depth = c->u / c->kl;
    if ((why = way->shape(v, c, t, p))) return why;
    p->threads = p->group * c->kl;
    REFUSE(p->accumulators * c->ks > TW_GEMM_MAX_ACC, "a thread's tile takes too many registers");
    REFUSE(c->ks > 1 && p->depth / p->step < c->ks, "nothing to split in a thread");
    /* Unrolling a stage multiplies its code. */
    REFUSE(p->accumulators * p->depth > way->most_code, "a stage unrolls to too much code");
    if ((why = plan_tile(p, v, c, true))) return why;
    if ((why = plan_tile(p, v, c, false))) return why;
    p->stage_bytes = p->x.bytes + p->y.bytes;
    p->registers = registers_of(v, c, p, way->fragments(v, c, p));
    return NULL;
}

/* -- the kernel */

tw_val tw_gemm_element_offset(tw_builder *b, const tw_gemm_tile *t, tw_val row, tw_val k) {
    tw_val inner = tw_mul_imm(b, t->k_stored ? k : row, t->es);
    tw_val outer = tw_mul_imm(b, t->k_stored ? row : k, t->pitch);
    return tw_add(b, outer, inner);
}

static tw_val stage_after(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    tw_val next = tw_add_imm(b, stage, g->plan.stage_bytes);
    return tw_select(b, tw_eq(b, next, tw_i32(b, g->plan.stage_bytes * g->c->stages)), tw_i32(b, 0), next);
}

/* The channel of a thread's asynchronous copies. */
static const char *const copies = "copies";

static void commit(tw_builder *b) {
    tw_record_arrive(b, copies, TW_ARRIVAL_own, TW_ENGINE_OF_copy);
    tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static void wait_for_copies(tw_builder *b, int pending) {
    tw_record_wait(b, copies, TW_ENGINE_OF_copy, pending);
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = pending}, TW_NONE, TW_NONE);
    tw_record_end(b, copies);
}

/* Adds a stage to the sums. */
static void multiply(tw_gemm_gen *g, const tw_gemm_way *way, tw_val stage) {
    tw_record_begin(g->b, "multiply", g->c->mma ? TW_ENGINE_OF_tensor : TW_ENGINE_OF_alu);
    way->stage(g, stage);
    tw_record_end(g->b, "multiply");
}

/* Builds the loop with asynchronous copies. stages - 1 copies are in flight while one stage is computed. There is one
   barrier per stage. After it the stage has arrived for all threads, and all threads are done with the previous stage,
   which the next copy overwrites. */
static void asynchronous(tw_gemm_gen *g, const tw_gemm_way *way) {
    tw_builder *b = g->b;
    const int ahead = g->c->stages - 1;
    for (int s = 0; s < ahead; s++) {
        TW_IF (b, tw_lt(b, tw_i32(b, s), g->stages))
            tw_gemm_copy_issue(g, tw_i32(b, s * g->plan.stage_bytes), TW_NONE, 0, 1);
        tw_gemm_copy_advance(g);
        commit(b);
    }
    tw_val read = tw_var_of(b, tw_i32(b, 0)), write = tw_var_of(b, tw_i32(b, ahead * g->plan.stage_bytes));
    TW_FOR (b, i, tw_i32(b, 0), g->stages, tw_i32(b, 1), false) {
        wait_for_copies(b, ahead - 1);
        tw_part_meet(b, &(tw_meeting){0});
        g->more = tw_lt(b, tw_add_imm(b, i, ahead), g->stages);
        /* Copies are issued in small parts between the steps, so that they do not delay the loads of fragments. */
        if (g->v->whole_k) {
            g->next_stage = write;
        } else {
            TW_IF (b, g->more) tw_gemm_copy_issue(g, write, TW_NONE, 0, 1);
        }
        multiply(g, way, read);
        tw_gemm_copy_advance(g);
        commit(b);
        tw_assign(b, write, stage_after(g, write));
        tw_assign(b, read, stage_after(g, read));
    }
    wait_for_copies(b, 0);
}

/* Builds the loop with copies through registers. The next stage is loaded into registers while the current one is
   computed. With two stages in shared memory it is stored at once. With one, all threads must be done with it first. */
static void through_registers(tw_gemm_gen *g, const tw_gemm_way *way) {
    tw_builder *b = g->b;
    const bool two = g->c->stages == 2;
    tw_val zero = tw_i32(b, 0), read = two ? tw_var_of(b, zero) : zero;
    tw_gemm_copy_declare(g);
    TW_IF (b, tw_lt(b, zero, g->stages)) {
        tw_gemm_copy_load(g);
        tw_gemm_copy_store(g, zero);
    }
    TW_FOR (b, i, zero, g->stages, tw_i32(b, 1), false) {
        tw_val more = tw_lt(b, tw_add_imm(b, i, 1), g->stages);
        tw_gemm_copy_advance(g);
        tw_part_meet(b, &(tw_meeting){0});
        TW_IF (b, more) tw_gemm_copy_load(g);
        multiply(g, way, read);
        if (two) tw_assign(b, read, stage_after(g, read));
        if (!two) tw_part_meet(b, &(tw_meeting){0});
        TW_IF (b, more) tw_gemm_copy_store(g, read);
    }
}

void tw_gemm_pipeline(tw_gemm_gen *g) {
    const tw_gemm_way *way = tw_gemm_way_of(g->c);
    tw_gemm_copy_prepare(g, &g->x, 0);
    tw_gemm_copy_prepare(g, &g->y, g->plan.x.bytes);
    way->prepare(g);
    for (int s = 0; s < g->c->ks; s++)
        for (int i = 0; i < g->plan.accumulators; i++) g->acc[s][i] = tw_var_of(g->b, tw_zero(g->b, g->acc_type));
    (g->c->copy ? through_registers : asynchronous)(g, way);
    g->frame->finish(g);
}
