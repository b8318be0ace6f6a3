/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const cli_verb *const verbs[] = {&cli_doctor,  &cli_run,      &cli_chat_verb, &cli_verify, &cli_bench,
                                        &cli_ppl,     &cli_tokenize, &cli_compile,   &cli_check,  &cli_kernel,
                                        &cli_tune,    &cli_measure,  &cli_train,     &cli_eval,   &cli_select,
                                        &cli_explain, &cli_export,   &cli_import,    &cli_trace,  &cli_build};
enum { VERBS = sizeof verbs / sizeof *verbs };

static int help(FILE *to) {
    fprintf(to, "tilewright VERB [OBJECT] [flags]\n\n");
    for (int i = 0; i < VERBS; i++)
        fprintf(to, "  %-9s %-24s %s\n", verbs[i]->name, verbs[i]->objects, verbs[i]->summary);
    fprintf(to, "\n\"tilewright VERB --help\" shows a verb's flags and an example. Version %s.\n", TW_VERSION);
    return to == stdout ? CLI_OK : CLI_USAGE;
}

static int perform(int argc, char **argv) {
    if (argc < 2) return help(stderr);
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) return help(stdout);
    if (!strcmp(argv[1], "version") || !strcmp(argv[1], "--version")) {
        printf("tilewright %s\n", TW_VERSION);
        return CLI_OK;
    }
    for (int i = 0; i < VERBS; i++)
        if (!strcmp(argv[1], verbs[i]->name)) return verbs[i]->run(verbs[i], argc - 2, argv + 2);
    return cli_usage(
        "\"%s\" is not a verb; the verbs are doctor, run, chat, verify, bench, ppl, tokenize, compile, check, "
        "kernel, tune, measure, train, eval, select, explain, export, import, trace, build",
        argv[1]);
}

int main(int argc, char **argv) {
    int status = perform(argc, argv);
    if (!fflush(stdout) && !ferror(stdout)) return status;
    fprintf(stderr, "tilewright: (standard output): cannot write\n");
    return CLI_FAILED;
}
