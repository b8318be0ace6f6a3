/* SPDX-License-Identifier: Apache-2.0 */
/* From PTX to machine code for a device, and a folder of cubins that remembers. Two compilers can be asked: the
   driver's, which every machine with a GPU has, and the program ptxas, which needs no GPU. */
#ifndef TW_PTX_LOAD_H
#define TW_PTX_LOAD_H

#include "base/buf.h"
#include "device/cuda/cuda.h"
#include "ir/ir.h"

/* A hash of PTX, a target and, in the folder, a compiler. */
typedef struct tw_cubin_key {
    uint64_t word[2];
} tw_cubin_key;

typedef struct tw_cubin {
    /* Owned: free with tw_cubin_free. With setmaxnreg the driver compiles when it loads: this is then the PTX itself.
     */
    void *data;
    size_t bytes;
    bool cached;                /* came from the folder */
    double seconds;             /* that compiling, or finding it there, took */
    int registers, spill_bytes; /* a thread's, stored; as the compiler's log says, -1 where it does not */
} tw_cubin;
void tw_cubin_free(tw_cubin *c);

/* A kernel's machine code that is there before the kernel is loaded, as a package has it. */
typedef struct tw_machine_code {
    tw_cubin_key key; /* What it was compiled from. */
    const char *target;
    const void *data;
    size_t bytes;
    int registers, spill_bytes; /* As tw_cubin has them. */
    const char *from;           /* Who has it: "cache" or "compiler". NULL: a package. */
} tw_machine_code;

/* The key of machine code for a target. */
tw_cubin_key tw_machine_code_name(const char *ptx, size_t bytes, const char *target);
/* Tells machine code from PTX, by how it begins. */
bool tw_is_machine_code(const void *data, size_t bytes);

/* Who compiles, and for what. */
typedef struct tw_ptx_compiler {
    tw_cuda *cuda;      /* NULL: no device, then `ptxas` and `target` are needed */
    const char *target; /* "sm_90a"; NULL: that of the device */
    const char *ptxas;  /* a program, looked for on PATH when there is no slash in it; NULL: the driver's compiler */
    bool remember;      /* false: the folder is left alone */
} tw_ptx_compiler;

/* For this device: by the program in $TILEWRIGHT_PTXAS where that is set, else by the driver. */
tw_ptx_compiler tw_ptx_compiler_for(tw_cuda *c, bool remember);

/* For many kernels on this device: by the program in $TILEWRIGHT_PTXAS, else by ptxas, on PATH or in the toolkit's
   usual folder, if the device loads what it makes, and else by the driver. Processes compile side by side, and what
   they make loads at once, while the driver compiles kernels with setmaxnreg when it loads them, one after another. */
tw_ptx_compiler tw_ptx_compiler_for_many(tw_cuda *c);

/* Compiles PTX. The folder is `cubin` below $TILEWRIGHT_CACHE or the user's cache folder; an entry's name is a hash of
   the PTX text, the target and the compiler with its version, its content is checked by its own checksum, and it is
   written beside and renamed: concurrent processes are safe, and a damaged entry is as good as none. Where nothing can
   be written, nothing is remembered. `ptx` needs no end mark. TW_ERR_FORMAT, with the compiler's first complaint, where
   the PTX is wrong; TW_ERR_UNSUPPORTED where there is no such compiler. */
tw_status tw_ptx_compile(tw_cuda *c, const char *ptx, size_t bytes, bool remember, tw_cubin *out, tw_diag *diag);
tw_status tw_ptx_compile_by(const tw_ptx_compiler *by, const char *ptx, size_t bytes, tw_cubin *out, tw_diag *diag);

/* Prints, compiles and loads a kernel. All passes have run on it. The module allows the dynamic shared memory of the
   kernel's layout. `cubin` gets the compiler's figures without the machine code, and may be NULL. */
tw_status tw_ptx_load(const tw_ptx_compiler *by, tw_kernel *k, tw_cuda_module **out, tw_cubin *cubin, tw_diag *diag);

/* Many at once on `threads` threads (0: all cores); with ptxas, as many processes. Each job ends with its own status
   and diagnostic. When memory runs out, those not yet begun end with TW_ERR_MEMORY too. */
typedef struct tw_ptx_job {
    const char *ptx; /* NULL: `print` appends the text, on the thread that compiles it. */
    size_t bytes;
    tw_status (*print)(const void *context, tw_buf *ptx, tw_diag *diag);
    const void *context; /* Passed to `print`. */

    tw_cubin cubin;       /* this and what follows: results */
    double print_seconds; /* That `print` took. */
    tw_status status;
    tw_diag diag;
} tw_ptx_job;

/* Threads that compile jobs in their order while the caller does something else. With `threads` (0: all cores) the
   caller's is counted, which compiles while it waits. `by` is read only during the call, and jobs outlive the crew.
   TW_ERR_UNSUPPORTED: there is no such compiler. */
typedef struct tw_ptx_crew tw_ptx_crew;
tw_status tw_ptx_crew_start(tw_ptx_crew **out, const tw_ptx_compiler *by, tw_ptx_job *jobs, int n, int threads,
                            tw_diag *diag);
/* Compiles, too, until job i is done. Its results may then be read. */
void tw_ptx_crew_wait(tw_ptx_crew *c, int i);
/* Waits for what was begun, and leaves the rest out, which has no results. NULL is fine. */
void tw_ptx_crew_end(tw_ptx_crew *c);

void tw_ptx_compile_all(tw_cuda *c, tw_ptx_job *jobs, int n, int threads, bool remember);
void tw_ptx_compile_all_by(const tw_ptx_compiler *by, tw_ptx_job *jobs, int n, int threads);

#endif
