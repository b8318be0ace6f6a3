/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: a launch, its blocks and warps, and its code.

   A warp is a machine that can stop between any two operations: a place in the code, the lanes that are active, and a
   stack of frames, one for each open `if` or loop. Its registers lie lane by lane, 32 lanes of 4 or of 8 bytes. */
#ifndef TW_EMU_MACHINE_H
#define TW_EMU_MACHINE_H

#include "base/arena.h"
#include "base/random.h"
#include "device/tensor_map.h"
#include "emu/emu.h"

#include <string.h>

enum { EMU_LANES = 32, EMU_NAMED_BARRIERS = 16, EMU_WARPGROUPS = 8 };
#define EMU_ALL 0xffffffffu /* lanes */

typedef struct emu_launch emu_launch;
typedef struct emu_block emu_block;
typedef struct emu_warp emu_warp;
typedef struct emu_op emu_op;

/* -- code (flatten.c) */

/* A register: units of 128 bytes from the warp's registers, or, ~at, from the launch's constants. */
typedef struct emu_ref {
    int32_t at;
    int32_t wide; /* 64 bits a lane */
} emu_ref;

typedef enum emu_next {
    EMU_GO,     /* to the next operation */
    EMU_JUMPED, /* pc is set */
    EMU_YIELD,  /* pc is set, and somebody else should have a turn */
    EMU_PARKED  /* until something wakes the warp; pc says where it goes on then */
} emu_next;
typedef emu_next emu_exec(emu_warp *w, const emu_op *op);
/* Lanes of `mask` of d = f(a, b, c). Absent operands are any readable register. */
typedef void emu_scalar(void *d, const void *a, const void *b, const void *c, uint32_t mask);

/* C += A * B of an mma, whose sizes are at most these. */
enum { EMU_M = 16, EMU_N = 8, EMU_K = 32 };
typedef void emu_product(const tw_mma_info *m, double a[EMU_M][EMU_K], double b[EMU_K][EMU_N], double c[EMU_M][EMU_N]);

struct emu_op {
    emu_exec *exec;
    emu_scalar *scalar; /* instead of exec */
    const tw_ir_op *ir; /* what it comes from; NULL for the end of the kernel */
    emu_ref *out, *in;
    uint16_t n_out, n_in;
    uint16_t n_checked, n_assigned;
    bool guarded, guard_not;
    bool both;         /* if: there is an else */
    bool asynchronous; /* The operation handles `checked` and `assigned` itself. */
    bool masked;       /* The results are variables. Inactive lanes keep the variables' old values. */
    int32_t load; /* The number, from 1, of a load from shared memory that late.c follows. 0: any other operation. */
    uint16_t n_needs;
    int32_t *needs;                    /* Numbers of the loads whose results the operation needs. */
    emu_ref guard;                     /* where guarded */
    const int32_t *checked, *assigned; /* variables that may lack a value: read here, given one here */
    int32_t target;                    /* where control goes when it does not go on */
    int32_t end;                       /* of the innermost enclosing block: where to go when no lane is left */
};

typedef struct emu_code {
    emu_op *ops;
    int n, room;
    int units;     /* of a warp's registers */
    int depth;     /* of frames */
    int n_loads;   /* Loads that late.c follows. */
    int n_checked; /* Variables that may lack a value or belong to a wgmma. */
    bool too_deep;
    unsigned char *constants;
    int granule[TW_SPACES]; /* log2 of the least access in a space: what races are told apart by */
} emu_code;

/* Lays the tree out as a line, with registers shared by values that do not live at the same time. */
bool emu_flatten(emu_code *code, tw_arena *arena, const tw_kernel *k, const uint64_t *arguments, bool wide_vectors);

/* -- order (order.c) */

/* Who is known to have done what. A thread is a warp, one of its four agents that act behind its back, or an
   mbarrier; block * stride + slot names it. "clock c of a thread" knows all that it did at clocks below c. */
