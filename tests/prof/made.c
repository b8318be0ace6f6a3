/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/made.h"

#include <stdlib.h>

static int check(int index) {
    if (index < 0) abort();
    return index;
}

int made_track(tw_trace *t, int sm, int block, int warp, const char *role, double begin, double end) {
    const int name = check(tw_trace_add_name(t, role, TW_ENGINE_NONE));
    const tw_trace_track k = {.sm = sm, .block = block, .warp = warp, .role = name, .begin = begin, .end = end};
    return check(tw_trace_add_track(t, &k));
}

static int event(tw_trace *t, int track, tw_event_kind kind, const char *name, tw_trace_engine engine, double begin,
                 double end, int iteration) {
    const tw_trace_event e = {.track = track,
                              .name = check(tw_trace_add_name(t, name, engine)),
                              .kind = kind,
                              .iteration = iteration,
                              .loop = iteration < 0 ? -1 : 0,
                              .begin = begin,
                              .end = end,
                              .least = end - begin,
                              .most = end - begin};
    return check(tw_trace_add_event(t, &e));
}

int made_event(tw_trace *t, int track, tw_event_kind kind, const char *name, tw_trace_engine engine, double begin,
               double end) {
    return event(t, track, kind, name, engine, begin, end, -1);
}

static tw_trace *begun(const char *title, const char *unit) {
    tw_trace *t = tw_trace_new(title, "NVIDIA H200", unit);
    if (!t) abort();
    t->began_unix = 1764000000.25;
    return t;
}

static tw_trace *finished(tw_trace *t) {
    tw_diag d;
    if (tw_trace_finish(t, &d) != TW_OK) abort();
    return t;
}

tw_trace *made_empty(void) {
    return finished(begun("nothing", "ns"));
}

tw_trace *made_small(void) {
    tw_trace *t = begun("gemm \"q\" </script> m=512", "ns");
    const int producer = made_track(t, 3, 0, 0, "producer", 0, 100);
    const int consumer = made_track(t, 3, 0, 4, "consumer", 2, 100);
    const int second = made_track(t, 3, 7, 0, "producer", 100, 150);
    const int other = made_track(t, 5, 1, 0, "producer", -4, 90);
    t->ghz = 1.98;
    t->clean = 150;
    t->traced = 152;
    t->tracks[consumer].dropped = 12;
    t->tracks[other].uncertainty = 2.5;
    made_event(t, producer, TW_EVENT_ASYNC, "copy A", TW_ENGINE_COPY, 10, 50);
    made_event(t, producer, TW_EVENT_ASYNC, "copy B", TW_ENGINE_COPY, 20, 40);
    made_event(t, producer, TW_EVENT_ASYNC, "copy A", TW_ENGINE_COPY, 40, 80);
    made_event(t, producer, TW_EVENT_REGION, "issue", TW_ENGINE_ALU, 5, 30);
    made_event(t, producer, TW_EVENT_VALUE, "stages", TW_ENGINE_NONE, 30, 30);
    t->events[t->n_events - 1].value = -3;
    event(t, consumer, TW_EVENT_ITERATION, "k", TW_ENGINE_NONE, 10, 50, 0);
    const int wait = event(t, consumer, TW_EVENT_WAIT, "wait", TW_ENGINE_SYNC, 10, 30, 0);
    const int products = event(t, consumer, TW_EVENT_REGION, "wgmma \"64x256\" \\ <b>\n\xc3\xa9\xe2\x82\xac",
                               TW_ENGINE_TENSOR, 30, 50, 0);
    t->events[products].least = 18;
    t->events[products].most = 22;
    event(t, consumer, TW_EVENT_ITERATION, "k", TW_ENGINE_NONE, 50, 90, 1);
    event(t, consumer, TW_EVENT_REGION, "store", TW_ENGINE_MEMORY, 60, 90, 1);
    event(t, consumer, TW_EVENT_REGION, "nothing", TW_ENGINE_ALU, 70, 70, 1);
    made_event(t, second, TW_EVENT_REGION, "issue", TW_ENGINE_ALU, 101, 149);
    const int arrival = made_event(t, other, TW_EVENT_MARK, "arrive", TW_ENGINE_SYNC, 30, 30);
    made_event(t, other, TW_EVENT_REGION, "issue", TW_ENGINE_ALU, -2, 30);
    check(tw_trace_add_edge(t, arrival, wait));
    return finished(t);
}

