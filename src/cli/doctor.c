/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/results.h"
#include "device/cuda/cuda.h"
#include "kernels/vendor/cublaslt.h"
#include "kernels/vendor/cudnn.h"
#include "tune/gpu_bandwidth.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/utsname.h>

/* Libraries that are used when they are there, and what their absence costs. */
static const struct {
    const char *name, *files[5], *without;
    const char *(*find)(void); /* Knows the places. NULL: `files` has their names. */
} optional[] = {
    {"oneDNN",
     {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2", "libdnnl.so", NULL},
     "one candidate less for prefill's matrix products",
     NULL},
    {"cuBLASLt", {NULL}, "nothing of NVIDIA's beside our matrix products on a GPU", tw_cublaslt_find},
    {"cuDNN", {NULL}, "nothing of NVIDIA's beside our attention on a GPU", tw_cudnn_find},
    {"XGBoost",
     {"libxgboost.so", "libxgboost.so.0", NULL},
     "no boosted trees among the models that select's choices are compared with",
     NULL},
};
enum { OPTIONAL = sizeof optional / sizeof *optional };

static const char *find_library(int i) {
    if (optional[i].find) return optional[i].find();
    for (int k = 0; k < 5 && optional[i].files[k]; k++) {
        /* Some libraries start threads, which do not survive unloading. */
        void *h = dlopen(optional[i].files[k], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
        if (!h) continue;
        dlclose(h);
        return optional[i].files[k];
    }
    return NULL;
}

/* Describes GPU number `i`. Returns false after the last, or if there is none, for the reason in *d. */
static bool gpu_at(int i, tw_cuda_info *gpu, tw_diag *d) {
    int n = 0;
    if (tw_cuda_count(&n, d) != TW_OK || i >= n) return false;
    return tw_cuda_query(i, gpu, d) == TW_OK;
}

/* Measures the bytes per second of reading a GPU's memory. 0: they cannot be measured. */
static double gpu_reads(int i) {
    double rate = 0;
    return tw_cuda_measure_bandwidth(i, &rate, NULL) == TW_OK ? rate : 0;
}

static json_t *gpus_json(void) {
    json_t *list = json_array();
    tw_cuda_info g;
    for (int i = 0; gpu_at(i, &g, NULL); i++) {
        const double reads = gpu_reads(i);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:s?, s:i, s:i, s:I, s:I, s:o}", "name", g.name, "driver", g.driver, "sm",
                            g.sm, "target", g.target ? g.target->name : NULL, "sms", g.sms, "clock_khz", g.clock_khz,
                            "memory_bytes", (json_int_t)g.memory_bytes, "l2_bytes", (json_int_t)g.l2_bytes,
                            "read_bytes_per_second", reads > 0 ? json_real(reads) : json_null()));
    }
    return list;
}

static void print_gpus(void) {
    tw_cuda_info g;
    tw_diag d = {0};
    int n = 0;
    for (; gpu_at(n, &g, &d); n++) {
        printf("GPU %-8d %s, driver %s, %d SMs at %.2f GHz, %.1f GB, L2 %lld MiB\n", n, g.name, g.driver, g.sms,
               g.clock_khz / 1e6, (double)g.memory_bytes / 1e9, (long long)g.l2_bytes >> 20);
        if (g.target) {
            printf("  kernels    %s, %d KiB of shared memory a block\n", g.target->name, g.shared_block >> 10);
            const double reads = gpu_reads(n);
            if (reads > 0)
                printf("  reads      %.1f GB/s measured\n", reads / 1e9);
            else
                printf("  reads      not measured\n");
        } else
            printf("  kernels    none: capability %d.%d has no target\n", g.sm / 10, g.sm % 10);
    }
    if (n == 0)
        printf("GPU          not here: programs run on the processor, kernels for GPUs in the emulator (%s)\n",
               *d.message ? d.message : "the driver knows of none");
}

/* Measured speeds of the processor: bytes per second, and operations per second of each unit. 0: it lacks the unit. */
typedef struct speeds {
    double reads, units[TW_CPU_UNIT_COUNT];
} speeds;

