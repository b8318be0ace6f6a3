/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Times configurations of products on a GPU, without a check of their results:

     bench_tiles [--seconds N] <lines >>log

   A line has a name, the words of a product, and those of a configuration, without its stages, which are the most that
   are legal. Without its way to store C ("staged=") it has the most direct one (tw_prefill_complete). Lines of one name
   follow one another. A line of the log is a whole configuration with its time, "us=...", and the log is flushed after
   each product. Kernels of several products are compiled once. TILEWRIGHT_PTXAS names a compiler that is asked in
   parallel.

   Exit 1: something failed. 3: time was up before all products were timed. */
#include "base/clock.h"
#include "base/diag.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "tune/gemm_rig.h"
#include "vm/prefill/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL (1600LL << 20)

enum { LINE = 1024, MOST = 512 /* Configurations of a product. */, WORKSPACE = 64 << 20, SAMPLES = 3 };

typedef struct kernel {
    struct kernel *next;
    tw_gemm_variant variant;
    tw_gemm_config config;
    tw_cubin cubin;
} kernel;

typedef struct session {
    tw_cuda *cuda;
    tw_ptx_compiler compiler;
    tw_gemm_pool *pool;
    kernel *kernels;
    double compiling; /* Seconds. */
} session;

typedef struct product {
    char name[64];
    tw_gemm_problem problem;
    tw_gemm_config configs[MOST];
    const kernel *of[MOST];
    int n;
} product;

/* Takes the most stages with which a configuration is legal. False: it is with none. */
static bool complete(const tw_gemm_problem *p, const tw_target *target, tw_gemm_config *c) {
    enum { MOST_STAGES = 16 };
    if (c->staged < 0) return tw_prefill_complete(p, target, c);
    for (c->stages = MOST_STAGES; c->stages >= 2; c->stages--)
        if (tw_gemm_legal(p, c, target, NULL, NULL)) return true;
    return false;
}

/* Reads a line into the product. Returns false if it is of another product, or of none. *st is an error of the line. */
static bool read_line(const session *s, char *line, product *p, tw_status *st, tw_diag *diag) {
    char *save = NULL, *name = strtok_r(line, " \n", &save);
    *st = TW_OK;
    if (!name || *name == '#') return true;
    if (p->n && strcmp(p->name, name) != 0) return false;
    tw_gemm_problem q = {.type = TW_GEMM_BF16, .alpha = 1};
    tw_gemm_config c = {.ks = 1, .kl = 1, .kg = 1, .vec = 16, .frag = 16, .group = 1, .stages = 2, .staged = -1};
    for (const char *word = strtok_r(NULL, " \n", &save); word && *st == TW_OK; word = strtok_r(NULL, " \n", &save))
        if (!tw_gemm_problem_word(&q, word, st, diag) && *st == TW_OK) *st = tw_gemm_config_parse(&c, word, diag);
    if (*st == TW_OK) *st = tw_gemm_problem_complete(&q, diag);
    if (*st != TW_OK) return true;
    c.ns = c.nl;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->problem = q;
    if (p->n < MOST && complete(&q, tw_cuda_describe(s->cuda)->target, &c)) p->configs[p->n++] = c;
    return true;
}

static kernel *find(const session *s, const tw_gemm_variant *v, const tw_gemm_config *c) {
    kernel *k = s->kernels;
    while (k && (memcmp(&k->variant, v, sizeof *v) != 0 || memcmp(&k->config, c, sizeof *c) != 0)) k = k->next;
    return k;
}

/* Compiles the kernels that no product before had. */
static tw_status compile(session *s, product *p, tw_diag *diag) {
    static tw_buf ptx[MOST];
    static tw_ptx_job jobs[MOST];
    static kernel *made[MOST];
    const int64_t begin = tw_now_ns();
    int n = 0;
    tw_status st = TW_OK;
    for (int i = 0; i < p->n && st == TW_OK; i++) {
        const tw_gemm_config *c = &p->configs[i];
        const tw_gemm_variant v = tw_gemm_variant_of(&p->problem, c);
        p->of[i] = find(s, &v, c);
        if (p->of[i]) continue;
        kernel *k = calloc(1, sizeof *k);
        if (!k) return tw_fail_memory(diag);
        memcpy(&k->variant, &v, sizeof v);
        memcpy(&k->config, c, sizeof *c);
        k->next = s->kernels;
        p->of[i] = s->kernels = made[n] = k;
        ptx[n] = (tw_buf){0};
        st = tw_gemm_ptx(&p->problem, c, tw_cuda_describe(s->cuda)->target, &ptx[n], diag);
        jobs[n] = (tw_ptx_job){.ptx = ptx[n].data, .bytes = ptx[n].size};
        n++;
    }
    if (st == TW_OK) tw_ptx_compile_all_by(&s->compiler, jobs, n, 0);
    for (int i = 0; i < n; i++) {
        if (st == TW_OK && jobs[i].status != TW_OK) fprintf(stderr, "bench_tiles: %s\n", jobs[i].diag.message);
        made[i]->cubin = jobs[i].cubin;
        tw_buf_free(&ptx[i]);
    }
    s->compiling += (double)(tw_now_ns() - begin) * 1e-9;
    return st;
}

