/* SPDX-License-Identifier: Apache-2.0 */
/* Races. Each granule of memory keeps marks of its last writes and of the reads since.

   A mark is dropped when a later mark is ordered after it, since an access ordered after the later one is then ordered
   after both. Reads that are unordered among themselves are all kept. So are unordered strong writes, which are no
   race. A strong mark never replaces a weak one: an access may be unordered after the strong one without a race, and
   yet race with the weak one. */
#include "emu/machine.h"

#include <stdio.h>
#include <stdlib.h>

static int strength_of(const emu_mark *m) {
    return (int)(m->what & 127);
}
static bool writes(const emu_mark *m) {
    return m->what >> 7 & 1;
}

void emu_shadow_free(emu_launch *l) {
    tw_emu *e = l->emu;
    for (int i = 0; i < e->n; i++) {
        free(e->objects[i]->cells);
        e->objects[i]->cells = NULL;
        e->objects[i]->syncs = 0;
    }
    free(l->links);
}

/* -- lists of further marks; 0 ends them */

static void link_mark(emu_launch *l, uint32_t *list, const emu_mark *m) {
    uint32_t at = l->spare_links;
    if (at) {
        l->spare_links = l->links[at].next;
    } else {
        if (l->n_links == l->room_links) {
            uint32_t room = l->room_links ? l->room_links * 2 : 1024;
            emu_link *p = realloc(l->links, (size_t)room * sizeof *p);
            if (!p) {
                l->failed = l->stop = true;
                return;
            }
            l->links = p;
            l->room_links = room;
            if (!l->n_links) l->n_links = 1;
        }
        at = l->n_links++;
    }
    l->links[at] = (emu_link){.mark = *m, .next = *list};
    *list = at;
}

static void unlink_mark(emu_launch *l, uint32_t *list) {
    uint32_t at = *list;
    *list = l->links[at].next;
    l->links[at].next = l->spare_links;
    l->spare_links = at;
}

/* -- */

static int agent_of(const emu_launch *l, uint32_t thread) {
    uint32_t slot = thread & (uint32_t)(l->stride - 1);
    return slot < (uint32_t)l->n_warps * EMU_AGENTS ? (int)(slot % EMU_AGENTS) : -1;
}

/* Tells whether two accesses that nothing orders may meet: both are strong, by one proxy, and within the other's
   scope. */
static bool strong_together(const emu_warp *w, const emu_how *how, const emu_mark *m) {
    int mine = how->strength, theirs = strength_of(m);
    if (!mine || !theirs) return false;
    const emu_launch *l = w->launch;
    if (how->async != (agent_of(l, m->thread - 1) != EMU_WARP)) return false;
    int block = (int)((m->thread - 1) >> l->stride_log2), own = w->block->number;
    if (block == own) return true;
    if (block / l->cluster == own / l->cluster) return mine > TW_SCOPE_cluster && theirs > TW_SCOPE_cluster;
    return mine > TW_SCOPE_gpu && theirs > TW_SCOPE_gpu;
}

static inline bool ordered(const emu_warp *w, int lane, const emu_mark *m) {
    /* The usual case is a warp of the same block, all of whose lanes know enough. */
    const emu_launch *l = w->launch;
    uint32_t thread = m->thread - 1;
    if ((thread ^ w->thread) >> l->stride_log2 == 0 && w->known.own &&
        w->known.own[thread & (uint32_t)(l->stride - 1)] > m->clock)
        return true;
    if (thread - w->thread >= EMU_AGENTS && !w->apart.n && !(w->known.has & emu_thread_bit(thread))) return false;
    return emu_knows(w, lane, thread, m->mask, m->clock);
}

/* Finds the warp whose agent a thread is. NULL: the thread is an mbarrier, or its block has ended. */
static emu_warp *starter(const emu_launch *l, uint32_t thread) {
    uint32_t slot = thread & (uint32_t)(l->stride - 1);
    if (slot >= (uint32_t)l->n_warps * EMU_AGENTS) return NULL;
    for (int i = 0; i < l->n_resident; i++)
        if (l->resident[i]->number == (int)(thread >> l->stride_log2)) return &l->resident[i]->warps[slot / EMU_AGENTS];
    return NULL;
}

/* An access that is checked. */
typedef struct access {
    emu_warp *warp;
    const emu_op *op;
    const emu_how *how;
    int lane;
    emu_object *object;
    uint64_t from;
    uint32_t bytes;
    uint64_t at; /* The granule's place in the object. */
} access;

/* Tells whether a mark is of a copy in flight. A copy that its own warp has waited for is a plain access by now, and
   others lack a barrier. */
