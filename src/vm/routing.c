/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/routing.h"

#include "base/diag.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

tw_status tw_routing_open(tw_routing **out, const tw_model *m, int64_t positions, tw_diag *diag) {
    const size_t rows = (size_t)(m->n_layers * positions);
    *out = NULL;
    tw_routing *r = calloc(1, sizeof *r);
    if (!r) return tw_fail_memory(diag);
    *r = (tw_routing){.layers = m->n_layers,
                      .positions = positions,
                      .experts = m->n_experts,
                      .used = m->n_experts_used,
                      .renormalised = m->renormalise_experts};
    bool *mixture = calloc((size_t)m->n_layers, sizeof *mixture);
    r->mixture = mixture;
    r->expert = calloc(rows * (size_t)r->used + 1, sizeof *r->expert);
    r->weight = calloc(rows * (size_t)r->used + 1, sizeof *r->weight);
    r->score = calloc(rows * (size_t)r->experts + 1, sizeof *r->score);
    if (!mixture || !r->expert || !r->weight || !r->score) {
        tw_routing_close(r);
        return tw_fail_memory(diag);
    }
    for (int64_t i = 0; i < m->n_layers; i++) mixture[i] = m->layers[i].experts != NULL;
    tw_routing_forget(r, 0, positions);
    *out = r;
    return TW_OK;
}

void tw_routing_close(tw_routing *r) {
    if (!r) return;
    free((void *)r->mixture);
    free(r->expert);
    free(r->weight);
    free(r->score);
    free(r);
}

void tw_routing_forget(tw_routing *r, int64_t pos, int64_t n) {
    for (int64_t layer = 0; layer < r->layers; layer++) {
        const int64_t row = tw_routing_row(r, layer, pos);
        for (int64_t i = row * r->used; i < (row + n) * r->used; i++) r->expert[i] = -1;
        for (int64_t i = row * r->experts; i < (row + n) * r->experts; i++) r->score[i] = NAN;
    }
}

void tw_routing_enter(tw_routing *r, int64_t layer, int64_t pos, int64_t n, const float *route) {
    for (int64_t t = 0; t < n; t++, route += 2 * r->used) {
        const int64_t at = tw_routing_row(r, layer, pos + t) * r->used;
        for (int64_t u = 0; u < r->used; u++) {
            const bool number = route[u] >= 0 && route[u] < (float)r->experts && route[u] == floorf(route[u]);
            r->expert[at + u] = number ? (int32_t)route[u] : INT32_MAX;
        }
        memcpy(r->weight + at, route + r->used, (size_t)r->used * sizeof *route);
    }
}

/* ---- before choices are followed */

static bool taken(const int32_t *expert, int64_t n, int64_t e) {
    for (int64_t u = 0; u < n; u++)
        if (expert[u] == e) return true;
    return false;
}

static tw_status check_row(const tw_routing *r, int64_t layer, int64_t pos, tw_diag *diag) {
    const int32_t *expert = r->expert + tw_routing_row(r, layer, pos) * r->used;
    for (int64_t u = 0; u < r->used; u++) {
        if (expert[u] < 0 || expert[u] >= r->experts)
            return tw_fail(diag, TW_ERR_MISMATCH, "layer %lld, position %lld: choice %lld is none of %lld experts",
                           (long long)layer, (long long)pos, (long long)u, (long long)r->experts);
        if (taken(expert, u, expert[u]))
            return tw_fail(diag, TW_ERR_MISMATCH, "layer %lld, position %lld: expert %d is chosen twice",
                           (long long)layer, (long long)pos, expert[u]);
    }
    return TW_OK;
}

tw_status tw_routing_check(const tw_routing *r, int64_t pos, int64_t n, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int64_t layer = 0; layer < r->layers; layer++)
        for (int64_t t = 0; t < n && r->mixture[layer] && st == TW_OK; t++) {
            const bool wanted = layer + 1 < r->layers || t + 1 == n;
            if (wanted || r->expert[tw_routing_row(r, layer, pos + t) * r->used] >= 0)
                st = check_row(r, layer, pos + t, diag);
        }
    return st;
}

/* ---- after they were followed */

/* A choice of a layer at a position. */
typedef struct choice {
    const tw_routing *r;
    int64_t layer, pos;
    const int32_t *expert;
    const float *weight, *score;
    double off; /* How far a score may be off. */
} choice;

/* Finds the chosen expert with the least score, and the one with the largest that was left out (-1: none was). Both are
   the first that have no number, if there is such. */
static void weakest(const choice *c, int64_t *least, int64_t *most) {
    *least = *most = -1;
    for (int64_t e = 0; e < c->r->experts; e++) {
        const bool chosen = taken(c->expert, c->r->used, e);
        int64_t *to = chosen ? least : most;
        if (*to >= 0 && isnan(c->score[*to])) continue;
        const bool further = *to >= 0 && (chosen ? c->score[e] < c->score[*to] : c->score[e] > c->score[*to]);
        if (*to < 0 || isnan(c->score[e]) || further) *to = e;
    }
}