/* Times a configuration: the least of the samples, in microseconds. */
static tw_status time_one(tw_gemm_rig *rig, const tw_gemm_config *c, const tw_cubin *cubin, double *us, tw_diag *diag) {
    tw_gemm_own own = {0};
    tw_cuda_timer *timer = NULL;
    tw_status st = tw_gemm_own_load(&own, rig, c, cubin->data, cubin->bytes, diag);
    const tw_gemm_candidate x = tw_gemm_own_candidate(&own);
    if (st == TW_OK) st = tw_gemm_rig_timer(rig, &x, 1, &timer, diag);
    if (st == TW_OK) st = tw_cuda_timer_sample(timer, us, diag);
    /* Short launches are repeated so that a sample is longer than what the clock can tell. */
    const int rounds = st == TW_OK ? tw_gemm_rig_rounds(rig, *us) : 1;
    if (st == TW_OK && rounds > 1) {
        tw_cuda_timer_free(timer);
        timer = NULL;
        st = tw_gemm_rig_timer(rig, &x, rounds, &timer, diag);
    }
    *us = 1e30;
    for (int i = 0; i < SAMPLES && st == TW_OK; i++) {
        double one;
        st = tw_cuda_timer_sample(timer, &one, diag);
        if (st == TW_OK && one < *us) *us = one;
    }
    tw_cuda_timer_free(timer);
    tw_gemm_own_unload(&own);
    return st;
}

static tw_status run_product(session *s, product *p, tw_diag *diag) {
    tw_gemm_rig *rig = NULL;
    char problem[400], config[300];
    tw_status st = compile(s, p, diag);
    if (st == TW_OK) st = tw_gemm_rig_make_timed(&rig, s->cuda, s->pool, &p->problem, WORKSPACE, diag);
    tw_gemm_problem_print(&p->problem, problem, sizeof problem);
    for (int i = 0; i < p->n && st == TW_OK; i++) {
        double us;
        if (!p->of[i]->cubin.data) continue;
        const tw_status timed = time_one(rig, &p->configs[i], &p->of[i]->cubin, &us, diag);
        tw_gemm_config_print(&p->configs[i], config, sizeof config);
        if (timed == TW_OK) printf("%s %s %s us=%.3f\n", p->name, problem, config, us);
        if (timed != TW_OK) fprintf(stderr, "bench_tiles: %s %s: %s\n", p->name, config, diag->message);
        if (timed == TW_ERR_IO) st = timed; /* The device faulted. */
    }
    fflush(stdout);
    if (rig) tw_gemm_rig_free(rig);
    return st;
}

int main(int argc, char **argv) {
    static product p;
    session s = {0};
    tw_diag diag = {0};
    char line[LINE], again[LINE];
    const double seconds = argc == 3 && !strcmp(argv[1], "--seconds") ? atof(argv[2]) : 1e9;
    const int64_t begin = tw_now_ns();
    bool up = false;
    tw_status st = tw_cuda_open(&s.cuda, 0, &diag), of_line = TW_OK;
    if (st == TW_OK) s.compiler = tw_ptx_compiler_for(s.cuda, false);
    if (st == TW_OK) st = tw_gemm_pool_make(&s.pool, s.cuda, TW_GEMM_BF16, POOL, 1, &diag);
    while (st == TW_OK && !up && fgets(line, sizeof line, stdin)) {
        snprintf(again, sizeof again, "%s", line);
        if (!read_line(&s, line, &p, &of_line, &diag)) {
            st = run_product(&s, &p, &diag);
            p.n = 0;
            read_line(&s, again, &p, &of_line, &diag);
            up = (double)(tw_now_ns() - begin) * 1e-9 > seconds;
        }
        if (of_line != TW_OK) st = of_line;
    }
    if (st == TW_OK && !up && p.n) st = run_product(&s, &p, &diag);
    if (st != TW_OK) fprintf(stderr, "bench_tiles: %s\n", diag.message);
    fprintf(stderr, "bench_tiles: %.1f s, of which %.1f compiling\n", (double)(tw_now_ns() - begin) * 1e-9,
            s.compiling);
    while (s.kernels) {
        kernel *next = s.kernels->next;
        tw_cubin_free(&s.kernels->cubin);
        free(s.kernels);
        s.kernels = next;
    }
    tw_gemm_pool_free(s.pool);
    if (s.cuda) tw_cuda_close(s.cuda);
    return st != TW_OK ? 1 : up ? 3 : 0;
}
