/* SPDX-License-Identifier: Apache-2.0 */
/* checkattention [--count N] [--seed N]: random attention with random configurations on the GPU against double
   precision. What fails is printed as a command that shows it again in the emulator; the last line is a summary in
   JSON. Exit status 1 when anything failed or was left out; 77 where there is no GPU. */
#include "base/clock.h"
#include "kernels/random_attention.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 128, SHOWN = 20, NO_GPU = 77, FEATURES = 100 };

typedef struct session {
    tw_cuda *cuda;
    const tw_target *target;
    tw_ptx_compiler compiler;
    uint64_t seed;
    int count, done, failed, skipped, of[FEATURES];
    bool dead; /* A kernel faulted, so that the device is of no more use to this process. */
} session;

typedef struct entry {
    attention_case what;
    tw_buf ptx;
} entry;

static void report(session *s, const attention_case *c, const char *message) {
    char text[900];
    if (s->failed++ >= SHOWN) return;
    attention_case_print(c, text, sizeof text);
    printf("%s --emulate\n  %s\n", text, message);
    fflush(stdout);
}

static void check_one(session *s, const attention_case *c, const tw_ptx_job *job) {
    tw_diag diag = job->diag;
    tw_attention_data d = {0};
    tw_status st = job->status;
    if (st == TW_OK) st = tw_attention_data_make(&d, &c->problem, c->seed, &diag);
    if (st == TW_OK) st = tw_attention_run(&d, &c->config, s->cuda, &job->cubin, NULL, 0, &diag);
    tw_attention_data_free(&d);
    s->done++;
    for (int f = 0; f < attention_features(); f++) s->of[f] += attention_has(c, f);
    if (st != TW_OK) report(s, c, diag.message);
    s->dead = st == TW_ERR_IO;
}

static void check_batch(session *s, entry *e, int n) {
    tw_ptx_job *jobs = calloc((size_t)n, sizeof *jobs);
    for (int i = 0; i < n && jobs; i++) {
        tw_diag d;
        e[i].ptx = (tw_buf){0};
        if (tw_attention_ptx(&e[i].what.problem, &e[i].what.config, s->target, &e[i].ptx, &d) != TW_OK)
            report(s, &e[i].what, d.message);
        jobs[i] = (tw_ptx_job){.ptx = e[i].ptx.data, .bytes = e[i].ptx.size};
    }
    if (jobs) tw_ptx_compile_all_by(&s->compiler, jobs, n, 0);
    for (int i = 0; i < n && jobs; i++) {
        if (!s->dead) check_one(s, &e[i].what, &jobs[i]);
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
            /* Most problems fill some blocks. Some fill the GPU. */
            const bool large = j % 8 == 0;
            const attention_limits most = {.queries = large ? 3000 : 400,
                                           .keys = large ? 5000 : 700,
                                           .heads = large ? 16 : 4,
                                           .batch = 3,
                                           .blocks = 132};
            if (attention_case_draw(&batch[n].what, number, s->target, &most))
                n++;
            else
                s->skipped++;
        }
        check_batch(s, batch, n);
    }
}

static void summarise(const session *s, double seconds) {
    const tw_cuda_info *info = tw_cuda_describe(s->cuda);
    json_t *covered = json_object();
    for (int i = 0; i < attention_features(); i++)
        json_object_set_new(covered, attention_feature_name(i), json_integer(s->of[i]));
    json_t *o = json_pack("{s:s, s:s, s:I, s:i, s:i, s:i, s:b, s:f, s:o}", "device", info->name, "driver", info->driver,
                          "seed", (json_int_t)s->seed, "checked", s->done, "failed", s->failed, "skipped", s->skipped,
                          "faulted", s->dead, "seconds", seconds, "covered", covered);
    char *line = json_dumps(o, JSON_REAL_PRECISION(5));
    if (line) puts(line);
    free(line);
    json_decref(o);
}

static bool parse(session *s, int argc, char **argv) {
    for (int i = 1; i < argc; i += 2) {
        char *end = NULL;
        const long long x = i + 1 < argc ? strtoll(argv[i + 1], &end, 10) : -1;
        if (x < 0 || *end) return false;
        if (!strcmp(argv[i], "--count"))
            s->count = (int)x;
        else if (!strcmp(argv[i], "--seed"))
            s->seed = (uint64_t)x;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv) {
    session s = {.count = 1000, .seed = 1};
    tw_diag d;
    if (!parse(&s, argc, argv)) {
        fprintf(stderr, "checkattention [--count N] [--seed N]\n");
        return 2;
    }
    if (tw_cuda_open(&s.cuda, 0, &d) != TW_OK) {
        fprintf(stderr, "checkattention: %s\n", d.message);
        return NO_GPU;
    }
    s.target = tw_cuda_describe(s.cuda)->target;
    s.compiler = tw_ptx_compiler_for(s.cuda, false);
    const int64_t begin = tw_now_ns();
    check_all(&s);
    summarise(&s, (double)(tw_now_ns() - begin) * 1e-9);
    tw_cuda_close(s.cuda);
    return s.failed > 0 || s.done == 0 || s.skipped * 10 > s.count;
}
