/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the tree into a line of operations with jumps, and values into registers.

   A value lives from the operation that makes it to its last use, or to the end of the outermost loop that uses it and
   does not make it. Inactive lanes may then overwrite what nobody can read any more, so only variables need masks. */
#include "emu/machine.h"

enum { DEPTH = 64 };

typedef struct life {
    int from, to; /* Operations. from < 0: never made. */
    int loop;     /* The loop whose end the value must reach. -1: none. */
    int depth;    /* Number of open loops where the value was made. */
    int variable; /* Index of a variable that may lack a value. -1: any other value. */
    emu_ref ref;
} life;

typedef struct flattener {
    emu_code *code;
    tw_arena *arena;
    const tw_kernel *kernel;
    emu_scalar *const *scalars;
    life *lives;
    int *loop_end;
    int n_loops, room_loops;
    int open[DEPTH]; /* Open loops, outermost first. */
    int n_open, depth;
} flattener;

static emu_exec *const execs[TW_OPCODES] = {
#define OP(...)
#define MOP(name, ...) [TW_OP_##name] = emu_exec_##name,
#include "ir/ops.def"
#undef OP
#undef MOP
};

/* Appends an operation and returns its index. Arrays double within the arena. */
static int add(flattener *f, const tw_ir_op *ir, emu_exec *exec) {
    emu_code *c = f->code;
    if (c->n == c->room) {
        int room = c->room * 2;
        emu_op *ops = tw_arena_array(f->arena, (size_t)room, sizeof *ops);
        if (!ops) return 0;
        memcpy(ops, c->ops, (size_t)c->n * sizeof *ops);
        c->ops = ops;
        c->room = room;
    }
    c->ops[c->n] = (emu_op){.ir = ir, .exec = exec};
    return c->n++;
}

/* Notes a use. Operands hold the values' numbers until registers are known. */
static void use(flattener *f, int at, tw_val v, emu_ref *ref) {
    *ref = (emu_ref){.at = v.id};
    if (f->arena->failed) return;
    life *l = &f->lives[v.id];
    tw_value_kind kind = f->kernel->values[v.id].kind;
    if (kind == TW_V_CONSTANT || kind == TW_V_PARAMETER) return;
    if (at > l->to) l->to = at;
    if (f->n_open > l->depth) l->loop = f->open[l->depth];
}

static void define(flattener *f, int at, tw_val v, emu_ref *ref) {
    life *l = &f->lives[v.id];
    if (l->from < 0) {
        l->from = at;
        l->depth = f->n_open;
    }
    use(f, at, v, ref);
}

static bool is_product(const tw_ir_op *ir) {
    return ir->code == TW_OP_wgmma || ir->code == TW_OP_wgmma_rs;
}

/* Lists the variables among some values that may lack a value in some lane. */
static int checked(flattener *f, const tw_val *v, int n, const int32_t **out) {
    int count = 0;
    for (int i = 0; i < n; i++) count += f->lives[v[i].id].variable >= 0;
    if (!count) return 0;
    int32_t *list = tw_arena_array(f->arena, (size_t)count, sizeof *list);
    if (!list) return 0;
    count = 0;
    for (int i = 0; i < n; i++)
        if (f->lives[v[i].id].variable >= 0) list[count++] = f->lives[v[i].id].variable;
    *out = list;
    return count;
}

static void values(flattener *f, int at, const tw_val *results, int n_results, const tw_val *operands, int n_operands) {
    emu_ref *refs = tw_arena_array(f->arena, (size_t)(n_results + n_operands) + 1, sizeof *refs);
    if (!refs) return;
    emu_op *op = &f->code->ops[at];
    op->out = refs;
    op->in = refs + n_results;
    op->n_out = (uint16_t)n_results;
    op->n_in = (uint16_t)n_operands;
    for (int i = 0; i < n_operands; i++) use(f, at, operands[i], &op->in[i]);
    for (int i = 0; i < n_results; i++) {
        define(f, at, results[i], &op->out[i]);
        op->masked |= f->kernel->values[results[i].id].kind == TW_V_VARIABLE;
    }
    op->n_checked = (uint16_t)checked(f, operands, n_operands, &op->checked);
    op->n_assigned = (uint16_t)checked(f, results, n_results, &op->assigned);
    /* A product checks its registers itself, since they may still belong to the previous one. */
    op->asynchronous = op->ir && is_product(op->ir);
}

static void guard(flattener *f, int at) {
    emu_op *op = &f->code->ops[at];
    if (!op->ir->guard.id) return;
    op->guarded = true;
    op->guard_not = op->ir->guard_not;
    use(f, at, op->ir->guard, &op->guard);
}

static void block(flattener *f, const tw_block *b);

