/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, completes, checks and prints the problem. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "base/divide.h"
#include "kernels/attention/attention.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char tw_attention_words[] =
    "type=bf16|f16; heads kv_heads head (elements); "
    "queries keys batch; causal=1; window=W; scale cap; lse=1 sinks=1;\n"
    "kv=e4m3: K and V are of that type, and their heads have scales;\n"
    "ldq ldk ldo (elements from row to row); capacity=C: K and V are [batch][kv_heads][C][head];\n"
    "page=P pool=N: K and V are [N][P][kv_heads][head], and each sequence has a list of pages;\n"
    "ragged=1: the device knows each sequence's queries (starts) and keys (lengths);\n"
    "mask=f32|f16|bf16 (added to scores) or i8 (0: not seen), [mask_batch][mask_heads][queries][ldm]";

/* A word that has a number. One of the offsets is used. */
typedef struct field {
    const char *name;
    size_t at;
    enum { WHOLE, FLAG, REAL } form;
    double least, most;
} field;

#define MOST (INT32_MAX / 2)
static const field fields[] = {
    {"heads", offsetof(tw_attention_problem, heads), WHOLE, 1, 65535},
    {"kv_heads", offsetof(tw_attention_problem, kv_heads), WHOLE, 1, 65535},
    {"head", offsetof(tw_attention_problem, head), WHOLE, TW_ATTENTION_LEAST_HEAD, TW_ATTENTION_MOST_HEAD},
    {"queries", offsetof(tw_attention_problem, queries), WHOLE, 1, MOST},
    {"keys", offsetof(tw_attention_problem, keys), WHOLE, 1, MOST},
    {"batch", offsetof(tw_attention_problem, batch), WHOLE, 1, 65535},
    {"capacity", offsetof(tw_attention_problem, capacity), WHOLE, 0, MOST},
    {"page", offsetof(tw_attention_problem, page), WHOLE, 0, 65536},
    {"pool", offsetof(tw_attention_problem, pool), WHOLE, 0, MOST},
    {"ldq", offsetof(tw_attention_problem, ldq), WHOLE, 1, MOST},
    {"ldk", offsetof(tw_attention_problem, ldk), WHOLE, 1, MOST},
    {"ldo", offsetof(tw_attention_problem, ldo), WHOLE, 1, MOST},
    {"mask_batch", offsetof(tw_attention_problem, mask_batch), WHOLE, 0, 65535},
    {"mask_heads", offsetof(tw_attention_problem, mask_heads), WHOLE, 0, 65535},
    {"ldm", offsetof(tw_attention_problem, ldm), WHOLE, 0, MOST},
    {"window", offsetof(tw_attention_problem, window), WHOLE, 0, MOST},
    {"scale", offsetof(tw_attention_problem, scale), REAL, 1e-9, 1e9},
    {"cap", offsetof(tw_attention_problem, cap), REAL, 0, 1e9},
    {"causal", offsetof(tw_attention_problem, causal), FLAG, 0, 1},
    {"ragged", offsetof(tw_attention_problem, ragged), FLAG, 0, 1},
    {"lse", offsetof(tw_attention_problem, lse), FLAG, 0, 1},
    {"sinks", offsetof(tw_attention_problem, sinks), FLAG, 0, 1},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static double get(const tw_attention_problem *p, const field *f) {
    const char *at = (const char *)p + f->at;
    return f->form == WHOLE ? (double)*(const int64_t *)at : f->form == FLAG ? *(const bool *)at : *(const double *)at;
}

static void set(tw_attention_problem *p, const field *f, double x) {
    char *at = (char *)p + f->at;
    if (f->form == WHOLE)
        *(int64_t *)at = (int64_t)x;
    else if (f->form == FLAG)
        *(bool *)at = x == 1;
    else
        *(double *)at = x;
}

static bool is_type(const char *value, tw_type *t) {
    *t = !strcmp(value, "f16") ? TW_T_f16 : TW_T_bf16;
    return !strcmp(value, tw_type_name(*t));
}

static bool is_mask(const char *value, tw_type *t) {
    static const tw_type of[] = {TW_T_f32, TW_T_f16, TW_T_bf16, TW_T_i8};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        *t = of[i];
        if (!strcmp(value, tw_type_name(*t))) return true;
    }
    return false;
}

bool tw_attention_word(tw_attention_problem *p, const char *word, tw_status *status, tw_diag *diag) {
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : "";
    const size_t n = equals ? (size_t)(equals - word) : 0;
    bool known = false, good = false;
    for (int i = 0; i < FIELDS; i++) {
        if (strlen(fields[i].name) != n || strncmp(fields[i].name, word, n) != 0) continue;
        char *end;
        const double x = strtod(value, &end);
        known = true;
        good = end != value && !*end && fabs(x) <= 1e15 && (fields[i].form == REAL || x == (double)(int64_t)x) &&
               (fields[i].form != FLAG || x == 0 || x == 1);
        if (good) set(p, &fields[i], x);
    }
    if (n == 4 && !strncmp(word, "type", 4)) known = true, good = is_type(value, &p->type);
    if (n == 2 && !strncmp(word, "kv", 2)) known = true, p->kv = TW_T_e4m3, good = !strcmp(value, tw_type_name(p->kv));
    if (n == 4 && !strncmp(word, "mask", 4)) known = true, good = is_mask(value, &p->mask);
    *status = TW_OK;
    if (known && good) return true;
    if (known) *status = tw_fail(diag, TW_ERR_USAGE, "\"%s\": no such value", word);
    return false;
}

