/* SPDX-License-Identifier: Apache-2.0 */
/* From the instructions of a schedule to launches. */
#include "base/diag.h"
#include "base/divide.h"
#include "vm/prefill/builder.h"
#include "vm/prefill/qkv.h"
#include "vm/routing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- norms

   A norm divides a row by the root of its mean of squares, and multiplies it by weights. What writes x may do the
   latter, and leave the sums of squares in parts. A product of the rows then divides its sums. Both are parts of the
   instructions that the schedule has: no other instruction is between them. */

/* Returns the weight of a norm that the instruction behind `in` begins with, if products can do it. -1: they cannot. Of
   f16, rows that are not divided yet might not be within its range. */
static int next_norm(const tw_prefill_builder *o, const tw_instr *in) {
    const tw_prefill *p = o->p;
    const tw_worker *w = &p->s->workers[0];
    const bool last = in + 1 == w->list + w->count;
    if (last || p->options.apart || p->vm->m->norm != TW_NORM_RMS || p->type != TW_T_bf16) return -1;
    if (in[1].op == TW_INSTR_QKV && in[1].operand[TW_QKV_NORM_BIAS] < 0) return in[1].operand[TW_QKV_NORM];
    if (in[1].op == TW_INSTR_FFN && in[1].operand[TW_FFN_NORM_BIAS] < 0) return in[1].operand[TW_FFN_NORM];
    return -1;
}

/* ---- instructions */

static tw_status add_embed(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const int norm = next_norm(o, in);
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, p->vm->m->dim, &shape);
    shape.fused = norm >= 0;
    *o->x = (tw_prefill_stream){.sums = norm >= 0};
    const tw_prefill_binding to[] = {{"step", p->memory.step},
                                     {"table", tw_prefill_shared(p, in->operand[TW_EMBED_TABLE])},
                                     {"x", p->memory.x},
                                     {"positions", tw_prefill_shared(p, in->operand[TW_EMBED_POSITIONS])},
                                     {"gains", tw_prefill_shared(p, norm)},
                                     {"scaled", p->memory.normed},
                                     {"squares", p->memory.squares},
                                     {"found", p->memory.found},
                                     {NULL, 0}};
    return tw_prefill_add_kind(o, &tw_prefill_embed, &shape, to, diag);
}

static tw_status add_norm(const tw_prefill_builder *o, int weight, int bias, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, p->vm->m->dim, &shape);
    shape.bias = bias >= 0;
    shape.bare = weight < 0;
    shape.parts = o->x->parts;
    const tw_prefill_binding to[] = {{"step", o->memory->step},
                                     {"x", o->memory->x},
                                     {"weight", tw_prefill_shared(p, weight)},
                                     {"y", o->memory->normed},
                                     {"bias", tw_prefill_shared(p, bias)},
                                     {shape.parts ? "parts" : NULL, o->memory->parts},
                                     {NULL, 0}};
    return tw_prefill_add_kind(o, shape.parts ? &tw_prefill_sum_norm : &tw_prefill_norm, &shape, to, diag);
}

/* Adds the norm of x's rows, and a product of them. `norm` and `norm_bias` are the norm's buffers. */
static tw_status add_normed(const tw_prefill_builder *o, const tw_instr *in, int norm, int norm_bias,
                            tw_prefill_product of, tw_diag *diag) {
    const tw_prefill *p = o->p;
    char words[TW_PLAN_TEXT / 4];
    of.a = p->memory.normed;
    of.divides = o->x->sums > 0;
    if (!of.divides) {
        const tw_status st = add_norm(o, norm, norm_bias, diag);
        return st == TW_OK ? tw_prefill_add_product(o, in, &of, diag) : st;
    }
    snprintf(words, sizeof words, "%s sums=%lld eps=%.9g", of.epilogue, (long long)o->x->sums,
             (double)p->vm->m->norm_eps);
    of.epilogue = words;
    return tw_prefill_add_product(o, in, &of, diag);
}

/* Returns the address of the first position's angles of a rope. */
static uint64_t angles_of(const tw_prefill *p, int rope) {
    const tw_instr *input = &p->s->workers[0].list[0];
    const bool local = rope >= 0 && rope == input->operand[TW_INPUT_ROPE_LOCAL];
    return p->vm->angles + (local ? 4 * (uint64_t)p->vm->m->rope.dims : 0);
}

