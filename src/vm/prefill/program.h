/* SPDX-License-Identifier: Apache-2.0 */
/* A prompt's program: its kernels, its memory and the launches of a step. */
#ifndef TW_VM_PREFILL_PROGRAM_H
#define TW_VM_PREFILL_PROGRAM_H

#include "kernels/gpu.h"
#include "tune/gemm_kind.h"
#include "vm/cuda/machine.h"
#include "vm/prefill/generate.h"
#include "vm/prefill/prefill.h"

/* A kernel, which launches of several instructions share. */
typedef struct tw_prefill_kernel {
    struct tw_prefill_kernel *next;
    tw_prefill_problem problem; /* problem.kind NULL: the kernel has words. */
    const char *words;          /* Words that it was opened by. NULL: it has a problem. */
    tw_gpu_kernel *kernel;
    uint64_t workspace, counters; /* Addresses of its buffers of these names. 0: it has none. */
} tw_prefill_kernel;

/* Addresses of activations and of what all steps use. */
typedef struct tw_prefill_memory {
    uint64_t step;         /* Words TW_STEP_, or TW_MANY_. Those of a tail lie before them: tw_prefill_tail_words. */
    uint64_t x;            /* f32 [tokens][dim]: the residual stream. */
    uint64_t normed;       /* [tokens][dim]: rows of x, normed, or just times the norm's weights. */
    uint64_t squares;      /* f32 [dim / 8 at most][tokens]: parts of sums of squares of x's rows. */
    uint64_t sums;         /* f32: what products leave for rope, and for gate. */
    uint64_t parts;        /* f32 [parts][rows of a list][dim]: parts of products that a norm adds to x. */
    uint64_t q;            /* [tokens][heads][head] */
    uint64_t attended;     /* [tokens][heads * head] */
    uint64_t h;            /* [tokens][ffn] */
    uint64_t scores;       /* f32 [tokens][experts] */
    uint64_t route;        /* f32 [layers][tokens][2][used]: choices. Layers are tw_prefill_route_bytes apart. */
    uint64_t ends;         /* i32 [experts]: the pair behind each expert's last. Pairs are sorted by expert. */
    uint64_t rows;         /* i32 [pairs]: the position of each. */
    uint64_t places;       /* i32 [pairs]: its number among the pairs by position. */
    uint64_t factors;      /* f32 [pairs]: its weight. */
    uint64_t gathered;     /* [pairs][dim] */
    uint64_t chosen;       /* [pairs][width of an expert] */
    uint64_t matrix;       /* [rows][columns] of an unpacked matrix. 0: all products read the tapes. */
    uint64_t tail_x;       /* f32 [ends][dim]: the residual stream of a tail. */
    uint64_t tail_q;       /* [ends][heads][head] */
    uint64_t logits;       /* f32 [vocab] of the prompt's last position. */
    uint64_t head_factors; /* Floats of each position: 1 / rms of all heads of q, and of k. */
    uint64_t cells;        /* TW_ARGMAX_BYTES for each block of the head. */
    uint64_t token;        /* i32: the token, in memory of the host. */
    /* Of steps of many sequences. */
    uint64_t end_rows;   /* [ends][dim]: rows of ends, normed. */
    uint64_t end_logits; /* f32 [ends][rows of the head's matrix] */
    uint64_t end_cells;  /* [slots][TW_MANY_SEQUENCES] of TW_ARGMAX_BYTES. */
    uint64_t slots;      /* i32 [slots][2]: the first id and the number of ids of each slot. */
    uint64_t found;      /* i32 [sequences]: the last token of each. */
    uint64_t out;        /* i32 [TW_PREFILL_FLIGHTS][TW_MANY_SEQUENCES]: tokens of steps, in memory of the host. */
} tw_prefill_memory;

/* The matrix of an instruction. An ffn's has eight rows of gate, eight of up, and so on. */
typedef struct tw_prefill_matrix {
    uint64_t table;         /* Address of tw_prefill_unit[rows / 8][chunks or 1]. 0: the instruction has no matrix. */
    uint64_t bias;          /* Address of the rows' biases, of the type of the product's result. 0: there are none. */
    int64_t rows, columns;  /* Extents. Experts' matrices lie one behind the other. */
    int64_t groups;         /* Number of experts. 0: it is no mixture's. */
    tw_prefill_shape shape; /* What unpack is generated for. */
} tw_prefill_matrix;

