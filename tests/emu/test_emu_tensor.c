/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of tensor maps of one to five dimensions, and by im2col: a kernel fetches one, shows what lies in shared
   memory, and stores or reduces it elsewhere. Maps are random, and what must come of them is walked element by element.
   Then the same with one fault at a time. */
#include "emu/emu_test.h"

#include "device/tensor_map.h"
#include "emu/on_device.h"
#include "ir/verify.h"

enum { TILE = 32768, ARRAY = 40000, ROOM = 65536 };

enum {
    NO_FENCE = 1,  /* a plain write to the box, stored without a proxy fence */
    FENCED,        /* no fault: the same with one */
    OVERWRITTEN,   /* the box is written while it is stored */
    NOT_OWNED,     /* another lane waits for the group */
    NO_WAIT,       /* nobody waits before the end */
    READ_OUTPUT,   /* the array is read where it is stored to, before it was waited for */
    WRONG_DIMS,    /* of another map */
    WRONG_TYPE,    /* of a reduction */
    UNALIGNED,     /* the box does not begin where a box may */
    WITHIN_PIECE,  /* the box begins within 16 bytes of a row of the array */
    BEFORE_ARRAY,  /* the box begins before the array */
    BEFORE_ROW,    /* the box begins before a row of the array */
    BEYOND_SHARED, /* the box ends outside of shared memory */
    NOT_COMMITTED, /* waits for nothing */
    NO_PIXEL,      /* begins outside of its bounding box */
};

static const tw_attrs none = {0};
static const tw_attrs word = {.type = TW_T_i32, .space = TW_SPACE_shared};

typedef struct scenario {
    tw_tensor_map in, out;
    int64_t from[TW_TENSOR_DIMS], to[TW_TENSOR_DIMS];
    int offset[TW_TENSOR_DIMS];
    bool reduces;
    int fault;
} scenario;

static int bytes_of(const tw_tensor_map *m) {
    return tw_tensor_map_rows(m) * tw_tensor_map_row_bytes(m);
}

static tw_box box_of(tw_builder *b, tw_val map, const tw_tensor_map *m, const int64_t *at, const int *offset) {
    tw_box box = {.map = map};
    for (int i = 0; i < m->dims; i++) box.at[i] = tw_i32(b, (int32_t)at[i]);
    for (int i = 0; i < m->dims - 2; i++) box.offset[i] = tw_const(b, TW_T_i16, (uint64_t)offset[i]);
    return box;
}

static void put_back(tw_builder *b, const scenario *s, tw_val map, tw_val tile, tw_val raw) {
    tw_attrs at = {.dims = s->out.dims, .im2col = s->out.im2col};
    tw_val lane = tw_sreg(b, TW_SREG_laneid), lead = tw_eq(b, lane, tw_i32(b, 0)), x = tw_i32(b, 7);
    const tw_box box = box_of(b, map, &s->out, s->to, s->offset);
    if (s->fault == NO_FENCE || s->fault == FENCED) {
        tw_val own = tw_add(b, tile, tw_mul_imm(b, lane, 4));
        store(b, word, own, tw_ld(b, word, own));
    }
    if (s->fault == FENCED) tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, none, tw_i32(b, -1), TW_NONE);
    if (s->fault == WRONG_DIMS) at.dims = s->out.dims - 1;
    if (s->fault == UNALIGNED) tile = tw_add_imm(b, tile, 64);
    if (s->fault == BEYOND_SHARED) tile = tw_add_imm(b, tile, TILE - 1024);
    const tw_scope if_lead = tw_push_if(b, lead);
    if (s->reduces) {
        at.type = s->fault == WRONG_TYPE ? TW_T_i32 : TW_T_f32;
        at.rmw = TW_RMW_add;
        tw_tensor_reduce(b, at, &box, tile, TW_NONE);
    } else {
        tw_tensor_store(b, at, &box, tile, TW_NONE);
    }
    if (s->fault != NOT_COMMITTED) tw_do(b, TW_OP_bulk_commit, none, TW_NONE, TW_NONE);
    if (s->fault == OVERWRITTEN) store(b, word, tile, x);
    if (s->fault == READ_OUTPUT) store(b, (tw_attrs){.type = TW_T_i32}, raw, x);
    if (s->fault != NO_WAIT && s->fault != NOT_OWNED) tw_do(b, TW_OP_bulk_wait, none, TW_NONE, TW_NONE);
    tw_pop(b, if_lead);
    if (s->fault == NOT_OWNED) tw_unless(b, lead);
    if (s->fault == NOT_OWNED) tw_do(b, TW_OP_bulk_wait, none, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, none, tw_i32(b, -1), TW_NONE);
    if (s->fault != NOT_OWNED) return;
    tw_val own = tw_add(b, tile, tw_mul_imm(b, lane, 4));
    tw_unless(b, lead);
    store(b, word, own, x);
}

