/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores, atomics and fences. */
#include "emu/machine.h"
#include "ir/value.h"

static uint32_t count_of(const tw_attrs *at) {
    return at->vec ? (uint32_t)at->vec : 1;
}
static uint32_t size_of(const tw_attrs *at) {
    return (uint32_t)tw_type_bits((tw_type)at->type) / 8;
}

static uint64_t address_of(const emu_warp *w, const emu_op *op, int lane) {
    uint64_t a = emu_get(w, op->in[0], lane);
    return op->ir->at.space != TW_SPACE_global ? (uint32_t)(a + (uint64_t)op->ir->at.offset)
                                               : a + (uint64_t)op->ir->at.offset;
}

static inline uint64_t load(const uint8_t *p, uint32_t size) {
    uint64_t x = 0;
    /* Copies of a known size are single moves. */
    switch (size) {
    case 1:
        return *p;
    case 2:
        memcpy(&x, p, 2);
        return x;
    case 4:
        memcpy(&x, p, 4);
        return x;
    default:
        memcpy(&x, p, 8);
        return x;
    }
}

/* Returns an access's alignment. Accesses wider than 16 bytes consist of several of 16, eight single bytes of two times
   four. */
static uint32_t align_of(const tw_attrs *at) {
    uint32_t bytes = count_of(at) * size_of(at);
    return bytes > 16 ? 16 : at->type == TW_T_i8 && bytes > 4 ? 4 : bytes;
}

/* A volatile access is a relaxed one of the widest scope. */
static int scope_of(const tw_attrs *at) {
    return at->order == TW_ORDER_volatile ? TW_SCOPE_sys : at->scope;
}

static inline void set_lane(void *reg, bool wide, uint32_t lane, uint64_t x) {
    if (wide)
        ((uint64_t *)reg)[lane] = x;
    else
        ((uint32_t *)reg)[lane] = (uint32_t)x;
}

emu_next emu_exec_ld(emu_warp *w, const emu_op *op) {
    const tw_attrs *at = &op->ir->at;
    const uint32_t n = count_of(at), size = size_of(at), mask = emu_guarded(w, op);
    const bool strong = at->order != TW_ORDER_weak, wide = op->out[0].wide;
    if (op->load) emu_load_starts(w, op);
    emu_how how = emu_weak(w, true, false);
    if (strong) how.strength = (uint8_t)(1 + scope_of(at));
    how.align = align_of(at);
    void *out[8];
    emu_object *objects[EMU_LANES];
    uint64_t places[EMU_LANES];
    uint32_t seen = 0;
    for (uint32_t i = 0; i < n; i++) out[i] = emu_reg(w, op->out[i]);
    EMU_EACH(off, w->active & ~mask) for (uint32_t i = 0; i < n; i++) set_lane(out[i], wide, off, 0);
    EMU_EACH(lane, mask) {
        emu_object *o;
        uint64_t address = address_of(w, op, (int)lane);
        const uint8_t *p = emu_access(w, op, &how, (int)lane, at->space, address, n * size, &o);
        for (uint32_t i = 0; i < n; i++) set_lane(out[i], wide, lane, p ? load(p + i * size, size) : 0);
        if (!strong || !p) continue;
        emu_poll(w, op, address, load(p, size));
        objects[lane] = o;
        places[lane] = (uint64_t)(p - o->data);
        seen |= 1u << lane;
    }
    /* Lanes that read one place acquire together. */
    while (seen && w->launch->checked) {
        int lane = __builtin_ctz(seen);
        uint32_t same = 0;
        EMU_EACH(other, seen)
        same |= (uint32_t)(objects[other] == objects[lane] && places[other] == places[lane]) << other;
        emu_strong_read(w, same, objects[lane], places[lane], at->order, scope_of(at));
        seen &= ~same;
    }
    return EMU_GO;
}

