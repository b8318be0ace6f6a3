/* SPDX-License-Identifier: Apache-2.0 */
/* The family of products on a GPU, with a fake driver whose kernels do nothing, pass every check, and take ten
   microseconds. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/arena.h"
#include "base/diag.h"
#include "device/fake_cuda.h"
#include "kernels/gemm/space.h"
#include "tune/gemm_gpu.h"
#include "tune/gemm_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tw_gemm_kind bf16 = {TW_GEMM_BF16, TW_GEMM_PLAIN};
static char *cache; /* An empty kernel cache. */

static int setup(void **state) {
    (void)state;
    cache = test_folder_make();
    setenv("TILEWRIGHT_CACHE", cache, 1);
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_LIBCUBLASLT", "none", 1);
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_reset();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_folder_remove(cache);
    return 0;
}

/* Every choice of a kind is legal for the problems that its rules allow. */
static void expect_legal(tw_gemm_kind kind, int least_macros, int least_legal) {
    tw_family f;
    tw_diag d;
    const tw_target *target = tw_target_find("sm_90a");
    if (tw_gemm_gpu_recorded(&f, kind, "{\"device\": \"any\", \"sms\": 132}", NULL, &d) != TW_OK)
        fail_msg("%s", d.message);
    const int bits = tw_type_bits(tw_gemm_types[kind.type].element);
    tw_random r = tw_random_seed(1);
    int legal = 0, configs = 0;
    for (int m = 0; m < f.n_macros; m++) {
        assert_true(!tw_family_is_vendor(&f, m) || f.macros[m].multiple[2] * bits >= 128);
        if (tw_family_is_vendor(&f, m)) continue;
        configs += f.macros[m].n_micros;
        for (int tries = 0; tries < 6; tries++) {
            int64_t p[TW_SELECT_AXES] = {0};
            tw_family_draw(&f, &r, p);
            tw_gemm_problem q = tw_gemm_kind_problem(kind, p);
            assert_int_equal(tw_gemm_problem_complete(&q, NULL), TW_OK);
            assert_true(tw_gemm_kind_of(&q).type == kind.type);
            assert_true(q.k * bits % 128 == 0); /* Other products have no reference on the device. */
            const tw_wave_division div = tw_family_divide(&f, m, p);
            if (!div.grid) continue;
            char words[400];
            tw_gemm_config c = tw_gemm_config_default(&q);
            tw_gemm_resources need;
            const char *why = NULL;
            tw_family_config(&f, m, (int)tw_random_below(&r, (uint64_t)f.macros[m].n_micros), words, sizeof words);
            assert_int_equal(tw_gemm_config_parse(&c, words, NULL), TW_OK);
            if (!tw_gemm_legal(&q, &c, target, &need, &why)) fail_msg("%s: %s", words, why);
            if (kind.form != TW_GEMM_GROUPS) assert_true((c.persistent ? need.tiles : need.grid) == div.grid);
            assert_true((double)need.stages_of_k == div.loops);
            assert_true(!need.workspace_bytes || f.macros[m].properties & TW_MACRO_WORKSPACE ||
                        c.split == TW_JOIN_CLUSTER);
            tw_demand demand;
            assert_true(f.calls->demand(f.self, m, 0, p, &demand) && demand.rounds > 0);
            legal++;
        }
    }
    print_message("%s: %d macro choices, %d configurations, %d legal\n", f.name, f.n_macros, configs, legal);
    assert_true(f.n_macros >= least_macros && legal >= least_legal);
    assert_true(tw_family_divide(&f, f.macro, f.least).grid && tw_family_divide(&f, f.macro, f.most).grid);
    tw_family_close(&f);
}

