/* SPDX-License-Identifier: Apache-2.0 */
/* From the instructions of a schedule to launches. */
#include "base/diag.h"
#include "vm/prefill/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What builds a list. */
typedef struct builder {
    tw_prefill *p;
    tw_prefill_list *list;
} builder;

/* A buffer's name and address. Name NULL ends a list. */
typedef struct binding {
    const char *name;
    uint64_t address;
} binding;

static tw_status add_launch(const builder *o, const tw_prefill_kernel *k, const binding *to, tw_diag *diag) {
    tw_prefill_list *list = o->list;
    if (list->n == list->room) {
        const int room = list->room ? 2 * list->room : 64;
        tw_gpu_launch **grown = realloc(list->launches, (size_t)room * sizeof(tw_gpu_launch *));
        if (!grown) return tw_fail_memory(diag);
        list->launches = grown;
        list->room = room;
    }
    tw_gpu_launch *l;
    tw_status st = tw_gpu_launch_open(&l, k->kernel, diag);
    if (st != TW_OK) return st;
    list->launches[list->n++] = l;
    if (k->workspace) st = tw_gpu_launch_bind(l, "workspace", k->workspace, diag);
    if (k->counters && st == TW_OK) st = tw_gpu_launch_bind(l, "counters", k->counters, diag);
    /* A buffer that a kernel has and does not use gets some address. */
    for (; to->name && st == TW_OK; to++)
        st = tw_gpu_launch_bind(l, to->name, to->address ? to->address : o->p->memory.step, diag);
    return st;
}

/* Opens the kernel of a kind for a shape, unless it is open. */
static tw_status open_kernel(tw_prefill *p, const tw_prefill_kind *kind, const tw_prefill_shape *shape,
                             tw_prefill_kernel **out, tw_diag *diag) {
    tw_prefill_kernel *k = p->kernels;
    while (k && (k->problem.kind != kind || memcmp(&k->problem.shape, shape, sizeof *shape) != 0)) k = k->next;
    *out = k;
    if (k) return TW_OK;
    k = tw_arena_alloc(&p->arena, sizeof *k);
    if (p->arena.failed) return tw_fail_memory(diag);
    memset(k, 0, sizeof *k);
    k->problem.kind = kind;
    memcpy(&k->problem.shape, shape, sizeof *shape);
    const tw_status st = tw_kernel_open_made(&k->kernel, &p->gpu, tw_prefill_make, &k->problem, diag);
    if (st != TW_OK) return st;
    k->next = p->kernels;
    *out = p->kernels = k;
    return TW_OK;
}

static tw_status add_kind(const builder *o, const tw_prefill_kind *kind, const tw_prefill_shape *shape,
                          const binding *to, tw_diag *diag) {
    tw_prefill_kernel *k;
    const tw_status st = open_kernel(o->p, kind, shape, &k, diag);
    return st == TW_OK ? add_launch(o, k, to, diag) : st;
}

/* Makes a shape with what all kinds use. Its padding is zero. */
static void common(const builder *o, int64_t columns, tw_prefill_shape *out) {
    memset(out, 0, sizeof *out);
    out->m = o->p->vm->m;
    out->type = o->p->type;
    out->kv = o->p->kv;
    out->tokens = o->list->tokens;
    out->max_seq = o->p->s->max_seq;
    out->columns = columns;
    out->early = !o->p->options.late;
}

/* Returns the address of a weight or cache of the decode program. 0: there is none. */
static uint64_t shared(const tw_prefill *p, int buffer) {
    const tw_mega_named *e = buffer < 0 ? NULL : tw_mega_named_find(p->vm, p->s->buffers[buffer].name);
    return e ? e->address : 0;
}

static const tw_prefill_matrix *matrix_of(const tw_prefill *p, const tw_instr *in) {
    return &p->matrices[in - p->s->workers[0].list];
}

/* ---- instructions */

static tw_status add_embed(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_shape shape;
    common(o, p->vm->m->dim, &shape);
    const binding to[] = {{"step", p->memory.step},
                          {"table", shared(p, in->operand[TW_EMBED_TABLE])},
                          {"x", p->memory.x},
                          {"positions", shared(p, in->operand[TW_EMBED_POSITIONS])},
                          {NULL, 0}};
    return add_kind(o, &tw_prefill_embed, &shape, to, diag);
}