tw_status tw_attention_parse(tw_attention_problem *p, char *words, tw_diag *diag) {
    char *save = NULL;
    tw_status st = TW_OK;
    *p = (tw_attention_problem){0};
    for (char *w = strtok_r(words, " ", &save); w && st == TW_OK; w = strtok_r(NULL, " ", &save))
        if (!tw_attention_word(p, w, &st, diag) && st == TW_OK)
            st = tw_fail(diag, TW_ERR_USAGE, "\"%s\": says nothing of attention", w);
    return st == TW_OK ? tw_attention_complete(p, diag) : st;
}

/* An array whose size may be beyond 64 bits. Sizes up to MOST_ELEMENTS are exact. */
typedef struct array {
    const char *name;
    tw_type type;
    double elements;
} array;
#define MOST_ELEMENTS 0x1p40

static array array_of(const tw_attention_problem *p, tw_attention_buffer which) {
    const double batch = (double)p->batch, heads = (double)p->heads, kv_heads = (double)p->kv_heads,
                 head = (double)p->head, queries = (double)p->queries, keys = (double)p->keys, ldk = (double)p->ldk;
    const double rows = p->ragged ? queries : batch * queries, dense = heads * head;
    /* Keys that lie as their sequence's queries do have these rows, if only the device knows where. */
    const double key_rows = p->page ? (double)p->pool * (double)p->page : p->ragged ? keys : batch * keys;
    const double kv = p->capacity ? (batch * kv_heads * (double)p->capacity - 1) * ldk + head
                                  : (key_rows - 1) * ldk + kv_heads * head;
    const double masks = (double)p->mask_batch * (double)p->mask_heads;
    const array of[TW_ATTENTION_BUFFERS] = {
        [TW_ATTENTION_Q] = {"q", p->type, (rows - 1) * (double)p->ldq + dense},
        [TW_ATTENTION_K] = {"k", p->kv ? p->kv : p->type, kv},
        [TW_ATTENTION_V] = {"v", p->kv ? p->kv : p->type, kv},
        [TW_ATTENTION_OUT] = {"out", p->type, (rows - 1) * (double)p->ldo + dense},
        [TW_ATTENTION_LSE] = {"lse", TW_T_f32, p->lse ? rows * heads : 0},
        [TW_ATTENTION_SINKS] = {"sinks", TW_T_f32, p->sinks ? heads : 0},
        [TW_ATTENTION_STARTS] = {"starts", TW_T_i32, p->ragged ? batch + 1 : 0},
        [TW_ATTENTION_LENGTHS] = {"lengths", TW_T_i32, p->ragged ? batch : 0},
        [TW_ATTENTION_PAGES] = {"pages", TW_T_i32, p->page ? batch * (double)tw_ceil_div(p->keys, p->page) : 0},
        [TW_ATTENTION_MASK] = {"mask", p->mask ? p->mask : TW_T_f32, masks * queries * (double)p->ldm},
        [TW_ATTENTION_K_SCALES] = {"k_scales", TW_T_f32, p->kv ? kv_heads : 0},
        [TW_ATTENTION_V_SCALES] = {"v_scales", TW_T_f32, p->kv ? kv_heads : 0},
        [TW_ATTENTION_WORKSPACE] = {"workspace", TW_T_f32, 0},
        [TW_ATTENTION_COUNTERS] = {"counters", TW_T_i32, 0},
    };
    return of[which];
}

tw_attention_array tw_attention_array_of(const tw_attention_problem *p, tw_attention_buffer which) {
    const array a = array_of(p, which);
    return (tw_attention_array){a.name, a.type, (int64_t)a.elements};
}

static tw_status check_mask(const tw_attention_problem *p, tw_diag *diag) {
    if (!p->mask && (p->mask_batch || p->mask_heads || p->ldm))
        return tw_fail(diag, TW_ERR_USAGE, "mask_batch, mask_heads and ldm are of a mask");
    if (!p->mask) return TW_OK;
    if (p->ragged) return tw_fail(diag, TW_ERR_USAGE, "ragged sequences have no mask in an array");
    if (p->ldm % 8 || p->ldm < p->keys)
        return tw_fail(diag, TW_ERR_USAGE, "ldm is a multiple of 8 elements, and a row has all keys");
    if ((p->mask_batch != 1 && p->mask_batch != p->batch) || (p->mask_heads != 1 && p->mask_heads != p->heads))
        return tw_fail(diag, TW_ERR_USAGE, "a mask is of all sequences and heads, or of each");
    return TW_OK;
}

