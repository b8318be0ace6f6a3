/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and running a prompt's program. */
#define _POSIX_C_SOURCE 200809L
#include "vm/prefill/program.h"

#include "base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASKED = 1024 /* From so many positions on, products leave out rows that a step does not have. */ };

/* ---- what is covered */

/* Returns what of a model the kernels do not run, in words. NULL: they run all of it. */
static const char *lacking(const tw_cuda_vm *vm) {
    const tw_model *m = vm->m;
    const int64_t sizes[] = {m->dim, m->ffn_dim, m->n_heads * m->head_dim, m->n_kv_heads * m->head_dim, m->expert_dim};
    if (vm->target->sm != 90) return "targets without products by warpgroups";
    if (m->head_dim % TW_MEGA_ROWS || m->head_dim > TW_PREFILL_HEAD) return "heads of this size";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] % TW_MEGA_ROWS) return "matrices whose rows 8 does not divide";
    return NULL;
}

bool tw_prefill_covers(const tw_cuda_vm *vm) {
    return !lacking(vm);
}

static tw_status covered(const tw_prefill *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    const char *why = lacking(p->vm);
    if (s->n_workers != 1 || s->sequences != 1) why = "schedules of several workers or sequences";
    for (int i = 0; i < s->workers[0].count && !why; i++) {
        const tw_instr *in = &s->workers[0].list[i];
        if (in->op != TW_INSTR_ATTEND) continue;
        const int64_t heads = in->param[TW_ATTEND_HEAD_TO] - in->param[TW_ATTEND_HEAD_FROM];
        if (in->param[TW_ATTEND_SPLITS] != 1 || heads != p->vm->m->n_heads) why = "attention that is dealt out";
    }
    if (p->vm->m->n_experts && p->vm->m->activation == TW_ACT_RELU) why = "experts with ReLU";
    return why ? tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: kernels do not run %s", why) : TW_OK;
}

/* ---- memory */

tw_status tw_prefill_alloc(tw_prefill *p, const char *name, int64_t bytes, uint64_t *address, tw_diag *diag) {
    const size_t n = ((size_t)bytes + 15) / 16 * 16;
    if (!p->vm->cuda) return tw_mega_alloc_zeros(p->vm, p, name, n, address, diag);
    const tw_status st = tw_mega_alloc(p->vm, p, name, NULL, n, false, address, diag);
    return st == TW_OK ? tw_cuda_fill(p->vm->cuda, *address, 0, n / 4, diag) : st;
}

/* A piece of memory, and where its address goes. */
typedef struct need {
    uint64_t *to;
    const char *name;
    int64_t bytes;
} need;
enum { NEEDS = 15 };

bool tw_prefill_gates_apart(const tw_model *m, bool biases) {
    const bool gated = m->layers[0].gate.weight.rows || m->layers[0].experts;
    return m->activation == TW_ACT_RELU || (gated && biases);
}

static void count(tw_prefill *p, need out[NEEDS]) {
    const tw_model *m = p->vm->m;
    const int64_t T = p->s->tokens, es = tw_prefill_bytes(p->type), heads = m->n_heads * m->head_dim;
    int64_t sums = (m->n_heads + 2 * m->n_kv_heads) * m->head_dim;
    for (int64_t i = 0; i < m->n_layers; i++)
        if (tw_prefill_gates_apart(m, m->layers[i].gate.bias.rows || m->layers[i].up.bias.rows) &&
            sums < 2 * m->ffn_dim)
            sums = 2 * m->ffn_dim;
    const int64_t pairs = T * m->n_experts_used;
    if (sums < m->n_experts_used * m->dim) sums = m->n_experts_used * m->dim;
    tw_prefill_memory *to = &p->memory;
    const need all[NEEDS] = {{&to->step, "step", (TW_STEP_TOKENS + T) * 4},
                             {&to->x, "x", T * m->dim * 4},
                             {&to->normed, "normed", T * m->dim * es},
                             {&to->sums, "sums", T * sums * 4},
                             {&to->q, "q", T * heads * es},
                             {&to->attended, "attended", T * heads * es},
                             {&to->h, "h", T * m->ffn_dim * es},
                             {&to->scores, "scores", T * m->n_experts * 4},
                             {&to->route, "route", pairs * 8},
                             {&to->ends, "ends", m->n_experts * 4},
                             {&to->rows, "rows", pairs * 4},
                             {&to->places, "places", pairs * 4},
                             {&to->factors, "factors", pairs * 4},
                             {&to->gathered, "gathered", pairs * m->dim * es},
                             {&to->chosen, "chosen", pairs * m->expert_dim * es}};
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
    for (int i = 0; i < NEEDS && st == TW_OK; i++) st = tw_prefill_alloc(p, all[i].name, all[i].bytes, all[i].to, diag);
    return st;
}

