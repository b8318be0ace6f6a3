/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle on programs made by hand, of which everybody can see whether they are safe; and against all runs of the
   machine on small ones. */
#include "support/support.h"

#include "schedule/builder.h"
#include "soundness/cases.h"
#include "soundness/machine.h"
#include "soundness/oracle.h"

#include <stdlib.h>
#include <string.h>

enum { DIM = 4, ROWS = 6 };

/* Two workers embed, feed forward into h, project back, and take the head, half each; stages are joined whole. */
typedef struct hand {
    tw_schedule *s;
    int tokens, table, x, h, norm, square, logits, best, token;
} hand;

static int buffer(hand *b, const char *name, tw_buffer_kind kind, int64_t i, int64_t j, int64_t k) {
    bool ids = !strcmp(name, "tokens") || !strcmp(name, "token");
    return tw_schedule_add_buffer(b->s, name, kind, ids ? TW_I32 : TW_F32, 0, i, j, k);
}

/* One instruction a worker over its half; it waits for `wait` and arrives at a counter of its own, which is returned.
 */
static int stage(hand *b, tw_instr_op op, int wait, int arrivals) {
    int counter = tw_schedule_add_counter(b->s, "");
    for (int w = 0; w < 2; w++) {
        tw_instr *in = tw_schedule_add_instr(b->s, w, op);
        const int operands[TW_INSTR_COUNT][6] = {
            [TW_INSTR_EMBED] = {b->tokens, b->table, -1, b->x, -1, -1},
            [TW_INSTR_FFN] = {b->x, b->norm, -1, -1, b->square, -1},
            [TW_INSTR_PROJECT] = {b->h, b->square, -1, b->x, -1, -1},
            [TW_INSTR_HEAD] = {b->x, b->norm, -1, b->square, b->logits, b->best},
        };
        for (int i = 0; i < 6; i++) in->operand[i] = operands[op][i];
        if (op == TW_INSTR_FFN) in->operand[TW_FFN_H] = b->h;
        in->param[TW_FROM] = w * DIM / 2;
        in->param[TW_TO] = (w + 1) * DIM / 2;
        in->param[TW_HEAD_SLOT] = op == TW_INSTR_HEAD ? w : 0;
        in->arrive = counter;
        tw_schedule_add_wait(b->s, in, wait, arrivals);
    }
    return counter;
}

