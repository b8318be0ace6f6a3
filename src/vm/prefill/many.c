/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of many sequences. The launches are those of a prompt's step, whose rows may be of any sequence, and those that
   find the ends' tokens. */
#include "base/diag.h"
#include "base/divide.h"
#include "kernels/parts/argmax.h"
#include "vm/prefill/program.h"

#include <stdatomic.h>
#include <string.h>

_Static_assert(sizeof(tw_sample_rules) == 16 * sizeof(int32_t), "a step has 16 words of rules for each end");

enum { UNSAID = -1 /* Stands for a token until it is known. */ };

/* Returns the words of a tail and a step. */
static int64_t words_of(const tw_prefill *p) {
    return TW_TAIL_WORDS + TW_MANY_ROWS + TW_ROW_WORDS * p->rows;
}

int64_t tw_prefill_many_ends(const tw_prefill *p, int64_t rows) {
    enum { FEW = 16, SOME = 32, MANY = 64 };
    const int64_t n = rows < p->sequences ? rows : p->sequences, step = n <= FEW ? FEW : n <= SOME ? SOME : MANY;
    return tw_ceil_div(n, step) * step;
}

/* A piece of memory, and where its address goes. */
typedef struct need {
    uint64_t *to;
    const char *name;
    int64_t bytes;
} need;
enum { NEEDS = 4 };

static void count(const tw_prefill *p, tw_prefill_memory *to, need out[NEEDS]) {
    const tw_model *m = p->vm->m;
    const int64_t ends = tw_prefill_many_ends(p, p->sequences),
                  rows = tw_ceil_div(m->vocab, TW_MEGA_ROWS) * TW_MEGA_ROWS;
    const need all[NEEDS] = {
        {&to->end_rows, "end_rows", ends * m->dim * tw_prefill_bytes(p->type)},
        {&to->end_logits, "end_logits", ends * rows * 4},
        {&to->end_cells, "end_cells", (int64_t)tw_prefill_slots(m) * TW_MANY_SEQUENCES * TW_ARGMAX_BYTES},
        {&to->found, "found", p->sequences * 4}};
    memcpy(out, all, sizeof all);
}

int64_t tw_prefill_many_bytes(const tw_prefill *p) {
    tw_prefill_memory unused;
    need all[NEEDS];
    if (p->sequences < 2) return 0;
    count(p, &unused, all);
    int64_t bytes = p->vm->counts ? 0 : p->sequences * p->vm->m->vocab * 4;
    for (int i = 0; i < NEEDS; i++) bytes += all[i].bytes;
    return bytes;
}

/* Allocates what the host shares with the device, or in an emulator has for itself. */
static tw_status open_shared(tw_prefill *p, tw_diag *diag) {
    tw_prefill_flights *f = &p->flights;
    const size_t tokens = (size_t)TW_PREFILL_FLIGHTS * TW_MANY_SEQUENCES,
                 words = TW_PREFILL_FLIGHTS * (size_t)words_of(p);
    void *host[2] = {NULL};
    uint64_t unused;
    tw_status st = tw_mega_alloc_shared(p->vm, p, "out", tokens * sizeof(int32_t), &host[0], &p->memory.out, diag);
    f->out = host[0];
    if (p->vm->emu) {
        f->words = tw_arena_array(&p->arena, words, sizeof *f->words);
        return st == TW_OK && p->arena.failed ? tw_fail_memory(diag) : st;
    }
    if (st == TW_OK) st = tw_mega_alloc_shared(p->vm, p, "words", words * sizeof *f->words, &host[1], &unused, diag);
    f->words = host[1];
    return st;
}

tw_status tw_prefill_many_open(tw_prefill *p, tw_diag *diag) {
    const int slots = tw_prefill_slots(p->vm->m);
    need all[NEEDS];
    count(p, &p->memory, all);
    tw_status st = tw_mega_alloc_counts(p->vm, diag);
    for (int i = 0; i < NEEDS && st == TW_OK; i++) st = tw_prefill_alloc(p, all[i].name, all[i].bytes, all[i].to, diag);
    if (st == TW_OK) st = open_shared(p, diag);
    int32_t(*rows)[2] = tw_arena_array(&p->arena, (size_t)slots, sizeof *rows);
    if (p->arena.failed && st == TW_OK) st = tw_fail_memory(diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < slots; i++) {
        const int64_t from = (int64_t)i * TW_PREFILL_SLOT, left = p->vm->m->vocab - from;
        rows[i][0] = (int32_t)from;
        rows[i][1] = (int32_t)(left < TW_PREFILL_SLOT ? left : TW_PREFILL_SLOT);
    }
    return tw_mega_alloc(p->vm, p, "slots", rows, (size_t)slots * sizeof *rows, true, &p->memory.slots, diag);
}

