/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/verify.h"

#include "base/grow.h"
#include "device/tensor_map.h"
#include "ir/verify_rules.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- findings */

/* Which of an operation's blocks: "if 3 then", "while 2 test"; a for has one alone. */
static void name_block(char *out, size_t size, const tw_ir_op *op, int block) {
    static const char *const of_if[] = {" then", " else"}, *const of_while[] = {" test", " body"};
    out[0] = 0;
    if (op->code == TW_OP_roles)
        snprintf(out, size, " role %d", block);
    else if ((op->code == TW_OP_if || op->code == TW_OP_while) && block < 2)
        snprintf(out, size, "%s", (op->code == TW_OP_if ? of_if : of_while)[block]);
}

void tw_verify_find(tw_verifier *v, const char *fmt, ...) {
    char place[384] = "body", text[256], block[24];
    size_t n = strlen(place);
    v->findings++;
    if (!v->diag) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (int i = 0; i < v->depth && n + 1 < sizeof place; i++) {
        const tw_ir_op *op = v->place[i].op;
        block[0] = 0;
        if (i + 1 < v->depth) name_block(block, sizeof block, op, v->place[i].block);
        snprintf(place + n, sizeof place - n, "/%s %d%s",
                 op->code < TW_OPCODES ? tw_op_describe((tw_opcode)op->code)->name : "?", v->place[i].index, block);
        n += strlen(place + n);
    }
    tw_diag_add(v->diag, TW_ERR_REJECTED, NULL, "%s: %s", v->depth ? place : "kernel", text);
}

/* -- memory */

static void push(tw_verifier *v, tw_ints *list, int x) {
    if (v->out_of_memory) return;
    int *const at = tw_grow(list->at, list->n, &list->room, 256, sizeof *at);
    if (!at) {
        v->out_of_memory = true;
        return;
    }
    list->at = at;
    list->at[list->n++] = x;
}

/* -- values */

static bool exists(const tw_verifier *v, tw_val x) {
    return x.id > 0 && x.id < v->k->n_values;
}

/* "operand 2 (acc)" */
typedef struct label {
    char text[64];
} label;
static label label_of(const tw_verifier *v, const char *what, int i, tw_val x) {
    label l;
    const char *name = v->k->values[x.id].name;
    size_t n = (size_t)snprintf(l.text, sizeof l.text, i < 0 ? "%s" : "%s %d", what, i);
    if (name) snprintf(l.text + n, sizeof l.text - n, " (%.40s)", name);
    return l;
}

/* A value that an operation reads: its operand i, or its guard (i < 0). */
static void use(tw_verifier *v, tw_val x, const char *what, int i) {
    const tw_ir_value *value = &v->k->values[x.id];
    if (value->kind == TW_V_CONSTANT || value->kind == TW_V_PARAMETER) return;
    const char *wrong = v->state[x.id] == TW_UNSEEN         ? "is used before its definition"
                        : v->state[x.id] == TW_OUT_OF_SCOPE ? "is used outside of the block that defines it"
                        : value->kind == TW_V_VARIABLE && !v->assigned[x.id] && !v->unreachable
                            ? "is a variable that may not be assigned yet"
                            : NULL;
    if (wrong) tw_verify_find(v, "%s %s", label_of(v, what, i, x).text, wrong);
}

static void make_visible(tw_verifier *v, int id) {
    v->state[id] = TW_VISIBLE;
    push(v, &v->live, id);
}

static void assign(tw_verifier *v, int id) {
    if (v->assigned[id]) return;
    v->assigned[id] = true;
    push(v, &v->log, id);
}

/* A value that an operation makes or assigns: its result i. */
static void define(tw_verifier *v, const tw_ir_op *op, int i) {
    tw_val x = op->results[i];
    const tw_ir_value *value = &v->k->values[x.id];
    const char *wrong = NULL;
    if (value->kind == TW_V_CONSTANT || value->kind == TW_V_PARAMETER) {
        wrong = "is a constant or parameter";
    } else if (value->kind == TW_V_REGISTER) {
        if (v->state[x.id] != TW_UNSEEN)
            wrong = "is a register that is assigned twice";
        else
            make_visible(v, x.id);
    } else if (v->state[x.id] == TW_UNSEEN) {
        if (op->code != TW_OP_set && op->code != TW_OP_undef) wrong = "is a variable that is not declared yet";
        make_visible(v, x.id);
        if (op->code != TW_OP_undef) assign(v, x.id);
    } else if (v->state[x.id] == TW_OUT_OF_SCOPE) {
        wrong = "is a variable assigned outside of the block that declares it";
    } else if (op->code == TW_OP_undef) {
        wrong = "is a variable that is declared twice";
    } else {
        assign(v, x.id);
    }
    if (wrong) tw_verify_find(v, "%s %s", label_of(v, "result", i, x).text, wrong);
}

