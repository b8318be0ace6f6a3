/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "kernels/vendor/cublaslt.h"

#include "base/diag.h"
#include "base/grow.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the library's interface. */
enum {
    R_32F = 0, /* data types */
    R_64F = 1,
    R_16F = 2,
    R_8I = 3,
    R_32I = 10,
    R_16BF = 14,
    R_8F_E4M3 = 28,

    COMPUTE_32F = 68, /* IEEE: TF32 only where asked for */
    COMPUTE_64F = 70,
    COMPUTE_32I = 72,
    COMPUTE_32F_FAST_TF32 = 77,

    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_STRIDE = 6,
    DESC_TRANSA = 3,
    DESC_TRANSB = 4,
    DESC_A_SCALE = 17,
    DESC_B_SCALE = 18,
    DESC_FAST_ACCUM = 25,
    DESC_A_SCALE_MODE = 31,
    DESC_B_SCALE_MODE = 32,

    SCALE_OUTER_VEC = 3,
    SCALE_VEC128 = 4,
    SCALE_BLK128 = 5,

    NO_SCALES = 256, /* A place for scales until a product has some. The library wants one that is not 0. */
    PREF_MAX_WORKSPACE = 1,

    STATUS_ALLOC_FAILED = 3,
    STATUS_INVALID_VALUE = 7,
    STATUS_ARCH_MISMATCH = 8,
    STATUS_NOT_SUPPORTED = 15,

    ATTRIBUTES = 9, /* Number of an algorithm's attributes. */

    MOST = 64,       /* The most proposals that are asked for. */
    WORKSPACES = 66, /* More than a plan can have, since each but the last is twice as large as the one before. */
};

typedef struct algorithm {
    uint64_t data[8];
} algorithm;

typedef struct found {
    algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} found;
_Static_assert(sizeof(found) == 96, "as the library has it");

#define FUNCTIONS(FN)                                                                                                  \
    FN(cublasLtCreate, (void **lt))                                                                                    \
    FN(cublasLtDestroy, (void *lt))                                                                                    \
    FN(cublasLtMatmulDescCreate, (void **desc, int compute_type, int scale_type))                                      \
    FN(cublasLtMatmulDescDestroy, (void *desc))                                                                        \
    FN(cublasLtMatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t bytes))                   \
    FN(cublasLtMatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld))                \
    FN(cublasLtMatrixLayoutDestroy, (void *layout))                                                                    \
    FN(cublasLtMatrixLayoutSetAttribute, (void *layout, int attribute, const void *value, size_t bytes))               \
    FN(cublasLtMatmulPreferenceCreate, (void **preference))                                                            \
    FN(cublasLtMatmulPreferenceDestroy, (void *preference))                                                            \
    FN(cublasLtMatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value, size_t bytes))       \
    FN(cublasLtMatmulAlgoGetHeuristic, (void *lt, void *desc, void *a, void *b, void *c, void *d, void *preference,    \
                                        int wanted, found *results, int *count))                                       \
    FN(cublasLtMatmulAlgoInit,                                                                                         \
       (void *lt, int compute_type, int scale_type, int a, int b, int c, int d, int id, algorithm *out))               \
    FN(cublasLtMatmulAlgoCheck,                                                                                        \
       (void *lt, void *desc, void *a, void *b, void *c, void *d, const algorithm *how, found *result))                \
    FN(cublasLtMatmulAlgoConfigGetAttribute,                                                                           \
       (const algorithm *how, int attribute, void *value, size_t bytes, size_t *written))                              \
    FN(cublasLtMatmulAlgoConfigSetAttribute, (algorithm * how, int attribute, const void *value, size_t bytes))        \
    FN(cublasLtMatmul, (void *lt, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,         \
                        void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,      \
                        const algorithm *how, void *workspace, size_t workspace_bytes, void *stream))