/* ---- the interface */

/* Describes the device. The emulator stands for one that estimates of products know. */
static void describe(tw_prefill *p) {
    const tw_cuda_info emulated = {
        .name = "NVIDIA H200", .sm = 90, .sms = 132, .clock_khz = 1980000, .target = p->vm->target};
    p->info = p->vm->cuda ? *tw_cuda_describe(p->vm->cuda) : emulated;
    p->gpu.cuda = p->vm->cuda;
    p->gpu.emu = p->vm->emu;
    p->gpu.target = p->vm->target;
}

static tw_status open_program(tw_prefill *p, int decode, tw_diag *diag) {
    tw_cuda_vm *vm = p->vm;
    p->decode = tw_mega_program_of(vm, decode);
    if (!p->decode) return tw_fail(diag, TW_ERR_USAGE, "no such program");
    p->kv = p->decode->plan.kv;
    p->type = tw_prefill_element(vm->m->layers[0].q.weight.dtype);
    describe(p);
    const tw_worker *w = &p->s->workers[0];
    for (int i = 0; i < w->count; i++)
        if (w->list[i].op == TW_INSTR_FFN) p->h = w->list[i].operand[TW_FFN_H];
    tw_status st = covered(p, diag);
    if (st == TW_OK) st = tw_weights_resolve(&p->weights, p->s, vm->m, &p->arena, diag);
    if (st == TW_OK) st = allocate(p, diag);
    if (st == TW_OK) st = tw_prefill_find_matrices(p, diag);
    if (st == TW_OK) st = tw_mega_make_angles(vm, p->s->max_seq, 0, 1, 1, diag); /* From now on they have an address. */
    p->step = tw_arena_array(&p->arena, (size_t)(TW_STEP_TOKENS + p->s->tokens), sizeof *p->step);
    return st == TW_OK && p->arena.failed ? tw_fail_memory(diag) : st;
}

tw_status tw_prefill_open(tw_prefill **out, tw_cuda_vm *vm, int decode, const tw_checked *program,
                          const tw_prefill_options *options, tw_diag *diag) {
    tw_prefill *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return tw_fail_memory(diag);
    p->vm = vm;
    p->s = tw_checked_schedule(program);
    p->h = -1;
    p->options = *options;
    if (!p->options.masked) p->options.masked = MASKED;
    const tw_status st = open_program(p, decode, diag);
    if (st == TW_OK)
        *out = p;
    else
        tw_prefill_close(p);
    return st;
}

/* Frees all launches and kernels. */
static void forget(tw_prefill *p) {
    for (int i = 0; i < p->n_lists; i++) tw_prefill_list_free(&p->lists[i]);
    for (tw_prefill_kernel *k = p->kernels; k; k = k->next) tw_gpu_kernel_close(k->kernel);
    p->n_lists = 0;
    p->kernels = NULL;
}

tw_status tw_prefill_choose(tw_prefill *p, const char *artefact, tw_diag *diag) {
    char *copy = artefact ? strdup(artefact) : NULL;
    if (artefact && !copy) return tw_fail_memory(diag);
    forget(p);
    tw_prefill_forget_artefacts(p);
    free(p->artefact);
    p->artefact = copy;
    return TW_OK;
}

void tw_prefill_close(tw_prefill *p) {
    if (!p) return;
    forget(p);
    tw_prefill_forget_artefacts(p);
    free(p->artefact);
    tw_mega_free(p->vm, p);
    tw_arena_free(&p->arena);
    free(p);
}

