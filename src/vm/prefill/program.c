/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and running a prompt's program. */
#define _POSIX_C_SOURCE 200809L
#include "vm/prefill/program.h"

#include "base/diag.h"
#include "base/divide.h"
#include "kernels/parts/argmax.h"
#include "vm/routing.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is covered */

/* Returns what of a model the kernels do not run, in words. NULL: they run all of it. */
static const char *lacking(const tw_cuda_vm *vm) {
    const tw_model *m = vm->m;
    const int64_t sizes[] = {m->dim, m->ffn_dim, m->n_heads * m->head_dim, m->n_kv_heads * m->head_dim, m->expert_dim};
    if (vm->target->sm != 90) return "targets without products by warpgroups";
    if (m->head_dim % TW_MEGA_ROWS || m->head_dim > TW_PREFILL_HEAD) return "heads of this size";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] % TW_MEGA_ROWS) return "matrices whose rows 8 does not divide";
    if (m->dim > TW_PREFILL_ROW) return "rows of this length";
    return NULL;
}

bool tw_prefill_covers(const tw_cuda_vm *vm) {
    return !lacking(vm);
}

enum { MOST_DRAWN = 1 << 20 /* Ids, the most that a draw on the device tells apart. */ };

/* Tells whether two schedules of a worker have the same instructions of the same matrices, whatever their rows. */
static bool same_list(const tw_schedule *a, const tw_schedule *b) {
    const tw_worker *v = &a->workers[0], *w = &b->workers[0];
    if (b->n_workers != 1 || v->count != w->count || a->max_seq != b->max_seq) return false;
    for (int i = 0; i < v->count; i++) {
        if (v->list[i].op != w->list[i].op) return false;
        for (int o = 0; o < TW_MAX_OPERANDS; o++) {
            const int x = v->list[i].operand[o], y = w->list[i].operand[o];
            if ((x < 0) != (y < 0) || (x >= 0 && strcmp(a->buffers[x].name, b->buffers[y].name) != 0)) return false;
        }
    }
    return true;
}

