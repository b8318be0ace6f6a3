/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware's barriers, which have numbers, and mbarriers, which are in shared memory. */
#include "emu/machine.h"

#include <stdlib.h>

/* Checks that every lane that is alive takes part. Returns false after a finding. */
static bool together(emu_warp *w, const emu_op *op) {
    uint32_t missing = w->live & ~w->active;
    if (!missing) return true;
    emu_find(w, op, __builtin_ctz(w->active | 1u << 31), TW_EMU_DIVERGENCE,
             "lane %d and %d more of this warp are not there", __builtin_ctz(missing), __builtin_popcount(missing) - 1);
    return false;
}

static void finish(emu_warp *w, emu_barrier *b, int number) {
    emu_block *block = w->block;
    for (int i = 0; i < block->n_warps; i++) {
        emu_warp *x = &block->warps[i];
        bool waits = x->state == EMU_WAITS_BARRIER && x->waits_at == (uint32_t)number;
        if (!waits) continue;
        if (w->launch->checked) emu_clock_join(w->launch, &x->known, &b->clock);
        emu_wake(x);
    }
    w->launch->progress++;
    emu_clock_clear(&b->clock);
    b->arrived = 0;
    b->in = 0;
    b->waits = NULL;
}

static bool counts_fit(emu_warp *w, const emu_op *op, const emu_barrier *b, int number, int count) {
    int threads = w->block->n_warps * EMU_LANES;
    if (number < 0 || number >= EMU_NAMED_BARRIERS) {
        emu_find(w, op, -1, TW_EMU_BARRIER, "barrier %d: they go from 0 to %d", number, EMU_NAMED_BARRIERS - 1);
        return false;
    }
    if (count <= 0 || count % EMU_LANES || count > threads) {
        emu_find(w, op, -1, TW_EMU_BARRIER, "barrier %d for %d threads: not whole warps, or not that many here", number,
                 count);
        return false;
    }
    if (b->arrived && b->count != count) {
        char place[160];
        emu_place(w->launch, b->first, place, sizeof place);
        emu_find(w, op, -1, TW_EMU_BARRIER, "barrier %d for %d threads, but %s of warp %d expects %d", number, count,
                 place, b->first_warp, b->count);
        return false;
    }
    if (b->arrived && b->in >> w->index & 1) {
        emu_find(w, op, -1, TW_EMU_BARRIER, "arrives at barrier %d again, with %d of %d threads there", number,
                 b->arrived, b->count);
        return false;
    }
    return true;
}

/* Checks that threads wait at a barrier by one operation, unless this one allows several. */
static bool in_one_place(emu_warp *w, const emu_op *op, emu_barrier *b, int number) {
    if (b->waits && b->waits->ir != op->ir && !(b->waits->ir->at.apart && op->ir->at.apart)) {
        char place[160];
        emu_place(w->launch, b->waits, place, sizeof place);
        emu_find(w, op, -1, TW_EMU_BARRIER, "waits at barrier %d, but warp %d does so at %s, and not both have apart=1",
                 number, b->waiting_warp, place);
        return false;
    }
    b->waits = op;
    b->waiting_warp = w->index;
    return true;
}

static emu_next arrive(emu_warp *w, const emu_op *op, int number, int count, bool waits) {
    if (!together(w, op)) return EMU_GO;
    emu_barrier *b = &w->block->barriers[number & (EMU_NAMED_BARRIERS - 1)];
    if (!counts_fit(w, op, b, number, count)) return EMU_GO;
    if (waits && !in_one_place(w, op, b, number)) return EMU_GO;
    if (!b->arrived) {
        b->count = count;
        b->first = op;
        b->first_warp = w->index;
    }
    if (w->launch->checked) {
        emu_loads_end(w);
        emu_converge(w, w->live);
        emu_clock_join(w->launch, &b->clock, &w->known);
    }
    b->arrived += EMU_LANES;
    b->in |= 1u << w->index;
    w->pc++;
    if (waits) {
        w->waits_at = (uint32_t)number;
        emu_park(w, EMU_WAITS_BARRIER, op);
    }
    if (b->arrived == b->count) finish(w, b, number);
    return waits ? EMU_PARKED : EMU_JUMPED;
}

