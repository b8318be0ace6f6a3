/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of kernel "attention": builds a kernel, and turns words into one with its buffers and its launch. */
#include "base/diag.h"
#include "ir/passes/passes.h"
#include "kernels/attention/generate.h"
#include "ptx/ptx.h"

#include <string.h>

static void declare(tw_attention_gen *g) {
    tw_builder *b = g->b;
    const bool copies = g->c->mma == TW_ATTENTION_BY_WARPS;
    if (copies)
        g->arg.q = tw_pointer_add(b, "q", 16, !g->c->early);
    else
        g->arg.map_q = tw_map_add(b, "map_q");
    if (g->plan.gathers || copies) {
        g->arg.k = tw_pointer_add(b, "k", 16, !g->c->early);
        g->arg.v = tw_pointer_add(b, "v", 16, !g->c->early);
    } else {
        g->arg.map_k = tw_map_add(b, "map_k");
        g->arg.map_v = tw_map_add(b, "map_v");
    }
    if (!copies) g->arg.map_o = tw_map_add(b, "map_o");
    if (g->p->ragged || copies) g->arg.out = tw_pointer_add(b, "out", 16, false);
    if (g->p->ragged) {
        g->arg.starts = tw_pointer_add(b, "starts", 4, false);
        g->arg.lengths = tw_pointer_add(b, "lengths", 4, false);
    }
    if (g->p->page) g->arg.pages = tw_pointer_add(b, "pages", 4, false);
    if (g->p->mask) g->arg.mask = tw_pointer_add(b, "mask", 16, !g->c->early);
    if (g->p->kv) {
        g->arg.k_scales = tw_pointer_add(b, "k_scales", 4, !g->c->early);
        g->arg.v_scales = tw_pointer_add(b, "v_scales", 4, !g->c->early);
    }
    if (g->p->lse) g->arg.lse = tw_pointer_add(b, "lse", 4, false);
    if (g->p->sinks) g->arg.sinks = tw_pointer_add(b, "sinks", 4, !g->c->early);
    if (g->c->splits > 1) g->arg.workspace = tw_pointer_add(b, "workspace", 16, false);
    if (g->plan.counters) g->arg.counters = tw_pointer_add(b, "counters", 4, false);
}

/* Lays the tiles of Q, K and V out, without mbarriers. */
static void place_tiles(tw_attention_gen *g) {
    const tw_attention_plan *p = &g->plan;
    tw_shared_add(g->b, "tiles", p->shared_bytes, TW_TILE_ALIGN, true);
    g->shared = tw_shared_base(g->b, "tiles");
    g->keys.bytes = g->values.bytes = tw_tile_bytes(&p->k);
    g->keys.first = tw_tile_bytes(&p->q);
    g->values.first = g->keys.first + g->c->stages * g->keys.bytes;
}

/* Lays the rings out: tiles of Q, K and V, then tiles that are told, then mbarriers. */
static void place_rings(tw_attention_gen *g) {
    tw_builder *b = g->b;
    enum { MBARRIER = TW_RING_MBARRIER };
    const tw_attention_plan *p = &g->plan;
    const int stages = g->c->stages, q = tw_tile_bytes(&p->q), k = tw_tile_bytes(&p->k), v = tw_tile_bytes(&p->v);
    tw_shared_add(b, "tiles", p->shared_bytes - p->barrier_bytes, TW_TILE_ALIGN, true);
    tw_shared_add(b, "barriers", p->barrier_bytes, 16, true);
    g->shared = tw_shared_base(b, "tiles");
    tw_val barriers = tw_shared_base(b, "barriers");
    int at = TW_ATTENTION_TOLD * TW_ATTENTION_TILE_BYTES;
    const tw_ring common = {.data = g->shared, .barriers = barriers, .offsets = true};
    g->q = g->keys = g->values = g->told = common;
    g->q.name = "queries";
    g->q.stages = 1;
    g->q.bytes = q;
    g->keys.name = "keys";
    g->keys.first = q;
    g->keys.bytes = k;
    g->values.name = "values";
    g->values.first = q + stages * k;
    g->values.bytes = v;
    g->keys.stages = g->values.stages = stages;
    g->told.name = NULL; /* It is heard in the predicate of the loop over tiles. */
    g->told.data = barriers;
    g->told.stages = TW_ATTENTION_TOLD;
    g->told.bytes = TW_ATTENTION_TILE_BYTES;
    tw_ring *const rings[] = {&g->q, &g->keys, &g->values, &g->told};
    for (int i = 0; i < 4; i++) {
        rings[i]->full = at;
        rings[i]->empty = at + rings[i]->stages * MBARRIER;
        at += 2 * rings[i]->stages * MBARRIER;
    }
}

