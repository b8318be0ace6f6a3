/* SPDX-License-Identifier: Apache-2.0 */
/* One fault at a time is put into a real lowering; the check must name it. */
#include "support/support.h"

#include "base/random.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, TRIES = 60 };

static tw_model *model;

/* `tokens` below 0: as many sequences. */
static tw_schedule *fresh_of(int tokens, tw_dtype kv, bool group_heads) {
    tw_schedule *s = NULL;
    tw_diag d;
    tw_lowering l = {.workers = WORKERS, .tokens = abs(tokens), .max_seq = 32, .kv_splits = tokens <= 1 ? 2 : 1};
    if (tokens < 0) l.sequences = -tokens;
    l.kv = kv;
    l.group_heads = group_heads;
    if (tw_schedule_lower(&s, model, &l, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

static tw_schedule *fresh(int tokens) {
    return fresh_of(tokens, TW_F32, false);
}

/* A random instruction that `fits`; NULL: any. */
static tw_instr *pick(tw_schedule *s, tw_random *r, bool (*fits)(const tw_instr *)) {
    for (;;) {
        tw_worker *w = &s->workers[tw_random_below(r, (uint64_t)s->n_workers)];
        tw_instr *in = &w->list[tw_random_below(r, (uint64_t)w->count)];
        if (!fits || fits(in)) return in;
    }
}

static bool waits(const tw_instr *in) {
    return in->n_waits > 0;
}
static bool joins_many(const tw_instr *in) {
    return in->n_waits > 0 && in->waits[0].threshold > 1;
}
static bool arrives(const tw_instr *in) {
    return in->arrive >= 0 && in->op != TW_INSTR_OUTPUT;
}
static bool ranged(const tw_instr *in) {
    return in->op == TW_INSTR_FFN || in->op == TW_INSTR_PROJECT || in->op == TW_INSTR_HEAD ||
           in->op == TW_INSTR_EMBED || (in->op == TW_INSTR_QKV && in->param[TW_TO] < 64);
}
static bool attends(const tw_instr *in) {
    return in->op == TW_INSTR_ATTEND;
}
static bool splits(const tw_instr *in) {
    return in->op == TW_INSTR_ATTEND && in->param[TW_ATTEND_SPLITS] > 1;
}
static bool qkv(const tw_instr *in) {
    return in->op == TW_INSTR_QKV;
}
static bool first_qkv(const tw_instr *in) {
    return in->op == TW_INSTR_QKV && in->waits[0].counter == 1;
}
static bool project(const tw_instr *in) {
    return in->op == TW_INSTR_PROJECT;
}
static bool ffn(const tw_instr *in) {
    return in->op == TW_INSTR_FFN;
}

/* Some waits are implied: worker 0 embeds after its own input, a second part of attention follows the first, and a
   merge may find all of its parts on its own worker. Every other join is needed. */
static bool needs_its_wait(const tw_instr *in) {
    return joins_many(in) && in->op != TW_INSTR_ATTEND && in->op != TW_INSTR_MERGE;
}
static void drop_wait(tw_schedule *s, tw_random *r) {
    pick(s, r, needs_its_wait)->n_waits = 0;
}
static void lower_threshold(tw_schedule *s, tw_random *r) {
    pick(s, r, joins_many)->waits[0].threshold--;
}
static void raise_threshold(tw_schedule *s, tw_random *r) {
    pick(s, r, waits)->waits[0].threshold++;
}
static void zero_threshold(tw_schedule *s, tw_random *r) {
    pick(s, r, waits)->waits[0].threshold = 0;
}
static void drop_arrive(tw_schedule *s, tw_random *r) {
    pick(s, r, arrives)->arrive = -1;
}
static void start_counter_at_one(tw_schedule *s, tw_random *r) {
    s->counters[tw_random_below(r, (uint64_t)s->n_counters)].init = 1;
}
static void wait_for_itself(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, waits);
    in->waits[0].counter = in->arrive;
    in->waits[0].threshold = 1;
}
static bool within_a_step(const tw_instr *in) {
    return joins_many(in) && in->op != TW_INSTR_OUTPUT;
}
static void wait_for_a_later_stage(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, within_a_step);
    in->waits[0].counter = in->arrive + 1;
}
static void leave_a_gap(tw_schedule *s, tw_random *r) {
    pick(s, r, ranged)->param[TW_FROM] += 2;
}
static void run_over(tw_schedule *s, tw_random *r) {
    pick(s, r, ranged)->param[TW_TO] += 1 << 20;
}
static void run_backwards(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, ranged);
    in->param[TW_TO] = in->param[TW_FROM];
}
static void overlap_the_neighbour(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, ranged);
    if (in->param[TW_FROM] >= 2)
        in->param[TW_FROM] -= 2;
    else
        in->param[TW_TO] += 2;
}
static void bad_buffer(tw_schedule *s, tw_random *r) {
    pick(s, r, NULL)->operand[0] = s->n_buffers + 3;
}
static void bad_counter(tw_schedule *s, tw_random *r) {
    pick(s, r, waits)->waits[0].counter = s->n_counters;
}
static void missing_operand(tw_schedule *s, tw_random *r) {
    pick(s, r, NULL)->operand[0] = -1;
}
static void write_a_weight(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, project);
    in->operand[TW_PROJECT_X] = in->operand[TW_PROJECT_W];
}
static void wrong_head(tw_schedule *s, tw_random *r) {
    pick(s, r, attends)->param[TW_ATTEND_HEAD_TO] += 100;
}
static void negative_window(tw_schedule *s, tw_random *r) {
    pick(s, r, attends)->param[TW_ATTEND_WINDOW] = -1;
}
static void one_split_twice(tw_schedule *s, tw_random *r) {
    pick(s, r, splits)->param[TW_ATTEND_SPLIT] ^= 1;
}
static void another_layers_cache(tw_schedule *s, tw_random *r) {
    /* The first layer attends to the second one's keys, which nothing has written yet. */
    tw_instr *in;
    int k = -1;
    for (int i = 0; i < s->n_buffers; i++)
        if (!strcmp(s->buffers[i].name, "layers.1.k")) k = i;
    do in = pick(s, r, attends);
    while (in->operand[TW_ATTEND_K] == k);
    in->operand[TW_ATTEND_K] = k;
}
static void odd_pair(tw_schedule *s, tw_random *r) {
    pick(s, r, qkv)->param[TW_FROM] += 1;
}
static void read_a_later_activation(tw_schedule *s, tw_random *r) {
    /* In the first layer nobody has written `attended` yet; its shape is that of x. */
    tw_instr *in = pick(s, r, first_qkv);
    for (int i = 0; i < s->n_buffers; i++)
        if (!strcmp(s->buffers[i].name, "attended")) in->operand[TW_QKV_X] = i;
}
static void swap_order(tw_schedule *s, tw_random *r) {
    tw_worker *w = &s->workers[tw_random_below(r, (uint64_t)s->n_workers)];
    int at = 1 + (int)tw_random_below(r, (uint64_t)w->count - 3);
    if (w == &s->workers[0] && at == 0) at = 1;
    tw_instr t = w->list[at];
    /* Instructions of one stage may be swapped safely. */
    while (w->list[at + 1].arrive == t.arrive && at + 2 < w->count) at++;
    t = w->list[at];
    w->list[at] = w->list[at + 1];
    w->list[at + 1] = t;
}
static void forget_an_instruction(tw_schedule *s, tw_random *r) {
    tw_worker *w = &s->workers[1 + tw_random_below(r, (uint64_t)s->n_workers - 1)];
    int at = (int)tw_random_below(r, (uint64_t)w->count);
    memmove(&w->list[at], &w->list[at + 1], (size_t)(w->count - at - 1) * sizeof *w->list);
    w->count--;
}
static void second_input(tw_schedule *s, tw_random *r) {
    pick(s, r, ffn)->op = TW_INSTR_INPUT;
}
static void no_output(tw_schedule *s, tw_random *r) {
    (void)r;
    s->workers[0].count--;
}
static void a_buffer_of_nothing(tw_schedule *s, tw_random *r) {
    s->buffers[tw_random_below(r, (uint64_t)s->n_buffers)].shape[tw_random_below(r, 3)] = 0;
}
static void values_unlike_keys(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, attends);
    s->buffers[in->operand[TW_ATTEND_V]].dtype = TW_F16;
}
static void quantised_cache(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, attends);
    s->buffers[in->operand[TW_ATTEND_K]].dtype = s->buffers[in->operand[TW_ATTEND_V]].dtype = TW_I8;
}
static void half_precision_residual(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, project);
    s->buffers[in->operand[TW_PROJECT_X]].dtype = TW_BF16;
}
/* Two instructions write one head's result. */
static void a_head_twice(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, attends);
    if (in->param[TW_ATTEND_HEAD_FROM])
        in->param[TW_ATTEND_HEAD_FROM]--;
    else
        in->param[TW_ATTEND_HEAD_TO]++;
}

