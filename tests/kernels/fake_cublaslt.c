/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuBLASLt over the host's memory: it multiplies f32, f64, s8 and, into f32, f16, bf16 and e4m3 as its
   descriptors say; f32 loses its last 13 bits where the fast TF32 is asked for, and e4m3 takes 1 for 1.5 where fast
   sums are. It knows four algorithms, of which the second is not to be used. Algorithm i + 1 writes 1 into its
   workspace. On the stand-in for the driver the first takes as long as three kernels, the third as two, the fourth as
   four.

   Attribute TILE is 64 times a tile's columns of C plus its rows, both in steps of 8. Each further part of a split
   needs 1024 bytes of workspace more. An algorithm has 8 stages at most, and one whose CUSTOM is 14 cannot be checked.
   With FAKE_CUBLASLT_ODD the waves of the third one are not those of its tiles where a product has more than 512
   columns. With FAKE_CUBLASLT_OLD it does not know fast sums. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct desc {
    int compute, scale, transposed[2];
    int8_t fast;
    const float *scales[2];
    int32_t scaled[2]; /* How the scales are stored. */
} desc;
typedef struct layout {
    int type;
    uint64_t rows, cols;
    int64_t ld, stride;
    int32_t batch;
} layout;
typedef struct preference {
    uint64_t workspace;
} preference;
typedef struct result {
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} result;

/* Numbers of attributes of an algorithm. */
enum { ID, TILE, SPLIT, REDUCTION, SWIZZLE, CUSTOM, STAGES, INNER, CLUSTER, ATTRIBUTES };

/* Attributes are stored in 4 bytes each, but ID in 8. */
static uint32_t attribute_of(const uint64_t *algorithm, int attribute) {
    uint32_t all[16];
    memcpy(all, algorithm, sizeof all);
    return all[attribute ? attribute + 1 : 0];
}

static void set_attribute(uint64_t *algorithm, int attribute, uint32_t value) {
    memcpy((uint32_t *)(void *)algorithm + (attribute ? attribute + 1 : 0), &value, sizeof value);
}

static size_t workspace_of(const uint64_t *algorithm) {
    const uint32_t split = attribute_of(algorithm, SPLIT);
    return (size_t)(algorithm[0] - 1) * 256 + (split > 1 ? (size_t)(split - 1) * 1024 : 0);
}

static int made(void **out, size_t bytes) {
    *out = calloc(1, bytes);
    return *out ? 0 : 3;
}

EXPORT size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) {
    return 130102;
}

EXPORT int cublasLtCreate(void **lt);
int cublasLtCreate(void **lt) {
    return getenv("FAKE_CUBLASLT_BROKEN") ? 1 : made(lt, 1);
}
EXPORT int cublasLtDestroy(void *lt);
int cublasLtDestroy(void *lt) {
    free(lt);
    return 0;
}

EXPORT int cublasLtMatmulDescCreate(void **d, int compute, int scale);
int cublasLtMatmulDescCreate(void **d, int compute, int scale) {
    int s = made(d, sizeof(desc));
    if (!s) *(desc *)*d = (desc){.compute = compute, .scale = scale};
    return s;
}
EXPORT int cublasLtMatmulDescDestroy(void *d);
int cublasLtMatmulDescDestroy(void *d) {
    free(d);
    return 0;
}
EXPORT int cublasLtMatmulDescSetAttribute(void *d, int attribute, const void *value, size_t bytes);
int cublasLtMatmulDescSetAttribute(void *d, int attribute, const void *value, size_t bytes) {
    if (attribute == 25 && bytes == 1 && !getenv("FAKE_CUBLASLT_OLD")) {
        memcpy(&((desc *)d)->fast, value, 1);
        return 0;
    }
    desc *x = d;
    if ((attribute == 17 || attribute == 18) && bytes == sizeof(void *)) {
        memcpy(&x->scales[attribute - 17], value, bytes);
        return 0;
    }
    if ((attribute == 31 || attribute == 32) && bytes == 4) {
        memcpy(&x->scaled[attribute - 31], value, bytes);
        return 0;
    }
    if (attribute < 3 || attribute > 4 || bytes != 4) return 7;
    memcpy(&((desc *)d)->transposed[attribute - 3], value, 4);
    return 0;
}