struct tw_cublaslt {
    void *library, *handle;
    tw_cuda *cuda;
    size_t (*cublasLtGetVersion)(void);
#define MEMBER(name, parameters) int(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

typedef union scalar {
    float f32;
    double f64;
    int32_t i32;
} scalar;

struct tw_cublaslt_plan {
    tw_cublaslt *lt;
    void *desc, *a, *b, *c, *preference;
    int type_ab, type_c, compute, scale; /* The library's numbers of the problem's types. */
    scalar alpha, beta;
    size_t limit;                    /* The most workspace of an algorithm, in bytes. */
    uint64_t workspaces[WORKSPACES]; /* Workspaces of the algorithms so far. The last one is used from now on. */
    int n_workspaces;                /* Number of workspaces. 0: no algorithm needs any. */
    size_t workspace;                /* Bytes of the last workspace. */
    found *found;
    int n, room;
};

static const struct {
    int ab, c, scale, compute;
} types[TW_CUBLASLT_TYPES] = {
    [TW_CUBLASLT_F32] = {R_32F, R_32F, R_32F, COMPUTE_32F},
    [TW_CUBLASLT_TF32] = {R_32F, R_32F, R_32F, COMPUTE_32F_FAST_TF32},
    [TW_CUBLASLT_F16] = {R_16F, R_16F, R_32F, COMPUTE_32F},
    [TW_CUBLASLT_BF16] = {R_16BF, R_16BF, R_32F, COMPUTE_32F},
    [TW_CUBLASLT_E4M3] = {R_8F_E4M3, R_16BF, R_32F, COMPUTE_32F},
    [TW_CUBLASLT_F64] = {R_64F, R_64F, R_64F, COMPUTE_64F},
    [TW_CUBLASLT_S8] = {R_8I, R_32I, R_32I, COMPUTE_32I},
};

static void *open_library(const char **name) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    const char *own = getenv("TILEWRIGHT_LIBCUBLASLT");
    const int how = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;
    if (own && *own) return dlopen(*name = own, how);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *h = dlopen(*name = names[i], how);
        if (h) return h;
    }
    return NULL;
}

const char *tw_cublaslt_find(void) {
    const char *name;
    void *h = open_library(&name);
    if (!h) return NULL;
    dlclose(h);
    return name;
}

/* The library's status as ours. */
static tw_status result(int status, const char *what, tw_diag *diag) {
    static const struct {
        int status;
        tw_status ours;
        const char *text;
    } table[] = {
        {1, TW_ERR_IO, "not initialised"},
        {STATUS_ALLOC_FAILED, TW_ERR_MEMORY, "out of memory"},
        {STATUS_INVALID_VALUE, TW_ERR_USAGE, "a value it does not take"},
        {STATUS_ARCH_MISMATCH, TW_ERR_UNSUPPORTED, "not for this GPU"},
        {13, TW_ERR_IO, "the GPU did not execute it"},
        {14, TW_ERR_IO, "an internal error"},
        {STATUS_NOT_SUPPORTED, TW_ERR_UNSUPPORTED, "not supported"},
    };
    if (status == 0) return TW_OK;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return tw_fail(diag, table[i].ours, "cuBLASLt cannot %s: %s (status %d)", what, table[i].text, status);
    return tw_fail(diag, TW_ERR_IO, "cuBLASLt cannot %s: status %d", what, status);
}

static bool find(void *library, const char *name, void *slot, size_t size) {
    void *p = dlsym(library, name);
    memcpy(slot, &p, size);
    return p != NULL;
}

static tw_status start(tw_cublaslt *lt, tw_diag *diag) {
    const char *name = NULL, *missing = NULL;
    lt->library = open_library(&name);
    if (!lt->library) {
        const char *why = dlerror();
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "no cuBLASLt: %s", why ? why : name);
    }
