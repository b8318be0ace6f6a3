/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns as text. A term stands for a value:

     Add(x, Mul(y, 0.5))      the result of a node, with terms for its operands
     d=Sub(x, m)              the same, and d is this value from there on
     *FastGelu(x)             a node of the domain com.microsoft
     {Div(x, y)|Mul(x, z)}    what matches one of them
     Cast?(x)                 Cast(x) or x
     &Expand(x)               a node that others may use, too; it stays for them
     x, x:scalar, Op:last(x)  any value; one that a check of checks.c holds for
     0.5                      a constant all of whose elements are this
     _                        any operand, or none; in what is made: an operand that is left out
     ...                      all other operands, or none

   What is made may also have

     Op(x) axis=-1 epsilon=e  attributes: products and quotients of numbers, of constants' elements (those of a name
   that was not matched are 1), of extents (x.2) and of nodes' attributes (n.alpha~1, 1 if there is none); "texts";
   [lists]. when?name=...: only if `when` was matched n[0=x, scale*=c]         a copy of the node n with other operands
   and attributes ones(x)                  what a function of functions.c makes s=Add(x, y)@3; Norm(s)   values that are
   made first; @3: the value takes the place of the root's third result

   Add and Mul match operands in both orders. */
#ifndef TW_GRAPH_PATTERNS_TERM_H
#define TW_GRAPH_PATTERNS_TERM_H

#include "base/diag.h"
#include "graph/graph.h"

enum {
    TW_TERM_SLOTS = 32,   /* Names of a pattern. */
    TW_TERM_ARGS = 12,    /* Operands of a term. */
    TW_TERM_SETTINGS = 8, /* Attributes and changes of a term. */
    TW_TERM_CHECKS = 3
};

typedef enum tw_term_kind {
    TW_TERM_NODE,
    TW_TERM_COPY,
    TW_TERM_FUNCTION,
    TW_TERM_VALUE,
    TW_TERM_NUMBER,
    TW_TERM_EITHER,
    TW_TERM_ANY,
    TW_TERM_REST
} tw_term_kind;

/* A check of a value, and of the node that computes it. */
typedef bool tw_check(const tw_graph *g, int value);

typedef struct tw_factor {
    bool divides;
    int slot;              /* -1: it is a number. */
    int extent;            /* An extent of the slot's value. -1: its elements, or an attribute. */
    const char *attribute; /* An attribute of the slot's node. NULL: its elements. */
    double number;         /* The number, or what an attribute is if there is none. */
} tw_factor;

typedef struct tw_setting {
    const char *name;     /* Of an attribute. */
    int when;             /* The slot that must be bound. -1: always. */
    bool times;           /* What is there is multiplied. */
    int operand;          /* The operand that changes. -1: it is an attribute. */
    struct tw_term *term; /* The new operand. */
    const char *text;     /* NULL: it is none. */
    int64_t list[TW_ARRAY_RANK];
    int n_list; /* -1: it is none. */
    tw_factor factors[4];
    int n_factors;
} tw_setting;

typedef struct tw_term {
    tw_term_kind kind;
    const char *op, *domain;
    int slot; /* The name that the value gets, or has. -1: none. */
    tw_check *checks[TW_TERM_CHECKS];
    int n_checks;
    bool optional; /* Cast?(x) */
    bool shared;   /* &Expand(x) */
    double number;
    struct tw_term *args[TW_TERM_ARGS]; /* Operands, or what is to choose from. */
    int n_args;
    tw_setting *settings; /* NULL: there are none. */
    int n_settings;
    int result;           /* The root's result whose place it takes. -1: none. */
    bool all;             /* Its results take the places of all the root's. */
    struct tw_term *next; /* What is made after it. */
} tw_term;

/* The names of a pattern. */
typedef struct tw_term_names {
    const char *names[TW_TERM_SLOTS];
    int n;
} tw_term_names;

/* Reads a pattern. TW_ERR_FORMAT: the text is none. Terms lie in the arena. */
tw_status tw_term_read(tw_term **out, const char *text, tw_term_names *names, tw_arena *arena, tw_diag *diag);

/* checks.c. NULL: there is none of the name. */
tw_check *tw_check_find(const char *name);
/* Finds the number that all elements of a constant are. */
bool tw_value_uniform(const tw_graph *g, int value, double *out);
/* Returns the node that computes a value, or NULL. */
const tw_node *tw_value_node(const tw_graph *g, int value);

#endif