emu_next emu_exec_st(emu_warp *w, const emu_op *op) {
    const tw_attrs *at = &op->ir->at;
    uint32_t n = count_of(at), size = size_of(at), bytes = n * size;
    uint8_t value[64];
    emu_how how = emu_weak(w, false, true);
    bool strong = at->order != TW_ORDER_weak;
    if (strong) how.strength = (uint8_t)(1 + scope_of(at));
    how.align = align_of(at);
    how.value = value;
    EMU_EACH(lane, emu_guarded(w, op)) {
        for (uint32_t i = 0; i < n; i++) {
            uint64_t x = emu_get(w, op->in[1 + i], (int)lane);
            memcpy(value + i * size, &x, size);
        }
        emu_object *o;
        uint64_t address = address_of(w, op, (int)lane);
        /* The access is checked with the clock before the release, which precedes the write that others see. */
        uint8_t *p = emu_access(w, op, &how, (int)lane, at->space, address, bytes, &o);
        if (!p) continue;
        if (memcmp(p, value, bytes) != 0) w->launch->progress++;
        memcpy(p, value, bytes);
        if (strong && w->launch->checked) {
            emu_strong_write(w, 1u << lane, (int)lane, o, (uint64_t)(p - o->data), at->order, scope_of(at), false);
            how.clock = w->now;
        }
    }
    return EMU_GO;
}

/* -- read-modify-write */

static uint64_t add(tw_type t, uint64_t a, uint64_t b) {
    switch (t) {
    case TW_T_f32:
        return tw_write_f32(tw_read_f32(a) + tw_read_f32(b));
    case TW_T_f64:
        return tw_write_f64(tw_read_f64(a) + tw_read_f64(b));
    case TW_T_f16:
        return tw_add_f16((uint16_t)a, (uint16_t)b);
    case TW_T_f16x2:
        return TW_PAIRWISE(tw_add_f16, a, b);
    case TW_T_bf16:
        return tw_fma_bf16((uint16_t)a, 0x3f80, (uint16_t)b);
    case TW_T_bf16x2:
        return (uint64_t)tw_fma_bf16((uint16_t)a, 0x3f80, (uint16_t)b) |
               (uint64_t)tw_fma_bf16((uint16_t)(a >> 16), 0x3f80, (uint16_t)(b >> 16)) << 16;
    default:
        return a + b;
    }
}

uint64_t emu_combine(const tw_attrs *at, uint64_t old, uint64_t x, uint64_t y) {
    bool wide = tw_type_bits((tw_type)at->type) == 64;
    int64_t so = wide ? (int64_t)old : (int32_t)old, sx = wide ? (int64_t)x : (int32_t)x;
    switch (at->rmw) {
    case TW_RMW_add:
        return add((tw_type)at->type, old, x);
    case TW_RMW_min_s32:
        return so < sx ? old : x;
    case TW_RMW_max_s32:
        return so > sx ? old : x;
    case TW_RMW_min_u32:
        return old < x ? old : x;
    case TW_RMW_max_u32:
        return old > x ? old : x;
    case TW_RMW_and:
        return old & x;
    case TW_RMW_or:
        return old | x;
    case TW_RMW_xor:
        return old ^ x;
    case TW_RMW_exch:
        return x;
    case TW_RMW_cas:
        return old == x ? y : old;
    case TW_RMW_inc:
        return old >= x ? 0 : old + 1;
    default: /* TW_RMW_dec */
        return old == 0 || old > x ? x : old - 1;
    }
}

/* Updates `n` elements for one lane, always with a strong access: relaxed if no order is given. `old` gets the first
   element's value before. */
static bool update(emu_warp *w, const emu_op *op, int lane, uint64_t *old) {
    const tw_attrs *at = &op->ir->at;
    uint32_t n = op->ir->code == TW_OP_red ? count_of(at) : 1, size = size_of(at);
    int scope = scope_of(at);
    emu_how how = emu_weak(w, true, true);
    how.strength = (uint8_t)(1 + scope);
    uint64_t address = address_of(w, op, lane);
    emu_object *o;
    uint8_t *p = emu_access(w, op, &how, lane, at->space, address, n * size, &o);
    if (!p) return false;
    bool checked = w->launch->checked;
    if (checked) emu_strong_read(w, 1u << lane, o, (uint64_t)(p - o->data), at->order, scope);
    bool changed = false;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t was = load(p + i * size, size), x = emu_get(w, op->in[1 + i], lane);
        uint64_t y = at->rmw == TW_RMW_cas && op->n_in > 2 ? emu_get(w, op->in[2], lane) : 0;
        uint64_t now = emu_combine(at, was, x, y);
        if (!i) *old = was;
        changed |= memcmp(&was, &now, size) != 0;
        memcpy(p + i * size, &now, size);
    }
    if (changed) w->launch->progress++;
    emu_poll(w, op, address, *old);
    if (checked) emu_strong_write(w, 1u << lane, lane, o, (uint64_t)(p - o->data), at->order, scope, true);
    return true;
}

