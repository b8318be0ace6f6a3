/* SPDX-License-Identifier: Apache-2.0 */
/* Files, JSON and threads: what happens when the system says no. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void a_failure_names_the_file_the_deed_and_the_reason(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[4096];
    tw_diag d;
    tw_map m = {(const unsigned char *)"x", 1};
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(tw_map_open(&m, path, &d), TW_ERR_IO);
    assert_string_equal(d.path, path);
    assert_string_equal(d.message, "cannot open: No such file or directory");
    /* What a caller closes after a failure holds nothing. */
    assert_true(!m.data && m.size == 0);
    assert_int_equal(tw_map_open(&m, folder, &d), TW_ERR_IO);
    assert_string_equal(d.message, "not a regular file");
    tw_buf text = {0};
    assert_int_equal(tw_file_read(&text, path, &d), TW_ERR_IO);
    assert_string_equal(d.message, "cannot open: No such file or directory");
    assert_int_equal(tw_file_read(&text, folder, &d), TW_ERR_IO);
    assert_string_equal(d.message, "cannot read: Is a directory");
    snprintf(path, sizeof path, "%s/none/out", folder);
    assert_int_equal(tw_file_write(path, "x", 1, &d), TW_ERR_IO);
    assert_string_equal(d.message, "cannot write: No such file or directory");
    assert_int_equal(tw_file_write("/dev/full", "x", 1, &d), TW_ERR_IO);
    assert_string_equal(d.message, "cannot write: No space left on device");
    assert_int_equal(tw_file_write("/dev/null", "x", 1, &d), TW_OK);
    assert_int_equal(tw_file_write(folder, "x", 1, &d), TW_ERR_IO);
    assert_string_equal(d.path, folder);
    json_t *v = NULL;
    assert_int_equal(tw_json_load(&v, path, &d), TW_ERR_IO);
    assert_null(v);
    tw_buf_free(&text);
    test_folder_remove(folder);
}

static int count_entries(const char *folder) {
    DIR *d = opendir(folder);
    int n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* What cannot be written is known before there is anything to write, and what can be is left as it was. */
static void a_check_says_what_a_write_would(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[4096];
    struct stat before, after;
    tw_diag d;
    snprintf(path, sizeof path, "%s/none/out", folder);
    assert_int_equal(tw_file_check(path, &d), TW_ERR_IO);
    assert_string_equal(d.path, path);
    assert_string_equal(d.message, "cannot write: No such file or directory");
    assert_int_equal(tw_file_check(folder, &d), TW_ERR_IO);
    assert_string_equal(d.message, "cannot write: Is a directory");
    assert_int_equal(tw_file_check("/dev/null", &d), TW_OK);
    assert_int_equal(tw_file_check("-", &d), TW_OK);
    const int empty = count_entries(folder);
    /* The file beside it has a longer name. */
    snprintf(path, sizeof path, "%s/%0250d", folder, 0);
    assert_int_equal(tw_file_check(path, &d), tw_file_write(path, "x", 1, &d));
    assert_string_equal(d.message, "cannot write: File name too long");
    assert_int_equal(count_entries(folder), empty);
    snprintf(path, sizeof path, "%s/new", folder);
    assert_int_equal(tw_file_check(path, &d), TW_OK);
    assert_int_equal(count_entries(folder), empty);
    test_write(folder, "new", "x", 1);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(tw_file_check(path, &d), TW_OK);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && after.st_size == 1 && count_entries(folder) == empty + 1);
    test_folder_remove(folder);
}

static void an_empty_file_maps_to_nothing(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[4096];
    test_write(folder, "empty", "", 0);
    snprintf(path, sizeof path, "%s/empty", folder);
    tw_map m;
    tw_diag d;
    assert_int_equal(tw_map_open(&m, path, &d), TW_OK);
    assert_true(!m.data && m.size == 0);
    tw_map_close(&m);
    test_write(folder, "one", "a", 1);
    snprintf(path, sizeof path, "%s/one", folder);
    assert_int_equal(tw_map_open(&m, path, &d), TW_OK);
    assert_true(m.size == 1 && m.data[0] == 'a');
    tw_map_close(&m);
    assert_true(!m.data && m.size == 0);
    test_folder_remove(folder);
}

