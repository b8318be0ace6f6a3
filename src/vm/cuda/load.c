/* SPDX-License-Identifier: Apache-2.0 */
/* Makes what the kernel reads of a checked schedule: buffers, tapes, and a record for each instruction. */
#include "base/diag.h"
#include "base/hash.h"
#include "base/thread.h"
#include "vm/cuda/machine.h"
#include "vm/routing.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The state of loading a program. The first failure sticks in `status`, and nothing is allocated after it. Threads that
   pack tapes set `status` under the machine's lock. */
typedef struct loading {
    tw_cuda_vm *vm;
    tw_mega_program *p;
    const tw_instr **stages; /* The instructions that tw_mega_stages_of finds, one for each counter. */
    int32_t *records;        /* Room for the records of any worker. */
    bool *reported;          /* [layers]: a worker enters the layer's choice of experts in p->routes. */
    _Atomic int next;        /* The next worker whose tape is to be packed. */
    _Atomic tw_status status;
    tw_diag diag;
} loading;

static void out_of_memory(loading *l) {
    pthread_mutex_lock(&l->vm->lock);
    if (l->status == TW_OK) l->status = tw_fail_memory(&l->diag);
    pthread_mutex_unlock(&l->vm->lock);
}

/* Allocates memory of `owner` and copies `data` there. Returns the address. 0: a failure. */
static uint64_t put(loading *l, const void *owner, const char *name, const void *data, size_t bytes, bool read_only) {
    uint64_t address = 0;
    pthread_mutex_lock(&l->vm->lock);
    if (l->status == TW_OK) l->status = tw_mega_alloc(l->vm, owner, name, data, bytes, read_only, &address, &l->diag);
    pthread_mutex_unlock(&l->vm->lock);
    return address;
}

static uint64_t put_zeros(loading *l, const char *name, size_t bytes) {
    uint64_t address = 0;
    if (l->status == TW_OK) l->status = tw_mega_alloc_zeros(l->vm, l->p, name, bytes, &address, &l->diag);
    return address;
}

/* ---- buffers */

const tw_mega_named *tw_mega_named_find(const tw_cuda_vm *vm, const char *name) {
    const tw_mega_named *e = vm->named;
    while (e && strcmp(e->name, name) != 0) e = e->next;
    return e;
}

/* Uploads a weight: a vector as floats, a table in its stored element type. Returns the address. 0: a failure. */
static uint64_t upload_weight(loading *l, const tw_weight *w) {
    const bool floats = w->cols == 1;
    const size_t row = floats ? 4 : (size_t)w->cols * (tw_dtype_bits(w->dtype) / 8), bytes = (size_t)w->rows * row;
    unsigned char *data = malloc(bytes);
    if (!data) out_of_memory(l);
    for (int64_t i = 0; i < w->rows && data; i++)
        if (floats)
            tw_weight_read(w, i, 0, 1, (float *)(void *)data + i);
        else
            tw_weight_read_raw(w, i, 0, w->cols, data + (size_t)i * row);
    const uint64_t address = put(l, NULL, w->name, data, bytes, true);
    free(data);
    return address;
}

int64_t tw_mega_cache_bytes(const tw_cuda_vm *vm, const tw_buffer *b, int64_t sequences) {
    const int64_t most = vm->options.sequences > sequences ? vm->options.sequences : sequences;
    return tw_memory_buffer(b) / sequences * most;
}

static uint64_t new_cache(loading *l, const tw_buffer *b) {
    const size_t bytes = (size_t)tw_mega_cache_bytes(l->vm, b, l->p->s->sequences);
    const uint64_t address = put(l, NULL, b->name, NULL, bytes, false);
    if (l->status == TW_OK && l->vm->cuda) l->status = tw_cuda_fill(l->vm->cuda, address, 0, (bytes + 3) / 4, &l->diag);
    return address;
}

