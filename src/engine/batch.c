/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Generations and their lanes. Where the decode program has several sequences, a round reads prompts into lanes that
   became free, and decodes a few tokens of all lanes in one launch. */
#include "engine/batch.h"

#include "base/clock.h"
#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

enum {
    LANES = 8,      /* The most sequences of a decode program. */
    MOST_STEPS = 16 /* Steps of a launch. A generation that ends within one leaves its lane idle until the end. */
};

static bool reserve(tw_fifo *f, size_t n) {
    if (f->first) memmove(f->at, f->at + f->first, f->n * sizeof(tw_generation *));
    f->first = 0;
    if (n <= f->room) return true;
    const size_t room = 2 * n;
    tw_generation **at = realloc(f->at, room * sizeof(tw_generation *));
    if (!at) return false;
    f->at = at;
    f->room = room;
    return true;
}

static void push(tw_fifo *f, tw_generation *g) {
    f->at[f->first + f->n++] = g;
}

static tw_generation *pop(tw_fifo *f) {
    if (!f->n) return NULL;
    f->n--;
    return f->at[f->first++];
}

/* ---- lanes */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int32_t input_of(const tw_lane *l) {
    return l->fed < l->g->n_prompt ? l->g->prompt[l->fed] : l->next;
}

/* Tells whether the next step's token is not wanted, since more of the prompt follows. */
static bool reads(const tw_lane *l) {
    return l->fed + 1 < l->g->n_prompt;
}

/* Ends a lane's generation, which is complete if its status is TW_OK. */
static tw_status leave(tw_batch *b, tw_lane *l, tw_status st, tw_diag *diag) {
    tw_generation *g = l->g;
    st = tw_outlet_close(&l->outlet, st, diag);
    tw_sampler_close(l->sampler);
    if (st == TW_OK) push(&b->ended, g);
    *l = (tw_lane){0};
    return st;
}

/* Gives an idle lane to a generation. */
static tw_status enter(tw_batch *b, tw_lane *l, tw_generation *g, tw_diag *diag) {
    *l = (tw_lane){.number = ++b->entered, .g = g, .since = tw_now_ns()};
    tw_status st = tw_outlet_open(&l->outlet, g, b->tokenizer, diag);
    if (st == TW_OK) st = tw_sampler_open(&l->sampler, &g->sampling, b->e->model->vocab, diag);
    for (int64_t i = 0; i < g->n_prompt && st == TW_OK; i++) tw_sampler_see(l->sampler, g->prompt[i]);
    if (st != TW_OK || g->limit < 1) return leave(b, l, st, diag);
    return TW_OK;
}

tw_status tw_batch_take(tw_batch *b, tw_lane *l, int32_t id, tw_diag *diag) {
    tw_generation *g = l->g;
    const int64_t now = tw_now_ns();
    l->fed++;
    if (l->fed < g->n_prompt) return TW_OK;
    if (l->decodes)
        g->n_decoded++;
    else
        g->prefill_seconds = (double)(now - l->since) * 1e-9;
    if (!l->decodes) l->since = now;
    l->decodes = true;
    g->decode_seconds = (double)(now - l->since) * 1e-9;
    tw_sampler_take(l->sampler, id);
    l->next = id;
    tw_status st = TW_OK;
    const bool room = l->fed < tw_engine_context(b->e);
    return tw_outlet_take(&l->outlet, b->e->model, id, room, &st, diag) ? TW_OK : leave(b, l, st, diag);
}

/* ---- prompts */

/* Reads a step of a lane's prompt by the kernels for prompts, if there are any. The last id is left to the decode
   program, which finds what follows it. */
static tw_status read_prompt(tw_batch *b, int at, tw_diag *diag) {
    enum { FEW = 2 }; /* Ids that decode steps read as fast. */
    tw_engine *e = b->e;
    tw_lane *l = &b->lanes[at];
    const int64_t left = l->g->n_prompt - 1 - l->fed, room = tw_engine_step_tokens(e, TW_PROGRAM_PROMPT);
    bool loaded = false;
    tw_status st = left > FEW ? tw_engine_load_prompts(e, least(left, room), l->fed, &loaded, diag) : TW_OK;
    if (st != TW_OK || !loaded) return st;
    tw_vm_step step = {.tokens = l->g->prompt + l->fed,
                       .n = least(left, tw_engine_step_tokens(e, TW_PROGRAM_PROMPT)),
                       .pos = l->fed,
                       .length = l->g->n_prompt,
                       .no_logits = true};
    st = e->machine.backend->run_prefill(&e->machine, at, &step, false, diag);
    if (st == TW_OK) l->fed += step.n;
    return st;
}