emu_next emu_exec_barrier(emu_warp *w, const emu_op *op) {
    return arrive(w, op, 0, w->block->n_warps * EMU_LANES, true);
}

emu_next emu_exec_barrier_sync(emu_warp *w, const emu_op *op) {
    return arrive(w, op, (int)emu_get(w, op->in[0], __builtin_ctz(w->active)), op->ir->at.count, true);
}

emu_next emu_exec_barrier_arrive(emu_warp *w, const emu_op *op) {
    return arrive(w, op, (int)emu_get(w, op->in[0], __builtin_ctz(w->active)), op->ir->at.count, false);
}

/* -- clusters */

/* Lets a cluster go on when all of its warps that have not exited have arrived. */
void emu_cluster_check(emu_launch *l, int cluster) {
    emu_clock met = {.block = cluster * l->cluster};
    int there = 0;
    for (int i = 0; i < l->n_resident; i++) {
        const emu_block *b = l->resident[i];
        for (int j = 0; j < b->n_warps && b->number / l->cluster == cluster; j++) {
            if (b->warps[j].state != EMU_WAITS_CLUSTER && b->warps[j].state != EMU_DONE) return;
            there += b->warps[j].state == EMU_WAITS_CLUSTER;
        }
    }
    for (int waking = 0; waking < 2 && there; waking++)
        for (int i = 0; i < l->n_resident; i++) {
            const emu_block *b = l->resident[i];
            for (int j = 0; j < b->n_warps && b->number / l->cluster == cluster; j++) {
                emu_warp *w = &b->warps[j];
                if (w->state != EMU_WAITS_CLUSTER) continue;
                if (!waking)
                    emu_clock_join(l, &met, &w->known);
                else
                    emu_clock_join(l, &w->known, &met);
                if (waking) emu_wake(w);
            }
        }
    if (there) l->progress++;
    emu_clock_free(&met);
}

emu_next emu_exec_cluster_sync(emu_warp *w, const emu_op *op) {
    emu_launch *l = w->launch;
    if (!together(w, op)) return EMU_GO;
    if (l->checked) emu_loads_end(w);
    if (l->checked) emu_converge(w, w->live);
    w->pc++;
    emu_park(w, EMU_WAITS_CLUSTER, op);
    emu_cluster_check(l, w->block->number / l->cluster);
    return EMU_PARKED;
}

/* -- mbarriers */

emu_mbarrier *emu_mbarrier_at(emu_block *b, uint32_t address) {
    for (int i = 0; i < b->n_mbarriers; i++)
        if (b->mbarriers[i].address == address) return &b->mbarriers[i];
    return NULL;
}

static uint32_t thread_of(const emu_warp *w, const emu_mbarrier *m) {
    return (uint32_t)m->block->number << w->launch->stride_log2 | (uint32_t)m->slot;
}

emu_mbarrier *emu_mbarrier_usable(emu_warp *w, const emu_op *op, int lane, uint32_t address) {
    return emu_mbarrier_usable_in(w, w->block, op, lane, address);
}

emu_mbarrier *emu_mbarrier_usable_in(emu_warp *w, emu_block *home, const emu_op *op, int lane, uint32_t address) {
    emu_launch *l = w->launch;
    emu_mbarrier *m = emu_mbarrier_at(home, address);
    char where[96];
    if (!m || !m->live) {
        emu_address_text(l, home, TW_SPACE_shared, address, where, sizeof where);
        emu_find(w, op, lane, TW_EMU_MBARRIER, "%s is no mbarrier: it was %s", where,
                 m ? "invalidated" : "not initialised");
        return NULL;
    }
    if (!l->checked) return m;
    uint32_t by = home->warps[m->init_warp].thread;
    if (!emu_knows(w, lane, by, 1u << m->init_lane, m->init_clock)) {
        char place[160];
        emu_address_text(l, home, TW_SPACE_shared, address, where, sizeof where);
        emu_place(l, m->init_op, place, sizeof place);
        emu_find(w, op, lane, TW_EMU_RACE, "uses %s, which %s of warp %d lane %d initialised: nothing orders the two",
                 where, place, m->init_warp, m->init_lane);
        return NULL;
    }
    if (op->ir->code != TW_OP_bulk_load && op->ir->code != TW_OP_tensor_load) return m;
    const emu_proxy_fences *f = &l->proxy_fences[(size_t)home->number * (size_t)l->n_warps + (size_t)m->init_warp];
    for (int i = 0; i < f->n; i++)
        if (f->list[i].mask >> m->init_lane & 1 && f->list[i].clock > m->init_clock &&
            emu_knows(w, lane, by, 1u << m->init_lane, f->list[i].clock - 1))
            return m;
    emu_address_text(l, home, TW_SPACE_shared, address, where, sizeof where);
    emu_find(w, op, lane, TW_EMU_PROXY,
             "completes at %s, after whose initialisation there was no fence_mbarrier_init or fence_proxy", where);
    return m;
}

