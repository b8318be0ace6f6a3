/* SPDX-License-Identifier: Apache-2.0 */
/* Makes what the kernel reads of a checked schedule: buffers, tapes, and a record for each instruction. */
#include "base/diag.h"
#include "base/hash.h"
#include "base/thread.h"
#include "vm/cuda/machine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- buffers and vectors */

static size_t buffer_size(const tw_buffer *b) {
    return (size_t)tw_memory_buffer(b);
}

/* Finds or allocates a cache. Programs share caches of the same name. */
static tw_status cache(tw_cuda_vm *vm, const tw_buffer *b, uint64_t *out, tw_diag *diag) {
    for (tw_mega_named *e = vm->named; e; e = e->next) {
        if (!e->name || strcmp(e->name, b->name)) continue;
        if (memcmp(e->shape, b->shape, sizeof e->shape) || e->dtype != b->dtype)
            return tw_fail(diag, TW_ERR_MISMATCH, "the programs disagree on the shape of %s", b->name);
        *out = e->address;
        return TW_OK;
    }
    tw_status st = tw_mega_alloc(vm, NULL, b->name, NULL, buffer_size(b), false, out, diag);
    if (st == TW_OK && vm->cuda) st = tw_cuda_fill(vm->cuda, *out, 0, (buffer_size(b) + 3) / 4, diag);
    if (st != TW_OK) return st;
    tw_mega_named *e = tw_arena_alloc(&vm->arena, sizeof *e);
    const char *name = tw_arena_strdup(&vm->arena, b->name);
    if (!e || !name) return tw_fail_memory(diag);
    *e = (tw_mega_named){vm->named, name, NULL, {b->shape[0], b->shape[1], b->shape[2]}, b->dtype, *out};
    vm->named = e;
    return TW_OK;
}

static tw_mega_named *known(tw_cuda_vm *vm, const tw_weight *w) {
    for (tw_mega_named *e = vm->named; e; e = e->next)
        if (e->weight == w) return e;
    return NULL;
}

/* Uploads a weight as it is stored, or as floats. */
static tw_status upload_weight(tw_cuda_vm *vm, const tw_weight *w, bool floats, uint64_t *out, tw_diag *diag) {
    const size_t es = floats ? 4 : tw_dtype_bits(w->dtype) / 8;
    unsigned char *data = malloc((size_t)w->rows * (size_t)w->cols * es);
    tw_mega_named *e = tw_arena_alloc(&vm->arena, sizeof *e);
    tw_status st = data && e ? TW_OK : tw_fail_memory(diag);
    for (int64_t i = 0; i < w->rows && st == TW_OK; i++) {
        unsigned char *row = data + (size_t)i * (size_t)w->cols * es;
        if (floats)
            tw_weight_read(w, i, 0, w->cols, (float *)(void *)row);
        else
            tw_weight_read_raw(w, i, 0, w->cols, row);
    }
    if (st == TW_OK)
        st = tw_mega_alloc(vm, NULL, w->name, data, (size_t)w->rows * (size_t)w->cols * es, true, out, diag);
    free(data);
    if (st != TW_OK) return st;
    *e = (tw_mega_named){.next = vm->named, .weight = w, .address = *out};
    vm->named = e;
    return TW_OK;
}

/* Finds or uploads a norm as floats, or with `table` the embedding as it is stored. Address 0: no operand. */
static tw_status weight(tw_cuda_vm *vm, const tw_mega_program *p, int at, bool table, uint64_t *out, tw_diag *diag) {
    *out = 0;
    if (at < 0) return TW_OK;
    const tw_weight *w = tw_weight_at(&p->weights, at, 0);
    tw_mega_named *e = known(vm, w);
    if (!e) return upload_weight(vm, w, !table, out, diag);
    *out = e->address;
    return TW_OK;
}

static tw_status zeroed(tw_cuda_vm *vm, const void *owner, const char *name, size_t bytes, uint64_t *out,
                        tw_diag *diag) {
    void *zeros = calloc(1, bytes);
    if (!zeros) return tw_fail_memory(diag);
    tw_status st = tw_mega_alloc(vm, owner, name, zeros, bytes, false, out, diag);
    free(zeros);
    return st;
}

