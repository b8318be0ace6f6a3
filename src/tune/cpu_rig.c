/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/cpu_rig.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/dtype.h"
#include "base/random.h"
#include "base/team.h"
#include "base/thread.h"

#include <cblas.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A sample is disturbed if threads waited for processors for more than this share of it. */
static const double DISTURBED = 0.02;
/* Where a smaller share of tries than this is undisturbed, samples are taken once: many tries would hardly help. */
static const double HOPELESS = 0.1;
static const double RECENT = 1.0 / 32; /* Weight of the latest try in that share. */

enum {
    LEAST_NS = 500000,      /* Shortest duration of a sample in nanoseconds. */
    REFERENCE_COLUMNS = 64, /* Columns of the reference that a team member computes at a time. */
    USUAL_L3 = 32 << 20     /* Bytes assumed for an L3 cache of unknown size. */
};

/* A growing buffer that is kept between problems. */
typedef struct room {
    void *at; /* 64-byte aligned. */
    size_t bytes;
} room;

static bool make_room(room *r, size_t bytes) {
    if (r->at && bytes <= r->bytes) return true;
    free(r->at);
    r->at = aligned_alloc(64, (bytes + 127) / 64 * 64);
    r->bytes = r->at ? bytes : 0;
    return r->at != NULL;
}

/* The data of one team member. */
typedef struct member {
    tw_vendor *vendor;
    room scratch;
    room narrow, wide; /* Rows of W as floats and as doubles. */
    room want;         /* Columns of the reference, doubles. */
    bool refused;      /* True: the vendor refused a tile of the current run. */
    bool failed;       /* True: memory ran out. */
    int delays;        /* The thread's account of run delay (tw_delay_open). */
} member;

struct tw_cpu_rig {
    tw_team *team;
    /* Processors that the thread which made the rig may use. While it samples, it stays on the first one. */
    int cpus[TW_TEAM_MOST];
    int n_cpus;   /* Number of processors. 0: the thread goes where the kernel puts it. */
    double quiet; /* Share of the recent tries that were undisturbed. */
    tw_kernels kernels;
    tw_panel_format weights;
    member *members;
    tw_cpu_rig_info info;
    char openblas[128], onednn[64];
    uint64_t seed;
    tw_tiled_problem p; /* The open problem. */
    room x, y;          /* The matrices x and y, floats. */
    size_t x_filled;    /* Number of floats of `x` that were drawn. Later problems keep them. */
    room panels;        /* Copies of W. Random floats serve problems of any shape. */
    size_t filled;      /* Bytes of `panels` that were drawn. Later problems keep them. */
    size_t copy_bytes;
    int copies, copy;       /* Number of copies of W, and the copy that the last sample used. */
    room wide_x;            /* x as doubles. */
    room x_size;            /* Norms of the rows of x, doubles. */
    room want;              /* The product, m x n doubles. */
    room tolerance;         /* The largest correct |y - want|, m x n floats. */
    tw_tiled_config config; /* The configuration of the current run. */
    tw_tiled_operands operands;
    int64_t tiles;
    _Atomic int64_t next;
};

/* ---- random matrices */

static bool is_float(const tw_cpu_rig *r) {
    return tw_dtype_bits(r->weights.dtype) >= 16;
}

/* Fills the rest of `panels` with random floats from -1 to 1. */
static void fill_floats(void *context, int index) {
    tw_cpu_rig *r = context;
    const size_t size = tw_dtype_bits(r->weights.dtype) / 8, n = (r->panels.bytes - r->filled) / size;
    const size_t members = (size_t)tw_team_size(r->team), first = n * (size_t)index / members;
    tw_random random = tw_random_seed(r->seed + (uint64_t)index);
    unsigned char *at = (unsigned char *)r->panels.at + r->filled;
    for (size_t i = first; i < n * (size_t)(index + 1) / members; i++) {
        const float value = (float)tw_random_unit(&random) * 2 - 1;
        tw_from_f32(r->weights.dtype, &value, at + i * size, 1);
    }
}

