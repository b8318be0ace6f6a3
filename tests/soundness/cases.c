/* SPDX-License-Identifier: Apache-2.0 */
#include "soundness/cases.h"

#include "soundness/mutate.h"

#include <stdlib.h>

enum { FINE = 40 /* instructions: a program of finer counters has as many waits as pairs in neighbouring stages */ };

static tw_schedule *lowering(const program_pool *p, tw_random *r) {
    return lower_any(p->models[draw_below(r, p->n_models)], r);
}

static tw_schedule *lowered(const program_pool *p, tw_random *r) {
    return program_copy(p->lowered[draw_below(r, p->n_lowered)]);
}

static tw_schedule *refined_to(const program_pool *p, tw_random *r, int sparse) {
    const tw_schedule *from;
    do from = p->lowered[draw_below(r, p->n_lowered)];
    while (program_instructions(from) > FINE || from->n_workers < 2);
    tw_schedule *s = program_copy(from);
    program_refine(s, r, sparse);
    return s;
}

static tw_schedule *refined(const program_pool *p, tw_random *r) {
    return refined_to(p, r, draw_below(r, 5));
}

/* Only waits that elements ask for, and one of them gone: whatever the check overlooks of an op shows here first. */
static tw_schedule *one_forgotten(const program_pool *p, tw_random *r) {
    tw_schedule *s = refined_to(p, r, 4);
    int waits = 0, forgotten;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) waits += s->workers[w].list[i].n_waits;
    forgotten = draw_below(r, waits);
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            tw_instr *in = &s->workers[w].list[i];
            if (forgotten >= 0 && forgotten < in->n_waits) program_drop_wait(in, forgotten);
            forgotten -= forgotten < 0 ? 0 : in->n_waits + (forgotten < in->n_waits);
        }
    return s;
}

static tw_schedule *whole(const program_pool *p, tw_random *r) {
    (void)p;
    return random_program(r, false);
}

static tw_schedule *forgetful(const program_pool *p, tw_random *r) {
    (void)p;
    return random_program(r, true);
}

static int mutations(void) {
    return n_mutations_of_order + n_mutations_of_memory;
}

static const mutation *mutation_at(int i) {
    return i < n_mutations_of_order ? &mutations_of_order[i] : &mutations_of_memory[i - n_mutations_of_order];
}

static tw_schedule *base_of(const program_pool *p, unsigned bases, tw_random *r) {
    for (;;) switch (draw_below(r, 4)) {
        case 0:
        case 1:
            if (bases & BASE_LOWERED) return lowered(p, r);
            break;
        case 2:
            if (bases & BASE_REFINED) return refined(p, r);
            break;
        default:
            if (bases & BASE_RANDOM) return random_program(r, false);
        }
}

static tw_schedule *mutant(const program_pool *p, const mutation *m, tw_random *r) {
    for (;;) {
        tw_schedule *s = base_of(p, m->bases, r);
        if (m->apply(s, r)) return s;
        tw_schedule_free(s);
    }
}

static bool in_form(const tw_schedule *s) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            if (in->arrive >= s->n_counters || in->arrive < -1) return false;
            for (int k = 0; k < in->n_waits; k++)
                if (in->waits[k].counter < 0 || in->waits[k].counter >= s->n_counters) return false;
            for (int o = 0; o < TW_MAX_OPERANDS; o++)
                if (in->operand[o] >= s->n_buffers) return false;
        }
    for (int w = 0; w < s->n_workers; w++)
        if (!s->workers[w].count) return false;
    return true;
}

/* One fault may undo another, or hide behind it. */
static tw_schedule *two_faults(const program_pool *p, tw_random *r) {
    for (;;) {
        tw_schedule *s = mutant(p, mutation_at(draw_below(r, mutations())), r);
        const mutation *second = mutation_at(draw_below(r, n_mutations_of_order));
        if (in_form(s) && second->apply(s, r)) return s;
        tw_schedule_free(s);
    }
}

static const struct {
    const char *name;
    tw_schedule *(*make)(const program_pool *, tw_random *);
} made[] = {
    {"lowering", lowering},   {"finer counters", refined}, {"random", whole},
    {"forgetful", forgetful}, {"two faults", two_faults},  {"one forgotten", one_forgotten},
};
enum { MADE = sizeof made / sizeof *made };

int case_classes(void) {
    return MADE + mutations();
}

const char *case_name(int class) {
    return class < MADE ? made[class].name : mutation_at(class - MADE)->name;
}

tw_schedule *case_make(const program_pool *pool, int class, tw_random *r) {
    return class < MADE ? made[class].make(pool, r) : mutant(pool, mutation_at(class - MADE), r);
}