static tw_kernel *build(const scenario *s) {
    tw_kernel *k = tw_kernel_new("boxes", 90, 32);
    tw_builder builder = tw_builder_of(k), *b = &builder;
    tw_val in = tw_map_add(b, "in"), out = tw_map_add(b, "out"), raw = tw_pointer_add(b, "raw", 16, false);
    tw_val array = tw_pointer_add(b, "array", 16, false);
    tw_shared_add(b, "tile", TILE, 1024, true);
    tw_shared_add(b, "full", 8, 8, true);
    tw_val tile = tw_shared_base(b, "tile"), full = tw_shared_base(b, "full"), lane = tw_sreg(b, TW_SREG_laneid);
    const tw_attrs at = {.dims = s->in.dims, .im2col = s->in.im2col};
    const tw_box box = box_of(b, in, &s->in, s->from, s->offset);
    const tw_scope first_lane = tw_push_if(b, tw_eq(b, lane, tw_i32(b, 0)));
    tw_do(b, TW_OP_mbarrier_init, none, full, tw_i32(b, 1));
    tw_do(b, TW_OP_fence_mbarrier_init, none, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_mbarrier_expect, none, full, tw_i32(b, bytes_of(&s->in)));
    tw_tensor_prefetch_box(b, at, &box, TW_NONE);
    tw_tensor_load_box(b, at, tile, &box, full, TW_NONE);
    tw_pop(b, first_lane);
    tw_do(b, TW_OP_warp_sync, none, tw_i32(b, -1), TW_NONE);
    tw_do(b, TW_OP_mbarrier_wait, none, full, tw_i32(b, 0));
    const tw_scope loop = tw_push_for(b, lane, tw_i32(b, bytes_of(&s->in) / 4), tw_i32(b, 32), false);
    tw_val i = loop.i;
    store(b, (tw_attrs){.type = TW_T_i32}, at64(b, raw, i, 4), tw_ld(b, word, tw_add(b, tile, tw_mul_imm(b, i, 4))));
    tw_pop(b, loop);
    put_back(b, s, out, tile, array);
    return k;
}

/* -- what must come of it, walked as the manual says */

typedef void visit(void *context, int64_t element, int place);

/* Each element of a box, in the order in which they lie: its number in the array, or -1 outside, and where it lies. A
   row of the array has `length` elements. */
static void walk_box(const tw_tensor_map *m, int64_t length, const int64_t *at, const int *offset, visit *f,
                     void *context) {
    const int size = tw_tensor_element_bytes(m->element), rows = tw_tensor_map_rows(m);
    const int width = tw_tensor_map_row_bytes(m) / size;
    int64_t c[TW_TENSOR_DIMS];
    memcpy(c, at, sizeof c);
    for (int row = 0, n = 0; row < rows; row++) {
        for (int e = 0; e < width; e++, n += size) {
            const int pattern = m->swizzle ? n / 128 % (m->swizzle / 16) : 0;
            int64_t place = (c[0] + e) * size;
            bool inside = c[0] + e >= 0 && c[0] + e < length;
            for (int d = 1; d < m->dims; d++) {
                const int64_t x = c[d] + (m->im2col && d < m->dims - 1 ? offset[d - 1] : 0);
                inside &= x >= 0 && x < m->extent[d];
                place += x * m->stride[d];
            }
            f(context, inside ? place / size : -1, (n / 16 ^ pattern) * 16 + n % 16);
        }
        for (int d = 1; d < m->dims; d++) {
            const int step = m->step[d] ? m->step[d] : 1;
            const bool space = m->im2col && d < m->dims - 1;
            c[d] += m->im2col && !space ? 1 : step;
            const int64_t end = space ? m->extent[d] + m->upper[d - 1] : m->im2col ? INT64_MAX : at[d] + m->box[d];
            if (c[d] < end) break;
            c[d] = space ? m->lower[d - 1] : at[d];
        }
    }
}

