/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule as JSON, one field at a time: what each may hold, to the last value, and what is said of the next. */
#include "support/support.h"

#include "base/buf.h"
#include "schedule/json.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a schedule says; NULL: something usual. */
typedef struct fields {
    const char *root, *tokens, *max_seq, *buffer, *counter, *instr, *workers;
} fields;

#define SHAPED(extents) "\"name\": \"x\", \"kind\": \"activation\", \"dtype\": \"f32\", \"shape\": " extents

static const char * or (const char *text, const char *usual) {
    return text ? text : usual;
}

static tw_status parse(const fields *f, tw_schedule **s, tw_diag *d) {
    tw_buf b = {0};
    tw_buf_printf(&b, "{%s, \"tokens\": %s, \"max_seq\": %s, \"buffers\": [{%s}], \"counters\": [{%s}], \"workers\": ",
                  or (f->root, "\"tilewright_schedule\": 1"), or (f->tokens, "2"), or (f->max_seq, "9"),
                  or (f->buffer, SHAPED("[1, 2, 8]")), or (f->counter, "\"name\": \"c\", \"init\": 0"));
    if (f->workers)
        tw_buf_str(&b, f->workers);
    else
        tw_buf_printf(&b, "[[], [{%s}]]",
                      or (f->instr,
                          "\"op\": \"project\", \"in\": \"x\", \"w\": \"x\", \"x\": \"x\", \"from\": 3, \"to\": 4, "
                          "\"wait\": [[\"c\", 2]], \"arrive\": \"c\""));
    tw_buf_str(&b, "}");
    tw_status st = tw_schedule_parse(s, b.data, b.size, "s.json", d);
    tw_buf_free(&b);
    return st;
}

static void accept(fields f) {
    tw_schedule *s;
    tw_diag d;
    if (parse(&f, &s, &d) != TW_OK) fail_msg("%s", d.message);
    tw_schedule_free(s);
}

static void refuse(fields f, const char *says) {
    tw_schedule *s;
    tw_diag d;
    if (parse(&f, &s, &d) != TW_ERR_FORMAT) fail_msg("accepted, where it is: %s", says);
    assert_null(s);
    assert_string_equal(d.path, "s.json");
    if (strcmp(d.message, says)) fail_msg("\"%s\", not \"%s\"", d.message, says);
}

#define WITH(field, value) ((fields){.field = value})

