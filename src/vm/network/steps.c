/* SPDX-License-Identifier: Apache-2.0 */
/* From steps to launches. */
#include "base/diag.h"
#include "base/grow.h"
#include "tune/gemm_vendor.h"
#include "vm/network/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels, which equal steps share */

static tw_network_kernel *find(const tw_cuda_network *n, const char *words, const char *configuration) {
    tw_network_kernel *k = n->kernels;
    while (k && (!k->words || strcmp(k->words, words) != 0 || strcmp(k->configuration, configuration) != 0))
        k = k->next;
    return k;
}

static tw_status open_words(tw_cuda_network *n, const char *words, const char *configuration,
                            const tw_network_kernel **out, tw_diag *diag) {
    *out = find(n, words, configuration);
    if (*out) return TW_OK;
    tw_network_kernel *k = tw_arena_alloc(&n->arena, sizeof *k);
    const char *kept[] = {tw_arena_strdup(&n->arena, words), tw_arena_strdup(&n->arena, configuration)};
    if (n->arena.failed) return tw_fail_memory(diag);
    const tw_status st = tw_gpu_kernel_open(&k->kernel, n->gpu, words, configuration, diag);
    if (st != TW_OK) return st;
    k->words = kept[0];
    k->configuration = kept[1];
    k->next = n->kernels;
    *out = n->kernels = k;
    return TW_OK;
}

static tw_status open_made(tw_cuda_network *n, tw_kernel_maker *make, const void *problem, size_t bytes,
                           const tw_network_kernel **out, tw_diag *diag) {
    for (const tw_network_kernel *k = n->kernels; k; k = k->next)
        if (k->problem && k->problem_bytes == bytes && !memcmp(k->problem, problem, bytes)) {
            *out = k;
            return TW_OK;
        }
    tw_network_kernel *k = tw_arena_alloc(&n->arena, sizeof *k);
    if (!k) return tw_fail_memory(diag);
    const tw_status st = tw_kernel_open_made(&k->kernel, n->gpu, make, problem, diag);
    if (st != TW_OK) return st;
    k->problem = problem;
    k->problem_bytes = bytes;
    k->next = n->kernels;
    *out = n->kernels = k;
    return TW_OK;
}

static bool is_used(const tw_cuda_network *n, const tw_network_kernel *k) {
    for (int i = 0; i < n->n; i++)
        if (n->launches[i].kernel == k) return true;
    return false;
}