/* What several sequences add. */
static void another_sequences_past(tw_schedule *s, tw_random *r) {
    int64_t *p = pick(s, r, attends)->param;
    p[TW_ATTEND_ROW_FROM] = (p[TW_ATTEND_ROW_FROM] + 1) % s->tokens;
    p[TW_ATTEND_ROW_TO] = p[TW_ATTEND_ROW_FROM] + 1;
}
static void a_sequence_twice(tw_schedule *s, tw_random *r) {
    int64_t *p = pick(s, r, attends)->param;
    if (p[TW_ATTEND_ROW_FROM])
        p[TW_ATTEND_ROW_FROM]--;
    else
        p[TW_ATTEND_ROW_TO]++;
}
static void a_sequence_too_many(tw_schedule *s, tw_random *r) {
    pick(s, r, attends)->param[TW_ATTEND_ROW_TO] = s->tokens + 1;
}
static void a_cache_too_few(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, attends);
    s->buffers[in->operand[TW_ATTEND_K]].shape[0] -= 1 + (int64_t)tw_random_below(r, 2);
}
static void one_cache_for_all(tw_schedule *s, tw_random *r) {
    tw_instr *in = pick(s, r, attends);
    for (int i = TW_ATTEND_K; i <= TW_ATTEND_V; i++) s->buffers[in->operand[i]].shape[0] /= s->sequences;
}
static void sequences_unlike_tokens(tw_schedule *s, tw_random *r) {
    s->sequences += tw_random_below(r, 2) ? 1 : -1;
}
static void no_sequences(tw_schedule *s, tw_random *r) {
    s->sequences = -(int64_t)tw_random_below(r, 2);
}
static void one_sequence_after_all(tw_schedule *s, tw_random *r) {
    (void)r;
    s->sequences = 1;
}
static void one_token_for_all(tw_schedule *s, tw_random *r) {
    (void)r;
    s->buffers[s->workers[0].list[s->workers[0].count - 1].operand[TW_OUTPUT_TOKEN]].shape[0] = 1;
}
static void one_best_for_all(tw_schedule *s, tw_random *r) {
    (void)r;
    s->buffers[s->workers[0].list[s->workers[0].count - 1].operand[TW_OUTPUT_BEST]].shape[1] = 1;
}
static void logits_of_the_last(tw_schedule *s, tw_random *r) {
    (void)r;
    s->buffers[s->workers[0].list[s->workers[0].count - 1].operand[TW_OUTPUT_LOGITS]].shape[0] = 1;
}

