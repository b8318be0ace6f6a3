/* SPDX-License-Identifier: Apache-2.0 */
/* Building a kernel: a cursor that appends to the innermost open block. Misuse of types is our own bug and asserts;
   running out of memory sticks in the kernel. Operations on constants alone are computed at once, and x + 0, x * 1, ...
   fall away. */
#ifndef TW_IR_BUILDER_H
#define TW_IR_BUILDER_H

#include "ir/ir.h"

enum { TW_BUILDER_DEPTH = 32 };

typedef struct tw_builder {
    tw_kernel *kernel;
    tw_block *open[TW_BUILDER_DEPTH]; /* Open blocks, the innermost last. */
    int serials[TW_BUILDER_DEPTH];    /* Their handles' serials. */
    int depth, opened;
    tw_val guard; /* taken by the next operation that is emitted, then none again */
    bool guard_not;
} tw_builder;

tw_builder tw_builder_of(tw_kernel *k);

/* Declarations. Names are copied. */
tw_val tw_parameter_add(tw_builder *b, const char *name, tw_type type);
tw_val tw_pointer_add(tw_builder *b, const char *name, int align, bool read_only);
tw_val tw_map_add(tw_builder *b, const char *name); /* a tensor map */
void tw_shared_add(tw_builder *b, const char *name, int64_t bytes, int align, bool dynamic);
tw_val tw_shared_base(tw_builder *b, const char *name); /* the address of a shared object */

/* Constants. */
tw_val tw_const(tw_builder *b, tw_type t, uint64_t bits);
tw_val tw_i32(tw_builder *b, int32_t x);
tw_val tw_i64(tw_builder *b, int64_t x);
tw_val tw_f32(tw_builder *b, float x);
tw_val tw_f64(tw_builder *b, double x);
tw_val tw_zero(tw_builder *b, tw_type t); /* of any type */

/* Variables. */
tw_val tw_var(tw_builder *b, tw_type t); /* nothing assigned yet */
tw_val tw_var_of(tw_builder *b, tw_val initial);
void tw_assign(tw_builder *b, tw_val variable, tw_val value);

/* The next operation happens only where `p` holds (or, tw_unless, does not). */
void tw_when(tw_builder *b, tw_val p);
void tw_unless(tw_builder *b, tw_val p);

/* A scalar operation by its code; absent operands are TW_NONE. tw_op_to assigns a variable. */
tw_val tw_op_emit(tw_builder *b, tw_opcode code, tw_val x, tw_val y, tw_val z);
tw_val tw_unary(tw_builder *b, tw_opcode code, tw_val x);
tw_val tw_binary(tw_builder *b, tw_opcode code, tw_val x, tw_val y);
void tw_op_to(tw_builder *b, tw_val variable, tw_opcode code, tw_val x, tw_val y, tw_val z);
/* Any operation: results are made (results[i].id == 0) or, where given, variables that are assigned. `types` are
 * theirs. */
tw_ir_op *tw_emit(tw_builder *b, tw_opcode code, tw_attrs at, tw_val *results, const tw_type *types, int n_results,
                  const tw_val *operands, int n_operands);

/* Arithmetic by the operands' type: i32, i64, f32, f64, f16, f16x2 where ops.def has it. */
tw_val tw_add(tw_builder *b, tw_val x, tw_val y);
void tw_add_to(tw_builder *b, tw_val variable, tw_val x); /* variable = variable + x */
tw_val tw_sub(tw_builder *b, tw_val x, tw_val y);
tw_val tw_mul(tw_builder *b, tw_val x, tw_val y);           /* low half for integers */
tw_val tw_fma(tw_builder *b, tw_val x, tw_val y, tw_val z); /* mad for i32 */
tw_val tw_min(tw_builder *b, tw_val x, tw_val y);           /* signed for integers */
tw_val tw_max(tw_builder *b, tw_val x, tw_val y);
tw_val tw_and(tw_builder *b, tw_val x, tw_val y); /* integers, predicates */
tw_val tw_or(tw_builder *b, tw_val x, tw_val y);
tw_val tw_xor(tw_builder *b, tw_val x, tw_val y);
tw_val tw_not(tw_builder *b, tw_val x);
tw_val tw_shl(tw_builder *b, tw_val x, int by);
tw_val tw_shr(tw_builder *b, tw_val x, int by);  /* unsigned */
tw_val tw_lt(tw_builder *b, tw_val x, tw_val y); /* signed for integers */
tw_val tw_le(tw_builder *b, tw_val x, tw_val y);
tw_val tw_eq(tw_builder *b, tw_val x, tw_val y);
tw_val tw_ne(tw_builder *b, tw_val x, tw_val y);
/* With constants that make it cheap: x / d and x % d of a non-negative i32. */
tw_val tw_div(tw_builder *b, tw_val x, int d);
tw_val tw_rem(tw_builder *b, tw_val x, int d);
tw_val tw_add_imm(tw_builder *b, tw_val x, int64_t y);
tw_val tw_mul_imm(tw_builder *b, tw_val x, int64_t y);
tw_val tw_widen(tw_builder *b, tw_val x); /* i32 to i64, signed */
tw_val tw_select(tw_builder *b, tw_val p, tw_val yes, tw_val no);
tw_val tw_bitcast(tw_builder *b, tw_type t, tw_val x);
tw_val tw_sreg(tw_builder *b, int sreg);

