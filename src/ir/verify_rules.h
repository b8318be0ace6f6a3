/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the verifier share: verify.c walks the kernel and checks what the table alone says; verify_ops.c
   has a function for every operation whose rules go beyond its signature. */
#ifndef TW_IR_VERIFY_RULES_H
#define TW_IR_VERIFY_RULES_H

#include "base/diag.h"
#include "ir/ir.h"

/* Nesting that everything which walks a kernel recursively can rely on. */
enum { TW_VERIFY_DEPTH = 64 };

typedef struct tw_ints {
    int *at;
    int n, room;
} tw_ints;

typedef enum tw_value_state { TW_UNSEEN, TW_VISIBLE, TW_OUT_OF_SCOPE } tw_value_state;

#define TW_ALLOWED_KNOWN 0x80000000u

typedef struct tw_verifier {
    const tw_kernel *k;
    int target;
    tw_diag *diag;
    int findings;
    bool out_of_memory;
    /* Of each value: where the walk is relative to its scope, whether a variable is assigned on every path to here, and
       a mark for joining branches. */
    uint8_t *state;
    bool *assigned;
    int *mark;
    int marks;
    tw_ints live;                 /* visible registers and variables, innermost last */
    tw_ints log;                  /* variables in the order in which they became assigned on this path */
    tw_ints branch;               /* those that a branch assigned, while the other one is walked */
    bool unreachable;             /* nothing gets here: after an exit */
    bool warps;                   /* some operation needs whole warps */
    uint32_t allowed[TW_OPCODES]; /* attributes, a bit each, and TW_ALLOWED_KNOWN; 0 before the first of its kind */
    /* Where the walk is. */
    struct {
        const tw_ir_op *op;
        int index, block;
    } place[TW_VERIFY_DEPTH + 1];
    int depth;
} tw_verifier;

/* One more finding, at the operation where the walk is (the kernel itself when it is at none). */
void tw_verify_find(tw_verifier *v, const char *fmt, ...) TW_PRINTF(2, 3);

/* The rules of one operation beyond its signature, which holds by now. */
void tw_verify_op(tw_verifier *v, const tw_ir_op *op);

#endif
