/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose results are expressions of their operands' elements. */
#include "graph/program/lower.h"

enum { OPERANDS = 6 /* Of a formula, attributes included. */ };

typedef struct formula {
    const char *op;
    int n; /* Operands of the node. */
    const char *text;
    const char *attributes[2];
    double usual[2];
} formula;

static const formula formulas[] = {
#define FORMULA(OP, N, TEXT)                   {#OP, N, TEXT, {"", ""}, {0}},
#define PARAMETERS(OP, TEXT, A, OF_A, B, OF_B) {#OP, 1, TEXT, {A, B}, {OF_A, OF_B}},
#define OF_U64(OP, N, TEXT)
#define OF_F64(OP, N, TEXT)
#include "graph/program/formulas.def"
};

static const formula formulas_of_u64[] = {
#define FORMULA(OP, N, TEXT)
#define PARAMETERS(OP, TEXT, A, OF_A, B, OF_B)
#define OF_U64(OP, N, TEXT) {#OP, N, TEXT, {"", ""}, {0}},
#define OF_F64(OP, N, TEXT)
#include "graph/program/formulas.def"
};

static const formula formulas_of_f64[] = {
#define FORMULA(OP, N, TEXT)
#define PARAMETERS(OP, TEXT, A, OF_A, B, OF_B)
#define OF_U64(OP, N, TEXT)
#define OF_F64(OP, N, TEXT) {#OP, N, TEXT, {"", ""}, {0}},
#include "graph/program/formulas.def"
};

/* What is under way: the result, and its operands' cells. */
typedef struct work {
    tw_lowering *l;
    const tw_node *n;
    tw_lazy to;
    int cells[TW_STEP_IN];
    tw_memory_type types[TW_STEP_IN];
    int count;
    bool stored; /* Operands are stored first, so that each is one source. */
} work;

/* Adds a constant of one element as a number. */
static int add_number(work *w, const tw_array *a) {
    const tw_kind kind = tw_element_kind(a->type);
    tw_cells *to = &w->to.cells;
    if (kind == TW_KIND_real)
        return tw_cells_number(to, a->type == TW_E_f64 ? TW_CLASS_double : TW_CLASS_real, tw_array_real(a, 0));
    return kind == TW_KIND_truth ? tw_cells_truth(to, tw_array_integer(a, 0) != 0)
                                 : tw_cells_integer(to, tw_array_integer(a, 0));
}

static bool add_operand(work *w, int value) {
    const tw_value *v = value < 0 ? NULL : tw_lower_of(w->l, value);
    int *cell = &w->cells[w->count];
    tw_view unused;
    if (!v || w->count == TW_STEP_IN || !tw_memory_of(v->type, &w->types[w->count])) return false;
    w->count++;
    if (v->content && tw_array_elements(v->content) == 1) return (*cell = add_number(w, v->content)) >= 0;
    if (w->stored && !tw_lower_in_memory(w->l, value, &unused)) return false;
    const tw_lazy *x = tw_lower_take(w->l, value);
    return x && (*cell = tw_lazy_add(&w->to, x)) >= 0;
}

/* Adds a formula's cells, whose operands are cells that are there. Returns the value's. */
static int add_formula(work *w, const char *text) {
    tw_cells f = {0}, *to = &w->to.cells;
    int at[TW_CELLS] = {0};
    if (tw_cells_parse(&f, text, w->types, w->count, NULL) != TW_OK) return -1;
    for (int i = 0; i < f.n; i++) {
        const tw_cell *c = &f.of[i];
        if (c->op == TW_CELL_operand)
            at[i] = w->cells[c->of[0]];
        else if (c->op == TW_CELL_number)
            at[i] = tw_cells_constant(to, c);
        else
            at[i] = tw_cells_apply(to, (tw_cell_op)c->op, at[c->of[0]], at[c->of[1]], at[c->of[2]]);
        if (at[i] < 0) return -1;
    }
    return at[f.value];
}

/* Keeps the lower bits that an integer has in its type. */
static int wrap(work *w, int cell) {
    const tw_kind kind = tw_element_kind(w->to.type);
    tw_cell_op op;
    if ((kind != TW_KIND_integer && kind != TW_KIND_natural) || tw_element_bits(w->to.type) == 64) return cell;
    return tw_cell_from_name(tw_element_name(w->to.type), &op) ? tw_cells_apply(&w->to.cells, op, cell, -1, -1) : -1;
}

static bool set(work *w, int cell) {
    if (cell < 0 || w->to.cells.failed) return false;
    w->to.cells.value = cell;
    tw_lower_set(w->l, w->n->out[0], &w->to);
    return true;
}

