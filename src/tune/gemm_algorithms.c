/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_algorithms.h"

#include "base/diag.h"
#include "base/divide.h"
#include "tune/gemm_vendor.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROBLEMS = 2000, /* Number of problems for which the library proposes algorithms. */
    PROPOSALS = 8,   /* The most proposals for a problem. */
    SEED = 1,        /* Seed of the problems. */
    TEXT = 400,      /* Bytes of a configuration in words. */
    STEP = 8,        /* Every side of a tile is a multiple of STEP. */
    LONGEST = 2048,  /* The longest side that a tile may have. */
    ROUND = 64,      /* Length of k that a kernel of f16 or bf16 multiplies in a round. */
    DEPTH = 4096,    /* Value of k in the problems that tiles are found with. Its parts have several rounds each. */
    ROWS = 1000,     /* Value of m in the problem that tiles are verified with. It is no multiple of a usual tile. */
    COLUMNS = 1496,  /* Value of n in that problem. It is no multiple of a usual tile. */
};

/* ---- words */

/* The words of a configuration, in their order. */
static const struct {
    const char *name;
    size_t at;   /* Offset of the value in tw_gemm_algorithm. */
    bool always; /* True: the word is there also if the value is 0. */
} words_of[] = {
    {"id", offsetof(tw_gemm_algorithm, of.id), true},
    {"tile", offsetof(tw_gemm_algorithm, of.tile), true},
    {"tm", offsetof(tw_gemm_algorithm, tm), true},
    {"tn", offsetof(tw_gemm_algorithm, tn), true},
    {"split", offsetof(tw_gemm_algorithm, of.split), true},
    {"cluster", offsetof(tw_gemm_algorithm, of.cluster), false},
    {"custom", offsetof(tw_gemm_algorithm, of.custom), false},
    {"stages", offsetof(tw_gemm_algorithm, of.stages), false},
    {"reduction", offsetof(tw_gemm_algorithm, of.reduction), false},
    {"swizzle", offsetof(tw_gemm_algorithm, of.swizzle), false},
    {"inner", offsetof(tw_gemm_algorithm, of.inner), false},
};
enum { WORDS = sizeof words_of / sizeof *words_of };

static uint32_t value_of(const tw_gemm_algorithm *a, int word) {
    uint32_t value;
    memcpy(&value, (const char *)a + words_of[word].at, sizeof value);
    return value;
}

static void set_value(tw_gemm_algorithm *a, int word, uint32_t value) {
    memcpy((char *)a + words_of[word].at, &value, sizeof value);
}

void tw_gemm_algorithm_print(const tw_gemm_algorithm *a, char *out, size_t size) {
    size_t used = (size_t)snprintf(out, size, "by=cublaslt");
    for (int i = 0; i < WORDS && used < size; i++)
        if (words_of[i].always || value_of(a, i))
            used +=
                (size_t)snprintf(out + used, size - used, " %s=%lu", words_of[i].name, (unsigned long)value_of(a, i));
}

bool tw_gemm_algorithm_parse(tw_gemm_algorithm *out, const char *words) {
    char again[TEXT];
    *out = (tw_gemm_algorithm){.tm = 0};
    for (int i = 0; i < WORDS; i++) {
        char name[16];
        const int length = snprintf(name, sizeof name, " %s=", words_of[i].name);
        const char *at = strstr(words, name);
        if (!at || !isdigit((unsigned char)at[length])) continue;
        const unsigned long long value = strtoull(at + length, NULL, 10);
        set_value(out, i, value <= UINT32_MAX ? (uint32_t)value : 0);
    }
    tw_gemm_algorithm_print(out, again, sizeof again);
    /* Words in another order, twice, or beyond 32 bits are not printed again as they were. */
    return !strcmp(words, again) && out->tm > 0 && out->tm <= TW_ARTEFACT_TILE && out->tn > 0 &&
           out->tn <= TW_ARTEFACT_TILE && out->of.split > 0 && out->of.split <= TW_ARTEFACT_TILE / ROUND;
}

/* Tiles of a cluster, by the library's number of its shape. */
typedef struct cluster {
    uint8_t columns, rows; /* Along the columns and the rows of C, which is row-major. */
} cluster;

