/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a checked schedule into launches, and runs them. */
#include "vm/prefill/program.h"

#include "base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is covered */

static tw_status covered(const tw_prefill *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    const char *why = NULL;
    if (p->gpu.target->sm != 90) why = "targets without products by warpgroups";
    if (s->n_workers != 1 || s->sequences != 1) why = "schedules of several workers or sequences";
    for (int i = 0; i < s->workers[0].count && !why; i++) {
        const tw_instr *in = &s->workers[0].list[i];
        if (in->op == TW_INSTR_ATTEND && (in->param[TW_ATTEND_SPLITS] != 1 || in->operand[TW_ATTEND_OUT] < 0))
            why = "attention in parts";
        if (in->op == TW_INSTR_ATTEND &&
            in->param[TW_ATTEND_HEAD_TO] - in->param[TW_ATTEND_HEAD_FROM] != p->vm->m->n_heads)
            why = "attention that is dealt out";
    }
    return why ? tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: kernels do not run %s", why) : TW_OK;
}

static tw_type type_of(const tw_model *m) {
    return tw_prefill_element(m->layers[0].q.weight.dtype);
}

/* ---- memory */

/* A piece of memory, and where its address goes. */
typedef struct need {
    uint64_t *to;
    const char *name;
    int64_t bytes;
} need;
enum { NEEDS = 9 };

static void count(tw_prefill *p, need out[NEEDS]) {
    const tw_model *m = p->vm->m;
    const int64_t T = p->s->tokens, es = tw_prefill_bytes(p->type), heads = m->n_heads * m->head_dim;
    const int64_t qkv = (m->n_heads + 2 * m->n_kv_heads) * m->head_dim;
    int64_t sums = qkv, matrix = qkv * m->dim;
    for (int64_t i = 0; i < m->n_layers; i++)
        if ((m->layers[i].gate.bias.rows || m->layers[i].up.bias.rows) && sums < 2 * m->ffn_dim) sums = 2 * m->ffn_dim;
    if (matrix < 2 * m->ffn_dim * m->dim) matrix = 2 * m->ffn_dim * m->dim;
    if (matrix < heads * m->dim) matrix = heads * m->dim;
    tw_prefill_memory *to = &p->memory;
    const need all[NEEDS] = {{&to->step, "step", (TW_STEP_TOKENS + T) * 4},
                             {&to->x, "x", T * m->dim * 4},
                             {&to->normed, "normed", T * m->dim * es},
                             {&to->sums, "sums", T * sums * 4},
                             {&to->q, "q", T * heads * es},
                             {&to->attended, "attended", T * heads * es},
                             {&to->h, "h", T * m->ffn_dim * es},
                             {&to->matrix, "matrix", matrix * es},
                             {&to->counter, "counter", 16}};
    memcpy(out, all, sizeof all);
}

static tw_status fits(const tw_prefill *p, int64_t bytes, tw_diag *diag) {
    int64_t available = p->vm->options.memory_limit;
    tw_status st = TW_OK;
    if (available)
        available = available > p->vm->taken ? available - p->vm->taken : 1;
    else if (p->vm->cuda)
        st = tw_cuda_available(p->vm->cuda, &available, diag);
    if (st != TW_OK || !available || bytes <= available) return st;
    return tw_fail(diag, TW_ERR_MEMORY, "prompts of %lld positions a step need %lld bytes, and there are %lld",
                   (long long)p->s->tokens, (long long)bytes, (long long)available);
}

/* Allocates activations. Products read whole tiles of rows, also of rows that no step has written, so all is zero. */
static tw_status allocate(tw_prefill *p, tw_diag *diag) {
    need all[NEEDS];
    int64_t bytes = 0;
    count(p, all);
    for (int i = 0; i < NEEDS; i++) bytes += all[i].bytes;
    tw_status st = fits(p, bytes, diag);
    for (int i = 0; i < NEEDS && st == TW_OK; i++) {
        const size_t n = ((size_t)all[i].bytes + 15) / 16 * 16;
        if (!p->vm->cuda) {
            st = tw_mega_alloc_zeros(p->vm, p, all[i].name, n, all[i].to, diag);
            continue;
        }
        st = tw_mega_alloc(p->vm, p, all[i].name, NULL, n, false, all[i].to, diag);
        if (st == TW_OK) st = tw_cuda_fill(p->vm->cuda, *all[i].to, 0, n / 4, diag);
    }
    return st;
}

/* ---- launches */

/* A buffer's name and address. Name NULL ends a list. */
typedef struct binding {
    const char *name;
    uint64_t address;
} binding;

