/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/traced.h"

#include "base/diag.h"
#include "schedule/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int next_instr(const tw_traced *p, int w) {
    return p->first[w] + p->s->workers[w].count;
}

/* -- names and layers */

static const char *name_of(const tw_schedule *s, const tw_instr *in) {
    static const char down[] = ".mlp.down";
    if (in->op == TW_INSTR_PROJECT) { /* One op serves attention and the feed-forward layer. */
        const char *weight = s->buffers[in->operand[TW_PROJECT_W]].name;
        const size_t n = strlen(weight);
        if (n >= sizeof down && !strcmp(weight + n - (sizeof down - 1), down)) return "down";
    }
    return tw_instr_op_describe(in->op)->name;
}

/* The layer that the names of an instruction's buffers give. -1: none does. */
static int layer_of(const tw_schedule *s, const tw_instr *in) {
    for (int i = 0, layer; i < TW_MAX_OPERANDS; i++)
        if (in->operand[i] >= 0 && sscanf(s->buffers[in->operand[i]].name, "layers.%d.", &layer) == 1) return layer;
    return -1;
}

/* A merge, and a sum without a bias, name no buffer of their layer. Their layer is that of what they wait for. */
static void find_layer_of_merge(tw_traced *p, tw_traced_instr *out, const tw_instr *in) {
    for (int w = 0; w < in->n_waits; w++) {
        const int c = in->waits[w].counter;
        for (int i = p->first_of[c]; i < p->first_of[c + 1]; i++)
            if (p->instr[p->producers[i]].layer > out->layer) out->layer = p->instr[p->producers[i]].layer;
    }
}

static tw_status name_instrs(tw_traced *p, tw_trace *t, tw_diag *diag) {
    int n = 0;
    for (int w = 0; w < p->s->n_workers; w++) {
        p->first[w] = n;
        for (int i = 0; i < p->s->workers[w].count; i++, n++) {
            const tw_instr *in = &p->s->workers[w].list[i];
            p->instr[n] = (tw_traced_instr){.name = tw_trace_add_name(t, name_of(p->s, in), TW_ENGINE_ALU),
                                            .layer = layer_of(p->s, in),
                                            .first_wait = p->n_waits};
            p->n_waits += in->n_waits;
            if (p->instr[n].name < 0) return tw_fail_memory(diag);
        }
    }
    return TW_OK;
}

/* -- counters */

static void find_producers(tw_traced *p) {
    const tw_schedule *s = p->s;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].arrive >= 0) p->first_of[s->workers[w].list[i].arrive + 1]++;
    for (int c = 0; c < s->n_counters; c++) p->first_of[c + 1] += p->first_of[c];
    /* Each counter's beginning moves to its end while it is filled, and back afterwards. */
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].arrive >= 0)
                p->producers[p->first_of[s->workers[w].list[i].arrive]++] = p->first[w] + i;
    for (int c = s->n_counters; c > 0; c--) p->first_of[c] = p->first_of[c - 1];
    p->first_of[0] = 0;
}

/* Names waits for a counter by what arrives at it: "wait qkv", or "wait qkv, embed" if several kinds do. */
static tw_status name_wait(tw_traced *p, tw_trace *t, int c, tw_diag *diag) {
    char text[256] = "wait";
    size_t at = strlen(text);
    int seen[TW_INSTR_COUNT + 1], n_seen = 0;
    for (int i = p->first_of[c]; i < p->first_of[c + 1]; i++) {
        const int name = p->instr[p->producers[i]].name;
        int k = 0;
        while (k < n_seen && seen[k] != name) k++;
        if (k < n_seen || n_seen == (int)(sizeof seen / sizeof *seen)) continue;
        seen[n_seen++] = name;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s %s", k ? "," : "", t->names[name].text);
        if (at >= sizeof text) at = sizeof text - 1;
    }
    p->wait_name[c] = tw_trace_add_name(t, text, TW_ENGINE_SYNC);
    return p->wait_name[c] < 0 ? tw_fail_memory(diag) : TW_OK;
}

