/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of cubins: what is put in comes out, by whoever and whatever happens meanwhile. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "ptx/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void hashes_are_as_published(void **state) {
    (void)state;
    /* Vectors of the 128-bit variant for the bytes 0, 1, 2 ... under the key 0 ... 15. */
    static const unsigned char empty[16] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                            0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    uint64_t out[2], parts[2];
    tw_hash h = tw_hash_begin();
    tw_hash_end(&h, out);
    assert_memory_equal(out, empty, 16);
    unsigned char data[100];
    for (int i = 0; i < 100; i++) data[i] = (unsigned char)i;
    h = tw_hash_begin();
    tw_hash_add(&h, data, sizeof data);
    tw_hash_end(&h, out);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        h = tw_hash_begin();
        tw_hash_add(&h, data, cut / 2);
        tw_hash_add(&h, data + cut / 2, cut - cut / 2);
        tw_hash_add(&h, data + cut, sizeof data - cut);
        tw_hash_end(&h, parts);
        assert_memory_equal(out, parts, 16);
    }
}

/* What key number `i` holds: size and content follow from the number. */
static tw_cubin content(int i) {
    tw_random r = tw_random_seed((uint64_t)i);
    size_t n = 1 + (size_t)tw_random_below(&r, 20000);
    unsigned char *p = malloc(n);
    for (size_t k = 0; k < n; k++) p[k] = (unsigned char)tw_random_u64(&r);
    return (tw_cubin){.data = p, .bytes = n, .registers = i, .spill_bytes = 3 * i};
}

static tw_cubin_key key_of(int i) {
    return tw_cubin_name((char *)&i, sizeof i, "sm_90a", "test");
}

static void assert_holds(const tw_cubin *c, int i) {
    tw_cubin want = content(i);
    assert_int_equal(c->bytes, want.bytes);
    assert_memory_equal(c->data, want.data, want.bytes);
    assert_int_equal(c->registers, i);
    assert_int_equal(c->spill_bytes, 3 * i);
    tw_cubin_free(&want);
}

static void remember(const char *folder, int i) {
    tw_cubin c = content(i);
    assert_true(tw_cubin_remember(folder, key_of(i), &c));
    tw_cubin_free(&c);
}

static void names_differ_when_anything_does(void **state) {
    (void)state;
    const tw_cubin_key k[] = {
        tw_cubin_name("ab", 2, "sm_90a", "driver 1"), tw_cubin_name("ac", 2, "sm_90a", "driver 1"),
        tw_cubin_name("ab", 2, "sm_80", "driver 1"),  tw_cubin_name("ab", 2, "sm_90a", "driver 2"),
        tw_cubin_name("a", 1, "sm_90a", "driver 1"),  tw_cubin_name("ab", 2, "sm_90", "adriver 1"),
    };
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++) assert_memory_not_equal(&k[i], &k[j], sizeof *k);
}

static void what_is_put_in_comes_out(void **state) {
    (void)state;
    char *root = test_folder_make(), folder[1024];
    snprintf(folder, sizeof folder, "%s/a/b/cubin", root); /* made on the way */
    tw_cubin c;
    assert_false(tw_cubin_recall(folder, key_of(1), &c));
    for (int i = 0; i < 20; i++) remember(folder, i);
    for (int i = 0; i < 20; i++) {
        assert_true(tw_cubin_recall(folder, key_of(i), &c));
        assert_true(c.cached);
        assert_holds(&c, i);
        tw_cubin_free(&c);
    }
    assert_false(tw_cubin_recall(folder, key_of(20), &c));
    assert_null(c.data);
    test_folder_remove(root);
}

/* The file of key `i`. */
static void path_of(char *out, size_t size, const char *folder, int i) {
    tw_cubin_key k = key_of(i);
    snprintf(out, size, "%s/%016llx%016llx.cubin", folder, (unsigned long long)k.word[0],
             (unsigned long long)k.word[1]);
}

static size_t slurp(const char *path, unsigned char *to, size_t room) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(to, 1, room, f);
    fclose(f);
    return n;
}

static void damaged_entries_are_none(void **state) {
    (void)state;
    static unsigned char data[32 << 10];
    char *folder = test_folder_make(), path[1024], other[1024];
    tw_cubin c;
    tw_random r = tw_random_seed(5);
    remember(folder, 7);
    path_of(path, sizeof path, folder, 7);
    path_of(other, sizeof other, folder, 8);
    const char *name = strrchr(path, '/') + 1;
    size_t n = slurp(path, data, sizeof data);
    for (int i = 0; i < 500; i++) {
        size_t at = i < 64 ? (size_t)i % 56 : (size_t)tw_random_below(&r, n);
        unsigned char was = data[at];
        data[at] ^= (unsigned char)(1 + tw_random_below(&r, 255));
        test_write(folder, name, data, n);
        if (tw_cubin_recall(folder, key_of(7), &c)) fail_msg("byte %zu changed, and nobody saw it", at);
        data[at] = was;
    }
    for (size_t cut = 0; cut < n; cut += cut < 80 ? 1 : 997) {
        test_write(folder, name, data, cut);
        assert_false(tw_cubin_recall(folder, key_of(7), &c));
    }
    data[n] = 0;
    test_write(folder, name, data, n + 1); /* too long */
    assert_false(tw_cubin_recall(folder, key_of(7), &c));
    test_write(folder, strrchr(other, '/') + 1, data, n); /* under another's name */
    assert_false(tw_cubin_recall(folder, key_of(8), &c));
    remember(folder, 7); /* replaced */
    assert_true(tw_cubin_recall(folder, key_of(7), &c));
    assert_holds(&c, 7);
    tw_cubin_free(&c);
    test_folder_remove(folder);
}

