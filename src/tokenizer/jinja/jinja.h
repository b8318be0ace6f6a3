/* SPDX-License-Identifier: Apache-2.0 */
/* The Jinja that Hugging Face's transformers runs: Jinja2 3.1's immutable sandbox with trim_blocks, lstrip_blocks,
   loop controls, {% generation %} and transformers' own tojson, raise_exception, strftime_now, dict and namespace. A
   template is parsed once into nodes whose names are resolved to slots, and rendered any number of times.

   Whatever Jinja2 renders is rendered to the same bytes, and whatever it raises on is refused. What it renders and this
   does not know (numbers beyond 64 bits, a printed address, urlize, random) is refused with its place.

   Failure sticks: after the first error every function returns something harmless, so that evaluation is written
   straight on, and only loops look at `failed`. */
#ifndef TW_TOKENIZER_JINJA_H
#define TW_TOKENIZER_JINJA_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "tilewright/base.h"

/* ---- what the rest of the room uses ---- */

typedef struct jinja_template jinja_template;

/* `path` names the template in diagnostics. The text need not outlive the call. */
tw_status jinja_open(jinja_template **out, const char *text, size_t size, const char *path, tw_diag *diag);
void jinja_close(jinja_template *t);

/* Bounds that a template cannot pass. */
typedef struct jinja_limits {
    int64_t steps; /* nodes evaluated and items iterated */
    int64_t bytes; /* of all values made on the way */
    int64_t output;
} jinja_limits;
extern const jinja_limits jinja_default_limits;

/* A rendering under way: variables are set, then it is run once. */
typedef struct jinja_env jinja_env;
tw_status jinja_begin(jinja_env **out, const jinja_template *t, const jinja_limits *limits, int64_t now, tw_diag *diag);
/* The text and a byte for each of its bytes, 1 where it was typed; both malloc'd, text NUL-terminated. */
tw_status jinja_run(jinja_env *env, char **text, unsigned char **typed, size_t *size);
void jinja_end(jinja_env *env);

/* ---- values ---- */

typedef enum jinja_kind {
    JINJA_MISSING, /* no value at all: an unset slot, an argument not given */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_RANGE,
    JINJA_VIEW, /* a dict's keys, values or items */
    JINJA_ITERATOR,
    JINJA_NAMESPACE,
    JINJA_CYCLER,
    JINJA_JOINER,
    JINJA_MACRO,
    JINJA_LOOP,
    JINJA_FUNCTION, /* a global */
    JINJA_METHOD    /* bound to its object */
} jinja_kind;

typedef struct jinja_string jinja_string;
typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_iterator jinja_iterator;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_node jinja_node;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const jinja_string *s;
        const char *why;  /* UNDEFINED: what using it says; NULL: not known */
        jinja_list *list; /* LIST, TUPLE */
        jinja_dict *dict; /* DICT */
        struct jinja_range *range;
        struct jinja_view *view;
        jinja_iterator *iterator;
        struct jinja_namespace *names;
        struct jinja_cycler *cycler;
        struct jinja_joiner *joiner;
        jinja_macro *macro;
        jinja_loop *loop;
        const struct jinja_function *function;
        struct jinja_method *method;
        const void *any; /* for identity */
    };
} jinja_value;

/* Immutable. */
struct jinja_string {
    const char *data;           /* UTF-8 */
    const unsigned char *typed; /* a byte a byte; NULL: nothing was typed */
    size_t size;
    size_t chars;              /* code points */
    struct jinja_store *store; /* what holds the bytes, when more may follow them; or NULL */
    bool safe;                 /* Jinja's Markup: what is joined to it is escaped */
};

struct jinja_list {
    jinja_value *v;
    size_t n, room;
    bool group; /* groupby's tuple, whose items have names */
};

typedef struct jinja_entry {
    jinja_value key, value;
    uint64_t hash;
} jinja_entry;

struct jinja_dict {
    jinja_entry *v; /* in order of insertion */
    size_t n, room;
    uint32_t *index; /* open addressing, entry + 1; NULL while small */
    size_t mask;
};

typedef struct jinja_range {
    int64_t start, stop, step, n;
} jinja_range;

