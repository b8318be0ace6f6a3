/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: the router's choice, then each expert's products over the positions that chose it. */
#include "vm/cpu/exec.h"
#include "vm/routing.h"

#include <math.h>
#include <string.h>

enum { UNRANKED = -1, TAKEN = -2 }; /* Both are below every score. */

/* Computes a softmax over all experts, and chooses the best `used` in descending order, or those that are `told`. Of
   equals the lower id comes first. `renormalise` makes the weights sum to 1. Chosen experts are always distinct. Scores
   that are NaN come last, and the weights show them. */
static void choose_experts(float *scores, int64_t experts, int64_t used, bool renormalise, const int32_t *told,
                           float *ids, float *weights) {
    float max = scores[0], sum = 0, kept = 0;
    for (int64_t i = 1; i < experts; i++) max = fmaxf(max, scores[i]);
    for (int64_t i = 0; i < experts; i++) sum += scores[i] = expf(scores[i] - max);
    for (int64_t i = 0; i < experts; i++)
        if (isnan(scores[i])) scores[i] = UNRANKED;
    for (int64_t u = 0; u < used; u++) {
        int64_t best = 0;
        for (int64_t i = 1; i < experts; i++)
            if (scores[i] > scores[best]) best = i;
        if (told) best = told[u];
        ids[u] = (float)best;
        weights[u] = scores[best] / sum;
        kept += weights[u];
        scores[best] = TAKEN;
    }
    for (int64_t u = 0; renormalise && u < used; u++) weights[u] /= kept;
}

/* Chooses the experts of position t of the step by its scores, which are destroyed, or follows another machine's
   choice. */
static void choose(const tw_vm_thread *thread, const tw_exec *e, int64_t t, float *scores, int64_t experts,
                   int64_t used, float *route) {
    const tw_vm_step *step = &thread->vm->step;
    tw_routing *r = e->layer < 0 ? NULL : step->routing;
    const int64_t row = r ? tw_routing_row(r, e->layer, step->pos + t) : 0;
    const int32_t *told = r && r->told && r->expert[row * used] >= 0 ? r->expert + row * used : NULL;
    float *at = route + t * 2 * used;
    if (told && e->reports) memcpy(r->score + row * experts, scores, (size_t)experts * sizeof *scores);
    choose_experts(scores, experts, used, thread->vm->m->renormalise_experts, told, at, at + used);
    if (r && !r->told && e->reports) tw_routing_enter(r, e->layer, step->pos + t, 1, at);
}

void tw_exec_route(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    int64_t n = thread->vm->step.n, dim = e->strip.cols, ldy = tw_strip_stride(&e->strip);
    int64_t experts = tw_exec_shape(thread, e, TW_ROUTE_ROUTER)->shape[1],
            used = tw_exec_shape(thread, e, TW_ROUTE_ROUTE)->shape[2];
    float *normed = tw_scratch_take(&scratch, (size_t)(n * dim) * 4),
          *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, n));
    float *route = e->buffer[TW_ROUTE_ROUTE];
    tw_exec_norm(thread, e->buffer[TW_ROUTE_X], e->vector[TW_ROUTE_NORM], NULL, n, dim, normed);
    tw_product(thread, scratch, &e->strip, 0, normed, dim, n, y, NULL);
    for (int64_t t = 0; t < n; t++) choose(thread, e, t, y + t * ldy, experts, used, route);
}

void tw_exec_score(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    int64_t n = thread->vm->step.n, dim = e->strip.cols, ldy = tw_strip_stride(&e->strip), from = e->in->param[TW_FROM];
    int64_t experts = tw_exec_shape(thread, e, TW_SCORE_SCORES)->shape[2], count = e->in->param[TW_TO] - from;
    float *normed = tw_scratch_take(&scratch, (size_t)(n * dim) * 4),
          *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, n));
    tw_exec_norm(thread, e->buffer[TW_SCORE_X], e->vector[TW_SCORE_NORM], NULL, n, dim, normed);
    tw_product(thread, scratch, &e->strip, 0, normed, dim, n, y, NULL);
    for (int64_t t = 0; t < n; t++)
        memcpy((float *)e->buffer[TW_SCORE_SCORES] + t * experts + from, y + t * ldy, (size_t)count * 4);
}

void tw_exec_choose(tw_vm_thread *thread, const tw_exec *e) {
    int64_t experts = tw_exec_shape(thread, e, TW_CHOOSE_SCORES)->shape[2],
            used = tw_exec_shape(thread, e, TW_CHOOSE_ROUTE)->shape[2];
    float *scores = (float *)(void *)thread->scratch, *route = e->buffer[TW_CHOOSE_ROUTE];
    for (int64_t t = 0; t < thread->vm->step.n; t++) {
        memcpy(scores, (const float *)e->buffer[TW_CHOOSE_SCORES] + t * experts, (size_t)experts * 4);
        choose(thread, e, t, scores, experts, used, route);
    }
}

