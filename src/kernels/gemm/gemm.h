/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, C = epilogue(alpha * op(A) * op(B) + beta * C), as kernels generated for a configuration: paper
   002's parameters (its section 3.2) for SIMT and for tensor cores alike.

   Matrices are row-major: op(A) is m x k and stored so, or k x m where `trans_a`; op(B) is k x n, or stored n x k where
   `trans_b`; C is m x n. A column-major product is the row-major one with A and B (and m and n) exchanged. */
#ifndef TW_KERNELS_GEMM_GEMM_H
#define TW_KERNELS_GEMM_GEMM_H

#include "base/buf.h"
#include "device/target.h"
#include "kernels/arguments.h"
#include "kernels/parts/join.h"
#include "tilewright/kernel.h"

typedef enum tw_gemm_type {
    TW_GEMM_F32,  /* IEEE single precision throughout. */
    TW_GEMM_F64,  /* IEEE double precision throughout. */
    TW_GEMM_F16,  /* Stored in 16 bits, accumulated in f32. */
    TW_GEMM_BF16, /* Stored in 16 bits, accumulated in f32. */
    TW_GEMM_TF32, /* Stored as f32, multiplied with 10 bits of fraction on tensor cores, accumulated in f32. */
    TW_GEMM_S8,   /* Stored in 8 bits, accumulated in 32-bit integers. */
    /* Stored as f32. An element is the sum of two tf32 numbers, and a product that of three products on tensor cores,
       accumulated in f32. A result is about as accurate as one of f32. An infinity becomes a NaN, as does
       what rounds to one. */
    TW_GEMM_TF32X3,
    /* Stored in 8 bits, accumulated in f32 by tensor cores that keep 14 bits (tw_gemm_problem.promote). */
    TW_GEMM_E4M3,
    TW_GEMM_TYPES
} tw_gemm_type;
bool tw_gemm_type_from_name(const char *name, tw_gemm_type *t);
extern const struct tw_gemm_type_info {
    const char *name;    /* "f32", ... */
    tw_type element;     /* Element type of A and B in memory. */
    tw_type accumulator; /* Type of sums: f32, f64 or i32. */
    tw_type out;         /* Element type of C unless the problem names another. */
} tw_gemm_types[TW_GEMM_TYPES];

typedef enum tw_gemm_activation {
    TW_GEMM_LINEAR,
    TW_GEMM_GELU, /* The tanh form. */
    TW_GEMM_SILU,
    TW_GEMM_GELU_ERF, /* The form with the error function. */
    TW_GEMM_ACTIVATIONS
} tw_gemm_activation;
const char *tw_gemm_activation_name(tw_gemm_activation a); /* "none", "gelu", "silu", "gelu_erf" */
bool tw_gemm_activation_from_name(const char *name, tw_gemm_activation *a);

/* Types of a narrow B, which has integers. */
typedef enum tw_gemm_narrow {
    TW_GEMM_WIDE, /* B is not narrow: its elements are of the problem's type. */
    TW_GEMM_I8,   /* Integers from -128 to 127. */
    TW_GEMM_I4,   /* Integers from -8 to 7. */
    TW_GEMM_NARROWS
} tw_gemm_narrow;
extern const char *const tw_gemm_narrow_names[TW_GEMM_NARROWS]; /* "none", "i8", "i4" */

/* y = activation(alpha * (sum * row's scale * column's scale) + beta * C + bias), then y * mul, then y + residual, then
   to the type of C. The matrices of `mul` and `residual` have C's type, extents and leading dimension. */
typedef struct tw_gemm_epilogue {
    bool scale_rows;    /* Multiply row i of the sums by element i of a vector of m f32, of which each A has one. */
    bool scale_columns; /* Multiply column j of the sums by element j of a vector of n f32, of which each B has one. */
    bool bias;          /* Add element j of a vector of n elements of C's type to column j. */
    tw_gemm_activation activation;
    bool mul;      /* Multiply by a matrix like C, as in SiLU(gate) * up. */
    bool residual; /* Add a matrix like C. */
    /* Also store sums of the squares of each row's cells, as rounded to C's type: buffer TW_GEMM_SQUARES. A sum is of
       neighbouring cells, as many as tw_gemm_squares says. */
    bool squares;
    bool means; /* Only with squares: behind each sum of squares store the sum of the same cells, both before rounding.
                 */
    /* Also store row i's cells, each times element j of a vector of n f32, as elements of A's type: buffer
       TW_GEMM_SCALED. C has f32. */
    bool scaled;
    /* B's columns are gates and values in turn, eight each: C = activation(gate) * value has n / 2 columns. */
    bool gated;
} tw_gemm_epilogue;

