/* SPDX-License-Identifier: Apache-2.0 */
/* The space of configurations: what is legal can be built and fits the target, what is not has a reason; problems that
   make no sense are refused. */
#include "support/support.h"

#include "base/clock.h"
#include "ir/verify.h"
#include "kernels/gemm/estimate.h"
#include "kernels/gemm/generate.h"
#include "kernels/gemm/space.h"

#include <stdlib.h>
#include <string.h>

static const tw_gemm_problem problems[] = {
    {.type = TW_GEMM_F32, .m = 512, .n = 512, .k = 512, .alpha = 1},
    {.type = TW_GEMM_F32, .m = 35, .n = 77, .k = 131, .trans_a = true, .trans_b = true, .alpha = 2, .beta = 1},
    {.type = TW_GEMM_F64, .m = 64, .n = 64, .k = 4096, .trans_b = true, .alpha = 1},
    {.type = TW_GEMM_F16, .m = 2560, .n = 16, .k = 2560, .trans_a = true, .alpha = 1},
    {.type = TW_GEMM_BF16, .m = 13, .n = 13, .k = 13, .alpha = 1, .epilogue = {.bias = true}},
    {.type = TW_GEMM_TF32, .m = 100, .n = 1000, .k = 64, .alpha = 1, .batch = 3},
    {.type = TW_GEMM_S8, .m = 128, .n = 64, .k = 192, .trans_b = true, .alpha = 1},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static tw_gemm_problem complete(int i) {
    tw_gemm_problem p = problems[i];
    tw_diag d;
    if (tw_gemm_problem_complete(&p, &d) != TW_OK) fail_msg("problem %d: %s", i, d.message);
    return p;
}

static void must_build(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t) {
    char text[400];
    tw_diag d;
    tw_gemm_resources r;
    tw_launch_values l;
    const tw_gemm_buffers none = {0};
    tw_gemm_variant v = tw_gemm_variant_of(p, c);
    tw_kernel *k = tw_gemm_build(&v, c, t);
    tw_gemm_config_print(c, text, sizeof text);
    if (!k) fail_msg("%s: %s: legal, but cannot be built", t->name, text);
    if (tw_kernel_verify(k, t->sm, &d) != TW_OK) fail_msg("%s: %s: %s", t->name, text, d.message);
    assert_true(tw_gemm_legal(p, c, t, &r, NULL));
    assert_int_equal(tw_kernel_shared_layout(k, NULL), r.shared_bytes);
    assert_int_equal(k->threads, r.threads);
    assert_true(r.threads <= 1024 && r.threads % 32 == 0);
    assert_true(r.shared_bytes > 0 && r.shared_bytes <= t->shared_block);
    assert_true(r.registers <= t->thread_registers);
    assert_true(tw_target_blocks(t, r.threads, r.registers, (int)r.shared_bytes) >= (c->blocks ? c->blocks : 1));
    const int64_t most = c->persistent ? c->persistent : INT64_MAX;
    assert_true(r.grid == (r.tiles < most ? r.tiles : most) * c->kg || (c->stream && r.grid <= most));
    const bool through_memory = (c->kg > 1 && c->split != TW_JOIN_CLUSTER) || c->stream;
    assert_true((r.workspace_bytes > 0) == through_memory && (r.counter_bytes > 0) == through_memory);
    tw_gemm_launch_of(p, c, &none, &l);
    assert_int_equal((int64_t)l.grid[0] * l.grid[1] * l.grid[2], r.grid);
    /* Every parameter has an argument, and the list is the same without building the kernel. */
    const tw_signature built = tw_signature_of(k);
    tw_signature declared;
    uint64_t words[TW_ARGUMENTS];
    assert_int_equal(tw_gemm_signature(&v, c, t, &declared, &d), TW_OK);
    assert_int_equal(declared.n, built.n);
    for (int i = 0; i < built.n; i++) {
        assert_string_equal(declared.names[i], built.names[i]);
        assert_int_equal(declared.bytes[i], built.bytes[i]);
    }
    tw_arguments_place(&l.arguments, &built, words);
    tw_kernel_free(k);
}

static tw_gemm_config drawn(tw_random *r) {
    tw_gemm_config c = {0};
    for (int i = 0; i < tw_gemm_space.n; i++) {
        const uint64_t values = (uint64_t)tw_space_values(&tw_gemm_space, i);
        tw_space_set(&tw_gemm_space, &c, i, tw_space_value(&tw_gemm_space, i, (int)tw_random_below(r, values)));
    }
    return c;
}

static void legal_ones_build_and_fit(void **state) {
    (void)state;
    tw_random r = tw_random_seed(7);
    int legal = 0, reasons = 0;
    const char *seen[64] = {0};
    for (int i = 0; i < 200000; i++) {
        const tw_gemm_problem p = complete(i % PROBLEMS);
        const tw_target *t = tw_target_at(i / PROBLEMS % 5);
        /* Few are legal that say things which mean nothing beside the rest. */
        const tw_gemm_config any = drawn(&r), c = i % 4 ? tw_gemm_config_plain(&p, any) : any;
        const char *why = "";
        bool ok = tw_gemm_legal(&p, &c, t, NULL, &why);
        assert_true(ok == !why);
        if (ok && legal++ < 150) must_build(&p, &c, t);
        if (ok) continue;
        int j = 0;
        while (j < reasons && strcmp(seen[j], why)) j++;
        if (j == reasons && reasons < 64) seen[reasons++] = why;
    }
    print_message("%d of 200000 are legal; %d reasons against the others\n", legal, reasons);
    for (int j = 0; j < reasons; j++) print_message("  %s\n", seen[j]);
    assert_true(legal > 150 && reasons >= 10);
}

/* Values that nobody draws neither crash nor pass for legal when they cannot be built. */
static void any_numbers_are_judged(void **state) {
    (void)state;
    static const int odd[] = {-1, 0,  1,  2,   3,   5,   7,   8,   12,  16,   24,
                              32, 48, 64, 100, 128, 160, 255, 256, 512, 1000, 65535};
    tw_random r = tw_random_seed(11);
    int legal = 0;
    for (int i = 0; i < 60000; i++) {
        const tw_gemm_problem p = complete(i % PROBLEMS);
        tw_gemm_config c = tw_gemm_config_default(&p);
        const char *why;
        for (int n = 1 + (int)tw_random_below(&r, 4); n > 0; n--)
            tw_space_set(&tw_gemm_space, &c, (int)tw_random_below(&r, (uint64_t)tw_gemm_space.n),
                         odd[tw_random_below(&r, sizeof odd / sizeof *odd)]);
        const tw_target *t = tw_target_at(i % 5);
        if (!tw_gemm_legal(&p, &c, t, NULL, &why)) {
            assert_non_null(why);
            continue;
        }
        if (legal++ % 50 == 0) must_build(&p, &c, t);
    }
    print_message("%d of 60000 are legal\n", legal);
    assert_true(legal > 1000);
}

static void the_default_is_legal(void **state) {
    (void)state;
    /* e4m3 is multiplied on one target, and with one layout. */
    for (int type = 0; type < TW_GEMM_E4M3; type++)
        for (int layout = 0; layout < 4; layout++)
            for (int size = 0; size < 3; size++)
                for (int t = 0; t < 5; t++) {
                    static const int64_t extents[3][3] = {{512, 512, 512}, {33, 65, 129}, {1, 1, 1}};
                    tw_gemm_problem p = {.type = (tw_gemm_type)type,
                                         .m = extents[size][0],
                                         .n = extents[size][1],
                                         .k = extents[size][2],
                                         .trans_a = layout & 1,
                                         .trans_b = layout >> 1,
                                         .alpha = 1};
                    tw_diag d;
                    const char *why;
                    assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
                    tw_gemm_config c = tw_gemm_config_default(&p);
                    if (!tw_gemm_legal(&p, &c, tw_target_at(t), NULL, &why))
                        fail_msg("%s, layout %d, size %d, %s: %s", tw_gemm_types[p.type].name, layout, size,
                                 tw_target_at(t)->name, why);
                }
}

static void the_default_of_e4m3_is_legal(void **state) {
    (void)state;
    tw_gemm_problem p = {.type = TW_GEMM_E4M3, .m = 33, .n = 65, .k = 144, .trans_b = true, .alpha = 1};
    for (int promote = 0; promote < 2; promote++) {
        const char *why;
        p.promote = promote;
        assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
        assert_int_equal(p.out, TW_T_bf16);
        const tw_gemm_config c = tw_gemm_config_default(&p);
        if (!tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, &why)) fail_msg("%s", why);
        assert_false(tw_gemm_legal(&p, &c, tw_target_find("sm_80"), NULL, &why));
        tw_gemm_config other = c;
        other.mma = 1;
        assert_false(tw_gemm_legal(&p, &other, tw_target_find("sm_90a"), NULL, &why));
        assert_string_equal(why, "e4m3 needs mma=2");
    }
    tw_gemm_config deep = tw_gemm_config_default(&p);
    const char *why;
    p.scale_blocks = true;
    deep.u = 64;
    assert_false(tw_gemm_legal(&p, &deep, tw_target_find("sm_90a"), NULL, &why));
    assert_string_equal(why, "a stage is a block of scales along k, of 128");
    deep.u = 128;
    assert_true(tw_gemm_legal(&p, &deep, tw_target_find("sm_90a"), NULL, &why));
    deep.nl = deep.ns = 48;
    assert_false(tw_gemm_legal(&p, &deep, tw_target_find("sm_90a"), NULL, &why));
    assert_string_equal(why, "columns of a tile are halves of blocks of scales, or an equal part of one");
    deep.swap = 1;
    assert_true(tw_gemm_legal(&p, &deep, tw_target_find("sm_90a"), NULL, &why));
    p.scale_blocks = false;
    deep = tw_gemm_config_default(&p);
    deep.u = 256;
    assert_false(tw_gemm_legal(&p, &deep, tw_target_find("sm_90a"), NULL, &why));
    assert_string_equal(why, "tensor cores add up more than 128 elements of a stage");
    p.promote = false;
    assert_true(tw_gemm_legal(&p, &deep, tw_target_find("sm_90a"), NULL, &why));
}

