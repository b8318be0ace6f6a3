/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a model: values, and nodes that compute them from one another. A value is computed once. Nodes are in an
   order in which each comes behind those that it needs. */
#ifndef TW_GRAPH_GRAPH_H
#define TW_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/file.h"
#include "graph/array.h"

#include <stdatomic.h>

/* An extent. Below 0: a symbol, whose number is tw_dim_symbol(d), or TW_DIM_UNKNOWN. */
typedef int64_t tw_dim;
#define TW_DIM_UNKNOWN INT64_MIN
static inline tw_dim tw_dim_of_symbol(int symbol) {
    return -1 - symbol;
}
static inline int tw_dim_symbol(tw_dim d) {
    return (int)(-1 - d);
}

enum { TW_RANK_UNKNOWN = -1 };

typedef struct tw_value {
    const char *name;
    tw_element type; /* TW_E_none: not known. */
    int rank;        /* Or TW_RANK_UNKNOWN. */
    tw_dim dims[TW_ARRAY_RANK];
    const tw_array *content; /* A constant's. NULL: the value is not constant. */
    int producer;            /* The node that computes it. -1: it is an input or a constant. */
    tw_element said; /* An output's type as its file declares it. A file may be wrong. TW_E_none: none is declared. */
} tw_value;

typedef enum tw_attribute_kind {
    TW_ATTRIBUTE_INT,
    TW_ATTRIBUTE_REAL,
    TW_ATTRIBUTE_TEXT,
    TW_ATTRIBUTE_ARRAY, /* Lists of numbers, too: of i64 or f32, with one dimension. */
    TW_ATTRIBUTE_TEXTS,
    TW_ATTRIBUTE_GRAPH
} tw_attribute_kind;

typedef struct tw_attribute {
    const char *name;
    tw_attribute_kind kind;
    int64_t integer;
    double real;
    const char *text;
    const tw_array *array;
    const char **texts;
    int n_texts;
    struct tw_graph *graph;
} tw_attribute;

typedef struct tw_node {
    const char *op;     /* "MatMul" */
    const char *domain; /* "": the format's own. */
    const char *name;   /* "": it has none. */
    int *in, *out;      /* Numbers of values. -1: an operand that is left out. */
    int n_in, n_out;
    tw_attribute *attributes;
    int n_attributes;
    int version;              /* The operators' set that it belongs to. */
    const struct tw_op *impl; /* NULL: not supported, or not looked for yet. */
} tw_node;

/* What a symbol stands for. Both are NULL of one that stands for itself. */
typedef struct tw_meaning {
    const struct tw_formula *sum;      /* A sum of products of other symbols. */
    const struct tw_formula *least[2]; /* The smaller of two. */
} tw_meaning;

typedef struct tw_graph {
    tw_arena arena;        /* Has everything below that is not allocated by itself. */
    struct tw_graph *base; /* Names, attributes and contents may lie in this one, which is kept as long. Or NULL. */
    atomic_int keepers;    /* Others beside the owner that keep the graph. */
    const char *name;
    tw_value *values;
    int n_values, room_values;
    tw_node *nodes;
    int n_nodes, room_nodes;
    int *inputs, *outputs; /* Numbers of values. */
    int n_inputs, n_outputs;
    const char **symbols; /* Names of symbols. */
    tw_meaning *meanings; /* Of each symbol. */
    int n_symbols, room_symbols, room_meanings;
    tw_map *maps; /* Files that constants lie in. */
    int n_maps, room_maps;
    int made;      /* How many names were made up, which end in ~0, ~1 and so on. */
    void **blocks; /* Memory of contents, given to free with the graph. */
    int n_blocks, room_blocks;
} tw_graph;

tw_graph *tw_graph_new(void);    /* NULL: out of memory. */
void tw_graph_free(tw_graph *g); /* NULL is fine. Frees the graph when nobody keeps it any longer. */
/* Keeps a graph until tw_graph_free is called once more. */
tw_graph *tw_graph_keep(const tw_graph *g);

/* Returns the number of a new value or node. -1: out of memory, and g->arena has failed. */
int tw_graph_add_value(tw_graph *g, const char *name);
int tw_graph_add_node(tw_graph *g, const tw_node *node);
/* Returns a symbol's number, which is made if there is none of the name. -1: out of memory. */
int tw_graph_symbol(tw_graph *g, const char *name);
/* Maps a file, which stays mapped as long as the graph. */
tw_status tw_graph_map(tw_graph *g, const char *path, tw_map *out, tw_diag *diag);

/* Gives memory from malloc to a graph. False: out of memory, and the memory was freed. */
bool tw_graph_own(tw_graph *g, void *block);

/* Makes a value a constant. The array is copied, its data is not. */
void tw_graph_set_content(tw_graph *g, int value, const tw_array *content);

/* What is known of a value as an array; `data` is that of a constant. False: its type or an extent is no number. */
bool tw_value_array(const tw_value *v, tw_array *out);

const tw_attribute *tw_node_attribute(const tw_node *n, const char *name); /* NULL: there is none. */
int64_t tw_node_integer(const tw_node *n, const char *name, int64_t usual);
double tw_node_real(const tw_node *n, const char *name, double usual);
const char *tw_node_text(const tw_node *n, const char *name, const char *usual);

/* Writes "/encoder/MatMul_3 (MatMul)", or what there is of it. */
void tw_node_describe(const tw_node *n, char *out, size_t size);

/* compact.c. Removes nodes that no output needs, and values that nobody uses any longer. Inputs stay. Results that
   nobody uses become -1. The lists of a node's operands and results must be the graph's own. */
tw_status tw_graph_compact(tw_graph *g, tw_diag *diag);

#endif
