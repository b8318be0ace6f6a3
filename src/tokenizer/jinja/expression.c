/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions, from the loosest binding to the tightest. */
#include "base/diag.h"
#include "tokenizer/jinja/jinja.h"

#include <string.h>

static uint16_t taller(uint16_t h, const jinja_node *n) {
    return n && n->height > h ? n->height : h;
}

/* Ends a node whose parts are there. A tree that is too high is refused, since it is walked recursively. */
static jinja_node *grown(jinja_parser *p, jinja_node *n) {
    uint16_t h = taller(taller(taller(0, n->a), n->b), n->c);
    for (size_t i = 0; i < n->list.n; i++) h = taller(h, n->list.v[i]);
    for (size_t i = 0; i < n->keywords.n; i++) h = taller(h, n->keywords.v[i]->a);
    h = taller(taller(h, n->rest), n->keyword_rest);
    n->height = (uint16_t)(h + 1);
    if (n->height > JINJA_HEIGHT)
        jinja_syntax(p, n->at, TW_ERR_UNSUPPORTED, "an expression nested more than %d deep", JINJA_HEIGHT);
    return n;
}

static jinja_node *binary(jinja_parser *p, jinja_type type, uint32_t at, jinja_node *a, jinja_node *b) {
    jinja_node *n = jinja_node_new(p, type, at);
    n->a = a;
    n->b = b;
    return grown(p, n);
}

static jinja_node *failed(jinja_parser *p) {
    return jinja_node_new(p, JN_CONST, jinja_now(p)->at);
}

static jinja_node *parse_unary(jinja_parser *p, bool with_filter);

static jinja_node *parse_pow(jinja_parser *p) {
    jinja_node *left = parse_unary(p, true);
    while (jinja_is_op(jinja_now(p), "**")) {
        uint32_t at = jinja_advance(p)->at;
        left = binary(p, JN_POW, at, left, parse_unary(p, true));
    }
    return left;
}

static jinja_node *parse_product(jinja_parser *p) {
    static const struct {
        const char *op;
        jinja_type type;
    } ops[] = {{"*", JN_MUL}, {"/", JN_DIV}, {"//", JN_FLOORDIV}, {"%", JN_MOD}};
    jinja_node *left = parse_pow(p);
    for (;;) {
        size_t i = 0;
        while (i < 4 && !jinja_is_op(jinja_now(p), ops[i].op)) i++;
        if (i == 4) return left;
        uint32_t at = jinja_advance(p)->at;
        left = binary(p, ops[i].type, at, left, parse_pow(p));
    }
}

static jinja_node *parse_concat(jinja_parser *p) {
    jinja_node *first = parse_product(p);
    if (!jinja_is_op(jinja_now(p), "~")) return first;
    jinja_node *n = jinja_node_new(p, JN_CONCAT, jinja_now(p)->at);
    jinja_nodes_push(p, &n->list, first);
    while (jinja_skip_op(p, "~")) jinja_nodes_push(p, &n->list, parse_product(p));
    return grown(p, n);
}

static jinja_node *parse_sum(jinja_parser *p) {
    jinja_node *left = parse_concat(p);
    for (;;) {
        bool plus = jinja_is_op(jinja_now(p), "+");
        if (!plus && !jinja_is_op(jinja_now(p), "-")) return left;
        uint32_t at = jinja_advance(p)->at;
        left = binary(p, plus ? JN_ADD : JN_SUB, at, left, parse_concat(p));
    }
}

/* Takes a comparison operator. -1: there is none here. */
static int comparison(jinja_parser *p) {
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (jinja_skip_op(p, ops[i])) return i;
    if (jinja_skip_name(p, "in")) return JO_IN;
    if (jinja_is_name(p, jinja_now(p), "not") && jinja_is_name(p, jinja_look(p), "in")) {
        jinja_advance(p);
        jinja_advance(p);
        return JO_NOTIN;
    }
    return -1;
}

static jinja_node *parse_compare(jinja_parser *p) {
    jinja_node *first = parse_sum(p), *n = NULL;
    for (;;) {
        uint32_t at = jinja_now(p)->at;
        int op = comparison(p);
        if (op < 0) return n ? grown(p, n) : first;
        if (!n) {
            n = jinja_node_new(p, JN_COMPARE, at);
            n->a = first;
        }
        jinja_node *operand = jinja_node_new(p, JN_OPERAND, at);
        operand->op = (uint8_t)op;
        operand->a = parse_sum(p);
        jinja_nodes_push(p, &n->list, grown(p, operand));
    }
}