static void grids_have_an_end(void **state) {
    (void)state;
    tw_gemm_problem p = {.type = TW_GEMM_F32, .m = 1000000, .n = 1000000, .k = 64, .alpha = 1};
    const char *why;
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    tw_gemm_config c = tw_gemm_config_default(&p);
    assert_false(tw_gemm_legal(&p, &c, tw_target_find("sm_80"), NULL, &why));
    assert_string_equal(why, "more blocks than a grid holds");
}

static void drawing_keeps_what_it_is_told(void **state) {
    (void)state;
    tw_random r = tw_random_seed(3);
    tw_gemm_config keep = tw_gemm_config_any(), c;
    int64_t kept[TW_SPACE_PARAMS];
    const tw_gemm_problem p = complete(0);
    const tw_gemm_space_context of = {&p, tw_target_find("sm_90a"), NULL};
    keep.kg = 4;
    keep.split = TW_JOIN_SERIAL;
    keep.stages = 3;
    tw_gemm_space_keep(&keep, kept);
    for (int i = 0; i < 50; i++) {
        assert_true(tw_space_draw(&tw_gemm_space, &of, kept, &r, 20000, &c));
        assert_true(c.kg == 4 && c.split == TW_JOIN_SERIAL && c.stages == 3);
        assert_true(tw_gemm_legal(&p, &c, of.target, NULL, NULL));
    }
    keep.ml = 7;
    assert_false(tw_space_draw(&tw_gemm_space, &of, tw_gemm_space_keep(&keep, kept), &r, 500, &c));
}

