/* SPDX-License-Identifier: Apache-2.0 */
/* Does the emulator see what is wrong? Faults are planted in the IR of real generated kernels, one at a time; each must
   be found under a rule that fits it, with its place; plain arithmetic ones by the comparison. The table that is
   printed says what found each kind. */
#include "support/support.h"

#include "ir/passes/passes.h"
#include "kernels/gemm/reference.h"
#include "kernels/gemm_faults.h"

#include <stdio.h>
#include <string.h>

static const char *verdict_name(int v) {
    return v == MISMATCH ? "comparison" : v == VERIFIER ? "verifier" : tw_emu_rule_name((tw_emu_rule)v);
}

/* -1: nothing found; -2: no place for the fault. */
static int try_fault(const gemm_fault *f, int variant, tw_diag *diag) {
    gemm_specimen s = gemm_specimen_make(f->has, variant);
    tw_gemm_data d;
    tw_emu_report report;
    int verdict = -1;
    tw_gemm_variant v = tw_gemm_variant_of(&s.problem, &s.config);
    tw_kernel *k = tw_gemm_build(&v, &s.config, s.target);
    assert_non_null(k);
    if (tw_gemm_data_make(&d, &s.problem, (uint64_t)variant, diag) != TW_OK) fail_msg("%s", diag->message);
    if (!f->plant(k, &s))
        verdict = -2;
    else if (tw_pipeline_default(k, true, diag) != TW_OK)
        verdict = VERIFIER;
    else {
        tw_status st = tw_gemm_emulate_kernel(&d, &s.config, s.target, k, (uint64_t)variant, &report, diag);
        if (st == TW_ERR_MISMATCH) verdict = MISMATCH;
        if (st == TW_ERR_REJECTED) verdict = (int)report.findings[0].rule;
    }
    tw_gemm_data_free(&d);
    tw_kernel_free(k);
    return verdict;
}

static void every_planted_fault_is_caught(void **state) {
    (void)state;
    int missed = 0, n;
    const gemm_fault *faults = gemm_faults(&n);
    for (int f = 0; f < n; f++) {
        int tried = 0, caught = 0, by[VERDICTS] = {0};
        char names[200] = "", said[300] = "";
        for (int variant = 0; variant < VARIANTS; variant++) {
            tw_diag d = {0};
            int v = try_fault(&faults[f], variant, &d);
            if (v == -2) continue;
            tried++;
            const bool fits = v >= 0 && faults[f].by >> v & 1, told = !faults[f].at || strstr(d.message, faults[f].at);
            const bool placed = v >= MISMATCH || strstr(d.message, "body") || v == TW_EMU_DEADLOCK;
            if (v >= 0) by[v]++;
            if (fits && told && placed) {
                caught++;
                snprintf(said, sizeof said, "%.*s", (int)strcspn(d.message, "\n"), d.message);
            } else
                print_message("%s, variant %d: %s: %.300s\n", faults[f].kind, variant,
                              v < 0 ? "not found" : verdict_name(v), d.message);
        }
        for (int v = 0; v < VERDICTS; v++)
            if (by[v]) snprintf(names + strlen(names), sizeof names - strlen(names), " %s", verdict_name(v));
        print_message("%-46s caught %d/%d as%s\n    %.250s\n", faults[f].kind, caught, tried, names, said);
        missed += tried - caught;
        if (tried < 2) fail_msg("%s: %d kernels have a place for it", faults[f].kind, tried);
    }
    assert_int_equal(missed, 0);
}

/* Without a fault nothing is found. */
static void the_same_kernels_are_right(void **state) {
    (void)state;
    static const int has[] = {PIPE,
                              ONE,
                              PIPE | TENSOR,
                              PIPE | KL,
                              PIPE | LAST,
                              PIPE | SERIAL,
                              PIPE | ATOMIC,
                              PIPE | RAGGED_M | RAGGED_N | RAGGED_K,
                              PIPE | VECTORS | BIAS | BATCH,
                              TWO,
                              TWO | F32,
                              TWO | RAGGED_M | RAGGED_K,
                              PIPE | CLUSTER};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        for (int variant = 0; variant < VARIANTS; variant++) {
            gemm_specimen s = gemm_specimen_make(has[i], variant);
            tw_gemm_data d;
            tw_diag diag;
            assert_int_equal(tw_gemm_data_make(&d, &s.problem, (uint64_t)variant, &diag), TW_OK);
            if (tw_gemm_emulate(&d, &s.config, s.target, (uint64_t)variant, NULL, &diag) != TW_OK)
                fail_msg("%d, variant %d: %s", has[i], variant, diag.message);
            tw_gemm_data_free(&d);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_kernels_are_right),
                                       cmocka_unit_test(every_planted_fault_is_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