static jinja_node *parse_not(jinja_parser *p) {
    if (!jinja_is_name(p, jinja_now(p), "not")) return parse_compare(p);
    uint32_t at = jinja_advance(p)->at;
    if (!jinja_enter(p, at)) return failed(p);
    jinja_node *n = jinja_node_new(p, JN_NOT, at);
    n->a = parse_not(p);
    p->depth--;
    return grown(p, n);
}

/* Parses operands that a keyword joins, from left to right. */
static jinja_node *parse_chain(jinja_parser *p, const char *word, jinja_type type,
                               jinja_node *operand(jinja_parser *)) {
    jinja_node *left = operand(p);
    while (jinja_is_name(p, jinja_now(p), word)) {
        uint32_t at = jinja_advance(p)->at;
        left = binary(p, type, at, left, operand(p));
    }
    return left;
}

static jinja_node *parse_and(jinja_parser *p) {
    return parse_chain(p, "and", JN_AND, parse_not);
}

static jinja_node *parse_or(jinja_parser *p) {
    return parse_chain(p, "or", JN_OR, parse_and);
}

static jinja_node *parse_inline_if(jinja_parser *p) {
    jinja_node *value = parse_or(p);
    while (jinja_is_name(p, jinja_now(p), "if")) {
        uint32_t at = jinja_advance(p)->at;
        if (!jinja_enter(p, at)) return failed(p);
        jinja_node *n = jinja_node_new(p, JN_IFELSE, at);
        n->a = value;
        n->b = parse_or(p);
        if (jinja_skip_name(p, "else")) n->c = parse_inline_if(p);
        p->depth--;
        value = grown(p, n);
    }
    return value;
}

jinja_node *jinja_parse_expression(jinja_parser *p, bool with_else) {
    if (!jinja_enter(p, jinja_now(p)->at)) return failed(p);
    jinja_node *n = with_else ? parse_inline_if(p) : parse_or(p);
    p->depth--;
    return n;
}

/* ---- primaries ---- */

static jinja_node *constant(jinja_parser *p, uint32_t at, jinja_value v) {
    jinja_node *n = jinja_node_new(p, JN_CONST, at);
    n->value = v;
    return n;
}

static jinja_node *parse_word(jinja_parser *p, bool with_namespace) {
    const jinja_token *t = jinja_advance(p);
    const char *word = p->t->names.v[t->name]->data;
    if (!strcmp(word, "true") || !strcmp(word, "True")) return constant(p, t->at, jinja_bool(true));
    if (!strcmp(word, "false") || !strcmp(word, "False")) return constant(p, t->at, jinja_bool(false));
    if (!strcmp(word, "none") || !strcmp(word, "None")) return constant(p, t->at, JINJA_NULL);
    jinja_node *n = jinja_node_new(p, JN_NAME, t->at);
    n->name = t->name;
    if (with_namespace && jinja_skip_op(p, ".")) {
        n->type = JN_NSREF;
        const jinja_token *attribute = jinja_now(p);
        if (attribute->type != JT_NAME)
            jinja_syntax(p, attribute->at, TW_ERR_FORMAT, "expected a name behind the dot");
        else
            n->value = (jinja_value){.kind = JINJA_STRING, .s = p->t->names.v[jinja_advance(p)->name]};
    }
    return n;
}

/* Adjacent string literals are joined into one, as in Python. */
static jinja_node *parse_text(jinja_parser *p) {
    const jinja_token *t = jinja_advance(p);
    jinja_node *n = constant(p, t->at, t->value);
    if (jinja_now(p)->type != JT_STRING) return n;
    tw_buf text = {0};
    tw_buf_add(&text, t->value.s->data, t->value.s->size);
    size_t chars = t->value.s->chars;
    while (jinja_now(p)->type == JT_STRING) {
        const jinja_string *s = jinja_advance(p)->value.s;
        tw_buf_add(&text, s->data, s->size);
        chars += s->chars;
    }
    jinja_string *s = tw_arena_alloc(&p->t->arena, sizeof *s);
    char *data = text.failed ? NULL : tw_arena_strndup(&p->t->arena, text.data ? text.data : "", text.size);
    if (!s || !data) {
        if (p->status == TW_OK) p->status = tw_fail_memory(p->diag);
    } else {
        *s = (jinja_string){.data = data, .size = text.size, .chars = chars};
        n->value = (jinja_value){.kind = JINJA_STRING, .s = s};
    }
    tw_buf_free(&text);
    return n;
}

