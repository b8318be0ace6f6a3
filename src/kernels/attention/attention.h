/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: each row of Q is scored against the rows of K, and gets the mean of V's rows, weighted by the softmax of
   its scores. Scores are never stored (arXiv 2205.14135); the kernel's order of work is that of arXiv 2407.08608.

   A sequence has queries 0 to n - 1 and keys 0 to L - 1. Query i stands at key L - n + i, so that the last query stands
   at the last key. A causal query sees the keys up to its own. With a window W a query sees the keys less than W away
   from its own. A query that sees no key gets zeros. */
#ifndef TW_KERNELS_ATTENTION_ATTENTION_H
#define TW_KERNELS_ATTENTION_ATTENTION_H

#include "device/cuda/cuda.h"
#include "emu/emu.h"
#include "kernels/plan.h"
#include "ptx/load.h"
#include "space/space.h"

/* What the profiler calls a warpgroup's work on a block of keys: two products, and what is computed between them. */
#define TW_ATTENTION_SCORE   "scores"
#define TW_ATTENTION_SUM     "values"
#define TW_ATTENTION_WEIGH   "softmax"
#define TW_ATTENTION_RESCALE "rescale"
#define TW_ATTENTION_TURNS   "turn"

enum { TW_ATTENTION_LEAST_HEAD = 32, TW_ATTENTION_MOST_HEAD = 256 };

typedef struct tw_attention_problem {
    tw_type type; /* Element type of Q, K, V and the result, and of weights: f16 or bf16. */
    /* TW_T_e4m3: K and V are of that type, and each of their heads has a scale above 0. TW_T_none: they are of `type`.
     */
    tw_type kv;
    int64_t heads;    /* Heads of Q. */
    int64_t kv_heads; /* Heads of K and V, each for heads / kv_heads neighbouring heads of Q. */
    int64_t head;     /* Elements of a head, a multiple of 8. */
    int64_t queries;  /* Queries of a sequence. Ragged: rows of Q of all sequences together, at most. */
    int64_t keys;     /* Keys of a sequence. Ragged: of the longest one, at most. */
    int64_t batch;    /* Number of sequences. */
    int64_t capacity; /* K and V are [batch][kv_heads][capacity][head]. 0: they are [batch][keys][kv_heads][head]. */
    int64_t page;     /* Keys of a page. K and V are [pool][page][kv_heads][head]. 0: there are no pages. */
    int64_t pool;     /* Pages of K, and of V. */
    int64_t ldq;      /* Elements from a query to the next in Q. */
    int64_t ldk;      /* Elements from a key to the next in K and V. */
    int64_t ldo;      /* Elements from a query to the next in the result. */
    int64_t window;   /* Keys that a query sees on each side, its own included. 0: all. */
    double scale;     /* Multiplies scores. 0: 1 / sqrt(head). */
    double cap;       /* Scores s become cap * tanh(s / cap). 0: they stay. */
    bool causal;      /* Queries see no later keys. */
    bool ragged;      /* Only the device knows how many queries and keys each sequence has. */
    bool lse;         /* Stores the logarithm of each query's sum of exponents. */
    bool sinks;       /* Each head has one more score, without a value. */
    /* Type of an array with a number for each query and key: f32, f16 or bf16 are added to scores that were scaled and
       capped, and where an i8 is 0 the query does not see the key. TW_T_none: there is no such array. */
    tw_type mask;
    int64_t mask_batch; /* Sequences that the array has, `batch`, or 1 for all of them. */
    int64_t mask_heads; /* Heads that the array has, `heads`, or 1 for all of them. */
    int64_t ldm;        /* Elements from a query to the next in the array, a multiple of 8. */
} tw_attention_problem;

/* Tensor cores are used by warps (mma.sync), as all targets have them, or by warpgroups (wgmma), by sm_90a alone. */
enum { TW_ATTENTION_BY_WARPS = 1, TW_ATTENTION_BY_WARPGROUPS = 2 };

/* When a launch begins: when the one before it is over, or before that and waits, or so with blocks that have room
   beside those of that launch, whose first keys and values are fetched into the L2 before the wait. */
enum { TW_ATTENTION_LATE, TW_ATTENTION_EARLY, TW_ATTENTION_BESIDE };

