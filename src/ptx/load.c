/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/load.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/thread.h"
#include "ir/verify.h"
#include "ptx/cache.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PATH = 4096,
    MAX_THREADS = 256,
    LOG_BYTES = 8 << 10,
};

void tw_cubin_free(tw_cubin *c) {
    free(c->data);
    *c = (tw_cubin){0};
}

/* ---- what compilers say ---- */

/* The number before `words`; -1 when they are not there. */
static int number_at(const char *log, const char *words) {
    const char *at = strstr(log, words);
    if (!at) return -1;
    while (at > log && at[-1] == ' ') at--;
    if (at == log || !isdigit((unsigned char)at[-1])) return -1;
    while (at > log && isdigit((unsigned char)at[-1])) at--;
    return atoi(at);
}

/* Both compilers' words: "Used 32 registers", "8 bytes spill stores". */
static void read_log(const char *log, tw_cubin *out) {
    out->registers = number_at(log, " registers");
    out->spill_bytes = number_at(log, " bytes spill stores");
}

/* The line that says what is wrong: the first with "error", else with "fatal", else the first. */
static tw_status complain(const char *log, tw_diag *diag) {
    const char *at = strstr(log, "error");
    if (!at) at = strstr(log, "fatal");
    if (!at) at = log + strspn(log, " \t\r\n");
    while (at > log && at[-1] != '\n') at--;
    size_t n = strcspn(at, "\r\n");
    if (n == 0) return TW_ERR_FORMAT; /* the diagnostic as it was */
    return tw_fail(diag, TW_ERR_FORMAT, "%.*s", (int)(n < 1000 ? n : 1000), at);
}

/* ---- machine code that there is ---- */

tw_cubin_key tw_machine_code_name(const char *ptx, size_t bytes, const char *target) {
    return tw_cubin_name(ptx, bytes, target, "");
}

bool tw_is_machine_code(const void *data, size_t bytes) {
    static const char elf[] = "\177ELF";
    return bytes >= sizeof elf - 1 && !memcmp(data, elf, sizeof elf - 1);
}

/* ---- one compilation ---- */

/* A compiler made ready once for all jobs. */
typedef struct maker {
    tw_cuda *cuda;
    const char *target;
    char ptxas[MAX_PATH]; /* "": the driver */
    char compiler[MAX_PATH + 128];
    char folder[MAX_PATH]; /* "": nothing is remembered */
} maker;

static tw_status maker_set(maker *m, const tw_ptx_compiler *by, tw_diag *diag) {
    m->cuda = by->cuda;
    m->target = by->target ? by->target : by->cuda ? tw_cuda_describe(by->cuda)->target->name : NULL;
    m->ptxas[0] = m->folder[0] = 0;
    if (!m->target) return tw_fail(diag, TW_ERR_USAGE, "neither a GPU nor a target to compile for");
    if (by->ptxas) {
        if (!tw_ptxas_find(by->ptxas, m->ptxas, sizeof m->ptxas) ||
            !tw_ptxas_identify(m->ptxas, m->compiler, sizeof m->compiler))
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s: no such program to compile PTX with", by->ptxas);
    } else if (by->cuda) {
        snprintf(m->compiler, sizeof m->compiler, "driver %s", tw_cuda_describe(by->cuda)->driver);
    } else {
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "no GPU, and no ptxas to compile PTX with");
    }
    if (by->remember && !tw_cubin_folder(m->folder, sizeof m->folder)) m->folder[0] = 0;
    return TW_OK;
}

/* The driver's linker ignores setmaxnreg, since it compiles units that others may call: sums then spill, and a product
   takes twenty times as long. Modules that the driver loads as text keep it. */
static bool must_stay_text(const char *ptx, size_t bytes) {
    static const char word[] = "setmaxnreg.";
    const size_t n = sizeof word - 1;
    for (const char *at = ptx, *end = ptx + bytes; (at = memchr(at, *word, (size_t)(end - at))); at++)
        if ((size_t)(end - at) >= n && !memcmp(at, word, n)) return true;
    return false;
}

static tw_status keep_text(const char *ptx, size_t bytes, tw_cubin *out, tw_diag *diag) {
    char *text = malloc(bytes + 1);
    if (!text) return tw_fail_memory(diag);
    memcpy(text, ptx, bytes);
    text[bytes] = 0;
    out->data = text;
    out->bytes = bytes + 1;
    out->registers = out->spill_bytes = -1;
    return TW_OK;
}

