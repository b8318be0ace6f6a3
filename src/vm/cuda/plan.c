/* SPDX-License-Identifier: Apache-2.0 */
/* Plans the kernel for a schedule and a model, and divides a block's shared memory. */
#include "base/diag.h"
#include "base/divide.h"
#include "vm/cuda/attend.h"
#include "vm/cuda/generate.h"

#include <stdlib.h>
#include <string.h>

enum {
    STAGES = 32, /* The most stages. The emulator follows 64 mbarriers of a block. */
    LINE = 128,
    CHUNK_BYTES = 72 << 10,
    /* Bytes in flight to a multiprocessor, as measured on an H200 (bench/results/tunings-h200.jsonl). */
    WINDOW_BYTES = 48 << 10,
    WIDE_WINDOW_BYTES = 64 << 10,
    AHEAD_BYTES = 32 << 10,
    SMALL = 128 << 10,    /* Bytes of a block's shared memory, below which stages are small. */
    CUT_LIST = 512,       /* Candidates. To order more takes longer than another look at all logits. */
    MOST_DRAWN = 1 << 20, /* Ids, the most that a cut's last rounds tell apart. */
};

static int64_t up(int64_t x, int64_t unit) {
    return tw_ceil_div(x, unit) * unit;
}

bool tw_mega_format_of(tw_dtype dtype, int group, tw_mega_format *f) {
    const bool integer = dtype == TW_I8 || dtype == TW_I4, half = dtype == TW_F16;
    *f = (tw_mega_format){.dtype = dtype,
                          .group = group,
                          .units = integer ? 2 : 1,
                          .pair = half ? TW_T_f16x2 : TW_T_bf16x2,
                          .mma = integer ? TW_MMA_m16n8k32_s8
                                 : half  ? TW_MMA_m16n8k16_f16
                                         : TW_MMA_m16n8k16_bf16};
    switch (dtype) {
    case TW_F32: /* A sum of two bf16: four upper halves, then four lower ones. */
        f->depth = 16;
        break;
    case TW_F16:
    case TW_BF16:
        f->depth = 32;
        break;
    case TW_I8:
        f->depth = 32;
        f->sets = group ? 1 : 0;
        f->row_bytes = group ? 0 : 16 * 4;
        f->scale_bytes = 16 * 4 * f->sets;
        break;
    case TW_I4:
        f->depth = 64;
        f->sets = group == 32 ? 2 : 1;
        f->scale_bytes = 16 * 2 * f->sets;
        break;
    default:
        return false;
    }
    f->steps = f->depth / 16;
    return !integer || (group % 32 == 0 && (group || dtype == TW_I8));
}

int64_t tw_mega_stage_columns(const tw_mega_plan *p, const tw_mega_format *f) {
    return (int64_t)p->tuning.warps * p->tuning.blocks * f->depth;
}

const tw_mega_format *tw_mega_format_for(const tw_mega_plan *p, tw_instr_op op) {
    return op == TW_INSTR_HEAD ? &p->head : &p->body;
}

/* Returns an instruction's first matrix. The others have its type and its number of columns. */
static const tw_buffer *first_matrix(const tw_schedule *s, const tw_instr *in) {
    return &s->buffers[tw_instr_matrices_of(in).matrix[0]];
}

/* Returns the columns of a product: of experts_down, those of all chosen experts, of partial, those of a part. */
static int64_t columns_of(const tw_mega_plan *p, const tw_schedule *s, const tw_instr *in) {
    if (in->op == TW_INSTR_EXPERTS_DOWN) return p->m->n_experts_used * p->padded;
    const int64_t parts = in->op == TW_INSTR_PARTIAL ? s->buffers[in->operand[TW_PARTIAL_SUMS]].shape[1] : 1;
    return first_matrix(s, in)->shape[2] / parts;
}

bool tw_mega_gated(const tw_instr *in) {
    if (in->op == TW_INSTR_EXPERTS_UP) return true;
    return in->op == TW_INSTR_FFN && in->operand[TW_FFN_GATE] >= 0;
}

