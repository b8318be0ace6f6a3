/* SPDX-License-Identifier: Apache-2.0 */
/* The IR's text: what is printed, that it comes back the same, and how what is no kernel is refused. */
#include "support/support.h"

#include "base/file.h"
#include "ir/builder.h"
#include "ir/random_kernel.h"
#include "ir/text.h"
#include "ir/verify.h"

#include <stdio.h>
#include <string.h>

static const char golden[] = "kernel sample\n"
                             "    target 90\n"
                             "    threads 128\n"
                             "    min_blocks 2\n"
                             "    max_registers 96\n"
                             "    cluster 2\n"
                             "    cooperative\n"
                             "    pointer y align 16\n"
                             "    pointer x align 4 read_only\n"
                             "    parameter a f32\n"
                             "    parameter n i32\n"
                             "    shared tile 1024 align 16\n"
                             "    shared stages 65536 align 128 dynamic\n"
                             "{\n"
                             "    %1:i32 = sreg(type=i32 sreg=tid_x)\n"
                             "    $2.acc:f32 = set(type=f32) 0x3dcccccd:f32  # 0.100000001\n"
                             "    %3:i32 = for(type=i32 unroll=1) %1, @n, 128:i32 {\n"
                             "        %4:i64 = mad_wide_s32 %3, 4:i32, @x\n"
                             "        %5:f32 = ld(type=f32 offset=-16 cache=nc) %4\n"
                             "        $2.acc = fma_f32 %5, @a, $2.acc\n"
                             "    }\n"
                             "    %6:pred = eq_i32 %1, 0:i32\n"
                             "    st(type=f32 order=release scope=gpu) @y, $2.acc when %6\n"
                             "    %7:i32 = shared_address(name=\"tile\")\n"
                             "    if %6 {\n"
                             "        red(type=i32 space=shared rmw=add) %7, -1:i32\n"
                             "    } else {\n"
                             "        exit\n"
                             "    }\n"
                             "    while {\n"
                             "        %8:pred = lt_f32 $2.acc, 0x3f800000:f32  # 1\n"
                             "    } do %8 {\n"
                             "        $2.acc = add_f32 $2.acc, 0x3f800000:f32  # 1\n"
                             "    }\n"
                             "    roles 0:i32, 1:i32 {\n"
                             "        record_begin(name=\"a \\\"b\\\"\\x0a\")\n"
                             "    } 1:i32, 3:i32 {\n"
                             "        st(type=f32) @y, $2.acc unless %6\n"
                             "    }\n"
                             "}\n";

static tw_kernel *sample(void) {
    tw_kernel *k = tw_kernel_new("sample", 90, 128);
    tw_builder b = tw_builder_of(k);
    k->min_blocks = 2;
    k->max_registers = 96;
    k->cluster = 2;
    k->cooperative = true;
    tw_val y = tw_pointer_add(&b, "y", 16, false), x = tw_pointer_add(&b, "x", 4, true);
    tw_val a = tw_parameter_add(&b, "a", TW_T_f32), n = tw_parameter_add(&b, "n", TW_T_i32);
    tw_shared_add(&b, "tile", 1024, 16, false);
    tw_shared_add(&b, "stages", 65536, 128, true);
    tw_val thread = tw_sreg(&b, TW_SREG_tid_x), acc = tw_var_of(&b, tw_f32(&b, 0.1f));
    k->values[acc.id].name = "acc";
    const tw_scope loop = tw_push_for(&b, thread, n, tw_i32(&b, 128), false);
    tw_val i = loop.i;
    tw_val at = tw_op_emit(&b, TW_OP_mad_wide_s32, i, tw_i32(&b, 4), x);
    tw_val v = tw_ld(&b, (tw_attrs){.type = TW_T_f32, .cache = TW_CACHE_nc, .offset = -16}, at);
    tw_op_to(&b, acc, TW_OP_fma_f32, v, a, acc);
    tw_pop(&b, loop);
    tw_val first = tw_eq(&b, thread, tw_i32(&b, 0));
    tw_when(&b, first);
    tw_st(&b, (tw_attrs){.type = TW_T_f32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu}, y, &acc);
    tw_val tile = tw_shared_base(&b, "tile"), minus = tw_i32(&b, -1);
    const tw_scope if_first = tw_push_if(&b, first);
    tw_red(&b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared, .rmw = TW_RMW_add}, tile, &minus);
    tw_push_else(&b, if_first);
    tw_do(&b, TW_OP_exit, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_pop(&b, if_first);
    const tw_scope poll = tw_push_while(&b);
    tw_val one = tw_f32(&b, 1);
    tw_push_while_body(&b, poll, tw_lt(&b, acc, one));
    tw_op_to(&b, acc, TW_OP_add_f32, acc, one, TW_NONE);
    tw_pop(&b, poll);
    const tw_scope roles = tw_push_roles(&b, (int[]){0, 1, 1, 3}, 2);
    tw_record_begin(&b, "a \"b\"\n", TW_ENGINE_OF_none);
    tw_next_role(&b, roles);
    tw_unless(&b, first);
    tw_st(&b, (tw_attrs){.type = TW_T_f32}, y, &acc);
    tw_pop(&b, roles);
    return k;
}

