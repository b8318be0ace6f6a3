/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions with weights: groups of rows, chunks of columns, and the warps' sums, which meet in shared memory. */
#include "vm/cuda/activations.h"

typedef struct product {
    tw_mega_gen *g;
    tw_val kind, chunks, is_head;
    tw_mega_activations a;
    tw_mega_stream stream;
    tw_mega_units units; /* The group's units. */
    tw_mega_sums sums;   /* Sums of the units. */
} product;

/* Stages a chunk's activations for all warps. */
static void stage_chunk(product *o, tw_val chunk) {
    tw_mega_stage_chunk(&o->a, chunk);
    tw_mega_barrier(o->g);
    if (o->g->p->flags) tw_mega_build_factor(o->g, &o->sums);
}

/* Tells the producer that the instruction's activations are in shared memory. */
static void tell_producer(tw_mega_gen *g) {
    tw_builder *b = g->b;
    if (!g->p->paces) return;
    const tw_attrs ready = tw_mega_ready(g->p);
    tw_val stages = tw_mega_word(g, TW_W_ALL);
    TW_IF (b, tw_eq(b, g->thread, tw_i32(b, 0)))
        tw_st(b, ready, g->shared, (tw_val[]){tw_add(b, tw_ld(b, ready, g->shared), stages)});
}

static void multiply(product *o, tw_val chunk) {
    o->units.chunk = chunk;
    tw_mega_build_units(o->g, &o->stream, o->is_head, &o->units);
}

/* Multiplies a group chunk by chunk. Each chunk's activations replace the previous one's in shared memory. */
static void multiply_chunks(product *o, tw_val first_unit) {
    tw_builder *b = o->g->b;
    TW_FOR (b, chunk, tw_i32(b, 0), o->chunks, tw_i32(b, 1), false) {
        /* A single chunk stays in shared memory for all groups. */
        tw_val many = tw_lt(b, tw_i32(b, 1), o->chunks), first = tw_eq(b, tw_or(b, first_unit, chunk), tw_i32(b, 0));
        TW_IF (b, tw_or(b, many, first)) {
            TW_IF (b, tw_not(b, first)) {
                tw_mega_find_chunk(&o->a, chunk);
                /* A barrier: slower warps may still multiply the previous chunk, or join the previous group's sums. */
                tw_mega_barrier(o->g);
            }
            stage_chunk(o, chunk);
            TW_IF (b, first) tell_producer(o->g);
        }
        TW_IF (b, tw_eq(b, first_unit, tw_i32(b, 0))) tw_mega_mark(o->g, 2);
        multiply(o, chunk);
    }
}

/* Builds a group's products, then its epilogue. */
static void group(product *o, tw_val first_unit, tw_val count) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    o->units.count = count;
    if (g->p->one_chunk)
        multiply(o, tw_i32(b, 0));
    else
        multiply_chunks(o, first_unit);
    tw_mega_mark(g, 3);
    tw_mega_barrier(g);
    tw_val first_row, paired = g->p->gated ? tw_eq(b, o->kind, tw_i32(b, TW_MEGA_FFN)) : TW_NONE;
    if (g->p->experts) paired = tw_or(b, paired, tw_eq(b, o->kind, tw_i32(b, TW_MEGA_EXPERTS_UP)));
    first_row = tw_mul_imm(b, first_unit, TW_MEGA_ROWS);
    o->sums.rows = tw_mul_imm(b, count, TW_MEGA_ROWS);
    o->sums.first = paired.id ? tw_select(b, paired, tw_shr(b, first_row, 1), first_row) : first_row;
    tw_mega_build_epilogue(g, &o->sums);
}

