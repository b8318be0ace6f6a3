/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what each op of AutoMegaKernel reads and writes, by its reference semantics. A weight is [outputs, K]. A tile
   of a product is columns [n_off, n_off + N_tile) of the output, for all rows of x or for rows [m_off, m_off +
   M_tile). */
#include "base/diag.h"
#include "base/divide.h"
#include "schedule/amk/ir.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds a finding unless `holds`. Returns `holds`. */
static bool need(amk_effects *e, const char *rule, bool holds, const char *fmt, ...) TW_PRINTF(4, 5);
static bool need(amk_effects *e, const char *rule, bool holds, const char *fmt, ...) {
    char where[96], text[512];
    va_list ap;
    if (holds) return true;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    amk_name_task(e->t, where);
    tw_report_add(e->report, rule, where, "%s", text);
    return false;
}

static const amk_buffer *in(const amk_effects *e, int i) {
    return &e->p->buffers[e->t->inputs[i]];
}

static const amk_buffer *out(const amk_effects *e) {
    return &e->p->buffers[e->t->outputs[0]];
}

static int64_t count(const amk_buffer *b) {
    int64_t n = 1;
    for (int d = 0; d < b->rank; d++) n *= b->shape[d];
    return n;
}

static int64_t last(const amk_buffer *b) {
    return b->rank ? b->shape[b->rank - 1] : 1;
}

static int64_t rows(const amk_buffer *b) {
    return count(b) / last(b);
}

static int64_t param(const amk_effects *e, amk_param p) {
    return e->t->param[p];
}

static bool has(const amk_effects *e, uint32_t bit) {
    return (e->t->has & bit) != 0;
}

static void touch(amk_effects *e, const amk_buffer *b, bool write, const int64_t lo[3], const int64_t hi[3]) {
    tw_access_list *l = e->list;
    if (amk_read_only(b->kind)) return;
    if (l->count == l->room) {
        int room = l->room ? l->room * 2 : 256;
        tw_access *p = l->room > INT32_MAX / 4 ? NULL : realloc(l->item, (size_t)room * sizeof *p);
        if (!p) {
            e->failed = true;
            return;
        }
        l->item = p;
        l->room = room;
    }
    l->item[l->count++] = (tw_access){(int)b->id, write, {lo[0], lo[1], lo[2]}, {hi[0], hi[1], hi[2]}};
}

static void touch_all(amk_effects *e, const amk_buffer *b, bool write) {
    int64_t lo[3] = {0, 0, 0}, hi[3];
    amk_extents(b, hi);
    if (b->kind == AMK_KV_CACHE) {
        lo[1] -= e->p->pos;
        hi[1] -= e->p->pos;
    }
    touch(e, b, write, lo, hi);
}

/* Accesses columns [c0, c1) of rows [r0, r1). If elements are packed into bytes across rows, all of the buffer is
   accessed. */
static void touch_tile(amk_effects *e, const amk_buffer *b, bool write, int64_t r0, int64_t r1, int64_t c0,
                       int64_t c1) {
    int64_t bits = amk_dtype_bits(b->dtype), extent[3];
    amk_extents(b, extent);
    if (bits % 8)
        touch_all(e, b, write);
    else
        touch(e, b, write, (int64_t[3]){0, r0, c0 * (bits / 8)}, (int64_t[3]){extent[0], r1, c1 * (bits / 8)});
}

static void whole(amk_effects *e) {
    for (int i = 0; i < e->t->n_inputs; i++) touch_all(e, in(e, i), false);
    touch_all(e, out(e), true);
}

static void nothing(amk_effects *e) {
    (void)e;
}

static void elementwise(amk_effects *e) {
    for (int i = 0; i < e->t->n_inputs; i++)
        need(e, "shape", count(in(e, i)) == count(out(e)), "input %d, %s, has %lld elements and the output %s %lld", i,
             in(e, i)->name, (long long)count(in(e, i)), out(e)->name, (long long)count(out(e)));
    whole(e);
}