emu_next emu_exec_atom(emu_warp *w, const emu_op *op) {
    uint32_t mask = emu_guarded(w, op);
    EMU_EACH(off, w->active & ~mask) emu_put(w, op->out[0], (int)off, 0);
    EMU_EACH(lane, mask) {
        uint64_t old = 0;
        update(w, op, (int)lane, &old);
        emu_put(w, op->out[0], (int)lane, old);
    }
    return EMU_GO;
}

emu_next emu_exec_red(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, emu_guarded(w, op)) {
        uint64_t old;
        update(w, op, (int)lane, &old);
    }
    return EMU_GO;
}

/* -- */

emu_next emu_exec_prefetch(emu_warp *w, const emu_op *op) {
    (void)w, (void)op; /* The address may be any: a prefetch of no object does nothing. */
    return EMU_GO;
}

emu_next emu_exec_fence(emu_warp *w, const emu_op *op) {
    if (!w->launch->checked) return EMU_GO;
    emu_loads_end(w);
    emu_fence(w, w->active, op->ir->at.scope);
    return EMU_GO;
}

static void proxy_fence(emu_warp *w, int covers) {
    emu_launch *l = w->launch;
    if (!l->checked || !covers) return;
    if (covers != EMU_FENCES_MBARRIERS) emu_loads_end(w);
    emu_proxy_fences *f = &l->proxy_fences[(size_t)w->block->number * (size_t)l->n_warps + (size_t)w->index];
    w->now++;
    uint32_t copied = UINT32_MAX;
    EMU_EACH(lane, w->active)
    if (w->waited[EMU_COPIER][lane] < copied) copied = w->waited[EMU_COPIER][lane];
    /* A fence of the same lanes could replace the last one, if nothing of theirs became known to others in between.
       Each is only 16 bytes. */
    if (!emu_grow(l, (void **)&f->list, f->n, &f->room, sizeof *f->list)) return;
    f->list[f->n++] = (emu_proxy_fence){w->active, w->now, copied, covers};
}

emu_next emu_exec_fence_proxy(emu_warp *w, const emu_op *op) {
    /* The emulator has no accesses through an alias, and none that read a tensor map from memory. */
    static const int covers[TW_PROXIES] = {
        [TW_PROXY_async_shared] = EMU_FENCES_SHARED | EMU_FENCES_MBARRIERS,
        [TW_PROXY_async_cluster] = EMU_FENCES_SHARED | EMU_FENCES_CLUSTER | EMU_FENCES_MBARRIERS,
        [TW_PROXY_async_global] = EMU_FENCES_GLOBAL,
        [TW_PROXY_async_all] = EMU_FENCES_SHARED | EMU_FENCES_CLUSTER | EMU_FENCES_GLOBAL | EMU_FENCES_MBARRIERS,
    };
    proxy_fence(w, covers[op->ir->at.proxy]);
    return EMU_GO;
}

emu_next emu_exec_fence_mbarrier_init(emu_warp *w, const emu_op *op) {
    (void)op;
    proxy_fence(w, EMU_FENCES_MBARRIERS);
    return EMU_GO;
}

/* -- programmatic launches */

emu_next emu_exec_griddep_wait(emu_warp *w, const emu_op *op) {
    emu_launch *l = w->launch;
    emu_clock c = {.block = w->block->number};
    (void)op;
    if (!l->checked || !l->options->overlaps) return EMU_GO;
    emu_clock_put(l, &c, l->before, EMU_ALL, 1);
    emu_acquire(w, w->active, &c);
    emu_clock_free(&c);
    return EMU_GO;
}

emu_next emu_exec_griddep_launch(emu_warp *w, const emu_op *op) {
    (void)w, (void)op;
    return EMU_GO;
}