/* ---- steps */

/* What a launch begins with. Idle lanes compute a token at position 0, which nobody takes. */
typedef struct launch {
    int32_t tokens[LANES];
    int64_t positions[LANES], steps;
    tw_sample_rules rules[LANES];
    tw_program_kind kind;
} launch;

tw_status tw_batch_count(tw_batch *b, int at, tw_diag *diag) {
    tw_lane *l = &b->lanes[at];
    if (!l->sampler->counts || l->counted) return TW_OK;
    l->counted = true;
    return b->e->machine.backend->count(&b->e->machine, at, l->sampler->counts, diag);
}

/* Plans a launch of all lanes. steps 0: all are idle. It ends no later than the first generation must. */
static tw_status plan(tw_batch *b, launch *r, tw_diag *diag) {
    const tw_engine *e = b->e;
    int64_t deepest = 0;
    bool any = false;
    tw_status st = TW_OK;
    *r = (launch){.steps = MOST_STEPS};
    for (int i = 0; i < e->sequences && st == TW_OK; i++) {
        const tw_lane *l = &b->lanes[i];
        if (!l->g) continue;
        any = true;
        r->tokens[i] = input_of(l);
        r->positions[i] = l->fed;
        deepest = l->fed > deepest ? l->fed : deepest;
        r->steps = least(r->steps, reads(l) ? 1 : least(l->g->limit - l->g->n_ids, e->context - l->fed));
        if (reads(l)) continue;
        r->rules[i] = l->sampler->rules;
        st = tw_batch_count(b, i, diag);
    }
    if (!any) r->steps = 0;
    r->kind = tw_engine_decoder(e, deepest);
    if (r->kind == TW_PROGRAM_SHORT) r->steps = least(r->steps, e->short_past - deepest);
    return st;
}

/* Takes a step's tokens. False: no lane wants more. */
static bool take(void *user, const int32_t *tokens) {
    tw_batch *b = user;
    bool any = false;
    for (int i = 0; i < b->e->sequences && b->st == TW_OK; i++) {
        if (!b->lanes[i].g) continue;
        b->st = tw_batch_take(b, &b->lanes[i], tokens[i], b->diag);
        any |= b->lanes[i].g != NULL;
    }
    return any && b->st == TW_OK;
}

/* One step whose tokens the host draws. */
static tw_status step_here(tw_batch *b, const launch *r, tw_diag *diag) {
    tw_engine *e = b->e;
    int32_t tokens[LANES];
    const float *logits;
    tw_status st =
        e->machine.backend->step_all(&e->machine, e->program[r->kind], r->tokens, r->positions, tokens, &logits, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < e->sequences; i++)
        if (b->lanes[i].g && !reads(&b->lanes[i]))
            tokens[i] = tw_sampler_draw(b->lanes[i].sampler, logits + i * e->model->vocab, r->positions[i]);
    take(b, tokens);
    return TW_OK;
}

static tw_status decode(tw_batch *b, tw_diag *diag) {
    tw_engine *e = b->e;
    launch r;
    tw_status st = plan(b, &r, diag);
    if (st != TW_OK || !r.steps) return st;
    b->st = TW_OK;
    b->diag = diag;
    st = tw_engine_draws(e) ? e->machine.backend->draw(&e->machine, e->program[r.kind], r.rules, r.tokens, r.positions,
                                                       r.steps, take, b, diag)
                            : step_here(b, &r, diag);
    return st == TW_OK ? b->st : st;
}

tw_status tw_batch_fill(tw_batch *b, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < b->n && st == TW_OK; i++)
        while (!b->lanes[i].g && b->waiting.n && st == TW_OK) st = enter(b, &b->lanes[i], pop(&b->waiting), diag);
    return st;
}

/* Fills idle lanes, reads a step of each prompt that is not read yet, and decodes. */
static tw_status turn(tw_batch *b, tw_diag *diag) {
    tw_status st = tw_batch_fill(b, diag);
    for (int i = 0; i < b->n && st == TW_OK; i++)
        if (b->lanes[i].g && reads(&b->lanes[i])) st = read_prompt(b, i, diag);
    return st == TW_OK ? decode(b, diag) : st;
}

/* ---- the interface */

