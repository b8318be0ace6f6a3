/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/effects.h"

#include "base/diag.h"

enum { MAX_ACCESSES = 1 << 13 };

typedef struct effects {
    const tw_schedule *s;
    const tw_instr *in;
    const tw_instr_op_info *info;
    tw_access_list *list;
    tw_diag *diag;
    int first; /* Index of the instruction's first access. */
    tw_status status;
} effects;

static bool bad(effects *e, const char *what) {
    if (e->status == TW_OK) e->status = tw_fail(e->diag, TW_ERR_FORMAT, "%s: %s", e->info->name, what);
    return false;
}

static const tw_buffer *buffer(const effects *e, int operand) {
    int i = e->in->operand[operand];
    return i < 0 ? NULL : &e->s->buffers[i];
}

static bool has(const effects *e, int operand) {
    return e->in->operand[operand] >= 0;
}

/* Checks that an operand, if present, has this shape. -1 stands for any extent. */
static bool shaped(effects *e, int operand, int64_t a, int64_t b, int64_t c) {
    const tw_buffer *x = buffer(e, operand);
    if (!x) return true;
    const int64_t want[3] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (want[i] >= 0 && x->shape[i] != want[i]) {
            if (e->status == TW_OK)
                e->status = tw_fail(e->diag, TW_ERR_FORMAT,
                                    "%s: operand %s (%s) is [%lld, %lld, %lld]; dimension %d should be %lld",
                                    e->info->name, e->info->operands[operand].name, x->name, (long long)x->shape[0],
                                    (long long)x->shape[1], (long long)x->shape[2], i, (long long)want[i]);
            return false;
        }
    return true;
}

/* Checks that an operand is not quantised. Machines read norms, biases and tables as vectors or matrices of floats. */
static bool plain(effects *e, int operand) {
    const tw_buffer *x = buffer(e, operand);
    if (!x || (x->dtype <= TW_BF16 && !x->group)) return true;
    return bad(e, "norms, biases, tables and routers are not quantised");
}

/* Checks the type of a matrix that is multiplied: floats, or integers whose scales the panels have room for. */
static bool matrix(effects *e, int operand) {
    const tw_buffer *x = buffer(e, operand);
    if (!x) return true;
    bool grouped = x->group == 32 || x->group == 64 || x->group == 128;
    if (x->dtype <= TW_BF16 ? !x->group : x->dtype == TW_I8 ? grouped || !x->group : x->dtype == TW_I4 && grouped)
        return true;
    return bad(
        e, "a matrix is f32, f16 or bf16, i8 with a scale a row or a group of 32, 64 or 128, or i4 with such a group");
}

static bool vector(effects *e, int operand, int64_t n) {
    return shaped(e, operand, 1, n, 1) && plain(e, operand);
}

static bool activation(effects *e, int operand, int64_t a, int64_t b, int64_t c) {
    const tw_buffer *x = buffer(e, operand);
    if (x && x->dtype != TW_F32) return bad(e, "activations and logits are f32");
    return shaped(e, operand, a, b, c);
}

/* Checks keys or values, if present: floats, [sequences * kv_heads][max_seq][head_dim]. */
static bool cached(effects *e, int operand, int64_t kv_heads, int64_t head_dim) {
    const tw_buffer *x = buffer(e, operand);
    return (!x || (x->dtype <= TW_BF16 && !x->group) ||
            bad(e, "keys and values are f32, f16 or bf16, both the same")) &&
           shaped(e, operand, e->s->sequences * kv_heads, e->s->max_seq, head_dim);
}

/* Checks keys and values, which are of one type. */
static bool cache(effects *e, int keys, int values, int64_t kv_heads, int64_t head_dim) {
    const tw_buffer *k = buffer(e, keys), *v = buffer(e, values);
    return (!k || k->dtype == v->dtype || bad(e, "keys and values are f32, f16 or bf16, both the same")) &&
           cached(e, keys, kv_heads, head_dim) && cached(e, values, kv_heads, head_dim);
}

/* Returns the bytes of an element of an operand that is not quantised. */
static int64_t element(const effects *e, int operand) {
    return (int64_t)tw_dtype_bits(buffer(e, operand)->dtype) / 8;
}

static void access_box(effects *e, int operand, bool write, int64_t a0, int64_t a1, int64_t b0, int64_t b1, int64_t c0,
                       int64_t c1) {
    if (e->status != TW_OK || !has(e, operand) || a0 >= a1 || b0 >= b1 || c0 >= c1) return;
    tw_access_list *l = e->list;
    if (l->count - e->first == MAX_ACCESSES) {
        bad(e, "touches more pieces than an instruction may");
        return;
    }
    const tw_access a = {e->in->operand[operand], write, {a0, b0, c0}, {a1, b1, c1}};
    if (!tw_access_list_add(l, &a)) e->status = tw_fail_memory(e->diag);
}

