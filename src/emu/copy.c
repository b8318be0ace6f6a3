/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies. A copy's reads and writes are checked when it is issued, as accesses by an agent of the warp, or
   of the mbarrier that the copy completes at. Only a thread that waited for the agent comes after them. The bytes move
   later, at a moment that the seed chooses, so that a missing wait also gives wrong numbers. */
#include "emu/machine.h"

#include <stdio.h>
#include <stdlib.h>

emu_copy *emu_copy_issue(emu_warp *w, const emu_op *op, int agent, uint32_t clock) {
    emu_launch *l = w->launch;
    emu_copy *c = l->spare_copies;
    if (c)
        l->spare_copies = c->next;
    else
        c = malloc(sizeof *c);
    if (!c) {
        l->failed = l->stop = true;
        return NULL;
    }
    c->warp = w;
    c->op = op;
    c->agent = agent;
    c->clock = clock;
    c->mask = 0;
    c->box.map = NULL;
    c->home = w->block;
    return c;
}

/* Puts a copy in flight, or back on the list of spare ones if it has no pieces. */
void emu_copy_launch(emu_launch *l, emu_copy *c) {
    if (!c->mask) {
        c->next = l->spare_copies;
        l->spare_copies = c;
        return;
    }
    c->next = l->copies;
    l->copies = c;
    l->n_copies++;
    if (l->landing == 0) emu_land(l, c);
}

static void piece(emu_copy *c, uint32_t lane, uint8_t *to, uint8_t *from, uint32_t bytes, uint32_t source) {
    c->mask |= 1u << lane;
    c->to[lane] = to;
    c->from[lane] = from;
    c->bytes[lane] = (int)bytes;
    c->source[lane] = (int)source;
}

/* Performs the arrivals that waited for copies which have landed. */
static void arrive_later(emu_warp *w) {
    emu_launch *l = w->launch;
    for (int i = 0; i < w->laters.n && !l->stop;) {
        emu_later *later = &w->laters.list[i];
        bool pending = false;
        for (const emu_copy *c = l->copies; c && !pending; c = c->next)
            pending = c->warp == w && c->agent == EMU_COPIER && c->mask >> later->lane & 1 && c->clock <= later->clock;
        if (pending) {
            i++;
            continue;
        }
        emu_later done = *later;
        w->laters.list[i] = w->laters.list[--w->laters.n];
        emu_mbarrier *m = emu_mbarrier_usable(w, done.op, (int)done.lane, done.address);
        if (!m) continue;
        /* The arrival releases only the copies. */
        if (l->checked) emu_clock_put(l, &m->arriving, emu_agent(w, EMU_COPIER), 1u << done.lane, done.clock + 1);
        emu_mbarrier_arrived(w, done.op, 1u << done.lane, m, 1, false);
    }
}

void emu_land(emu_launch *l, emu_copy *c) {
    emu_copy **p = &l->copies;
    while (*p != c) p = &(*p)->next;
    *p = c->next;
    l->n_copies--;
    l->progress++;
    EMU_EACH(lane, c->mask) {
        if (c->box.map) {
            emu_box_land(c, (int)lane);
            continue;
        }
        if (c->op->ir->code == TW_OP_bulk_reduce) {
            emu_reduce(c->op, c->to[lane], c->from[lane], (uint32_t)c->bytes[lane]);
            continue;
        }
        if (c->source[lane]) memcpy(c->to[lane], c->from[lane], (size_t)c->source[lane]);
        if (c->bytes[lane] > c->source[lane])
            memset(c->to[lane] + c->source[lane], 0, (size_t)(c->bytes[lane] - c->source[lane]));
    }
    c->next = l->spare_copies;
    l->spare_copies = c;
    if (c->agent == EMU_WARP) EMU_EACH(lane, c->mask)
    emu_mbarrier_landed(c->warp, c->home, c->op, (int)lane, c->mbarrier[lane], c->phase[lane], c->bytes[lane]);
    if (c->agent == EMU_COPIER && c->warp->laters.n) arrive_later(c->warp);
}

bool emu_land_one(emu_launch *l) {
    if (!l->copies) return false;
    emu_copy *c = l->copies;
    for (uint64_t n = tw_random_below(&l->random, (uint64_t)l->n_copies); n; n--) c = c->next;
    emu_land(l, c);
    return true;
}

