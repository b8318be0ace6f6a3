/* SPDX-License-Identifier: Apache-2.0 */
/* checkkernel, matrix products: every variant under every mask against sums in double. */
#include "kernels/checkkernel.h"

#include "base/dtype.h"
#include "kernels/cpu/variants.h"

static const tw_panel_format formats[] = {
    {TW_F32, 0}, {TW_F16, 0},  {TW_BF16, 0}, {TW_I8, 0},  {TW_I8, 32},
    {TW_I8, 64}, {TW_I8, 128}, {TW_I4, 32},  {TW_I4, 64}, {TW_I4, 128},
};
enum { FORMATS = sizeof formats / sizeof *formats };

typedef struct problem {
    tw_panel_format f;
    int64_t panels, cols, rows, ldx, ldy;
    unsigned char *packed;
    float *meaning; /* 16 panels x cols, as tw_panel_unpack has it */
    float *x;
    int kind;
} problem;

/* Integers reach both ends of their range: the overflow of a block's sum shows only there. */
static void pack_random(const problem *p, tw_random *r) {
    int64_t groups = p->f.group ? (p->cols + p->f.group - 1) / p->f.group : 1;
    size_t n = (size_t)(16 * p->cols), bits = tw_dtype_bits(p->f.dtype);
    unsigned char *data = aligned_make(n * 4);
    float *w = aligned_make(n * 4), *scales = aligned_make((size_t)(16 * groups) * 4);
    for (int64_t i = 0; i < p->panels; i++) {
        int style = (int)tw_random_below(r, 4);
        for (int64_t g = 0; g < 16 * groups; g++) scales[g] = 0.01f + (float)tw_random_unit(r);
        for (size_t e = 0; e < n; e++) {
            int bound = bits == 8 ? 128 : 8, q = (int)tw_random_below(r, (uint64_t)(2 * bound)) - bound;
            w[e] = tw_random_normal(r);
            if (style == 0) q = -bound;
            if (style == 1) q = bound - 1;
            if (bits < 16) data[e] = (unsigned char)(int8_t)q;
        }
        if (bits >= 16) tw_from_f32(p->f.dtype, w, data, n);
        tw_panel_pack(p->f, p->cols, 16, data, scales, p->packed + (size_t)i * tw_panel_bytes(p->f, p->cols));
    }
    free(data);
    free(w);
    free(scales);
}

static problem problem_make(tw_panel_format f, int64_t panels, int64_t cols, int64_t rows, int kind, tw_random *r) {
    problem p = {.f = f,
                 .panels = panels,
                 .cols = cols,
                 .rows = rows,
                 .ldx = cols + (rows > 1 ? 3 : 0),
                 .ldy = panels * 16 + 5,
                 .kind = kind};
    p.packed = aligned_make((size_t)panels * tw_panel_bytes(f, cols));
    p.meaning = aligned_make((size_t)(panels * 16 * cols) * 4);
    p.x = guard_make((size_t)(rows * p.ldx));
    for (int64_t m = 0; m < rows; m++) input_fill(kind, p.x + m * p.ldx, (size_t)cols, r);
    pack_random(&p, r);
    tw_panel_unpack(f, cols, p.packed, panels, p.meaning, cols);
    return p;
}

static void problem_free(problem *p) {
    guard_free(p->x, (size_t)(p->rows * p->ldx));
    free(p->packed);
    free(p->meaning);
}

/* The largest |x| of the block that each column is in, at least the smallest quantum's (variants.h). */
static double *block_tops(const problem *p, const float *x) {
    double *tops = aligned_make((size_t)p->cols * sizeof *tops);
    int64_t block = tw_block_of(p->f);
    for (int64_t from = 0; from < p->cols; from += block) {
        int64_t to = from + block < p->cols ? from + block : p->cols;
        float top = 0x1p-100f;
        for (int64_t k = from; k < to; k++) top = fabsf(x[k]) > top ? fabsf(x[k]) : top;
        for (int64_t k = from; k < to; k++) tops[k] = (double)top;
    }
    return tops;
}

/* Sums of a few rows at once, which do not wait for one another: the products with x, their sizes, and the quanta that
   fixed point may be off (`tops`, NULL in floats). */