static bool in_flight(const emu_launch *l, const emu_mark *m) {
    int agent = agent_of(l, m->thread - 1), lane = __builtin_ctz(m->mask);
    if (agent <= EMU_WARP) return agent < 0;
    const emu_warp *s = starter(l, m->thread - 1);
    return s && emu_known_of(s, lane, m->thread - 1, lane) <= m->clock;
}

/* Checks a bulk or tensor copy that overwrites an earlier load: the load must have been done before the slot was
   returned. Returns false after a finding. */
static bool check_loaded(const access *a, const emu_mark *m) {
    const emu_launch *l = a->warp->launch;
    const emu_op *load = &l->code.ops[m->what >> 8];
    if (!load->load) return true;
    const uint32_t block = (m->thread - 1) >> l->stride_log2;
    const uint32_t slot = (m->thread - 1) & (uint32_t)(l->stride - 1);
    const emu_warp *by = block == (uint32_t)a->warp->block->number ? &a->warp->block->warps[slot / EMU_AGENTS]
                                                                   : starter(l, m->thread - 1);
    const emu_load *e = by ? emu_load_at(by, m->clock) : NULL;
    if (!e || (e->done && emu_knows(a->warp, a->lane, m->thread - 1, m->mask, e->done))) return true;
    char where[96], who[64], place[160];
    emu_object_text(l, a->warp->block, a->object, a->at, where, sizeof where);
    emu_thread_text(l, m, who, sizeof who);
    emu_place(l, load, place, sizeof place);
    emu_find(
        a->warp, a->op, a->lane, TW_EMU_ASYNC,
        "copies to %s, which the load %s of %s may still read: it was given back before anything used what is loaded",
        where, place, who);
    return false;
}

static void complain(const access *a, const emu_mark *m) {
    const emu_launch *l = a->warp->launch;
    const emu_how *how = a->how;
    char where[96], who[64], place[160], waits[160];
    emu_object_text(l, a->warp->block, a->object, a->at, where, sizeof where);
    emu_thread_text(l, m, who, sizeof who);
    emu_place(l, &l->code.ops[m->what >> 8], place, sizeof place);
    const char *mine = how->write ? how->read ? "updates" : "writes" : "reads";
    if (how->async || how->agent) mine = !how->write ? "copies from" : how->read ? "reduces into" : "copies to";
    const int agent = agent_of(l, m->thread - 1);
    waits[0] = 0;
    if (agent == EMU_BULK_READER || agent == EMU_BULK_WRITER)
        emu_idle_wait_text(a->warp, 1u << a->lane, waits, sizeof waits);
    if (in_flight(l, m))
        emu_find(a->warp, a->op, a->lane, TW_EMU_ASYNC, "%s %s, which the copy %s of %s %s: it was not waited for%s",
                 mine, where, place, who, writes(m) ? "writes" : "reads", waits);
    else
        emu_find(a->warp, a->op, a->lane, TW_EMU_RACE, "%s %s, which %s of %s %s: nothing orders the two%s%s", mine,
                 where, place, who, writes(m) ? "wrote" : "read",
                 how->strength && strength_of(m)
                     ? ", strong as they are: a scope does not reach the other, or one is a "
                       "copy"
                     : "",
                 waits);
}

/* Checks that a fence lies between an access of the async proxy and an earlier access of the generic proxy. */
static void check_proxy(const access *a, const emu_mark *m) {
    const emu_launch *l = a->warp->launch;
    uint32_t thread = m->thread - 1;
    int agent = agent_of(l, thread);
    if (agent != EMU_WARP && agent != EMU_COPIER) return;
    uint32_t block = thread >> l->stride_log2, slot = thread & (uint32_t)(l->stride - 1);
    const emu_proxy_fences *f = &l->proxy_fences[(size_t)block * (size_t)l->n_warps + slot / EMU_AGENTS];
    const int needed = a->object->block < 0             ? EMU_FENCES_GLOBAL
                       : a->object->block == (int)block ? EMU_FENCES_SHARED
                                                        : EMU_FENCES_CLUSTER;
    bool other_space = false;
    EMU_EACH(by, m->mask) {
        bool fenced = false;
        for (int i = 0; i < f->n && !fenced; i++) {
            const emu_proxy_fence *p = &f->list[i];
            uint32_t after = agent == EMU_COPIER ? p->copied : p->clock;
            if (p->mask >> by & 1 && after > m->clock && !(p->covers & needed))
                other_space |= p->covers != EMU_FENCES_MBARRIERS;
            if (p->covers & needed && p->mask >> by & 1 && after > m->clock)
                fenced = emu_knows(a->warp, a->lane, thread - (uint32_t)agent, 1u << by, p->clock - 1);
        }
        if (fenced) continue;
        char where[96], place[160], who[64];
        emu_object_text(l, a->warp->block, a->object, a->at, where, sizeof where);
        emu_thread_text(l, m, who, sizeof who);
        emu_place(l, &l->code.ops[m->what >> 8], place, sizeof place);
        emu_find(a->warp, a->op, a->lane, TW_EMU_PROXY,
                 "copies %s %s, which %s of %s wrote: no fence_proxy of the writer is between%s",
                 a->how->write ? "to" : "from", where, place, who, other_space ? ", but one of another space" : "");
        return;
    }
}