/* The launches of steps of up to `tokens` positions. */
typedef struct tw_prefill_list {
    int64_t tokens;
    int64_t keys;             /* The most positions of a sequence after a step. */
    bool masked;              /* Products have as many rows as the step has positions. False: they have `tokens`. */
    bool many;                /* Steps are of many sequences. */
    int64_t ends;             /* The most ends of a step. 0: there are none, and the list has no tail. */
    bool whole;               /* All rows of a step are ends. */
    tw_gpu_launch **launches; /* In order. */
    int n, room;              /* Number of launches, and how many `launches` has room for. */
    tw_cuda_graph *graph;     /* A graph of all launches. NULL: they have not run yet. */
    bool one_by_one;          /* The driver does not capture them. */
} tw_prefill_list;

/* An artefact of a kind of products. */
typedef struct tw_prefill_artefact {
    bool asked;            /* It was looked for. */
    tw_selector *selector; /* NULL: there is none. */
} tw_prefill_artefact;

/* Steps of many sequences that are begun (many.c). */
enum { TW_PREFILL_FLIGHTS = 2 };
typedef struct tw_prefill_flights {
    int64_t begun, ended;          /* Numbers of steps. */
    int ends[TW_PREFILL_FLIGHTS];  /* Number of ends of each. */
    int lists[TW_PREFILL_FLIGHTS]; /* The list of each. */
    int32_t *words;                /* Host memory with the words of each. */
    _Atomic int32_t *out;          /* Host memory of tw_prefill_memory.out. NULL: the machine is emulated. */
} tw_prefill_flights;

/* A product of layers. */
typedef struct tw_prefill_layer_product {
    tw_gemm_problem problem;      /* Of any number of rows. */
    const tw_prefill_shape *rope; /* What the product also does. NULL: nothing. */
} tw_prefill_layer_product;
/* The most rows that lengths.c tells apart by time, and the multiples that lists of them have. */
enum { TW_PREFILL_TOLD = 1024, TW_PREFILL_GRAIN = 16 };
enum { TW_PREFILL_PRODUCTS = 8 /* The most of a program that differ. */ };

struct tw_prefill {
    tw_cuda_vm *vm;
    const tw_mega_program *decode; /* The program whose tapes and caches are used. */
    const tw_schedule *s;
    tw_schedule_weights weights;
    tw_prefill_options options;
    int64_t sequences; /* The most sequences of a step. 1: steps are of a single one. */
    int64_t rows;      /* The most rows of a step. */
    tw_prefill_flights flights;
    tw_gpu gpu;        /* The machine's device or emulator, for kernels. */
    tw_cuda_info info; /* Describes the device, or one that the emulator stands for. */
    tw_type type;
    tw_dtype kv;
    int h; /* The buffer that ffns write. -1: there are none. */
    tw_arena arena;
    tw_prefill_kernel *kernels;
    tw_prefill_memory memory;
    tw_prefill_matrix *matrices; /* Of each instruction of the schedule. The head has none here. */
    tw_prefill_matrix head;
    tw_prefill_layer_product products[TW_PREFILL_PRODUCTS]; /* Products of layers that differ, for lengths.c. */
    int n_products;        /* Number of these. 0: times do not decide on rows of lists. */
    tw_prefill_shape rope; /* What the product with q, k and v also does. Without a model: it does not. */
    double *times;         /* Microseconds of a layer's products, as tw_prefill_list_fit has them. */
    tw_prefill_list *lists;
    int n_lists, room_lists; /* Number of lists, and how many `lists` has room for. */
    char *artefact;          /* Path of the only artefact. "": none decides. NULL: tw_prefill_choose says which do. */
    tw_prefill_artefact artefacts[TW_GEMM_FORMS];
    int32_t *steps;        /* Host memory with the words of all steps of a run and their tails, one behind another. */
    _Atomic int32_t *said; /* Host memory that the device writes the token to. NULL: the machine is emulated. */
    float *logits;         /* Host memory for the logits. */
};

/* program.c. Allocates zeroed memory. */
tw_status tw_prefill_alloc(tw_prefill *p, const char *name, int64_t bytes, uint64_t *address, tw_diag *diag);

/* lengths.c. Returns the rows of the list for a step of n: at least n, and few values, since every list has kernels of
   its own. */
int64_t tw_prefill_list_tokens(const tw_prefill *p, int64_t n);

/* lengths.c. Finds the products of layers. */
tw_status tw_prefill_find_products(tw_prefill *p, tw_diag *diag);

/* lengths.c. Returns how many rows a list of launches has that serves steps of n rows: n or more. It is the most, up to
   `enough`, whose products take hardly longer than those of n rows. `times` has a time for each TW_PREFILL_GRAIN rows up to TW_PREFILL_TOLD,
   which is 0 until it is known. */
int64_t tw_prefill_list_fit(const tw_prefill_layer_product *products, int n_products, int64_t n, int64_t enough,
                            const tw_target *target, int sms, double *times);

/* Returns the most rows of what is computed at once, which all activations have room for. */
int64_t tw_prefill_most_rows(const tw_prefill *p);

