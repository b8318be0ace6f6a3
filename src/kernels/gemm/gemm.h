/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, C = epilogue(alpha * op(A) * op(B) + beta * C), as kernels generated for a configuration: paper
   002's parameters (its section 3.2) for SIMT and for tensor cores alike.

   Matrices are row-major: op(A) is m x k and stored so, or k x m where `trans_a`; op(B) is k x n, or stored n x k where
   `trans_b`; C is m x n. A column-major product is the row-major one with A and B (and m and n) exchanged. */
#ifndef TW_KERNELS_GEMM_GEMM_H
#define TW_KERNELS_GEMM_GEMM_H

#include "base/buf.h"
#include "base/random.h"
#include "device/target.h"
#include "kernels/arguments.h"

typedef enum tw_gemm_type {
    TW_GEMM_F32, /* IEEE single throughout */
    TW_GEMM_F64,
    TW_GEMM_F16,  /* stored in 16 bits, accumulated in f32 */
    TW_GEMM_BF16, /* likewise */
    TW_GEMM_TF32, /* stored as f32, multiplied with 10 bits of fraction on tensor cores, accumulated in f32 */
    TW_GEMM_S8,   /* accumulated in 32-bit integers */
    TW_GEMM_TYPES
} tw_gemm_type;
const char *tw_gemm_type_name(tw_gemm_type t); /* "f32", ... */
bool tw_gemm_type_from_name(const char *name, tw_gemm_type *t);
tw_type tw_gemm_element(tw_gemm_type t);     /* of A and B in memory */
tw_type tw_gemm_accumulator(tw_gemm_type t); /* f32, f64 or i32 */
tw_type tw_gemm_usual_out(tw_gemm_type t);   /* of C where nothing is said */

typedef enum tw_gemm_activation {
    TW_GEMM_LINEAR,
    TW_GEMM_GELU, /* the tanh form */
    TW_GEMM_SILU,
    TW_GEMM_ACTIVATIONS
} tw_gemm_activation;
const char *tw_gemm_activation_name(tw_gemm_activation a); /* "none", "gelu", "silu" */
bool tw_gemm_activation_from_name(const char *name, tw_gemm_activation *a);

/* y = activation(alpha * sum + beta * C + bias), then y * mul, then y + residual, then to the type of C. */
typedef struct tw_gemm_epilogue {
    bool bias; /* n elements of C's type, one a column */
    tw_gemm_activation activation;
    bool mul;      /* an m x n matrix of C's type, leading dimension ldc: SiLU(gate) * up */
    bool residual; /* another */
} tw_gemm_epilogue;

typedef struct tw_gemm_problem {
    tw_gemm_type type;
    tw_type out; /* of C: f32, f16 or bf16 for floating types; f64 for f64; i32, i8 (saturated) or f32 for s8 */
    int64_t m, n, k, batch; /* batch 0 or 1: a single product */
    bool trans_a, trans_b;
    int64_t lda, ldb, ldc;                /* elements between rows as stored; 0: densely packed */
    int64_t stride_a, stride_b, stride_c; /* elements between products of a batch, without one ignored; 0: densely
                                             packed (A or B may be shared by all: TW_GEMM_SHARED) */
    double alpha, beta;
    tw_gemm_epilogue epilogue;
} tw_gemm_problem;
enum { TW_GEMM_SHARED = -1 };

/* Fills in what is 0: the dense leading dimensions and strides, `out` where it is TW_T_none. Says what makes no sense
   (TW_ERR_USAGE). Everything else here takes completed problems: their sizes and distances in bytes fit 64 bits. */
tw_status tw_gemm_problem_complete(tw_gemm_problem *p, tw_diag *diag);
/* "type=f32 m=64 n=64 k=64 ta=1 ...": what is not as usual, in the words of `tilewright kernel gemm`. */
void tw_gemm_problem_print(const tw_gemm_problem *p, char *out, size_t size);
/* Sets the field of the problem that a word names. Returns false if the word names none, and if its value is wrong.
 *status tells them apart: TW_OK or an error. */
bool tw_gemm_problem_word(tw_gemm_problem *p, const char *word, tw_status *status, tw_diag *diag);
extern const char tw_gemm_problem_words[]; /* All words of a problem, for help texts. */

typedef enum tw_gemm_split {
    TW_GEMM_SPLIT_LAST,    /* every block leaves its part; the last to arrive adds them in order: deterministic */
    TW_GEMM_SPLIT_SERIAL,  /* each waits for the one before and adds to what it left: deterministic, little workspace */
    TW_GEMM_SPLIT_ATOMIC,  /* atomic additions in any order, into a workspace that is zero between launches */
    TW_GEMM_SPLIT_CLUSTER, /* the splits of a tile are a cluster and add up through one another's shared memory:
                              deterministic, no workspace, sm_90 and TW_GEMM_CLUSTER at most */
    TW_GEMM_SPLITS
} tw_gemm_split;
enum { TW_GEMM_CLUSTER = 8 }; /* The most blocks of a cluster, as TW_JOIN_CLUSTER. */