static hand by_hand(void) {
    hand b = {tw_schedule_begin(2, 1, ROWS), 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_non_null(b.s);
    b.tokens = buffer(&b, "tokens", TW_BUFFER_INPUT, 1, 1, 1);
    b.table = buffer(&b, "table", TW_BUFFER_WEIGHT, 1, DIM, DIM);
    b.x = buffer(&b, "x", TW_BUFFER_ACTIVATION, 1, 1, DIM);
    b.h = buffer(&b, "h", TW_BUFFER_ACTIVATION, 1, 1, DIM);
    b.norm = buffer(&b, "norm", TW_BUFFER_WEIGHT, 1, DIM, 1);
    b.square = buffer(&b, "square", TW_BUFFER_WEIGHT, 1, DIM, DIM);
    b.logits = buffer(&b, "logits", TW_BUFFER_OUTPUT, 1, 1, DIM);
    b.best = buffer(&b, "best", TW_BUFFER_ACTIVATION, 2, 1, 2);
    b.token = buffer(&b, "token", TW_BUFFER_OUTPUT, 1, 1, 1);
    tw_instr *in = tw_schedule_add_instr(b.s, 0, TW_INSTR_INPUT);
    in->operand[TW_INPUT_TOKENS] = b.tokens;
    in->arrive = tw_schedule_add_counter(b.s, "");
    int ready = stage(&b, TW_INSTR_EMBED, in->arrive, 1);
    ready = stage(&b, TW_INSTR_FFN, ready, 2);
    ready = stage(&b, TW_INSTR_PROJECT, ready, 2);
    ready = stage(&b, TW_INSTR_HEAD, ready, 2);
    in = tw_schedule_add_instr(b.s, 0, TW_INSTR_OUTPUT);
    in->operand[TW_OUTPUT_LOGITS] = b.logits;
    in->operand[TW_OUTPUT_BEST] = b.best;
    in->operand[TW_OUTPUT_TOKEN] = b.token;
    tw_schedule_add_wait(b.s, in, ready, 2);
    assert_false(b.s->arena.failed);
    return b;
}

/* Worker 0's list is input, embed, ffn, project, head, output; worker 1's the four in the middle. */
enum { EMBED = 1, FFN, PROJECT, HEAD, OUTPUT };

static tw_instr *at(hand *b, int worker, int op) {
    return &b->s->workers[worker].list[op - worker];
}

static oracle_verdict judge(const tw_schedule *s, int64_t first, int64_t second) {
    oracle o = {0};
    oracle_verdict v;
    touch_step step[2] = {{.pos = first, .n = s->tokens}, {.pos = second, .n = s->tokens}};
    oracle_judge_at(&o, s, 2, step, &v);
    oracle_free(&o);
    return v;
}

static void expect(tw_schedule *s, hazard kind) {
    oracle_verdict v = judge(s, 2, 3);
    if (v.kind != kind) fail_msg("%s instead of %s", v.text, hazard_name(kind));
    tw_schedule_free(s);
}

static void whole_joins_are_safe(void **state) {
    (void)state;
    expect(by_hand().s, HAZARD_NONE);
}

static void faults_of_form(void **state) {
    (void)state;
    hand b = by_hand();
    at(&b, 0, FFN)->operand[TW_FFN_H] = b.s->n_buffers;
    expect(b.s, HAZARD_REFERENCE);
    b = by_hand();
    at(&b, 1, FFN)->arrive = b.s->n_counters;
    expect(b.s, HAZARD_REFERENCE);
    b = by_hand();
    at(&b, 0, FFN)->operand[TW_FFN_X] = b.logits;
    expect(b.s, HAZARD_KIND);
    b = by_hand();
    at(&b, 0, FFN)->operand[TW_FFN_H] = b.square;
    expect(b.s, HAZARD_READ_ONLY);
    b = by_hand();
    b.s->buffers[b.h].shape[2]++;
    expect(b.s, HAZARD_SHAPE);
    b = by_hand();
    at(&b, 1, PROJECT)->param[TW_TO]++;
    expect(b.s, HAZARD_BOUNDS);
    b = by_hand();
    b.s->workers[0].count--;
    expect(b.s, HAZARD_STRUCTURE);
}

static void a_wait_for_more_than_comes_is_a_deadlock(void **state) {
    (void)state;
    hand b = by_hand();
    at(&b, 1, HEAD)->waits[0].threshold++;
    expect(b.s, HAZARD_DEADLOCK);
}

static void a_cycle_is_a_deadlock(void **state) {
    (void)state;
    hand b = by_hand();
    at(&b, 0, FFN)->waits[0].counter = at(&b, 1, PROJECT)->arrive;
    expect(b.s, HAZARD_DEADLOCK);
}

static void a_missing_or_partial_wait_is_a_race(void **state) {
    (void)state;
    hand b = by_hand();
    at(&b, 1, FFN)->n_waits = 0;
    expect(b.s, HAZARD_RACE);
    b = by_hand();
    at(&b, 1, FFN)->waits[0].threshold = 1;
    expect(b.s, HAZARD_RACE);
    b = by_hand();
    b.s->counters[at(&b, 1, FFN)->waits[0].counter].init = 1;
    expect(b.s, HAZARD_RACE);
}

/* With its own worker's arrival alone the count is right, and the other's half is not there. */
static void an_arrival_too_many_lets_a_wait_pass(void **state) {
    (void)state;
    hand b = by_hand();
    at(&b, 0, FFN)->arrive = at(&b, 0, EMBED)->arrive;
    expect(b.s, HAZARD_DEADLOCK);
    b = by_hand();
    at(&b, 0, FFN)->n_waits = 0;
    at(&b, 0, FFN)->arrive = at(&b, 0, EMBED)->arrive;
    expect(b.s, HAZARD_DEADLOCK); /* now the projection gets one of two */
}

/* A partial wait that is safe: what it may miss is the worker's own, which comes first anyway. */
static void a_partial_wait_need_not_be_unsafe(void **state) {
    (void)state;
    hand b = by_hand();
    for (int op = FFN; op <= HEAD; op++) b.s->workers[1].list[op - 1].param[TW_TO] = DIM;
    tw_instr keep[] = {*at(&b, 0, 0), *at(&b, 0, EMBED), *at(&b, 0, FFN), *at(&b, 0, PROJECT), *at(&b, 0, HEAD)};
    tw_instr end = *at(&b, 0, OUTPUT);
    for (int i = 0; i < 5; i++) {
        if (i) keep[i].param[TW_TO] = DIM;
        keep[i].n_waits = i == 2; /* feeding forward waits for one of one: its own embedding */
        b.s->workers[0].list[i] = keep[i];
    }
    keep[2].waits[0].threshold = 1;
    end.n_waits = 0;
    b.s->workers[0].list[5] = end;
    b.s->workers[1].count = 0;
    b.s->buffers[b.best].shape[0] = 1;
    expect(b.s, HAZARD_NONE);
}

/* Worker 0 does everything, in its order, and waits for nobody. */
static void leave_one_worker(hand *b) {
    for (int i = 1; i <= OUTPUT; i++) {
        at(b, 0, i)->n_waits = 0;
        if (i < OUTPUT) at(b, 0, i)->param[TW_TO] = DIM;
    }
    b->s->workers[1].count = 0;
    b->s->buffers[b->best].shape[0] = 1;
}

static void order_on_one_worker_decides_what_is_defined(void **state) {
    (void)state;
    hand b = by_hand();
    leave_one_worker(&b);
    tw_schedule *safe = program_copy(b.s);
    expect(safe, HAZARD_NONE);
    tw_instr t = *at(&b, 0, FFN);
    *at(&b, 0, FFN) = *at(&b, 0, PROJECT);
    *at(&b, 0, PROJECT) = t;
    expect(b.s, HAZARD_UNDEFINED);
}

static void a_gap_and_an_overlap_are_uneven(void **state) {
    (void)state;
    hand b = by_hand();
    at(&b, 1, PROJECT)->param[TW_FROM]++;
    expect(b.s, HAZARD_COVERAGE);
    b = by_hand();
    at(&b, 1, EMBED)->param[TW_FROM]++;
    expect(b.s, HAZARD_UNDEFINED);
    b = by_hand();
    at(&b, 1, PROJECT)->param[TW_FROM]--;
    expect(b.s, HAZARD_RACE); /* both add to the same column at once */
    b = by_hand();
    tw_instr again = *at(&b, 1, PROJECT);
    program_insert(b.s, 1, PROJECT, again);
    b.s->workers[1].list[PROJECT - 1].arrive = -1;
    expect(b.s, HAZARD_COVERAGE); /* one after the other: added twice */
}

static void a_step_must_not_end_early(void **state) {
    (void)state;
    hand b = by_hand();
    at(&b, 0, OUTPUT)->n_waits = 0;
    expect(b.s, HAZARD_STEP_END);
}

static void outputs_are_written_whole(void **state) {
    (void)state;
    hand b = by_hand();
    buffer(&b, "extra", TW_BUFFER_OUTPUT, 1, 1, 2);
    expect(b.s, HAZARD_OUTPUT);
}

static void an_instruction_may_not_write_what_it_reads_otherwise(void **state) {
    (void)state;
    hand b = by_hand();
    leave_one_worker(&b);
    at(&b, 0, PROJECT)->operand[TW_PROJECT_IN] = b.x;
    expect(b.s, HAZARD_SELF);
    /* The same as a file, which the check once accepted. */
    tw_schedule *s;
    tw_checked *c;
    tw_diag diag;
    assert_int_equal(tw_schedule_read(&s, TEST_DATA "/schedules/project_in_place.json", &diag), TW_OK);
    assert_int_equal(tw_schedule_check(&c, &s, NULL, &diag), TW_ERR_REJECTED);
    assert_non_null(strstr(diag.message, "self overlap"));
    expect(s, HAZARD_SELF);
}

/* ---- the cache: one worker appends, the other attends in two parts; only the second waits for the append ---- */

static tw_schedule *attention_by_hand(int64_t tokens, bool wait) {
    hand b = by_hand();
    tw_schedule *s = b.s;
    s->tokens = tokens;
    for (int i = 0; i < s->n_buffers; i++)
        if (i == b.tokens || i == b.x || i == b.h) s->buffers[i].shape[0] = tokens;
    int q = buffer(&b, "q", TW_BUFFER_ACTIVATION, tokens, 1, DIM), k = buffer(&b, "k", TW_BUFFER_KV, 1, ROWS, DIM),
        v = buffer(&b, "v", TW_BUFFER_KV, 1, ROWS, DIM),
        part = buffer(&b, "part", TW_BUFFER_ACTIVATION, tokens, 2, DIM + 2);
    int done[3];
    for (int i = 0; i < 3; i++) done[i] = program_add_counter(s);
    tw_wait embedded = at(&b, 0, FFN)->waits[0];
    tw_instr ffn[2] = {*at(&b, 0, FFN), *at(&b, 1, FFN)};
    /* Worker 0: q, then k and v, in place of its ffn; worker 1: the two parts and their merge into h. */
    tw_instr in = {.op = TW_INSTR_QKV, .arrive = done[0]};
    for (int i = 0; i < TW_MAX_OPERANDS; i++) in.operand[i] = -1;
    in.operand[TW_QKV_X] = b.x, in.operand[TW_QKV_NORM] = b.norm;
    in.operand[TW_QKV_WQ] = in.operand[TW_QKV_WK] = in.operand[TW_QKV_WV] = b.square;
    in.operand[TW_QKV_Q] = q, in.operand[TW_QKV_K] = k, in.operand[TW_QKV_V] = v;
    in.waits = &embedded, in.n_waits = 1;
    in.param[TW_TO] = DIM;
    program_remove(s, 0, FFN);
    program_insert(s, 0, FFN, in);
    in.param[TW_FROM] = DIM, in.param[TW_TO] = 3 * DIM;
    in.arrive = done[1];
    program_insert(s, 0, FFN + 1, in);
    program_remove(s, 1, FFN - 1);
    tw_wait have_q = {done[0], 1}, have_cache = {done[1], 1};
    for (int i = 0; i < 2; i++) {
        tw_instr attend = {.op = TW_INSTR_ATTEND, .arrive = -1};
        for (int o = 0; o < TW_MAX_OPERANDS; o++) attend.operand[o] = -1;
        attend.operand[TW_ATTEND_Q] = q, attend.operand[TW_ATTEND_K] = k, attend.operand[TW_ATTEND_V] = v;
        attend.operand[TW_ATTEND_PART] = part;
        attend.param[TW_ATTEND_HEAD_TO] = 1, attend.param[TW_ATTEND_ROW_TO] = tokens;
        attend.param[TW_ATTEND_SPLIT] = i, attend.param[TW_ATTEND_SPLITS] = 2;
        attend.waits = i || wait ? &have_cache : &have_q, attend.n_waits = 1;
        program_insert(s, 1, FFN - 1 + i, attend);
    }
    tw_instr merge = {.op = TW_INSTR_MERGE, .operand = {part, b.h}, .arrive = ffn[0].arrive};
    for (int o = 2; o < TW_MAX_OPERANDS; o++) merge.operand[o] = -1;
    merge.param[TW_MERGE_HEAD_TO] = 1, merge.param[TW_MERGE_SPLITS] = 2;
    program_insert(s, 1, FFN + 1, merge);
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].op == TW_INSTR_PROJECT) s->workers[w].list[i].waits[0].threshold = 1;
    return s;
}

