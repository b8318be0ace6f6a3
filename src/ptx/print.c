/* SPDX-License-Identifier: Apache-2.0 */
/* The module around a kernel, its registers, and the lines that operations are printed as. */
#include "ptx/print.h"
#include "device/tensor_map.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    char letter;
    const char *ptx;
} classes[TW_PTX_CLASSES] = {{'p', "pred"}, {'h', "b16"}, {'r', "b32"}, {'d', "b64"}, {'f', "f32"}, {'g', "f64"}};

static int class_of_type(tw_type t) {
    static const int by_type[TW_T_COUNT] = {
        [TW_T_pred] = TW_PTX_P,   [TW_T_i8] = TW_PTX_R,  [TW_T_i16] = TW_PTX_H,  [TW_T_i32] = TW_PTX_R,
        [TW_T_i64] = TW_PTX_D,    [TW_T_f16] = TW_PTX_H, [TW_T_bf16] = TW_PTX_H, [TW_T_f16x2] = TW_PTX_R,
        [TW_T_bf16x2] = TW_PTX_R, [TW_T_f32] = TW_PTX_F, [TW_T_f64] = TW_PTX_G,
    };
    return by_type[t];
}

/* -- registers. A scratch one is a negative value that holds its class and number. */

tw_val tw_ptx_scratch(tw_ptx_printer *p, tw_type t) {
    int class = class_of_type(t);
    return (tw_val){-(++p->registers[class] * TW_PTX_CLASSES + class)};
}

static void register_of(tw_ptx_printer *p, tw_val v, int *class, int *number) {
    if (v.id < 0) {
        *class = -v.id % TW_PTX_CLASSES;
        *number = -v.id / TW_PTX_CLASSES;
        return;
    }
    *class = class_of_type(p->k->values[v.id].type);
    if (!p->number[v.id]) p->number[v.id] = ++p->registers[*class];
    *number = p->number[v.id];
}

tw_type tw_ptx_type(const tw_ptx_printer *p, tw_val v) {
    static const tw_type of_class[] = {TW_T_pred, TW_T_i16, TW_T_i32, TW_T_i64, TW_T_f32, TW_T_f64};
    return v.id < 0 ? of_class[-v.id % TW_PTX_CLASSES] : p->k->values[v.id].type;
}

int tw_ptx_label(tw_ptx_printer *p) {
    return ++p->labels;
}

void tw_ptx_unsupported(tw_ptx_printer *p, const char *what) {
    if (p->status != TW_OK) return;
    const char *name = tw_op_describe((tw_opcode)p->op->code)->name;
    p->status = tw_fail(p->diag, TW_ERR_UNSUPPORTED, "%s: %s has no %s%s%s", p->k->name, p->target->name, name,
                        *what ? " " : "", what);
}

/* -- text */

static void add_int(tw_buf *b, int64_t x) {
    char text[24], *at = text + sizeof text;
    uint64_t rest = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (x < 0) *--at = '-';
    tw_buf_add(b, at, (size_t)(text + sizeof text - at));
}

static void add_hex(tw_buf *b, const char *prefix, uint64_t x, int digits) {
    char text[20];
    tw_buf_str(b, prefix);
    for (int i = digits; i-- > 0; x >>= 4) text[i] = "0123456789ABCDEF"[x & 15];
    tw_buf_add(b, text, (size_t)digits);
}

/* A name of ours as a PTX identifier; what PTX does not allow becomes '_'. The caller makes it unique. */
static void add_identifier(tw_buf *b, const char *name) {
    for (; *name; name++) {
        char c = isalnum((unsigned char)*name) || *name == '$' ? *name : '_';
        tw_buf_add(b, &c, 1);
    }
}

static void add_numbered(tw_buf *b, char letter, int i, const char *name) {
    tw_buf_add(b, &letter, 1);
    add_int(b, i);
    tw_buf_add(b, "_", 1);
    add_identifier(b, name);
}

static void add_register(tw_ptx_printer *p, tw_buf *b, tw_val v) {
    int class, number;
    register_of(p, v, &class, &number);
    tw_buf_add(b, (char[]){'%', classes[class].letter}, 2);
    add_int(b, number);
}