/* Allocates a buffer. If data is its own flag, an activation begins as zeros: no write has tag 0 yet. */
static tw_status new_buffer(tw_cuda_vm *vm, tw_mega_program *p, const tw_buffer *b, uint64_t *out, tw_diag *diag) {
    if (p->plan.flags && b->kind == TW_BUFFER_ACTIVATION) return zeroed(vm, p, b->name, buffer_size(b), out, diag);
    return tw_mega_alloc(vm, p, b->name, NULL, buffer_size(b), false, out, diag);
}

static tw_status make_buffers(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    p->buffer = tw_arena_array(&vm->arena, (size_t)s->n_buffers + 1, sizeof *p->buffer);
    tw_status st = p->buffer ? TW_OK : tw_fail_memory(diag);
    for (int i = 0; i < s->n_buffers && st == TW_OK; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->kind == TW_BUFFER_KV)
            st = cache(vm, b, &p->buffer[i], diag);
        else if (b->kind != TW_BUFFER_WEIGHT)
            st = new_buffer(vm, p, b, &p->buffer[i], diag);
    }
    return st;
}

/* ---- records */

static void put_address(int32_t *record, int word, uint64_t address) {
    record[word] = (int32_t)(uint32_t)address;
    record[word + 1] = (int32_t)(uint32_t)(address >> 32);
}

static const tw_instr *find_op(const tw_schedule *s, tw_instr_op op) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].op == op) return &s->workers[w].list[i];
    return NULL;
}

/* The word of a record that has an operand's address. A weight is uploaded when its address is first needed. */
typedef struct operand_word {
    int word, operand; /* Word 0: no more. */
    enum {
        PLAIN, /* A buffer. */
        NORM,  /* A weight, uploaded as floats. */
        TABLE  /* The embedding, uploaded as it is stored. */
    } of;
} operand_word;

static const struct {
    tw_mega_kind kind;
    operand_word words[9];
} layout[TW_INSTR_COUNT] = {
    [TW_INSTR_INPUT] = {TW_MEGA_INPUT, {{TW_W_OUT, TW_INPUT_TOKENS, PLAIN}, {TW_W_ROPE, TW_INPUT_ROPE, PLAIN}}},
    [TW_INSTR_EMBED] = {TW_MEGA_EMBED,
                        {{TW_W_IN, TW_EMBED_TOKENS, PLAIN},
                         {TW_W_TABLE, TW_EMBED_TABLE, TABLE},
                         {TW_W_OUT, TW_EMBED_X, PLAIN}}},
    [TW_INSTR_QKV] = {TW_MEGA_QKV,
                      {{TW_W_IN, TW_QKV_X, PLAIN},
                       {TW_W_NORM, TW_QKV_NORM, NORM},
                       {TW_W_OUT, TW_QKV_Q, PLAIN},
                       {TW_W_K_CACHE, TW_QKV_K, PLAIN},
                       {TW_W_V_CACHE, TW_QKV_V, PLAIN},
                       {TW_W_Q_NORM, TW_QKV_Q_NORM, NORM},
                       {TW_W_K_NORM, TW_QKV_K_NORM, NORM},
                       {TW_W_ROPE, TW_QKV_ROPE, PLAIN}}},
    [TW_INSTR_ATTEND] = {TW_MEGA_ATTEND,
                         {{TW_W_IN, TW_ATTEND_Q, PLAIN},
                          {TW_W_K_CACHE, TW_ATTEND_K, PLAIN},
                          {TW_W_V_CACHE, TW_ATTEND_V, PLAIN}}},
    [TW_INSTR_MERGE] = {TW_MEGA_MERGE, {{TW_W_IN, TW_MERGE_PART, PLAIN}, {TW_W_OUT, TW_MERGE_OUT, PLAIN}}},
    [TW_INSTR_PROJECT] = {TW_MEGA_PROJECT, {{TW_W_IN, TW_PROJECT_IN, PLAIN}, {TW_W_OUT, TW_PROJECT_X, PLAIN}}},
    [TW_INSTR_FFN] = {TW_MEGA_FFN,
                      {{TW_W_IN, TW_FFN_X, PLAIN}, {TW_W_NORM, TW_FFN_NORM, NORM}, {TW_W_OUT, TW_FFN_H, PLAIN}}},
    [TW_INSTR_HEAD] = {TW_MEGA_HEAD,
                       {{TW_W_IN, TW_HEAD_X, PLAIN},
                        {TW_W_NORM, TW_HEAD_NORM, NORM},
                        {TW_W_OUT, TW_HEAD_LOGITS, PLAIN},
                        {TW_W_BEST, TW_HEAD_BEST, PLAIN}}},
    [TW_INSTR_OUTPUT] = {TW_MEGA_OUTPUT,
                         {{TW_W_IN, TW_OUTPUT_BEST, PLAIN},
                          {TW_W_OUT, TW_OUTPUT_TOKEN, PLAIN},
                          {TW_W_LOGITS, TW_OUTPUT_LOGITS, PLAIN}}},
};