typedef struct checking {
    const tw_tensor_map *map;
    const uint8_t *array, *tile;
    uint8_t *expected; /* the other array */
    bool reduces;
    int wrong, inside;
} checking;

static void check_tile(void *context, int64_t element, int place) {
    checking *x = context;
    const int size = tw_tensor_element_bytes(x->map->element);
    static const uint8_t zeros[8];
    x->inside += element >= 0;
    x->wrong += memcmp(x->tile + place, element < 0 ? zeros : x->array + element * size, (size_t)size) != 0;
}

static void expect_element(void *context, int64_t element, int place) {
    checking *x = context;
    const int size = tw_tensor_element_bytes(x->map->element);
    if (element < 0) return;
    x->inside++;
    float a, b;
    memcpy(&a, x->expected + element * size, sizeof a * (size == 4));
    memcpy(&b, x->tile + place, sizeof b * (size == 4));
    a += b;
    memcpy(x->expected + element * size, x->reduces ? (const uint8_t *)&a : x->tile + place, (size_t)size);
}

/* Small numbers in every element, be it looked at as f32 or as bytes. */
static void fill(uint8_t *x, int size, int seed) {
    for (int i = 0; i + size <= ROOM; i += size) {
        const float f = (float)((i * 7 + seed) % 101);
        const uint64_t n = (uint64_t)i * 0x9e3779b97f4a7c15u >> 8;
        memcpy(x + i, size == 4 ? (const void *)&f : (const void *)&n, (size_t)size);
    }
}

static int outside, elements;

/* The box that was fetched, and the array `now`, which was `out` before. */
static void check_boxes(const scenario *s, uint64_t seed, const uint8_t *in, uint8_t *out, const uint8_t *tile,
                        const uint8_t *now) {
    const int no_offset[TW_TENSOR_DIMS] = {0}, piece = 16 / tw_tensor_element_bytes(s->out.element);
    checking c = {.map = &s->in, .array = in, .tile = tile, .expected = out, .reduces = s->reduces};
    walk_box(&s->in, s->in.extent[0], s->from, s->offset, check_tile, &c);
    outside += bytes_of(&s->in) / tw_tensor_element_bytes(s->in.element) - c.inside;
    elements += c.inside;
    c.map = &s->out;
    /* A store fills the last 16 bytes that an array's row begins. */
    walk_box(&s->out, (s->out.extent[0] + piece - 1) / piece * piece, s->to, no_offset, expect_element, &c);
    const bool same = !memcmp(now, out, ROOM);
    if (c.wrong || !same)
        fail_msg("seed %d, %d dims%s: %d elements of the box are wrong, the array %s", (int)seed, s->in.dims,
                 s->in.im2col ? ", im2col" : "", c.wrong, same ? "is right" : "too");
}

static size_t room_of_out = ROOM; /* Bytes of the array that the box is stored to. */

static tw_status play_boxes(const scenario *s, uint64_t seed, bool keep_going, tw_emu_report *r) {
    static uint8_t in[ROOM], out[ROOM], tile[TILE];
    scenario x = *s;
    tw_emu *e = tw_emu_new();
    tw_diag d;
    fill(in, tw_tensor_element_bytes(x.in.element), 3);
    fill(out, tw_tensor_element_bytes(x.in.element), 5);
    x.in.address = tw_emu_alloc(e, "in", in, sizeof in, true);
    x.out.address = tw_emu_alloc(e, "out", out, room_of_out, false);
    tw_kernel *k = build(&x);
    if (tw_kernel_verify(k, 90, &d) != TW_OK) fail_msg("%s", d.message);
    const uint64_t a[4] = {(uint64_t)(uintptr_t)&x.in, (uint64_t)(uintptr_t)&x.out,
                           tw_emu_alloc(e, "raw", NULL, TILE, false), x.out.address};
    tw_emu_options o = {.seed = seed, .keep_going = keep_going};
    tw_status st = tw_emu_launch(e, k, a, &o, r, &d);
    if (st != TW_OK && st != TW_ERR_REJECTED) fail_msg("%s", d.message);
    if (st == TW_OK) {
        tw_emu_read(e, a[2], tile, (size_t)bytes_of(&x.in));
        uint8_t *now = malloc(sizeof out);
        assert_non_null(now);
        memcpy(now, out, sizeof out);
        tw_emu_read(e, x.out.address, now, room_of_out);
        check_boxes(&x, seed, in, out, tile, now);
        free(now);
    }
    tw_kernel_free(k);
    tw_emu_free(e);
    return st;
}

