/* SPDX-License-Identifier: Apache-2.0 */
/* Products of all positions of a step. Where the number of rows is known on the device alone, they are products of one
   group, whose count of rows is the step's. */
#include "base/diag.h"
#include "kernels/gemm/estimate.h"
#include "vm/prefill/program.h"
#include "vm/prefill/qkv.h"

#include <stdio.h>
#include <string.h>

/* The best configuration so far. */
typedef struct choice {
    const tw_prefill *p;
    const tw_gemm_problem *problem;
    const tw_prefill_shape *rope; /* What the product also does. NULL: nothing. */
    tw_gemm_config best;
    double time; /* Its estimated time. 1e30: there is none yet. */
} choice;

/* Takes a configuration with as many stages as possible, if it is legal and estimated to be faster. */
static void consider(choice *o, tw_gemm_config c) {
    static const int stages[] = {8, 6, 5, 4, 3, 2};
    c.ns = c.nl;
    if (o->rope && !tw_prefill_qkv_fits(o->rope, &c)) return;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        c.stages = stages[i];
        if (!tw_gemm_legal(o->problem, &c, o->p->gpu.target, NULL, NULL)) continue;
        const double time = tw_gemm_estimate(o->problem, &c, &o->p->info);
        if (time >= o->time) return;
        o->best = c;
        o->time = time;
        return;
    }
}

/* Considers the ways to share a tile's work: splits of k, and persistent blocks. */
static void consider_tile(choice *o, tw_gemm_config c) {
    static const int splits[] = {1, 2, 3, 4, 6, 8};
    if (o->problem->addends) {
        c.kg = (int)o->problem->addends;
        consider(o, c);
        return;
    }
    for (size_t i = 0; i < sizeof splits / sizeof *splits && !o->problem->groups; i++) {
        c.kg = splits[i];
        consider(o, c);
    }
    c.kg = 1;
    c.persistent = o->p->info.sms;
    for (int way = 0; way < 6; way++) {
        c.stream = way % 3 == 1 ? TW_GEMM_STREAM_REST : TW_GEMM_WHOLE;
        c.pingpong = way % 3 == 2;
        c.staged = way < 3 ? TW_GEMM_EXCHANGED : TW_GEMM_DIRECT;
        consider(o, c);
    }
}

/* Chooses a product's configuration by estimates. */
static bool estimate(const tw_prefill *p, const tw_gemm_problem *problem, const tw_prefill_shape *rope,
                     tw_gemm_config *out) {
    static const int rows[] = {64, 128, 256}, columns[] = {16, 32, 64, 96, 128, 192, 256};
    const tw_gemm_config plain = {
        .mma = 2, .ms = 64, .u = 64, .ks = 1, .kl = 1, .kg = 1, .vec = 16, .frag = 16, .group = 8};
    choice o = {.p = p, .problem = problem, .rope = rope, .time = 1e30};
    for (int swap = 0; swap < 2; swap++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t j = 0; j < sizeof columns / sizeof *columns; j++) {
                tw_gemm_config c = plain;
                c.swap = swap;
                c.ml = rows[i];
                c.nl = columns[j];
                /* Stages are whole blocks of a tape, or halves. */
                if (problem->type == TW_GEMM_TF32X3 || problem->tape.blocks % 2) c.u = 32;
                consider_tile(&o, c);
            }
    *out = o.best;
    return o.time < 1e30;
}

/* Chooses when a product begins. The weights on tapes are constant: the first of them may come while the kernel before
   is not over. */
static int start_of(const tw_gemm_problem *problem, const tw_gemm_config *c) {
    if (c->mma != 2) return TW_GEMM_LATE;
    return problem->weights && !problem->groups ? TW_GEMM_AHEAD : TW_GEMM_EARLY;
}

/* Chooses a product's configuration: the artefact's, or a tile that was measured, or one by estimates. */
static tw_status choose(tw_prefill *p, const char *words, const tw_prefill_shape *rope, char *out, size_t size,
                        tw_diag *diag) {
    char copy[TW_PLAN_TEXT];
    tw_gemm_problem problem;
    tw_gemm_config c;
    snprintf(copy, sizeof copy, "%s", words);
    const tw_status st = tw_gemm_problem_parse(&problem, copy, diag);
    if (st != TW_OK) return st;
    const bool chosen = tw_prefill_chosen(p, &problem, &c) && (!rope || tw_prefill_qkv_fits(rope, &c));
    if (!chosen && !tw_prefill_tile(&problem, rope, p->gpu.target, p->info.sms, &c) && !estimate(p, &problem, rope, &c))
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "prompts: no kernel computes \"%s\"", words);
    c.early = start_of(&problem, &c);
    tw_gemm_config_print(&c, out, size);
    return TW_OK;
}

/* Allocates what a kernel needs beside its matrices. */
static tw_status allocate(tw_prefill *p, tw_prefill_kernel *k, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < tw_gpu_kernel_buffers(k->kernel) && st == TW_OK; i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k->kernel, i);
        uint64_t *to = !strcmp(b->name, "workspace")  ? &k->workspace
                       : !strcmp(b->name, "counters") ? &k->counters
                                                      : NULL;
        if (to) st = tw_prefill_alloc(p, b->name, (int64_t)b->bytes, to, diag);
    }
    return st;
}

static tw_prefill_kernel *find(const tw_prefill *p, const char *words) {
    tw_prefill_kernel *k = p->kernels;
    while (k && (!k->words || strcmp(k->words, words) != 0)) k = k->next;
    return k;
}