typedef enum jinja_part { JINJA_KEYS, JINJA_VALUES, JINJA_ITEMS } jinja_part;
typedef struct jinja_view {
    jinja_dict *dict;
    jinja_part part;
} jinja_view;

typedef struct jinja_namespace {
    jinja_dict *names;
    bool printing; /* it may hold itself */
} jinja_namespace;

typedef struct jinja_cycler {
    jinja_list *items;
    size_t at;
} jinja_cycler;

typedef struct jinja_joiner {
    jinja_value separator;
    bool used;
} jinja_joiner;

/* Arguments of a call as they were written. */
typedef struct jinja_keyword {
    const jinja_string *name;
    jinja_value value;
} jinja_keyword;

typedef struct jinja_args {
    const jinja_node *at; /* for errors */
    jinja_value *v;
    size_t n;
    jinja_keyword *keywords;
    size_t n_keywords;
} jinja_args;

typedef struct jinja_function {
    const char *name;
    jinja_value (*call)(jinja_env *env, const jinja_args *args);
} jinja_function;

typedef struct jinja_method_info jinja_method_info;
typedef struct jinja_method {
    jinja_value self;
    const jinja_method_info *info;
} jinja_method;

/* ---- nodes ---- */

typedef enum jinja_type {
    /* expressions */
    JN_CONST,
    JN_NAME,
    JN_TUPLE,
    JN_LIST,
    JN_DICT, /* list: key, value, key, value … */
    JN_NEG,
    JN_POS,
    JN_NOT,
    JN_ADD,
    JN_SUB,
    JN_MUL,
    JN_DIV,
    JN_FLOORDIV,
    JN_MOD,
    JN_POW,
    JN_AND,
    JN_OR,
    JN_CONCAT,
    JN_COMPARE, /* a, then list of JN_OPERAND */
    JN_OPERAND, /* op, a */
    JN_IFELSE,  /* a if b else c */
    JN_ATTRIBUTE,
    JN_ITEM,
    JN_SLICE, /* a:b:c, only inside JN_ITEM */
    JN_CALL,
    JN_FILTER, /* a may be NULL: a block's text */
    JN_TEST,
    JN_NSREF, /* name.attribute, only as a target */
    /* statements */
    JN_BODY,
    JN_TEXT,
    JN_PRINT,
    JN_IF,  /* a: test, b: body, list: elifs (JN_IF), c: else */
    JN_FOR, /* a: iterated, b: body, c: else, d: test; target */
    JN_SET,
    JN_SETBLOCK, /* a: filter chain or NULL, b: body */
    JN_MACRO,
    JN_CALLBLOCK, /* a: the call; NULL: a {% generation %} block */
    JN_FILTERBLOCK,
    JN_WITH, /* list: values; targets */
    JN_BREAK,
    JN_CONTINUE
} jinja_type;

typedef enum jinja_op { JO_EQ, JO_NE, JO_LT, JO_LE, JO_GT, JO_GE, JO_IN, JO_NOTIN } jinja_op;

typedef struct jinja_nodes {
    jinja_node **v;
    size_t n, room;
} jinja_nodes;

/* Where a variable is kept: `hops` activations up, in `slot`. */
typedef struct jinja_place {
    int hops, slot;
} jinja_place;

/* A variable of a frame and what it is when the frame is entered. */
typedef enum jinja_load { JL_PARAMETER, JL_RESOLVE, JL_ALIAS, JL_UNDEFINED } jinja_load;
typedef struct jinja_symbol {
    struct jinja_symbol *next;
    uint32_t name;
    jinja_load load;
    int slot;
    jinja_place from; /* ALIAS */
} jinja_symbol;

typedef struct jinja_frame jinja_frame;
typedef struct jinja_scope jinja_scope; /* what is a function of its own in Jinja's compiled code */