/* B as it lies on the tapes of the GPU's machine (vm/cuda/mega.h), of 16-bit elements. Eight columns of B are a unit. A
   unit has a piece of 512 bytes for every 32 elements along k: a line of 64 bytes for each column, whose 16-byte
   quarter i lies at i ^ (line / 2 % 4). The pieces of a chunk, warps * run * 32 elements along k, follow one another.
   The chunk consists of `warps` runs along k: the first `blocks` pieces of each run come first, then the next ones of
   each, and so on. k is padded with zeros to whole chunks. Units lie anywhere. */
typedef struct tw_gemm_tape {
    int warps;  /* Runs of a chunk. 0: B is a matrix. */
    int blocks; /* Pieces of a run that follow one another. */
    int run;    /* Pieces of a run, a multiple of `blocks`. */
    int apart;  /* 1: chunks of a unit lie anywhere, too. 0: they are equally far from one another. */
} tw_gemm_tape;
/* What buffer TW_GEMM_B has for each unit of a tape, in the order of B's columns, and then of groups. With `apart` it
   has one for each chunk of a unit, and one more behind the last, which kernels read but do not use. */
typedef struct tw_gemm_unit {
    uint64_t address; /* Address of the first piece, a multiple of 16. */
    int64_t stride;   /* Bytes from a chunk to the next. Not used with `apart`. */
} tw_gemm_unit;

typedef struct tw_gemm_problem {
    tw_gemm_type type;
    /* Element type of C. f64: f64. s8: i32, i8 (saturated) or f32. e4m3: f32, f16, bf16 or e4m3 (saturated). Others:
       f32, f16 or bf16. */
    tw_type out;
    int64_t m, n, k, batch; /* Extents, and number of products. batch 0: one product. */
    bool trans_a, trans_b;  /* A is stored k x m, and B is stored n x k. */
    int64_t lda, ldb, ldc;  /* Elements from a row as stored to the next. 0: rows are densely packed. */
    /* Elements from a product to the next. 0: densely packed. TW_GEMM_SHARED: all products have one A, or one B. */
    int64_t stride_a, stride_b, stride_c;
    /* Only with a batch. The batch has so many sets of equally many products, one set after another. Strides are from
       product to product within a set, and `set_a`, `set_b` and `set_c` from a set's first product to that of the next.
       0: one set. */
    int64_t sets;
    /* Elements from set to set. 0: as though the batch had no sets. TW_GEMM_SHARED: all sets have the same A, or the
       same B. */
    int64_t set_a, set_b, set_c;
    /* Only with a batch. Matrices lie anywhere: buffers TW_GEMM_A, TW_GEMM_B and TW_GEMM_C hold the address (64 bits)
       of each product's, or one address of a shared A or B. Addresses are multiples of 16, and matrices that are
       written do not overlap. Strides have no meaning but TW_GEMM_SHARED. The epilogue has no mul and no residual. */
    bool pointers;
    double alpha, beta;
    /* Rows of A lack the division by the roots of their means of squares: sums of row i are multiplied by
       1 / sqrt(s / k + eps), where s is the sum of so many numbers that TW_GEMM_ROW_SUMS has of the row. 0: they do
       not. */
    int64_t sums;
    double eps;
    /* Only with sums. Behind each sum of squares TW_GEMM_ROW_SUMS has the sum of the same elements, and means of
       squares are variances: those of a layer norm, whose B has columns with a mean of 0, so that nobody needs to
       subtract a row's mean from A. */
    bool centred;
    /* Only with sums that are centred. They are of the residual's rows, of n elements: a residual x becomes
       (x - mean) / sqrt(variance + eps) times element j of TW_GEMM_RESIDUAL_GAINS. A is as it is. */
    bool norm_residual;
    /* 0: one product. Otherwise B is so many matrices, and row i of A is multiplied by the one of its group: groups
       have consecutive rows, and buffer TW_GEMM_ENDS has the end of each. */
    int64_t groups;
    /* Only with groups. Group i has the first TW_GEMM_COUNTS[i] of its m / groups rows, and there are no ends. */
    bool masked;
    bool gather; /* Only with groups, except of tf32x3. Row i of the product is row TW_GEMM_ROWS[i] of A. */
    /* Rows that A has in memory. 0: m. Without `gather` the product is of the first m, and has no batch and no groups.
       Tensor copies fetch whole tiles, and rows that A has faster than zeros in the place of rows that it lacks. */
    int64_t rows_a;
    /* Only with groups. Row i of the result, times TW_GEMM_FACTORS[i], is row TW_GEMM_PLACES[i] of C. Places differ. */
    bool scatter;
    /* B, and the scales of a narrow one, are constant while launches that may overlap run. An early launch may read
       them before it waits. */
    bool weights;
    /* Only of e4m3. True: tensor cores add up at most TW_GEMM_BLOCK elements along k, and their sums are added in f32.
       False: tensor cores add up all of k. */
    bool promote;
    /* Only of e4m3. The sums of each TW_GEMM_BLOCK elements along k are multiplied by two scales before they are added:
       A has one for each row, and B one for each TW_GEMM_BLOCK columns. Sets `promote`. */
    bool scale_blocks;
    tw_gemm_narrow narrow; /* Type of B's integers. B is then packed by tw_gemm_pack. */
    /* Narrow: consecutive elements along k of a column of B that share a scale, 32 or a multiple of 64. An element is
       the integer times its scale, rounded to `type`, which the scale has, too. 0: elements are the integers, whose
       columns tw_gemm_epilogue.scale_columns may scale. */
    int64_t scales;
    bool scale_sums; /* Scales multiply the sums of such elements in f32. Elements are then not rounded. */
    /* C is so many matrices of f32, one behind the other, which add up to the product: each is the sum over a part of
       k, which a block has for itself (tw_gemm_config.kg). 0: C is the product. */
    int64_t addends;
    tw_gemm_tape tape; /* How B lies on tapes. Its matrix, as tw_gemm_matrix_of describes it, is n x k without gaps. */
    tw_gemm_epilogue epilogue;
} tw_gemm_problem;
enum {
    TW_GEMM_SHARED = -1,
    TW_GEMM_POINTER = 8, /* Bytes of a matrix's address. */
    TW_GEMM_BLOCK = 128  /* Elements along k whose sums are promoted, and elements of a side of a block of scales. */
};