static void rows_of(effects *e, int operand, bool write, int64_t from, int64_t to) {
    const tw_buffer *x = buffer(e, operand);
    if (x) access_box(e, operand, write, 0, x->shape[0], from, to, 0, tw_buffer_row_bytes(x));
}

static void whole(effects *e, int operand, bool write) {
    const tw_buffer *x = buffer(e, operand);
    if (x) rows_of(e, operand, write, 0, x->shape[1]);
}

/* Accesses columns [from, to) of f32 in every row. */
static void columns(effects *e, int operand, bool write, int64_t from, int64_t to) {
    const tw_buffer *x = buffer(e, operand);
    if (x) access_box(e, operand, write, 0, x->shape[0], 0, x->shape[1], 4 * from, 4 * to);
}

/* Checks 0 <= from < to <= limit, which holds for every range that is dealt out. */
static bool range(effects *e, int64_t limit) {
    int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (from >= 0 && from < to && to <= limit) return true;
    if (e->status == TW_OK)
        e->status = tw_fail(e->diag, TW_ERR_FORMAT, "%s: range %lld..%lld is not within 0..%lld", e->info->name,
                            (long long)from, (long long)to, (long long)limit);
    return false;
}

static bool same_dtype(effects *e, int a, int b) {
    const tw_buffer *x = buffer(e, a), *y = buffer(e, b);
    return !x || !y || (matrix(e, a) && x->dtype == y->dtype && x->group == y->group) ||
           bad(e, "matrices that share an instruction must share a type");
}

static void input(effects *e) {
    if (!shaped(e, TW_INPUT_TOKENS, e->s->tokens, 1, 1) || !activation(e, TW_INPUT_ROPE, e->s->tokens, 2, -1) ||
        !activation(e, TW_INPUT_ROPE_LOCAL, e->s->tokens, 2, -1))
        return;
    if (buffer(e, TW_INPUT_TOKENS)->dtype != TW_I32) {
        bad(e, "tokens are i32");
        return;
    }
    whole(e, TW_INPUT_TOKENS, true);
    whole(e, TW_INPUT_ROPE, true);
    whole(e, TW_INPUT_ROPE_LOCAL, true);
}

static void embed(effects *e) {
    const tw_buffer *x = buffer(e, TW_EMBED_X);
    int64_t dim = x->shape[2];
    if (!activation(e, TW_EMBED_X, e->s->tokens, 1, -1) || !shaped(e, TW_EMBED_TOKENS, e->s->tokens, 1, 1) ||
        !shaped(e, TW_EMBED_TABLE, 1, -1, dim) || !plain(e, TW_EMBED_TABLE) ||
        !shaped(e, TW_EMBED_POSITIONS, 1, -1, dim) || !plain(e, TW_EMBED_POSITIONS) || !range(e, dim))
        return;
    if (has(e, TW_EMBED_POSITIONS) && buffer(e, TW_EMBED_POSITIONS)->shape[1] < e->s->max_seq) {
        bad(e, "the position table has fewer rows than max_seq");
        return;
    }
    whole(e, TW_EMBED_TOKENS, false);
    whole(e, TW_EMBED_TABLE, false);
    whole(e, TW_EMBED_POSITIONS, false);
    columns(e, TW_EMBED_X, true, e->in->param[TW_FROM], e->in->param[TW_TO]);
}

/* Appends rows to the cache: the step's positions of each sequence, in the sequence's heads [head, head + n). */
static void append(effects *e, int operand, int64_t head, int64_t n, int64_t from, int64_t to) {
    const int64_t of_one = buffer(e, operand)->shape[0] / e->s->sequences, rows = e->s->tokens / e->s->sequences;
    for (int64_t i = 0; i < e->s->sequences; i++)
        access_box(e, operand, true, i * of_one + head, i * of_one + head + n, 0, rows, from, to);
}

static const int qkv_weight[3] = {TW_QKV_WQ, TW_QKV_WK, TW_QKV_WV}, qkv_bias[3] = {TW_QKV_BQ, TW_QKV_BK, TW_QKV_BV};

/* The operand that q, k or v goes to. */
static int qkv_out(const effects *e, int part) {
    return part == 0 ? TW_QKV_Q : part == 2 ? TW_QKV_V : has(e, TW_QKV_K) ? TW_QKV_K : TW_QKV_RAW_K;
}

/* Writes bytes [from, to) of rows of heads [head, head + n) of q, k or v, for the step's positions. */
static void qkv_write(effects *e, int part, int64_t head, int64_t n, int64_t from, int64_t to) {
    const int out = qkv_out(e, part);
    if (buffer(e, out)->kind == TW_BUFFER_KV)
        append(e, out, head, n, from, to);
    else
        access_box(e, out, true, 0, e->s->tokens, head, head + n, from, to);
}

/* Accesses whole heads, which are one box in whatever order their rows are. */
static void qkv_heads(effects *e, tw_qkv_row at, int64_t n, int64_t d) {
    rows_of(e, qkv_weight[at.part], false, at.head * d, (at.head + n) * d);
    rows_of(e, qkv_bias[at.part], false, at.head * d, (at.head + n) * d);
    qkv_write(e, at.part, at.head, n, 0, d * element(e, qkv_out(e, at.part)));
}

