/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a program as the kernels' problems. */
#include "base/diag.h"
#include "vm/network/machine.h"

#include <string.h>

static tw_type type_of(tw_element t) {
    return t == TW_E_f16 ? TW_T_f16 : t == TW_E_bf16 ? TW_T_bf16 : TW_T_f32;
}

/* Sets the batch: one stride if there is one, and otherwise matrices lie anywhere. */
static void set_batch(const tw_program_product *p, tw_gemm_problem *out) {
    int dimension = -1, more = 0;
    bool shared_a = true, shared_b = true;
    out->batch = 1;
    for (int i = 0; i < TW_PROGRAM_BATCH; i++) {
        if (p->batch[i] == 1) continue;
        out->batch *= p->batch[i];
        dimension = i;
        more++;
        shared_a &= p->stride_a[i] == 0;
        shared_b &= p->stride_b[i] == 0;
    }
    if (!more) return;
    out->pointers = more > 1;
    out->stride_a = shared_a ? TW_GEMM_SHARED : more > 1 ? 0 : p->stride_a[dimension];
    out->stride_b = shared_b ? TW_GEMM_SHARED : more > 1 ? 0 : p->stride_b[dimension];
    out->stride_c = more > 1 ? 0 : p->stride_c[dimension];
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
                     .residual = s->in[4].buffer >= 0},
    };
    set_batch(p, out);
    return tw_gemm_problem_complete(out, diag);
}

const tw_map_problem *tw_network_epilogue(tw_cuda_network *n, const tw_step *s, const tw_gemm_problem *p) {
    static const tw_cell_op activations[TW_GEMM_ACTIVATIONS] = {
        [TW_GEMM_GELU] = TW_CELL_gelu, [TW_GEMM_SILU] = TW_CELL_silu, [TW_GEMM_GELU_ERF] = TW_CELL_gelu_erf};
    static const tw_cell_op ops[] = {TW_CELL_add, TW_CELL_mul, TW_CELL_add};
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
        if (s->in[2 + i].buffer < 0) continue;
        const int term = tw_cells_operand(&map->x.cells, map->x.n_operands, type);
        value = tw_cells_apply(&map->x.cells, ops[i], value, term, -1);
        map->x.operands[map->x.n_operands++] = i ? c : row;
    }
    map->x.cells.value = value;
    map->early = !n->options.late;
    return map->x.cells.n > 1 ? map : NULL;
}