/* Tells whether lanes of one operation write the same value. That is no race. */
static bool agrees(const access *a, const emu_mark *m) {
    const emu_how *how = a->how;
    return how->value && m->thread - 1 == how->thread && m->clock == how->clock &&
           &a->warp->launch->code.ops[m->what >> 8] == a->op &&
           !memcmp(a->object->data + a->from, how->value, a->bytes);
}

/* Tells whether a mark may be dropped, since a new access came after it or covers it. */
static bool superseded(const emu_warp *w, int lane, const emu_mark *m, const emu_mark *by) {
    if (strength_of(m) < strength_of(by)) return false;
    return (m->thread == by->thread && !(m->mask & ~by->mask) && m->clock <= by->clock) || ordered(w, lane, m);
}

/* Checks an access against an earlier mark. Returns false after a finding. */
static bool meets(const access *a, const emu_mark *m) {
    const emu_how *how = a->how;
    if (!m->thread || (!how->write && !writes(m))) return true;
    if (ordered(a->warp, a->lane, m)) {
        if (how->async && writes(m)) check_proxy(a, m);
        return !how->async || writes(m) || check_loaded(a, m);
    }
    if (strong_together(a->warp, how, m) || agrees(a, m)) return true;
    complain(a, m);
    return false;
}

static void note_read(emu_warp *w, int lane, emu_cell *c, const emu_mark *m) {
    emu_launch *l = w->launch;
    emu_mark *r = &c->read;
    if (r->thread == m->thread && r->clock == m->clock) {
        /* The weaker of the two stands for both. */
        if (strength_of(m) < strength_of(r)) r->what = m->what;
        r->mask |= m->mask;
    } else {
        if (r->thread && !superseded(w, lane, r, m)) {
            if (c->other.thread && !superseded(w, lane, &c->other, m)) link_mark(l, &c->more, &c->other);
            c->other = *r;
        }
        *r = *m;
    }
    if (c->other.thread && superseded(w, lane, &c->other, r)) c->other.thread = 0;
}

/* Checks a read against the further marks, and drops those that are superseded. Returns false after a finding. */
static bool walk_read(const access *a, emu_cell *c, bool fine) {
    emu_launch *l = a->warp->launch;
    for (uint32_t *p = &c->more; *p;) {
        const emu_mark x = l->links[*p].mark;
        if (writes(&x))
            fine = fine && meets(a, &x);
        else if (superseded(a->warp, a->lane, &x, &c->read)) {
            unlink_mark(l, p);
            continue;
        }
        p = &l->links[*p].next;
    }
    return fine;
}

static void note_write(emu_warp *w, const emu_how *how, int lane, emu_cell *c, const emu_mark *m) {
    emu_launch *l = w->launch;
    /* Unordered marks stay after a strong write. A later access may come after this write and not after them. */
    for (uint32_t *p = &c->more; *p;)
        if (!how->strength || superseded(w, lane, &l->links[*p].mark, m))
            unlink_mark(l, p);
        else
            p = &l->links[*p].next;
    if (how->strength && c->write.thread && !superseded(w, lane, &c->write, m)) link_mark(l, &c->more, &c->write);
    if (how->strength && c->read.thread && !superseded(w, lane, &c->read, m)) link_mark(l, &c->more, &c->read);
    if (how->strength && c->other.thread && !superseded(w, lane, &c->other, m)) link_mark(l, &c->more, &c->other);
    c->read.thread = c->other.thread = 0;
    c->write = *m;
}

static bool read_only_path(const emu_op *op) {
    return op->ir->code == TW_OP_ld && op->ir->at.cache == TW_CACHE_nc;
}

/* Checks that a launch does not read through the read-only path what it writes, in whatever order. */
static void check_path(const access *a, const emu_mark *m) {
    const emu_launch *l = a->warp->launch;
    const emu_op *other = &l->code.ops[m->what >> 8];
    if (!read_only_path(a->how->write ? other : a->op)) return;
    char where[96], who[64], place[160];
    emu_object_text(l, a->warp->block, a->object, a->at, where, sizeof where);
    emu_thread_text(l, m, who, sizeof who);
    emu_place(l, other, place, sizeof place);
    emu_find(a->warp, a->op, a->lane, TW_EMU_READ_ONLY,
             "%s %s, which %s of %s %s: one of them through the read-only path", a->how->write ? "writes" : "reads",
             where, place, who, a->how->write ? "read" : "wrote");
}