/* Printed, parsed, printed: the same; and the verifier says the same of both. */
static void round_trip(const tw_kernel *k) {
    tw_buf text = {0}, again = {0};
    tw_kernel *parsed;
    tw_diag d, e;
    assert_true(tw_kernel_print(&text, k));
    if (tw_kernel_parse(&parsed, text.data, text.size, "t", &d) != TW_OK)
        fail_msg("%d:%d: %s\n%s", d.line, d.column, d.message, text.data);
    assert_true(tw_kernel_print(&again, parsed));
    assert_string_equal(again.data, text.data);
    assert_int_equal(tw_kernel_verify(parsed, 0, &e), tw_kernel_verify(k, 0, &d));
    assert_string_equal(e.message, d.message);
    tw_kernel_free(parsed);
    tw_buf_free(&text);
    tw_buf_free(&again);
}

static void prints_as_documented(void **state) {
    (void)state;
    tw_kernel *k = sample();
    tw_buf text = {0};
    tw_diag d;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    assert_true(tw_kernel_print(&text, k));
    assert_string_equal(text.data, golden);
    round_trip(k);
    tw_buf_free(&text);
    tw_kernel_free(k);
}

static void random_kernels_come_back(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        random_kernel_options o = {.seed = seed, .operations = 40 + (int)(seed % 7) * 60, .runnable = seed % 4 == 0};
        tw_kernel *k = random_kernel(&o);
        tw_diag d;
        assert_non_null(k);
        if (tw_kernel_verify(k, 0, &d) != TW_OK) {
            tw_buf text = {0};
            tw_kernel_print(&text, k);
            fail_msg("seed %d: %s\n%s", (int)seed, d.message, text.data);
        }
        round_trip(k);
        tw_kernel_free(k);
    }
}

/* The example of docs/ir.md: this is its C, and the page shows what it prints. */
static void the_example_of_the_page(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("sum", 80, 128);
    tw_builder b = tw_builder_of(k);
    tw_val x = tw_pointer_add(&b, "x", 4, true), y = tw_pointer_add(&b, "y", 4, false);
    tw_val n = tw_parameter_add(&b, "n", TW_T_i32);
    tw_val thread = tw_sreg(&b, TW_SREG_tid_x), sum = tw_var_of(&b, tw_f32(&b, 0));
    TW_FOR (&b, i, thread, n, tw_i32(&b, 128), true) {
        tw_val at = tw_op_emit(&b, TW_OP_mad_wide_s32, i, tw_i32(&b, 4), x);
        tw_val v = tw_ld(&b, (tw_attrs){.type = TW_T_f32, .cache = TW_CACHE_nc}, at);
        tw_op_to(&b, sum, TW_OP_add_f32, sum, v, TW_NONE);
    }
    for (int lanes = 16; lanes; lanes /= 2) {
        tw_val v = tw_shfl(&b, TW_MODE_bfly, sum, tw_i32(&b, lanes), tw_i32(&b, -1));
        tw_op_to(&b, sum, TW_OP_add_f32, sum, v, TW_NONE);
    }
    tw_val lane = tw_rem(&b, thread, 32);
    tw_when(&b, tw_eq(&b, lane, tw_i32(&b, 0)));
    tw_red(&b, (tw_attrs){.type = TW_T_f32, .rmw = TW_RMW_add, .scope = TW_SCOPE_gpu}, y, &sum);

    tw_buf page = {0}, text = {0};
    tw_diag d;
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    assert_true(tw_kernel_print(&text, k));
    assert_int_equal(tw_file_read(&page, TW_SOURCE_DIR "/docs/ir.md", &d), TW_OK);
    if (!strstr(page.data, text.data)) fail_msg("docs/ir.md does not show:\n%s", text.data);
    tw_buf_free(&page);
    tw_buf_free(&text);
    tw_kernel_free(k);
}

