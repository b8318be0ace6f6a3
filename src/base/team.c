/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/team.h"

#include "base/counter.h"
#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

typedef struct member {
    tw_team *team;
    int index;
    int cpu; /* The processor that it is pinned to. -1: any. */
    pthread_t thread;
} member;

struct tw_team {
    tw_counter_cell launch; /* Number of launches. Members wait for the next one. */
    tw_counter_cell idle;   /* Number of calls that members other than 0 have finished. */
    uint32_t launches;      /* Number of launches. Only member 0 accesses it. */
    int size;               /* Members whose thread runs, member 0 included. */
    member *members;
    int *cpus;    /* Those that this process may use. Member i may be pinned to the i-th. */
    int n_pinned; /* Members that are pinned: those from 1 on, or none. */
    /* Member 0 writes these fields while every other member is idle. */
    void (*work)(void *context, int member);
    void *context; /* Passed to `work`. */
    bool quit;     /* True: the launch ends the members. */
};

static void *member_main(void *argument) {
    const member *m = argument;
    tw_team *t = m->team;
    if (m->cpu >= 0) tw_pin_self(m->cpu);
    for (uint32_t seen = 1;; seen++) {
        tw_counter_wait(&t->launch, seen, NULL, NULL);
        if (t->quit) return NULL;
        t->work(t->context, m->index);
        tw_counter_arrive(&t->idle);
    }
}

tw_status tw_team_start(tw_team **out, int threads, bool pin, tw_diag *diag) {
    *out = NULL;
    if (threads < 0 || threads > TW_TEAM_MOST)
        return tw_fail(diag, TW_ERR_USAGE, "%d threads: 1 to %d are possible, 0 for all processors", threads,
                       TW_TEAM_MOST);
    tw_team *t = aligned_alloc(_Alignof(tw_team), sizeof *t);
    if (!t) return tw_fail_memory(diag);
    memset(t, 0, sizeof *t);
    t->size = 1;
    t->cpus = malloc(TW_TEAM_MOST * sizeof *t->cpus);
    const int n = t->cpus ? tw_allowed_cpus(t->cpus, TW_TEAM_MOST) : 0;
    if (!threads) threads = n < 1 ? 1 : n < TW_TEAM_MOST ? n : TW_TEAM_MOST;
    t->members = calloc((size_t)threads, sizeof *t->members);
    /* Threads are pinned only if each has a processor of its own. Otherwise two pinned threads might share a processor
       while another one is idle. */
    t->n_pinned = pin && threads <= n ? threads - 1 : 0;
    tw_status st = t->cpus && t->members ? TW_OK : tw_fail_memory(diag);
    for (int i = 1; i < threads && st == TW_OK; i++) {
        member *m = &t->members[i];
        *m = (member){.team = t, .index = i, .cpu = t->n_pinned ? t->cpus[i] : -1};
        if (pthread_create(&m->thread, NULL, member_main, m) == 0)
            t->size++;
        else
            st = tw_fail(diag, TW_ERR_MEMORY, "cannot start thread %d of %d", i, threads);
    }
    if (st == TW_OK)
        *out = t;
    else
        tw_team_stop(t);
    return st;
}

void tw_team_stop(tw_team *t) {
    if (!t) return;
    if (t->size > 1) {
        /* A member that saw `quit` before the last launch ended would leave without arriving. */
        tw_team_settle(t);
        t->quit = true;
        tw_counter_arrive(&t->launch);
    }
    for (int i = 1; i < t->size; i++) pthread_join(t->members[i].thread, NULL);
    free(t->members);
    free(t->cpus);
    free(t);
}

int tw_team_size(const tw_team *t) {
    return t->size;
}

void tw_team_settle(tw_team *t) {
    tw_counter_wait(&t->idle, t->launches * (uint32_t)(t->size - 1), NULL, NULL);
}

void tw_team_launch(tw_team *t, void (*work)(void *context, int member), void *context) {
    tw_team_settle(t);
    t->work = work;
    t->context = context;
    t->launches++;
    /* A kernel cannot move a pinned member away from member 0, and may take many runs to move member 0. */
    if (t->n_pinned) tw_leave_cpus(t->cpus + 1, t->n_pinned);
    tw_counter_arrive(&t->launch);
    work(context, 0);
}

void tw_team_run(tw_team *t, void (*work)(void *context, int member), void *context) {
    tw_team_launch(t, work, context);
    tw_team_settle(t);
}