/* Returns the address of a cache or weight, which programs share by name. Allocates it for the first program. */
static uint64_t shared(loading *l, const tw_buffer *b, int at) {
    tw_cuda_vm *vm = l->vm;
    const tw_mega_named *known = tw_mega_named_find(vm, b->name);
    const bool is_cache = b->kind == TW_BUFFER_KV;
    if (known && is_cache && (memcmp(known->shape, b->shape, sizeof b->shape) != 0 || known->dtype != b->dtype))
        l->status = tw_fail(&l->diag, TW_ERR_MISMATCH, "the programs disagree on the shape of %s", b->name);
    if (known) return known->address;
    tw_mega_named *e = tw_arena_alloc(&vm->arena, sizeof *e);
    const char *name = tw_arena_strdup(&vm->arena, b->name);
    if (vm->arena.failed) out_of_memory(l);
    const uint64_t address = is_cache ? new_cache(l, b) : upload_weight(l, tw_weight_at(&l->p->weights, at, 0));
    if (l->status != TW_OK) return 0;
    *e = (tw_mega_named){vm->named, name, {b->shape[0], b->shape[1], b->shape[2]}, b->dtype, address};
    vm->named = e;
    return address;
}

/* Returns a buffer's address, and allocates the buffer at the first call. 0: `at` is -1, or a failure. Where data is
   its own flag, activations are zeroed, since no write has tag 0. */
static uint64_t address_of(loading *l, int at) {
    if (at < 0 || l->status != TW_OK) return 0;
    const tw_buffer *b = &l->p->s->buffers[at];
    uint64_t *address = &l->p->buffer[at];
    const size_t bytes = (size_t)tw_memory_buffer(b);
    if (*address) return *address;
    if (b->kind == TW_BUFFER_KV || b->kind == TW_BUFFER_WEIGHT)
        *address = shared(l, b, at);
    else if (b->kind == TW_BUFFER_ACTIVATION && l->p->plan.flags)
        *address = put_zeros(l, b->name, bytes);
    else
        *address = put(l, l->p, b->name, NULL, bytes, false);
    return *address;
}

/* ---- tapes */

/* Hashes the content of a tape: the rows, their matrices and their layout. */
tw_mega_tape tw_mega_tape_of(const tw_mega_program *p, int worker) {
    const tw_mega_plan *plan = &p->plan;
    const tw_worker *w = &p->s->workers[worker];
    const int64_t how[] = {worker,           plan->tuning.warps, plan->tuning.blocks, plan->stage_bytes,
                           plan->head_bytes, plan->chunk_most};
    tw_mega_tape t = {0};
    tw_hash h = tw_hash_begin();
    tw_hash_add(&h, how, sizeof how);
    for (int i = 0; i < w->count; i++) {
        const tw_instr *in = &w->list[i];
        if (!tw_mega_is_taped(in->op)) continue;
        const tw_mega_shape shape = tw_mega_shape_of(plan, p->s, in);
        t.stages += shape.stages;
        t.before_head += in->op == TW_INSTR_HEAD ? 0 : shape.stages;
        t.bytes += (int64_t)shape.stages * tw_mega_stage_bytes(plan, in->op);
        const int64_t rows[] = {in->op, in->param[TW_FROM], in->param[TW_TO]};
        tw_hash_add(&h, rows, sizeof rows);
        if (in->op == TW_INSTR_PARTIAL) {
            const int64_t columns[] = {in->param[TW_PARTIAL_PART], shape.columns};
            tw_hash_add(&h, columns, sizeof columns);
        }
        for (int o = 0; o < TW_MAX_OPERANDS; o++) {
            if (in->operand[o] < 0) continue;
            const tw_buffer *b = &p->s->buffers[in->operand[o]];
            const int64_t type[] = {b->dtype, b->group};
            if (b->kind != TW_BUFFER_WEIGHT) continue;
            tw_hash_add(&h, type, sizeof type);
            tw_hash_add(&h, b->name, strlen(b->name) + 1);
        }
    }
    tw_hash_end(&h, t.key);
    return t;
}

