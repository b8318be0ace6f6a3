/* SPDX-License-Identifier: Apache-2.0 */
/* The store of measurements: what is added is read; foreign, later and damaged files; several processes at once, and
   processes that are killed while they add. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/file.h"
#include "base/random.h"
#include "tune/store.h"

#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256], path[300];

static int setup(void **state) {
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/store-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/s.db", folder);
    return 0;
}

static void remove_store(void) {
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[320];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

static int teardown(void **state) {
    (void)state;
    remove_store();
    return rmdir(folder);
}

static tw_store *opened(bool reads) {
    tw_store *s;
    tw_diag d;
    if (tw_store_open(&s, path, reads, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

/* Measurement i. Its samples say which it is. */
static tw_measurement made(int i, char key[32], double samples[8]) {
    static const char *const problems[] = {"m=1 n=2 k=3", "m=512 n=512 k=512", "m=7 n=1 k=\xc3\xa9"};
    snprintf(key, 32, "key %d", i);
    for (int k = 0; k < 8; k++) samples[k] = i + k / 8.0;
    return (tw_measurement){.key = key,
                            .environment = i % 2 ? "{\"device\": \"A\"}" : "{\"device\": \"B\"}",
                            .space = "gemm",
                            .problem = problems[i % 3],
                            .config = "mma=1 ms=32",
                            .protocol = "samples=8",
                            .unit = "us",
                            .message = "",
                            .samples = samples,
                            .n = 1 + i % 8,
                            .clock_mhz = 1980,
                            .watts = 700,
                            .began = 1700000000000000000 + i};
}

static void add(tw_store *s, int i, bool want) {
    char key[32];
    double samples[8];
    tw_diag d;
    bool added = !want;
    const tw_measurement m = made(i, key, samples);
    if (tw_store_add(s, &m, &added, &d) != TW_OK) fail_msg("%d: %s", i, d.message);
    assert_true(added == want);
}

typedef struct seen {
    int n;
    unsigned char *there; /* [most] */
    int most;
} seen;

/* Checks that a measurement is one of `made`, whole, and there once. */
static tw_status see(void *context, const tw_measurement *m, tw_diag *diag) {
    seen *x = context;
    char key[32];
    double samples[8];
    const int i = (int)(m->began - 1700000000000000000);
    const tw_measurement want = made(i, key, samples);
    (void)diag;
    assert_in_range(i, 0, x->most - 1);
    assert_false(x->there[i]);
    x->there[i] = 1;
    x->n++;
    assert_string_equal(m->key, want.key);
    assert_string_equal(m->environment, want.environment);
    assert_string_equal(m->space, want.space);
    assert_string_equal(m->problem, want.problem);
    assert_string_equal(m->config, want.config);
    assert_string_equal(m->protocol, want.protocol);
    assert_string_equal(m->unit, want.unit);
    assert_string_equal(m->message, want.message);
    assert_int_equal(m->status, TW_OK);
    assert_int_equal(m->n, want.n);
    assert_memory_equal(m->samples, want.samples, (size_t)m->n * sizeof *samples);
    assert_true(m->clock_mhz == want.clock_mhz && m->watts == want.watts);
    return TW_OK;
}