typedef struct mutation {
    const char *name;
    void (*mutate)(tw_schedule *, tw_random *);
    const char *rules; /* any of these, separated by | */
} mutation;

static const mutation of_sequences[] = {
    {"another_sequences_past", another_sequences_past, "race|undefined read|coverage"},
    {"a_sequence_twice", a_sequence_twice, "race|coverage"},
    {"a_sequence_too_many", a_sequence_too_many, "shape"},
    {"a_cache_too_few", a_cache_too_few, "shape"},
    {"one_cache_for_all", one_cache_for_all, "shape"},
    {"sequences_unlike_tokens", sequences_unlike_tokens, "structure"},
    {"no_sequences", no_sequences, "structure"},
    {"one_sequence_after_all", one_sequence_after_all, "shape"},
    {"one_token_for_all", one_token_for_all, "shape"},
    {"one_best_for_all", one_best_for_all, "shape"},
    {"logits_of_the_last", logits_of_the_last, "shape"},
};

static const mutation mutations[] = {
    {"drop_wait", drop_wait, "race|undefined read|not joined|steps overlap"},
    {"lower_threshold", lower_threshold, "partial join"},
    {"raise_threshold", raise_threshold, "deadlock"},
    {"zero_threshold", zero_threshold, "partial join"},
    {"drop_arrive", drop_arrive, "deadlock"},
    {"start_counter_at_one", start_counter_at_one, "counter init"},
    {"wait_for_itself", wait_for_itself, "deadlock|partial join"},
    {"wait_for_a_later_stage", wait_for_a_later_stage, "deadlock|partial join"},
    {"leave_a_gap", leave_a_gap, "undefined read|coverage|shape"},
    {"run_over", run_over, "shape|bounds"},
    {"run_backwards", run_backwards, "shape"},
    {"overlap_the_neighbour", overlap_the_neighbour, "race|shape|bounds|coverage"},
    {"bad_buffer", bad_buffer, "reference"},
    {"bad_counter", bad_counter, "reference"},
    {"missing_operand", missing_operand, "arity"},
    {"write_a_weight", write_a_weight, "read-only"},
    {"wrong_head", wrong_head, "shape"},
    {"negative_window", negative_window, "shape"},
    {"one_split_twice", one_split_twice, "race|undefined read|coverage"},
    {"another_layers_cache", another_layers_cache, "undefined read|race"},
    {"odd_pair", odd_pair, "shape"},
    {"read_a_later_activation", read_a_later_activation, "undefined read|race"},
    {"swap_order", swap_order, "deadlock|structure|race|undefined read"},
    {"forget_an_instruction", forget_an_instruction, "deadlock|partial join|undefined read"},
    {"second_input", second_input, "structure|arity|kind|shape|read-only"},
    {"no_output", no_output, "structure"},
    {"values_unlike_keys", values_unlike_keys, "shape"},
    {"quantised_cache", quantised_cache, "shape"},
    {"half_precision_residual", half_precision_residual, "shape"},
    {"a_head_twice", a_head_twice, "race|coverage|undefined read|shape"},
    {"a_buffer_of_nothing", a_buffer_of_nothing, "shape"},
};