/* -- an operation against its row of the table */

/* What the row names, read once a kernel. */
static uint32_t allowed_of(tw_verifier *v, tw_opcode code) {
    if (!(v->allowed[code] & TW_ALLOWED_KNOWN)) {
        v->allowed[code] = TW_ALLOWED_KNOWN;
        for (int i = 0; i < TW_ATTRS; i++)
            if (tw_op_allows(code, i)) v->allowed[code] |= 1u << i;
    }
    return v->allowed[code];
}

static bool check_attributes(tw_verifier *v, const tw_ir_op *op) {
    const uint32_t allows = allowed_of(v, (tw_opcode)op->code);
    int before = v->findings;
    for (int i = 0; i < TW_ATTRS; i++) {
        int32_t x = tw_attr_get(&op->at, i);
        bool allowed = allows >> i & 1, named = tw_attr_value_name(i, 0) != NULL;
        if (x && !allowed)
            tw_verify_find(v, "attribute %s means nothing here", tw_attr_name(i));
        else if (named && !tw_attr_value_name(i, x))
            tw_verify_find(v, "attribute %s is out of range: %d", tw_attr_name(i), (int)x);
        else if (allowed && !x && (i == TW_ATTR_type || i == TW_ATTR_mma || i == TW_ATTR_wgmma))
            tw_verify_find(v, "attribute %s is missing", tw_attr_name(i));
    }
    const tw_attrs *at = &op->at;
    if (at->vec < 0 || at->vec > 8 || (at->vec & (at->vec - 1))) tw_verify_find(v, "vec is 1, 2, 4 or 8");
    if (at->trans & ~1) tw_verify_find(v, "trans is 0 or 1");
    if (at->trans_a & ~1 || at->trans_b & ~1) tw_verify_find(v, "trans_a and trans_b are 0 or 1");
    if (allows >> TW_ATTR_columns & 1 && (at->columns < 8 || at->columns > TW_WGMMA_COLUMNS || at->columns % 8))
        tw_verify_find(v, "columns is a multiple of 8 up to %d, not %d", TW_WGMMA_COLUMNS, at->columns);
    if (at->dims < 0 || at->dims > TW_TENSOR_DIMS)
        tw_verify_find(v, "dims is 1 to %d, not %d", TW_TENSOR_DIMS, at->dims);
    if (at->im2col & ~1) tw_verify_find(v, "im2col is 0 or 1");
    if (at->im2col && at->dims < 3) tw_verify_find(v, "im2col has 3 to %d dims", TW_TENSOR_DIMS);
    if (at->read & ~1) tw_verify_find(v, "read is 0 or 1");
    if (at->unroll & ~1) tw_verify_find(v, "unroll is 0 or 1");
    if (at->count < 0) tw_verify_find(v, "count is negative");
    bool named = op->code == TW_OP_shared_address || tw_is_record(op);
    if (!named && op->name && op->code != TW_OP_roles) tw_verify_find(v, "a name means nothing here");
    if (named && !op->name) tw_verify_find(v, "a name is missing");
    return v->findings == before;
}