static tw_status add_qkv(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const uint64_t bias = tw_prefill_matrix_of(p, in)->bias;
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, 0, &shape);
    shape.bias = bias != 0;
    const int norm = in->operand[TW_QKV_NORM], norm_bias = in->operand[TW_QKV_NORM_BIAS];
    const int rope = in->operand[TW_QKV_ROPE];
    /* Where norms are apart, the next instruction has them, and is done here. */
    const tw_instr *turn = in->operand[TW_QKV_RAW_K] >= 0 ? in + 1 : NULL;
    const uint64_t q_norm = tw_prefill_shared(p, in->operand[TW_QKV_Q_NORM]),
                   k_norm = tw_prefill_shared(p, in->operand[TW_QKV_K_NORM]);
    const tw_prefill_binding roped[] = {{"step", p->memory.step},
                                        {"angles", angles_of(p, rope)},
                                        {"queries", p->memory.q},
                                        {"keys", tw_prefill_shared(p, in->operand[TW_QKV_K])},
                                        {"values", tw_prefill_shared(p, in->operand[TW_QKV_V])},
                                        {q_norm ? "q_norm" : NULL, q_norm},
                                        {"k_norm", k_norm},
                                        {NULL, 0}};
    tw_prefill_product of = {.c = p->memory.sums, .epilogue = "out=f32"};
    /* Rows of many sequences have positions of their own, which the product does not know. */
    if (!turn && !p->options.apart && !o->list->many && tw_prefill_qkv_covers(&shape)) {
        of.rope = &shape;
        of.roped = roped;
        of.bias = bias;
        if (bias) of.epilogue = "out=f32 bias=1";
        const int before = o->list->n;
        const tw_status st = add_normed(o, in, norm, norm_bias, of, diag);
        if (st != TW_ERR_UNSUPPORTED) return st;
        tw_prefill_drop_launches(o->list, before); /* No tile has whole heads. The norm is added again below. */
        of = (tw_prefill_product){.c = p->memory.sums, .epilogue = "out=f32"};
    }
    tw_status st = add_normed(o, in, norm, norm_bias, of, diag);
    const tw_prefill_binding of_factors[] = {{"step", p->memory.step},
                                             {"y", p->memory.sums},
                                             {"bias", bias},
                                             {"factors", p->memory.head_factors},
                                             {NULL, 0}};
    if (p->vm->m->qk_norm_whole && st == TW_OK)
        st = tw_prefill_add_kind(o, &tw_prefill_factors, &shape, of_factors, diag);
    const tw_prefill_binding to[] = {
        {"step", p->memory.step},
        {"y", p->memory.sums},
        {"bias", bias},
        {"angles", angles_of(p, turn ? turn->operand[TW_TURN_ROPE] : rope)},
        {"q_norm", turn ? tw_prefill_shared(p, turn->operand[TW_TURN_Q_NORM]) : q_norm},
        {"k_norm", turn ? tw_prefill_shared(p, turn->operand[TW_TURN_K_NORM]) : k_norm},
        {"q", p->memory.q},
        {"k", tw_prefill_shared(p, turn ? turn->operand[TW_TURN_K] : in->operand[TW_QKV_K])},
        {"factors", p->memory.head_factors},
        {"v", tw_prefill_shared(p, in->operand[TW_QKV_V])},
        {NULL, 0}};
    return st == TW_OK ? tw_prefill_add_kind(o, &tw_prefill_rope, &shape, to, diag) : st;
}

/* Writes a configuration for few queries of each sequence. Ragged lengths are bounds, from which the kernel's own
   choice cannot know that there is a tile of each sequence. False: its own choice is as good. */
static bool choose_attention(const tw_prefill_builder *o, char *out, size_t size) {
    enum { FEW = 4 /* Rows of a sequence, in the mean. */, BLOCKS = 132, COLUMNS = 128, NARROW = 128 };
    const tw_prefill *p = o->p;
    const tw_model *m = p->vm->m;
    const int64_t rows = o->rows->tokens;
    const int64_t sequences = o->list->many ? p->sequences : 1;
    if (rows > FEW * sequences || m->head_dim > NARROW) return false;
    const int64_t tiles = (rows < sequences ? rows : sequences) * m->n_kv_heads;
    const int64_t blocks = tw_ceil_div(o->list->keys, COLUMNS), wanted = BLOCKS / tiles;
    const int64_t splits = wanted < 1 ? 1 : wanted < blocks ? wanted : blocks;
    snprintf(out, size, "early=1 rows=64 columns=%d pingpong=0 persistent=0 splits=%lld", COLUMNS, (long long)splits);
    return true;
}