static tw_status add_launch(tw_prefill *p, const tw_gpu_kernel *k, const binding *list, tw_diag *diag) {
    if (p->n_launches == p->room) {
        const int room = p->room ? 2 * p->room : 64;
        tw_gpu_launch **grown = realloc(p->launches, (size_t)room * sizeof(tw_gpu_launch *));
        if (!grown) return tw_fail_memory(diag);
        p->launches = grown;
        p->room = room;
    }
    tw_gpu_launch *l;
    tw_status st = tw_gpu_launch_open(&l, k, diag);
    if (st != TW_OK) return st;
    p->launches[p->n_launches++] = l;
    /* A buffer that a kernel has and does not use gets some address. */
    for (; list->name && st == TW_OK; list++)
        st = tw_gpu_launch_bind(l, list->name, list->address ? list->address : p->memory.step, diag);
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

static tw_status add_kind(tw_prefill *p, const tw_prefill_kind *kind, const tw_prefill_shape *shape,
                          const binding *list, tw_diag *diag) {
    tw_prefill_kernel *k;
    const tw_status st = open_kernel(p, kind, shape, &k, diag);
    return st == TW_OK ? add_launch(p, k->kernel, list, diag) : st;
}

/* Returns a shape with what all kinds use. Its padding is zero. */
static void common(const tw_prefill *p, tw_prefill_shape *out) {
    memset(out, 0, sizeof *out);
    out->m = p->vm->m;
    out->type = p->type;
    out->kv = p->kv;
    out->tokens = p->s->tokens;
    out->max_seq = p->s->max_seq;
}

/* Returns the address of a weight or cache of the decode program. 0: there is none. */
static uint64_t shared(const tw_prefill *p, int buffer) {
    const tw_mega_named *e = buffer < 0 ? NULL : tw_mega_named_find(p->vm, p->s->buffers[buffer].name);
    return e ? e->address : 0;
}

static uint64_t word(const tw_prefill *p, int which) {
    return p->memory.step + 4 * (uint64_t)which;
}

/* ---- instructions */

static tw_status add_embed(tw_prefill *p, const tw_instr *in, tw_diag *diag) {
    tw_prefill_shape shape;
    common(p, &shape);
    shape.columns = p->vm->m->dim;
    const binding list[] = {
        {"step", p->memory.step}, {"table", shared(p, in->operand[TW_EMBED_TABLE])}, {"x", p->memory.x}, {NULL, 0}};
    return add_kind(p, &tw_prefill_embed, &shape, list, diag);
}

static tw_status add_norm(tw_prefill *p, int weight, tw_diag *diag) {
    tw_prefill_shape shape;
    common(p, &shape);
    shape.columns = p->vm->m->dim;
    const binding list[] = {{"step", p->memory.step},
                            {"x", p->memory.x},
                            {"weight", shared(p, weight)},
                            {"y", p->memory.normed},
                            {NULL, 0}};
    return add_kind(p, &tw_prefill_norm, &shape, list, diag);
}

/* Adds the product of rows at `a` and the instruction's matrix. `bias` may be 0. */
static tw_status add_product(tw_prefill *p, const tw_instr *in, uint64_t a, uint64_t c, uint64_t bias,
                             const char *epilogue, tw_diag *diag) {
    tw_prefill_matrix matrix;
    tw_prefill_kernel *k;
    bool reads_tapes = false;
    tw_status st = tw_prefill_find_matrix(p, in, &matrix, diag);
    if (st == TW_OK) st = tw_prefill_open_product(p, &matrix, epilogue, &k, &reads_tapes, diag);
    const binding unpacked[] = {{"units", matrix.table}, {"out", p->memory.matrix}, {NULL, 0}};
    if (st == TW_OK && !reads_tapes) st = add_kind(p, &tw_prefill_unpack, &matrix.shape, unpacked, diag);
    const binding list[] = {{"a", a},
                            {"b", reads_tapes ? matrix.table : p->memory.matrix},
                            {"c", c},
                            {"counts", word(p, TW_STEP_COUNT)},
                            {"counters", p->memory.counter},
                            {bias ? "bias" : NULL, bias},
                            {NULL, 0}};
    return st == TW_OK ? add_launch(p, k->kernel, list, diag) : st;
}

static tw_status add_qkv(tw_prefill *p, const tw_instr *in, tw_diag *diag) {
    uint64_t bias = 0;
    tw_prefill_shape shape;
    common(p, &shape);
    tw_status st = add_norm(p, in->operand[TW_QKV_NORM], diag);
    if (st == TW_OK) st = add_product(p, in, p->memory.normed, p->memory.sums, 0, "out=f32", diag);
    if (st == TW_OK) st = tw_prefill_find_bias(p, in, &bias, diag);
    shape.bias = bias != 0;
    const binding list[] = {{"step", p->memory.step},
                            {"y", p->memory.sums},
                            {"bias", bias},
                            {"angles", p->vm->angles},
                            {"q_norm", shared(p, in->operand[TW_QKV_Q_NORM])},
                            {"k_norm", shared(p, in->operand[TW_QKV_K_NORM])},
                            {"q", p->memory.q},
                            {"k", shared(p, in->operand[TW_QKV_K])},
                            {"v", shared(p, in->operand[TW_QKV_V])},
                            {NULL, 0}};
    return st == TW_OK ? add_kind(p, &tw_prefill_rope, &shape, list, diag) : st;
}

static tw_status add_attend(tw_prefill *p, const tw_instr *in, tw_diag *diag) {
    tw_prefill_shape shape;
    common(p, &shape);
    shape.window = in->param[TW_ATTEND_WINDOW];
    const binding list[] = {{"step", p->memory.step},
                            {"q", p->memory.q},
                            {"k", shared(p, in->operand[TW_ATTEND_K])},
                            {"v", shared(p, in->operand[TW_ATTEND_V])},
                            {"out", p->memory.attended},
                            {NULL, 0}};
    return add_kind(p, &tw_prefill_attend, &shape, list, diag);
}

static tw_status add_project(tw_prefill *p, const tw_instr *in, tw_diag *diag) {
    const bool is_down = in->operand[TW_PROJECT_IN] == p->h;
    uint64_t bias;
    const tw_status st = tw_prefill_find_bias(p, in, &bias, diag);
    if (st != TW_OK) return st;
    return add_product(p, in, is_down ? p->memory.h : p->memory.attended, p->memory.x, bias,
                       bias ? "out=f32 beta=1 bias=1" : "out=f32 beta=1", diag);
}

/* Gates are computed by the product, but not if there are biases. */
static tw_status add_ffn(tw_prefill *p, const tw_instr *in, tw_diag *diag) {
    uint64_t bias = 0;
    tw_prefill_shape shape;
    common(p, &shape);
    shape.columns = in->param[TW_TO];
    p->h = in->operand[TW_FFN_H];
    tw_status st = add_norm(p, in->operand[TW_FFN_NORM], diag);
    if (st == TW_OK) st = tw_prefill_find_bias(p, in, &bias, diag);
    if (st != TW_OK) return st;
    if (!bias) return add_product(p, in, p->memory.normed, p->memory.h, 0, "gated=1 activation=silu", diag);
    const binding list[] = {{"step", p->memory.step}, {"y", p->memory.sums}, {"h", p->memory.h}, {NULL, 0}};
    st = add_product(p, in, p->memory.normed, p->memory.sums, bias, "out=f32 bias=1", diag);
    return st == TW_OK ? add_kind(p, &tw_prefill_gate, &shape, list, diag) : st;
}

static tw_status add_instr(tw_prefill *p, const tw_instr *in, tw_diag *diag) {
    switch (in->op) {
    case TW_INSTR_EMBED:
        return add_embed(p, in, diag);
    case TW_INSTR_QKV:
        return add_qkv(p, in, diag);
    case TW_INSTR_ATTEND:
        return add_attend(p, in, diag);
    case TW_INSTR_PROJECT:
        return add_project(p, in, diag);
    case TW_INSTR_FFN:
        return add_ffn(p, in, diag);
    case TW_INSTR_INPUT: /* The host uploads tokens and angles. */
    case TW_INSTR_HEAD:
    case TW_INSTR_OUTPUT:
        return TW_OK;
    default:
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: kernels do not run the instruction \"%s\"",
                       tw_instr_op_describe(in->op)->name);
    }
}