#define FIND(fn, parameters)                                                                                           \
    if (!find(lt->library, #fn, &lt->fn, sizeof lt->fn)) missing = #fn;
    FUNCTIONS(FIND)
#undef FIND
    if (!find(lt->library, "cublasLtGetVersion", &lt->cublasLtGetVersion, sizeof lt->cublasLtGetVersion))
        missing = "cublasLtGetVersion";
    if (missing) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has no %s", name, missing);
    tw_status st = tw_cuda_enter(lt->cuda, diag);
    if (st != TW_OK) return st;
    int status = lt->cublasLtCreate(&lt->handle);
    if (status != 0) lt->handle = NULL;
    st = result(status, "start", diag);
    if (st == TW_OK || st == TW_ERR_MEMORY) return st;
    if (diag) diag->status = TW_ERR_UNSUPPORTED;
    return TW_ERR_UNSUPPORTED;
}

tw_status tw_cublaslt_open(tw_cublaslt **out, tw_cuda *c, tw_diag *diag) {
    *out = NULL;
    tw_cublaslt *lt = calloc(1, sizeof *lt);
    if (!lt) return tw_fail_memory(diag);
    lt->cuda = c;
    tw_status st = start(lt, diag);
    if (st != TW_OK) {
        tw_cublaslt_close(lt);
        return st;
    }
    *out = lt;
    return TW_OK;
}

void tw_cublaslt_close(tw_cublaslt *lt) {
    if (!lt) return;
    if (lt->handle && tw_cuda_enter(lt->cuda, NULL) == TW_OK) lt->cublasLtDestroy(lt->handle);
    if (lt->library) dlclose(lt->library);
    free(lt);
}

void tw_cublaslt_version(const tw_cublaslt *lt, char *out, size_t size) {
    size_t v = lt->cublasLtGetVersion();
    snprintf(out, size, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

static tw_status check(const tw_cublaslt_problem *p, tw_diag *diag) {
    int64_t a_rows = p->trans_a ? p->k : p->m, b_rows = p->trans_b ? p->n : p->k;
    if (p->type < 0 || p->type >= TW_CUBLASLT_TYPES || p->m < 1 || p->n < 1 || p->k < 1 || p->batch < 0)
        return tw_fail(diag, TW_ERR_USAGE, "a product of %lld x %lld x %lld, %d times", (long long)p->m,
                       (long long)p->n, (long long)p->k, p->batch);
    if (p->scales < 0 || p->scales >= TW_CUBLASLT_SCALES || (p->scales && p->type != TW_CUBLASLT_E4M3))
        return tw_fail(diag, TW_ERR_USAGE, "only e4m3 has scales");
    if (p->lda < a_rows || p->ldb < b_rows || p->ldc < p->m)
        return tw_fail(diag, TW_ERR_USAGE, "leading dimensions %lld, %lld, %lld are less than columns are high",
                       (long long)p->lda, (long long)p->ldb, (long long)p->ldc);
    return TW_OK;
}

/* Switches of the environment that make the library compute otherwise than it was told, which would be measured as what
   it is not. */
static tw_status check_switches(tw_cublaslt_type type, tw_diag *diag) {
    static const struct {
        tw_cublaslt_type type;
        const char *name;
    } switches[] = {{TW_CUBLASLT_F32, "NVIDIA_TF32_OVERRIDE"},
                    {TW_CUBLASLT_F32, "CUBLAS_EMULATE_SINGLE_PRECISION"},
                    {TW_CUBLASLT_F64, "CUBLAS_EMULATE_DOUBLE_PRECISION"}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        const char *set = switches[i].type == type ? getenv(switches[i].name) : NULL;
        if (set && strcmp(set, "0") != 0)
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s=%s in the environment: cuBLASLt would round otherwise",
                           switches[i].name, set);
    }
    return TW_OK;
}

static int make_layout(const tw_cublaslt *lt, void **layout, int type, int64_t rows, int64_t cols, int64_t ld,
                       int32_t batch, int64_t stride) {
    int s = lt->cublasLtMatrixLayoutCreate(layout, type, (uint64_t)rows, (uint64_t)cols, ld);
    if (s != 0) {
        *layout = NULL;
        return s;
    }
    if (batch <= 1) return 0;
    s = lt->cublasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    return s ? s : lt->cublasLtMatrixLayoutSetAttribute(*layout, LAYOUT_STRIDE, &stride, sizeof stride);
}

static void *pointer(uint64_t address) {
    return (void *)(uintptr_t)address;
}

static int set_scales(const tw_cublaslt_plan *x, uint64_t a, uint64_t b) {
    const void *const of_a = pointer(a), *const of_b = pointer(b);
    const int s = x->lt->cublasLtMatmulDescSetAttribute(x->desc, DESC_A_SCALE, &of_a, sizeof of_a);
    return s ? s : x->lt->cublasLtMatmulDescSetAttribute(x->desc, DESC_B_SCALE, &of_b, sizeof of_b);
}

static int set_scale_modes(const tw_cublaslt_plan *x, tw_cublaslt_scales scales) {
    const bool blocks = scales == TW_CUBLASLT_BLOCKS;
    const int32_t a = blocks ? SCALE_BLK128 : SCALE_OUTER_VEC, b = blocks ? SCALE_VEC128 : SCALE_OUTER_VEC;
    int s = x->lt->cublasLtMatmulDescSetAttribute(x->desc, DESC_A_SCALE_MODE, &a, sizeof a);
    if (s == 0) s = x->lt->cublasLtMatmulDescSetAttribute(x->desc, DESC_B_SCALE_MODE, &b, sizeof b);
    return s ? s : set_scales(x, NO_SCALES, NO_SCALES);
}

static int make_desc(tw_cublaslt_plan *x, const tw_cublaslt_problem *p) {
    const tw_cublaslt *lt = x->lt;
    const int32_t ta = p->trans_a, tb = p->trans_b; /* 0: as it is, 1: transposed */
    int s = lt->cublasLtMatmulDescCreate(&x->desc, types[p->type].compute, types[p->type].scale);
    if (s != 0) {
        x->desc = NULL;
        return s;
    }
    s = lt->cublasLtMatmulDescSetAttribute(x->desc, DESC_TRANSA, &ta, sizeof ta);
    if (s == 0) s = lt->cublasLtMatmulDescSetAttribute(x->desc, DESC_TRANSB, &tb, sizeof tb);
    if (s || p->type != TW_CUBLASLT_E4M3) return s;
    const int8_t fast = p->fast_sums;
    s = lt->cublasLtMatmulDescSetAttribute(x->desc, DESC_FAST_ACCUM, &fast, sizeof fast);
    return s || !p->scales ? s : set_scale_modes(x, p->scales);
}

static int describe(tw_cublaslt_plan *x, const tw_cublaslt_problem *p) {
    const tw_cublaslt *lt = x->lt;
    const bool choice = p->type == TW_CUBLASLT_F16 || p->type == TW_CUBLASLT_BF16 || p->type == TW_CUBLASLT_E4M3;
    const bool wide = p->c_f32 && choice;
    int ab = types[p->type].ab, c = wide ? R_32F : types[p->type].c;
    x->type_ab = ab;
    x->type_c = c;
    x->compute = types[p->type].compute;
    x->scale = types[p->type].scale;
    int s = make_desc(x, p);
    if (s == 0)
        s = make_layout(lt, &x->a, ab, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->lda, p->batch,
                        p->stride_a);
    if (s == 0)
        s = make_layout(lt, &x->b, ab, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, p->ldb, p->batch,
                        p->stride_b);
    if (s == 0) s = make_layout(lt, &x->c, c, p->m, p->n, p->ldc, p->batch, p->stride_c);
    return s;
}

static scalar scalar_of(tw_cublaslt_type t, double v) {
    scalar s = {.f64 = v};
    if (types[t].scale == R_32F) s.f32 = (float)v;
    if (types[t].scale == R_32I) s.i32 = (int32_t)v;
    return s;
}

/* The library's status of a question as ours. Nothing runs on the device, and another version may know the answer, so
   that all errors but those of memory are TW_ERR_UNSUPPORTED. */
static tw_status refuse(int status, const char *what, tw_diag *diag) {
    const tw_status st = result(status, what, diag);
    if (st == TW_OK || st == TW_ERR_MEMORY) return st;
    if (diag) diag->status = TW_ERR_UNSUPPORTED;
    return TW_ERR_UNSUPPORTED;
}

/* The library's status of a plan's description as ours. Libraries and devices differ in what they know of e4m3, so that
   what they say of it is an answer. */
static tw_status answer(const tw_cublaslt_plan *x, int status, const char *what, tw_diag *diag) {
    return (x->type_ab == R_8F_E4M3 ? refuse : result)(status, what, diag);
}

static tw_status choose(tw_cublaslt_plan *x, int most, tw_diag *diag) {
    const tw_cublaslt *lt = x->lt;
    const uint64_t limit = x->limit;
    int s = lt->cublasLtMatmulPreferenceCreate(&x->preference), count = 0;
    x->room = most < MOST ? most : MOST;
    x->found = calloc((size_t)x->room, sizeof *x->found);
    if (s != 0) x->preference = NULL;
    if (!x->found) return tw_fail_memory(diag);
    if (s == 0) s = lt->cublasLtMatmulPreferenceSetAttribute(x->preference, PREF_MAX_WORKSPACE, &limit, sizeof limit);
    if (s == 0)
        s = lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, x->desc, x->a, x->b, x->c, x->c, x->preference, x->room,
                                               x->found, &count);
    if (s != 0) return answer(x, s, "find an algorithm", diag);
    for (int i = 0; i < count; i++)
        if (x->found[i].status == 0) x->found[x->n++] = x->found[i];
    return x->n ? TW_OK : result(STATUS_NOT_SUPPORTED, "find an algorithm", diag);
}

/* Makes sure that the last workspace has `needed` bytes, at most the limit. Earlier ones stay, since captured launches
   have their addresses. */
static tw_status grow(tw_cublaslt_plan *x, size_t needed, tw_diag *diag) {
    if (needed <= x->workspace) return TW_OK;
    const size_t twice = x->workspace > x->limit / 2 ? x->limit : 2 * x->workspace;
    const size_t bytes = twice > needed ? twice : needed;
    const tw_status st = tw_cuda_alloc(x->lt->cuda, bytes, &x->workspaces[x->n_workspaces], diag);
    if (st != TW_OK) return st;
    x->n_workspaces++;
    x->workspace = bytes;
    return TW_OK;
}

/* Makes a plan without algorithms. */
static tw_status make(tw_cublaslt *lt, const tw_cublaslt_problem *p, size_t workspace, tw_cublaslt_plan **out,
                      tw_diag *diag) {
    *out = NULL;
    tw_status st = check(p, diag);
    if (st == TW_OK) st = check_switches(p->type, diag);
    if (st == TW_OK) st = tw_cuda_enter(lt->cuda, diag);
    if (st != TW_OK) return st;
    tw_cublaslt_plan *x = calloc(1, sizeof *x);
    if (!x) return tw_fail_memory(diag);
    x->lt = lt;
    x->limit = workspace;
    x->alpha = scalar_of(p->type, p->alpha);
    x->beta = scalar_of(p->type, p->beta);
    st = answer(x, describe(x, p), "describe a product", diag);
    if (st == TW_OK)
        *out = x;
    else
        tw_cublaslt_plan_free(x);
    return st;
}

/* Makes a plan with proposals and without workspace. */
static tw_status propose(tw_cublaslt *lt, const tw_cublaslt_problem *p, int most, size_t workspace,
                         tw_cublaslt_plan **out, tw_diag *diag) {
    *out = NULL;
    if (most < 1) return tw_fail(diag, TW_ERR_USAGE, "a plan of %d algorithms", most);
    tw_status st = make(lt, p, workspace, out, diag);
    if (st == TW_OK) st = choose(*out, most, diag);
    if (st == TW_OK) return TW_OK;
    tw_cublaslt_plan_free(*out);
    *out = NULL;
    return st;
}

tw_status tw_cublaslt_plan_make(tw_cublaslt *lt, const tw_cublaslt_problem *p, int most, size_t workspace,
                                tw_cublaslt_plan **out, tw_diag *diag) {
    size_t needed = 0;
    tw_status st = propose(lt, p, most, workspace, out, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < (*out)->n; i++)
        if ((*out)->found[i].workspace > needed) needed = (*out)->found[i].workspace;
    st = grow(*out, needed, diag);
    if (st == TW_OK) return TW_OK;
    tw_cublaslt_plan_free(*out);
    *out = NULL;
    return st;
}

void tw_cublaslt_plan_free(tw_cublaslt_plan *p) {
    if (!p) return;
    const tw_cublaslt *lt = p->lt;
    if (p->preference) lt->cublasLtMatmulPreferenceDestroy(p->preference);
    if (p->c) lt->cublasLtMatrixLayoutDestroy(p->c);
    if (p->b) lt->cublasLtMatrixLayoutDestroy(p->b);
    if (p->a) lt->cublasLtMatrixLayoutDestroy(p->a);
    if (p->desc) lt->cublasLtMatmulDescDestroy(p->desc);
    for (int i = 0; i < p->n_workspaces; i++) tw_cuda_release(lt->cuda, p->workspaces[i]);
    free(p->found);
    free(p);
}

int tw_cublaslt_algorithms(const tw_cublaslt_plan *p) {
    return p->n;
}

size_t tw_cublaslt_workspace(const tw_cublaslt_plan *p, int i) {
    return i >= 0 && i < p->n ? p->found[i].workspace : 0;
}

/* ---- algorithms by their attributes */

/* Attributes of an algorithm, by the library's numbers of them. */
static const struct {
    size_t at; /* Offset in tw_cublaslt_algorithm. */
    size_t bytes;
} attributes[ATTRIBUTES] = {
    {offsetof(tw_cublaslt_algorithm, id), 4},      {offsetof(tw_cublaslt_algorithm, tile), 4},
    {offsetof(tw_cublaslt_algorithm, split), 4},   {offsetof(tw_cublaslt_algorithm, reduction), 4},
    {offsetof(tw_cublaslt_algorithm, swizzle), 4}, {offsetof(tw_cublaslt_algorithm, custom), 4},
    {offsetof(tw_cublaslt_algorithm, stages), 4},  {offsetof(tw_cublaslt_algorithm, inner), 2},
    {offsetof(tw_cublaslt_algorithm, cluster), 2}};

tw_status tw_cublaslt_describe(const tw_cublaslt_plan *p, int i, tw_cublaslt_algorithm *out, tw_diag *diag) {
    if (i < 0 || i >= p->n) return tw_fail(diag, TW_ERR_USAGE, "algorithm %d of %d", i, p->n);
    for (int k = 0; k < ATTRIBUTES; k++) {
        uint32_t value = 0;
        uint16_t narrow = 0;
        size_t written = 0;
        void *const to = attributes[k].bytes == sizeof narrow ? (void *)&narrow : &value;
        const int s =
            p->lt->cublasLtMatmulAlgoConfigGetAttribute(&p->found[i].algorithm, k, to, attributes[k].bytes, &written);
        if (s != 0) return refuse(s, "describe an algorithm", diag);
        if (written != attributes[k].bytes)
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "attribute %d of cuBLASLt's algorithms has %zu bytes, not %zu", k,
                           written, attributes[k].bytes);
        value += narrow;
        memcpy((char *)out + attributes[k].at, &value, sizeof value);
    }
    return TW_OK;
}

