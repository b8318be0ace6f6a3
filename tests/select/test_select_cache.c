/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of answers: keys are whole problems, the last answer stays, and no thread reads a torn answer. */
#include "support/support.h"

#include "select/artefacts.h"
#include "select/selector.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same(const select_answer *a, const select_answer *b) {
    return a->source == b->source && a->micro == b->micro && a->macro == b->macro && a->error == b->error &&
           a->time == b->time;
}

static void keys_are_whole_problems(void **state) {
    (void)state;
    select_cache *c = select_cache_open();
    assert_non_null(c);
    const select_answer a = {TW_SELECT_MODEL, 255, 65535, 0.5f, 1e300}, b = {TW_SELECT_EXACT, 1, 2, 0, 3};
    select_answer got;
    const uint32_t most = TW_SELECT_MOST;
    const uint32_t problem[TW_SELECT_AXES] = {most, most, most, most, most, most}, zeros[TW_SELECT_AXES] = {0};
    assert_false(select_cache_get(c, 5, zeros, 0, &got)); /* An empty entry has no answer. */
    select_cache_put(c, 5, problem, 3, &a);
    assert_true(select_cache_get(c, 5, problem, 3, &got) && same(&got, &a));
    assert_true(select_cache_get(c, 5 + SELECT_ENTRIES, problem, 3, &got)); /* The problem decides, not the hash. */
    assert_false(select_cache_get(c, 6, problem, 3, &got));
    for (unsigned flags = 0; flags < 16; flags++)
        assert_int_equal(select_cache_get(c, 5, problem, flags, &got), flags == 3);
    for (int x = 0; x < TW_SELECT_AXES; x++)
        for (int bit = 0; bit < 25; bit++) {
            uint32_t other[TW_SELECT_AXES];
            memcpy(other, problem, sizeof other);
            other[x] ^= 1u << bit;
            assert_false(select_cache_get(c, 5, other, 3, &got));
        }
    select_cache_put(c, 5, zeros, 0, &b);
    assert_false(select_cache_get(c, 5, problem, 3, &got));
    assert_true(select_cache_get(c, 5, zeros, 0, &got) && same(&got, &b));
    select_cache_close(c);
}

/* Problems with exchanged axes, or whose bits cancel in a sum, have different keys. */
static void hashes_differ(void **state) {
    (void)state;
    enum { SIDE = 32 };
    static unsigned char hit[SELECT_ENTRIES];
    int used = 0;
    for (uint32_t x = 0; x < SIDE; x++)
        for (uint32_t y = 0; y < SIDE; y++) {
            const uint32_t problem[TW_SELECT_AXES] = {64 * (x + 1), 64 * (y + 1), 1024};
            unsigned char *h = &hit[select_hash(problem) % SELECT_ENTRIES];
            used += !*h;
            *h = 1;
        }
    assert_true(used > SELECT_ENTRIES / 2); /* A random hash would use 0.63 of the entries. */
}

/* ---- threads */

enum { THREADS = 4, ROUNDS = TEST_SANITIZED ? 30000 : 300000, WRITES = 20 * ROUNDS, PAIR = 2 };

/* Threads on one entry. Writers store the answers of two problems there in turn, without pauses. Readers look up one of
   the two. All fields of an answer follow from its problem. */
typedef struct entry_user {
    select_cache *cache;
    atomic_int *writing; /* Number of writers that still run. */
    long found;
} entry_user;

static select_answer answer_of(uint32_t i) {
    return (select_answer){TW_SELECT_MODEL, (uint8_t)(i * 17), (uint16_t)(i * 4369), (float)i, 1.0 / i};
}

static void *write_entry(void *context) {
    entry_user *u = context;
    for (uint32_t k = 0; k < WRITES; k++) {
        const uint32_t i = 1 + k % PAIR, problem[TW_SELECT_AXES] = {i, i, i, i, i, i};
        const select_answer a = answer_of(i);
        select_cache_put(u->cache, 7, problem, i, &a);
    }
    atomic_fetch_sub(u->writing, 1);
    return NULL;
}