static bool named(const tw_report *r, const char *rules) {
    for (size_t i = 0; i < r->count; i++) {
        const char *at = strstr(rules, r->findings[i].rule);
        if (at && (at == rules || at[-1] == '|')) return true;
    }
    return false;
}

static void every_fault_is_named(void **state) {
    (void)state;
    tw_random r = tw_random_seed(7);
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++)
        for (int n = 0; n < TRIES; n++) {
            bool decode = n % 2 || mutations[i].mutate == one_split_twice;
            int tokens = n / 4 % 3 == 2 ? -3 : decode ? 1 : 4;
            tw_schedule *s = fresh_of(tokens, n % 3 == 1 ? TW_BF16 : TW_F32, n / 2 % 2);
            tw_checked *c;
            tw_report report;
            tw_diag d;
            mutations[i].mutate(s, &r);
            tw_status st = tw_schedule_check(&c, &s, &report, &d);
            if (st != TW_ERR_REJECTED) fail_msg("%s, try %d: accepted", mutations[i].name, n);
            for (size_t f = 0; f < report.count; f++)
                if (!strncmp(report.findings[f].text, "no worker can go on", 19))
                    assert_non_null(strstr(report.findings[f].text, "waits for"));
            if (!named(&report, mutations[i].rules))
                fail_msg("%s, try %d: %s: %s", mutations[i].name, n, report.findings[0].rule, report.findings[0].text);
            tw_report_free(&report);
            tw_schedule_free(s);
        }
}