/* ---- the interface */

static tw_status open_program(tw_prefill *p, int decode, tw_diag *diag) {
    tw_cuda_vm *vm = p->vm;
    p->decode = tw_mega_program_of(vm, decode);
    if (!p->decode) return tw_fail(diag, TW_ERR_USAGE, "no such program");
    p->kv = p->decode->plan.kv;
    tw_status st = covered(p, diag);
    if (st == TW_OK) st = tw_weights_resolve(&p->weights, p->s, vm->m, &p->arena, diag);
    if (st == TW_OK) st = allocate(p, diag);
    if (st == TW_OK) st = tw_mega_make_angles(vm, p->s->max_seq, 0, 1, 1, diag); /* From now on they have an address. */
    p->step = tw_arena_array(&p->arena, (size_t)(TW_STEP_TOKENS + p->s->tokens), sizeof *p->step);
    if (p->arena.failed) return tw_fail_memory(diag);
    const tw_worker *w = &p->s->workers[0];
    for (int i = 0; i < w->count && st == TW_OK; i++) st = add_instr(p, &w->list[i], diag);
    return st;
}

tw_status tw_prefill_open(tw_prefill **out, tw_cuda_vm *vm, int decode, const tw_checked *program,
                          const tw_prefill_options *options, tw_diag *diag) {
    tw_prefill *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return tw_fail_memory(diag);
    p->vm = vm;
    p->s = tw_checked_schedule(program);
    p->type = type_of(vm->m);
    p->h = -1;
    p->options = *options;
    p->gpu.cuda = vm->cuda;
    p->gpu.emu = vm->emu;
    p->gpu.target = vm->target;
    const tw_status st = open_program(p, decode, diag);
    if (st == TW_OK)
        *out = p;
    else
        tw_prefill_close(p);
    return st;
}

