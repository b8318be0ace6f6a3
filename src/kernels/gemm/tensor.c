/* SPDX-License-Identifier: Apache-2.0 */
/* Sums on tensor cores. A warp has ms x ns of them, in tiles of mma's shape. ldmatrix loads 16-bit elements in either
   order. It loads other types if their rows lie along k, since it spreads 16 bytes of a row over four lanes as mma
   needs them. Other fragments are loaded element by element.

   With tf32x3 an element x is split into high + low: high is x rounded to tf32, and low is the difference, of which mma
   reads the upper bits. Three products are added: low * high, high * low and high * high. Tensor cores do not round
   their sums but cut them off, so a stage is summed on its own, and rounded where it is added to the stages before. */
#include "kernels/gemm/generate.h"
#include "kernels/parts/convert.h"

/* Chooses the largest shape along k that divides this depth. */
static tw_mma_kind kind_for(tw_gemm_type type, int depth, int sm) {
    static const struct {
        tw_gemm_type type;
        tw_mma_kind kind;
    } shapes[] = {
        {TW_GEMM_F16, TW_MMA_m16n8k16_f16},    {TW_GEMM_F16, TW_MMA_m16n8k8_f16},
        {TW_GEMM_BF16, TW_MMA_m16n8k16_bf16},  {TW_GEMM_BF16, TW_MMA_m16n8k8_bf16},
        {TW_GEMM_TF32, TW_MMA_m16n8k8_tf32},   {TW_GEMM_TF32, TW_MMA_m16n8k4_tf32},
        {TW_GEMM_F64, TW_MMA_m16n8k16_f64},    {TW_GEMM_F64, TW_MMA_m16n8k8_f64},
        {TW_GEMM_F64, TW_MMA_m16n8k4_f64},     {TW_GEMM_F64, TW_MMA_m8n8k4_f64},
        {TW_GEMM_S8, TW_MMA_m16n8k32_s8},      {TW_GEMM_S8, TW_MMA_m16n8k16_s8},
        {TW_GEMM_TF32X3, TW_MMA_m16n8k8_tf32}, {TW_GEMM_TF32X3, TW_MMA_m16n8k4_tf32},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const tw_mma_info *m = tw_mma_describe(shapes[i].kind);
        if (shapes[i].type == type && depth % m->k == 0 && m->sm <= sm) return shapes[i].kind;
    }
    return TW_MMA_none;
}

static const char *shape(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    p->mma = kind_for(v->type, p->depth, t->sm);
    REFUSE(!p->mma, "no tensor-core shape for this type and depth");
    REFUSE(v->type == TW_GEMM_TF32X3 && c->ks > 1, "tf32x3 has one sum in a thread");
    const tw_mma_info *m = tw_mma_describe(p->mma);
    p->step = m->k;
    REFUSE(c->ms % m->m || c->ns % m->n, "a warp's tile is no whole number of tensor-core tiles");
    REFUSE(c->ms / m->m > 16 || c->ns / m->n > 16, "a warp's tile is too large");
    p->x.threads = c->ml / c->ms;
    p->y.threads = c->nl / c->ns;
    p->group = p->x.threads * p->y.threads * 32;
    p->accumulators = c->ms / m->m * (c->ns / m->n) * m->c;
    return NULL;
}

static int fragments(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p) {
    const tw_mma_info *m = tw_mma_describe(p->mma);
    const int of_step = c->ms / m->m * m->a + c->ns / m->n * m->b;
    return v->type == TW_GEMM_TF32X3 ? 2 * of_step + p->accumulators : of_step;
}

typedef struct side {
    const tw_gemm_tile *tile;
    tw_val base;
    int count;     /* mma tiles along rows of X, or columns of Y. */
    int extent;    /* Rows (columns) of an mma tile: 16 or 8. */
    int registers; /* Registers of an mma tile's fragment. */
    tw_val fragment[16][8];
    tw_val low[16][8]; /* tf32x3: what the rounding of `fragment` left. */
} side;

static bool by_matrix(const tw_gemm_gen *g, const tw_gemm_tile *t) {
    if (g->v->type == TW_GEMM_F64) return false;
    return t->k_stored || t->es == 2;
}