typedef struct emu_entry {
    uint32_t thread, mask, clock; /* of these lanes */
} emu_entry;
typedef struct emu_clock {
    int block;       /* whose threads `own` counts */
    uint32_t *own;   /* NULL: nothing known */
    emu_entry *more; /* single lanes, and threads of other blocks; ascending by thread */
    int n, room;
    uint64_t has; /* emu_thread_bit of every thread in `more`; other bits may be set, too */
} emu_clock;
/* Returns a thread's bit in emu_clock.has: one of 64, by a hash. Where the bit is not set, the thread has no entry in
   `more`, and nobody looks for it there. */
static inline uint64_t emu_thread_bit(uint32_t thread) {
    return 1ull << (thread * 0x9e3779b1u >> 26);
}

enum { EMU_WARP, EMU_COPIER, EMU_BULK_READER, EMU_BULK_WRITER, EMU_MULTIPLIER, EMU_AGENTS };

/* What some lanes of a warp know, beside what all of them know. */
typedef struct emu_apart {
    uint32_t mask;
    int scope;
    uint32_t at; /* the warp's own clock then */
    emu_clock clock;
} emu_apart;
typedef struct emu_aparts {
    emu_apart *list;
    int n, room;
} emu_aparts;

/* Memory that a proxy fence covers. */
enum { EMU_FENCES_SHARED = 1, EMU_FENCES_CLUSTER = 2, EMU_FENCES_GLOBAL = 4, EMU_FENCES_MBARRIERS = 8 };

/* A proxy fence of some lanes; when it was, and which of the warp's own copies had been waited for. */
typedef struct emu_proxy_fence {
    uint32_t mask, clock, copied;
    int covers;
} emu_proxy_fence;
typedef struct emu_proxy_fences {
    emu_proxy_fence *list;
    int n, room;
} emu_proxy_fences;

/* -- memory (memory.c, shadow.c) */

/* Accesses to a granule of memory since the last write that all later ones came after. */
typedef struct emu_mark {
    uint32_t thread; /* plus 1; 0: none */
    uint32_t clock;
    uint32_t mask;
    uint32_t what; /* operation << 8 | write << 7 | strength */
} emu_mark;
typedef struct emu_cell {
    emu_mark write, read, other; /* `other`: a read that is unordered with `read` */
    uint32_t more;               /* further marks: an index into the launch's links */
} emu_cell;
typedef struct emu_link {
    emu_mark mark;
    uint32_t next;
} emu_link;

typedef struct emu_object {
    const char *name;
    uint64_t base, bytes;
    bool read_only;
    uint8_t *data;
    uint8_t *written; /* a byte a byte: EMU_NOT_WRITTEN, ...; NULL: all of it was */
    emu_cell *cells;  /* of this launch; NULL: nobody has accessed it yet */
    int granule;
    int block; /* whose shared memory it is; -1: global */
    int syncs; /* places in it through which somebody released something */
} emu_object;
enum { EMU_NOT_WRITTEN, EMU_WRITTEN, EMU_MBARRIER };

struct tw_emu {
    emu_object **objects; /* ascending by base */
    int n, room;
    uint64_t next;
};

/* How an operation accesses memory. */
typedef struct emu_how {
    bool read, write;
    bool async;        /* by the async proxy */
    const void *value; /* what is written, where lanes of one operation may write the same; NULL: they may not */
    uint32_t align;    /* 0: as many bytes as are accessed */
    uint8_t strength;  /* 0: weak; else 1 + scope */
    int agent;         /* EMU_COPIER, ...; EMU_WARP: the lane itself */
    uint32_t thread, clock;
} emu_how;

/* What strong writes at an address released: to the block of who released it, to its cluster, to everybody. */
enum { EMU_NEAR, EMU_CLUSTER, EMU_FAR, EMU_DISTANCES };
typedef struct emu_sync {
    uint64_t key;
    int block;        /* of who wrote it last */
    uint64_t version; /* Of `to`. Every change makes another one, which nothing else in the launch has. */
    emu_clock to[EMU_DISTANCES];
    struct emu_sync *next;
} emu_sync;

/* A release that lanes of a warp have acquired. They never forget it. */
typedef struct emu_acquired {
    uint64_t version; /* 0: none */
    uint32_t mask;
} emu_acquired;
enum { EMU_ACQUIRED = 64 /* A power of two. */ };

