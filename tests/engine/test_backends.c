/* SPDX-License-Identifier: Apache-2.0 */
/* Which back ends the options of an engine allow, and in which order. */
#include "support/support.h"

#include "engine/machine.h"

static const tw_engine_backend *const cpu = &tw_engine_cpu, *const gpu = &tw_engine_gpu;

static void options_say_where_an_engine_runs(void **state) {
    (void)state;
    const struct {
        tw_engine_options o;
        const tw_engine_backend *want[TW_ENGINE_BACKENDS];
    } cases[] = {
        {{.device = NULL}, {cpu}},
        {{.device = "cpu"}, {cpu}},
        {{.device = "cpu", .workers = 2, .limit_isa = true}, {cpu}},
        {{.device = "auto"}, {gpu, cpu}},
        {{.device = "auto", .workers = 2}, {cpu}},
        {{.device = "auto", .limit_isa = true}, {cpu}},
        {{.device = "auto", .schedule = "s.json"}, {cpu}},
        {{.device = "cuda"}, {gpu}},
        {{.device = "cuda:3", .schedule = "s.json"}, {gpu}},
        {{.emulate = true}, {gpu}},
        {{.emulate = true, .device = "auto", .workers = 3}, {gpu}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tw_engine_backend *got[TW_ENGINE_BACKENDS] = {NULL};
        int n = -1;
        tw_diag d;
        assert_int_equal(tw_engine_backends(&cases[i].o, got, &n, &d), TW_OK);
        assert_int_equal(n, cases[i].want[1] ? 2 : 1);
        for (int k = 0; k < n; k++)
            if (got[k] != cases[i].want[k]) fail_msg("case %zu: back end %d", i, k);
    }
}

static void wrong_devices_are_refused(void **state) {
    (void)state;
    const struct {
        tw_engine_options o;
        const char *message;
    } cases[] = {
        {{.device = "gpu"}, "device: \"gpu\" is not auto, cpu, cuda or cuda:N"},
        {{.device = "cuda:"}, "device: \"cuda:\" is not auto, cpu, cuda or cuda:N"},
        {{.device = "cuda:1", .workers = 2},
         "threads, instruction sets and rounded activations are a processor's: not with device cuda:1"},
        {{.device = "cuda", .limit_isa = true},
         "threads, instruction sets and rounded activations are a processor's: not with device cuda"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tw_engine_backend *got[TW_ENGINE_BACKENDS];
        int n = -1;
        tw_diag d;
        assert_int_equal(tw_engine_backends(&cases[i].o, got, &n, &d), TW_ERR_USAGE);
        assert_int_equal(n, 0);
        assert_string_equal(d.message, cases[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_say_where_an_engine_runs),
        cmocka_unit_test(wrong_devices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
