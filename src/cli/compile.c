/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/network.h"
#include "device/target.h"
#include "vm/cuda/vm.h"

#include <stdio.h>
#include <string.h>

static tw_status lowering_of(cli_model_flags *m, int64_t tokens, tw_lowering *l, tw_diag *d) {
    tw_engine_options o;
    tw_status st = cli_engine_options(m, &o, d);
    if (st != TW_OK) return st;
    *l = m->config.lowering;
    /* Flags win over the file. */
    if (o.context) l->max_seq = o.context;
    if (tokens) l->tokens = tokens;
    if (o.workers) l->workers = o.workers;
    return TW_OK;
}

/* Lowers a model for a target: the processor here, the GPU here, or a named GPU with its number of SMs. A named GPU's
   machine must be one that can be built. */
static tw_status lower(tw_schedule **out, tw_lowering *l, const tw_machine_tuning *tuning, const tw_model *model,
                       const char *target, tw_diag *d) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    if (!strcmp(target, "cpu")) {
        if (!l->workers) l->workers = cpu.cores;
        return tw_schedule_lower(out, model, l, d);
    }
    const bool named = strcmp(target, "cuda");
    tw_cuda_vm_options o = {
        .emulate = named, .target = named ? target : NULL, .workers = l->workers, .tuning = *tuning};
    tw_cuda_vm *vm;
    tw_status st = tw_cuda_vm_open(&vm, model, &o, d);
    if (st != TW_OK) return st;
    tw_model_info info;
    tw_model_describe(model, &info);
    if (!l->max_seq) l->max_seq = info.max_seq;
    tw_cuda_vm_lowering(vm, l);
    st = tw_schedule_lower(out, model, l, d);
    if (st == TW_OK) st = tw_cuda_vm_fits(vm, *out, d);
    tw_cuda_vm_close(vm);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    if (cli_is_network(argc, argv)) return cli_compile_network(argc, argv);
    cli_model_flags m = {.threads_flag = "--workers"};
    const char *model_path, *out = "-", *target = "cpu", *shape = NULL;
    int64_t workers = 0, tokens = 0;
    bool schema = false;
    const cli_flag flags[] = {
        {"-o", CLI_TEXT, &out, "S.json", "where to write (default: standard output)"},
        {"--workers", CLI_INT, &workers, "N", "workers (default: every core, or every SM)"},
        {"--target", CLI_TEXT, &target, "cpu|cuda|sm_90a|...",
         "what it is for (default cpu); cuda is the GPU here, a name needs --workers, its SMs"},
        {"--config", CLI_TEXT, &m.config_path, "C.json",
         "choices of the lowering and of a GPU's machine; flags win over it"},
        {"--schema", CLI_FLAG, &schema, NULL, "only describe such files, as JSON Schema"},
        {"--tokens", CLI_INT, &tokens, "N", "positions a step takes at most (default 1: decode)"},
        {"--weights", CLI_TEXT, &m.weights, "native|int8|int4", "weights as stored, or quantised"},
        {"--group", CLI_INT, &m.group, "32|64|128", "columns that share a scale"},
        {"-c", CLI_INT, &m.context, "N", "positions kept (default: the model's)"},
        {"--shape", CLI_TEXT, &shape, "NAME", "a known shape instead of a model"},
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &model_path, 0, 1, &n, &status))
        return status;
    tw_diag d;
    if (schema) return tw_schedule_config_schema(out, &d) == TW_OK ? CLI_OK : cli_fail(&d);
    if ((n == 1) == (shape != NULL)) return cli_usage("compile: needs a MODEL or --shape, one of them");
    const bool named = strcmp(target, "cpu") && strcmp(target, "cuda");
    if (named && !tw_target_find(target))
        return cli_usage("--target: \"%s\" is not cpu, cuda or a target such as sm_90a", target);
    m.threads = workers;
    tw_model *model = NULL;
    tw_schedule *s = NULL;
    tw_lowering l;
    tw_status st = lowering_of(&m, tokens, &l, &d);
    if (st == TW_OK)
        st = shape ? tw_model_synthetic(&model, shape, TW_BF16, 1, &d) : tw_model_open(&model, model_path, &d);
    if (st == TW_OK && named && !l.workers) {
        tw_model_close(model);
        return cli_usage("--target %s: needs --workers, the number of its SMs", target);
    }
    if (st == TW_OK) st = lower(&s, &l, &m.config.machine, model, target, &d);
    if (st == TW_OK) st = tw_schedule_write(s, out, &d);
    if (st == TW_OK && strcmp(out, "-")) {
        tw_schedule_info info;
        tw_schedule_describe(s, &info);
        printf("%s: %lld instructions for %d workers, %d counters, %d buffers\n", out, (long long)info.instructions,
               info.workers, info.counters, info.buffers);
    }
    tw_schedule_free(s);
    tw_model_close(model);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_compile = {
    "compile", "MODEL|M.onnx|M.tw",
    "lower a model to a schedule, written as JSON (tilewright compile M.onnx --help: ONNX models)",
    "tilewright compile models/demo -o s.json --workers 4", run};