void emu_land_some(emu_launch *l) {
    if (!l->copies || l->landing == 1) return; /* Copies land as late as possible. */
    if (tw_random_below(&l->random, 4) == 0) emu_land_one(l);
}

void emu_land_warp(emu_warp *w, int agent, uint32_t mask, uint32_t clock) {
    emu_launch *l = w->launch;
    for (emu_copy *c = l->copies, *next; c; c = next) {
        next = c->next;
        if (c->warp != w || c->agent != agent || !(c->mask & mask) || c->clock > clock) continue;
        emu_land(l, c);
        /* Landing may have changed the list. */
        next = l->copies;
        if (l->stop) return;
    }
}

/* -- groups */

void emu_commit_add(emu_warp *w, emu_commits *list, uint32_t mask, uint32_t clock) {
    enum { MOST = 512 };
    if (!mask) return;
    if (list->n == MOST) {
        /* No wait counts groups that far back, other than a wait for all. */
        memmove(list->list, list->list + MOST / 2, (size_t)(MOST / 2) * sizeof *list->list);
        list->n = MOST / 2;
    }
    if (!emu_grow(w->launch, (void **)&list->list, list->n, &list->room, sizeof *list->list)) return;
    list->list[list->n++] = (emu_commit){mask, clock};
}

uint32_t emu_commit_done(const emu_commits *list, uint32_t lane, int pending) {
    for (int i = list->n - 1; i >= 0; i--)
        if (list->list[i].mask >> lane & 1 && pending-- == 0) return list->list[i].clock;
    return 0;
}

/* Finds the lanes that have committed a group. */
static uint32_t owners(const emu_commits *list) {
    uint32_t mask = 0;
    for (int i = 0; i < list->n && mask != EMU_ALL; i++) mask |= list->list[i].mask;
    return mask;
}

void emu_idle_wait_text(const emu_warp *w, uint32_t mask, char *out, size_t size) {
    out[0] = 0;
    if (w->idle_waits & mask)
        snprintf(out, size,
                 "; a group belongs to the thread that committed it, and warp %d lane %d, which waited, has none",
                 w->index, __builtin_ctz(w->idle_waits & mask));
}

static void wait(emu_warp *w, const emu_commits *list, int agent, uint32_t mask, int pending, bool whole) {
    uint32_t most = 0;
    EMU_EACH(lane, mask) {
        uint32_t clock = emu_commit_done(list, lane, pending);
        if (clock > most) most = clock;
        for (int a = agent; a <= (whole && agent == EMU_BULK_READER ? EMU_BULK_WRITER : agent); a++)
            if (clock + 1 > w->waited[a][lane] && clock) w->waited[a][lane] = clock + 1;
    }
    w->waited_apart = true;
    emu_land_warp(w, agent == EMU_COPIER ? EMU_COPIER : EMU_BULK_WRITER, mask, most);
}

emu_next emu_exec_cp_async_commit(emu_warp *w, const emu_op *op) {
    (void)op;
    emu_commit_add(w, &w->commits, w->active, w->agents[EMU_COPIER]);
    return EMU_GO;
}

emu_next emu_exec_cp_async_wait(emu_warp *w, const emu_op *op) {
    wait(w, &w->commits, EMU_COPIER, w->active, op->ir->at.count, true);
    return EMU_GO;
}

emu_next emu_exec_bulk_commit(emu_warp *w, const emu_op *op) {
    emu_commit_add(w, &w->bulk_commits, emu_guarded(w, op), w->agents[EMU_BULK_WRITER]);
    return EMU_GO;
}

emu_next emu_exec_bulk_wait(emu_warp *w, const emu_op *op) {
    uint32_t mask = emu_guarded(w, op);
    w->idle_waits |= mask & ~owners(&w->bulk_commits);
    if (mask) wait(w, &w->bulk_commits, EMU_BULK_READER, mask, op->ir->at.count, !op->ir->at.read);
    return EMU_GO;
}

/* -- copies of a few bytes a lane */

