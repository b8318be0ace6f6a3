/* SPDX-License-Identifier: Apache-2.0 */
/* GPU kernels in a program of your own. A kernel is described in words, compiled for a GPU, bound to buffers by name
   and launched on your stream. The same calls run it in the emulator on any processor. The emulator looks for races,
   missing waits and accesses out of bounds.

   There are three kinds of objects: a GPU, its kernels, and their launches. An object is closed after all objects that
   were opened on it.

   Threads. A kernel never changes, so threads may share it: at the same time each opens, binds and runs launches of its
   own. A launch belongs to one thread at a time. So do a GPU's other functions, which are its memory, its waiting, and
   the opening and closing of kernels; other threads may launch meanwhile. An emulated GPU with everything opened on it
   belongs to one thread at a time. */
#ifndef TILEWRIGHT_KERNEL_H
#define TILEWRIGHT_KERNEL_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- a GPU and its memory ---- */

typedef struct tw_gpu tw_gpu;

/* Opens the GPU that `device` names. "cuda" is the first GPU, and "cuda:N" is GPU number N. Both use the GPU's primary
   context, as CUDA's runtime does, so the runtime's memory and streams can be used here. "emulator" is the emulator of
   sm_90a. "emulator:TARGET" is the emulator of a target that `tilewright kernel --target` knows. "auto" is the first
   GPU, or "emulator" if there is none. NULL is "auto".
   TW_ERR_UNSUPPORTED: there is no such GPU. TW_ERR_USAGE: `device` is none of these. The caller closes the GPU. */
tw_status tw_gpu_open(tw_gpu **out, const char *device, tw_diag *diag);
void tw_gpu_close(tw_gpu *g);             /* Memory must have been released. NULL is fine. */
const char *tw_gpu_name(const tw_gpu *g); /* "NVIDIA H200", "emulator of sm_90a" */
bool tw_gpu_emulated(const tw_gpu *g);

/* Allocates device memory, aligned to 256 bytes. A GPU's kernels also take addresses of other allocators; the
   emulator's take only these. */
tw_status tw_gpu_alloc(tw_gpu *g, size_t bytes, uint64_t *address, tw_diag *diag);
void tw_gpu_release(tw_gpu *g, uint64_t address); /* 0 is fine */
/* Copies begin after everything launched on the stream NULL. They are done when the call returns. */
tw_status tw_gpu_upload(tw_gpu *g, uint64_t to, const void *from, size_t bytes, tw_diag *diag);
tw_status tw_gpu_download(tw_gpu *g, void *to, uint64_t from, size_t bytes, tw_diag *diag);
/* Waits for everything launched on the stream NULL, and reports a kernel's fault. After a fault the process cannot use
   the GPU any more. */
tw_status tw_gpu_wait(tw_gpu *g, tw_diag *diag);

/* ---- kernels ---- */

typedef struct tw_gpu_kernel tw_gpu_kernel;

/* Compiles a kernel, or finds its machine code in the cache. `words` are a kind of kernel and a problem: a product, for
   example "gemm type=f16 m=512 n=256 k=1024 tb=1" (`tilewright kernel gemm --list` prints all words), attention, for
   example "attention heads=32 kv_heads=8 head=128 queries=512 causal=1" (`tilewright kernel attention --list`), sums of
   neighbouring rows, "combine type=bf16 tokens=64 top=8 n=2048", an expression of each element, "map dims=4x512x768
   x0=f16 x1=f16[0,0,1] expr=add(x0,x1) out=f16", or norms, softmaxes and reductions of rows, "rows of=softmax
   dims=64x512 x0=f16 out=f16" (docs/kernels.md). `configuration` has tuning parameters, for example "mma=1 ms=32
   ns=64"; combine and map have none. Parameters that it does not name are chosen; NULL names none.
   TW_ERR_USAGE: a word is unknown, or the configuration is illegal. The caller closes the kernel. */
tw_status tw_gpu_kernel_open(tw_gpu_kernel **out, tw_gpu *g, const char *words, const char *configuration,
                             tw_diag *diag);
struct tw_selector;
/* Does the same with the configuration that an artefact chooses (tilewright/select.h). Artefacts have choices for
   products, "gemm ...", each for a kind of them: `tilewright tune gemm type=bf16 groups=1` makes one of bf16 products
   in groups. `flags` are those of tw_select_choose; a vendor's library is never chosen. Choices that are not legal for
   the problem, because of its layout or its epilogue, are passed over; if there is no other, the configuration is that
   of tw_gpu_kernel_open without one. TW_ERR_USAGE: a word or a flag is unknown, the artefact is of another kind of
   products, or an extent is above TW_SELECT_MOST. The selector may be closed afterwards. The caller closes the kernel.
 */