/* -- random maps */

static int below(tw_random *r, int n) {
    return (int)tw_random_below(r, (uint64_t)n);
}

/* The strides of an array that has its extents, with something between the rows. */
static bool lay_out(tw_tensor_map *m, tw_random *r) {
    int64_t bytes = m->extent[0] * tw_tensor_element_bytes(m->element);
    for (int i = 1; i < m->dims; i++) {
        m->stride[i] = (bytes + 15) / 16 * 16 + 16 * below(r, 2);
        bytes = m->stride[i] * m->extent[i];
    }
    return bytes <= ARRAY;
}

static const int swizzles[] = {0, 0, 32, 64, 128};

/* Draws where a box begins along a row, at most `before` pieces before the row, or behind its end. */
static int64_t along_row(const tw_tensor_map *m, int before, tw_random *r) {
    const int piece = 16 / tw_tensor_element_bytes(m->element);
    return (int64_t)(below(r, (int)m->extent[0] / piece + 2 + before) - before) * piece;
}

static void random_tile(scenario *s, tw_random *r) {
    tw_tensor_map *m = &s->in;
    do {
        *m = (tw_tensor_map){.element = (tw_tensor_element)below(r, TW_TENSOR_ELEMENTS), .dims = 1 + below(r, 5)};
        if (s->reduces) m->element = TW_TENSOR_F32;
        const int size = tw_tensor_element_bytes(m->element);
        m->swizzle = swizzles[below(r, 5)];
        for (int i = 0; i < m->dims; i++) {
            m->extent[i] = 1 + below(r, i ? 9 : 90);
            m->box[i] = 1 + below(r, i ? 6 : 1);
            m->step[i] = i ? below(r, 4) : below(r, 2);
        }
        m->box[0] = (m->swizzle ? m->swizzle : 16 * (1 + below(r, 6))) / size;
    } while (m->box[0] > 256 || bytes_of(m) > TILE || !lay_out(m, r));
    s->out = *m;
    for (int i = 0; i < m->dims; i++) {
        s->from[i] = i ? below(r, (int)m->extent[i] + 1) - 1 : along_row(m, 1, r);
        s->to[i] = i ? below(r, (int)m->extent[i] + 1) : along_row(m, 0, r);
    }
}

/* Draws a pixel of the bounding box along a dimension of space. */
static int pixel_of(const tw_tensor_map *m, int d, tw_random *r) {
    const int step = tw_tensor_map_step(m, d), last = (int)m->extent[d] - 1 + m->upper[d - 1];
    return m->lower[d - 1] + below(r, (last - m->lower[d - 1]) / step + 1) * step;
}

static void random_pixels(scenario *s, tw_random *r) {
    tw_tensor_map *m = &s->in;
    do {
        *m = (tw_tensor_map){.element = (tw_tensor_element)below(r, TW_TENSOR_ELEMENTS), .dims = 3 + below(r, 3)};
        if (s->reduces) m->element = TW_TENSOR_F32;
        const int size = tw_tensor_element_bytes(m->element);
        m->im2col = true;
        m->swizzle = swizzles[below(r, 5)];
        for (int i = 0; i < m->dims; i++) m->extent[i] = 1 + below(r, i ? 7 : 40);
        for (int i = 1; i < m->dims - 1; i++) {
            m->step[i] = below(r, 4);
            m->lower[i - 1] = below(r, 4) - 2;
            m->upper[i - 1] = below(r, 4) - 2;
        }
        m->channels = (m->swizzle ? m->swizzle : 16 * (1 + below(r, 6))) / size;
        m->pixels = 1 + below(r, 40);
        m->address = 256;
    } while (!lay_out(m, r) || !tw_tensor_map_valid(m));
    s->out = *m;
    for (int i = 0; i < m->dims; i++) {
        s->from[i] = i ? below(r, (int)m->extent[i] + 3) - 1 : along_row(m, 1, r);
        s->to[i] = i ? below(r, (int)m->extent[i] + 2) : along_row(m, 0, r);
        if (!i || i == m->dims - 1) continue;
        s->out.lower[i - 1] = 0;
        s->out.upper[i - 1] = -below(r, m->extent[i] > 1 ? 2 : 1);
        s->from[i] = pixel_of(m, i, r);
        s->to[i] = pixel_of(&s->out, i, r);
        s->offset[i - 1] = below(r, 4);
    }
}

