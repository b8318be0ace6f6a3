/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "engine/engine.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/thread.h"
#include "schedule/schedule.h"
#include "tilewright/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CONTEXT = 4096, DEFAULT_PREFILL = 512, DEFAULT_PROMPT = 8192, LEAST_PROMPT = 512, SCORE_TOKENS = 128 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t tw_engine_step_tokens(const tw_engine *e, tw_program_kind kind) {
    if (kind == TW_PROGRAM_PROMPT) return least(e->prompt_tokens, e->context);
    int64_t n = kind == TW_PROGRAM_PREFILL ? e->options.prefill : kind == TW_PROGRAM_SCORE ? SCORE_TOKENS : 1;
    return least(n, least(e->context, e->machine.tokens));
}

static tw_status make_schedule(tw_engine *e, tw_program_kind kind, tw_schedule **out, tw_diag *diag) {
    const tw_engine_options *o = &e->options;
    if (kind == TW_PROGRAM_DECODE && e->given) {
        *out = e->given;
        e->given = NULL;
        return TW_OK;
    }
    tw_lowering l = e->config.lowering;
    l.max_seq = e->context;
    l.weights = o->weights;
    l.group = o->group;
    l.tokens = tw_engine_step_tokens(e, kind);
    l.all_logits = kind == TW_PROGRAM_SCORE;
    const bool decodes = kind == TW_PROGRAM_DECODE || kind == TW_PROGRAM_SHORT;
    if (e->sequences > 1 && decodes) l.sequences = l.tokens = e->sequences;
    e->machine.backend->complete_lowering(&e->machine, &l);
    if (kind == TW_PROGRAM_DECODE && !l.kv_splits) {
        e->short_past = e->machine.backend->short_past(&e->machine, &l);
        if (e->short_past >= e->context) { /* The decode program then serves short pasts too. */
            l.kv_splits = 1;
            e->short_past = 0;
        }
    }
    if (kind == TW_PROGRAM_SHORT) l.kv_splits = 1;
    if (kind == TW_PROGRAM_MANY) l.sequences = l.tokens = e->together;
    if (kind == TW_PROGRAM_PROMPT ||
        kind == TW_PROGRAM_MANY) { /* A list of instructions, each of all rows and heads. */
        l.workers = 1;
        l.kv_splits = l.row_blocks = l.down_splits = 1;
        l.group_heads = false;
        l.head_norms = TW_HEAD_NORMS_QKV;
    }
    return tw_schedule_lower(out, e->model, &l, diag);
}

/* Tells whether prompts are run by kernels, which read the decode program's weights. */
static bool has_prompts(const tw_engine *e) {
    const tw_engine_backend *b = e->machine.backend;
    return !e->no_prompts && b->covers_prompts && b->covers_prompts(&e->machine);
}

/* Checks that decode and prefill fit in memory together, before anything is packed. They share weights and cache. */
static tw_status fits(tw_engine *e, tw_diag *diag) {
    tw_schedule *prefill = NULL;
    tw_status st = make_schedule(e, TW_PROGRAM_PREFILL, &prefill, diag);
    const tw_schedule *both[2] = {tw_checked_schedule(e->checked[TW_PROGRAM_DECODE]), prefill};
    if (st == TW_OK) st = e->machine.backend->fits(&e->machine, both, has_prompts(e) || e->sequences > 1 ? 1 : 2, diag);
    tw_schedule_free(prefill);
    return st;
}

static tw_status load(tw_engine *e, tw_program_kind kind, tw_diag *diag) {
    if (e->program[kind] >= 0) return TW_OK;
    tw_schedule *s = NULL;
    tw_status st = make_schedule(e, kind, &s, diag);
    if (st == TW_OK) st = tw_schedule_check(&e->checked[kind], &s, NULL, diag);
    tw_schedule_free(s);
    int id = -1;
    if (st == TW_OK && kind == TW_PROGRAM_DECODE) st = fits(e, diag);
    const tw_engine_backend *b = e->machine.backend;
    const int decode = e->program[TW_PROGRAM_DECODE];
    if (st == TW_OK && kind == TW_PROGRAM_PROMPT && e->checked[TW_PROGRAM_MANY])
        st = b->load_many(&e->machine, decode, e->checked[kind], e->checked[TW_PROGRAM_MANY],
                          least(e->prompt_tokens, e->together * e->context), diag);
    else if (st == TW_OK && kind == TW_PROGRAM_PROMPT)
        st = b->load_prefill(&e->machine, decode, e->checked[kind], diag);
    else if (st == TW_OK)
        st = b->load(&e->machine, e->checked[kind], &id, diag);
    if (st == TW_OK) {
        e->program[kind] = kind == TW_PROGRAM_PROMPT ? 0 : id;
        return TW_OK;
    }
    tw_checked_free(e->checked[kind]);
    e->checked[kind] = NULL;
    return st;
}