/* Memory: see the attributes of ld, st, atom and red in ops.def. `at.type` and `at.vec` say what is moved. */
tw_val tw_ld(tw_builder *b, tw_attrs at, tw_val address);
void tw_ld_vec(tw_builder *b, tw_attrs at, tw_val address, tw_val *out);      /* at.vec results */
void tw_st(tw_builder *b, tw_attrs at, tw_val address, const tw_val *values); /* at.vec of them (0: one) */
tw_val tw_atom(tw_builder *b, tw_attrs at, tw_val address, tw_val x, tw_val y);
void tw_red(tw_builder *b, tw_attrs at, tw_val address, const tw_val *values);
void tw_cp_async(tw_builder *b, tw_attrs at, tw_val to_shared, tw_val from_global, tw_val source_bytes);

/* Anything without results whose operands are listed; absent ones TW_NONE. */
void tw_do(tw_builder *b, tw_opcode code, tw_attrs at, tw_val x, tw_val y);
/* Anything with one result. */
tw_val tw_get(tw_builder *b, tw_opcode code, tw_attrs at, tw_type t, tw_val x, tw_val y);

/* Matrices. d may be c: the accumulators are then variables that are assigned. */
void tw_mma(tw_builder *b, tw_mma_kind kind, tw_val *d, const tw_val *a, const tw_val *x, const tw_val *c);
void tw_ldmatrix(tw_builder *b, int count, bool trans, tw_val address, int offset, tw_val *out); /* i32 registers */
/* `acc` has tw_wgmma_registers() variables. The product starts from zeros where `add` is false. A of tw_wgmma_rs is
   four variables. */
void tw_wgmma(tw_builder *b, tw_attrs at, tw_val *acc, tw_val a, tw_val x, tw_val add);
void tw_wgmma_rs(tw_builder *b, tw_attrs at, tw_val *acc, const tw_val a[4], tw_val x, tw_val add);
void tw_tensor_load(tw_builder *b, int ranks, tw_val to, tw_val map, tw_val x, tw_val y, tw_val mbarrier,
                    tw_val policy);
/* A box of a tensor map: its coordinates, innermost first, and the offsets of a load with im2col. */
typedef struct tw_box {
    tw_val map, at[5], offset[3];
} tw_box;
/* Attributes: dims (0 means 2), im2col, and for loads ranks. tw_tensor_reduce also needs rmw and type. */
void tw_tensor_load_box(tw_builder *b, tw_attrs at, tw_val to, const tw_box *box, tw_val mbarrier, tw_val policy);
void tw_tensor_store(tw_builder *b, tw_attrs at, const tw_box *box, tw_val from, tw_val policy);
void tw_tensor_reduce(tw_builder *b, tw_attrs at, const tw_box *box, tw_val from, tw_val policy);
void tw_tensor_prefetch_box(tw_builder *b, tw_attrs at, const tw_box *box, tw_val policy);
tw_val tw_shfl(tw_builder *b, int mode, tw_val x, tw_val lane, tw_val mask);

/* An open block. Operations are appended to the innermost open block, which is closed by its handle. Closing another
   one asserts. */
typedef struct tw_scope {
    int depth, serial;
    tw_val i; /* The variable of tw_push_for. */
} tw_scope;

tw_scope tw_push_for(tw_builder *b, tw_val from, tw_val below, tw_val step, bool unroll);
tw_scope tw_push_if(tw_builder *b, tw_val p);
/* Goes on with what happens where the predicate of tw_push_if does not hold. */
void tw_push_else(tw_builder *b, tw_scope s);
/* Opens a loop. First comes the block that computes its predicate, then tw_push_while_body. */
tw_scope tw_push_while(tw_builder *b);
void tw_push_while_body(tw_builder *b, tw_scope s, tw_val p);
/* Opens `n` blocks, one for each warp role. Block i is for warps [ranges[2i], ranges[2i + 1]). tw_next_role goes from
   one block to the next. */