static tw_status addresses(tw_cuda_vm *vm, const tw_mega_program *p, const tw_instr *in, int32_t *record,
                           tw_diag *diag) {
    for (const operand_word *w = layout[in->op].words; w->word; w++) {
        const int at = in->operand[w->operand];
        uint64_t address = at < 0 ? 0 : p->buffer[at];
        if (w->of != PLAIN) {
            tw_status st = weight(vm, p, at, w->of == TABLE, &address, diag);
            if (st != TW_OK) return st;
        }
        put_address(record, w->word, address);
    }
    return TW_OK;
}

/* Writes a record except for the words that finish_record adds. */
static tw_status write_record(tw_cuda_vm *vm, const tw_mega_program *p, const tw_instr *in, int32_t *record,
                              tw_diag *diag) {
    const int64_t *q = in->param;
    record[TW_W_KIND] = (int32_t)layout[in->op].kind;
    record[TW_W_FROM] = (int32_t)q[TW_FROM];
    record[TW_W_COUNT] = (int32_t)(q[TW_TO] - q[TW_FROM]);
    if (in->op == TW_INSTR_ATTEND) {
        record[TW_W_ROW_FROM] = (int32_t)q[TW_ATTEND_ROW_FROM];
        record[TW_W_ROW_TO] = (int32_t)q[TW_ATTEND_ROW_TO];
        record[TW_W_SPLIT] = (int32_t)q[TW_ATTEND_SPLIT];
        record[TW_W_SPLITS] = (int32_t)q[TW_ATTEND_SPLITS];
        record[TW_W_WINDOW] = (int32_t)q[TW_ATTEND_WINDOW];
        put_address(record, TW_W_OUT, p->buffer[in->operand[q[TW_ATTEND_SPLITS] > 1 ? TW_ATTEND_PART : TW_ATTEND_OUT]]);
    } else if (in->op == TW_INSTR_MERGE) {
        record[TW_W_SPLITS] = (int32_t)q[TW_MERGE_SPLITS];
    } else if (in->op == TW_INSTR_FFN) {
        record[TW_W_WIDTH] = (int32_t)p->s->buffers[in->operand[TW_FFN_H]].shape[2];
    } else if (in->op == TW_INSTR_HEAD) {
        record[TW_W_SLOT] = (int32_t)q[TW_HEAD_SLOT];
    } else if (in->op == TW_INSTR_OUTPUT) {
        record[TW_W_COUNT] = (int32_t)p->s->buffers[in->operand[TW_OUTPUT_BEST]].shape[0];
        put_address(record, TW_W_SLOT_ROWS, p->slot_rows);
    } else if (in->op == TW_INSTR_INPUT) {
        const tw_instr *out = find_op(p->s, TW_INSTR_OUTPUT);
        put_address(record, TW_W_IN, out ? p->buffer[out->operand[TW_OUTPUT_TOKEN]] : 0);
    }
    return addresses(vm, p, in, record, diag);
}