/* Makes the schedule of a position of each of many sequences, of which the program for prompts has the list. */
static tw_status check_many(tw_engine *e, tw_diag *diag) {
    tw_schedule *s = NULL;
    tw_status st = make_schedule(e, TW_PROGRAM_MANY, &s, diag);
    if (st == TW_OK) st = tw_schedule_check(&e->checked[TW_PROGRAM_MANY], &s, NULL, diag);
    tw_schedule_free(s);
    return st;
}

/* Loads the program for prompts, of fewer positions where memory lacks. */
static tw_status load_prompts(tw_engine *e, tw_diag *diag) {
    tw_status st = load(e, TW_PROGRAM_PROMPT, diag);
    while (st == TW_ERR_MEMORY && e->prompt_tokens > LEAST_PROMPT) {
        e->prompt_tokens /= 2;
        st = load(e, TW_PROGRAM_PROMPT, diag);
    }
    return st;
}

static tw_status load_decode(tw_engine *e, tw_diag *diag) {
    tw_status st = load(e, TW_PROGRAM_DECODE, diag);
    if (st == TW_OK && e->together > e->sequences) { /* Its tapes alone are used. */
        e->short_past = 0;
        st = check_many(e, diag);
        if (st == TW_OK) st = load_prompts(e, diag);
        if (st != TW_ERR_UNSUPPORTED) return st;
        /* The program for prompts may still be loaded for one sequence. */
        tw_checked_free(e->checked[TW_PROGRAM_MANY]);
        e->checked[TW_PROGRAM_MANY] = NULL;
        e->together = e->sequences;
        return TW_OK;
    }
    if (st != TW_OK || !e->short_past) return st;
    st = load(e, TW_PROGRAM_SHORT, diag);
    if (st != TW_ERR_UNSUPPORTED && st != TW_ERR_MEMORY) return st;
    e->short_past = 0; /* The decode program decodes at every position. */
    return TW_OK;
}

tw_program_kind tw_engine_decoder(const tw_engine *e, int64_t position) {
    return position < e->short_past ? TW_PROGRAM_SHORT : TW_PROGRAM_DECODE;
}

/* Reads the given schedule, which says how many workers and positions there are. */
static tw_status read_given(tw_engine *e, tw_diag *diag) {
    tw_engine_options *o = &e->options;
    tw_schedule_info info;
    if (!o->schedule) return TW_OK;
    tw_status st = tw_schedule_read(&e->given, o->schedule, diag);
    if (st != TW_OK) return st;
    tw_schedule_describe(e->given, &info);
    if (info.tokens != 1)
        return tw_fail(diag, TW_ERR_USAGE, "%s takes %lld positions a step; a decode schedule takes one", o->schedule,
                       (long long)info.tokens);
    if (o->context && o->context != info.max_seq)
        return tw_fail(diag, TW_ERR_USAGE, "%s is for a context of %lld, not %lld", o->schedule,
                       (long long)info.max_seq, (long long)o->context);
    if (!o->workers) o->workers = info.workers;
    e->context = info.max_seq;
    /* Prompts use the same cache, so its type is the schedule's. */
    for (int i = 0; i < e->given->n_buffers; i++)
        if (e->given->buffers[i].kind == TW_BUFFER_KV) {
            e->config.lowering.kv = e->given->buffers[i].dtype;
            e->config.lowering.exact_kv = true;
        }
    return TW_OK;
}

static void close_machine(tw_engine *e) {
    if (e->machine.backend) e->machine.backend->close(&e->machine);
    e->machine = (tw_machine){0};
}

/* Returns how many sequences the machine decodes together. Angles that change with the length of a sequence are made
   for one. */
