/* SPDX-License-Identifier: Apache-2.0 */
/* GPU kernels in a program of your own: described in words, compiled for a GPU, bound to buffers by name, launched on
   your stream. The same calls run a kernel in the emulator, on any processor, which looks for races, missing waits and
   accesses out of bounds.

   Three things with three lifetimes: a GPU; kernels, which never change once they are open and may be shared by
   threads; launches, each for one thread at a time. What is opened last is closed first. An emulated GPU, with all that
   is opened on it, belongs to one thread at a time. */
#ifndef TILEWRIGHT_KERNEL_H
#define TILEWRIGHT_KERNEL_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- a GPU and its memory ---- */

typedef struct tw_gpu tw_gpu;

/* `device` is "cuda" or "cuda:N", GPU number N by its primary context, which is also that of CUDA's runtime: memory and
   streams made there can be used here; "emulator" or "emulator:TARGET", TARGET being "sm_90a" (the default) or another
   that `tilewright kernel --target` knows; or "auto" (NULL): the first GPU, or the emulator where there is none.
   TW_ERR_UNSUPPORTED: there is no such GPU. The caller closes it. */
tw_status tw_gpu_open(tw_gpu **out, const char *device, tw_diag *diag);
void tw_gpu_close(tw_gpu *g);             /* NULL is fine; memory must have been released */
const char *tw_gpu_name(const tw_gpu *g); /* "NVIDIA H200", "emulator of sm_90a" */
bool tw_gpu_emulated(const tw_gpu *g);

/* Device memory, at multiples of 256 bytes. Addresses of other allocators will do as well, but in the emulator. */
tw_status tw_gpu_alloc(tw_gpu *g, size_t bytes, uint64_t *address, tw_diag *diag);
void tw_gpu_release(tw_gpu *g, uint64_t address); /* 0 is fine */
/* Both wait until they are done. They come after everything launched on the stream NULL of tw_gpu_launch_run. */
tw_status tw_gpu_upload(tw_gpu *g, uint64_t to, const void *from, size_t bytes, tw_diag *diag);
tw_status tw_gpu_download(tw_gpu *g, void *to, uint64_t from, size_t bytes, tw_diag *diag);
/* Waits for what was launched on the stream NULL. A kernel's fault shows here, and makes the GPU useless for the
 * process. */
tw_status tw_gpu_wait(tw_gpu *g, tw_diag *diag);

/* ---- kernels ---- */

typedef struct tw_gpu_kernel tw_gpu_kernel;

/* `words` are a kind of kernel and its problem, as `tilewright kernel` takes them: "gemm type=f16 m=512 n=256 k=1024
   tb=1"; `tilewright kernel gemm --list` prints all. `configuration`: "mma=1 ms=32 ns=64 ..."; what it does not name is
   chosen; NULL: all is. Compiles, or finds the machine code that was compiled before. TW_ERR_USAGE: a word that means
   nothing, or a configuration that cannot be. The caller closes it. */
tw_status tw_gpu_kernel_open(tw_gpu_kernel **out, tw_gpu *g, const char *words, const char *configuration,
                             tw_diag *diag);
void tw_gpu_kernel_close(tw_gpu_kernel *k); /* NULL is fine */

/* A buffer that a launch must be bound to. */
typedef struct tw_gpu_buffer {
    const char
        *name; /* "a", "b", "c", "bias", "mul", "residual"; "workspace" and "counters" of kernels that split a sum */
    size_t bytes;
    int align;    /* bytes that its address must be a multiple of */
    bool written; /* else the kernel only reads it */
    bool zeroed;  /* it must hold zeros before the first launch; every launch leaves it so. Launches that may run at the
                     same  time need one each */
} tw_gpu_buffer;
int tw_gpu_kernel_buffers(const tw_gpu_kernel *k);
const tw_gpu_buffer *tw_gpu_kernel_buffer(const tw_gpu_kernel *k, int i); /* owned by the kernel */

typedef struct tw_gpu_kernel_info {
    const char *problem, *configuration; /* complete, as words; owned by the kernel */
    int grid[3], threads;                /* blocks; threads of each */
    int64_t shared_bytes;                /* a block's */
    int64_t workspace_bytes;             /* of the buffers "workspace" and "counters" together */
    int registers, spill_bytes;          /* a thread's; -1 in the emulator, or where the compiler does not say */
} tw_gpu_kernel_info;
void tw_gpu_kernel_describe(const tw_gpu_kernel *k, tw_gpu_kernel_info *info);

/* ---- launches ---- */

typedef struct tw_gpu_launch tw_gpu_launch;

/* The kernel must outlive its launches. The caller closes it. */
tw_status tw_gpu_launch_open(tw_gpu_launch **out, const tw_gpu_kernel *k, tw_diag *diag);
void tw_gpu_launch_close(tw_gpu_launch *l); /* NULL is fine */

/* Binds a buffer, or binds it anew; `name` is one of the kernel's. TW_ERR_USAGE: it is not, or the address is not
 * aligned. */
tw_status tw_gpu_launch_bind(tw_gpu_launch *l, const char *name, uint64_t address, tw_diag *diag);

/* Starts the kernel: one call of the driver, nothing allocated, formatted or copied, so that it may be captured in a
   CUDA graph. `stream` is a CUstream or cudaStream_t; NULL: the GPU's own, in which everything happens in order. In the
   emulator it returns when the kernel is over. TW_ERR_REJECTED: the emulator found a fault in the kernel, and says
   which; TW_ERR_USAGE: a buffer is not bound. */
tw_status tw_gpu_launch_run(tw_gpu_launch *l, void *stream, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