enum { SUMS = 8 };
typedef struct sums {
    double exact[SUMS], size[SUMS], quanta[SUMS];
} sums;

static void add_up(sums *s, const problem *p, const float *x, const float *w, const double *tops) {
    *s = (sums){0};
    for (int64_t k = 0; k < p->cols; k++) {
        double by = x[k], top = tops ? tops[k] : 0;
        for (int r = 0; r < SUMS; r++) {
            double v = w[r * p->cols + k];
            s->exact[r] += by * v;
            s->size[r] += fabs(by * v);
            s->quanta[r] += fabs(v) * top;
        }
    }
}

/* How far float arithmetic may be from the exact sum: a rounding of 2^-24 a step, which add up like sqrt(cols) when
   they are independent, with a margin of 8; for fixed point a quantum of the block's largest a column on top (half from
   rounding, half from the float that is rounded); for two terms of bf16 what they may leave of each activation. */
typedef enum kept { FLOATS, FIXED, TWO_TERMS } kept;

static double tolerance(const problem *p, double size, double quanta, kept x) {
    double t = 8 * sqrt((double)p->cols) * 0x1p-24 * size + quanta * 1.02 / TW_FIXED_MAX;
    if (x == TWO_TERMS) t += 0x1p-17 * size;
    return t + 1e-36 * (double)p->cols;
}

static void compare(const problem *p, const float *y, int64_t m, const char *what, const char *name, kept how) {
    const float *x = p->x + m * p->ldx;
    double *tops = how == FIXED ? block_tops(p, x) : NULL;
    sums s;
    for (int64_t r = 0; r < p->panels * 16; r++) {
        if (r % SUMS == 0) add_up(&s, p, x, p->meaning + r * p->cols, tops);
        double sum = s.exact[r % SUMS], t = tolerance(p, s.size[r % SUMS], s.quanta[r % SUMS], how);
        if (!(fabs(y[r] - sum) <= t)) {
            print_error("%s %s %s group %d, %s x, %lld panels, %lld columns, %lld rows: [%lld][%lld] is %.9g, not %.9g "
                        "+- %.3g\n",
                        what, name, tw_dtype_name(p->f.dtype), p->f.group, input_names[p->kind], (long long)p->panels,
                        (long long)p->cols, (long long)p->rows, (long long)m, (long long)r, (double)y[r], sum, t);
            fail();
        }
    }
    free(tops);
}

static void check_gemv(const tw_kernels *k, const problem *p) {
    int t = p->f.dtype;
    size_t n = (size_t)p->panels * 16, bytes = k->prepared_bytes[t](p->f, p->cols);
    float *y = guard_make(n);
    unsigned char *x = aligned_make(bytes + 64);
    const kept how = t == TW_I8 || t == TW_I4 ? FIXED : FLOATS;
    memset(x + bytes, 0x5a, 64);
    k->prepare[t](p->f, p->x, p->cols, x);
    for (int i = 0; i < 64; i++) assert_int_equal(x[bytes + (size_t)i], 0x5a);
    k->gemv[t](p->f, p->packed, p->panels, p->cols, x, y);
    compare(p, y, 0, "gemv", k->gemv_name[t], how);
    guard_free(y, n);
    free(x);
}

/* What gemm's sink was given, as it was then. */
typedef struct parts {
    const problem *p;
    const float *y;
    float *seen;
} parts;

static void take_part(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    const parts *s = context;
    int64_t ldy = s->p->ldy, width = s->p->panels * 16;
    assert_true(row >= 0 && rows > 0 && row + rows <= s->p->rows && col >= 0 && cols > 0 && col + cols <= width);
    assert_int_equal(col % TW_SINK_COLS, 0);
    assert_true(cols == TW_SINK_COLS || col + cols == width);
    for (int64_t m = row; m < row + rows; m++)
        for (int64_t c = col; c < col + cols; c++) {
            assert_int_equal(tw_f32_bits(s->seen[m * ldy + c]), 0xffffffffu);
            s->seen[m * ldy + c] = s->y[m * ldy + c];
        }
}