/* Returns the cluster of an algorithm. Shapes that are not listed count as one tile. */
static cluster cluster_of(const tw_gemm_algorithm *a) {
    static const cluster shapes[] = {[2] = {1, 1},  [3] = {2, 1},  [4] = {4, 1},  [5] = {1, 2},   [6] = {2, 2},
                                     [7] = {4, 2},  [8] = {1, 4},  [9] = {2, 4},  [10] = {4, 4},  [11] = {8, 1},
                                     [12] = {1, 8}, [13] = {8, 2}, [14] = {2, 8}, [15] = {16, 1}, [16] = {1, 16}};
    const bool known = a->of.cluster > 1 && a->of.cluster < sizeof shapes / sizeof *shapes;
    const cluster one = {1, 1}, c = known ? shapes[a->of.cluster] : one;
    const bool fits = a->tm * c.rows <= TW_ARTEFACT_TILE && a->tn * c.columns <= TW_ARTEFACT_TILE &&
                      a->of.split * c.rows * c.columns <= TW_ARTEFACT_TILE;
    return fits ? c : one;
}

tw_artefact_macro tw_gemm_algorithm_macro(const char *words, int sms) {
    static const char *const none[] = {""};
    tw_gemm_algorithm a;
    tw_gemm_algorithm_parse(&a, words);
    const cluster c = cluster_of(&a);
    /* An algorithm without a split needs a few bytes, too, if it has more tiles than the device has SMs. */
    return (tw_artefact_macro){.config = words,
                               .properties = TW_MACRO_VENDOR | TW_MACRO_WORKSPACE,
                               /* Grids have whole clusters. */
                               .grid = {(int64_t)a.tm * c.rows, (int64_t)a.tn * c.columns},
                               .rounds = {0, 0, ROUND * (int64_t)a.of.split},
                               .times = (int64_t)a.of.split * c.rows * c.columns,
                               .multiple = {0, 8, 8},
                               .slots = sms,
                               .micros = none,
                               .n_micros = 1};
}

/* ---- algorithms */

/* An algorithm that the library proposed. */
typedef struct counted {
    tw_gemm_algorithm a;
    int weight; /* Sum of PROPOSALS / place, rounded down, over all proposals of the algorithm. Places are from 1. */
} counted;

static int by_attributes(const void *a, const void *b) {
    const counted *x = a, *y = b;
    for (int i = 0; i < WORDS; i++) {
        const uint32_t u = value_of(&x->a, i), v = value_of(&y->a, i);
        if (u != v) return u < v ? -1 : 1;
    }
    return 0;
}

static int by_weight(const void *a, const void *b) {
    const counted *x = a, *y = b;
    return x->weight != y->weight ? (x->weight > y->weight ? -1 : 1) : by_attributes(a, b);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct finding {
    tw_gemm_type type;
    tw_cublaslt *lt;
    int sms;
} finding;

/* Describes the product A B^T of m, n and k to the library. */
static tw_status describe(const finding *f, int64_t m, int64_t n, int64_t k, tw_cublaslt_problem *out, tw_diag *diag) {
    tw_gemm_problem p = {.type = f->type, .m = m, .n = n, .k = k, .trans_b = true, .alpha = 1};
    const tw_status st = tw_gemm_problem_complete(&p, diag);
    if (st != TW_OK || tw_gemm_vendor_problem(&p, out)) return st;
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "cuBLASLt computes no such product");
}

/* Collects proposals for problems of the family. Returns their number in *n. */
static tw_status collect(const finding *f, const tw_family *family, counted *all, int *n, tw_diag *diag) {
    tw_random r = tw_random_seed(SEED);
    *n = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_cublaslt_problem p;
        tw_cublaslt_algorithm some[PROPOSALS];
        int count = 0;
        tw_family_draw(family, &r, problem);
        tw_status st = describe(f, problem[0], problem[1], problem[2], &p, diag);
        if (st == TW_OK) st = tw_cublaslt_propose(f->lt, &p, PROPOSALS, TW_GEMM_VENDOR_WORKSPACE, some, &count, diag);
        if (st != TW_OK && st != TW_ERR_UNSUPPORTED) return st;
        for (int k = 0; k < count; k++) all[(*n)++] = (counted){{.of = some[k]}, PROPOSALS / (k + 1)};
    }
    return TW_OK;
}

/* Merges equal algorithms and adds their weights. Orders the algorithms by weight, the largest first. Returns their
   number. */
