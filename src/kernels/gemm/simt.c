/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by SIMT. A thread has ms x ns of them. A tile that is contiguous along its extent gives a thread runs of `vx`
   rows, and a warp's runs lie side by side. A tile that is contiguous along k gives a warp's threads neighbouring rows,
   an odd number of 16 bytes apart. Both are free of bank conflicts. */
#include "kernels/gemm/generate.h"
#include "kernels/parts/convert.h"

static const char *shape(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    (void)t;
    REFUSE(v->type == TW_GEMM_TF32 || v->type == TW_GEMM_TF32X3, "tf32 is what tensor cores compute with");
    p->step = 1;
    p->x.threads = c->ml / c->ms;
    p->y.threads = c->nl / c->ns;
    p->group = p->x.threads * p->y.threads;
    REFUSE(p->group % 32, "a group of threads is no whole number of warps");
    p->accumulators = c->ms * c->ns;
    REFUSE(p->accumulators > 128 || c->ms > 16 || c->ns > 16, "a thread's tile takes too many registers");
    /* The lanes' cells are as near to a square as the tile allows. */
    for (int lanes = 1, best = 0; lanes <= 32; lanes *= 2) {
        const int edges = lanes * c->ms + 32 / lanes * c->ns;
        if (p->x.threads % lanes || p->y.threads % (32 / lanes) || (p->lanes_m && edges >= best)) continue;
        best = edges;
        p->lanes_m = lanes;
    }
    REFUSE(!p->lanes_m, "a warp does not fit the tile");
    return NULL;
}

static int fragments(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p) {
    (void)v;
    return c->ms * (p->x.k_stored ? p->x.v : 1) + c->ns * (p->y.k_stored ? p->y.v : 1);
}

/* Returns the distance from a thread's first row to its i-th. */
static int cell(const tw_gemm_tile *t, int i) {
    return t->k_stored ? i * t->threads : i / t->v * t->threads * t->v + i % t->v;
}

static void prepare(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_plan *p = &g->plan;
    const tw_gemm_config *c = g->c;
    const int lanes_n = 32 / p->lanes_m, warps_m = p->x.threads / p->lanes_m;
    tw_val tm = tw_add(b, tw_mul_imm(b, tw_rem(b, g->warp, warps_m), p->lanes_m), tw_rem(b, g->lane, p->lanes_m));
    tw_val tn = tw_add(b, tw_mul_imm(b, tw_div(b, g->warp, warps_m), lanes_n), tw_div(b, g->lane, p->lanes_m));
    g->x.first = tw_mul_imm(b, tm, p->x.k_stored ? 1 : p->x.v);
    g->y.first = tw_mul_imm(b, tn, p->y.k_stored ? 1 : p->y.v);
    for (int i = 0; i < c->ms; i++)
        for (int j = 0; j < c->ns; j++) {
            g->x.of[i * c->ns + j] = cell(&p->x, i);
            g->y.of[i * c->ns + j] = cell(&p->y, j);
        }
    tw_val k = tw_mul_imm(b, g->group, p->depth);
    tw_val x = tw_gemm_element_offset(b, &p->x, g->x.first, k);
    g->x.base = tw_add(b, g->shared, x);
    tw_val y = tw_gemm_element_offset(b, &p->y, g->y.first, k);
    g->y.base = tw_add_imm(b, tw_add(b, g->shared, y), p->x.bytes);
}

/* Loads `deep` values along k, from k on, of each of `count` cells: out[cell][depth]. */
static void fragment(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val base, int count, int k, int deep, tw_val out[][4]) {
    const tw_type type = tw_gemm_types[g->v->type].element;
    /* A load takes t->v adjacent values. Loads proceed along the direction of adjacency first. */
    const int lines = t->k_stored ? count : deep, along = t->k_stored ? deep : count;
    for (int line = 0; line < lines; line++)
        for (int i = 0; i < along; i += t->v) {
            const int first = cell(t, t->k_stored ? line : i), d = k + (t->k_stored ? i : line);
            const int offset = t->k_stored ? first * t->pitch + d * t->es : d * t->pitch + first * t->es;
            tw_val r[4] = {{0}};
            tw_ld_vec(g->b, (tw_attrs){.type = type, .space = TW_SPACE_shared, .vec = t->v, .offset = offset}, base, r);
            for (int e = 0; e < t->v; e++)
                *(t->k_stored ? &out[line][i + e] : &out[i + e][line]) = tw_part_widen(g->b, type, r[e]);
        }
}

static void add_stage(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    const tw_gemm_plan *p = &g->plan;
    const tw_gemm_config *c = g->c;
    tw_val x_base = tw_add(b, g->x.base, stage), y_base = tw_add(b, g->y.base, stage);
    int deep = 1;
    if (p->x.k_stored) deep = p->x.v;
    if (p->y.k_stored && p->y.v > deep) deep = p->y.v;
    const tw_opcode multiply_add = g->acc_type == TW_T_f32   ? TW_OP_fma_f32
                                   : g->acc_type == TW_T_f64 ? TW_OP_fma_f64
                                                             : TW_OP_mad_i32;
    for (int k = 0; k < p->depth; k += deep) {
        tw_val x[32][4], y[32][4];
        fragment(g, &p->x, x_base, c->ms, k, deep, x);
        fragment(g, &p->y, y_base, c->ns, k, deep, y);
        for (int d = 0; d < deep; d++)
            for (int i = 0; i < c->ms; i++)
                for (int jj = 0; jj < c->ns; jj++) {
                    /* Columns go back and forth, so that consecutive multiply-adds share an operand. */
                    int j = i & 1 ? c->ns - 1 - jj : jj;
                    tw_val acc = g->acc[(k + d) % c->ks][i * c->ns + j];
                    tw_op_to(b, acc, multiply_add, x[i][d], y[j][d], acc);
                }
        tw_gemm_copy_between(g, k / deep, p->depth / deep);
    }
}

const tw_gemm_way tw_gemm_simt = {.plan = tw_gemm_pipeline_plan,
                                  .build = tw_gemm_pipeline,
                                  .most_code = 2048,
                                  .shape = shape,
                                  .fragments = fragments,
                                  .prepare = prepare,
                                  .stage = add_stage};
