/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a network on a GPU. */
#ifndef TW_VM_NETWORK_MACHINE_H
#define TW_VM_NETWORK_MACHINE_H

#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gpu.h"
#include "kernels/kernel.h"
#include "kernels/plan.h"
#include "kernels/pointwise/map.h"
#include "kernels/rows/rows.h"
#include "kernels/vendor/cublaslt.h"
#include "kernels/vendor/cudnn.h"
#include "ptx/load.h"
#include "tune/gemm_rig.h"
#include "vm/network/network.h"

/* A constant on the device. */
typedef struct tw_network_constant {
    const void *content;
    int64_t bytes;
    uint64_t address;
} tw_network_constant;

struct tw_network_weights {
    tw_gpu *gpu;
    tw_network_constant *list;
    int n, room;
    int64_t bytes;
    tw_cublaslt *vendor; /* NULL: it is not opened. */
    bool asked;          /* It was looked for. */
    tw_cudnn *cudnn;     /* NULL: it is not opened. */
    bool asked_cudnn;    /* It was looked for. */
    char left_out[256];  /* The first reason why cuDNN does not compute attention. "": there is none. */
};

/* A kernel, which launches share. */
typedef struct tw_network_kernel {
    struct tw_network_kernel *next;
    const char *words, *configuration; /* What it was opened by. NULL: a problem. */
    const void *problem;
    size_t problem_bytes;
    tw_gpu_kernel *kernel;
} tw_network_kernel;

/* A product by the vendor. */
typedef struct tw_network_vendor {
    tw_cublaslt_plan *plan;
    int algorithm;
} tw_network_vendor;

/* Attention by cuDNN, which launches share. */
typedef struct tw_network_foreign {
    struct tw_network_foreign *next;
    const char *words, *engine; /* What it was made by. */
    tw_cudnn_plan *plan;        /* NULL: this version of the library does not make it. */
} tw_network_foreign;

/* Memory that kernels need beside operands and results. Launches share it. */
typedef struct tw_network_own {
    uint64_t workspace, zeroed;
    int64_t workspace_bytes;
    int64_t zeroed_bytes; /* Of the part of `zeroed` before counters. */
} tw_network_own;

typedef struct tw_network_launch {
    int step;
    int choice;    /* Number of the plan's entry that the step follows, from 1, while the network is opened. 0: none. */
    bool epilogue; /* It is the map that computes the epilogue of a product by the vendor. */
    const tw_network_kernel *kernel; /* NULL: the vendor's. */
    const tw_network_foreign *cudnn; /* Attention by cuDNN. NULL: it is something else. */
    tw_gpu_launch *launch;
    int64_t parts; /* Of a product that leaves sums of its rows: how many of each row. */
    tw_network_vendor vendor;
    tw_network_own own; /* What it is bound to. */
} tw_network_launch;

/* What searches of a network share. */
typedef struct tw_network_searching {
    tw_gemm_pool *pool; /* Random operands on the device. NULL: there are none yet. */
    tw_gemm_type type;  /* Type of the pool's products. */
    size_t bytes;       /* Size of the pool. */
    tw_ptx_compiler compiler;
    double seconds; /* What is left for the problem that is searched now. 0: no limit. */
    double spent;   /* What all searches of the network took. */
} tw_network_searching;

struct tw_cuda_network {
    const tw_program *p;
    tw_network_weights *weights;
    tw_gpu *gpu;
    tw_cuda_network_options options;
    tw_network_plan *plan; /* While it is opened. */
    tw_network_searching searching;
    tw_cuda_info info; /* Describes the device, or one that the emulator stands for. */
    tw_arena arena;
    tw_network_kernel *kernels;
    tw_network_foreign *foreign;
    tw_network_launch *launches;
    int n, room;
    uint64_t scratch; /* Memory of the program. */
    tw_network_own own;
    uint64_t *at;     /* By buffer: its address. */
    uint64_t *tables; /* Blocks of memory, tables of addresses among them. */
    int n_tables, room_tables;
    int64_t bytes; /* Of all memory beside weights. */
    tw_cuda_graph *graph;
    bool ran, one_by_one;
};