tw_mega_tape *tw_mega_tape_find(tw_mega_tape *list, const uint64_t key[2]) {
    while (list && memcmp(list->key, key, sizeof list->key) != 0) list = list->next;
    return list;
}

/* Returns a worker's tape, or a new one that is not packed yet. NULL: out of memory. */
static tw_mega_tape *get_tape(tw_cuda_vm *vm, const tw_mega_program *p, int worker) {
    tw_mega_tape made = tw_mega_tape_of(p, worker), *t = tw_mega_tape_find(vm->tapes, made.key);
    if (t) return t;
    made.biases = tw_arena_array(&vm->arena, (size_t)p->s->workers[worker].count + 1, sizeof *made.biases);
    t = tw_arena_alloc(&vm->arena, sizeof *t);
    if (vm->arena.failed) return NULL;
    *t = made;
    return t;
}

/* Packs one instruction's stages, and uploads its biases. Returns the stages' bytes. */
static int64_t pack_strip(loading *l, const tw_instr *in, unsigned char *stages, uint64_t *bias) {
    const tw_mega_plan *plan = &l->p->plan;
    const tw_mega_shape shape = tw_mega_shape_of(plan, l->p->s, in);
    const size_t rows = (size_t)shape.units * TW_MEGA_ROWS;
    tw_mega_strip strip = {.stages = stages, .bias = malloc(rows * sizeof *strip.bias)};
    if (!strip.bias || !tw_mega_pack(l->p, l->vm->m, in, &strip)) out_of_memory(l);
    if (strip.has_bias) *bias = put(l, NULL, "bias", strip.bias, rows * sizeof *strip.bias, true);
    free(strip.bias);
    return (int64_t)shape.stages * tw_mega_stage_bytes(plan, in->op);
}

static void pack_tape(loading *l, int worker) {
    const tw_worker *w = &l->p->s->workers[worker];
    tw_mega_tape *t = l->p->tapes[worker];
    unsigned char *tape = malloc((size_t)t->bytes + 1), *at = tape;
    uint64_t *bias = t->biases;
    if (!tape) out_of_memory(l);
    for (int i = 0; i < w->count && l->status == TW_OK; i++)
        if (tw_mega_is_taped(w->list[i].op)) at += pack_strip(l, &w->list[i], at, bias++);
    t->address = put(l, NULL, "tape", tape, (size_t)t->bytes, true);
    free(tape);
}

static void *pack_some(void *context) {
    loading *l = context;
    for (int w; (w = atomic_fetch_add(&l->next, 1)) < l->p->s->n_workers && l->status == TW_OK;)
        if (!l->p->tapes[w]->address) pack_tape(l, w);
    return NULL;
}

/* Packs tapes on all cores, and for the emulator on one, so that addresses are equal in every run. */
static void load_tapes(loading *l) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    int started = 0, cpus[1], n = l->vm->emu ? 1 : tw_allowed_cpus(cpus, 1);
    for (int w = 0; w < l->p->s->n_workers && l->status == TW_OK; w++) {
        l->p->tapes[w] = get_tape(l->vm, l->p, w);
        if (!l->p->tapes[w]) out_of_memory(l);
    }
    for (int i = 1; i < n && i <= MOST; i++) started += !pthread_create(&threads[started], NULL, pack_some, l);
    pack_some(l);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (int w = 0; w < l->p->s->n_workers; w++) {
        tw_mega_tape *t = l->p->tapes[w];
        if (!t || !t->address) continue;
        l->p->streamed_bytes += t->bytes;
        if (tw_mega_tape_find(l->vm->tapes, t->key)) continue;
        t->next = l->vm->tapes;
        l->vm->tapes = t;
    }
}

/* ---- records */

/* The word of a record for an operand's address. Word 0: the end of the list. */
typedef struct operand_word {
    int word, operand;
} operand_word;

