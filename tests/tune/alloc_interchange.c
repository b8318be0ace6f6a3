/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of other autotuners, with the n-th allocation failing, for every n. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "tune/interchange.h"
#include "tune/lines.h"

#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t n);

static tw_status count(void *context, const tw_measurement *m, tw_diag *diag) {
    int *n = context;
    (void)diag;
    *n += m->n == 2;
    return TW_OK;
}

/* Jansson writes without memory as it should, but does not read so (support/alloc_fail.h). */
static void fail_in_jansson(bool fails) {
    json_set_alloc_funcs(fails ? malloc : __real_malloc, free);
}

static const double samples[] = {1, 2};
static const tw_measurement measurement = {.key = "a key",
                                           .environment = "A", /* Text that Jansson need not read. */
                                           .space = "s",
                                           .problem = "p=1",
                                           .config = "a=2 b=0.5 c=x",
                                           .protocol = "",
                                           .unit = "us",
                                           .message = "",
                                           .samples = samples,
                                           .n = 2,
                                           .clock_mhz = 1500,
                                           .watts = 300};

/* Writes a line. It has all fields or is not written. */
static int written(void *context) {
    tw_measurement m = measurement;
    tw_buf out = {0};
    tw_diag d = {.message = ""};
    (void)context;
    m.status = TW_ERR_IO;
    m.message = "why";
    fail_in_jansson(true);
    const tw_status st = tw_lines_write(&out, &m, &d);
    fail_in_jansson(false);
    const bool whole =
        st == TW_OK && strstr(out.data, "\"environment\": \"A\"") && strstr(out.data, "\"b\": \"0.5\"") &&
        strstr(out.data, "[1.0, 2.0]") &&
        strstr(out.data, "\"message\": \"why\", \"clock_mhz\": 1500.0, \"watts\": 300.0, \"key\": \"a key\"}");
    tw_buf_free(&out);
    if (st == TW_OK) return whole ? 0 : 2;
    return st == TW_ERR_MEMORY && d.message[0] ? 1 : 3;
}

/* Writes a file and reads it. */
static int exchanged(void *context) {
    const bool cache = *(bool *)context;
    json_t *all = NULL;
    tw_buf out = {0};
    tw_diag d = {.message = ""};
    int n = 0;
    fail_in_jansson(true);
    tw_status st = tw_interchange_add(&all, &measurement, &d);
    if (st == TW_OK) st = (cache ? tw_interchange_write_cache : tw_interchange_write_t4)(&out, all, &d);
    fail_in_jansson(false);
    const char *const fields[] = {"\"b\": 0.5",
                                  "\"c\": \"x\"",
                                  "core_freq",
                                  "nvml_power",
                                  "timestamp",
                                  "time",
                                  "a key",
                                  cache ? "\"tune_params_keys\": [\"a\", \"b\", \"c\"]" : "MHz",
                                  cache ? "\"problem_size\": [1]" : "0.0015"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields && st == TW_OK; i++)
        if (!strstr(out.data, fields[i])) n = -9;
    if (st == TW_OK) st = tw_interchange_read(out.data, out.size, "f", NULL, count, &n, &d);
    json_decref(all);
    tw_buf_free(&out);
    if (st == TW_OK) return n == 1 ? 0 : 2;
    return st == TW_ERR_MEMORY && d.message[0] ? 1 : 3;
}

static int described(void *context) {
    tw_t1 t;
    tw_diag d = {.message = ""};
    const tw_status st = tw_t1_read(&t, context, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY && d.message[0] ? 1 : 3;
    const bool good = t.n_params == 3 && t.n_conditions == 1 && !strcmp(t.problem, "x=4096");
    tw_t1_free(&t);
    return good ? 0 : 2;
}

static void memory_may_run_out(void **state) {
    (void)state;
    static bool formats[] = {false, true};
    static char path[] = TW_SOURCE_DIR "/tests/data/kernel_tuner/t1.json";
    fail_in_jansson(false);
    alloc_fail_exhaust(written, NULL);
    alloc_fail_exhaust(exchanged, &formats[0]);
    alloc_fail_exhaust(exchanged, &formats[1]);
    alloc_fail_exhaust(described, path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