/* Opens a kernel by its words. `problem` is what they describe where a product also rotates; otherwise it is NULL. */
static tw_status open_new(tw_prefill *p, const char *words, const char *configuration, const tw_prefill_qkv *problem,
                          tw_prefill_kernel **out, tw_diag *diag) {
    tw_prefill_kernel *k = tw_arena_alloc(&p->arena, sizeof *k);
    const char *kept = tw_arena_strdup(&p->arena, words);
    if (p->arena.failed) return tw_fail_memory(diag);
    memset(k, 0, sizeof *k);
    const tw_status st = problem ? tw_kernel_open_made(&k->kernel, &p->gpu, tw_prefill_qkv_make, problem, diag)
                                 : tw_gpu_kernel_open(&k->kernel, &p->gpu, words, configuration, diag);
    if (st != TW_OK) return st;
    k->words = kept;
    k->next = p->kernels;
    *out = p->kernels = k;
    return allocate(p, k, diag);
}

tw_status tw_prefill_open_words(tw_prefill *p, const char *words, const char *configuration, tw_prefill_kernel **out,
                                tw_diag *diag) {
    *out = find(p, words);
    return *out ? TW_OK : open_new(p, words, configuration, NULL, out, diag);
}

/* Opens the kernel of a product's words. `rope` is what it also does (tw_prefill_qkv). NULL: it is a product alone.
   TW_ERR_UNSUPPORTED: there is none. */
static tw_status open_product(tw_prefill *p, const char *words, const tw_prefill_shape *rope, tw_prefill_kernel **out,
                              tw_diag *diag) {
    char configuration[TW_PLAN_TEXT], all[TW_PLAN_TEXT];
    snprintf(all, sizeof all, "%s %s", rope ? "qkv" : "gemm", words);
    *out = find(p, all);
    if (*out) return TW_OK;
    const tw_status st = choose(p, words, rope, configuration, sizeof configuration, diag);
    if (st != TW_OK || !rope) return st == TW_OK ? tw_prefill_open_words(p, all, configuration, out, diag) : st;
    tw_prefill_qkv problem = {.words = words, .configuration = configuration};
    memcpy(&problem.shape, rope, sizeof *rope);
    return open_new(p, all, configuration, &problem, out, diag);
}

int64_t tw_prefill_vectors(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_kernel *k) {
    int64_t n = 0;
    for (int i = 0; i < tw_gpu_kernel_buffers(k->kernel); i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k->kernel, i);
        if (!strcmp(b->name, "squares")) n = (int64_t)(b->bytes / sizeof(float)) / list->tokens;
    }
    return n <= p->vm->m->dim / 8 ? n : 0;
}

/* Allocates the unpacked matrix, which must have room for any. */
static tw_status allocate_matrix(tw_prefill *p, tw_diag *diag) {
    int64_t most = 0;
    if (p->memory.matrix) return TW_OK;
    for (int i = 0; i < p->s->workers[0].count; i++) {
        const int64_t elements = p->matrices[i].rows * p->matrices[i].columns;
        most = elements > most ? elements : most;
    }
    if (p->sequences > 1 && p->head.rows * p->head.columns > most) most = p->head.rows * p->head.columns;
    return tw_prefill_alloc(p, "matrix", most * tw_prefill_bytes(p->type), &p->memory.matrix, diag);
}

/* Writes the words of a product of the matrix. */
static void words_of(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix,
                     const char *epilogue, bool tapes, char *out, size_t size) {
    const tw_prefill_shape *s = &matrix->shape;
    const char *type = p->type == TW_T_f32 ? "tf32x3" : tw_type_name(p->type);
    const int64_t experts = matrix->groups, used = p->vm->m->n_experts_used;
    enum { FEW = 8 /* Rows of tiles that lack none worth mentioning. */ };
    char groups[48] = "";
    if (experts)
        snprintf(groups, sizeof groups, "groups=%lld", (long long)experts);
    else if (list->masked)
        snprintf(groups, sizeof groups, "groups=1 masked=1");
    else if (list->tokens > FEW && matrix != &p->head)
        snprintf(groups, sizeof groups, "rows_a=%lld", (long long)tw_prefill_most_rows(p));
    const int n = snprintf(out, size, "type=%s m=%lld n=%lld k=%lld tb=1 %s %s", type,
                           (long long)(experts ? list->tokens * used : list->tokens),
                           (long long)(experts ? matrix->rows / experts : matrix->rows), (long long)matrix->columns,
                           groups, epilogue);
    if (tapes && n >= 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, " weights=1 tape=%dx%dx%d%s", s->warps, s->blocks, s->run,
                 s->chunks ? "a" : "");
}

static bool on_tapes(const tw_prefill *p, const tw_prefill_matrix *matrix) {
    const tw_dtype t = matrix->shape.format.dtype;
    return !p->options.unpack && (t == TW_F16 || t == TW_BF16);
}

tw_status tw_prefill_open_product(tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix,
                                  const char *epilogue, const tw_prefill_shape *rope, tw_prefill_kernel **out,
                                  bool *reads_tapes, tw_diag *diag) {
    char words[TW_PLAN_TEXT - 8];
    *reads_tapes = on_tapes(p, matrix);
    if (*reads_tapes) {
        words_of(p, list, matrix, epilogue, true, words, sizeof words);
        const tw_status st = open_product(p, words, rope, out, diag);
        if (st != TW_ERR_UNSUPPORTED) return st;
        *reads_tapes = false;
    }
    words_of(p, list, matrix, epilogue, false, words, sizeof words);
    const tw_status st = allocate_matrix(p, diag);
    return st == TW_OK ? open_product(p, words, rope, out, diag) : st;
}
