/* SPDX-License-Identifier: Apache-2.0 */
/* A map computes an expression for each element of an array from elements of strided operands. */
#ifndef TW_KERNELS_POINTWISE_MAP_H
#define TW_KERNELS_POINTWISE_MAP_H

#include "kernels/pointwise/expression.h"

enum { TW_POINT_RANK = 6, TW_POINT_OPERANDS = 8 };

/* How an operand lies in memory. Its address is that of the element with all indices 0. */
typedef struct tw_point_operand {
    tw_memory_type type;
    int64_t strides[TW_POINT_RANK]; /* In elements. 0: the operand is broadcast. Strides may be negative. */
    bool gathers;                   /* The place also depends on an integer operand's element with the same indices. */
    int by;                         /* The number of that integer operand, which does not gather. */
    int64_t gather_stride;          /* Elements from one gathered place to the next. */
    int64_t gather_extent; /* Gathered places. The integer is below it, and at least its negative, which counts from
                              the end. Elsewhere the element is NaN, 0 or false. */
    int align;             /* The address is a multiple of so many bytes. 0: of the element's size. */
    bool constant;         /* The content was there before the launch that precedes this one. */
} tw_point_operand;

/* An array of values: an expression of operands. The last dimension is a row; a rank of 0 is a row of one element. */
typedef struct tw_points {
    int rank;
    int64_t dims[TW_POINT_RANK];
    int n_operands;
    tw_point_operand operands[TW_POINT_OPERANDS];
    tw_cells cells;
} tw_points;

typedef struct tw_map_problem {
    tw_points x;
    tw_point_operand out; /* Does not gather. No two elements lie in the same place. Its type has the value's class. */
    bool early;           /* On a GPU the launch begins, and waits, before the one before it is over. */
} tw_map_problem;

/* Where operands and results lie. Fields that the problem has no use for are ignored. */
typedef struct tw_point_data {
    const void *operands[TW_POINT_OPERANDS];
    const void *gain, *bias; /* Of rows. */
    void *out;
    void *kept; /* Of rows. */
} tw_point_data;

/* Elements of a row, and the number of rows: the product of the other dimensions. */
int64_t tw_points_columns(const tw_points *p);
int64_t tw_points_rows(const tw_points *p);
/* TW_ERR_USAGE: the array, or the map, makes no sense. */
tw_status tw_points_check(const tw_points *p, tw_diag *diag);
tw_status tw_map_check(const tw_map_problem *p, tw_diag *diag);

/* Computes rows from .. to - 1. tw_kernels.map is the fastest such function of a processor. The result may lie where an
   operand does whose strides and type are the same. */
typedef void tw_map_fn(const tw_map_problem *p, const tw_point_data *data, int64_t from, int64_t to);
tw_map_fn tw_map_run;

/* The place, in elements, of a row's first element. */
int64_t tw_points_place(const tw_points *p, const int64_t strides[TW_POINT_RANK], int64_t row);
/* The value of one element, computed in double. */
tw_cell_value tw_points_value(const tw_points *p, const tw_point_data *data, int64_t row, int64_t column);

#endif