static jinja_node *parse_list(jinja_parser *p) {
    jinja_node *n = jinja_node_new(p, JN_LIST, jinja_advance(p)->at);
    while (p->status == TW_OK && !jinja_is_op(jinja_now(p), "]")) {
        if (n->list.n) jinja_expect_op(p, ",");
        if (jinja_is_op(jinja_now(p), "]")) break;
        jinja_nodes_push(p, &n->list, jinja_parse_expression(p, true));
    }
    jinja_expect_op(p, "]");
    return grown(p, n);
}

static jinja_node *parse_dict(jinja_parser *p) {
    jinja_node *n = jinja_node_new(p, JN_DICT, jinja_advance(p)->at);
    while (p->status == TW_OK && !jinja_is_op(jinja_now(p), "}")) {
        if (n->list.n) jinja_expect_op(p, ",");
        if (jinja_is_op(jinja_now(p), "}")) break;
        jinja_nodes_push(p, &n->list, jinja_parse_expression(p, true));
        jinja_expect_op(p, ":");
        jinja_nodes_push(p, &n->list, jinja_parse_expression(p, true));
    }
    jinja_expect_op(p, "}");
    return grown(p, n);
}

jinja_node *jinja_parse_primary(jinja_parser *p, bool with_namespace) {
    const jinja_token *t = jinja_now(p);
    switch (t->type) {
    case JT_NAME:
        return parse_word(p, with_namespace);
    case JT_STRING:
        return parse_text(p);
    case JT_INT:
    case JT_FLOAT:
        return constant(p, t->at, jinja_advance(p)->value);
    default:
        break;
    }
    if (jinja_skip_op(p, "(")) {
        jinja_node *n = jinja_parse_tuple(p, (jinja_tuple_options){.parenthesised = true});
        jinja_expect_op(p, ")");
        return n;
    }
    if (jinja_is_op(t, "[")) return parse_list(p);
    if (jinja_is_op(t, "{")) return parse_dict(p);
    char now[80];
    jinja_syntax(p, t->at, TW_ERR_FORMAT, "expected an expression, not %s", jinja_describe(p, t, now, sizeof now));
    return failed(p);
}

static bool tuple_ends(const jinja_parser *p, const char *ends) {
    const jinja_token *t = jinja_now(p);
    return t->type == JT_PRINT_END || t->type == JT_BLOCK_END || t->type == JT_END || jinja_is_op(t, ")") ||
           (ends && jinja_is_name(p, t, ends));
}

jinja_node *jinja_parse_tuple(jinja_parser *p, jinja_tuple_options o) {
    uint32_t at = jinja_now(p)->at;
    jinja_node *n = jinja_node_new(p, JN_TUPLE, at);
    bool tuple = false;
    while (p->status == TW_OK) {
        if (n->list.n) jinja_expect_op(p, ",");
        if (tuple_ends(p, o.ends)) break;
        jinja_nodes_push(p, &n->list,
                         o.simplified ? jinja_parse_primary(p, o.with_namespace)
                                      : jinja_parse_expression(p, !o.without_else));
        if (!jinja_is_op(jinja_now(p), ",")) break;
        tuple = true;
    }
    if (!tuple) {
        if (n->list.n) return n->list.v[0];
        if (!o.parenthesised) {
            char now[80];
            jinja_syntax(p, jinja_now(p)->at, TW_ERR_FORMAT, "expected an expression, not %s",
                         jinja_describe(p, jinja_now(p), now, sizeof now));
        }
    }
    return grown(p, n);
}

/* ---- what follows a primary ---- */