emu_next emu_exec_cp_async(emu_warp *w, const emu_op *op) {
    const tw_attrs *at = &op->ir->at;
    uint32_t mask = emu_guarded(w, op), bytes = (uint32_t)at->bytes;
    if (!mask) return EMU_GO;
    uint32_t clock = ++w->agents[EMU_COPIER];
    emu_copy *c = emu_copy_issue(w, op, EMU_COPIER, clock);
    if (!c) return EMU_GO;
    uint32_t thread = emu_agent(w, EMU_COPIER);
    emu_how to = {.write = true, .agent = EMU_COPIER, .thread = thread, .clock = clock, .align = bytes};
    emu_how from = {.read = true, .agent = EMU_COPIER, .thread = thread, .clock = clock, .align = bytes};
    EMU_EACH(lane, mask) {
        uint32_t source = op->n_in > 2 ? (uint32_t)emu_get(w, op->in[2], (int)lane) : bytes;
        if (source > bytes) source = bytes;
        uint64_t target = (uint32_t)(emu_get(w, op->in[0], (int)lane) + (uint64_t)at->offset);
        uint8_t *p = emu_access(w, op, &to, (int)lane, TW_SPACE_shared, target, bytes, NULL), *q = NULL;
        if (source)
            q = emu_access(w, op, &from, (int)lane, TW_SPACE_global, emu_get(w, op->in[1], (int)lane), source, NULL);
        if (!p || (source && !q)) continue;
        w->issued[EMU_COPIER][lane] = clock;
        piece(c, lane, p, q, bytes, source);
    }
    emu_copy_launch(w->launch, c);
    return EMU_GO;
}

emu_next emu_exec_cp_async_arrive(emu_warp *w, const emu_op *op) {
    emu_launch *l = w->launch;
    EMU_EACH(lane, w->active) {
        if (!emu_grow(l, (void **)&w->laters.list, w->laters.n, &w->laters.room, sizeof *w->laters.list)) return EMU_GO;
        w->handed[lane] = w->agents[EMU_COPIER];
        w->laters.list[w->laters.n++] =
            (emu_later){(uint32_t)emu_get(w, op->in[0], (int)lane), lane, w->agents[EMU_COPIER], op};
    }
    arrive_later(w);
    return EMU_GO;
}

/* -- bulk copies */

static bool whole_bulk(emu_warp *w, const emu_op *op, int lane, uint64_t bytes) {
    if (bytes % 16 == 0) return true;
    emu_find(w, op, lane, TW_EMU_ALIGNMENT, "copies %llu bytes, which is no multiple of 16", (unsigned long long)bytes);
    return false;
}

emu_next emu_exec_bulk_load(emu_warp *w, const emu_op *op) {
    uint32_t mask = emu_guarded(w, op);
    if (!mask) return EMU_GO;
    emu_copy *c = emu_copy_issue(w, op, EMU_WARP, 0);
    if (!c) return EMU_GO;
    EMU_EACH(lane, mask) {
        uint32_t bytes = (uint32_t)emu_get(w, op->in[2], (int)lane);
        uint32_t at = (uint32_t)emu_get(w, op->in[3], (int)lane);
        emu_mbarrier *m = emu_mbarrier_usable(w, op, (int)lane, at);
        if (!m || !whole_bulk(w, op, (int)lane, bytes) || !bytes) continue;
        uint32_t thread = (uint32_t)w->block->number << w->launch->stride_log2 | (uint32_t)m->slot;
        emu_how to = {.write = true, .async = true, .thread = thread, .clock = m->phase, .align = 16};
        emu_how from = {.read = true, .async = true, .thread = thread, .clock = m->phase, .align = 16};
        uint8_t *p = emu_access(w, op, &to, (int)lane, TW_SPACE_shared, emu_get(w, op->in[0], (int)lane), bytes, NULL);
        uint8_t *q =
            emu_access(w, op, &from, (int)lane, TW_SPACE_global, emu_get(w, op->in[1], (int)lane), bytes, NULL);
        if (!p || !q) continue;
        c->mbarrier[lane] = at;
        c->phase[lane] = m->phase;
        m->copied = m->phase + 1;
        m->copies++;
        piece(c, lane, p, q, bytes, bytes);
    }
    emu_copy_launch(w->launch, c);
    return EMU_GO;
}