/* cuda.c. Allocates memory of the network, filled with zeros. */
tw_status tw_network_alloc(tw_cuda_network *n, const char *name, int64_t bytes, uint64_t *address, tw_diag *diag);
/* Launches all, one after another. */
tw_status tw_network_launch_all(tw_cuda_network *n, tw_diag *diag);
/* Captures all launches, which have run before, since what the driver loads lazily cannot be captured. */
tw_status tw_network_capture(tw_cuda_network *n, tw_cuda_graph **out, tw_diag *diag);
/* Closes a launch. */
void tw_network_close_launch(tw_network_launch *l);
/* The address of a view's first element. */
static inline uint64_t tw_network_address(const tw_cuda_network *n, const tw_view *v) {
    return v->buffer < 0 ? 0 : n->at[v->buffer] + (uint64_t)v->offset;
}

/* steps.c. Adds the launches of a step, whose buffers are not bound yet. */
tw_status tw_network_add_step(tw_cuda_network *n, int step, tw_diag *diag);
/* Binds all buffers of a launch. */
tw_status tw_network_bind(tw_cuda_network *n, tw_network_launch *l, tw_diag *diag);
/* Allocates what kernels need beside operands and results, where there is less. Launches that are bound keep theirs. */
tw_status tw_network_alloc_workspace(tw_cuda_network *n, tw_diag *diag);
/* Closes kernels that no launch has. */
void tw_network_close_unused(tw_cuda_network *n);
/* Zeroes what the kernel of a launch must find zero. */
tw_status tw_network_clear(const tw_cuda_network *n, const tw_network_launch *l, tw_diag *diag);
/* The attention of a step as its kernel knows it. */
tw_status tw_network_attention(const tw_step *s, tw_attention_problem *out, tw_diag *diag);

/* product.c. The product of a step as kernels know it. TW_ERR_UNSUPPORTED: they do not. */
tw_status tw_network_problem(const tw_cuda_network *n, const tw_step *s, tw_gemm_problem *out, tw_diag *diag);

/* Counts the parts of a row whose sums a product leaves. 0: it leaves none. */
int64_t tw_network_parts(const tw_gemm_problem *p, const tw_gemm_config *c);
/* Tells whether a step reads the sums that another one leaves. */
bool tw_network_takes_sums(const tw_step *s, const tw_step *from);

/* alike.c. What is measured of the product of a step, whoever wrote its operands: that of most steps whose matrices lie
   alike and have the same activation, with all that is then done to C, and with as many sums of rows as is usual. */
tw_status tw_network_searched(const tw_cuda_network *n, const tw_step *s, tw_gemm_problem *out, tw_diag *diag);

/* Tells whether tables of addresses say where the matrices of a product's batch lie. */
bool tw_network_by_pointers(const tw_program_product *p);

/* What the vendor does not compute of a product: a map of C in place. NULL: nothing. Bias, mul and residual follow C as
   operands, those that there are. */
const tw_map_problem *tw_network_epilogue(tw_cuda_network *n, const tw_gemm_problem *p);

/* choose.c. Tells whether a product may be split along k. */
bool tw_network_may_split(const tw_cuda_network *n, const tw_gemm_problem *p);

/* The product alone, which the vendor computes. */
tw_gemm_problem tw_network_plain(const tw_gemm_problem *p);

/* How a product is computed. */
typedef struct tw_network_chosen {
    int entry; /* Number of the plan's entry, from 1. 0: none. */
    bool vendor;
    tw_gemm_config config;
    bool first; /* The vendor's first choice is taken. */
    tw_cublaslt_algorithm algorithm;
} tw_network_chosen;

/* How a step is computed that has choices: a product or attention. */
typedef struct tw_network_way {
    tw_gemm_problem product;          /* Of a product. */
    tw_network_chosen chosen;         /* Of attention only its entry. */
    const tw_network_foreign *cudnn;  /* Attention by cuDNN. NULL: it is something else. */
    char words[TW_PLAN_TEXT];         /* Of the kernel's problem. */
    char configuration[TW_PLAN_TEXT]; /* Nothing of use where the vendor or cuDNN computes it. */
} tw_network_way;
/* steps.c. Finds how a step is computed by the plan. */
tw_status tw_network_way_of(tw_cuda_network *n, int step, tw_network_way *out, tw_diag *diag);

/* Tells whether the vendor computes a product otherwise, whatever a plan says that comes from a file: it would write
   all columns of gates and values, and knows nothing of norms. */
bool tw_network_own_alone(const tw_gemm_problem *p);

/* Chooses by the plan, or else by estimates. `searched` is what the plan has of the problem's like. */
tw_status tw_network_choose(tw_cuda_network *n, const tw_gemm_problem *p, const tw_gemm_problem *searched,
                            tw_network_chosen *out, tw_diag *diag);

/* Chooses a configuration by estimates. False: no kernel computes the problem. */
bool tw_network_estimate(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *out);