/* The parameters of space.def. */
typedef struct tw_attention_config {
    int rows;       /* Queries of a tile. By wgmma: 64 for each warpgroup that multiplies. */
    int columns;    /* Keys of a block. */
    int stages;     /* Blocks of keys, and of values, in shared memory. */
    int overlap;    /* 1: a block's scores are multiplied out while the block before is weighted. */
    int pingpong;   /* 1: warpgroups take turns to issue products. */
    int lazy;       /* 1: sums are not multiplied by 1. */
    int pack;       /* 1: a tile has the queries of all heads that share keys. */
    int splits;     /* Parts of a tile's keys, each for another block. The last one to end merges them. */
    int persistent; /* Blocks of the grid, which take tiles from a counter. 0: one for each tile. */
    int band;       /* Heads whose tiles come together, so that their keys and values stay in L2. */
    int early;      /* TW_ATTENTION_LATE, _EARLY or _BESIDE. */
    int mma;        /* TW_ATTENTION_BY_*: how to multiply. */
    int strips;     /* By mma.sync: sixteens of queries of each warp. */
    int slices;     /* Warps, or by wgmma warpgroups, that share queries, each with other keys of every block. */
} tw_attention_config;

typedef enum tw_attention_buffer {
    TW_ATTENTION_Q,
    TW_ATTENTION_K,
    TW_ATTENTION_V,
    TW_ATTENTION_OUT,
    TW_ATTENTION_LSE,
    TW_ATTENTION_SINKS,
    TW_ATTENTION_STARTS,
    TW_ATTENTION_LENGTHS,
    TW_ATTENTION_PAGES,
    TW_ATTENTION_MASK,
    TW_ATTENTION_K_SCALES,
    TW_ATTENTION_V_SCALES,
    TW_ATTENTION_WORKSPACE,
    TW_ATTENTION_COUNTERS,
    TW_ATTENTION_BUFFERS
} tw_attention_buffer;

/* A buffer that no launch has has 0 elements. */
typedef struct tw_attention_array {
    const char *name;
    tw_type type;
    int64_t elements;
} tw_attention_array;
tw_attention_array tw_attention_array_of(const tw_attention_problem *p, tw_attention_buffer which);

/* Sets fields that are 0 to what they stand for, and checks all. TW_ERR_USAGE: the problem makes no sense. */
tw_status tw_attention_complete(tw_attention_problem *p, tw_diag *diag);
/* Reads words such as "type=bf16 heads=32 kv_heads=8 head=128 queries=512 keys=512 causal=1", and completes the
   problem. The text is overwritten. */
tw_status tw_attention_parse(tw_attention_problem *p, char *words, tw_diag *diag);
extern const char tw_attention_words[]; /* What the words are, for people. */
/* Reads one word. False: it is unknown, or (*status) its value is wrong. */
bool tw_attention_word(tw_attention_problem *p, const char *word, tw_status *status, tw_diag *diag);
void tw_attention_print(const tw_attention_problem *p, char *out, size_t size);

/* What tw_attention_space checks configurations against. */
typedef struct tw_attention_space_context {
    const tw_attention_problem *problem; /* Completed. */
    const tw_target *target;
} tw_attention_space_context;
extern const tw_space tw_attention_space;
/* `mma` is TW_ATTENTION_BY_*, or 0 for the faster of those that the target has. */
tw_attention_config tw_attention_config_default(const tw_attention_problem *p, const tw_target *t, int mma);
/* Sets the parameters that the text names, and brings the configuration to canonical form. */
tw_status tw_attention_config_parse(const tw_attention_problem *p, tw_attention_config *c, const char *text,
                                    tw_diag *diag);
void tw_attention_config_print(const tw_attention_config *c, char *out, size_t size);

/* Resources of a block. */
typedef struct tw_attention_resources {
    int threads, registers;
    int64_t shared_bytes, tiles, grid;
} tw_attention_resources;
/* Tells whether the target can run the configuration. *why (may be NULL) gets the reason why not, else NULL. `r` may be
   NULL. */
bool tw_attention_legal(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t,
                        tw_attention_resources *r, const char **why);

/* Builds the kernel and runs the passes. NULL, with *diag, on failure. */
tw_kernel *tw_attention_make(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t,
                             bool verify, tw_diag *diag);
tw_status tw_attention_ptx(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t, tw_buf *ptx,
                           tw_diag *diag);
/* Sets the launch's grid and arguments. at[] has the address of each tw_attention_buffer. */
void tw_attention_launch_of(const tw_attention_problem *p, const tw_attention_config *c, const uint64_t *at,
                            tw_launch_values *l);