static void sequences_are_kept_apart(void **state) {
    (void)state;
    tw_random r = tw_random_seed(11);
    for (size_t i = 0; i < sizeof of_sequences / sizeof *of_sequences; i++)
        for (int n = 0; n < TRIES; n++) {
            tw_schedule *s = fresh_of(-3 - n % 5, n % 3 == 1 ? TW_BF16 : TW_F32, n / 2 % 2);
            tw_checked *c;
            tw_report report;
            tw_diag d;
            of_sequences[i].mutate(s, &r);
            tw_status st = tw_schedule_check(&c, &s, &report, &d);
            if (st != TW_ERR_REJECTED) fail_msg("%s, try %d: accepted", of_sequences[i].name, n);
            if (!named(&report, of_sequences[i].rules))
                fail_msg("%s, try %d: %s: %s", of_sequences[i].name, n, report.findings[0].rule,
                         report.findings[0].text);
            tw_report_free(&report);
            tw_schedule_free(s);
        }
}

static void a_rejection_says_who_and_what(void **state) {
    (void)state;
    tw_schedule *s = fresh(1);
    tw_checked *c;
    tw_report report;
    tw_diag d;
    tw_instr *in = &s->workers[1].list[1];
    assert_int_equal(in->op, TW_INSTR_QKV);
    in->n_waits = 0;
    assert_int_equal(tw_schedule_check(&c, &s, &report, &d), TW_ERR_REJECTED);
    assert_null(c);
    assert_non_null(s);
    assert_string_equal(report.findings[0].rule, "race");
    assert_non_null(strstr(report.findings[0].where, "workers["));
    assert_non_null(strstr(report.findings[0].text, " x "));
    assert_non_null(strstr(report.findings[0].text, "nothing orders them"));
    tw_report_free(&report);
    tw_schedule_free(s);
}

static void a_deadlock_shows_its_cycle(void **state) {
    (void)state;
    tw_schedule *s = fresh(1);
    tw_checked *c;
    tw_report report;
    tw_diag d;
    /* Worker 1 embeds only after its own first qkv: everybody waits for everybody. */
    tw_instr t = s->workers[1].list[0];
    s->workers[1].list[0] = s->workers[1].list[1];
    s->workers[1].list[1] = t;
    assert_int_equal(tw_schedule_check(&c, &s, &report, &d), TW_ERR_REJECTED);
    assert_string_equal(report.findings[0].rule, "deadlock");
    assert_non_null(strstr(report.findings[0].text, "workers[1][0] qkv waits for embed"));
    tw_report_free(&report);
    tw_schedule_free(s);
}

/* A router of more experts than there are leaves slots that nobody writes. */
static void experts_are_a_routers(void **state) {
    (void)state;
    tw_model *mixture;
    tw_schedule *s;
    tw_checked *c;
    tw_report report;
    tw_diag d;
    tw_lowering l = {.workers = 2, .tokens = 1, .max_seq = 32};
    assert_int_equal(tw_model_open(&mixture, TEST_DATA "/models/mixtral-fused", &d), TW_OK);
    assert_int_equal(tw_schedule_lower(&s, mixture, &l, &d), TW_OK);
    for (int b = 0; b < s->n_buffers; b++)
        if (strstr(s->buffers[b].name, ".experts.")) s->buffers[b].shape[0]--;
    assert_int_equal(tw_schedule_check(&c, &s, &report, &d), TW_ERR_REJECTED);
    assert_non_null(strstr(report.findings[0].text, "a router's choice"));
    tw_report_free(&report);
    tw_schedule_free(s);
    tw_model_close(mixture);
}