/* Sets `end` in the operations from `from` on that have none: where control goes without active lanes. */
static void close(flattener *f, int from, int end) {
    for (int i = from; i < f->code->n; i++)
        if (f->code->ops[i].end < 0) f->code->ops[i].end = end;
}

static void open_loop(flattener *f) {
    if (f->n_loops == f->room_loops) {
        int room = f->room_loops ? f->room_loops * 2 : 16;
        int *ends = tw_arena_array(f->arena, (size_t)room, sizeof *ends);
        if (!ends) return;
        if (f->n_loops) memcpy(ends, f->loop_end, (size_t)f->n_loops * sizeof *ends);
        f->loop_end = ends;
        f->room_loops = room;
    }
    f->open[f->n_open++] = f->n_loops++;
}

static void close_loop(flattener *f, int end) {
    if (f->arena->failed) return;
    f->loop_end[f->open[--f->n_open]] = end;
}

static void enter(flattener *f) {
    if (++f->depth > f->code->depth) f->code->depth = f->depth;
}

/* Tells whether blocks are nested too deeply. */
static bool too_deep(const tw_block *b, int depth) {
    if (depth == DEPTH) return true;
    for (const tw_ir_op *ir = b->first; ir; ir = ir->next)
        for (int i = 0; i < ir->n_blocks; i++)
            if (too_deep(&ir->blocks[i], depth + 1)) return true;
    return false;
}

/* Flattens a block and appends its last operation, where lanes go that leave within it. */
static void body(flattener *f, const tw_block *b, const tw_ir_op *ir, emu_exec *last) {
    int from = f->code->n;
    block(f, b);
    close(f, from, f->code->n);
    int at = add(f, ir, last);
    f->code->ops[at].end = -1;
}

static void flatten_if(flattener *f, const tw_ir_op *ir) {
    int start = add(f, ir, emu_exec_if);
    values(f, start, NULL, 0, ir->operands, 1);
    f->code->ops[start].end = -1;
    enter(f);
    bool two = ir->blocks[1].first;
    body(f, &ir->blocks[0], ir, two ? emu_else : emu_endif);
    int middle = f->code->n - 1;
    if (two) {
        body(f, &ir->blocks[1], ir, emu_endif);
        f->code->ops[middle].target = f->code->n - 1;
        f->code->ops[middle].end = -1;
    }
    f->code->ops[start].target = two ? middle + 1 : f->code->n - 1;
    f->code->ops[start].both = two;
    f->depth--;
}

/* The order is begin, test, body, next. `next` jumps to the test, which leaves to what follows `next`. */
static void flatten_for(flattener *f, const tw_ir_op *ir) {
    int start = add(f, ir, emu_exec_for);
    open_loop(f);
    values(f, start, ir->results, 1, ir->operands, 3);
    f->code->ops[start].end = -1;
    enter(f);
    int test = add(f, ir, emu_for_test);
    values(f, test, NULL, 0, (tw_val[]){ir->results[0], ir->operands[1]}, 2);
    f->code->ops[test].end = -1;
    body(f, &ir->blocks[0], ir, emu_for_next);
    int next = f->code->n - 1;
    values(f, next, ir->results, 1, (tw_val[]){ir->results[0], ir->operands[2]}, 2);
    f->code->ops[next].target = test;
    f->code->ops[test].target = f->code->n;
    close_loop(f, next);
    f->depth--;
}

static void flatten_while(flattener *f, const tw_ir_op *ir) {
    int start = add(f, ir, emu_exec_while);
    f->code->ops[start].end = -1;
    open_loop(f);
    enter(f);
    body(f, &ir->blocks[0], ir, emu_while_test);
    int test = f->code->n - 1;
    values(f, test, NULL, 0, ir->operands, 1);
    body(f, &ir->blocks[1], ir, emu_while_next);
    int next = f->code->n - 1;
    f->code->ops[next].target = start + 1;
    f->code->ops[test].target = f->code->n;
    close_loop(f, next);
    f->depth--;
}

static void flatten_roles(flattener *f, const tw_ir_op *ir) {
    int start = f->code->n;
    for (int i = 0; i < ir->n_blocks; i++) {
        int head = add(f, ir, emu_exec_roles);
        f->code->ops[head].end = -1;
        values(f, head, NULL, 0, ir->operands + (ptrdiff_t)2 * i, 2);
        body(f, &ir->blocks[i], ir, emu_role_end);
        f->code->ops[head].target = f->code->n;
    }
    for (int i = start; i < f->code->n; i++)
        if (f->code->ops[i].ir == ir && f->code->ops[i].exec == emu_role_end) f->code->ops[i].target = f->code->n;
}