/* Opens the attention of tensor cores, which splits keys by how many there may be. Where there is none, *out is NULL.
 */
static tw_status open_attention(const tw_prefill_builder *o, int64_t window, tw_prefill_kernel **out, tw_diag *diag) {
    tw_prefill *p = o->p;
    const tw_model *m = p->vm->m;
    char words[TW_PLAN_TEXT], configuration[TW_PLAN_TEXT];
    tw_status st = TW_ERR_USAGE;
    *out = NULL;
    if (p->type == TW_T_f32 || p->type != tw_prefill_element(p->kv)) return TW_OK;
    snprintf(words, sizeof words,
             "attention type=%s heads=%lld kv_heads=%lld head=%lld queries=%lld keys=%lld capacity=%lld causal=1 "
             "ragged=1 window=%lld batch=%lld scale=%.9g cap=%.9g",
             tw_type_name(p->type), (long long)m->n_heads, (long long)m->n_kv_heads, (long long)m->head_dim,
             (long long)o->rows->tokens, (long long)o->list->keys, (long long)p->s->max_seq, (long long)window,
             (long long)(o->list->many ? p->sequences : p->decode->s->sequences), (double)m->attn_scale,
             (double)m->attn_cap);
    if (choose_attention(o, configuration, sizeof configuration))
        st = tw_prefill_open_words(p, words, configuration, out, diag);
    if (st == TW_ERR_USAGE) st = tw_prefill_open_words(p, words, "early=1", out, diag);
    return st == TW_ERR_USAGE ? TW_OK : st; /* Such heads have no kernel of this kind. */
}

/* Sets rows of a cache that nobody has written to zeros. A device's caches have zeros from the start. The emulator's do
   not, so that it finds who reads them; but attention by tensor cores fetches whole blocks of positions. */
static tw_status define_cache(const tw_prefill *p, int buffer, tw_diag *diag) {
    const tw_buffer *b = &p->s->buffers[buffer];
    const size_t row = (size_t)tw_buffer_row_bytes(b);
    const int64_t rows = (p->sequences > 1 ? p->sequences : p->decode->s->sequences) * b->shape[0] * b->shape[1];
    const uint64_t cache = tw_prefill_shared(p, buffer);
    void *zeros = calloc(1, row);
    tw_status st = zeros ? TW_OK : tw_fail_memory(diag);
    for (int64_t i = 0; p->vm->emu && i < rows && st == TW_OK; i++) {
        const uint64_t at = cache + (uint64_t)i * row;
        if (!tw_emu_written(p->vm->emu, at, row)) st = tw_mega_write(p->vm, at, zeros, row, diag);
    }
    free(zeros);
    return st;
}

static tw_status add_attend(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const bool many = o->list->many;
    tw_prefill_kernel *k;
    tw_status st = open_attention(o, in->param[TW_ATTEND_WINDOW], &k, diag);
    if (st == TW_OK && k) st = define_cache(p, in->operand[TW_ATTEND_K], diag);
    if (st == TW_OK && k) st = define_cache(p, in->operand[TW_ATTEND_V], diag);
    const tw_prefill_binding of_tensor[] = {
        {"q", o->memory->q},
        {"k", tw_prefill_shared(p, in->operand[TW_ATTEND_K])},
        {"v", tw_prefill_shared(p, in->operand[TW_ATTEND_V])},
        {"out", o->memory->attended},
        {"starts", o->memory->step + 4 * (many ? TW_MANY_STARTS : TW_STEP_STARTS)},
        {"lengths", o->memory->step + 4 * (many ? TW_MANY_LENGTHS : TW_STEP_LENGTHS)},
        {NULL, 0}};
    if (st != TW_OK || k) return st == TW_OK ? tw_prefill_add_launch(o, k, of_tensor, diag) : st;
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, 0, &shape);
    shape.window = in->param[TW_ATTEND_WINDOW];
    const tw_prefill_binding to[] = {{"step", o->memory->step},
                                     {"q", o->memory->q},
                                     {"k", tw_prefill_shared(p, in->operand[TW_ATTEND_K])},
                                     {"v", tw_prefill_shared(p, in->operand[TW_ATTEND_V])},
                                     {"out", o->memory->attended},
                                     {NULL, 0}};
    return tw_prefill_add_kind(o, &tw_prefill_attend, &shape, to, diag);
}