EXPORT int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    int s = made(l, sizeof(layout));
    if (!s) *(layout *)*l = (layout){type, rows, cols, ld, 0, 1};
    return s;
}
EXPORT int cublasLtMatrixLayoutDestroy(void *l);
int cublasLtMatrixLayoutDestroy(void *l) {
    free(l);
    return 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *value, size_t bytes);
int cublasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *value, size_t bytes) {
    layout *x = l;
    if (attribute == 5 && bytes == sizeof x->batch)
        memcpy(&x->batch, value, bytes);
    else if (attribute == 6 && bytes == sizeof x->stride)
        memcpy(&x->stride, value, bytes);
    else
        return 7;
    return 0;
}

EXPORT int cublasLtMatmulPreferenceCreate(void **p);
int cublasLtMatmulPreferenceCreate(void **p) {
    return made(p, sizeof(preference));
}
EXPORT int cublasLtMatmulPreferenceDestroy(void *p);
int cublasLtMatmulPreferenceDestroy(void *p) {
    free(p);
    return 0;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t bytes);
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t bytes) {
    if (attribute != 1 || bytes != 8) return 7;
    memcpy(p, value, bytes);
    return 0;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *lt, void *d, void *a, void *b, void *c, void *out, void *p, int wanted,
                                          result *results, int *count);
int cublasLtMatmulAlgoGetHeuristic(void *lt, void *d, void *a, void *b, void *c, void *out, void *p, int wanted,
                                   result *results, int *count) {
    const desc *x = d;
    (void)lt, (void)a, (void)b, (void)out;
    *count = 0;
    /* As the real one: bytes only where the first is transposed and the second is not. */
    const bool bytes = x->compute == 72 || ((layout *)a)->type == 28;
    if (bytes && (!x->transposed[0] || x->transposed[1])) return 15;
    if (((layout *)c)->rows == 13) return 0; /* none, without an error */
    for (uint64_t i = 0; i < 4 && *count < wanted; i++) {
        results[*count] = (result){.algorithm = {i + 1}, .status = i == 1 ? 15 : 0};
        set_attribute(results[*count].algorithm, TILE,
                      (((layout *)c)->cols > 1024 ? 16u : 8u) * 64 + 8 + 4 * (uint32_t)i);
        set_attribute(results[*count].algorithm, SPLIT, ((layout *)a)->rows > 4096 && i == 3 ? 2 : 1);
        set_attribute(results[*count].algorithm, STAGES, 4);
        set_attribute(results[*count].algorithm, INNER, (uint32_t)i);
        set_attribute(results[*count].algorithm, CLUSTER, 5);
        results[*count].workspace = workspace_of(results[*count].algorithm);
        if (results[*count].workspace <= ((preference *)p)->workspace) ++*count;
    }
    return 0;
}

EXPORT int cublasLtMatmulAlgoInit(void *lt, int compute, int scale, int a, int b, int c, int d, int id, uint64_t *out);
int cublasLtMatmulAlgoInit(void *lt, int compute, int scale, int a, int b, int c, int d, int id, uint64_t *out) {
    if (!lt || id < 1 || id > 4 || a != b || c != d) return 7;
    if (compute == 68 && scale) return 15;
    memset(out, 0, 64);
    out[0] = (uint64_t)id;
    return 0;
}

EXPORT int cublasLtMatmulAlgoConfigSetAttribute(uint64_t *algorithm, int attribute, const void *value, size_t bytes);
int cublasLtMatmulAlgoConfigSetAttribute(uint64_t *algorithm, int attribute, const void *value, size_t bytes) {
    uint32_t wide = 0;
    if (attribute < TILE || attribute >= ATTRIBUTES || bytes != (attribute < INNER ? 4 : 2)) return 7;
    memcpy(&wide, value, bytes);
    if (attribute == STAGES && wide > 8) return 7;
    set_attribute(algorithm, attribute, wide);
    return 0;
}

EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t *algorithm, int attribute, void *value, size_t bytes,
                                                size_t *written);
int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t *algorithm, int attribute, void *value, size_t bytes,
                                         size_t *written) {
    const uint32_t wide = attribute_of(algorithm, attribute);
    *written = attribute < INNER ? 4 : 2;
    if (bytes < *written) return 7;
    memcpy(value, &wide, *written);
    return 0;
}

EXPORT int cublasLtMatmulAlgoCheck(void *lt, void *d, void *a, void *b, void *c, void *out, const uint64_t *algorithm,
                                   result *r);
int cublasLtMatmulAlgoCheck(void *lt, void *d, void *a, void *b, void *c, void *out, const uint64_t *algorithm,
                            result *r) {
    const layout *l = c;
    const uint64_t rows = attribute_of(algorithm, TILE) % 64 * 8, cols = attribute_of(algorithm, TILE) / 64 * 8;
    if (!lt || !d || !a || !b || c != out || !rows || !cols) return 7;
    if (algorithm[0] == 2 || l->rows == 13) return 15;
    if (attribute_of(algorithm, CUSTOM) == 14) return 14;
    uint64_t tiles = (l->rows + rows - 1) / rows * ((l->cols + cols - 1) / cols);
    if (getenv("FAKE_CUBLASLT_ODD") && algorithm[0] == 3 && l->rows > 512) tiles++;
    /* The real one, too, leaves out the algorithm. */
    r->workspace = workspace_of(algorithm);
    r->status = 0;
    r->waves = (float)tiles / 132;
    return 0;
}

static double of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* Of a normal number or zero. */
static double of_half(uint32_t h) {
    uint32_t rest = h & 0x7fff;
    return of_bits((h & 0x8000) << 16 | (rest ? (rest << 13) + (112u << 23) : 0));
}

static double get(const void *p, int type, int64_t i, const desc *how) {
    const int compute = how->compute;
    uint32_t bits;
    switch (type) {
    case 0:
        memcpy(&bits, (const float *)p + i, sizeof bits);
        return of_bits(compute == 77 ? bits & ~0x1fffu : bits);
    case 1:
        return ((const double *)p)[i];
    case 2:
        return of_half(((const uint16_t *)p)[i]);
    case 28: /* Of a normal number or zero. */
        bits = how->fast && ((const uint8_t *)p)[i] == 0x3c ? 0x38 : ((const uint8_t *)p)[i];
        return of_bits((bits & 0x80) << 24 | (bits & 0x7f ? ((bits & 0x7f) << 20) + (120u << 23) : 0));
    case 14:
        return of_bits((uint32_t)((const uint16_t *)p)[i] << 16);
    default:
        return (double)((const int8_t *)p)[i];
    }
}

/* The scale of element k of a row of A or of a column of B: outer vectors (3), blocks along k (4), square blocks (5).
 */
static double scale_of(const desc *x, int matrix, int64_t row, int64_t rows, int64_t k, int64_t depth) {
    const float *of = x->scales[matrix];
    const int64_t along_k = (depth + 127) / 128;
    const int mode = x->scaled[matrix];
    return !mode       ? 1
           : mode == 3 ? (double)of[row]
           : mode == 4 ? (double)of[k / 128 * rows + row]
                       : (double)of[row / 128 * ((along_k + 3) / 4 * 4) + k / 128];
}

static void put(void *p, int type, int64_t i, double v, double beta) {
    if (type == 0) ((float *)p)[i] = (float)(v + (beta != 0 ? beta * (double)((float *)p)[i] : 0));
    if (type == 1) ((double *)p)[i] = v + (beta != 0 ? beta * ((double *)p)[i] : 0);
    if (type == 10) ((int32_t *)p)[i] = (int32_t)(v + (beta != 0 ? beta * ((int32_t *)p)[i] : 0));
}

