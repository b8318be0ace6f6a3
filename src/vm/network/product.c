/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a program as the kernels' problems. */
#include "base/diag.h"
#include "vm/network/machine.h"

#include <string.h>

static tw_type type_of(tw_element t) {
    return t == TW_E_f16 ? TW_T_f16 : t == TW_E_bf16 ? TW_T_bf16 : TW_T_f32;
}

/* A batch without dimensions of one product each, and without those that are one with the dimension before. */
typedef struct batch {
    int n;
    int64_t count[TW_PROGRAM_BATCH], a[TW_PROGRAM_BATCH], b[TW_PROGRAM_BATCH], c[TW_PROGRAM_BATCH];
} batch;

static batch batch_of(const tw_program_product *p) {
    batch x = {0};
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) {
        const int64_t n = p->batch[i], a = p->stride_a[i], b = p->stride_b[i], c = p->stride_c[i];
        if (n == 1) continue;
        const int last = x.n - 1;
        const bool joined = x.n && x.a[last] == n * a && x.b[last] == n * b && x.c[last] == n * c;
        const int at = joined ? last : x.n++;
        x.count[at] = joined ? x.count[at] * n : n;
        x.a[at] = a;
        x.b[at] = b;
        x.c[at] = c;
    }
    return x;
}

bool tw_network_by_pointers(const tw_program_product *p) {
    return batch_of(p).n > 2;
}

static int64_t shared(int64_t stride) {
    return stride ? stride : TW_GEMM_SHARED;
}

/* Sets the batch: strides of one or two dimensions, and otherwise matrices lie anywhere. */
static void set_batch(const tw_program_product *p, tw_gemm_problem *out) {
    const batch x = batch_of(p);
    const int last = x.n - 1;
    bool one_a = true, one_b = true;
    out->batch = 1;
    for (int i = 0; i < x.n; i++) {
        out->batch *= x.count[i];
        one_a &= x.a[i] == 0;
        one_b &= x.b[i] == 0;
    }
    out->pointers = x.n > 2;
    if (out->pointers) {
        out->stride_a = one_a ? TW_GEMM_SHARED : 0;
        out->stride_b = one_b ? TW_GEMM_SHARED : 0;
    } else if (x.n) {
        out->stride_a = shared(x.a[last]);
        out->stride_b = shared(x.b[last]);
        out->stride_c = x.c[last];
    }
    if (x.n != 2) return;
    out->sets = x.count[0];
    out->set_a = shared(x.a[0]);
    out->set_b = shared(x.b[0]);
    out->set_c = x.c[0];
}

bool tw_cuda_network_joins_norms(const tw_gpu *gpu) {
    return gpu->target->sm == 90; /* Warpgroups do. */
}

int64_t tw_network_parts(const tw_gemm_problem *p, const tw_gemm_config *c) {
    return p->epilogue.squares ? tw_gemm_squares_of(p, c).vectors / (1 + p->epilogue.means) : 0;
}

/* Returns how many sums of a row the step that writes them leaves. 1: it has no launch yet, and any number makes the
   same kernel. */
static int64_t sums_of(const tw_cuda_network *n, const tw_view *sums) {
    for (int i = n->n - 1; i >= 0; i--) {
        const tw_step *s = &n->p->steps[n->launches[i].step];
        if (s->kind == TW_STEP_PRODUCT && s->n_out > 1 && s->out[1].buffer == sums->buffer) return n->launches[i].parts;
    }
    return 1;
}

bool tw_network_takes_sums(const tw_step *s, const tw_step *from) {
    return s->kind == TW_STEP_PRODUCT && s->of.product.norm && from->kind == TW_STEP_PRODUCT && from->n_out > 1 &&
           from->out[1].buffer == s->in[TW_PROGRAM_SUMS_IN].buffer;
}

tw_status tw_network_problem(const tw_cuda_network *n, const tw_step *s, tw_gemm_problem *out, tw_diag *diag) {
    const tw_program_product *p = &s->of.product;
    *out = (tw_gemm_problem){
        .type = p->type == TW_E_f16    ? TW_GEMM_F16
                : p->type == TW_E_bf16 ? TW_GEMM_BF16
                                       : TW_GEMM_TF32X3,
        .out = type_of(p->out),
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .trans_a = p->trans_a,
        .trans_b = p->trans_b,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->ldc,
        .alpha = p->alpha,
        .weights = n->p->buffers[s->in[1].buffer].kind == TW_PROGRAM_CONSTANT,
        .epilogue = {.bias = s->in[2].buffer >= 0,
                     .activation = p->activation,
                     .gated = p->gated,
                     .mul = s->in[3].buffer >= 0,
                     .residual = s->in[4].buffer >= 0,
                     .squares = s->n_out > 1,
                     .means = s->n_out > 1 && p->moments},
    };
    if (p->norm) {
        out->sums = sums_of(n, &s->in[TW_PROGRAM_SUMS_IN]);
        out->eps = p->eps;
        out->centred = p->norm == TW_PROGRAM_NORM_LAYER;
        out->norm_residual = p->norm_residual;
    }
    set_batch(p, out);
    return tw_gemm_problem_complete(out, diag);
}

const tw_map_problem *tw_network_epilogue(tw_cuda_network *n, const tw_gemm_problem *p) {
    static const tw_cell_op activations[TW_GEMM_ACTIVATIONS] = {
        [TW_GEMM_GELU] = TW_CELL_gelu, [TW_GEMM_SILU] = TW_CELL_silu, [TW_GEMM_GELU_ERF] = TW_CELL_gelu_erf};
    static const tw_cell_op ops[] = {TW_CELL_add, TW_CELL_mul, TW_CELL_add};
    const bool has[] = {p->epilogue.bias, p->epilogue.mul, p->epilogue.residual};
    tw_map_problem *map = tw_arena_alloc(&n->arena, sizeof *map);
    if (!map) return NULL;
    const tw_memory_type type = p->out == TW_T_f16 ? TW_M_f16 : p->out == TW_T_bf16 ? TW_M_bf16 : TW_M_f32;
    const tw_point_operand c = {.type = type, .strides = {p->stride_c, p->ldc, 1}},
                           row = {.type = type, .strides = {0, 0, 1}};
    map->x.rank = 3;
    memcpy(map->x.dims, (const int64_t[]){p->batch, p->m, p->n}, 3 * sizeof(int64_t));
    map->out = map->x.operands[map->x.n_operands++] = c;
    int value = tw_cells_operand(&map->x.cells, 0, type);
    for (int i = 0; i < 3; i++) {
        if (i == 1 && p->epilogue.activation)
            value = tw_cells_apply(&map->x.cells, activations[p->epilogue.activation], value, -1, -1);
        if (!has[i]) continue;
        const int term = tw_cells_operand(&map->x.cells, map->x.n_operands, type);
        value = tw_cells_apply(&map->x.cells, ops[i], value, term, -1);
        map->x.operands[map->x.n_operands++] = i ? c : row;
    }
    map->x.cells.value = value;
    map->early = !n->options.late;
    return map->x.cells.n > 1 ? map : NULL;
}
