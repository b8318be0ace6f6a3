/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/team.h"

#include "base/diag.h"
#include "base/thread.h"

#include <stdlib.h>

enum { SPINS = 2000 /* About 50 us of pauses before a thread sleeps. */ };

typedef struct member {
    tw_team *team;
    int index;
    int cpu; /* The processor that it is pinned to. -1: any. */
    pthread_t thread;
} member;

struct tw_team {
    int size;
    int started; /* Members whose thread runs, member 0 included. */
    member *members;
    void (*work)(void *context, int member);
    void *context;
    bool quit;
    _Atomic uint32_t runs; /* The number of runs that have begun. */
    _Atomic uint32_t done; /* The number of members that have ended a run, over all runs. Member 0 does not count. */
};

/* Waits until *word is no longer `old`. */
static void wait_change(_Atomic uint32_t *word, uint32_t old) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(word) != old) return;
        tw_cpu_relax();
    }
    while (atomic_load(word) == old) tw_sleep_on(word, old);
}

static void *member_main(void *argument) {
    const member *m = argument;
    tw_team *t = m->team;
    if (m->cpu >= 0) tw_pin_self(m->cpu);
    for (uint32_t seen = 0;; seen++) {
        wait_change(&t->runs, seen);
        if (t->quit) return NULL;
        t->work(t->context, m->index);
        atomic_fetch_add(&t->done, 1);
        tw_wake_all(&t->done);
    }
}

tw_status tw_team_start(tw_team **out, int threads, tw_diag *diag) {
    *out = NULL;
    if (threads < 0 || threads > TW_TEAM_MOST)
        return tw_fail(diag, TW_ERR_USAGE, "%d threads: 1 to %d are possible, 0 for all processors", threads,
                       TW_TEAM_MOST);
    tw_team *t = calloc(1, sizeof *t);
    int *cpus = malloc(TW_TEAM_MOST * sizeof *cpus);
    const int n = cpus ? tw_allowed_cpus(cpus, TW_TEAM_MOST) : 0;
    if (!threads) threads = n < 1 ? 1 : n < TW_TEAM_MOST ? n : TW_TEAM_MOST;
    if (t) t->members = calloc((size_t)threads, sizeof *t->members);
    tw_status st = t && cpus && t->members ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) t->size = 1;
    for (int i = 1; i < threads && st == TW_OK; i++) {
        member *m = &t->members[i];
        /* With more threads than processors, pinned threads would share one while another is idle. */
        *m = (member){.team = t, .index = i, .cpu = threads <= n ? cpus[i] : -1};
        if (pthread_create(&m->thread, NULL, member_main, m) == 0)
            t->size++;
        else
            st = tw_fail(diag, TW_ERR_MEMORY, "cannot start thread %d of %d", i, threads);
    }
    free(cpus);
    if (st != TW_OK) {
        tw_team_stop(t);
        return st;
    }
    *out = t;
    return TW_OK;
}

void tw_team_stop(tw_team *t) {
    if (!t) return;
    t->quit = true;
    atomic_fetch_add(&t->runs, 1);
    tw_wake_all(&t->runs);
    for (int i = 1; i < t->size; i++) pthread_join(t->members[i].thread, NULL);
    free(t->members);
    free(t);
}

int tw_team_size(const tw_team *t) {
    return t->size;
}

void tw_team_run(tw_team *t, void (*work)(void *context, int member), void *context) {
    const uint32_t end = atomic_load(&t->done) + (uint32_t)(t->size - 1);
    t->work = work;
    t->context = context;
    atomic_fetch_add(&t->runs, 1);
    tw_wake_all(&t->runs);
    work(context, 0);
    for (uint32_t done; (done = atomic_load(&t->done)) != end;) wait_change(&t->done, done);
}