tw_mega_shape tw_mega_shape_of(const tw_mega_plan *p, const tw_schedule *s, const tw_instr *in) {
    const tw_mega_format *f = tw_mega_format_for(p, in->op);
    const int64_t rows = in->param[TW_TO] - in->param[TW_FROM], a_stage = tw_mega_stage_columns(p, f);
    tw_mega_shape x = {.columns = columns_of(p, s, in), .group_units = TW_MEGA_PART_ROWS / TW_MEGA_ROWS};
    x.chunks = (int)tw_ceil_div(up(x.columns, a_stage), p->chunk_most);
    /* Prompts find columns in parts by their chunks, which therefore are equal. */
    while (in->op == TW_INSTR_PARTIAL && x.columns / a_stage % x.chunks) x.chunks++;
    x.chunk_columns = up(tw_ceil_div(x.columns, x.chunks), a_stage);
    x.run = (int)(x.chunk_columns / p->tuning.warps / f->depth);
    x.units = (int)(up(rows, TW_MEGA_ROWS) / TW_MEGA_ROWS) * (tw_mega_gated(in) ? 2 : 1);
    if (in->op == TW_INSTR_EXPERTS_UP) x.units *= tw_mega_slots(in);
    /* A group has whole heads, since a head's RMS norm needs all of its rows. */
    if (in->op == TW_INSTR_QKV && p->qk_norm)
        x.group_units = (int)(TW_MEGA_PART_ROWS / p->m->head_dim * p->m->head_dim / TW_MEGA_ROWS);
    const int n = f->units, full = x.units / x.group_units, rest = x.units % x.group_units;
    x.stages = x.chunks * (full * ((x.group_units + n - 1) / n) + (rest + n - 1) / n) * (x.run / p->tuning.blocks);
    return x;
}

tw_mega_pool tw_mega_pool_of(const tw_mega_plan *p, const tw_schedule *s, const tw_instr *in) {
    const bool gated = in->op == TW_INSTR_EXPERTS_UP;
    const tw_mega_format *f = &p->body;
    const int64_t rows = first_matrix(s, in)->shape[1];
    tw_mega_pool pool = {.plan = *p, .stage_bytes = p->stage_bytes};
    tw_mega_shape *x = &pool.shape;
    *x = tw_mega_shape_of(p, s, in);
    x->units = (int)(up(rows, TW_MEGA_ROWS) / TW_MEGA_ROWS) * (gated ? 2 : 1);
    if (!gated) {
        pool.plan.tuning.warps = 1;
        pool.stage_bytes = p->tuning.blocks * (TW_MEGA_PIECE + f->scale_bytes);
        x->columns = p->m->expert_dim;
        x->chunk_columns = p->padded;
        x->run = p->padded / f->depth;
    }
    const int64_t lines = tw_ceil_div(x->units, f->units);
    pool.unit_bytes = (int64_t)(x->run / p->tuning.blocks) * pool.stage_bytes;
    x->stages = (int)(lines * (x->run / p->tuning.blocks));
    pool.expert_bytes = lines * pool.unit_bytes;
    return pool;
}

static tw_status refuse(tw_diag *diag, const char *what) {
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "the GPU's machine does not run %s yet: --device cpu does", what);
}

static bool gateless(const tw_layer *y) {
    return !y->experts && !y->gate.weight.rows;
}

static tw_status mixture_covered(const tw_model *m, int64_t tokens, tw_diag *diag) {
    if (m->norm != TW_NORM_RMS) return refuse(diag, "layer norms in mixtures of experts");
    if (m->n_experts > TW_MEGA_EXPERTS || m->n_experts_used > TW_MEGA_CHOSEN) return refuse(diag, "so many experts");
    if (m->expert_dim % TW_MEGA_ROWS) return refuse(diag, "experts of sizes that 8 does not divide");
    if (tokens > 1) return refuse(diag, "mixtures of experts at several positions a step");
    return TW_OK;
}

/* Checks that every worker chooses for itself, and uses each choice that it makes. */
static tw_status choices_covered(const tw_schedule *s, tw_diag *diag) {
    for (int w = 0; w < s->n_workers; w++) {
        int route = -1; /* The last choice. */
        bool unused = false;
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            const int of = in->op == TW_INSTR_EXPERTS_UP     ? in->operand[TW_EXPERTS_UP_ROUTE]
                           : in->op == TW_INSTR_EXPERTS_DOWN ? in->operand[TW_EXPERTS_DOWN_ROUTE]
                                                             : -1;
            if (in->op == TW_INSTR_CHOOSE && unused) return refuse(diag, "choices of experts that are not used");
            if (in->op == TW_INSTR_CHOOSE) {
                route = in->operand[TW_CHOOSE_ROUTE];
                unused = true;
            } else if (tw_mega_is_pooled(in->op)) {
                if (of != route) return refuse(diag, "experts that another worker has chosen");
                unused = false;
            }
        }
        if (unused) return refuse(diag, "choices of experts that are not used");
    }
    return TW_OK;
}