/* Lists configurations that compute a tile's epilogue while they multiply the next tile, the best by estimates, which
   know nothing of epilogues. Returns their number. */
enum { TW_NETWORK_OVERLAPPING = 4 };
int tw_network_overlapping(const tw_cuda_network *n, const tw_gemm_problem *p,
                           tw_gemm_config out[TW_NETWORK_OVERLAPPING]);

/* Lists tiles that two warpgroups share, so that each has half of what is done to the sums. Returns their number. */
enum { TW_NETWORK_SHARED = 4 };
int tw_network_shared_tiles(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config out[TW_NETWORK_SHARED]);

/* How attention is computed. */
typedef struct tw_network_attending {
    int entry;                       /* Number of the plan's entry, from 1. 0: none. */
    const tw_network_foreign *cudnn; /* NULL: our kernel computes it. */
    tw_attention_config config;
} tw_network_attending;
/* attend.c. Chooses by the plan, or else without a search. TW_ERR_MEMORY. */
tw_status tw_network_choose_attention(tw_cuda_network *n, const tw_attention_problem *p, tw_network_attending *out,
                                      tw_diag *diag);

/* attend_cudnn.c. Tells whether cuDNN can be used and may know how to compute the attention. */
bool tw_network_has_cudnn(tw_cuda_network *n, const tw_attention_problem *p);
/* Makes attention by an engine, or if that is NULL by the first that computes it. *out is NULL: cuDNN does not compute
   it so. TW_ERR_MEMORY. */
tw_status tw_network_open_cudnn(tw_cuda_network *n, const tw_attention_problem *p, const char *words,
                                const char *engine, const tw_network_foreign **out, tw_diag *diag);
/* Frees attention by cuDNN that no launch has, and counts the memory of the rest. */
void tw_network_keep_cudnn(tw_cuda_network *n);
/* Measures cuDNN's engines, and enters the fastest into the plan. `began` is when the search did. */
tw_status tw_network_search_cudnn(tw_cuda_network *n, const tw_attention_problem *p, tw_attention_rig *rig,
                                  const char *words, int64_t began, tw_diag *diag);

/* tile.c. Estimates a launch's time, in no unit, so that configurations can be compared. */
double tw_network_attention_time(const tw_attention_problem *p, const tw_attention_config *c, int sms);
/* Chooses attention's configuration without a search. */
void tw_network_attention_tile(const tw_attention_problem *p, const tw_target *t, int sms, tw_attention_config *out);

/* search.c. Measures how to compute a problem, and enters the fastest ways into the plan. */
tw_status tw_network_search(tw_cuda_network *n, const tw_gemm_problem *p, const char *words, tw_diag *diag);
/* search_vendor.c. Measures the vendor's algorithms for a problem, each with the map behind it that computes the
   epilogue, and enters the fastest into the plan. */
tw_status tw_network_search_vendor(tw_cuda_network *n, tw_gemm_rig *rig, const tw_gemm_problem *p, const char *words,
                                   tw_diag *diag);
/* attend.c. The same of attention. */
tw_status tw_network_search_attention(tw_cuda_network *n, const tw_attention_problem *p, const char *words,
                                      tw_diag *diag);
/* order.c. Searches all problems of the program that the plan has no entry of. Those that take most time come first. */
tw_status tw_network_search_all(tw_cuda_network *n, tw_diag *diag);
/* settle.c. Lists choices of a problem that whole passes are compared with, the fastest alone first. Returns their
   number: less than 2, if there is nothing to compare or a choice is settled. */
enum { TW_NETWORK_PROMISING = 16 };
int tw_network_promising(const tw_network_plan *p, const char *words, int out[TW_NETWORK_PROMISING]);
/* Compares whole passes with the choices of each problem that are the fastest alone, and settles the best.
   Launches become those of the settled choices. Whatever fails leaves those that there were. */
void tw_network_settle(tw_cuda_network *n);

/* Machine code of kernels that passes are compared with. */
typedef struct tw_network_code tw_network_code;
/* compile.c. Compiles such kernels side by side, and lends them to the network's GPU. Without time to compare them it
   does so with those alone that steps have now. NULL: there are none, or no memory for them. Then each is compiled when
   it is opened. */
tw_network_code *tw_network_compile(tw_cuda_network *n);
/* Takes them back. NULL is fine. */
void tw_network_code_free(tw_cuda_network *n, tw_network_code *c);

/* The vendor's library, or NULL. */
tw_cublaslt *tw_network_library(tw_cuda_network *n);

#endif
