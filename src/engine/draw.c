/* SPDX-License-Identifier: Apache-2.0 */
/* Draws tokens one after another. A GPU draws several in a launch and reports each as soon as it is known. On a
   processor the sampler draws each from the step's logits. */
#include "engine/engine.h"
#include "engine/sample.h"

#include "base/diag.h"

/* Steps of a launch. The first launches are short, so that a short answer wastes few steps. None is longer than a stop
   should have to wait for. */
enum { FIRST_STEPS = 4, MOST_STEPS = 16 };

typedef struct drawing {
    tw_engine *e;
    tw_sampler *s;
    tw_take_fn *take;
    void *user;
    int64_t taken;
    int32_t last;
    bool over;
} drawing;

static bool take(void *user, const int32_t *tokens) {
    drawing *d = user;
    d->e->position++;
    d->taken++;
    d->last = tokens[0];
    tw_sampler_take(d->s, d->last);
    d->over = !d->take(d->user, d->last);
    return !d->over;
}

/* Sends the sampler's counts to the device when they differ. The device keeps counts of its own for the penalties. */
static tw_status set_counts(tw_engine *e, tw_sampler *s, tw_diag *diag) {
    if (!s->counts || (s->counted_by == e && s->stamp == e->counts_stamp && s->changes == e->counts_changes))
        return TW_OK;
    tw_status st = e->machine.backend->count(&e->machine, 0, s->counts, diag);
    s->counted_by = e;
    s->stamp = ++e->counts_stamp;
    e->counts_changes = s->changes;
    return st;
}

static tw_status draw_there(drawing *d, int32_t id, int64_t n, tw_diag *diag) {
    tw_engine *e = d->e;
    d->last = id;
    tw_status st = TW_OK;
    for (int64_t done = 0, steps = FIRST_STEPS; done < n && !d->over && st == TW_OK; done = d->taken) {
        const int64_t at = e->position, left = n - done;
        int64_t k = left < steps ? left : steps;
        if (at < e->short_past && k > e->short_past - at) k = e->short_past - at;
        st = set_counts(e, d->s, diag);
        const uint64_t changes = d->s->changes;
        if (st == TW_OK)
            st = e->machine.backend->draw(&e->machine, e->program[tw_engine_decoder(e, at)], &d->s->rules, &d->last,
                                          &at, k, take, d, diag);
        /* Unless all tokens were taken, the device has counted some that the sampler has not. */
        if (st == TW_OK && d->taken == done + k && d->s->changes == changes + (uint64_t)k)
            e->counts_changes = d->s->changes;
        else
            e->counts_stamp++;
        steps = 2 * steps < MOST_STEPS ? 2 * steps : MOST_STEPS;
    }
    return st;
}

static tw_status draw_here(drawing *d, int32_t id, int64_t n, tw_diag *diag) {
    const bool greedy = !d->s->rules.mode;
    for (int64_t i = 0; i < n && !d->over; i++) {
        const float *logits = NULL;
        tw_status st = tw_engine_feed(d->e, &id, 1, greedy ? NULL : &logits, &id, diag);
        if (st != TW_OK) return st;
        if (!greedy) id = tw_sampler_draw(d->s, logits, d->e->position - 1);
        d->e->position--; /* `take` advances the position again. */
        take(d, &id);
    }
    return TW_OK;
}

bool tw_engine_draws(const tw_engine *e) {
    return e->machine.backend->draws(&e->machine, e->program[TW_PROGRAM_DECODE]);
}

tw_status tw_engine_draw(tw_engine *e, tw_sampler *s, int32_t id, int64_t n, tw_take_fn *take_one, void *user,
                         tw_diag *diag) {
    drawing d = {.e = e, .s = s, .take = take_one, .user = user};
    if (n < 1) return TW_OK;
    tw_status st = tw_engine_check_fit(e, n, diag);
    if (st != TW_OK) return st;
    return (tw_engine_draws(e) ? draw_there : draw_here)(&d, id, n, diag);
}