/* ---- a product */

enum { STAGES = 4 };

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Jitter without a generator's state: the same for the same arguments. */
static double jitter(int a, int b, double most) {
    unsigned x = (unsigned)a * 2654435761u ^ (unsigned)b * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return most * (double)(x % 1000) / 1000;
}

static double add_block(tw_trace *t, int sm, int block, double at, int iterations, double slow) {
    const int p = made_track(t, sm, block, 0, "producer", at, at);
    const int c[2] = {made_track(t, sm, block, 4, "consumer", at, at), made_track(t, sm, block, 8, "consumer", at, at)};
    double free_at[STAGES], producer = at + 120, consumer[2] = {at + 150, at + 150}, last = at;
    int freed[STAGES];
    for (int i = 0; i < STAGES; i++) {
        free_at[i] = at;
        freed[i] = -1;
    }
    made_event(t, p, TW_EVENT_REGION, "set up", TW_ENGINE_ALU, at, producer);
    for (int k = 0; k < 2; k++) made_event(t, c[k], TW_EVENT_REGION, "set up", TW_ENGINE_ALU, at, consumer[k]);
    for (int i = 0; i < iterations; i++) {
        const int s = i % STAGES;
        const double begin = producer, go = larger(producer, free_at[s]) + 8;
        const int empty = event(t, p, TW_EVENT_WAIT, "wait for an empty stage", TW_ENGINE_SYNC, begin, go, i);
        if (freed[s] >= 0) check(tw_trace_add_edge(t, freed[s], empty));
        producer = go + 40;
        event(t, p, TW_EVENT_REGION, "issue copies", TW_ENGINE_ALU, go, producer, i);
        const double there = producer + (620 + jitter(sm, i, 260)) * slow;
        const int copy = event(t, p, TW_EVENT_ASYNC, "copy of a stage", TW_ENGINE_COPY, go + 12, there, i);
        event(t, p, TW_EVENT_ITERATION, "k", TW_ENGINE_NONE, begin, producer, i);
        last = larger(last, there);
        free_at[s] = 0;
        for (int k = 0; k < 2; k++) {
            const double from = consumer[k], full = larger(from, there) + 6;
            const int wait = event(t, c[k], TW_EVENT_WAIT, "wait for a full stage", TW_ENGINE_COPY, from, full, i);
            check(tw_trace_add_edge(t, copy, wait));
            const double done = full + 210 + jitter(sm + k, i + 77, 30);
            event(t, c[k], TW_EVENT_REGION, "products", TW_ENGINE_TENSOR, full, done, i);
            const int arrive = event(t, c[k], TW_EVENT_MARK, "arrive at an empty stage", TW_ENGINE_SYNC, done, done, i);
            event(t, c[k], TW_EVENT_ITERATION, "k", TW_ENGINE_NONE, from, done + 4, i);
            consumer[k] = done + 4;
            if (done > free_at[s]) {
                free_at[s] = done;
                freed[s] = arrive;
            }
        }
    }
    t->tracks[p].end = larger(producer, last);
    for (int k = 0; k < 2; k++) {
        const double end = consumer[k] + 700 + jitter(sm, block + k, 200);
        made_event(t, c[k], TW_EVENT_REGION, "store the tile", TW_ENGINE_MEMORY, consumer[k], end);
        t->tracks[c[k]].end = end;
    }
    return larger(t->tracks[c[0]].end, t->tracks[c[1]].end);
}

tw_trace *made_product(int sms, int iterations) {
    tw_trace *t = begun("gemm type=bf16 m=4096 n=4096 k=4096", "ns");
    for (int sm = 0; sm < sms; sm++) {
        const double slow = sm == sms / 3 ? 1.6 : 1;
        const double next = add_block(t, sm, sm, jitter(sm, 5, 300), iterations, slow);
        add_block(t, sm, sms + sm, next + 60, iterations, slow);
    }
    t->ghz = 1.98;
    t->traced = tw_trace_length(t);
    t->clean = t->traced * 0.985;
    return finished(t);
}