static int count_each(counted *all, int n) {
    int kept = 0;
    qsort(all, (size_t)n, sizeof *all, by_attributes);
    for (int i = 0; i < n; i++) {
        if (kept && !by_attributes(&all[kept - 1], &all[i]))
            all[kept - 1].weight += all[i].weight;
        else
            all[kept++] = all[i];
    }
    qsort(all, (size_t)kept, sizeof *all, by_weight);
    return kept;
}

/* Counts the tiles of a product by an algorithm. *tiles is 0 if the algorithm does not compute it, or no whole number
   of tiles follows from its waves. */
static tw_status count_tiles(const finding *f, const tw_cublaslt_algorithm *a, int64_t m, int64_t n, int64_t *tiles,
                             tw_diag *diag) {
    static const double NEAR = 0.05; /* The library has waves with single precision. */
    tw_cublaslt_problem p;
    tw_cublaslt_check c;
    *tiles = 0;
    tw_status st = describe(f, m, n, DEPTH, &p, diag);
    if (st == TW_OK) st = tw_cublaslt_fits(f->lt, &p, a, &c, diag);
    if (st != TW_OK) return st == TW_ERR_UNSUPPORTED ? TW_OK : st;
    const double exact = c.waves * f->sms;
    if (exact > 0 && exact < 1e9 && fabs(exact - round(exact)) < NEAR) *tiles = (int64_t)round(exact);
    return TW_OK;
}

/* Finds the longest side, in steps, that a single tile covers. *side is 0 if it is not found. */
static tw_status find_side(const finding *f, const tw_cublaslt_algorithm *a, bool rows, uint32_t *side, tw_diag *diag) {
    int64_t one = 0, more = STEP; /* The longest known side of a tile, and the least that is longer than a tile. */
    bool found = false;
    tw_status st = TW_OK;
    *side = 0;
    while (st == TW_OK && more <= LONGEST && !(found && more - one <= STEP)) {
        const int64_t at = found ? one + (more - one) / 2 / STEP * STEP : more;
        int64_t tiles;
        st = count_tiles(f, a, rows ? at : STEP, rows ? STEP : at, &tiles, diag);
        if (st != TW_OK || !tiles) return st;
        if (tiles > 1) {
            found = true;
            more = at;
        } else {
            one = at;
            if (!found) more = 2 * at;
        }
    }
    if (found) *side = (uint32_t)one;
    return st;
}

/* Finds the tiles of an algorithm. *found is false if a larger product has another number of them. */
static tw_status find_tiles(const finding *f, tw_gemm_algorithm *a, bool *found, tw_diag *diag) {
    int64_t tiles = 0;
    *found = false;
    tw_status st = find_side(f, &a->of, true, &a->tm, diag);
    if (st == TW_OK && a->tm) st = find_side(f, &a->of, false, &a->tn, diag);
    if (st != TW_OK || !a->tm || !a->tn) return st;
    st = count_tiles(f, &a->of, ROWS, COLUMNS, &tiles, diag);
    *found = st == TW_OK && tiles == tw_ceil_div(ROWS, a->tm) * tw_ceil_div(COLUMNS, a->tn);
    return st;
}

static tw_status list(const finding *f, tw_arena *arena, counted *all, int n, const char **texts, int *count,
                      tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < n && *count < TW_GEMM_ALGORITHMS && st == TW_OK; i++) {
        char words[TEXT];
        tw_gemm_algorithm again;
        bool found;
        st = find_tiles(f, &all[i].a, &found, diag);
        if (st != TW_OK || !found) continue;
        tw_gemm_algorithm_print(&all[i].a, words, sizeof words);
        if (tw_gemm_algorithm_parse(&again, words)) texts[(*count)++] = tw_arena_strdup(arena, words);
    }
    if (st == TW_OK && arena->failed) st = tw_fail_memory(diag);
    if (st == TW_OK) qsort(texts, (size_t)*count, sizeof *texts, by_text);
    return st;
}

tw_status tw_gemm_algorithms_find(tw_arena *arena, const tw_family *f, tw_gemm_type type, tw_cublaslt *lt, int sms,
                                  const char ***out, int *n, tw_diag *diag) {
    const finding search = {type, lt, sms};
    counted *all = calloc((size_t)PROBLEMS * PROPOSALS, sizeof *all);
    int proposals = 0;
    *n = 0;
    *out = tw_arena_array(arena, TW_GEMM_ALGORITHMS, sizeof **out);
    tw_status st = all && *out ? collect(&search, f, all, &proposals, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = list(&search, arena, all, count_each(all, proposals), *out, n, diag);
    free(all);
    return st;
}