static void parse_arguments(jinja_parser *p, jinja_node *n) {
    uint32_t at = jinja_now(p)->at;
    jinja_expect_op(p, "(");
    bool comma = false, good = true;
    while (p->status == TW_OK && !jinja_is_op(jinja_now(p), ")")) {
        if (comma) {
            jinja_expect_op(p, ",");
            if (jinja_is_op(jinja_now(p), ")")) break;
        }
        const jinja_token *t = jinja_now(p);
        if (jinja_skip_op(p, "*")) {
            good = good && !n->rest && !n->keyword_rest;
            n->rest = jinja_parse_expression(p, true);
        } else if (jinja_skip_op(p, "**")) {
            good = good && !n->keyword_rest;
            n->keyword_rest = jinja_parse_expression(p, true);
        } else if (t->type == JT_NAME && jinja_is_op(jinja_look(p), "=")) {
            good = good && !n->keyword_rest;
            jinja_node *k = jinja_node_new(p, JN_OPERAND, t->at);
            k->name = t->name;
            for (size_t i = 0; i < n->keywords.n; i++)
                if (n->keywords.v[i]->name == k->name)
                    jinja_syntax(p, t->at, TW_ERR_FORMAT, "an argument is given twice by name");
            jinja_advance(p);
            jinja_advance(p);
            k->a = jinja_parse_expression(p, true);
            jinja_nodes_push(p, &n->keywords, k);
            if (n->keywords.n > 255) jinja_syntax(p, t->at, TW_ERR_UNSUPPORTED, "more than 255 arguments by name");
        } else {
            good = good && !n->rest && !n->keyword_rest && !n->keywords.n;
            jinja_nodes_push(p, &n->list, jinja_parse_expression(p, true));
        }
        comma = true;
    }
    jinja_expect_op(p, ")");
    if (!good) jinja_syntax(p, at, TW_ERR_FORMAT, "the arguments are in the wrong order");
}

static jinja_node *parse_call(jinja_parser *p, jinja_node *callee) {
    jinja_node *n = jinja_node_new(p, JN_CALL, jinja_now(p)->at);
    n->a = callee;
    parse_arguments(p, n);
    return grown(p, n);
}

/* Parses an index or a slice. */
static jinja_node *parse_index(jinja_parser *p) {
    uint32_t at = jinja_now(p)->at;
    jinja_node *part[3] = {NULL, NULL, NULL};
    int k = 0;
    if (!jinja_is_op(jinja_now(p), ":")) {
        part[0] = jinja_parse_expression(p, true);
        if (!jinja_is_op(jinja_now(p), ":")) return part[0];
    }
    while (k < 2 && jinja_skip_op(p, ":")) {
        k++;
        const jinja_token *t = jinja_now(p);
        if (!jinja_is_op(t, ":") && !jinja_is_op(t, "]") && !jinja_is_op(t, ","))
            part[k] = jinja_parse_expression(p, true);
    }
    jinja_node *n = jinja_node_new(p, JN_SLICE, at);
    n->a = part[0];
    n->b = part[1];
    n->c = part[2];
    return grown(p, n);
}

static jinja_node *parse_subscript(jinja_parser *p, jinja_node *of) {
    const jinja_token *t = jinja_advance(p);
    jinja_node *n = jinja_node_new(p, JN_ITEM, t->at);
    n->a = of;
    if (jinja_is_op(t, ".")) {
        const jinja_token *name = jinja_now(p);
        if (name->type == JT_NAME) {
            n->type = JN_ATTRIBUTE;
            n->at = name->at;
            n->value = (jinja_value){.kind = JINJA_STRING, .s = p->t->names.v[jinja_advance(p)->name]};
        } else if (name->type == JT_INT)
            n->b = constant(p, name->at, jinja_advance(p)->value);
        else
            jinja_syntax(p, name->at, TW_ERR_FORMAT, "expected a name or a number behind the dot");
        return grown(p, n);
    }
    jinja_node *list = jinja_node_new(p, JN_TUPLE, t->at);
    while (p->status == TW_OK && !jinja_is_op(jinja_now(p), "]")) {
        if (list->list.n) jinja_expect_op(p, ",");
        jinja_nodes_push(p, &list->list, parse_index(p));
    }
    jinja_expect_op(p, "]");
    n->b = list->list.n == 1 ? list->list.v[0] : grown(p, list);
    for (size_t i = 0; list->list.n > 1 && i < list->list.n; i++)
        if (list->list.v[i]->type == JN_SLICE)
            jinja_syntax(p, list->list.v[i]->at, TW_ERR_FORMAT, "a slice among several indexes");
    return grown(p, n);
}

