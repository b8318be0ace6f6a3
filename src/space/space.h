/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces of tuning parameters as data. A space is a table of parameters over a plain struct, the configuration, with a
   few functions that judge one. Everything else follows from the table: words, JSON, its schema, counting, enumeration,
   drawing at random. Nothing here knows what is tuned. */
#ifndef TW_SPACE_SPACE_H
#define TW_SPACE_SPACE_H

#include "base/buf.h"
#include "base/random.h"
#include "tilewright/base.h"

/* WaveTune (arXiv 2604.10187, section 4.1) splits a configuration so. */
typedef enum tw_space_role {
    TW_SPACE_MACRO, /* decides the tiling: the grid, its waves, the work of a block or worker */
    TW_SPACE_MICRO, /* decides how that work is done; tuned within each choice of the macro parameters */
    TW_SPACE_GIVEN, /* says what is computed, or is a limit: a tuner leaves it as it is */
    TW_SPACE_ROLES
} tw_space_role;
const char *tw_space_role_name(tw_space_role role); /* "macro", "micro", "given" */

/* How the configuration's struct holds a parameter. */
typedef enum tw_space_form {
    TW_SPACE_INT32,
    TW_SPACE_INT64,
    TW_SPACE_FLAG, /* a bool */
    TW_SPACE_WORD  /* an int or an enum: the code of a word */
} tw_space_form;

/* Every parameter has whole numbers as values: of a flag 0 and 1, of a word its place among the words. */
typedef struct tw_param {
    const char *name;
    const char *object; /* The JSON object that holds it, within the outermost. NULL: the outermost. */
    tw_space_role role;
    tw_space_form form;
    size_t at;                /* Offset in the configuration. */
    int64_t least, most;      /* Of numbers: what may be written. */
    const char *const *words; /* Of words: all of them, then NULL. */
    const int *codes;         /* Of words: what the struct holds for each. NULL: their places. */
    const int *values;        /* Of numbers: what is enumerated and drawn, each once. */
    int n_values;
    const char *meaning; /* One line, for the schema. NULL: the name says it. */
    /* Both are NULL where the configuration holds the value at `at`. */
    int64_t (*get)(const void *config);
    void (*set)(void *config, int64_t value);
} tw_param;

enum { TW_SPACE_PARAMS = 64, TW_SPACE_CONFIG_BYTES = 512 }; /* at most, of a space */

typedef struct tw_space {
    const char *name;
    const char *title;   /* Of the JSON schema. NULL: the name. */
    const char *example; /* A parameter's name and value, like "ml=64", for messages. */
    const tw_param *params;
    int n;
    size_t bytes; /* Of a configuration. */
    /* Functions that know what is tuned. `context` is the space's own: a problem and a machine, say. */
    /* Returns TW_OK, or why the configuration cannot be. `diag` may be NULL. NULL: all are legal. */
    tw_status (*legal)(const void *context, const void *config, tw_diag *diag);
    /* Brings a configuration to its plain spelling: what has no meaning beside the rest gets a fixed value. NULL: every
       configuration is spelt plainly. */
    void (*plain)(const void *context, void *config);
    /* The cost that a legal configuration might have, for ranking. NULL: nobody knows. */
    double (*estimate)(const void *context, const void *config);
} tw_space;

/* ---- parameters of a configuration */

int64_t tw_space_get(const tw_space *s, const void *config, int i);
void tw_space_set(const tw_space *s, void *config, int i, int64_t value);
/* How many values of a parameter are enumerated and drawn, and the k-th of them. A given parameter has none. */
int tw_space_values(const tw_space *s, int i);
int64_t tw_space_value(const tw_space *s, int i, int k);
bool tw_space_same(const tw_space *s, const void *a, const void *b);

/* ---- points: one value for each parameter that is not given */

/* How many points there are. With `role` not TW_SPACE_ROLES: of the parameters of that role alone. UINT64_MAX: more
   than fit. */
uint64_t tw_space_points(const tw_space *s, tw_space_role role);
/* Sets the parameters to those of point n, the first parameter's value changing slowest. Given parameters stay. False:
   there are no so many. */
bool tw_space_point(const tw_space *s, uint64_t n, void *config);
/* The point's number. False: a parameter has a value that is not enumerated. */
bool tw_space_index(const tw_space *s, const void *config, uint64_t *n);
/* Brings a configuration to its plain spelling and judges it. `diag` may be NULL. */
tw_status tw_space_judge(const tw_space *s, const void *context, void *config, tw_diag *diag);

/* How many points are legal once spelt plainly. Given parameters are those of `config`. */
typedef struct tw_space_size {
    double legal;
    bool exact;   /* Every point was judged; else `judged` ones drawn at random. */
    double error; /* The standard error of `legal`; 0 where it is exact. */
    uint64_t judged;
} tw_space_size;
tw_space_size tw_space_count_legal(const tw_space *s, const void *context, const void *config, uint64_t most_judged,
                                   tw_random *random);

/* ---- drawing */

/* Draws points uniformly until one is legal, and leaves it spelt plainly in `config`: uniform over the legal points.
   Parameters whose keep[i] is not negative have that value instead (NULL: all are free); given ones stay as they are.
   False: `tries` were not legal. */
bool tw_space_draw(const tw_space *s, const void *context, const int64_t *keep, tw_random *random, int tries,
                   void *config);
/* Moves one to three parameters, mostly to a neighbouring value, and spells the result plainly; it need not be legal. A
   value that is not enumerated moves anywhere. */
void tw_space_vary(const tw_space *s, const void *context, const int64_t *keep, tw_random *random, void *config);

/* ---- words: "mma=1 ms=32 machine.warps=8" */

/* Writes every parameter; what does not fit is cut off. */
void tw_space_print(const tw_space *s, const void *config, char *out, size_t size);
/* Sets the parameters that are named; the others stay. Blanks or commas separate words. TW_ERR_USAGE names the word. */
tw_status tw_space_parse(const tw_space *s, void *config, const char *text, tw_diag *diag);
/* A parameter's full name, with its object's; its value, as words have it. */
void tw_space_put_name(const tw_space *s, int i, tw_buf *out);
void tw_space_put_value(const tw_space *s, int i, int64_t value, tw_buf *out);

/* ---- JSON */

/* Sets the parameters that the JSON object in this file names; the others stay. TW_ERR_FORMAT names a field that is
   unknown or has a value that it cannot have, and nothing is set. "-": standard input. */
tw_status tw_space_read_json(const tw_space *s, void *config, const char *path, tw_diag *diag);
/* A line a parameter, then a line a parameter of each object. */
void tw_space_put_json(const tw_space *s, const void *config, tw_buf *out);
void tw_space_put_schema(const tw_space *s, tw_buf *out); /* JSON Schema 2020-12 */

#endif