tw_scope tw_push_roles(tw_builder *b, const int *ranges, int n);
void tw_name_roles(tw_builder *b, tw_scope s, const char *names); /* A word for each role, for the profiler. */
void tw_next_role(tw_builder *b, tw_scope s);
void tw_pop(tw_builder *b, tw_scope s);

/* Blocks as statements of C, which close where the statement ends. Leaving one by `break`, `return` or `goto` asserts;
   `continue` ends the statement itself, and no loop around it.

       TW_FOR (b, i, from, below, step, false) {
           TW_IF (b, tw_lt(b, i, n)) {
               ...
           } else {
               ...
           }
       }

   TW_WHILE computes its predicate before each round. TW_LOOP closes the loop whose handle it is given, and names its
   variable; TW_BLOCK closes any block. Where a block is not always needed, TW_NO_BLOCK stands for none, and
   TW_NO_LOOP(x) for a loop of one round whose variable is x: the statement is then part of the block around. */
#define TW_NO_BLOCK                             ((tw_scope){0})
#define TW_NO_LOOP(at)                          ((tw_scope){.i = at})
#define TW_IF(b, p)                             TW_IF_(b, p, TW_NAMED_(branch, __LINE__))
#define TW_FOR(b, i, from, below, step, unroll) TW_LOOP (b, i, tw_push_for(b, from, below, step, unroll))
#define TW_WHILE(b, p)                          TW_WHILE_(b, p, TW_NAMED_(block, __LINE__))
#define TW_LOOP(b, i, scope)                    TW_LOOP_(b, i, scope, TW_NAMED_(block, __LINE__))
#define TW_BLOCK(b, scope)                      TW_BLOCK_(b, scope, TW_NAMED_(block, __LINE__))

/* The statements are C for loops. TW_IF's loop has two iterations, the second for `else`; the others have one. */
typedef struct tw_statement {
    tw_scope scope;
    int round; /* Iteration of the C for loop, from 1. 0: the IR block is closed. */
} tw_statement;
bool tw_next_branch(tw_builder *b, tw_statement *s);
void tw_end_statement(tw_builder *b, tw_statement *s);
void tw_check_statement(tw_statement *s); /* Asserts that the block is closed. */
#define TW_NAMED_(name, line)    TW_NAMED_AT_(name, line)
#define TW_NAMED_AT_(name, line) tw_##name##_at_##line
#define TW_STATEMENT_            __attribute__((cleanup(tw_check_statement))) tw_statement
#define TW_IF_(b, p, s)                                                                                                \
    for (TW_STATEMENT_ s = {tw_push_if(b, p), 1}; tw_next_branch(b, &s);)                                              \
        if (s.round == 2)
#define TW_BLOCK_(b, open, s) for (TW_STATEMENT_ s = {open, 1}; s.round; tw_end_statement(b, &s))
#define TW_LOOP_(b, name, open, s)                                                                                     \
    for (TW_STATEMENT_ s = {open, 1}; s.round; tw_check_statement(&s))                                                 \
        for (__attribute__((unused)) const tw_val name = s.scope.i; s.round; tw_end_statement(b, &s))
#define TW_WHILE_(b, p, s)                                                                                             \
    for (TW_STATEMENT_ s = {tw_push_while(b), 1}; s.round; tw_check_statement(&s))                                     \
        for (tw_push_while_body(b, s.scope, p); s.round; tw_end_statement(b, &s))

/* Records of the profiler. They cost nothing, and change no instruction, unless a pass lowers them (prof/lower.h).
   Names are copied. `engine` is TW_ENGINE_OF_*. */
void tw_record_begin(tw_builder *b, const char *region, int engine);
/* Ends a region or a wait of this name in the same block. */
void tw_record_end(tw_builder *b, const char *region);
/* Begins to wait for a channel. The thread's n-th wait is for the arrivals of number n - `lag`. `engine` is what is
   waited for. */
void tw_record_wait(tw_builder *b, const char *channel, int engine, int lag);
/* Arrives at a barrier, and waits for all its threads. */
void tw_record_meet(tw_builder *b, const char *channel);
void tw_record_mark(tw_builder *b, const char *name);
/* Arrives at a channel (TW_ARRIVAL_now), or issues work of an engine that arrives there when it is done: for whoever
   waits (TW_ARRIVAL_later), or for this thread alone (TW_ARRIVAL_own). */
void tw_record_arrive(tw_builder *b, const char *channel, int arrival, int engine);
void tw_record_value(tw_builder *b, const char *name, tw_val value); /* an i32 */

#endif