/* Finds the library's algorithm of a description. */
static int build(const tw_cublaslt_plan *x, const tw_cublaslt_algorithm *a, algorithm *out) {
    const tw_cublaslt *lt = x->lt;
    *out = (algorithm){{0}};
    int s = lt->cublasLtMatmulAlgoInit(lt->handle, x->compute, x->scale, x->type_ab, x->type_ab, x->type_c, x->type_c,
                                       (int)a->id, out);
    for (int k = 1; k < ATTRIBUTES && s == 0; k++) {
        uint32_t value;
        memcpy(&value, (const char *)a + attributes[k].at, sizeof value);
        const uint16_t narrow = (uint16_t)value;
        if (attributes[k].bytes == sizeof value)
            s = lt->cublasLtMatmulAlgoConfigSetAttribute(out, k, &value, sizeof value);
        else if (value == narrow)
            s = lt->cublasLtMatmulAlgoConfigSetAttribute(out, k, &narrow, sizeof narrow);
        else
            s = STATUS_INVALID_VALUE;
    }
    return s;
}

/* Builds an algorithm and checks it for the plan's problem. */
static tw_status fit(const tw_cublaslt_plan *x, const tw_cublaslt_algorithm *a, found *out, tw_diag *diag) {
    const tw_cublaslt *lt = x->lt;
    found f = {.status = 0};
    int s = build(x, a, &f.algorithm);
    const algorithm built = f.algorithm;
    if (s == 0) s = lt->cublasLtMatmulAlgoCheck(lt->handle, x->desc, x->a, x->b, x->c, x->c, &built, &f);
    if (s == 0) s = f.status;
    *out = f;
    out->algorithm = built;
    return refuse(s, "compute this product by this algorithm", diag);
}