/* Refuses a field beyond its range. With `given`, fields that are 0 are not told yet. */
static tw_status check_fields(const tw_attention_problem *p, bool given, tw_diag *diag) {
    for (int i = 0; i < FIELDS; i++) {
        const double x = get(p, &fields[i]);
        if ((given && x == 0) || (x >= fields[i].least && x <= fields[i].most)) continue;
        return tw_fail(diag, TW_ERR_USAGE, "%s = %.16g is not within %.16g..%.16g", fields[i].name, x, fields[i].least,
                       fields[i].most);
    }
    return TW_OK;
}

static tw_status check(const tw_attention_problem *p, tw_diag *diag) {
    const tw_status st = check_fields(p, false, diag);
    if (st != TW_OK) return st;
    if (p->head % 8 || p->ldq % 8 || p->ldk % 8 || p->ldo % 8)
        return tw_fail(diag, TW_ERR_USAGE, "heads and rows are multiples of 8 elements");
    if (p->kv && (p->head % 32 || p->ldk % 16))
        return tw_fail(diag, TW_ERR_USAGE, "heads of e4m3 are multiples of 32 elements, and rows of 16");
    if (p->heads % p->kv_heads)
        return tw_fail(diag, TW_ERR_USAGE, "heads = %lld is no multiple of kv_heads = %lld", (long long)p->heads,
                       (long long)p->kv_heads);
    const int64_t least_k = p->capacity ? p->head : p->kv_heads * p->head;
    if (p->ldq < p->heads * p->head || p->ldo < p->heads * p->head || p->ldk < least_k)
        return tw_fail(diag, TW_ERR_USAGE, "rows overlap: ldq, ldk or ldo is less than what a row has");
    if (p->capacity && p->capacity < p->keys)
        return tw_fail(diag, TW_ERR_USAGE, "keys = %lld is more than capacity = %lld", (long long)p->keys,
                       (long long)p->capacity);
    if (p->page ? p->capacity != 0 || !p->pool : p->pool != 0)
        return tw_fail(diag, TW_ERR_USAGE, "a pool is of pages, and these have no capacity");
    for (int i = 0; i < TW_ATTENTION_BUFFERS; i++)
        if (array_of(p, (tw_attention_buffer)i).elements > MOST_ELEMENTS)
            return tw_fail(diag, TW_ERR_USAGE, "a buffer has more than 2^40 elements");
    return check_mask(p, diag);
}

tw_status tw_attention_complete(tw_attention_problem *p, tw_diag *diag) {
    const tw_status st = check_fields(p, true, diag); /* Products of fields within their ranges fit 64 bits. */
    if (st != TW_OK) return st;
    if (!p->type) p->type = TW_T_bf16;
    if (!p->kv_heads) p->kv_heads = p->heads;
    if (!p->keys) p->keys = p->queries;
    if (!p->batch) p->batch = 1;
    if (p->page > 0 && !p->pool) p->pool = p->batch * tw_ceil_div(p->keys, p->page);
    if (!p->ldq) p->ldq = p->heads * p->head;
    if (!p->ldo) p->ldo = p->heads * p->head;
    if (!p->ldk) p->ldk = p->capacity ? p->head : p->kv_heads * p->head;
    if (p->mask && !p->mask_batch) p->mask_batch = 1;
    if (p->mask && !p->mask_heads) p->mask_heads = 1;
    if (p->mask && !p->ldm) p->ldm = tw_ceil_div(p->keys, 8) * 8;
    if (p->scale == 0 && p->head) p->scale = 1 / sqrt((double)p->head);
    return check(p, diag);
}

void tw_attention_print(const tw_attention_problem *p, char *out, size_t size) {
    tw_attention_problem usual = *p;
    usual.ldq = usual.ldk = usual.ldo = usual.ldm = 0;
    usual.mask_batch = usual.mask_heads = 0;
    usual.scale = 0;
    usual.pool = 0;
    tw_attention_complete(&usual, NULL);
    usual.kv_heads = p->heads;
    usual.window = usual.capacity = usual.page = 0;
    usual.batch = 1;
    usual.cap = 0;
    usual.causal = usual.ragged = usual.lse = usual.sinks = false;
    usual.heads = usual.head = usual.queries = usual.keys = -1;
    int n = snprintf(out, size, "type=%s", tw_type_name(p->type));
    if (p->kv && n >= 0 && (size_t)n < size) n += snprintf(out + n, size - (size_t)n, " kv=%s", tw_type_name(p->kv));
    if (p->mask && n >= 0 && (size_t)n < size)
        n += snprintf(out + n, size - (size_t)n, " mask=%s", tw_type_name(p->mask));
    for (int i = 0; i < FIELDS && n >= 0 && (size_t)n < size; i++)
        if (get(p, &fields[i]) != get(&usual, &fields[i]))
            n += snprintf(out + n, size - (size_t)n, " %s=%.17g", fields[i].name, get(p, &fields[i]));
}