/* -- asynchronous copies */

/* A box that a tensor copy moves. */
typedef struct emu_box {
    const tw_tensor_map *map;
    int64_t at[TW_TENSOR_DIMS]; /* Coordinates of its first element. */
    int offset[TW_TENSOR_DIMS]; /* With im2col: added to the coordinates of every pixel. */
    uint32_t place;             /* Its address in shared memory. */
} emu_box;

/* In flight: lands at some moment before it is waited for. */
typedef struct emu_copy {
    emu_warp *warp;
    const emu_op *op;
    int agent;             /* EMU_COPIER, EMU_BULK_WRITER; EMU_WARP: of an mbarrier */
    uint32_t clock;        /* of the agent */
    uint32_t mask;         /* lanes with a piece */
    int bytes[EMU_LANES];  /* to write */
    int source[EMU_LANES]; /* of these to read, the others are zero */
    uint8_t *to[EMU_LANES], *from[EMU_LANES];
    uint32_t mbarrier[EMU_LANES]; /* address */
    uint32_t phase[EMU_LANES];
    emu_block *home; /* The block of its mbarriers. */
    emu_box box;     /* What a tensor copy moves. It has one lane. Without a map the copy is of plain bytes. */
    struct emu_copy *next;
} emu_copy;

typedef struct emu_commit {
    uint32_t mask, clock; /* what these lanes issued up to this clock is a group */
} emu_commit;
typedef struct emu_commits {
    emu_commit *list;
    int n, room;
} emu_commits;

/* -- barriers */

typedef struct emu_barrier {
    int arrived, count; /* threads */
    uint32_t in;        /* warps that arrived */
    const emu_op *first;
    int first_warp;
    const emu_op *waits; /* The operation by which threads wait. NULL: none waits yet. */
    int waiting_warp;    /* A warp that waits. */
    emu_clock clock;
} emu_barrier;

typedef struct emu_mbarrier {
    emu_block *block; /* in whose shared memory it is */
    uint32_t address;
    bool live;
    int slot;
    int64_t count, pending, bytes; /* arrivals a phase, still missing; bytes missing */
    uint32_t phase;                /* how many have ended */
    int copies;                    /* in flight for this phase */
    uint32_t copied, waited;       /* latest phase (plus 1) that a copy belongs to; that somebody waited for */
    uint32_t init_clock;
    int init_warp, init_lane;
    const emu_op *init_op;
    emu_clock arriving, done;
} emu_mbarrier;

/* An arrival that waits for a lane's copies. */
typedef struct emu_later {
    uint32_t address, lane, clock;
    const emu_op *op;
} emu_later;
typedef struct emu_laters {
    emu_later *list;
    int n, room;
} emu_laters;

/* -- warps and blocks */

/* One execution of a load from shared memory. */
typedef struct emu_load {
    uint32_t clock; /* When it was issued. */
    uint32_t done;  /* When an operation first needed its result. 0: none did yet. */
} emu_load;
enum { EMU_LOADS_KEPT = 4096 };
typedef struct emu_loads {
    emu_load *list; /* The last EMU_LOADS_KEPT executions. Execution i is at i % EMU_LOADS_KEPT. */
    uint32_t *last; /* By a load's number: its execution that is under way. 0: none is. */
    uint32_t n;     /* Executions so far. */
} emu_loads;

/* The state of a variable that wgmma uses. */
typedef struct emu_pending {
    uint32_t clock;   /* When the wgmma that uses it was issued. 0: none uses it now. */
    const emu_op *op; /* That wgmma. */
    bool fenced;      /* A wgmma_fence came after its last write or wait. */
} emu_pending;

typedef struct emu_frame {
    uint32_t outer, other; /* active before; lanes of the other branch */
} emu_frame;

typedef enum emu_state {
    EMU_RUNS,
    EMU_WAITS_BARRIER,
    EMU_WAITS_MBARRIER,
    EMU_WAITS_CLUSTER,
    EMU_WAITS_REGISTERS,
    EMU_DONE
} emu_state;

