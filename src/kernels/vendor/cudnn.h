/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's attention, a candidate: version 9 of cuDNN, opened at run time with our own declarations. The library
   is $TILEWRIGHT_LIBCUDNN where that is set, else the newest libcudnn.so found. */
#ifndef TW_KERNELS_VENDOR_CUDNN_H
#define TW_KERNELS_VENDOR_CUDNN_H

#include "device/cuda/cuda.h"

typedef struct tw_cudnn tw_cudnn;
typedef struct tw_cudnn_plan tw_cudnn_plan;

/* The library's numbers of element types. */
typedef enum tw_cudnn_type { TW_CUDNN_F32 = 0, TW_CUDNN_F16 = 2, TW_CUDNN_BF16 = 9 } tw_cudnn_type;

/* Elements from a sequence, a head and a row to the next. Elements of a row are adjacent. */
typedef struct tw_cudnn_strides {
    int64_t batch, head, row;
} tw_cudnn_strides;

/* Attention. Each row of Q is scored against the rows of K, in f32. Its result is the mean of V's rows, weighted by the
   softmax of its scores. */
typedef struct tw_cudnn_problem {
    tw_cudnn_type type;     /* Type of elements of Q, K, V and the result: F16 or BF16. */
    int64_t batch;          /* Number of sequences. */
    int64_t heads;          /* Heads of Q. */
    int64_t kv_heads;       /* Heads of K and V, each for heads / kv_heads neighbouring heads of Q. */
    int64_t queries, keys;  /* Of a sequence. */
    int64_t head;           /* Elements of a head. */
    tw_cudnn_strides q, kv; /* Of Q, and of both K and V. */
    tw_cudnn_strides out;
    double scale; /* Multiplies scores. */
    bool causal;  /* The last query stands at the last key, and queries see no later keys. */
    bool masked;  /* An array of numbers, one for each query and key, is added to scores that were scaled. */
    tw_cudnn_type mask_type;
    int64_t mask_batch; /* Number of the mask's sequences: `batch`, or 1 if they share it. */
    int64_t mask_heads; /* Number of the mask's heads: `heads`, or 1 if they share it. */
    tw_cudnn_strides mask;
} tw_cudnn_problem;

/* TW_ERR_UNSUPPORTED with the reason where the library is missing, of another version, or does not start. Uses the
   device until closed. */
tw_status tw_cudnn_open(tw_cudnn **out, tw_cuda *c, tw_diag *diag);
void tw_cudnn_close(tw_cudnn *dnn);                                 /* NULL is fine. */
void tw_cudnn_version(const tw_cudnn *dnn, char *out, size_t size); /* "9.19.1" */

/* The name of the file that would be opened, for reports; NULL when there is none. */
const char *tw_cudnn_find(void);

enum { TW_CUDNN_KNOBS = 16, TW_CUDNN_ENGINE_TEXT = 640 };

/* A way to compute a problem: the library's number of a family of kernels, and its choices among them. */
typedef struct tw_cudnn_engine {
    int64_t index;
    int n; /* Number of knobs. Others have the library's usual values. */
    struct {
        int32_t type;
        int64_t value;
    } knobs[TW_CUDNN_KNOBS];
} tw_cudnn_engine;
/* Prints it as "2 24=7", in TW_CUDNN_ENGINE_TEXT bytes, and reads that. False: the text says something else. */
void tw_cudnn_engine_print(const tw_cudnn_engine *e, char out[TW_CUDNN_ENGINE_TEXT]);
bool tw_cudnn_engine_parse(tw_cudnn_engine *e, const char *text);

/* Lists up to `most` engines, the heuristics' first choice first. *n becomes their number. Nothing runs on the device.
   TW_ERR_UNSUPPORTED: the library does not compute the problem. */
tw_status tw_cudnn_propose(tw_cudnn *dnn, const tw_cudnn_problem *p, int most, tw_cudnn_engine *out, int *n,
                           tw_diag *diag);

/* Makes a problem's kernel by an engine, which may take a second, and its workspace. TW_ERR_UNSUPPORTED: this version
   of the library does not compute it so. */
tw_status tw_cudnn_plan_make(tw_cudnn *dnn, const tw_cudnn_problem *p, const tw_cudnn_engine *e, tw_cudnn_plan **out,
                             tw_diag *diag);
void tw_cudnn_plan_free(tw_cudnn_plan *p);           /* NULL is fine. What it enqueued is over. */
int64_t tw_cudnn_plan_bytes(const tw_cudnn_plan *p); /* Of its workspace. */

/* Enqueues it on the device's stream, or captures it there. Addresses are the device's. `mask` counts where the problem
   has one. */
tw_status tw_cudnn_run(tw_cudnn_plan *p, uint64_t q, uint64_t k, uint64_t v, uint64_t mask, uint64_t out,
                       tw_diag *diag);

#endif