/* Accesses a run of virtual rows within one head. Pairs [a, b) of rotated rows are two runs of real rows. */
static void qkv_head(effects *e, tw_qkv_row at, int64_t count, int64_t rotated, int64_t head_dim) {
    int64_t size = element(e, qkv_out(e, at.part));
    for (int half = 0; half < 2; half++) {
        /* The rotated rows of this half, or all rows at once if nothing rotates. */
        int64_t lo = at.row, hi = at.row + count;
        if (rotated) {
            lo = at.row + half * (rotated / 2);
            hi = lo + count / 2;
        } else if (half)
            break;
        int64_t row = at.head * head_dim;
        rows_of(e, qkv_weight[at.part], false, row + lo, row + hi);
        rows_of(e, qkv_bias[at.part], false, row + lo, row + hi);
        qkv_write(e, at.part, at.head, 1, size * lo, size * hi);
    }
}

static bool qkv_shapes(effects *e, int64_t *heads, int64_t *kv_heads, int64_t *d, int64_t *rotated) {
    int64_t T = e->s->tokens, dim = buffer(e, TW_QKV_X)->shape[2];
    *heads = buffer(e, TW_QKV_Q)->shape[1];
    *d = buffer(e, TW_QKV_Q)->shape[2];
    *kv_heads = buffer(e, TW_QKV_V)->shape[0] / e->s->sequences;
    *rotated = has(e, TW_QKV_ROPE) ? 2 * buffer(e, TW_QKV_ROPE)->shape[2] : 0;
    int64_t nq = *heads * *d, nk = *kv_heads * *d;
    if (!activation(e, TW_QKV_X, T, 1, -1) || !vector(e, TW_QKV_NORM, dim) || !vector(e, TW_QKV_NORM_BIAS, dim) ||
        !shaped(e, TW_QKV_WQ, 1, nq, dim) || !shaped(e, TW_QKV_WK, 1, nk, dim) || !shaped(e, TW_QKV_WV, 1, nk, dim) ||
        !vector(e, TW_QKV_BQ, nq) || !vector(e, TW_QKV_BK, nk) || !vector(e, TW_QKV_BV, nk) ||
        !vector(e, TW_QKV_Q_NORM, *d) || !vector(e, TW_QKV_K_NORM, *d) || !activation(e, TW_QKV_ROPE, T, 2, -1) ||
        !activation(e, TW_QKV_Q, T, *heads, *d) || !activation(e, TW_QKV_RAW_K, T, *kv_heads, *d) ||
        !cache(e, TW_QKV_K, TW_QKV_V, *kv_heads, *d) || !same_dtype(e, TW_QKV_WQ, TW_QKV_WK) ||
        !same_dtype(e, TW_QKV_WQ, TW_QKV_WV) || !range(e, nq + 2 * nk))
        return false;
    if (*rotated > *d) return bad(e, "rope rotates more than a head holds");
    if (has(e, TW_QKV_Q_NORM) != has(e, TW_QKV_K_NORM)) return bad(e, "q_norm and k_norm come together");
    if (has(e, TW_QKV_K) == has(e, TW_QKV_RAW_K)) return bad(e, "keys go to k or to raw_k");
    if (has(e, TW_QKV_RAW_K) && has(e, TW_QKV_Q_NORM)) return bad(e, "raw keys are not normed");
    /* Rows of two elements are what the head leaves of its best: buffers of raw keys cannot stand in for those. */
    if (has(e, TW_QKV_RAW_K) && *d < TW_LEAST_RAW) return bad(e, "raw keys of fewer than 4 elements a head");
    if (has(e, TW_QKV_NORM_BIAS) && !has(e, TW_QKV_NORM)) return bad(e, "a norm's bias without a norm");
    if (*kv_heads < 1 || *heads % *kv_heads) return bad(e, "heads are not a multiple of key/value heads");
    return true;
}

static void qkv(effects *e) {
    int64_t heads, kv_heads, d, rotated, from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!qkv_shapes(e, &heads, &kv_heads, &d, &rotated)) return;
    bool whole_heads = has(e, TW_QKV_Q_NORM);
    if (whole_heads && (from % d || to % d)) {
        bad(e, "with q and k norms a range holds whole heads");
        return;
    }
    if (rotated && (from & 1 || to & 1)) {
        bad(e, "where rope rotates, a range has even bounds");
        return;
    }
    whole(e, TW_QKV_X, false);
    whole(e, TW_QKV_NORM, false);
    whole(e, TW_QKV_NORM_BIAS, false);
    whole(e, TW_QKV_Q_NORM, false);
    whole(e, TW_QKV_K_NORM, false);
    whole(e, TW_QKV_ROPE, false);
    for (int64_t row = from; row < to && e->status == TW_OK;) {
        tw_qkv_row at = tw_qkv_locate(row, heads, kv_heads, d, rotated);
        int64_t in_head = row % d, end = row - in_head + d;
        int64_t whole_left = (to - row) / d, part_left = (at.part ? kv_heads : heads) - at.head;
        if (!in_head && whole_left) {
            int64_t n = whole_left < part_left ? whole_left : part_left;
            qkv_heads(e, at, n, d);
            row += n * d;
            continue;
        }
        bool turning = at.part < 2 && in_head < rotated;
        if (turning) end = row - in_head + rotated;
        if (end > to) end = to;
        qkv_head(e, at, end - row, turning ? rotated : 0, d);
        row = end;
    }
}

