/* SPDX-License-Identifier: Apache-2.0 */
/* Running a kernel on the processor, with checkers for what a GPU would hide. */
#ifndef TW_EMU_EMU_H
#define TW_EMU_EMU_H

#include "ir/ir.h"

typedef struct tw_emu tw_emu;

tw_emu *tw_emu_new(void); /* NULL: out of memory */
void tw_emu_free(tw_emu *e);

/* Global memory: copies of host memory, apart from one another with nothing between. `data` NULL: uninitialised, and
   reading it before writing is a finding. Returns the device address, aligned to 256 bytes (0: out of memory); `name`
   is for findings. */
uint64_t tw_emu_alloc(tw_emu *e, const char *name, const void *data, size_t bytes, bool read_only);
/* What is there now; false when [address, address + bytes) is not within one allocation. */
bool tw_emu_read(const tw_emu *e, uint64_t address, void *data, size_t bytes);
bool tw_emu_write(tw_emu *e, uint64_t address, const void *data, size_t bytes);
void tw_emu_release(tw_emu *e, uint64_t address); /* Frees what tw_emu_alloc returned. 0 is fine. */
/* Whether all of these bytes were written (by a kernel or by the host) since allocation. */
bool tw_emu_written(const tw_emu *e, uint64_t address, size_t bytes);

typedef enum tw_emu_rule {
    TW_EMU_BOUNDS, /* an access outside every allocation or shared object, or across the end of one */
    TW_EMU_ALIGNMENT,
    TW_EMU_READ_ONLY,     /* a write to a read-only allocation */
    TW_EMU_UNINITIALISED, /* memory or a variable read before anything wrote it */
    TW_EMU_RACE,          /* two accesses, one a write, that nothing orders */
    TW_EMU_PROXY,         /* generic and async proxy accesses without the fence between them */
    TW_EMU_ASYNC, /* an asynchronous copy's target read or written, or its source overwritten, before it was waited for
                   */
    TW_EMU_DIVERGENCE, /* lanes of a warp that an operation needs together did not arrive together */
    TW_EMU_BARRIER,    /* mismatched counts or numbers at barriers */
    TW_EMU_MBARRIER, /* used before init, overflow of arrivals or bytes, a phase waited for that has gone by twice, ...
                      */
    TW_EMU_DEADLOCK, /* nobody can go on: who waits for what */
    TW_EMU_LIMIT,    /* more steps than allowed */
    TW_EMU_TRAP,
    TW_EMU_REGISTERS, /* setmaxnreg_inc to fewer registers than the warp has, or setmaxnreg_dec to more. */
    TW_EMU_LEAK,      /* A kernel ends before its copies were waited for, or within a barrier's phase. */
    TW_EMU_RULES
} tw_emu_rule;
const char *tw_emu_rule_name(tw_emu_rule r);

typedef struct tw_emu_finding {
    tw_emu_rule rule;
    char text[400]; /* one line: operation and its place in the kernel, block, warp and lane, address as object+offset,
                       the other party */
} tw_emu_finding;

enum { TW_EMU_FINDINGS = 16 };
typedef struct tw_emu_report {
    tw_emu_finding findings[TW_EMU_FINDINGS];
    int n;              /* stored; the run stops at the first of those after which it cannot go on sensibly */
    int64_t operations; /* of warps */
    int64_t lane_operations;
    double seconds;
} tw_emu_report;

/* Bytes that lie together: what one lane accesses, or a row or a part of one that a copy or a product does. */
typedef struct tw_emu_piece {
    int lane;
    uint32_t bytes;
    uint64_t address;      /* As the kernel knows it. In shared memory without a rank. */
    const char *object;    /* Of the allocation, or of the shared object. */
    uint64_t object_bytes; /* Its size. */
    uint64_t offset;       /* In it. */
} tw_emu_piece;

/* What one operation of a warp accesses in one space. */
typedef struct tw_emu_access {
    const tw_kernel *kernel;
    const tw_ir_op *op;
    int64_t time; /* Operations of warps before. */
    int block, warp;
    int space; /* TW_SPACE_global or TW_SPACE_shared; the latter also in other blocks of the cluster. */
    bool read, write;
    bool engine; /* By the copy engine or tensor cores, not by lanes. */
    const tw_emu_piece *pieces;
    int n;
} tw_emu_access;

/* Sees an access that passed its checks. It may keep names as long as the kernel and the allocations exist, and
   pieces only until it returns. */
typedef void tw_emu_observer(void *context, const tw_emu_access *a);

/* The place of an operation as findings name it, such as "body/for 3/else/st 2". Cut off where it does not fit. */
void tw_emu_place(const tw_ir_op *op, char *out, size_t size);

typedef struct tw_emu_options {
    uint64_t seed; /* of the interleaving */
    int grid[3];   /* 0 means 1 */
    int sms; /* blocks (clusters, where a kernel has them) resident at once on the machine: 0 means 4; a cooperative
                kernel gets all its blocks */
    int64_t max_operations; /* of warps; 0: a billion */
    /* The previous launch may still run until griddep_wait (tw_cuda_launch.programmatic). Before that the kernel may
       not access global memory that is not read-only. */
    bool overlaps;
    bool unchecked;            /* only run: no races, initialisation or proxies (bounds and deadlock remain) */
    bool keep_going;           /* collect up to TW_EMU_FINDINGS of findings instead of stopping at the first */
    tw_emu_observer *observer; /* Is called on each access of memory, in order. NULL: nobody looks. */
    void *observer_context;
} tw_emu_options;

/* Runs the verified kernel `k` with one 64-bit word an argument (f32 in the low half). TW_OK without findings,
   TW_ERR_REJECTED with some, which are in the report; other failures are in `diag`. */
tw_status tw_emu_launch(tw_emu *e, const tw_kernel *k, const uint64_t *arguments, const tw_emu_options *o,
                        tw_emu_report *report, tw_diag *diag);

/* Returns TW_ERR_REJECTED if there are findings. The message has a line for each. */
tw_status tw_emu_explain(const tw_emu_report *report, tw_diag *diag);

#endif