/* Has the product of an instruction ready x for the next norm, if it can. o->x->sums becomes its number of vectors. */
static tw_status ready_next(const tw_prefill_builder *o, const tw_instr *in, tw_prefill_product *of, const char *words,
                            tw_diag *diag) {
    const int norm = next_norm(o, in);
    tw_prefill_kernel *k;
    bool unused;
    *o->x = (tw_prefill_stream){0};
    if (norm < 0) return TW_OK;
    const tw_status st =
        tw_prefill_open_product(o->p, o->rows, tw_prefill_matrix_of(o->p, in), words, NULL, &k, &unused, diag);
    if (st == TW_OK) o->x->sums = tw_prefill_vectors(o->p, o->rows, k);
    if (!o->x->sums) return st == TW_ERR_UNSUPPORTED ? TW_OK : st;
    of->gains = tw_prefill_shared(o->p, norm);
    of->epilogue = words;
    return TW_OK;
}

/* Tells whether the instruction behind `in` begins with a norm of x, which may add up parts first. */
static bool norms_next(const tw_prefill_builder *o, const tw_instr *in) {
    const tw_worker *w = &o->p->s->workers[0];
    return in + 1 < w->list + w->count && (in[1].op == TW_INSTR_QKV || in[1].op == TW_INSTR_FFN);
}

/* Adds a product in parts, which the norm of the instruction behind it adds to x. No other instruction is between the
   two, so that the order that the schedule has for x holds for the parts. */
static tw_status add_parts(const tw_prefill_builder *o, const tw_instr *in, uint64_t a, int parts, tw_diag *diag) {
    char words[32];
    snprintf(words, sizeof words, "out=f32 addends=%d", parts);
    const tw_prefill_product of = {.a = a, .c = o->memory->parts, .epilogue = words};
    *o->x = (tw_prefill_stream){.parts = parts};
    return tw_prefill_add_product(o, in, &of, diag);
}

static tw_status add_project(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const uint64_t bias = tw_prefill_matrix_of(p, in)->bias;
    const uint64_t a = in->operand[TW_PROJECT_IN] == p->h ? o->memory->h : o->memory->attended;
    if (in->operand[TW_PROJECT_X] < 0) {
        const tw_prefill_product of = {
            .a = a, .c = o->memory->sums, .bias = bias, .epilogue = bias ? "out=f32 bias=1" : "out=f32"};
        return tw_prefill_add_product(o, in, &of, diag);
    }
    tw_prefill_product of = {
        .a = a, .c = o->memory->x, .bias = bias, .epilogue = bias ? "out=f32 beta=1 bias=1" : "out=f32 beta=1"};
    char words[64];
    snprintf(words, sizeof words, "%s squares=1 scaled=1", of.epilogue);
    if (!bias && norms_next(o, in)) {
        const int asked = in->operand[TW_PROJECT_IN] == p->h ? p->options.down_parts : p->options.o_parts;
        const int parts = tw_prefill_parts(p, o->rows, tw_prefill_matrix_of(p, in), asked), before = o->list->n;
        const tw_status st = parts > 1 ? add_parts(o, in, a, parts, diag) : TW_ERR_UNSUPPORTED;
        if (st != TW_ERR_UNSUPPORTED) return st;
        tw_prefill_drop_launches(o->list, before); /* No kernel has so many parts. */
    }
    const tw_status st = ready_next(o, in, &of, words, diag);
    return st == TW_OK ? tw_prefill_add_product(o, in, &of, diag) : st;
}

static tw_status add_residual(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, p->vm->m->dim, &shape);
    *o->x = (tw_prefill_stream){0}; /* A kernel norms x. */
    const tw_prefill_binding to[] = {{"step", o->memory->step},
                                     {"y", o->memory->sums},
                                     {"weight", tw_prefill_shared(p, in->operand[TW_RESIDUAL_NORM])},
                                     {"x", o->memory->x},
                                     {NULL, 0}};
    return tw_prefill_add_kind(o, &tw_prefill_residual, &shape, to, diag);
}