tw_status tw_gpu_kernel_open_chosen(tw_gpu_kernel **out, tw_gpu *g, const char *words, const struct tw_selector *by,
                                    unsigned flags, tw_diag *diag);
void tw_gpu_kernel_close(tw_gpu_kernel *k); /* NULL is fine */

/* A buffer that every launch must bind. */
typedef struct tw_gpu_buffer {
    /* Of "gemm": "a", "b", "c"; if the problem has them, "bias", "mul", "residual", "squares", "scale_rows",
       "scale_columns", "scale_a", "scale_b", "scales" of a narrow B, "ends" or "counts" of groups, "rows", "places" and
       "factors". Groups, and blocks that share tiles, also have "counters", and the latter "workspace". Of "attention":
       "q", "k", "v", "out"; if the problem has them "lse", "sinks", "starts" and "lengths" of ragged sequences,
       "pages"; "counters", and if keys are split "workspace". Of "combine": "x", "y". Of "map" and "rows": "x0", "x1",
       ... for the operands that the expression needs, "out", and if the problem has them "gain", "bias" and "kept". */
    const char *name;
    size_t bytes;
    int align;    /* Alignment of its address in bytes. */
    bool written; /* False: the kernel only reads it. */
    /* The buffer must hold zeros before the first launch, and holds zeros after every launch. Launches that may overlap
       need one each; an early launch uses it only when the launch before in its stream is over. */
    bool zeroed;
} tw_gpu_buffer;
int tw_gpu_kernel_buffers(const tw_gpu_kernel *k);
const tw_gpu_buffer *tw_gpu_kernel_buffer(const tw_gpu_kernel *k, int i); /* Owned by the kernel. */

typedef struct tw_gpu_kernel_info {
    const char *problem;       /* All words of the problem. Owned by the kernel. */
    const char *configuration; /* All words of the configuration. Owned by the kernel. */
    int grid[3];               /* Blocks in each dimension. */
    int threads;               /* Threads per block. */
    int64_t shared_bytes;      /* Shared memory per block. */
    int64_t workspace_bytes;   /* Bytes of the buffers "workspace" and "counters" together. */
    int registers;             /* Registers per thread. -1: unknown, as in the emulator. */
    int spill_bytes;           /* Spilled bytes per thread. -1: unknown, as in the emulator. */
    const char
        *code; /* Where the kernel's machine code came from: "package", "cache" or "compiler". NULL: the emulator. */
} tw_gpu_kernel_info;
void tw_gpu_kernel_describe(const tw_gpu_kernel *k, tw_gpu_kernel_info *info);

/* ---- launches ---- */

typedef struct tw_gpu_launch tw_gpu_launch;

/* Opens a launch, with no buffer bound. The kernel must outlive it. The caller closes it. */
tw_status tw_gpu_launch_open(tw_gpu_launch **out, const tw_gpu_kernel *k, tw_diag *diag);
void tw_gpu_launch_close(tw_gpu_launch *l); /* NULL is fine */

/* Binds the buffer of this name to an address, in place of an earlier one. TW_ERR_USAGE: the kernel has no such buffer,
   or the address is not aligned; nothing changes then. If the driver fails, the buffer is not bound afterwards. */
tw_status tw_gpu_launch_bind(tw_gpu_launch *l, const char *name, uint64_t address, tw_diag *diag);

/* Starts the kernel by one call of the driver. Nothing is allocated, formatted or copied, so a CUDA graph may capture
   the launch. With a configuration that says early=1 or 2 the kernel may begin while the stream's kernel before still
   runs. It waits for the end of that before it writes, and before it reads anything but a B, and the scales of a narrow
   B, that the problem declares constant (weights=1). `stream` is a CUstream or cudaStream_t. NULL is the GPU's own
   stream, which tw_gpu_upload, tw_gpu_download and tw_gpu_wait use too. If the thread's current context is not the
   GPU's, the launch makes the GPU's the current one, which takes two calls more. In the emulator the kernel is over
   when this returns, and no launch overlaps with another. TW_ERR_USAGE: a buffer is not bound. TW_ERR_REJECTED: the
   emulator found a fault, which the message names. */
tw_status tw_gpu_launch_run(tw_gpu_launch *l, void *stream, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