static tw_status add_norm(const builder *o, int weight, int bias, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_shape shape;
    common(o, p->vm->m->dim, &shape);
    shape.bias = bias >= 0;
    shape.bare = weight < 0;
    const binding to[] = {{"step", p->memory.step}, {"x", p->memory.x},        {"weight", shared(p, weight)},
                          {"y", p->memory.normed},  {"bias", shared(p, bias)}, {NULL, 0}};
    return add_kind(o, &tw_prefill_norm, &shape, to, diag);
}

/* Adds the product of rows at `a` and the instruction's matrix. `bias` may be 0. */
static tw_status add_product(const builder *o, const tw_instr *in, uint64_t a, uint64_t c, uint64_t bias,
                             const char *epilogue, tw_diag *diag) {
    tw_prefill *p = o->p;
    const tw_prefill_matrix *matrix = matrix_of(p, in);
    tw_prefill_kernel *k;
    bool reads_tapes = false;
    tw_status st = tw_prefill_open_product(p, o->list, matrix, epilogue, &k, &reads_tapes, diag);
    if (st == TW_OK && !reads_tapes) {
        const binding to[] = {{"units", matrix->table}, {"out", p->memory.matrix}, {NULL, 0}};
        tw_prefill_shape shape;
        memcpy(&shape, &matrix->shape, sizeof shape);
        shape.early = !p->options.late;
        st = add_kind(o, &tw_prefill_unpack, &shape, to, diag);
    }
    binding to[8] = {{"a", a}, {"b", reads_tapes ? matrix->table : p->memory.matrix}, {"c", c}};
    int n = 3;
    if (bias) to[n++] = (binding){"bias", bias};
    if (matrix->groups) to[n++] = (binding){"ends", p->memory.ends};
    if (in->op == TW_INSTR_EXPERTS_DOWN) {
        to[n++] = (binding){"places", p->memory.places};
        to[n++] = (binding){"factors", p->memory.factors};
    }
    if (o->list->masked && !matrix->groups) to[n++] = (binding){"counts", p->memory.step + 4 * TW_STEP_COUNT};
    return st == TW_OK ? add_launch(o, k, to, diag) : st;
}

/* Returns the address of the first position's angles of a rope. */
static uint64_t angles_of(const tw_prefill *p, int rope) {
    const tw_instr *input = &p->s->workers[0].list[0];
    const bool local = rope >= 0 && rope == input->operand[TW_INPUT_ROPE_LOCAL];
    return p->vm->angles + (local ? 4 * (uint64_t)p->vm->m->rope.dims : 0);
}

static tw_status add_qkv(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const uint64_t bias = matrix_of(p, in)->bias;
    tw_prefill_shape shape;
    common(o, 0, &shape);
    shape.bias = bias != 0;
    tw_status st = add_norm(o, in->operand[TW_QKV_NORM], in->operand[TW_QKV_NORM_BIAS], diag);
    if (st == TW_OK) st = add_product(o, in, p->memory.normed, p->memory.sums, 0, "out=f32", diag);
    const binding of_factors[] = {{"step", p->memory.step},
                                  {"y", p->memory.sums},
                                  {"bias", bias},
                                  {"factors", p->memory.head_factors},
                                  {NULL, 0}};
    if (p->vm->m->qk_norm_whole && st == TW_OK) st = add_kind(o, &tw_prefill_factors, &shape, of_factors, diag);
    /* Where norms are apart, the next instruction has them, and is done here. */
    const tw_instr *turn = in->operand[TW_QKV_RAW_K] >= 0 ? in + 1 : NULL;
    const int rope = in->operand[TW_QKV_ROPE], q_norm = in->operand[TW_QKV_Q_NORM], k_norm = in->operand[TW_QKV_K_NORM],
              k = in->operand[TW_QKV_K];
    const binding to[] = {{"step", p->memory.step},
                          {"y", p->memory.sums},
                          {"bias", bias},
                          {"angles", angles_of(p, turn ? turn->operand[TW_TURN_ROPE] : rope)},
                          {"q_norm", shared(p, turn ? turn->operand[TW_TURN_Q_NORM] : q_norm)},
                          {"k_norm", shared(p, turn ? turn->operand[TW_TURN_K_NORM] : k_norm)},
                          {"q", p->memory.q},
                          {"k", shared(p, turn ? turn->operand[TW_TURN_K] : k)},
                          {"factors", p->memory.head_factors},
                          {"v", shared(p, in->operand[TW_QKV_V])},
                          {NULL, 0}};
    return st == TW_OK ? add_kind(o, &tw_prefill_rope, &shape, to, diag) : st;
}