/* The type and number of values that a letter of a signature stands for; TW_T_none: as many as there are, of any. */
static tw_type letter(const tw_ir_op *op, char c, int *count) {
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)op->at.mma);
    int vec = op->at.vec ? op->at.vec : 1;
    *count = 1;
    switch (c) {
    case 'V':
        *count = vec;
        return tw_type_register((tw_type)op->at.type);
    case 'T':
        return tw_type_register((tw_type)op->at.type);
    case 'A':
        return op->at.space == TW_SPACE_shared || op->at.space == TW_SPACE_cluster ? TW_T_i32 : TW_T_i64;
    case 's':
    case 'i':
        return TW_T_i32;
    case 'g':
    case 'l':
    case 'm':
        return TW_T_i64;
    case 'p':
        return TW_T_pred;
    case 'd':
        return TW_T_f64;
    case 'f':
        return TW_T_f32;
    case 'h':
        return TW_T_i16;
    case 'M':
        *count = vec;
        return TW_T_i32;
    case 'N':
        *count = op->at.dims ? op->at.dims : 2;
        return TW_T_i32;
    case 'O':
        *count = op->at.im2col ? op->at.dims - 2 : 0;
        return TW_T_i16;
    case 'X':
        *count = m->a;
        return m->ab;
    case 'Y':
        *count = m->b;
        return m->ab;
    case 'C':
        *count = m->c;
        return m->cd;
    case 'D':
        *count = tw_wgmma_registers((tw_wgmma_kind)op->at.wgmma, op->at.columns);
        return tw_wgmma_describe((tw_wgmma_kind)op->at.wgmma)->d;
    case 'R':
        *count = 4;
        return TW_T_i32;
    default:
        return TW_T_none;
    }
}

static void check_type(tw_verifier *v, const char *what, int i, tw_val x, tw_type want) {
    tw_type is = tw_value_type(v->k, x);
    if (is != want) tw_verify_find(v, "%s %d is %s, not %s", what, i, tw_type_name(is), tw_type_name(want));
}

static void check_signature(tw_verifier *v, const tw_ir_op *op, const char *what, const char *signature,
                            const tw_val *x, int n) {
    int i = 0;
    for (const char *s = signature; *s; s++) {
        if (*s == '.') return;
        if (*s == '?') continue;
        int count;
        tw_type want = letter(op, *s, &count);
        for (int j = 0; j < count; j++, i++) {
            if (i == n && s[1] == '?') break;
            if (i >= n) {
                tw_verify_find(v, "has only %d %ss", n, what);
                return;
            }
            check_type(v, what, i, x[i], want);
        }
    }
    if (i < n) tw_verify_find(v, "has %d %ss, %d too many", n, what, n - i);
}

/* Whether all of an operation's values are values. */
static bool check_values(tw_verifier *v, const tw_ir_op *op) {
    int before = v->findings;
    for (int i = 0; i < op->n_results; i++)
        if (!op->results || !exists(v, op->results[i])) tw_verify_find(v, "result %d is no value", i);
    for (int i = 0; i < op->n_operands; i++)
        if (!op->operands || !exists(v, op->operands[i])) tw_verify_find(v, "operand %d is no value", i);
    if (op->guard.id && !exists(v, op->guard)) tw_verify_find(v, "the guard is no value");
    return v->findings == before;
}

static void check_row(tw_verifier *v, const tw_ir_op *op) {
    const tw_op_info *info = tw_op_describe((tw_opcode)op->code);
    int before = v->findings;
    if (info->sm > v->target) tw_verify_find(v, "needs sm_%d, the target is sm_%d", info->sm, v->target);
    if (op->guard.id && !(info->flags & TW_F_GUARD)) tw_verify_find(v, "cannot carry a guard");
    if (op->guard_not && !op->guard.id) tw_verify_find(v, "negates a guard that is not there");
    if (op->guard.id && tw_value_type(v->k, op->guard) != TW_T_pred) tw_verify_find(v, "the guard is no predicate");
    if (!(info->flags & TW_F_BLOCKS) && op->n_blocks) tw_verify_find(v, "cannot hold blocks");
    if (!check_attributes(v, op)) return;
    if (info->scalar) {
        if (op->n_results != 1)
            tw_verify_find(v, "has %d results, not 1", op->n_results);
        else
            check_type(v, "result", 0, op->results[0], info->result);
        if (op->n_operands != info->n_operands)
            tw_verify_find(v, "has %d operands, not %d", op->n_operands, info->n_operands);
        else
            for (int i = 0; i < op->n_operands; i++) check_type(v, "operand", i, op->operands[i], info->operand[i]);
        return;
    }
    check_signature(v, op, "result", info->results, op->results, op->n_results);
    check_signature(v, op, "operand", info->operands, op->operands, op->n_operands);
    if (v->findings == before) tw_verify_op(v, op);
}

/* -- the walk */

static void walk(tw_verifier *v, const tw_block *block, const tw_ir_op *loop, tw_val condition);

static void walk_block(tw_verifier *v, const tw_ir_op *op, int block) {
    tw_val condition = op->code == TW_OP_while && block == 0 && op->n_operands ? op->operands[0] : TW_NONE;
    v->place[v->depth - 1].block = block;
    walk(v, &op->blocks[block], op->code == TW_OP_for ? op : NULL, condition);
}

