/* SPDX-License-Identifier: Apache-2.0 */
/* Plans kernels whose threads copy by themselves: layouts in shared memory, copies and registers. */
#include "kernels/gemm/generate.h"

static int round_up(int x, int to) {
    return (x + to - 1) / to * to;
}

/* Chooses the bytes from row to row in shared memory, so that a warp's loads have no bank conflicts. */
static int pitch_of(const tw_gemm_tile *t, const tw_gemm_config *c, tw_gemm_type type) {
    const int bytes = (t->k_stored ? c->u : t->extent) * t->es, row = round_up(bytes, 16);
    /* A half-warp reads four elements of four rows. Rows an odd multiple of 32 bytes apart do not conflict. */
    if (c->mma && type == TW_GEMM_F64) return round_up(bytes, 32) | 32;
    if (c->mma && type == TW_GEMM_TF32 && !t->k_stored) return round_up(bytes, 128) + 32;
    if (!c->mma && !t->k_stored)
        return t->k_major ? row + 16 : row; /* A copy transposes. The padding keeps the banks of its stores apart. */
    return row | 16;
}

/* Chooses the elements per fragment load of SIMT. */
static int fragment_of(const tw_gemm_tile *t, const tw_gemm_config *c, int cells, int depth) {
    const int bytes = t->k_stored && c->frag < 16 ? (c->frag > t->es ? c->frag : t->es) : 16;
    int v = bytes / t->es < 4 ? bytes / t->es : 4;
    const int within = t->k_stored ? depth : cells;
    while (v > 1 && within % v) v /= 2;
    return v;
}

/* Plans the tile of an operand. Returns NULL, or why the configuration is illegal. */
static const char *plan_tile(tw_gemm_plan *p, const tw_gemm_variant *v, const tw_gemm_config *c, bool is_x) {
    tw_gemm_tile *t = is_x ? &p->x : &p->y;
    t->k_major = is_x ? v->a_k_major : v->b_k_major;
    t->extent = is_x ? c->ml : c->nl;
    t->es = tw_type_bits(tw_gemm_element(v->type)) / 8;
    t->vec = is_x ? v->vec_a : v->vec_b;
    t->outer = t->k_major ? t->extent : c->u;
    t->inner = t->k_major ? c->u : t->extent;
    while (t->vec > t->es && t->inner * t->es % t->vec) t->vec /= 2;
    REFUSE(!c->copy && t->vec < 4,
           "asynchronous copies move 4 bytes at least, and rows of a matrix or a tile are aligned to less");
    /* SIMT reads runs along rows of C. A copy of single elements can transpose to that order. */
    t->transposed = t->k_major && !c->mma && (t->vec == t->es || (c->copy && t->es >= 4));
    t->k_stored = t->k_major && !t->transposed;
    /* In a transposing copy neighbouring threads take eight elements along k, and then the next row. Their stores then
       have different banks. */
    const int width = t->vec / t->es > 8 ? t->vec / t->es : 8;
    t->width = t->transposed && t->inner > width ? width : t->inner;
    t->per_row = t->width * t->es / t->vec;
    t->total = t->outer * t->inner * t->es / t->vec;
    t->per_thread = (t->total + p->threads - 1) / p->threads;
    REFUSE(t->per_thread > TW_GEMM_MAX_COPIES, "too many copies a thread");
    t->pitch = pitch_of(t, c, v->type);
    t->bytes = (t->k_stored ? t->extent : c->u) * t->pitch;
    t->v = fragment_of(t, c, is_x ? c->ms : c->ns, p->depth);
    return NULL;
}

/* Counts sums, fragments of a step, copies in registers, and some registers for addresses. */
static int registers_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p, int fragments) {
    const int acc = tw_type_bits(tw_gemm_accumulator(v->type)) / 32;
    const int held = !c->copy ? 0 : (p->x.per_thread * p->x.vec + p->y.per_thread * p->y.vec + 3) / 4;
    const int registers = p->accumulators * acc * c->ks + fragments + held + 24;
    /* The compiler takes at least 64 registers for f64's tensor-core operations. */
    return c->mma && v->type == TW_GEMM_F64 && registers < 64 ? 64 : registers;
}

const char *tw_gemm_pipeline_plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t,
                                  tw_gemm_plan *p) {
    const tw_gemm_way *way = tw_gemm_way_of(c);
    const char *why;
    REFUSE(c->staged || c->persistent || c->multicast, "staged, persistent and multicast need mma=2");
    p->depth = c->u / c->kl;
    if ((why = way->shape(v, c, t, p))) return why;
    p->threads = p->group * c->kl;
    REFUSE(p->accumulators * c->ks > TW_GEMM_MAX_ACC, "a thread's tile takes too many registers");
    REFUSE(c->ks > 1 && p->depth / p->step < c->ks, "nothing to split in a thread");
    /* A stage is unrolled, which multiplies its code. */
    REFUSE(p->accumulators * p->depth > way->most_code, "a stage unrolls to too much code");
    if ((why = plan_tile(p, v, c, true))) return why;
    if ((why = plan_tile(p, v, c, false))) return why;
    p->stage_bytes = p->x.bytes + p->y.bytes;
    p->registers = registers_of(v, c, p, way->fragments(v, c, p));
    return NULL;
}