static bool by_formula(work *w, const formula *f) {
    for (int i = 0; i < f->n; i++)
        if (i >= w->n->n_in || !add_operand(w, w->n->in[i])) return false;
    for (int i = 0; i < 2 && *f->attributes[i]; i++) {
        const bool wide = w->types[0] == TW_M_f64;
        w->types[w->count] = wide ? TW_M_f64 : TW_M_f32;
        w->cells[w->count++] = tw_cells_number(&w->to.cells, wide ? TW_CLASS_double : TW_CLASS_real,
                                               tw_node_real(w->n, f->attributes[i], f->usual[i]));
    }
    return set(w, wrap(w, add_formula(w, f->text)));
}

/* Powers that are products or roots. */
static bool real_power(work *w) {
    static const struct {
        double exponent;
        const char *formula;
    } simple[] = {{2, "mul(x0,x0)"}, {3, "mul(x0,mul(x0,x0))"}, {0.5, "sqrt(x0)"}, {-0.5, "rsqrt(x0)"}, {1, "x0"}};
    const tw_value *exponent = tw_lower_of(w->l, w->n->in[1]);
    const tw_array *by = exponent->content;
    if (!add_operand(w, w->n->in[0])) return false;
    for (size_t i = 0; i < sizeof simple / sizeof *simple && by && tw_array_elements(by) == 1; i++)
        if (tw_array_real(by, 0) == simple[i].exponent) return set(w, add_formula(w, simple[i].formula));
    if (!add_operand(w, w->n->in[1])) return false;
    const int real = tw_lazy_cast(&w->to, w->cells[1], exponent->type, TW_E_f32);
    return set(w, tw_cells_apply(&w->to.cells, TW_CELL_pow, w->cells[0], real, -1));
}

/* Computes the power of an integer with a real exponent. It is exact where the exponent is whole. Elsewhere the real
   power loses its fraction, or becomes the nearest integer if it is within rounding errors of that. */
static int mixed_power(work *w, tw_element type) {
    tw_cells *c = &w->to.cells;
    w->types[2] = TW_M_f32;
    w->cells[2] = tw_lazy_cast(&w->to, w->cells[0], type, TW_E_f32);
    w->count = 3;
    const int power = add_formula(w, "c0=pow(x2,real(x1));c1=round(c0);"
                                     "where(less_equal(abs(sub(c0,c1)),mul(abs(c1),3.81469727e-6)),c1,c0)");
    const int near = power < 0 ? -1 : tw_lazy_cast(&w->to, power, TW_E_f32, type);
    const int exact = add_formula(w, "powi(x0,integer(x1))"), whole = add_formula(w, "equal(floor(x1),x1)");
    return tw_cells_apply(c, TW_CELL_where, whole, exact, near);
}

static bool power(work *w) {
    const tw_element type = w->to.type;
    const tw_kind kind = tw_element_kind(type), by = tw_element_kind(tw_lower_of(w->l, w->n->in[1])->type);
    if (kind == TW_KIND_real) return real_power(w);
    if (kind == TW_KIND_truth) return false;
    if (by == TW_KIND_real && !w->l->options.gpu) return false; /* The plain node computes in f64. */
    if (!add_operand(w, w->n->in[0]) || !add_operand(w, w->n->in[1])) return false;
    return set(w, wrap(w, by == TW_KIND_real ? mixed_power(w, type) : add_formula(w, "powi(x0,integer(x1))")));
}

/* Maps u64 to i64 so that the order stays, or i64 back to u64. Other types stay as they are. */
static int ordered(work *w, int cell) {
    tw_cells *c = &w->to.cells;
    return w->types[0] == TW_M_u64 ? tw_cells_apply(c, TW_CELL_bit_xor, cell, tw_cells_integer(c, INT64_MIN), -1)
                                   : cell;
}

/* Min, Max, Sum and Mean of any number of operands. */
static bool several(work *w, const char *op) {
    tw_cell_op by;
    if (!tw_cell_from_name(op, &by)) return false;
    for (int i = 0; i < w->n->n_in; i++)
        if (!add_operand(w, w->n->in[i])) return false;
    const bool order = by != TW_CELL_add;
    int cell = w->count ? w->cells[0] : -1;
    if (order && cell >= 0) cell = ordered(w, cell);
    for (int i = 1; i < w->count && cell >= 0; i++)
        cell = tw_cells_apply(&w->to.cells, by, cell, order ? ordered(w, w->cells[i]) : w->cells[i], -1);
    if (order && cell >= 0) cell = ordered(w, cell);
    if (tw_is_op(w->n, "", "Mean") && cell >= 0)
        cell = tw_cells_apply(&w->to.cells, TW_CELL_div, cell, tw_cells_like(&w->to.cells, cell, w->count), -1);
    return set(w, wrap(w, cell));
}

static bool cast(work *w) {
    tw_memory_type type;
    if (!tw_memory_of(w->to.type, &type) || !add_operand(w, w->n->in[0])) return false;
    const tw_class class = tw_memory_class(type);
    if (tw_memory_class(w->types[0]) == class && tw_class_is_real(class)) return set(w, w->cells[0]);
    return set(w, wrap(w, tw_lazy_cast(&w->to, w->cells[0], tw_lower_of(w->l, w->n->in[0])->type, w->to.type)));
}

