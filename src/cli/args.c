/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_usage(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("tilewright: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return CLI_USAGE;
}

int cli_fail(const tw_diag *diag) {
    char place[TW_DIAG_PATH + 64];
    tw_diag_place(diag, place, sizeof place);
    for (const char *line = diag->message; *line;) {
        size_t n = strcspn(line, "\n");
        fprintf(stderr, "tilewright: %s%.*s\n", place, (int)n, line);
        line += n + (line[n] == '\n');
    }
    return diag->status == TW_ERR_USAGE ? CLI_USAGE : CLI_FAILED;
}

void cli_blame(tw_diag *diag, tw_status status, const char *file) {
    if (status != TW_OK && !strcmp(diag->path, "(text)"))
        snprintf(diag->path, sizeof diag->path, "%s", strcmp(file, "-") ? file : "(standard input)");
}

static void print_help(const cli_verb *v, const cli_flag *flags, int n) {
    printf("tilewright %s%s%s [flags]\n%s\n", v->name, *v->objects ? " " : "", v->objects, v->summary);
    if (n) printf("\nflags:\n");
    for (int i = 0; i < n; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", flags[i].name, flags[i].meta ? " " : "",
                 flags[i].meta ? flags[i].meta : "");
        printf("  %-28s %s\n", left, flags[i].help);
    }
    printf("\nexample:\n  %s\n", v->example);
}

static bool set_flag(const cli_flag *f, const char *text, int *status) {
    char *end = NULL;
    errno = 0;
    switch (f->type) {
    case CLI_FLAG:
        *(bool *)f->value = true;
        return true;
    case CLI_TEXT:
        *(const char **)f->value = text;
        return true;
    case CLI_INT:
        *(int64_t *)f->value = strtoll(text, &end, 10);
        break;
    case CLI_REAL:
        *(double *)f->value = strtod(text, &end);
        break;
    case CLI_LIST: {
        cli_list *l = f->value;
        if (l->count == CLI_LIST_MAX) {
            *status = cli_usage("%s: at most %d of them", f->name, CLI_LIST_MAX);
            return false;
        }
        l->item[l->count++] = text;
        return true;
    }
    }
    if (!errno && end != text && !*end) return true;
    *status = cli_usage("%s: \"%s\" is not a%s number", f->name, text, f->type == CLI_INT ? " whole" : "");
    return false;
}

/* Finds the flag that `arg` names. *inline_value is what follows '=' in "--name=value" or "-n=value". */
static const cli_flag *find_flag(const cli_flag *flags, int n, const char *arg, const char **inline_value) {
    size_t len = strcspn(arg, "=");
    *inline_value = arg[len] ? arg + len + 1 : NULL;
    for (int i = 0; i < n; i++)
        if (strlen(flags[i].name) == len && !strncmp(flags[i].name, arg, len)) return &flags[i];
    return NULL;
}

static bool is_flag(const char *arg) {
    /* "-" is a standard stream, and "-1" a number. */
    return arg[0] == '-' && arg[1] && !(arg[1] >= '0' && arg[1] <= '9');
}

bool cli_parse(const cli_verb *verb, int argc, char **argv, const cli_flag *flags, int n_flags, const char **objects,
               int min, int max, int *n_objects, int *status) {
    int count = 0;
    bool only_objects = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i], *value;
        if (!only_objects && !strcmp(arg, "--")) {
            only_objects = true;
            continue;
        }
        if (only_objects || !is_flag(arg)) {
            if (count == max) {
                *status =
                    cli_usage("%s: too many arguments: \"%s\" (tilewright %s --help)", verb->name, arg, verb->name);
                return false;
            }
            objects[count++] = arg;
            continue;
        }
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            print_help(verb, flags, n_flags);
            *status = CLI_OK;
            return false;
        }
        const cli_flag *f = find_flag(flags, n_flags, arg, &value);
        if (!f) {
            *status = cli_usage("%s: unknown flag %s (tilewright %s --help)", verb->name, arg, verb->name);
            return false;
        }
        if (f->type != CLI_FLAG && !value) value = i + 1 < argc ? argv[++i] : NULL;
        if (f->type != CLI_FLAG && !value) {
            *status = cli_usage("%s: %s needs a value: %s", verb->name, f->name, f->meta);
            return false;
        }
        if (!set_flag(f, value, status)) return false;
    }
    if (count < min) {
        *status = cli_usage("%s: needs %s (tilewright %s --help)", verb->name, verb->objects, verb->name);
        return false;
    }
    *n_objects = count;
    return true;
}

