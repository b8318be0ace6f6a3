/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of a graph: element types, extents, and contents where they are known. */
#ifndef TW_GRAPH_ARRAY_H
#define TW_GRAPH_ARRAY_H

#include "base/arena.h"
#include "tilewright/base.h"

/* What elements are computed as: doubles, integers of 64 bits with or without a sign, or truths, which are 0 or 1.
   Nothing is computed with other ones. */
typedef enum tw_kind { TW_KIND_other, TW_KIND_real, TW_KIND_integer, TW_KIND_natural, TW_KIND_truth } tw_kind;

typedef enum tw_element {
#define ELEMENT(id, name, onnx, bits, kind) TW_E_##id,
#include "graph/element.def"
    TW_ELEMENTS
} tw_element;

const char *tw_element_name(tw_element t); /* "f32", ... */
int tw_element_bits(tw_element t);         /* 0: elements have no fixed size. */
tw_kind tw_element_kind(tw_element t);
int tw_element_onnx(tw_element t);                        /* The type's number in the ONNX format. */
bool tw_element_from_onnx(int64_t number, tw_element *t); /* False: the format has no such type. */
bool tw_element_from_name(const char *name, tw_element *t);

enum { TW_ARRAY_RANK = 8 /* The most dimensions of an array. */ };

/* Row-major. `data` may be aligned to nothing: files have constants anywhere. */
typedef struct tw_array {
    tw_element type;
    int rank;
    int64_t dims[TW_ARRAY_RANK];
    const void *data;
} tw_array;

/* Returns the number of elements. -1: 2^48 or more, or an extent is negative. Extents of empty arrays are limited
   alike, without those that are 0, so that products of an array's extents never overflow. */
int64_t tw_array_elements(const tw_array *a);
/* Returns the number of bytes. -1: too many, or elements have no fixed size. */
int64_t tw_array_bytes(const tw_array *a);

/* Reads n elements from number `from` on, as doubles or as integers of 64 bits, to which other kinds are converted as
   in C. Truths are 0 and 1. The array's type has a kind. */
void tw_array_get_reals(const tw_array *a, int64_t from, int64_t n, double *out);
void tw_array_get_integers(const tw_array *a, int64_t from, int64_t n, int64_t *out);
/* Writes them. Reals are rounded to nearest even, and are cut to integers; integers wrap. */
void tw_array_set_reals(tw_element t, void *data, int64_t at, int64_t n, const double *x);
void tw_array_set_integers(tw_element t, void *data, int64_t at, int64_t n, const int64_t *x);
double tw_array_real(const tw_array *a, int64_t i);
int64_t tw_array_integer(const tw_array *a, int64_t i);

/* Writes "f32[2, 3]". */
void tw_array_describe(const tw_array *a, char *out, size_t size);

#endif