static int count(tw_store *s, const tw_store_filter *f, int most) {
    unsigned char there[4096] = {0};
    seen x = {.there = there, .most = most};
    tw_store_report r;
    tw_diag d;
    assert_true(most <= 4096);
    if (tw_store_read(s, f, see, &x, &r, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(r.damaged, 0);
    assert_int_equal(r.right, x.n);
    return x.n;
}

static void what_is_added_is_read(void **state) {
    (void)state;
    tw_store *s = opened(false);
    tw_store_found found;
    tw_diag d;
    for (int i = 0; i < 30; i++) add(s, i, true);
    add(s, 7, false);
    assert_int_equal(count(s, NULL, 30), 30);
    tw_store_close(s);
    s = opened(true);
    assert_int_equal(count(s, NULL, 30), 30);
    assert_int_equal(count(s, &(tw_store_filter){.environment = "{\"device\": \"A\"}"}, 30), 15);
    assert_int_equal(count(s, &(tw_store_filter){.problem = "m=1 n=2 k=3"}, 30), 10);
    assert_int_equal(
        count(s, &(tw_store_filter){.space = "gemm", .problem = "m=1 n=2 k=3", .environment = "{\"device\": \"B\"}"},
              30),
        5);
    assert_int_equal(count(s, &(tw_store_filter){.space = "other"}, 30), 0);
    assert_int_equal(tw_store_find(s, "key 3", "{\"device\": \"A\"}", "gemm", &found, &d), TW_OK);
    assert_int_equal(found, TW_STORE_SAME);
    assert_int_equal(tw_store_find(s, "key 3", "{\"device\": \"B\"}", "gemm", &found, &d), TW_OK);
    assert_int_equal(found, TW_STORE_OTHER);
    assert_int_equal(tw_store_find(s, "key 30", "", "gemm", &found, &d), TW_OK);
    assert_int_equal(found, TW_STORE_NONE);
    char key[32];
    double samples[8];
    const tw_measurement m = made(31, key, samples);
    assert_int_equal(tw_store_add(s, &m, NULL, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "read only"));
    tw_store_close(s);
}

typedef struct heard {
    char text[300];
    int n, end;
} heard;

static tw_status hear(void *context, const char *config, tw_diag *diag) {
    heard *h = context;
    (void)diag;
    strcat(strcat(h->text, config), ";");
    return ++h->n == h->end ? TW_ERR_REJECTED : TW_OK;
}

/* Configurations are told once each, in order, of the measurements that a filter leaves. */
static void configurations_are_listed(void **state) {
    (void)state;
    static const char *const configs[] = {"by=b 1", "by=a", "by=b 10", "by=b 1", "by=b", "By=b 3", "x by=b 4"};
    tw_store *s = opened(false);
    tw_diag d;
    for (int i = 0; i < 7; i++) {
        char key[32];
        double samples[8];
        tw_measurement m = made(i, key, samples);
        m.config = configs[i];
        assert_int_equal(tw_store_add(s, &m, NULL, &d), TW_OK);
    }
    heard h = {.n = 0};
    assert_int_equal(tw_store_configs(s, NULL, "by=b", hear, &h, &d), TW_OK);
    assert_string_equal(h.text, "by=b;by=b 1;by=b 10;");
    h = (heard){.n = 0};
    assert_int_equal(tw_store_configs(s, NULL, "by=b ", hear, &h, &d), TW_OK);
    assert_string_equal(h.text, "by=b 1;by=b 10;");
    h = (heard){.n = 0};
    const tw_store_filter b = {.environment = "{\"device\": \"B\"}", .space = "gemm"};
    assert_int_equal(tw_store_configs(s, &b, "by=b", hear, &h, &d), TW_OK);
    assert_string_equal(h.text, "by=b;by=b 1;by=b 10;");
    h = (heard){.n = 0};
    const tw_store_filter a = {.environment = "{\"device\": \"A\"}"}, third = {.problem = "m=7 n=1 k=\xc3\xa9"};
    assert_int_equal(tw_store_configs(s, &a, "", hear, &h, &d), TW_OK);
    assert_string_equal(h.text, "By=b 3;by=a;by=b 1;");
    h = (heard){.n = 0};
    assert_int_equal(tw_store_configs(s, &third, "by=", hear, &h, &d), TW_OK);
    assert_string_equal(h.text, "by=b 10;");
    h = (heard){.n = 0};
    const tw_store_filter other = {.space = "other"};
    assert_int_equal(tw_store_configs(s, &other, "", hear, &h, &d), TW_OK);
    assert_int_equal(h.n, 0);
    h.end = 1;
    assert_int_equal(tw_store_configs(s, NULL, "by=b", hear, &h, &d), TW_ERR_REJECTED);
    assert_string_equal(h.text, "by=b;");
    tw_store_close(s);
}

static tw_status keep_last(void *context, const tw_measurement *m, tw_diag *diag) {
    (void)diag;
    assert_null(m->key);
    assert_int_equal(m->status, TW_ERR_MISMATCH);
    assert_string_equal(m->message, "7 cells are wrong");
    assert_int_equal(m->n, 0);
    ++*(int *)context;
    return TW_ERR_MISMATCH;
}

static void fields_are_checked(void **state) {
    (void)state;
    tw_store *s = opened(false);
    char key[32];
    double samples[8], bad[] = {1, NAN};
    tw_diag d;
    tw_measurement m;
#define REFUSED(word, change)                                                                                          \
    do {                                                                                                               \
        m = made(1, key, samples);                                                                                     \
        change;                                                                                                        \
        assert_int_equal(tw_store_add(s, &m, NULL, &d), TW_ERR_USAGE);                                                 \
        assert_non_null(strstr(d.message, word));                                                                      \
    } while (0)
    REFUSED("problem", m.problem = NULL);
    REFUSED("unit", m.unit = NULL);
    REFUSED("message", m.message = NULL);
    REFUSED("status", m.status = (tw_status)99);
    REFUSED("samples", m.n = 0);
    REFUSED("samples", m.n = TW_STORE_SAMPLES + 1);
    REFUSED("samples", (m.samples = bad, m.n = 2));
    REFUSED("samples", samples[0] = -1);
    REFUSED("clock_mhz", m.clock_mhz = INFINITY);
    REFUSED("watts", m.watts = -1);
#undef REFUSED
    /* What was wrong has a message in place of samples, and needs no key. */
    m = made(1, key, samples);
    m.key = NULL;
    m.status = TW_ERR_MISMATCH;
    m.message = "7 cells are wrong";
    m.n = 0;
    bool added = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tw_store_add(s, &m, &added, &d), TW_OK);
        assert_true(added);
    }
    int n = 0;
    /* Reading ends with the caller's error. */
    assert_int_equal(tw_store_read(s, NULL, keep_last, &n, NULL, &d), TW_ERR_MISMATCH);
    assert_int_equal(n, 1);
    tw_store_close(s);
}