static void add_literal(tw_buf *b, tw_type t, uint64_t bits) {
    switch (t) {
    case TW_T_f32:
        add_hex(b, "0f", bits, 8);
        break;
    case TW_T_f64:
        add_hex(b, "0d", bits, 16);
        break;
    case TW_T_i8:
    case TW_T_i32:
        add_int(b, (int32_t)bits);
        break;
    case TW_T_i64:
        if ((int64_t)bits >= INT32_MIN && (int64_t)bits <= UINT32_MAX)
            add_int(b, (int64_t)bits);
        else
            add_hex(b, "0x", bits, 16);
        break;
    case TW_T_pred:
        add_int(b, (int64_t)bits);
        break;
    default:
        add_hex(b, "0x", bits, tw_type_bits(t) / 4);
    }
}

static bool is_constant(const tw_ptx_printer *p, tw_val v) {
    return v.id > 0 && p->k->values[v.id].kind == TW_V_CONSTANT;
}

/* PTX takes no literals of predicates, nor of 16 bits and pairs, among an instruction's operands. */
static bool takes_literal(tw_type t) {
    return t == TW_T_i32 || t == TW_T_i64 || t == TW_T_f32 || t == TW_T_f64;
}

static void indent(tw_ptx_printer *p, tw_buf *b) {
    static const char spaces[] = "                                ";
    int n = 4 * p->depth;
    tw_buf_add(b, spaces, (size_t)(n < 32 ? n : 32));
}

static const char *move_of(tw_type t) {
    static const char *const moves[] = {"mov.pred ", "mov.b16 ", "mov.b32 ", "mov.b64 ", "mov.f32 ", "mov.f64 "};
    return moves[class_of_type(t)];
}

static void add_move(tw_ptx_printer *p, tw_val d, tw_val constant) {
    const tw_ir_value *v = &p->k->values[constant.id];
    indent(p, &p->body);
    tw_buf_str(&p->body, move_of(v->type));
    add_register(p, &p->body, d);
    tw_buf_str(&p->body, ", ");
    add_literal(&p->body, v->type, v->bits);
    tw_buf_str(&p->body, ";\n");
}

static void add_in_register(tw_ptx_printer *p, tw_val v) {
    if (is_constant(p, v)) {
        tw_val t = tw_ptx_scratch(p, p->k->values[v.id].type);
        add_move(p, t, v);
        v = t;
    }
    add_register(p, &p->line, v);
}

static void add_operand(tw_ptx_printer *p, tw_val v) {
    if (is_constant(p, v) && takes_literal(p->k->values[v.id].type))
        add_literal(&p->line, p->k->values[v.id].type, p->k->values[v.id].bits);
    else
        add_in_register(p, v);
}

static void add_list(tw_ptx_printer *p, const tw_val *v, int n, bool braces) {
    if (braces) tw_buf_add(&p->line, "{", 1);
    for (int i = 0; i < n; i++) {
        if (i) tw_buf_add(&p->line, ", ", 2);
        add_in_register(p, v[i]);
    }
    if (braces) tw_buf_add(&p->line, "}", 1);
}

static void add_argument(tw_ptx_printer *p, char kind, va_list *ap) {
    const tw_val *list;
    tw_val v;
    int n;
    switch (kind) {
    case 'v':
        add_operand(p, va_arg(*ap, tw_val));
        break;
    case 'r':
        add_in_register(p, va_arg(*ap, tw_val));
        break;
    case 'c':
        v = va_arg(*ap, tw_val);
        if (!v.id) break;
        tw_buf_add(&p->line, ", ", 2);
        add_operand(p, v);
        break;
    case 'B':
    case 'V':
        list = va_arg(*ap, const tw_val *);
        n = va_arg(*ap, int);
        add_list(p, list, n, kind == 'B' || n > 1);
        break;
    case 'l':
        tw_buf_add(&p->line, "$L", 2);
        add_int(&p->line, va_arg(*ap, int));
        break;
    case 'o':
        if (!(n = va_arg(*ap, int))) break;
        tw_buf_add(&p->line, "+", 1);
        add_int(&p->line, n);
        break;
    case 'd':
        add_int(&p->line, va_arg(*ap, int));
        break;
    case 'n':
        n = va_arg(*ap, int);
        add_numbered(&p->line, 's', n, p->k->shared[n].name);
        break;
    default:
        tw_buf_str(&p->line, va_arg(*ap, const char *));
    }
}

static void begin_line(tw_ptx_printer *p) {
    tw_buf_clear(&p->line);
    if (p->bare || !p->op->guard.id) return;
    tw_buf_str(&p->line, p->op->guard_not ? "@!" : "@");
    add_in_register(p, p->op->guard);
    tw_buf_add(&p->line, " ", 1);
}