/* Takes back the assignments since `from`. */
static void unassign(tw_verifier *v, int from) {
    while (v->log.n > from) v->assigned[v->log.at[--v->log.n]] = false;
}

/* A block that may not run at all: what it assigns does not count afterwards. */
static void walk_perhaps(tw_verifier *v, const tw_ir_op *op, int block) {
    int from = v->log.n;
    bool unreachable = v->unreachable;
    walk_block(v, op, block);
    unassign(v, from);
    v->unreachable = unreachable;
}

/* Afterwards assigned is what both branches assign, or the one that gets there. */
static void walk_if(tw_verifier *v, const tw_ir_op *op) {
    int from = v->log.n, saved = v->branch.n;
    bool before = v->unreachable;
    walk_block(v, op, 0);
    bool then_ends = v->unreachable;
    for (int i = from; i < v->log.n; i++) push(v, &v->branch, v->log.at[i]);
    unassign(v, from);
    v->unreachable = before;
    walk_block(v, op, 1);
    bool else_ends = v->unreachable;
    if (v->out_of_memory) return;
    if (else_ends) { /* then alone counts */
        unassign(v, from);
        for (int i = saved; i < v->branch.n; i++) assign(v, v->branch.at[i]);
    } else if (!then_ends) {
        int mark = ++v->marks, to = from, end = v->log.n;
        for (int i = saved; i < v->branch.n; i++) v->mark[v->branch.at[i]] = mark;
        for (int i = from; i < end; i++) {
            int id = v->log.at[i];
            if (v->mark[id] == mark)
                v->log.at[to++] = id;
            else
                v->assigned[id] = false;
        }
        v->log.n = to;
    }
    v->branch.n = saved;
    v->unreachable = then_ends && else_ends;
}

static void walk_blocks(tw_verifier *v, const tw_ir_op *op) {
    if (v->depth >= TW_VERIFY_DEPTH) {
        tw_verify_find(v, "is nested deeper than %d", TW_VERIFY_DEPTH);
        return;
    }
    for (int i = 0; i < op->n_blocks; i++)
        if (!op->blocks || op->blocks[i].owner != op) {
            tw_verify_find(v, "block %d belongs to another operation", i);
            return;
        }
    if (op->code == TW_OP_if && op->n_blocks == 2) {
        walk_if(v, op);
    } else if (op->code == TW_OP_while && op->n_blocks == 2) {
        walk_block(v, op, 0); /* runs at least once */
        walk_perhaps(v, op, 1);
    } else {
        for (int i = 0; i < op->n_blocks; i++) walk_perhaps(v, op, i);
    }
}

static bool is_map(const tw_verifier *v, tw_val x) {
    const tw_ir_value *value = &v->k->values[x.id];
    return value->kind == TW_V_PARAMETER && value->bits < (uint64_t)v->k->n_parameters &&
           v->k->parameters[value->bits].map;
}

/* Tensor maps are for the operations that take them, which take nothing else. */
static void check_maps(tw_verifier *v, const tw_ir_op *op) {
    const char *signature = tw_op_describe((tw_opcode)op->code)->operands,
               *map = signature ? strchr(signature, 'm') : NULL;
    const int at = map ? (int)(map - signature) : -1; /* Operands before it are single values. */
    for (int i = 0; i < op->n_operands; i++)
        if ((i == at) != is_map(v, op->operands[i]))
            tw_verify_find(v, i == at ? "operand %d is no tensor map" : "operand %d is a tensor map", i);
}

static void walk_op(tw_verifier *v, const tw_ir_op *op) {
    if (!check_values(v, op)) return;
    check_row(v, op);
    check_maps(v, op);
    if (op->code != TW_OP_while) /* whose operand its first block makes */
        for (int i = 0; i < op->n_operands; i++) use(v, op->operands[i], "operand", i);
    if (op->guard.id) use(v, op->guard, "the guard", -1);
    if (op->n_blocks && tw_op_describe((tw_opcode)op->code)->flags & TW_F_BLOCKS) walk_blocks(v, op);
    if (op->code != TW_OP_for)
        for (int i = 0; i < op->n_results; i++) define(v, op, i);
    if ((op->code == TW_OP_exit || op->code == TW_OP_trap) && !op->guard.id) v->unreachable = true;
}