/* Reports an access to an mbarrier's memory as if it were data. */
void emu_mbarrier_over(emu_warp *w, const emu_op *op, int lane, emu_object *o, uint64_t from, uint32_t bytes) {
    char where[96];
    emu_object_text(w->launch, w->block, o, from, where, sizeof where);
    emu_find(w, op, lane, TW_EMU_MBARRIER, "accesses %u bytes at %s, where an mbarrier is", bytes, where);
}

static emu_mbarrier *new_mbarrier(emu_warp *w, const emu_op *op, int lane, uint32_t address) {
    emu_block *b = w->block;
    emu_launch *l = w->launch;
    int slot = l->n_warps * EMU_AGENTS + b->n_mbarriers;
    if (slot >= l->stride) {
        emu_find(w, op, lane, TW_EMU_MBARRIER, "more than %d mbarriers in a block", b->n_mbarriers);
        return NULL;
    }
    if (!emu_grow(l, (void **)&b->mbarriers, b->n_mbarriers, &b->room_mbarriers, sizeof *b->mbarriers)) return NULL;
    emu_mbarrier *m = &b->mbarriers[b->n_mbarriers++];
    *m = (emu_mbarrier){.block = b, .address = address, .slot = slot};
    m->arriving.block = m->done.block = b->number;
    return m;
}

static void initialise(emu_warp *w, const emu_op *op, int lane) {
    emu_launch *l = w->launch;
    uint32_t address = (uint32_t)emu_get(w, op->in[0], lane);
    int64_t count = (int32_t)emu_get(w, op->in[1], lane);
    char where[96];
    emu_address_text(l, w->block, TW_SPACE_shared, address, where, sizeof where);
    emu_mbarrier *m = emu_mbarrier_at(w->block, address);
    if (m && m->live) {
        emu_find(w, op, lane, TW_EMU_MBARRIER,
                 "initialises %s, which is an mbarrier already: mbarrier_inval comes first", where);
        return;
    }
    emu_object *o;
    emu_how how = emu_weak(w, false, true);
    if (!emu_access(w, op, &how, lane, TW_SPACE_shared, address, 8, &o)) return;
    if (count < 1 || count >= 1 << 20) {
        emu_find(w, op, lane, TW_EMU_MBARRIER, "initialises %s with %lld arrivals", where, (long long)count);
        return;
    }
    if (!m) m = new_mbarrier(w, op, lane, address);
    if (!m) return;
    m->live = true;
    m->count = m->pending = count;
    m->bytes = 0;
    /* An even number of phases has ended, so that parities begin with 0. */
    m->phase = (m->phase + 1) & ~1u;
    m->init_clock = w->now;
    m->init_warp = w->index;
    m->init_lane = lane;
    m->init_op = op;
    emu_clock_clear(&m->arriving);
    emu_clock_clear(&m->done);
    if (l->checked) memset(o->written + (address - o->base), EMU_MBARRIER, 8);
    l->progress++;
}

emu_next emu_exec_mbarrier_init(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, emu_guarded(w, op)) initialise(w, op, (int)lane);
    return EMU_GO;
}

emu_next emu_exec_mbarrier_inval(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, emu_guarded(w, op)) {
        uint32_t address = (uint32_t)emu_get(w, op->in[0], (int)lane);
        emu_mbarrier *m = emu_mbarrier_usable(w, op, (int)lane, address);
        if (!m) continue;
        m->live = false;
        emu_object *o = emu_shared_at(w->launch, w->block, address);
        if (o) memset(o->written + (address - o->base), EMU_NOT_WRITTEN, 8);
    }
    return EMU_GO;
}

