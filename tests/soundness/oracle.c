/* SPDX-License-Identifier: Apache-2.0 */
#include "soundness/oracle.h"

#include "soundness/machine.h"

#include <stdio.h>
#include <stdlib.h>

enum { PLAYS = 4 };

static void name_instance(const oracle *o, int instance, char out[64]) {
    const order *x = &o->order;
    int w = x->worker[instance];
    snprintf(out, 64, "workers[%d][%d] %s of step %d", w, (instance - x->first[w]) % x->s->workers[w].count,
             o->space.ops[order_instr(x, instance)->op].name, order_step(x, instance) + 1);
}

static void found(oracle *o, oracle_verdict *v, hazard kind, int a, int b, int element) {
    char who[64] = "", whom[64] = "", what[96] = "";
    v->kind = kind;
    v->a = a;
    v->b = b;
    if (a >= 0) name_instance(o, a, who);
    if (b >= 0) name_instance(o, b, whom);
    if (element >= 0) memory_name_element(&o->memory, element, what);
    snprintf(v->text, sizeof v->text, "%s: %s%s%s%s%s, steps at %lld+%lld, %lld+%lld", hazard_name(kind), who,
             *whom ? " while " : "", whom, *what ? " at " : "", what, (long long)v->step[0].pos,
             (long long)v->step[0].n, (long long)v->step[1].pos, (long long)v->step[1].n);
}

/* What is wrong before anything runs. */
static hazard form_of(oracle *o, const tw_schedule *s, int *worker, int *index) {
    int outputs = 0;
    *worker = *index = 0;
    if (s->sequences < 1 || (s->sequences > 1 && s->sequences != s->tokens)) return HAZARD_STRUCTURE;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            hazard h = touch_form(&o->space, in);
            *worker = w;
            *index = i;
            if (h != HAZARD_NONE) return h;
            if ((in->op == TW_INSTR_INPUT) != (w == 0 && i == 0)) return HAZARD_STRUCTURE;
            if (in->op == TW_INSTR_OUTPUT && (w || outputs++)) return HAZARD_STRUCTURE;
        }
    *worker = *index = 0;
    return s->workers[0].count && outputs ? HAZARD_NONE : HAZARD_STRUCTURE;
}

static void form_found(oracle *o, const tw_schedule *s, hazard h, int worker, int index, oracle_verdict *v) {
    v->kind = h;
    const char *op = index < s->workers[worker].count ? o->space.ops[s->workers[worker].list[index].op].name : "";
    snprintf(v->text, sizeof v->text, "%s: workers[%d][%d] %s", hazard_name(h), worker, index, op);
}

static int output_of(const oracle *o, int step) {
    const tw_worker *w = &o->order.s->workers[0];
    int i = 0;
    while (w->list[i].op != TW_INSTR_OUTPUT) i++;
    return o->order.first[0] + step * w->count + i;
}

/* A step ends with its output: whatever else it has must have ended before that begins, in every run. */
static bool ends_whole(oracle *o, oracle_verdict *v) {
    const order *x = &o->order;
    int W = x->s->n_workers;
    for (int e = 0; e < x->steps; e++) {
        int output = output_of(o, e);
        for (int w = 0; w < W; w++) {
            int n = x->s->workers[w].count, last = x->first[w] + (e + 1) * n - 1;
            if (!n || last == output) continue;
            if (w && x->reach[(size_t)last * (size_t)W] <= output - x->first[0]) continue;
            if (w && !machine_begins_without(x, output, last)) abort();
            found(o, v, HAZARD_STEP_END, output, last, -1);
            return false;
        }
    }
    return true;
}

static bool races(oracle *o, oracle_verdict *v) {
    const order *x = &o->order;
    int W = x->s->n_workers, element;
    for (int a = 0; a < x->total; a++)
        for (int w = x->worker[a] + 1; w < W; w++)
            for (int b = x->first[w] + x->reach[(size_t)a * (size_t)W + (size_t)w] - 1; b >= x->first[w]; b--) {
                if (!order_concurrent(x, a, b)) break; /* what is earlier is ordered too */
                if (!memory_conflict(&o->memory, a, b, &element)) continue;
                /* The proof: a run with start and end of every instruction, in which both are running. */
                if (!machine_meet(x, a, b)) abort();
                found(o, v, HAZARD_RACE, a, b, element);
                return true;
            }
    return false;
}