static tw_status measure_speeds(const tw_cpu *c, speeds *s, tw_diag *d) {
    *s = (speeds){0};
    tw_status st = tw_cpu_measure_bandwidth(0, &s->reads, d);
    for (int u = 0; u < TW_CPU_UNIT_COUNT && st == TW_OK; u++)
        if (tw_cpu_unit_present((tw_cpu_unit)u, c->isa)) st = tw_cpu_measure_unit((tw_cpu_unit)u, 0, &s->units[u], d);
    return st;
}

static void print_json(const tw_cpu *c, const char *isa, const speeds *s, const char *kernel) {
    json_t *libs = json_object();
    for (int i = 0; i < OPTIONAL; i++) {
        const char *f = find_library(i);
        json_object_set_new(libs, optional[i].name, f ? json_string(f) : json_null());
    }
    json_t *units = json_object();
    for (int u = 0; u < TW_CPU_UNIT_COUNT; u++)
        if (s->units[u] > 0) json_object_set_new(units, tw_cpu_unit_name((tw_cpu_unit)u), json_real(s->units[u]));
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o}", "version", TW_VERSION,
                  "kernel", kernel, "cpu", c->model, "cores", c->cores, "isa", isa, "memory_bytes",
                  (json_int_t)c->memory_bytes, "available_bytes", (json_int_t)c->available_bytes, "l2_bytes",
                  (json_int_t)c->l2_bytes, "l3_bytes", (json_int_t)c->l3_bytes, "read_bytes_per_second", s->reads,
                  "flops", s->units[TW_CPU_UNIT_F32], "operations", units, "libraries", libs, "gpus", gpus_json());
    cli_results_print(o, JSON_REAL_PRECISION(9));
}

static void print_text(const tw_cpu *c, const char *isa, const speeds *s, const char *kernel) {
    printf("tilewright %s on %s\n", TW_VERSION, kernel);
    printf("processor    %s, %d core%s for this process\n", c->model, c->cores, c->cores == 1 ? "" : "s");
    printf("kernels for  %s\n", *isa ? isa : "plain C only: this processor has none of the vector sets");
    printf("caches       L1 %lld KiB, L2 %lld KiB, L3 %lld MiB\n", (long long)c->l1d_bytes >> 10,
           (long long)c->l2_bytes >> 10, (long long)c->l3_bytes >> 20);
    printf("memory       %.1f GB, %.1f GB free\n", (double)c->memory_bytes / 1e9, (double)c->available_bytes / 1e9);
    printf("reads        %.1f GB/s measured, all cores\n", s->reads / 1e9);
    printf("arithmetic   measured, all cores, billions of operations a second:");
    for (int u = 0, n = 0; u < TW_CPU_UNIT_COUNT; u++)
        if (s->units[u] > 0) printf("%s %s %.0f", n++ ? "," : "", tw_cpu_unit_name((tw_cpu_unit)u), s->units[u] / 1e9);
    putchar('\n');
    print_gpus();
    for (int i = 0; i < OPTIONAL; i++) {
        const char *f = find_library(i);
        printf("%-12s %s%s%s\n", optional[i].name, f ? f : "not here: ", f ? "" : optional[i].without, "");
    }
}

static int run(const cli_verb *verb, int argc, char **argv) {
    bool json = false;
    const cli_flag flags[] = {{"--json", CLI_FLAG, &json, NULL, "print as JSON"}};
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, 1, NULL, 0, 0, &n, &status)) return status;
    tw_cpu c;
    tw_diag d;
    char isa[256];
    speeds s;
    struct utsname u;
    tw_cpu_detect(&c);
    tw_cpu_isa_names(c.isa, isa, sizeof isa);
    tw_status st = measure_speeds(&c, &s, &d);
    if (st != TW_OK) return cli_fail(&d);
    const char *kernel = uname(&u) == 0 ? u.release : "an unknown kernel";
    (json ? print_json : print_text)(&c, isa, &s, kernel);
    return CLI_OK;
}

const cli_verb cli_doctor = {"doctor", "", "what this machine offers, what is missing and what that costs",
                             "tilewright doctor", run};
