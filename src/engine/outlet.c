/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "engine/outlet.h"

#include "base/diag.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

const char *tw_finish_name(tw_finish f) {
    static const char *const names[] = {"length", "eos", "stop", "context", "aborted"};
    return names[f];
}

/* Finds the first stop string in `held`, or its end. */
static size_t find_stop(const tw_outlet *o, bool *found) {
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
static size_t possible_stop(const tw_outlet *o) {
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
static tw_status send(tw_outlet *o, int32_t id, const char *text, bool last, tw_diag *diag) {
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

bool tw_outlet_take(tw_outlet *o, const tw_model *model, int32_t id, bool room, tw_status *st, tw_diag *diag) {
    tw_generation *g = o->g;
    if (!g->ignore_eos && is_eos(model, id)) {
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
    return g->n_ids < g->limit && room;
}

tw_status tw_outlet_check(const tw_generation *g, const tw_tokenizer *tokenizer, tw_diag *diag) {
    if (g->limit < 0) return tw_fail(diag, TW_ERR_USAGE, "a negative number of new tokens");
    if (g->n_stop && !tokenizer) return tw_fail(diag, TW_ERR_USAGE, "stop strings need a tokenizer");
    return TW_OK;
}

tw_status tw_outlet_open(tw_outlet *o, tw_generation *g, const tw_tokenizer *tokenizer, tw_diag *diag) {
    *o = (tw_outlet){.g = g};
    g->ids = NULL;
    g->n_ids = g->n_decoded = 0;
    g->prefill_seconds = g->decode_seconds = 0;
    g->finish = TW_FINISH_LENGTH;
    tw_status st = tw_outlet_check(g, tokenizer, diag);
    if (st != TW_OK) return st;
    g->ids = malloc(((size_t)g->limit + 1) * sizeof *g->ids);
    if (!g->ids) return tw_fail_memory(diag);
    return tokenizer ? tw_token_stream_open(&o->stream, tokenizer, false, diag) : TW_OK;
}

tw_status tw_outlet_close(tw_outlet *o, tw_status st, tw_diag *diag) {
    tw_generation *g = o->g;
    const char *rest = "";
    if (st == TW_OK && o->stream && !o->stopped && g->finish != TW_FINISH_ABORTED) {
        st = tw_token_stream_flush(o->stream, &rest, diag);
        if (st == TW_OK) st = send(o, -1, rest, true, diag);
        if (o->stopped) g->finish = TW_FINISH_STOP;
    }
    tw_token_stream_close(o->stream);
    tw_buf_free(&o->held);
    if (st != TW_OK) {
        free(g->ids);
        g->ids = NULL;
        g->n_ids = 0;
    }
    return st;
}