static void turn(effects *e) {
    const tw_buffer *raw = buffer(e, TW_TURN_RAW_Q), *rope = buffer(e, TW_TURN_ROPE);
    const int64_t T = e->s->tokens, heads = raw->shape[1], d = raw->shape[2];
    const int64_t kv_heads = buffer(e, TW_TURN_RAW_K)->shape[1];
    const bool each = buffer(e, TW_TURN_Q_NORM)->shape[1] == d; /* A norm of each head. */
    const int64_t h0 = e->in->param[TW_TURN_HEAD_FROM], h1 = e->in->param[TW_TURN_HEAD_TO];
    if (!activation(e, TW_TURN_RAW_Q, T, heads, d) || !activation(e, TW_TURN_RAW_K, T, kv_heads, d) ||
        !vector(e, TW_TURN_Q_NORM, each ? d : heads * d) || !vector(e, TW_TURN_K_NORM, each ? d : kv_heads * d) ||
        !activation(e, TW_TURN_ROPE, T, 2, -1) || !activation(e, TW_TURN_Q, T, heads, d) ||
        !cached(e, TW_TURN_K, kv_heads, d))
        return;
    if (rope && 2 * rope->shape[2] > d) {
        bad(e, "rope rotates more than a head holds");
        return;
    }
    if (h0 < 0 || h0 >= h1 || h1 > heads + kv_heads) {
        bad(e, "heads out of range");
        return;
    }
    const int64_t q1 = h1 < heads ? h1 : heads, k0 = h0 > heads ? h0 - heads : 0;
    if (h0 < heads) {
        whole(e, TW_TURN_RAW_Q, false);
        whole(e, TW_TURN_Q_NORM, false);
        access_box(e, TW_TURN_Q, true, 0, T, h0, q1, 0, 4 * d);
    }
    if (h1 > heads) {
        whole(e, TW_TURN_RAW_K, false);
        whole(e, TW_TURN_K_NORM, false);
        append(e, TW_TURN_K, k0, h1 - heads - k0, 0, d * element(e, TW_TURN_K));
    }
    whole(e, TW_TURN_ROPE, false);
}

/* Notes that attention reads keys or values of the cache, of heads [h0, h1), for query rows [r0, r1), up to position
   `end` of the step. A row reads the positions before it, as far as the sliding window reaches, and its own. With
   several sequences row i belongs to sequence i. */
static void attend_past(effects *e, int operand, int64_t h0, int64_t h1, int64_t r0, int64_t r1, int64_t end) {
    const int64_t window = e->in->param[TW_ATTEND_WINDOW], of_one = buffer(e, operand)->shape[0] / e->s->sequences;
    const int64_t bytes = buffer(e, operand)->shape[2] * element(e, operand);
    if (e->s->sequences == 1) {
        access_box(e, operand, false, h0, h1, window > 0 ? r0 - (window - 1) : TW_KV_PAST, end, 0, bytes);
        return;
    }
    for (int64_t i = r0; i < r1; i++)
        access_box(e, operand, false, i * of_one + h0, i * of_one + h1, window > 0 ? 1 - window : TW_KV_PAST, 1, 0,
                   bytes);
}

/* Checks what attention needs to norm and rotate queries and keys itself. */
static bool attend_raw(effects *e, int64_t heads, int64_t kv_heads, int64_t d) {
    static const int with[] = {TW_ATTEND_Q_NORM, TW_ATTEND_K_NORM, TW_ATTEND_APPEND};
    const int64_t *p = e->in->param, per = heads / kv_heads;
    const tw_buffer *rope = buffer(e, TW_ATTEND_ROPE);
    for (int i = 0; i < 3; i++)
        if (has(e, with[i]) != has(e, TW_ATTEND_RAW_K))
            return bad(e, "raw keys, norms of heads and the cache to append to come together");
    if (!has(e, TW_ATTEND_RAW_K)) return !rope || bad(e, "rope without raw keys");
    if (e->s->tokens != 1) return bad(e, "raw keys are of steps of one position");
    if (e->in->operand[TW_ATTEND_APPEND] != e->in->operand[TW_ATTEND_K])
        return bad(e, "keys are appended to where they are read");
    if (p[TW_ATTEND_HEAD_FROM] % per || p[TW_ATTEND_HEAD_TO] % per)
        return bad(e, "with raw keys heads are all of a key/value head");
    if (rope && 2 * rope->shape[2] > d) return bad(e, "rope rotates more than a head holds");
    return activation(e, TW_ATTEND_RAW_K, 1, kv_heads, d) && vector(e, TW_ATTEND_Q_NORM, d) &&
           vector(e, TW_ATTEND_K_NORM, d) && activation(e, TW_ATTEND_ROPE, 1, 2, -1);
}