static void odd_things_in_its_place_do_no_harm(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[1024], file[1024];
    tw_cubin c = content(1), got;
    path_of(path, sizeof path, folder, 1);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_false(tw_cubin_recall(folder, key_of(1), &got));
    assert_false(tw_cubin_remember(folder, key_of(1), &c));
    path_of(path, sizeof path, folder, 2);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_false(tw_cubin_recall(folder, key_of(2), &got)); /* and does not wait for a writer */
    snprintf(file, sizeof file, "%s/file", folder);
    test_write(folder, "file", "x", 1);
    assert_false(tw_cubin_remember(file, key_of(1), &c)); /* no folder, and none can be made */
    assert_false(tw_cubin_recall(file, key_of(1), &got));
    tw_cubin_free(&c);
    test_folder_remove(folder);
}

/* A folder whose entries' paths do not fit, while the one of a new file does: an entry's name is not cut. */
static void a_folder_too_deep_holds_nothing(void **state) {
    (void)state;
    enum { LENGTH = 4070 };
    char *root = test_folder_make(), deep[LENGTH + 1];
    tw_cubin c = content(1), got;
    size_t n = strlen(root);
    memset(deep, 'x', sizeof deep);
    memcpy(deep, root, n);
    for (size_t i = n; i < LENGTH - 1; i += 200) deep[i] = '/';
    deep[LENGTH] = 0;
    assert_false(tw_cubin_remember(deep, key_of(1), &c));
    assert_false(tw_cubin_recall(deep, key_of(1), &got));
    assert_false(tw_path_is_dir(deep));
    tw_cubin_free(&c);
    test_folder_remove(root);
}

static int count_new(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += !strncmp(e->d_name, ".new.", 5);
    closedir(d);
    return n;
}

enum { KEYS = 40, PROCESSES = 6 };

/* Reads and writes keys at random; whatever is read must be whole. */
static void hammer(const char *folder, int seed, int rounds) {
    tw_random r = tw_random_seed((uint64_t)seed);
    for (int k = 0; k < rounds; k++) {
        int i = (int)tw_random_below(&r, KEYS);
        tw_cubin c, want = content(i);
        if (tw_cubin_recall(folder, key_of(i), &c)) {
            bool same = c.bytes == want.bytes && !memcmp(c.data, want.data, c.bytes) && c.registers == i;
            tw_cubin_free(&c);
            if (!same) _exit(3);
        }
        if (tw_random_below(&r, 3) == 0) tw_cubin_remember(folder, key_of(i), &want);
        tw_cubin_free(&want);
    }
}

static void many_processes_may_share_it(void **state) {
    (void)state;
    char *folder = test_folder_make();
    pid_t pid[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        pid[p] = fork();
        assert_true(pid[p] >= 0);
        if (pid[p] == 0) {
            hammer(folder, p, 400);
            _exit(0);
        }
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_int_equal(waitpid(pid[p], &status, 0), pid[p]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(count_new(folder), 0);
    for (int i = 0; i < KEYS; i++) {
        tw_cubin c;
        assert_true(tw_cubin_recall(folder, key_of(i), &c));
        assert_holds(&c, i);
        tw_cubin_free(&c);
    }
    test_folder_remove(folder);
}

static void killed_writers_leave_nothing_wrong(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[1024];
    tw_random r = tw_random_seed(11);
    for (int k = 0; k < 40; k++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            for (;;) hammer(folder, k, 1000);
        const struct timespec t = {0, (long)tw_random_below(&r, 8000000)};
        nanosleep(&t, NULL);
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        for (int i = 0; i < KEYS; i++) {
            tw_cubin c;
            if (!tw_cubin_recall(folder, key_of(i), &c)) continue;
            assert_holds(&c, i);
            tw_cubin_free(&c);
        }
    }
    /* What they had begun is swept when it is old, by one key in 64. */
    const struct timespec old[2] = {{1, 0}, {1, 0}};
    test_write(folder, ".new.aaaaaa", "x", 1);
    test_write(folder, ".new.bbbbbb", "x", 1);
    snprintf(path, sizeof path, "%s/.new.aaaaaa", folder);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    for (int i = 0; i < 1000; i++)
        if (key_of(i).word[0] % 64 == 0) remember(folder, i);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/.new.bbbbbb", folder);
    assert_int_equal(access(path, F_OK), 0);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_as_published),     cmocka_unit_test(names_differ_when_anything_does),
        cmocka_unit_test(what_is_put_in_comes_out),    cmocka_unit_test(a_folder_too_deep_holds_nothing),
        cmocka_unit_test(damaged_entries_are_none),    cmocka_unit_test(odd_things_in_its_place_do_no_harm),
        cmocka_unit_test(many_processes_may_share_it), cmocka_unit_test(killed_writers_leave_nothing_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