void tw_prefill_close(tw_prefill *p) {
    if (!p) return;
    tw_cuda_graph_free(p->graph);
    for (int i = 0; i < p->n_launches; i++) tw_gpu_launch_close(p->launches[i]);
    for (tw_prefill_kernel *k = p->kernels; k; k = k->next) tw_gpu_kernel_close(k->kernel);
    tw_mega_free(p->vm, p);
    free(p->launches);
    tw_arena_free(&p->arena);
    free(p);
}

static tw_status launch_all(tw_prefill *p, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < p->n_launches && st == TW_OK; i++) st = tw_gpu_launch_run(p->launches[i], NULL, diag);
    return st;
}

/* Captures all launches. They have run before, since what the driver loads lazily cannot be captured. */
static tw_status capture(tw_prefill *p, tw_diag *diag) {
    tw_status st = tw_cuda_capture_begin(p->vm->cuda, diag);
    if (st != TW_OK) return st;
    st = launch_all(p, diag);
    const tw_status end = tw_cuda_capture_end(p->vm->cuda, &p->graph, st == TW_OK ? diag : NULL);
    return st == TW_OK ? end : st;
}

/* Starts a step on a device, as one graph unless it is the first, and waits for its end. */
static tw_status launch_graph(tw_prefill *p, tw_diag *diag) {
    const bool first = !p->graph;
    tw_status st = first ? launch_all(p, diag) : tw_cuda_graph_run(p->vm->cuda, p->graph, diag);
    if (st == TW_OK) st = tw_cuda_sync(p->vm->cuda, diag);
    return st == TW_OK && first ? capture(p, diag) : st;
}

tw_status tw_prefill_run(tw_prefill *p, const int32_t *tokens, int64_t n, int64_t pos, int64_t length, tw_diag *diag) {
    tw_cuda_vm *vm = p->vm;
    if (n < 1 || n > p->s->tokens || pos < 0 || pos + n > p->s->max_seq)
        return tw_fail(diag, TW_ERR_USAGE, "positions %lld..%lld do not fit a step of %lld within %lld", (long long)pos,
                       (long long)(pos + n), (long long)p->s->tokens, (long long)p->s->max_seq);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vm->m->vocab)
            return tw_fail(diag, TW_ERR_USAGE, "token %d is not within 0..%lld", tokens[i],
                           (long long)vm->m->vocab - 1);
    p->step[TW_STEP_ZERO] = 0;
    p->step[TW_STEP_COUNT] = (int32_t)n;
    p->step[TW_STEP_POS] = (int32_t)pos;
    p->step[TW_STEP_LENGTH] = (int32_t)(pos + n);
    memcpy(p->step + TW_STEP_TOKENS, tokens, (size_t)n * sizeof *tokens);
    tw_status st = tw_mega_make_angles(vm, p->s->max_seq, pos, n, length, diag);
    if (st == TW_OK)
        st = tw_mega_write(vm, p->memory.step, p->step, (size_t)(TW_STEP_TOKENS + n) * sizeof *p->step, diag);
    if (st != TW_OK) return st;
    return vm->cuda ? launch_graph(p, diag) : launch_all(p, diag);
}

void tw_prefill_explain(const tw_prefill *p, char *out, size_t size) {
    size_t n = 0;
    if (size) *out = 0;
    for (const tw_prefill_kernel *k = p->kernels; k && n < size; k = k->next) {
        tw_gpu_kernel_info info;
        tw_gpu_kernel_describe(k->kernel, &info);
        n += (size_t)snprintf(out + n, size - n, "%s %s\n", info.problem, info.configuration);
    }
}
