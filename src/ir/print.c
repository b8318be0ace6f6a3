/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/text.h"
#include "ir/value.h"

#include <inttypes.h>
#include <stdlib.h>

/* Constants whose bits say little to a reader, explained at the end of their line. */
enum { EXPLAINED = 8 };

typedef struct printer {
    tw_buf *out;
    const tw_kernel *k;
    int *number; /* of each register and variable, in order of appearance; 0: not seen yet */
    int numbers;
    int indent;
    tw_val explain[EXPLAINED];
    int n_explain;
} printer;

static void start_line(printer *p) {
    for (int i = 0; i < p->indent; i++) tw_buf_add(p->out, "    ", 4);
}

/* -- values */

static void print_constant(printer *p, tw_val v) {
    const tw_ir_value *x = &p->k->values[v.id];
    if (tw_type_is_float(x->type)) {
        tw_buf_printf(p->out, "0x%0*" PRIx64 ":%s", tw_type_bits(x->type) / 4, x->bits, tw_type_name(x->type));
        bool known = false;
        for (int i = 0; i < p->n_explain; i++) {
            const tw_ir_value *other =
                &p->k->values[p->explain[i].id]; /* not by id: equal constants may be two values */
            known |= other->type == x->type && other->bits == x->bits;
        }
        if (!known && x->bits && p->n_explain < EXPLAINED) p->explain[p->n_explain++] = v;
        return;
    }
    int64_t number = x->type == TW_T_i64   ? (int64_t)x->bits
                     : x->type == TW_T_i32 ? (int32_t)(uint32_t)x->bits
                     : x->type == TW_T_i16 ? (int16_t)(uint16_t)x->bits
                                           : (int64_t)x->bits;
    tw_buf_printf(p->out, "%" PRId64 ":%s", number, tw_type_name(x->type));
}

static void explain(printer *p, tw_val v) {
    const tw_ir_value *x = &p->k->values[v.id];
    uint32_t low = (uint32_t)x->bits;
    switch (x->type) {
    case TW_T_f16:
        tw_buf_printf(p->out, " %.9g", (double)tw_f16_to_f32((uint16_t)low));
        break;
    case TW_T_bf16:
        tw_buf_printf(p->out, " %.9g", (double)tw_bf16_to_f32((uint16_t)low));
        break;
    case TW_T_f16x2:
        tw_buf_printf(p->out, " (%.9g, %.9g)", (double)tw_f16_to_f32((uint16_t)low),
                      (double)tw_f16_to_f32((uint16_t)(low >> 16)));
        break;
    case TW_T_bf16x2:
        tw_buf_printf(p->out, " (%.9g, %.9g)", (double)tw_bf16_to_f32((uint16_t)low),
                      (double)tw_bf16_to_f32((uint16_t)(low >> 16)));
        break;
    case TW_T_f32:
        tw_buf_printf(p->out, " %.9g", (double)tw_read_f32(low));
        break;
    default:
        tw_buf_printf(p->out, " %.17g", tw_read_f64(x->bits));
    }
}

/* The comment of a line, and its end. */
static void end_line(printer *p) {
    if (p->n_explain) tw_buf_str(p->out, "  #");
    for (int i = 0; i < p->n_explain; i++) explain(p, p->explain[i]);
    p->n_explain = 0;
    tw_buf_str(p->out, "\n");
}

/* A register or variable by its number, and by its name too where it has one. */
static void print_numbered(printer *p, tw_val v) {
    const tw_ir_value *x = &p->k->values[v.id];
    if (!p->number[v.id]) p->number[v.id] = ++p->numbers;
    tw_buf_printf(p->out, "%c%d", x->kind == TW_V_VARIABLE ? '$' : '%', p->number[v.id]);
    if (x->name) tw_buf_printf(p->out, ".%s", x->name);
}

static void print_operand(printer *p, tw_val v) {
    if (v.id <= 0 || v.id >= p->k->n_values) {
        tw_buf_str(p->out, "_");
        return;
    }
    const tw_ir_value *x = &p->k->values[v.id];
    if (x->kind == TW_V_CONSTANT)
        print_constant(p, v);
    else if (x->kind == TW_V_PARAMETER)
        tw_buf_printf(p->out, "@%s", x->name ? x->name : "");
    else
        print_numbered(p, v);
}

/* The first time with its type. */
static void print_result(printer *p, tw_val v) {
    bool first = v.id > 0 && v.id < p->k->n_values && !p->number[v.id];
    print_operand(p, v);
    if (first) tw_buf_printf(p->out, ":%s", tw_type_name(tw_value_type(p->k, v)));
}

/* -- operations */

static void print_quoted(printer *p, const char *s) {
    tw_buf_str(p->out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            tw_buf_printf(p->out, "\\%c", c);
        else if (c < 32 || c > 126)
            tw_buf_printf(p->out, "\\x%02x", c);
        else
            tw_buf_add(p->out, s, 1);
    }
    tw_buf_str(p->out, "\"");
}