static int64_t most_sequences(const tw_engine *e) {
    if (e->given || tw_rope_moves(&e->model->rope)) return 1;
    return e->machine.backend->most_sequences(&e->machine);
}

/* Decides how many sequences run together, by which programs, and has the machine reserve room for their caches. */
static void choose_sequences(tw_engine *e, int64_t sequences) {
    const tw_engine_backend *b = e->machine.backend;
    e->sequences = e->together = least(sequences, most_sequences(e));
    const bool many = b->load_many && has_prompts(e) && !e->given && !tw_rope_moves(&e->model->rope);
    if (!many || sequences <= e->sequences) return;
    e->sequences = 1;
    e->together = least(sequences, TW_ENGINE_SEQUENCES);
    b->reserve(&e->machine, e->together);
}

/* Opens the machine with the decode program. Only loading shows that a GPU's machine does not cover a model, or lacks
   memory. "auto" then goes on to the processor. */
static tw_status open_machine(tw_engine *e, const tw_engine_options *options, int64_t sequences, tw_diag *diag) {
    tw_engine_options o = e->options;
    o.workers = options->workers; /* Only a number of workers that the caller asked for selects the processor. */
    const tw_engine_backend *backends[TW_ENGINE_BACKENDS];
    int n;
    tw_status st = tw_engine_backends(&o, backends, &n, diag);
    for (int i = 0; i < n; i++) {
        close_machine(e);
        e->machine.backend = backends[i];
        st = backends[i]->open(&e->machine, e->model, &o, e->options.workers, diag);
        bool elsewhere = st == TW_ERR_UNSUPPORTED;
        if (st == TW_OK) {
            choose_sequences(e, sequences);
            st = load_decode(e, diag);
            elsewhere = st == TW_ERR_UNSUPPORTED || st == TW_ERR_MEMORY;
        }
        if (!elsewhere) break;
    }
    return st;
}

static void apply_config(tw_engine *e) {
    tw_engine_options *o = &e->options;
    if (o->config) e->config = *o->config;
    o->config = &e->config;
    const tw_lowering *l = &e->config.lowering;
    if (!o->weights) o->weights = l->weights;
    if (!o->group) o->group = l->group;
    if (o->context < 1) o->context = l->max_seq;
    if (o->prefill < 1) o->prefill = l->tokens;
    e->prompt_tokens = o->prefill < 1 ? DEFAULT_PROMPT : o->prefill;
    e->no_prompts = e->config.prompts == TW_PROMPTS_STEPS || o->traced; /* Only the other kernel records. */
    if (o->prefill < 1) o->prefill = DEFAULT_PREFILL;
}

tw_status tw_engine_open(tw_engine **out, const tw_model *model, const tw_engine_options *options, tw_diag *diag) {
    return tw_engine_open_for(out, model, options, 1, diag);
}

tw_status tw_engine_open_for(tw_engine **out, const tw_model *model, const tw_engine_options *options,
                             int64_t sequences, tw_diag *diag) {
    *out = NULL;
    tw_engine *e = calloc(1, sizeof *e);
    if (!e) return tw_fail_memory(diag);
    int cpus[1];
    int cores = tw_allowed_cpus(cpus, 1);
    e->model = model;
    e->options = *options;
    apply_config(e);
    e->context = e->options.context > 0 ? e->options.context : least(model->max_seq, DEFAULT_CONTEXT);
    for (int i = 0; i < TW_PROGRAM_COUNT; i++) e->program[i] = -1;
    tw_status st = read_given(e, diag);
    if (!e->options.workers) e->options.workers = e->config.lowering.workers;
    if (!e->options.workers) e->options.workers = cores;
    if (st == TW_OK && e->context > model->max_seq && model->positions.rows)
        st = tw_fail(diag, TW_ERR_USAGE, "a context of %lld is beyond the model's %lld positions",
                     (long long)e->context, (long long)model->max_seq);
    if (st == TW_OK) st = open_machine(e, options, sequences, diag);
    if (st != TW_OK) {
        tw_engine_close(e);
        return st;
    }
    *out = e;
    return TW_OK;
}

void tw_engine_close(tw_engine *e) {
    if (!e) return;
    close_machine(e);
    tw_schedule_free(e->given);
    for (int i = 0; i < TW_PROGRAM_COUNT; i++) tw_checked_free(e->checked[i]);
    free(e->fed);
    free(e);
}