void tw_network_close_unused(tw_cuda_network *n) {
    tw_network_kernel **at = &n->kernels;
    while (*at) {
        tw_network_kernel *k = *at;
        if (is_used(n, k)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        tw_gpu_kernel_close(k->kernel);
    }
}

/* ---- launches */

static tw_status add_launch(tw_cuda_network *n, const tw_network_launch *l, tw_diag *diag) {
    tw_network_launch *grown = tw_grow(n->launches, n->n, &n->room, 64, sizeof *grown);
    if (!grown) return tw_fail_memory(diag);
    n->launches = grown;
    n->launches[n->n] = *l;
    const tw_status st = l->kernel ? tw_gpu_launch_open(&n->launches[n->n].launch, l->kernel->kernel, diag) : TW_OK;
    n->n += st == TW_OK;
    return st;
}

/* Adds a product by the vendor, and a map of what it does not compute. */
static tw_status add_vendor(tw_cuda_network *n, int step, const tw_gemm_problem *p, const tw_network_chosen *chosen,
                            tw_diag *diag) {
    const tw_map_problem *map = tw_network_epilogue(n, p);
    tw_network_launch l = {.step = step, .choice = chosen->entry}, epilogue = l;
    epilogue.epilogue = true;
    const tw_gemm_problem plain = tw_network_plain(p);
    if (n->arena.failed) return tw_fail_memory(diag);
    tw_status st = tw_gemm_vendor_plan(tw_network_library(n), &plain, &l.vendor.plan, diag);
    if (st == TW_OK && !l.vendor.plan) st = tw_fail(diag, TW_ERR_UNSUPPORTED, "cuBLASLt does not compute it");
    if (st == TW_OK && !chosen->first)
        st = tw_cublaslt_plan_add(l.vendor.plan, &chosen->algorithm, &l.vendor.algorithm, diag);
    if (st == TW_OK) st = add_launch(n, &l, diag);
    if (st != TW_OK) {
        tw_cublaslt_plan_free(l.vendor.plan);
        return st;
    }
    if (map) st = open_made(n, tw_map_plan, map, sizeof *map, &epilogue.kernel, diag);
    return st == TW_OK && map ? add_launch(n, &epilogue, diag) : st;
}

static tw_status product_way(tw_cuda_network *n, const tw_step *s, tw_network_way *out, tw_diag *diag) {
    char problem[TW_PLAN_TEXT - 8];
    tw_status st = tw_network_problem(n, s, &out->product, diag);
    tw_gemm_problem searched;
    if (st == TW_OK) st = tw_network_searched(n, s, &searched, diag);
    if (st == TW_OK) st = tw_network_choose(n, &out->product, &searched, &out->chosen, diag);
    if (st != TW_OK) return st;
    tw_gemm_problem_print(&out->product, problem, sizeof problem);
    snprintf(out->words, sizeof out->words, "gemm %s", problem);
    tw_gemm_config_print(&out->chosen.config, out->configuration, sizeof out->configuration);
    return TW_OK;
}

static void describe_mask(const tw_view *mask, tw_attention_problem *out) {
    out->mask = mask->type == TW_E_f16    ? TW_T_f16
                : mask->type == TW_E_bf16 ? TW_T_bf16
                : mask->type == TW_E_bool ? TW_T_i8
                                          : TW_T_f32;
    out->mask_batch = mask->strides[0] ? out->batch : 1;
    out->mask_heads = mask->strides[1] ? out->heads : 1;
    out->ldm = mask->strides[2];
}

/* Describes attention as its kernel knows it. Operands lie as lowering made them lie. */
tw_status tw_network_attention(const tw_step *s, tw_attention_problem *out, tw_diag *diag) {
    const tw_program_attention *a = &s->of.attention;
    const tw_view *mask = &s->in[3];
    *out = (tw_attention_problem){.type = a->type == TW_E_f16 ? TW_T_f16 : TW_T_bf16,
                                  .heads = a->heads,
                                  .kv_heads = a->kv_heads,
                                  .head = a->head,
                                  .queries = a->queries,
                                  .keys = a->keys,
                                  .batch = a->batch,
                                  .capacity = a->capacity,
                                  .ldq = s->in[0].strides[2],
                                  .ldk = s->in[1].strides[2],
                                  .ldo = s->out[0].strides[2],
                                  .scale = a->scale,
                                  .cap = a->cap,
                                  .causal = a->causal};
    if (mask->buffer >= 0) describe_mask(mask, out);
    return tw_attention_complete(out, diag);
}

static tw_status attention_way(tw_cuda_network *n, const tw_step *s, tw_network_way *out, tw_diag *diag) {
    tw_attention_problem p;
    tw_network_attending chosen;
    char problem[TW_PLAN_TEXT - 16];
    tw_status st = tw_network_attention(s, &p, diag);
    if (st == TW_OK) st = tw_network_choose_attention(n, &p, &chosen, diag);
    if (st != TW_OK) return st;
    out->chosen = (tw_network_chosen){.entry = chosen.entry};
    out->cudnn = chosen.cudnn;
    tw_attention_print(&p, problem, sizeof problem);
    snprintf(out->words, sizeof out->words, "attention %s", problem);
    tw_attention_config_print(&chosen.config, out->configuration, sizeof out->configuration);
    return TW_OK;
}

tw_status tw_network_way_of(tw_cuda_network *n, int step, tw_network_way *out, tw_diag *diag) {
    const tw_step *s = &n->p->steps[step];
    out->cudnn = NULL;
    return s->kind == TW_STEP_PRODUCT ? product_way(n, s, out, diag) : attention_way(n, s, out, diag);
}

/* Adds a product or attention. */
static tw_status add_chosen(tw_cuda_network *n, int step, tw_diag *diag) {
    tw_network_way way;
    tw_network_launch l = {.step = step};
    tw_status st = tw_network_way_of(n, step, &way, diag);
    if (st != TW_OK) return st;
    if (way.chosen.vendor) return add_vendor(n, step, &way.product, &way.chosen, diag);
    l.choice = way.chosen.entry;
    l.cudnn = way.cudnn;
    if (n->p->steps[step].kind == TW_STEP_PRODUCT) l.parts = tw_network_parts(&way.product, &way.chosen.config);
    if (!l.cudnn) st = open_words(n, way.words, way.configuration, &l.kernel, diag);
    return st == TW_OK ? add_launch(n, &l, diag) : st;
}

static tw_status add_map(tw_cuda_network *n, int step, tw_diag *diag) {
    tw_map_problem *p = tw_arena_alloc(&n->arena, sizeof *p);
    tw_network_launch l = {.step = step};
    if (!p) return tw_fail_memory(diag);
    memcpy(p, n->p->steps[step].of.map, sizeof *p);
    p->early = !n->options.late;
    const tw_status st = open_made(n, tw_map_plan, p, sizeof *p, &l.kernel, diag);
    return st == TW_OK ? add_launch(n, &l, diag) : st;
}

static tw_status add_rows(tw_cuda_network *n, int step, tw_diag *diag) {
    tw_rows_problem *p = tw_arena_alloc(&n->arena, sizeof *p);
    tw_network_launch l = {.step = step};
    if (!p) return tw_fail_memory(diag);
    memcpy(p, n->p->steps[step].of.rows, sizeof *p);
    p->early = !n->options.late;
    const tw_status st = open_made(n, tw_rows_plan, p, sizeof *p, &l.kernel, diag);
    return st == TW_OK ? add_launch(n, &l, diag) : st;
}

tw_status tw_network_add_step(tw_cuda_network *n, int step, tw_diag *diag) {
    const tw_step *s = &n->p->steps[step];
    tw_diag own;
    char what[512];
    tw_status st = TW_ERR_UNSUPPORTED;
    if (!diag) diag = &own;
    switch (s->kind) {
    case TW_STEP_PRODUCT:
    case TW_STEP_ATTENTION:
        st = add_chosen(n, step, diag);
        break;
    case TW_STEP_MAP:
        st = add_map(n, step, diag);
        break;
    case TW_STEP_ROWS:
        st = add_rows(n, step, diag);
        break;
    case TW_STEP_PLAIN:
        return tw_fail(diag, st, "no kernel computes %s", s->of.node->op);
    }
    if (st != TW_ERR_UNSUPPORTED && st != TW_ERR_USAGE) return st;
    const tw_diag found = *diag;
    tw_step_describe(n->p, s, what, sizeof what);
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "step %d, %s: %.2000s", step, what, found.message);
}