static tw_status covered(const tw_prefill *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    const char *why = lacking(p->vm);
    if (s->n_workers != 1 || s->sequences != 1) why = "schedules of several workers or sequences";
    if (p->options.many && !same_list(s, tw_checked_schedule(p->options.many))) why = "schedules of different lists";
    if (p->sequences > TW_MANY_SEQUENCES) why = "so many sequences";
    if (p->sequences > 1 && p->vm->m->vocab > MOST_DRAWN) why = "many sequences with a vocabulary of this size";
    int heads = 0;
    for (int i = 0; i < s->workers[0].count && !why; i++) {
        const tw_instr *in = &s->workers[0].list[i];
        const bool raw = in->op == TW_INSTR_QKV && in->operand[TW_QKV_RAW_K] >= 0;
        if (raw != tw_model_norms_apart(p->vm->m) && in->op == TW_INSTR_QKV) why = "norms of heads in other places";
        if (raw && (i + 1 == s->workers[0].count || in[1].op != TW_INSTR_TURN)) why = "keys that are not normed next";
        heads += in->op == TW_INSTR_HEAD && !in->param[TW_FROM] && in->param[TW_TO] == p->vm->m->vocab;
        if (in->op != TW_INSTR_ATTEND) continue;
        const int64_t attended = in->param[TW_ATTEND_HEAD_TO] - in->param[TW_ATTEND_HEAD_FROM];
        if (in->param[TW_ATTEND_SPLITS] != 1 || attended != p->vm->m->n_heads) why = "attention that is dealt out";
    }
    if (!why && heads != 1) why = "heads in parts";
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
enum { NEEDS = 22 };

bool tw_prefill_gates_apart(const tw_model *m, bool biases) {
    const bool gated = m->layers[0].gate.weight.rows || m->layers[0].experts;
    return m->activation == TW_ACT_RELU || (gated && biases);
}

/* Returns the most rows of what is computed at once. */
static int64_t most_rows(const tw_prefill *p) {
    const int64_t ends = p->sequences > 1 ? tw_prefill_many_ends(p, p->sequences) : 1;
    return p->rows > ends ? p->rows : ends;
}

int64_t tw_prefill_route_bytes(const tw_prefill *p) {
    return tw_ceil_div(most_rows(p) * p->vm->m->n_experts_used * 8, 16) * 16;
}

static void count(tw_prefill *p, need out[NEEDS]) {
    const tw_model *m = p->vm->m;
    const bool many = p->sequences > 1;
    const int64_t ends = many ? tw_prefill_many_ends(p, p->sequences) : 1, T = most_rows(p);
    const int64_t es = tw_prefill_bytes(p->type), heads = m->n_heads * m->head_dim;
    int64_t sums = (m->n_heads + 2 * m->n_kv_heads) * m->head_dim;
    for (int64_t i = 0; i < m->n_layers; i++)
        if (tw_prefill_gates_apart(m, m->layers[i].gate.bias.rows || m->layers[i].up.bias.rows) &&
            sums < 2 * m->ffn_dim)
            sums = 2 * m->ffn_dim;
    if (sums < m->dim) sums = m->dim;
    const int64_t pairs = T * m->n_experts_used;
    if (sums < m->n_experts_used * m->dim) sums = m->n_experts_used * m->dim;
    tw_prefill_memory *to = &p->memory;
    const int64_t words = many ? TW_TAIL_WORDS + TW_MANY_ROWS + TW_ROW_WORDS * T : TW_STEP_TAIL + TW_STEP_TOKENS + T;
    const need all[NEEDS] = {{&to->step, "step", words * 4},
                             {&to->x, "x", T * m->dim * 4},
                             {&to->normed, "normed", T * m->dim * es},
                             {&to->squares, "squares", T * (m->dim / 8) * 4},
                             {&to->sums, "sums", T * sums * 4},
                             {&to->parts, "parts", tw_prefill_parts_bytes(p, T)},
                             {&to->q, "q", T * heads * es},
                             {&to->attended, "attended", T * heads * es},
                             {&to->h, "h", T * m->ffn_dim * es},
                             {&to->scores, "scores", T * m->n_experts * 4},
                             {&to->route, "route", m->n_layers * tw_prefill_route_bytes(p)},
                             {&to->ends, "ends", m->n_experts * 4},
                             {&to->rows, "rows", pairs * 4},
                             {&to->places, "places", pairs * 4},
                             {&to->factors, "factors", pairs * 4},
                             {&to->gathered, "gathered", pairs * m->dim * es},
                             {&to->chosen, "chosen", pairs * m->expert_dim * es},
                             {&to->head_factors, "head_factors", m->qk_norm_whole ? T * 8 : 0},
                             {&to->tail_x, "tail_x", ends * m->dim * 4},
                             {&to->tail_q, "tail_q", ends * heads * es},
                             {&to->logits, "logits", m->vocab * 4},
                             {&to->cells, "cells", tw_prefill_head_blocks(m) * TW_ARGMAX_BYTES}};
    memcpy(out, all, sizeof all);
}

static tw_status fits(const tw_prefill *p, int64_t bytes, tw_diag *diag) {
    int64_t available = p->vm->options.memory_limit;
    tw_status st = TW_OK;
    const int64_t taken = tw_memory_sum(&p->vm->loaded);
    if (available)
        available = available > taken ? available - taken : 1;
    else if (p->vm->cuda)
        st = tw_cuda_available(p->vm->cuda, &available, diag);
    if (st != TW_OK || !available || bytes <= available) return st;
    return tw_fail(diag, TW_ERR_MEMORY, "prompts of %lld positions a step need %lld bytes, and there are %lld",
                   (long long)p->rows, (long long)bytes, (long long)available);
}

/* Allocates activations. Products read whole tiles of rows, also of rows that no step has written, so all is zero. */
static tw_status allocate(tw_prefill *p, tw_diag *diag) {
    need all[NEEDS];
    int64_t bytes = 0;
    count(p, all);
    for (int i = 0; i < NEEDS; i++) bytes += all[i].bytes;
    bytes += tw_prefill_many_bytes(p);
    tw_status st = fits(p, bytes, diag);
    for (int i = 0; i < NEEDS && st == TW_OK; i++) st = tw_prefill_alloc(p, all[i].name, all[i].bytes, all[i].to, diag);
    /* Steps of one sequence have a shorter tail, before the same words. */
    p->memory.step += 4 * (uint64_t)tw_prefill_tail_words(p->sequences > 1);
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

/* Returns the words of a tail and a step before the next ones in host memory. */
static int64_t step_words(const tw_prefill *p) {
    return TW_STEP_TAIL + TW_STEP_TOKENS + p->s->tokens;
}

/* Allocates what host and device share. */
static tw_status allocate_shared(tw_prefill *p, tw_diag *diag) {
    const size_t steps = (size_t)tw_ceil_div(p->s->max_seq, p->s->tokens), vocab = (size_t)p->vm->m->vocab;
    const size_t words = steps * (size_t)step_words(p);
    void *host[3] = {NULL};
    uint64_t unused;
    tw_status st = tw_mega_alloc_shared(p->vm, p, "token", sizeof(int32_t), &host[0], &p->memory.token, diag);
    p->said = host[0];
    if (p->vm->emu) {
        p->steps = tw_arena_array(&p->arena, words, sizeof *p->steps);
        p->logits = tw_arena_array(&p->arena, vocab, sizeof *p->logits);
        return st == TW_OK && p->arena.failed ? tw_fail_memory(diag) : st;
    }
    if (st == TW_OK) st = tw_mega_alloc_shared(p->vm, p, "steps", words * sizeof *p->steps, &host[1], &unused, diag);
    if (st == TW_OK) st = tw_mega_alloc_shared(p->vm, p, "host", vocab * sizeof *p->logits, &host[2], &unused, diag);
    p->steps = host[1];
    p->logits = host[2];
    return st;
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
    if (st == TW_OK) st = allocate_shared(p, diag);
    if (st == TW_OK) st = tw_prefill_find_matrices(p, diag);
    if (st == TW_OK && p->sequences > 1) st = tw_prefill_many_open(p, diag);
    /* From now on they have an address. */
    return st == TW_OK ? tw_mega_make_angles(vm, p->s->max_seq, 0, 1, 1, diag) : st;
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
    p->sequences = options->many ? tw_checked_schedule(options->many)->sequences : 1;
    p->rows = p->sequences > 1 && options->rows > p->s->tokens ? options->rows : p->s->tokens;
    if (p->rows < p->sequences) p->rows = p->sequences;
    const tw_status st = open_program(p, decode, diag);
    if (st == TW_OK)
        *out = p;
    else
        tw_prefill_close(p);
    return st;
}

/* Frees all launches and kernels. */
static void forget(tw_prefill *p) {
    /* Steps whose tokens nobody waited for may still run. */
    if (p->vm->cuda && p->flights.begun > p->flights.ended) tw_cuda_sync(p->vm->cuda, NULL);
    p->flights.ended = p->flights.begun;
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
    free(p->lists);
    tw_mega_free(p->vm, p);
    tw_arena_free(&p->arena);
    free(p);
}

/* Returns the positions of the list for a step of n: the least that is enough. Tiles have 64 or 128 rows, so that lists
   in finer steps would save no work. Every list has kernels of its own, so that few are better where rows are many. */
int64_t tw_prefill_list_tokens(const tw_prefill *p, int64_t n) {
    enum { LEAST = 16, FEW = 32, SOME = 64, MANY = 128, MOST = 256, FROM = 512, LONG = 4096 };
    const int64_t step = n <= LEAST ? LEAST : n <= FEW ? FEW : n <= FROM ? SOME : n <= LONG ? MANY : MOST;
    const int64_t enough = tw_ceil_div(n, step) * step;
    return enough < p->rows ? enough : p->rows;
}

/* Returns the positions that the sequence of a step's list may reach: few values, from which attention chooses in how
   many parts to read them. */
static int64_t list_keys(const tw_prefill *p, int64_t n, int64_t pos) {
    static const int64_t all[] = {1024, 4096};
    enum { LEAST = 256 };
    int64_t keys = p->s->max_seq;
    if (!pos) keys = tw_prefill_list_tokens(p, n) > LEAST ? tw_prefill_list_tokens(p, n) : LEAST;
    for (int i = 1; i >= 0 && pos; i--)
        if (pos + n <= all[i]) keys = all[i];
    return keys < p->s->max_seq ? keys : p->s->max_seq;
}

/* Finds the list for a step of n positions from `pos` on, or makes it. */
static tw_status list_for(tw_prefill *p, int64_t n, int64_t pos, bool ends, tw_prefill_list **out, tw_diag *diag) {
    tw_prefill_list wanted = {.tokens = tw_prefill_list_tokens(p, n), .keys = list_keys(p, n, pos), .ends = ends};
    wanted.masked = p->options.masked && wanted.tokens >= p->options.masked && n < wanted.tokens;
    return tw_prefill_list_find(p, &wanted, out, diag);
}

/* Returns the positions of the step that begins at `done` of n. */
static int64_t step_of(const tw_prefill *p, int64_t done, int64_t n) {
    return n - done < p->s->tokens ? n - done : p->s->tokens;
}

tw_status tw_prefill_warm(tw_prefill *p, int64_t n, int64_t pos, tw_diag *diag) {
    tw_prefill_list *list;
    tw_status st = TW_OK;
    for (int64_t done = 0, k; done < n && st == TW_OK; done += k) {
        k = step_of(p, done, n);
        st = list_for(p, k, pos + done, done + k == n, &list, diag);
    }
    return st;
}

static tw_status check(const tw_prefill *p, int64_t sequence, const tw_vm_step *step, tw_diag *diag) {
    if (sequence < 0 || sequence >= p->decode->s->sequences)
        return tw_fail(diag, TW_ERR_USAGE, "sequence %lld is not within 0..%lld", (long long)sequence,
                       (long long)p->decode->s->sequences - 1);
    if (step->n < 1 || step->pos < 0 || step->pos + step->n > p->s->max_seq)
        return tw_fail(diag, TW_ERR_USAGE, "positions %lld..%lld do not fit within %lld", (long long)step->pos,
                       (long long)(step->pos + step->n), (long long)p->s->max_seq);
    for (int64_t i = 0; i < step->n; i++)
        if (step->tokens[i] < 0 || step->tokens[i] >= p->vm->m->vocab)
            return tw_fail(diag, TW_ERR_USAGE, "token %d is not within 0..%lld", step->tokens[i],
                           (long long)p->vm->m->vocab - 1);
    return TW_OK;
}

/* Writes the words of n rows of a sequence from `pos` on. The other sequences have no rows. */
static void write_words(const tw_prefill *p, int32_t *words, int64_t sequence, int64_t n, int64_t pos) {
    memset(words, 0, TW_STEP_TOKENS * sizeof *words);
    words[TW_STEP_COUNT] = (int32_t)n;
    words[TW_STEP_POS] = (int32_t)pos;
    words[TW_STEP_HEAD] = (int32_t)(sequence * p->vm->m->n_kv_heads);
    for (int64_t i = sequence; i < TW_CUDA_VM_TOKENS; i++) words[TW_STEP_STARTS + 1 + i] = (int32_t)n;
    words[TW_STEP_LENGTHS + sequence] = (int32_t)(pos + n);
}

/* Sends the words of step number `number`, which has n positions of a sequence from `pos` on, and of its tail. */
static tw_status send(tw_prefill *p, int64_t number, int64_t sequence, const int32_t *tokens, int64_t n, int64_t pos,
                      tw_diag *diag) {
    int32_t *tail = p->steps + number * step_words(p), *words = tail + TW_STEP_TAIL;
    const size_t bytes = (size_t)(TW_STEP_TAIL + TW_STEP_TOKENS + n) * sizeof *words;
    write_words(p, tail, sequence, 1, pos + n - 1);
    memset(tail + TW_STEP_TOKENS, 0, (TW_STEP_TAIL - TW_STEP_TOKENS) * sizeof *tail);
    tail[TW_STEP_TOKENS] = (int32_t)n - 1;
    write_words(p, words, sequence, n, pos);
    memcpy(words + TW_STEP_TOKENS, tokens, (size_t)n * sizeof *tokens);
    const uint64_t to = p->memory.step - 4 * TW_STEP_TAIL;
    if (p->vm->emu) return tw_mega_write(p->vm, to, tail, bytes, diag);
    return tw_cuda_send(p->vm->cuda, to, tail, bytes, diag);
}

/* Waits for the token. Looks at the stream report faults of the kernels. */
static tw_status hear(tw_prefill *p, int32_t *token, tw_diag *diag) {
    enum { LOOK = 1 << 14 };
    if (p->vm->emu) return tw_mega_read(p->vm, token, p->memory.token, sizeof *token, diag);
    bool over = false;
    for (int polls = 1; (*token = atomic_load_explicit(p->said, memory_order_acquire)) < 0; polls++) {
        if (over) return tw_fail(diag, TW_ERR_IO, "a prompt ended without a token");
        const tw_status st = polls % LOOK ? TW_OK : tw_cuda_look(p->vm->cuda, &over, diag);
        if (st != TW_OK) return st;
        __builtin_ia32_pause();
    }
    return TW_OK;
}

/* Waits for a step of n positions from `pos` on, and enters its choices of experts. A tail's row is the step's last. */
static tw_status read_routes(tw_prefill *p, const tw_prefill_list *list, tw_routing *r, int64_t n, int64_t pos,
                             tw_diag *diag) {
    const int tail = tw_prefill_tail(p->s);
    const tw_worker *w = &p->s->workers[0];
    if (r->told) return tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: kernels follow no choices of experts");
    float *route = malloc((size_t)(n * 2 * r->used) * sizeof *route);
    tw_status st = route ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK && p->vm->cuda) st = tw_cuda_sync(p->vm->cuda, diag);
    for (int i = 0; i < w->count && st == TW_OK; i++) {
        const int64_t layer = tw_routing_layer(p->s, w, &w->list[i]), rows = i < tail ? n : 1;
        if (layer < 0 || (i >= tail && !list->ends)) continue;
        const uint64_t from = p->memory.route + (uint64_t)(layer * tw_prefill_route_bytes(p));
        st = tw_mega_read(p->vm, route, from, (size_t)(rows * 2 * r->used) * sizeof *route, diag);
        if (st == TW_OK) tw_routing_enter(r, layer, pos + n - rows, rows, route);
    }
    free(route);
    return st;
}

/* Begins all steps of a run. The host waits for none of them, unless it is to know their choices. */
static tw_status begin(tw_prefill *p, int64_t sequence, const tw_vm_step *step, bool ends, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int64_t done = 0, number = 0, k; done < step->n && st == TW_OK; done += k, number++) {
        tw_prefill_list *list = NULL;
        const int64_t pos = step->pos + done;
        k = step_of(p, done, step->n);
        st = list_for(p, k, pos, ends && done + k == step->n, &list, diag);
        if (st == TW_OK) st = send(p, number, sequence, step->tokens + done, k, pos, diag);
        if (st == TW_OK) st = tw_prefill_list_run(p, list, diag);
        if (st == TW_OK && step->routing) st = read_routes(p, list, step->routing, k, pos, diag);
    }
    return st;
}