/* Judges which experts were chosen. */
static tw_status judge_experts(const choice *c, tw_routing_verdict *v, tw_diag *diag) {
    int64_t least, most;
    weakest(c, &least, &most);
    if (least < 0 || most < 0) return TW_OK;
    const double short_of = (double)c->score[most] - (double)c->score[least];
    if (!(short_of <= 2 * c->off))
        return tw_fail(diag, TW_ERR_MISMATCH,
                       "layer %lld, position %lld: expert %lld was chosen, whose score is %.9g in the reference, and "
                       "%lld left out with %.9g, which is more than %.3g better",
                       (long long)c->layer, (long long)c->pos, (long long)least, (double)c->score[least],
                       (long long)most, (double)c->score[most], 2 * c->off);
    v->others += short_of > 0;
    v->worst = fmax(v->worst, short_of / (2 * c->off));
    return TW_OK;
}

/* Judges the weights. A weight is exp(its score) over a sum of such, each of which is off by a factor of exp(off) at
   most. */
static tw_status judge_weights(const choice *c, tw_routing_verdict *v, tw_diag *diag) {
    const tw_routing *r = c->r;
    const double allowed = expm1(2 * c->off);
    double most = -INFINITY, sum = 0;
    for (int64_t e = 0; e < r->experts; e++) most = fmax(most, (double)c->score[e]);
    for (int64_t e = 0; e < r->experts; e++)
        if (!r->renormalised || taken(c->expert, r->used, e)) sum += exp((double)c->score[e] - most);
    for (int64_t u = 0; u < r->used; u++) {
        const double want = exp((double)c->score[c->expert[u]] - most) / sum;
        /* Weights below FLT_MIN have no digits. */
        const double off = fabs((double)c->weight[u] - want) / (allowed * want + (double)FLT_MIN);
        if (!(off <= 1))
            return tw_fail(diag, TW_ERR_MISMATCH,
                           "layer %lld, position %lld: the weight of expert %d is %.9g here and %.9g in the reference",
                           (long long)c->layer, (long long)c->pos, c->expert[u], (double)c->weight[u], want);
        v->worst = fmax(v->worst, off);
    }
    return TW_OK;
}

tw_status tw_routing_judge(const tw_routing *r, int64_t pos, int64_t n, const tw_routing_tolerance *allowed,
                           tw_routing_verdict *verdict, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int64_t i = 0; i < r->layers * n && st == TW_OK; i++) {
        const int64_t row = tw_routing_row(r, i / n, pos + i % n);
        const choice c = {.r = r,
                          .layer = i / n,
                          .pos = pos + i % n,
                          .expert = r->expert + row * r->used,
                          .weight = r->weight + row * r->used,
                          .score = r->score + row * r->experts};
        if (*c.expert < 0) continue;
        choice with = c;
        double largest = 0;
        for (int64_t e = 0; e < r->experts; e++) largest = fmax(largest, fabs((double)c.score[e]));
        with.off = allowed->relative * largest + allowed->absolute;
        st = judge_experts(&with, verdict, diag);
        if (st == TW_OK) st = judge_weights(&with, verdict, diag);
        verdict->choices++;
    }
    return st;
}

/* ---- layers of instructions */

/* Returns the number of the layer that a buffer's name tells. -1: none. */
static int64_t layer_of_name(const char *name) {
    static const char before[] = "layers.";
    char *end;
    if (strncmp(name, before, sizeof before - 1) != 0) return -1;
    const long long layer = strtoll(name + sizeof before - 1, &end, 10);
    return *end == '.' && layer >= 0 ? layer : -1;
}

int64_t tw_routing_layer(const tw_schedule *s, const tw_worker *w, const tw_instr *in) {
    if (in->op == TW_INSTR_ROUTE) return layer_of_name(s->buffers[in->operand[TW_ROUTE_ROUTER]].name);
    for (const tw_instr *e = in + 1; in->op == TW_INSTR_CHOOSE && e < w->list + w->count; e++) {
        const bool up = e->op == TW_INSTR_EXPERTS_UP, down = e->op == TW_INSTR_EXPERTS_DOWN;
        if (!up && !down) continue;
        const int route = e->operand[up ? TW_EXPERTS_UP_ROUTE : TW_EXPERTS_DOWN_ROUTE];
        const int weights = e->operand[up ? TW_EXPERTS_UP_UP : TW_EXPERTS_DOWN_W];
        if (route == in->operand[TW_CHOOSE_ROUTE]) return layer_of_name(s->buffers[weights].name);
    }
    return -1;
}