static void boxes_are_right(void **state) {
    (void)state;
    outside = elements = 0;
    for (uint64_t seed = 0; seed < 500; seed++) {
        tw_random r = tw_random_seed(seed);
        scenario s = {.reduces = seed % 4 == 0};
        tw_emu_report report;
        (seed % 3 ? random_tile : random_pixels)(&s, &r);
        if (play_boxes(&s, seed, false, &report) != TW_OK)
            fail_msg("seed %d: %s: %s", (int)seed, tw_emu_rule_name(report.findings[0].rule), report.findings[0].text);
    }
    if (elements < 10000 || outside < 10000) fail_msg("%d elements within, %d outside", elements, outside);
}

/* The same on a device. */
static void a_device_agrees(void **state) {
    (void)state;
    static uint8_t in[ROOM], out[ROOM], now[ROOM], tile[TILE];
    tw_cuda *c = gpu_open(90);
    if (!c) skip();
    for (uint64_t seed = 0; seed < 90; seed++) {
        tw_random r = tw_random_seed(seed);
        scenario s = {.reduces = seed % 4 == 0};
        tw_diag d;
        (seed % 3 ? random_tile : random_pixels)(&s, &r);
        fill(in, tw_tensor_element_bytes(s.in.element), 3);
        fill(out, tw_tensor_element_bytes(s.in.element), 5);
        s.in.address = gpu_upload(c, in, sizeof in);
        s.out.address = gpu_upload(c, out, sizeof out);
        const uint64_t a[4] = {(uint64_t)(uintptr_t)&s.in, (uint64_t)(uintptr_t)&s.out,
                               gpu_upload(c, tile, sizeof tile), s.out.address};
        tw_kernel *k = build(&s);
        gpu_run(c, k, 1, a);
        fine(tw_cuda_download(c, tile, a[2], sizeof tile, &d), &d);
        fine(tw_cuda_download(c, now, s.out.address, sizeof now, &d), &d);
        check_boxes(&s, seed, in, out, tile, now);
        tw_cuda_release(c, s.in.address);
        tw_cuda_release(c, s.out.address);
        tw_cuda_release(c, a[2]);
        tw_kernel_free(k);
    }
    tw_cuda_close(c);
}

/* -- faults */

static const struct {
    int fault;
    const char *name;
    tw_emu_rule rule;
    const char *words;
    bool reduces;
} faults[] = {
    {NO_FENCE, "stored after plain writes, unfenced", TW_EMU_PROXY,
     "/tensor_store|copies from tile+|/st|no fence_proxy", false},
    {NO_FENCE, "reduced after plain writes, unfenced", TW_EMU_PROXY,
     "/tensor_reduce|copies from tile+|/st|no fence_proxy", true},
    {OVERWRITTEN, "overwritten before it was waited for", TW_EMU_ASYNC,
     "/st|writes tile+|/tensor_store|reads: it was not waited for", false},
    {NOT_OWNED, "waited for by threads that own no group", TW_EMU_ASYNC,
     "/st|writes tile+|/tensor_store|a group belongs to the thread that committed it, and warp 0 lane 1", false},
    {NOT_OWNED, "waited for by threads that own no group, at the exit", TW_EMU_LEAK,
     "bulk store may still read|a group belongs to the thread that committed it, and warp 0 lane 1", false},
    {NO_WAIT, "exits with a store under way", TW_EMU_LEAK, "exits while a bulk store may still read", false},
    {NOT_COMMITTED, "waits for a store that is of no group", TW_EMU_LEAK, "exits while a bulk store may still read",
     false},
    {READ_OUTPUT, "writes to the array before the store has", TW_EMU_ASYNC, "/st|writes out+|/tensor_store|writes",
     false},
    {READ_OUTPUT, "writes to the array before the reduction has", TW_EMU_ASYNC, "/st|writes out+|/tensor_reduce|writes",
     true},
    {WRONG_DIMS, "a box of fewer dimensions than the map", TW_EMU_ALIGNMENT,
     "/tensor_store|of 2 dimensions from a tensor map of 3", false},
    {WRONG_TYPE, "combines another type than the map's", TW_EMU_ALIGNMENT, "/tensor_reduce|combines i32|another type",
     true},
    {UNALIGNED, "a box that begins in the middle of the swizzle", TW_EMU_ALIGNMENT,
     "/tensor_store|tile+64|not aligned to 1024", false},
    {WITHIN_PIECE, "a box that begins within 16 bytes of a row", TW_EMU_ALIGNMENT,
     "/tensor_store|begins 8 bytes into a row: not a multiple of 16", false},
    {BEFORE_ARRAY, "stores before the array", TW_EMU_BOUNDS, "/tensor_store|begins at -1 of dimension 1", false},
    {BEFORE_ROW, "reduces before a row", TW_EMU_BOUNDS, "/tensor_reduce|begins at -4 of dimension 0", true},
    {BEYOND_SHARED, "a box beyond shared memory", TW_EMU_BOUNDS, "/tensor_store|tile+|has 32768 bytes", false},
};