/* A child reads a pipe slowly that holds less than what is written, so that it takes several writes. */
static void what_takes_several_writes_arrives_whole(void **state) {
    (void)state;
    enum { N = 300000 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    unsigned char *data = malloc(N);
    for (int i = 0; i < N; i++) data[i] = (unsigned char)(i * 7 + i / 251);
    pid_t reader = fork();
    if (reader == 0) {
        unsigned char chunk[1000];
        close(ends[1]);
        long at = 0;
        ssize_t n;
        while ((n = read(ends[0], chunk, sizeof chunk)) > 0)
            for (ssize_t i = 0; i < n; i++, at++)
                if (chunk[i] != (unsigned char)(at * 7 + at / 251)) _exit(1);
        _exit(at == N ? 0 : 2);
    }
    close(ends[0]);
    /* A write that does not wait stops in the middle, and the next goes on from there. */
    assert_true(tw_write_all(ends[1], data, N / 2));
    assert_true(tw_write_all(ends[1], data + N / 2, N - N / 2));
    close(ends[1]);
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    free(data);
}

static void nothing(int signal) {
    (void)signal;
}

/* A signal ends a write that waits in the middle of its bytes; the rest follows. */
static void an_interrupted_write_goes_on_where_it_was(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    unsigned char *data = malloc(N);
    for (int i = 0; i < N; i++) data[i] = (unsigned char)(i * 7 + i / 251);
    pid_t reader = fork();
    if (reader == 0) {
        unsigned char chunk[1000];
        long at = 0;
        ssize_t n;
        close(ends[1]);
        usleep(100000);
        while ((n = read(ends[0], chunk, sizeof chunk)) > 0)
            for (ssize_t i = 0; i < n; i++, at++)
                if (chunk[i] != (unsigned char)(at * 7 + at / 251)) _exit(1);
        _exit(at == N ? 0 : 2);
    }
    close(ends[0]);
    struct sigaction old, quiet = {.sa_handler = nothing};
    assert_int_equal(sigaction(SIGALRM, &quiet, &old), 0);
    const struct itimerval soon = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    bool ok = tw_write_all(ends[1], data, N);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
    assert_true(ok);
    close(ends[1]);
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    free(data);
}

/* No room in the middle of a file: what was there stays, and nothing lies beside it. */
static void a_file_that_cannot_be_written_whole_is_not_replaced(void **state) {
    (void)state;
    enum { N = 100000 };
    char *folder = test_folder_make(), path[4096];
    tw_diag d;
    test_write(folder, "f", "old", 3);
    snprintf(path, sizeof path, "%s/f", folder);
    char *data = calloc(1, N);
    struct rlimit was, little;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    little = (struct rlimit){1000, was.rlim_max};
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    tw_status st = tw_file_write(path, data, N, &d);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, old);
    assert_int_equal(st, TW_ERR_IO);
    assert_string_equal(d.message, "cannot write: File too large");
    tw_buf text = {0};
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    assert_string_equal(text.data, "old");
    tw_buf_free(&text);
    DIR *list = opendir(folder);
    for (struct dirent *e; (e = readdir(list));) assert_true(e->d_name[0] == '.' || !strcmp(e->d_name, "f"));
    closedir(list);
    free(data);
    test_folder_remove(folder);
}

static void a_write_that_fails_says_so(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    assert_false(tw_write_all(ends[1], "x", 1));
    assert_int_equal(errno, EPIPE);
    assert_true(tw_write_all(ends[1], "x", 0));
    signal(SIGPIPE, old);
    close(ends[1]);
}

static void what_a_link_points_to_is_replaced(void **state) {
    (void)state;
    char *folder = test_folder_make(), link[4096], path[4096];
    tw_diag d;
    test_write(folder, "real", "old", 3);
    snprintf(path, sizeof path, "%s/real", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("real", link), 0);
    assert_int_equal(tw_file_write(link, "new", 3, &d), TW_OK);
    struct stat st;
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    tw_buf text = {0};
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    assert_string_equal(text.data, "new");
    tw_buf_free(&text);
    assert_true(tw_file_exists(path) && !tw_path_is_dir(path) && tw_path_is_dir(folder));
    /* What the umask leaves is who may read it. */
    mode_t old = umask(0027);
    snprintf(path, sizeof path, "%s/fresh", folder);
    assert_int_equal(tw_file_write(path, "x", 1, &d), TW_OK);
    umask(old);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(unlink(path), 0);
    assert_false(tw_file_exists(path));
    test_folder_remove(folder);
}

static void folders_come_with_those_they_are_in(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[8192];
    snprintf(path, sizeof path, "%s/a/bc/d", folder);
    assert_true(tw_folder_make(path));
    assert_true(tw_path_is_dir(path));
    assert_true(tw_folder_make(path));
    strcat(path, "/");
    assert_true(tw_folder_make(path));
    test_write(folder, "file", "", 0);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_false(tw_folder_make(path));
    assert_false(tw_folder_make(""));
    memset(path, 'x', sizeof path);
    path[4096] = 0;
    assert_false(tw_folder_make(path));
    test_folder_remove(folder);
}

