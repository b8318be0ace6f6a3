/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
/* `tilewright tune` is killed ten times at random moments, and then runs to its end. After each kill the store is whole
   and has all earlier measurements, and the artefact and the report are whole or missing. Nothing is measured twice. */
#include "support/support.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "tilewright/select.h"
#include "tune/store.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 10, MOST = 40000, SEED = 14 };

static char *folder;

/* The measurements of the store. */
typedef struct holding {
    uint64_t sums[MOST]; /* Checksum of each, in the store's order. */
    int n;               /* Number of measurements. */
    int campaign;        /* Number of measurements of the campaign. */
    int final;           /* Number of measurements of the last stage of the evaluation. */
} holding;

static uint64_t sum_of(const tw_measurement *m) {
    uint64_t sum[2];
    tw_store_checksum(m, sum);
    return sum[0] ^ sum[1];
}

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    holding *h = context;
    (void)diag;
    assert_true(h->n < MOST && m->key);
    assert_int_equal(m->status, TW_OK);
    h->sums[h->n++] = sum_of(m);
    h->campaign += !strncmp(m->key, "tune|screen|", 12) || !strncmp(m->key, "tune|spread|", 12);
    h->final += !strncmp(m->key, "eval|final|", 11);
    return TW_OK;
}

static void read_store(holding *h) {
    tw_store *s;
    tw_store_report report = {0};
    tw_diag d;
    h->n = h->campaign = h->final = 0;
    if (!tw_file_exists("tuned.db")) return;
    if (tw_store_open(&s, "tuned.db", false, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_store_read(s, NULL, take, h, &report, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(report.damaged, 0);
    tw_store_close(s);
}

/* Checks that the store was only appended to. */
static void check_kept(const holding *before, const holding *now) {
    assert_true(now->n >= before->n);
    assert_memory_equal(now->sums, before->sums, (size_t)before->n * sizeof *now->sums);
}

static pid_t start(void) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    const int out = open("out.json", O_CREAT | O_TRUNC | O_WRONLY, 0600),
              err = open("err", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    execl(TW_BINARY_DIR "/tilewright", "tilewright", "tune", "gemm", "type=bf16", "-t", "1", "--range", "m=16:40",
          "--range", "n=256:320", "--range", "k=256:512", "--budget", "0", "--problems", "3", "--json", (char *)NULL);
    _exit(127);
}

static void check_artefact(bool must) {
    tw_selector *s;
    tw_selection choice;
    tw_diag d;
    if (!must && !tw_file_exists("gemm.select")) return;
    if (tw_selector_open(&s, "gemm.select", &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_select_choose(s, (const int64_t[]){30, 304, 320}, 0, &choice), TW_OK);
    assert_int_equal(choice.source, TW_SELECT_MODEL);
    tw_selector_close(s);
}

static void check_report(bool must) {
    static const char end[] = "</body>\n</html>\n";
    tw_buf text = {0};
    tw_diag d;
    if (!must && !tw_file_exists("gemm.html")) return;
    assert_int_equal(tw_file_read(&text, "gemm.html", &d), TW_OK);
    assert_true(text.size > sizeof end && !strcmp(text.data + text.size - strlen(end), end));
    tw_buf_free(&text);
}

/* Runs a whole session. Fails the test if the session fails. */
static void run_whole(void) {
    int status;
    const pid_t child = start();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Starts a session, lets it run for a random time, and kills it. Returns false if it ended before. */
static bool kill_at_random(tw_random *random, double longest, double *after) {
    int status;
    const pid_t child = start();
    *after = longest * tw_random_unit(random);
    usleep((useconds_t)(*after * 1e6));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return true;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
}

static int64_t number(const json_t *o, const char *name) {
    const json_t *v = json_object_get(o, name);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static void kills_lose_and_double_nothing(void **state) {
    (void)state;
    static holding before, now;
    tw_random random = tw_random_seed(SEED);
    /* The time of a first session bounds the times of kills. */
    const int64_t began = tw_now_ns();
    int kills = 0, runs = 0;
    double longest;
    run_whole();
    const double whole = (double)(tw_now_ns() - began) * 1e-9;
    assert_true(!remove("tuned.db") && !remove("gemm.select") && !remove("gemm.html"));
    print_message("seed %d; a session takes %.1f s\n", SEED, whole);
    longest = whole / 4;
    for (before.n = 0; kills < KILLS && runs < 4 * KILLS; runs++) {
        double after;
        const bool killed = kill_at_random(&random, longest, &after);
        kills += killed;
        /* Sessions with less left to do end sooner. */
        if (!killed) longest *= 0.7;
        read_store(&now);
        check_kept(&before, &now);
        check_artefact(false);
        check_report(false);
        print_message("%s after %.3f s: %d measurements, %d of the campaign, artefact %s, report %s\n",
                      killed ? "killed" : "ended", after, now.n, now.campaign,
                      tw_file_exists("gemm.select") ? "there" : "not there",
                      tw_file_exists("gemm.html") ? "there" : "not there");
        before = now;
    }
    assert_int_equal(kills, KILLS);
    run_whole();
    read_store(&now);
    check_kept(&before, &now);
    check_artefact(true);
    check_report(true);
    /* The store refuses a key that it has. A measurement that is repeated would show in the session's own count. */
    json_t *o;
    tw_diag d;
    if (tw_json_load(&o, "out.json", &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(number(o, "measured"), now.campaign - before.campaign);
    assert_in_range(number(o, "had"), before.campaign / 2, before.campaign);
    assert_int_equal(number(o, "problems"), 3);
    assert_int_equal(number(o, "wrong"), 0);
    json_decref(o);
    assert_true(now.final > 3);
}

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    return chdir(folder);
}

static int teardown(void **state) {
    (void)state;
    if (chdir("/")) return -1;
    test_folder_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(kills_lose_and_double_nothing, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