static tw_status allocate(tw_batch *b, tw_diag *diag) {
    const size_t n = (size_t)b->e->together;
    b->lanes = calloc(n, sizeof *b->lanes);
    b->parts = calloc(n, sizeof *b->parts);
    b->tokens = calloc(n, sizeof *b->tokens);
    bool all = b->lanes && b->parts && b->tokens;
    for (int i = 0; i < TW_BATCH_FLIGHTS; i++) {
        b->flights[i].ends = calloc(n, sizeof *b->flights[i].ends);
        all &= b->flights[i].ends != NULL;
    }
    if (!all) return tw_fail_memory(diag);
    b->n = (int)n;
    return TW_OK;
}

tw_status tw_batch_open(tw_batch **out, const tw_model *model, const tw_engine_options *options, int64_t sequences,
                        const tw_tokenizer *tokenizer, tw_diag *diag) {
    *out = NULL;
    if (sequences < 1) return tw_fail(diag, TW_ERR_USAGE, "a batch of %lld sequences", (long long)sequences);
    tw_batch *b = calloc(1, sizeof *b);
    if (!b) return tw_fail_memory(diag);
    b->tokenizer = tokenizer;
    tw_status st = tw_engine_open_for(&b->e, model, options, sequences, diag);
    if (st == TW_OK) st = allocate(b, diag);
    if (st == TW_OK)
        *out = b;
    else
        tw_batch_close(b);
    return st;
}

void tw_batch_close(tw_batch *b) {
    if (!b) return;
    for (int i = 0; i < b->n; i++)
        if (b->lanes[i].g) leave(b, &b->lanes[i], TW_ERR_IO, NULL);
    tw_engine_close(b->e);
    for (int i = 0; i < TW_BATCH_FLIGHTS; i++) free(b->flights[i].ends);
    free(b->lanes);
    free(b->parts);
    free(b->tokens);
    free(b->waiting.at);
    free(b->ended.at);
    free(b);
}

int64_t tw_batch_sequences(const tw_batch *b) {
    return b->e->together;
}

tw_engine *tw_batch_engine(tw_batch *b) {
    return b->e;
}

tw_status tw_batch_add(tw_batch *b, tw_generation *g, tw_diag *diag) {
    const int64_t vocab = b->e->model->vocab;
    g->ids = NULL;
    g->n_ids = 0;
    if (g->past) return tw_fail(diag, TW_ERR_USAGE, "a batch has no past");
    tw_status st = tw_outlet_check(g, b->tokenizer, diag);
    if (st == TW_OK && g->n_prompt < 1) st = tw_fail(diag, TW_ERR_USAGE, "the prompt has no tokens");
    if (st == TW_OK && g->n_prompt > b->e->context)
        st = tw_fail(diag, TW_ERR_USAGE, "%lld tokens do not fit the context of %lld", (long long)g->n_prompt,
                     (long long)b->e->context);
    for (int64_t i = 0; i < g->n_prompt && st == TW_OK; i++)
        if (g->prompt[i] < 0 || g->prompt[i] >= vocab)
            st = tw_fail(diag, TW_ERR_USAGE, "token %d is not within 0..%lld", g->prompt[i], (long long)vocab - 1);
    tw_sampler *sampler = NULL;
    if (st == TW_OK) st = tw_sampler_open(&sampler, &g->sampling, vocab, diag);
    tw_sampler_close(sampler);
    if (st != TW_OK) return st;
    /* All generations that are not returned yet may be complete at once. */
    if (!reserve(&b->waiting, b->waiting.n + 1) || !reserve(&b->ended, b->ended.n + b->waiting.n + 1 + (size_t)b->n))
        return tw_fail_memory(diag);
    push(&b->waiting, g);
    return TW_OK;
}

tw_status tw_batch_next(tw_batch *b, tw_generation **out, tw_diag *diag) {
    tw_engine *e = b->e;
    tw_status st = TW_OK;
    *out = NULL;
    if (e->together == 1) {
        tw_generation *g = pop(&b->waiting);
        tw_engine_rewind(e, 0);
        if (g) st = tw_generate(e, b->tokenizer, g, diag);
        if (st == TW_OK) *out = g;
        return st;
    }
    bool any = true;
    while (!b->ended.n && any && st == TW_OK) {
        st = e->together > e->sequences ? tw_batch_many(b, diag) : turn(b, diag);
        any = b->waiting.n > 0;
        for (int i = 0; i < b->n; i++) any |= b->lanes[i].g != NULL;
    }
    if (st == TW_OK) *out = pop(&b->ended);
    return st;
}