static void end_line(tw_ptx_printer *p) {
    p->body.failed |= p->line.failed;
    if (p->body.failed || !p->line.size) return;
    if (p->line.data[p->line.size - 1] != ':') indent(p, &p->body);
    tw_buf_add(&p->body, p->line.data, p->line.size);
    tw_buf_add(&p->body, "\n", 1);
}

void tw_ptx_line(tw_ptx_printer *p, const char *format, ...) {
    va_list ap;
    begin_line(p);
    va_start(ap, format);
    for (const char *end; *format; format = end) {
        if (*format == '%') {
            end = format + 2;
            add_argument(p, format[1], &ap);
            continue;
        }
        end = format + strcspn(format, "%");
        tw_buf_add(&p->line, format, (size_t)(end - format));
    }
    va_end(ap);
    end_line(p);
}

void tw_ptx_move(tw_ptx_printer *p, tw_val d, tw_val a) {
    if (!is_constant(p, a)) {
        tw_ptx_line(p, "%s%r, %r;", move_of(tw_ptx_type(p, d)), d, a);
        return;
    }
    begin_line(p);
    tw_buf_str(&p->line, move_of(tw_ptx_type(p, d)));
    add_register(p, &p->line, d);
    tw_buf_str(&p->line, ", ");
    add_literal(&p->line, p->k->values[a.id].type, p->k->values[a.id].bits);
    tw_buf_str(&p->line, ";");
    end_line(p);
}

static bool is_result(const tw_ir_op *op, tw_val v) {
    for (int i = 0; i < op->n_results; i++)
        if (op->results[i].id == v.id) return true;
    return false;
}

void tw_ptx_zero_results(tw_ptx_printer *p, const tw_ir_op *op, tw_val *operands, int n) {
    static const char *const zeros[] = {"0", "0", "0", "0", "0f00000000", "0d0000000000000000"};
    if (!op->guard.id) return;
    p->bare = true;
    for (int i = 0; i < n; i++)
        if (is_result(op, operands[i])) {
            tw_val copy = tw_ptx_scratch(p, tw_ptx_type(p, operands[i]));
            tw_ptx_move(p, copy, operands[i]);
            operands[i] = copy;
        }
    for (int i = 0; i < op->n_results; i++) {
        tw_type t = tw_ptx_type(p, op->results[i]);
        tw_ptx_line(p, "%s%r, %s;", move_of(t), op->results[i], zeros[class_of_type(t)]);
    }
    p->bare = false;
}

/* -- what the entry computes once, when something uses it */

tw_val tw_ptx_warp(tw_ptx_printer *p) {
    if (!p->warp.id) p->warp = tw_ptx_scratch(p, TW_T_i32);
    return p->warp;
}

tw_val tw_ptx_policy(tw_ptx_printer *p, int cache) {
    if (cache != TW_CACHE_evict_first && cache != TW_CACHE_evict_last) return TW_NONE;
    if (!p->policy[cache].id) p->policy[cache] = tw_ptx_scratch(p, TW_T_i64);
    return p->policy[cache];
}

/* -- operations */

static void emit_scalar(tw_ptx_printer *p, const tw_ir_op *op) {
    const char *ptx = tw_op_describe((tw_opcode)op->code)->ptx, *dollar = strchr(ptx, '$');
    begin_line(p);
    if (!dollar) {
        tw_buf_str(&p->line, ptx);
        tw_buf_add(&p->line, " ", 1);
        add_register(p, &p->line, op->results[0]);
        for (int i = 0; i < op->n_operands; i++) {
            tw_buf_add(&p->line, ", ", 2);
            add_operand(p, op->operands[i]);
        }
        tw_buf_add(&p->line, ";", 1);
    }
    /* Whole lines name operands where no literal may stand. */
    for (; dollar; ptx = dollar + 2, dollar = strchr(ptx, '$')) {
        tw_buf_add(&p->line, ptx, (size_t)(dollar - ptx));
        add_in_register(p, dollar[1] == 'd' ? op->results[0] : op->operands[dollar[1] - 'a']);
        if (!strchr(dollar + 2, '$')) tw_buf_str(&p->line, dollar + 2);
    }
    end_line(p);
}

typedef void emitter(tw_ptx_printer *p, const tw_ir_op *op);
static emitter *const emitters[TW_OPCODES] = {
#define OP(name, ...)  [TW_OP_##name] = emit_scalar,
#define MOP(name, ...) [TW_OP_##name] = tw_ptx_emit_##name,
#include "ir/ops.def"
#undef OP
#undef MOP
};