/* Computes the part of a fragment's address that depends on the lane. */
static tw_val lane_part(tw_gemm_gen *g, const tw_gemm_tile *t, bool is_x) {
    tw_builder *b = g->b;
    const tw_mma_info *m = tw_mma_describe(g->plan.mma);
    tw_val row, k; /* In elements: along the extent, and along k. */
    if (by_matrix(g, t)) {
        tw_val q = tw_shr(b, g->lane, 3), r = tw_rem(b, g->lane, 8);
        const int per = 16 / t->es; /* Elements in 16 bytes. */
        const bool two = is_x || m->k == 2 * per;
        /* Matrix q of ldmatrix: its 8 rows, and its 16 bytes along k. */
        tw_val tile_of = !two ? q : is_x ? tw_rem(b, q, 2) : tw_shr(b, q, 1);
        tw_val half_of = !two ? tw_i32(b, 0) : is_x ? tw_shr(b, q, 1) : tw_rem(b, q, 2);
        row = tw_mul_imm(b, tile_of, 8);
        if (t->k_stored) row = tw_add(b, row, r);
        k = tw_mul_imm(b, half_of, per);
        if (!t->k_stored) k = tw_add(b, k, r);
    } else {
        const int pack = g->v->type == TW_GEMM_S8 ? 4 : 1;
        row = tw_shr(b, g->lane, 2);
        k = tw_mul_imm(b, tw_rem(b, g->lane, 4), pack);
    }
    return tw_gemm_element_offset(b, t, row, k);
}

static void prepare(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_plan *p = &g->plan;
    const tw_gemm_config *c = g->c;
    const tw_mma_info *m = tw_mma_describe(p->mma);
    tw_val first_row = tw_mul_imm(b, tw_rem(b, g->warp, p->x.threads), c->ms);
    tw_val first_column = tw_mul_imm(b, tw_div(b, g->warp, p->x.threads), c->ns);
    g->x.first = tw_add(b, first_row, tw_shr(b, g->lane, 2));
    g->y.first = tw_add(b, first_column, tw_shl(b, tw_rem(b, g->lane, 4), 1));
    int n = 0;
    for (int i = 0; i < c->ms / m->m; i++)
        for (int j = 0; j < c->ns / m->n; j++)
            for (int r = 0; r < m->c; r++, n++) {
                g->x.of[n] = i * m->m + r / 2 * 8;
                g->y.of[n] = j * m->n + r % 2;
            }
    tw_val k = tw_mul_imm(b, g->group, p->depth);
    for (int s = 0; s < 2; s++) {
        const tw_gemm_tile *t = s ? &p->y : &p->x;
        tw_val first = s ? first_column : first_row;
        tw_val at = tw_gemm_element_offset(b, t, first, k), lane = lane_part(g, t, !s);
        at = tw_add(b, tw_add(b, g->shared, at), lane);
        (s ? &g->y : &g->x)->base = tw_add_imm(b, at, s ? p->x.bytes : 0);
    }
}

static tw_val as_operand(tw_gemm_gen *g, tw_val x) {
    tw_builder *b = g->b;
    if (g->v->type == TW_GEMM_TF32) return tw_unary(b, TW_OP_cvt_tf32_f32, tw_bitcast(b, TW_T_f32, x));
    return tw_bitcast(b, tw_mma_describe(g->plan.mma)->ab, x);
}

/* Loads every fragment of a step by ldmatrix, up to four 8 x 8 matrices at once. */
static void load_matrices(tw_gemm_gen *g, side *s, int k) {
    const tw_gemm_tile *t = s->tile;
    /* A tile of X has 16 rows: 2 or 4 matrices. Tiles of Y have 8 rows, and are loaded 4, 2 or 1 matrices at a time. */
    const int halves = tw_mma_describe(g->plan.mma)->k * t->es / 16, together = s->extent == 16 ? 1 : 4 / halves;
    for (int i = 0, tiles; i < s->count; i += tiles) {
        tiles = s->count - i < together ? s->count - i : together;
        if (tiles == 3) tiles = 2;
        const int matrices = tiles * (s->extent / 8) * halves, rows = i * s->extent;
        const int offset = t->k_stored ? rows * t->pitch + k * t->es : k * t->pitch + rows * t->es;
        tw_val r[4] = {{0}};
        tw_ldmatrix(g->b, matrices, !t->k_stored, s->base, offset, r);
        for (int j = 0; j < matrices; j++) s->fragment[i + j / s->registers][j % s->registers] = as_operand(g, r[j]);
    }
}

