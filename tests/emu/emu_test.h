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

/* Launches once; the first finding must be of this rule and its text hold each of `words` (separated by '|'). */
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

#endif