uint32_t emu_bulk_clock(emu_warp *w) {
    return w->agents[EMU_BULK_READER] = ++w->agents[EMU_BULK_WRITER];
}

emu_how emu_bulk_target(const emu_warp *w, uint32_t clock, bool reduces) {
    emu_how how = {.write = true, .async = true, .agent = EMU_BULK_WRITER, .clock = clock, .align = 16};
    how.thread = emu_agent(w, EMU_BULK_WRITER);
    how.read = reduces;
    how.strength = reduces ? 1 + TW_SCOPE_gpu : 0;
    return how;
}

emu_how emu_bulk_source(const emu_warp *w, uint32_t clock) {
    return (emu_how){.read = true,
                     .async = true,
                     .agent = EMU_BULK_READER,
                     .thread = emu_agent(w, EMU_BULK_READER),
                     .clock = clock,
                     .align = 16};
}

void emu_reduce(const emu_op *op, uint8_t *to, const uint8_t *from, uint32_t bytes) {
    const tw_attrs *at = &op->ir->at;
    const size_t size = (size_t)tw_type_bits((tw_type)at->type) / 8;
    for (size_t i = 0; i < bytes; i += size) {
        uint64_t old = 0, x = 0;
        memcpy(&old, to + i, size);
        memcpy(&x, from + i, size);
        old = emu_combine(at, old, x, 0);
        memcpy(to + i, &old, size);
    }
}

/* Copies from shared to global memory, in a bulk group of its lane. */
static emu_next bulk_out(emu_warp *w, const emu_op *op, bool reduces) {
    uint32_t mask = emu_guarded(w, op);
    if (!mask) return EMU_GO;
    uint32_t clock = emu_bulk_clock(w);
    emu_copy *c = emu_copy_issue(w, op, EMU_BULK_WRITER, clock);
    if (!c) return EMU_GO;
    const emu_how to = emu_bulk_target(w, clock, reduces), from = emu_bulk_source(w, clock);
    EMU_EACH(lane, mask) {
        uint32_t bytes = (uint32_t)emu_get(w, op->in[2], (int)lane);
        if (!whole_bulk(w, op, (int)lane, bytes) || !bytes) continue;
        uint8_t *p = emu_access(w, op, &to, (int)lane, TW_SPACE_global, emu_get(w, op->in[0], (int)lane), bytes, NULL);
        uint8_t *q =
            emu_access(w, op, &from, (int)lane, TW_SPACE_shared, emu_get(w, op->in[1], (int)lane), bytes, NULL);
        if (!p || !q) continue;
        w->issued[EMU_BULK_READER][lane] = clock;
        piece(c, lane, p, q, bytes, bytes);
    }
    emu_copy_launch(w->launch, c);
    return EMU_GO;
}

emu_next emu_exec_bulk_store(emu_warp *w, const emu_op *op) {
    return bulk_out(w, op, false);
}

emu_next emu_exec_bulk_reduce(emu_warp *w, const emu_op *op) {
    return bulk_out(w, op, true);
}

emu_next emu_exec_bulk_prefetch(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, emu_guarded(w, op)) {
        uint64_t bytes = emu_get(w, op->in[1], (int)lane);
        whole_bulk(w, op, (int)lane, bytes);
    }
    return EMU_GO;
}

/* -- */

void emu_copies_at_exit(emu_warp *w, const emu_op *op, uint32_t mask) {
    char waits[160] = "";
    for (int i = 0; i < w->block->n_warps && !waits[0]; i++)
        emu_idle_wait_text(&w->block->warps[i], EMU_ALL, waits, sizeof waits);
    EMU_EACH(lane, mask) {
        uint32_t copied = w->issued[EMU_COPIER][lane];
        if (copied && copied >= w->waited[EMU_COPIER][lane] && copied > w->handed[lane])
            emu_find(w, op, (int)lane, TW_EMU_LEAK, "exits with copies (cp_async) that it has not waited for");
        copied = w->issued[EMU_BULK_READER][lane];
        if (copied && copied >= w->waited[EMU_BULK_READER][lane])
            emu_find(w, op, (int)lane, TW_EMU_LEAK,
                     "exits while a bulk store may still read shared memory: it has not waited for it%s", waits);
    }
}