static const struct {
    tw_mega_kind kind;
    operand_word words[9];
} layout[TW_INSTR_COUNT] = {
    [TW_INSTR_INPUT] = {TW_MEGA_INPUT,
                        {{TW_W_OUT, TW_INPUT_TOKENS},
                         {TW_W_ROPE, TW_INPUT_ROPE},
                         {TW_W_ROPE_LOCAL, TW_INPUT_ROPE_LOCAL}}},
    [TW_INSTR_EMBED] = {TW_MEGA_EMBED,
                        {{TW_W_IN, TW_EMBED_TOKENS},
                         {TW_W_TABLE, TW_EMBED_TABLE},
                         {TW_W_POSITIONS, TW_EMBED_POSITIONS},
                         {TW_W_OUT, TW_EMBED_X}}},
    [TW_INSTR_QKV] = {TW_MEGA_QKV,
                      {{TW_W_IN, TW_QKV_X},
                       {TW_W_NORM, TW_QKV_NORM},
                       {TW_W_OUT, TW_QKV_Q},
                       {TW_W_K_CACHE, TW_QKV_K},
                       {TW_W_V_CACHE, TW_QKV_V},
                       {TW_W_Q_NORM, TW_QKV_Q_NORM},
                       {TW_W_K_NORM, TW_QKV_K_NORM},
                       {TW_W_ROPE, TW_QKV_ROPE}}},
    [TW_INSTR_TURN] = {TW_MEGA_TURN,
                       {{TW_W_IN, TW_TURN_RAW_Q},
                        {TW_W_RAW_K, TW_TURN_RAW_K},
                        {TW_W_OUT, TW_TURN_Q},
                        {TW_W_K_CACHE, TW_TURN_K},
                        {TW_W_Q_NORM, TW_TURN_Q_NORM},
                        {TW_W_K_NORM, TW_TURN_K_NORM},
                        {TW_W_ROPE, TW_TURN_ROPE}}},
    [TW_INSTR_ATTEND] = {TW_MEGA_ATTEND,
                         {{TW_W_IN, TW_ATTEND_Q},
                          {TW_W_K_CACHE, TW_ATTEND_K},
                          {TW_W_V_CACHE, TW_ATTEND_V},
                          {TW_W_FRESH_K, TW_ATTEND_RAW_K},
                          {TW_W_Q_NORM, TW_ATTEND_Q_NORM},
                          {TW_W_K_NORM, TW_ATTEND_K_NORM},
                          {TW_W_ROPE, TW_ATTEND_ROPE}}},
    [TW_INSTR_MERGE] = {TW_MEGA_MERGE, {{TW_W_IN, TW_MERGE_PART}, {TW_W_OUT, TW_MERGE_OUT}}},
    [TW_INSTR_PROJECT] = {TW_MEGA_PROJECT, {{TW_W_IN, TW_PROJECT_IN}, {TW_W_OUT, TW_PROJECT_X}}},
    [TW_INSTR_RESIDUAL] = {TW_MEGA_RESIDUAL,
                           {{TW_W_IN, TW_RESIDUAL_Y}, {TW_W_NORM, TW_RESIDUAL_NORM}, {TW_W_OUT, TW_RESIDUAL_X}}},
    [TW_INSTR_PARTIAL] = {TW_MEGA_PARTIAL, {{TW_W_IN, TW_PARTIAL_IN}, {TW_W_OUT, TW_PARTIAL_SUMS}}},
    [TW_INSTR_SUM] = {TW_MEGA_SUM, {{TW_W_IN, TW_SUM_SUMS}, {TW_W_BIAS, TW_SUM_BIAS}, {TW_W_OUT, TW_SUM_X}}},
    [TW_INSTR_FFN] = {TW_MEGA_FFN, {{TW_W_IN, TW_FFN_X}, {TW_W_NORM, TW_FFN_NORM}, {TW_W_OUT, TW_FFN_H}}},
    [TW_INSTR_SCORE] = {TW_MEGA_SCORE,
                        {{TW_W_IN, TW_SCORE_X},
                         {TW_W_NORM, TW_SCORE_NORM},
                         {TW_W_ROUTER, TW_SCORE_ROUTER},
                         {TW_W_OUT, TW_SCORE_SCORES}}},
    [TW_INSTR_CHOOSE] = {TW_MEGA_CHOOSE, {{TW_W_IN, TW_CHOOSE_SCORES}}},
    [TW_INSTR_EXPERTS_UP] = {TW_MEGA_EXPERTS_UP,
                             {{TW_W_IN, TW_EXPERTS_UP_X},
                              {TW_W_NORM, TW_EXPERTS_UP_NORM},
                              {TW_W_OUT, TW_EXPERTS_UP_H}}},
    [TW_INSTR_EXPERTS_DOWN] = {TW_MEGA_EXPERTS_DOWN, {{TW_W_IN, TW_EXPERTS_DOWN_H}, {TW_W_OUT, TW_EXPERTS_DOWN_X}}},
    [TW_INSTR_HEAD] =
        {TW_MEGA_HEAD,
         {{TW_W_IN, TW_HEAD_X}, {TW_W_NORM, TW_HEAD_NORM}, {TW_W_OUT, TW_HEAD_LOGITS}, {TW_W_BEST, TW_HEAD_BEST}}},
    [TW_INSTR_OUTPUT] = {TW_MEGA_OUTPUT,
                         {{TW_W_IN, TW_OUTPUT_BEST}, {TW_W_OUT, TW_OUTPUT_TOKEN}, {TW_W_LOGITS, TW_OUTPUT_LOGITS}}},
};