/* ---- running */

static tw_status check(const tw_prefill *p, const tw_prefill_part *parts, int n, tw_diag *diag) {
    int64_t before = -1, rows = 0;
    if (p->sequences < 2) return tw_fail(diag, TW_ERR_USAGE, "the program is for steps of one sequence");
    if (p->flights.begun - p->flights.ended >= TW_PREFILL_FLIGHTS)
        return tw_fail(diag, TW_ERR_USAGE, "%d steps are under way", TW_PREFILL_FLIGHTS);
    for (int i = 0; i < n; i++) {
        const tw_prefill_part *x = &parts[i];
        if (x->sequence <= before || x->sequence >= p->sequences)
            return tw_fail(diag, TW_ERR_USAGE, "sequence %lld is not within %lld..%lld", (long long)x->sequence,
                           (long long)before + 1, (long long)p->sequences - 1);
        if (x->n < 1 || x->pos < 0 || x->pos + x->n > p->s->max_seq || (!x->tokens && x->n > 1))
            return tw_fail(diag, TW_ERR_USAGE, "positions %lld..%lld do not fit within %lld", (long long)x->pos,
                           (long long)(x->pos + x->n), (long long)p->s->max_seq);
        for (int64_t k = 0; k < x->n && x->tokens; k++)
            if (x->tokens[k] < 0 || x->tokens[k] >= p->vm->m->vocab)
                return tw_fail(diag, TW_ERR_USAGE, "token %d is not within 0..%lld", x->tokens[k],
                               (long long)p->vm->m->vocab - 1);
        before = x->sequence;
        rows += x->n;
    }
    if (rows >= 1 && rows <= p->rows) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE, "%lld rows do not fit a step of %lld", (long long)rows, (long long)p->rows);
}

/* Writes a row of `words`. `token` is the row's TW_ROW_TOKEN. */
static void write_row(const tw_prefill *p, int32_t *words, int32_t row, int32_t token, int64_t sequence, int64_t pos) {
    int32_t *to = words + TW_MANY_ROWS + (size_t)row * TW_ROW_WORDS;
    to[TW_ROW_TOKEN] = token;
    to[TW_ROW_POSITION] = (int32_t)pos;
    to[TW_ROW_HEAD] = (int32_t)(sequence * p->vm->m->n_kv_heads);
    to[TW_ROW_SEQUENCE] = (int32_t)sequence;
}

/* Adds a part's end, row `row` of the step, to the tail. */
static void write_end(const tw_prefill *p, int32_t *tail, const tw_prefill_part *x, int32_t row) {
    const int32_t end = tail[TW_STEP_COUNT]++;
    const int64_t pos = x->pos + x->n - 1;
    write_row(p, tail, end, row, x->sequence, pos);
    tail[TW_MANY_LENGTHS + x->sequence] = (int32_t)(pos + 1);
    tail[TW_TAIL_POSITIONS + end] = (int32_t)pos;
    memcpy(tail + TW_TAIL_RULES + (size_t)end * 16, x->rules, sizeof *x->rules);
    tail[TW_MANY_MODE] |= (int32_t)x->rules->mode;
}

/* Writes the words of a step and its tail. Sequences without a part have no rows. */
static void write_words(const tw_prefill *p, int32_t *tail, int32_t out, const tw_prefill_part *parts, int n) {
    int32_t row = 0, *words = tail + TW_TAIL_WORDS;
    int64_t sequence = 0;
    memset(tail, 0, TW_MANY_ROWS * sizeof *tail);
    memset(words, 0, TW_MANY_ROWS * sizeof *words);
    tail[TW_MANY_OUT] = out;
    for (int i = 0; i < n; i++) {
        const tw_prefill_part *x = &parts[i];
        for (; sequence <= x->sequence; sequence++) {
            words[TW_MANY_STARTS + sequence] = row;
            tail[TW_MANY_STARTS + sequence] = tail[TW_STEP_COUNT];
        }
        words[TW_MANY_LENGTHS + x->sequence] = (int32_t)(x->pos + x->n);
        for (int64_t k = 0; k < x->n; k++)
            write_row(p, words, row++, x->tokens ? x->tokens[k] : UNSAID, x->sequence, x->pos + k);
        if (x->rules) write_end(p, tail, x, row - 1);
    }
    for (; sequence <= p->sequences; sequence++) {
        words[TW_MANY_STARTS + sequence] = row;
        tail[TW_MANY_STARTS + sequence] = tail[TW_STEP_COUNT];
    }
    words[TW_STEP_COUNT] = row;
}