static tw_schedule *mixture_of(tw_model **m) {
    tw_schedule *s;
    tw_diag d;
    tw_lowering l = {.workers = 2, .tokens = 1, .max_seq = 32};
    assert_int_equal(tw_model_open(m, TEST_DATA "/models/mixtral-fused", &d), TW_OK);
    if (tw_schedule_lower(&s, *m, &l, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

/* Of the operands that instructions of `op` have at `operand`. */
static void set_extent(tw_schedule *s, tw_instr_op op, int operand, int axis, int64_t extent) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].op == op) s->buffers[s->workers[w].list[i].operand[operand]].shape[axis] = extent;
}

static int64_t experts_of(const tw_schedule *s) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].op == TW_INSTR_ROUTE)
                return s->buffers[s->workers[w].list[i].operand[TW_ROUTE_ROUTER]].shape[1];
    return 0;
}

/* As many as there are may be used, and no more: the machine would choose what is not there. */
static void no_more_experts_are_used_than_there_are(void **state) {
    (void)state;
    for (int more = 0; more < 2; more++) {
        tw_model *m;
        tw_schedule *s = mixture_of(&m);
        tw_checked *c = NULL;
        tw_report report;
        tw_diag d;
        const int64_t used = experts_of(s) + more;
        set_extent(s, TW_INSTR_ROUTE, TW_ROUTE_ROUTE, 2, used);
        set_extent(s, TW_INSTR_EXPERTS_UP, TW_EXPERTS_UP_H, 1, used);
        for (int w = 0; w < s->n_workers; w++)
            for (int i = 0; i < s->workers[w].count; i++)
                if (s->workers[w].list[i].op == TW_INSTR_EXPERTS_UP)
                    s->workers[w].list[i].param[TW_EXPERTS_UP_SLOT_TO] = used;
        tw_status st = tw_schedule_check(&c, &s, &report, &d);
        if (more) {
            assert_int_equal(st, TW_ERR_REJECTED);
            assert_non_null(strstr(report.findings[0].text, "more experts used than there are"));
        } else if (st != TW_OK) {
            fail_msg("%s", d.message);
        }
        tw_report_free(&report);
        tw_checked_free(c);
        tw_schedule_free(s);
        tw_model_close(m);
    }
}

/* What flows is not examined while the structure is wrong: whose experts a slot holds is part of it. */
static void the_structure_comes_before_the_flow(void **state) {
    (void)state;
    tw_model *m;
    for (int wrong = 0; wrong < 2; wrong++) {
        tw_schedule *s = mixture_of(&m);
        tw_checked *c = NULL;
        tw_report report;
        tw_diag d;
        for (int b = 0; b < s->n_buffers && wrong; b++)
            if (strstr(s->buffers[b].name, ".experts.")) s->buffers[b].shape[0]--;
        for (int w = 0; w < s->n_workers; w++)
            for (int i = 0; i < s->workers[w].count; i++) s->workers[w].list[i].n_waits = 0;
        assert_int_equal(tw_schedule_check(&c, &s, &report, &d), TW_ERR_REJECTED);
        size_t shapes = 0;
        for (size_t i = 0; i < report.count; i++) shapes += !strcmp(report.findings[i].rule, "shape");
        assert_true(report.count > 0 && shapes == (wrong ? report.count : 0));
        tw_report_free(&report);
        tw_schedule_free(s);
        tw_model_close(m);
    }
}

static int open_model(void **state) {
    (void)state;
    tw_diag d;
    return tw_model_synthetic(&model, "llama-tiny", TW_F32, 1, &d) == TW_OK ? 0 : -1;
}

static int close_model(void **state) {
    (void)state;
    tw_model_close(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(sequences_are_kept_apart),
        cmocka_unit_test(a_rejection_says_who_and_what),
        cmocka_unit_test(a_deadlock_shows_its_cycle),
        cmocka_unit_test(experts_are_a_routers),
        cmocka_unit_test(no_more_experts_are_used_than_there_are),
        cmocka_unit_test(the_structure_comes_before_the_flow),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