/* The operand with a layer norm's biases. 0: the instruction has none. */
static const int norm_bias[TW_INSTR_COUNT] = {
    [TW_INSTR_QKV] = TW_QKV_NORM_BIAS, [TW_INSTR_FFN] = TW_FFN_NORM_BIAS, [TW_INSTR_HEAD] = TW_HEAD_NORM_BIAS};

static void put_address(int32_t *record, int word, uint64_t address) {
    record[word] = (int32_t)(uint32_t)address;
    record[word + 1] = (int32_t)(uint32_t)(address >> 32);
}

/* Writes where a part's activations and sums are: [T][1][columns] and [T][parts][dim]. */
static void write_partial(loading *l, const tw_instr *in, int32_t *record) {
    const tw_buffer *from = &l->p->s->buffers[in->operand[TW_PARTIAL_IN]];
    const tw_buffer *to = &l->p->s->buffers[in->operand[TW_PARTIAL_SUMS]];
    const uint64_t part = (uint64_t)in->param[TW_PARTIAL_PART];
    const uint64_t columns = (uint64_t)(from->shape[2] / to->shape[1]), dim = (uint64_t)to->shape[2];
    put_address(record, TW_W_IN, address_of(l, in->operand[TW_PARTIAL_IN]) + part * columns * sizeof(float));
    put_address(record, TW_W_OUT, address_of(l, in->operand[TW_PARTIAL_SUMS]) + part * dim * sizeof(float));
    record[TW_W_PITCH] = (int32_t)from->shape[2];
}

/* Tells a choice where to enter what it has chosen. All workers with rows of experts make the same choice, which the
   first of them enters. */
static void write_choose(loading *l, const tw_worker *w, const tw_instr *in, int32_t *record) {
    const tw_model *m = l->vm->m;
    const int64_t layer = tw_routing_layer(l->p->s, w, in);
    if (layer < 0 || layer >= m->n_layers || l->reported[layer]) return;
    l->reported[layer] = true;
    put_address(record, TW_W_ROUTES, l->p->routes + (uint64_t)(layer * 2 * m->n_experts_used) * sizeof(float));
}