static void norm(amk_effects *e) {
    int64_t hidden = param(e, AMK_P_hidden);
    need(e, "shape", hidden == last(in(e, 0)), "hidden is %lld, and the rows of %s have %lld", (long long)hidden,
         in(e, 0)->name, (long long)last(in(e, 0)));
    need(e, "shape", last(out(e)) == last(in(e, 0)) && rows(out(e)) == rows(in(e, 0)),
         "%s and %s have not the same rows", in(e, 0)->name, out(e)->name);
    for (int i = 1; i < e->t->n_inputs; i++)
        need(e, "shape", count(in(e, i)) == hidden, "hidden is %lld, and %s has %lld elements", (long long)hidden,
             in(e, i)->name, (long long)count(in(e, i)));
    whole(e);
}

/* The whole table is read, since the row is not known. Lowerings reshape an activation with a table of one row. */
static void embed(amk_effects *e) {
    const amk_buffer *ids = in(e, 0), *table = in(e, 1), *o = out(e);
    if (!need(e, "shape", table->rank >= 2, "the table %s has not at least two dimensions", table->name)) return;
    int64_t row = count(table) / table->shape[0];
    need(e, "shape", ids->dtype == AMK_I32, "the ids in %s are not I32", ids->name);
    need(e, "shape", count(o) / row == count(ids) && count(o) % row == 0,
         "%lld rows of %lld are written to %s, which has %lld elements", (long long)count(ids), (long long)row, o->name,
         (long long)count(o));
    need(e, "shape", param(e, AMK_P_hidden) == last(o), "hidden is %lld, and the rows of %s have %lld",
         (long long)param(e, AMK_P_hidden), o->name, (long long)last(o));
    whole(e);
}

static void rope(amk_effects *e) {
    const amk_buffer *x = in(e, 0), *positions = in(e, 1);
    int64_t head = param(e, AMK_P_head_dim), expected = x->rank == 3 ? x->shape[0] : 1;
    need(e, "shape", x->rank == 2 || x->rank == 3, "%s is not [heads, head size], or that for each of some positions",
         x->name);
    need(e, "shape", head > 0 && head % 2 == 0 && head == last(x), "head_dim is %lld, and the heads of %s have %lld",
         (long long)head, x->name, (long long)last(x));
    need(e, "shape", count(out(e)) == count(x), "%s and %s have not the same number of elements", x->name,
         out(e)->name);
    need(e, "shape", positions->dtype == AMK_I32 && count(positions) == expected,
         "%s does not hold %lld positions as I32", positions->name, (long long)expected);
    whole(e);
}

static void sample(amk_effects *e) {
    need(e, "shape", count(out(e)) == rows(in(e, 0)), "%lld rows give %lld results", (long long)rows(in(e, 0)),
         (long long)count(out(e)));
    whole(e);
}

static void dequant(amk_effects *e) {
    int64_t group = param(e, AMK_P_group), q = param(e, AMK_P_qdtype), n = count(out(e));
    bool packed = q == AMK_I4 && in(e, 0)->dtype == AMK_U8;
    need(e, "parameter", q == AMK_I4 || q == AMK_I8, "qdtype %lld is neither %d (I4) nor %d (I8)", (long long)q, AMK_I4,
         AMK_I8);
    if (!need(e, "parameter", group > 0, "group is %lld", (long long)group)) return;
    need(e, "shape", count(in(e, 0)) == (packed ? n / 2 : n) && n % (packed ? 2 : 1) == 0,
         "%s does not hold the %lld elements of the output", in(e, 0)->name, (long long)n);
    for (int i = 1; i < e->t->n_inputs; i++)
        need(e, "shape", n % group == 0 && count(in(e, i)) == n / group, "%s has not an element for each %lld columns",
             in(e, i)->name, (long long)group);
    whole(e);
}

/* ---- products ---- */

typedef struct tile {
    int64_t m0, m1, n0, n1;
} tile;

/* Reads rows [n0, n1) of an input, which has `columns` columns. */
static void read_rows(amk_effects *e, int i, const tile *t, int64_t columns) {
    const amk_buffer *b = in(e, i);
    bool fits =
        need(e, "shape", b->rank == 2 && last(b) == columns, "%s is not rows of %lld", b->name, (long long)columns);
    fits = fits && need(e, "bounds", t->n1 <= rows(b), "reads rows %lld..%lld of %s, which has %lld", (long long)t->n0,
                        (long long)t->n1, b->name, (long long)rows(b));
    if (fits) touch_tile(e, b, false, t->n0, t->n1, 0, columns);
}