/* ---- workers */

typedef struct loading {
    tw_cuda_vm *vm;
    tw_mega_program *p;
    tw_mega_worker *workers;
    int32_t **records;       /* [worker]: complete except for what finish_record adds. */
    const tw_instr **stages; /* [counter] */
    _Atomic int next;
    _Atomic bool failed;
    tw_status status;
    tw_diag diag;
} loading;

static int records_of(const tw_instr *in) {
    return in->n_waits > 1 ? in->n_waits : 1;
}

int tw_mega_most_records(const tw_schedule *s) {
    int most = 0;
    for (int w = 0; w < s->n_workers; w++) {
        int n = 0;
        for (int i = 0; i < s->workers[w].count; i++) n += records_of(&s->workers[w].list[i]);
        most = n > most ? n : most;
    }
    return most;
}

/* A worker's stages, how many of them precede the head's, and the bytes of all of them. */
typedef struct extent {
    int64_t stages, before_head, bytes;
} extent;

static extent measure(const tw_mega_program *p, int worker) {
    extent n = {0};
    for (int i = 0; i < p->s->workers[worker].count; i++) {
        const tw_instr *in = &p->s->workers[worker].list[i];
        if (!tw_instr_op_multiplies(in->op)) continue;
        tw_mega_shape shape;
        tw_mega_shape_of(&p->plan, p->s, in, &shape);
        const int64_t stages = tw_mega_stages(&p->plan, &shape);
        n.stages += stages;
        n.before_head += in->op == TW_INSTR_HEAD ? 0 : stages;
        n.bytes += stages * tw_mega_stage_bytes(&p->plan, in->op);
    }
    return n;
}

int64_t tw_mega_tape_bytes(const tw_mega_program *p, int worker) {
    return measure(p, worker).bytes;
}

static tw_status locked_alloc(tw_cuda_vm *vm, const void *owner, const char *name, const void *data, size_t bytes,
                              uint64_t *address, tw_diag *diag) {
    pthread_mutex_lock(&vm->lock);
    tw_status st = tw_mega_alloc(vm, owner, name, data, bytes, true, address, diag);
    pthread_mutex_unlock(&vm->lock);
    return st;
}

/* Hashes what a tape holds: which rows of which matrices, and their layout. */
void tw_mega_tape_key(const tw_mega_program *p, int worker, uint64_t key[2]) {
    const tw_mega_plan *plan = &p->plan;
    const int64_t how[] = {worker,           plan->tuning.warps, plan->tuning.blocks, plan->stage_bytes,
                           plan->head_bytes, plan->chunk_most};
    tw_hash h = tw_hash_begin();
    tw_hash_add(&h, how, sizeof how);
    for (int i = 0; i < p->s->workers[worker].count; i++) {
        const tw_instr *in = &p->s->workers[worker].list[i];
        if (!tw_instr_op_multiplies(in->op)) continue;
        const int64_t rows[] = {in->op, in->param[TW_FROM], in->param[TW_TO]};
        tw_hash_add(&h, rows, sizeof rows);
        for (int o = 0; o < TW_MAX_OPERANDS; o++) {
            if (in->operand[o] < 0) continue;
            const tw_buffer *b = &p->s->buffers[in->operand[o]];
            const int64_t type[] = {b->dtype, b->group};
            if (b->kind != TW_BUFFER_WEIGHT) continue;
            tw_hash_add(&h, type, sizeof type);
            tw_hash_add(&h, b->name, strlen(b->name) + 1);
        }
    }
    tw_hash_end(&h, key);
}

