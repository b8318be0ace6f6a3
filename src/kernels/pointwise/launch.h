/* SPDX-License-Identifier: Apache-2.0 */
/* What launches of maps and of rows have in common. */
#ifndef TW_KERNELS_POINTWISE_LAUNCH_H
#define TW_KERNELS_POINTWISE_LAUNCH_H

#include "emu/emu.h"
#include "kernels/plan.h"
#include "kernels/pointwise/map.h"

/* A buffer of a launch: an operand, what lies at its address, and whether the kernel writes there. */
typedef struct tw_point_buffer {
    const char *name;
    const tw_point_operand *o;
    bool written;
    bool row; /* One element a row: the last dimension's stride is of no account. */
} tw_point_buffer;

enum { TW_POINT_BUFFERS = TW_POINT_OPERANDS + 4 };

/* The buffers of a problem, in the order of their parameters. */
typedef struct tw_point_buffers {
    tw_point_buffer of[TW_POINT_BUFFERS];
    int n;
} tw_point_buffers;

/* Adds the operands that the value needs. */
void tw_point_buffers_inputs(tw_point_buffers *all, const tw_points *p);
void tw_point_buffers_add(tw_point_buffers *all, const char *name, const tw_point_operand *o, bool written, bool row);

/* The operand as it lies in a buffer, for a span or a place. */
tw_point_operand tw_point_buffer_operand(const tw_point_buffer *f, const tw_points *p);

/* Adds buffers and their arguments to a plan. `align` is the alignment of each. */
void tw_point_buffers_plan(const tw_point_buffers *all, const tw_points *p, const int *align, tw_plan *out);

/* TW_ERR_USAGE: places lie before a buffer's first element, which words have no address for. */
tw_status tw_point_buffers_forward(const tw_point_buffers *all, const tw_points *p, tw_diag *diag);

/* A problem for the emulator: its kernel, and what computes its rows in double precision. */
typedef struct tw_point_emulated {
    const tw_points *p;
    tw_plan *plan; /* Its kernel is verified. */
    const tw_point_buffers *buffers;
    void (*run)(const void *problem, const tw_point_data *data, int64_t from, int64_t to);
    const void *problem;
    double error; /* What may be off, relative to a value and absolutely, beside the rounding of the result. */
} tw_point_emulated;

/* Runs a kernel in the emulator on random data and compares all results. Statuses are those of tw_combine_emulate. */
tw_status tw_point_emulate(const tw_point_emulated *e, uint64_t seed, tw_emu_report *report, tw_diag *diag);

#endif