static bool clip(work *w) {
    static const tw_cell_op ops[] = {0, TW_CELL_max, TW_CELL_min};
    if (tw_node_attribute(w->n, "min") || tw_node_attribute(w->n, "max") || !add_operand(w, w->n->in[0])) return false;
    int cell = ordered(w, w->cells[0]);
    for (int i = 1; i < w->n->n_in && i < 3; i++) {
        if (w->n->in[i] < 0) continue;
        if (!add_operand(w, w->n->in[i])) return false;
        cell = tw_cells_apply(&w->to.cells, ops[i], cell, ordered(w, w->cells[w->count - 1]), -1);
    }
    return set(w, ordered(w, cell));
}

/* Gelu of the standard and of Microsoft, whose others have a bias. */
static bool gelu(work *w) {
    const bool tanh = !strcmp(tw_node_text(w->n, "approximate", "none"), "tanh") || !strcmp(w->n->op, "FastGelu");
    if (!add_operand(w, w->n->in[0])) return false;
    const bool bias = w->n->n_in > 1 && w->n->in[1] >= 0;
    if (bias && !add_operand(w, w->n->in[1])) return false;
    return set(w, add_formula(w, bias ? (tanh ? "gelu(add(x0,x1))" : "gelu_erf(add(x0,x1))")
                                      : (tanh ? "gelu(x0)" : "gelu_erf(x0)")));
}

static const formula *find(const formula *all, size_t n, const char *op) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].op, op)) return &all[i];
    return NULL;
}

/* Finds the formula that an operator has for operands of one type alone. NULL: there is none. */
static const formula *find_own(tw_element type, const char *op) {
    return type == TW_E_u64   ? find(formulas_of_u64, sizeof formulas_of_u64 / sizeof *formulas_of_u64, op)
           : type == TW_E_f64 ? find(formulas_of_f64, sizeof formulas_of_f64 / sizeof *formulas_of_f64, op)
                              : NULL;
}

static bool lower(work *w) {
    const char *op = w->n->op;
    const formula *by = find_own(tw_lower_of(w->l, w->n->in[0])->type, op);
    const bool own = !strcmp(w->n->domain, "com.microsoft");
    if (!strcmp(op, "Gelu") || (own && (!strcmp(op, "FastGelu") || !strcmp(op, "BiasGelu")))) return gelu(w);
    if (!strcmp(op, "Pow")) return power(w);
    if (!strcmp(op, "Min")) return several(w, "min");
    if (!strcmp(op, "Max")) return several(w, "max");
    if (!strcmp(op, "Sum") || !strcmp(op, "Mean")) return several(w, "add");
    if (!strcmp(op, "Cast") || !strcmp(op, "CastLike")) return cast(w);
    if (!strcmp(op, "Clip")) return clip(w);
    if (by) return by_formula(w, by);
    if (!strcmp(op, "Mod")) {
        const formula f = {"Mod", 2, tw_node_integer(w->n, "fmod", 0) ? "rem(x0,x1)" : "mod(x0,x1)", {"", ""}, {0}};
        return by_formula(w, &f);
    }
    if (!strcmp(op, "BitShift")) {
        const bool left = !strcmp(tw_node_text(w->n, "direction", ""), "LEFT");
        const formula f = {"BitShift", 2, left ? "shl(x0,x1)" : "shr(x0,x1)", {"", ""}, {0}};
        return by_formula(w, &f);
    }
    if (!strcmp(op, "IsInf")) {
        const bool low = tw_node_integer(w->n, "detect_negative", 1),
                   high = tw_node_integer(w->n, "detect_positive", 1);
        const formula f = {"IsInf",
                           1,
                           low && high ? "equal(abs(x0),inf)"
                           : high      ? "equal(x0,inf)"
                           : low       ? "equal(x0,neg(inf))"
                                       : "and(isnan(x0),not(isnan(x0)))",
                           {"", ""},
                           {0}};
        return by_formula(w, &f);
    }
    by = find(formulas, sizeof formulas / sizeof *formulas, op);
    return by && by_formula(w, by);
}

bool tw_lower_elementwise(tw_lowering *l, const tw_node *n) {
    if (n->n_out != 1 || !n->n_in || n->in[0] < 0) return false;
    if (*n->domain && strcmp(n->domain, "ai.onnx") && strcmp(n->domain, "com.microsoft")) return false;
    const tw_value *v = tw_lower_of(l, n->out[0]);
    tw_memory_type type;
    if (!tw_memory_of(v->type, &type)) return false;
    for (int stored = 0; stored < 2 && !l->failed; stored++) { /* Stored operands need less room in an expression. */
        work w = {.l = l, .n = n, .to = tw_lazy_begin(v->type, v->rank, v->dims), .stored = stored};
        if (lower(&w)) return true;
    }
    return false;
}