/* Packs one instruction's stages onto the tape, and uploads its biases. */
static tw_status pack_strip(loading *l, const tw_instr *in, const tw_mega_shape *shape, unsigned char *stages,
                            uint64_t *bias, tw_diag *diag) {
    const size_t rows = (size_t)shape->units * TW_MEGA_ROWS;
    tw_mega_strip strip = {.stages = stages};
    strip.bias = malloc(rows * sizeof *strip.bias);
    if (!strip.bias) return tw_fail_memory(diag);
    tw_status st = tw_mega_pack(l->p, l->vm->m, in, &strip, diag);
    if (st == TW_OK && strip.has_bias) st = locked_alloc(l->vm, NULL, "bias", strip.bias, rows * 4, bias, diag);
    free(strip.bias);
    return st;
}

static tw_mega_tape *find_tape(tw_cuda_vm *vm, const uint64_t key[2]) {
    pthread_mutex_lock(&vm->lock);
    tw_mega_tape *t = vm->tapes;
    while (t && memcmp(t->key, key, sizeof t->key) != 0) t = t->next;
    pthread_mutex_unlock(&vm->lock);
    return t;
}

static tw_status pack_tape(loading *l, int worker, int64_t bytes, tw_mega_tape *t, tw_diag *diag) {
    tw_mega_program *p = l->p;
    const tw_worker *w = &p->s->workers[worker];
    unsigned char *tape = malloc((size_t)bytes + 1);
    tw_status st = tape ? TW_OK : tw_fail_memory(diag);
    int64_t at = 0;
    for (int i = 0, strip = 0; i < w->count && st == TW_OK; i++) {
        if (!tw_instr_op_multiplies(w->list[i].op)) continue;
        tw_mega_shape shape;
        tw_mega_shape_of(&p->plan, p->s, &w->list[i], &shape);
        st = pack_strip(l, &w->list[i], &shape, tape + at, &t->biases[strip++], diag);
        at += (int64_t)tw_mega_stages(&p->plan, &shape) * tw_mega_stage_bytes(&p->plan, w->list[i].op);
    }
    if (st == TW_OK) st = locked_alloc(l->vm, NULL, "tape", tape, (size_t)bytes, &t->address, diag);
    free(tape);
    return st;
}

static tw_status get_tape(loading *l, int worker, int64_t bytes, tw_mega_tape **out, tw_diag *diag) {
    tw_cuda_vm *vm = l->vm;
    uint64_t key[2];
    tw_mega_tape_key(l->p, worker, key);
    *out = find_tape(vm, key);
    if (*out) return TW_OK;
    pthread_mutex_lock(&vm->lock);
    tw_mega_tape *t = tw_arena_alloc(&vm->arena, sizeof *t);
    if (t) t->biases = tw_arena_array(&vm->arena, (size_t)l->p->s->workers[worker].count + 1, sizeof *t->biases);
    pthread_mutex_unlock(&vm->lock);
    if (!t || !t->biases) return tw_fail_memory(diag);
    memcpy(t->key, key, sizeof t->key);
    t->bytes = bytes;
    tw_status st = pack_tape(l, worker, bytes, t, diag);
    if (st != TW_OK) return st;
    pthread_mutex_lock(&vm->lock);
    t->next = vm->tapes;
    vm->tapes = t;
    pthread_mutex_unlock(&vm->lock);
    *out = t;
    return TW_OK;
}

static void finish_record(const tw_mega_program *p, const tw_instr *in, uint64_t bias, int32_t *record) {
    tw_mega_shape shape;
    tw_mega_shape_of(&p->plan, p->s, in, &shape);
    record[TW_W_UNITS] = shape.units;
    record[TW_W_GROUP] = shape.group_units;
    record[TW_W_STAGES] = shape.run / p->plan.tuning.blocks;
    record[TW_W_CHUNKS] = shape.chunks;
    record[TW_W_K] = (int32_t)shape.columns;
    record[TW_W_ALL] = tw_mega_stages(&p->plan, &shape);
    put_address(record, TW_W_BIAS, bias);
}