/* space.def lists the values of each parameter. */
typedef struct tw_gemm_config {
    int mma; /* The way to multiply. 0: SIMT. 1: tensor cores, a warp at a time. 2: tensor cores, a warpgroup at a time.
              */
    int ms, ns;     /* Rows and columns of a thread's tile; with mma=1 of a warp's; with mma=2 of a warpgroup's. */
    int ml, nl;     /* Rows and columns of a block's tile. */
    int u;          /* Elements of a stage along k. */
    int ks;         /* Independent sums per element of a thread's tile. */
    int kl;         /* Groups of threads in a block. Each sums a part of every stage. */
    int kg;         /* Blocks along k. */
    int vec;        /* Most bytes of a copy from global to shared memory: 4, 8, 16, or the element's size if smaller. */
    int frag;       /* SIMT: most bytes of a fragment load along k, or the element's size if smaller. */
    int copy;       /* 0: asynchronous copies. 1: through registers, which transposes SIMT's tiles on the way. */
    int stages;     /* Stages in shared memory: at least 2. Through registers 1 or 2. */
    int split;      /* tw_gemm_split. Only where kg > 1. */
    int swap;       /* 1: compute the transposed product, so that C's columns take the place of rows. */
    int group;      /* Rows of tiles that are computed together, for the L2 cache. */
    int multicast;  /* mma=2: blocks of a cluster that fetch together the rows (group=1) or columns (else) they share.
                       0: each fetches for itself. */
    int persistent; /* mma=2: tiles that a block computes one after another. The next tile's fetch overlaps the store.
                       0: one tile. */
    int staged;     /* mma=2: 1: sums go through shared memory, so that a warp stores whole lines of C. */
    int blocks;     /* Blocks to keep resident on an SM, which bounds registers. 0: no bound. */
} tw_gemm_config;

/* What a configuration takes, known without compiling. */
typedef struct tw_gemm_resources {
    int threads;
    int registers; /* an estimate */
    int64_t shared_bytes;
    int64_t tiles, grid;     /* blocks of one split, of all */
    int64_t stages_of_k;     /* Stages of each block. */
    int64_t workspace_bytes; /* holds parts; zeroed once where `split` is atomic */
    int64_t counter_bytes;   /* zeroed once; every launch leaves it zero */
} tw_gemm_resources;

/* Whether the configuration can run the (completed) problem on the target; the reason otherwise, if `why` is given.
   Fills `r` (may be NULL) when it can. */
bool tw_gemm_legal(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_gemm_resources *r,
                   const char **why);

/* "mma=0 ms=8 ns=8 ..." and back: parameters that are not named keep what `c` holds. */
void tw_gemm_config_print(const tw_gemm_config *c, char *out, size_t size);
tw_status tw_gemm_config_parse(tw_gemm_config *c, const char *text, tw_diag *diag);
/* The same kernel's one spelling: what has no meaning beside the rest is at a fixed value. */
tw_gemm_config tw_gemm_config_plain(const tw_gemm_problem *p, tw_gemm_config c);
/* A configuration that is legal for the problem on most targets, and not bad. */
tw_gemm_config tw_gemm_config_default(const tw_gemm_problem *p);

/* Returns a configuration whose fields are all -1. Where a function keeps fields, -1 means free. */
tw_gemm_config tw_gemm_config_any(void);
/* Draws configurations uniformly from the space (space.h) until one is legal. Returns false after `tries` illegal ones.
   Fields of `keep` that are not -1 are fixed. `keep` NULL fixes none. */
bool tw_gemm_config_random(tw_gemm_config *c, const tw_gemm_problem *p, const tw_target *t, const tw_gemm_config *keep,
                           tw_random *random, int tries);

/* What a kernel is compiled for beside its configuration. Problems of equal variants share kernels. */
typedef struct tw_gemm_variant {
    tw_gemm_type type;
    tw_type out;
    bool a_k_major, b_k_major; /* k is contiguous in memory (after swapping) */
    int vec_a, vec_b, vec_c;   /* bytes that their rows are aligned to, at most 16 (vec_a, vec_b: at most config.vec) */
    bool whole_m, whole_n, whole_k; /* tiles fit exactly: no bounds */
    bool beta, batched;
    tw_gemm_epilogue epilogue;
} tw_gemm_variant;
tw_gemm_variant tw_gemm_variant_of(const tw_gemm_problem *p, const tw_gemm_config *c);

/* Builds the kernel; NULL when memory ran out. The configuration must be legal. */
tw_kernel *tw_gemm_build(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t);
/* Builds the kernel and runs the passes. With `verify` the kernel is verified after each. Returns NULL, with *diag, on
   failure. */
tw_kernel *tw_gemm_make(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, bool verify,
                        tw_diag *diag);
/* Builds the kernel, runs the passes, and prints PTX. */
tw_status tw_gemm_ptx(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_buf *ptx,
                      tw_diag *diag);

/* Addresses of the buffers, on the device or in the emulator. The fields have the buffers' names. */
typedef struct tw_gemm_buffers {
    uint64_t a, b, c, bias, mul, residual, workspace, counters;
} tw_gemm_buffers;
void tw_gemm_launch_of(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_buffers *buffers,
                       tw_launch_values *l);

/* Gets the signature of the configuration's kernel without building it. */
tw_status tw_gemm_signature(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_signature *s,
                            tw_diag *diag);

#endif