/* The buffers of a launch. All but the last four hold matrices, or their addresses
   (tw_gemm_problem.pointers). A bias and a vector of scales are matrices of one row,
   and so are those that have a number for each group, or for each row of the product. */
typedef enum tw_gemm_buffer {
    TW_GEMM_A,
    TW_GEMM_B,
    TW_GEMM_C,
    TW_GEMM_BIAS,
    TW_GEMM_MUL,
    TW_GEMM_RESIDUAL,
    TW_GEMM_SCALE_ROWS,
    TW_GEMM_SCALE_COLUMNS,
    TW_GEMM_SCALE_A,  /* Blocks' scales of A: ceil(k / 128) x m f32. */
    TW_GEMM_SCALE_B,  /* Blocks' scales of B: ceil(n / 128) x ceil(k / 128) f32, for each group. */
    TW_GEMM_SCALES,   /* The scales of a narrow B, in the order of tw_gemm_scale_place. */
    TW_GEMM_ENDS,     /* The ends of groups (i32): row ends[i] is the first that group i does not have. */
    TW_GEMM_COUNTS,   /* Numbers of rows of groups (i32), at most m / groups. Below 0 counts as 0. */
    TW_GEMM_ROWS,     /* Rows of A (i32). One that A does not have counts as a row of zeros. */
    TW_GEMM_PLACES,   /* Rows of C (i32). A row of the result whose place C does not have is not stored. */
    TW_GEMM_FACTORS,  /* Factors of the result's rows (f32). */
    TW_GEMM_ROW_SUMS, /* Parts of the sums of squares of A's rows: tw_gemm_problem.sums x m f32, or pairs of f32. */
    TW_GEMM_GAINS,    /* What C's columns are multiplied by in TW_GEMM_SCALED: n f32. */
    TW_GEMM_RESIDUAL_GAINS,             /* Gains of the residual's norm: n elements of C's type. */
    TW_GEMM_MATRICES,                   /* The number of matrices. */
    TW_GEMM_SQUARES = TW_GEMM_MATRICES, /* Sums of squares: tw_gemm_squares.vectors x m f32. */
    TW_GEMM_SCALED,                     /* C's rows times gains: m x n elements of A's type. */
    TW_GEMM_WORKSPACE,
    TW_GEMM_COUNTERS,
    TW_GEMM_BUFFERS
} tw_gemm_buffer;
extern const char *const tw_gemm_buffer_names[TW_GEMM_BUFFERS]; /* "a", ..., "counters" */

