/* SPDX-License-Identifier: Apache-2.0 */
/* Passes on small kernels, as text before and after. That results stay what they are is for the emulator's tests to
   show, on random kernels that can be run. */
#include "support/support.h"

#include "ir/builder.h"
#include "ir/passes/passes.h"
#include "ir/random_kernel.h"
#include "ir/text.h"
#include "ir/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                                           \
    "kernel k\n    target 80\n    threads 64\n    pointer p align 16\n    parameter n i32\n    parameter x f32\n"      \
    "    shared s 1024 align 16\n{\n"

static tw_kernel *parse(const char *body) {
    char text[8192];
    tw_kernel *k;
    tw_diag d;
    snprintf(text, sizeof text, "%s%s}\n", HEAD, body);
    if (tw_kernel_parse(&k, text, strlen(text), "t", &d) != TW_OK)
        fail_msg("%s\n%d:%d: %s", text, d.line, d.column, d.message);
    if (tw_kernel_verify(k, 0, &d) != TW_OK) fail_msg("%s\n%s", text, d.message);
    return k;
}

static char *print(const tw_kernel *k) {
    tw_buf out = {0};
    assert_true(tw_kernel_print(&out, k));
    return out.data;
}

typedef bool pass(tw_kernel *k);

/* `after` NULL: the pass leaves it alone, and says so. */
static void gives(pass *run, const char *before, const char *after) {
    tw_kernel *k = parse(before);
    tw_diag d;
    assert_int_equal(run(k), after != NULL);
    char *text = print(k), want[8192];
    snprintf(want, sizeof want, "%s%s}\n", HEAD, after ? after : before);
    assert_string_equal(text, want);
    if (tw_kernel_verify(k, 0, &d) != TW_OK) fail_msg("%s\n%s", text, d.message);
    assert_false(run(k));
    free(text);
    tw_kernel_free(k);
}

#define T      "    %1:i32 = sreg(type=i32 sreg=tid_x)\n"
#define ST(v)  "    st(type=i32) @p, " v "\n"
#define STP(v) "    st(type=i32) @p, 1:i32 when " v "\n"

static void folds_constants(void **state) {
    (void)state;
    gives(tw_pass_fold, "    %1:i32 = add_i32 2:i32, 3:i32\n" ST("%1"), ST("5:i32"));
    gives(tw_pass_fold, "    %1:i64 = mul_wide_s32 -2:i32, 3:i32\n    st(type=i64) @p, %1\n",
          "    st(type=i64) @p, -6:i64\n");
    gives(tw_pass_fold,
          "    %1:f32 = fma_f32 0x40000000:f32, 0x40400000:f32, 0x3f800000:f32  # 2 3 1\n"
          "    st(type=f32) @p, %1\n",
          "    st(type=f32) @p, 0x40e00000:f32  # 7\n");
    /* chains, and through bitcasts and selects */
    gives(tw_pass_fold,
          "    %1:f32 = bitcast(type=f32) 1065353216:i32\n    %2:f32 = add_f32 %1, %1\n"
          "    %3:f32 = select(type=f32) %2, @x, 1:pred\n    st(type=f32) @p, %3\n",
          "    st(type=f32) @p, 0x40000000:f32  # 2\n");
    /* approximate results and NaN are the device's */
    gives(tw_pass_fold, "    %1:f32 = exp2_f32 0x3f800000:f32  # 1\n    st(type=f32) @p, %1\n", NULL);
    gives(tw_pass_fold, "    %1:f32 = sub_f32 0x7f800000:f32, 0x7f800000:f32  # inf\n    st(type=f32) @p, %1\n", NULL);
}

/* Whether folding leaves the operation: one of a type of halves, on two constants. */
static bool stays(const char *type, int digits, const char *op, unsigned x, unsigned y) {
    char body[512];
    snprintf(body, sizeof body, "    %%1:%s = %s 0x%0*x:%s, 0x%0*x:%s\n    st(type=%s) @p, %%1\n", type, op, digits, x,
             type, digits, y, type, type);
    tw_kernel *k = parse(body);
    tw_pass_fold(k);
    char *text = print(k);
    const bool there = strstr(text, op) != NULL;
    free(text);
    tw_kernel_free(k);
    return there;
}