tw_status tw_cublaslt_plan_add(tw_cublaslt_plan *p, const tw_cublaslt_algorithm *a, int *i, tw_diag *diag) {
    found f;
    tw_status st = tw_cuda_enter(p->lt->cuda, diag);
    if (st == TW_OK) st = fit(p, a, &f, diag);
    if (st != TW_OK) return st;
    for (*i = 0; *i < p->n; ++*i)
        if (!memcmp(&p->found[*i].algorithm, &f.algorithm, sizeof f.algorithm)) return TW_OK;
    if (f.workspace > p->limit)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the algorithm needs %zu bytes of workspace, of at most %zu",
                       f.workspace, p->limit);
    found *const wider = tw_grow(p->found, p->n, &p->room, 1, sizeof *wider);
    if (!wider) return tw_fail_memory(diag);
    p->found = wider;
    st = grow(p, f.workspace, diag);
    if (st == TW_OK) p->found[p->n++] = f;
    return st;
}

tw_status tw_cublaslt_propose(tw_cublaslt *lt, const tw_cublaslt_problem *p, int most, size_t workspace,
                              tw_cublaslt_algorithm *out, int *n, tw_diag *diag) {
    tw_cublaslt_plan *x;
    *n = 0;
    tw_status st = propose(lt, p, most, workspace, &x, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < x->n && st == TW_OK; i++) st = tw_cublaslt_describe(x, i, &out[i], diag);
    if (st == TW_OK) *n = x->n;
    tw_cublaslt_plan_free(x);
    return st;
}