/* Opens the attention of tensor cores, which splits keys by how many there may be. Where there is none, *out is NULL.
 */
static tw_status open_attention(const builder *o, int64_t window, tw_prefill_kernel **out, tw_diag *diag) {
    tw_prefill *p = o->p;
    const tw_model *m = p->vm->m;
    char words[TW_PLAN_TEXT];
    *out = NULL;
    if (p->type == TW_T_f32 || p->type != tw_prefill_element(p->kv)) return TW_OK;
    snprintf(words, sizeof words,
             "attention type=%s heads=%lld kv_heads=%lld head=%lld queries=%lld keys=%lld capacity=%lld causal=1 "
             "ragged=1 window=%lld batch=%lld scale=%.9g cap=%.9g",
             tw_type_name(p->type), (long long)m->n_heads, (long long)m->n_kv_heads, (long long)m->head_dim,
             (long long)o->list->tokens, (long long)o->list->keys, (long long)p->s->max_seq, (long long)window,
             (long long)p->decode->s->sequences, (double)m->attn_scale, (double)m->attn_cap);
    const tw_status st = tw_prefill_open_words(p, words, p->options.late ? "early=0" : "early=1", out, diag);
    return st == TW_ERR_USAGE ? TW_OK : st; /* Such heads have no kernel of this kind. */
}

/* Sets rows of a cache that nobody has written to zeros. A device's caches have zeros from the start. The emulator's do
   not, so that it finds who reads them; but attention by tensor cores fetches whole blocks of positions. */
static tw_status define_cache(const tw_prefill *p, int buffer, tw_diag *diag) {
    const tw_buffer *b = &p->s->buffers[buffer];
    const size_t row = (size_t)tw_buffer_row_bytes(b);
    const int64_t rows = p->decode->s->sequences * b->shape[0] * b->shape[1];
    const uint64_t cache = shared(p, buffer);
    void *zeros = calloc(1, row);
    tw_status st = zeros ? TW_OK : tw_fail_memory(diag);
    for (int64_t i = 0; p->vm->emu && i < rows && st == TW_OK; i++) {
        const uint64_t at = cache + (uint64_t)i * row;
        if (!tw_emu_written(p->vm->emu, at, row)) st = tw_mega_write(p->vm, at, zeros, row, diag);
    }
    free(zeros);
    return st;
}

static tw_status add_attend(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_kernel *k;
    tw_status st = open_attention(o, in->param[TW_ATTEND_WINDOW], &k, diag);
    if (st == TW_OK && k) st = define_cache(p, in->operand[TW_ATTEND_K], diag);
    if (st == TW_OK && k) st = define_cache(p, in->operand[TW_ATTEND_V], diag);
    const binding of_tensor[] = {{"q", p->memory.q},
                                 {"k", shared(p, in->operand[TW_ATTEND_K])},
                                 {"v", shared(p, in->operand[TW_ATTEND_V])},
                                 {"out", p->memory.attended},
                                 {"starts", p->memory.step + 4 * TW_STEP_STARTS},
                                 {"lengths", p->memory.step + 4 * TW_STEP_LENGTHS},
                                 {NULL, 0}};
    if (st != TW_OK || k) return st == TW_OK ? add_launch(o, k, of_tensor, diag) : st;
    tw_prefill_shape shape;
    common(o, 0, &shape);
    shape.window = in->param[TW_ATTEND_WINDOW];
    const binding to[] = {{"step", p->memory.step},
                          {"q", p->memory.q},
                          {"k", shared(p, in->operand[TW_ATTEND_K])},
                          {"v", shared(p, in->operand[TW_ATTEND_V])},
                          {"out", p->memory.attended},
                          {NULL, 0}};
    return add_kind(o, &tw_prefill_attend, &shape, to, diag);
}

