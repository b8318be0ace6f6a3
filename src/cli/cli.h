/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share: flags, messages, exit statuses. */
#ifndef TW_CLI_CLI_H
#define TW_CLI_CLI_H

#include "tilewright/device.h"
#include "tilewright/engine.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef enum cli_type { CLI_FLAG, CLI_INT, CLI_REAL, CLI_TEXT, CLI_LIST } cli_type;

/* One flag: bool *, int64_t *, double *, const char **, or cli_list * for flags that may be repeated. */
typedef struct cli_flag {
    const char *name; /* "--top-k"; for single letters "-n" */
    cli_type type;
    void *value;
    const char *meta, *help; /* "N", "new tokens at most (default 128)" */
} cli_flag;

enum { CLI_LIST_MAX = 16 };
typedef struct cli_list {
    const char *item[CLI_LIST_MAX];
    int count;
} cli_list;

typedef struct cli_verb {
    const char *name, *objects, *summary, *example;
    int (*run)(const struct cli_verb *verb, int argc, char **argv);
} cli_verb;

/* Flags and objects in any order. At most `max` objects are stored; fewer than `min` or more than `max` is an error.
   False: a message (or --help) was printed and *status is the exit status. */
bool cli_parse(const cli_verb *verb, int argc, char **argv, const cli_flag *flags, int n_flags, const char **objects,
               int min, int max, int *n_objects, int *status);

/* Prints `tilewright: path:where: message`, one line a reason, and returns the exit status that the diagnostic asks
 * for. */
int cli_fail(const tw_diag *diag);
/* After encoding failed: the text came from `file`, "-" being standard input. */
void cli_blame(tw_diag *diag, tw_status status, const char *file);
int cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The flags that every verb that runs a model has. */
typedef struct cli_model_flags {
    const char *weights, *activations, *isa, *device, *schedule, *config_path;
    tw_schedule_config config; /* as read; the options point here */
    int64_t group, threads, context;
    const char *threads_flag; /* what the verb calls it; NULL: "-t" */
} cli_model_flags;
#define CLI_MODEL_FLAGS(m)                                                                                             \
    {"--weights", CLI_TEXT, &(m).weights, "native|int8|int4",                                                          \
     "weights as stored, or quantised at load (default native)"},                                                      \
        {"--group", CLI_INT, &(m).group, "32|64|128",                                                                  \
         "columns that share a scale (default: a row for int8, 64 for int4)"},                                         \
        {"--activations", CLI_TEXT, &(m).activations, "float|bf16|int8",                                               \
         "on a processor: as they are, or rounded where they enter a product (default float)"},                        \
        {"-t", CLI_INT, &(m).threads, "N", "threads (default: every core)"},                                           \
        {"-c", CLI_INT, &(m).context, "N", "positions kept (default: the model's, at most 4096)"},                     \
        {"--config", CLI_TEXT, &(m).config_path, "C.json",                                                             \
         "choices of the lowering and of a GPU's machine; flags win over it"},                                         \
        {"--isa", CLI_TEXT, &(m).isa, "LIST", "use only these instruction sets, e.g. avx2, or none"}, {                \
        "--device", CLI_TEXT, &(m).device, "auto|cpu|cuda[:N]",                                                        \
            "where to run (default auto: a GPU that covers the model, else cpu)"                                       \
    }
tw_status cli_engine_options(cli_model_flags *m, tw_engine_options *o, tw_diag *diag);

/* The source of Chart.js, which draws the plots of reports. NULL: it was not there when the command was built. */
const char *cli_plots(void);

/* Asks once whether SIGINT arrived; installs the handler at the first call. */
bool cli_interrupted(void);
/* From now on an interrupt never ends the program by itself; those that arrived are forgotten. */
void cli_interrupt_forget(void);

extern const cli_verb cli_doctor, cli_run, cli_chat_verb, cli_verify, cli_bench, cli_ppl, cli_tokenize, cli_compile,
    cli_check, cli_kernel, cli_tune, cli_measure, cli_train, cli_eval, cli_select, cli_explain, cli_export, cli_import,
    cli_trace, cli_build;

#endif