/* ---- buffers */

static bool is_own(const tw_gpu_buffer *b) {
    return !strcmp(b->name, "workspace") || !strcmp(b->name, "counters");
}

tw_status tw_network_alloc_workspace(tw_cuda_network *n, tw_diag *diag) {
    int64_t bytes[2] = {0};
    for (const tw_network_kernel *k = n->kernels; k; k = k->next)
        for (int i = 0; i < tw_gpu_kernel_buffers(k->kernel); i++) {
            const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k->kernel, i);
            if (is_own(b) && (int64_t)b->bytes > bytes[b->zeroed]) bytes[b->zeroed] = (int64_t)b->bytes;
        }
    /* A launch uses it when the one before is over, and leaves zeros where it found them. So launches share it, but a
       launch may have two: counters follow the rest. */
    const int64_t zeroed = (bytes[1] + 255) / 256 * 256;
    tw_network_own *own = &n->own;
    tw_status st = TW_OK;
    if (!own->workspace || bytes[0] > own->workspace_bytes) {
        st = tw_network_alloc(n, "workspace", bytes[0], &own->workspace, diag);
        own->workspace_bytes = bytes[0];
    }
    if (st == TW_OK && (!own->zeroed || zeroed > own->zeroed_bytes)) {
        st = tw_network_alloc(n, "zeroed workspace", 2 * zeroed, &own->zeroed, diag);
        own->zeroed_bytes = zeroed;
    }
    return st;
}

/* Makes the table of a batch's matrices. */
static tw_status make_table(tw_cuda_network *n, const tw_step *s, const tw_view *v, const int64_t *strides,
                            uint64_t *out, tw_diag *diag) {
    const tw_program_product *p = &s->of.product;
    const int64_t size = tw_element_bits(v->type) / 8, *batch = p->batch;
    bool shared = true;
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) shared &= strides[i] == 0;
    const int64_t count = shared ? 1 : batch[0] * batch[1] * batch[2];
    uint64_t *table = malloc((size_t)count * sizeof *table);
    if (!table) return tw_fail_memory(diag);
    for (int64_t b = 0; b < count; b++) {
        const int64_t at =
            b / batch[2] / batch[1] * strides[0] + b / batch[2] % batch[1] * strides[1] + b % batch[2] * strides[2];
        table[b] = tw_network_address(n, v) + (uint64_t)(at * size);
    }
    tw_status st = tw_network_alloc(n, "addresses", count * TW_GEMM_POINTER, out, diag);
    if (st == TW_OK) st = tw_gpu_upload(n->gpu, *out, table, (size_t)count * sizeof *table, diag);
    free(table);
    return st;
}

