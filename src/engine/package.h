/* SPDX-License-Identifier: Apache-2.0 */
/* Packages (.tw): networks that were prepared, in a file that is mapped.

   A header; then the description, in which all is checked when a package is opened; then constants, each aligned to
   256 bytes, whose contents are checked before they are used first, and small ones when a package is opened. Numbers
   are little-endian. Texts are a length and as many bytes with a NUL behind them. The description:

       dtype, plan (texts)
       number of constants, and of each: offset within the constants, bytes, sum (base/sum.h)
       number of GPU kernels, and of each: key (two numbers), registers, spilled bytes, its constant; target (text)
       number of constants in panels, and of each: name (two numbers), its constant
       whether there is the model; number of graphs for extents; a graph that has the model's inputs and outputs alone;
       the model, if it is there; graphs for extents

   A graph: name; symbols; values (name, type, rank, extents, constant or -1); inputs; outputs; nodes (operator, domain,
   name, version, operands, results, attributes). Types are the ONNX format's numbers. */
#ifndef TW_ENGINE_PACKAGE_H
#define TW_ENGINE_PACKAGE_H

#include "base/file.h"
#include "graph/graph.h"
#include "ptx/load.h"
#include "vm/network/cpu.h"

#define TW_PACKAGE_MAGIC "\211TWPACK\n"
enum { TW_PACKAGE_VERSION = 2, TW_PACKAGE_ALIGN = 256, TW_PACKAGE_SMALL = 256 /* Bytes of a small constant. */ };

typedef struct tw_package_header {
    char magic[8];
    uint32_t version, reserved;
    uint64_t meta_bytes;          /* Of the description, which begins behind the header. */
    uint64_t data_at, data_bytes; /* Where constants begin, and how many bytes they are. The file ends there. */
    uint64_t hash[2];             /* Of the description. */
} tw_package_header;

/* A constant of a package. */
typedef struct tw_package_constant {
    uint64_t at, bytes, sum;
} tw_package_constant;

typedef struct tw_package {
    tw_map map;
    tw_arena arena;
    const char *dtype;
    const char *plan;
    size_t plan_bytes;
    tw_package_constant *constants;
    int64_t n_constants;
    bool *checked;                /* Of each constant: it was found to be what it was. */
    const unsigned char *data;    /* Of constants. */
    uint64_t data_at, data_bytes; /* Where they lie in the file, and how many bytes. */
    tw_machine_code *code;        /* A GPU's kernels. */
    int n_code;
    tw_cpu_panels *panels; /* Constants as a processor's kernels read them. */
    int n_panels;
    tw_graph *interface; /* The model's inputs and outputs, without nodes. */
    tw_graph *model;     /* Resolved, with symbols for extents. NULL: it was not kept. */
    tw_graph **graphs;   /* Resolved, one for each set of extents. */
    int n_graphs;
} tw_package;

bool tw_is_package(const char *path); /* By its ending. */

/* TW_ERR_FORMAT: the file is no package, or damaged, as far as one can tell without reading large constants. */
tw_status tw_package_open(tw_package **out, const char *path, tw_diag *diag);
void tw_package_close(tw_package *p); /* NULL is fine. */
/* Reads a package from memory, which must outlive it. Errors are those of tw_package_open. */
tw_status tw_package_read(tw_package **out, const void *data, size_t size, const char *path, tw_diag *diag);

/* package_check.c. Reads constants that were not checked yet, on all processors: all, or those that which[] names.
   TW_ERR_FORMAT: one is not what it was. */
tw_status tw_package_check(tw_package *p, const bool *which, const char *path, tw_diag *diag);
/* Writes "input_ids i64[1, 512]". */
void tw_package_describe_shapes(const tw_package *p, int graph, char *out, size_t size);

/* package_write.c. */
typedef struct tw_package_parts {
    const char *dtype, *plan;
    size_t plan_bytes;
    const tw_machine_code *code;
    int n_code;
    const tw_cpu_panels *panels;
    int n_panels;
    const tw_graph *interface;
    const tw_graph *model; /* NULL: it is not kept. */
    const tw_graph *const *graphs;
    int n_graphs;
} tw_package_parts;
tw_status tw_package_write(const tw_package_parts *p, const char *path, tw_diag *diag);

#endif