static tw_status covered(const tw_model *m, int64_t tokens, tw_diag *diag) {
    const bool head_norms = m->layers[0].q_norm.rows > 0 && !tw_model_norms_apart(m);
    if (m->norm != TW_NORM_RMS && head_norms) return refuse(diag, "norms of heads beside layer norms");
    if (m->head_dim % (head_norms ? TW_MEGA_WIDE : 4) ||
        m->head_dim > (head_norms ? (int)TW_MEGA_PART_ROWS : 32 * (int)TW_MEGA_WIDE))
        return refuse(diag, "heads of this size");
    if (m->dim % 4 || m->ffn_dim % 4 || m->n_heads * m->head_dim % 4)
        return refuse(diag, "sizes that 4 does not divide");
    for (int64_t i = 1; i < m->n_layers; i++)
        if (gateless(&m->layers[i]) != gateless(&m->layers[0]))
            return refuse(diag, "layers of which some have no gate");
    return m->n_experts ? mixture_covered(m, tokens, diag) : TW_OK;
}

/* Gives every piece its rows' scales. In mixtures the pieces of a stage belong to several matrices. */
static void scale_pieces(tw_mega_format *f) {
    if (!f->row_bytes) return;
    f->sets = 1;
    f->scale_bytes = f->row_bytes;
    f->row_bytes = 0;
}

static bool is_of_mixture(tw_instr_op op) {
    return tw_mega_is_pooled(op) || op == TW_INSTR_SCORE || op == TW_INSTR_CHOOSE;
}

/* Returns the columns of which a part of a product has a multiple: those of a stage that ends where a group does. */
static int64_t part_unit(const tw_mega_plan *p, const tw_mega_format *f) {
    const int64_t stage = tw_mega_stage_columns(p, f);
    int64_t unit = stage;
    while (f->group && unit % f->group) unit += stage;
    return unit;
}