static void attend(effects *e) {
    const int64_t *p = e->in->param;
    const tw_buffer *q = buffer(e, TW_ATTEND_Q), *k = buffer(e, TW_ATTEND_K);
    int64_t T = e->s->tokens, heads = q->shape[1], d = q->shape[2], kv_heads = k->shape[0] / e->s->sequences;
    int64_t h0 = p[TW_ATTEND_HEAD_FROM], h1 = p[TW_ATTEND_HEAD_TO], r0 = p[TW_ATTEND_ROW_FROM],
            r1 = p[TW_ATTEND_ROW_TO];
    int64_t split = p[TW_ATTEND_SPLIT], splits = p[TW_ATTEND_SPLITS], window = p[TW_ATTEND_WINDOW];
    bool parts = has(e, TW_ATTEND_PART);
    if (!activation(e, TW_ATTEND_Q, T, -1, -1) || !cache(e, TW_ATTEND_K, TW_ATTEND_V, kv_heads, d) ||
        !activation(e, TW_ATTEND_OUT, T, 1, heads * d))
        return;
    if (kv_heads < 1 || heads % kv_heads) {
        bad(e, "heads are not a multiple of key/value heads");
        return;
    }
    if (h0 < 0 || h0 >= h1 || h1 > heads || r0 < 0 || r0 >= r1 || r1 > T || window < 0) {
        bad(e, "heads, rows or window out of range");
        return;
    }
    if (splits < 1 || splits > 4096 || split < 0 || split >= splits || parts == has(e, TW_ATTEND_OUT) ||
        parts != (splits > 1)) {
        bad(e, "one split writes out, several write part, and split is one of them");
        return;
    }
    if (!activation(e, TW_ATTEND_PART, T, heads * splits, d + 2) || !attend_raw(e, heads, kv_heads, d)) return;
    const bool raw = has(e, TW_ATTEND_RAW_K);
    const int64_t per = heads / kv_heads, k0 = h0 / per, k1 = (h1 - 1) / per + 1;
    access_box(e, TW_ATTEND_Q, false, r0, r1, h0, h1, 0, 4 * d);
    access_box(e, TW_ATTEND_RAW_K, false, 0, 1, k0, k1, 0, 4 * d);
    for (int i = TW_ATTEND_Q_NORM; i <= TW_ATTEND_ROPE; i++) whole(e, i, false);
    /* The last split alone has the step's own position, whose raw key it appends. */
    attend_past(e, TW_ATTEND_K, k0, k1, r0, r1, raw ? 0 : r1);
    attend_past(e, TW_ATTEND_V, k0, k1, r0, r1, r1);
    if (raw && split == splits - 1) append(e, TW_ATTEND_APPEND, k0, k1 - k0, 0, d * element(e, TW_ATTEND_APPEND));
    access_box(e, TW_ATTEND_OUT, true, r0, r1, 0, 1, 4 * h0 * d, 4 * h1 * d);
    for (int64_t h = h0; h < h1 && parts; h++)
        access_box(e, TW_ATTEND_PART, true, r0, r1, h * splits + split, h * splits + split + 1, 0, 4 * (d + 2));
}

static void merge(effects *e) {
    const int64_t *p = e->in->param;
    int64_t T = e->s->tokens, h0 = p[TW_MERGE_HEAD_FROM], h1 = p[TW_MERGE_HEAD_TO], splits = p[TW_MERGE_SPLITS];
    const tw_buffer *part = buffer(e, TW_MERGE_PART);
    int64_t d = part->shape[2] - 2;
    if (splits < 1 || splits > 4096 || part->shape[1] % splits || d < 1) {
        bad(e, "part does not hold this many splits");
        return;
    }
    int64_t heads = part->shape[1] / splits;
    if (!activation(e, TW_MERGE_PART, T, -1, -1) || !activation(e, TW_MERGE_OUT, T, 1, heads * d)) return;
    if (h0 < 0 || h0 >= h1 || h1 > heads) {
        bad(e, "heads out of range");
        return;
    }
    access_box(e, TW_MERGE_PART, false, 0, T, h0 * splits, h1 * splits, 0, 4 * (d + 2));
    access_box(e, TW_MERGE_OUT, true, 0, T, 0, 1, 4 * h0 * d, 4 * h1 * d);
}