/* Returns the bytes of a layer's choices of experts. 0: the model is no mixture. */
int64_t tw_prefill_route_bytes(const tw_prefill *p);

/* tail.c. Returns the number of the first instruction of a tail: the one behind the last that writes keys or values. */
int tw_prefill_tail(const tw_schedule *s);
/* Returns the number of words of a tail, which end where the words of its step begin. */
int64_t tw_prefill_tail_words(bool many);

/* many.c. Returns the ends of a list of so many rows: as many as there may be, so that lists differ by their rows
   alone. */
int64_t tw_prefill_many_ends(const tw_prefill *p, int64_t rows);
/* many.c. Allocates what steps of many sequences need beside all others. */
tw_status tw_prefill_many_open(tw_prefill *p, tw_diag *diag);
int64_t tw_prefill_many_bytes(const tw_prefill *p); /* Bytes of the device's memory that these are. */

/* matrix.c. Finds where the rows of the instructions' matrices lie on the decode program's tapes, and uploads tables
   and biases. */
tw_status tw_prefill_find_matrices(tw_prefill *p, tw_diag *diag);

/* Tells whether an ffn's activation has a kernel of its own, which products of these biases do not compute. */
bool tw_prefill_gates_apart(const tw_model *m, bool biases);

/* product.c. Opens the kernel of words (tw_gpu_kernel_open), unless it is open. */
tw_status tw_prefill_open_words(tw_prefill *p, const char *words, const char *configuration, tw_prefill_kernel **out,
                                tw_diag *diag);
/* Opens the kernel of a product with the matrix. `epilogue` has words. `rope` is the shape of the kind "rope", whose
   work the product does, too. NULL: it does not. *reads_tapes tells whether B is the matrix's table, or the unpacked
   matrix. */
tw_status tw_prefill_open_product(tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix,
                                  const char *epilogue, const tw_prefill_shape *rope, tw_prefill_kernel **out,
                                  bool *reads_tapes, tw_diag *diag);
/* Returns the number of vectors of sums of squares that a product of the list leaves. 0: more than memory has room
   for. */
int64_t tw_prefill_vectors(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_kernel *k);

/* parts.c. Chooses in how many parts along k a product is computed that is added to x, if the instruction behind it
   begins with a norm. `asked` is as in tw_prefill_options. 1: in one. */
int tw_prefill_parts(const tw_prefill *p, const tw_prefill_list *list, const tw_prefill_matrix *matrix, int asked);
int64_t tw_prefill_parts_bytes(const tw_prefill *p, int64_t rows); /* Bytes of tw_prefill_memory.parts. */

/* tiles.c. Chooses a product's configuration by what was measured, for one that also does the work of `rope`
   (tw_prefill_qkv) or not (NULL). False: no tile of those is legal, or they know no such products. */
bool tw_prefill_tile(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_target *target, int sms,
                     tw_gemm_config *out);

/* Returns the time of the tile that it chooses of those that were measured, in microseconds. 1e30: it chooses none. */
double tw_prefill_tile_time(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_target *target,
                            int sms);

/* few.c. Does what tw_prefill_tile does for products of a few rows, by rules. False: there are more, or no such tile is
   legal. */
bool tw_prefill_few(const tw_gemm_problem *problem, const tw_prefill_shape *rope, const tw_target *target, int sms,
                    tw_gemm_config *out);

/* Takes the most stages, and the most direct way to store C, with which a configuration is legal. False: with none. */
bool tw_prefill_complete(const tw_gemm_problem *p, const tw_target *target, tw_gemm_config *c);

/* chosen.c. Gets the configuration that an artefact chooses for a product. False: none does. */
bool tw_prefill_chosen(tw_prefill *p, const tw_gemm_problem *problem, tw_gemm_config *out);
void tw_prefill_forget_artefacts(tw_prefill *p); /* Closes all artefacts. */

/* launches.c. Makes the launches of a list, whose `tokens`, `keys`, `masked`, `many`, `ends` and `whole` are
   set. */
tw_status tw_prefill_list_make(tw_prefill *p, tw_prefill_list *list, tw_diag *diag);
/* lists.c. Finds the list of these properties, or makes it. */
tw_status tw_prefill_list_find(tw_prefill *p, const tw_prefill_list *wanted, tw_prefill_list **out, tw_diag *diag);
/* Begins to run a list, and does not wait. */
tw_status tw_prefill_list_run(tw_prefill *p, const tw_prefill_list *list, tw_diag *diag);
/* Captures a list that has run, unless it is captured. */
void tw_prefill_list_capture(tw_prefill *p, tw_prefill_list *list);
void tw_prefill_list_free(tw_prefill_list *list);

#endif