static tw_status make_by_driver(const maker *m, const char *ptx, size_t bytes, tw_cubin *out, tw_diag *diag) {
    if (must_stay_text(ptx, bytes)) return keep_text(ptx, bytes, out, diag);
    char *log = malloc(LOG_BYTES);
    if (!log) return tw_fail_memory(diag);
    tw_status st = tw_cuda_assemble(m->cuda, ptx, bytes, &out->data, &out->bytes, log, LOG_BYTES, diag);
    if (st == TW_OK)
        read_log(log, out);
    else if (st == TW_ERR_FORMAT)
        st = complain(log, diag);
    free(log);
    return st;
}

static tw_status make_by_ptxas(const maker *m, const char *ptx, size_t bytes, tw_cubin *out, tw_diag *diag) {
    tw_buf cubin = {0}, log = {0};
    tw_status st = tw_ptxas_run(m->ptxas, m->target, ptx, bytes, &cubin, &log, diag);
    if (st == TW_OK && cubin.size == 0) st = tw_fail_at(diag, TW_ERR_IO, m->ptxas, -1, "wrote no machine code");
    if (st == TW_ERR_FORMAT && log.size) st = complain(log.data, diag);
    if (st == TW_OK) {
        read_log(log.size ? log.data : "", out);
        out->data = cubin.data;
        out->bytes = cubin.size;
        cubin = (tw_buf){0};
    }
    tw_buf_free(&cubin);
    tw_buf_free(&log);
    return st;
}

static tw_status make(const maker *m, const char *ptx, size_t bytes, tw_cubin *out, tw_diag *diag) {
    int64_t start = tw_now_ns();
    tw_status st = TW_OK;
    tw_cubin_key key = {{0}};
    if (*m->folder) key = tw_cubin_name(ptx, bytes, m->target, m->compiler);
    if (!*m->folder || !tw_cubin_recall(m->folder, key, out)) {
        *out = (tw_cubin){0};
        st = (*m->ptxas ? make_by_ptxas : make_by_driver)(m, ptx, bytes, out, diag);
        if (st == TW_OK && *m->folder) tw_cubin_remember(m->folder, key, out);
    }
    out->seconds = (double)(tw_now_ns() - start) * 1e-9;
    return st;
}

tw_ptx_compiler tw_ptx_compiler_for(tw_cuda *c, bool remember) {
    const char *ptxas = getenv("TILEWRIGHT_PTXAS");
    return (tw_ptx_compiler){.cuda = c, .ptxas = ptxas && *ptxas ? ptxas : NULL, .remember = remember};
}

tw_status tw_ptx_compile_by(const tw_ptx_compiler *by, const char *ptx, size_t bytes, tw_cubin *out, tw_diag *diag) {
    *out = (tw_cubin){0};
    maker *m = malloc(sizeof *m);
    if (!m) return tw_fail_memory(diag);
    tw_status st = maker_set(m, by, diag);
    if (st == TW_OK) st = make(m, ptx, bytes, out, diag);
    free(m);
    return st;
}

tw_status tw_ptx_compile(tw_cuda *c, const char *ptx, size_t bytes, bool remember, tw_cubin *out, tw_diag *diag) {
    tw_ptx_compiler by = tw_ptx_compiler_for(c, remember);
    return tw_ptx_compile_by(&by, ptx, bytes, out, diag);
}

/* ---- which compiler ---- */

/* Tells whether the device loads what a program makes. */
static bool loads(const tw_ptx_compiler *by) {
    const tw_target *t = tw_cuda_describe(by->cuda)->target;
    tw_kernel *k = tw_kernel_new("probe", t->sm, 32);
    tw_cuda_module *m = NULL;
    const bool good = k && tw_kernel_verify(k, t->sm, NULL) == TW_OK && tw_ptx_load(by, k, &m, NULL, NULL) == TW_OK;
    tw_cuda_unload(m);
    tw_kernel_free(k);
    return good;
}

tw_ptx_compiler tw_ptx_compiler_for_many(tw_cuda *c) {
    static const char *const programs[] = {"ptxas", "/usr/local/cuda/bin/ptxas"};
    const tw_ptx_compiler usual = tw_ptx_compiler_for(c, true);
    for (size_t i = 0; i < sizeof programs / sizeof *programs && !usual.ptxas; i++) {
        tw_ptx_compiler by = usual;
        by.ptxas = programs[i];
        if (loads(&by)) return by;
    }
    return usual;
}

/* ---- many ---- */

struct tw_ptx_crew {
    maker maker;
    tw_ptx_job *jobs;
    int n, started;
    pthread_t helpers[MAX_THREADS];
    _Atomic int next;
    _Atomic bool stopped; /* Jobs that were not begun are left out. */
    _Atomic bool out_of_memory;
    _Atomic uint32_t finished; /* Number of jobs that are done. */
    _Atomic uint32_t *done;    /* By job: it is done. */
};