/* Reads the formats and other properties of the instructions, which must agree. */
static tw_status read_instructions(tw_mega_plan *p, const tw_schedule *s, bool dequantise, tw_diag *diag) {
    p->head_last = true;
    p->fours = p->vocab % 4 == 0;
    p->sum_fours = true;
    for (int w = 0; w < s->n_workers; w++) {
        bool head = false;
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            if (in->op == TW_INSTR_ATTEND) {
                const int64_t heads = in->param[TW_ATTEND_HEAD_TO] - in->param[TW_ATTEND_HEAD_FROM];
                if (heads > p->turned_heads) p->turned_heads = heads;
                if ((in->operand[TW_ATTEND_RAW_K] >= 0) != p->turns)
                    return refuse(diag, "schedules that norm heads elsewhere than the machine does");
                if (p->turns && (in->operand[TW_ATTEND_ROPE] < 0) != (p->m->rope.kind == TW_ROPE_NONE))
                    return refuse(diag, "schedules that rotate where the model does not, or do not where it does");
                p->kv = s->buffers[in->operand[TW_ATTEND_K]].dtype;
                if (s->buffers[in->operand[TW_ATTEND_V]].dtype != p->kv)
                    return refuse(diag, "caches of different types");
            }
            if (in->op == TW_INSTR_HEAD) {
                p->all_logits = s->buffers[in->operand[TW_HEAD_LOGITS]].shape[0] > 1;
                p->fours &= in->param[TW_FROM] % 4 == 0 && in->param[TW_TO] % 4 == 0;
            }
            if (in->op == TW_INSTR_OUTPUT) p->slots = (int)s->buffers[in->operand[TW_OUTPUT_BEST]].shape[0];
            if (in->op == TW_INSTR_ROUTE) return refuse(diag, "routers that are not dealt out");
            if (is_of_mixture(in->op) && !p->experts) return refuse(diag, "experts of a model without any");
            if (in->op == TW_INSTR_QKV && (in->operand[TW_QKV_RAW_K] >= 0) != p->apart)
                return refuse(diag, "schedules that norm heads elsewhere than the machine does");
            if (in->op == TW_INSTR_QKV && p->pairs &&
                (in->operand[TW_QKV_ROPE] < 0) != (p->m->rope.kind == TW_ROPE_NONE))
                return refuse(diag, "schedules that rotate where the model does not, or do not where it does");
            if (in->op == TW_INSTR_PROJECT && (in->operand[TW_PROJECT_Y] >= 0) != p->post_norm)
                return refuse(diag, "schedules that norm what the model does not, or do not what it does");
            if (in->op == TW_INSTR_SUM && (in->operand[TW_SUM_Y] >= 0) != p->post_norm)
                return refuse(diag, "schedules that norm what the model does not, or do not what it does");
            if (in->op == TW_INSTR_SUM || in->op == TW_INSTR_PARTIAL) {
                const int sums = in->operand[in->op == TW_INSTR_SUM ? TW_SUM_SUMS : TW_PARTIAL_SUMS];
                const int parts = (int)s->buffers[sums].shape[1];
                if (parts > TW_MEGA_PARTS || (p->parts && p->parts != parts))
                    return refuse(diag, "products in so many parts, or in different numbers of parts");
                if (s->buffers[sums].shape[2] != p->m->dim)
                    return refuse(diag, "products in parts whose rows are not the model's");
                p->parts = parts;
                if (in->op == TW_INSTR_SUM) p->sum_fours &= in->param[TW_FROM] % 4 == 0 && in->param[TW_TO] % 4 == 0;
            }
            if (in->op == TW_INSTR_EMBED && (in->operand[TW_EMBED_POSITIONS] < 0) != !p->m->positions.rows)
                return refuse(diag, "schedules whose learned positions are not the model's");
            if (in->op == TW_INSTR_SCORE) p->router = s->buffers[in->operand[TW_SCORE_ROUTER]].dtype;
            if (in->op == TW_INSTR_FFN && tw_mega_gated(in) != p->gated)
                return refuse(diag, "layers of which some have no gate");
            if (!tw_mega_is_product(in->op)) continue;
            const tw_buffer *b = first_matrix(s, in);
            tw_mega_format f, *known = in->op == TW_INSTR_HEAD ? &p->head : &p->body;
            head |= in->op == TW_INSTR_HEAD;
            const bool floats = dequantise && (b->dtype == TW_I8 || b->dtype == TW_I4);
            if (!tw_mega_format_of(floats ? TW_F32 : b->dtype, floats ? 0 : b->group, &f))
                return refuse(diag, "these weights");
            if (p->experts) scale_pieces(&f);
            const int whole = in->op == TW_INSTR_EXPERTS_UP ? 1 : f.units; /* Units of a row of pieces. */
            if (tw_mega_is_pooled(in->op) && in->param[TW_FROM] % ((int64_t)whole * TW_MEGA_ROWS))
                return refuse(diag, "experts' rows in such units");
            if (in->op == TW_INSTR_EXPERTS_DOWN) p->padded = (int)up(p->m->expert_dim, p->tuning.blocks * f.depth);
            if (head && in->op != TW_INSTR_HEAD) p->head_last = false;
            if (known->depth && !tw_mega_same_format(known, &f))
                return refuse(diag, "layers whose weights are of several types");
            *known = f;
            const int64_t columns = columns_of(p, s, in);
            if (in->op == TW_INSTR_PARTIAL && columns % part_unit(p, &f))
                return refuse(diag, "parts of products that are not whole stages, with whole groups of scales");
            if (columns > p->max_columns) p->max_columns = (int)columns;
        }
    }
    if (p->body.pair != p->head.pair || p->body.units != p->head.units)
        return refuse(diag, "a head whose weights are of another type than the layers'");
    return TW_OK;
}

static int take(int *at, int64_t bytes) {
    int here = *at;
    *at = (int)(here + up(bytes, LINE));
    return here;
}

/* Chooses lanes or tensor cores, which take keys and values as they are stored, 16 positions of a warp at once. */
static void choose_attention(tw_mega_plan *p) {
    const int per = (int)(p->m->n_heads / p->m->n_kv_heads);
    p->roomy = p->target->sm == 90 || p->target->sm == 100;
    const bool halves = p->kv == TW_F16 || p->kv == TW_BF16;
    const int64_t widest = p->roomy ? TW_MEGA_TENSOR_DIM : TW_MEGA_TENSOR_DIM / 2;
    p->attend_tensor = halves && p->m->head_dim % 32 == 0 && p->m->head_dim <= widest;
    p->attend_heads = !p->attend_tensor ? TW_MEGA_HEADS : per < TW_MEGA_TENSOR_HEADS ? per : TW_MEGA_TENSOR_HEADS;
}

/* Counts the stages that the first worker takes in a layer. */
static int64_t layer_stages(const tw_mega_plan *p, const tw_schedule *s) {
    int64_t n = 0;
    for (int i = 0; i < s->workers[0].count; i++) {
        const tw_instr *in = &s->workers[0].list[i];
        if (tw_mega_is_product(in->op) && in->op != TW_INSTR_HEAD) n += tw_mega_shape_of(p, s, in).stages;
    }
    return n / p->m->n_layers;
}

