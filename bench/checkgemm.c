/* SPDX-License-Identifier: Apache-2.0 */
/* checkgemm [--count N] [--seed N] [--sanitize-friendly] [--warpgroups] [--list N]: random matrix products with random
   configurations on the GPU against sums in double precision. What fails is printed as a command that shows it again;
   the last line is a summary in JSON. Exit status 1 when anything failed or was left out, or nothing was checked; 77
   where there is no GPU. */
#include "base/clock.h"
#include "kernels/random_gemm.h"
#include "tune/gemm_search.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 128, SHOWN = 20, NO_GPU = 77, MOST_WORKSPACE = 1 << 30, LEAST_WORKSPACE = 256 };

typedef struct session {
    tw_cuda *cuda;
    const tw_target *target;
    tw_ptx_compiler compiler;
    uint64_t seed;
    int count;
    bool small, list, warpgroups; /* warpgroups: products on these alone */
    int of_type[TW_GEMM_TYPES], done, failed, skipped;
    bool dead; /* a kernel faulted: the device is of no more use to this process */
    gemm_coverage coverage;
    double compile_seconds;
} session;

typedef struct entry {
    gemm_case what;
    uint64_t number; /* What the case was drawn from. */
    tw_buf ptx;
} entry;

static gemm_limits limits_of(const session *s, uint64_t number) {
    if (s->small) return (gemm_limits){.m = 100, .n = 100, .k = 150, .parts = 6, .work = 1e15, .code = 512};
    /* Now and then, what deep splits are for. */
    if (number % 13 == 0) return (gemm_limits){.m = 96, .n = 96, .k = 20000, .parts = 200, .work = 1e15, .code = 1024};
    return (gemm_limits){.m = 600, .n = 600, .k = 600, .parts = 24, .work = 1e15, .code = number % 8 ? 512 : 4096};
}

static void report(session *s, const gemm_case *c, const char *message) {
    char text[800];
    if (s->failed++ >= SHOWN) return;
    gemm_case_print(c, text, sizeof text);
    printf("%s --run\n  %s\n", text, message);
    fflush(stdout);
}

/* Returns the bytes of workspace that a case is given: what it needs, and no more, so that memcheck sees what lies
   behind them. */
static int64_t workspace_of(const gemm_case *c) {
    tw_gemm_resources need;
    if (!tw_gemm_legal(&c->problem, &c->config, c->target, &need, NULL)) return LEAST_WORKSPACE;
    const int64_t bytes = need.workspace_bytes < MOST_WORKSPACE ? need.workspace_bytes : MOST_WORKSPACE;
    return bytes > LEAST_WORKSPACE ? bytes : LEAST_WORKSPACE;
}

static tw_status check_on_device(session *s, const gemm_case *c, const tw_cubin *cubin, tw_diag *diag) {
    tw_gemm_data d;
    tw_gemm_rig *rig = NULL;
    tw_gemm_own own = {0};
    tw_status st = tw_gemm_data_make(&d, &c->problem, c->seed, diag);
    if (st != TW_OK) return st;
    st = tw_gemm_rig_make_sets(&rig, s->cuda, &d, workspace_of(c), 1, diag);
    if (st == TW_OK) st = tw_gemm_own_load(&own, rig, &c->config, cubin->data, cubin->bytes, diag);
    if (st == TW_OK) {
        const tw_gemm_candidate x = tw_gemm_own_candidate(&own);
        st = tw_gemm_rig_check(rig, &x, diag);
    }
    tw_gemm_own_unload(&own);
    tw_gemm_rig_free(rig);
    tw_gemm_data_free(&d);
    return st;
}

static void leave_out(session *s, uint64_t number, const char *why) {
    fprintf(stderr, "checkgemm: case %llu is left out: %s\n", (unsigned long long)number, why);
    s->skipped++;
}

static void check_one(session *s, const entry *e, tw_ptx_job *job) {
    const gemm_case *c = &e->what;
    tw_diag d = {0};
    if (s->list) {
        char text[800];
        gemm_case_print(c, text, sizeof text);
        printf("%s --run\n", text);
        fflush(stdout);
    }
    tw_status st = job->status;
    if (st == TW_OK)
        st = check_on_device(s, c, &job->cubin, &d);
    else
        d = job->diag;
    if (st == TW_ERR_UNSUPPORTED) { /* more workspace than MOST_WORKSPACE */
        leave_out(s, e->number, d.message);
        return;
    }
    s->done++;
    s->of_type[c->problem.type]++;
    gemm_cover(&s->coverage, c);
    if (st != TW_OK) report(s, c, d.message);
    s->dead = st == TW_ERR_IO;
}