/* A matrix of a problem, or a batch of them, as stored. */
typedef struct tw_gemm_matrix {
    tw_type type;              /* Element type. */
    int64_t rows, columns, ld; /* Extents as stored, and elements from a row to the next. */
    int64_t count;             /* Number of matrices of a set. 0: the problem has no such matrix. */
    int64_t stride;            /* Elements from a matrix to the next. 0: all products share one matrix. */
    int64_t sets;              /* Number of sets. A batch without sets is one. */
    int64_t apart;             /* Elements from set to set. 0: all sets share their matrices. */
} tw_gemm_matrix;
/* Returns the columns of C: n, or half of it if it is gated. */
int64_t tw_gemm_columns(const tw_gemm_problem *p);
tw_gemm_matrix tw_gemm_matrix_of(const tw_gemm_problem *p, tw_gemm_buffer which);
size_t tw_gemm_matrix_bytes(const tw_gemm_matrix *m); /* Returns the bytes from the first element to the last. */
/* Computes the elements from the first matrix to the one of a product of the batch. */
int64_t tw_gemm_matrix_place(const tw_gemm_problem *p, const tw_gemm_matrix *m, int64_t product);
/* Tells whether a buffer holds the addresses of matrices. Those of tw_gemm_matrix_of are then dense. */
bool tw_gemm_by_pointers(const tw_gemm_problem *p, tw_gemm_buffer which);

/* A narrow B is stored in one order for all configurations, kernels/parts/narrow.h, as tw_gemm_matrix_of describes it:
   blocks of 64 columns of B by 64 elements along k, padded to whole blocks of columns and k to a multiple of 256. What
   is in the padding of the integers says nothing. Scales there must be finite.

   Packs integers, column j's at integers[j * k], within the range of the problem's narrow type. `packed` has the bytes
   of buffer TW_GEMM_B; its padding becomes zero. */
void tw_gemm_pack(const tw_gemm_problem *p, const int8_t *integers, void *packed);
/* Gets the integer of row k of B in column `column`. */
int tw_gemm_packed(const tw_gemm_problem *p, const void *packed, int64_t column, int64_t k);
/* Computes the index in buffer TW_GEMM_SCALES of a column's scale, by the number of its group along k. */
int64_t tw_gemm_scale_place(const tw_gemm_problem *p, int64_t column, int64_t group);

/* Counts the elements along k that a kernel walks: k, or those of whole chunks of a tape. */
int64_t tw_gemm_depth(const tw_gemm_problem *p);
/* Counts what buffer TW_GEMM_B has for a tape, and all bytes of the tape. */
int64_t tw_gemm_tape_entries(const tw_gemm_problem *p);
size_t tw_gemm_tape_bytes(const tw_gemm_problem *p);
/* Places units in memory of tw_gemm_tape_bytes at `address`, in strips of random sizes, the last columns first. */
void tw_gemm_tape_place(const tw_gemm_problem *p, uint64_t seed, uint64_t address, tw_gemm_unit *units);
/* Packs B's matrices. `tape` is the memory that begins at `address`. */
void tw_gemm_tape_pack(const tw_gemm_problem *p, const void *b, const tw_gemm_unit *units, uint64_t address,
                       void *tape);

/* Sets leading dimensions, strides and `batch` that are 0, and `out` if it is TW_T_none. TW_ERR_USAGE: the problem
   makes no sense. All other functions take completed problems, whose sizes in bytes fit 64 bits. */
tw_status tw_gemm_problem_complete(tw_gemm_problem *p, tw_diag *diag);
/* Prints the words of `tilewright kernel gemm` for what is not as usual: "type=f32 m=64 n=64 k=64 ta=1 ...". */
void tw_gemm_problem_print(const tw_gemm_problem *p, char *out, size_t size);
/* Sets the field of the problem that a word names. Returns false if the word names none, and if its value is wrong.
 *status tells them apart: TW_OK or an error. */
bool tw_gemm_problem_word(tw_gemm_problem *p, const char *word, tw_status *status, tw_diag *diag);
/* Reads a whole problem from words, which it overwrites, and completes it. TW_ERR_USAGE: a word names no field, or the
   problem makes no sense. */
tw_status tw_gemm_problem_parse(tw_gemm_problem *p, char *words, tw_diag *diag);
extern const char tw_gemm_problem_words[]; /* All words of a problem, for help texts. */