static void project(effects *e) {
    if (has(e, TW_PROJECT_X) == has(e, TW_PROJECT_Y)) {
        bad(e, "a product is added to x or written to y");
        return;
    }
    const int out = has(e, TW_PROJECT_X) ? TW_PROJECT_X : TW_PROJECT_Y;
    int64_t T = e->s->tokens, in = buffer(e, TW_PROJECT_IN)->shape[2], dim = buffer(e, out)->shape[2];
    int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!activation(e, TW_PROJECT_IN, T, 1, -1) || !shaped(e, TW_PROJECT_W, 1, dim, in) || !matrix(e, TW_PROJECT_W) ||
        !vector(e, TW_PROJECT_BIAS, dim) || !activation(e, out, T, 1, -1) || !range(e, dim))
        return;
    whole(e, TW_PROJECT_IN, false);
    rows_of(e, TW_PROJECT_W, false, from, to);
    rows_of(e, TW_PROJECT_BIAS, false, from, to);
    columns(e, TW_PROJECT_X, false, from, to);
    columns(e, out, true, from, to);
}

static void residual(effects *e) {
    const int64_t T = e->s->tokens, dim = buffer(e, TW_RESIDUAL_X)->shape[2];
    if (!activation(e, TW_RESIDUAL_Y, T, 1, dim) || !vector(e, TW_RESIDUAL_NORM, dim) ||
        !activation(e, TW_RESIDUAL_X, T, 1, dim) || !range(e, dim))
        return;
    whole(e, TW_RESIDUAL_Y, false);
    whole(e, TW_RESIDUAL_NORM, false);
    columns(e, TW_RESIDUAL_X, false, e->in->param[TW_FROM], e->in->param[TW_TO]);
    columns(e, TW_RESIDUAL_X, true, e->in->param[TW_FROM], e->in->param[TW_TO]);
}

/* Returns part / parts of n, rounded down. Their product may not fit. */
static int64_t share_of(int64_t n, int64_t part, int64_t parts) {
    return n / parts * part + n % parts * part / parts;
}

static void partial(effects *e) {
    const tw_buffer *sums = buffer(e, TW_PARTIAL_SUMS), *w = buffer(e, TW_PARTIAL_W);
    const int64_t T = e->s->tokens, in = buffer(e, TW_PARTIAL_IN)->shape[2], parts = sums->shape[1];
    const int64_t part = e->in->param[TW_PARTIAL_PART], from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!activation(e, TW_PARTIAL_IN, T, 1, -1) || !activation(e, TW_PARTIAL_SUMS, T, -1, -1) ||
        !shaped(e, TW_PARTIAL_W, 1, sums->shape[2], in) || !matrix(e, TW_PARTIAL_W) || !range(e, sums->shape[2]))
        return;
    if (parts < 1 || in % parts || part < 0 || part >= parts) {
        bad(e, "columns are in equal parts, and part is one of them");
        return;
    }
    const int64_t of_row = tw_buffer_row_bytes(w), columns_of = in / parts;
    columns(e, TW_PARTIAL_IN, false, part * columns_of, (part + 1) * columns_of);
    access_box(e, TW_PARTIAL_W, false, 0, 1, from, to, share_of(of_row, part, parts),
               share_of(of_row, part + 1, parts));
    access_box(e, TW_PARTIAL_SUMS, true, 0, T, part, part + 1, 4 * from, 4 * to);
}

static void sum(effects *e) {
    if (has(e, TW_SUM_X) == has(e, TW_SUM_Y)) {
        bad(e, "a sum is added to x or written to y");
        return;
    }
    const int out = has(e, TW_SUM_X) ? TW_SUM_X : TW_SUM_Y;
    const int64_t T = e->s->tokens, dim = buffer(e, out)->shape[2];
    const int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!activation(e, TW_SUM_SUMS, T, -1, dim) || !vector(e, TW_SUM_BIAS, dim) || !activation(e, out, T, 1, -1) ||
        !range(e, dim))
        return;
    columns(e, TW_SUM_SUMS, false, from, to);
    rows_of(e, TW_SUM_BIAS, false, from, to);
    columns(e, TW_SUM_X, false, from, to);
    columns(e, out, true, from, to);
}

static void ffn(effects *e) {
    int64_t T = e->s->tokens, dim = buffer(e, TW_FFN_X)->shape[2], n = buffer(e, TW_FFN_H)->shape[2];
    int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!activation(e, TW_FFN_X, T, 1, -1) || !vector(e, TW_FFN_NORM, dim) || !vector(e, TW_FFN_NORM_BIAS, dim) ||
        !shaped(e, TW_FFN_GATE, 1, n, dim) || !shaped(e, TW_FFN_UP, 1, n, dim) || !matrix(e, TW_FFN_UP) ||
        !same_dtype(e, TW_FFN_GATE, TW_FFN_UP) || !vector(e, TW_FFN_GATE_BIAS, n) || !vector(e, TW_FFN_UP_BIAS, n) ||
        !activation(e, TW_FFN_H, T, 1, -1) || !range(e, n))
        return;
    if (has(e, TW_FFN_NORM_BIAS) && !has(e, TW_FFN_NORM)) {
        bad(e, "a norm's bias without a norm");
        return;
    }
    if (has(e, TW_FFN_GATE_BIAS) && !has(e, TW_FFN_GATE)) {
        bad(e, "a gate's bias without a gate");
        return;
    }
    whole(e, TW_FFN_X, false);
    whole(e, TW_FFN_NORM, false);
    whole(e, TW_FFN_NORM_BIAS, false);
    for (int w = TW_FFN_GATE; w <= TW_FFN_UP_BIAS; w++) rows_of(e, w, false, from, to);
    columns(e, TW_FFN_H, true, from, to);
}