static scenario plain(int fault, bool reduces) {
    scenario s = {.fault = fault, .reduces = reduces};
    s.in = (tw_tensor_map){.element = TW_TENSOR_F32,
                           .dims = 3,
                           .extent = {40, 9, 3},
                           .stride = {0, 160, 1440},
                           .box = {32, 8, 2},
                           .swizzle = 128};
    s.out = s.in;
    s.to[0] = fault == WITHIN_PIECE ? 2 : fault == BEFORE_ROW ? -4 : 0;
    s.to[1] = fault == BEFORE_ARRAY ? -1 : 0;
    return s;
}

static void faults_are_found(void **state) {
    (void)state;
    int missed = 0;
    const scenario right = plain(FENCED, false);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tw_emu_report r;
        if (play_boxes(&right, seed, false, &r) != TW_OK) fail_msg("fenced: %s", r.findings[0].text);
    }
    for (int i = 0; i < COUNT(faults); i++) {
        int hits = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            const scenario s = plain(faults[i].fault, faults[i].reduces);
            tw_emu_report r;
            bool found = false;
            play_boxes(&s, seed, true, &r);
            for (int j = 0; j < r.n && !found; j++)
                found = r.findings[j].rule == faults[i].rule && holds_all(r.findings[j].text, faults[i].words);
            hits += found;
            for (int j = 0; j < r.n && getenv("SHOW") && !found; j++)
                printf("    %d %s: %s\n", (int)seed, tw_emu_rule_name(r.findings[j].rule), r.findings[j].text);
        }
        if (hits < SEEDS) print_error("%s: only %d of %d seeds\n", faults[i].name, hits, SEEDS);
        missed += hits < SEEDS;
    }
    assert_int_equal(missed, 0);
}

/* A box begins with a pixel of its bounding box, of which there is one every `step`. */
static void pixels_are_of_the_bounding_box(void **state) {
    (void)state;
    for (int from = -3; from < 8; from++) {
        scenario s = {.fault = NO_PIXEL};
        s.in = (tw_tensor_map){.element = TW_TENSOR_U8,
                               .dims = 3,
                               .im2col = true,
                               .extent = {16, 8, 2},
                               .stride = {0, 16, 128},
                               .step = {0, 2},
                               .lower = {-1},
                               .upper = {-1},
                               .channels = 16,
                               .pixels = 2};
        s.out = s.in;
        s.out.lower[0] = 0;
        s.from[1] = from;
        tw_emu_report r;
        const bool fits = from >= -1 && from <= 5 && (from + 1) % 2 == 0;
        const tw_status st = play_boxes(&s, 1, false, &r);
        if (fits != (st == TW_OK)) fail_msg("from %d: %s", from, st == TW_OK ? "taken" : r.findings[0].text);
        if (!fits) assert_non_null(strstr(r.findings[0].text, "where its bounding box has no pixel"));
    }
}