/* The address of a product's buffer. */
static tw_status product_buffer(tw_cuda_network *n, const tw_step *s, const char *name, uint64_t *out, tw_diag *diag) {
    enum { OPERANDS = 7 };
    static const char *const names[OPERANDS] = {"a", "b", "bias", "mul", "residual", "sums", "residual_gains"};
    const tw_program_product *p = &s->of.product;
    const int64_t *const strides[OPERANDS + 1] = {p->stride_a, p->stride_b, [OPERANDS] = p->stride_c};
    int i = 0;
    while (i < OPERANDS && strcmp(names[i], name) != 0) i++;
    const tw_view *v = i < OPERANDS ? &s->in[i] : &s->out[!strcmp(name, "squares")];
    *out = tw_network_address(n, v);
    return tw_network_by_pointers(p) && strides[i] ? make_table(n, s, v, strides[i], out, diag) : TW_OK;
}

static uint64_t attention_buffer(const tw_cuda_network *n, const tw_step *s, const char *name) {
    static const char *const names[] = {"q", "k", "v", "mask"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], name)) return tw_network_address(n, &s->in[i]);
    return tw_network_address(n, &s->out[0]);
}

/* The address of a buffer of the map that computes the epilogue of a product by the vendor. */
static uint64_t epilogue_buffer(const tw_cuda_network *n, const tw_step *s, const char *name) {
    int at = *name == 'x' ? atoi(name + 1) : 0;
    for (int i = 2; i < 5 && at; i++)
        if (s->in[i].buffer >= 0 && !--at) return tw_network_address(n, &s->in[i]);
    return tw_network_address(n, &s->out[0]);
}

static uint64_t points_buffer(const tw_cuda_network *n, const tw_step *s, const char *name) {
    const bool rows = s->kind == TW_STEP_ROWS;
    const int operands = (rows ? &s->of.rows->x : &s->of.map->x)->n_operands;
    if (*name == 'x') return tw_network_address(n, &s->in[atoi(name + 1)]);
    if (!strcmp(name, "gain")) return tw_network_address(n, &s->in[operands]);
    if (!strcmp(name, "bias")) return tw_network_address(n, &s->in[operands + s->of.rows->has_gain]);
    return tw_network_address(n, &s->out[!strcmp(name, "kept")]);
}

/* The address of a kernel's workspace or counters. */
static uint64_t own_buffer(const tw_network_own *own, const tw_gpu_buffer *b) {
    return !b->zeroed ? own->workspace : own->zeroed + (*b->name == 'c' ? (uint64_t)own->zeroed_bytes : 0);
}

static tw_status fill_zeros(const tw_cuda_network *n, uint64_t at, size_t bytes, tw_diag *diag) {
    if (n->gpu->cuda) return tw_cuda_fill(n->gpu->cuda, at, 0, (bytes + 3) / 4, diag);
    void *zeros = calloc(1, bytes);
    const tw_status st = zeros ? tw_gpu_upload(n->gpu, at, zeros, bytes, diag) : tw_fail_memory(diag);
    free(zeros);
    return st;
}

tw_status tw_network_clear(const tw_cuda_network *n, const tw_network_launch *l, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < tw_gpu_kernel_buffers(l->kernel->kernel) && st == TW_OK; i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(l->kernel->kernel, i);
        if (is_own(b) && b->zeroed) st = fill_zeros(n, own_buffer(&l->own, b), b->bytes, diag);
    }
    return st;
}

static tw_status bind(tw_cuda_network *n, tw_network_launch *l, const tw_gpu_buffer *b, tw_diag *diag) {
    const tw_step *s = &n->p->steps[l->step];
    uint64_t at = 0;
    tw_status st = TW_OK;
    if (is_own(b))
        at = own_buffer(&l->own, b);
    else if (l->epilogue)
        at = epilogue_buffer(n, s, b->name);
    else if (s->kind == TW_STEP_PRODUCT)
        st = product_buffer(n, s, b->name, &at, diag);
    else
        at = s->kind == TW_STEP_ATTENTION ? attention_buffer(n, s, b->name) : points_buffer(n, s, b->name);
    return st == TW_OK ? tw_gpu_launch_bind(l->launch, b->name, at, diag) : st;
}

tw_status tw_network_bind(tw_cuda_network *n, tw_network_launch *l, tw_diag *diag) {
    tw_status st = TW_OK;
    l->own = n->own;
    for (int b = 0; l->kernel && b < tw_gpu_kernel_buffers(l->kernel->kernel) && st == TW_OK; b++)
        st = bind(n, l, tw_gpu_kernel_buffer(l->kernel->kernel, b), diag);
    return st;
}