static void build(tw_attention_gen *g) {
    tw_builder *b = g->b;
    const bool copies = g->c->mma == TW_ATTENTION_BY_WARPS;
    const int warps = g->plan.warps, ranges[4] = {0, warps, warps, g->plan.threads / 32};
    declare(g);
    (copies ? place_tiles : place_rings)(g);
    g->tid = tw_sreg(b, TW_SREG_tid_x);
    g->lane = tw_rem(b, g->tid, 32);
    g->warp = tw_sreg(b, TW_SREG_warpid);
    g->team = tw_div(b, g->warp, g->c->slices);
    if (copies) {
        tw_attention_by_warps(g);
        return;
    }
    g->group = tw_div(b, g->warp, TW_ATTENTION_WARPS);
    if (g->c->slices > 1) g->team = tw_rem(b, g->warp, TW_ATTENTION_WARPS);
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    tw_name_roles(b, roles, "consumer producer");
    tw_attention_compute(g);
    tw_next_role(b, roles);
    tw_attention_fetch(g);
    tw_pop(b, roles);
}

tw_kernel *tw_attention_make(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t,
                             bool verify, tw_diag *diag) {
    tw_attention_gen g = {.p = p, .c = c};
    const char *why = tw_attention_plan_of(p, c, t, &g.plan);
    if (why) {
        tw_fail(diag, TW_ERR_USAGE, "the configuration is not legal: %s", why);
        return NULL;
    }
    tw_kernel *k = tw_kernel_new("attention", t->sm, g.plan.threads);
    if (!k) {
        tw_fail_memory(diag);
        return NULL;
    }
    k->max_registers = g.plan.registers;
    tw_builder b = tw_builder_of(k);
    g.b = &b;
    build(&g);
    const tw_status st = tw_kernel_failed(k) ? tw_fail_memory(diag) : tw_pipeline_default(k, verify, diag);
    if (st == TW_OK) return k;
    tw_kernel_free(k);
    return NULL;
}

tw_status tw_attention_ptx(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t, tw_buf *ptx,
                           tw_diag *diag) {
    tw_diag own;
    if (!diag) diag = &own;
    tw_kernel *k = tw_attention_make(p, c, t, false, diag);
    const tw_status st = k ? tw_ptx_print(ptx, k, t, diag) : diag->status;
    tw_kernel_free(k);
    return st;
}

/* -- its launch */

/* Queries, in sets of heads. The rows of sequences follow one another if only the device knows them. */
static tw_tile_matrices queries_of(const tw_attention_problem *p, uint64_t address) {
    return (tw_tile_matrices){.address = address,
                              .extent = p->queries,
                              .k = p->head,
                              .row_bytes = p->ldq * 2,
                              .count = p->heads,
                              .matrix_bytes = p->head * 2,
                              .sets = p->ragged ? 1 : p->batch,
                              .set_bytes = p->queries * p->ldq * 2};
}

/* Queries of several heads, each of which follows that of the head before. */
static tw_tensor_map packed_queries_of(const tw_attention_problem *p, const tw_attention_plan *plan, uint64_t address) {
    const int pack = plan->pack, width = plan->q.width;
    return (tw_tensor_map){.address = address,
                           .element = TW_TENSOR_U16,
                           .dims = 5,
                           .extent = {p->head, pack, p->queries, p->kv_heads, p->ragged ? 1 : p->batch},
                           .stride = {0, p->head * 2, p->ldq * 2, pack * p->head * 2, p->queries * p->ldq * 2},
                           .box = {width, pack, plan->height, 1, 1},
                           .swizzle = width * 2};
}

/* Keys, whose heads lie along k, or values, whose rows do. A ragged sequence's end is known to the device alone, so
   that rows behind it are fetched, too. */