static void configurations_are_read_back(void **state) {
    (void)state;
    tw_random r = tw_random_seed(5);
    char text[400];
    tw_diag d;
    for (int i = 0; i < 500; i++) {
        tw_gemm_config c = drawn(&r), back = {0};
        tw_gemm_config_print(&c, text, sizeof text);
        assert_int_equal(tw_gemm_config_parse(&back, text, &d), TW_OK);
        assert_memory_equal(&c, &back, sizeof c);
    }
    static const char *const bad[] = {"ml",    "ml=",      "=64",  "ml=x",  "ml=6x",
                                      "ml=-1", "ml=99999", "mm=1", "ml 64", "ms=1,nx=2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tw_gemm_config c = {0};
        if (tw_gemm_config_parse(&c, bad[i], &d) != TW_ERR_USAGE) fail_msg("\"%s\" was taken", bad[i]);
    }
    tw_gemm_config c = {.ml = 1, .nl = 2};
    assert_int_equal(tw_gemm_config_parse(&c, " ml=64, u=8 ", &d), TW_OK);
    assert_true(c.ml == 64 && c.nl == 2 && c.u == 8);
    char small[8];
    tw_gemm_config_print(&c, small, sizeof small);
    assert_true(strlen(small) < sizeof small);
}

static void names_are_read_back(void **state) {
    (void)state;
    for (int i = 0; i < TW_GEMM_ACTIVATIONS; i++) {
        tw_gemm_activation a = TW_GEMM_ACTIVATIONS;
        assert_true(tw_gemm_activation_from_name(tw_gemm_activation_name((tw_gemm_activation)i), &a));
        assert_int_equal(a, i);
    }
    for (int i = 0; i < TW_GEMM_TYPES; i++) {
        tw_gemm_type t = TW_GEMM_TYPES;
        assert_true(tw_gemm_type_from_name(tw_gemm_types[i].name, &t));
        assert_int_equal(t, i);
    }
    assert_string_equal(tw_gemm_space.params[0].name, "mma");
    assert_int_equal(tw_gemm_space.params[0].role, TW_SPACE_MACRO);
    assert_int_equal(tw_gemm_space.params[1].role, TW_SPACE_MICRO);
    tw_gemm_activation a;
    tw_gemm_type t;
    assert_false(tw_gemm_activation_from_name("relu", &a));
    assert_false(tw_gemm_type_from_name("f8", &t));
}

static void groups_without_sense_are_refused(void **state) {
    (void)state;
    const tw_gemm_problem good = {
        .type = TW_GEMM_BF16, .m = 64, .n = 64, .k = 64, .groups = 4, .trans_b = true, .alpha = 1};
    enum { N = 13 };
    tw_gemm_problem p[N];
    tw_diag d;
    for (int i = 0; i < N; i++) p[i] = good;
    p[1].stride_b = TW_GEMM_SHARED;
    p[2].batch = 2;
    p[3].trans_a = true;
    p[4].rows_a = 10;
    p[5].masked = true, p[5].m = 63;
    p[6].gather = true, p[6].groups = 0;
    p[7].scatter = true, p[7].groups = 0;
    p[8].masked = true, p[8].groups = 0;
    p[9].scatter = true, p[9].beta = 1;
    p[10].scatter = true, p[10].epilogue.residual = true;
    p[11].scatter = true, p[11].epilogue.mul = true;
    p[12].gather = true, p[12].type = TW_GEMM_TF32X3;
    for (int i = 0; i < N; i++) assert_int_equal(tw_gemm_problem_complete(&p[i], &d), i ? TW_ERR_USAGE : TW_OK);
}

