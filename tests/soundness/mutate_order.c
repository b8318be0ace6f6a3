/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of order: waits, arrivals, counters, queues. */
#include "soundness/mutate.h"

#include <string.h>

place pick(tw_schedule *s, tw_random *r, fits_fn *fits) {
    place p = {NULL, -1, -1};
    int n = 0;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            tw_instr *in = &s->workers[w].list[i];
            if ((!fits || fits(in)) && draw_once_in(r, ++n)) p = (place){in, w, i};
        }
    return p;
}

void change_waits(tw_schedule *s, int counter, int change) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            tw_instr *in = &s->workers[w].list[i];
            for (int k = in->n_waits - 1; k >= 0; k--) {
                if (in->waits[k].counter != counter) continue;
                in->waits[k].threshold += change;
                if (in->waits[k].threshold <= 0) program_drop_wait(in, k);
            }
        }
}

static bool waits(const tw_instr *in) {
    return in->n_waits > 0;
}
static bool arrives(const tw_instr *in) {
    return in->arrive >= 0;
}
static bool waits_for_many(const tw_instr *in) {
    for (int i = 0; i < in->n_waits; i++)
        if (in->waits[i].threshold > 1) return true;
    return false;
}
static bool outputs(const tw_instr *in) {
    return in->op == TW_INSTR_OUTPUT;
}
static bool attends(const tw_instr *in) {
    return in->op == TW_INSTR_ATTEND;
}

static bool drop_wait(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits);
    if (!p.in) return false;
    program_drop_wait(p.in, draw_below(r, p.in->n_waits));
    return true;
}

static bool drop_all_waits(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits);
    if (!p.in) return false;
    p.in->n_waits = 0;
    return true;
}

static bool partial_wait(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits_for_many);
    for (int i = 0; p.in && i < p.in->n_waits; i++) {
        if (p.in->waits[i].threshold < 2) continue;
        const int64_t most = p.in->waits[i].threshold - 1;
        p.in->waits[i].threshold -= 1 + draw_below(r, most > INT32_MAX ? INT32_MAX : (int)most);
        return true;
    }
    return false;
}

static bool over_wait(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits);
    if (!p.in) return false;
    p.in->waits[draw_below(r, p.in->n_waits)].threshold += 1 + draw_below(r, 3);
    return true;
}

static bool times_wait(tw_schedule *s, tw_random *r) {
    static const int64_t times[] = {2, 3, 0, -1, INT64_C(1) << 31, INT64_C(1) << 32};
    place p = pick(s, r, waits);
    if (!p.in) return false;
    p.in->waits[draw_below(r, p.in->n_waits)].threshold *= times[draw_below(r, (int)(sizeof times / sizeof *times))];
    return true;
}

static bool self_wait(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, arrives);
    if (!p.in) return false;
    if (p.in->n_waits && draw_once_in(r, 2)) p.in->n_waits--;
    program_add_wait(s, p.in, (tw_wait){p.in->arrive, draw_once_in(r, 2) ? 1 : program_arrivals(s, p.in->arrive)});
    return true;
}

/* An instruction waits for one that comes after it on its own worker. */
static bool cycle(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, arrives);
    if (!p.in || !p.index) return false;
    program_add_wait(s, &s->workers[p.worker].list[draw_below(r, p.index)],
                     (tw_wait){p.in->arrive, program_arrivals(s, p.in->arrive)});
    return true;
}

/* As with two rings of one slot each: a worker goes on when the other has freed a slot, which that does only later. */
static bool credit_deadlock(tw_schedule *s, tw_random *r) {
    place a = pick(s, r, arrives), b = pick(s, r, arrives);
    if (!a.in || !b.in || a.worker == b.worker || !a.index || !b.index) return false;
    int a_credit = a.in->arrive, b_credit = b.in->arrive;
    program_add_wait(s, &s->workers[a.worker].list[draw_below(r, a.index + 1)],
                     (tw_wait){b_credit, program_arrivals(s, b_credit)});
    program_add_wait(s, &s->workers[b.worker].list[draw_below(r, b.index + 1)],
                     (tw_wait){a_credit, program_arrivals(s, a_credit)});
    return true;
}

static bool counter_init(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits);
    if (!p.in) return false;
    int64_t init = draw_once_in(r, 4) ? -1 - draw_below(r, 2) : 1 + draw_below(r, 4);
    s->counters[p.in->waits[draw_below(r, p.in->n_waits)].counter].init = init;
    return true;
}

static bool swap_order(tw_schedule *s, tw_random *r) {
    tw_worker *w = &s->workers[draw_below(r, s->n_workers)];
    if (w->count < 2) return false;
    int at = draw_below(r, w->count - 1), other = draw_once_in(r, 2) ? at + 1 : draw_below(r, w->count);
    tw_instr t = w->list[at];
    w->list[at] = w->list[other];
    w->list[other] = t;
    return at != other;
}

static bool move_worker(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, NULL);
    int to = draw_below(r, s->n_workers);
    if (to == p.worker) return false;
    tw_instr in = *p.in;
    program_remove(s, p.worker, p.index);
    program_insert(s, to, draw_below(r, s->workers[to].count + 1), in);
    return true;
}

static bool redirect_arrive(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, arrives), q = pick(s, r, arrives);
    if (!p.in || p.in->arrive == q.in->arrive) return false;
    p.in->arrive = q.in->arrive;
    return true;
}

/* The same, and every wait is for all that arrives: the joins are whole, but not where they belong. */
static bool moved_arrive(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, arrives), q = pick(s, r, arrives);
    if (!p.in || p.in->arrive == q.in->arrive) return false;
    change_waits(s, p.in->arrive, -1);
    change_waits(s, q.in->arrive, 1);
    p.in->arrive = q.in->arrive;
    return true;
}