static void may_lack(flattener *f, tw_val v) {
    life *l = &f->lives[v.id];
    if (l->variable < 0) l->variable = f->code->n_checked++;
}

/* Marks the variables that products use. Accumulators have no value until they were waited for, and A's registers must
   not be accessed until then. All operations that use them must be flattened after this. */
static void note_accumulators(flattener *f, const tw_block *b) {
    for (const tw_ir_op *ir = b->first; ir; ir = ir->next) {
        for (int i = 0; i < ir->n_blocks; i++) note_accumulators(f, &ir->blocks[i]);
        for (int i = 0; is_product(ir) && i < ir->n_results; i++) may_lack(f, ir->results[i]);
        for (int i = 0; ir->code == TW_OP_wgmma_rs && i < 4; i++) may_lack(f, ir->operands[i]);
    }
}

static void simple(flattener *f, const tw_ir_op *ir) {
    int at = add(f, ir, execs[ir->code]);
    emu_op *op = &f->code->ops[at];
    op->end = -1;
    op->scalar = f->scalars[ir->code];
    if (ir->code == TW_OP_undef && !f->arena->failed) may_lack(f, ir->results[0]);
    values(f, at, ir->results, ir->n_results, ir->operands, ir->n_operands);
    guard(f, at);
}

static void block(flattener *f, const tw_block *b) {
    for (const tw_ir_op *ir = b->first; ir && !f->arena->failed; ir = ir->next) switch (ir->code) {
        case TW_OP_if:
            flatten_if(f, ir);
            break;
        case TW_OP_for:
            flatten_for(f, ir);
            break;
        case TW_OP_while:
            flatten_while(f, ir);
            break;
        case TW_OP_roles:
            flatten_roles(f, ir);
            break;
        default:
            /* Records that no pass lowered take no step, so that interleavings are those of the kernel without them. */
            if (!tw_is_record(ir)) simple(f, ir);
        }
}

/* -- registers */

/* Units of registers that are free or in use. */
typedef struct pool {
    int *free[2]; /* Free units, for values of 32 and of 64 bits. */
    int n[2];
    int units;
} pool;

static void expire(flattener *f, pool *p, const int *head, const int *next, int at) {
    for (int v = head[at]; v; v = next[v]) {
        emu_ref r = f->lives[v].ref;
        p->free[r.wide][p->n[r.wide]++] = r.at;
    }
}

static void place(flattener *f, pool *p, int v) {
    life *l = &f->lives[v];
    int wide = tw_type_bits(f->kernel->values[v].type) == 64;
    l->ref.wide = wide;
    if (p->n[wide]) {
        l->ref.at = p->free[wide][--p->n[wide]];
        return;
    }
    l->ref.at = p->units;
    p->units += 1 + wide;
}

static void allocate(flattener *f) {
    const tw_kernel *k = f->kernel;
    int n = f->code->n;
    int *head = tw_arena_array(f->arena, (size_t)n, sizeof *head);
    int *next = tw_arena_array(f->arena, (size_t)k->n_values, sizeof *next);
    int *start = tw_arena_array(f->arena, (size_t)n, sizeof *start);
    int *after = tw_arena_array(f->arena, (size_t)k->n_values, sizeof *after);
    pool p = {0};
    for (int i = 0; i < 2; i++) p.free[i] = tw_arena_array(f->arena, (size_t)k->n_values, sizeof(int));
    if (f->arena->failed) return;
    for (int v = 1; v < k->n_values; v++) {
        life *l = &f->lives[v];
        if (l->from < 0) continue;
        if (l->loop >= 0 && f->loop_end[l->loop] > l->to) l->to = f->loop_end[l->loop];
        next[v] = head[l->to];
        head[l->to] = v;
        after[v] = start[l->from];
        start[l->from] = v;
    }
    for (int at = 0; at < n; at++) {
        for (int v = start[at]; v; v = after[v]) place(f, &p, v);
        expire(f, &p, head, next, at);
    }
    f->code->units = p.units;
}

