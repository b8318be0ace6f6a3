/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces of tuning parameters as data. A space is a table of parameters over a plain struct, the configuration, with a
   few functions that judge one. Everything else follows from the table: words, JSON, its schema, counting, enumeration,
   drawing at random. Nothing here knows what is tuned. */
#ifndef TW_SPACE_SPACE_H
#define TW_SPACE_SPACE_H

#include "base/buf.h"
#include "base/random.h"
#include "tilewright/base.h"

/* Roles of parameters, after WaveTune (arXiv 2604.10187, section 4.1). */
typedef enum tw_space_role {
    TW_SPACE_MACRO, /* The parameter decides the tiling: grid, waves, and work per block or worker. */
    TW_SPACE_MICRO, /* The parameter decides how a block does its work. It is tuned for each choice of macro parameters.
                     */
    TW_SPACE_GIVEN, /* The parameter says what is computed, or is a limit. Tuners do not change it. */
    TW_SPACE_ROLES  /* The number of roles. */
} tw_space_role;
const char *tw_space_role_name(tw_space_role role); /* Returns "macro", "micro" or "given". */

/* The type of a parameter's field in the configuration. */
typedef enum tw_space_form {
    TW_SPACE_INT32, /* The field is an int. */
    TW_SPACE_INT64, /* The field is an int64_t. */
    TW_SPACE_FLAG,  /* The field is a bool. */
    TW_SPACE_WORD   /* The field is an int or an enum, and holds the code of a word. */
} tw_space_form;

/* A parameter. Its values are integers: 0 and 1 for a flag, and for words their indices in `words`. */
typedef struct tw_param {
    const char *name;
    const char *object; /* The JSON object that holds the parameter. NULL: the outermost object. */
    tw_space_role role;
    tw_space_form form;
    size_t at;                /* Offset of the field in the configuration, in bytes. */
    int64_t least, most;      /* Range of a number. */
    const char *const *words; /* The words, ended by NULL. NULL: the parameter is a number or a flag. */
    const int *codes;         /* Codes of the words. NULL: a word's code is its index. */
    const int *values;        /* Values of a number that are enumerated and drawn, without repetition. */
    int n_values;             /* Number of `values`. */
    const char *meaning;      /* The description in the JSON schema, one line. NULL: none. */
    /* Functions that read and write the value. NULL: the value is the field at `at`. */
    int64_t (*get)(const void *config);
    void (*set)(void *config, int64_t value);
} tw_param;

enum {
    TW_SPACE_PARAMS = 64,       /* The most parameters of a space. */
    TW_SPACE_CONFIG_BYTES = 512 /* The most bytes of a configuration. */
};

typedef struct tw_space {
    const char *name;
    const char *title;   /* Title of the JSON schema. NULL: `name`. */
    const char *example; /* An example of a word for messages, such as "ml=64". */
    const tw_param *params;
    int n;        /* Number of parameters. */
    size_t bytes; /* Size of a configuration. */
    /* Checks a configuration. `context` is what the space is for, such as a problem and a machine. `diag` may be NULL.
       The function is NULL if every configuration is legal. */
    tw_status (*legal)(const void *context, const void *config, tw_diag *diag);
    /* Brings a configuration to canonical form: parameters without effect get a fixed value. NULL: every configuration
       is canonical. */
    void (*plain)(const void *context, void *config);
    /* Estimates the cost of a legal configuration, for ranking. NULL: the space has no estimate. */
    double (*estimate)(const void *context, const void *config);
} tw_space;

/* ---- parameters of a configuration */

int64_t tw_space_get(const tw_space *s, const void *config, int i);
void tw_space_set(const tw_space *s, void *config, int i, int64_t value);
/* Counts the values of a parameter that are enumerated and drawn. A given parameter has none. */
int tw_space_values(const tw_space *s, int i);
/* Returns the k-th of those values. */
int64_t tw_space_value(const tw_space *s, int i, int k);
/* Finds k for a value of parameter i. Returns tw_space_values(s, i) if it is none of the values. */
int tw_space_place(const tw_space *s, int i, int64_t value);
bool tw_space_same(const tw_space *s, const void *a, const void *b);