/* Fills the first copy's panels with random integers and scales. */
static void fill_integers(void *context, int index) {
    tw_cpu_rig *r = context;
    const tw_panel_format f = r->weights;
    const int64_t elements = TW_PANEL_ROWS * r->p.k;
    const int64_t scales = TW_PANEL_ROWS * (f.group ? (r->p.k + f.group - 1) / f.group : 1);
    unsigned char *data = malloc((size_t)elements), *at = r->panels.at;
    float *scale = malloc((size_t)scales * sizeof *scale);
    tw_random random = tw_random_seed(r->seed + (uint64_t)index);
    r->members[index].failed = !data || !scale;
    for (int64_t p = index; data && scale && p < r->p.n / TW_PANEL_ROWS; p += tw_team_size(r->team)) {
        for (int64_t i = 0; i < scales; i++) scale[i] = 0.01f + (float)tw_random_unit(&random) / 100;
        for (int64_t i = 0; i < elements; i++)
            data[i] = (unsigned char)(int8_t)((int)tw_random_below(&random, f.dtype == TW_I8 ? 256 : 16) -
                                              (f.dtype == TW_I8 ? 128 : 8));
        tw_panel_pack(f, r->p.k, TW_PANEL_ROWS, data, scale, at + (size_t)p * tw_panel_bytes(f, r->p.k));
    }
    free(data);
    free(scale);
}

static bool fill_weights(tw_cpu_rig *r) {
    const size_t bytes = (size_t)r->copies * r->copy_bytes;
    unsigned char *at = r->panels.at;
    bool good = true;
    if (!at || bytes > r->panels.bytes) r->filled = 0;
    if (!make_room(&r->panels, bytes)) return false;
    r->seed += TW_TEAM_MOST;
    if (is_float(r)) {
        if (!r->filled) tw_team_run(r->team, fill_floats, r);
        r->filled = r->panels.bytes;
        return true;
    }
    tw_team_run(r->team, fill_integers, r);
    for (int i = 0; i < tw_team_size(r->team); i++) good &= !r->members[i].failed;
    at = r->panels.at;
    for (int i = 1; i < r->copies; i++) memcpy(at + (size_t)i * r->copy_bytes, at, r->copy_bytes);
    return good;
}

static bool fill_x(tw_cpu_rig *r) {
    const size_t n = (size_t)(r->p.m * r->p.k);
    if (!r->x.at || n * sizeof(float) > r->x.bytes) r->x_filled = 0;
    if (!make_room(&r->x, n * sizeof(float)) || !make_room(&r->wide_x, n * sizeof(double)) ||
        !make_room(&r->x_size, (size_t)r->p.m * sizeof(double)))
        return false;
    float *x = r->x.at;
    double *wide = r->wide_x.at, *size = r->x_size.at;
    tw_random random = tw_random_seed(--r->seed);
    for (; r->x_filled < n; r->x_filled++) x[r->x_filled] = (float)tw_random_unit(&random) * 2 - 1;
    for (size_t i = 0; i < n; i++) wide[i] = (double)x[i];
    for (int64_t i = 0; i < r->p.m; i++) size[i] = cblas_dnrm2((int)r->p.k, wide + i * r->p.k, 1);
    return true;
}

/* ---- the reference */

/* Rounding of a correct sum at most, relative to the product of the norms. */
#define ROUNDINGS (16 * 0x1p-24)

/* Computes `columns` columns of the product and their tolerances. The sum of k roundings of random sign is about 2^-24
   times the product of the norms; no correct order of additions comes near sixteen times that. */
static void refer_to(tw_cpu_rig *r, const member *m, int64_t at, int64_t columns) {
    const tw_tiled_problem *p = &r->p;
    const unsigned char *panels = r->panels.at;
    const double *x_size = r->x_size.at;
    float *narrow = m->narrow.at, *tolerance = r->tolerance.at;
    double *wide = m->wide.at, *part = m->want.at, *want = r->want.at;
    panels += (size_t)(at / TW_PANEL_ROWS) * tw_panel_bytes(p->weights, p->k);
    tw_panel_unpack(p->weights, p->k, panels, columns / TW_PANEL_ROWS, narrow, p->k);
    for (int64_t i = 0; i < columns * p->k; i++) wide[i] = (double)narrow[i];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->m, (int)columns, (int)p->k, 1, r->wide_x.at, (int)p->k,
                wide, (int)p->k, 0, part, (int)columns);
    for (int64_t j = 0; j < columns; j++) {
        const double size = cblas_dnrm2((int)p->k, wide + j * p->k, 1);
        for (int64_t i = 0; i < p->m; i++) {
            want[i * p->n + at + j] = part[i * columns + j];
            tolerance[i * p->n + at + j] = (float)(ROUNDINGS * size * x_size[i] + 1e-30);
        }
    }
}

static void refer(void *context, int index) {
    tw_cpu_rig *r = context;
    member *m = &r->members[index];
    const size_t k = (size_t)r->p.k;
    m->failed = !make_room(&m->narrow, REFERENCE_COLUMNS * k * sizeof(float)) ||
                !make_room(&m->wide, REFERENCE_COLUMNS * k * sizeof(double)) ||
                !make_room(&m->want, REFERENCE_COLUMNS * (size_t)r->p.m * sizeof(double));
    for (int64_t at; !m->failed && (at = atomic_fetch_add(&r->next, REFERENCE_COLUMNS)) < r->p.n;)
        refer_to(r, m, at, r->p.n - at < REFERENCE_COLUMNS ? r->p.n - at : REFERENCE_COLUMNS);
}