/* Ends the phase if nothing is missing. */
static void complete(emu_warp *w, const emu_op *op, int lane, emu_mbarrier *m) {
    emu_launch *l = w->launch;
    char where[96];
    if (m->pending || m->bytes > 0) return;
    emu_address_text(l, m->block, TW_SPACE_shared, m->address, where, sizeof where);
    if (m->bytes < 0) {
        emu_find(w, op, lane, TW_EMU_MBARRIER, "phase %u of %s: %lld bytes more have landed than were expected",
                 m->phase, where, (long long)-m->bytes);
        return;
    }
    if (m->copies) {
        emu_find(w, op, lane, TW_EMU_MBARRIER,
                 "phase %u of %s ends while %d of its copies are in flight: fewer bytes were expected", m->phase, where,
                 m->copies);
        return;
    }
    m->phase++;
    m->pending = m->count;
    emu_clock done = m->done;
    m->done = m->arriving;
    m->arriving = done;
    emu_clock_clear(&m->arriving);
    if (l->checked) emu_clock_put(l, &m->done, thread_of(w, m), EMU_ALL, m->phase);
    l->progress++;
    for (int i = 0; i < m->block->n_warps; i++)
        if (m->block->warps[i].state == EMU_WAITS_MBARRIER) emu_wake(&m->block->warps[i]);
}

void emu_mbarrier_arrived(emu_warp *w, const emu_op *op, uint32_t lanes, emu_mbarrier *m, int64_t count,
                          bool releases) {
    emu_launch *l = w->launch;
    const int lane = __builtin_ctz(lanes);
    if (m->pending < count) {
        char where[96];
        emu_address_text(l, m->block, TW_SPACE_shared, m->address, where, sizeof where);
        emu_find(w, op, lane, TW_EMU_MBARRIER,
                 "arrives %lld times at %s, where phase %u misses %lld of %lld arrivals and %lld bytes",
                 (long long)count, where, m->phase, (long long)m->pending, (long long)m->count, (long long)m->bytes);
        return;
    }
    m->pending -= count;
    l->progress++;
    if (l->checked && releases) emu_release(w, lanes, &m->arriving);
    complete(w, op, lane, m);
}

void emu_mbarrier_landed(emu_warp *w, emu_block *home, const emu_op *op, int lane, uint32_t address, uint32_t phase,
                         int64_t bytes) {
    emu_mbarrier *m = emu_mbarrier_at(home, address);
    if (!m || !m->live || m->phase != phase) {
        emu_find(w, op, lane, TW_EMU_MBARRIER, "the copy lands after the phase that it belongs to has gone");
        return;
    }
    m->copies--;
    m->bytes -= bytes;
    complete(w, op, lane, m);
}

/* Finds the mbarrier that a lane arrives at. */
static emu_mbarrier *arrived_at(emu_warp *w, const emu_op *op, int lane, uint32_t address) {
    if (op->ir->at.space != TW_SPACE_cluster) return emu_mbarrier_usable(w, op, lane, address);
    emu_block *home = emu_block_of(w, address);
    if (home) return emu_mbarrier_usable_in(w, home, op, lane, address & EMU_RANK_MASK);
    emu_find(w, op, lane, TW_EMU_BOUNDS, "arrives in block rank %d of its cluster, which has ended", emu_rank(address));
    return NULL;
}

/* Lanes that arrive at one mbarrier do so together, as long as its phase has room for all of them. */
emu_next emu_exec_mbarrier_arrive(emu_warp *w, const emu_op *op) {
    const int64_t count = op->ir->at.count ? op->ir->at.count : 1;
    for (uint32_t left = emu_guarded(w, op); left;) {
        const int lane = __builtin_ctz(left);
        const uint32_t address = (uint32_t)emu_get(w, op->in[0], lane);
        uint32_t together = 0;
        EMU_EACH(other, left) {
            if ((uint32_t)emu_get(w, op->in[0], (int)other) == address) together |= 1u << other;
        }
        emu_mbarrier *m = arrived_at(w, op, lane, address);
        if (!m || m->pending < count * __builtin_popcount(together)) together = 1u << lane;
        if (m) emu_mbarrier_arrived(w, op, together, m, count * __builtin_popcount(together), true);
        left &= ~together;
    }
    return EMU_GO;
}

