/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a kernel: its declarations, and its operations with their blocks. docs/ir.md has the grammar. */
#include "ir/parse_parts.h"
#include "ir/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TEXT = 64 << 20,
    MAX_ROLES = 32,
    MAX_DECLARATIONS = 1024 /* parameters, or shared objects */
};

/* -- operations */

typedef struct results {
    tw_ir_reference of[TW_IR_MAX_VALUES];
    tw_val v[TW_IR_MAX_VALUES];
    tw_type types[TW_IR_MAX_VALUES];
    bool fresh[TW_IR_MAX_VALUES];
    int n;
} results;

/* value [":" type] {"," ...} "=", the type where the value is new */
static void take_results(tw_ir_parser *p, results *r) {
    r->n = 0;
    do {
        if (p->now.kind != TW_IR_VALUE) {
            tw_ir_fail_expected(p, "a value like %3:i32");
            return;
        }
        if (r->n == TW_IR_MAX_VALUES) {
            TW_IR_FAIL(p, p->now, "more than %d results", TW_IR_MAX_VALUES);
            return;
        }
        int i = r->n++;
        if (!tw_ir_take_reference(p, &r->of[i])) return;
        const tw_ir_reference *of = &r->of[i];
        r->v[i] = tw_ir_find_value(p, of);
        r->fresh[i] = !r->v[i].id;
        if (tw_ir_accept(p, ":")) {
            if (!r->fresh[i])
                TW_IR_FAIL(p, of->t, "'%.*s' is defined above: assign without a type", TW_IR_SHOWN(of->t));
            r->types[i] = tw_ir_take_type(p);
        } else if (r->fresh[i]) {
            TW_IR_FAIL(p, of->t, "'%.*s' is new here and needs its type, like %.*s:i32", TW_IR_SHOWN(of->t),
                       TW_IR_SHOWN(of->t));
        } else if (!of->variable) {
            TW_IR_FAIL(p, of->t, "register '%.*s' is assigned twice; a variable is written with $", TW_IR_SHOWN(of->t));
        }
    } while (tw_ir_accept(p, ","));
    tw_ir_expect(p, "=");
}

/* Distance of two words by letters put in, left out or exchanged. */
static int distance(const char *a, const char *b) {
    int row[64], n = (int)strlen(b);
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 0; a[i]; i++) {
        int before = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            int exchanged = before + (a[i] != b[j]), best = row[j] < row[j + 1] ? row[j] : row[j + 1];
            before = row[j + 1];
            row[j + 1] = exchanged < best + 1 ? exchanged : best + 1;
        }
    }
    return row[n];
}

static int take_opcode(tw_ir_parser *p) {
    const tw_ir_token t = p->now;
    if (t.kind != TW_IR_WORD) {
        tw_ir_fail_expected(p, "an operation");
        return -1;
    }
    tw_ir_word w = tw_ir_word_of(&t);
    int code = tw_opcode_from_name(w.text), nearest = 0;
    if (code >= 0) {
        tw_ir_next_token(p);
        return code;
    }
    for (int i = 1; i < TW_OPCODES; i++)
        if (distance(w.text, tw_op_describe((tw_opcode)i)->name) <
            distance(w.text, tw_op_describe((tw_opcode)nearest)->name))
            nearest = i;
    TW_IR_FAIL(p, t, "there is no operation '%.*s'; %s is one", TW_IR_SHOWN(t),
               tw_op_describe((tw_opcode)nearest)->name);
    return -1;
}