struct jinja_node {
    jinja_type type;
    uint32_t at;                  /* byte of the template, for errors */
    uint16_t height;              /* expressions: of the tree below */
    uint8_t op;                   /* jinja_op */
    bool negated;                 /* TEST */
    bool store;                   /* NAME, TUPLE: a target */
    bool recursive, extended;     /* FOR: extended has a loop variable */
    bool caller, kwargs, varargs; /* MACRO, CALLBLOCK: asked for in the body */
    bool generation;              /* CALLBLOCK */
    uint32_t name;                /* NAME, NSREF, MACRO, ATTRIBUTE's and NSREF's attribute in `value` */
    jinja_node *a, *b, *c, *d;
    jinja_node *target;
    jinja_node *test_target;         /* FOR: the same target in the scope of the test */
    jinja_nodes list;                /* items, arguments, statements, parameters */
    jinja_nodes defaults;            /* MACRO, CALLBLOCK: of the last parameters */
    jinja_nodes keywords;            /* CALL, FILTER, TEST: JN_OPERAND with `name` */
    jinja_node *rest, *keyword_rest; /* *args, **kwargs */
    jinja_value value;               /* CONST, TEXT; ATTRIBUTE, FILTER, TEST: the name */
    const void *found;               /* FILTER, TEST: its entry; NULL: there is none */
    jinja_place place;
    jinja_frame *frame, *else_frame, *test_frame;
    jinja_scope *scope, *test_scope;
    jinja_place loop_place; /* FOR */
    jinja_place special[3]; /* MACRO, CALLBLOCK: caller, kwargs, varargs */
};

struct jinja_frame {
    jinja_frame *parent;
    jinja_scope *scope;
    uint32_t id;
    int level;
    jinja_symbol *first, **last;
};

struct jinja_scope {
    jinja_scope *parent;
    uint32_t id;
    int slots;
};

typedef struct jinja_names {
    const jinja_string **v; /* by number */
    uint32_t n, room;
    uint32_t *slots;
    uint32_t mask;
    bool failed;
} jinja_names;

struct jinja_template {
    tw_arena arena;
    char *text; /* newlines normalized */
    size_t size;
    char *path;
    jinja_names names;
    jinja_node *body;
    jinja_frame *frame;
    jinja_scope *scope;
};

/* ---- tokens ---- */

typedef enum jinja_token_type {
    JT_DATA,
    JT_PRINT_BEGIN,
    JT_PRINT_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INT,
    JT_FLOAT,
    JT_OPERATOR, /* `op`: one or two characters */
    JT_END
} jinja_token_type;

typedef struct jinja_token {
    jinja_token_type type;
    uint32_t at;
    uint16_t op; /* OPERATOR: first character, second << 8 */
    uint32_t name;
    jinja_value value; /* DATA, STRING, INT, FLOAT */
} jinja_token;

typedef struct jinja_parser {
    jinja_template *t;
    tw_diag *diag;
    tw_status status;
    jinja_token *tokens;
    size_t n, room, at;
    int depth;        /* of nesting, in expressions and statements alike */
    int loops;        /* `break` may leave as many */
    int fors;         /* {% for %} around, in which `loop` is no target */
    jinja_node spare; /* what an allocation that failed gives; nothing reads it */
} jinja_parser;

void jinja_lex(jinja_parser *p);
void jinja_parse(jinja_parser *p);
jinja_node *jinja_parse_expression(jinja_parser *p, bool with_else);
jinja_node *jinja_parse_primary(jinja_parser *p, bool with_namespace);
jinja_node *jinja_parse_postfix(jinja_parser *p, jinja_node *node);
jinja_node *jinja_parse_filter(jinja_parser *p, jinja_node *node, bool started);
/* `ends`: a name that ends the tuple beside the usual ends, or NULL. */
typedef struct jinja_tuple_options {
    bool simplified, without_else, parenthesised, with_namespace;
    const char *ends;
} jinja_tuple_options;
jinja_node *jinja_parse_tuple(jinja_parser *p, jinja_tuple_options o);
void jinja_resolve(jinja_parser *p); /* gives every name its place */