static tw_status read_config(cli_model_flags *m, tw_engine_options *o, tw_diag *diag) {
    tw_lowering *l = &m->config.lowering;
    m->config = (tw_schedule_config){0};
    tw_status st = m->config_path ? tw_schedule_config_read(&m->config, m->config_path, diag) : TW_OK;
    if (st != TW_OK) return st;
    if (m->weights) l->weights = o->weights;
    if (m->group) l->group = o->group;
    o->weights = l->weights;
    o->group = l->group;
    o->config = &m->config;
    return TW_OK;
}

tw_status cli_engine_options(cli_model_flags *m, tw_engine_options *o, tw_diag *diag) {
    const char *w = m->weights ? m->weights : "native";
    *o = (tw_engine_options){
        .workers = (int)m->threads, .context = m->context, .group = (int)m->group, .schedule = m->schedule};
    o->device = m->device ? m->device : "auto";
    *diag = (tw_diag){.status = TW_ERR_USAGE, .offset = -1, .line = -1};
    if (!strcmp(w, "int8"))
        o->weights = TW_I8;
    else if (!strcmp(w, "int4"))
        o->weights = TW_I4;
    else if (strcmp(w, "native")) {
        snprintf(diag->message, sizeof diag->message, "--weights: \"%s\" is not native, int8 or int4", w);
        return TW_ERR_USAGE;
    }
    const char *a = m->activations ? m->activations : tw_activations_name(TW_ACTIVATIONS_FLOAT);
    while (o->activations < TW_ACTIVATIONS_COUNT && strcmp(a, tw_activations_name(o->activations))) o->activations++;
    if (o->activations == TW_ACTIVATIONS_COUNT) {
        snprintf(diag->message, sizeof diag->message, "--activations: \"%s\" is not float, bf16 or int8", a);
        return TW_ERR_USAGE;
    }
    const struct {
        const char *name;
        int64_t value, most;
    } numbers[] = {{m->threads_flag ? m->threads_flag : "-t", m->threads, 1024},
                   {"-c", m->context, INT32_MAX},
                   {"--group", m->group, 128}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value >= 0 && numbers[i].value <= numbers[i].most) continue;
        snprintf(diag->message, sizeof diag->message, "%s: %lld is not within 0..%lld", numbers[i].name,
                 (long long)numbers[i].value, (long long)numbers[i].most);
        return TW_ERR_USAGE;
    }
    o->limit_isa = m->isa != NULL;
    if (m->isa && !tw_cpu_isa_parse(m->isa, &o->isa)) {
        snprintf(diag->message, sizeof diag->message,
                 "--isa: \"%s\" is not none or a list of avx2, avx512, avx512vnni, avx512bf16, avx512fp16, amx",
                 m->isa);
        return TW_ERR_USAGE;
    }
    return read_config(m, o, diag);
}

static volatile sig_atomic_t interrupted, patient;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    /* A second interrupt ends the program at once, unless the command handles interrupts itself. */
    if (interrupted && !patient) _Exit(130);
    interrupted = 1;
}

static void listen_for_interrupts(int flags) {
    struct sigaction sa = {.sa_handler = on_interrupt, .sa_flags = flags};
    sigaction(SIGINT, &sa, NULL);
}

void cli_interrupt_forget(void) {
    cli_interrupted();
    /* With SA_RESTART an interrupt does not end a write, which would lose text. Reads from a terminal wait in ppoll(),
       which an interrupt always ends. Other reads must be ended by the interrupt, so they get no SA_RESTART. */
    if (!patient && isatty(STDIN_FILENO)) listen_for_interrupts(SA_RESTART);
    patient = 1;
    interrupted = 0;
}

bool cli_interrupted(void) {
    static bool installed;
    if (!installed) {
        listen_for_interrupts(0);
        installed = true;
    }
    return interrupted;
}