static void choices_are_legal(void **state) {
    (void)state;
    expect_legal(bf16, 200, 300);
    expect_legal((tw_gemm_kind){TW_GEMM_E4M3, TW_GEMM_PLAIN}, 100, 200);
    expect_legal((tw_gemm_kind){TW_GEMM_TF32X3, TW_GEMM_PLAIN}, 60, 150);
    expect_legal((tw_gemm_kind){TW_GEMM_F32, TW_GEMM_PLAIN}, 100, 300);
    expect_legal((tw_gemm_kind){TW_GEMM_F32, TW_GEMM_BATCH}, 100, 300);
    expect_legal((tw_gemm_kind){TW_GEMM_BF16, TW_GEMM_GROUPS}, 30, 80);
    expect_legal((tw_gemm_kind){TW_GEMM_E4M3, TW_GEMM_GROUPS}, 30, 80);
    expect_legal((tw_gemm_kind){TW_GEMM_TF32X3, TW_GEMM_GROUPS}, 20, 80);
    expect_legal((tw_gemm_kind){TW_GEMM_BF16, TW_GEMM_BATCH}, 60, 150);
    expect_legal((tw_gemm_kind){TW_GEMM_E4M3, TW_GEMM_BATCH}, 40, 100);
    tw_arena a = {0};
    tw_artefact_macro *macros = NULL;
    assert_int_equal(tw_gemm_gpu_list(&a, bf16, tw_target_find("sm_80"), 108, &macros), 0);
    tw_arena_free(&a);
}

typedef struct heard {
    int right, failed;
} heard;

static tw_status hear(void *context, const tw_measured *m, tw_diag *diag) {
    heard *h = context;
    (void)diag;
    h->right += m->status == TW_OK && m->time.median > 9.9 && m->time.median < 10.1;
    h->failed += m->status != TW_OK;
    return TW_OK;
}

