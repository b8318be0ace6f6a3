/* SPDX-License-Identifier: Apache-2.0 */
/* Meters of energy: means of power over intervals, clock rates, a stand-in for NVML, and the files of RAPL. */
#define _POSIX_C_SOURCE 200809L
#include "support/support.h"

#include "device/power.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct made {
    double joules, mhz;
    int64_t ns;
    bool broken;
    int closed, clocks;
} made;

static bool energy(void *context, double *joules) {
    const made *m = context;
    *joules = m->joules;
    return !m->broken;
}

static double rate(void *context) {
    made *m = context;
    m->clocks++;
    return m->mhz;
}

static int64_t now(void *context) {
    return ((made *)context)->ns;
}

static void closed(void *context) {
    ((made *)context)->closed++;
}

static void power_is_a_mean_over_intervals(void **state) {
    (void)state;
    made m = {.joules = 5, .ns = 100};
    const tw_power_source s = {energy, NULL, now, closed, &m};
    tw_power *p;
    double joules;
    int64_t at;
    assert_int_equal(tw_power_make(&p, &s, NULL), TW_OK);
    m.ns += TW_POWER_INTERVAL / 2;
    m.joules += 300;
    assert_true(tw_power_watts(p) == 0);
    m.ns += TW_POWER_INTERVAL / 2;
    assert_true(fabs(tw_power_watts(p) - 300 / (TW_POWER_INTERVAL * 1e-9)) < 1e-9);
    m.joules += 1000;
    assert_true(fabs(tw_power_watts(p) - 300 / (TW_POWER_INTERVAL * 1e-9)) < 1e-9);
    m.ns += 2 * (int64_t)TW_POWER_INTERVAL;
    assert_true(fabs(tw_power_watts(p) - 500 / (TW_POWER_INTERVAL * 1e-9)) < 1e-9);
    assert_true(tw_power_energy(p, &joules, &at));
    assert_true(joules == 1305 && at == m.ns);
    assert_true(tw_power_clock(p) == 0);
    m.broken = true;
    m.ns += TW_POWER_INTERVAL;
    assert_true(tw_power_watts(p) == 0);
    tw_power_close(p);
    assert_int_equal(m.closed, 1);
    tw_diag d;
    assert_int_equal(tw_power_make(&p, &s, &d), TW_ERR_UNSUPPORTED);
    assert_true(!p && m.closed == 2 && d.message[0]);
    assert_true(tw_power_watts(NULL) == 0 && tw_power_clock(NULL) == 0);
}

static void clocks_are_not_read_too_often(void **state) {
    (void)state;
    made m = {.mhz = 1200};
    const tw_power_source s = {energy, rate, now, NULL, &m};
    tw_power *p;
    assert_int_equal(tw_power_make(&p, &s, NULL), TW_OK);
    for (int i = 0; i < 100; i++, m.ns += 1000000) assert_true(tw_power_clock(p) == 1200);
    assert_int_equal(m.clocks, 10);
    tw_power_close(p);
}

static void gpus_are_asked_through_nvml(void **state) {
    (void)state;
    static const struct {
        const char *nvml, *bus, *wrong, *message;
    } cases[] = {{"/nowhere", "0000:1B:00.0", "", "no NVML"},
                 {TW_FAKE_NVML, "0000:1C:00.0", "", "does not know"},
                 {TW_FAKE_NVML, "", "", "does not know"},
                 {TW_FAKE_NVML, "0000:1B:00.0", "init", "does not start"},
                 {TW_FAKE_NVML, "0000:1B:00.0", "energy", "cannot be read"},
                 {"libc.so.6", "0000:1B:00.0", "", "too old"}};
    tw_power *p;
    tw_diag d;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("TILEWRIGHT_LIBNVML", cases[i].nvml, 1);
        setenv("FAKE_NVML_WRONG", cases[i].wrong, 1);
        assert_int_equal(tw_power_open_gpu(&p, cases[i].bus, &d), TW_ERR_UNSUPPORTED);
        if (p || !strstr(d.message, cases[i].message)) fail_msg("%zu: %s", i, d.message);
    }
    double a, b;
    int64_t at;
    setenv("TILEWRIGHT_LIBNVML", TW_FAKE_NVML, 1);
    unsetenv("FAKE_NVML_WRONG");
    if (tw_power_open_gpu(&p, "0000:1B:00.0", &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(tw_power_energy(p, &a, &at));
    assert_true(tw_power_energy(p, &b, &at));
    assert_true(fabs(b - a - 0.25) < 1e-9);
    assert_true(tw_power_clock(p) == 1500);
    tw_power_close(p);
}

static char *folder;

static void put(const char *zone, const char *file, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, zone);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", folder, zone, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Two sockets; a part of one, its second zone, and the whole machine do not count twice. */
static void processors_are_asked_through_files(void **state) {
    (void)state;
    tw_power *p;
    tw_diag d;
    double a, b;
    int64_t at;
    folder = test_folder_make();
    setenv("TILEWRIGHT_POWERCAP", folder, 1);
    assert_int_equal(tw_power_open_cpu(&p, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, folder));
    static const struct {
        const char *zone, *name;
    } zones[] = {{"rapl:0", "package-0\n"},
                 {"rapl:1", "package-1\n"},
                 {"rapl:0:0", "core\n"},
                 {"rapl:2", "psys\n"},
                 {"rapl-mmio:0", "package-0\n"}};
    for (int i = 0; i < 5; i++) {
        put(zones[i].zone, "name", zones[i].name);
        put(zones[i].zone, "energy_uj", "9000000\n");
        put(zones[i].zone, "max_energy_range_uj", "10000000\n");
    }
    if (tw_power_open_cpu(&p, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(tw_power_energy(p, &a, &at));
    put("rapl:0", "energy_uj", "9500000\n");
    put("rapl-mmio:0", "energy_uj", "9500000\n");
    put("rapl:1", "energy_uj", "1000000\n"); /* It wrapped around. */
    put("rapl:2", "energy_uj", "9900000\n");
    put("rapl:0:0", "energy_uj", "9400000\n");
    assert_true(tw_power_energy(p, &b, &at));
    assert_true(fabs(b - a - 2.5) < 1e-9);
    put("rapl:1", "energy_uj", "rubbish\n");
    assert_false(tw_power_energy(p, &b, &at));
    tw_power_close(p);
    test_folder_remove(folder);
    unsetenv("TILEWRIGHT_POWERCAP");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_is_a_mean_over_intervals), cmocka_unit_test(clocks_are_not_read_too_often),
        cmocka_unit_test(gpus_are_asked_through_nvml), cmocka_unit_test(processors_are_asked_through_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
