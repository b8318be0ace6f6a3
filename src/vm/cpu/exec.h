/* SPDX-License-Identifier: Apache-2.0 */
/* What the executions of instructions share: scratch, and products of a strip with one position or many. */
#ifndef TW_VM_CPU_EXEC_H
#define TW_VM_CPU_EXEC_H

#include "vm/cpu/vm.h"

/* The lane's scratch during one instruction, handed out from the front. tw_exec_scratch promises that it is enough. */
typedef struct tw_scratch {
    unsigned char *at;
} tw_scratch;

static inline size_t tw_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static inline void *tw_scratch_take(tw_scratch *s, size_t bytes) {
    void *p = s->at;
    s->at += tw_lines(bytes);
    return p;
}

/* Operand `i` of an instruction as the schedule describes it. */
static inline const tw_buffer *tw_exec_shape(const tw_lane *lane, const tw_exec *e, int i) {
    return &lane->vm->program->s->buffers[e->in->operand[i]];
}

/* y[t] = norm(x[t]) for n positions of `dim`. */
void tw_exec_norm(const tw_lane *lane, const float *x, const float *w, const float *b, int64_t n, int64_t dim,
                  float *y);

/* y[t][r] = row r of the strip's copy . x[t]; x has stride ldx, y the strip's. `sink` (or NULL) is told of the parts.
 */
void tw_exec_product(tw_lane *lane, tw_scratch scratch, const tw_strip *s, int64_t copy, const float *x, int64_t ldx,
                     int64_t n, float *y, const tw_gemm_sink *sink);
size_t tw_exec_product_scratch(const tw_vm *vm, const tw_strip *s, int64_t n);

/* Columns of a product, and floats from one position's to the next: rows a multiple of 4 KiB apart would share a set of
   every cache. */
static inline int64_t tw_strip_width(const tw_strip *s) {
    return s->n_panels * TW_PANEL_ROWS;
}
static inline int64_t tw_strip_stride(const tw_strip *s) {
    return tw_strip_width(s) + TW_PANEL_ROWS;
}
static inline size_t tw_strip_product_bytes(const tw_strip *s, int64_t n) {
    return (size_t)(n * tw_strip_stride(s)) * sizeof(float);
}

/* One position's rows first .. first + n - 1 of a gated feed-forward layer: `y` is the strip's product from there on,
   in units of TW_UNIT_ROWS rows of gate and as many of up. A bias may be NULL; so may `gate_bias` be for all. */
void tw_exec_activate_gated(const tw_lane *lane, float *y, int64_t n, const float *gate_bias, const float *up_bias,
                            float *out);

void tw_exec_attend(tw_lane *lane, const tw_exec *e);
void tw_exec_merge(tw_lane *lane, const tw_exec *e);
void tw_exec_route(tw_lane *lane, const tw_exec *e);
void tw_exec_experts_up(tw_lane *lane, const tw_exec *e);
void tw_exec_experts_down(tw_lane *lane, const tw_exec *e);
size_t tw_exec_attend_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e);
size_t tw_exec_experts_scratch(const tw_vm *vm, const tw_schedule *s, const tw_exec *e);

#endif