static void samples_have_statistics(void **state) {
    (void)state;
    const double samples[] = {5, 1, 3};
    tw_measurement m = {.samples = samples, .n = 3};
    tw_stats stats;
    assert_int_equal(tw_store_stats(&m, &stats, NULL), TW_OK);
    assert_true(stats.n == 3 && stats.median == 3 && stats.min == 1 && stats.max == 5);
    assert_true(samples[0] == 5 && samples[1] == 1);
    m = (tw_measurement){.n = 0};
    assert_int_equal(tw_store_stats(&m, &stats, NULL), TW_OK);
    assert_true(stats.n == 0 && stats.median == 0);
}

static void refused(bool reads, tw_status want, const char *word) {
    tw_store *s = (tw_store *)path;
    tw_diag d = {0};
    const tw_status st = tw_store_open(&s, path, reads, &d);
    if (st != want || !strstr(d.message, word)) fail_msg("status %d: %s", st, d.message);
    assert_null(s);
    assert_string_equal(d.path, path);
}

static void run_sql(const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void foreign_files_are_refused(void **state) {
    (void)state;
    tw_diag d;
    refused(true, TW_ERR_IO, "cannot open it");
    assert_int_equal(tw_file_write(path, "# notes, which are no database at all\n", 38, &d), TW_OK);
    refused(false, TW_ERR_FORMAT, "no store");
    refused(true, TW_ERR_FORMAT, "no store");
    tw_buf b = {0};
    assert_int_equal(tw_file_read(&b, path, &d), TW_OK);
    assert_int_equal(b.size, 38);
    tw_buf_free(&b);
    remove_store();
    run_sql("CREATE TABLE mine(a); INSERT INTO mine VALUES(1)");
    refused(false, TW_ERR_FORMAT, "another program's");
    remove_store();
    tw_store_close(opened(false));
    run_sql("PRAGMA user_version=2");
    refused(false, TW_ERR_UNSUPPORTED, "version 2");
    remove_store();
    assert_int_equal(tw_file_write(path, "", 0, &d), TW_OK);
    refused(true, TW_ERR_FORMAT, "no store");
    tw_store_close(opened(false)); /* an empty file becomes a store */
    char missing[300];
    snprintf(missing, sizeof missing, "%s", path);
    snprintf(path, sizeof path, "%s/no/s.db", folder);
    refused(false, TW_ERR_IO, "cannot open it");
    snprintf(path, sizeof path, "%s", missing);
}

static tw_status look(void *context, const tw_measurement *m, tw_diag *diag) {
    (void)diag;
    assert_true(m->n <= TW_STORE_SAMPLES);
    ++*(int *)context;
    return TW_OK;
}

/* Of measurements that somebody changed the others are read. */
static void changed_measurements_are_left_out(void **state) {
    (void)state;
    static const char *const changes[] = {"samples=x'000000000000f03f'",
                                          "config='mma=2'",
                                          "status=6",
                                          "began=began+1",
                                          "problem=999",
                                          "watts=1.5",
                                          "samples=x'00'",
                                          "checksum=x''",
                                          "key='other'",
                                          "message='x'"};
    enum { N = sizeof changes / sizeof *changes };
    tw_store *s = opened(false);
    tw_store_report r;
    tw_diag d;
    for (int i = 0; i < N + 5; i++) add(s, i, true);
    tw_store_close(s);
    for (int i = 0; i < N; i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "UPDATE measurement SET %s WHERE id=%d", changes[i], i + 1);
        run_sql(sql);
    }
    int n = 0;
    s = opened(true);
    assert_int_equal(tw_store_read(s, NULL, look, &n, &r, &d), TW_OK);
    assert_int_equal(r.damaged, N);
    assert_int_equal(r.right, 5);
    assert_int_equal(n, 5);
    tw_store_close(s);
}

