/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule file of AutoMegaKernel as parsed, before it is checked, and the parts of its check. */
#ifndef TW_SCHEDULE_AMK_IR_H
#define TW_SCHEDULE_AMK_IR_H

#include "schedule/amk/amk.h"
#include "schedule/flow.h"
#include "schedule/report.h"

/* Capacities of AutoMegaKernel's instruction format. */
enum { AMK_MAX_INPUTS = 8, AMK_MAX_OUTPUTS = 4, AMK_MAX_WAITS = 8, AMK_MAX_RANK = 4 };

/* clang-format off */
#define AMK_KINDS(X) X(WEIGHT) X(ACTIVATION) X(KV_CACHE) X(IO_INPUT) X(IO_OUTPUT) X(CONST)
#define AMK_SPACES(X) X(HBM) X(GLOBAL_SCRATCH) X(SMEM) X(REGISTER)
#define AMK_DTYPES(X) /* in the order of its codes, with bits */ \
    X(F32, 32) X(F16, 16) X(BF16, 16) X(F8E4M3, 8) X(F8E5M2, 8) X(I32, 32) X(I8, 8) X(I4, 4) X(U8, 8) X(BOOL, 8)
#define AMK_INT_PARAMS(X) \
    X(K) X(N) X(M) X(N_tile) X(M_tile) X(n_off) X(m_off) X(hidden) X(vocab) X(head_dim) X(n_heads) X(n_kv_heads) \
    X(kv_start) X(kv_len) X(pos) X(qdtype) X(flags) X(group) X(dim)
#define AMK_REAL_PARAMS(X) X(eps) X(scale) X(theta)
/* clang-format on */

#define ONE(name)        AMK_##name,
#define TYPE(name, bits) AMK_##name,
#define PARAM(name)      AMK_P_##name,
typedef enum amk_kind { AMK_KINDS(ONE) AMK_KIND_COUNT } amk_kind;
typedef enum amk_space { AMK_SPACES(ONE) AMK_SPACE_COUNT } amk_space;
typedef enum amk_dtype { AMK_DTYPES(TYPE) AMK_DTYPE_COUNT } amk_dtype;
typedef enum amk_param {
    AMK_INT_PARAMS(PARAM) AMK_INT_PARAM_COUNT,
    AMK_P_INT_LAST = AMK_INT_PARAM_COUNT - 1,
    AMK_REAL_PARAMS(PARAM) AMK_PARAM_COUNT
} amk_param;
#undef ONE
#undef TYPE
#undef PARAM
#define AMK_BIT(name) (UINT32_C(1) << AMK_P_##name)

typedef struct amk_buffer {
    const char *name;
    amk_kind kind;
    amk_dtype dtype;
    amk_space space;
    int64_t id, *shape, bytes; /* amk_check_rules sets `bytes`. */
    int rank;
    int page;    /* Index of its page. -1: none, or a wrong one. Set by amk_check_rules. */
    bool shares; /* Other buffers are on its page. */
} amk_buffer;

typedef struct amk_counter {
    const char *name; /* For messages: "counter 7 (L0.q_proj)". */
    int64_t id, init;
    int producers; /* Number of tasks that arrive at it. Set by amk_check_rules. */
} amk_counter;

typedef struct amk_page {
    int64_t id, bytes;
    amk_space space;
    int occupants;
} amk_page;

typedef struct amk_task {
    const char *label, *op_name;
    const struct amk_op *op; /* NULL: the op is unknown. */
    int64_t id, sm;
    bool pinned; /* The file says on which SM it runs. */
    bool sound;  /* Its effects can be computed. Set by amk_check_rules. */
    int *inputs, *outputs, n_inputs, n_outputs, out_counter;
    tw_wait *waits;
    int n_waits;
    uint32_t has; /* Bit i: parameter i is there. */
    uint32_t bad; /* Bit i: parameter i has the wrong type. */
    int32_t param[AMK_INT_PARAM_COUNT];
} amk_task;

typedef struct amk_binding {
    int64_t buffer, page;
} amk_binding;

struct tw_amk {
    tw_arena arena;
    bool has_target, has_pos, has_kv_len;
    int64_t num_sms;    /* SMs of the target. */
    int64_t smem_bytes; /* Shared memory per block of the target. */
    int64_t pos, kv_len;
    amk_buffer *buffers;
    amk_counter *counters;
    amk_task *tasks;
    amk_page *pages;
    amk_binding *bindings;
    int n_buffers, n_counters, n_tasks, n_pages, n_bindings;
    int sms;    /* Number of SMs that tasks are bound to. */
    bool sized; /* All ids and shapes are valid. Set by amk_check_rules. */
};

/* Computes the effects of one task. Accesses are added to `list`, and errors to `report`. */
typedef struct amk_effects {
    const tw_amk *p;
    const amk_task *t;
    tw_report *report;
    tw_access_list *list;
    bool failed; /* Memory ran out. */
} amk_effects;

typedef struct amk_op {
    const char *name;
    int min_inputs, max_inputs, outputs;
    uint32_t required;
    bool in_place; /* The output may be one of the inputs. */
    void (*effects)(amk_effects *e);
} amk_op;

/* Names in files. */
extern const char *const amk_kind_names[AMK_KIND_COUNT], *const amk_space_names[AMK_SPACE_COUNT],
                                                             *const amk_dtype_names[AMK_DTYPE_COUNT],
                                                                 *const amk_param_names[AMK_PARAM_COUNT];

const amk_op *amk_op_find(const char *name);

/* Writes a task's name for messages: "task 17 L0.q_proj[t3]". */
void amk_name_task(const amk_task *t, char out[96]);
int amk_dtype_bits(amk_dtype t);
bool amk_read_only(amk_kind k);

/* Computes a buffer's extents for the check: batch, position and bytes of a cache; 1, rows and bytes of other buffers.
 */
void amk_extents(const amk_buffer *b, int64_t extent[3]);

/* Checks references, arity, parameters, capacities, kinds, placement and pages. */
tw_status amk_check_rules(tw_amk *p, tw_report *report);
/* Lists all accesses. Those of task i are first[i] to first[i + 1] - 1. */
tw_status amk_check_effects(const tw_amk *p, tw_report *report, tw_access_list *list, int *first);

/* Checks that attention covers every position of [0, kv_len) exactly once, by one window or by merged ones. */
tw_status amk_check_windows(const tw_amk *p, tw_arena *arena, tw_report *report);

/* The worker of each task (place.c). */
typedef struct amk_placing {
    int *worker; /* Worker of each task: [tasks]. */
    int *order;  /* All tasks, in an order that their waits allow. Tasks that can never run are last. */
    int n_workers, n_runnable;
} amk_placing;
tw_status amk_place(const tw_amk *p, tw_arena *arena, amk_placing *out, tw_report *report);

#endif