static tw_status load_worker(loading *l, int worker, tw_diag *diag) {
    tw_mega_program *p = l->p;
    const tw_worker *w = &p->s->workers[worker];
    tw_mega_worker *out = &l->workers[worker];
    tw_mega_tape *tape;
    const extent all = measure(p, worker);
    out->stages = (int32_t)all.stages;
    out->before_head = (int32_t)all.before_head;
    tw_status st = get_tape(l, worker, all.bytes, &tape, diag);
    if (st != TW_OK) return st;
    out->tape = tape->address;
    for (int i = 0, strip = 0; i < w->count; i++) {
        out->count += records_of(&w->list[i]);
        int32_t *record = l->records[worker] + (out->count - 1) * (TW_MEGA_RECORD / 4);
        if (tw_instr_op_multiplies(w->list[i].op)) finish_record(p, &w->list[i], tape->biases[strip++], record);
    }
    return locked_alloc(l->vm, p, "records", l->records[worker], (size_t)(out->count + 1) * TW_MEGA_RECORD,
                        &out->records, diag);
}

static void *load_some(void *context) {
    loading *l = context;
    for (;;) {
        int w = atomic_fetch_add(&l->next, 1);
        if (w >= l->p->s->n_workers || atomic_load(&l->failed)) return NULL;
        tw_diag d;
        tw_diag_clear(&d);
        tw_status st = load_worker(l, w, &d);
        if (st == TW_OK) continue;
        pthread_mutex_lock(&l->vm->lock);
        if (!atomic_exchange(&l->failed, true)) {
            l->status = st;
            l->diag = d;
        }
        pthread_mutex_unlock(&l->vm->lock);
    }
}

/* All cores pack tapes. For the emulator one core does, so that addresses are the same in every run. */
static tw_status load_all(loading *l, tw_diag *diag) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    int started = 0, cpus[1], n = l->vm->emu ? 1 : tw_allowed_cpus(cpus, 1);
    for (int i = 1; i < n && i <= MOST; i++) started += !pthread_create(&threads[started], NULL, load_some, l);
    load_some(l);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    if (l->status != TW_OK && diag) *diag = l->diag;
    return l->status;
}

/* Only x and h carry tags. Attention's stages have counters, which also order accesses to the caches. */
static void use_flags(const loading *l, const tw_instr *in, int32_t *record) {
    int reads, writes;
    tw_mega_uses(l->p->s, in, l->stages, &reads, &writes);
    record[TW_W_USES] = reads | writes << 16;
}

/* Tells whether the worker has waited in this step for what instruction `at` reads beside its input: x, to which a
   projection adds, or rope's angles, which qkv reads. */
static bool is_early(const loading *l, const tw_worker *w, int at) {
    const tw_schedule *s = l->p->s;
    const tw_instr *in = &w->list[at];
    int wanted = -1; /* The last counter below in->arrive that stands for a write of x. */
    if (!l->p->plan.usual || (in->op != TW_INSTR_PROJECT && in->op != TW_INSTR_QKV)) return false;
    for (int c = 0; c < s->n_counters && c < in->arrive && in->op == TW_INSTR_PROJECT; c++) {
        const tw_instr *stage = l->stages[c];
        const int x = stage->op == TW_INSTR_PROJECT ? stage->operand[TW_PROJECT_X]
                      : stage->op == TW_INSTR_EMBED ? stage->operand[TW_EMBED_X]
                                                    : -1;
        if (x == in->operand[TW_PROJECT_X]) wanted = c;
    }
    for (int i = 0; i < at; i++)
        for (int j = 0; j < w->list[i].n_waits; j++)
            if (in->op == TW_INSTR_QKV ? w->list[i].op != TW_INSTR_EMBED : w->list[i].waits[j].counter == wanted)
                return true;
    return false;
}