static void the_cache_is_where_the_environment_says(void **state) {
    (void)state;
    const char *names[] = {"TILEWRIGHT_CACHE", "XDG_CACHE_HOME", "HOME"};
    char *old[3], out[64];
    for (int i = 0; i < 3; i++) {
        const char *is = getenv(names[i]);
        old[i] = is ? strdup(is) : NULL;
        unsetenv(names[i]);
    }
    assert_false(tw_cache_path("x.json", out, sizeof out));
    setenv("HOME", "/h", 1);
    assert_true(tw_cache_path("x.json", out, sizeof out));
    assert_string_equal(out, "/h/.cache/tilewright/x.json");
    setenv("XDG_CACHE_HOME", "", 1);
    assert_true(tw_cache_path("x.json", out, sizeof out));
    assert_string_equal(out, "/h/.cache/tilewright/x.json");
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    assert_true(tw_cache_path("x.json", out, sizeof out));
    assert_string_equal(out, "/xdg/tilewright/x.json");
    setenv("TILEWRIGHT_CACHE", "", 1);
    assert_true(tw_cache_path("x.json", out, sizeof out));
    assert_string_equal(out, "/xdg/tilewright/x.json");
    setenv("TILEWRIGHT_CACHE", "/own", 1);
    assert_true(tw_cache_path("x.json", out, sizeof out));
    assert_string_equal(out, "/own/x.json");
    /* Eleven characters and the NUL: eleven bytes are one too few. */
    assert_true(tw_cache_path("x.json", out, 12));
    assert_false(tw_cache_path("x.json", out, 11));
    for (int i = 0; i < 3; i++) {
        old[i] ? setenv(names[i], old[i], 1) : unsetenv(names[i]);
        free(old[i]);
    }
    setenv("HOME", "", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("TILEWRIGHT_CACHE");
    assert_false(tw_cache_path("x.json", out, sizeof out));
}

static void integers_are_whole_and_in_range(void **state) {
    (void)state;
    json_t *v;
    tw_diag d;
    int64_t n = 5;
    static const char text[] = "[-3, 4.0, -0x, 1]",
                      good[] = "[-3, 4.0, 0.5, 9007199254740992.0, 1e300, true, null, \"1\"]";
    assert_int_equal(tw_json_parse(&v, text, sizeof text - 1, "x.json", -1, &d), TW_ERR_FORMAT);
    assert_null(v);
    assert_int_equal(d.line, 1);
    assert_true(d.column > 9 && d.offset < 0);
    assert_true(!strncmp(d.message, "invalid JSON: ", 14));
    assert_int_equal(tw_json_parse(&v, good, sizeof good - 1, "x.json", -1, &d), TW_OK);
    assert_true(tw_json_int(json_array_get(v, 0), -3, -3, &n) && n == -3);
    assert_false(tw_json_int(json_array_get(v, 0), -2, 9, &n));
    assert_false(tw_json_int(json_array_get(v, 0), -9, -4, &n));
    assert_true(tw_json_int(json_array_get(v, 1), 4, 4, &n) && n == 4);
    assert_false(tw_json_int(json_array_get(v, 2), 0, 9, &n));
    assert_true(tw_json_int(json_array_get(v, 3), 0, INT64_MAX, &n) && n == INT64_C(1) << 53);
    assert_false(tw_json_int(json_array_get(v, 4), INT64_MIN, INT64_MAX, &n));
    for (size_t i = 5; i < 9; i++) assert_false(tw_json_int(json_array_get(v, i), INT64_MIN, INT64_MAX, &n));
    assert_int_equal(n, INT64_C(1) << 53);
    json_decref(v);
    /* Nothing is no JSON; a NUL in a string is; a byte offset counts from where the text begins in its file. */
    assert_int_equal(tw_json_parse(&v, NULL, 0, "x.json", -1, &d), TW_ERR_FORMAT);
    assert_int_equal(tw_json_parse(&v, "[\"a\\u0000b\"]", 12, "x.json", -1, &d), TW_OK);
    assert_int_equal(json_string_length(json_array_get(v, 0)), 3);
    json_decref(v);
    assert_int_equal(tw_json_parse(&v, "[1] x", 5, "x.bin", 100, &d), TW_ERR_FORMAT);
    assert_true(d.offset > 100 && d.offset <= 105 && d.line < 0);
    assert_int_equal(tw_json_parse(&v, "[1] x", 5, "x.bin", 0, &d), TW_ERR_FORMAT);
    assert_true(d.offset > 0 && d.offset <= 5);
}

static void a_thread_stays_on_the_processor_it_asked_for(void **state) {
    (void)state;
    cpu_set_t before, now;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int cpus[CPU_SETSIZE + 1], n = tw_allowed_cpus(cpus, CPU_SETSIZE);
    assert_int_equal(n, CPU_COUNT(&before));
    for (int i = 0; i < n; i++) {
        assert_true(CPU_ISSET(cpus[i], &before));
        assert_true(i == 0 || cpus[i] > cpus[i - 1]);
    }
    /* All are counted, however few there is room for. */
    int few[2] = {-1, -1};
    assert_int_equal(tw_allowed_cpus(few, 1), n);
    assert_int_equal(few[0], cpus[0]);
    assert_int_equal(few[1], -1);
    assert_true(tw_pin_self(cpus[n - 1]));
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_COUNT(&now) == 1 && CPU_ISSET(cpus[n - 1], &now));
    assert_int_equal(tw_allowed_cpus(cpus, 1), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(tw_allowed_cpus(cpus, CPU_SETSIZE), n);
    assert_true(tw_pin_among(cpus, n - n / 2));
    assert_int_equal(tw_allowed_cpus(NULL, 0), n - n / 2);
    assert_true(tw_pin_among(cpus, n));
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &before));
    /* A processor that no machine of today has. */
    assert_false(tw_pin_self(CPU_SETSIZE - 1));
}

