/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of lowering and of checking fails once: no schedule is accepted that was not examined whole. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "schedule/schedule.h"
#include "tilewright/model.h"

#include <stdio.h>
#include <string.h>

typedef struct attempt {
    const tw_model *model;
    int spare;  /* buffers more than are used: they move what is allocated when */
    bool wrong; /* the router chooses among more experts than there are */
} attempt;

static int lower_and_check(void *context) {
    const attempt *a = context;
    static tw_buffer buffers[2048];
    tw_schedule *s = NULL;
    tw_checked *c = NULL;
    tw_report r = {0};
    tw_diag d;
    const tw_lowering l = {.workers = 2, .tokens = 1, .max_seq = 32};
    tw_status st = tw_schedule_lower(&s, a->model, &l, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY ? 1 : 2;
    assert_true(s->n_buffers + a->spare <= 2048);
    memcpy(buffers, s->buffers, (size_t)s->n_buffers * sizeof *buffers);
    for (int i = 0; i < a->spare; i++)
        buffers[s->n_buffers + i] =
            (tw_buffer){.name = "spare", .kind = TW_BUFFER_ACTIVATION, .dtype = TW_F32, .shape = {1, 1, 4}};
    s->buffers = buffers;
    s->n_buffers += a->spare;
    for (int b = 0; b < s->n_buffers && a->wrong; b++)
        if (strstr(s->buffers[b].name, ".experts.")) s->buffers[b].shape[0]--;
    st = tw_schedule_check(&c, &s, &r, &d);
    tw_report_free(&r);
    tw_checked_free(c);
    tw_schedule_free(s);
    if (st == TW_ERR_MEMORY) return 1;
    return st == (a->wrong ? TW_ERR_REJECTED : TW_OK) ? 0 : 2;
}

static void a_check_survives_every_failure(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/mixtral-fused", &d), TW_OK);
    for (int spare = 0; spare < 600; spare += 40)
        for (int wrong = 0; wrong < 2; wrong++) {
            attempt a = {m, spare, wrong};
            alloc_fail_exhaust(lower_and_check, &a);
        }
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_check_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