static void positions_decide(void **state) {
    (void)state;
    expect(attention_by_hand(1, true), HAZARD_NONE);
    expect(attention_by_hand(2, true), HAZARD_NONE);
    /* Two positions at the start: the first part is row 0, which this step appends. After three rows of past it is rows
       0 and 1, which are long there. */
    tw_schedule *s = attention_by_hand(2, false);
    assert_int_equal(judge(s, 0, 2).kind, HAZARD_RACE);
    assert_int_equal(judge(s, 3, 4).kind, HAZARD_NONE);
    tw_schedule_free(s);
}

static void an_append_beyond_the_cache_is_out_of_bounds(void **state) {
    (void)state;
    tw_schedule *s = attention_by_hand(1, true);
    assert_int_equal(judge(s, ROWS - 1, 0).kind, HAZARD_NONE);
    assert_int_equal(judge(s, ROWS, 0).kind, HAZARD_BOUNDS);
    tw_schedule_free(s);
}

/* ---- against all runs ---- */

static void all_runs_agree(void **state) {
    (void)state;
    program_pool pool = program_pool_open(8, 40);
    oracle o = {0};
    int whole = 0, faults = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        tw_random r = tw_random_seed(seed);
        tw_schedule *s = case_make(&pool, (int)(seed % (uint64_t)case_classes()), &r);
        oracle_verdict v;
        touch_step step[2] = {{.n = s->tokens}, {.n = s->tokens}};
        bool complete;
        int who;
        oracle_judge_at(&o, s, 2, step, &v);
        bool order_fault = v.kind == HAZARD_DEADLOCK || v.kind == HAZARD_RACE || v.kind == HAZARD_STEP_END;
        if ((v.kind == HAZARD_NONE || v.kind >= HAZARD_DEADLOCK) && v.played && o.order.total < 60 &&
            memory_set(&o.memory, &o.order, &o.space, step, &who) == HAZARD_NONE) {
            hazard h = machine_all(&o.memory, 5000, &complete);
            if (complete && (h != HAZARD_NONE) != order_fault)
                fail_msg("seed %d: %s, but %s", (int)seed, v.text, hazard_name(h));
            whole += complete;
            faults += complete && order_fault;
        }
        tw_schedule_free(s);
    }
    assert_true(whole > 300 && faults > 100);
    oracle_free(&o);
    program_pool_close(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_joins_are_safe),
        cmocka_unit_test(faults_of_form),
        cmocka_unit_test(a_wait_for_more_than_comes_is_a_deadlock),
        cmocka_unit_test(a_cycle_is_a_deadlock),
        cmocka_unit_test(a_missing_or_partial_wait_is_a_race),
        cmocka_unit_test(an_arrival_too_many_lets_a_wait_pass),
        cmocka_unit_test(a_partial_wait_need_not_be_unsafe),
        cmocka_unit_test(order_on_one_worker_decides_what_is_defined),
        cmocka_unit_test(a_gap_and_an_overlap_are_uneven),
        cmocka_unit_test(a_step_must_not_end_early),
        cmocka_unit_test(outputs_are_written_whole),
        cmocka_unit_test(an_instruction_may_not_write_what_it_reads_otherwise),
        cmocka_unit_test(positions_decide),
        cmocka_unit_test(an_append_beyond_the_cache_is_out_of_bounds),
        cmocka_unit_test(all_runs_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