/* One product may be of the first rows of an A that is stored row by row. */
static void further_rows_are_of_one_product(void **state) {
    (void)state;
    const tw_gemm_problem good = {.type = TW_GEMM_BF16, .m = 64, .n = 64, .k = 64, .rows_a = 100, .alpha = 1};
    enum { N = 5 };
    tw_gemm_problem p[N];
    tw_diag d;
    char words[160];
    for (int i = 0; i < N; i++) p[i] = good;
    p[1].rows_a = 63;
    p[2].batch = 2;
    p[3].trans_a = true;
    p[4].groups = 2, p[4].trans_b = true;
    for (int i = 0; i < N; i++) assert_int_equal(tw_gemm_problem_complete(&p[i], &d), i ? TW_ERR_USAGE : TW_OK);
    assert_int_equal(tw_gemm_matrix_of(&p[0], TW_GEMM_A).rows, 100);
    tw_gemm_problem plain = p[0];
    plain.rows_a = 0;
    assert_true(tw_gemm_bytes(&p[0]) == tw_gemm_bytes(&plain));
    tw_gemm_problem_print(&p[0], words, sizeof words);
    assert_non_null(strstr(words, " rows_a=100"));
}

static void groups_refuse_configurations(void **state) {
    (void)state;
    static const char own[] = "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=4 kg=1 vec=16 group=1";
    static const struct {
        tw_gemm_problem p;
        const char *config, *why;
    } of[] = {
        {{.k = 64}, "persistent=4 staged=3", NULL},
        {{.k = 64}, "persistent=0", "groups need a persistent grid"},
        {{.k = 64}, "persistent=4 multicast=2", "groups need a persistent grid"},
        {{.k = 64}, "persistent=4 stream=1", "groups need a persistent grid"},
        {{.k = 64}, "persistent=4 mma=1", "need mma=2"},
        {{.k = 64, .gather = true}, "persistent=4 staged=3", NULL},
        {{.k = 60, .lda = 64, .ldb = 64, .gather = true}, "persistent=4", "whole 16 bytes along k"},
        {{.k = 64, .scatter = true}, "persistent=4 staged=2", NULL},
        {{.k = 64, .scatter = true}, "persistent=4 staged=3", "boxes have rows of C that follow one another"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        tw_gemm_problem p = of[i].p;
        const char *why = NULL;
        tw_diag d;
        p.type = TW_GEMM_BF16, p.m = p.n = 64, p.groups = 4, p.trans_b = true, p.alpha = 1;
        assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
        tw_gemm_config c = tw_gemm_config_default(&p);
        assert_int_equal(tw_gemm_config_parse(&c, own, &d), TW_OK);
        assert_int_equal(tw_gemm_config_parse(&c, of[i].config, &d), TW_OK);
        assert_int_equal(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, &why), !of[i].why);
        if (of[i].why && !strstr(why, of[i].why)) fail_msg("%s: %s", of[i].config, why);
    }
}

/* What only the data say does not raise the bound of a product's time. */
static void bounds_of_groups_are_low(void **state) {
    (void)state;
    const tw_cuda_info info = {.target = tw_target_find("sm_90a"),
                               .sms = 132,
                               .clock_khz = 1500000,
                               .memory_clock_khz = 2600000,
                               .memory_bus_bits = 5120};
    tw_gemm_problem p = {.type = TW_GEMM_BF16, .m = 1024, .n = 64, .k = 512, .groups = 4, .trans_b = true, .alpha = 1};
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    const double bound = tw_gemm_floor(&p, &info, NULL), bytes = tw_gemm_bytes(&p);
    tw_gemm_problem gathered = p, masked = p;
    gathered.gather = true, gathered.rows_a = 100;
    assert_true(tw_gemm_floor(&gathered, &info, NULL) < bound);
    assert_true(tw_gemm_bytes(&gathered) == bytes - 924 * 512 * 2);
    masked.masked = true;
    assert_true(bound > 0 && tw_gemm_floor(&masked, &info, NULL) == 0);
}

static void tensor_maps_refuse_pointers(void **state) {
    (void)state;
    tw_gemm_problem p = {.type = TW_GEMM_BF16, .m = 64, .n = 64, .k = 64, .batch = 2, .pointers = true, .alpha = 1};
    const char *why = NULL;
    tw_diag d;
    assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
    tw_gemm_config c = tw_gemm_config_default(&p);
    assert_int_equal(c.mma, 1);
    assert_true(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, NULL));
    const char own[] = "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=4 kg=1 vec=16 group=1";
    assert_int_equal(tw_gemm_config_parse(&c, own, &d), TW_OK);
    assert_false(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, &why));
    assert_non_null(strstr(why, "a tensor map is of one matrix"));
    p.pointers = false;
    assert_true(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, NULL));
}

/* Completes a problem of eight rows, columns and depth, and prints what it is. */
static void is_completed(tw_gemm_problem p, const char *as, double bytes) {
    char text[200];
    p.m = p.n = p.k = 8;
    p.alpha = 1;
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    tw_gemm_problem_print(&p, text, sizeof text);
    assert_string_equal(text, as);
    assert_true(tw_gemm_bytes(&p) == bytes);
}