emu_next emu_exec_mbarrier_expect(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, emu_guarded(w, op)) {
        emu_mbarrier *m = emu_mbarrier_usable(w, op, (int)lane, (uint32_t)emu_get(w, op->in[0], (int)lane));
        if (!m) continue;
        m->bytes += (int64_t)emu_get(w, op->in[1], (int)lane);
        emu_mbarrier_arrived(w, op, 1u << lane, m, 1, true);
    }
    return EMU_GO;
}

/* Tells whether the phase of this parity has ended. If it has, these lanes acquire what its arrivals released. */
static bool ended(emu_warp *w, const emu_op *op, uint32_t mask, uint32_t address, uint32_t parity) {
    emu_launch *l = w->launch;
    int lane = __builtin_ctz(mask);
    emu_mbarrier *m = emu_mbarrier_usable(w, op, lane, address);
    if (!m) return true;
    if (l->checked) {
        /* The number of phases that this lane knows to have ended. It waits for the next one, or again for the last. */
        uint32_t known = emu_known_of(w, lane, thread_of(w, m), 0);
        if ((known & 1) == (parity & 1) && m->phase >= known + 2) {
            char where[96];
            emu_address_text(l, w->block, TW_SPACE_shared, address, where, sizeof where);
            emu_find(w, op, lane, TW_EMU_MBARRIER,
                     "waits for phase %u of %s, but phase %u has ended too: its parity means another one", known, where,
                     m->phase - 1);
            return true;
        }
    }
    if ((m->phase & 1) == (parity & 1)) return false;
    if (l->checked) {
        m->waited = m->phase;
        emu_acquire(w, mask, &m->done);
    }
    return true;
}

/* Takes from `left` the first lane, and all lanes that wait for the same phase. */
static uint32_t alike(const emu_warp *w, const emu_op *op, uint32_t *left, uint32_t *address, uint32_t *parity) {
    int lane = __builtin_ctz(*left);
    uint32_t same = 0;
    *address = (uint32_t)emu_get(w, op->in[0], lane);
    *parity = (uint32_t)emu_get(w, op->in[1], lane);
    EMU_EACH(other, *left)
    if ((uint32_t)emu_get(w, op->in[0], (int)other) == *address &&
        (uint32_t)emu_get(w, op->in[1], (int)other) == *parity)
        same |= 1u << other;
    *left &= ~same;
    return same;
}

emu_next emu_exec_mbarrier_test(emu_warp *w, const emu_op *op) {
    for (uint32_t left = w->active, address, parity; left;) {
        uint32_t mask = alike(w, op, &left, &address, &parity);
        bool yes = ended(w, op, mask, address, parity);
        EMU_EACH(lane, mask) emu_put(w, op->out[0], (int)lane, yes);
        emu_poll(w, op, address, yes);
    }
    return EMU_GO;
}

emu_next emu_exec_mbarrier_wait(emu_warp *w, const emu_op *op) {
    for (uint32_t left = w->active, address, parity; left && !w->launch->stop;) {
        uint32_t mask = alike(w, op, &left, &address, &parity);
        if (ended(w, op, mask, address, parity) || w->launch->stop) continue;
        /* The warp tries again when a phase ends. */
        w->waits_at = address;
        w->waits_parity = parity;
        emu_park(w, EMU_WAITS_MBARRIER, op);
        return EMU_PARKED;
    }
    return EMU_GO;
}

/* -- */

void emu_block_ends(emu_block *b) {
    emu_warp *w = &b->warps[0];
    emu_launch *l = w->launch;
    char where[96];
    for (int i = 0; i < EMU_NAMED_BARRIERS; i++)
        if (b->barriers[i].arrived)
            emu_find(w, b->barriers[i].first, -1, TW_EMU_LEAK, "block ends with %d of %d threads at barrier %d",
                     b->barriers[i].arrived, b->barriers[i].count, i);
    for (int i = 0; i < b->n_mbarriers && l->checked; i++) {
        const emu_mbarrier *m = &b->mbarriers[i];
        if (m->copied <= m->waited) continue;
        emu_address_text(l, b, TW_SPACE_shared, m->address, where, sizeof where);
        emu_find(w, m->init_op, -1, TW_EMU_LEAK, "block ends, and nobody has waited for the copies that complete at %s",
                 where);
    }
}