/* Names the activation as a product's words do. */
static const char *activation_of(const tw_model *m) {
    return m->activation == TW_ACT_GELU ? "gelu_erf" : m->activation == TW_ACT_GELU_TANH ? "gelu" : "silu";
}

/* Activations are computed by the product where it can. */
static tw_status add_ffn(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const uint64_t bias = tw_prefill_matrix_of(p, in)->bias;
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, in->param[TW_TO], &shape);
    shape.gated = tw_mega_gated(in);
    const int norm = in->operand[TW_FFN_NORM], norm_bias = in->operand[TW_FFN_NORM_BIAS];
    tw_prefill_product of = {.c = o->memory->h, .bias = bias};
    if (!tw_prefill_gates_apart(p->vm->m, bias != 0)) {
        char words[64];
        const char *kind = shape.gated ? "gated=1 " : bias ? "bias=1 " : "";
        snprintf(words, sizeof words, "%sactivation=%s", kind, activation_of(p->vm->m));
        of.epilogue = words;
        return add_normed(o, in, norm, norm_bias, of, diag);
    }
    const tw_prefill_binding to[] = {{"step", o->memory->step}, {"y", o->memory->sums}, {"h", o->memory->h}, {NULL, 0}};
    of.c = o->memory->sums;
    of.epilogue = bias ? "out=f32 bias=1" : "out=f32";
    const tw_status st = add_normed(o, in, norm, norm_bias, of, diag);
    return st == TW_OK ? tw_prefill_add_kind(o, &tw_prefill_gate, &shape, to, diag) : st;
}

static tw_status add_score(const tw_prefill_builder *o, int norm, int router, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, p->vm->m->dim, &shape);
    shape.router = p->s->buffers[router].dtype;
    const tw_prefill_binding to[] = {{"step", o->memory->step},
                                     {"x", o->memory->x},
                                     {"weight", tw_prefill_shared(p, norm)},
                                     {"router", tw_prefill_shared(p, router)},
                                     {"scores", o->memory->scores},
                                     {NULL, 0}};
    return tw_prefill_add_kind(o, &tw_prefill_score, &shape, to, diag);
}

/* Every layer has a place of its own for its choice, where the host may look for it. */
static tw_status add_choose(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill_memory *m = o->memory;
    const int64_t layer = tw_routing_layer(o->p->s, &o->p->s->workers[0], in);
    const uint64_t route = m->route + (uint64_t)((layer < 0 ? 0 : layer) * tw_prefill_route_bytes(o->p));
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, 0, &shape);
    const tw_prefill_binding to[] = {{"step", m->step}, {"scores", m->scores}, {"route", route}, {NULL, 0}};
    const tw_prefill_binding sorted[] = {{"step", m->step}, {"route", route},      {"ends", m->ends},
                                         {"rows", m->rows}, {"places", m->places}, {"factors", m->factors},
                                         {NULL, 0}};
    const tw_status st = tw_prefill_add_kind(o, &tw_prefill_route, &shape, to, diag);
    return st == TW_OK ? tw_prefill_add_kind(o, &tw_prefill_sort, &shape, sorted, diag) : st;
}

static tw_status add_route(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_status st = add_score(o, in->operand[TW_ROUTE_NORM], in->operand[TW_ROUTE_ROUTER], diag);
    return st == TW_OK ? add_choose(o, in, diag) : st;
}

static tw_status add_experts_up(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill_memory *m = o->memory;
    tw_prefill_shape shape;
    char words[64];
    tw_prefill_shape_of(o, o->p->vm->m->dim, &shape);
    const tw_prefill_binding to[] = {
        {"step", m->step}, {"rows", m->rows}, {"x", m->normed}, {"y", m->gathered}, {NULL, 0}};
    tw_status st = add_norm(o, in->operand[TW_EXPERTS_UP_NORM], -1, diag);
    if (st == TW_OK) st = tw_prefill_add_kind(o, &tw_prefill_gather, &shape, to, diag);
    snprintf(words, sizeof words, "gated=1 activation=%s", activation_of(o->p->vm->m));
    const tw_prefill_product of = {.a = m->gathered, .c = m->chosen, .epilogue = words};
    return st == TW_OK ? tw_prefill_add_product(o, in, &of, diag) : st;
}

