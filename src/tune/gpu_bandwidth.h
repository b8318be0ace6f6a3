/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a GPU reads its memory: the ceiling of everything that streams weights. */
#ifndef TW_TUNE_GPU_BANDWIDTH_H
#define TW_TUNE_GPU_BANDWIDTH_H

#include "device/cuda/cuda.h"
#include "ir/ir.h"

/* Measured now on GPU `device`, by a generated kernel: bytes a second of wide reads from memory, all SMs, over a buffer
   many times the L2; the best of several passes. TW_ERR_UNSUPPORTED: no such device. */
tw_status tw_cuda_measure_bandwidth(int device, double *bytes_per_second, tw_diag *diag);

/* That kernel, "read": blocks of TW_READ_THREADS; arguments are the address of `chunks` chunks of TW_READ_CHUNK bytes,
   that of one word a thread of the launch, `chunks`, and how many blocks there are (both i32). Each thread's word gets
   the exclusive or of all words it read. NULL: out of memory; or it is in the kernel. */
enum { TW_READ_THREADS = 512, TW_READ_LOADS = 8, TW_READ_CHUNK = TW_READ_THREADS * TW_READ_LOADS * 16 };
tw_kernel *tw_cuda_read_kernel(int sm);

#endif