/* Captures all lists of a run, which is over. */
static void capture(tw_prefill *p, const tw_vm_step *step, bool ends) {
    for (int64_t done = 0, k; done < step->n; done += k) {
        tw_prefill_list *list = NULL;
        k = step_of(p, done, step->n);
        if (list_for(p, k, step->pos + done, ends && done + k == step->n, &list, NULL) == TW_OK)
            tw_prefill_list_capture(p, list);
    }
}

tw_status tw_prefill_run(tw_prefill *p, int64_t sequence, tw_vm_step *step, bool ends, tw_diag *diag) {
    const int64_t length = step->length ? step->length : step->pos + step->n;
    tw_status st = check(p, sequence, step, diag);
    if (st == TW_OK) st = tw_mega_make_angles(p->vm, p->s->max_seq, step->pos, step->n, length, diag);
    if (st != TW_OK) return st;
    if (p->said) atomic_store_explicit(p->said, -1, memory_order_relaxed);
    st = begin(p, sequence, step, ends, diag);
    /* Even after a failure the device may still read the words of steps. */
    if (p->vm->cuda && (st != TW_OK || !ends)) {
        const tw_status over = tw_cuda_sync(p->vm->cuda, st == TW_OK ? diag : NULL);
        if (st == TW_OK) st = over;
    }
    if (st == TW_OK && ends) st = hear(p, &step->token, diag);
    if (st == TW_OK && ends && !step->no_logits)
        st = tw_mega_read(p->vm, p->logits, p->memory.logits, (size_t)p->vm->m->vocab * sizeof *p->logits, diag);
    step->logits = ends && !step->no_logits ? p->logits : NULL;
    if (st == TW_OK) capture(p, step, ends);
    return st;
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
