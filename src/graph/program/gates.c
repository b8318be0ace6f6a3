/* SPDX-License-Identifier: Apache-2.0 */
/* Gates and values: activation(A G) * (A V) as one product. */
#include "graph/program/norms.h"
#include "graph/program/product.h"

#include <stdlib.h>

enum { TOGETHER = 8 /* Columns of gates, and of values, that follow one another. */ };

bool tw_product_is_gate(const tw_lowering *l, const tw_product_node *g, int out, const tw_product_node *v, int to) {
    const tw_value *x = tw_lower_of(l, g->b), *y = tw_lower_of(l, v->b), *c = tw_lower_of(l, out);
    tw_gemm_activation activation;
    const int64_t n = x->rank == 2 ? x->dims[!g->trans_b] : 0;
    if (!l->options.gpu || l->options.apart || l->uses[out] != 1 || v->mul != out || g->a != v->a) return false;
    if (l->targets[to].buffer >= 0) return false;
    if (g->bias >= 0 || g->mul >= 0 || g->residual >= 0 || v->bias >= 0 || v->residual >= 0) return false;
    if (g->alpha != 1 || v->alpha != 1 || g->trans_a || v->trans_a || g->trans_b != v->trans_b) return false;
    if (!tw_gemm_activation_from_name(g->activation, &activation) || strcmp(v->activation, "none") != 0) return false;
    if ((c->type != TW_E_f16 && c->type != TW_E_bf16) || x->type != c->type || y->type != c->type) return false;
    return x->content && y->content && y->rank == 2 && n && n % TOGETHER == 0 && x->dims[0] == y->dims[0] &&
           x->dims[1] == y->dims[1];
}

bool tw_product_find_gate(const tw_lowering *l, const tw_product_node *v, int to, tw_product_node *gate) {
    const int producer = v->mul < 0 ? -1 : tw_lower_of(l, v->mul)->producer;
    return producer >= 0 && tw_product_read(&l->g->nodes[producer], gate) && tw_product_is_gate(l, gate, v->mul, v, to);
}

/* Packs gates and values together. Either is [k][n], or if transposed [n][k]. NULL: out of memory. */
static void *pack_gates(const tw_array *gates, const tw_array *values, bool trans) {
    const int64_t size = tw_element_bits(gates->type) / 8, rows = gates->dims[0], columns = gates->dims[1];
    const int64_t piece = (trans ? TOGETHER * columns : TOGETHER) * size, bytes = rows * columns * size;
    char *packed = malloc((size_t)(2 * bytes) + 1);
    for (int64_t at = 0; at < bytes && packed; at += piece) {
        memcpy(packed + 2 * at, (const char *)gates->data + at, (size_t)piece);
        memcpy(packed + 2 * at + piece, (const char *)values->data + at, (size_t)piece);
    }
    return packed;
}

/* Packs gates and values into one constant matrix, once for a model. Its rows are multiplied by the gains of the norm,
   if one is given. NULL: an element times its gain has no good number of the type, or there is no memory. */
static const void *packed(tw_lowering *l, const tw_array *gates, const tw_array *values, bool trans,
                          const tw_norm *norm) {
    const int64_t words[] = {(intptr_t)gates->data, (intptr_t)values->data, gates->type,
                             gates->dims[0],        gates->dims[1],         trans};
    tw_made m = {.key = {.kind = TW_MADE_GATES}};
    tw_made_words(&m.key, words, 6);
    if (norm) tw_norm_words(l, norm, false, &m.key);
    if (tw_made_find(l->made, &m)) return m.data;
    m.data = pack_gates(gates, values, trans);
    l->failed |= !m.data;
    if (norm && m.data && !tw_norm_scale(l, norm, m.data, m.data, 2 * gates->dims[!trans], trans, NULL))
        tw_made_drop(&m);
    return tw_lower_keep(l, &m) ? m.data : NULL;
}

/* The packed matrix as an operand, [k][2n]. Where A's norm is given, the matrix has its gains and the epilogue its
   norm, unless that cannot be. */
static tw_view operand_of(tw_lowering *l, const tw_product_node *gate, const tw_product_node *value,
                          const tw_norm *norm, tw_lower_epilogue *e) {
    const tw_array *gates = tw_lower_of(l, gate->b)->content, *values = tw_lower_of(l, value->b)->content;
    const bool trans = value->trans_b;
    const int64_t dims[] = {trans ? 2 * gates->dims[0] : gates->dims[0], trans ? gates->dims[1] : 2 * gates->dims[1]};
    tw_view v = tw_view_dense(-1, gates->type, 2, dims);
    const void *content = norm ? packed(l, gates, values, trans, norm) : NULL;
    if (content) tw_norm_enter(norm, e);
    if (!content && !l->failed) content = packed(l, gates, values, trans, NULL);
    v.buffer = tw_lower_made(l, "gates", content, 2 * tw_array_bytes(gates));
    if (trans) tw_product_swap(&v);
    return v;
}

bool tw_lower_gated(tw_lowering *l, const tw_product_node *gate, const tw_product_node *value, int out) {
    tw_lower_epilogue e = tw_lower_no_epilogue();
    const tw_norm *norm = tw_norm_of(l, value->a);
    const tw_view to = tw_lower_target(l, out);
    tw_view a;
    /* A beta would be a bias of gates and another of values. */
    if (norm && (norm->beta >= 0 || !tw_view_is_dense(&to))) norm = NULL;
    tw_view b = operand_of(l, gate, value, norm, &e);
    if (e.norm == TW_PROGRAM_NORM_NONE) norm = NULL;
    if (norm) a = tw_norm_x(l, norm);
    if (l->failed || (!norm && !tw_lower_in_memory(l, value->a, &a)) || a.rank < 2) return false;
    e.gated = true;
    tw_gemm_activation_from_name(gate->activation, &e.activation);
    tw_product_spread(&b, &to);
    if (!tw_lower_multiply(l, &a, &b, &e, &to)) return false;
    if (norm) tw_norm_attach(l, norm);
    tw_lower_set_view(l, out, &to);
    return !l->failed;
}