/* A store's bounding box lies within the array. */
static void stores_of_pixels_are_within_the_array(void **state) {
    (void)state;
    for (int corner = -2; corner <= 2; corner++) {
        scenario s = {.in = {.element = TW_TENSOR_F32,
                             .dims = 4,
                             .im2col = true,
                             .extent = {16, 8, 8, 2},
                             .stride = {0, 64, 512, 4096},
                             .channels = 16,
                             .pixels = 2},
                      .to = {0, 2, 2, 0}};
        s.out = s.in;
        if (corner < 0) s.out.lower[1] = corner + 1;
        if (corner > 0) s.out.upper[0] = corner - 1;
        tw_emu_report r;
        const bool fits = corner > -2 && corner < 2;
        const tw_status st = play_boxes(&s, 1, false, &r);
        if (fits != (st == TW_OK)) fail_msg("corner %d: %s", corner, st == TW_OK ? "taken" : r.findings[0].text);
        if (!fits)
            assert_non_null(strstr(r.findings[0].text, "its bounding box is larger than the array in dimension"));
    }
}

/* An array that ends within the last 16 bytes that it begins, with nothing behind it. */
static void stores_fill_their_last_piece(void **state) {
    (void)state;
    for (int length = 29; length < 33; length++) {
        scenario s = {.in = {.element = TW_TENSOR_F32, .dims = 1, .extent = {length}, .box = {32}}};
        s.out = s.in;
        tw_emu_report r;
        room_of_out = (size_t)length * sizeof(float);
        const tw_status st = play_boxes(&s, 1, false, &r);
        room_of_out = ROOM;
        if ((length == 32) != (st == TW_OK))
            fail_msg("%d elements: %s", length, st == TW_OK ? "taken" : r.findings[0].text);
        if (st != TW_OK) assert_int_equal(r.findings[0].rule, TW_EMU_BOUNDS);
    }
}

/* What cuTensorMapEncode* would refuse. */
static void maps_are_judged(void **state) {
    (void)state;
    const tw_tensor_map tile = {.address = 256,
                                .element = TW_TENSOR_F16,
                                .dims = 5,
                                .extent = {64, 2, 2, 2, 2},
                                .stride = {0, 128, 256, 512, 1024},
                                .box = {64, 1, 1, 1, 1},
                                .swizzle = 128};
    tw_tensor_map pixels = {.address = 256,
                            .element = TW_TENSOR_F16,
                            .dims = 4,
                            .extent = {64, 4, 4, 2},
                            .stride = {0, 128, 512, 2048},
                            .im2col = true,
                            .channels = 64,
                            .pixels = 1024,
                            .swizzle = 128,
                            .lower = {-128, -128},
                            .upper = {127, 127}};
    assert_true(tw_tensor_map_valid(&tile));
    assert_true(tw_tensor_map_valid(&pixels));
    assert_false(tw_tensor_map_valid(NULL));
#define REFUSES(of, change)                                                                                            \
    do {                                                                                                               \
        tw_tensor_map m = of;                                                                                          \
        m.change;                                                                                                      \
        if (tw_tensor_map_valid(&m)) fail_msg("%s", #of " with " #change);                                             \
    } while (0)
    REFUSES(tile, address = 8);
    REFUSES(tile, dims = 0);
    REFUSES(tile, dims = 6);
    REFUSES(tile, element = TW_TENSOR_ELEMENTS);
    REFUSES(tile, extent[4] = 0);
    REFUSES(tile, extent[4] = (int64_t)1 << 32);
    REFUSES(tile, stride[3] = 24);
    REFUSES(tile, stride[3] = -16);
    REFUSES(tile, stride[3] = (int64_t)1 << 40);
    REFUSES(tile, step[1] = 9);
    REFUSES(tile, step[0] = 2);
    REFUSES(tile, box[1] = 257);
    REFUSES(tile, box[1] = 0);
    REFUSES(tile, swizzle = 64);
    REFUSES(tile, swizzle = 256);
    REFUSES(pixels, dims = 2);
    REFUSES(pixels, channels = 257);
    REFUSES(pixels, pixels = 1025);
    REFUSES(pixels, pixels = 0);
    REFUSES(pixels, lower[0] = -129);
    REFUSES(pixels, upper[1] = 128);
    pixels.lower[0] = 2;
    pixels.upper[0] = -1;
    assert_true(tw_tensor_map_valid(&pixels));
    REFUSES(pixels, upper[0] = -2);
#undef REFUSES
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(boxes_are_right),
                                       cmocka_unit_test(a_device_agrees),
                                       cmocka_unit_test(faults_are_found),
                                       cmocka_unit_test(pixels_are_of_the_bounding_box),
                                       cmocka_unit_test(stores_of_pixels_are_within_the_array),
                                       cmocka_unit_test(stores_fill_their_last_piece),
                                       cmocka_unit_test(maps_are_judged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