jinja_node *jinja_parse_postfix(jinja_parser *p, jinja_node *node) {
    for (;;) {
        const jinja_token *t = jinja_now(p);
        if (jinja_is_op(t, ".") || jinja_is_op(t, "["))
            node = parse_subscript(p, node);
        else if (jinja_is_op(t, "("))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* Takes a name's id. False: another token is here, which is an error. */
static bool expect_name(jinja_parser *p, uint32_t *name) {
    const jinja_token *t = jinja_now(p);
    if (t->type != JT_NAME) {
        char now[80];
        jinja_syntax(p, t->at, TW_ERR_FORMAT, "expected a name, not %s", jinja_describe(p, t, now, sizeof now));
        return false;
    }
    *name = jinja_advance(p)->name;
    return true;
}

/* Parses a name with dots, as filters and tests may have. */
static jinja_value parse_dotted(jinja_parser *p) {
    jinja_value v = {.kind = JINJA_STRING, .s = &jinja_empty};
    uint32_t name;
    if (!expect_name(p, &name)) return v;
    tw_buf joined = {0};
    if (jinja_is_op(jinja_now(p), ".")) tw_buf_str(&joined, p->t->names.v[name]->data);
    while (jinja_skip_op(p, ".") && expect_name(p, &name)) tw_buf_printf(&joined, ".%s", p->t->names.v[name]->data);
    if (joined.size) name = jinja_intern(p->t, joined.data, joined.size);
    if (joined.failed && p->status == TW_OK) p->status = tw_fail_memory(p->diag);
    tw_buf_free(&joined);
    v.s = p->t->names.v[name];
    return v;
}

jinja_node *jinja_parse_filter(jinja_parser *p, jinja_node *node, bool started) {
    while (p->status == TW_OK && (started || jinja_is_op(jinja_now(p), "|"))) {
        if (!started) jinja_advance(p);
        started = false;
        jinja_node *n = jinja_node_new(p, JN_FILTER, jinja_now(p)->at);
        n->a = node;
        n->value = parse_dotted(p);
        n->found = jinja_find_filter(n->value.s->data);
        if (jinja_is_op(jinja_now(p), "(")) parse_arguments(p, n);
        node = grown(p, n);
    }
    return node;
}

static jinja_node *parse_test(jinja_parser *p, jinja_node *node) {
    jinja_node *n = jinja_node_new(p, JN_TEST, jinja_advance(p)->at);
    n->a = node;
    n->negated = jinja_skip_name(p, "not");
    n->value = parse_dotted(p);
    n->found = jinja_find_test(n->value.s->data);
    const jinja_token *t = jinja_now(p);
    if (jinja_is_op(t, "("))
        parse_arguments(p, n);
    else if ((t->type == JT_NAME || t->type == JT_STRING || t->type == JT_INT || t->type == JT_FLOAT ||
              jinja_is_op(t, "[") || jinja_is_op(t, "{")) &&
             !jinja_is_name(p, t, "else") && !jinja_is_name(p, t, "or") && !jinja_is_name(p, t, "and")) {
        if (jinja_is_name(p, t, "is"))
            jinja_syntax(p, t->at, TW_ERR_FORMAT, "tests cannot be chained with is");
        else
            jinja_nodes_push(p, &n->list, jinja_parse_postfix(p, jinja_parse_primary(p, false)));
    }
    return grown(p, n);
}

static jinja_node *parse_unary(jinja_parser *p, bool with_filter) {
    const jinja_token *t = jinja_now(p);
    jinja_node *n;
    if (jinja_is_op(t, "-") || jinja_is_op(t, "+")) {
        n = jinja_node_new(p, jinja_is_op(t, "-") ? JN_NEG : JN_POS, jinja_advance(p)->at);
        if (!jinja_enter(p, n->at)) return failed(p);
        n->a = parse_unary(p, false);
        p->depth--;
        grown(p, n);
    } else
        n = jinja_parse_primary(p, false);
    n = jinja_parse_postfix(p, n);
    while (with_filter && p->status == TW_OK) {
        const jinja_token *now = jinja_now(p);
        if (jinja_is_op(now, "|"))
            n = jinja_parse_filter(p, n, false);
        else if (jinja_is_name(p, now, "is"))
            n = parse_test(p, n);
        else if (jinja_is_op(now, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}