static tw_status add_project(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const uint64_t bias = matrix_of(p, in)->bias;
    const uint64_t a = in->operand[TW_PROJECT_IN] == p->h ? p->memory.h : p->memory.attended;
    if (in->operand[TW_PROJECT_X] < 0)
        return add_product(o, in, a, p->memory.sums, bias, bias ? "out=f32 bias=1" : "out=f32", diag);
    return add_product(o, in, a, p->memory.x, bias, bias ? "out=f32 beta=1 bias=1" : "out=f32 beta=1", diag);
}

static tw_status add_residual(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_shape shape;
    common(o, p->vm->m->dim, &shape);
    const binding to[] = {{"step", p->memory.step},
                          {"y", p->memory.sums},
                          {"weight", shared(p, in->operand[TW_RESIDUAL_NORM])},
                          {"x", p->memory.x},
                          {NULL, 0}};
    return add_kind(o, &tw_prefill_residual, &shape, to, diag);
}

/* Names the activation as a product's words do. */
static const char *activation_of(const tw_model *m) {
    return m->activation == TW_ACT_GELU ? "gelu_erf" : m->activation == TW_ACT_GELU_TANH ? "gelu" : "silu";
}

/* Activations are computed by the product where it can. */
static tw_status add_ffn(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill *p = o->p;
    const uint64_t bias = matrix_of(p, in)->bias;
    tw_prefill_shape shape;
    common(o, in->param[TW_TO], &shape);
    shape.gated = tw_mega_gated(in);
    tw_status st = add_norm(o, in->operand[TW_FFN_NORM], in->operand[TW_FFN_NORM_BIAS], diag);
    if (st != TW_OK) return st;
    if (!tw_prefill_gates_apart(p->vm->m, bias != 0)) {
        char words[64];
        const char *kind = shape.gated ? "gated=1 " : bias ? "bias=1 " : "";
        snprintf(words, sizeof words, "%sactivation=%s", kind, activation_of(p->vm->m));
        return add_product(o, in, p->memory.normed, p->memory.h, bias, words, diag);
    }
    const binding to[] = {{"step", p->memory.step}, {"y", p->memory.sums}, {"h", p->memory.h}, {NULL, 0}};
    st = add_product(o, in, p->memory.normed, p->memory.sums, bias, bias ? "out=f32 bias=1" : "out=f32", diag);
    return st == TW_OK ? add_kind(o, &tw_prefill_gate, &shape, to, diag) : st;
}

static tw_status add_score(const builder *o, int norm, int router, tw_diag *diag) {
    const tw_prefill *p = o->p;
    tw_prefill_shape shape;
    common(o, p->vm->m->dim, &shape);
    shape.router = p->s->buffers[router].dtype;
    const binding to[] = {{"step", p->memory.step},      {"x", p->memory.x},           {"weight", shared(p, norm)},
                          {"router", shared(p, router)}, {"scores", p->memory.scores}, {NULL, 0}};
    return add_kind(o, &tw_prefill_score, &shape, to, diag);
}

static tw_status add_choose(const builder *o, tw_diag *diag) {
    const tw_prefill_memory *m = &o->p->memory;
    tw_prefill_shape shape;
    common(o, 0, &shape);
    const binding to[] = {{"step", m->step}, {"scores", m->scores}, {"route", m->route}, {NULL, 0}};
    const binding sorted[] = {{"step", m->step},     {"route", m->route},     {"ends", m->ends}, {"rows", m->rows},
                              {"places", m->places}, {"factors", m->factors}, {NULL, 0}};
    const tw_status st = add_kind(o, &tw_prefill_route, &shape, to, diag);
    return st == TW_OK ? add_kind(o, &tw_prefill_sort, &shape, sorted, diag) : st;
}

static tw_status add_route(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_status st = add_score(o, in->operand[TW_ROUTE_NORM], in->operand[TW_ROUTE_ROUTER], diag);
    return st == TW_OK ? add_choose(o, diag) : st;
}

static tw_status add_experts_up(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill_memory *m = &o->p->memory;
    tw_prefill_shape shape;
    char words[64];
    common(o, o->p->vm->m->dim, &shape);
    const binding to[] = {{"step", m->step}, {"rows", m->rows}, {"x", m->normed}, {"y", m->gathered}, {NULL, 0}};
    tw_status st = add_norm(o, in->operand[TW_EXPERTS_UP_NORM], -1, diag);
    if (st == TW_OK) st = add_kind(o, &tw_prefill_gather, &shape, to, diag);
    snprintf(words, sizeof words, "gated=1 activation=%s", activation_of(o->p->vm->m));
    return st == TW_OK ? add_product(o, in, m->gathered, m->chosen, 0, words, diag) : st;
}