/* Sets tuning.window, tuning.ahead and paces. Memory is taken to be the bottleneck if a step has one position and a
   layer has at least twice the ring's stages. Then `ahead` is small. The window is wide if weights are floats too,
   since their products keep up with it. */
static void choose_window(tw_mega_plan *p, const tw_schedule *s) {
    tw_cuda_vm_tuning *t = &p->tuning;
    const bool dry = p->tokens == 1 && layer_stages(p, s) >= 2 * t->stages;
    const bool wide = dry && !tw_mega_is_integer(&p->body);
    if (!t->window) t->window = (int)tw_ceil_div(wide ? WIDE_WINDOW_BYTES : WINDOW_BYTES, p->stage_bytes);
    if (t->window > t->stages) t->window = t->stages;
    if (!t->ahead) t->ahead = dry ? (int)tw_ceil_div(AHEAD_BYTES, p->stage_bytes) : t->window;
    if (t->ahead > t->window) t->ahead = t->window;
    p->paces = t->ahead < t->window;
}

/* Chooses the warps and pieces of a stage that are not given. */
static void choose_stage(tw_cuda_vm_tuning *t, const tw_target *target) {
    if (!t->warps) t->warps = 8;
    if (!t->blocks) t->blocks = target->shared_block < SMALL ? 2 : 4;
}

/* The most bytes of a chunk's activations. */
static int64_t chunk_bytes(const tw_target *t, bool experts) {
    const int64_t third = t->shared_block / 3;
    return experts ? 2 * third : third < CHUNK_BYTES ? third : CHUNK_BYTES;
}

/* Returns the most columns of a chunk where the widest product has so many. */
static int64_t chunk_columns(int64_t widest, int64_t stage, int64_t positions, int64_t bytes) {
    int64_t most = up(widest, stage);
    while (most > stage && positions * 4 * most > bytes) most = up(most / 2, stage);
    return most;
}

int64_t tw_mega_down_splits(const tw_model *m, const tw_target *t, const tw_cuda_vm_options *options,
                            const tw_lowering *l) {
    const tw_dtype stored = m->layers[0].q.weight.dtype;
    const int64_t positions = l->tokens > l->sequences ? l->tokens : l->sequences;
    const int64_t bytes = positions * 4 * m->ffn_dim, most = chunk_bytes(t, false);
    tw_mega_plan p = {.tuning = options->tuning};
    tw_mega_format f;
    choose_stage(&p.tuning, t);
    const bool known = tw_mega_format_of(l->weights == TW_F32 ? stored : l->weights,
                                         l->weights == TW_I4 && !l->group ? 64 : l->group, &f);
    const int64_t unit = known ? part_unit(&p, &f) : 0, heads = m->n_heads * m->head_dim;
    const int64_t others = m->dim > heads ? m->dim : heads; /* The most columns of another product. */
    if (positions < 2 || m->n_experts || unit < 1 || m->ffn_dim % unit || bytes <= 2 * most) return 1;
    for (int64_t parts = 2; parts <= TW_MEGA_PARTS && parts <= l->workers; parts++) {
        const int64_t part = m->ffn_dim / parts, widest = part > others ? part : others;
        if (m->ffn_dim / unit % parts == 0 &&
            part <= chunk_columns(widest, tw_mega_stage_columns(&p, &f), positions, most))
            return parts;
    }
    return 1;
}