void tw_ptx_block(tw_ptx_printer *p, const tw_block *block) {
    const tw_ir_op *outer = p->op;
    p->depth++;
    for (const tw_ir_op *op = block->first; op && p->status == TW_OK && !p->body.failed; op = op->next) {
        p->op = op;
        p->bare = false;
        if (tw_op_describe((tw_opcode)op->code)->sm > p->target->sm)
            tw_ptx_unsupported(p, "");
        else
            emitters[op->code](p, op);
    }
    p->op = outer;
    p->bare = false;
    p->depth--;
}

/* -- the module */

static bool is_identifier(const char *name) {
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '$') return false;
    return strcmp(name, "_") != 0;
}

static const char *parameter_type(tw_type t) {
    static const char *const spelled[] = {"b8", "b16", "b32", "b64", "f32", "f64"};
    return t == TW_T_i8 ? spelled[0] : spelled[class_of_type(t)];
}

static void add_parameters(tw_ptx_printer *p, tw_buf *out) {
    for (int i = 0; i < p->k->n_parameters; i++) {
        const tw_parameter *q = &p->k->parameters[i];
        if (q->map) {
            tw_buf_printf(out, "%s\n    .param .align 64 .b8 ", i ? "," : "");
            add_numbered(out, 'p', i, q->name);
            tw_buf_printf(out, "[%d]", TW_TENSOR_MAP_BYTES);
            continue;
        }
        tw_buf_printf(out, "%s\n    .param .%s%s ", i ? "," : "", parameter_type(q->type),
                      q->pointer ? " .ptr .global" : "");
        if (q->pointer && q->align > 1) tw_buf_printf(out, ".align %d ", q->align);
        add_numbered(out, 'p', i, q->name);
    }
}

static void add_directives(const tw_ptx_printer *p, tw_buf *out) {
    const tw_kernel *k = p->k;
    tw_buf_printf(out, "    .reqntid %d, 1, 1\n", k->threads);
    if (k->min_blocks) tw_buf_printf(out, "    .minnctapersm %d\n", k->min_blocks);
    if (k->max_registers) tw_buf_printf(out, "    .maxnreg %d\n", k->max_registers);
    if (k->cluster > 1) tw_buf_printf(out, "    .explicitcluster\n    .reqnctapercluster %d, 1, 1\n", k->cluster);
}

static void add_shared(tw_ptx_printer *p, tw_buf *out) {
    for (int i = 0; i < p->k->n_shared; i++) {
        const tw_shared *s = &p->k->shared[i];
        if (s->dynamic) {
            tw_buf_printf(out, "    // shared tw_dynamic+%" PRId64 ": ", p->offset[i]);
            add_identifier(out, s->name);
            tw_buf_printf(out, ", %" PRId64 " bytes\n", s->bytes);
            continue;
        }
        tw_buf_printf(out, "    .shared .align %d .b8 ", s->align);
        add_numbered(out, 's', i, s->name);
        tw_buf_printf(out, "[%" PRId64 "];\n", s->bytes);
    }
}

static void add_registers(const tw_ptx_printer *p, tw_buf *out) {
    for (int c = 0; c < TW_PTX_CLASSES; c++)
        if (p->registers[c])
            tw_buf_printf(out, "    .reg .%s %%%c<%d>;\n", classes[c].ptx, classes[c].letter, p->registers[c] + 1);
}

/* A copy takes a map by its generic address. */
static void add_map_address(tw_ptx_printer *p, int i, tw_buf *out) {
    const tw_parameter *q = &p->k->parameters[i];
    tw_buf_str(out, "    mov.b64 ");
    add_register(p, out, q->value);
    tw_buf_str(out, ", ");
    add_numbered(out, 'p', i, q->name);
    tw_buf_str(out, ";\n    cvta.param.u64 ");
    add_register(p, out, q->value);
    tw_buf_str(out, ", ");
    add_register(p, out, q->value);
    tw_buf_str(out, ";\n");
}