static void sets_are_joined(void **state) {
    (void)state;
    enum { MATRIX = 8 * 8 * 4 };
    is_completed((tw_gemm_problem){.batch = 6, .sets = 2}, "type=f32 m=8 n=8 k=8 batch=6", 18 * MATRIX);
    is_completed((tw_gemm_problem){.batch = 6, .sets = 2, .stride_b = TW_GEMM_SHARED},
                 "type=f32 m=8 n=8 k=8 batch=6 sb=-1", 13 * MATRIX);
    is_completed((tw_gemm_problem){.batch = 6, .sets = 2, .stride_b = TW_GEMM_SHARED, .set_b = 64},
                 "type=f32 m=8 n=8 k=8 batch=6 sb=-1 sets=2 set_b=64", 14 * MATRIX);
    is_completed((tw_gemm_problem){.batch = 6, .sets = 2, .set_a = TW_GEMM_SHARED},
                 "type=f32 m=8 n=8 k=8 batch=6 sets=2 set_a=-1", 15 * MATRIX);
    is_completed((tw_gemm_problem){.batch = 3, .sets = 3, .set_a = 100}, "type=f32 m=8 n=8 k=8 batch=3 sa=100",
                 9 * MATRIX);
    is_completed((tw_gemm_problem){.sets = 5, .set_a = 100}, "type=f32 m=8 n=8 k=8", 3 * MATRIX);
    is_completed((tw_gemm_problem){.batch = 4, .sets = 2, .ldc = 16, .stride_c = 128, .set_c = 8},
                 "type=f32 m=8 n=8 k=8 ldc=16 batch=4 sets=2 set_c=8", 12 * MATRIX);
}

/* Parts of all products go through device memory. */
static void splits_of_batches_have_parts(void **state) {
    (void)state;
    const tw_cuda_info info = {
        .name = "NVIDIA H200", .sms = 132, .clock_khz = 1980000, .target = tw_target_find("sm_90a")};
    tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 128, .n = 128, .k = 4096, .batch = 4, .sets = 2, .alpha = 1};
    p.set_a = 5 * p.m * p.k;
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    tw_gemm_config c = tw_gemm_config_default(&p);
    assert_int_equal(
        tw_gemm_config_parse(&c, (char[]){"mma=2 ml=64 nl=64 u=64 kg=4 split=0 ms=64 ns=64 stages=4 vec=16"}, NULL),
        TW_OK);
    tw_demand d;
    tw_gemm_resources need;
    assert_true(tw_gemm_demand(&p, &c, &info, &d) && tw_gemm_legal(&p, &c, info.target, &need, NULL));
    assert_true(need.tiles == 16 && need.grid == 64 && need.counter_bytes == 64);
    assert_true(need.workspace_bytes == (int64_t)64 * 64 * 64 * 4 && d.parts == 2 * (double)need.workspace_bytes);
}

/* Rows that are aligned to one element are stored by lanes of boxes, or else by single elements of many rows. */
static void torn_rows_are_estimated_slow(void **state) {
    (void)state;
    const tw_cuda_info info = {.name = "NVIDIA H200",
                               .sms = 132,
                               .clock_khz = 1980000,
                               .memory_clock_khz = 3201000,
                               .memory_bus_bits = 6144,
                               .target = tw_target_find("sm_90a")};
    double us[2][2];
    for (int odd = 0; odd < 2; odd++)
        for (int boxed = 0; boxed < 2; boxed++) {
            tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 512, .n = 50256 + odd, .k = 768, .ldb = 50264, .alpha = 1};
            char text[] = "mma=2 ms=64 ns=192 ml=128 nl=192 u=64 ks=1 kl=1 kg=1 stages=4 vec=16 copy=0 staged=2";
            if (boxed) text[sizeof text - 2] = '3';
            assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
            tw_gemm_config c = tw_gemm_config_default(&p);
            assert_int_equal(tw_gemm_config_parse(&c, text, NULL), TW_OK);
            us[odd][boxed] = tw_gemm_estimate(&p, &c, &info);
        }
    assert_true(us[0][0] == us[0][1] && us[1][1] < 1.01 * us[0][1] && us[1][0] > 2 * us[1][1] && us[1][0] < 1e6);
}

/* Arrays have an address for each matrix, are aligned as addresses are, and are not written. */
static void pointers_are_described(void **state) {
    (void)state;
    tw_gemm_problem p = {.type = TW_GEMM_F32,
                         .m = 8,
                         .n = 8,
                         .k = 8,
                         .batch = 5,
                         .stride_a = 1000,
                         .stride_b = TW_GEMM_SHARED,
                         .stride_c = 1,
                         .pointers = true,
                         .alpha = 1};
    tw_diag d;
    tw_gemm_resources need;
    tw_gpu_buffer buffers[TW_GEMM_BUFFERS];
    char text[400];
    assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
    assert_true(p.stride_a == 64 && p.stride_b == TW_GEMM_SHARED && p.stride_c == 64);
    tw_gemm_problem_print(&p, text, sizeof text);
    assert_string_equal(text, "type=f32 m=8 n=8 k=8 batch=5 sb=-1 pointers=1");
    const tw_gemm_config c = tw_gemm_config_default(&p);
    assert_true(tw_gemm_legal(&p, &c, tw_target_find("sm_80"), &need, NULL));
    tw_gemm_describe_buffers(&p, &c, &need, buffers);
    for (int i = TW_GEMM_A; i <= TW_GEMM_C; i++) {
        assert_int_equal(buffers[i].bytes, i == TW_GEMM_B ? 8 : 40);
        assert_true(buffers[i].align == 8 && !buffers[i].written && !buffers[i].zeroed);
    }
}

