/* SPDX-License-Identifier: Apache-2.0 */
/* Random kernels compute the same with their records as without, in the emulator with every checker on, whatever the
   options; and what they leave can be decoded. */
#include "support/support.h"

#include "base/random.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "ir/random_kernel.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "prof/decode.h"
#include "prof/lower.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 3, CASES = TEST_SANITIZED ? 150 : 600 };

static void fail_with(const tw_kernel *k, uint64_t seed, const char *message) {
    tw_buf text = {0};
    tw_kernel_print(&text, k);
    fail_msg("seed %d: %s\n%s", (int)seed, message, text.data);
}

/* Runs a kernel. `profile`, which may be NULL, gets its records. Returns its output, which the caller frees. */
static uint8_t *run(const tw_kernel *k, uint64_t seed, size_t bytes, uint8_t *profile, size_t profile_bytes) {
    uint8_t in[RANDOM_IN_BYTES], *out = calloc(bytes, 1);
    tw_random r = tw_random_seed(seed);
    tw_emu *e = tw_emu_new();
    tw_emu_report report;
    tw_diag d;
    assert_non_null(out);
    assert_non_null(e);
    for (int i = 0; i < RANDOM_IN_BYTES; i++) in[i] = (uint8_t)tw_random_u64(&r);
    uint64_t arguments[5] = {tw_emu_alloc(e, "in", in, sizeof in, true), tw_emu_alloc(e, "out", out, bytes, false), 11,
                             0x3f400000};
    if (profile) arguments[4] = tw_emu_alloc(e, "profile", profile, profile_bytes, false);
    const tw_emu_options o = {.seed = seed, .grid = {BLOCKS}, .sms = 2};
    const tw_status s = tw_emu_launch(e, k, arguments, &o, &report, &d);
    if (s != TW_OK) fail_with(k, seed, s == TW_ERR_REJECTED ? report.findings[0].text : d.message);
    assert_true(tw_emu_read(e, arguments[1], out, bytes));
    if (profile) assert_true(tw_emu_read(e, arguments[4], profile, profile_bytes));
    tw_emu_free(e);
    return out;
}

static tw_prof_options draw(uint64_t seed) {
    tw_random r = tw_random_seed(seed ^ 0x5eed);
    static const int frames[] = {0, 1, 2, 3, 4, 8, 33}, shared[] = {0, 64, 400, 4096, 32768};
    tw_prof_options o = {.units = (tw_prof_units)(tw_random_u64(&r) % 3),
                         .metric = (tw_prof_metric)(tw_random_u64(&r) % 8 / 6)};
    o.frames = frames[tw_random_u64(&r) % 7];
    o.shared_bytes = shared[tw_random_u64(&r) % 5];
    o.global = tw_random_u64(&r) % 4 == 0;
    o.flush = tw_random_u64(&r) % 2;
    o.apart = tw_random_u64(&r) % 2;
    if (tw_random_u64(&r) % 3 == 0) o.warps = tw_random_u64(&r);
    if (tw_random_u64(&r) % 3 == 0) {
        o.first = (int)(tw_random_u64(&r) % 2);
        o.every = (int)(tw_random_u64(&r) % 3);
    }
    return o;
}

typedef struct seen {
    int cases, shared, global, flushed, looped, events;
} seen;

static void check(uint64_t seed, tw_kernel *k, seen *n) {
    const tw_prof_options o = draw(seed);
    tw_prof_layout l;
    tw_trace *t;
    tw_diag d;
    const size_t bytes = (size_t)k->threads * BLOCKS * RANDOM_OUT_BYTES;
    uint8_t *before = run(k, seed, bytes, NULL, 0);
    const tw_status st = tw_prof_lower(k, &o, &l, &d);
    if (st != TW_OK && st != TW_ERR_UNSUPPORTED) fail_with(k, seed, d.message);
    if (st == TW_OK && l.n_sites) {
        const size_t size = (size_t)tw_prof_bytes(&l, BLOCKS);
        uint8_t *profile = calloc(1, size);
        assert_non_null(profile);
        if (tw_kernel_verify(k, 0, &d) != TW_OK) fail_with(k, seed, d.message);
        if (seed % 2 && tw_pipeline_default(k, true, &d) != TW_OK) fail_with(k, seed, d.message);
        uint8_t *after = run(k, seed, bytes, profile, size);
        if (memcmp(before, after, bytes) != 0) fail_with(k, seed, "other results with records than without");
        const tw_prof_decoding how = {
            .title = "random", .device = "emulator", .emulated = true, .iterations = seed % 3};
        if (tw_prof_decode(&t, &l, profile, BLOCKS, &how, &d) != TW_OK) fail_with(k, seed, d.message);
        n->cases++;
        n->shared += !l.global;
        n->global += l.global;
        n->flushed += l.flush;
        for (int i = 0; i < l.n_loops; i++) n->looped += l.loops[i].frame > 0;
        n->events += t->n_events;
        tw_trace_free(t);
        free(profile);
        free(after);
    }
    free(before);
    tw_prof_layout_free(&l);
}

static void records_change_no_result(void **state) {
    (void)state;
    seen n = {0};
    for (uint64_t seed = 0; seed < CASES; seed++) {
        const random_kernel_options o = {.seed = 7000 + seed, .operations = 150, .runnable = true};
        tw_kernel *k = random_kernel(&o);
        assert_non_null(k);
        check(seed, k, &n);
        tw_kernel_free(k);
    }
    print_message("%d cases, %d shared, %d global, %d flush, %d loops, %d events\n", n.cases, n.shared, n.global,
                  n.flushed, n.looped, n.events);
    assert_true(n.cases > CASES / 8 && n.shared > n.cases / 5 && n.global > n.cases / 5);
    assert_true(n.flushed > n.cases / 8 && n.looped > n.cases / 20 && n.events > n.cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_change_no_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
