/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Generates tokens until a limit, EOS or a stop string. Text is emitted as soon as it is certain. */
#include "base/clock.h"
#include "base/diag.h"
#include "engine/engine.h"
#include "engine/outlet.h"
#include "engine/sample.h"

/* A generation in progress. The first token ends the time of prefill and begins that of decode. */
typedef struct running {
    tw_engine *e;
    tw_outlet *o;
    tw_status st;
    tw_diag *diag;
    int64_t since;
    bool decodes;
} running;

static bool take(void *user, int32_t id) {
    running *r = user;
    tw_generation *g = r->o->g;
    if (r->decodes) {
        g->n_decoded++;
    } else {
        const int64_t now = tw_now_ns();
        g->prefill_seconds = (double)(now - r->since) * 1e-9;
        r->since = now;
        r->decodes = true;
    }
    const bool room = tw_engine_position(r->e) < tw_engine_context(r->e);
    return tw_outlet_take(r->o, r->e->model, id, room, &r->st, r->diag);
}

/* Feeds the prompt and generates tokens. A greedy first token comes with the prompt. Where the machine draws tokens
   itself, the prompt's last id else is the first step of the generation. On other machines the host draws the first
   token from the prompt's last logits. */
static tw_status generate(tw_engine *e, tw_sampler *sampler, tw_outlet *o, tw_diag *diag) {
    tw_generation *g = o->g;
    const float *logits = NULL;
    int32_t id = 0;
    tw_status st = tw_engine_warm(e, g->n_prompt, diag);
    running r = {.e = e, .o = o, .st = TW_OK, .diag = diag, .since = tw_now_ns()};
    const bool greedy = !sampler->rules.mode;
    const bool there = tw_engine_draws(e) && g->limit > 0 && g->n_prompt > 0 && (!greedy || g->n_prompt == 1);
    const int64_t n = there ? g->n_prompt - 1 : g->n_prompt;
    if (st == TW_OK) st = tw_engine_check_fit(e, g->n_prompt, diag);
    if (st == TW_OK && (n || !there))
        st = tw_engine_feed(e, g->prompt, n, there || greedy ? NULL : &logits, there ? NULL : &id, diag);
    g->prefill_seconds = (double)(tw_now_ns() - r.since) * 1e-9;
    if (st != TW_OK || g->limit < 1) return st;
    for (int64_t i = 0; i < g->n_past; i++) tw_sampler_see(sampler, g->past[i]);
    for (int64_t i = 0; i < g->n_prompt; i++) tw_sampler_see(sampler, g->prompt[i]);
    bool go_on = true;
    if (there) {
        id = g->prompt[n];
    } else {
        if (!greedy) id = tw_sampler_draw(sampler, logits, tw_engine_position(e) - 1);
        tw_sampler_take(sampler, id);
        go_on = take(&r, id);
    }
    const int64_t left = g->limit - g->n_ids, room = tw_engine_context(e) - tw_engine_position(e);
    if (go_on) st = tw_engine_draw(e, sampler, id, left < room ? left : room, take, &r, diag);
    g->decode_seconds = (double)(tw_now_ns() - r.since) * 1e-9;
    return st == TW_OK ? r.st : st;
}

tw_status tw_generate(tw_engine *e, const tw_tokenizer *tokenizer, tw_generation *g, tw_diag *diag) {
    tw_outlet o;
    tw_sampler *sampler = NULL;
    tw_status st = tw_outlet_open(&o, g, tokenizer, diag);
    if (st == TW_OK) st = tw_sampler_open(&sampler, &g->sampling, e->model->vocab, diag);
    if (st == TW_OK) st = generate(e, sampler, &o, diag);
    tw_sampler_close(sampler);
    return tw_outlet_close(&o, st, diag);
}