/* Divides a block's shared memory. The ring gets what the rest leaves. */
static tw_status divide(tw_mega_plan *p, tw_diag *diag) {
    tw_cuda_vm_tuning *t = &p->tuning;
    const int pieces = t->warps * t->blocks;
    const int of_body = pieces * (TW_MEGA_PIECE + p->body.scale_bytes) + p->body.row_bytes;
    const int of_head = pieces * (TW_MEGA_PIECE + p->head.scale_bytes) + p->head.row_bytes;
    const int64_t a_stage = tw_mega_stage_columns(p, p->body.depth > p->head.depth ? &p->body : &p->head);
    const int64_t T = p->tokens;
    const int64_t most = chunk_columns(p->max_columns, a_stage, T, chunk_bytes(p->target, p->experts));
    p->chunk_most = most;
    p->one_chunk = most >= p->max_columns;
    const int64_t blocks = up(most, TW_MEGA_BLOCK) / TW_MEGA_BLOCK;
    p->x_pitch = (int)(4 * blocks * TW_MEGA_BLOCK + (T > 1 ? 64 : 0));
    p->scales_pitch = tw_mega_is_integer(&p->body) ? (int)(4 * blocks) : 0;
    p->part_buffers = T == 1 ? 2 : 1;
    p->stage_bytes = of_body > of_head ? of_body : of_head;
    p->head_bytes = p->head_last && of_body == p->stage_bytes ? of_head : p->stage_bytes;
    const int64_t scratch = up((int64_t)t->warps * p->attend_heads * (p->m->head_dim + 2) * 4, LINE);
    const int64_t attention = scratch + (p->attend_tensor ? p->m->head_dim / 16 * TW_MEGA_PIECE : 0);
    const int64_t x = T * (int64_t)p->x_pitch;
    int at = 0;
    p->x = take(&at, x > attention ? x : attention);
    p->queries = p->x + (int)scratch;
    p->scales = take(&at, T * p->scales_pitch);
    const int64_t part = (int64_t)p->part_buffers * t->warps * T * TW_MEGA_PART_ROWS * 4;
    const int64_t turned = p->turns ? p->turned_heads * p->m->head_dim * 4 : 0;
    p->turned = p->part = take(&at, part > turned ? part : turned);
    /* A draw's memory overlaps activations and sums, which a draw does not need. */
    if (p->samples && at < p->x + tw_mega_cut_bytes(p)) at = (int)up(p->x + tw_mega_cut_bytes(p), LINE);
    p->sums = take(&at, (int64_t)t->warps * T * 4 + (int64_t)p->sequences * t->warps * 8);
    p->full = take(&at, STAGES * 8);
    p->empty = take(&at, STAGES * 8);
    p->ready = take(&at, sizeof(int32_t));
    if (p->experts) {
        p->chosen = take(&at, p->m->n_experts_used * 8);
        p->routed = take(&at, TW_RING_MBARRIER);
    }
    p->ring = at;
    int64_t fit = (p->target->shared_block - at) / p->stage_bytes;
    if (fit < 2)
        return tw_fail(diag, TW_ERR_USAGE,
                       "stages of %d bytes: a block has %d bytes of shared memory, and a ring needs 2 stages",
                       p->stage_bytes, p->target->shared_block);
    if (!t->stages) t->stages = (int)(fit < STAGES ? fit : STAGES);
    if (t->stages < 2 || t->stages > fit || t->stages > STAGES)
        return tw_fail(diag, TW_ERR_USAGE, "a ring of %d stages of %d bytes: from 2 to %lld fit", t->stages,
                       p->stage_bytes, (long long)(fit < STAGES ? fit : STAGES));
    p->shared_bytes = at + t->stages * p->stage_bytes;
    return TW_OK;
}

/* ---- data as its own flag */

/* The operands that are the activation an instruction writes and the one that it waits for, plus one. 0: none.
   Attention that is split writes TW_ATTEND_PART instead. */
static const struct {
    int written, awaited;
} activation[TW_INSTR_COUNT] = {
    [TW_INSTR_EMBED] = {TW_EMBED_X + 1, 0},
    [TW_INSTR_QKV] = {TW_QKV_Q + 1, TW_QKV_X + 1},
    [TW_INSTR_TURN] = {TW_TURN_Q + 1, TW_TURN_RAW_Q + 1},
    [TW_INSTR_ATTEND] = {TW_ATTEND_OUT + 1, TW_ATTEND_Q + 1},
    [TW_INSTR_MERGE] = {TW_MERGE_OUT + 1, TW_MERGE_PART + 1},
    [TW_INSTR_PROJECT] = {TW_PROJECT_X + 1, TW_PROJECT_IN + 1},
    [TW_INSTR_FFN] = {TW_FFN_H + 1, TW_FFN_X + 1},
    [TW_INSTR_HEAD] = {0, TW_HEAD_X + 1},
};

/* Finds the buffer that an instruction writes. -1: none. */
static int written(const tw_instr *in) {
    const int at = activation[in->op].written - 1;
    if (in->op == TW_INSTR_ATTEND && in->param[TW_ATTEND_SPLITS] > 1) return in->operand[TW_ATTEND_PART];
    return at < 0 ? -1 : in->operand[at];
}

/* Finds the buffer that an instruction waits for. -1: none. */
static int awaited(const tw_instr *in) {
    const int at = activation[in->op].awaited - 1;
    return at < 0 ? -1 : in->operand[at];
}

bool tw_mega_stages_of(const tw_schedule *s, const tw_instr **of) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            if (in->arrive < 0) continue;
            const tw_instr *known = of[in->arrive];
            if (known && (known->op != in->op || written(known) != written(in) || awaited(known) != awaited(in)))
                return false;
            of[in->arrive] = in;
        }
    for (int c = 0; c < s->n_counters; c++)
        if (!of[c]) return false;
    return true;
}