/* One run, element by element. Where nothing races, every other run writes and reads the same. */
static bool plays(oracle *o, oracle_verdict *v) {
    int element = -1;
    memory_restart(&o->memory);
    for (int i = 0; i < o->order.ran; i++) {
        int at = o->order.run[i];
        hazard h = memory_read(&o->memory, at, &element);
        memory_write(&o->memory, at);
        if (h == HAZARD_NONE && order_instr(&o->order, at)->op == TW_INSTR_OUTPUT)
            h = memory_step_end(&o->memory, order_step(&o->order, at), &element);
        if (h == HAZARD_NONE) continue;
        found(o, v, h, at, -1, element);
        return false;
    }
    return true;
}

/* Nothing orders what one instruction does through two operands. */
static bool stands_alone(oracle *o, oracle_verdict *v) {
    int element;
    for (int i = 0; i < o->order.total; i++)
        if (memory_self(&o->memory, i, &element)) {
            found(o, v, HAZARD_SELF, i, -1, element);
            return false;
        }
    return true;
}

/* All that does not depend on positions. */
static bool runs(oracle *o, const tw_schedule *s, int steps, oracle_verdict *v) {
    int worker, index;
    *v = (oracle_verdict){.played = true, .a = -1, .b = -1, .steps = steps};
    v->played = touch_space_set(&o->space, s);
    hazard h = form_of(o, s, &worker, &index);
    if (h != HAZARD_NONE) {
        v->played = true;
        form_found(o, s, h, worker, index, v);
        return false;
    }
    if (!v->played) return false;
    if (!order_run(&o->order, s, steps)) {
        int w = 0;
        while (o->order.at[w] == s->workers[w].count * steps) w++;
        found(o, v, HAZARD_DEADLOCK, o->order.first[w] + o->order.at[w], -1, -1);
        return false;
    }
    order_reach(&o->order);
    return ends_whole(o, v);
}

static bool play(oracle *o, const touch_step *step, oracle_verdict *v) {
    int who = -1;
    for (int i = 0; i < o->order.steps; i++) v->step[i] = step[i];
    hazard h = memory_set(&o->memory, &o->order, &o->space, step, &who);
    if (h != HAZARD_NONE) {
        found(o, v, h, who, -1, -1);
        return false;
    }
    return !races(o, v) && plays(o, v);
}

/* Positions: the start of a sequence and what follows it, the last that fits and a new sequence, the same again, and
   whatever else. */
static int64_t draw_position(tw_random *r, int number, int step, int64_t before, int64_t next, int64_t last) {
    int64_t pos = 0;
    switch (number) {
    case 0:
        pos = step ? next : 0;
        break;
    case 1:
        pos = step ? 0 : last;
        break;
    case 2:
        pos = step ? before : last / 2;
        break;
    default:
        pos = step ? (int64_t)tw_random_below(r, (uint64_t)last + 1) : 1;
    }
    return pos > last ? last : pos;
}

/* Fewer tokens than a step holds are played too, and of several sequences each has its own positions. */
static touch_step draw(const tw_schedule *s, tw_random *r, int number, int step, touch_step before) {
    touch_step p = {.n = s->tokens};
    if (s->sequences == 1 && number && tw_random_below(r, 2))
        p.n = 1 + (int64_t)tw_random_below(r, (uint64_t)s->tokens);
    int64_t last = s->sequences > 1 ? s->max_seq - 1 : s->max_seq - p.n;
    p.pos = draw_position(r, number, step, before.pos, before.pos + (s->sequences > 1 ? 1 : before.n), last);
    for (int i = 1; i < s->sequences; i++) {
        int64_t at = touch_position(&before, i);
        p.others[i - 1] = draw_position(r, (number + i) % PLAYS, step, at, at + 1, last);
    }
    return p;
}

void oracle_judge(oracle *o, const tw_schedule *s, tw_random *r, oracle_verdict *v) {
    int steps = 2 + (int)tw_random_below(r, ORDER_MAX_STEPS - 1);
    touch_step step[ORDER_MAX_STEPS] = {{0}};
    if (!runs(o, s, steps, v)) return;
    for (int number = 0; number < PLAYS; number++) {
        for (int i = 0; i < steps; i++) step[i] = draw(s, r, number, i, step[i ? i - 1 : 0]);
        if (!play(o, step, v)) return;
    }
    stands_alone(o, v);
}

void oracle_judge_at(oracle *o, const tw_schedule *s, int steps, const touch_step *step, oracle_verdict *v) {
    if (runs(o, s, steps, v) && play(o, step, v)) stands_alone(o, v);
}

void oracle_free(oracle *o) {
    order_free(&o->order);
    touch_space_free(&o->space);
    memory_free(&o->memory);
}