/* Stores constants and arguments 32 times each. Unit 0 is zeros, for operands that are absent. */
static void constants(flattener *f, const uint64_t *arguments) {
    const tw_kernel *k = f->kernel;
    int units = 2;
    for (int v = 1; v < k->n_values; v++) {
        const tw_ir_value *x = &k->values[v];
        if (x->kind != TW_V_CONSTANT && x->kind != TW_V_PARAMETER) continue;
        int wide = tw_type_bits(x->type) == 64;
        f->lives[v].ref = (emu_ref){.at = ~units, .wide = wide};
        units += 1 + wide;
    }
    f->code->constants = tw_arena_array(f->arena, (size_t)units, 128);
    if (f->arena->failed) return;
    for (int v = 1; v < k->n_values; v++) {
        const tw_ir_value *x = &k->values[v];
        if (x->kind != TW_V_CONSTANT && x->kind != TW_V_PARAMETER) continue;
        uint64_t bits = x->kind == TW_V_CONSTANT ? x->bits : arguments[x->bits];
        if (tw_type_bits(x->type) < 64) bits &= (1ull << tw_type_bits(x->type)) - 1;
        unsigned char *p = f->code->constants + (size_t)~f->lives[v].ref.at * 128;
        for (int i = 0; i < EMU_LANES; i++)
            if (f->lives[v].ref.wide)
                ((uint64_t *)(void *)p)[i] = bits;
            else
                ((uint32_t *)(void *)p)[i] = (uint32_t)bits;
    }
}

static void resolve(flattener *f) {
    for (int i = 0; i < f->code->n; i++) {
        emu_op *op = &f->code->ops[i];
        /* Operands follow the results in one array. */
        for (int j = 0; j < op->n_out + op->n_in; j++) op->out[j] = f->lives[op->out[j].at].ref;
        if (op->guarded) op->guard = f->lives[op->guard.at].ref;
    }
}

/* -- */

static int log2_of(int bytes) {
    int n = 0;
    while (n < 4 && 1 << (n + 1) <= bytes) n++;
    return n;
}

static void narrow(emu_code *c, int space, int bytes) {
    int g = log2_of(bytes);
    if (space == TW_SPACE_cluster) space = TW_SPACE_shared;
    if (g < c->granule[space]) c->granule[space] = g;
}

/* Returns the bytes of an element of the tensor map that operand `at` names. */
static int element_of(const tw_kernel *k, const tw_ir_op *ir, int at, const uint64_t *arguments) {
    const tw_tensor_map *m = (const tw_tensor_map *)(uintptr_t)arguments[k->values[ir->operands[at].id].bits];
    return tw_tensor_map_valid(m) ? tw_tensor_element_bytes(m->element) : 1;
}

/* Finds the smallest access in each space. A tensor copy accesses single elements. */
static void granules(emu_code *c, const tw_kernel *k, const uint64_t *arguments) {
    for (int i = 0; i < TW_SPACES; i++) c->granule[i] = 4;
    for (int i = 0; i < c->n; i++) {
        const tw_ir_op *ir = c->ops[i].ir;
        if (!ir) continue;
        switch (ir->code) {
        case TW_OP_ld:
        case TW_OP_st:
        case TW_OP_red:
        case TW_OP_atom:
            narrow(c, ir->at.space, tw_type_bits((tw_type)ir->at.type) / 8 * (ir->at.vec ? ir->at.vec : 1));
            break;
        case TW_OP_cp_async:
            narrow(c, TW_SPACE_shared, ir->at.bytes);
            /* A copy with a source size may read any smaller number of bytes. */
            narrow(c, TW_SPACE_global, ir->n_operands > 2 ? 1 : ir->at.bytes);
            break;
        case TW_OP_tensor_load:
        case TW_OP_tensor_store:
        case TW_OP_tensor_reduce:
            narrow(c, TW_SPACE_global, element_of(k, ir, ir->code == TW_OP_tensor_load, arguments));
            break;
        case TW_OP_mbarrier_init:
            narrow(c, TW_SPACE_shared, 8);
            break;
        default:
            break;
        }
    }
}

bool emu_flatten(emu_code *code, tw_arena *arena, const tw_kernel *k, const uint64_t *arguments, bool wide_vectors) {
    flattener f = {.code = code, .arena = arena, .kernel = k};
    f.scalars = wide_vectors ? emu_scalars_avx2 : emu_scalars_c;
    f.lives = tw_arena_array(arena, (size_t)k->n_values, sizeof *f.lives);
    code->room = 256;
    code->ops = tw_arena_array(arena, (size_t)code->room, sizeof *code->ops);
    code->too_deep = too_deep(&k->body, 0);
    if (arena->failed || code->too_deep) return false;
    for (int i = 0; i < k->n_values; i++) f.lives[i] = (life){.from = -1, .to = -1, .loop = -1, .variable = -1};
    note_accumulators(&f, &k->body);
    block(&f, &k->body);
    close(&f, 0, code->n);
    int end = add(&f, NULL, emu_end);
    if (arena->failed) return false;
    code->ops[end].end = end;
    f.lives[0].ref = (emu_ref){.at = ~0};
    constants(&f, arguments);
    allocate(&f);
    if (arena->failed) return false;
    emu_loads_find(code, arena, k);
    if (arena->failed) return false;
    resolve(&f);
    granules(code, k, arguments);
    return true;
}