tw_status tw_cpu_rig_open(tw_cpu_rig *r, int64_t m, int64_t n, int64_t k, tw_diag *diag) {
    if (n % TW_PANEL_ROWS)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "n=%lld is no multiple of %d", (long long)n, TW_PANEL_ROWS);
    const size_t l3 = r->info.cpu.l3_bytes > 0 ? (size_t)r->info.cpu.l3_bytes : USUAL_L3;
    const size_t cells = (size_t)(m * n);
    r->p = (tw_tiled_problem){m, n, k, r->weights};
    r->copy_bytes = (size_t)(n / TW_PANEL_ROWS) * tw_panel_bytes(r->weights, k);
    r->copies = 1 + (int)(2 * l3 / r->copy_bytes);
    r->copy = 0;
    bool good = fill_weights(r) && fill_x(r) && make_room(&r->y, cells * sizeof(float)) &&
                make_room(&r->want, cells * sizeof(double)) && make_room(&r->tolerance, cells * sizeof(float));
    r->next = 0;
    if (good) tw_team_run(r->team, refer, r);
    for (int i = 0; i < tw_team_size(r->team); i++) good = good && !r->members[i].failed;
    r->operands = (tw_tiled_operands){r->x.at, r->panels.at, r->y.at};
    return good ? TW_OK : tw_fail_memory(diag);
}

/* ---- runs */

tw_status tw_cpu_rig_set(tw_cpu_rig *r, const tw_tiled_config *c, tw_diag *diag) {
    const tw_status st = tw_tiled_space.legal(&r->info.any, c, diag);
    if (st != TW_OK) return st;
    const size_t bytes = tw_tiled_scratch(&r->kernels, &r->p, c);
    for (int i = 0; i < tw_team_size(r->team); i++) {
        r->members[i].refused = false;
        if (!make_room(&r->members[i].scratch, bytes)) return tw_fail_memory(diag);
    }
    r->config = *c;
    r->tiles = tw_tiled_count(&r->p, c);
    return TW_OK;
}

static void run_tiles(void *context, int index) {
    tw_cpu_rig *r = context;
    member *m = &r->members[index];
    for (int64_t i; (i = atomic_fetch_add(&r->next, 1)) < r->tiles;)
        if (!tw_tiled_run(&r->kernels, m->vendor, &r->p, &r->config, i, &r->operands, m->scratch.at)) m->refused = true;
}

static tw_status run(tw_cpu_rig *r, int copy, tw_diag *diag) {
    r->operands.panels = (const unsigned char *)r->panels.at + (size_t)copy * r->copy_bytes;
    r->next = 0;
    tw_team_run(r->team, run_tiles, r);
    for (int i = 0; i < tw_team_size(r->team); i++)
        if (r->members[i].refused) return tw_fail(diag, TW_ERR_UNSUPPORTED, "the library refused the product");
    return TW_OK;
}

tw_status tw_cpu_rig_check(tw_cpu_rig *r, tw_diag *diag) {
    const int64_t cells = r->p.m * r->p.n;
    const float *y = r->y.at, *tolerance = r->tolerance.at;
    const double *want = r->want.at;
    const double kept = r->config.by ? 0 : tw_kernel_unit_error(r->kernels.gemm_unit[r->p.weights.dtype]),
                 factor = 1 + kept / ROUNDINGS;
    int64_t wrong = 0, first = 0;
    memset(r->y.at, 0xff, (size_t)cells * sizeof *y);
    const tw_status st = run(r, 0, diag);
    if (st != TW_OK) return st;
    for (int64_t i = cells - 1; i >= 0; i--)
        if (!(fabs((double)y[i] - want[i]) <= factor * (double)tolerance[i])) {
            wrong++;
            first = i;
        }
    if (!wrong) return TW_OK;
    return tw_fail(diag, TW_ERR_MISMATCH, "%lld of %lld cells are wrong, the first is [%lld][%lld]: %g, not %g",
                   (long long)wrong, (long long)cells, (long long)(first / r->p.n), (long long)(first % r->p.n),
                   (double)y[first], want[first]);
}

/* Returns the run delay of all threads so far. */
static int64_t delay_of(const tw_cpu_rig *r) {
    int64_t sum = 0;
    for (int i = 0; i < tw_team_size(r->team); i++) sum += tw_delay_read(r->members[i].delays);
    return sum;
}