/* Counts the counters below `below` that stand for a write of the buffer. */
static int writings(const tw_instr *const *of, int below, int buffer) {
    int n = 0;
    for (int c = 0; c < below; c++) n += written(of[c]) == buffer;
    return n;
}

/* The counters' stages, and how many of them have been looked at. */
typedef struct stages {
    const tw_instr *const *of;
    int n, at;
} stages;

/* Tells whether the next stage is one of `op`, and passes it then. */
static bool follows(stages *s, tw_instr_op op) {
    const bool is = s->at < s->n && s->of[s->at]->op == op;
    s->at += is;
    return is;
}

/* Passes what follows attention in a layer. */
static bool usual_rest(stages *s, bool *dense) {
    const tw_instr *const *of = s->of + s->at;
    if (!follows(s, TW_INSTR_PROJECT)) return false;
    if (follows(s, TW_INSTR_SCORE)) {
        *dense = false;
        return follows(s, TW_INSTR_EXPERTS_UP) && follows(s, TW_INSTR_EXPERTS_DOWN);
    }
    return follows(s, TW_INSTR_FFN) && follows(s, TW_INSTR_PROJECT) && written(of[2]) == written(of[0]) &&
           awaited(of[2]) == written(of[1]);
}

/* Tells whether the stages follow one another as lowering makes them: input, embed, then layers of qkv, maybe turn,
   attend, maybe merge, project, ffn and project or score and experts, then head and output. Every stage then reads all
   that the one before it wrote, directly or through others. *plain: no layer has turn or experts. Data that is there
   then proves that nobody still reads what it replaces. */
static bool usual_order(const tw_instr *const *of, int n, int *layers, bool *plain) {
    stages s = {of, n, 0};
    *layers = 0;
    *plain = true;
    if (!follows(&s, TW_INSTR_INPUT) || !follows(&s, TW_INSTR_EMBED)) return false;
    for (; follows(&s, TW_INSTR_QKV); ++*layers) {
        if (follows(&s, TW_INSTR_TURN)) *plain = false;
        if (!follows(&s, TW_INSTR_ATTEND)) return false;
        follows(&s, TW_INSTR_MERGE);
        if (!usual_rest(&s, plain)) return false;
    }
    return follows(&s, TW_INSTR_HEAD) && follows(&s, TW_INSTR_OUTPUT) && s.at == n && *layers;
}

/* Checks that all numbers fit a record's words. */
static tw_status check_room(const tw_schedule *s, tw_diag *diag) {
    bool fits = s->n_counters <= UINT16_MAX;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            for (int j = 0; j < in->n_waits; j++) fits &= in->waits[j].threshold <= INT16_MAX;
            if (in->op == TW_INSTR_ATTEND) fits &= (s->max_seq + s->tokens) * in->param[TW_ATTEND_SPLITS] <= UINT32_MAX;
        }
    if (fits) return TW_OK;
    return tw_fail(diag, TW_ERR_UNSUPPORTED,
                   "the GPU's machine takes %d counters, %d arrivals at each, and a past times its splits below 2^32",
                   UINT16_MAX, INT16_MAX);
}

static tw_status choose_edges(tw_mega_plan *p, const tw_schedule *s, tw_diag *diag) {
    tw_cuda_vm_tuning *t = &p->tuning;
    if (t->edges < 0 || t->edges > TW_EDGES_DATA)
        return tw_fail(diag, TW_ERR_USAGE, "edges: %d is not counters (1) or data (2)", t->edges);
    const tw_instr **of = calloc((size_t)s->n_counters + 1, sizeof *of);
    if (!of) return tw_fail_memory(diag);
    bool plain = false;
    p->usual = tw_mega_stages_of(s, of) && usual_order(of, s->n_counters, &p->uses, &plain);
    free(of);
    /* Prompts use counters. Their programs have the same tuning as decode, whose edges may be by data. */
    if (!t->edges || s->tokens > 1) t->edges = TW_EDGES_COUNTERS;
    p->flags = t->edges == TW_EDGES_DATA;
    p->uses_x = 2 * p->uses + 1;
    if (p->flags && p->layer_norm) return tw_fail(diag, TW_ERR_USAGE, "edges by data: not for layer norms");
    if (p->flags && !(p->usual && plain))
        return tw_fail(diag, TW_ERR_USAGE, "edges by data need the usual order of stages");
    return TW_OK;
}