/* What the two parsers share. */
jinja_node *jinja_node_new(jinja_parser *p, jinja_type type, uint32_t at);
void jinja_nodes_push(jinja_parser *p, jinja_nodes *list, jinja_node *node);
tw_status jinja_syntax(jinja_parser *p, uint32_t at, tw_status s, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
const jinja_token *jinja_now(const jinja_parser *p);
const jinja_token *jinja_look(const jinja_parser *p);
const jinja_token *jinja_advance(jinja_parser *p); /* returns the one that was current */
bool jinja_is_op(const jinja_token *t, const char *op);
bool jinja_is_name(const jinja_parser *p, const jinja_token *t, const char *name);
bool jinja_skip_op(jinja_parser *p, const char *op);
bool jinja_skip_name(jinja_parser *p, const char *name);
void jinja_expect_op(jinja_parser *p, const char *op);
bool jinja_enter(jinja_parser *p, uint32_t at); /* one level deeper; false: too deep */
const char *jinja_describe(const jinja_parser *p, const jinja_token *t, char *out, size_t size);

uint32_t jinja_intern(jinja_template *t, const char *name, size_t size);
void jinja_place_of(const jinja_template *t, uint32_t at, int *line, int *column);

/* ---- a rendering ---- */

typedef struct jinja_activation {
    struct jinja_activation *parent;
    jinja_value slots[];
} jinja_activation;

/* Text under construction. `jinja_take` ends it. */
typedef struct jinja_buffer {
    char *data;
    unsigned char *typed; /* NULL: nothing so far */
    size_t size, room;
} jinja_buffer;

struct jinja_env {
    const jinja_template *t;
    tw_diag *diag;
    tw_status status;
    bool failed;
    tw_arena arena;
    jinja_limits left;
    int64_t output_limit;
    int depth;
    int64_t now;
    jinja_value *by_name; /* the context, by number of name */
    const jinja_node *at; /* where evaluation is, for errors that do not know */
    jinja_activation *active;
    jinja_buffer *out;
};

enum {
    JINJA_DEPTH = 1000,  /* calls of the evaluator within each other */
    JINJA_NESTING = 100, /* of a template's brackets and statements */
    JINJA_HEIGHT = 250,  /* of an expression: a chain of operators is nested, too */
    JINJA_SIZE = 4 << 20 /* bytes of a template */
};

/* Fails at a node; the first failure counts. Returns an undefined value. */
jinja_value jinja_fail(jinja_env *env, const jinja_node *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
jinja_value jinja_refuse(jinja_env *env, const jinja_node *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); /* Jinja2 would go on; TW_ERR_UNSUPPORTED */
void jinja_fail_memory(jinja_env *env);
bool jinja_step(jinja_env *env, const jinja_node *at, int64_t n); /* false: no more may be done */
bool jinja_deeper(jinja_env *env, const jinja_node *at);          /* pairs with env->depth-- when true */
void *jinja_alloc(jinja_env *env, size_t count, size_t size);     /* zeroed; NULL after a failure */

void jinja_set(jinja_env *env, const char *name, jinja_value v); /* a variable, before the run */

/* ---- values made and asked (value.c) ---- */

#define JINJA_NULL ((jinja_value){.kind = JINJA_NONE})
static inline jinja_value jinja_bool(bool b) {
    return (jinja_value){.kind = JINJA_BOOL, .b = b};
}
static inline jinja_value jinja_int(int64_t i) {
    return (jinja_value){.kind = JINJA_INT, .i = i};
}
static inline jinja_value jinja_float(double f) {
    return (jinja_value){.kind = JINJA_FLOAT, .f = f};
}
static inline jinja_value jinja_undefined(const char *why) {
    return (jinja_value){.kind = JINJA_UNDEFINED, .why = why};
}
static inline bool jinja_is_int(jinja_value v) { /* a bool is one, as in Python */
    return v.kind == JINJA_INT || v.kind == JINJA_BOOL;
}
static inline int64_t jinja_as_int(jinja_value v) {
    return v.kind == JINJA_BOOL ? v.b : v.i;
}

extern const jinja_string jinja_empty;
jinja_value jinja_text(jinja_env *env, const char *s); /* NUL-terminated, copied */
jinja_value jinja_text_n(jinja_env *env, const char *s, size_t n, const unsigned char *typed);
jinja_value jinja_slice_bytes(jinja_env *env, const jinja_string *s, size_t from, size_t to); /* shares the bytes */
jinja_value jinja_with_safe(jinja_env *env, jinja_value s, bool safe);
bool jinja_is_text(jinja_value v, const char *text);

jinja_value jinja_list_new(jinja_env *env, jinja_kind kind, size_t room);
void jinja_push(jinja_env *env, jinja_value list, jinja_value v);
jinja_value jinja_pair(jinja_env *env, jinja_value a, jinja_value b);
jinja_value jinja_dict_new(jinja_env *env);
void jinja_dict_put(jinja_env *env, const jinja_node *at, jinja_dict *d, jinja_value key, jinja_value v);
jinja_entry *jinja_dict_find(jinja_env *env, const jinja_node *at, const jinja_dict *d, jinja_value key);
jinja_value *jinja_dict_get(const jinja_dict *d, const char *name); /* NULL: none */
bool jinja_hash(jinja_env *env, const jinja_node *at, jinja_value v, uint64_t *out);

const char *jinja_type_name(jinja_value v); /* Python's */
bool jinja_truth(jinja_env *env, jinja_value v);
bool jinja_equal(jinja_env *env, const jinja_node *at, jinja_value a, jinja_value b);
bool jinja_same(jinja_value a, jinja_value b); /* Python's `is` */
/* Negative, zero, positive; fails when the two have no order. `op` is only for the message. */
bool jinja_order(jinja_env *env, const jinja_node *at, jinja_value a, jinja_value b, jinja_op op);
bool jinja_contains(jinja_env *env, const jinja_node *at, jinja_value in, jinja_value v);
int64_t jinja_length(jinja_env *env, const jinja_node *at, jinja_value v); /* -1 and a failure: none */
bool jinja_has_length(jinja_value v);

/* ---- text (text.c) ---- */

bool jinja_add(jinja_env *env, jinja_buffer *b, const char *s, size_t n, const unsigned char *typed);
bool jinja_add_text(jinja_env *env, jinja_buffer *b, const char *s);
bool jinja_add_string(jinja_env *env, jinja_buffer *b, const jinja_string *s);
bool jinja_add_bytes(jinja_env *env, jinja_buffer *b, const jinja_string *s, size_t from, size_t to);
/* A code point, marked as the byte `like` of `s` is (s NULL: not typed). */
bool jinja_add_char(jinja_env *env, jinja_buffer *b, uint32_t c, const jinja_string *s, size_t like);
bool jinja_add_value(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v); /* str(v) */
bool jinja_add_repr(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v);
bool jinja_add_escaped(jinja_env *env, const jinja_node *at, jinja_buffer *b, jinja_value v); /* HTML; not if safe */
jinja_value jinja_take(jinja_env *env, jinja_buffer *b); /* a string; frees the buffer */
void jinja_drop(jinja_buffer *b);
jinja_value jinja_str(jinja_env *env, const jinja_node *at, jinja_value v);      /* plain: never safe */
jinja_value jinja_soft_str(jinja_env *env, const jinja_node *at, jinja_value v); /* stays safe */
jinja_value jinja_escape(jinja_env *env, const jinja_node *at, jinja_value v);
size_t jinja_byte_of(const jinja_string *s, size_t chars); /* the offset of a code point */
int64_t jinja_find(const jinja_string *s, const jinja_string *what, size_t from, size_t to); /* bytes; -1: none */
int64_t jinja_rfind(const jinja_string *s, const jinja_string *what, size_t from, size_t to);
bool jinja_is_space(uint32_t c);
bool jinja_is_printable(uint32_t c);

/* ---- numbers (number.c) ---- */

__extension__ typedef __int128 jinja_wide; /* for steps that may pass 64 bits */

jinja_value jinja_arithmetic(jinja_env *env, const jinja_node *at, jinja_type op, jinja_value a, jinja_value b);
jinja_value jinja_negate(jinja_env *env, const jinja_node *at, jinja_value v, bool minus);
double jinja_as_float(jinja_env *env, const jinja_node *at, jinja_value v);
jinja_value jinja_round(jinja_env *env, const jinja_node *at, jinja_value v, int64_t digits);
typedef enum jinja_parsed { JINJA_PARSED, JINJA_NO_NUMBER, JINJA_TOO_LARGE } jinja_parsed;
jinja_parsed jinja_parse_int(const jinja_string *s, int base, int64_t *out); /* Python's int(text, base) */
jinja_parsed jinja_parse_float(const jinja_string *s, double *out);
jinja_parsed jinja_float_to_int(double f, int64_t *out);
bool jinja_is_whole(double f); /* True if f is finite and has no fraction. */
/* A whole number where Python wants an index. */
bool jinja_index(jinja_env *env, const jinja_node *at, jinja_value v, int64_t *out);

/* ---- iteration (iterate.c) ---- */

jinja_iterator *jinja_iterate(jinja_env *env, const jinja_node *at, jinja_value v);
bool jinja_next(jinja_env *env, jinja_iterator *it, jinja_value *out); /* false: at its end, or failed */
jinja_value jinja_to_list(jinja_env *env, const jinja_node *at, jinja_value v);
bool jinja_is_iterable(jinja_value v);
jinja_value jinja_reversed(jinja_env *env, const jinja_node *at, jinja_value v);

typedef enum jinja_iteration {
    JI_EMPTY,
    JI_LIST,
    JI_LIST_BACK,
    JI_CHARS,
    JI_RANGE,
    JI_VIEW,
    JI_VIEW_BACK,
    /* generators */
    JI_WHERE,  /* {% for … if %} */
    JI_MAP,    /* map(filter, …) */
    JI_GET,    /* map(attribute=…) */
    JI_SELECT, /* select, reject, selectattr, rejectattr */
    JI_UNIQUE,
    JI_BATCH,
    JI_SLICE,
    JI_ITEMS
} jinja_iteration;

/* A path of attributes, such as "function.name" or 0. */
typedef struct jinja_path {
    jinja_value *v;
    size_t n;
    bool fold;             /* compare strings in lower case */
    jinja_value otherwise; /* where something is undefined; MISSING: nothing */
} jinja_path;

struct jinja_iterator {
    jinja_iteration type;
    bool started;
    jinja_value source;
    size_t at, n;
    jinja_iterator *inner; /* generators: of the source, once started */
    const jinja_node *node;
    jinja_activation *active; /* WHERE */
    jinja_args args;          /* MAP, SELECT: of the filter or test */
    const void *found;
    jinja_path path;
    bool by_path, reject, named, entered;
    jinja_dict *seen; /* UNIQUE */
    int64_t count;    /* BATCH, SLICE */
    jinja_value fill; /* BATCH, SLICE */
    jinja_list *list; /* SLICE */
    jinja_value held; /* BATCH */
};
jinja_value jinja_generator(jinja_env *env, jinja_iterator it);

/* ---- attributes and calls ---- */

jinja_value jinja_get_attribute(jinja_env *env, const jinja_node *at, jinja_value v, const jinja_string *name);
jinja_value jinja_get_item(jinja_env *env, const jinja_node *at, jinja_value v, jinja_value key);
jinja_value jinja_get_slice(jinja_env *env, const jinja_node *at, jinja_value v, jinja_value from, jinja_value to,
                            jinja_value step);
/* What Python's getattr finds: true, and *out. A method is bound; what the sandbox forbids is undefined. */
bool jinja_own_attribute(jinja_env *env, jinja_value v, const jinja_string *name, jinja_value *out);
jinja_value jinja_get_path(jinja_env *env, const jinja_node *at, jinja_value v, const jinja_path *path);
void jinja_path_of(jinja_env *env, jinja_value attribute, jinja_path *out);

jinja_value jinja_call(jinja_env *env, jinja_value callee, const jinja_args *args);
jinja_value jinja_call_macro(jinja_env *env, jinja_macro *m, const jinja_args *args);
jinja_value jinja_call_method(jinja_env *env, const jinja_method *m, const jinja_args *args);
bool jinja_is_callable(jinja_value v);

/* Binds arguments to the names in `names` ("old new count"); what is not given is MISSING. False and a failure: too
   many, too few (`needed`), or a name that is none. `what` names the callee. */
enum { JINJA_BOUND = 8 };
bool jinja_bind(jinja_env *env, const jinja_args *args, const char *what, const char *names, size_t needed,
                jinja_value out[JINJA_BOUND]);

struct jinja_macro {
    const jinja_node *node;
    jinja_activation *active; /* where it was defined */
};

struct jinja_loop {
    const jinja_node *node;
    jinja_activation *active; /* recursive: where the loop stands */
    jinja_value iterable;
    jinja_iterator *it;
    jinja_value current, before, after; /* MISSING: none */
    jinja_value last_changed;
    int64_t index0, length, depth0; /* length -1: not known yet */
};
jinja_value jinja_loop_attribute(jinja_env *env, jinja_loop *l, const jinja_string *name);
bool jinja_loop_next(jinja_env *env, jinja_loop *l, jinja_value *out);
int64_t jinja_loop_length(jinja_env *env, jinja_loop *l);
jinja_value jinja_loop_call(jinja_env *env, jinja_loop *l, const jinja_args *args);
jinja_value jinja_loop_cycle(jinja_env *env, jinja_value self, const jinja_args *args);
jinja_value jinja_loop_changed(jinja_env *env, jinja_value self, const jinja_args *args);

/* ---- methods, filters, tests: tables ---- */

struct jinja_method_info {
    const char *name;
    jinja_value (*call)(jinja_env *env, jinja_value self, const jinja_args *args); /* NULL: known, not supported */
    bool unsafe; /* the sandbox does not hand it out */
};
const jinja_method_info *jinja_find_method(jinja_value v, const char *name);
extern const jinja_method_info jinja_text_methods[];

typedef struct jinja_filter {
    const char *name;
    jinja_value (*call)(jinja_env *env, jinja_value v, const jinja_args *args); /* NULL: not supported */
} jinja_filter;
const jinja_filter *jinja_find_filter(const char *name);
extern const jinja_filter jinja_text_filters[], jinja_list_filters[];
jinja_value jinja_call_filter(jinja_env *env, const jinja_node *at, const void *found, jinja_value v,
                              const jinja_args *args);

typedef struct jinja_test {
    const char *name;
    bool (*call)(jinja_env *env, jinja_value v, const jinja_args *args);
} jinja_test;
const jinja_test *jinja_find_test(const char *name);

const jinja_function *jinja_find_global(const char *name);
jinja_value jinja_dict_fromkeys(jinja_env *env, jinja_value self, const jinja_args *args);

jinja_value jinja_evaluate(jinja_env *env, const jinja_node *n);
jinja_value jinja_apply_filter(jinja_env *env, const jinja_node *n, jinja_value text); /* text: for a NULL operand */
bool jinja_assign(jinja_env *env, const jinja_node *target, jinja_value v);
void jinja_arguments(jinja_env *env, const jinja_node *n, jinja_args *out);
void jinja_enter_frame(jinja_env *env, const jinja_frame *f);
void jinja_leave_frame(jinja_env *env, const jinja_frame *f);
jinja_activation *jinja_activate(jinja_env *env, const jinja_scope *s, jinja_activation *parent);
typedef enum jinja_flow { JINJA_GO_ON, JINJA_BREAK, JINJA_CONTINUE } jinja_flow;
jinja_flow jinja_execute(jinja_env *env, const jinja_node *n);
jinja_value jinja_run_recursive(jinja_env *env, const jinja_node *n, jinja_activation *active, jinja_value iterable,
                                int64_t depth);

/* ---- formatting (format.c) ---- */

jinja_value jinja_printf(jinja_env *env, const jinja_node *at, const jinja_string *format, jinja_value args);
jinja_value jinja_format(jinja_env *env, const jinja_string *format, const jinja_args *args);

/* ---- JSON (json.c) ---- */

jinja_value jinja_from_json(jinja_env *env, const json_t *o, bool typed);
jinja_value jinja_to_json(jinja_env *env, jinja_value v, const jinja_args *args);

/* ---- letters (letters.c) ---- */

typedef enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_CAPITALIZE, JINJA_SWAP, JINJA_FOLD } jinja_case;
bool jinja_add_cased(jinja_env *env, jinja_buffer *b, const jinja_string *s, size_t from, size_t to, jinja_case how);
jinja_value jinja_cased(jinja_env *env, const jinja_string *s, jinja_case how);
typedef enum jinja_class {
    JC_ALPHA,
    JC_DECIMAL,
    JC_DIGIT,
    JC_NUMERIC,
    JC_ALNUM,
    JC_LOWER,
    JC_UPPER,
    JC_TITLE,
    JC_WORD,
    JC_ID_START,
    JC_ID_CONTINUE
} jinja_class;
bool jinja_is(uint32_t c, jinja_class k);
int jinja_decimal(uint32_t c); /* -1: no decimal digit */

#endif