/* Bits of the file flipped at random: refused with a line, or read but for what is damaged; never worse. */
static void damaged_files_do_no_harm(void **state) {
    (void)state;
    enum { TIMES = 300 };
    tw_random random = tw_random_seed(77);
    tw_buf good = {0};
    tw_diag d;
    int opens = 0, whole = 0;
    tw_store *s = opened(false);
    for (int i = 0; i < 60; i++) add(s, i, true);
    tw_store_close(s);
    assert_int_equal(tw_file_read(&good, path, &d), TW_OK);
    for (int t = 0; t < TIMES; t++) {
        char *bytes = malloc(good.size);
        assert_non_null(bytes);
        memcpy(bytes, good.data, good.size);
        size_t size = good.size;
        if (t % 4 == 3) size = tw_random_below(&random, size);
        for (int k = 1 << tw_random_below(&random, 7); k > 0 && size; k--)
            bytes[tw_random_below(&random, size)] ^= (char)(1 << tw_random_below(&random, 8));
        remove_store();
        assert_int_equal(tw_file_write(path, bytes, size, &d), TW_OK);
        free(bytes);
        int n = 0;
        tw_store_report r;
        d = (tw_diag){0};
        const bool reads = t & 1;
        tw_status st = tw_store_open(&s, path, reads, &d);
        if (st == TW_OK) {
            opens++;
            st = tw_store_read(s, NULL, look, &n, &r, &d);
            whole += st == TW_OK && r.right == 60;
            char key[32];
            double samples[8];
            const tw_measurement m = made(100, key, samples);
            tw_diag unused;
            if (!reads) tw_store_add(s, &m, NULL, &unused);
            tw_store_close(s);
        }
        if (st != TW_OK && !d.message[0]) fail_msg("nothing is said of damage %d", t);
    }
    print_message("%d of %d opened, %d whole\n", opens, TIMES, whole);
    assert_true(opens > TIMES / 10 && opens < TIMES);
    tw_buf_free(&good);
}

/* ---- several processes */

enum { WRITERS = 4, EACH = 40 };