/* Only x and h carry tags. Attention's stages have counters, which also order accesses to the caches. */
int32_t tw_mega_uses(const tw_schedule *s, const tw_instr *in, const tw_instr *const *of) {
    const int below = in->arrive < 0 ? s->n_counters : in->arrive;
    const int reads = awaited(in) < 0 ? 0 : writings(of, below, awaited(in)) - 1;
    const int writes = written(in) < 0 ? 0 : writings(of, below, written(in));
    bool tagged = in->op != TW_INSTR_PROJECT;
    for (int c = 0; c < below; c++) tagged |= of[c]->op == TW_INSTR_FFN && written(of[c]) == awaited(in);
    return (tagged ? reads : TW_MEGA_UNTAGGED) | writes << 16;
}

/* Returns the first worker's first instruction of an op, or another worker's. NULL: there is none. */
static const tw_instr *first_of(const tw_schedule *s, tw_instr_op op) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].op == op) return &s->workers[w].list[i];
    return NULL;
}

/* Tells whether qkv leaves queries and keys raw: if it cannot norm them, or if the schedule's first qkv does not. */
static bool norms_apart(const tw_schedule *s, const tw_model *m) {
    if (tw_model_norms_apart(m) || !m->layers[0].q_norm.rows) return tw_model_norms_apart(m);
    const tw_instr *qkv = first_of(s, TW_INSTR_QKV);
    return qkv && qkv->operand[TW_QKV_RAW_K] >= 0;
}

/* Tells whether attention norms queries and keys, each head by itself: if the schedule's first one does. */
static bool attention_turns(const tw_schedule *s, const tw_model *m) {
    const tw_instr *attend = first_of(s, TW_INSTR_ATTEND);
    return norms_apart(s, m) && !tw_model_norms_apart(m) && attend && attend->operand[TW_ATTEND_RAW_K] >= 0;
}

tw_status tw_mega_plan_of(tw_mega_plan *p, const tw_schedule *s, const tw_model *m, const tw_target *t,
                          const tw_cuda_vm_options *options, tw_diag *diag) {
    *p = (tw_mega_plan){.m = m,
                        .target = t,
                        .tuning = options->tuning,
                        .tokens = (int)s->tokens,
                        .sequences = (int)s->sequences,
                        .max_seq = s->max_seq,
                        .vocab = m->vocab,
                        .gated = !gateless(&m->layers[0]),
                        .experts = m->n_experts > 0,
                        .layer_norm = m->norm == TW_NORM_LAYER,
                        .qk_norm = m->layers[0].q_norm.rows > 0 && !norms_apart(s, m),
                        .apart = norms_apart(s, m),
                        .turns = attention_turns(s, m),
                        .pairs = !tw_model_norms_apart(m),
                        .post_norm = m->layers[0].attn_post_norm.weight.rows > 0,
                        .two_ropes = m->rope_local.kind != TW_ROPE_NONE};
    tw_status st = covered(m, s->tokens, diag);
    if (st != TW_OK) return st;
    if (s->tokens > TW_CUDA_VM_TOKENS)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "a program of %lld positions a step: the GPU's machine takes %d",
                       (long long)s->tokens, TW_CUDA_VM_TOKENS);
    tw_cuda_vm_tuning *u = &p->tuning;
    choose_stage(u, t);
    if (!u->spin_limit) u->spin_limit = 1 << 26;
    if (u->warps < 1 || u->warps > TW_MEGA_WARPS || u->blocks < 1 || u->blocks > 8)
        return tw_fail(diag, TW_ERR_USAGE, "%d warps of %d blocks: 1 to 16 and 1 to 8 are possible", u->warps,
                       u->blocks);
    if (u->window < 0 || u->ahead < 0)
        return tw_fail(diag, TW_ERR_USAGE, "a window of %d stages, and %d ahead", u->window, u->ahead);
    if (u->spin_limit < 1) return tw_fail(diag, TW_ERR_USAGE, "spin_limit: %d is not a number of polls", u->spin_limit);
    st = check_room(s, diag);
    if (st == TW_OK) st = choose_edges(p, s, diag);
    if (st == TW_OK && p->experts) st = choices_covered(s, diag);
    if (st == TW_OK) st = read_instructions(p, s, options->dequantise, diag);
    p->samples = s->tokens == s->sequences && !p->flags && p->vocab <= MOST_DRAWN;
    p->cut_list = options->cut_list ? options->cut_list : CUT_LIST;
    choose_attention(p);
    if (st == TW_OK) st = divide(p, diag);
    if (st == TW_OK && p->experts && !p->one_chunk) st = refuse(diag, "experts with so many columns on this GPU");
    if (st == TW_OK) choose_window(p, s);
    return st;
}