static void check_gemm(const tw_kernels *k, const problem *p, tw_gemm_blocking by) {
    int t = p->f.dtype;
    size_t n = (size_t)(p->rows * p->ldy), bytes = k->gemm_scratch[t](p->f, p->panels, p->cols, p->rows, by);
    float *y = guard_make(n), *seen = guard_make(n);
    parts told = {p, y, seen};
    tw_gemm_sink sink = {take_part, &told};
    const kept how = k->gemm_unit[t].unit == TW_CPU_UNIT_AMX_BF16 ? TWO_TERMS : FLOATS;
    unsigned char *scratch = aligned_make(bytes + 64);
    memset(scratch + bytes, 0x5a, 64);
    k->gemm[t](p->f, p->packed, p->panels, p->cols, p->x, p->ldx, p->rows, y, p->ldy, by, &sink, scratch);
    assert_memory_equal(seen, y, n * sizeof *y);
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[bytes + (size_t)i], 0x5a);
    for (int64_t m = 0; m < p->rows; m++) {
        compare(p, y + m * p->ldy, m, "gemm", k->gemm_name[t], how);
        for (int64_t c = p->panels * 16; c < p->ldy; c++) {
            uint32_t poison = tw_f32_bits(y[m * p->ldy + c]);
            assert_int_equal(poison, 0xffffffffu);
        }
    }
    guard_free(y, n);
    guard_free(seen, n);
    free(scratch);
}

/* Rounds x in place to `terms` terms of bf16, one, or to integers of 8 bits. An integer is half of one off at most. */
static void round_x(const problem *p, int terms) {
    const int64_t block = p->f.group ? p->f.group : 128;
    for (int64_t m = 0; m < p->rows; m++) {
        float *x = p->x + m * p->ldx;
        for (int64_t k = 0; k < p->cols && terms == 1; k++) {
            uint16_t h;
            tw_from_f32(TW_BF16, &x[k], &h, 1);
            x[k] = tw_bf16_to_f32(h);
        }
        for (int64_t k = 0; k < p->cols && terms == TW_PACK_BYTES; k += block) {
            const int64_t end = k + block < p->cols ? k + block : p->cols;
            float most = 0x1p-100f;
            for (int64_t i = k; i < end; i++) most = fmaxf(most, fabsf(x[i]));
            for (int64_t i = k; i < end; i++) {
                const float rounded = rintf(x[i] * (127 / most)) * (most / 127);
                assert_true(fabsf(rounded - x[i]) <= most / 253);
                x[i] = rounded;
            }
        }
    }
}

/* Packed activations, with what they are rounded to in place of x if they have one term. Tiles of rows are packed one
   by one, as workers that share them do, and lie where they would if all were packed at once. */
static void check_packed(const tw_kernels *k, problem *p, int terms) {
    const int t = p->f.dtype;
    if (terms == TW_PACK_BYTES && t != TW_I8 && t != TW_I4) return;
    const size_t n = (size_t)(p->rows * p->ldy), bytes = k->gemm_pack_bytes(p->f, p->rows, p->cols, terms),
                 tile = k->gemm_pack_bytes(p->f, TW_PACKED_TILE, p->cols, terms);
    float *y = guard_make(n), *seen = guard_make(n);
    unsigned char *packed = aligned_make(bytes + 64), *scratch = aligned_make(k->gemm_packed_scratch(p->f));
    parts told = {p, y, seen};
    tw_gemm_sink sink = {take_part, &told};
    memset(packed + bytes, 0x5a, 64);
    for (int64_t m = 0; m < p->rows; m += TW_PACKED_TILE) {
        const int64_t rows = p->rows - m < TW_PACKED_TILE ? p->rows - m : TW_PACKED_TILE;
        k->gemm_pack(p->f, p->x + m * p->ldx, p->ldx, rows, p->cols, terms,
                     packed + (size_t)(m / TW_PACKED_TILE) * tile);
    }
    for (int i = 0; i < 64; i++) assert_int_equal(packed[bytes + (size_t)i], 0x5a);
    k->gemm_packed[t](p->f, p->packed, p->panels, p->cols, packed, p->rows, terms, y, p->ldy, &sink, scratch);
    assert_memory_equal(seen, y, n * sizeof *y);
    float *const given = p->x;
    p->x = guard_make((size_t)(p->rows * p->ldx));
    memcpy(p->x, given, (size_t)(p->rows * p->ldx) * sizeof *given);
    round_x(p, terms);
    for (int64_t m = 0; m < p->rows; m++)
        compare(p, y + m * p->ldy, m, "packed gemm", k->gemm_name[t], terms < 2 ? FLOATS : TWO_TERMS);
    guard_free(p->x, (size_t)(p->rows * p->ldx));
    p->x = given;
    guard_free(y, n);
    guard_free(seen, n);
    free(packed);
    free(scratch);
}