/* Loads the 8-bit integer at `offset` and the three after it along k into one register. */
static tw_val gather_bytes(tw_gemm_gen *g, const side *s, int offset, int step) {
    tw_builder *b = g->b;
    tw_val v[4];
    for (int i = 0; i < 4; i++)
        v[i] = tw_ld(b, (tw_attrs){.type = TW_T_i8, .space = TW_SPACE_shared, .offset = offset + i * step}, s->base);
    tw_val low = tw_op_emit(b, TW_OP_prmt_i32, v[0], v[1], tw_i32(b, 0x0040));
    tw_val high = tw_op_emit(b, TW_OP_prmt_i32, v[2], v[3], tw_i32(b, 0x0040));
    return tw_op_emit(b, TW_OP_prmt_i32, low, high, tw_i32(b, 0x5410));
}

static void load_elements(tw_gemm_gen *g, side *s, int k) {
    const tw_gemm_tile *t = s->tile;
    const int step = t->k_stored ? t->es : t->pitch, across = t->k_stored ? t->pitch : t->es;
    const int halves = s->extent / 8; /* Registers that differ only in their rows come first. */
    const int pack = g->v->type == TW_GEMM_S8 ? 4 : 1;
    const tw_type type = g->v->type == TW_GEMM_F64 ? TW_T_f64 : TW_T_i32;
    for (int i = 0; i < s->count; i++)
        for (int r = 0; r < s->registers; r++) {
            const int row = i * s->extent + r % halves * 8, offset = row * across + (k + r / halves * 4 * pack) * step;
            const tw_attrs at = {.type = type, .space = TW_SPACE_shared, .offset = offset};
            s->fragment[i][r] = pack > 1 ? gather_bytes(g, s, offset, step) : as_operand(g, tw_ld(g->b, at, s->base));
        }
}

/* Splits the elements of a fragment, which are f32. */
static void split(tw_gemm_gen *g, side *s) {
    for (int i = 0; i < s->count; i++)
        for (int r = 0; r < s->registers; r++) {
            tw_val low;
            tw_part_split_tf32(g->b, s->fragment[i][r], &s->fragment[i][r], &low);
            s->low[i][r] = tw_bitcast(g->b, TW_T_i32, low);
        }
}

static void load_side(tw_gemm_gen *g, side *s, int k) {
    (by_matrix(g, s->tile) ? load_matrices : load_elements)(g, s, k);
    if (g->v->type == TW_GEMM_TF32X3) split(g, s);
}

/* Adds the products of two sides' fragments to d. Adjacent products have different sums. */
static void multiply(tw_gemm_gen *g, const side *x, const side *y, bool x_low, bool y_low, tw_val *d) {
    const tw_mma_info *m = tw_mma_describe(g->plan.mma);
    for (int i = 0; i < x->count; i++)
        for (int jj = 0; jj < y->count; jj++) {
            const int j = i & 1 ? y->count - 1 - jj : jj;
            tw_val *sum = d + (ptrdiff_t)(i * y->count + j) * m->c;
            tw_mma(g->b, g->plan.mma, sum, x_low ? x->low[i] : x->fragment[i], y_low ? y->low[j] : y->fragment[j], sum);
        }
}

static void add_stage(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    const tw_gemm_plan *p = &g->plan;
    const tw_gemm_config *c = g->c;
    const tw_mma_info *m = tw_mma_describe(p->mma);
    side x = {
        .tile = &p->x, .base = tw_add(b, g->x.base, stage), .count = c->ms / m->m, .extent = m->m, .registers = m->a};
    side y = {
        .tile = &p->y, .base = tw_add(b, g->y.base, stage), .count = c->ns / m->n, .extent = m->n, .registers = m->b};
    const bool thrice = g->v->type == TW_GEMM_TF32X3;
    tw_val of_stage[TW_GEMM_MAX_ACC];
    for (int i = 0; thrice && i < p->accumulators; i++) of_stage[i] = tw_var_of(b, tw_f32(b, 0));
    for (int k = 0; k < p->depth; k += m->k) {
        load_side(g, &x, k);
        load_side(g, &y, k);
        if (thrice) {
            multiply(g, &x, &y, true, false, of_stage);
            multiply(g, &x, &y, false, true, of_stage);
        }
        multiply(g, &x, &y, false, false, thrice ? of_stage : g->acc[k / m->k % c->ks]);
        tw_gemm_copy_between(g, k / m->k, p->depth / m->k);
    }
    for (int i = 0; thrice && i < p->accumulators; i++) tw_add_to(b, g->acc[0][i], of_stage[i]);
}

const tw_gemm_way tw_gemm_mma = {.plan = tw_gemm_pipeline_plan,
                                 .build = tw_gemm_pipeline,
                                 .most_code = 16384,
                                 .shape = shape,
                                 .fragments = fragments,
                                 .prepare = prepare,
                                 .stage = add_stage};