static void problems_without_sense_are_refused(void **state) {
    (void)state;
    const tw_gemm_problem good = {.type = TW_GEMM_F32, .m = 8, .n = 8, .k = 8, .alpha = 1};
    static const struct {
        const char *what;
        tw_gemm_problem p;
    } bad[] = {
        {"m =", {.n = 8, .k = 8, .alpha = 1}},
        {"n =", {.m = 8, .n = -1, .k = 8, .alpha = 1}},
        {"k =", {.m = 8, .n = 8, .k = (int64_t)1 << 32, .alpha = 1}},
        {"batch =", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 70000}},
        {"batch =", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = -2}},
        {"pointers are of a batch", {.m = 8, .n = 8, .k = 8, .alpha = 1, .pointers = true}},
        {"pointers are of a batch",
         {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 2, .pointers = true, .epilogue = {.mul = true}}},
        {"pointers are of a batch",
         {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 2, .pointers = true, .epilogue = {.residual = true}}},
        {"C cannot be", {.m = 8, .n = 8, .k = 8, .alpha = 1, .out = TW_T_f64}},
        {"C cannot be", {.type = TW_GEMM_F64, .m = 8, .n = 8, .k = 8, .alpha = 1, .out = TW_T_f32}},
        {"C cannot be", {.type = TW_GEMM_S8, .m = 8, .n = 8, .k = 8, .alpha = 1, .out = TW_T_f16}},
        {"alpha 1", {.type = TW_GEMM_S8, .m = 8, .n = 8, .k = 8, .alpha = 2}},
        {"beta 0 or 1", {.type = TW_GEMM_S8, .m = 8, .n = 8, .k = 8, .alpha = 1, .beta = 0.5}},
        {"scales are f32", {.type = TW_GEMM_S8, .m = 8, .n = 8, .k = 8, .alpha = 1, .epilogue = {.scale_rows = true}}},
        {"scales are f32",
         {.type = TW_GEMM_F64, .m = 8, .n = 8, .k = 8, .alpha = 1, .epilogue = {.scale_columns = true}}},
        {"activations",
         {.type = TW_GEMM_S8, .m = 8, .n = 8, .k = 8, .alpha = 1, .epilogue = {.activation = TW_GEMM_SILU}}},
        {"activations",
         {.type = TW_GEMM_F64, .m = 8, .n = 8, .k = 8, .alpha = 1, .epilogue = {.activation = TW_GEMM_GELU}}},
        {"contiguous along k", {.type = TW_GEMM_E4M3, .m = 8, .n = 8, .k = 16, .alpha = 1}},
        {"contiguous along k",
         {.type = TW_GEMM_E4M3, .m = 16, .n = 8, .k = 16, .trans_a = true, .trans_b = true, .alpha = 1}},
        {"e4m3 alone", {.type = TW_GEMM_BF16, .m = 8, .n = 8, .k = 8, .alpha = 1, .scale_blocks = true}},
        {"C cannot be", {.type = TW_GEMM_BF16, .m = 8, .n = 8, .k = 8, .alpha = 1, .out = TW_T_e4m3}},
        {"a C of e4m3",
         {.type = TW_GEMM_E4M3, .m = 8, .n = 8, .k = 8, .trans_b = true, .alpha = 1, .beta = 1, .out = TW_T_e4m3}},
        {"squares", {.type = TW_GEMM_S8, .m = 8, .n = 8, .k = 8, .alpha = 1, .epilogue = {.squares = true}}},
        {"squares",
         {.type = TW_GEMM_BF16, .m = 8, .n = 8, .k = 8, .batch = 2, .alpha = 1, .epilogue = {.squares = true}}},
        {"e4m3 alone",
         {.type = TW_GEMM_E4M3, .m = 8, .n = 8, .k = 8, .batch = 2, .trans_b = true, .alpha = 1, .scale_blocks = true}},
        {"e4m3 alone", {.type = TW_GEMM_BF16, .m = 8, .n = 8, .k = 8, .alpha = 1, .promote = true}},
        {"lda =", {.m = 8, .n = 8, .k = 8, .alpha = 1, .lda = 7}},
        {"ldb =", {.m = 8, .n = 9, .k = 8, .alpha = 1, .ldb = 8}},
        {"ldc =", {.m = 8, .n = 9, .k = 8, .alpha = 1, .ldc = 8}},
        {"lda =", {.m = 9, .n = 8, .k = 8, .alpha = 1, .trans_a = true, .lda = 8}},
        {"lda =", {.m = 8, .n = 8, .k = 8, .alpha = 1, .lda = (int64_t)1 << 33}},
        {"negative", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 2, .stride_a = -2}},
        {"negative", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 2, .stride_c = -1}},
        {"overlap", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 2, .stride_c = 63}},
        {"overlap", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 3, .stride_c = 8, .ldc = 16}},
        {"overlap", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 2, .set_c = 127}},
        {"overlap", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 2, .stride_c = 8, .ldc = 16, .set_c = 16}},
        {"overlap", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 2, .stride_c = 128, .set_c = 8}},
        {"equally many", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 3}},
        {"equally many", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = -1}},
        {"strides of sets", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 2, .set_b = -2}},
        {"strides of sets", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 2, .set_c = -1}},
        {"no pointers", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 2, .pointers = true}},
        {"no pointers", {.m = 8, .n = 8, .k = 8, .alpha = 1, .batch = 4, .sets = 2, .epilogue = {.scale_rows = true}}},
        {"A spans", {.m = 4, .n = 4, .k = 4, .alpha = 1, .batch = 4, .sets = 2, .set_a = INT64_MAX}},
        {"C spans", {.m = INT32_MAX / 2, .n = 1, .k = 1, .alpha = 1, .ldc = INT32_MAX, .batch = 2}},
        {"C spans", {.m = INT32_MAX / 2, .n = INT32_MAX / 2, .k = 1, .alpha = 1}},
        {"C spans", {.m = 1000000, .n = 4, .k = 4, .alpha = 1, .batch = 65535, .stride_c = 1000000000000000}},
        {"C spans", {.m = 4, .n = 4, .k = 4, .alpha = 1, .batch = 2, .stride_c = INT64_MAX}},
        {"A spans", {.m = 4, .n = 4, .k = 4, .alpha = 1, .batch = 2, .stride_a = INT64_MAX}},
        {"A spans", {.m = 4, .n = 4, .k = INT32_MAX / 2, .trans_a = true, .alpha = 1, .lda = INT32_MAX}},
        {"B spans", {.m = 4, .n = 4, .k = INT32_MAX / 2, .alpha = 1, .ldb = INT32_MAX}},
        {"B spans", {.m = 4, .n = 4, .k = 4, .alpha = 1, .batch = 65535, .stride_b = (int64_t)1 << 27}},
    };
    tw_diag d;
    tw_gemm_problem p = good;
    assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
    assert_true(p.lda == 8 && p.ldb == 8 && p.ldc == 8 && p.batch == 1 && p.out == TW_T_f32 && p.stride_c == 64);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p = bad[i].p;
        if (tw_gemm_problem_complete(&p, &d) != TW_ERR_USAGE) fail_msg("%s (%d) was taken", bad[i].what, (int)i);
        if (!strstr(d.message, bad[i].what)) fail_msg("\"%s\" says nothing of %s", d.message, bad[i].what);
    }
    /* Side by side, and A and B shared. */
    p = (tw_gemm_problem){.m = 8,
                          .n = 8,
                          .k = 8,
                          .alpha = 1,
                          .batch = 3,
                          .stride_c = 8,
                          .ldc = 24,
                          .stride_a = TW_GEMM_SHARED,
                          .stride_b = TW_GEMM_SHARED};
    assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
    /* Without a batch no stride matters, however strange. */
    p = good;
    p.stride_a = INT64_MAX;
    p.stride_b = 10000000000000;
    p.stride_c = -5;
    assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
    assert_true(p.stride_a == 64 && p.stride_b == 64 && p.stride_c == 64);
}