int64_t tw_engine_context(const tw_engine *e) {
    return e->context;
}
int64_t tw_engine_position(const tw_engine *e) {
    return e->position;
}
int tw_engine_workers(const tw_engine *e) {
    return e->machine.workers;
}
bool tw_engine_on_gpu(const tw_engine *e) {
    return e->machine.backend->gpu;
}
const char *tw_engine_device(const tw_engine *e) {
    return e->machine.backend->name(&e->machine);
}
int64_t tw_engine_tape_bytes(const tw_engine *e) {
    return e->machine.backend->tape_bytes(&e->machine);
}

tw_engine_memory tw_engine_memory_of(const tw_engine *e) {
    return e->machine.backend->memory(&e->machine);
}

static int64_t visible(const tw_layer *y, int64_t position) {
    return y->window ? least(y->window, position + 1) : position + 1;
}

int64_t tw_engine_streamed_bytes(const tw_engine *e, int64_t position) {
    const tw_model *m = e->model;
    int64_t n = e->machine.backend->streamed_bytes(&e->machine), size = (int64_t)tw_dtype_bits(e->machine.kv) / 8;
    for (int64_t i = 0; i < m->n_layers; i++)
        n += 2 * visible(&m->layers[i], position) * m->n_kv_heads * m->head_dim * size;
    return n;
}

double tw_engine_operations(const tw_engine *e, int64_t position, int64_t n) {
    const tw_model *m = e->model;
    double heads = (double)m->n_heads * (double)m->head_dim, kv = (double)m->n_kv_heads * (double)m->head_dim;
    double per = 0, attention = 0, dim = (double)m->dim;
    for (int64_t i = 0; i < m->n_layers; i++) {
        const tw_layer *y = &m->layers[i];
        per += dim * (heads + 2 * kv) + heads * dim;
        if (y->experts)
            per += dim * (double)m->n_experts + 3 * dim * (double)(m->expert_dim * m->n_experts_used);
        else
            per += dim * (double)m->ffn_dim * (y->gate.weight.rows ? 3 : 2);
        for (int64_t t = 0; t < n; t++) attention += 2 * heads * (double)visible(y, position + t);
    }
    return 2 * (per * (double)n + attention + dim * (double)m->vocab);
}

void tw_engine_explain(const tw_engine *e, char *out, size_t size) {
    e->machine.backend->explain(&e->machine, out, size);
}

int tw_engine_products(const tw_engine *e, tw_vm_product *out, int most) {
    const tw_engine_backend *b = e->machine.backend;
    return b->products ? b->products(&e->machine, out, most) : 0;
}

tw_status tw_engine_choose(tw_engine *e, const char *artefact, tw_diag *diag) {
    const tw_engine_backend *b = e->machine.backend;
    if (has_prompts(e)) { /* On a GPU prompts alone have a choice. */
        const tw_status st = load_prompts(e, diag);
        if (st != TW_OK) return st;
    }
    if (!b->choose)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the machine's products have no choice of who computes them");
    return b->choose(&e->machine, artefact, diag);
}

void tw_engine_rewind(tw_engine *e, int64_t position) {
    if (position < e->position) e->position = position > 0 ? position : 0;
}

tw_status tw_engine_load_prompts(tw_engine *e, int64_t n, int64_t pos, bool *loaded, tw_diag *diag) {
    *loaded = false;
    if (!has_prompts(e)) return TW_OK;
    tw_status st = load_prompts(e, diag);
    if (st == TW_OK) st = e->machine.backend->warm_prefill(&e->machine, n, pos, diag);
    *loaded = st == TW_OK;
    e->no_prompts = st != TW_OK;
    return st == TW_ERR_UNSUPPORTED || st == TW_ERR_MEMORY ? TW_OK : st;
}

/* Loads the program for n tokens at once. What a machine of kernels does not cover, or lacks memory for, the one that
   decodes does. */
static tw_status load_for(tw_engine *e, int64_t n, tw_program_kind *kind, tw_diag *diag) {
    *kind = n > 1 && e->machine.tokens > 1 ? TW_PROGRAM_PREFILL : tw_engine_decoder(e, e->position);
    if (n > 1 && has_prompts(e)) {
        bool loaded;
        const tw_status st = tw_engine_load_prompts(e, n, e->position, &loaded, diag);
        if (loaded) *kind = TW_PROGRAM_PROMPT;
        if (loaded || st != TW_OK) return st;
    }
    return load(e, *kind, diag);
}

