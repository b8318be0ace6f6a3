/* SPDX-License-Identifier: Apache-2.0 */
/* From a kernel to machine code on a device: the driver compiles the PTX, and a folder of cubins remembers. */
#ifndef TW_PTX_LOAD_H
#define TW_PTX_LOAD_H

#include "device/cuda/cuda.h"
#include "ptx/ptx.h"

typedef struct tw_cubin {
    void *data; /* owned: free with tw_cubin_free */
    size_t bytes;
    bool cached;                /* came from the folder */
    double seconds;             /* that compiling took */
    int registers, spill_bytes; /* as the compiler's log says; -1 when it came from the cache and the log is not kept */
} tw_cubin;
void tw_cubin_free(tw_cubin *c);

/* Compiles PTX by the driver's compiler for this device. The folder is $TILEWRIGHT_CACHE or the user's cache folder; an
   entry's name is a hash of the PTX text, the target and the driver's version, its content is checked by its own
   checksum, and it is written beside and renamed: concurrent processes are safe, and a damaged entry is as good as
   none. `remember` false leaves the folder alone. */
tw_status tw_ptx_compile(tw_cuda *c, const char *ptx, size_t bytes, bool remember, tw_cubin *out, tw_diag *diag);

/* Many at once on `threads` threads (0: all cores). statuses[i] and messages in diags[i] (may be NULL); stops early
   with TW_ERR_MEMORY only. */
typedef struct tw_ptx_job {
    const char *ptx;
    size_t bytes;
    tw_cubin cubin;
    tw_status status;
    tw_diag diag;
} tw_ptx_job;
void tw_ptx_compile_all(tw_cuda *c, tw_ptx_job *jobs, int n, int threads, bool remember);

#endif