static void check_product(const tw_kernels *k, tw_panel_format f, int64_t panels, int64_t cols, int64_t rows, int kind,
                          tw_random *r) {
    problem p = problem_make(f, panels, cols, rows, kind, r);
    check_gemm(k, &p, (tw_gemm_blocking){0});
    if (p.cols > 256 || rows > 12) {
        const tw_gemm_blocking by = {256 * (1 + (int)tw_random_below(r, 4)), 12 * (1 + (int)tw_random_below(r, 8))};
        check_gemm(k, &p, by);
    }
    for (int terms = 2; terms >= 0 && k->gemm_packed[f.dtype]; terms--) check_packed(k, &p, terms);
    problem_free(&p);
}

static void gemv_agrees_with_the_exact_sums(void **state) {
    static const int64_t cols[] = {1, 8, 40, 64, 100, 136, 320, 1000};
    tw_random r = tw_random_seed(*(uint64_t *)*state);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int f = 0; f < FORMATS; f++)
            for (size_t c = 0; c < sizeof cols / sizeof *cols; c += TEST_SANITIZED ? 2 : 1)
                for (int kind = 0; kind < INPUT_KINDS; kind++) {
                    int64_t panels = 1 + (int64_t)tw_random_below(&r, 5);
                    problem p = problem_make(formats[f], panels, cols[c], 1, kind, &r);
                    check_gemv(&k, &p);
                    problem_free(&p);
                }
    }
}

static void gemm_agrees_with_the_exact_sums(void **state) {
    static const int64_t cols[] = {1, 40, 136, 320, 1100};
    tw_random r = tw_random_seed(*(uint64_t *)*state + 1);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int f = 0; f < FORMATS; f++)
            for (size_t c = 0; c < sizeof cols / sizeof *cols; c += TEST_SANITIZED ? 2 : 1)
                for (int kind = 0; kind < INPUT_KINDS; kind++) {
                    int64_t panels = 1 + (int64_t)tw_random_below(&r, 5), rows = 1 + (int64_t)tw_random_below(&r, 40);
                    check_product(&k, formats[f], panels, cols[c], rows, kind, &r);
                }
    }
}

/* Every number of rows up to past the largest register tile, and one that needs several blocks of rows. */
static void gemm_takes_any_number_of_rows(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state + 2);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int f = 0; f < FORMATS; f += 3)
            for (int64_t rows = 1; rows <= 36; rows += TEST_SANITIZED ? 5 : 1)
                check_product(&k, formats[f], 3, 72, rows == 36 ? 700 : rows, INPUT_NORMAL, &r);
    }
}

/* More columns, and more rows, than are computed at a time. */
static void gemm_takes_several_blocks(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state + 4);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int f = 0; f < FORMATS; f++) {
            check_product(&k, formats[f], 3, 2500, 5, INPUT_NORMAL, &r);
            check_product(&k, formats[f], 2, 600, 90, INPUT_MIXED, &r);
            check_product(&k, formats[f], 67, 48, 55, INPUT_NORMAL, &r);
        }
    }
}