tw_status tw_engine_warm(tw_engine *e, int64_t n, tw_diag *diag) {
    tw_program_kind kind;
    return load_for(e, n, &kind, diag);
}

tw_status tw_engine_check_fit(const tw_engine *e, int64_t n, tw_diag *diag) {
    if (n < 1) return tw_fail(diag, TW_ERR_USAGE, "nothing to feed: the prompt has no tokens");
    if (n <= e->context - e->position) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE,
                   "%lld tokens do not fit the context of %lld, of which %lld are taken: a larger -c, or a "
                   "shorter prompt",
                   (long long)n, (long long)e->context, (long long)e->position);
}

/* Feeds tokens of a sequence that reaches `length` positions. */
static tw_status feed(tw_engine *e, const int32_t *ids, int64_t n, int64_t length, const float **logits, int32_t *token,
                      tw_diag *diag) {
    tw_program_kind kind = TW_PROGRAM_PREFILL;
    tw_status st = load_for(e, n, &kind, diag);
    const bool prompt = kind == TW_PROGRAM_PROMPT;
    tw_vm_step step = {.program = e->program[kind], .length = length, .routing = e->routing};
    const int64_t room = prompt ? n : tw_engine_step_tokens(e, kind);
    for (int64_t done = 0; done < n && st == TW_OK; done += step.n) {
        step.tokens = ids + done;
        step.n = least(n - done, room);
        step.pos = e->position;
        step.no_logits = !logits || done + step.n < n;
        st = prompt ? e->machine.backend->run_prefill(&e->machine, 0, &step, logits || token, diag)
                    : e->machine.backend->run(&e->machine, &step, diag);
        if (st == TW_OK) e->position += step.n;
    }
    if (st != TW_OK) return st;
    if (logits) *logits = step.logits;
    if (token) *token = step.token;
    return TW_OK;
}

/* Notes the tokens that the cache holds from position `at` on, where they may have to be fed again. */
static tw_status note(tw_engine *e, const int32_t *ids, int64_t at, int64_t n, tw_diag *diag) {
    if (e->model->rope.kind != TW_ROPE_LONG) return TW_OK;
    if (!e->fed) e->fed = malloc((size_t)e->context * sizeof *e->fed);
    if (!e->fed) return tw_fail_memory(diag);
    memcpy(e->fed + at, ids, (size_t)n * sizeof *ids);
    e->beyond = at + n > e->model->rope.original_max;
    return TW_OK;
}

/* With longrope, keys up to the original length and keys beyond it are rotated by
   different frequencies: where a sequence comes to the other side, all of it is fed again, as transformers does. */
static tw_status feed_again(tw_engine *e, const int32_t *ids, int64_t n, tw_diag *diag) {
    const tw_rope *rope = &e->model->rope;
    const int64_t past = e->position;
    tw_status st = TW_OK;
    if (rope->kind == TW_ROPE_LONG && past && (past + n > rope->original_max) != e->beyond) {
        e->position = 0;
        st = feed(e, e->fed, past, past + n, NULL, NULL, diag);
    }
    return st == TW_OK ? note(e, ids, past, n, diag) : st;
}

tw_status tw_engine_feed(tw_engine *e, const int32_t *ids, int64_t n, const float **logits, int32_t *token,
                         tw_diag *diag) {
    tw_status st = tw_engine_check_fit(e, n, diag);
    if (st == TW_OK) st = feed_again(e, ids, n, diag);
    return st == TW_OK ? feed(e, ids, n, e->position + n, logits, token, diag) : st;
}

/* Feeds greedy tokens one by one, where a step may need more than the machine's own loop does. */
static tw_status greedy_steps(tw_engine *e, int32_t id, int64_t n, int32_t *ids, double *seconds, tw_diag *diag) {
    const int64_t start = tw_now_ns();
    tw_status st = TW_OK;
    for (int64_t i = 0; i < n && st == TW_OK; i++) {
        st = tw_engine_feed(e, &id, 1, NULL, &ids[i], diag);
        id = ids[i];
    }
    if (seconds) *seconds = (double)(tw_now_ns() - start) * 1e-9;
    return st;
}