static void route(effects *e) {
    int64_t T = e->s->tokens, dim = buffer(e, TW_ROUTE_X)->shape[2];
    const tw_buffer *router = buffer(e, TW_ROUTE_ROUTER), *to = buffer(e, TW_ROUTE_ROUTE);
    if (!activation(e, TW_ROUTE_X, T, 1, -1) || !vector(e, TW_ROUTE_NORM, dim) ||
        !shaped(e, TW_ROUTE_ROUTER, 1, -1, dim) || !plain(e, TW_ROUTE_ROUTER) ||
        !activation(e, TW_ROUTE_ROUTE, T, 2, -1))
        return;
    if (to->shape[2] > router->shape[1] || router->shape[1] > 4096) {
        bad(e, "more experts used than there are, or more than 4096");
        return;
    }
    for (int i = TW_ROUTE_X; i <= TW_ROUTE_ROUTER; i++) whole(e, i, false);
    whole(e, TW_ROUTE_ROUTE, true);
}

static void score(effects *e) {
    int64_t T = e->s->tokens, dim = buffer(e, TW_SCORE_X)->shape[2], n = buffer(e, TW_SCORE_SCORES)->shape[2];
    int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!activation(e, TW_SCORE_X, T, 1, -1) || !vector(e, TW_SCORE_NORM, dim) ||
        !shaped(e, TW_SCORE_ROUTER, 1, n, dim) || !plain(e, TW_SCORE_ROUTER) ||
        !activation(e, TW_SCORE_SCORES, T, 1, -1) || !range(e, n))
        return;
    /* Rows of two elements are what the head leaves of its best: buffers of scores cannot stand in for those. */
    if (n < TW_LEAST_SCORES) {
        bad(e, "scores of fewer than 3 experts");
        return;
    }
    whole(e, TW_SCORE_X, false);
    whole(e, TW_SCORE_NORM, false);
    rows_of(e, TW_SCORE_ROUTER, false, from, to);
    columns(e, TW_SCORE_SCORES, true, from, to);
}

static void choose(effects *e) {
    int64_t T = e->s->tokens, experts = buffer(e, TW_CHOOSE_SCORES)->shape[2];
    const tw_buffer *to = buffer(e, TW_CHOOSE_ROUTE);
    if (!activation(e, TW_CHOOSE_SCORES, T, 1, -1) || !activation(e, TW_CHOOSE_ROUTE, T, 2, -1)) return;
    if (to->shape[2] > experts || experts > 4096) {
        bad(e, "more experts used than there are, or more than 4096");
        return;
    }
    whole(e, TW_CHOOSE_SCORES, false);
    whole(e, TW_CHOOSE_ROUTE, true);
}

static void experts_up(effects *e) {
    int64_t T = e->s->tokens, dim = buffer(e, TW_EXPERTS_UP_X)->shape[2],
            used = buffer(e, TW_EXPERTS_UP_ROUTE)->shape[2];
    int64_t experts = buffer(e, TW_EXPERTS_UP_UP)->shape[0], n = buffer(e, TW_EXPERTS_UP_H)->shape[2];
    int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    const int64_t first = e->in->param[TW_EXPERTS_UP_SLOT_FROM], end = e->in->param[TW_EXPERTS_UP_SLOT_TO];
    if (!activation(e, TW_EXPERTS_UP_X, T, 1, -1) || !vector(e, TW_EXPERTS_UP_NORM, dim) ||
        !activation(e, TW_EXPERTS_UP_ROUTE, T, 2, -1) || !shaped(e, TW_EXPERTS_UP_GATE, experts, n, dim) ||
        !shaped(e, TW_EXPERTS_UP_UP, experts, n, dim) || !same_dtype(e, TW_EXPERTS_UP_GATE, TW_EXPERTS_UP_UP) ||
        !activation(e, TW_EXPERTS_UP_H, T, used, -1) || !range(e, n))
        return;
    if (first < 0 || first >= end || end > used) {
        bad(e, "slots of chosen experts out of range");
        return;
    }
    whole(e, TW_EXPERTS_UP_X, false);
    whole(e, TW_EXPERTS_UP_NORM, false);
    whole(e, TW_EXPERTS_UP_ROUTE, false);
    rows_of(e, TW_EXPERTS_UP_GATE, false, from, to);
    rows_of(e, TW_EXPERTS_UP_UP, false, from, to);
    access_box(e, TW_EXPERTS_UP_H, true, 0, T, first, end, 4 * from, 4 * to);
}

