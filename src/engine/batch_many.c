/* SPDX-License-Identifier: Apache-2.0 */
/* More generations than the decode program has sequences. A step has a row of each lane that decodes, and as many of
   the prompts' as it has room for. The next step begins before the tokens of this one are known: they are on the
   device, and what ends a generation costs a row that nobody takes. */
#include "engine/batch.h"

/* Returns the number of lanes that have a token for the next step, which may still be unknown. */
static int64_t decoding(const tw_batch *b) {
    int64_t n = 0;
    for (int i = 0; i < b->n; i++) {
        const tw_lane *l = &b->lanes[i];
        n += l->g && l->sent >= l->g->n_prompt;
    }
    return n;
}

/* Plans the next rows of a lane, at most `room` of a prompt. False: it has none. */
static bool plan(tw_batch *b, int at, int64_t *room, tw_prefill_part *out) {
    tw_lane *l = &b->lanes[at];
    if (!l->g || l->sent >= b->e->context || l->wanted >= l->g->limit) return false;
    *out = (tw_prefill_part){.sequence = at, .pos = l->sent, .n = 1, .rules = &l->sampler->rules};
    if (l->sent < l->g->n_prompt) {
        const int64_t left = l->g->n_prompt - l->sent;
        out->n = left < *room ? left : *room;
        if (out->n < 1) return false;
        if (out->n < left) out->rules = NULL;
        out->tokens = l->g->prompt + l->sent;
        *room -= out->n;
    } else if (l->sent == l->fed) {
        out->tokens = &l->next;
    }
    return true;
}

/* Begins a step. *any becomes false if there is nothing to do. */
static tw_status begin(tw_batch *b, bool *any, tw_diag *diag) {
    tw_batch_flight *f = &b->flights[b->begun % TW_BATCH_FLIGHTS];
    int64_t room = b->e->prompt_tokens - decoding(b);
    int n = 0;
    f->n = 0;
    for (int i = 0; i < b->n; i++) {
        tw_prefill_part *x = &b->parts[n];
        tw_lane *l = &b->lanes[i];
        if (!plan(b, i, &room, x)) continue;
        n++;
        l->sent += x->n;
        if (!x->rules) continue;
        l->wanted++;
        f->ends[f->n++] = (tw_batch_end){i, l->number, l->sent};
    }
    *any = n > 0;
    if (!n) return TW_OK;
    const tw_status st = b->e->machine.backend->begin_many(&b->e->machine, b->parts, n, diag);
    if (st == TW_OK) b->begun++;
    return st;
}

/* Takes the tokens of the step that was begun first. A lane may have got another generation since. */
static tw_status end(tw_batch *b, tw_diag *diag) {
    const tw_batch_flight *f = &b->flights[b->over++ % TW_BATCH_FLIGHTS];
    tw_status st = b->e->machine.backend->end_many(&b->e->machine, b->tokens, diag);
    for (int i = 0; i < f->n && st == TW_OK; i++) {
        tw_lane *l = &b->lanes[f->ends[i].lane];
        if (!l->g || l->number != f->ends[i].number) continue;
        l->fed = f->ends[i].fed - 1;
        st = tw_batch_take(b, l, b->tokens[i], diag);
    }
    return st;
}

/* Sends counts of lanes that have none yet. No step may be under way, since it adds to the lane's last ones. */
static tw_status count(tw_batch *b, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < b->n && st == TW_OK; i++) {
        const tw_lane *l = &b->lanes[i];
        if (!l->g || !l->sampler->counts || l->counted) continue;
        while (b->over < b->begun && st == TW_OK) st = end(b, diag);
        if (st == TW_OK && l->g) st = tw_batch_count(b, i, diag);
    }
    return st;
}

tw_status tw_batch_many(tw_batch *b, tw_diag *diag) {
    bool any = false;
    tw_status st = tw_batch_fill(b, diag);
    if (st == TW_OK) st = count(b, diag);
    if (st == TW_OK) st = begin(b, &any, diag);
    const bool full = b->begun - b->over >= TW_BATCH_FLIGHTS || !any;
    return st == TW_OK && full && b->over < b->begun ? end(b, diag) : st;
}