static tw_status add_experts_down(const builder *o, const tw_instr *in, tw_diag *diag) {
    const tw_prefill_memory *m = &o->p->memory;
    tw_prefill_shape shape;
    common(o, o->p->vm->m->dim, &shape);
    const binding to[] = {{"step", m->step}, {"y", m->sums}, {"x", m->x}, {NULL, 0}};
    const tw_status st = add_product(o, in, m->chosen, m->sums, 0, "scatter=1 out=f32", diag);
    return st == TW_OK ? add_kind(o, &tw_prefill_sum_experts, &shape, to, diag) : st;
}

static tw_status add_instr(const builder *o, const tw_instr *in, tw_diag *diag) {
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
        return add_choose(o, diag);
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

tw_status tw_prefill_list_make(tw_prefill *p, tw_prefill_list *list, tw_diag *diag) {
    const builder o = {p, list};
    const tw_worker *w = &p->s->workers[0];
    tw_status st = TW_OK;
    for (int i = 0; i < w->count && st == TW_OK; i++) st = add_instr(&o, &w->list[i], diag);
    return st;
}

/* Finds the head's instruction. */
static const tw_instr *head_of(const tw_schedule *s) {
    const tw_instr *in = s->workers[0].list;
    while (in->op != TW_INSTR_HEAD) in++;
    return in;
}

tw_status tw_prefill_end_make(tw_prefill *p, tw_prefill_list *list, tw_diag *diag) {
    const builder o = {p, list};
    const tw_instr *in = head_of(p->s);
    const int bias = in->operand[TW_HEAD_NORM_BIAS];
    tw_prefill_shape shape;
    memcpy(&shape, &p->head.shape, sizeof shape);
    shape.m = p->vm->m;
    shape.bias = bias >= 0;
    shape.early = !p->options.late;
    const binding head[] = {{"step", p->memory.step},
                            {"x", p->memory.x},
                            {"weight", shared(p, in->operand[TW_HEAD_NORM])},
                            {"bias", shared(p, bias)},
                            {"units", p->head.table},
                            {"logits", p->memory.logits},
                            {"cells", p->memory.cells},
                            {NULL, 0}};
    const binding best[] = {{"cells", p->memory.cells}, {"token", p->memory.token}, {NULL, 0}};
    const tw_status st = add_kind(&o, &tw_prefill_head, &shape, head, diag);
    return st == TW_OK ? add_kind(&o, &tw_prefill_best, &shape, best, diag) : st;
}

void tw_prefill_list_free(tw_prefill_list *list) {
    tw_cuda_graph_free(list->graph);
    for (int i = 0; i < list->n; i++) tw_gpu_launch_close(list->launches[i]);
    free(list->launches);
    *list = (tw_prefill_list){0};
}

/* ---- running */

static tw_status launch_all(const tw_prefill_list *list, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < list->n && st == TW_OK; i++) st = tw_gpu_launch_run(list->launches[i], NULL, diag);
    return st;
}

/* Captures all launches. They have run before, since what the driver loads lazily cannot be captured. */
void tw_prefill_list_capture(tw_prefill *p, tw_prefill_list *list) {
    if (!p->vm->cuda || list->graph || list->one_by_one || !list->n) return;
    tw_status st = tw_cuda_capture_begin(p->vm->cuda, NULL);
    if (st == TW_OK) {
        const tw_status launched = launch_all(list, NULL);
        st = tw_cuda_capture_end(p->vm->cuda, &list->graph, NULL);
        if (launched != TW_OK) st = launched;
    }
    if (st == TW_OK) return;
    tw_cuda_graph_free(list->graph);
    list->graph = NULL;
    list->one_by_one = true;
}

tw_status tw_prefill_list_run(tw_prefill *p, const tw_prefill_list *list, tw_diag *diag) {
    return list->graph ? tw_cuda_graph_run(p->vm->cuda, list->graph, diag) : launch_all(list, diag);
}