/* Returns the positions of the list for a step of n: the least that is enough. */
static int64_t list_tokens(const tw_prefill *p, int64_t n) {
    static const int64_t all[] = {32, 64, 128, 192, 256, 384, 512, 1024, 2048, 4096};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= n && all[i] < p->s->tokens) return all[i];
    return p->s->tokens;
}

/* Finds the list for a step of n positions, or makes it. */
static tw_status list_for(tw_prefill *p, int64_t n, tw_prefill_list **out, tw_diag *diag) {
    const int64_t tokens = list_tokens(p, n);
    for (int i = 0; i < p->n_lists; i++)
        if (p->lists[i].tokens == tokens) {
            *out = &p->lists[i];
            return TW_OK;
        }
    tw_prefill_list *list = *out = &p->lists[p->n_lists];
    *list = (tw_prefill_list){.tokens = tokens, .masked = tokens >= p->options.masked};
    const tw_status st = tw_prefill_list_make(p, list, diag);
    if (st == TW_OK)
        p->n_lists++;
    else
        tw_prefill_list_free(list);
    return st;
}

tw_status tw_prefill_warm(tw_prefill *p, int64_t n, tw_diag *diag) {
    tw_prefill_list *list;
    const int64_t most = p->s->tokens;
    tw_status st = n >= most ? list_for(p, most, &list, diag) : TW_OK;
    return st == TW_OK && n % most ? list_for(p, n % most, &list, diag) : st;
}

static tw_status check(const tw_prefill *p, int64_t sequence, const int32_t *tokens, int64_t n, int64_t pos,
                       tw_diag *diag) {
    if (sequence < 0 || sequence >= p->decode->s->sequences)
        return tw_fail(diag, TW_ERR_USAGE, "sequence %lld is not within 0..%lld", (long long)sequence,
                       (long long)p->decode->s->sequences - 1);
    if (n < 1 || n > p->s->tokens || pos < 0 || pos + n > p->s->max_seq)
        return tw_fail(diag, TW_ERR_USAGE, "positions %lld..%lld do not fit a step of %lld within %lld", (long long)pos,
                       (long long)(pos + n), (long long)p->s->tokens, (long long)p->s->max_seq);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= p->vm->m->vocab)
            return tw_fail(diag, TW_ERR_USAGE, "token %d is not within 0..%lld", tokens[i],
                           (long long)p->vm->m->vocab - 1);
    return TW_OK;
}

/* Writes the words of a step of n positions of a sequence. The other sequences have no rows in it. */
static void set_step(tw_prefill *p, int64_t sequence, const int32_t *tokens, int64_t n, int64_t pos) {
    int32_t *step = p->step;
    memset(step, 0, TW_STEP_TOKENS * sizeof *step);
    step[TW_STEP_COUNT] = (int32_t)n;
    step[TW_STEP_POS] = (int32_t)pos;
    step[TW_STEP_HEAD] = (int32_t)(sequence * p->vm->m->n_kv_heads);
    for (int64_t i = sequence; i < TW_CUDA_VM_TOKENS; i++) step[TW_STEP_STARTS + 1 + i] = (int32_t)n;
    step[TW_STEP_LENGTHS + sequence] = (int32_t)(pos + n);
    memcpy(step + TW_STEP_TOKENS, tokens, (size_t)n * sizeof *tokens);
}

tw_status tw_prefill_run(tw_prefill *p, int64_t sequence, const int32_t *tokens, int64_t n, int64_t pos, int64_t length,
                         tw_diag *diag) {
    tw_prefill_list *list;
    tw_status st = check(p, sequence, tokens, n, pos, diag);
    if (st == TW_OK) st = list_for(p, n, &list, diag);
    if (st == TW_OK) st = tw_mega_make_angles(p->vm, p->s->max_seq, pos, n, length, diag);
    if (st != TW_OK) return st;
    set_step(p, sequence, tokens, n, pos);
    const size_t bytes = (size_t)(TW_STEP_TOKENS + n) * sizeof *p->step;
    st = tw_mega_write(p->vm, p->memory.step, p->step, bytes, diag);
    return st == TW_OK ? tw_prefill_list_run(p, list, diag) : st;
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