static tw_status make_records(loading *l, int worker, tw_diag *diag) {
    tw_mega_program *p = l->p;
    const tw_worker *w = &p->s->workers[worker];
    int n = 0;
    for (int i = 0; i < w->count; i++) n += records_of(&w->list[i]);
    /* A worker without records still reads one. */
    int32_t *record = l->records[worker] = calloc((size_t)n + 1, TW_MEGA_RECORD);
    int32_t *kind = p->kinds + worker * p->plan.trace_records;
    tw_status st = record ? TW_OK : tw_fail_memory(diag);
    for (int i = 0; i < w->count && st == TW_OK; i++) {
        const tw_instr *in = &w->list[i];
        for (int j = 0; j < records_of(in); j++, record += TW_MEGA_RECORD / 4) {
            const bool last = j == records_of(in) - 1;
            record[TW_W_KIND] = TW_MEGA_WAIT;
            record[TW_W_WAIT] = j < in->n_waits ? in->waits[j].counter | (int32_t)in->waits[j].threshold << 16 : -1;
            record[TW_W_ARRIVE] = last && in->arrive >= 0 ? in->arrive * TW_MEGA_COUNTER : -1;
            if (p->plan.flags) use_flags(l, in, record);
            if (last) st = write_record(l->vm, p, in, record, diag);
            *kind++ = record[TW_W_KIND];
            if (last && is_early(l, w, i)) record[TW_W_KIND] |= TW_MEGA_EARLY;
        }
    }
    return st;
}

/* Uploads the first row and the number of rows of each slot of the head. */
static tw_status make_slot_rows(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    int32_t *rows = calloc((size_t)p->plan.slots + 1, 2 * sizeof *rows);
    if (!rows) return tw_fail_memory(diag);
    for (int w = 0; w < p->s->n_workers; w++)
        for (int i = 0; i < p->s->workers[w].count; i++) {
            const tw_instr *in = &p->s->workers[w].list[i];
            const int64_t slot = in->op == TW_INSTR_HEAD ? in->param[TW_HEAD_SLOT] : -1;
            if (slot < 0 || slot >= p->plan.slots) continue;
            rows[2 * slot] = (int32_t)in->param[TW_FROM];
            rows[2 * slot + 1] = (int32_t)(in->param[TW_TO] - in->param[TW_FROM]);
        }
    tw_status st =
        tw_mega_alloc(vm, p, "slot rows", rows, (size_t)p->plan.slots * 2 * sizeof *rows, true, &p->slot_rows, diag);
    free(rows);
    return st;
}

tw_status tw_mega_load(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    loading l = {.vm = vm, .p = p};
    tw_status st = make_buffers(vm, p, diag);
    if (st == TW_OK) st = make_slot_rows(vm, p, diag);
    l.workers = calloc((size_t)s->n_workers, sizeof *l.workers);
    l.records = calloc((size_t)s->n_workers, sizeof *l.records);
    l.stages = calloc((size_t)s->n_counters + 1, sizeof *l.stages);
    if (l.stages) tw_mega_stages_of(s, l.stages);
    const size_t lines = ((size_t)s->n_counters + 1) * TW_MEGA_COUNTER;
    void *zeros = calloc(1, lines);
    p->kinds = calloc((size_t)s->n_workers * (size_t)p->plan.trace_records + 1, sizeof *p->kinds);
    if (st == TW_OK && (!l.workers || !l.records || !zeros || !p->kinds || !l.stages)) st = tw_fail_memory(diag);
    for (int w = 0; w < s->n_workers && st == TW_OK; w++) st = make_records(&l, w, diag);
    if (st == TW_OK) st = load_all(&l, diag);
    if (st == TW_OK)
        st = tw_mega_alloc(vm, p, "workers", l.workers, (size_t)s->n_workers * sizeof *l.workers, true, &p->workers,
                           diag);
    if (st == TW_OK) st = tw_mega_alloc(vm, p, "counters", zeros, lines, false, &p->counters, diag);
    if (st == TW_OK) st = tw_mega_alloc(vm, p, "abort", zeros, sizeof(tw_mega_abort), false, &p->abort, diag);
    for (int w = 0; w < s->n_workers && st == TW_OK; w++) p->streamed_bytes += measure(p, w).bytes;
    for (int w = 0; l.records && w < s->n_workers; w++) free(l.records[w]);
    free(l.records);
    free(l.workers);
    free(l.stages);
    free(zeros);
    return st;
}