static pid_t writer(int from, int n, int tell) {
    const pid_t child = fork();
    if (child) return child;
    tw_store *s;
    tw_diag d;
    if (tw_store_open(&s, path, false, &d) != TW_OK) _exit(3);
    for (int i = from; i < from + n; i++) {
        char key[32];
        double samples[8];
        const tw_measurement m = made(i, key, samples);
        if (tw_store_add(s, &m, NULL, &d) != TW_OK) _exit(4);
        if (tell >= 0 && write(tell, &i, sizeof i) != sizeof i) _exit(5);
    }
    tw_store_close(s);
    _exit(0);
}

/* The file is new, so they also make it at the same time. */
static void processes_share_a_store(void **state) {
    (void)state;
    pid_t children[WRITERS];
    /* Neighbours add half of the same keys. */
    for (int i = 0; i < WRITERS; i++) children[i] = writer(i * EACH / 2, EACH, -1);
    for (int i = 0; i < WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    tw_store *s = opened(true);
    assert_int_equal(count(s, NULL, 4096), (WRITERS + 1) * EACH / 2);
    tw_store_close(s);
}

/* Whatever a process said to have added is there once after it was killed, and at most one more. */
static void a_kill_loses_and_doubles_nothing(void **state) {
    (void)state;
    tw_random random = tw_random_seed(5);
    int next = 0;
    for (int t = 0; t < 15; t++) {
        int tell[2], last = next - 1, status;
        assert_int_equal(pipe(tell), 0);
        const pid_t child = writer(next, 4000 - next, tell[1]);
        close(tell[1]);
        usleep((useconds_t)tw_random_below(&random, 20000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        for (int i; read(tell[0], &i, sizeof i) == sizeof i;) last = i;
        close(tell[0]);
        tw_store *s = opened(t % 2);
        const int there = count(s, NULL, 4096);
        tw_store_close(s);
        if (there != last + 1 && there != last + 2) fail_msg("%d are there, %d were told", there, last + 1);
        next = there;
    }
    print_message("%d added by processes that were killed\n", next);
    assert_true(next > 0);
}

/* ---- claims */

static bool claims(tw_store *s, const char *job) {
    bool mine;
    tw_diag d;
    if (tw_store_claim(s, job, &mine, &d) != TW_OK) fail_msg("%s", d.message);
    return mine;
}

static void a_job_is_claimed_once(void **state) {
    (void)state;
    tw_store *a = opened(false), *b = opened(false);
    assert_true(claims(a, "one") && claims(a, "one") && claims(b, "other"));
    assert_false(claims(b, "one") || claims(a, "other"));
    char key[32];
    double samples[8];
    const tw_measurement m = made(1, key, samples);
    assert_int_equal(tw_store_add(b, &m, NULL, NULL), TW_OK); /* Claims hold nobody up. */
    tw_store_release(a, "one");
    assert_true(claims(b, "one"));
    tw_store_close(b);
    assert_true(claims(a, "one") && claims(a, "other"));
    tw_store_close(a);
    tw_store *r = opened(true);
    assert_true(claims(r, "one"));
    tw_store_release(r, "one");
    tw_store_close(r);
}

static void claims_end_with_the_process(void **state) {
    (void)state;
    int ready[2], go[2]; /* The child ends with this process, whose end closes `go`. */
    char byte;
    tw_store *s = opened(false);
    assert_int_equal(pipe(ready) + pipe(go), 0);
    const pid_t child = fork();
    if (!child) {
        bool mine;
        tw_store *own;
        if (tw_store_open(&own, path, false, NULL) != TW_OK || tw_store_claim(own, "one", &mine, NULL) != TW_OK)
            _exit(1);
        if (write(ready[1], mine ? "y" : "n", 1) != 1) _exit(1);
        close(go[1]);
        _exit(read(go[0], &byte, 1) != 0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_false(claims(s, "one"));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(claims(s, "one"));
    tw_store_close(s);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_is_claimed_once, setup, teardown),
        cmocka_unit_test_setup_teardown(claims_end_with_the_process, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_added_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(configurations_are_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(fields_are_checked, setup, teardown),
        cmocka_unit_test(samples_have_statistics),
        cmocka_unit_test_setup_teardown(foreign_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(changed_measurements_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_files_do_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(processes_share_a_store, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kill_loses_and_doubles_nothing, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