static void what_is_read_is_what_was_written(void **state) {
    (void)state;
    tw_schedule *s;
    tw_diag d;
    fields f =
        WITH(instr, "\"op\": \"head\", \"x\": \"x\", \"from\": -1099511627776, \"to\": 1099511627776, \"slot\": 7, "
                    "\"wait\": [[\"c\", -2147483648], [\"c\", 2147483647]], \"arrive\": \"c\"");
    f.buffer = "\"name\": \"x\", \"kind\": \"weight\", \"dtype\": \"i4\", \"group\": 64, \"shape\": [3, 5, 128]";
    f.counter = "\"name\": \"c\", \"init\": -7";
    f.root = "\"tilewright_schedule\": 1, \"sequences\": 2";
    if (parse(&f, &s, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(s->tokens == 2 && s->max_seq == 9 && s->sequences == 2);
    assert_true(s->n_workers == 2 && s->workers[0].count == 0 && s->workers[1].count == 1);
    assert_true(s->n_buffers == 1 && s->n_counters == 1);
    const tw_buffer *b = &s->buffers[0];
    assert_string_equal(b->name, "x");
    assert_true(b->kind == TW_BUFFER_WEIGHT && b->dtype == TW_I4 && b->group == 64);
    assert_true(b->shape[0] == 3 && b->shape[1] == 5 && b->shape[2] == 128);
    assert_string_equal(s->counters[0].name, "c");
    assert_true(s->counters[0].init == -7);
    const tw_instr *in = &s->workers[1].list[0];
    assert_true(in->op == TW_INSTR_HEAD && in->operand[TW_HEAD_X] == 0 && in->operand[TW_HEAD_NORM] == -1);
    assert_true(in->param[TW_FROM] == -1099511627776 && in->param[TW_TO] == 1099511627776);
    assert_true(in->param[TW_HEAD_SLOT] == 7 && in->arrive == 0);
    assert_true(in->n_waits == 2 && in->waits[0].counter == 0 && in->waits[0].threshold == INT32_MIN);
    assert_true(in->waits[1].threshold == INT32_MAX);
    tw_schedule_free(s);
}

static void the_head_of_the_file(void **state) {
    (void)state;
    accept((fields){0});
    fields f = WITH(tokens, "1048576");
    f.max_seq = "2147483647";
    accept(f);
    f.tokens = "1048577";
    refuse(f, "schedule: 1 <= tokens <= max_seq does not hold");
    f.tokens = "0";
    refuse(f, "schedule: 1 <= tokens <= max_seq does not hold");
    refuse(WITH(max_seq, "2147483648"), "schedule: 1 <= tokens <= max_seq does not hold");
    accept(WITH(max_seq, "2"));
    refuse(WITH(max_seq, "1"), "schedule: 1 <= tokens <= max_seq does not hold");
    accept(WITH(root, "\"tilewright_schedule\": 1, \"sequences\": 1"));
    accept(WITH(root, "\"tilewright_schedule\": 1, \"sequences\": 2"));
    refuse(WITH(root, "\"tilewright_schedule\": 1, \"sequences\": 3"), "schedule: sequences is neither 1 nor tokens");
    refuse(WITH(root, "\"tilewright_schedule\": 1, \"sequences\": 0"), "schedule: sequences is neither 1 nor tokens");
    f = WITH(root, "\"tilewright_schedule\": 1, \"sequences\": 1048576");
    f.tokens = "1048576";
    f.max_seq = "1048576";
    accept(f);
    refuse(WITH(root, "\"tilewright_schedule\": 3"), "schedule: unknown format version");
    refuse(WITH(root, "\"tilewright_schedule\": \"1\""), "schedule: not a schedule: no tilewright_schedule field");
}

/* As many lists as there may be workers. */
static void workers_are_lists(void **state) {
    (void)state;
    for (int n = 1023; n <= 1025; n++) {
        tw_buf b = {0};
        for (int i = 0; i < n; i++) tw_buf_str(&b, i ? ",[]" : "[[]");
        tw_buf_str(&b, "]");
        if (n <= 1024)
            accept(WITH(workers, b.data));
        else
            refuse(WITH(workers, b.data), "schedule: workers is not a list of 1 to 1024 lists");
        tw_buf_free(&b);
    }
    refuse(WITH(workers, "[]"), "schedule: workers is not a list of 1 to 1024 lists");
    refuse(WITH(workers, "{\"a\": []}"), "schedule: workers is not a list of 1 to 1024 lists");
    refuse(WITH(workers, "[[], {}]"), "workers[1]: not a list");
}

static void buffers_have_shapes(void **state) {
    (void)state;
    accept(WITH(buffer, SHAPED("[1, 524288, 2147483647]")));
    accept(WITH(buffer, SHAPED("[2147483647, 1, 1]")));
    refuse(WITH(buffer, SHAPED("[1, 524289, 2147483647]")), "buffers[0]: the shape is too large in x");
    refuse(WITH(buffer, SHAPED("[65536, 65536, 262145]")), "buffers[0]: the shape is too large in x");
    refuse(WITH(buffer, SHAPED("[1, 1, 2147483648]")), "buffers[0]: shape is not three extents in x");
    refuse(WITH(buffer, SHAPED("[1, 0, 1]")), "buffers[0]: shape is not three extents in x");
    refuse(WITH(buffer, SHAPED("[0, 1, 1]")), "buffers[0]: shape is not three extents in x");
    refuse(WITH(buffer, SHAPED("[1, 1]")), "buffers[0]: shape is not three extents in x");
    refuse(WITH(buffer, SHAPED("[1, 1, 1, 1]")), "buffers[0]: shape is not three extents in x");
    refuse(WITH(buffer, SHAPED("[1, 1, \"1\"]")), "buffers[0]: shape is not three extents in x");
    accept(WITH(buffer, SHAPED("[1, 1, 8], \"group\": 1048576")));
    accept(WITH(buffer, SHAPED("[1, 1, 8], \"group\": 0")));
    refuse(WITH(buffer, SHAPED("[1, 1, 8], \"group\": 1048577")), "buffers[0]: group is not a number of columns in x");
    refuse(WITH(buffer, SHAPED("[1, 1, 8], \"group\": -1")), "buffers[0]: group is not a number of columns in x");
    refuse(WITH(buffer, "\"kind\": \"activation\""), "buffers[0]: a buffer needs a name");
    refuse(WITH(buffer, "\"name\": \"x\""), "buffers[0]: kind is not a buffer kind in x");
    refuse(WITH(buffer, "\"name\": \"x\", \"kind\": \"kv\", \"dtype\": \"f8\""),
           "buffers[0]: dtype is not an element type in x");
    fields f = WITH(buffer, SHAPED("[1, 1, 1]}, {" SHAPED("[1, 1, 2]")));
    refuse(f, "buffers[1]: the name is used twice: x");
}

static void counters_and_waits(void **state) {
    (void)state;
    accept(WITH(counter, "\"name\": \"c\""));
    accept(WITH(counter, "\"name\": \"c\", \"init\": 2147483647"));
    refuse(WITH(counter, "\"name\": \"c\", \"init\": 2147483648"),
           "counters[0]: a counter needs a name, and init is an integer");
    refuse(WITH(counter, "\"name\": \"c\", \"init\": 0.5"),
           "counters[0]: a counter needs a name, and init is an integer");
    refuse(WITH(counter, "\"init\": 0"), "counters[0]: a counter needs a name, and init is an integer");
#define WAITS(list) WITH(instr, "\"op\": \"project\", \"x\": \"x\", \"from\": 0, \"to\": 1, \"wait\": " list)
    refuse(WAITS("{}"), "workers[1][0]: wait is not a list");
    refuse(WAITS("[[\"d\", 1]]"), "workers[1][0]: a wait is [counter, threshold], the counter by name");
    refuse(WAITS("[[\"c\"]]"), "workers[1][0]: a wait is [counter, threshold], the counter by name");
    refuse(WAITS("[[\"c\", 1, 2]]"), "workers[1][0]: a wait is [counter, threshold], the counter by name");
    refuse(WAITS("[[\"c\", 2147483648]]"), "workers[1][0]: a threshold is an integer");
    refuse(WITH(instr, "\"op\": \"project\", \"arrive\": \"d\""), "workers[1][0]: arrive names no counter");
    refuse(WITH(instr, "\"op\": \"project\", \"arrive\": 0"), "workers[1][0]: arrive names no counter");
}

static void instructions_name_what_they_use(void **state) {
    (void)state;
    refuse(WITH(instr, "\"wait\": []"), "workers[1][0]: unknown op ");
    refuse(WITH(instr, "\"op\": 3"), "workers[1][0]: unknown op ");
    refuse(WITH(instr, "\"op\": \"head\", \"x\": \"y\""), "workers[1][0]: names no buffer: x");
    refuse(WITH(instr, "\"op\": \"head\", \"x\": 0"), "workers[1][0]: names no buffer: x");
    refuse(WITH(instr, "\"op\": \"head\", \"y\": \"x\""), "workers[1][0]: unknown field y");
    refuse(WITH(instr, "\"op\": \"head\", \"from\": 1099511627777"), "workers[1][0]: not an integer: from");
    refuse(WITH(instr, "\"op\": \"head\", \"from\": -1099511627777"), "workers[1][0]: not an integer: from");
    refuse(WITH(instr, "\"op\": \"head\", \"from\": 1.5"), "workers[1][0]: not an integer: from");
    refuse(WITH(instr, "\"op\": \"head\", \"from\": 0, \"to\": 1"), "workers[1][0]: missing slot");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_what_was_written),
        cmocka_unit_test(the_head_of_the_file),
        cmocka_unit_test(workers_are_lists),
        cmocka_unit_test(buffers_have_shapes),
        cmocka_unit_test(counters_and_waits),
        cmocka_unit_test(instructions_name_what_they_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