static tw_tile_matrices keys_of(const tw_attention_problem *p, bool values, uint64_t address) {
    tw_tile_matrices m = {.address = address, .row_bytes = p->ldk * 2, .count = p->kv_heads};
    const int64_t rows = p->page ? p->page : p->keys;
    m.extent = values ? p->head : rows;
    m.k = values ? rows : p->head;
    m.matrix_bytes = (p->capacity ? p->capacity * p->ldk : p->head) * 2;
    m.sets = p->page ? p->pool : p->ragged && !p->capacity ? 1 : p->batch;
    m.set_bytes = (p->capacity ? p->kv_heads * p->capacity * p->ldk : rows * p->ldk) * 2;
    return m;
}

void tw_attention_launch_of(const tw_attention_problem *p, const tw_attention_config *c, const uint64_t *at,
                            tw_launch_values *l) {
    tw_attention_plan plan;
    *l = (tw_launch_values){.grid = {1, 1, 1}, .early = c->early};
    if (tw_attention_plan_of(p, c, NULL, &plan)) return;
    l->grid[0] = (int)plan.grid;
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++)
        tw_argument_buffer(&l->arguments, tw_attention_array_of(p, (tw_attention_buffer)i).name, at[i]);
    if (c->mma == TW_ATTENTION_BY_WARPS) return;
    const int boxes = c->columns / plan.lines;
    const tw_tile_matrices q = queries_of(p, at[TW_ATTENTION_Q]), k = keys_of(p, false, at[TW_ATTENTION_K]),
                           v = keys_of(p, true, at[TW_ATTENTION_V]);
    const tw_tensor_map map_q = plan.pack > 1 ? packed_queries_of(p, &plan, at[TW_ATTENTION_Q])
                                              : tw_tile_map(&plan.q, &q, 1),
                        map_k = tw_tile_map(&plan.k, &k, boxes), map_v = tw_tile_map(&plan.v, &v, boxes),
                        map_o = tw_attention_out_map(p, &plan, at[TW_ATTENTION_OUT]);
    tw_argument_map(&l->arguments, "map_q", "q", &map_q);
    tw_argument_map(&l->arguments, "map_k", "k", &map_k);
    tw_argument_map(&l->arguments, "map_v", "v", &map_v);
    tw_argument_map(&l->arguments, "map_o", "out", &map_o);
}

void tw_attention_describe_buffers(const tw_attention_problem *p, const tw_attention_config *c,
                                   tw_gpu_buffer out[TW_ATTENTION_BUFFERS]) {
    tw_attention_plan plan = {0};
    tw_attention_plan_of(p, c, NULL, &plan);
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++) {
        const tw_attention_array a = tw_attention_array_of(p, (tw_attention_buffer)i);
        out[i] = (tw_gpu_buffer){
            .name = a.name,
            .bytes = (size_t)a.elements * (size_t)tw_type_bits(a.type) / 8,
            .align = i <= TW_ATTENTION_OUT || i == TW_ATTENTION_MASK || i == TW_ATTENTION_WORKSPACE ? 16 : 4,
            .written = i == TW_ATTENTION_OUT || i == TW_ATTENTION_LSE || i >= TW_ATTENTION_WORKSPACE,
            .zeroed = i == TW_ATTENTION_COUNTERS};
    }
    out[TW_ATTENTION_WORKSPACE].bytes = (size_t)plan.workspace;
    out[TW_ATTENTION_COUNTERS].bytes = (size_t)plan.counters;
}

tw_status tw_attention_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target,
                                  tw_diag *diag) {
    tw_attention_problem p;
    tw_status st = tw_attention_parse(&p, words, diag);
    if (st != TW_OK) return st;
    tw_attention_config said = {0};
    st = tw_attention_config_parse(&p, &said, configuration, diag);
    if (st != TW_OK) return st;
    tw_attention_config c = tw_attention_config_default(&p, target, said.mma);
    tw_attention_config_parse(&p, &c, configuration, NULL);
    out->kernel = tw_attention_make(&p, &c, target, false, diag);
    if (!out->kernel) return diag->status;
    const uint64_t nowhere[TW_ATTENTION_BUFFERS] = {0};
    tw_attention_launch_of(&p, &c, nowhere, &out->launch);
    tw_gpu_buffer buffers[TW_ATTENTION_BUFFERS];
    tw_attention_describe_buffers(&p, &c, buffers);
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++)
        if (buffers[i].bytes) out->buffers[out->n_buffers++] = buffers[i];
    tw_attention_print(&p, out->problem, sizeof out->problem);
    tw_attention_config_print(&c, out->configuration, sizeof out->configuration);
    return TW_OK;
}
