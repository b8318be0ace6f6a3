/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture whose experts' scores tie, exactly and nearly: machines choose different experts, and agree once the
   reference is told. A choice that scores do not explain is found. */
#include "support/support.h"

#include "base/random.h"
#include "engine/engine.h"
#include "tilewright/model.h"
#include "vm/routing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 3, DIM = 64, EXPERTS = 16, USED = 4, TIED = 5, VOCAB = 256, PROMPT = 5, CONTEXT = 7 };

/* A mixture, with routers of its own. */
typedef struct fixture {
    tw_model *m;
    float router[LAYERS][EXPERTS][DIM];
} fixture;

/* Makes routers whose rows are equal by groups of TIED, apart from `apart` of each element. So USED are never whole
   groups. */
static void tie(fixture *f, float apart) {
    tw_random r = tw_random_seed(7);
    for (int i = 0; i < LAYERS * EXPERTS * DIM; i++) {
        const int layer = i / (EXPERTS * DIM), e = i / DIM % EXPERTS, c = i % DIM;
        const float x = (float)tw_random_unit(&r) - 0.5f;
        const int first = e / TIED * TIED;
        f->router[layer][e][c] = e == first ? x / 3 : f->router[layer][first][c] * (1 + apart * x);
    }
    for (int64_t i = 0; i < LAYERS; i++) {
        tw_weight *w = &f->m->layers[i].router;
        assert_true(w->rows == EXPERTS && w->cols == DIM);
        w->data = f->router[i];
        w->dtype = TW_F32;
    }
}

static int set_up(void **state) {
    static fixture f;
    tw_diag d;
    if (tw_model_synthetic(&f.m, "qwen3-moe-tiny", TW_BF16, 1, &d) != TW_OK) return 1;
    assert_true(f.m->n_layers == LAYERS && f.m->n_experts == EXPERTS && f.m->n_experts_used == USED);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    tw_model_close(f->m);
    return 0;
}

static const tw_schedule_config few = {.machine = {.warps = 2}}; /* The emulator runs few warps faster. */

