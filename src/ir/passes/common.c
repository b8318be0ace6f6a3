/* SPDX-License-Identifier: Apache-2.0 */
/* Common subexpressions. Needs: verified IR. Keeps: everything but operations that compute again what a register
   holds already, in the same block or in one around it.

   Only operations without variables, which may have changed in between, and without other lanes: two clock readings
   differ, and a product of matrices is no value of one lane. Two branches that compute the same stay: neither value is
   there in the other. */
#include "base/grow.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

#include <stdlib.h>
#include <string.h>

typedef struct known {
    const tw_ir_op *op;
    int next; /* in its bucket; -1 for none */
    uint32_t bucket;
} known;

typedef struct numbering {
    tw_kernel *k;
    tw_replacements r;
    known *known; /* innermost scope last */
    int n, room;
    int *buckets;
    uint32_t mask;
    bool changed;
} numbering;

static bool shareable(const numbering *c, const tw_ir_op *op) {
    const tw_op_info *info = tw_op_describe((tw_opcode)op->code);
    if (!(info->flags & TW_F_PURE) || info->flags & TW_F_SYNC || op->n_results != 1 || op->code == TW_OP_set ||
        op->code == TW_OP_undef)
        return false;
    if (op->code == TW_OP_sreg && op->at.sreg >= TW_SREG_clock) return false;
    if (tw_is_variable(c->k, op->results[0])) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (tw_is_variable(c->k, op->operands[i])) return false;
    return true;
}

/* The operands as they are compared: constants by type and bits, since equal ones may be two values; the two that
   commute in order. */
typedef struct key {
    uint64_t operand[3];
    tw_type type[3]; /* of a constant; none for what is compared by its number */
} key;

static key key_of(const numbering *c, const tw_ir_op *op) {
    key x = {.operand = {0}};
    for (int i = 0; i < op->n_operands; i++) {
        x.operand[i] = (uint64_t)op->operands[i].id;
        if (tw_value_constant(c->k, op->operands[i], &x.operand[i])) x.type[i] = tw_value_type(c->k, op->operands[i]);
    }
    if (tw_op_describe((tw_opcode)op->code)->flags & TW_F_COMMUTES &&
        (x.type[0] > x.type[1] || (x.type[0] == x.type[1] && x.operand[0] > x.operand[1]))) {
        uint64_t operand = x.operand[0];
        tw_type type = x.type[0];
        x.operand[0] = x.operand[1];
        x.type[0] = x.type[1];
        x.operand[1] = operand;
        x.type[1] = type;
    }
    return x;
}

static uint32_t hash(const tw_ir_op *op, const key *x) {
    uint64_t h = op->code;
    for (int i = 0; i < 3; i++) h = (h ^ x->operand[i] ^ (uint64_t)x->type[i] << 56) * 0x9e3779b97f4a7c15u;
    h = (h ^ (uint32_t)op->at.type ^ (uint64_t)op->at.sreg << 32) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

static bool same_name(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

static bool same(const numbering *c, const tw_ir_op *a, const key *x, const tw_ir_op *b) {
    if (a->code != b->code || a->n_operands != b->n_operands || memcmp(&a->at, &b->at, sizeof a->at) ||
        !same_name(a->name, b->name) || tw_value_type(c->k, a->results[0]) != tw_value_type(c->k, b->results[0]))
        return false;
    key y = key_of(c, b);
    for (int i = 0; i < a->n_operands && i < 3; i++)
        if (x->operand[i] != y.operand[i] || x->type[i] != y.type[i]) return false;
    return true;
}

static bool add(numbering *c, const tw_ir_op *op, uint32_t bucket) {
    known *const at = tw_grow(c->known, c->n, &c->room, 256, sizeof *at);
    if (!at) {
        c->k->arena.failed = true;
        return false;
    }
    c->known = at;
    c->known[c->n] = (known){.op = op, .next = c->buckets[bucket], .bucket = bucket};
    c->buckets[bucket] = c->n++;
    return true;
}

static void number(numbering *c, tw_ir_op *op) {
    key x = key_of(c, op);
    uint32_t bucket = hash(op, &x) & c->mask;
    for (int i = c->buckets[bucket]; i >= 0; i = c->known[i].next)
        if (same(c, op, &x, c->known[i].op)) {
            c->r.with[op->results[0].id] = c->known[i].op->results[0];
            tw_edit_remove(op);
            c->changed = true;
            return;
        }
    add(c, op, bucket);
}

static void number_block(numbering *c, tw_block *block) {
    int scope = c->n;
    for (tw_ir_op *op = block->first; op && !c->k->arena.failed; op = op->next) {
        tw_replace_uses(&c->r, op);
        for (int i = 0; i < op->n_blocks; i++) number_block(c, &op->blocks[i]);
        if (op->code == TW_OP_while) tw_replace_uses(&c->r, op); /* its predicate is made in its first block */
        if (!op->n_blocks && shareable(c, op)) number(c, op);
    }
    while (c->n > scope) {
        c->n--;
        c->buckets[c->known[c->n].bucket] = c->known[c->n].next;
    }
}

bool tw_pass_common(tw_kernel *k) {
    numbering c = {.k = k, .mask = 255};
    if (tw_kernel_failed(k) || !tw_replacements_begin(&c.r, k)) return false;
    while ((int)c.mask < k->n_values) c.mask = 2 * c.mask + 1;
    c.buckets = malloc(((size_t)c.mask + 1) * sizeof *c.buckets);
    if (c.buckets) {
        memset(c.buckets, 0xff, ((size_t)c.mask + 1) * sizeof *c.buckets);
        number_block(&c, &k->body);
    } else {
        k->arena.failed = true;
    }
    free(c.buckets);
    free(c.known);
    tw_replacements_end(&c.r);
    return c.changed;
}