tw_status tw_traced_make(tw_traced *p, tw_trace *t, const tw_schedule *s, tw_arena *arena, tw_diag *diag) {
    *p = (tw_traced){.s = s};
    for (int w = 0; w < s->n_workers; w++) p->n_instr += s->workers[w].count;
    p->instr = tw_arena_array(arena, (size_t)p->n_instr + 1, sizeof *p->instr);
    p->first = tw_arena_array(arena, (size_t)s->n_workers + 1, sizeof *p->first);
    p->wait_name = tw_arena_array(arena, (size_t)s->n_counters + 1, sizeof *p->wait_name);
    p->producers = tw_arena_array(arena, (size_t)p->n_instr + 1, sizeof *p->producers);
    p->first_of = tw_arena_array(arena, (size_t)s->n_counters + 2, sizeof *p->first_of);
    if (arena->failed) return tw_fail_memory(diag);
    tw_status st = name_instrs(p, t, diag);
    if (st == TW_OK) find_producers(p);
    for (int w = 0; w < s->n_workers && st == TW_OK; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].op == TW_INSTR_MERGE || s->workers[w].list[i].op == TW_INSTR_SUM)
                find_layer_of_merge(p, &p->instr[p->first[w] + i], &s->workers[w].list[i]);
    for (int c = 0; c < s->n_counters; c++) p->wait_name[c] = -1;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            for (int k = 0; k < s->workers[w].list[i].n_waits && st == TW_OK; k++) {
                const int c = s->workers[w].list[i].waits[k].counter;
                if (p->wait_name[c] < 0) st = name_wait(p, t, c, diag);
            }
    return st;
}

/* -- work */

tw_status tw_traced_add_work(const tw_traced *p, tw_trace *t, int64_t n, int64_t pos, tw_diag *diag) {
    for (int w = 0; w < p->s->n_workers; w++)
        for (int i = 0; i < p->s->workers[w].count; i++) {
            tw_instr_work work;
            const tw_status st = tw_instr_work_of(p->s, &p->s->workers[w].list[i], n, pos, &work, diag);
            if (st != TW_OK) return st;
            tw_trace_name *name = &t->names[p->instr[p->first[w] + i].name];
            name->flops += work.flops;
            name->bytes += work.bytes;
        }
    return TW_OK;
}

void tw_traced_finish_work(tw_trace *t) {
    for (int i = 0; i < t->n_names; i++) {
        double regions = 0;
        if (!(t->names[i].flops > 0) && !(t->names[i].bytes > 0)) continue;
        for (int k = 0; k < t->n_events; k++) regions += t->events[k].name == i && t->events[k].kind == TW_EVENT_REGION;
        if (!(regions > 0)) continue;
        t->names[i].flops /= regions;
        t->names[i].bytes /= regions;
    }
}

/* -- edges */

typedef struct arrived {
    double at;
    int event;
} arrived;

static int by_time(const void *a, const void *b) {
    const arrived *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* Puts the arrivals at each counter in the order of time, where first_of says. Those without an event come last. */
static void sort_arrivals(const tw_traced *p, const tw_trace *t, const int *arrival, arrived *all) {
    for (int c = 0; c < p->s->n_counters; c++) {
        const int from = p->first_of[c], n = p->first_of[c + 1] - from;
        for (int i = from; i < from + n; i++) {
            const int e = arrival[p->producers[i]];
            all[i] = (arrived){e < 0 ? INFINITY : t->events[e].end, e};
        }
        if (n > 1) qsort(all + from, (size_t)n, sizeof *all, by_time);
    }
}

tw_status tw_traced_add_edges(const tw_traced *p, tw_trace *t, const int *arrival, const int *waited, tw_diag *diag) {
    arrived *all = malloc(((size_t)p->n_instr + 1) * sizeof *all);
    if (!all) return tw_fail_memory(diag);
    bool room = true;
    sort_arrivals(p, t, arrival, all);
    for (int w = 0; w < p->s->n_workers; w++)
        for (int i = p->first[w]; i < next_instr(p, w); i++) {
            const tw_instr *in = &p->s->workers[w].list[i - p->first[w]];
            for (int k = 0; k < in->n_waits && room; k++) {
                const int to = waited[p->instr[i].first_wait + k], c = in->waits[k].counter;
                const int64_t n = p->first_of[c + 1] - p->first_of[c];
                const int64_t last = in->waits[k].threshold < n ? in->waits[k].threshold : n;
                const int64_t first = last > TW_TRACED_ARRIVALS ? last - TW_TRACED_ARRIVALS : 0;
                for (int64_t a = first; a < last && to >= 0 && room; a++) {
                    const int from = all[p->first_of[c] + a].event;
                    if (from >= 0) room = tw_trace_add_edge(t, from, to) >= 0;
                }
            }
        }
    free(all);
    return room ? TW_OK : tw_fail_memory(diag);
}