static void fail_attribute_value(tw_ir_parser *p, int attr) {
    char list[256] = "";
    size_t n = 0;
    for (int i = 0; tw_attr_value_name(attr, i) && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", tw_attr_value_name(attr, i));
    TW_IR_FAIL(p, p->now, "'%.*s' is no %s: %s", TW_IR_SHOWN(p->now), tw_attr_name(attr), list);
}

/* "(" {name "=" value} ")" */
static void take_attributes(tw_ir_parser *p, tw_attrs *at, const char **name) {
    *at = (tw_attrs){0};
    *name = NULL;
    if (!tw_ir_accept(p, "(")) return;
    while (p->status == TW_OK && !tw_ir_token_is(&p->now, ")")) {
        const tw_ir_token t = p->now;
        tw_ir_word w = tw_ir_word_of(&t);
        int attr = 0;
        if (t.kind != TW_IR_WORD) {
            tw_ir_fail_expected(p, "an attribute, or ')'");
            return;
        }
        tw_ir_next_token(p);
        tw_ir_expect(p, "=");
        if (!strcmp(w.text, "name")) {
            *name = tw_ir_take_string(p);
            continue;
        }
        while (attr < TW_ATTRS && strcmp(tw_attr_name(attr), w.text)) attr++;
        if (attr == TW_ATTRS) {
            TW_IR_FAIL(p, t, "there is no attribute '%.*s'; attrs.def lists them", TW_IR_SHOWN(t));
            return;
        }
        int32_t x = 0;
        if (!tw_attr_value_name(attr, 0)) {
            x = (int32_t)tw_ir_take_integer(p, INT32_MIN, INT32_MAX);
        } else if (p->now.kind == TW_IR_WORD && tw_attr_value_from_name(attr, tw_ir_word_of(&p->now).text, &x)) {
            tw_ir_next_token(p);
        } else {
            fail_attribute_value(p, attr);
            return;
        }
        tw_attr_set(at, attr, x);
    }
    tw_ir_expect(p, ")");
}

static void take_guard(tw_ir_parser *p, tw_opcode code) {
    const tw_ir_token t = p->now;
    bool when = tw_ir_accept(p, "when");
    if (!when && !tw_ir_accept(p, "unless")) return;
    if (!(tw_op_describe(code)->flags & TW_F_GUARD)) {
        TW_IR_FAIL(p, t, "%s cannot carry a guard; an if around it can", tw_op_describe(code)->name);
        return;
    }
    p->b.guard = tw_ir_take_operand(p);
    p->b.guard_not = !when;
}

static void take_op(tw_ir_parser *p);

static void take_block(tw_ir_parser *p, tw_block *block) {
    const tw_ir_token t = p->now;
    tw_ir_expect(p, "{");
    tw_ir_end_of_line(p);
    if (p->b.depth == TW_BUILDER_DEPTH) TW_IR_FAIL(p, t, "blocks are nested deeper than %d", TW_BUILDER_DEPTH);
    if (p->status != TW_OK) return;
    p->b.open[p->b.depth++] = block;
    while (p->status == TW_OK && !tw_ir_token_is(&p->now, "}")) take_op(p);
    p->b.depth--;
    tw_ir_expect(p, "}");
}

/* The blocks of an operation that was emitted, with the operands that stand among them: op->operands has room. */
static void take_blocks(tw_ir_parser *p, tw_ir_op *op) {
    static const uint16_t counts[TW_OPCODES] = {[TW_OP_if] = 2, [TW_OP_while] = 2, [TW_OP_for] = 1};
    int room = op->code == TW_OP_roles ? MAX_ROLES : counts[op->code];
    op->blocks = tw_arena_array(&p->k->arena, (size_t)room, sizeof *op->blocks);
    if (!op->blocks) {
        tw_ir_fail_memory(p);
        return;
    }
    for (int i = 0; i < room; i++) op->blocks[i].owner = op;
    op->n_blocks = counts[op->code];
    switch (op->code) {
    case TW_OP_if:
        take_block(p, &op->blocks[0]);
        if (tw_ir_accept(p, "else")) take_block(p, &op->blocks[1]);
        return;
    case TW_OP_while:
        take_block(p, &op->blocks[0]);
        tw_ir_expect(p, "do");
        op->operands[0] = tw_ir_take_operand(p);
        op->n_operands = 1;
        take_block(p, &op->blocks[1]);
        return;
    case TW_OP_roles:
        do {
            if (op->n_blocks == MAX_ROLES) {
                TW_IR_FAIL(p, p->now, "more than %d roles", MAX_ROLES);
                return;
            }
            op->operands[op->n_operands++] = tw_ir_take_operand(p);
            tw_ir_expect(p, ",");
            op->operands[op->n_operands++] = tw_ir_take_operand(p);
            take_block(p, &op->blocks[op->n_blocks++]);
        } while (p->status == TW_OK && tw_ir_at_operand(p));
        return;
    default:
        take_block(p, &op->blocks[0]);
    }
}

static void define_results(tw_ir_parser *p, const results *r) {
    for (int i = 0; i < r->n; i++)
        if (r->fresh[i] && p->status == TW_OK) tw_ir_define_value(p, &r->of[i], r->v[i]);
}

/* [results "="] name ["(" attributes ")"] [operands] [("when" | "unless") value] end of line */
static void take_op(tw_ir_parser *p) {
    results r;
    r.n = 0;
    tw_val operands[TW_IR_MAX_VALUES] = {{0}};
    tw_attrs at;
    const char *name;
    if (p->now.kind == TW_IR_VALUE) take_results(p, &r);
    if (p->status != TW_OK) return;
    int code = take_opcode(p);
    if (code < 0) return;
    bool blocks = tw_op_describe((tw_opcode)code)->flags & TW_F_BLOCKS,
         among = code == TW_OP_while || code == TW_OP_roles;
    take_attributes(p, &at, &name);
    int n = among ? 0 : tw_ir_take_operands(p, operands);
    if (!blocks) take_guard(p, (tw_opcode)code);
    if (p->status != TW_OK) return;
    tw_ir_op *op = tw_emit(&p->b, (tw_opcode)code, at, r.v, r.types, r.n, operands, among ? TW_IR_MAX_VALUES : n);
    if (!op) {
        tw_ir_fail_memory(p);
        return;
    }
    op->n_operands = (uint16_t)n;
    op->name = name;
    define_results(p, &r);
    if (blocks && p->status == TW_OK) take_blocks(p, op);
    tw_ir_end_of_line(p);
    if (tw_kernel_failed(p->k)) tw_ir_fail_memory(p);
}

/* -- the kernel */

static char *take_name(tw_ir_parser *p, const char *what) {
    if (p->now.kind != TW_IR_WORD) {
        tw_ir_fail_expected(p, what);
        return NULL;
    }
    char *name = tw_arena_strndup(&p->k->arena, p->now.at, p->now.n);
    if (!name) tw_ir_fail_memory(p);
    tw_ir_next_token(p);
    return p->status == TW_OK ? name : NULL;
}

static void take_declaration(tw_ir_parser *p, bool pointer) {
    const tw_ir_token t = p->now;
    const char *name = take_name(p, "the name of a parameter");
    if (pointer) tw_ir_expect(p, "align");
    int align = pointer ? (int)tw_ir_take_integer(p, 1, 1 << 20) : 0;
    bool read_only = pointer && tw_ir_accept(p, "read_only");
    tw_type type = pointer ? TW_T_i64 : tw_ir_take_type(p);
    if (p->k->n_parameters == MAX_DECLARATIONS) TW_IR_FAIL(p, t, "more than %d parameters", MAX_DECLARATIONS);
    for (int i = 0; name && i < p->k->n_parameters; i++)
        if (p->k->parameters[i].name && !strcmp(name, p->k->parameters[i].name))
            TW_IR_FAIL(p, t, "two parameters are called %.40s", name);
    if (p->status != TW_OK) return;
    if (pointer)
        tw_pointer_add(&p->b, name, align, read_only);
    else
        tw_parameter_add(&p->b, name, type);
}

static void take_map(tw_ir_parser *p) {
    const tw_ir_token t = p->now;
    const char *name = take_name(p, "the name of a tensor map");
    if (p->k->n_parameters == MAX_DECLARATIONS) TW_IR_FAIL(p, t, "more than %d parameters", MAX_DECLARATIONS);
    for (int i = 0; name && i < p->k->n_parameters; i++)
        if (p->k->parameters[i].name && !strcmp(name, p->k->parameters[i].name))
            TW_IR_FAIL(p, t, "two parameters are called %.40s", name);
    if (p->status == TW_OK) tw_map_add(&p->b, name);
}

static void take_shared(tw_ir_parser *p) {
    const tw_ir_token t = p->now;
    const char *name = take_name(p, "the name of a shared object");
    int64_t bytes = tw_ir_take_integer(p, 1, 1 << 30);
    tw_ir_expect(p, "align");
    int align = (int)tw_ir_take_integer(p, 1, 1 << 20);
    bool dynamic = tw_ir_accept(p, "dynamic");
    if (p->k->n_shared == MAX_DECLARATIONS) TW_IR_FAIL(p, t, "more than %d shared objects", MAX_DECLARATIONS);
    if (p->status == TW_OK && tw_kernel_shared_find(p->k, name))
        TW_IR_FAIL(p, t, "two shared objects are called %.40s", name);
    if (p->status == TW_OK) tw_shared_add(&p->b, name, bytes, align, dynamic);
}

static void take_directive(tw_ir_parser *p) {
    struct {
        const char *name;
        int *to;
    } numbers[] = {{"target", &p->k->target},
                   {"threads", &p->k->threads},
                   {"min_blocks", &p->k->min_blocks},
                   {"max_registers", &p->k->max_registers},
                   {"cluster", &p->k->cluster}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (tw_ir_accept(p, numbers[i].name)) {
            *numbers[i].to = (int)tw_ir_take_integer(p, 0, 1 << 20);
            return;
        }
    if (tw_ir_accept(p, "cooperative"))
        p->k->cooperative = true;
    else if (tw_ir_accept(p, "parameter"))
        take_declaration(p, false);
    else if (tw_ir_accept(p, "pointer"))
        take_declaration(p, true);
    else if (tw_ir_accept(p, "tensor_map"))
        take_map(p);
    else if (tw_ir_accept(p, "shared"))
        take_shared(p);
    else
        tw_ir_fail_expected(
            p, "target, threads, min_blocks, max_registers, cluster, cooperative, parameter, pointer, tensor_map, "
               "shared or '{'");
}

static void take_kernel(tw_ir_parser *p) {
    tw_ir_skip_lines(p);
    tw_ir_expect(p, "kernel");
    const char *name = take_name(p, "the name of a kernel");
    if (name) p->k->name = name;
    tw_ir_end_of_line(p);
    while (p->status == TW_OK && !tw_ir_token_is(&p->now, "{")) {
        take_directive(p);
        tw_ir_end_of_line(p);
        if (tw_kernel_failed(p->k)) tw_ir_fail_memory(p);
    }
    tw_ir_expect(p, "{");
    tw_ir_end_of_line(p);
    while (p->status == TW_OK && !tw_ir_token_is(&p->now, "}")) take_op(p);
    tw_ir_expect(p, "}");
    tw_ir_skip_lines(p);
    if (p->status == TW_OK && p->now.kind != TW_IR_END) tw_ir_fail_expected(p, "the end of the text");
}

tw_status tw_kernel_parse(tw_kernel **out, const char *text, size_t size, const char *path, tw_diag *diag) {
    *out = NULL;
    tw_diag_clear(diag);
    if (size > MAX_TEXT) return tw_fail(diag, TW_ERR_FORMAT, "a kernel of more than %d MiB", MAX_TEXT >> 20);
    tw_ir_parser p = {.path = path ? path : "", .diag = diag, .line = 1, .text = text, .end = text + size, .at = text};
    p.line_start = text;
    p.k = tw_kernel_new("", 80, 0);
    if (!p.k) return tw_fail_memory(diag);
    p.b = tw_builder_of(p.k);
    tw_ir_next_token(&p);
    take_kernel(&p);
    free(p.table);
    if (p.status == TW_OK && tw_kernel_failed(p.k)) tw_ir_fail_memory(&p);
    if (p.status == TW_OK)
        *out = p.k;
    else
        tw_kernel_free(p.k);
    return p.status;
}