static tw_status add_experts_down(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill_memory *m = o->memory;
    tw_prefill_shape shape;
    tw_prefill_shape_of(o, o->p->vm->m->dim, &shape);
    const tw_prefill_binding to[] = {{"step", m->step}, {"y", m->sums}, {"x", m->x}, {NULL, 0}};
    const tw_prefill_product of = {.a = m->chosen, .c = m->sums, .epilogue = "scatter=1 out=f32"};
    *o->x = (tw_prefill_stream){0}; /* The sum of experts is added to x by a kernel of its own. */
    const tw_status st = tw_prefill_add_product(o, in, &of, diag);
    return st == TW_OK ? tw_prefill_add_kind(o, &tw_prefill_sum_experts, &shape, to, diag) : st;
}

static tw_status add_instr(const tw_prefill_builder *o, const tw_instr *in, tw_diag *diag) {
    switch (in->op) {
    case TW_INSTR_EMBED:
        return add_embed(o, in, diag);
    case TW_INSTR_QKV:
        return add_qkv(o, in, diag);
    case TW_INSTR_ATTEND:
        return add_attend(o, in, diag);
    case TW_INSTR_PROJECT:
        return add_project(o, in, diag);
    case TW_INSTR_RESIDUAL:
        return add_residual(o, in, diag);
    case TW_INSTR_FFN:
        return add_ffn(o, in, diag);
    case TW_INSTR_ROUTE:
        return add_route(o, in, diag);
    case TW_INSTR_SCORE:
        return add_score(o, in->operand[TW_SCORE_NORM], in->operand[TW_SCORE_ROUTER], diag);
    case TW_INSTR_CHOOSE:
        return add_choose(o, in, diag);
    case TW_INSTR_EXPERTS_UP:
        return add_experts_up(o, in, diag);
    case TW_INSTR_EXPERTS_DOWN:
        return add_experts_down(o, in, diag);
    case TW_INSTR_TURN:  /* It was done with the qkv before it. */
    case TW_INSTR_INPUT: /* The host uploads tokens and angles. */
    case TW_INSTR_HEAD:
    case TW_INSTR_OUTPUT:
        return TW_OK;
    default:
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: kernels do not run the instruction \"%s\"",
                       tw_instr_op_describe(in->op)->name);
    }
}

/* Adds the instructions of a tail, of whose rows only the ends matter, and what finds the ends' tokens. */
static tw_status add_tail(tw_prefill *p, tw_prefill_list *list, tw_diag *diag) {
    const tw_prefill_list ends = {.tokens = list->ends};
    const tw_worker *w = &p->s->workers[0];
    tw_prefill_memory memory = p->memory;
    tw_prefill_stream x = {0};
    memory.step -= 4 * (uint64_t)tw_prefill_tail_words(list->many);
    if (!list->whole) {
        memory.x = memory.tail_x;
        memory.q = memory.tail_q;
    }
    const tw_prefill_builder o = {p, list, &ends, &memory, &x};
    tw_prefill_shape shape;
    tw_prefill_shape_of(&o, 0, &shape);
    const tw_prefill_binding take[] = {{"step", memory.step},     {"x", p->memory.x},        {"q", p->memory.q},
                                       {"tail_x", memory.tail_x}, {"tail_q", memory.tail_q}, {NULL, 0}};
    tw_status st = list->whole ? TW_OK : tw_prefill_add_kind(&o, &tw_prefill_take, &shape, take, diag);
    for (int i = tw_prefill_tail(p->s); i < w->count && st == TW_OK; i++) st = add_instr(&o, &w->list[i], diag);
    if (st != TW_OK) return st;
    return list->many ? tw_prefill_add_ends(&o, diag) : tw_prefill_add_end(&o, diag);
}

tw_status tw_prefill_list_make(tw_prefill *p, tw_prefill_list *list, tw_diag *diag) {
    tw_prefill_stream x = {0};
    const tw_prefill_builder o = {p, list, list, &p->memory, &x};
    const int tail = tw_prefill_tail(p->s);
    tw_status st = TW_OK;
    for (int i = 0; i < tail && st == TW_OK; i++) st = add_instr(&o, &p->s->workers[0].list[i], diag);
    return st == TW_OK && list->ends ? add_tail(p, list, diag) : st;
}