/* Kernels that differ in the order of their value tables alone print equally. */
static void numbers_follow_appearance(void **state) {
    (void)state;
    tw_buf text[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        tw_kernel *k = tw_kernel_new("k", 80, 32);
        tw_builder b = tw_builder_of(k);
        tw_val p = tw_pointer_add(&b, "p", 4, false);
        for (int unused = 0; unused < i * 100; unused++) tw_i32(&b, unused);
        tw_val x = tw_sreg(&b, TW_SREG_tid_x), one = tw_f32(&b, 1);
        for (int unused = 0; unused < i * 100; unused++) tw_i32(&b, -unused);
        tw_val sum = tw_op_emit(&b, TW_OP_fma_f32, tw_bitcast(&b, TW_T_f32, x), tw_f32(&b, 1), one);
        tw_st(&b, (tw_attrs){.type = TW_T_f32}, p, &sum);
        assert_true(tw_kernel_print(&text[i], k));
        round_trip(k);
        tw_kernel_free(k);
    }
    assert_string_equal(text[0].data, text[1].data);
    tw_buf_free(&text[0]);
    tw_buf_free(&text[1]);
}

static void hand_written_text(void **state) {
    (void)state;
    static const char text[] = "# names instead of numbers, hexadecimal integers, blank lines\n\n"
                               "kernel k\n target 80\n threads 32\n pointer p align 4\n parameter n i32\n{\n"
                               "  %lane:i32 = sreg(sreg=laneid type=i32)   # here\n\n"
                               "  $sum:i32 = set(type=i32) 0xffffffff:i32\n"
                               "  $sum = add_i32 $sum, %lane\n"
                               "  st(type=i32) @p, $sum\n"
                               "}\n\n";
    static const char printed[] =
        "kernel k\n    target 80\n    threads 32\n    pointer p align 4\n    parameter n i32\n{\n"
        "    %1.lane:i32 = sreg(type=i32 sreg=laneid)\n"
        "    $2.sum:i32 = set(type=i32) -1:i32\n"
        "    $2.sum = add_i32 $2.sum, %1.lane\n"
        "    st(type=i32) @p, $2.sum\n"
        "}\n";
    tw_kernel *k;
    tw_diag d;
    tw_buf out = {0};
    assert_int_equal(tw_kernel_parse(&k, text, strlen(text), "t", &d), TW_OK);
    assert_int_equal(tw_kernel_verify(k, 0, &d), TW_OK);
    assert_true(tw_kernel_print(&out, k));
    assert_string_equal(out.data, printed);
    round_trip(k);
    tw_buf_free(&out);
    tw_kernel_free(k);
}

#define HEAD "kernel k\n target 80\n threads 32\n parameter n i32\n{\n"