static void write_instr(loading *l, const tw_instr *in, int32_t *record) {
    const tw_buffer *buffers = l->p->s->buffers;
    const int64_t *q = in->param;
    record[TW_W_KIND] = (int32_t)layout[in->op].kind;
    record[TW_W_FROM] = (int32_t)q[TW_FROM];
    record[TW_W_COUNT] = (int32_t)(q[TW_TO] - q[TW_FROM]);
    for (const operand_word *w = layout[in->op].words; w->word; w++)
        put_address(record, w->word, address_of(l, in->operand[w->operand]));
    if (l->p->plan.layer_norm && norm_bias[in->op])
        put_address(record, TW_W_NORM_BIAS, address_of(l, in->operand[norm_bias[in->op]]));
    if (in->op == TW_INSTR_ATTEND) {
        const int out = in->operand[q[TW_ATTEND_SPLITS] > 1 ? TW_ATTEND_PART : TW_ATTEND_OUT];
        record[TW_W_ROW_FROM] = (int32_t)q[TW_ATTEND_ROW_FROM];
        record[TW_W_ROW_TO] = (int32_t)q[TW_ATTEND_ROW_TO];
        record[TW_W_SPLIT] = (int32_t)q[TW_ATTEND_SPLIT];
        record[TW_W_SPLITS] = (int32_t)q[TW_ATTEND_SPLITS];
        record[TW_W_WINDOW] = (int32_t)q[TW_ATTEND_WINDOW];
        put_address(record, TW_W_OUT, address_of(l, out));
    } else if (in->op == TW_INSTR_QKV && in->operand[TW_QKV_RAW_K] >= 0) {
        put_address(record, TW_W_K_CACHE, address_of(l, in->operand[TW_QKV_RAW_K]));
    } else if (in->op == TW_INSTR_PROJECT && in->operand[TW_PROJECT_Y] >= 0) {
        put_address(record, TW_W_OUT, address_of(l, in->operand[TW_PROJECT_Y]));
    } else if (in->op == TW_INSTR_SUM && in->operand[TW_SUM_Y] >= 0) {
        put_address(record, TW_W_OUT, address_of(l, in->operand[TW_SUM_Y]));
    } else if (in->op == TW_INSTR_PARTIAL) {
        write_partial(l, in, record);
    } else if (in->op == TW_INSTR_MERGE) {
        record[TW_W_SPLITS] = (int32_t)q[TW_MERGE_SPLITS];
    } else if (in->op == TW_INSTR_FFN) {
        record[TW_W_WIDTH] = (int32_t)buffers[in->operand[TW_FFN_H]].shape[2];
    } else if (in->op == TW_INSTR_EXPERTS_UP) {
        record[TW_W_WIDTH] = record[TW_W_COUNT];
        record[TW_W_COUNT] *= tw_mega_slots(in);
        record[TW_W_CHOSEN] = (int32_t)q[TW_EXPERTS_UP_SLOT_FROM];
    } else if (in->op == TW_INSTR_HEAD) {
        record[TW_W_SLOT] = (int32_t)q[TW_HEAD_SLOT];
    } else if (in->op == TW_INSTR_OUTPUT) {
        record[TW_W_COUNT] = (int32_t)buffers[in->operand[TW_OUTPUT_BEST]].shape[0];
        put_address(record, TW_W_SLOT_ROWS, l->p->slot_rows);
    } else if (in->op == TW_INSTR_INPUT) {
        put_address(record, TW_W_IN, address_of(l, tw_mega_last(l->p->s)->operand[TW_OUTPUT_TOKEN]));
    }
}

static void write_product(const loading *l, const tw_instr *in, uint64_t bias, int32_t *record) {
    const tw_mega_plan *plan = &l->p->plan;
    const tw_mega_shape shape = tw_mega_shape_of(plan, l->p->s, in);
    record[TW_W_UNITS] = shape.units;
    record[TW_W_GROUP] = shape.group_units;
    record[TW_W_STAGES] = shape.run / plan->tuning.blocks;
    record[TW_W_CHUNKS] = shape.chunks;
    record[TW_W_K] = (int32_t)shape.columns;
    record[TW_W_ALL] = shape.stages;
    put_address(record, TW_W_BIAS, bias);
}