static void read_bias(amk_effects *e, const tile *t) {
    const amk_buffer *b = in(e, 2);
    bool fits = need(e, "shape", rows(b) == 1, "the bias %s is not one row", b->name) &&
                need(e, "bounds", t->n1 <= last(b), "reads columns %lld..%lld of %s, which has %lld", (long long)t->n0,
                     (long long)t->n1, b->name, (long long)last(b));
    if (fits) touch_tile(e, b, false, 0, 1, t->n0, t->n1);
}

/* Reads the weight, then a bias; or a quantised weight, its scales, and perhaps its zeros. */
static void read_weight(amk_effects *e, const tile *t) {
    int64_t K = param(e, AMK_P_K), q = param(e, AMK_P_qdtype), group = param(e, AMK_P_group);
    const amk_buffer *w = in(e, 1);
    bool quantised = q == AMK_I4 || q == AMK_I8;
    if (!quantised) {
        need(e, "parameter", q == 0, "qdtype %lld is neither %d (I4) nor %d (I8)", (long long)q, AMK_I4, AMK_I8);
        need(e, "arity", e->t->n_inputs <= 3, "has %d inputs, but without qdtype x, weight and bias are all",
             e->t->n_inputs);
        need(e, "shape", w->dtype != AMK_I4 && w->dtype != AMK_I8 && w->dtype != AMK_U8,
             "%s is quantised, but qdtype does not say so", w->name);
        read_rows(e, 1, t, K);
        if (e->t->n_inputs > 2) read_bias(e, t);
        return;
    }
    if (!need(e, "arity", e->t->n_inputs >= 3, "the scales of a quantised weight are missing") ||
        !need(e, "parameter", group > 0, "group is %lld", (long long)group))
        return;
    bool packed = q == AMK_I4 && w->dtype == AMK_U8;
    need(e, "shape", packed || w->dtype == (amk_dtype)q, "%s has not the element type that qdtype %lld says", w->name,
         (long long)q);
    read_rows(e, 1, t, packed ? (K + 1) / 2 : K);
    for (int i = 2; i < e->t->n_inputs; i++) read_rows(e, i, t, tw_ceil_div(K, group));
}

static void product(amk_effects *e) {
    const amk_buffer *x = in(e, 0), *o = out(e);
    bool gemm = e->t->op->required & AMK_BIT(M_tile);
    int64_t K = param(e, AMK_P_K), m = param(e, AMK_P_M_tile);
    tile t = {0, rows(x), param(e, AMK_P_n_off), param(e, AMK_P_n_off) + param(e, AMK_P_N_tile)};
    if (gemm) t.m1 = (t.m0 = param(e, AMK_P_m_off)) + m;
    bool fits = need(e, "shape", K > 0 && last(x) == K, "K is %lld, and the rows of %s have %lld", (long long)K,
                     x->name, (long long)last(x));
    fits = need(e, "shape", rows(o) == rows(x), "%s has %lld rows and %s %lld", x->name, (long long)rows(x), o->name,
                (long long)rows(o)) &&
           fits;
    fits = need(e, "shape", amk_dtype_bits(o->dtype) % 8 == 0, "a tile of %s, whose elements are parts of bytes",
                o->name) &&
           fits;
    fits = need(e, "parameter", t.n1 > t.n0 && t.m1 > t.m0, "the tile is empty") && fits;
    fits = need(e, "bounds", t.n0 >= 0 && t.n1 <= last(o), "writes columns %lld..%lld of %s, which has %lld",
                (long long)t.n0, (long long)t.n1, o->name, (long long)last(o)) &&
           fits;
    fits = need(e, "bounds", t.m0 >= 0 && t.m1 <= rows(x), "is for rows %lld..%lld of %s, which has %lld",
                (long long)t.m0, (long long)t.m1, x->name, (long long)rows(x)) &&
           fits;
    if (!fits) return;
    touch_tile(e, x, false, t.m0, t.m1, 0, K);
    read_weight(e, &t);
    touch_tile(e, o, true, t.m0, t.m1, t.n0, t.n1);
}