/* Returns the list of a step and its tail, which are written. Attention reads the longest sequence's keys. */
static tw_prefill_list list_of(const tw_prefill *p, const int32_t *tail) {
    enum { LEAST = 256, MORE = 4 };
    const int32_t *words = tail + TW_TAIL_WORDS;
    int64_t longest = 1, keys = LEAST;
    for (int64_t i = 0; i < p->sequences; i++)
        if (words[TW_MANY_LENGTHS + i] > longest) longest = words[TW_MANY_LENGTHS + i];
    while (keys < longest) keys *= MORE;
    const int64_t rows = tw_prefill_list_tokens(p, words[TW_STEP_COUNT]);
    return (tw_prefill_list){.tokens = rows,
                             .keys = keys < p->s->max_seq ? keys : p->s->max_seq,
                             .many = true,
                             .whole = tail[TW_STEP_COUNT] == words[TW_STEP_COUNT],
                             .ends = tail[TW_STEP_COUNT] ? tw_prefill_many_ends(p, rows) : 0};
}

tw_status tw_prefill_begin(tw_prefill *p, const tw_prefill_part *parts, int n, tw_diag *diag) {
    tw_prefill_flights *f = &p->flights;
    const int at = (int)(f->begun % TW_PREFILL_FLIGHTS);
    const int32_t out = at * TW_MANY_SEQUENCES;
    tw_prefill_list *list;
    tw_status st = check(p, parts, n, diag);
    if (st != TW_OK) return st;
    int32_t *tail = f->words + at * words_of(p), *words = tail + TW_TAIL_WORDS;
    write_words(p, tail, out, parts, n);
    const tw_prefill_list wanted = list_of(p, tail);
    st = tw_prefill_list_find(p, &wanted, &list, diag);
    if (st != TW_OK) return st;
    const int64_t skipped = list->ends ? 0 : TW_TAIL_WORDS; /* A list without a tail reads no words of it. */
    const size_t bytes =
        (size_t)(TW_TAIL_WORDS - skipped + TW_MANY_ROWS + TW_ROW_WORDS * words[TW_STEP_COUNT]) * sizeof *words;
    const uint64_t to = p->memory.tail + 4 * (uint64_t)skipped;
    for (int i = 0; i < tail[TW_STEP_COUNT] && f->out; i++)
        atomic_store_explicit(&f->out[out + i], UNSAID, memory_order_relaxed);
    st = p->vm->emu ? tw_mega_write(p->vm, to, tail + skipped, bytes, diag)
                    : tw_cuda_send(p->vm->cuda, to, tail + skipped, bytes, diag);
    if (st == TW_OK) st = tw_prefill_list_run(p, list, diag);
    /* After a failure the device may still read the words. */
    if (st != TW_OK && p->vm->cuda) tw_cuda_sync(p->vm->cuda, NULL);
    if (st != TW_OK) return st;
    f->ends[at] = tail[TW_STEP_COUNT];
    f->lists[at] = (int)(list - p->lists);
    f->begun++;
    return TW_OK;
}

/* Waits for a token. Looks at the stream report faults of the kernels. */
static tw_status hear(tw_prefill *p, int64_t at, int32_t *token, tw_diag *diag) {
    enum { LOOK = 1 << 14 };
    bool over = false;
    if (p->vm->emu) return tw_mega_read(p->vm, token, p->memory.out + (uint64_t)at * 4, sizeof *token, diag);
    for (int polls = 1; (*token = atomic_load_explicit(&p->flights.out[at], memory_order_acquire)) == UNSAID; polls++) {
        if (over) return tw_fail(diag, TW_ERR_IO, "a step of many sequences ended without a token");
        const tw_status st = polls % LOOK ? TW_OK : tw_cuda_look(p->vm->cuda, &over, diag);
        if (st != TW_OK) return st;
        __builtin_ia32_pause();
    }
    return TW_OK;
}

tw_status tw_prefill_end(tw_prefill *p, int32_t *tokens, tw_diag *diag) {
    tw_prefill_flights *f = &p->flights;
    const int at = (int)(f->ended % TW_PREFILL_FLIGHTS);
    tw_status st = TW_OK;
    if (f->begun == f->ended) return tw_fail(diag, TW_ERR_USAGE, "no step is under way");
    f->ended++;
    /* Without a token nothing tells that this step is over. */
    if (!f->ends[at] && p->vm->cuda) st = tw_cuda_sync(p->vm->cuda, diag);
    for (int i = 0; i < f->ends[at] && st == TW_OK; i++)
        st = hear(p, (int64_t)at * TW_MANY_SEQUENCES + i, &tokens[i], diag);
    if (st == TW_OK) tw_prefill_list_capture(p, &p->lists[f->lists[at]]);
    return st;
}
