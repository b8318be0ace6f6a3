/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Generates tokens until a limit, EOS or a stop string. Text is emitted as soon as it is certain. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "engine/engine.h"
#include "engine/sample.h"

#include <stdlib.h>
#include <string.h>

const char *tw_finish_name(tw_finish f) {
    static const char *const names[] = {"length", "eos", "stop", "context", "aborted"};
    return names[f];
}

/* Output of a generation. Text that may become a stop string is held back. */
typedef struct outlet {
    tw_generation *g;
    tw_token_stream *stream;
    tw_buf held;
    bool stopped; /* A stop string came. */
    bool aborted; /* The caller's function ended the generation. */
} outlet;

/* Finds the first stop string in `held`, or its end. */
static size_t find_stop(const outlet *o, bool *found) {
    size_t best = o->held.size;
    *found = false;
    for (int i = 0; i < o->g->n_stop; i++) {
        const char *at = o->held.data && *o->g->stop[i] ? strstr(o->held.data, o->g->stop[i]) : NULL;
        if (at && (!*found || (size_t)(at - o->held.data) < best)) {
            best = (size_t)(at - o->held.data);
            *found = true;
        }
    }
    return best;
}

/* Returns how many bytes at the end of `held` could still become a stop string. */
static size_t possible_stop(const outlet *o) {
    size_t longest = 0;
    for (int i = 0; i < o->g->n_stop; i++) {
        size_t n = strlen(o->g->stop[i]);
        for (size_t k = n < o->held.size ? n : o->held.size; k > longest; k--)
            if (!memcmp(o->held.data + o->held.size - k, o->g->stop[i], k)) {
                longest = k;
                break;
            }
    }
    return longest;
}

/* Emits the text that cannot become part of a stop string, or with `last` all of it. Notes in `o` if that ends the
   generation. */
static tw_status send(outlet *o, int32_t id, const char *text, bool last, tw_diag *diag) {
    tw_generation *g = o->g;
    if (!o->stream) {
        o->aborted = g->emit && !g->emit(g->user, id, "");
        return TW_OK;
    }
    if (!tw_buf_str(&o->held, text)) return tw_fail_memory(diag);
    size_t ready = find_stop(o, &o->stopped);
    if (!o->stopped && !last) ready -= possible_stop(o);
    char *rest = o->held.data + ready, first = *rest;
    *rest = 0;
    o->aborted = g->emit && !g->emit(g->user, id, o->held.data);
    *rest = first;
    tw_buf_drop(&o->held, ready);
    return TW_OK;
}

static bool is_eos(const tw_model *m, int32_t id) {
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return true;
    return false;
}

/* Takes a token. False: the generation is over, and `g->finish` says why. */
static bool accept(tw_engine *e, outlet *o, int32_t id, tw_status *st, tw_diag *diag) {
    tw_generation *g = o->g;
    if (!g->ignore_eos && is_eos(e->model, id)) {
        g->finish = TW_FINISH_EOS;
        return false;
    }
    g->ids[g->n_ids++] = id;
    const char *text = "";
    if (o->stream) *st = tw_token_stream_push(o->stream, id, &text, diag);
    if (*st == TW_OK) *st = send(o, id, text, false, diag);
    if (*st != TW_OK || o->stopped || o->aborted) {
        g->finish = o->stopped ? TW_FINISH_STOP : TW_FINISH_ABORTED;
        return false;
    }
    g->finish = g->n_ids >= g->limit ? TW_FINISH_LENGTH : TW_FINISH_CONTEXT;
    return g->n_ids < g->limit && tw_engine_position(e) < tw_engine_context(e);
}

/* A generation in progress. The first token ends the time of prefill and begins that of decode. */
typedef struct running {
    tw_engine *e;
    outlet *o;
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
    return accept(r->e, r->o, id, &r->st, r->diag);
}

/* Feeds the prompt and generates tokens. A greedy first token comes with the prompt. Where the machine draws tokens
   itself, the prompt's last id else is the first step of the generation. On other machines the host draws the first
   token from the prompt's last logits. */
static tw_status generate(tw_engine *e, tw_sampler *sampler, outlet *o, tw_diag *diag) {
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
    outlet o = {.g = g};
    tw_sampler *sampler = NULL;
    g->n_ids = g->n_decoded = 0;
    g->finish = TW_FINISH_LENGTH;
    if (g->limit < 0) return tw_fail(diag, TW_ERR_USAGE, "a negative number of new tokens");
    if (g->n_stop && !tokenizer) return tw_fail(diag, TW_ERR_USAGE, "stop strings need a tokenizer");
    g->ids = malloc(((size_t)g->limit + 1) * sizeof *g->ids);
    tw_status st = g->ids ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_sampler_open(&sampler, &g->sampling, e->model->vocab, diag);
    if (st == TW_OK && tokenizer) st = tw_token_stream_open(&o.stream, tokenizer, false, diag);
    if (st == TW_OK) st = generate(e, sampler, &o, diag);
    const char *rest = "";
    if (st == TW_OK && o.stream && !o.stopped && g->finish != TW_FINISH_ABORTED) {
        st = tw_token_stream_flush(o.stream, &rest, diag);
        if (st == TW_OK) st = send(&o, -1, rest, true, diag);
        if (o.stopped) g->finish = TW_FINISH_STOP;
    }
    tw_token_stream_close(o.stream);
    tw_sampler_close(sampler);
    tw_buf_free(&o.held);
    if (st != TW_OK) {
        free(g->ids);
        g->ids = NULL;
        g->n_ids = 0;
    }
    return st;
}