static void *read_entry(void *context) {
    entry_user *u = context;
    const uint32_t problem[TW_SELECT_AXES] = {1, 1, 1, 1, 1, 1};
    const select_answer right = answer_of(1);
    while (atomic_load_explicit(u->writing, memory_order_relaxed)) {
        select_answer got;
        if (!select_cache_get(u->cache, 7, problem, 1, &got)) continue;
        if (!same(&got, &right)) return u;
        u->found++;
    }
    return NULL;
}

static void no_answer_is_torn(void **state) {
    (void)state;
    select_cache *c = select_cache_open();
    assert_non_null(c);
    pthread_t threads[THREADS];
    entry_user users[THREADS];
    atomic_int writing = THREADS / 2;
    long found = 0;
    int torn = 0;
    for (int i = 0; i < THREADS; i++) {
        users[i] = (entry_user){c, &writing, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? write_entry : read_entry, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        torn += wrong != NULL;
        found += users[i].found;
    }
    assert_int_equal(torn, 0);
    assert_true(found > 0);
    select_cache_close(c);
}

enum { PROBLEMS = 96 };

typedef struct selector_user {
    const tw_selector *s;
    int64_t (*problems)[TW_SELECT_AXES];
    const tw_selection *right;
    unsigned number;
    long remembered;
} selector_user;

static void *use_selector(void *context) {
    selector_user *u = context;
    tw_random r = tw_random_seed(u->number);
    for (int k = 0; k < ROUNDS / 4; k++) {
        const unsigned i = (unsigned)tw_random_below(&r, PROBLEMS);
        const tw_selection *right = &u->right[i];
        tw_selection got;
        (void)tw_select_choose(u->s, u->problems[i], i % 3, &got);
        if (got.source != right->source || got.macro != right->macro || got.micro != right->micro ||
            got.config != right->config || got.time != right->time || got.low != right->low || got.high != right->high)
            return u;
        u->remembered += got.remembered;
    }
    return NULL;
}

/* Draws problems, many of which share entries. */
static void draw(const tw_artefact *a, tw_random *r, int64_t problems[PROBLEMS][TW_SELECT_AXES]) {
    for (int n = 0; n < PROBLEMS;) {
        uint32_t whole[TW_SELECT_AXES] = {0};
        artefact_problem(a, r, problems[n]);
        for (int x = 0; x < a->n_axes; x++) whole[x] = (uint32_t)problems[n][x];
        n += ((select_hash(whole) ^ (unsigned)n % 3) % SELECT_ENTRIES) < 8;
    }
}

static void threads_get_the_same_answers(void **state) {
    (void)state;
    static int64_t problems[PROBLEMS][TW_SELECT_AXES];
    static tw_selection right[PROBLEMS];
    tw_arena arena = {0};
    tw_random r = tw_random_seed(31);
    tw_diag d = {0};
    char *folder = test_folder_make(), path[512];
    const tw_artefact *a;
    do {
        a = artefact_random(&arena, &r, &(artefact_limits){3, 30, 4, 6, 10, false});
    } while (a->n_axes < 3);
    tw_selector *s;
    snprintf(path, sizeof path, "%s/a.tws", folder);
    assert_int_equal(tw_artefact_write(a, path, &d), TW_OK);
    assert_int_equal(tw_selector_open(&s, path, &d), TW_OK);
    draw(a, &r, problems);
    for (int i = 0; i < PROBLEMS; i++) (void)tw_select_choose(s, problems[i], (unsigned)i % 3, &right[i]);
    pthread_t threads[THREADS];
    selector_user users[THREADS];
    long remembered = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        users[i] = (selector_user){s, problems, right, i + 1, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, use_selector, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
        remembered += users[i].remembered;
    }
    assert_true(remembered > ROUNDS / 50 && remembered < ROUNDS);
    tw_selector_close(s);
    test_folder_remove(folder);
    tw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_whole_problems),
        cmocka_unit_test(hashes_differ),
        cmocka_unit_test(no_answer_is_torn),
        cmocka_unit_test(threads_get_the_same_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