/* ---- attention ---- */

/* Accesses rows [from, to) of a cache for each of its batch, or all of a plain buffer. */
static void touch_cache(amk_effects *e, const amk_buffer *b, bool write, int64_t from, int64_t to) {
    int64_t extent[3], pos = e->p->pos;
    amk_extents(b, extent);
    if (b->kind == AMK_KV_CACHE)
        touch(e, b, write, (int64_t[3]){0, from - pos, 0}, (int64_t[3]){extent[0], to - pos, extent[2]});
    else
        touch_all(e, b, write);
}

static void append(amk_effects *e) {
    const amk_buffer *x = in(e, 0), *cache = out(e);
    if (!need(e, "reference", e->t->inputs[1] == e->t->outputs[0], "appends to %s, but its second input is %s",
              cache->name, in(e, 1)->name) ||
        cache->kind != AMK_KV_CACHE)
        return;
    bool batch = cache->rank == 4;
    int64_t n = batch ? cache->shape[0] : 1, capacity = cache->shape[batch], pos = param(e, AMK_P_pos),
            row = last(cache) * cache->shape[cache->rank - 2], new_rows = count(x) / (n * row), end = pos + new_rows;
    bool fits = need(e, "shape", count(x) == n * row * new_rows && new_rows > 0 && (!batch || new_rows == 1),
                     "%s does not hold rows of %s", x->name, cache->name);
    fits = fits && need(e, "bounds", pos >= 0 && end <= capacity, "writes rows %lld..%lld of %s, which has %lld",
                        (long long)pos, (long long)end, cache->name, (long long)capacity);
    fits = fits &&
           need(e, "read-only", pos >= e->p->pos, "writes row %lld of %s, which is from before row %lld of this step",
                (long long)pos, cache->name, (long long)e->p->pos);
    if (!fits) return;
    touch_all(e, x, false);
    touch_cache(e, cache, true, pos, end);
}

static void attend(amk_effects *e) {
    const amk_buffer *q = in(e, 0), *o = out(e);
    int64_t head = param(e, AMK_P_head_dim), heads = param(e, AMK_P_n_heads), kv_heads = param(e, AMK_P_n_kv_heads),
            start = param(e, AMK_P_kv_start), length = param(e, AMK_P_kv_len), flags = param(e, AMK_P_flags),
            end = start + length;
    bool batch = q->rank == 3, partial = flags & 2, fits;
    int64_t n = batch ? q->shape[0] : 1;
    if (!need(e, "parameter", (flags & ~INT64_C(3)) == 0, "flags %lld are not known", (long long)flags) ||
        !need(e, "shape", head > 0 && heads > 0 && kv_heads > 0 && heads % kv_heads == 0,
              "%lld heads of %lld share %lld key heads", (long long)heads, (long long)head, (long long)kv_heads))
        return;
    if (!need(e, "shape", (batch || q->rank == 2) && q->shape[q->rank - 2] == heads && last(q) == head,
              "%s is not %lld heads of %lld", q->name, (long long)heads, (long long)head))
        return;
    fits = need(e, "shape", count(o) == n * heads * (partial ? head + 2 : head) && !(partial && batch),
                "%s has %lld elements, which is not the %s of %lld heads of %lld", o->name, (long long)count(o),
                partial ? "partial result" : "result", (long long)heads, (long long)head);
    fits = need(e, "bounds", start >= 0 && length >= !partial, "attends to %lld rows from %lld on", (long long)length,
                (long long)start) &&
           fits;
    for (int i = 1; i <= 2; i++) {
        const amk_buffer *b = in(e, i);
        bool shaped = need(e, "shape",
                           b->rank == 3 + batch && b->shape[b->rank - 2] == kv_heads && last(b) == head &&
                               (!batch || b->shape[0] == n),
                           "%s is not rows of %lld heads of %lld", b->name, (long long)kv_heads, (long long)head);
        fits = shaped &&
               need(e, "bounds", end <= b->shape[batch], "reads rows %lld..%lld of %s, which has %lld",
                    (long long)start, (long long)end, b->name, (long long)b->shape[batch]) &&
               fits;
    }
    if (!fits) return;
    touch_all(e, q, false);
    for (int i = 1; i <= 2; i++)
        if (length > 0) touch_cache(e, in(e, i), false, start, end);
    for (int i = 3; i < e->t->n_inputs; i++) touch_all(e, in(e, i), false);
    touch_all(e, o, true);
}

