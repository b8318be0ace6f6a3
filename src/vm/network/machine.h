/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a network on a GPU. */
#ifndef TW_VM_NETWORK_MACHINE_H
#define TW_VM_NETWORK_MACHINE_H

#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gpu.h"
#include "kernels/kernel.h"
#include "kernels/pointwise/map.h"
#include "kernels/rows/rows.h"
#include "kernels/vendor/cublaslt.h"
#include "kernels/vendor/cudnn.h"
#include "ptx/load.h"
#include "tune/gemm_pool.h"
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
    tw_cudnn_plan *plan;
} tw_network_foreign;

typedef struct tw_network_launch {
    int step;
    bool epilogue;                   /* It is the map that computes the epilogue of a product by the vendor. */
    const tw_network_kernel *kernel; /* NULL: the vendor's. */
    const tw_network_foreign *cudnn; /* Attention by cuDNN. NULL: it is something else. */
    tw_gpu_launch *launch;
    tw_network_vendor vendor;
} tw_network_launch;

/* What searches of a network share. */
typedef struct tw_network_searching {
    tw_gemm_pool *pool; /* Random operands on the device. NULL: there are none yet. */
    tw_gemm_type type;  /* Type of the pool's products. */
    size_t bytes;       /* Size of the pool. */
    tw_ptx_compiler compiler;
    double seconds; /* What is left for the problem that is searched now. 0: no limit. */
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
    uint64_t scratch, zeroed, workspace; /* Memory of the program, and of kernels, which they share. */
    uint64_t *at;                        /* By buffer: its address. */
    uint64_t *tables;                    /* Tables of addresses. */
    int n_tables, room_tables;
    int64_t zeroed_bytes; /* Of the part of `zeroed` before counters. */
    int64_t bytes;        /* Of all memory beside weights. */
    tw_cuda_graph *graph;
    bool ran, one_by_one;
};

/* cuda.c. Allocates memory of the network, filled with zeros. */
tw_status tw_network_alloc(tw_cuda_network *n, const char *name, int64_t bytes, uint64_t *address, tw_diag *diag);
/* The address of a view's first element. */
static inline uint64_t tw_network_address(const tw_cuda_network *n, const tw_view *v) {
    return v->buffer < 0 ? 0 : n->at[v->buffer] + (uint64_t)v->offset;
}

/* steps.c. Adds the launches of a step, whose buffers are not bound yet. */
tw_status tw_network_add_step(tw_cuda_network *n, int step, tw_diag *diag);
/* Binds all buffers of all launches. */
tw_status tw_network_bind(tw_cuda_network *n, tw_diag *diag);
/* Allocates what kernels need beside operands and results. */
tw_status tw_network_alloc_workspace(tw_cuda_network *n, tw_diag *diag);
/* Zeroes what the kernel of a launch must find zero. */
tw_status tw_network_clear(const tw_cuda_network *n, const tw_network_launch *l, tw_diag *diag);
/* The attention of a step as its kernel knows it. */
tw_status tw_network_attention(const tw_step *s, tw_attention_problem *out, tw_diag *diag);

/* product.c. The product of a step as kernels know it. TW_ERR_UNSUPPORTED: they do not. */
tw_status tw_network_problem(const tw_cuda_network *n, const tw_step *s, tw_gemm_problem *out, tw_diag *diag);

/* Tells whether tables of addresses say where the matrices of a product's batch lie. */
bool tw_network_by_pointers(const tw_program_product *p);

/* What the vendor does not compute of a product: a map of C in place. NULL: nothing. Operands of the step follow C. */
const tw_map_problem *tw_network_epilogue(tw_cuda_network *n, const tw_step *s, const tw_gemm_problem *p);

/* choose.c. Tells whether a product may be split along k. */
bool tw_network_may_split(const tw_cuda_network *n, const tw_gemm_problem *p);

/* What is measured of a problem: without its epilogue, and whoever wrote its operands. */
tw_gemm_problem tw_network_plain(const tw_gemm_problem *p);

/* How a product is computed. */
typedef struct tw_network_chosen {
    bool vendor;
    tw_gemm_config config;
    bool first; /* The vendor's first choice is taken. */
    tw_cublaslt_algorithm algorithm;
} tw_network_chosen;
/* Chooses by the plan, or else by estimates. */
tw_status tw_network_choose(tw_cuda_network *n, const tw_gemm_problem *p, tw_network_chosen *out, tw_diag *diag);

/* Chooses a configuration by estimates. False: no kernel computes the problem. */
bool tw_network_estimate(const tw_cuda_network *n, const tw_gemm_problem *p, tw_gemm_config *out);

/* How attention is computed. */
typedef struct tw_network_attending {
    const tw_network_foreign *cudnn; /* NULL: our kernel computes it. */
    tw_attention_config config;
} tw_network_attending;
/* attend.c. Chooses by the plan, or else without a search. TW_ERR_MEMORY. */
tw_status tw_network_choose_attention(tw_cuda_network *n, const tw_attention_problem *p, tw_network_attending *out,
                                      tw_diag *diag);

/* attend_cudnn.c. Tells whether there is cuDNN, and attention that it may know. */
bool tw_network_has_cudnn(tw_cuda_network *n, const tw_attention_problem *p);
/* Makes attention by an engine, or if that is NULL by the first that computes it. *out is NULL: cuDNN does not compute
   it so. TW_ERR_MEMORY. */
tw_status tw_network_open_cudnn(tw_cuda_network *n, const tw_attention_problem *p, const char *words,
                                const char *engine, const tw_network_foreign **out, tw_diag *diag);
/* Measures cuDNN's engines, and enters the fastest into the plan. `began` is when the search did. */
tw_status tw_network_search_cudnn(tw_cuda_network *n, const tw_attention_problem *p, tw_attention_rig *rig,
                                  const char *words, int64_t began, tw_diag *diag);

/* tile.c. Estimates a launch's time, in no unit, so that configurations can be compared. */
double tw_network_attention_time(const tw_attention_problem *p, const tw_attention_config *c, int sms);
/* Chooses attention's configuration without a search. */
void tw_network_attention_tile(const tw_attention_problem *p, const tw_target *t, int sms, tw_attention_config *out);

/* search.c. Measures how to compute a problem, and enters the fastest ways into the plan. */
tw_status tw_network_search(tw_cuda_network *n, const tw_gemm_problem *p, const char *words, tw_diag *diag);
/* attend.c. The same of attention. */
tw_status tw_network_search_attention(tw_cuda_network *n, const tw_attention_problem *p, const char *words,
                                      tw_diag *diag);
/* order.c. Searches all problems of the program that the plan has no entry of. Those that take most time come first. */
tw_status tw_network_search_all(tw_cuda_network *n, tw_diag *diag);
/* The vendor's library, or NULL. */
tw_cublaslt *tw_network_library(tw_cuda_network *n);

#endif
