/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the printer: what the functions that print one operation each share. Nobody outside src/ptx includes this. */
#ifndef TW_PTX_PRINT_H
#define TW_PTX_PRINT_H

#include "base/diag.h"
#include "ptx/ptx.h"

/* PTX's register classes, named as their registers are: %p0, %h0, ... */
enum { TW_PTX_P, TW_PTX_H, TW_PTX_R, TW_PTX_D, TW_PTX_F, TW_PTX_G, TW_PTX_CLASSES };

typedef struct tw_ptx_printer {
    tw_buf body; /* printed first: only then it is known how many registers there are, and what the entry computes */
    tw_buf line; /* being put together */
    const tw_kernel *k;
    const tw_target *target;
    tw_diag *diag;
    tw_status status;
    int *number; /* of the register that holds a value; 0: none yet */
    int registers[TW_PTX_CLASSES], labels, depth;
    int version;              /* The PTX version that the operations need: 83 is 8.3. 0: the target's will do. */
    const tw_ir_op *op;       /* being printed */
    bool bare;                /* its guard does not apply to the next lines */
    int64_t *offset;          /* of each shared object that is dynamic */
    int64_t dynamic_bytes;    /* of dynamic shared memory */
    tw_val policy[TW_CACHES]; /* L2 policies, made at the entry when one is used */
    tw_val warp;              /* the warp's number, likewise */
} tw_ptx_printer;

/* Prints one line, behind the guard of the operation being printed. In the format
     %v   a tw_val: an operand; constants are spelled out where PTX takes literals
     %r   a tw_val: a register; a constant is moved into one before the line
     %c   a tw_val: ", " and %v; nothing when there is none
     %B   const tw_val *, int: {registers}
     %V   the same, without the braces when it is one
     %l   int: a label          %o  int: bytes added to an address, nothing when 0
     %d   int                   %s  const char *
     %n   int: a static shared object's name, by its number
   stand for arguments. A line ends with what the format ends with: `;` or, for labels, `:`. */
void tw_ptx_line(tw_ptx_printer *p, const char *format, ...);

/* A register of no value; usable as a tw_val with this printer alone. */
tw_val tw_ptx_scratch(tw_ptx_printer *p, tw_type t);
int tw_ptx_label(tw_ptx_printer *p);
tw_type tw_ptx_type(const tw_ptx_printer *p, tw_val v);
/* d = a, of any type. */
void tw_ptx_move(tw_ptx_printer *p, tw_val d, tw_val a);
/* Zeroes the results of a guarded operation, as they stay where the guard does not hold. Those of the `n` operands that
   are a result too, which only variables can be, are first copied and then replaced. */
void tw_ptx_zero_results(tw_ptx_printer *p, const tw_ir_op *op, tw_val *operands, int n);
/* The warp's number in its block: the same register in all its lanes, and ptxas knows that. */
tw_val tw_ptx_warp(tw_ptx_printer *p);
/* The register with the L2 policy that goes with a cache attribute; none when none does. */
tw_val tw_ptx_policy(tw_ptx_printer *p, int cache);
void tw_ptx_block(tw_ptx_printer *p, const tw_block *block);

/* The target or PTX has nothing that does this; the first such is the printer's result. `what` follows the name of the
   operation. */
void tw_ptx_unsupported(tw_ptx_printer *p, const char *what);

/* Raises the module's PTX version to what an operation needs: 83 is 8.3. */
void tw_ptx_needs(tw_ptx_printer *p, int version);

/* How the type of a memory access is spelled: "b32", ... */
const char *tw_ptx_memory_type(int type);
/* Whether `scope` is one that the target knows. */
bool tw_ptx_scope(tw_ptx_printer *p, int scope);

/* One function an operation of ops.def's MOP rows. */
#define OP(name, ...)
#define MOP(name, ...) void tw_ptx_emit_##name(tw_ptx_printer *p, const tw_ir_op *op);
#include "ir/ops.def"
#undef OP
#undef MOP

#endif
