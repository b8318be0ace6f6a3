/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes that read and write lines, and families whose command is a shell script. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/clock.h"
#include "base/random.h"
#include "tune/child.h"
#include "tune/foreign.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static tw_child *start(const char *script) {
    const char *const argv[] = {"sh", "-c", script, NULL};
    tw_child *c;
    tw_diag d;
    if (tw_child_start(&c, argv, "/", &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

static bool no_child_is_left(void) {
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

/* Waits for a line and returns it. Returns the name of any other event in parentheses. */
static const char *hear(tw_child *c, double seconds) {
    static const char *const others[] = {"", "(silent)", "(ended)", "(long)", "(interrupted)"};
    tw_child_event e;
    const char *line;
    size_t n;
    tw_diag d;
    assert_int_equal(tw_child_receive(c, seconds, NULL, NULL, &e, &line, &n, &d), TW_OK);
    if (e != TW_CHILD_SAID) return others[e];
    assert_int_equal(strlen(line), n);
    return line;
}

static void lines_go_both_ways(void **state) {
    (void)state;
    tw_child *c = start("pwd; while read l; do echo \"<$l>\"; echo; done; echo end; exit 7");
    char how[40];
    assert_string_equal(hear(c, 60), "/");
    assert_true(tw_child_send(c, "one"));
    assert_true(tw_child_send(c, "two"));
    assert_string_equal(hear(c, 60), "<one>");
    assert_string_equal(hear(c, 60), "");
    assert_string_equal(hear(c, 60), "<two>");
    assert_string_equal(hear(c, 60), "");
    assert_string_equal(hear(c, 0.05), "(silent)");
    tw_child_describe_end(c, how, sizeof how);
    assert_string_equal(how, "without a word");
    tw_child_end(c, 60);
    assert_true(no_child_is_left());
    tw_child_end(NULL, 1);
}

/* Lines longer than the socket's buffer are sent and received at the same time. */
static void long_lines_do_not_block(void **state) {
    (void)state;
    enum { N = 600000 };
    tw_child *c = start("while read l; do echo \"$l\"; done");
    char *text = malloc(N + 1);
    assert_non_null(text);
    memset(text, 'x', N);
    text[N] = 0;
    for (int i = 0; i < 3; i++) assert_true(tw_child_send(c, text));
    for (int i = 0; i < 3; i++) assert_string_equal(hear(c, 60), text);
    free(text);
    tw_child_end(c, 60);
}

static void ends_are_told(void **state) {
    static const struct {
        const char *script, *how;
    } all[] = {{"echo a; exit 3", "with status 3"}, {"echo a; kill -9 $$", "by signal 9"}, {"echo a", "with status 0"}};
    char how[40];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        tw_child *c = start(all[i].script);
        assert_string_equal(hear(c, 60), "a");
        assert_string_equal(hear(c, 60), "(ended)");
        tw_child_send(c, "nobody hears this");
        assert_string_equal(hear(c, 60), "(ended)");
        tw_child_describe_end(c, how, sizeof how);
        assert_string_equal(how, all[i].how);
        tw_child_end(c, 60);
        assert_true(no_child_is_left());
    }
}

/* A process of the group that keeps the socket open does not hide the end, and does not outlive it. */
static void what_is_left_behind_ends(void **state) {
    (void)state;
    tw_child *c = start("sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' & wait_for=$!; sleep 0.2; exit 5");
    const pid_t left = (pid_t)atoi(hear(c, 60));
    assert_true(left > 1);
    assert_string_equal(hear(c, 60), "(ended)");
    assert_int_equal(kill(left, 0), 0);
    tw_child_end(c, 60);
    for (int i = 0; i < 1000 && !kill(left, 0); i++) usleep(10000);
    assert_int_equal(kill(left, 0), -1);
}

/* A child that ignores the end of its input, and the request to end, is killed. */
static void the_deaf_are_killed(void **state) {
    (void)state;
    tw_child *c = start("trap '' TERM; echo up; while :; do sleep 1; done");
    assert_string_equal(hear(c, 60), "up");
    const int64_t began = tw_now_ns();
    tw_child_end(c, 0.1);
    assert_true((double)(tw_now_ns() - began) * 1e-9 < 30);
    assert_true(no_child_is_left());
}

static bool at_once(void *context) {
    ++*(int *)context;
    return true;
}

static void waiting_is_interrupted(void **state) {
    (void)state;
    tw_child *c = start("sleep 1000");
    tw_child_event e;
    const char *line;
    size_t n;
    int asked = 0;
    assert_int_equal(tw_child_receive(c, 1000, at_once, &asked, &e, &line, &n, NULL), TW_OK);
    assert_int_equal(e, TW_CHILD_INTERRUPTED);
    assert_int_equal(asked, 1);
    tw_child_end(c, 0);
    assert_true(no_child_is_left());
}

static void an_endless_line_is_given_up(void **state) {
    (void)state;
    tw_child *c =
        start("while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
    assert_string_equal(hear(c, 200), "(long)");
    tw_child_end(c, 0);
}

static void what_cannot_run_is_said(void **state) {
    const char *const argv[] = {"/no/such/program", NULL}, *const sh[] = {"sh", NULL};
    tw_child *c;
    tw_diag d;
    (void)state;
    assert_int_equal(tw_child_start(&c, argv, "/", &d), TW_ERR_IO);
    assert_string_equal(d.message, "cannot run: No such file or directory");
    assert_int_equal(tw_child_start(&c, sh, "/no/such/folder", &d), TW_ERR_IO);
    assert_null(c);
    assert_true(no_child_is_left());
}

/* ---- families */

static const char description[] =
    "{\"name\": \"toy\", \"command\": [\"sh\", \"toy.sh\"], \"timeout\": 60, \"protocol\": \"caches=none\",\n"
    "\"axes\": [{\"name\": \"m\", \"least\": 16, \"most\": 64, \"step\": 4, \"shrinks\": true},\n"
    "          {\"name\": \"heads\", \"least\": 1, \"most\": 8}],\n"
    "\"rows\": \"heads\", \"columns\": \"m\", \"loops\": \"m\",\n"
    "\"work\": \"sms * heads * m * m\", \"most_work\": 100000,\n"
    "\"parameters\": [{\"name\": \"stages\", \"role\": \"micro\", \"values\": [2, 3]},\n"
    "                {\"name\": \"BM\", \"role\": \"macro\", \"values\": [16, 32, 48]},\n"
    "                {\"name\": \"by\", \"role\": \"micro\", \"values\": [\"rows\", \"columns\"]}],\n"
    "\"constraints\": [\"BM != 48 || stages == 2\", \"BM * stages <= limit\"],\n"
    "\"grid\": \"heads * ceil(m / BM) * 2\", \"rounds\": \"ceil(m / 8)\", \"slots\": \"sms * 32 / BM\",\n"
    "\"rules\": {\"m\": {\"multiple\": 4, \"least\": \"BM / 2\"}, \"heads\": {\"most\": \"128 / BM\"}},\n"
    "\"default\": {\"by\": \"columns\", \"stages\": 2, \"BM\": 16},\n"
    "\"baselines\": [{\"name\": \"other\", \"rules\": [\n"
    "  {\"when\": \"m / (heads - 4) > 20\", \"config\": {\"more\": 1, \"stages\": 9}},\n"
    "  {\"when\": \"heads == sms\", \"config\": {\"BM\": 32}},\n"
    "  {\"config\": {\"by\": \"library\"}}]}]}\n";

static const char environment[] = "{\"device\": \"a toy\", \"sms\": 2, \"limit\": 96}";

static char *folder;

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

/* Writes a file of this test. Returns its path, which is valid until the next call. */
static const char *put(const char *name, const char *text) {
    static char path[600];
    test_write(folder, name, text, strlen(text));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Writes the description with another script. Returns its path as `put` does. */
static const char *describe(const char *script) {
    char text[4096];
    const char *path = put("toy.sh", script), *at = strstr(description, "toy.sh");
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - description), description, path, at + 6);
    return put("family.json", text);
}

static void a_family_is_described(void **state) {
    tw_family f;
    tw_diag d;
    char config[100];
    (void)state;
    if (tw_foreign_recorded(&f, describe(""), environment, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(f.name, "toy");
    assert_string_equal(f.unit, "us");
    assert_string_equal(f.protocol, "caches=none");
    assert_string_equal(f.environment, environment);
    assert_string_equal(f.device, "a toy");
    assert_string_equal(f.alike, "a toy");
    assert_string_equal(f.architecture, "a toy");
    assert_true(f.recorded);
    assert_int_equal(f.n_axes, 2);
    assert_string_equal(f.axes[1], "heads");
    assert_true(f.shrinks[0] && !f.shrinks[1]);
    assert_int_equal(f.rows, 1);
    assert_int_equal(f.columns, 0);
    assert_int_equal(f.loops, 0);
    assert_int_equal(f.least[0], 16);
    assert_int_equal(f.most[0], 64);
    assert_int_equal(f.step[0], 4);
    assert_int_equal(f.step[1], 1);
    assert_true(f.most_work == 100000);
    assert_true(tw_family_work(&f, (int64_t[]){40, 3}) == 2.0 * 3 * 40 * 40);
    /* 48 has one value of stages, of which there are two otherwise; each comes with two orders. */
    assert_int_equal(f.n_macros, 3);
    assert_int_equal(f.macros[0].n_micros, 4);
    assert_int_equal(f.macros[2].n_micros, 2);
    assert_string_equal(f.macros[1].config, "BM=32");
    assert_string_equal(f.macros[1].micros[1], "stages=2 by=columns");
    assert_int_equal(f.macros[1].grid[0], 32);
    assert_int_equal(f.macros[1].grid[1], 1);
    assert_int_equal(f.macros[1].times, 2);
    assert_int_equal(f.macros[1].rounds[0], 8);
    assert_int_equal(f.macros[1].rounds[1], 0);
    assert_int_equal(f.macros[0].slots, 4);
    assert_int_equal(f.macros[2].slots, 1);
    assert_int_equal(f.macros[1].multiple[0], 4);
    assert_int_equal(f.macros[1].least[0], 16);
    assert_int_equal(f.macros[1].most[1], 4);
    assert_int_equal(f.macro, 0);
    assert_int_equal(f.micro, 1);
    assert_int_equal(tw_family_divide(&f, 1, (int64_t[]){40, 3}).grid, 12);
    assert_int_equal(f.n_baselines, 2);
    assert_string_equal(f.baselines[0], "default");
    assert_string_equal(f.baselines[1], "other");
    static const struct {
        int64_t problem[2];
        const char *config;
    } choices[] = {{{64, 6}, "stages=9 more=1"}, {{64, 2}, "BM=32"}, {{64, 3}, "by=library"}, {{64, 4}, "by=library"}};
    for (int i = 0; i < 4; i++) {
        f.calls->baseline(f.self, 1, choices[i].problem, config, sizeof config);
        assert_string_equal(config, choices[i].config);
    }
    f.calls->baseline(f.self, 0, choices[0].problem, config, sizeof config);
    assert_string_equal(config, "BM=16 stages=2 by=columns");
    tw_family_close(&f);
}

/* A listener. */
typedef struct heard {
    char text[2000]; /* The results: "candidate:status:median:samples:message " for each. */
    tw_status fails; /* The value that `take` returns. */
    int left;        /* How many times `is_interrupted` returns false. Below 0: always. */
} heard;

static tw_status take(void *context, const tw_measured *m, tw_diag *diag) {
    heard *h = context;
    const size_t n = strlen(h->text);
    (void)diag;
    snprintf(h->text + n, sizeof h->text - n, "%d:%d:%.1f:%d:%s ", m->candidate, (int)m->status, m->time.median,
             (int)m->time.n, m->diag->message);
    return h->fails;
}

static bool is_interrupted(void *context) {
    heard *h = context;
    return h->left >= 0 && !h->left--;
}

/* A script that writes an environment, and then runs `rest` for each request, `$l`. */
#define SCRIPT(rest)                                                                                                   \
    "echo '{\"environment\": {\"device\": \"a toy\", \"sms\": 2, \"limit\": 96}}'\nwhile read -r l; do\n" rest         \
    "\ndone\n"

static tw_status measure(const char *script, tw_measure_protocol p, heard *h, tw_diag *d) {
    static const char *const configs[] = {"BM=16 stages=2 by=rows", "by=library n=-12 x=1e3"};
    const tw_family_listener l = {take, is_interrupted, h};
    tw_family f;
    if (tw_foreign_open(&f, describe(script), NULL, NULL, d) != TW_OK) return TW_ERR_REJECTED;
    const tw_status st = f.calls->measure(f.self, (int64_t[]){64, 2}, configs, 2, &p, &l, d);
    tw_family_close(&f);
    assert_true(no_child_is_left());
    return st;
}

static const tw_measure_protocol two = {.samples = 2, .warmups = 1};

static void requests_say_all(void **state) {
    heard h = {.left = -1};
    tw_diag d;
    char text[1000] = "", asked[600];
    (void)state;
    const tw_measure_protocol p = {.samples = 2, .warmups = 1, .turns = true, .seconds = 1.5};
    snprintf(asked, sizeof asked, "%s", put("asked", ""));
    char script[3000];
    snprintf(script, sizeof script, SCRIPT("echo \"$l\" >'%s'; echo '{\"end\": true}'"), asked);
    assert_int_equal(measure(script, p, &h, &d), TW_OK);
    FILE *f = fopen(asked, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text,
                        "{\"problem\":{\"m\":64,\"heads\":2},\"configs\":[{\"BM\":16,\"stages\":2,\"by\":\"rows\"},"
                        "{\"by\":\"library\",\"n\":-12,\"x\":\"1e3\"}],\"samples\":2,\"warmups\":1,\"turns\":true,"
                        "\"seconds\":1.5}\n");
    assert_string_equal(h.text, "");
}

static void results_are_passed_on(void **state) {
    heard h = {.left = -1};
    tw_diag d;
    (void)state;
    const char *script = SCRIPT("echo '{\"busy\": \"compiling\"}'\n"
                                "echo '{\"config\": 1, \"status\": \"right\", \"samples\": [3, 5.0]}'\n"
                                "echo '{\"config\": 0, \"status\": \"wrong\", \"message\": \"2 cells\"}'\n"
                                "echo '{\"end\": true}'");
    if (measure(script, two, &h, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(h.text, "1:0:4.0:2: 0:7:0.0:0:2 cells ");
    h = (heard){.left = -1};
    script = SCRIPT("echo '{\"config\": 0, \"status\": \"unsupported\"}'\n"
                    "echo '{\"config\": 1, \"status\": \"right\", \"samples\": [3]}'\n"
                    "echo '{\"end\": true}'");
    if (measure(script, two, &h, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(h.text, "0:4:0.0:0:unsupported 1:0:3.0:1: ");
    /* A listener that fails ends the measurement with its status. */
    h = (heard){.left = -1, .fails = TW_ERR_MEMORY};
    assert_int_equal(measure(script, two, &h, &d), TW_ERR_MEMORY);
    assert_string_equal(h.text, "0:4:0.0:0:unsupported ");
    /* An interruption ends the measurement without an error, and ends the command. */
    h = (heard){.left = 2};
    assert_int_equal(measure(SCRIPT("sleep 1000"), two, &h, &d), TW_OK);
}

/* A command that was ended by an interruption is started again, and must be on the same device. */
static void a_command_starts_again(void **state) {
    static const char *const config = "BM=16 stages=2 by=rows";
    char mark[600], script[3000];
    heard h = {.left = 0};
    const tw_family_listener l = {take, is_interrupted, &h};
    tw_family f;
    tw_diag d;
    (void)state;
    snprintf(mark, sizeof mark, "%s", put("mark", ""));
    snprintf(script, sizeof script,
             "echo x >>'%s'; sms=2; [ \"$(wc -l <'%s')\" -lt 3 ] || sms=3\n"
             "echo \"{\\\"environment\\\": {\\\"device\\\": \\\"a toy\\\", \\\"sms\\\": $sms, \\\"limit\\\": 96}}\"\n"
             "while read -r l; do echo '{\"config\": 0, \"status\": \"right\", \"samples\": [3]}'; echo '{\"end\": "
             "true}'; done",
             mark, mark);
    if (tw_foreign_open(&f, describe(script), NULL, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(f.calls->measure(f.self, (int64_t[]){64, 2}, &config, 1, &two, &l, &d), TW_OK);
    assert_string_equal(h.text, "");
    if (f.calls->measure(f.self, (int64_t[]){64, 2}, &config, 1, &two, &l, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(h.text, "0:0:3.0:1: ");
    h.left = 0;
    assert_int_equal(f.calls->measure(f.self, (int64_t[]){64, 2}, &config, 1, &two, &l, &d), TW_OK);
    assert_int_equal(f.calls->measure(f.self, (int64_t[]){64, 2}, &config, 1, &two, &l, &d), TW_ERR_IO);
    assert_non_null(strstr(d.message, "the environment is not the one it told before"));
    tw_family_close(&f);
    assert_true(no_child_is_left());
}

/* Random output of a command ends in an error with a message. */
static void rubbish_ends_it(void **state) {
    static const char *const pieces[] = {"{",          "}",
                                         "\"config\"", ":",
                                         "0",          "1",
                                         ",",          "\"status\"",
                                         "\"right\"",  "\"samples\"",
                                         "[",          "]",
                                         "null",       "-1",
                                         "1e999",      "\\",
                                         "\n",         "\"end\"",
                                         "true",       "\"busy\"",
                                         "\xff",       "9999999999999999999"};
    tw_random r = tw_random_seed(3);
    char script[4096], body[1500];
    (void)state;
    for (int i = 0; i < 60; i++) {
        heard h = {.left = -1};
        tw_diag d = {0};
        size_t n = 0;
        for (int k = 0; k < 30; k++) {
            const char *piece = pieces[tw_random_below(&r, sizeof pieces / sizeof *pieces)];
            n += (size_t)snprintf(body + n, sizeof body - n, "%s", piece);
        }
        snprintf(script, sizeof script, SCRIPT("cat <<'END'\n%s\nEND\nexit 1"), body);
        assert_int_equal(measure(script, two, &h, &d), TW_ERR_IO);
        assert_true(*d.message && *d.path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_go_both_ways),
        cmocka_unit_test(long_lines_do_not_block),
        cmocka_unit_test(ends_are_told),
        cmocka_unit_test(what_is_left_behind_ends),
        cmocka_unit_test(the_deaf_are_killed),
        cmocka_unit_test(waiting_is_interrupted),
        cmocka_unit_test(an_endless_line_is_given_up),
        cmocka_unit_test(what_cannot_run_is_said),
        cmocka_unit_test(a_family_is_described),
        cmocka_unit_test(requests_say_all),
        cmocka_unit_test(results_are_passed_on),
        cmocka_unit_test(a_command_starts_again),
        cmocka_unit_test(rubbish_ends_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