static double scalar(const void *p, int type) {
    return type == 0 ? (double)*(const float *)p : type == 1 ? *(const double *)p : (double)*(const int32_t *)p;
}

/* The driver's stand-in, where it is the driver, does as many kernels' work. */
static void take_time(uint64_t algorithm) {
    const char *path = getenv("TILEWRIGHT_LIBCUDA");
    void *driver = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL,
         *found = driver ? dlsym(driver, "fake_cuda_work") : NULL;
    int (*work)(void);
    memcpy(&work, &found, sizeof work);
    for (int i = algorithm == 1 ? 3 : algorithm == 3 ? 2 : 4; i > 0 && work; i--) work();
    if (driver) dlclose(driver);
}

/* Each sum is of its terms in order. */
static void multiply(const double *restrict a, const double *restrict b, int64_t rows, int64_t cols, int64_t k,
                     double *restrict sums) {
    for (int64_t i = 0; i < rows; i++) {
        double *restrict row = sums + i * cols;
        memset(row, 0, (size_t)cols * sizeof *row);
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < cols; j++) row[j] += a[i * k + l] * b[l * cols + j];
    }
}

EXPORT int cublasLtMatmul(void *lt, void *d, const void *alpha, const void *a, void *al, const void *b, void *bl,
                          const void *beta, const void *c, void *cl, void *out, void *ol, const uint64_t *algorithm,
                          void *workspace, size_t workspace_bytes, void *stream);
int cublasLtMatmul(void *lt, void *d, const void *alpha, const void *a, void *al, const void *b, void *bl,
                   const void *beta, const void *c, void *cl, void *out, void *ol, const uint64_t *algorithm,
                   void *workspace, size_t workspace_bytes, void *stream) {
    const desc *x = d;
    const layout *la = al, *lb = bl, *lc = cl;
    take_time(algorithm[0]);
    if (!lt || !stream || c != out || cl != ol || algorithm[0] == 2) return 7;
    if (workspace_bytes != workspace_of(algorithm) || (workspace_bytes && !workspace)) return 7;
    if (workspace_bytes) *(char *)workspace = 1;
    int64_t k = (int64_t)(x->transposed[0] ? la->rows : la->cols);
    if (k != (int64_t)(x->transposed[1] ? lb->cols : lb->rows)) return 7;
    if (lc->rows != (x->transposed[0] ? la->cols : la->rows)) return 7;
    if (lc->cols != (x->transposed[1] ? lb->rows : lb->cols)) return 7;
    if (la->batch != lc->batch || lb->batch != lc->batch) return 7;
    const int64_t rows = (int64_t)lc->rows, cols = (int64_t)lc->cols;
    double *wide = malloc((size_t)(rows * cols + rows * k + cols * k + 1) * sizeof *wide);
    if (!wide) return 3;
    double *sums = wide, *of_b = sums + rows * cols, *of_a = of_b + cols * k;
    for (int z = 0; z < lc->batch; z++) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t l = 0; l < k; l++)
                of_a[i * k + l] =
                    get(a, la->type, z * la->stride + (x->transposed[0] ? l + i * la->ld : i + l * la->ld), x) *
                    scale_of(x, 0, i, rows, l, k);
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < cols; j++)
                of_b[l * cols + j] =
                    get(b, lb->type, z * lb->stride + (x->transposed[1] ? j + l * lb->ld : l + j * lb->ld), x) *
                    scale_of(x, 1, j, cols, l, k);
        multiply(of_a, of_b, rows, cols, k, sums);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                put(out, lc->type, z * lc->stride + i + j * lc->ld, scalar(alpha, x->scale) * sums[i * cols + j],
                    scalar(beta, x->scale));
    }
    free(wide);
    return 0;
}