/* Prints a job's text, unless it has one, and compiles it. */
static tw_status make_job(const maker *m, tw_ptx_job *j) {
    tw_buf text = {0};
    const int64_t began = tw_now_ns();
    tw_status st = j->ptx ? TW_OK : j->print(j->context, &text, &j->diag);
    j->print_seconds = (double)(tw_now_ns() - began) * 1e-9;
    if (st == TW_OK) st = make(m, j->ptx ? j->ptx : text.data, j->ptx ? j->bytes : text.size, &j->cubin, &j->diag);
    tw_buf_free(&text);
    return st;
}

/* Does the next job. False: none is left. */
static bool work_once(tw_ptx_crew *c) {
    const int i = atomic_load(&c->stopped) ? c->n : atomic_fetch_add(&c->next, 1);
    if (i >= c->n) return false;
    tw_ptx_job *j = &c->jobs[i];
    tw_diag_clear(&j->diag);
    j->status = atomic_load(&c->out_of_memory) ? tw_fail_memory(&j->diag) : make_job(&c->maker, j);
    if (j->status == TW_ERR_MEMORY) atomic_store(&c->out_of_memory, true);
    atomic_store(&c->done[i], 1);
    atomic_fetch_add(&c->finished, 1);
    tw_wake_all(&c->finished);
    return true;
}

static void *work(void *context) {
    while (work_once(context)) continue;
    return NULL;
}

tw_status tw_ptx_crew_start(tw_ptx_crew **out, const tw_ptx_compiler *by, tw_ptx_job *jobs, int n, int threads,
                            tw_diag *diag) {
    tw_ptx_crew *c = *out = calloc(1, sizeof *c);
    if (!c) return tw_fail_memory(diag);
    for (int i = 0; i < n; i++) jobs[i].cubin = (tw_cubin){0};
    c->jobs = jobs;
    c->n = n;
    c->done = calloc((size_t)n + 1, sizeof *c->done);
    const tw_status st = c->done ? maker_set(&c->maker, by, diag) : tw_fail_memory(diag);
    if (st != TW_OK) {
        tw_ptx_crew_end(c);
        *out = NULL;
        return st;
    }
    if (threads <= 0) threads = tw_allowed_cpus(NULL, 0);
    if (threads > n) threads = n;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    /* The thread that waits is one of them. With fewer than asked for it only takes longer. */
    while (c->started < threads - 1 && pthread_create(&c->helpers[c->started], NULL, work, c) == 0) c->started++;
    return TW_OK;
}

void tw_ptx_crew_wait(tw_ptx_crew *c, int i) {
    while (!atomic_load(&c->done[i])) {
        if (work_once(c)) continue;
        const uint32_t seen = atomic_load(&c->finished);
        if (!atomic_load(&c->done[i])) tw_sleep_on(&c->finished, seen);
    }
}

void tw_ptx_crew_end(tw_ptx_crew *c) {
    if (!c) return;
    atomic_store(&c->stopped, true);
    for (int i = 0; i < c->started; i++) pthread_join(c->helpers[i], NULL);
    free(c->done);
    free(c);
}

void tw_ptx_compile_all_by(const tw_ptx_compiler *by, tw_ptx_job *jobs, int n, int threads) {
    tw_ptx_crew *c;
    tw_diag why;
    const tw_status st = tw_ptx_crew_start(&c, by, jobs, n, threads, &why);
    for (int i = 0; i < n; i++) {
        if (st == TW_OK) {
            tw_ptx_crew_wait(c, i);
        } else {
            jobs[i].status = st;
            jobs[i].diag = why;
        }
    }
    if (st == TW_OK) tw_ptx_crew_end(c);
}

void tw_ptx_compile_all(tw_cuda *c, tw_ptx_job *jobs, int n, int threads, bool remember) {
    tw_ptx_compiler by = tw_ptx_compiler_for(c, remember);
    tw_ptx_compile_all_by(&by, jobs, n, threads);
}

tw_status tw_ptx_load(const tw_ptx_compiler *by, tw_kernel *k, tw_cuda_module **out, tw_cubin *cubin, tw_diag *diag) {
    tw_buf ptx = {0};
    tw_cubin own = {0};
    *out = NULL;
    tw_status st = tw_ptx_print(&ptx, k, tw_cuda_describe(by->cuda)->target, diag);
    if (st == TW_OK) st = tw_ptx_compile_by(by, ptx.data, ptx.size, &own, diag);
    if (st == TW_OK)
        st = tw_cuda_load(by->cuda, out, own.data, own.bytes, k->name, tw_kernel_shared_layout(k, NULL), diag);
    if (cubin) {
        *cubin = own;
        cubin->data = NULL;
        cubin->bytes = 0;
    }
    tw_cubin_free(&own);
    tw_buf_free(&ptx);
    return st;
}