/* `loop` is the for whose body this is, `condition` the predicate that a while's first block is there for. */
static void walk(tw_verifier *v, const tw_block *block, const tw_ir_op *loop, tw_val condition) {
    int scope = v->live.n, index = 0;
    const tw_ir_op *before = NULL;
    if (loop)
        for (int i = 0; i < loop->n_results; i++) {
            if (v->k->values[loop->results[i].id].kind == TW_V_VARIABLE)
                tw_verify_find(v, "the result is a register of its own, no variable");
            else
                define(v, loop, i);
        }
    v->depth++;
    for (const tw_ir_op *op = block->first; op && !v->out_of_memory; before = op, op = op->next, index++) {
        v->place[v->depth - 1].op = op;
        v->place[v->depth - 1].index = index;
        v->place[v->depth - 1].block = 0;
        /* A list whose every link back is right cannot come to an earlier element again. */
        if (op->prev != before || op->block != block || op->code >= TW_OPCODES) {
            tw_verify_find(v, op->code >= TW_OPCODES ? "is no operation" : "is linked wrongly into its block");
            v->depth--;
            return;
        }
        walk_op(v, op);
    }
    v->depth--;
    if (block->last != before && !v->out_of_memory)
        tw_verify_find(v, "the last operation of a block is not at its end");
    if (condition.id && exists(v, condition)) use(v, condition, "operand", 0);
    while (v->live.n > scope) v->state[v->live.at[--v->live.n]] = TW_OUT_OF_SCOPE;
}

/* -- the kernel */