static void kernels_are_compiled_once(void **state) {
    (void)state;
    tw_family f;
    tw_diag d;
    const tw_gemm_gpu_options o = {bf16, 0};
    if (tw_gemm_gpu_open(&f, &o, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(f.name, "gemm-gpu-bf16");
    const char *configs[3];
    char texts[1][400];
    tw_family_config(&f, f.macro, 0, texts[0], sizeof texts[0]);
    configs[0] = texts[0];
    /* Stores by the copy engine need no bounds: only the second kernel is another one with partial tiles. */
    configs[1] = "mma=2 ms=64 ns=64 ml=64 nl=64 u=64 kg=1 stages=3 vec=16 frag=16 group=1 staged=0";
    configs[2] = "by=cublaslt"; /* cuBLASLt is not installed here. */
    const tw_measure_protocol p = {.samples = 3, .turns = true};
    /* The second problem shares the first one's kernels. The third has partial tiles. */
    static const int64_t problems[][TW_SELECT_AXES] = {{256, 512, 128}, {512, 256, 192}, {200, 512, 128}};
    int compiled = 0;
    for (int i = 0; i < 3; i++) {
        heard h = {0};
        const tw_family_listener l = {hear, NULL, &h};
        if (f.calls->measure(f.self, problems[i], configs, 3, &p, &l, &d) != TW_OK) fail_msg("%s", d.message);
        assert_true(h.right == 2 && h.failed == 1);
        const int now = fake_cuda_look()->compiled;
        if (i == 1) assert_int_equal(now, compiled);
        if (i == 2) assert_true(now > compiled);
        compiled = now;
    }
    heard h = {0};
    const tw_family_listener l = {hear, NULL, &h};
    assert_int_equal(f.calls->measure(f.self, problems[0], (const char *const[]){"ml=what"}, 1, &p, &l, &d),
                     TW_ERR_USAGE);
    const int64_t odd[TW_SELECT_AXES] = {64, 64, 100};
    assert_int_equal(f.calls->measure(f.self, odd, configs, 1, &p, &l, &d), TW_ERR_UNSUPPORTED);
    char words[400];
    f.calls->baseline(f.self, 0, problems[0], words, sizeof words);
    assert_non_null(strstr(words, "ml="));
    f.calls->baseline(f.self, 1, problems[0], words, sizeof words);
    assert_string_equal(words, "by=cublaslt");
    /* The recorded family, made from the environment alone, equals the measured one. */
    tw_family recorded;
    if (tw_gemm_gpu_recorded(&recorded, bf16, f.environment, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(recorded.recorded && recorded.n_macros == f.n_macros && recorded.macro == f.macro);
    assert_string_equal(recorded.environment, f.environment);
    assert_string_equal(recorded.alike, f.alike);
    tw_family_close(&recorded);
    tw_family_close(&f);
    assert_int_equal(fake_cuda_alive(), 0);
    assert_int_equal(tw_gemm_gpu_recorded(&recorded, bf16, "{}", NULL, &d), TW_ERR_FORMAT);
    assert_int_equal(tw_gemm_gpu_recorded(&recorded, bf16, "what", NULL, &d), TW_ERR_FORMAT);
}

/* Sets of matrices are adjacent, and start again at the end of the pool. */
static void pools_have_room_for_sets(void **state) {
    (void)state;
    tw_cuda *c;
    tw_gemm_pool *pool;
    tw_diag d;
    if (tw_cuda_open(&c, 0, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_gemm_pool_make(&pool, c, TW_GEMM_F64, 1 << 20, 1, &d), TW_ERR_UNSUPPORTED);
    if (tw_gemm_pool_make(&pool, c, TW_GEMM_F16, 1 << 20, 1, &d) != TW_OK) fail_msg("%s", d.message);
    tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 100, .n = 200, .k = 520, .trans_b = true, .alpha = 1};
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    assert_int_equal(tw_gemm_pool_covers(pool, &p, NULL), TW_OK);
    uint64_t a[4], b[4];
    for (int i = 0; i < 4; i++) {
        tw_gemm_buffers at = {0};
        tw_gemm_pool_place(pool, &p, i, &at);
        a[i] = at.of[TW_GEMM_A];
        b[i] = at.of[TW_GEMM_B];
        assert_true(!at.of[TW_GEMM_SCALES]);
        assert_true((a[i] - a[0]) % 256 == 0 && (b[i] - a[i]) % 256 == 0 && b[i] >= a[i] + 2 * 100 * 520);
        if (i && i < 3) assert_true(a[i] >= b[i - 1] + 2 * 200 * 520);
    }
    assert_true(a[3] == a[0] && b[3] == b[0]);
    /* Outputs of a problem lie in one block, apart from each other. A larger block serves smaller problems, too. */
    tw_gemm_rig *rig;
    uint64_t c_of[2];
    if (tw_gemm_rig_make_of(&rig, c, pool, &p, 0, 1024, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_gemm_pool_outputs(pool, &p, 1, c_of, &d), TW_OK);
    for (int i = 0; i < tw_gemm_rig_sets(rig); i++) {
        const uint64_t at = tw_gemm_rig_buffers(rig, i).of[TW_GEMM_C] - c_of[0];
        assert_true(at % 256 == 0 && at >= (uint64_t)i * 2 * 100 * 200);
    }
    tw_gemm_rig_free(rig);
    tw_gemm_problem large = p;
    large.m = large.n = large.ldc = 5000;
    assert_int_equal(tw_gemm_pool_outputs(pool, &large, 2, c_of, &d), TW_OK);
    assert_true(c_of[1] - c_of[0] >= 2 * 5000 * 5000);
    const uint64_t block = c_of[0];
    assert_int_equal(tw_gemm_pool_outputs(pool, &p, 2, c_of, &d), TW_OK);
    assert_true(c_of[0] == block);
    tw_gemm_problem narrow = p;
    narrow.narrow = TW_GEMM_I4;
    narrow.scales = 64;
    tw_gemm_buffers first = {0}, second = {0};
    tw_gemm_pool_place(pool, &narrow, 0, &first);
    tw_gemm_pool_place(pool, &narrow, 1, &second);
    assert_true(first.of[TW_GEMM_SCALES] >= first.of[TW_GEMM_B] + 256 * 768 / 2);
    assert_true(second.of[TW_GEMM_A] >= first.of[TW_GEMM_SCALES] + 2 * 256 * 12);
    tw_gemm_problem tall = p;
    tall.trans_b = false;
    tall.ldb = 208;
    assert_int_equal(tw_gemm_pool_covers(pool, &tall, NULL), TW_OK);
    tall.lda = 528;
    assert_int_equal(tw_gemm_pool_covers(pool, &tall, NULL), TW_ERR_UNSUPPORTED);
    tw_gemm_problem other = p;
    /* So may those of a single C, unless something like it is read. */
    other.ldc = 208;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_OK);
    other.epilogue.residual = true;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    other.epilogue = (tw_gemm_epilogue){.mul = true};
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    other = p;
    other.k = other.lda = other.ldb = 516;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    other = p;
    other.beta = 1;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    other = p;
    other.m = 1000;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    /* B may be k x n, unless it is narrow. */
    other = p;
    other.trans_b = false;
    other.ldb = other.n;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_OK);
    other.narrow = TW_GEMM_I4;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    /* A batch is one set. */
    other = (tw_gemm_problem){
        .type = TW_GEMM_F16, .m = 10, .n = 20, .k = 40, .trans_b = true, .alpha = 1, .batch = 4, .sets = 2};
    assert_int_equal(tw_gemm_problem_complete(&other, NULL), TW_OK);
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_OK);
    other.sets = 2;
    other.set_a = 3 * other.m * other.k;
    assert_int_equal(tw_gemm_problem_complete(&other, NULL), TW_OK);
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    /* Groups have ends, and rows where they are. */
    other = p;
    other.m = 10;
    other.n = other.ldc = other.groups = 5;
    other.stride_b = other.n * other.k;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_OK);
    other.ldc++;
    assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
    other.ldc--;
    bool *const ways[] = {&other.masked, &other.gather, &other.scatter};
    for (int i = 0; i < 3; i++) {
        *ways[i] = true;
        assert_int_equal(tw_gemm_pool_covers(pool, &other, NULL), TW_ERR_UNSUPPORTED);
        *ways[i] = false;
    }
    /* More rows than a grid has are computed by two launches. */
    other = p;
    other.m = 65535 * 4 + 9;
    const int before = fake_cuda_look()->launches;
    assert_int_equal(tw_gemm_pool_refer(pool, &other, &first, c_of[0], c_of[0], c_of[0], &d), TW_OK);
    assert_true(fake_cuda_look()->launches == before + 2 && fake_cuda_look()->grid[1] == 3);
    tw_gemm_pool_free(pool);
    tw_gemm_pool_free(NULL);
    tw_cuda_close(c);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* Parameters of the last reference, and of the one before. */
enum { WANT = 2, TOLERANCE, BIAS = 11, MUL, RESIDUAL, PARAMETERS };
static uint64_t referred[PARAMETERS], earlier[PARAMETERS];

static void note(void **parameters) {
    memcpy(earlier, referred, sizeof earlier);
    for (int i = 0; i < PARAMETERS; i++)
        if (i < 4 || i >= BIAS) memcpy(&referred[i], parameters[i], sizeof *referred);
}

/* Leaves C as it is. */
static tw_status do_nothing(void *context, const tw_gemm_buffers *buffers, tw_diag *diag) {
    (void)context, (void)buffers, (void)diag;
    return TW_OK;
}

/* Opens the device, and makes a pool of f16 on it. */
static void open_pool(tw_cuda **c, tw_gemm_pool **pool) {
    tw_diag d;
    if (tw_cuda_open(c, 0, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_gemm_pool_make(pool, *c, TW_GEMM_F16, 1 << 20, 1, &d) != TW_OK) fail_msg("%s", d.message);
}

/* Returns how many calls of the driver a reference takes. */
static int calls_of(tw_gemm_pool *pool, const tw_gemm_problem *p) {
    const tw_gemm_buffers at = {0};
    tw_diag d;
    const int before = fake_cuda_look()->calls;
    if (tw_gemm_pool_refer(pool, p, &at, 256, 256, 256, &d) != TW_OK) fail_msg("%s", d.message);
    return fake_cuda_look()->calls - before;
}

/* A gated C has half of the columns, and so has its reference. */
static void gates_halve_references(void **state) {
    (void)state;
    enum { N = 320, SLAB = 65535 * 4 };
    tw_cuda *c;
    tw_gemm_pool *pool;
    tw_gemm_rig *rig;
    tw_diag d;
    open_pool(&c, &pool);
    tw_gemm_problem p = {
        .type = TW_GEMM_F16, .m = 10, .n = N, .k = 40, .batch = 2, .trans_b = true, .alpha = 1, .epilogue.gated = true};
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    assert_int_equal(tw_gemm_pool_covers(pool, &p, NULL), TW_OK);
    fake_cuda_hook("refer", note);
    if (tw_gemm_rig_make_of(&rig, c, pool, &p, 0, 1024, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(referred[WANT] == earlier[WANT] + sizeof(double) * 10 * N / 2);
    assert_true(referred[TOLERANCE] == earlier[TOLERANCE] + sizeof(float) * 10 * N / 2);
    tw_gemm_rig_free(rig);
    p.batch = 1;
    p.m = SLAB + 9;
    assert_int_equal(tw_gemm_pool_refer(pool, &p, &(tw_gemm_buffers){0}, 256, 256, 256, &d), TW_OK);
    assert_true(referred[WANT] == 256 + sizeof(double) * SLAB * (N / 2));
    assert_int_equal(fake_cuda_look()->grid[0], 2);
    /* Without a gate there is another kernel. */
    tw_gemm_problem plain = p;
    p.m = plain.m = 9;
    plain.epilogue.gated = false;
    const int again = calls_of(pool, &p), other = calls_of(pool, &plain);
    assert_true(other > again && calls_of(pool, &plain) == again && calls_of(pool, &p) > again);
    fake_cuda_hook("refer", NULL);
    /* A narrow B has no gates. */
    p.narrow = TW_GEMM_I8;
    assert_int_equal(tw_gemm_pool_covers(pool, &p, NULL), TW_ERR_UNSUPPORTED);
    tw_gemm_pool_free(pool);
    tw_cuda_close(c);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* All of a C with gaps is garbage before a launch, and is compared. */
static void gaps_of_the_pool_are_garbage(void **state) {
    (void)state;
    enum { WIDE = 28, BYTES = (9 * WIDE + 24) * 2 };
    tw_cuda *c;
    tw_gemm_pool *pool;
    tw_gemm_rig *rig;
    tw_diag d;
    unsigned char got[BYTES];
    open_pool(&c, &pool);
    tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 10, .n = 24, .k = 40, .ldc = WIDE, .trans_b = true, .alpha = 1};
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    if (tw_gemm_rig_make_of(&rig, c, pool, &p, 0, 1024, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_gemm_candidate x = {.enqueue = do_nothing};
    assert_int_equal(tw_gemm_rig_check(rig, &x, &d), TW_OK);
    assert_int_equal(tw_cuda_download(c, got, tw_gemm_rig_buffers(rig, 0).of[TW_GEMM_C], BYTES, &d), TW_OK);
    for (int i = 0; i < BYTES; i++) assert_int_equal(got[i], 0xff);
    tw_gemm_rig_free(rig);
    tw_gemm_pool_free(pool);
    tw_cuda_close(c);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* The reference of each product of a batch reads where kernels read. */
static void epilogues_lie_in_the_pool(void **state) {
    (void)state;
    tw_cuda *c;
    tw_gemm_pool *pool;
    tw_gemm_rig *rig;
    tw_diag d;
    open_pool(&c, &pool);
    tw_gemm_problem p = {.type = TW_GEMM_F16,
                         .m = 10,
                         .n = 24,
                         .k = 40,
                         .batch = 3,
                         .alpha = 1,
                         .epilogue = {.bias = true, .activation = TW_GEMM_GELU_ERF, .mul = true, .residual = true}};
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    fake_cuda_hook("refer", note);
    if (tw_gemm_rig_make_of(&rig, c, pool, &p, 0, 1024, &d) != TW_OK) fail_msg("%s", d.message);
    fake_cuda_hook("refer", NULL);
    const tw_gemm_buffers first = tw_gemm_rig_buffers(rig, 0), second = tw_gemm_rig_buffers(rig, 1);
    const uint64_t *of = first.of, before = 2 * (uint64_t)(p.m * p.n) /* Products that come before the last one. */;
    assert_true(of[TW_GEMM_BIAS] >= of[TW_GEMM_B] + 2 * 3 * 24 * 40 && of[TW_GEMM_MUL] >= of[TW_GEMM_BIAS] + 2 * 24);
    assert_true(of[TW_GEMM_RESIDUAL] >= of[TW_GEMM_MUL] + 2 * 3 * 10 * 24);
    assert_true(second.of[TW_GEMM_A] >= of[TW_GEMM_RESIDUAL] + 2 * 3 * 10 * 24);
    assert_true(referred[BIAS] == of[TW_GEMM_BIAS]);
    assert_true(referred[MUL] == of[TW_GEMM_MUL] + 2 * before);
    assert_true(referred[RESIDUAL] == of[TW_GEMM_RESIDUAL] + 2 * before);
    tw_gemm_rig_free(rig);
    /* More rows than a grid has: the second launch has the rest of them. */
    p = (tw_gemm_problem){.type = TW_GEMM_F16,
                          .m = 65535 * 4 + 9,
                          .n = 1,
                          .k = 8,
                          .trans_b = true,
                          .alpha = 1,
                          .epilogue = {.residual = true}};
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    tw_gemm_buffers at = {0};
    at.of[TW_GEMM_RESIDUAL] = 4096;
    fake_cuda_hook("refer", note);
    assert_int_equal(tw_gemm_pool_refer(pool, &p, &at, 256, 256, 256, &d), TW_OK);
    assert_true(referred[RESIDUAL] == 4096 + 2 * 65535 * 4 && !referred[MUL]);
    /* Another activation has another kernel. */
    int calls[3] = {0};
    p.m = 9;
    for (int i = 0; i < 3; i++) {
        const int before_it = fake_cuda_look()->calls;
        p.epilogue.activation = i ? TW_GEMM_SILU : TW_GEMM_LINEAR;
        assert_int_equal(tw_gemm_pool_refer(pool, &p, &at, 256, 256, 256, &d), TW_OK);
        calls[i] = fake_cuda_look()->calls - before_it;
    }
    assert_true(calls[1] > calls[0] && calls[2] == calls[0]);
    fake_cuda_hook("refer", NULL);
    /* Where C has other elements, nothing like it is in the pool. */
    p = (tw_gemm_problem){.type = TW_GEMM_E4M3, .m = 16, .n = 16, .k = 16, .trans_b = true, .alpha = 1};
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    tw_gemm_pool_free(pool);
    if (tw_gemm_pool_make(&pool, c, TW_GEMM_E4M3, 1 << 20, 1, &d) != TW_OK) fail_msg("%s", d.message);
    p.epilogue.activation = TW_GEMM_SILU;
    assert_int_equal(tw_gemm_pool_covers(pool, &p, NULL), TW_OK);
    p.epilogue.bias = true;
    assert_int_equal(tw_gemm_pool_covers(pool, &p, NULL), TW_ERR_UNSUPPORTED);
    tw_gemm_pool_free(pool);
    tw_cuda_close(c);
    assert_int_equal(fake_cuda_alive(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(choices_are_legal, setup, teardown),
        cmocka_unit_test_setup_teardown(kernels_are_compiled_once, setup, teardown),
        cmocka_unit_test_setup_teardown(pools_have_room_for_sets, setup, teardown),
        cmocka_unit_test_setup_teardown(epilogues_lie_in_the_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(gates_halve_references, setup, teardown),
        cmocka_unit_test_setup_teardown(gaps_of_the_pool_are_garbage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
