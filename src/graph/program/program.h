/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph with fixed extents is computed by: steps over views of buffers, one after another. It knows no device:
   the GPU's runner and the processor's both read it. A step may read what earlier steps, inputs and constants have
   written, and writes what no earlier step has written. */
#ifndef TW_GRAPH_PROGRAM_PROGRAM_H
#define TW_GRAPH_PROGRAM_PROGRAM_H

#include "base/arena.h"
#include "base/buf.h"
#include "graph/graph.h"
#include "graph/program/made.h"
#include "kernels/gemm/gemm.h"

struct tw_map_problem;  /* kernels/pointwise/map.h */
struct tw_rows_problem; /* kernels/rows/rows.h */

typedef enum tw_program_buffer_kind {
    TW_PROGRAM_CONSTANT, /* Has its content before the first step, and is never written. */
    TW_PROGRAM_INPUT,    /* Has an input of the graph: dense, row-major. It is never written. */
    TW_PROGRAM_OUTPUT,   /* Has an output of the graph behind the last step: dense, row-major. */
    TW_PROGRAM_SCRATCH   /* Lies in the program's scratch memory. */
} tw_program_buffer_kind;

enum {
    TW_PROGRAM_ALIGN = 256 /* Offsets in scratch memory are multiples of it, and runners align all buffers to it. */
};

typedef struct tw_program_buffer {
    const char *name; /* A value's. */
    tw_program_buffer_kind kind;
    int64_t bytes;
    const void *content; /* A constant's. It may be aligned to nothing. */
    bool own;       /* A constant whose content goes with the program. Others must outlive what has uploaded them. */
    int number;     /* Which input or output of the graph it is. */
    int64_t offset; /* Scratch: bytes from the beginning of scratch memory. -1: not planned yet. */
} tw_program_buffer;

/* An array that lies in a buffer, with any strides. */
typedef struct tw_view {
    int buffer;     /* -1: an operand that is left out. All else is then 0. */
    int64_t offset; /* Bytes from the buffer's beginning to the element whose indices are all 0. */
    tw_element type;
    int rank;
    int64_t dims[TW_ARRAY_RANK];
    int64_t strides[TW_ARRAY_RANK]; /* Elements from an index to the next. 0: they share an element. May be below 0. */
} tw_view;

/* Norms that are part of a product. A row x becomes (x - mean) * r with r = 1 / sqrt(variance + eps). An RMS norm has a
   mean of 0. */
typedef enum tw_program_norm { TW_PROGRAM_NORM_NONE, TW_PROGRAM_NORM_RMS, TW_PROGRAM_NORM_LAYER } tw_program_norm;

/* Matrix products: y = activation(alpha * op(A) * op(B) + bias), then y * mul, then y + residual. Operands are A, B,
   bias, mul, residual, sums of rows and the norm's vector; all but A and B may be left out. Extents and strides are
   those of tw_gemm_problem. Columns of a row are neighbours. Views have the batch's dimensions before rows and columns.
   A bias is a vector of n elements of C's type, mul and residual are matrices of C's type. */
enum {
    TW_PROGRAM_BATCH = 3 /* Dimensions of a batch. */,
    TW_PROGRAM_PRODUCT_IN = 7 /* Operands of a product. */,
    TW_PROGRAM_SUMS_IN = 5
};

typedef struct tw_program_product {
    tw_element type; /* Of A and B: f32, f16 or bf16. Sums are in f32. */
    tw_element out;  /* Of C, the bias, mul and residual. */
    int64_t m, n, k;
    bool trans_a, trans_b;           /* A is stored k x m, and B is stored n x k. */
    int64_t lda, ldb, ldc;           /* Elements from a row as stored to the next. mul and residual have ldc, too. */
    int64_t batch[TW_PROGRAM_BATCH]; /* Numbers of products, by dimension of the batch. At least 1. */
    /* Elements from a product to the next, by the dimension of the batch. 0: they share a matrix. mul and residual have
       those of C. */
    int64_t stride_a[TW_PROGRAM_BATCH], stride_b[TW_PROGRAM_BATCH], stride_c[TW_PROGRAM_BATCH];
    double alpha;
    tw_gemm_activation activation;
    /* Only on a GPU: B's columns are gates and values in turn, eight each, and C = activation(gate) * value has n / 2
       columns. */
    bool gated;
    /* Only on a GPU: the norm of the rows of A, or of the residual. Gains are in B and beta is in the bias, as far as
       they can be. Operand 5 has sums of these rows, another product's result 1. With a layer norm of A columns of B
       have a mean of 0, so that nobody has to subtract the rows' means. */
    tw_program_norm norm;
    bool norm_residual; /* Rows of the residual have the norm, a layer norm, and operand 6 is its n gains, of C's type.
                         */
    double eps;
    /* With a result 1, f32[2 * tw_program_parts(n)][m]: sums of the squares of each row's cells, part by part of C's
       columns, m sums each. With `moments` each is followed by the sum of the same cells. */
    bool moments;
} tw_program_product;

/* The most parts of a row of n cells that a kernel leaves sums of. */
int64_t tw_program_parts(int64_t n);

/* Attention, as kernels/attention has it. Operands are Q, K, V and the mask, which may be left out. Views have four
   dimensions: sequences, heads, queries (or keys), elements of a head, which are neighbours. The mask's are sequences,
   heads, queries and keys. Extents are those of the problem, with strides of 0 where an operand is broadcast: a mask is
   real, and is added to scores, or is of truths, and a query does not see a key where it is false. Q's heads share K's
   and V's in groups of neighbours: K and V have heads / kv_heads fewer. */