tw_status tw_cublaslt_fits(tw_cublaslt *lt, const tw_cublaslt_problem *p, const tw_cublaslt_algorithm *a,
                           tw_cublaslt_check *out, tw_diag *diag) {
    tw_cublaslt_plan *x;
    found f;
    tw_status st = make(lt, p, 0, &x, diag);
    if (st != TW_OK) return st;
    st = fit(x, a, &f, diag);
    if (st == TW_OK) *out = (tw_cublaslt_check){f.workspace, (double)f.waves};
    tw_cublaslt_plan_free(x);
    return st;
}

tw_status tw_cublaslt_scale(tw_cublaslt_plan *p, uint64_t a, uint64_t b, tw_diag *diag) {
    return result(set_scales(p, a, b), "take scales", diag);
}

tw_status tw_cublaslt_run(tw_cublaslt_plan *p, int i, uint64_t a, uint64_t b, uint64_t c, void *stream, tw_diag *diag) {
    const tw_cublaslt *lt = p->lt;
    if (i < 0 || i >= p->n) return tw_fail(diag, TW_ERR_USAGE, "algorithm %d of %d", i, p->n);
    const uint64_t workspace = p->n_workspaces ? p->workspaces[p->n_workspaces - 1] : 0;
    tw_status st = tw_cuda_enter(lt->cuda, diag);
    if (st != TW_OK) return st;
    int s = lt->cublasLtMatmul(lt->handle, p->desc, &p->alpha, pointer(a), p->a, pointer(b), p->b, &p->beta, pointer(c),
                               p->c, pointer(c), p->c, &p->found[i].algorithm, pointer(workspace),
                               p->found[i].workspace, stream ? stream : tw_cuda_stream(lt->cuda));
    return result(s, "multiply", diag);
}