static void check_batch(session *s, entry *e, int n) {
    tw_ptx_job *jobs = calloc((size_t)n, sizeof *jobs);
    const int64_t begin = tw_now_ns();
    int good = 0;
    for (int i = 0; i < n && jobs; i++) {
        tw_diag d = {0};
        e[i].ptx = (tw_buf){0};
        if (tw_gemm_ptx(&e[i].what.problem, &e[i].what.config, e[i].what.target, &e[i].ptx, &d) != TW_OK) {
            report(s, &e[i].what, d.message);
            tw_buf_free(&e[i].ptx);
            continue;
        }
        e[good] = e[i];
        jobs[good] = (tw_ptx_job){.ptx = e[i].ptx.data, .bytes = e[i].ptx.size};
        good++;
    }
    if (jobs) tw_ptx_compile_all_by(&s->compiler, jobs, good, 0);
    s->compile_seconds += (double)(tw_now_ns() - begin) * 1e-9;
    for (int i = 0; i < good; i++) {
        if (!s->dead) check_one(s, &e[i], &jobs[i]);
        tw_cubin_free(&jobs[i].cubin);
        tw_buf_free(&e[i].ptx);
    }
    free(jobs);
}

static void check_all(session *s) {
    static entry batch[BATCH];
    for (int i = 0; i < s->count && !s->dead; i += BATCH) {
        int n = 0;
        for (int j = i; j < s->count && j < i + BATCH; j++) {
            const uint64_t number = s->seed * 1000000 + (uint64_t)j;
            const gemm_limits most = limits_of(s, number);
            batch[n].number = number;
            if ((s->warpgroups ? gemm_case_draw_warpgroups : gemm_case_draw)(&batch[n].what, number, s->target, &most))
                n++;
            else
                leave_out(s, number, "none of its draws is legal");
        }
        check_batch(s, batch, n);
    }
}

static void summarise(const session *s, double seconds) {
    const tw_cuda_info *info = tw_cuda_describe(s->cuda);
    json_t *types = json_object(), *covered = json_object();
    for (int i = 0; i < TW_GEMM_TYPES; i++)
        json_object_set_new(types, tw_gemm_types[i].name, json_integer(s->of_type[i]));
    for (int i = 0; i < gemm_features(); i++)
        json_object_set_new(covered, gemm_feature_name(i), json_integer(s->coverage.of[i]));
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:b, s:f, s:f, s:o, s:o}", "device", info->name, "driver",
                  info->driver, "target", s->target->name, "tilewright", TW_VERSION, "seed", (json_int_t)s->seed,
                  "checked", s->done, "failed", s->failed, "skipped", s->skipped, "faulted", s->dead, "seconds",
                  seconds, "compile_seconds", s->compile_seconds, "types", types, "covered", covered);
    char *line = json_dumps(o, JSON_REAL_PRECISION(5));
    if (line) puts(line);
    free(line);
    json_decref(o);
}

static bool parse(session *s, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--sanitize-friendly")) {
            s->small = true;
            continue;
        }
        if (!strcmp(argv[i], "--warpgroups")) {
            s->warpgroups = true;
            continue;
        }
        char *end;
        long long x = i + 1 < argc ? strtoll(argv[i + 1], &end, 10) : -1;
        if (x < 0 || *end) return false;
        if (!strcmp(argv[i], "--count")) {
            s->count = (int)x;
        } else if (!strcmp(argv[i], "--seed")) {
            s->seed = (uint64_t)x;
        } else if (!strcmp(argv[i], "--list")) {
            s->count = (int)x;
            s->small = s->list = true;
        } else {
            return false;
        }
        i++;
    }
    return true;
}

int main(int argc, char **argv) {
    session s = {.count = 2000, .seed = 1};
    tw_diag d;
    if (!parse(&s, argc, argv)) {
        fprintf(stderr, "checkgemm [--count N] [--seed N] [--sanitize-friendly] [--warpgroups] [--list N]\n");
        return 2;
    }
    if (tw_cuda_open(&s.cuda, 0, &d) != TW_OK) {
        fprintf(stderr, "checkgemm: %s\n", d.message);
        return NO_GPU;
    }
    s.target = tw_cuda_describe(s.cuda)->target;
    s.compiler = tw_ptx_compiler_for(s.cuda, false);
    const int64_t begin = tw_now_ns();
    check_all(&s);
    summarise(&s, (double)(tw_now_ns() - begin) * 1e-9);
    tw_cuda_close(s.cuda);
    const bool all = s.done > 0 && s.done + s.skipped == s.count;
    if (!all) fprintf(stderr, "checkgemm: of %d cases %d were checked and %d skipped\n", s.count, s.done, s.skipped);
    return s.failed > 0 || !all;
}