/* Finds the buffer that an instruction adds its product to. -1: none. */
static int added_to(const tw_instr *in) {
    return in->op == TW_INSTR_PROJECT        ? in->operand[TW_PROJECT_X]
           : in->op == TW_INSTR_EXPERTS_DOWN ? in->operand[TW_EXPERTS_DOWN_X]
                                             : -1;
}

/* Tells whether the worker has waited in this step for what instruction `in` reads beside its input: x, to which it
   adds its product, or rope's angles, which qkv reads. */
static bool is_early(const loading *l, const tw_worker *w, const tw_instr *in) {
    const tw_schedule *s = l->p->s;
    int wanted = -1; /* The last counter below in->arrive that stands for a write of x. */
    if (!l->p->plan.usual || l->p->plan.post_norm || (added_to(in) < 0 && in->op != TW_INSTR_QKV)) return false;
    for (int c = 0; c < s->n_counters && c < in->arrive && in->op != TW_INSTR_QKV; c++) {
        const tw_instr *stage = l->stages[c];
        const int x = stage->op == TW_INSTR_EMBED ? stage->operand[TW_EMBED_X] : added_to(stage);
        if (x == added_to(in)) wanted = c;
    }
    for (const tw_instr *e = w->list; e < in; e++)
        for (int j = 0; j < e->n_waits; j++)
            if (in->op == TW_INSTR_QKV ? e->op != TW_INSTR_EMBED : e->waits[j].counter == wanted) return true;
    return false;
}

static int records_of(const tw_instr *in) {
    return in->n_waits > 1 ? in->n_waits : 1;
}

int tw_mega_records(const tw_schedule *s, int worker) {
    int n = 0;
    for (int i = 0; i < s->workers[worker].count; i++) n += records_of(&s->workers[worker].list[i]);
    return n;
}

int tw_mega_most_records(const tw_schedule *s) {
    int most = 0;
    for (int w = 0; w < s->n_workers; w++) {
        const int n = tw_mega_records(s, w);
        most = n > most ? n : most;
    }
    return most;
}

/* Uploads a worker's legs. They stand in place of its tape. */
static void load_legs(loading *l, int worker, tw_mega_worker *out) {
    const int n = tw_mega_legs(l->vm, l->p, worker, out->tape, NULL);
    tw_mega_leg *legs = calloc((size_t)n + 1, sizeof *legs);
    if (!legs) {
        out_of_memory(l);
        return;
    }
    tw_mega_legs(l->vm, l->p, worker, out->tape, legs);
    out->tape = put(l, l->p, "legs", legs, (size_t)(n + 1) * sizeof *legs, true);
    out->stages = n;
    free(legs);
}

static tw_mega_worker load_records(loading *l, int worker) {
    tw_mega_program *p = l->p;
    const tw_worker *w = &p->s->workers[worker];
    const tw_mega_tape *tape = l->p->tapes[worker];
    const uint64_t *bias = tape->biases;
    tw_mega_worker out = {.tape = tape->address, .stages = tape->stages, .before_head = tape->before_head};
    int32_t *record = l->records, *kind = p->kinds + worker * p->plan.most_records;
    memset(record, 0, ((size_t)p->plan.most_records + 1) * TW_MEGA_RECORD);
    for (int i = 0; i < w->count; i++) {
        const tw_instr *in = &w->list[i];
        for (int j = 0; j < records_of(in); j++, record += TW_MEGA_RECORD / 4, out.count++) {
            const bool last = j == records_of(in) - 1;
            record[TW_W_KIND] = TW_MEGA_WAIT;
            record[TW_W_WAIT] = j < in->n_waits ? in->waits[j].counter | (int32_t)in->waits[j].threshold << 16 : -1;
            record[TW_W_ARRIVE] = last && in->arrive >= 0 ? in->arrive * TW_MEGA_COUNTER : -1;
            if (p->plan.flags) record[TW_W_USES] = tw_mega_uses(p->s, in, l->stages);
            if (last) write_instr(l, in, record);
            if (last && in->op == TW_INSTR_CHOOSE) write_choose(l, w, in, record);
            if (last && tw_mega_is_product(in->op))
                write_product(l, in, tw_mega_is_taped(in->op) ? *bias++ : 0, record);
            *kind++ = record[TW_W_KIND];
            if (last && is_early(l, w, in)) record[TW_W_KIND] |= TW_MEGA_EARLY;
        }
    }
    if (p->plan.experts) load_legs(l, worker, &out);
    /* A worker without records reads one. */
    out.records = put(l, p, "records", l->records, (size_t)(out.count + 1) * TW_MEGA_RECORD, true);
    return out;
}