static bool drop_arrive(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, arrives);
    if (!p.in) return false;
    if (draw_once_in(r, 2)) change_waits(s, p.in->arrive, -1);
    p.in->arrive = -1;
    return true;
}

/* Another instruction arrives where one does already, and is not missed where it did. */
static bool double_arrive(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, arrives), q = pick(s, r, waits);
    if (!p.in || !q.in) return false;
    int counter = q.in->waits[draw_below(r, q.in->n_waits)].counter;
    if (counter == p.in->arrive) return false;
    change_waits(s, p.in->arrive, -1);
    p.in->arrive = counter;
    return true;
}

/* One of a join's producers gets a counter of its own, and some who waited for all forget it. */
static bool split_join(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, arrives);
    if (!p.in) return false;
    int old = p.in->arrive, fresh = program_add_counter(s);
    p.in->arrive = fresh;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            tw_instr *in = &s->workers[w].list[i];
            bool waited = false;
            for (int k = 0; k < in->n_waits; k++) waited = waited || in->waits[k].counter == old;
            if (waited && draw_below(r, 3)) program_add_wait(s, in, (tw_wait){fresh, 1});
        }
    change_waits(s, old, -1);
    return true;
}

static bool late_wait(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits);
    if (!p.in || p.index + 1 == s->workers[p.worker].count) return false;
    int later = p.index + 1 + draw_below(r, s->workers[p.worker].count - p.index - 1), i = draw_below(r, p.in->n_waits);
    tw_wait moved = p.in->waits[i];
    program_drop_wait(p.in, i);
    program_add_wait(s, &s->workers[p.worker].list[later], moved);
    return true;
}

/* An instruction waits for what another one waits for. */
static bool other_wait(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits), q = pick(s, r, waits);
    if (!p.in || p.in == q.in) return false;
    p.in->waits[draw_below(r, p.in->n_waits)] = q.in->waits[draw_below(r, q.in->n_waits)];
    return true;
}

static bool early_end(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, outputs);
    if (!p.in || !p.in->n_waits) return false;
    if (draw_once_in(r, 2))
        p.in->n_waits = 0;
    else
        program_drop_wait(p.in, draw_below(r, p.in->n_waits));
    return true;
}

/* What keeps the next step's instruction behind this step: its waits go, or name this step's arrivals only. */
static bool cross_step(tw_schedule *s, tw_random *r) {
    place out = pick(s, r, outputs), p = pick(s, r, waits);
    if (!out.in || !p.in) return false;
    for (int i = out.in->n_waits - 1; i >= 0; i--)
        if (draw_once_in(r, 2)) program_drop_wait(out.in, i);
    if (p.in != out.in && draw_once_in(r, 2)) program_drop_wait(p.in, draw_below(r, p.in->n_waits));
    return true;
}

static bool arrives_at(const tw_schedule *s, int counter, tw_instr_op op) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].arrive == counter && s->workers[w].list[i].op == op) return true;
    return false;
}

static bool attend_before_append(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, attends);
    if (!p.in) return false;
    int before = p.in->n_waits;
    for (int i = p.in->n_waits - 1; i >= 0; i--)
        if (arrives_at(s, p.in->waits[i].counter, TW_INSTR_QKV)) program_drop_wait(p.in, i);
    return p.in->n_waits < before;
}

/* Who writes scratch again does not wait for those who still read it. */
static bool reads_what(const tw_instr *reader, const tw_instr *writer) {
    for (int o = 0; o < op_operands(writer->op); o++) {
        if (writer->operand[o] < 0 || !op_writes(writer->op, o)) continue;
        for (int i = 0; i < op_operands(reader->op); i++)
            if (reader->operand[i] == writer->operand[o] && !op_writes(reader->op, i)) return true;
    }
    return false;
}

static bool write_after_read(tw_schedule *s, tw_random *r) {
    place p = pick(s, r, waits);
    if (!p.in || p.in->op == TW_INSTR_OUTPUT) return false;
    int before = p.in->n_waits;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *reader = &s->workers[w].list[i];
            if (reader == p.in || reader->arrive < 0 || !reads_what(reader, p.in)) continue;
            for (int k = p.in->n_waits - 1; k >= 0; k--)
                if (p.in->waits[k].counter == reader->arrive) program_drop_wait(p.in, k);
        }
    return p.in->n_waits < before;
}

const mutation mutations_of_order[] = {
    {"drop wait", drop_wait, BASE_ANY},
    {"drop all waits", drop_all_waits, BASE_ANY},
    {"partial wait", partial_wait, BASE_LOWERED},
    {"over-wait", over_wait, BASE_ANY},
    {"threshold times", times_wait, BASE_ANY},
    {"self-wait", self_wait, BASE_ANY},
    {"cycle", cycle, BASE_ANY},
    {"credit deadlock", credit_deadlock, BASE_ANY},
    {"counter init", counter_init, BASE_ANY},
    {"swap order", swap_order, BASE_ANY},
    {"move to worker", move_worker, BASE_ANY},
    {"redirect arrive", redirect_arrive, BASE_ANY},
    {"moved arrive", moved_arrive, BASE_ANY},
    {"drop arrive", drop_arrive, BASE_ANY},
    {"double arrive", double_arrive, BASE_ANY},
    {"split join", split_join, BASE_ANY},
    {"late wait", late_wait, BASE_ANY},
    {"other wait", other_wait, BASE_ANY},
    {"early end", early_end, BASE_ANY},
    {"cross step", cross_step, BASE_ANY},
    {"attend before append", attend_before_append, BASE_ANY},
    {"write after read", write_after_read, BASE_FINE},
};
const int n_mutations_of_order = sizeof mutations_of_order / sizeof *mutations_of_order;