static tw_engine *open_engine(const fixture *f, bool emulate, bool steps) {
    tw_schedule_config c = few;
    tw_engine *e;
    tw_diag d;
    if (steps) c.prompts = TW_PROMPTS_STEPS;
    const tw_engine_options o = {.workers = emulate ? 2 : 1,
                                 .context = CONTEXT,
                                 .emulate = emulate,
                                 .no_vendor = true,
                                 .config = emulate ? &c : NULL};
    if (tw_engine_open(&e, f->m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

static const int32_t ids[PROMPT] = {3, 77, 250, 19, 8};

/* Feeds the prompt, and returns how far the logits are from others, over the largest. */
static double feed(tw_engine *e, tw_routing *r, const float *others, float *copy) {
    const float *logits;
    double most = 0, largest = 0;
    tw_diag d;
    tw_engine_rewind(e, 0);
    e->routing = r;
    if (tw_engine_feed(e, ids, PROMPT, &logits, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    e->routing = NULL;
    for (int i = 0; i < VOCAB; i++) {
        if (others) most = fmax(most, fabs((double)logits[i] - (double)others[i]));
        largest = fmax(largest, fabs((double)logits[i]));
    }
    if (copy) memcpy(copy, logits, VOCAB * sizeof *copy);
    return most / largest;
}

static tw_status judge(const tw_engine *e, const tw_routing *r, tw_routing_verdict *v, tw_diag *d) {
    const tw_tolerance *t = tw_engine_tolerance(e);
    const tw_routing_tolerance allowed = {t->score_relative, t->logit_absolute};
    *v = (tw_routing_verdict){0};
    return tw_routing_judge(r, 0, PROMPT, &allowed, v, d);
}

/* Without being told the reference is elsewhere. With it both agree, in prompts at once and in steps, and the verdict
   says how many choices were others. */
static void told_of_near_ties(fixture *f, bool steps) {
    float theirs[VOCAB];
    tw_verdict v;
    tw_diag d;
    tie(f, 1e-7f);
    tw_engine *gpu = open_engine(f, true, steps), *cpu = open_engine(f, false, false);
    feed(cpu, NULL, NULL, theirs);
    /* Steps are slow in the emulator. */
    const double off = steps || TEST_SANITIZED ? 1 : feed(gpu, NULL, theirs, NULL);
    if (!(off > 2e-2)) fail_msg("the reference made the same choices: %g off", off);
    if (tw_engine_compare(gpu, cpu, VOCAB, 2, 1, 5, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.choices > 2 * LAYERS && v.choices_close > 0 && v.choices_close < v.choices);
    assert_true(v.worst_choice > 0 && v.worst_choice < 1);
    tw_engine_close(cpu);
    tw_engine_close(gpu);
}

static void near_ties_in_prompts(void **state) {
    told_of_near_ties(*state, false);
}

static void near_ties_in_steps(void **state) {
    if (!TEST_SANITIZED) told_of_near_ties(*state, true); /* A prompt is followed by steps, too. */
}

/* Choices of a machine, one of which becomes another's: of an equal expert that was left out, nobody minds; of one that
   is none of those that tie, the scores tell. */
static void a_planted_choice(void **state) {
    fixture *f = *state;
    tw_routing *r;
    tw_routing_verdict v;
    float own[VOCAB];
    const int64_t row = (LAYERS - 1) * CONTEXT + PROMPT - 1; /* The last choice, on which no other depends. */
    tw_diag d;
    tie(f, 0);
    tw_engine *gpu = open_engine(f, true, false), *cpu = open_engine(f, false, false);
    assert_int_equal(tw_routing_open(&r, f->m, CONTEXT, &d), TW_OK);
    feed(gpu, r, NULL, own);
    assert_int_equal(tw_routing_check(r, 0, PROMPT, &d), TW_OK);
    r->told = true;
    assert_true(feed(cpu, r, own, NULL) < 2e-2);
    if (judge(gpu, r, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.choices > 2 * PROMPT && !v.others);
    /* Of four of five equals it chose the lower ones; the fifth has their weight. */
    int32_t *expert = r->expert + row * USED;
    const int32_t was = expert[USED - 1], first = was / TIED * TIED;
    int64_t tied = first;
    for (int u = 0; u < USED; u++) tied += expert[u] >= first && expert[u] < first + TIED;
    expert[USED - 1] = (int32_t)tied;
    assert_true(tied < first + TIED && tied < EXPERTS && feed(cpu, r, own, NULL) > 1e-3);
    if (judge(gpu, r, &v, &d) != TW_OK) fail_msg("%s", d.message);
    const int32_t other = (first + TIED) % (EXPERTS - 1);
    expert[USED - 1] = other;
    feed(cpu, r, own, NULL);
    assert_int_equal(judge(gpu, r, &v, &d), TW_ERR_MISMATCH);
    char wrong[80];
    snprintf(wrong, sizeof wrong, "layer 2, position 4: expert %d was chosen", other);
    assert_non_null(strstr(d.message, wrong));
    expert[USED - 1] = was;
    r->weight[row * USED] *= 1.1f;
    feed(cpu, r, own, NULL);
    assert_int_equal(judge(gpu, r, &v, &d), TW_ERR_MISMATCH);
    assert_non_null(strstr(d.message, "layer 2, position 4: the weight of expert"));
    tw_routing_close(r);
    tw_engine_close(cpu);
    tw_engine_close(gpu);
}

/* A processor's own kernels, tuned and plain, whose scores tie more nearly than sums are exact. */
static void tuned_and_plain_kernels(void **state) {
    fixture *f = *state;
    tw_verdict v;
    tw_diag d;
    tie(f, 1e-7f);
    tw_engine *e = open_engine(f, false, false);
    if (tw_engine_check_kernels(e, CONTEXT - 1, 1, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.choices > CONTEXT * LAYERS && v.worst_choice < 1);
    tw_engine_close(e);
}

/* May be off by far less than experts are apart: a tolerance of a tenth of the deviation of scores would judge nothing.
 */
static void the_tolerance_is_far_below_the_spread(void **state) {
    fixture *f = *state;
    tw_model *m;
    tw_routing *r;
    tw_diag d;
    (void)f;
    if (tw_model_synthetic(&m, "qwen3-moe-tiny", TW_BF16, 2, &d) != TW_OK) fail_msg("%s", d.message);
    const fixture own = {.m = m};
    tw_engine *cpu = open_engine(&own, false, false);
    assert_int_equal(tw_routing_open(&r, m, CONTEXT, &d), TW_OK);
    feed(cpu, r, NULL, NULL);
    r->told = true;
    feed(cpu, r, NULL, NULL);
    for (int64_t row = 0; row < PROMPT; row++) {
        double sum = 0, squares = 0, largest = 0;
        for (int e = 0; e < EXPERTS; e++) {
            const double x = (double)r->score[row * EXPERTS + e];
            sum += x;
            squares += x * x;
            largest = fmax(largest, fabs(x));
        }
        const double deviation = sqrt(squares / EXPERTS - sum * sum / EXPERTS / EXPERTS);
        assert_true(2 * tw_engine_gpu.tolerance[TW_ACTIVATIONS_FLOAT].score_relative * largest < deviation / 10);
    }
    tw_routing_close(r);
    tw_engine_close(cpu);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_ties_in_prompts),
        cmocka_unit_test(near_ties_in_steps),
        cmocka_unit_test(a_planted_choice),
        cmocka_unit_test(tuned_and_plain_kernels),
        cmocka_unit_test(the_tolerance_is_far_below_the_spread),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