/* The setmaxnreg operations that a warpgroup's warps have executed, in order. */
typedef struct emu_resizes {
    const emu_op **list;
    int n, room;
} emu_resizes;

struct emu_warp {
    emu_launch *launch;
    emu_block *block;
    unsigned char *regs;
    uint32_t *assigned;
    emu_frame *frames;
    int index; /* in its block */
    int pc, depth;
    uint32_t all, live, active; /* lanes: there are; that have not exited; that execute now */
    int n_active;
    emu_state state;
    int runnable_at; /* place among the runnable ones; -1 */
    const emu_op *waits;
    uint32_t waits_at;     /* An mbarrier's address, a barrier's number, or the registers per thread that it lacks. */
    uint32_t waits_parity; /* The mbarrier's parity. */
    int registers;         /* Registers per thread. */
    int resizes;           /* setmaxnreg operations executed. */

    uint32_t thread, now;
    emu_clock known;                     /* by every lane */
    emu_aparts apart;                    /* by some */
    emu_aparts fenced;                   /* what a later relaxed write releases */
    emu_aparts unfenced;                 /* what relaxed reads saw, for a later fence */
    emu_acquired acquired[EMU_ACQUIRED]; /* Some of the latest, by version: who polls meets them again and again. */
    /* Of the agents: their clocks; by lane what was issued last, and what of its own it has waited for, which it alone
       knows until the lanes meet. */
    uint32_t agents[EMU_AGENTS];
    uint32_t issued[EMU_AGENTS][EMU_LANES], waited[EMU_AGENTS][EMU_LANES], handed[EMU_LANES];
    bool waited_apart;
    uint16_t started[EMU_LANES]; /* by lane: ranks of its cluster's blocks that it knows to have started */
    emu_commits commits, bulk_commits;
    uint32_t idle_waits; /* Lanes that executed a bulk_wait without a bulk group of their own. */
    emu_laters laters;
    emu_commits products; /* groups of wgmma: of the warp's multiplier */
    emu_loads loads;
    emu_pending *pending; /* By variable. */

    uint64_t poll, last_poll, progress; /* what this turn of a while loop looked at, and the last */
    uint64_t poll_address;
    const emu_op *poll_op;
    int polls, spins;
};

struct emu_block {
    int number; /* in the grid */
    int at[3];
    int resident; /* its place on the machine: the SM it is on */
    emu_warp *warps;
    int n_warps, n_done;
    emu_object *shared;
    uint8_t *memory;
    emu_barrier barriers[EMU_NAMED_BARRIERS];
    int free_registers; /* The pool of setmaxnreg: registers per thread of one warp, summed over warps. */
    emu_resizes resizes[EMU_WARPGROUPS];
    emu_mbarrier *mbarriers;
    int n_mbarriers, room_mbarriers;
};

/* What the observer will be told of an operation: its pieces in global and in shared memory. */
typedef struct emu_noted {
    tw_emu_access access[2];
    tw_emu_piece *pieces[2];
    int room[2];
    int64_t time; /* The number of the operation. */
} emu_noted;

struct emu_launch {
    tw_emu *emu;
    const tw_kernel *kernel;
    const tw_emu_options *options;
    tw_emu_report *report;
    tw_diag *diag;
    tw_arena arena;
    emu_code code;
    emu_product *product;
    tw_random random;
    bool checked, failed /* out of memory */, stop;
    bool observed; /* There is an observer. */
    emu_noted noted;
    uint32_t before; /* The thread that stands for the previous launch. */
    int strategy, landing;
    int grid[3];
    int64_t blocks;
    int n_warps, stride, stride_log2;
    int cluster; /* blocks of one, at least 1: neighbours, who start together */

    /* How a block's shared memory is laid out: objects with room between them. */
    emu_object *shared;
    uint16_t *shared_map; /* for each 16 bytes the object, plus 1, that may be there */
    uint32_t shared_end;
    size_t shared_bytes; /* of all objects, without the room between */

    emu_block **resident;
    int n_resident, most_resident;
    int64_t next_block, done_blocks;
    emu_warp **runnable;
    int n_runnable;
    int turn;
    emu_warp *starved;
    emu_copy *copies;
    int n_copies;
    emu_copy *spare_copies;