/* Of halves too, in either half of a pair; infinity is no NaN. */
static void folds_no_half_to_a_nan(void **state) {
    (void)state;
    for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
        assert_true(stays("f16", 4, "add_f16", 0x7c00 ^ sign, 0xfc00 ^ sign));
        assert_false(stays("f16", 4, "add_f16", 0x7c00 ^ sign, 0x3c00));
        assert_true(stays("f16x2", 8, "add_f16x2", 0x7c00 ^ sign, 0xfc00 ^ sign));
        assert_true(stays("f16x2", 8, "add_f16x2", (0x7c00 ^ sign) << 16, (0xfc00 ^ sign) << 16));
        assert_false(stays("f16x2", 8, "add_f16x2", (0x7c00 ^ sign) << 16, 0x3c00));
        assert_false(stays("f16x2", 8, "add_f16x2", 0x7c00 ^ sign, 0x3c003c00));
    }
}

static void folds_identities(void **state) {
    (void)state;
    static const struct {
        const char *op, *result;
    } cases[] = {{"add_i32 %1, 0:i32", "%1"},    {"add_i32 0:i32, %1", "%1"},    {"sub_i32 %1, 0:i32", "%1"},
                 {"mul_i32 1:i32, %1", "%1"},    {"and_i32 %1, -1:i32", "%1"},   {"shl_i32 %1, 0:i32", "%1"},
                 {"or_i32 %1, %1", "%1"},        {"min_s32 %1, %1", "%1"},       {"div_u32 %1, 1:i32", "%1"},
                 {"sub_i32 %1, %1", "0:i32"},    {"xor_i32 %1, %1", "0:i32"},    {"mul_i32 %1, 0:i32", "0:i32"},
                 {"and_i32 0:i32, %1", "0:i32"}, {"rem_u32 %1, 1:i32", "0:i32"}, {"mad_i32 @n, 0:i32, %1", "%1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char before[256], after[256];
        snprintf(before, sizeof before, "%s    %%2:i32 = %s\n%s", T, cases[i].op, ST("%2"));
        snprintf(after, sizeof after, "%s    st(type=i32) @p, %s\n", T, cases[i].result);
        gives(tw_pass_fold, before, after);
    }
    gives(tw_pass_fold, T "    %2:i32 = mad_i32 %1, 1:i32, @n\n" ST("%2"), T "    %2:i32 = add_i32 %1, @n\n" ST("%2"));
    gives(tw_pass_fold, T "    %2:i32 = mad_i32 %1, @n, 0:i32\n" ST("%2"), T "    %2:i32 = mul_i32 %1, @n\n" ST("%2"));
    gives(tw_pass_fold, "    %1:i64 = mad_wide_s32 2:i32, 8:i32, @p\n    st(type=i64) @p, %1\n",
          "    %1:i64 = add_i64 @p, 16:i64\n    st(type=i64) @p, %1\n");
    gives(tw_pass_fold, T "    %2:i64 = sext_i64_i32 %1\n    %3:i32 = trunc_i32_i64 %2\n" ST("%3"),
          T "    %2:i64 = sext_i64_i32 %1\n" ST("%1"));
    gives(tw_pass_fold, T "    %2:pred = lt_s32 %1, %1\n" STP("%2"), T);
    /* x + 0 is another number where x is -0 */
    gives(tw_pass_fold, "    %1:f32 = add_f32 @x, 0x00000000:f32\n    st(type=f32) @p, %1\n", NULL);
}

static void folds_guards(void **state) {
    (void)state;
    gives(tw_pass_fold, STP("1:pred"), "    st(type=i32) @p, 1:i32\n");
    gives(tw_pass_fold, STP("0:pred"), "");
    gives(tw_pass_fold, "    st(type=i32) @p, 1:i32 unless 1:pred\n", "");
    gives(tw_pass_fold, "    %1:i32 = ld(type=i32) @p when 0:pred\n" ST("%1"), ST("0:i32"));
    gives(tw_pass_fold, "    $1:i32 = undef(type=i32)\n    $1 = ld(type=i32) @p when 0:pred\n" ST("$1"),
          "    $1:i32 = undef(type=i32)\n    $1 = set(type=i32) 0:i32\n" ST("$1"));
    gives(tw_pass_fold, T "    %2:pred = lt_s32 %1, @n\n    %3:pred = not_pred %2\n" STP("%3"),
          T "    %2:pred = lt_s32 %1, @n\n    %3:pred = not_pred %2\n    st(type=i32) @p, 1:i32 unless %2\n");
}

static void folds_control_flow(void **state) {
    (void)state;
    gives(tw_pass_fold, T "    if 1:pred {\n    " ST("%1") "    } else {\n        exit\n    }\n", T ST("%1"));
    gives(tw_pass_fold, T "    if 0:pred {\n    " ST("%1") "    } else {\n        barrier\n    }\n", T "    barrier\n");
    gives(tw_pass_fold, "    if 0:pred {\n        barrier\n    }\n", "");
    /* a branch within a branch, on what only folding makes constant */
    gives(tw_pass_fold,
          "    if 1:pred {\n        %1:pred = eq_i32 3:i32, 3:i32\n        if %1 {\n            barrier\n        }\n   "
          " }\n",
          "    barrier\n");
    gives(tw_pass_fold, "    %1:i32 = for(type=i32) 3:i32, 3:i32, 1:i32 {\n    " ST("%1") "    }\n", "");
    gives(tw_pass_fold, "    %1:i32 = for(type=i32) 3:i32, -3:i32, @n {\n    " ST("%1") "    }\n", "");
    gives(tw_pass_fold, "    %1:i32 = for(type=i32) 3:i32, 5:i32, 2:i32 {\n    " ST("%1") "    }\n", ST("3:i32"));
    gives(tw_pass_fold, "    %1:i32 = for(type=i32) 3:i32, 6:i32, 2:i32 {\n    " ST("%1") "    }\n", NULL);
    gives(tw_pass_fold, "    %1:i32 = for(type=i32) 3:i32, 4:i32, @n {\n    " ST("%1") "    }\n", NULL);
    gives(tw_pass_fold,
          "    %1:i32 = for(type=i32) -2147483648:i32, 2147483647:i32, 2147483647:i32 {\n    " ST("%1") "    }\n",
          NULL);
    gives(tw_pass_fold,
          "    %1:i64 = for(type=i64) -9223372036854775808:i64, 9223372036854775807:i64, 1:i64 {\n        barrier\n    "
          "}\n",
          NULL);
    gives(tw_pass_fold,
          "    while {\n        barrier\n        %1:pred = lt_s32 5:i32, 4:i32\n    } do %1 {\n        exit\n    }\n",
          "    barrier\n");
}

static void folding_respects_variables(void **state) {
    (void)state;
    gives(tw_pass_fold,
          "    $1:i32 = set(type=i32) @n\n    %2:i32 = add_i32 $1, 0:i32\n    $1 = set(type=i32) 7:i32\n" ST("%2"),
          NULL);
    gives(tw_pass_fold,
          "    $1:i32 = set(type=i32) @n\n    $1 = add_i32 2:i32, 3:i32\n    $1 = add_i32 $1, 0:i32\n" ST("$1"),
          "    $1:i32 = set(type=i32) @n\n    $1 = set(type=i32) 5:i32\n" ST("$1"));
    gives(tw_pass_fold, "    $1:i32 = set(type=i32) 1:i32\n    %2:i32 = add_i32 $1, 3:i32\n" ST("%2"), NULL);
}

static void finds_common_expressions(void **state) {
    (void)state;
#define SUM(r, a, b) "    " r ":i32 = add_i32 " a ", " b "\n"
    gives(tw_pass_common, T SUM("%2", "%1", "@n") SUM("%3", "@n", "%1") ST("%2") ST("%3"),
          T SUM("%2", "%1", "@n") ST("%2") ST("%2"));
    gives(tw_pass_common, T "    %2:i32 = sub_i32 %1, @n\n    %3:i32 = sub_i32 @n, %1\n" ST("%2") ST("%3"), NULL);
    /* in a block within, but not beside nor after */
    gives(tw_pass_common,
          T SUM("%2", "%1", "@n") "    if 1:pred {\n    " SUM("%3", "%1", "@n") "    " ST("%3") "    }\n" ST("%2"),
          T SUM("%2", "%1", "@n") "    if 1:pred {\n    " ST("%2") "    }\n" ST("%2"));
    gives(tw_pass_common,
          T "    if 1:pred {\n    " SUM("%2", "%1", "@n") "    " ST("%2") "    } else {\n    " SUM(
              "%3", "%1", "@n") "    " ST("%3") "    }\n" SUM("%4", "%1", "@n") ST("%4"),
          NULL);
    /* variables, clocks, shuffles */
    gives(tw_pass_common,
          "    $1:i32 = set(type=i32) @n\n    %2:i32 = not_i32 $1\n    $1 = set(type=i32) 7:i32\n"
          "    %3:i32 = not_i32 $1\n" ST("%2") ST("%3"),
          NULL);
    gives(tw_pass_common,
          "    %1:i32 = sreg(type=i32 sreg=clock)\n    %2:i32 = sreg(type=i32 sreg=clock)\n" ST("%1") ST("%2"), NULL);
    gives(tw_pass_common, T "    %2:i32 = sreg(type=i32 sreg=tid_x)\n" ST("%2"), T ST("%1"));
    gives(tw_pass_common, T "    %2:i32 = sreg(type=i32 sreg=tid_y)\n" ST("%2"), NULL);
    gives(tw_pass_common,
          "    %1:i32 = shared_address(name=\"s\")\n    %2:i32 = shared_address(name=\"s\")\n" ST("%1") ST("%2"),
          "    %1:i32 = shared_address(name=\"s\")\n" ST("%1") ST("%1"));
    gives(tw_pass_common,
          T "    while {\n        %2:pred = lt_s32 %1, @n\n        %3:pred = lt_s32 %1, @n\n    } do %3 {\n        "
            "exit\n    "
            "}\n",
          T "    while {\n        %2:pred = lt_s32 %1, @n\n    } do %2 {\n        exit\n    }\n");
}

#define LD(r, a, at) "    " r ":i32 = ld(type=i32" at ") " a "\n"

static void folds_addresses(void **state) {
    (void)state;
    gives(tw_pass_addresses, "    %1:i64 = add_i64 @p, 16:i64\n    st(type=i32 offset=4) %1, 1:i32\n",
          "    %1:i64 = add_i64 @p, 16:i64\n    st(type=i32 offset=20) @p, 1:i32\n");
    gives(tw_pass_addresses, "    %1:i64 = sub_i64 @p, 16:i64\n" LD("%2", "%1", "") ST("%2"),
          "    %1:i64 = sub_i64 @p, 16:i64\n" LD("%2", "@p", " offset=-16") ST("%2"));
    /* chains are joined on the way */
    gives(tw_pass_addresses,
          "    %1:i64 = add_i64 @p, 16:i64\n    %2:i64 = add_i64 %1, 16:i64\n" LD("%3", "%2", "") ST("%3"),
          "    %1:i64 = add_i64 @p, 16:i64\n    %2:i64 = add_i64 @p, 32:i64\n" LD("%3", "@p", " offset=32") ST("%3"));
    /* 24 bits */
    gives(tw_pass_addresses, "    %1:i64 = add_i64 @p, 8388607:i64\n    st(type=i8) %1, 1:i32\n",
          "    %1:i64 = add_i64 @p, 8388607:i64\n    st(type=i8 offset=8388607) @p, 1:i32\n");
    gives(tw_pass_addresses, "    %1:i64 = add_i64 @p, 8388608:i64\n    st(type=i8) %1, 1:i32\n", NULL);
    gives(tw_pass_addresses, "    %1:i64 = add_i64 @p, 8388607:i64\n    st(type=i8 offset=1) %1, 1:i32\n", NULL);
    /* through products, in shared memory */
    gives(tw_pass_addresses,
          T "    %2:i32 = add_i32 %1, 2:i32\n    %3:i32 = shl_i32 %2, 2:i32\n" LD("%4", "%3", " space=shared") ST("%4"),
          T "    %2:i32 = add_i32 %1, 2:i32\n    %3:i32 = shl_i32 %1, 2:i32\n    %4:i32 = shl_i32 %2, 2:i32\n" LD(
              "%5", "%3", " space=shared offset=8") ST("%5"));
    gives(tw_pass_addresses,
          T "    %2:i32 = add_i32 %1, 2:i32\n    %3:i32 = shared_address(name=\"s\")\n"
            "    %4:i32 = mad_i32 %2, 12:i32, %3\n" LD("%5", "%4", " space=shared") ST("%5"),
          T "    %2:i32 = add_i32 %1, 2:i32\n    %3:i32 = shared_address(name=\"s\")\n"
            "    %4:i32 = mad_i32 %1, 12:i32, %3\n    %5:i32 = mad_i32 %2, 12:i32, %3\n" LD(
                "%6", "%4", " space=shared offset=24") ST("%6"));
    gives(tw_pass_addresses,
          T "    %2:i64 = add_i64 @p, 64:i64\n    %3:i64 = mad_wide_s32 %1, 4:i32, %2\n" LD("%4", "%3", "") ST("%4"),
          T "    %2:i64 = add_i64 @p, 64:i64\n    %3:i64 = mad_wide_s32 %1, 4:i32, @p\n"
            "    %4:i64 = mad_wide_s32 %1, 4:i32, %2\n" LD("%5", "%3", " offset=64") ST("%5"));
    /* both: a product of a sum, in a sum */
    gives(tw_pass_addresses,
          T "    %2:i32 = add_i32 %1, 2:i32\n    %3:i32 = shl_i32 %2, 2:i32\n    %4:i32 = add_i32 %3, 1:i32\n" LD(
              "%5", "%4", " space=shared") ST("%5"),
          T "    %2:i32 = add_i32 %1, 2:i32\n    %3:i32 = shl_i32 %1, 2:i32\n    %4:i32 = shl_i32 %2, 2:i32\n"
            "    %5:i32 = add_i32 %4, 1:i32\n" LD("%6", "%3", " space=shared offset=9") ST("%6"));
    /* not through widening: the sum may overflow before */
    gives(tw_pass_addresses,
          T "    %2:i32 = add_i32 %1, 2:i32\n    %3:i64 = mad_wide_s32 %2, 4:i32, @p\n" LD("%4", "%3", "") ST("%4"),
          NULL);
}

static void addresses_of_variables(void **state) {
    (void)state;
#define V "    $1:i64 = set(type=i64) @p\n"
#define A "    %2:i64 = add_i64 $1, 16:i64\n"
#define N "    $1 = add_i64 $1, 64:i64\n"
    gives(tw_pass_addresses, V A LD("%3", "%2", "") N ST("%3"), V A LD("%3", "$1", " offset=16") N ST("%3"));
    gives(tw_pass_addresses, V A N LD("%3", "%2", "") ST("%3"), NULL);
    gives(tw_pass_addresses, V A "    if 1:pred {\n    " N "    }\n" LD("%3", "%2", "") ST("%3"), NULL);
    /* a loop assigns from its beginning on */
    gives(tw_pass_addresses,
          V A "    %3:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n    " LD("%4", "%2", "") "    " ST("%4") "    " N
                                                                                                       "    }\n",
          NULL);
    gives(tw_pass_addresses,
          V "    %2:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n        %3:i64 = add_i64 $1, 16:i64\n    " LD(
              "%4", "%3", "") "    " ST("%4") "    " N "    }\n",
          V "    %2:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n        %3:i64 = add_i64 $1, 16:i64\n    " LD(
              "%4", "$1", " offset=16") "    " ST("%4") "    " N "    }\n");
    /* a chain reads its variable where it begins */
    gives(tw_pass_addresses, V A N "    %3:i64 = add_i64 %2, 16:i64\n" LD("%4", "%3", "") ST("%4"), NULL);
    /* a product would have to be made anew, later than the variable was read */
    gives(tw_pass_addresses,
          "    $1:i32 = set(type=i32) @n\n    %2:i32 = add_i32 $1, 2:i32\n    $1 = set(type=i32) 0:i32\n"
          "    %3:i32 = shl_i32 %2, 2:i32\n" LD("%4", "%3", " space=shared") ST("%4"),
          NULL);
}

static void removes_dead_code(void **state) {
    (void)state;
    gives(tw_pass_dead_code, T "    %2:i32 = add_i32 %1, @n\n    %3:i32 = not_i32 %2\n" ST("@n"), ST("@n"));
    gives(tw_pass_dead_code, "    %1:i32 = ld(type=i32) @p\n", "");
    gives(tw_pass_dead_code, "    %1:i32 = ld(type=i32 order=volatile) @p\n", NULL);
    gives(tw_pass_dead_code, "    %1:i32 = ld(type=i32 order=acquire scope=gpu) @p\n", NULL);
    gives(tw_pass_dead_code, "    %1:i32 = atom(type=i32 rmw=add) @p, 1:i32\n", NULL);
    gives(tw_pass_dead_code, T "    %2:i32 = shfl(type=i32 mode=idx) %1, 0:i32, -1:i32\n", NULL);
    gives(tw_pass_dead_code,
          "    %1:f64, %2:f64 = mma(mma=m8n8k4_f64) 0x0000000000000000:f64, 0x0000000000000000:f64, "
          "0x0000000000000000:f64, 0x0000000000000000:f64\n",
          "");
    gives(tw_pass_dead_code, "    prefetch @p\n", NULL);
    gives(tw_pass_dead_code, T "    %2:pred = lt_s32 %1, @n\n    if %2 {\n        %3:i32 = not_i32 %1\n    }\n", "");
    gives(tw_pass_dead_code, T "    roles 0:i32, 1:i32 {\n    } 1:i32, 2:i32 {\n        %2:i32 = not_i32 %1\n    }\n",
          "");
    gives(tw_pass_dead_code, T "    while {\n        %2:pred = lt_s32 %1, @n\n    } do %2 {\n    }\n", NULL);
    gives(tw_pass_dead_code, "    record_begin(name=\"a\")\n    record_end(name=\"a\")\n", NULL);
}

static void dead_variables(void **state) {
    (void)state;
#define LOOP(body) "    %2:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n" body "    }\n"
    gives(tw_pass_dead_code, "    $1:f32 = set(type=f32) 0x00000000:f32\n" LOOP("        $1 = add_f32 $1, @x\n"), "");
    gives(
        tw_pass_dead_code,
        "    $1:f32 = set(type=f32) 0x00000000:f32\n" LOOP("        $1 = add_f32 $1, @x\n") "    st(type=f32) @p, $1\n",
        NULL);
    /* carried around through another one */
    gives(tw_pass_dead_code,
          "    $1:i32 = set(type=i32) 1:i32\n    $2:i32 = set(type=i32) 2:i32\n"
          "    %3:i32 = for(type=i32) 0:i32, @n, 1:i32 {\n    " ST("$1") "        $1 = set(type=i32) $2\n"
                                                                         "        $2 = add_i32 $2, %3\n    }\n",
          NULL);
    gives(tw_pass_dead_code, "    $1:i32 = undef(type=i32)\n" ST("@n"), ST("@n"));
    /* assigned by what stays, so its declaration stays */
    gives(tw_pass_dead_code, "    $1:i32 = undef(type=i32)\n    $1 = atom(type=i32 rmw=add) @p, 1:i32\n", NULL);
}

/* -- the pipeline */

static bool breaks(tw_kernel *k) {
    k->body.first->at.vec = 7;
    return true;
}

static void a_finding_names_the_pass(void **state) {
    (void)state;
    tw_kernel *k = parse(ST("@n"));
    tw_diag d;
    const tw_pass passes[] = {{"fold", tw_pass_fold}, {"breaks", breaks}, {"dead_code", tw_pass_dead_code}};
    assert_int_equal(tw_pipeline_run(k, passes, 3, 0, true, &d), TW_ERR_REJECTED);
    assert_string_equal(d.message, "after pass breaks:\nbody/st 0: vec is 1, 2, 4 or 8");
    assert_int_equal(tw_pipeline_default(k, true, &d), TW_ERR_REJECTED);
    assert_non_null(strstr(d.message, "before any pass:\nbody/st 0: vec"));
    tw_kernel_free(k);
}

static bool never_content(tw_kernel *k) {
    k->max_registers++;
    return true;
}

static void rounds_are_limited(void **state) {
    (void)state;
    tw_kernel *k = parse("");
    tw_diag d;
    const tw_pass passes[] = {{"never_content", never_content}};
    assert_int_equal(tw_pipeline_run(k, passes, 1, 3, true, &d), TW_OK);
    assert_int_equal(k->max_registers, 3);
    assert_int_equal(tw_pipeline_run(k, passes, 1, 0, false, &d), TW_OK);
    assert_int_equal(k->max_registers, 7);
    tw_kernel_free(k);
}

/* Unrolled accesses of a tile come down to one address. */
static void passes_work_together(void **state) {
    (void)state;
    tw_kernel *k = parse(T "    %2:i32 = shared_address(name=\"s\")\n"
                           "    %3:i32 = add_i32 %1, 1:i32\n    %4:i32 = mad_i32 %3, 4:i32, %2\n"
                           "    %5:i32 = add_i32 %1, 2:i32\n    %6:i32 = mad_i32 %5, 4:i32, %2\n"
                           "    %7:i32 = ld(type=i32 space=shared) %4\n    %8:i32 = ld(type=i32 space=shared) %6\n"
                           "    %9:i32 = add_i32 %7, %8\n" ST("%9"));
    tw_diag d;
    assert_int_equal(tw_pipeline_default(k, true, &d), TW_OK);
    char *text = print(k);
    assert_string_equal(text, HEAD T "    %2:i32 = shared_address(name=\"s\")\n    %3:i32 = mad_i32 %1, 4:i32, %2\n"
                                     "    %4:i32 = ld(type=i32 space=shared offset=4) %3\n"
                                     "    %5:i32 = ld(type=i32 space=shared offset=8) %3\n"
                                     "    %6:i32 = add_i32 %4, %5\n" ST("%6") "}\n");
    free(text);
    tw_kernel_free(k);
}

/* Every pass, and all of them, leave what the verifier accepts and what comes back as text; nothing changes for ever.
 */
static void random_kernels_stay_valid(void **state) {
    (void)state;
    static pass *const all[] = {tw_pass_fold, tw_pass_common, tw_pass_addresses, tw_pass_dead_code};
    for (uint64_t seed = 0; seed < 300; seed++) {
        random_kernel_options o = {.seed = 1000 + seed, .operations = 150, .runnable = seed % 3 == 0};
        tw_diag d;
        for (int i = 0; i < 5; i++) {
            tw_kernel *k = random_kernel(&o);
            assert_non_null(k);
            if (i == 4) {
                if (tw_pipeline_default(k, true, &d) != TW_OK) fail_msg("seed %d: %s", (int)seed, d.message);
            } else {
                int rounds = 0;
                while (all[i](k)) assert_true(++rounds < 20);
                if (tw_kernel_verify(k, 0, &d) != TW_OK) fail_msg("seed %d, pass %d: %s", (int)seed, i, d.message);
            }
            char *text = print(k), *again;
            tw_kernel *parsed;
            assert_int_equal(tw_kernel_parse(&parsed, text, strlen(text), "t", &d), TW_OK);
            again = print(parsed);
            assert_string_equal(again, text);
            free(text);
            free(again);
            tw_kernel_free(parsed);
            tw_kernel_free(k);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_constants),
        cmocka_unit_test(folds_no_half_to_a_nan),
        cmocka_unit_test(folds_identities),
        cmocka_unit_test(folds_guards),
        cmocka_unit_test(folds_control_flow),
        cmocka_unit_test(folding_respects_variables),
        cmocka_unit_test(finds_common_expressions),
        cmocka_unit_test(folds_addresses),
        cmocka_unit_test(addresses_of_variables),
        cmocka_unit_test(removes_dead_code),
        cmocka_unit_test(dead_variables),
        cmocka_unit_test(a_finding_names_the_pass),
        cmocka_unit_test(rounds_are_limited),
        cmocka_unit_test(passes_work_together),
        cmocka_unit_test(random_kernels_stay_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