/* How the threads of a warpgroup exchange sums before they store them. */
typedef enum tw_gemm_staging {
    TW_GEMM_DIRECT,    /* Not at all: a thread stores pairs. */
    TW_GEMM_STAGED,    /* Sums go through shared memory, so that a warp stores whole lines of C. */
    TW_GEMM_EXCHANGED, /* Lanes exchange sums, so that a thread stores eight elements together. */
    TW_GEMM_BOXED      /* A warp leaves boxes in shared memory, which the copy engine stores, or lanes do. */
} tw_gemm_staging;

/* Stream-K: which tiles of a persistent grid are cut along k, so that all blocks get equal parts. */
typedef enum tw_gemm_stream {
    TW_GEMM_WHOLE,      /* No tile is cut. */
    TW_GEMM_STREAM_ALL, /* All tiles are cut. */
    TW_GEMM_STREAM_REST /* The tiles of the last two waves are cut. */
} tw_gemm_stream;

/* Programmatic dependent launches. An early launch waits for the one before it before it reads what that may have
   written, and before it writes. */
typedef enum tw_gemm_start {
    TW_GEMM_LATE,  /* The launch begins when the one before it is over. */
    TW_GEMM_EARLY, /* The launch begins, and waits, before the one before it is over. */
    TW_GEMM_AHEAD  /* The launch begins as TW_GEMM_EARLY. If tw_gemm_problem.weights is set, it fetches B before it
                      waits. */
} tw_gemm_start;

/* space.def lists the values of each parameter. */
typedef struct tw_gemm_config {
    int mma;        /* How to multiply. 0: SIMT. 1: tensor cores, by warps. 2: tensor cores, by warpgroups. */
    int ms, ns;     /* Rows and columns of a thread's tile; with mma=1 of a warp's; with mma=2 of a warpgroup's. */
    int ml, nl;     /* Rows and columns of a block's tile. */
    int u;          /* Elements of a stage along k. */
    int ks;         /* Independent sums per element of a thread's tile. */
    int kl;         /* Groups of threads in a block. Each sums a part of every stage. */
    int kg;         /* Blocks along k. With tw_gemm_problem.addends: so many. */
    int vec;        /* Most bytes of a copy from global to shared memory: 4, 8, 16, or the element's size if smaller. */
    int frag;       /* SIMT: most bytes of a fragment load along k, or the element's size if smaller. */
    int copy;       /* 0: asynchronous copies. 1: through registers, which transposes SIMT's tiles on the way. */
    int stages;     /* Stages in shared memory: at least 2. Through registers 1 or 2. */
    int split;      /* tw_join_way of the blocks along k. Unused if kg is 1. */
    int swap;       /* 1: compute the transposed product, so that C's columns take the place of rows. */
    int group;      /* Rows of tiles that are computed together, for the L2 cache. */
    int multicast;  /* mma=2: blocks of a cluster that fetch together the rows (group=1) or columns (else) they share.
                       0: each fetches for itself. */
    int persistent; /* mma=2: blocks of the grid at most. Each computes tiles one after another, and fetches the next
                       tile while it stores one. 0: a block for each tile. */
    int pingpong;   /* mma=2, persistent: 1: two teams of warpgroups take turns. One multiplies while the other stores.
                       0: one team. */
    int stream;     /* mma=2, persistent: how tiles are cut along k (stream-K), a tw_gemm_stream. */
    int staged;     /* mma=2: how threads exchange sums before they store them, a tw_gemm_staging. */
    int early;      /* mma=2: whether the launch may begin before the one before it is over, a tw_gemm_start. */
    int blocks;     /* Blocks to keep resident on an SM, which bounds registers. 0: no bound. */
} tw_gemm_config;

/* What a configuration takes, known without compiling. */
typedef struct tw_gemm_resources {
    int threads;             /* Threads per block. */
    int registers;           /* Registers per thread, estimated. */
    int64_t shared_bytes;    /* Shared memory per block. */
    int64_t tiles, grid;     /* Tiles of all products, and blocks of the grid. */
    int64_t stages_of_k;     /* Stages of a block for each of its tiles. */
    int64_t workspace_bytes; /* Bytes of the workspace. It is zeroed once if `split` is atomic. */
    int64_t counter_bytes;   /* Bytes of the counters. They are zeroed once, and every launch leaves them zero. */
} tw_gemm_resources;

/* Returns true, and fills *r, if the configuration can run the completed problem on the target. Otherwise *why is the
   reason. `r` and `why` may be NULL. */
bool tw_gemm_legal(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_gemm_resources *r,
                   const char **why);