static _Atomic bool over;

/* Keeps a processor busy until `over`. */
static void *spin(void *cpu) {
    tw_pin_self(*(const int *)cpu);
    while (!over) tw_cpu_relax();
    return NULL;
}

/* Returns the time that the calling thread ran, in nanoseconds. */
static int64_t ran(void) {
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Four threads want one processor. The time that this one waits for it is in its account, about three times the time
   that it runs. */
static void waiting_for_a_processor_is_counted(void **state) {
    (void)state;
    enum { OTHERS = 3, LEAST = 50000000 };
    cpu_set_t before;
    pthread_t t[OTHERS];
    int cpu;
    const int account = tw_delay_open();
    assert_int_equal(tw_delay_read(-1), 0);
    if (account < 0) skip();
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    tw_allowed_cpus(&cpu, 1);
    over = false;
    for (int i = 0; i < OTHERS; i++) assert_int_equal(pthread_create(&t[i], NULL, spin, &cpu), 0);
    assert_true(tw_pin_self(cpu));
    const int64_t start = tw_now_ns(), began = ran(), waited = tw_delay_read(account);
    while (tw_delay_read(account) - waited < LEAST && tw_now_ns() - start < INT64_C(20000000000)) tw_cpu_relax();
    const int64_t delay = tw_delay_read(account) - waited, busy = ran() - began, all = tw_now_ns() - start;
    over = true;
    for (int i = 0; i < OTHERS; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_true(delay >= LEAST && delay <= all && delay > 1.5 * (double)busy);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    close(account);
}

static _Atomic uint32_t word;

static void *wake(void *unused) {
    (void)unused;
    usleep(20000);
    word = 1;
    tw_wake_all(&word);
    return NULL;
}

static void a_sleeper_is_woken(void **state) {
    (void)state;
    pthread_t t;
    word = 0;
    /* Returns at once where the word is another. */
    tw_sleep_on(&word, 7);
    assert_int_equal(pthread_create(&t, NULL, wake, NULL), 0);
    while (word == 0) tw_sleep_on(&word, 0);
    assert_int_equal(pthread_join(t, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_names_the_file_the_deed_and_the_reason),
        cmocka_unit_test(a_check_says_what_a_write_would),
        cmocka_unit_test(an_empty_file_maps_to_nothing),
        cmocka_unit_test(what_takes_several_writes_arrives_whole),
        cmocka_unit_test(an_interrupted_write_goes_on_where_it_was),
        cmocka_unit_test(a_file_that_cannot_be_written_whole_is_not_replaced),
        cmocka_unit_test(a_write_that_fails_says_so),
        cmocka_unit_test(what_a_link_points_to_is_replaced),
        cmocka_unit_test(folders_come_with_those_they_are_in),
        cmocka_unit_test(the_cache_is_where_the_environment_says),
        cmocka_unit_test(integers_are_whole_and_in_range),
        cmocka_unit_test(a_thread_stays_on_the_processor_it_asked_for),
        cmocka_unit_test(waiting_for_a_processor_is_counted),
        cmocka_unit_test(a_sleeper_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