/* Takes a sample. *delay is the share of it that threads waited for processors. */
static tw_status take_sample(tw_cpu_rig *r, double *us, double *delay, tw_diag *diag) {
    const int64_t before = delay_of(r), start = tw_now_ns();
    int64_t runs = 0, now;
    do {
        r->copy = (r->copy + 1) % r->copies;
        const tw_status st = run(r, r->copy, diag);
        if (st != TW_OK) return st;
        runs++;
        now = tw_now_ns();
    } while (now - start < LEAST_NS);
    *us = (double)(now - start) * 1e-3 / (double)runs;
    *delay = (double)(delay_of(r) - before) / (double)(now - start);
    return TW_OK;
}

tw_status tw_cpu_rig_sample(tw_cpu_rig *r, double *us, tw_diag *diag) {
    double one, delay = 1;
    tw_status st = TW_OK;
    *us = (double)INFINITY;
    /* The other threads are pinned. One of them and this thread would share a processor else while another one is
       idle. */
    if (r->n_cpus) tw_pin_self(r->cpus[0]);
    const int tries = r->quiet < HOPELESS ? 1 : TW_CPU_RIG_TRIES;
    for (int i = 0; i < tries && st == TW_OK && delay > DISTURBED; i++) {
        st = take_sample(r, &one, &delay, diag);
        if (st != TW_OK) break;
        *us = delay > DISTURBED ? fmin(one, *us) : one;
        r->quiet += ((delay > DISTURBED ? 0 : 1) - r->quiet) * RECENT;
    }
    if (r->n_cpus) tw_pin_among(r->cpus, r->n_cpus);
    return st;
}

/* ---- making */

static void open_account(void *context, int index) {
    tw_cpu_rig *r = context;
    r->members[index].delays = tw_delay_open();
}

/* Lists the processors of the thread that samples, unless it is alone or threads outnumber processors. */
static void list_cpus(tw_cpu_rig *r) {
    const int threads = tw_team_size(r->team), n = tw_allowed_cpus(r->cpus, TW_TEAM_MOST);
    r->n_cpus = threads > 1 && threads <= n && n <= TW_TEAM_MOST ? n : 0;
}

tw_status tw_cpu_rig_make(tw_cpu_rig **out, tw_panel_format weights, int threads, tw_diag *diag) {
    tw_cpu_rig *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return tw_fail_memory(diag);
    tw_status st = tw_team_start(&r->team, threads, true, diag);
    if (st == TW_OK) {
        threads = tw_team_size(r->team);
        r->members = calloc((size_t)threads, sizeof *r->members);
        bool good = r->members != NULL;
        for (int i = 0; i < threads && good; i++) r->members[i].delays = -1;
        for (int i = 0; i < threads && good; i++) good = (r->members[i].vendor = tw_vendor_open()) != NULL;
        if (!good) st = tw_fail_memory(diag);
    }
    if (st != TW_OK) {
        tw_cpu_rig_free(r);
        return st;
    }
    tw_team_run(r->team, open_account, r);
    list_cpus(r);
    r->quiet = 1;
    r->weights = weights;
    r->seed = (uint64_t)tw_clock_ns();
    tw_cpu_detect(&r->info.cpu);
    tw_kernels_choose_products(&r->kernels, r->info.cpu.isa);
    tw_vendor_version(r->members[0].vendor, 0, r->openblas, sizeof r->openblas);
    r->info.threads = threads;
    r->info.any = (tw_tiled_context){&r->kernels, tw_vendor_count(r->members[0].vendor), {.weights = weights}};
    if (r->info.any.vendors > 1) tw_vendor_version(r->members[0].vendor, 1, r->onednn, sizeof r->onednn);
    r->info.openblas = r->openblas;
    r->info.onednn = r->onednn;
    *out = r;
    return TW_OK;
}

void tw_cpu_rig_free(tw_cpu_rig *r) {
    if (!r) return;
    for (int i = 0; r->members && i < tw_team_size(r->team); i++) {
        member *m = &r->members[i];
        tw_vendor_close(m->vendor);
        if (m->delays >= 0) close(m->delays);
        free(m->scratch.at);
        free(m->narrow.at);
        free(m->wide.at);
        free(m->want.at);
    }
    free(r->members);
    tw_team_stop(r->team);
    room *const rooms[] = {&r->x, &r->y, &r->panels, &r->wide_x, &r->x_size, &r->want, &r->tolerance};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]->at);
    free(r);
}

const tw_cpu_rig_info *tw_cpu_rig_describe(const tw_cpu_rig *r) {
    return &r->info;
}