/* Of the largest that are taken, what is derived leaves no type (as the sanitizer sees it). */
static void sizes_fit_their_types(void **state) {
    (void)state;
    static const tw_gemm_problem large[] = {
        {.type = TW_GEMM_F64, .m = 1 << 21, .n = 1 << 21, .k = 1 << 21, .alpha = 1},
        {.type = TW_GEMM_F64, .m = 1, .n = 1, .k = 1, .alpha = 1, .batch = 2, .stride_a = (int64_t)1 << 41},
        {.type = TW_GEMM_F64, .m = 1, .n = 1, .k = 1, .alpha = 1, .batch = 2, .stride_c = (int64_t)1 << 41},
        {.type = TW_GEMM_S8, .m = 2048, .n = 1, .k = 1, .alpha = 1, .ldc = INT32_MAX, .lda = INT32_MAX},
        {.type = TW_GEMM_F16, .m = 1 << 13, .n = 1 << 13, .k = 1, .alpha = 1, .batch = 65535},
    };
    const tw_gemm_buffers none = {0};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        tw_gemm_problem p = large[i];
        tw_diag d;
        tw_launch_values l;
        tw_gemm_resources r;
        const char *why;
        if (tw_gemm_problem_complete(&p, &d) != TW_OK) fail_msg("%zu: %s", i, d.message);
        tw_gemm_config c = tw_gemm_config_default(&p);
        for (c.swap = 0; c.swap < 2; c.swap++)
            if (tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), &r, &why))
                tw_gemm_launch_of(&p, &c, &none, &l);
            else
                assert_string_equal(why, "more blocks than a grid holds");
    }
}

/* A configuration of SIMT, with the least of what is not named. */
static tw_gemm_config by_threads(int ms, int ns, int ml, int nl, int kl) {
    return (tw_gemm_config){.ms = ms,
                            .ns = ns,
                            .ml = ml,
                            .nl = nl,
                            .u = 8,
                            .ks = 1,
                            .kl = kl,
                            .kg = 1,
                            .vec = 4,
                            .frag = 4,
                            .stages = 2,
                            .group = 1};
}

