/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory: what the kernel, control groups of either version and the process's limits leave, the least of
 * them. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/file.h"
#include "device/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static char *root;

static void put(const char *path, const char *text) {
    char folder[512], full[1024];
    snprintf(folder, sizeof folder, "%s/%.*s", root, (int)(strrchr(path, '/') - path), path);
    assert_true(tw_folder_make(folder));
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int begin(void **state) {
    (void)state;
    root = test_folder_make();
    put("proc/meminfo", "MemTotal:       16000 kB\nMemFree:         100 kB\nMemAvailable:    9000 kB\n");
    return 0;
}

static int end(void **state) {
    (void)state;
    test_folder_remove(root);
    return 0;
}

static void the_kernel_says(void **state) {
    (void)state;
    assert_int_equal(tw_memory_total(root), 16000 * 1024);
    assert_int_equal(tw_memory_available(root), 9000 * 1024);
    put("proc/meminfo", "nothing of the kind\n");
    assert_int_equal(tw_memory_total(root), 0);
    assert_int_equal(tw_memory_available(root), 0);
}

static void groups_of_version_2(void **state) {
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.current", "1000\n");
    assert_int_equal(tw_memory_available(root), 9000 * 1024);
    /* A group above limits those below; pages of files can be dropped. */
    put("sys/fs/cgroup/a/memory.max", "4000000\n");
    put("sys/fs/cgroup/a/memory.current", "3000000\n");
    assert_int_equal(tw_memory_available(root), 1000000);
    put("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 200000\nactive_file 30000\n");
    assert_int_equal(tw_memory_available(root), 1230000);
    put("sys/fs/cgroup/a/b/memory.max", "500000\n");
    assert_int_equal(tw_memory_available(root), 499000);
    put("sys/fs/cgroup/a/b/memory.current", "600000\n");
    assert_int_equal(tw_memory_available(root), 1); /* none left, which is not unknown */
}

static void groups_of_version_1(void **state) {
    (void)state;
    put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/elsewhere/x\n2:cpu,cpuacct:/\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
    assert_int_equal(tw_memory_available(root), 9000 * 1024);
    /* The group has another name outside the container. */
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
    put("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 500\ntotal_active_file 60\n");
    assert_int_equal(tw_memory_available(root), 2999560);
    put("sys/fs/cgroup/memory/elsewhere/x/memory.limit_in_bytes", "2000000\n");
    put("sys/fs/cgroup/memory/elsewhere/x/memory.usage_in_bytes", "0\n");
    assert_int_equal(tw_memory_available(root), 2000000);
}

/* What may be had under `limit` of 1 TiB while the other limits are as high as they go. */
static int64_t available_under(int limit) {
    const int kinds[] = {RLIMIT_DATA, RLIMIT_AS};
    struct rlimit old[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(getrlimit(kinds[i], &old[i]), 0);
        struct rlimit now = {.rlim_cur = old[i].rlim_max, .rlim_max = old[i].rlim_max};
        if (kinds[i] == limit) now.rlim_cur = (rlim_t)1 << 40;
        assert_int_equal(setrlimit(kinds[i], &now), 0);
    }
    const int64_t available = tw_memory_available(root);
    for (int i = 0; i < 2; i++) assert_int_equal(setrlimit(kinds[i], &old[i]), 0);
    return available;
}

static void limits_of_the_process(void **state) {
    (void)state;
    const int kinds[] = {RLIMIT_DATA, RLIMIT_AS};
    if (TEST_SANITIZED) skip(); /* which takes more than any limit */
    for (int i = 0; i < 2; i++) {
        struct rlimit has;
        assert_int_equal(getrlimit(kinds[i], &has), 0);
        if (has.rlim_max < (rlim_t)1 << 41) skip();
    }
    put("proc/self/status", "Name:\ttest\nVmSize:\t    1000 kB\nVmData:\t    2000 kB\n");
    put("proc/meminfo", "MemAvailable: 9000000000 kB\n");
    assert_int_equal(available_under(RLIMIT_DATA), ((int64_t)1 << 40) - 2000 * 1024);
    assert_int_equal(available_under(RLIMIT_AS), ((int64_t)1 << 40) - 1000 * 1024);
}

static void the_peak_of_the_process(void **state) {
    (void)state;
    assert_int_equal(tw_memory_peak(root), 0);
    put("proc/self/status", "Name:\ttest\nVmPeak:\t    9000 kB\nVmHWM:\t    3000 kB\nVmRSS:\t    2000 kB\n");
    assert_int_equal(tw_memory_peak(root), 3000 * 1024);
    assert_true(tw_memory_peak("") > 100 << 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_kernel_says, begin, end),
        cmocka_unit_test_setup_teardown(groups_of_version_2, begin, end),
        cmocka_unit_test_setup_teardown(groups_of_version_1, begin, end),
        cmocka_unit_test_setup_teardown(limits_of_the_process, begin, end),
        cmocka_unit_test_setup_teardown(the_peak_of_the_process, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