static void add_entry_values(tw_ptx_printer *p, tw_buf *out) {
    for (int i = 0; i < p->k->n_parameters; i++) {
        const tw_parameter *q = &p->k->parameters[i];
        if (q->map) {
            add_map_address(p, i, out);
            continue;
        }
        tw_buf_printf(out, "    ld.param.%s ", parameter_type(q->type));
        add_register(p, out, q->value);
        tw_buf_str(out, ", [");
        add_numbered(out, 'p', i, q->name);
        tw_buf_str(out, "];\n");
        if (!q->pointer) continue;
        tw_buf_str(out, "    cvta.to.global.u64 ");
        add_register(p, out, q->value);
        tw_buf_str(out, ", ");
        add_register(p, out, q->value);
        tw_buf_str(out, ";\n");
    }
    for (int i = 0; i < TW_CACHES; i++)
        if (p->policy[i].id) {
            tw_buf_printf(out, "    createpolicy.fractional.L2::%s.b64 ",
                          i == TW_CACHE_evict_first ? "evict_first" : "evict_last");
            add_register(p, out, p->policy[i]);
            tw_buf_str(out, ", 1.0;\n");
        }
    if (p->warp.id) {
        int n = -p->warp.id / TW_PTX_CLASSES;
        tw_buf_printf(out, "    mov.u32 %%r%d, %%tid.x;\n    shr.u32 %%r%d, %%r%d, 5;\n", n, n, n);
        /* Taken from one lane, ptxas knows that it is the same in all. A last warp that is not whole has no mask. */
        if (p->k->threads % 32 == 0) tw_buf_printf(out, "    shfl.sync.idx.b32 %%r%d, %%r%d, 0, 31, -1;\n", n, n);
    }
}

void tw_ptx_needs(tw_ptx_printer *p, int version) {
    if (version > p->version) p->version = version;
}

static void add_module(tw_ptx_printer *p, tw_buf *out) {
    const tw_kernel *k = p->k;
    char version[16];
    snprintf(version, sizeof version, "%d.%d", p->version / 10, p->version % 10);
    tw_buf_printf(out, ".version %s\n.target %s\n.address_size 64\n\n",
                  strcmp(version, p->target->ptx) > 0 ? version : p->target->ptx, p->target->name);
    if (p->dynamic_bytes) tw_buf_str(out, ".extern .shared .align 1024 .b8 tw_dynamic[];\n\n");
    tw_buf_printf(out, ".visible .entry %s(", k->name);
    add_parameters(p, out);
    tw_buf_str(out, ")\n");
    add_directives(p, out);
    tw_buf_str(out, "{\n");
    add_shared(p, out);
    add_registers(p, out);
    tw_buf_str(out, "\n");
    add_entry_values(p, out);
    tw_buf_add(out, p->body.data, p->body.size);
    tw_buf_str(out, "    ret;\n}\n");
}

/* As tw_kernel_shared_layout, which writes into the kernel. */
static void lay_out_shared(tw_ptx_printer *p) {
    for (int i = 0; i < p->k->n_shared; i++) {
        const tw_shared *s = &p->k->shared[i];
        if (!s->dynamic) continue;
        p->offset[i] = (p->dynamic_bytes + s->align - 1) / s->align * s->align;
        p->dynamic_bytes = p->offset[i] + s->bytes;
    }
}

static tw_status print(tw_ptx_printer *p, tw_buf *out) {
    const tw_kernel *k = p->k;
    size_t size = out->size;
    if (tw_kernel_failed(k)) return tw_fail_memory(p->diag);
    if (!is_identifier(k->name))
        return tw_fail(p->diag, TW_ERR_UNSUPPORTED, "%s: PTX does not take this name", k->name);
    if (k->cluster > 1 && p->target->sm < 90)
        return tw_fail(p->diag, TW_ERR_UNSUPPORTED, "%s: %s has no clusters", k->name, p->target->name);
    p->number = calloc((size_t)k->n_values, sizeof *p->number);
    p->offset = calloc((size_t)k->n_shared + 1, sizeof *p->offset);
    if (!p->number || !p->offset) return tw_fail_memory(p->diag);
    lay_out_shared(p);
    int class, number;
    for (int i = 0; i < k->n_parameters; i++) register_of(p, k->parameters[i].value, &class, &number);
    tw_ptx_block(p, &k->body);
    if (p->status != TW_OK) return p->status;
    if (!p->body.failed) add_module(p, out);
    if (!p->body.failed && !out->failed) return TW_OK;
    if (size < out->size) out->data[out->size = size] = 0;
    return tw_fail_memory(p->diag);
}

tw_status tw_ptx_print(tw_buf *out, const tw_kernel *k, const tw_target *target, tw_diag *diag) {
    tw_ptx_printer p = {.k = k, .target = target, .diag = diag};
    tw_diag_clear(diag);
    tw_status st = print(&p, out);
    free(p.number);
    free(p.offset);
    tw_buf_free(&p.body);
    tw_buf_free(&p.line);
    return st;
}