/* Finds the (position, slot) pairs that chose `expert`, as position * used + slot, in slots [first, end). */
static int64_t chosen(const float *route, int64_t n, int64_t used, int64_t first, int64_t end, int64_t expert,
                      int32_t *pairs) {
    int64_t count = 0;
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = first; u < end; u++)
            if (route[t * 2 * used + u] == (float)expert) {
                pairs[count++] = (int32_t)(t * used + u);
                break; /* A position chooses an expert at most once, so n pairs suffice. */
            }
    return count;
}

void tw_exec_experts_up(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    const tw_buffer *h = tw_exec_shape(thread, e, TW_EXPERTS_UP_H);
    int64_t n = thread->vm->step.n, dim = e->strip.cols, ldy = tw_strip_stride(&e->strip), used = h->shape[1];
    int64_t from = e->in->param[TW_FROM], count = e->in->param[TW_TO] - from;
    int64_t experts = tw_exec_shape(thread, e, TW_EXPERTS_UP_UP)->shape[0];
    float *normed = tw_scratch_take(&scratch, (size_t)(n * dim) * 4),
          *gathered = tw_scratch_take(&scratch, (size_t)(n * dim) * 4);
    float *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, n));
    int32_t *pairs = tw_scratch_take(&scratch, (size_t)(n * used) * 4);
    tw_exec_norm(thread, e->buffer[TW_EXPERTS_UP_X], e->vector[TW_EXPERTS_UP_NORM], NULL, n, dim, normed);
    for (int64_t x = 0; x < experts; x++) {
        int64_t m = chosen(e->buffer[TW_EXPERTS_UP_ROUTE], n, used, e->in->param[TW_EXPERTS_UP_SLOT_FROM],
                           e->in->param[TW_EXPERTS_UP_SLOT_TO], x, pairs);
        if (!m) continue;
        for (int64_t i = 0; i < m; i++) memcpy(gathered + i * dim, normed + pairs[i] / used * dim, (size_t)dim * 4);
        tw_product(thread, scratch, &e->strip, x, gathered, dim, m, y, NULL);
        for (int64_t i = 0; i < m; i++)
            tw_exec_activate_gated(thread, y + i * ldy, count, NULL, NULL,
                                   (float *)e->buffer[TW_EXPERTS_UP_H] + pairs[i] * h->shape[2] + from);
    }
}

void tw_exec_experts_down(tw_vm_thread *thread, const tw_exec *e) {
    tw_scratch scratch = {thread->scratch};
    int64_t n = thread->vm->step.n, ffn = e->strip.cols, ldy = tw_strip_stride(&e->strip), from = e->in->param[TW_FROM];
    int64_t count = e->in->param[TW_TO] - from, used = tw_exec_shape(thread, e, TW_EXPERTS_DOWN_ROUTE)->shape[2];
    int64_t experts = tw_exec_shape(thread, e, TW_EXPERTS_DOWN_W)->shape[0],
            dim = tw_exec_shape(thread, e, TW_EXPERTS_DOWN_X)->shape[2];
    float *gathered = tw_scratch_take(&scratch, (size_t)(n * ffn) * 4),
          *y = tw_scratch_take(&scratch, tw_strip_product_bytes(&e->strip, n));
    int32_t *pairs = tw_scratch_take(&scratch, (size_t)(n * used) * 4);
    const float *route = e->buffer[TW_EXPERTS_DOWN_ROUTE], *h = e->buffer[TW_EXPERTS_DOWN_H];
    for (int64_t x = 0; x < experts; x++) {
        int64_t m = chosen(route, n, used, 0, used, x, pairs);
        if (!m) continue;
        for (int64_t i = 0; i < m; i++) memcpy(gathered + i * ffn, h + pairs[i] * ffn, (size_t)ffn * 4);
        tw_product(thread, scratch, &e->strip, x, gathered, ffn, m, y, NULL);
        for (int64_t i = 0; i < m; i++) {
            int64_t t = pairs[i] / used, u = pairs[i] % used;
            thread->vm->k.axpy((float *)e->buffer[TW_EXPERTS_DOWN_X] + t * dim + from, y + i * ldy,
                               route[(t * 2 + 1) * used + u], count);
        }
    }
}

size_t tw_exec_experts_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e) {
    size_t T = (size_t)s->tokens, cols = (size_t)e->strip.cols;
    int64_t used = 1;
    if (e->in->op == TW_INSTR_EXPERTS_UP) used = s->buffers[e->in->operand[TW_EXPERTS_UP_ROUTE]].shape[2];
    if (e->in->op == TW_INSTR_EXPERTS_DOWN) used = s->buffers[e->in->operand[TW_EXPERTS_DOWN_ROUTE]].shape[2];
    return 2 * tw_lines(T * cols * 4) + tw_lines(tw_strip_product_bytes(&e->strip, s->tokens)) +
           tw_lines(T * (size_t)used * 4) + tw_product_scratch(vm, &e->strip, s->tokens);
}