static void combine(amk_effects *e) {
    int64_t head = param(e, AMK_P_head_dim);
    if (!need(e, "parameter", head > 0, "head_dim is %lld", (long long)head)) return;
    int64_t heads = count(in(e, 0)) / (head + 2);
    need(e, "shape", !has(e, AMK_BIT(n_heads)) || param(e, AMK_P_n_heads) == heads,
         "n_heads is %lld, and %s has %lld heads", (long long)param(e, AMK_P_n_heads), in(e, 0)->name,
         (long long)heads);
    for (int i = 0; i < e->t->n_inputs; i++)
        need(e, "shape", count(in(e, i)) == heads * (head + 2), "%s is not a partial result of %lld heads of %lld",
             in(e, i)->name, (long long)heads, (long long)head);
    need(e, "shape", count(out(e)) == heads * head, "%s is not %lld heads of %lld", out(e)->name, (long long)heads,
         (long long)head);
    whole(e);
}

static const amk_op ops[] = {
    /* name, inputs from, to, outputs, parameters, in place, effects */
    {"NOP", 0, 0, 0, 0, false, nothing},
    {"COPY", 1, 1, 1, 0, true, elementwise},
    {"EMBED", 2, 2, 1, AMK_BIT(hidden), false, embed},
    {"RMSNORM", 2, 2, 1, AMK_BIT(eps) | AMK_BIT(hidden), true, norm},
    {"LAYERNORM", 2, 3, 1, AMK_BIT(eps) | AMK_BIT(hidden), true, norm},
    {"GEMV_TILE", 2, 4, 1, AMK_BIT(K) | AMK_BIT(N_tile) | AMK_BIT(n_off), false, product},
    {"GEMM_TILE", 2, 4, 1, AMK_BIT(M_tile) | AMK_BIT(K) | AMK_BIT(N_tile) | AMK_BIT(n_off), false, product},
    {"ATTENTION_TILE", 3, 4, 1,
     AMK_BIT(head_dim) | AMK_BIT(kv_start) | AMK_BIT(kv_len) | AMK_BIT(scale) | AMK_BIT(n_heads) | AMK_BIT(n_kv_heads),
     false, attend},
    {"ROPE", 2, 2, 1, AMK_BIT(head_dim) | AMK_BIT(theta), true, rope},
    {"SILU_MUL", 2, 2, 1, 0, true, elementwise},
    {"GELU", 1, 1, 1, 0, true, elementwise},
    {"ADD", 2, 2, 1, 0, true, elementwise},
    {"MUL", 1, 2, 1, 0, true, elementwise},
    {"DEQUANT", 2, 3, 1, AMK_BIT(qdtype) | AMK_BIT(group), false, dequant},
    {"SOFTMAX", 1, 1, 1, 0, true, elementwise},
    {"ALLREDUCE_SHARD", 1, 8, 1, 0, true, elementwise},
    {"KV_APPEND", 2, 2, 1, AMK_BIT(pos), false, append},
    {"SAMPLE_ARGMAX", 1, 1, 1, 0, false, sample},
    {"ATTENTION_COMBINE", 2, 8, 1, AMK_BIT(head_dim), false, combine},
};

const amk_op *amk_op_find(const char *name) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(name, ops[i].name)) return &ops[i];
    return NULL;
}

tw_status amk_check_effects(const tw_amk *p, tw_report *report, tw_access_list *list, int *first) {
    amk_effects e = {p, NULL, report, list, false};
    for (int i = 0; i < p->n_tasks && !e.failed; i++) {
        e.t = &p->tasks[i];
        first[i] = list->count;
        if (e.t->sound) e.t->op->effects(&e);
        first[i + 1] = list->count;
    }
    return e.failed ? TW_ERR_MEMORY : TW_OK;
}
