/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the emulator share: kernels are built, launched, and judged by what was found. */
#ifndef TW_TESTS_EMU_EMU_TEST_H
#define TW_TESTS_EMU_EMU_TEST_H

#include "support/support.h"

#include "base/random.h"
#include "emu/emu.h"
#include "ir/builder.h"
#include "ir/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARED .space = TW_SPACE_shared
#define F32    .type = TW_T_f32
#define I32    .type = TW_T_i32

/* base + bytes * i, as a 64-bit address. */
static inline tw_val at64(tw_builder *b, tw_val base, tw_val i, int bytes) {
    return tw_add(b, base, tw_mul_imm(b, tw_widen(b, i), bytes));
}
static inline tw_val at32(tw_builder *b, tw_val base, tw_val i, int bytes) {
    return tw_add(b, base, tw_mul_imm(b, i, bytes));
}
static inline tw_val tid(tw_builder *b) {
    return tw_sreg(b, TW_SREG_tid_x);
}
static inline void store(tw_builder *b, tw_attrs at, tw_val address, tw_val x) {
    tw_st(b, at, address, &x);
}

/* Launches once and fails the test when anything is found or wrong. */
static inline void run_clean(tw_emu *e, const tw_kernel *k, const uint64_t *arguments, tw_emu_options o) {
    tw_emu_report r;
    tw_diag d;
    assert_false(tw_kernel_failed(k));
    tw_status st = tw_emu_launch(e, k, arguments, &o, &r, &d);
    if (st != TW_OK) fail_msg("seed %llu: %s", (unsigned long long)o.seed, d.message);
}

/* Whether a text holds each of `words`, separated by '|'. */
static inline bool holds_all(const char *text, const char *words) {
    char word[128];
    while (*words) {
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (!strstr(text, word)) return false;
        words += n + (words[n] == '|');
    }
    return true;
}

/* -- planted faults: a kernel that is right as fault 0, and broken in one place as any other */

enum { SEEDS = TEST_SANITIZED ? 3 : 10, CELLS = 4096 };

/* in: CELLS floats 0, 1, ... that are read-only; out: as many, uninitialised; aux: as many zeros. */
typedef struct scene {
    const char *name;
    int threads, blocks, launches; /* launches 0: one */
    bool cooperative;
    void (*build)(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux);
    float (*want)(int i); /* what a right kernel leaves in the first `n` of out */
    int n;
} scene;

typedef struct planted {
    const scene *scene;
    int fault;
    const char *name;
    tw_emu_rule rule;
    const char *words; /* in the finding's text, separated by '|' */
} planted;

static inline tw_status play(const scene *s, int fault, uint64_t seed, bool keep_going, tw_emu_report *r, float *out) {
    float in[CELLS];
    int32_t zeros[CELLS] = {0};
    for (int i = 0; i < CELLS; i++) in[i] = (float)i;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new(s->name, 90, s->threads);
    k->cooperative = s->cooperative;
    tw_builder b = tw_builder_of(k);
    tw_val p = tw_pointer_add(&b, "in", 16, true), q = tw_pointer_add(&b, "out", 16, false);
    tw_val x = tw_pointer_add(&b, "aux", 16, false);
    s->build(&b, fault, p, q, x);
    assert_false(tw_kernel_failed(k));
    uint64_t a[3] = {tw_emu_alloc(e, "in", in, sizeof in, true), tw_emu_alloc(e, "out", NULL, sizeof in, false),
                     tw_emu_alloc(e, "aux", zeros, sizeof zeros, false)};
    tw_emu_options o = {
        .seed = seed, .grid = {s->blocks}, .sms = 3, .keep_going = keep_going, .max_operations = 200000};
    tw_diag d;
    tw_status st = TW_OK;
    for (int i = 0; i < (s->launches ? s->launches : 1) && st == TW_OK; i++) st = tw_emu_launch(e, k, a, &o, r, &d);
    if (st != TW_OK && st != TW_ERR_REJECTED) fail_msg("%s: %s", s->name, d.message);
    tw_emu_read(e, a[1], out, sizeof in);
    tw_kernel_free(k);
    tw_emu_free(e);
    return st;
}

static inline void plays_clean(const scene *s) {
    float out[CELLS];
    tw_emu_report r;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (play(s, 0, seed, false, &r, out) != TW_OK)
            fail_msg("%s, seed %d: %s: %s", s->name, (int)seed, tw_emu_rule_name(r.findings[0].rule),
                     r.findings[0].text);
        for (int i = 0; i < s->n; i++)
            if (out[i] != s->want(i))
                fail_msg("%s, seed %d: out[%d] is %g, not %g", s->name, (int)seed, i, (double)out[i],
                         (double)s->want(i));
    }
}

/* Every seed must find something: what is looked for is order, not luck. Under which rule it shows first may depend on
   who came first, but by far most seeds must find it under its own. */
static inline bool is_caught(const planted *p) {
    float out[CELLS];
    int hits = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tw_emu_report r;
        bool found = false;
        play(p->scene, p->fault, seed, true, &r, out);
        for (int i = 0; i < r.n && !found; i++)
            found = r.findings[i].rule == p->rule && holds_all(r.findings[i].text, p->words);
        hits += found;
        if (!r.n) {
            print_error("%s: %s, seed %d: nothing was found\n", p->scene->name, p->name, (int)seed);
            return false;
        }
        if (getenv("SHOW") && (seed == 0 || !found))
            for (int i = 0; i < r.n; i++)
                printf("    %d %s: %s\n", (int)seed, tw_emu_rule_name(r.findings[i].rule), r.findings[i].text);
    }
    if (2 * hits < SEEDS) print_error("%s: %s: only %d of %d seeds\n", p->scene->name, p->name, hits, SEEDS);
    return 2 * hits >= SEEDS;
}

static inline void all_caught(const scene *scenes, int n_scenes, const planted *list, int n) {
    for (int i = 0; i < n_scenes; i++) plays_clean(&scenes[i]);
    int missed = 0;
    for (int i = 0; i < n; i++) missed += !is_caught(&list[i]);
    assert_int_equal(missed, 0);
}
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

#endif