typedef struct tw_program_attention {
    tw_element type; /* Of Q, K, V and the result. */
    int64_t batch, heads, kv_heads, queries, keys;
    int64_t head, head_v; /* Elements of a head of Q and K, and of V and the result. */
    /* Only on a GPU: rows from a head of K and V to the next, where they lie head by head. 0: a row has all heads. */
    int64_t capacity;
    double scale; /* Multiplies scores. */
    double cap;   /* Scores s become cap * tanh(s / cap). 0: they stay. */
    bool causal;  /* Query i sees keys 0 to i + keys - queries. */
} tw_program_attention;

typedef enum tw_step_kind {
    TW_STEP_PRODUCT,
    TW_STEP_ATTENTION,
    TW_STEP_MAP,  /* kernels/pointwise: any elementwise expression. A unit is a row of the last dimension. */
    TW_STEP_ROWS, /* kernels/pointwise: norms, softmax and reductions of rows. A unit is a row. */
    TW_STEP_PLAIN /* A node, computed as graph/run.h does. Its views are dense and row-major. Never on a GPU. */
} tw_step_kind;
extern const char *const tw_step_kind_names[]; /* "product", ... */

enum { TW_STEP_IN = 16, TW_STEP_OUT = 8 /* Most operands, and results, of a step that is not plain. */ };

typedef struct tw_step {
    tw_step_kind kind;
    /* Operands in the order of the kind's problem. A gathered operand's view has all that may be read, the gathered
       dimension first: the problem says how it is walked. */
    tw_view *in, *out;
    int n_in, n_out;
    union {
        tw_program_product product;
        tw_program_attention attention;
        const struct tw_map_problem *map;   /* Result 0. */
        const struct tw_rows_problem *rows; /* Results 0 and, if the problem keeps its prologue's value, 1. */
        const tw_node *node;                /* Resolved. Operands that are left out have buffer -1. */
    } of;
    const tw_node *origin; /* The last of the nodes that it computes, for people. NULL: a copy. */
} tw_step;

typedef struct tw_program {
    tw_arena arena;        /* Has what steps point to. */
    tw_program_made made;  /* Constants of its own. */
    const tw_graph *graph; /* Must outlive the program. */
    tw_program_buffer *buffers;
    int n_buffers, room_buffers;
    tw_step *steps;
    int n_steps, room_steps;
    int *inputs, *outputs; /* Buffers of the graph's inputs and outputs, in order. */
    int n_inputs, n_outputs;
    int64_t scratch_bytes; /* Of all scratch buffers, as planned. */
} tw_program;

tw_program *tw_program_new(const tw_graph *g); /* Without buffers and steps. NULL: out of memory. */
void tw_program_free(tw_program *p);           /* NULL is fine. */
/* Return the number of a new buffer or step. -1: out of memory, and p->arena has failed. The views are copied. */
int tw_program_add_buffer(tw_program *p, const tw_program_buffer *b);
int tw_program_add_step(tw_program *p, const tw_step *s);

/* A dense row-major view of all of a buffer. */
tw_view tw_view_dense(int buffer, tw_element type, int rank, const int64_t *dims);
bool tw_view_is_dense(const tw_view *v);
int64_t tw_view_elements(const tw_view *v);
/* The bytes of the buffer, from *from to *below - 1, that lie between the view's first and last byte. */
void tw_view_span(const tw_view *v, int64_t *from, int64_t *below);

/* Which attention nodes become attention steps. Others become products and softmax. */
typedef enum tw_program_fuse {
    TW_PROGRAM_FUSE_GPU, /* Those that tw_program_attention_gpu can express. */
    TW_PROGRAM_FUSE_ALL, /* All. */
    TW_PROGRAM_FUSE_NONE
} tw_program_fuse;

typedef struct tw_program_options {
    tw_program_fuse attention;
    bool apart; /* Products of gates and values stay two products. */
    bool gpu;   /* Operands fit the GPU's kernels: rows of matrices begin at multiples of 16 bytes. */
    bool norms; /* Only with gpu: norms of products' 16-bit results become part of the products that read them. */
    int64_t norm_rows; /* Layer norms of fewer rows do not become part of products. */
    /* Has the constants that lowering makes, for all programs of a model. Must outlive the programs, and the contents
       of the graphs' constants must outlive it. NULL: they are the program's own. */
    tw_program_made *made;
} tw_program_options;

/* lower.c. Makes the program of a concrete graph: all types and extents are known, all nodes are resolved. Memory is
   planned. TW_ERR_UNSUPPORTED: with `gpu`, lists all nodes that would be plain steps. */
tw_status tw_program_lower(tw_program **out, const tw_graph *g, const tw_program_options *o, tw_diag *diag);

/* memory.c. Gives scratch buffers offsets, so that buffers share memory unless both are live. */
tw_status tw_program_plan_memory(tw_program *p, tw_diag *diag);
/* Checks that each step reads only bytes that were written before and not overwritten since, within its buffers, and
   writes no input and no constant; and that all outputs are written. TW_ERR_REJECTED names the first that is not so. */
tw_status tw_program_verify(const tw_program *p, tw_diag *diag);

/* print.c. A step a line. */
void tw_program_print(const tw_program *p, tw_buf *out);
void tw_step_describe(const tw_program *p, const tw_step *s, char *out, size_t size);

#endif