/* A warp's threads read the fewest elements of X and Y where their cells are nearly a square. */
static void a_warps_cells_are_nearly_a_square(void **state) {
    (void)state;
    static const struct {
        int ms, ns, ml, nl, lanes; /* lanes: along rows */
    } tiles[] = {{8, 8, 128, 128, 4}, {4, 8, 64, 128, 8}, {8, 4, 128, 64, 4}, {2, 8, 64, 64, 8}, {8, 8, 16, 128, 2}};
    const tw_gemm_problem p = complete(0);
    for (int i = 0; i < (int)(sizeof tiles / sizeof *tiles); i++) {
        const tw_gemm_config c = by_threads(tiles[i].ms, tiles[i].ns, tiles[i].ml, tiles[i].nl, 1);
        const tw_gemm_variant v = tw_gemm_variant_of(&p, &c);
        tw_gemm_plan plan;
        const char *why = tw_gemm_plan_of(&v, &c, tw_target_find("sm_90a"), &plan);
        if (why) fail_msg("tile %d: %s", i, why);
        if (plan.lanes_m != tiles[i].lanes) fail_msg("tile %d: %d lanes along rows", i, plan.lanes_m);
    }
}

/* Equal variants have equal bytes, whatever bytes the padding of their problems has. */
static void variants_have_no_other_bytes(void **state) {
    (void)state;
    static const unsigned char fill[] = {0, 0xff};
    tw_gemm_variant v[2];
    const tw_gemm_problem usual = complete(0);
    const tw_gemm_config c = by_threads(8, 8, 128, 128, 1);
    for (int i = 0; i < 2; i++) {
        tw_gemm_problem p = usual;
        memset(&p.epilogue, fill[i], sizeof p.epilogue);
        p.epilogue.bias = p.epilogue.mul = p.epilogue.residual = true;
        p.epilogue.activation = TW_GEMM_SILU;
        p.epilogue.gated = p.epilogue.squares = p.epilogue.means = p.epilogue.scaled = p.epilogue.scale_rows =
            p.epilogue.scale_columns = false;
        memset(&v[i], ~fill[i], sizeof v[i]);
        v[i] = tw_gemm_variant_of(&p, &c);
    }
    assert_memory_equal(&v[0], &v[1], sizeof v[0]);
}

/* Words are names in full: no other of the same length is one. */
static void words_are_names_in_full(void **state) {
    (void)state;
    static const char *const wrong[] = {"tipe=f16", "oux=f32", "activatiun=silu",
                                        "lde=8",    "alpho=2", "activation2=silu"};
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        tw_gemm_problem p = problems[0];
        tw_status st = TW_ERR_IO;
        tw_diag d;
        if (tw_gemm_problem_word(&p, wrong[i], &st, &d)) fail_msg("%s is a word", wrong[i]);
        assert_int_equal(st, TW_OK);
        assert_memory_equal(&p, &problems[0], sizeof p);
    }
}

/* Half of the groups store their sums for the other half, and so on. The first round needs the most memory. */
static void groups_join_by_halves(void **state) {
    (void)state;
    enum { THREADS = 128, SUMS = 16 };
    const tw_gemm_problem p = complete(0);
    for (int kl = 2; kl <= 8; kl *= 2) {
        const tw_gemm_config c = by_threads(4, 4, 64, 32, kl);
        tw_gemm_resources r;
        assert_true(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), &r, NULL));
        assert_int_equal(r.threads, kl * THREADS);
        assert_int_equal(r.shared_bytes, kl / 2 * THREADS * SUMS * (int)sizeof(float));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(legal_ones_build_and_fit),
                                       cmocka_unit_test(any_numbers_are_judged),
                                       cmocka_unit_test(the_default_is_legal),
                                       cmocka_unit_test(the_default_of_e4m3_is_legal),
                                       cmocka_unit_test(grids_have_an_end),
                                       cmocka_unit_test(drawing_keeps_what_it_is_told),
                                       cmocka_unit_test(configurations_are_read_back),
                                       cmocka_unit_test(names_are_read_back),

                                       cmocka_unit_test(groups_without_sense_are_refused),
                                       cmocka_unit_test(further_rows_are_of_one_product),
                                       cmocka_unit_test(groups_refuse_configurations),
                                       cmocka_unit_test(bounds_of_groups_are_low),
                                       cmocka_unit_test(problems_without_sense_are_refused),
                                       cmocka_unit_test(tensor_maps_refuse_pointers),
                                       cmocka_unit_test(sets_are_joined),
                                       cmocka_unit_test(splits_of_batches_have_parts),
                                       cmocka_unit_test(torn_rows_are_estimated_slow),
                                       cmocka_unit_test(pointers_are_described),
                                       cmocka_unit_test(sizes_fit_their_types),
                                       cmocka_unit_test(a_warps_cells_are_nearly_a_square),
                                       cmocka_unit_test(variants_have_no_other_bytes),
                                       cmocka_unit_test(words_are_names_in_full),
                                       cmocka_unit_test(groups_join_by_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