static void experts_down(effects *e) {
    int64_t T = e->s->tokens, used = buffer(e, TW_EXPERTS_DOWN_ROUTE)->shape[2];
    int64_t n = buffer(e, TW_EXPERTS_DOWN_H)->shape[2], dim = buffer(e, TW_EXPERTS_DOWN_X)->shape[2];
    int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!activation(e, TW_EXPERTS_DOWN_H, T, used, -1) || !activation(e, TW_EXPERTS_DOWN_ROUTE, T, 2, -1) ||
        !shaped(e, TW_EXPERTS_DOWN_W, -1, dim, n) || !matrix(e, TW_EXPERTS_DOWN_W) ||
        !activation(e, TW_EXPERTS_DOWN_X, T, 1, -1) || !range(e, dim))
        return;
    whole(e, TW_EXPERTS_DOWN_H, false);
    whole(e, TW_EXPERTS_DOWN_ROUTE, false);
    rows_of(e, TW_EXPERTS_DOWN_W, false, from, to);
    columns(e, TW_EXPERTS_DOWN_X, false, from, to);
    columns(e, TW_EXPERTS_DOWN_X, true, from, to);
}

static void head(effects *e) {
    int64_t T = e->s->tokens, dim = buffer(e, TW_HEAD_X)->shape[2], n = buffer(e, TW_HEAD_LOGITS)->shape[2];
    int64_t rows = buffer(e, TW_HEAD_LOGITS)->shape[0], slot = e->in->param[TW_HEAD_SLOT];
    int64_t from = e->in->param[TW_FROM], to = e->in->param[TW_TO];
    if (!activation(e, TW_HEAD_X, T, 1, -1) || !vector(e, TW_HEAD_NORM, dim) || !vector(e, TW_HEAD_NORM_BIAS, dim) ||
        !shaped(e, TW_HEAD_W, 1, n, dim) || !matrix(e, TW_HEAD_W) || !activation(e, TW_HEAD_LOGITS, -1, 1, -1) ||
        !activation(e, TW_HEAD_BEST, -1, e->s->sequences, 2) || !range(e, n))
        return;
    if (e->s->sequences > 1 && rows != T) {
        bad(e, "logits have one row a sequence");
        return;
    }
    if ((rows != 1 && rows != T) || slot < 0 || slot >= buffer(e, TW_HEAD_BEST)->shape[0]) {
        bad(e, "logits have one row or one a position, and slot is one of best's");
        return;
    }
    whole(e, TW_HEAD_X, false);
    whole(e, TW_HEAD_NORM, false);
    whole(e, TW_HEAD_NORM_BIAS, false);
    rows_of(e, TW_HEAD_W, false, from, to);
    columns(e, TW_HEAD_LOGITS, true, from, to);
    access_box(e, TW_HEAD_BEST, true, slot, slot + 1, 0, e->s->sequences, 0, 8);
}

static void output(effects *e) {
    const int64_t n = e->s->sequences;
    if (!activation(e, TW_OUTPUT_LOGITS, n > 1 ? n : -1, 1, -1) || !activation(e, TW_OUTPUT_BEST, -1, n, 2) ||
        !shaped(e, TW_OUTPUT_TOKEN, n, 1, 1))
        return;
    if (buffer(e, TW_OUTPUT_TOKEN)->dtype != TW_I32) {
        bad(e, "the token is i32");
        return;
    }
    whole(e, TW_OUTPUT_LOGITS, false);
    whole(e, TW_OUTPUT_BEST, false);
    whole(e, TW_OUTPUT_TOKEN, true);
}

tw_status tw_instr_effects(const tw_schedule *s, const tw_instr *in, tw_access_list *list, tw_diag *diag) {
    static void (*const of[TW_INSTR_COUNT])(effects *) = {
        [TW_INSTR_INPUT] = input,
        [TW_INSTR_EMBED] = embed,
        [TW_INSTR_QKV] = qkv,
        [TW_INSTR_ATTEND] = attend,
        [TW_INSTR_MERGE] = merge,
        [TW_INSTR_PROJECT] = project,
        [TW_INSTR_RESIDUAL] = residual,
        [TW_INSTR_PARTIAL] = partial,
        [TW_INSTR_SUM] = sum,
        [TW_INSTR_TURN] = turn,
        [TW_INSTR_FFN] = ffn,
        [TW_INSTR_ROUTE] = route,
        [TW_INSTR_SCORE] = score,
        [TW_INSTR_CHOOSE] = choose,
        [TW_INSTR_EXPERTS_UP] = experts_up,
        [TW_INSTR_EXPERTS_DOWN] = experts_down,
        [TW_INSTR_HEAD] = head,
        [TW_INSTR_OUTPUT] = output,
    };
    effects e = {s, in, tw_instr_op_describe(in->op), list, diag, list->count, TW_OK};
    of[in->op](&e);
    return e.status;
}