/* Returns false after a finding. */
static bool check(const access *a, emu_cell *c) {
    emu_warp *w = a->warp;
    emu_launch *l = w->launch;
    const emu_how *how = a->how;
    const emu_mark *theirs = how->write ? &c->read : &c->write;
    if (theirs->thread) check_path(a, theirs);
    const emu_mark mark = {.thread = how->thread + 1,
                           .clock = how->clock,
                           .mask = 1u << a->lane,
                           .what = (uint32_t)(a->op - l->code.ops) << 8 | (uint32_t)how->write << 7 | how->strength};
    bool fine = meets(a, &c->write);
    if (!how->write) {
        note_read(w, a->lane, c, &mark);
        return walk_read(a, c, fine);
    }
    fine = fine && meets(a, &c->read) && meets(a, &c->other);
    for (uint32_t p = c->more; p && fine; p = l->links[p].next) {
        emu_mark m = l->links[p].mark;
        fine = meets(a, &m);
    }
    note_write(w, how, a->lane, c, &mark);
    return fine;
}

/* Returns 0 when two marks are the same. Few are not, so that nothing branches. */
static uint64_t apart(const emu_mark *x, const emu_mark *y) {
    uint64_t a[2], b[2];
    memcpy(a, x, sizeof a);
    memcpy(b, y, sizeof b);
    return (a[0] ^ b[0]) | (a[1] ^ b[1]);
}

void emu_shadow(emu_warp *w, const emu_op *op, const emu_how *how, int lane, emu_object *o, uint64_t from,
                uint32_t bytes) {
    emu_launch *l = w->launch;
    if (!o->cells) {
        o->granule = l->code.granule[o->block < 0 ? TW_SPACE_global : TW_SPACE_shared];
        o->cells = calloc((size_t)(o->bytes >> o->granule) + 1, sizeof *o->cells);
        if (!o->cells) {
            l->failed = l->stop = true;
            return;
        }
    }
    access a = {w, op, how, lane, o, from, bytes, 0};
    uint64_t last = (from + bytes - 1) >> o->granule;
    /* Neighbouring granules mostly have the same marks, before and after. */
    emu_cell before = {.more = 1}, after = {.more = 1};
    for (uint64_t i = from >> o->granule; i <= last && !l->stop; i++) {
        emu_cell *c = &o->cells[i];
        if (!(before.more | after.more | c->more | apart(&c->write, &before.write) | apart(&c->read, &before.read) |
              apart(&c->other, &before.other))) {
            *c = after;
            continue;
        }
        a.at = i << o->granule;
        if (i == last) {
            check(&a, c);
            return;
        }
        before = *c;
        const bool fine = check(&a, c);
        after = *c;
        if (!fine) after.more = 1;
    }
}

/* Tells whether a mark's access came before the end of some warp of the block. */
static bool known_to(const emu_block *b, const emu_mark *m) {
    uint32_t left = m->mask;
    EMU_EACH(by, m->mask) {
        for (int i = 0; i < b->n_warps && left >> by & 1; i++)
            if (emu_knows(&b->warps[i], 0, m->thread - 1, 1u << by, m->clock)) left &= ~(1u << by);
    }
    return !left;
}

static void check_end(emu_block *b, const emu_object *o, uint64_t from, const emu_mark *m) {
    emu_launch *l = b->warps[0].launch;
    if (!m->thread || (int)((m->thread - 1) >> l->stride_log2) == b->number || known_to(b, m)) return;
    char where[96], who[64];
    emu_object_text(l, b, o, from, where, sizeof where);
    emu_thread_text(l, m, who, sizeof who);
    emu_find(&b->warps[0], &l->code.ops[m->what >> 8], -1, TW_EMU_RACE,
             "the block ends, and with it %s, which this operation of %s %s: nothing orders the two", where, who,
             writes(m) ? "writes" : "reads");
}

void emu_shadow_ends(emu_block *b) {
    const emu_launch *l = b->warps[0].launch;
    for (int i = 0; i < b->n_warps; i++) emu_converge(&b->warps[i], b->warps[i].all);
    for (int i = 0; i < l->kernel->n_shared; i++) {
        const emu_object *o = &b->shared[i];
        for (uint64_t j = 0; o->cells && j << o->granule < o->bytes && !l->stop; j++) {
            const emu_cell *c = &o->cells[j];
            check_end(b, o, j << o->granule, &c->write);
            check_end(b, o, j << o->granule, &c->read);
            check_end(b, o, j << o->granule, &c->other);
            for (uint32_t p = c->more; p; p = l->links[p].next) check_end(b, o, j << o->granule, &l->links[p].mark);
        }
    }
}