static product product_of(tw_mega_gen *g, tw_val kind) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_val stages = tw_mega_word(g, TW_W_STAGES), chunks = tw_mega_word(g, TW_W_CHUNKS);
    product o = {.g = g,
                 .kind = kind,
                 .chunks = chunks,
                 .is_head = tw_eq(b, kind, tw_i32(b, TW_MEGA_HEAD)),
                 .a = {.g = g,
                       .in = tw_mega_address(g, TW_W_IN),
                       .norm = tw_mega_address(g, TW_W_NORM),
                       .columns = tw_mega_word(g, TW_W_K),
                       .positions = g->arg[TW_MEGA_ARG_N]}};
    tw_mega_activations *a = &o.a;
    a->pitch = a->columns;
    if (p->parts) {
        tw_val partial = tw_eq(b, kind, tw_i32(b, TW_MEGA_PARTIAL));
        a->pitch = tw_select(b, partial, tw_mega_word(g, TW_W_PITCH), a->columns);
    }
    a->normed = tw_binary(b, TW_OP_ne_i64, a->norm, tw_i64(b, 0));
    if (p->layer_norm) {
        a->bias = tw_mega_address(g, TW_W_NORM_BIAS);
        a->biased = tw_and(b, a->normed, tw_binary(b, TW_OP_ne_i64, a->bias, tw_i64(b, 0)));
    }
    const int64_t of_body = tw_mega_stage_columns(p, &p->body), of_head = tw_mega_stage_columns(p, &p->head);
    a->width = tw_mul_imm(b, stages, of_body);
    if (of_body != of_head) a->width = tw_select(b, o.is_head, tw_mul_imm(b, stages, of_head), a->width);
    if (p->tokens > 1 && !p->all_logits) {
        /* The head takes only the last position. */
        tw_val last = tw_select(b, o.is_head, tw_add_imm(b, a->positions, -1), tw_i32(b, 0));
        a->in = tw_op_emit(b, TW_OP_mad_wide_s32, last, tw_mul_imm(b, a->columns, 4), a->in);
        a->positions = tw_select(b, o.is_head, tw_i32(b, 1), a->positions);
    }
    if (p->flags) {
        tw_val of_x = tw_mega_tag(g, false, p->uses_x), of_rest = tw_mega_tag(g, false, p->uses);
        a->tag = tw_select(b, tw_eq(b, kind, tw_i32(b, TW_MEGA_PROJECT)), of_rest, of_x);
        a->mask = tw_mega_mask(g);
    }
    if (p->experts) a->padded = tw_eq(b, kind, tw_i32(b, TW_MEGA_EXPERTS_DOWN));
    o.units = (tw_mega_units){.stages = stages, .positions = a->positions};
    return o;
}

static tw_mega_sums sums_of(const product *o) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_mega_sums sums = {.kind = o->kind, .positions = o->a.positions, .normed = o->a.normed};
    sums.share = tw_unary(b, TW_OP_rcp_f32, tw_unary(b, TW_OP_cvt_f32_s32, o->a.columns));
    for (int i = 0; i < g->p->sequences; i++) sums.best[i] = tw_argmax_of(b, TW_SAMPLE_LEAST);
    if (g->p->flags) sums.factor = tw_var_of(b, tw_f32(b, 1));
    if (g->p->tokens == 1) {
        tw_val early = tw_and(b, tw_mega_word(g, TW_W_KIND), tw_i32(b, TW_MEGA_EARLY));
        sums.early = tw_ne(b, early, tw_i32(b, 0));
        tw_mega_build_before(g, &sums);
    }
    return sums;
}

/* Takes the first stage before the wait. Of experts_up it has just been asked for, so the activations, which a mixture
   has in one chunk, go first. */
static void wait_and_take(product *o) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val late = tw_eq(b, o->kind, tw_i32(b, TW_MEGA_EXPERTS_UP));
    TW_IF (b, tw_not(b, late)) tw_mega_build_units(g, &o->stream, o->is_head, NULL);
    tw_mega_wait(g);
    stage_chunk(o, tw_i32(b, 0));
    tell_producer(g);
    TW_IF (b, late) tw_mega_build_units(g, &o->stream, o->is_head, NULL);
    tw_mega_mark(g, 2);
}

void tw_mega_build_product(tw_mega_gen *g, tw_val kind) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    product o = product_of(g, kind);
    tw_val count = tw_mega_word(g, TW_W_UNITS), group_units = tw_mega_word(g, TW_W_GROUP);
    o.sums = sums_of(&o);
    tw_mega_find_activations(&o.a);
    tw_mega_begin_stream(g, &o.stream, tw_mega_word(g, TW_W_ALL));
    if (p->experts) {
        wait_and_take(&o);
    } else {
        tw_mega_build_units(g, &o.stream, o.is_head, NULL);
        tw_mega_wait(g);
    }
    tw_val part = o.units.part = o.sums.part = tw_var_of(b, tw_add_imm(b, g->shared, p->part));
    const int part_bytes = p->tuning.warps * p->tokens * TW_MEGA_PART_ROWS * 4;
    if (p->one_chunk && !p->experts) {
        stage_chunk(&o, tw_i32(b, 0));
        tell_producer(g);
        tw_mega_mark(g, 2);
    }
    TW_FOR (b, first, tw_i32(b, 0), count, group_units, false) {
        group(&o, first, tw_min(b, group_units, tw_sub(b, count, first)));
        if (p->part_buffers == 2) {
            /* The next group uses the other buffer, since others may still add up this group's sums. */
            tw_val low = tw_add_imm(b, g->shared, p->part), other = tw_add_imm(b, low, part_bytes);
            tw_assign(b, part, tw_select(b, tw_eq(b, part, low), other, low));
        } else {
            tw_mega_barrier(g);
        }
    }
    TW_IF (b, o.is_head) {
        tw_mega_build_values(g, &o.sums);
        tw_mega_build_best(g, &o.sums);
    }
}