static bool identifier(const char *s) {
    if (!s || !(isalpha((unsigned char)*s) || *s == '_')) return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

static bool is_power_of_two(int64_t x) {
    return x > 0 && !(x & (x - 1));
}

static bool in_register(tw_type t) {
    return t > TW_T_none && t < TW_T_COUNT && t != TW_T_i8 && t != TW_T_e4m3;
}

static void check_table(tw_verifier *v) {
    const tw_kernel *k = v->k;
    for (int i = 1; i < k->n_values; i++) {
        const tw_ir_value *x = &k->values[i];
        if (!in_register(x->type))
            tw_verify_find(v, "value %d has no type of a register", i);
        else if (x->kind == TW_V_CONSTANT && tw_type_bits(x->type) < 64 && x->bits >> tw_type_bits(x->type))
            tw_verify_find(v, "constant %d does not fit in %s", i, tw_type_name(x->type));
        if (x->kind == TW_V_PARAMETER && (x->bits >= (uint64_t)k->n_parameters || k->parameters[x->bits].value.id != i))
            tw_verify_find(v, "value %d is no parameter of the kernel", i);
        if (x->kind != TW_V_CONSTANT && x->name && !*x->name) tw_verify_find(v, "value %d has an empty name", i);
        for (const char *s = x->name; s && *s; s++)
            if (!isalnum((unsigned char)*s) && *s != '_') {
                tw_verify_find(v, "the name of value %d is not of letters, digits and underscores", i);
                break;
            }
    }
}

static void check_parameters(tw_verifier *v) {
    const tw_kernel *k = v->k;
    for (int i = 0; i < k->n_parameters; i++) {
        const tw_parameter *p = &k->parameters[i];
        const char *name = p->name ? p->name : "";
        if (!identifier(p->name)) tw_verify_find(v, "parameter %d has no name of letters, digits and underscores", i);
        for (int j = 0; j < i; j++)
            if (p->name && k->parameters[j].name && !strcmp(p->name, k->parameters[j].name))
                tw_verify_find(v, "two parameters are called %s", name);
        if (!in_register(p->type) || p->type == TW_T_pred)
            tw_verify_find(v, "parameter %s is of a type that none can have", name);
        if (!exists(v, p->value) || k->values[p->value.id].kind != TW_V_PARAMETER ||
            k->values[p->value.id].bits != (uint64_t)i || k->values[p->value.id].type != p->type)
            tw_verify_find(v, "parameter %s has a value that is not its own", name);
        if (p->pointer && (p->type != TW_T_i64 || !is_power_of_two(p->align)))
            tw_verify_find(v, "pointer %s is no i64, or aligned to no power of two", name);
        if (p->map && (p->pointer || p->type != TW_T_i64))
            tw_verify_find(v, "tensor map %s is a pointer too, or no i64", name);
        if (!p->pointer && (p->read_only || p->align))
            tw_verify_find(v, "parameter %s is no pointer, but read_only or aligned", name);
    }
}

/* Bytes of shared memory that a block may ask for. */
static int shared_limit(int sm) {
    switch (sm) {
    case 80:
    case 87:
        return 163 << 10;
    case 86:
    case 89:
        return 99 << 10;
    default:
        return sm >= 120 ? 99 << 10 : 227 << 10;
    }
}

static void check_shared(tw_verifier *v) {
    const tw_kernel *k = v->k;
    int64_t end[2] = {0, 0};
    for (int i = 0; i < k->n_shared; i++) {
        const tw_shared *s = &k->shared[i];
        const char *name = s->name ? s->name : "";
        if (!identifier(s->name))
            tw_verify_find(v, "shared object %d has no name of letters, digits and underscores", i);
        for (int j = 0; j < i; j++)
            if (s->name && k->shared[j].name && !strcmp(s->name, k->shared[j].name))
                tw_verify_find(v, "two shared objects are called %s", name);
        if (!is_power_of_two(s->align) || s->align > 1024) {
            tw_verify_find(v, "shared object %s is aligned to no power of two up to 1024", name);
            continue;
        }
        if (s->bytes <= 0 || s->bytes > 1 << 20) {
            tw_verify_find(v, "shared object %s has %lld bytes", name, (long long)s->bytes);
            continue;
        }
        int64_t at = (end[s->dynamic] + s->align - 1) & -(int64_t)s->align;
        end[s->dynamic] = at + s->bytes;
    }
    if (end[0] > 48 << 10)
        tw_verify_find(v, "%lld bytes of static shared memory, %d at most", (long long)end[0], 48 << 10);
    if (end[0] + end[1] > shared_limit(v->target))
        tw_verify_find(v, "%lld bytes of shared memory, sm_%d has %d a block", (long long)(end[0] + end[1]), v->target,
                       shared_limit(v->target));
}

static void check_kernel(tw_verifier *v) {
    const tw_kernel *k = v->k;
    if (!identifier(k->name)) tw_verify_find(v, "its name is not of letters, digits and underscores");
    if (k->target < 80 || k->target > 129) tw_verify_find(v, "target %d is not known: 80 to 129", k->target);
    if (v->target != k->target && (v->target < 80 || v->target > 129))
        tw_verify_find(v, "target %d is not known: 80 to 129", v->target);
    if (k->threads < 1 || k->threads > 1024) tw_verify_find(v, "%d threads a block: 1 to 1024", k->threads);
    if (k->min_blocks < 0 || k->min_blocks > 32) tw_verify_find(v, "min_blocks is 0 to 32");
    if (k->max_registers < 0 || k->max_registers > 255) tw_verify_find(v, "max_registers is 0 to 255");
    if (k->cluster < 0 || k->cluster > 16) tw_verify_find(v, "cluster is 0 to 16");
    if (k->cluster > 1 && v->target < 90) tw_verify_find(v, "clusters need sm_90, the target is sm_%d", v->target);
    check_table(v);
    check_parameters(v);
    check_shared(v);
}

tw_status tw_kernel_verify(const tw_kernel *k, int target, tw_diag *diag) {
    tw_verifier v = {.k = k, .target = target ? target : k->target, .diag = diag};
    size_t n = (size_t)k->n_values;
    tw_diag_clear(diag);
    if (tw_kernel_failed(k)) return tw_fail_memory(diag);
    _Static_assert(TW_ATTRS <= 31, "a bit for each attribute, and one more");
    v.state = calloc(n, sizeof *v.state);
    v.assigned = calloc(n, sizeof *v.assigned);
    v.mark = calloc(n, sizeof *v.mark);
    v.out_of_memory = !v.state || !v.assigned || !v.mark;
    if (!v.out_of_memory) {
        check_kernel(&v);
        if (k->body.owner) tw_verify_find(&v, "its body belongs to an operation");
        walk(&v, &k->body, NULL, TW_NONE);
        if (v.warps && k->threads % 32)
            tw_verify_find(&v, "%d threads a block, but there are operations of whole warps", k->threads);
    }
    free(v.state);
    free(v.assigned);
    free(v.mark);
    free(v.live.at);
    free(v.log.at);
    free(v.branch.at);
    if (v.out_of_memory) return tw_fail_memory(diag);
    return v.findings ? TW_ERR_REJECTED : TW_OK;
}