/* Uploads the first row and the number of rows of each slot of the head. */
static void load_slot_rows(loading *l, int32_t *rows) {
    const tw_schedule *s = l->p->s;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            const int64_t slot = in->op == TW_INSTR_HEAD ? in->param[TW_HEAD_SLOT] : -1;
            if (slot < 0 || slot >= l->p->plan.slots) continue;
            rows[2 * slot] = (int32_t)in->param[TW_FROM];
            rows[2 * slot + 1] = (int32_t)(in->param[TW_TO] - in->param[TW_FROM]);
        }
    l->p->slot_rows = put(l, l->p, "slot rows", rows, (size_t)l->p->plan.slots * 2 * sizeof *rows, true);
}

tw_status tw_mega_load(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    const size_t workers = (size_t)s->n_workers, most = (size_t)p->plan.most_records;
    tw_arena room = {0};
    loading l = {.vm = vm, .p = p};
    l.stages = tw_arena_array(&room, (size_t)s->n_counters + 1, sizeof *l.stages);
    l.records = tw_arena_array(&room, most + 1, TW_MEGA_RECORD);
    l.reported = tw_arena_array(&room, (size_t)vm->m->n_layers, sizeof *l.reported);
    int32_t *rows = tw_arena_array(&room, (size_t)p->plan.slots + 1, 2 * sizeof *rows);
    tw_mega_worker *table = tw_arena_array(&room, workers, sizeof *table);
    p->buffer = tw_arena_array(&vm->arena, (size_t)s->n_buffers + 1, sizeof *p->buffer);
    p->tapes = tw_arena_array(&vm->arena, workers, sizeof *p->tapes);
    p->kinds = tw_arena_array(&vm->arena, workers * most + 1, sizeof *p->kinds);
    if (room.failed || vm->arena.failed) {
        tw_arena_free(&room);
        return tw_fail_memory(diag);
    }
    tw_mega_stages_of(s, l.stages);
    load_tapes(&l);
    if (l.status == TW_OK && p->plan.experts) l.status = tw_mega_load_pools(vm, p, &l.diag);
    if (l.status == TW_OK) p->streamed_bytes += tw_mega_expert_bytes(p);
    load_slot_rows(&l, rows);
    if (p->plan.experts)
        p->routes = put_zeros(&l, "routes", (size_t)(vm->m->n_layers * vm->m->n_experts_used) * 2 * sizeof(float));
    for (int w = 0; w < s->n_workers && l.status == TW_OK; w++) table[w] = load_records(&l, w);
    p->arguments[TW_MEGA_ARG_WORKERS] = put(&l, p, "workers", table, workers * sizeof *table, true);
    p->arguments[TW_MEGA_ARG_COUNTERS] = put_zeros(&l, "counters", ((size_t)s->n_counters + 1) * TW_MEGA_COUNTER);
    p->arguments[TW_MEGA_ARG_ABORT] = put_zeros(&l, "abort", sizeof(tw_mega_abort));
    p->arguments[TW_MEGA_ARG_TOKENS] = put(&l, p, "tokens", NULL, 2 * TW_CUDA_VM_TOKENS * sizeof(int32_t), true);
    p->arguments[TW_MEGA_ARG_RULES] = put(&l, p, "rules", p->rules_there, sizeof p->rules_there, true);
    tw_arena_free(&room);
    if (l.status != TW_OK && diag) *diag = l.diag;
    return l.status;
}