static void refuses_with_a_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int line, column;
        const char *says;
    } cases[] = {
        {"", 1, 1, "expected 'kernel', not the end of the text"},
        {"kernel\n", 1, 7, "expected the name of a kernel, not the end of the line"},
        {"kernel k\n target 80 90\n", 2, 12, "expected the end of the line, not '90'"},
        {"kernel k\n target -80\n", 2, 9, "-80 is not within 0 to 1048576"},
        {"kernel k\n speed 5\n", 2, 2, "expected target, threads"},
        {"kernel k\n parameter n i8\n", 2, 14, "expected a type: pred, i16"},
        {"kernel k\n parameter n i32\n parameter n i32\n", 3, 12, "two parameters are called n"},
        {"kernel k\n shared s 16 align 4\n shared s 16 align 4\n", 3, 9, "two shared objects are called s"},
        {"kernel k\n shared s 0 align 4\n", 2, 11, "0 is not within 1"},
        {"kernel k\n pointer p 4\n", 2, 12, "expected 'align', not '4'"},
        {HEAD " %1:i32 = ad_i32 @n, 1:i32\n}\n", 6, 11, "there is no operation 'ad_i32'; add_i32 is one"},
        {HEAD " %1:i32 = add_i32 @m, 1:i32\n}\n", 6, 19, "there is no parameter '@m'"},
        {HEAD " %1:i32 = add_i32 %2, 1:i32\n}\n", 6, 19, "'%2' is not defined above"},
        {HEAD " %1:i32 = add_i32 @n, 1\n}\n", 6, 24, "expected ':', not the end of the line"},
        {HEAD " %1:i32 = add_i32 @n, 1:i33\n}\n", 6, 25, "expected a type"},
        {HEAD " %1:i16 = low_i16_i32 4294967296:i32\n}\n", 6, 23, "4294967296 is no i32"},
        {HEAD " %1:i16 = low_i16_i32 -2147483649:i32\n}\n", 6, 23, "-2147483649 is no i32"},
        {HEAD " %1:i16 = low_i16_i32 99999999999999999999:i32\n}\n", 6, 23, "is no number of 64 bits"},
        {HEAD " %1:f32 = neg_f32 1:f32\n}\n", 6, 19, "f32 constants are written as their bits: 0x..."},
        {HEAD " %1 = sreg\n}\n", 6, 2, "'%1' is new here and needs its type, like %1:i32"},
        {HEAD " %1:i32 = sreg\n %1 = sreg\n}\n", 7, 2, "register '%1' is assigned twice"},
        {HEAD " %1:i32 = sreg\n %1:i32 = sreg\n}\n", 7, 2, "'%1' is defined above"},
        {HEAD " %1:i32, %1:i32 = ld\n}\n", 6, 10, "'%1' is defined twice"},
        {HEAD " %1:i32 = sreg\n $1 = sreg\n}\n", 7, 2, "'$1' is a register, written with %"},
        {HEAD " %1x:i32 = sreg\n}\n", 6, 2, "'%1x' is no value"},
        {HEAD " barrier when 1:pred\n}\n", 6, 10, "barrier cannot carry a guard"},
        {HEAD " fence(order=strong)\n}\n", 6, 14, "'strong' is no order: weak, relaxed, acquire"},
        {HEAD " fence(odor=weak)\n}\n", 6, 8, "there is no attribute 'odor'"},
        {HEAD " fence(count=99999999999)\n}\n", 6, 14, "99999999999 is not within"},
        {HEAD " record_begin(name=x)\n}\n", 6, 20, "expected a string in quotes, not 'x'"},
        {HEAD " record_begin(name=\"x\n", 6, 20, "a string that does not end on its line"},
        {HEAD " record_begin(name=\"\\n\")\n}\n", 6, 20, "in a string, a backslash is followed by"},
        {HEAD " while {\n } {\n }\n}\n", 7, 4, "expected 'do', not '{'"},
        {HEAD " if 1:pred {\n", 7, 1, "expected an operation, not the end of the text"},
        {HEAD " if 1:pred { barrier }\n", 6, 14, "expected the end of the line, not 'barrier'"},
        {HEAD "}\n}\n", 7, 1, "expected the end of the text, not '}'"},
        {HEAD " barrier !\n}\n", 6, 10, "a character that means nothing here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_kernel *k;
        tw_diag d;
        assert_int_equal(tw_kernel_parse(&k, cases[i].text, strlen(cases[i].text), "k.ir", &d), TW_ERR_FORMAT);
        assert_null(k);
        if (d.line != cases[i].line || d.column != cases[i].column || !strstr(d.message, cases[i].says))
            fail_msg("%s\ngave %d:%d: %s", cases[i].text, d.line, d.column, d.message);
        assert_string_equal(d.path, "k.ir");
    }
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    char text[4096] = HEAD;
    for (int i = 0; i < 40; i++) strcat(text, "if 1:pred {\n");
    tw_kernel *k;
    tw_diag d;
    assert_int_equal(tw_kernel_parse(&k, text, strlen(text), "t", &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "nested deeper than 32"));
}

/* Cut anywhere it is refused, and nothing else happens. */
static void truncated_text(void **state) {
    (void)state;
    for (size_t n = 0; n + 1 < sizeof golden - 1; n++) {
        tw_kernel *k;
        tw_diag d;
        assert_int_equal(tw_kernel_parse(&k, golden, n, "t", &d), TW_ERR_FORMAT);
        assert_true(d.line > 0 && d.column > 0 && d.message[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_as_documented),    cmocka_unit_test(random_kernels_come_back),
        cmocka_unit_test(the_example_of_the_page), cmocka_unit_test(numbers_follow_appearance),
        cmocka_unit_test(hand_written_text),       cmocka_unit_test(refuses_with_a_place),
        cmocka_unit_test(deep_nesting_is_refused), cmocka_unit_test(truncated_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
