/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Generation: tokens until a limit, EOS or a stop string; text goes out as soon as it is certain. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

const char *tw_finish_name(tw_finish f) {
    static const char *const names[] = {"length", "eos", "stop", "context", "aborted"};
    return names[f];
}

/* Text that may turn out to begin a stop string is held back. */
typedef struct outlet {
    tw_generation *g;
    tw_token_stream *stream;
    tw_buf held;
    bool stopped;
} outlet;

/* The first stop string in `held`, or its end. */
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

/* How much of `held`'s end could still become a stop string. */
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

static bool send(outlet *o, int32_t id, const char *text, bool last, tw_status *st, tw_diag *diag) {
    tw_generation *g = o->g;
    if (!o->stream) return !g->emit || g->emit(g->user, id, "");
    if (!tw_buf_str(&o->held, text)) {
        *st = tw_fail_memory(diag);
        return false;
    }
    bool found;
    size_t ready = find_stop(o, &found), keep = found || last ? 0 : possible_stop(o);
    if (!found) ready = o->held.size - keep;
    o->stopped = found;
    char *rest = strdup(o->held.data + ready);
    if (!rest) {
        *st = tw_fail_memory(diag);
        return false;
    }
    o->held.data[ready] = 0;
    bool go_on = !g->emit || g->emit(g->user, id, o->held.data);
    tw_buf_clear(&o->held);
    if (!found && !tw_buf_str(&o->held, rest)) *st = tw_fail_memory(diag);
    free(rest);
    return go_on && !found && *st == TW_OK;
}

static bool is_eos(const tw_model *m, int32_t id) {
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return true;
    return false;
}

/* False: the generation is over; `g->finish` says why. */
static bool accept(tw_engine *e, outlet *o, int32_t id, tw_status *st, tw_diag *diag) {
    tw_generation *g = o->g;
    if (!g->ignore_eos && is_eos(e->model, id)) {
        g->finish = TW_FINISH_EOS;
        return false;
    }
    g->ids[g->n_ids++] = id;
    const char *text = "";
    if (o->stream) *st = tw_token_stream_push(o->stream, id, &text, diag);
    if (*st != TW_OK) return false;
    if (!send(o, id, text, false, st, diag)) {
        g->finish = o->stopped ? TW_FINISH_STOP : TW_FINISH_ABORTED;
        return false;
    }
    g->finish = g->n_ids >= g->limit ? TW_FINISH_LENGTH : TW_FINISH_CONTEXT;
    return g->n_ids < g->limit && tw_engine_position(e) < tw_engine_context(e);
}

static tw_status generate(tw_engine *e, tw_sampler *sampler, outlet *o, tw_diag *diag) {
    tw_generation *g = o->g;
    const float *logits;
    tw_status st = tw_engine_warm(e, g->n_prompt, diag);
    int64_t start = tw_now_ns();
    if (st == TW_OK) st = tw_engine_feed(e, g->prompt, g->n_prompt, &logits, NULL, diag);
    g->prefill_seconds = (double)(tw_now_ns() - start) * 1e-9;
    if (st != TW_OK || g->limit < 1) return st;
    for (int64_t i = 0; i < g->n_past; i++) tw_sampler_see(sampler, g->past[i]);
    for (int64_t i = 0; i < g->n_prompt; i++) tw_sampler_see(sampler, g->prompt[i]);
    start = tw_now_ns();
    int32_t id = tw_sampler_draw(sampler, logits, tw_engine_position(e) - 1);
    while (accept(e, o, id, &st, diag)) {
        st = tw_engine_feed(e, &id, 1, &logits, NULL, diag);
        if (st != TW_OK) return st;
        g->n_decoded++;
        tw_sampler_take(sampler, id);
        id = tw_sampler_draw(sampler, logits, tw_engine_position(e) - 1);
    }
    g->decode_seconds = (double)(tw_now_ns() - start) * 1e-9;
    return st;
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
        if (st == TW_OK) send(&o, -1, rest, true, &st, diag);
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