    emu_link *links;
    uint32_t n_links, room_links, spare_links;
    emu_sync **syncs;
    uint32_t n_syncs, room_syncs;   /* the table's size is a power of two */
    uint64_t versions;              /* of releases: the last one */
    emu_proxy_fences *proxy_fences; /* by warp of the grid */

    const emu_op *found_op[TW_EMU_FINDINGS];
    emu_object *last_object;
    uint64_t progress; /* changes of anything that somebody may poll */
    int64_t operations, lane_operations, most_operations;
};

/* -- registers */

static inline void *emu_reg(const emu_warp *w, emu_ref r) {
    return r.at >= 0 ? w->regs + (size_t)r.at * 128 : w->launch->code.constants + (size_t)~r.at * 128;
}
static inline uint64_t emu_get(const emu_warp *w, emu_ref r, int lane) {
    const void *p = emu_reg(w, r);
    return r.wide ? ((const uint64_t *)p)[lane] : ((const uint32_t *)p)[lane];
}
static inline void emu_put(const emu_warp *w, emu_ref r, int lane, uint64_t x) {
    void *p = emu_reg(w, r);
    if (r.wide)
        ((uint64_t *)p)[lane] = x;
    else
        ((uint32_t *)p)[lane] = (uint32_t)x;
}
/* Lanes where a register's predicate holds. */
static inline uint32_t emu_lanes(const emu_warp *w, emu_ref r) {
    const uint32_t *p = emu_reg(w, r);
    uint32_t mask = 0;
    for (int i = 0; i < EMU_LANES; i++) mask |= (p[i] & 1) << i;
    return mask;
}
/* Active lanes that the guard lets through. */
static inline uint32_t emu_guarded(const emu_warp *w, const emu_op *op) {
    if (!op->guarded) return w->active;
    uint32_t p = emu_lanes(w, op->guard);
    return w->active & (op->guard_not ? ~p : p);
}
/* `for` over the lanes of a mask. */
#define EMU_EACH(lane, mask)                                                                                           \
    for (uint32_t lane##_left = (mask), lane = 0; lane##_left && (lane = (uint32_t)__builtin_ctz(lane##_left), true);  \
         lane##_left &= lane##_left - 1)

static inline void emu_set_active(emu_warp *w, uint32_t mask) {
    w->active = mask;
    w->n_active = __builtin_popcount(mask);
}

/* -- each file's functions */

/* Room for one more of a list; false, and the launch has failed, when out of memory. */
bool emu_grow(emu_launch *l, void **list, int n, int *room, size_t size);

/* find.c. A finding about `lane` (-1: the warp). Formats what follows "PLACE, block B warp W lane L: ". */
void emu_find(emu_warp *w, const emu_op *op, int lane, tw_emu_rule rule, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void emu_find_text(emu_launch *l, tw_emu_rule rule, const char *text);
void emu_place(const emu_launch *l, const emu_op *op, char *out, size_t size);
/* An object's place; of another block, by its number too. */
void emu_object_text(const emu_launch *l, const emu_block *own, const emu_object *o, uint64_t from, char *out,
                     size_t size);
/* "tile+64", or the bare number. */
void emu_address_text(const emu_launch *l, const emu_block *b, int space, uint64_t address, char *out, size_t size);
/* The last object that begins at or below an address; NULL: none. */
const emu_object *emu_object_below(const emu_launch *l, int space, uint64_t address);
void emu_thread_text(const emu_launch *l, const emu_mark *m, char *out, size_t size);

/* memory.c */
emu_object *emu_object_at(const tw_emu *e, uint64_t address);
emu_object *emu_shared_at(const emu_launch *l, const emu_block *b, uint64_t address);
tw_status emu_shared_layout(emu_launch *l); /* TW_ERR_UNSUPPORTED: more than there are addresses for */
/* Addresses of a cluster's shared memory: the block's rank, plus 1, above an address in it. A plain address is the own
   block's, whose rank does not matter: -1. */
enum { EMU_RANK_SHIFT = 26, EMU_RANK_MASK = (1 << EMU_RANK_SHIFT) - 1, EMU_NO_RANK = 62 };
static inline int emu_rank(uint64_t address) {
    return (int)(address >> EMU_RANK_SHIFT) - 1;
}
/* The block of this one's cluster that an address of the cluster's shared memory is in; NULL: it has ended. */
emu_block *emu_block_of(const emu_warp *w, uint64_t address);
/* The memory of an access after all checks of it; NULL: a finding, and there is none. */
uint8_t *emu_access(emu_warp *w, const emu_op *op, const emu_how *how, int lane, int space, uint64_t address,
                    uint32_t bytes, emu_object **object);
/* How a lane itself accesses memory. */
static inline emu_how emu_weak(const emu_warp *w, bool read, bool write) {
    return (emu_how){.read = read, .write = write, .thread = w->thread, .clock = w->now};
}

/* observe.c: notes an access for the observer; tells it of what was noted; frees the notes. */
void emu_note(emu_warp *w, const emu_op *op, const emu_how *how, int lane, const emu_object *o, uint64_t from,
              uint32_t bytes);
void emu_note_tell(emu_launch *l);
void emu_note_free(emu_launch *l);

/* shadow.c */
void emu_shadow(emu_warp *w, const emu_op *op, const emu_how *how, int lane, emu_object *o, uint64_t from,
                uint32_t bytes);
/* A block's shared memory goes with it: what others of its cluster did there must come before. */
void emu_shadow_ends(emu_block *b);
void emu_shadow_free(emu_launch *l);

/* order.c */
void emu_clock_free(emu_clock *c);
void emu_clock_clear(emu_clock *c);
void emu_clock_join(emu_launch *l, emu_clock *to, const emu_clock *from);
void emu_clock_put(emu_launch *l, emu_clock *c, uint32_t thread, uint32_t mask, uint32_t clock);
bool emu_knows(const emu_warp *w, int lane, uint32_t thread, uint32_t mask, uint32_t clock);
uint32_t emu_known_of(const emu_warp *w, int lane, uint32_t thread, int of_lane);
void emu_acquire(emu_warp *w, uint32_t mask, const emu_clock *c);
void emu_release(emu_warp *w, uint32_t mask, emu_clock *c);
void emu_converge(emu_warp *w, uint32_t mask);
void emu_fence(emu_warp *w, uint32_t mask, int scope);
void emu_aparts_free(emu_aparts *a);
static inline uint32_t emu_agent(const emu_warp *w, int agent) {
    return w->thread + (uint32_t)agent;
}

/* access.c: what `at.rmw` makes of an element of `at.type`; y is cas's new value. */
uint64_t emu_combine(const tw_attrs *at, uint64_t old, uint64_t x, uint64_t y);

/* sync.c: releasing and acquiring through memory. */
void emu_strong_write(emu_warp *w, uint32_t mask, int lane, emu_object *o, uint64_t from, int order, int scope,
                      bool rmw);
void emu_strong_read(emu_warp *w, uint32_t mask, emu_object *o, uint64_t at, int order, int scope);
void emu_weak_write(emu_warp *w, emu_object *o, uint64_t from, uint32_t bytes);
void emu_syncs_free(emu_launch *l);

/* copy.c */
void emu_land(emu_launch *l, emu_copy *c);                                 /* now */
void emu_land_some(emu_launch *l);                                         /* perhaps, by the seed */
bool emu_land_one(emu_launch *l);                                          /* false: none is in flight */
void emu_land_warp(emu_warp *w, int agent, uint32_t mask, uint32_t clock); /* all up to this one */
void emu_copies_at_exit(emu_warp *w, const emu_op *op, uint32_t mask);

/* Explains a finding about a copy where lanes of `mask` executed a wait without a group of their own. A wait covers
   only its own thread's groups. */
void emu_idle_wait_text(const emu_warp *w, uint32_t mask, char *out, size_t size);

/* Describes how a bulk store or reduction writes its target. */
emu_how emu_bulk_target(const emu_warp *w, uint32_t clock, bool reduces);
emu_how emu_bulk_source(const emu_warp *w, uint32_t clock);
/* Combines each element of `from` into `to`, by the operation's rmw and type. */
void emu_reduce(const emu_op *op, uint8_t *to, const uint8_t *from, uint32_t bytes);
/* Advances and returns the clock of the bulk operations that a warp issues now. */
uint32_t emu_bulk_clock(emu_warp *w);

emu_copy *emu_copy_issue(emu_warp *w, const emu_op *op, int agent, uint32_t clock);
void emu_copy_launch(emu_launch *l, emu_copy *c);
/* Notes a group of what these lanes issued up to `clock`; up to which clock a lane's work is done once only `pending`
   groups are left, 0: none. */
void emu_commit_add(emu_warp *w, emu_commits *list, uint32_t mask, uint32_t clock);
uint32_t emu_commit_done(const emu_commits *list, uint32_t lane, int pending);

/* mma.c: a double to a half, rounded once. */
uint16_t emu_to_half(double x);

/* wgmma.c: true if all lanes of the warp are active. Else reports a finding. */
bool emu_whole_warp(emu_warp *w, const emu_op *op);

/* late.c */
void emu_loads_find(emu_code *code, tw_arena *arena, const tw_kernel *k);
bool emu_loads_make(emu_loads *l, const emu_code *code);
void emu_loads_free(emu_loads *l);
void emu_load_starts(emu_warp *w, const emu_op *op);
void emu_loads_needed(emu_warp *w, const emu_op *op);
void emu_loads_end(emu_warp *w); /* All loads under way are done. */
/* The load that was issued at `clock`. NULL: there was none, or it is no longer kept. */
const emu_load *emu_load_at(const emu_warp *w, uint32_t clock);

/* registers.c */
int emu_registers_at_start(const tw_kernel *k); /* Registers per thread at launch. */
void emu_registers_at_end(emu_block *b);

/* tensor.c */
void emu_box_land(const emu_copy *c, int lane); /* Moves the box's bytes. */

/* barrier.c */
emu_mbarrier *emu_mbarrier_at(emu_block *b, uint32_t address);
void emu_mbarrier_landed(emu_warp *w, emu_block *home, const emu_op *op, int lane, uint32_t address, uint32_t phase,
                         int64_t bytes);
/* Lanes' arrivals, `count` in all. `releases`: what they did so far comes before what waits for the phase. */
void emu_mbarrier_arrived(emu_warp *w, const emu_op *op, uint32_t lanes, emu_mbarrier *m, int64_t count, bool releases);
void emu_mbarrier_over(emu_warp *w, const emu_op *op, int lane, emu_object *o, uint64_t from, uint32_t bytes);
emu_mbarrier *emu_mbarrier_usable(emu_warp *w, const emu_op *op, int lane, uint32_t address);
emu_mbarrier *emu_mbarrier_usable_in(emu_warp *w, emu_block *home, const emu_op *op, int lane, uint32_t address);
void emu_block_ends(emu_block *b);
void emu_cluster_check(emu_launch *l, int cluster); /* goes on when all of it that runs has arrived */

/* launch.c */
void emu_wake(emu_warp *w);
void emu_park(emu_warp *w, emu_state state, const emu_op *op);
/* Notes that a loop looked at something that others may change. */
static inline void emu_poll(emu_warp *w, const emu_op *op, uint64_t address, uint64_t value) {
    w->poll = (w->poll ^ address ^ value * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull + 1;
    w->poll_address = address;
    w->poll_op = op;
    w->polls++;
}

/* control.c */
emu_exec emu_else, emu_endif, emu_for_test, emu_for_next, emu_while_test, emu_while_next, emu_role_end, emu_end;

/* Every operation of the table that is no scalar row has a function of its name, in the file of its kind. */
#define OP(...)
#define MOP(name, ...) emu_exec emu_exec_##name;
#include "ir/ops.def"
#undef OP
#undef MOP

emu_product emu_product_c, emu_product_avx2;
extern emu_scalar *const emu_scalars_c[TW_OPCODES], *const emu_scalars_avx2[TW_OPCODES];

#endif