/* The same of packed rows: in its row, and in no other. */
static void a_nan_shows_in_packed_rows(void **state) {
    enum { ROWS = 20, BAD = 17 };
    tw_random r = tw_random_seed(*(uint64_t *)*state + 5);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int f = 0; f < FORMATS; f++)
            for (int terms = 2; terms >= 0 && k.gemm_packed[formats[f].dtype]; terms--) {
                if (terms == TW_PACK_BYTES && formats[f].dtype != TW_I8 && formats[f].dtype != TW_I4) continue;
                problem p = problem_make(formats[f], 2, 256, ROWS, INPUT_NORMAL, &r);
                float y[ROWS * 32];
                void *packed = aligned_make(k.gemm_pack_bytes(p.f, ROWS, p.cols, terms)),
                     *scratch = aligned_make(k.gemm_packed_scratch(p.f));
                p.x[BAD * p.ldx + 77] = f % 2 ? NAN : -INFINITY;
                k.gemm_pack(p.f, p.x, p.ldx, ROWS, p.cols, terms, packed);
                k.gemm_packed[p.f.dtype](p.f, p.packed, 2, p.cols, packed, ROWS, terms, y, 32, NULL, scratch);
                for (int i = 0; i < ROWS * 32; i++)
                    if ((i / 32 == BAD) != !isfinite(y[i]))
                        fail_msg("row %d, terms %d: %g", i / 32, terms, (double)y[i]);
                free(packed);
                free(scratch);
                problem_free(&p);
            }
    }
}

/* What is not a number must show in every row that it enters, never as a plausible number. */
static void a_nan_in_x_shows(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state + 3);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int f = 0; f < FORMATS; f++) {
            problem p = problem_make(formats[f], 1, 256, 1, INPUT_NORMAL, &r);
            float y[16];
            int t = p.f.dtype;
            p.x[77] = NAN;
            unsigned char *x = aligned_make(k.prepared_bytes[t](p.f, p.cols));
            void *scratch = aligned_make(k.gemm_scratch[t](p.f, 1, p.cols, 1, (tw_gemm_blocking){0}));
            k.prepare[t](p.f, p.x, p.cols, x);
            k.gemv[t](p.f, p.packed, 1, p.cols, x, y);
            for (int i = 0; i < 16; i++) assert_true(isnan(y[i]));
            k.gemm[t](p.f, p.packed, 1, p.cols, p.x, p.ldx, 1, y, 16, (tw_gemm_blocking){0}, NULL, scratch);
            for (int i = 0; i < 16; i++) assert_true(isnan(y[i]));
            free(x);
            free(scratch);
            problem_free(&p);
        }
    }
}

/* A block's largest value comes out of a float product that may round up: many blocks, since few of them do. */
static void the_largest_of_every_block_fits(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state);
    for (int n = 0; n < (TEST_SANITIZED ? 300 : 3000); n++) {
        tw_panel_format f = {n % 2 ? TW_I8 : TW_I4, n % 2 ? 0 : 32};
        problem p = problem_make(f, 1, n % 2 ? 128 : 32, 1, INPUT_NORMAL, &r);
        tw_kernels k;
        for (int i = 0; i < CHECK_MASKS; i++)
            if (check_kernels(i, &k)) check_gemv(&k, &p);
        problem_free(&p);
    }
}

/* The variants of a mask are named after sets that the mask has. Filling in a set's variants runs code of that set:
   only masks that the processor has are tried. */
static void the_choice_stays_within_the_mask(void **state) {
    (void)state;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    for (uint32_t isa = 0; isa < 64; isa++) {
        tw_kernels k;
        uint32_t needs;
        if (isa & ~cpu.isa) continue;
        tw_kernels_choose(&k, isa);
        for (int t = 0; t < TW_DTYPE_COUNT; t++) {
            if (t == TW_I32) continue;
            if (strcmp(k.gemv_name[t], "c"))
                assert_true(tw_cpu_isa_parse(k.gemv_name[t], &needs) && (needs & ~isa) == 0);
            if (strcmp(k.gemm_name[t], "c"))
                assert_true(tw_cpu_isa_parse(k.gemm_name[t], &needs) && (needs & ~isa) == 0);
        }
    }
}

int main(void) {
    uint64_t seed = check_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(gemv_agrees_with_the_exact_sums, &seed),
        cmocka_unit_test_prestate(gemm_agrees_with_the_exact_sums, &seed),
        cmocka_unit_test_prestate(gemm_takes_any_number_of_rows, &seed),
        cmocka_unit_test_prestate(gemm_takes_several_blocks, &seed),
        cmocka_unit_test_prestate(a_nan_in_x_shows, &seed),
        cmocka_unit_test_prestate(a_nan_shows_in_packed_rows, &seed),
        cmocka_unit_test_prestate(the_largest_of_every_block_fits, &seed),
        cmocka_unit_test(the_choice_stays_within_the_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