/* Print a configuration as "mma=0 ms=8 ns=8 ...", and parse it. Parameters that the text does not name stay. */
void tw_gemm_config_print(const tw_gemm_config *c, char *out, size_t size);
tw_status tw_gemm_config_parse(tw_gemm_config *c, const char *text, tw_diag *diag);
/* Returns the configuration with fixed values for parameters that do not matter. Equal kernels then compare equal. */
tw_gemm_config tw_gemm_config_plain(const tw_gemm_problem *p, tw_gemm_config c);
/* Returns a configuration that is legal for the problem on most targets, and not bad. */
tw_gemm_config tw_gemm_config_default(const tw_gemm_problem *p);

/* Returns a configuration whose fields are all -1. Where a function keeps fields, -1 means free. */
tw_gemm_config tw_gemm_config_any(void);

/* What a kernel is compiled for beside its configuration. Problems of equal variants share kernels. */
typedef struct tw_gemm_variant {
    tw_gemm_type type;
    tw_type out;
    bool a_k_major, b_k_major;      /* Elements along k are neighbours in memory, in the operands after swapping. */
    int vec_a, vec_b, vec_c;        /* Alignment of rows in bytes, at most 16. A and B: at most config.vec. */
    bool whole_m, whole_n, whole_k; /* Tiles fit the extent exactly, so that the kernel needs no bounds. */
    bool grouped;                   /* The product has groups. */
    bool masked, gather, scatter;   /* As in the problem. */
    bool beta, batched;             /* beta is not 0. There are several products. */
    bool sets;                      /* They are in several sets. */
    bool sums;                      /* tw_gemm_problem.sums is not 0. */
    bool centred, norm_residual;    /* As in the problem. */
    bool addends;                   /* tw_gemm_problem.addends is not 0. */
    bool pointers;                  /* As in the problem. */
    bool promote, scale_blocks;     /* As in tw_gemm_problem. */
    tw_gemm_narrow narrow;          /* Type of B's integers. */
    int scales;                     /* Narrow: tw_gemm_problem.scales. */
    bool scale_sums;                /* Narrow: tw_gemm_problem.scale_sums. */
    tw_gemm_tape tape;              /* As in the problem, but for `run`, which is 0. */
    bool ready_x, ready_y;          /* X or Y may be read before the launch before is over. Only with config.early. */
    tw_gemm_epilogue epilogue;
} tw_gemm_variant;
/* Returns the variant of a completed problem. Its padding is zero: equal variants have equal bytes. */
tw_gemm_variant tw_gemm_variant_of(const tw_gemm_problem *p, const tw_gemm_config *c);

/* Builds the kernel of a legal configuration. NULL: out of memory. */
tw_kernel *tw_gemm_build(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t);
/* Builds the kernel and runs the passes. With `verify` the kernel is verified after each. Returns NULL, with *diag, on
   failure. TW_ERR_USAGE: the configuration is not legal. */
tw_kernel *tw_gemm_make(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, bool verify,
                        tw_diag *diag);
/* Builds the kernel, runs the passes, and prints PTX. */
tw_status tw_gemm_ptx(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_buf *ptx,
                      tw_diag *diag);

/* What buffer TW_GEMM_SQUARES has with a configuration: a vector of sums, one for each row of C, after another. */
typedef struct tw_gemm_squares {
    int columns; /* Neighbouring columns of C whose squares are in one vector, or in several. The last may be fewer. */
    int parts;   /* Vectors of such columns, whose sums add up to theirs. */
    int64_t vectors; /* Number of vectors. With tw_gemm_epilogue.means half of them are of sums of cells. */
} tw_gemm_squares;
tw_gemm_squares tw_gemm_squares_of(const tw_gemm_problem *p, const tw_gemm_config *c);

/* Addresses of the buffers, by tw_gemm_buffer, on the device or in the emulator. */
typedef struct tw_gemm_buffers {
    uint64_t of[TW_GEMM_BUFFERS];
    uint64_t matrix_b; /* B as a matrix where it is a tape, for whoever reads none. 0: there is none. */
} tw_gemm_buffers;
/* Describes the buffers of a legal configuration's kernel. Buffers that the kernel lacks have 0 bytes. */
void tw_gemm_describe_buffers(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_resources *need,
                              tw_gpu_buffer out[TW_GEMM_BUFFERS]);
void tw_gemm_launch_of(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_buffers *buffers,
                       tw_launch_values *l);

/* Gets the signature of the configuration's kernel without building it. */
tw_status tw_gemm_signature(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_signature *s,
                            tw_diag *diag);

#endif