/* ---- points: combinations of values of all parameters that are not given */

/* Counts the points. TW_SPACE_ROLES stands for all parameters; another `role` counts combinations of that role's
   parameters only. Returns UINT64_MAX if the number does not fit. */
uint64_t tw_space_points(const tw_space *s, tw_space_role role);
/* Sets the parameters to those of point n. The first parameter changes slowest. Given parameters keep their values.
   Returns false if there is no point n. */
bool tw_space_point(const tw_space *s, uint64_t n, void *config);
/* Finds the number of a configuration's point. Returns false if a value is not enumerated. */
bool tw_space_index(const tw_space *s, const void *config, uint64_t *n);
/* Brings a configuration to canonical form and checks it. `diag` may be NULL. */
tw_status tw_space_judge(const tw_space *s, const void *context, void *config, tw_diag *diag);

/* The number of points whose canonical form is legal. */
typedef struct tw_space_size {
    double legal;    /* The number of legal points, exact or estimated. */
    bool exact;      /* True: every point was checked. False: a random sample was. */
    double error;    /* Standard error of `legal`. 0 if it is exact. */
    uint64_t judged; /* Number of points that were checked. */
} tw_space_size;

/* Counts the legal points. Given parameters have the values of `config`. More than `most_judged` points are estimated
   by a sample of that size. */
tw_space_size tw_space_count_legal(const tw_space *s, const void *context, const void *config, uint64_t most_judged,
                                   tw_random *random);

/* Estimates the number of legal points from a sample of `judged`, of which `legal` were. */
tw_space_size tw_space_estimate(const tw_space *s, uint64_t legal, uint64_t judged);

/* ---- drawing */

/* Draws a point uniformly, legal or not. It is not brought to canonical form. `keep` is as in tw_space_draw. */
void tw_space_draw_any(const tw_space *s, const int64_t *keep, tw_random *random, void *config);
/* Draws points uniformly until one is legal, and brings it to canonical form. Legal points are equally likely. A
   parameter whose keep[i] is not negative has that value; `keep` NULL fixes none. Given parameters keep their values.
   Returns false after `tries` points that were not legal. */
bool tw_space_draw(const tw_space *s, const void *context, const int64_t *keep, tw_random *random, int tries,
                   void *config);
/* Changes one to three parameters, mostly to a neighbouring value. A value that is not enumerated changes to any value.
   The result is in canonical form and may be illegal. `keep` is as in tw_space_draw. */
void tw_space_vary(const tw_space *s, const void *context, const int64_t *keep, tw_random *random, void *config);

/* ---- words: "mma=1 ms=32 machine.warps=8" */

/* Writes all parameters as words. Text beyond `size` is cut off. */
void tw_space_print(const tw_space *s, const void *config, char *out, size_t size);
/* Writes the parameters of a role as words. TW_SPACE_ROLES: of all roles. */
void tw_space_print_role(const tw_space *s, const void *config, tw_space_role role, char *out, size_t size);
/* Sets the parameters that the words name. The others keep their values. Words are separated by spaces or commas.
   TW_ERR_USAGE: a word is wrong. The message names it. */
tw_status tw_space_parse(const tw_space *s, void *config, const char *text, tw_diag *diag);
/* Appends a parameter's full name, such as "machine.warps". */
void tw_space_put_name(const tw_space *s, int i, tw_buf *out);
/* Appends a value as tw_space_print writes it. */
void tw_space_put_value(const tw_space *s, int i, int64_t value, tw_buf *out);

/* ---- JSON */

/* Sets the parameters that a file's JSON object names. The others keep their values. The path "-" is standard input.
   TW_ERR_FORMAT: a field is unknown or its value is not allowed. The message names the field, and nothing is set. */
tw_status tw_space_read_json(const tw_space *s, void *config, const char *path, tw_diag *diag);
/* Appends a configuration as a JSON object, one parameter per line. */
void tw_space_put_json(const tw_space *s, const void *config, tw_buf *out);
void tw_space_put_schema(const tw_space *s, tw_buf *out); /* Appends the JSON Schema (2020-12) of that object. */

#endif