tw_status tw_engine_greedy(tw_engine *e, int32_t id, int64_t n, int32_t *ids, double *seconds, tw_diag *diag) {
    tw_status st = tw_engine_check_fit(e, n, diag);
    double taken, all = 0;
    if (st == TW_OK && e->model->rope.kind == TW_ROPE_LONG) return greedy_steps(e, id, n, ids, seconds, diag);
    for (int64_t done = 0, k; done < n && st == TW_OK; done += k) {
        const int64_t at = e->position;
        k = at < e->short_past ? least(n - done, e->short_past - at) : n - done;
        st = e->machine.backend->greedy(&e->machine, e->program[tw_engine_decoder(e, at)], done ? ids[done - 1] : id,
                                        at, k, ids + done, &taken, diag);
        all += taken;
        if (st == TW_OK) e->position += k;
    }
    if (seconds) *seconds = all;
    return st;
}

tw_status tw_engine_measure_bandwidth(const tw_engine *e, double *bytes_per_second, tw_diag *diag) {
    return e->machine.backend->bandwidth(&e->machine, bytes_per_second, diag);
}

tw_status tw_engine_measure_arithmetic(const tw_engine *e, int64_t n, double *operations, char *what, size_t size,
                                       tw_diag *diag) {
    tw_vm_ceiling c;
    tw_status st = e->machine.backend->arithmetic(&e->machine, n, &c, diag);
    if (st != TW_OK) return st;
    *operations = c.operations;
    snprintf(what, size, c.passes > 1 ? "%s in %d passes" : "%s", tw_cpu_unit_name(c.unit), c.passes);
    return TW_OK;
}

/* -log softmax(logits)[id] */
static double surprise(const float *logits, int64_t vocab, int32_t id) {
    float max = -INFINITY;
    for (int64_t i = 0; i < vocab; i++) max = logits[i] > max ? logits[i] : max;
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) sum += exp((double)logits[i] - max);
    return log(sum) - ((double)logits[id] - max);
}

tw_status tw_engine_score(tw_engine *e, const int32_t *ids, int64_t n, double *nll, tw_diag *diag) {
    tw_engine_rewind(e, 0);
    *nll = 0;
    tw_status st = tw_engine_check_fit(e, n, diag);
    if (st == TW_OK) st = load(e, TW_PROGRAM_SCORE, diag);
    tw_vm_step step = {.program = e->program[TW_PROGRAM_SCORE], .length = n};
    for (int64_t done = 0; done < n && st == TW_OK; done += step.n) {
        step.tokens = ids + done;
        step.n = least(n - done, tw_engine_step_tokens(e, TW_PROGRAM_SCORE));
        step.pos = done;
        st = e->machine.backend->run(&e->machine, &step, diag);
        for (int64_t t = 0; t < step.n && done + t + 1 < n && st == TW_OK; t++)
            *nll += surprise(step.logits + (step.n > 0 ? t * e->model->vocab : 0), e->model->vocab, ids[done + t + 1]);
    }
    if (st == TW_OK) e->position = n;
    return st == TW_OK ? note(e, ids, 0, n, diag) : st;
}

tw_status tw_engine_perplexity(tw_engine *e, const int32_t *ids, int64_t n, int64_t context, double *nll,
                               int64_t *predictions, tw_progress_fn *progress, void *user, tw_diag *diag) {
    if (context < 2 || context > e->context)
        return tw_fail(diag, TW_ERR_USAGE, "a perplexity context of %lld is not within 2..%lld", (long long)context,
                       (long long)(e->context < 2 ? 2 : e->context));
    double total = 0, one;
    int64_t count = 0;
    for (int64_t at = 0; n - at >= 2; at += context) {
        int64_t m = least(context, n - at);
        tw_status st = tw_engine_score(e, ids + at, m, &one, diag);
        if (st != TW_OK) return st;
        total += one;
        count += m - 1;
        if (progress) progress(user, at + m, n);
    }
    if (!count) return tw_fail(diag, TW_ERR_USAGE, "perplexity needs at least two tokens");
    *nll = total / (double)count;
    *predictions = count;
    return TW_OK;
}