/* Describes the buffers. Those that the kernel lacks have 0 bytes. */
void tw_attention_describe_buffers(const tw_attention_problem *p, const tw_attention_config *c,
                                   tw_gpu_buffer out[TW_ATTENTION_BUFFERS]);

/* reference.c: random inputs, and results in double precision beside them. */
typedef struct tw_attention_data {
    tw_attention_problem problem;
    void *of[TW_ATTENTION_BUFFERS];     /* Contents of the buffers that the kernel only reads. Others are NULL. */
    size_t bytes[TW_ATTENTION_BUFFERS]; /* Sizes of all. Workspace and counters: 0. */
    float *wide[TW_ATTENTION_V + 1];    /* Q, K and V as f32. Elements of 8 bits are without their scales. */
} tw_attention_data;
tw_status tw_attention_data_make(tw_attention_data *d, const tw_attention_problem *p, uint64_t seed, tw_diag *diag);
void tw_attention_data_free(tw_attention_data *d);
/* Compares what a kernel stored in OUT and LSE (NULL: there is none). `every` is 1 to compare all queries, or n for
   about every n-th. Elements that belong to no query must have the bits of 0xff. TW_ERR_MISMATCH names the first that
   is wrong. */
tw_status tw_attention_data_judge(const tw_attention_data *d, const void *out, const float *lse, int64_t every,
                                  tw_diag *diag);

/* The right results of all queries, or of about every n-th, computed once by all processors for many kernels. */
typedef struct tw_attention_answer tw_attention_answer;
tw_status tw_attention_answer_make(tw_attention_answer **out, const tw_attention_data *d, int64_t every,
                                   tw_diag *diag);     /* The data must outlive it. */
void tw_attention_answer_free(tw_attention_answer *a); /* NULL is fine. */
/* Compares as tw_attention_data_judge does. */
tw_status tw_attention_answer_judge(const tw_attention_answer *a, const void *out, const float *lse, tw_diag *diag);

/* emulate.c: runs the kernel in the emulator on these data. TW_OK: nothing was found, and the results are right.
   TW_ERR_MISMATCH: they are wrong. TW_ERR_REJECTED names what was found. *report (may be NULL) is the launch's. */
tw_status tw_attention_emulate(const tw_attention_data *d, const tw_attention_config *c, const tw_target *t,
                               uint64_t seed, tw_emu_report *report, tw_diag *diag);
/* The same with a kernel that was made. */
tw_status tw_attention_emulate_kernel(const tw_attention_data *d, const tw_attention_config *c, const tw_kernel *k,
                                      uint64_t seed, tw_emu_report *report, tw_diag *diag);

/* device.c: a GPU that has the data, for many kernels of a problem. */
typedef struct tw_attention_rig tw_attention_rig;
/* Uploads the data. `answer` is what results are compared with. All outlive the rig. */
tw_status tw_attention_rig_make(tw_attention_rig **out, tw_cuda *cuda, const tw_attention_data *d,
                                const tw_attention_answer *answer, tw_diag *diag);
void tw_attention_rig_free(tw_attention_rig *r); /* NULL is fine. */
/* Where the seconds of a rig's kernels went. */
typedef struct tw_attention_seconds {
    double load, check, time;
} tw_attention_seconds;
const tw_attention_seconds *tw_attention_rig_seconds(const tw_attention_rig *r);

/* Launches compiled code, and compares its results. TW_ERR_MISMATCH: they are wrong. Then takes `n` samples of a
   launch's microseconds, of launches that follow one another on the same buffers; only one if that is longer than
   `give_up` (0: no limit). *taken (may be NULL) is how many there are. */
tw_status tw_attention_rig_try(tw_attention_rig *r, const tw_attention_config *c, const tw_cubin *cubin,
                               double *samples, int n, double give_up, int *taken, tw_diag *diag);

/* The same of attention that is not ours. It reads and writes the buffers at[]. */
typedef tw_status tw_attention_enqueue(void *context, const uint64_t at[TW_ATTENTION_BUFFERS], tw_diag *diag);
tw_status tw_attention_rig_try_other(tw_attention_rig *r, tw_attention_enqueue *other, void *context, double *samples,
                                     int n, double give_up, int *taken, tw_diag *diag);

/* Does it once, and compares some of the results. */
tw_status tw_attention_run(const tw_attention_data *d, const tw_attention_config *c, tw_cuda *cuda,
                           const tw_cubin *cubin, double *samples, int n, tw_diag *diag);

#endif