static void print_attributes(printer *p, const tw_ir_op *op) {
    const char *before = "(";
    for (int i = 0; i < TW_ATTRS; i++) {
        int32_t x = tw_attr_get(&op->at, i);
        /* What says which operation it is stands there even where it is the default. */
        bool always = (i == TW_ATTR_sreg || i == TW_ATTR_mode || i == TW_ATTR_rmw) && tw_op_allows(op->code, i);
        if (!x && !always) continue;
        const char *name = tw_attr_value_name(i, x);
        tw_buf_printf(p->out, "%s%s=", before, tw_attr_name(i));
        if (name)
            tw_buf_str(p->out, name);
        else
            tw_buf_printf(p->out, "%d", (int)x);
        before = " ";
    }
    if (op->name) {
        tw_buf_printf(p->out, "%sname=", before);
        print_quoted(p, op->name);
        before = " ";
    }
    if (*before == ' ') tw_buf_str(p->out, ")");
}

static void print_operands(printer *p, const tw_val *v, int n) {
    for (int i = 0; i < n; i++) {
        tw_buf_str(p->out, i ? ", " : " ");
        print_operand(p, v[i]);
    }
}

static void print_block(printer *p, const tw_block *block);

static void open_block(printer *p, const tw_block *block) {
    tw_buf_str(p->out, " {");
    end_line(p);
    p->indent++;
    print_block(p, block);
    p->indent--;
    start_line(p);
    tw_buf_str(p->out, "}");
}

/* Operands and blocks in the order in which they happen: a while's predicate after the block that computes it, a role's
   warps before its block. An empty else is left out. */
static void print_blocks(printer *p, const tw_ir_op *op) {
    int each = op->code == TW_OP_roles ? 2 : 0, at = op->code == TW_OP_while || each ? 0 : op->n_operands;
    print_operands(p, op->operands, at);
    for (int i = 0; i < op->n_blocks; i++) {
        if (op->code == TW_OP_if && i == 1) {
            if (!op->blocks[1].first) break;
            tw_buf_str(p->out, " else");
        }
        if (op->code == TW_OP_while && i == 1) tw_buf_str(p->out, " do");
        if (each || (op->code == TW_OP_while && i == 1)) {
            int n = each ? each : 1;
            if (n > op->n_operands - at) n = op->n_operands - at;
            print_operands(p, op->operands + at, n);
            at += n;
        }
        open_block(p, &op->blocks[i]);
    }
}

static void print_op(printer *p, const tw_ir_op *op) {
    start_line(p);
    for (int i = 0; i < op->n_results; i++) {
        if (i) tw_buf_str(p->out, ", ");
        print_result(p, op->results[i]);
    }
    if (op->n_results) tw_buf_str(p->out, " = ");
    tw_buf_str(p->out, tw_op_describe((tw_opcode)op->code)->name);
    print_attributes(p, op);
    if (op->n_blocks)
        print_blocks(p, op);
    else
        print_operands(p, op->operands, op->n_operands);
    if (op->guard.id) {
        tw_buf_str(p->out, op->guard_not ? " unless " : " when ");
        print_operand(p, op->guard);
    }
    end_line(p);
}

static void print_block(printer *p, const tw_block *block) {
    for (const tw_ir_op *op = block->first; op && !p->out->failed; op = op->next) print_op(p, op);
}

/* -- the kernel */

static void print_head(printer *p) {
    const tw_kernel *k = p->k;
    tw_buf_printf(p->out, "kernel %s\n    target %d\n    threads %d\n", k->name, k->target, k->threads);
    if (k->min_blocks) tw_buf_printf(p->out, "    min_blocks %d\n", k->min_blocks);
    if (k->max_registers) tw_buf_printf(p->out, "    max_registers %d\n", k->max_registers);
    if (k->cluster) tw_buf_printf(p->out, "    cluster %d\n", k->cluster);
    if (k->cooperative) tw_buf_str(p->out, "    cooperative\n");
    for (int i = 0; i < k->n_parameters; i++) {
        const tw_parameter *a = &k->parameters[i];
        if (a->map)
            tw_buf_printf(p->out, "    tensor_map %s\n", a->name);
        else if (a->pointer)
            tw_buf_printf(p->out, "    pointer %s align %d%s\n", a->name, a->align, a->read_only ? " read_only" : "");
        else
            tw_buf_printf(p->out, "    parameter %s %s\n", a->name, tw_type_name(a->type));
    }
    for (int i = 0; i < k->n_shared; i++) {
        const tw_shared *s = &k->shared[i];
        tw_buf_printf(p->out, "    shared %s %" PRId64 " align %d%s\n", s->name, s->bytes, s->align,
                      s->dynamic ? " dynamic" : "");
    }
}

bool tw_kernel_print(tw_buf *out, const tw_kernel *k) {
    printer p = {.out = out, .k = k, .indent = 1, .number = calloc((size_t)k->n_values, sizeof(int))};
    if (!p.number) return false;
    print_head(&p);
    tw_buf_str(out, "{\n");
    print_block(&p, &k->body);
    tw_buf_str(out, "}\n");
    free(p.number);
    return !out->failed;
}
