/* SPDX-License-Identifier: Apache-2.0 */
/* What each engine of a product's kernel reaches alone: the kernel as it is, and without its copies, its products or
   its stores. `bench_gemm_parts m=4096 n=4096 k=4096 -- ml=128 ...` prints a line of JSON for each. Products are bf16,
   C = A B^T. Times are of launches one after another for SECONDS, with the clock and the power meanwhile. */
#include "base/clock.h"
#include "base/diag.h"
#include "device/power.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"
#include "kernels/gemm/space.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "tune/gemm_rig.h"
#include "tune/gemm_vendor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 0.6

enum { POOL = 1 << 30, WORKSPACE = 256 << 20, KEEP = 0, NO_COPIES = 1, NO_PRODUCTS = 2, NO_STORES = 4 };

static const struct {
    const char *name;
    int without;
} parts[] = {{"whole", KEEP},
             {"products and stores", NO_COPIES},
             {"copies and stores", NO_PRODUCTS},
             {"copies and products", NO_STORES},
             {"products alone", NO_COPIES | NO_STORES},
             {"copies alone", NO_PRODUCTS | NO_STORES}};

static bool drops(const tw_ir_op *op, int without) {
    if (op->code == TW_OP_tensor_load) return without & NO_COPIES;
    return op->code == TW_OP_wgmma && (without & NO_PRODUCTS);
}

static bool is_store(const tw_ir_op *op) {
    return op->code == TW_OP_tensor_store || (op->code == TW_OP_st && op->at.space == TW_SPACE_global);
}

/* Removes a part's operations. Without copies a stage is full when the producer has arrived. Stores are guarded by
   `never`, since the compiler would remove what is not stored. */
static void strip(tw_builder *b, tw_block *block, int without, tw_val never) {
    for (tw_ir_op *op = block->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->n_blocks; i++) strip(b, &op->blocks[i], without, never);
        if (op->code == TW_OP_mbarrier_expect && (without & NO_COPIES)) op->operands[1] = tw_i32(b, 0);
        if (is_store(op) && (without & NO_STORES)) op->guard = never, op->guard_not = false;
        if (drops(op, without)) tw_edit_remove(op);
    }
}

static tw_val parameter(const tw_kernel *k, const char *name) {
    int i = 0;
    while (strcmp(k->parameters[i].name, name) != 0) i++;
    return k->parameters[i].value;
}

typedef struct bench {
    tw_cuda *cuda;
    tw_power *power;
    tw_gemm_rig *rig;
    tw_gemm_problem p;
} bench;

static tw_status hold(bench *x, const char *name, const tw_gemm_candidate *of, tw_diag *diag) {
    tw_cuda_timer *timer;
    tw_status st = tw_gemm_rig_timer(x->rig, of, 1, &timer, diag);
    if (st != TW_OK) return st;
    double us = 0, joules = 0, ended = 0, clock = 0;
    int n = 0, clocks = 0;
    int64_t from = 0, to = 0;
    const int64_t begin = tw_now_ns();
    while (st == TW_OK && (double)(tw_now_ns() - begin) < SECONDS * 1e9) {
        double one;
        st = tw_cuda_timer_sample(timer, &one, diag);
        /* The first third warms up. */
        if ((double)(tw_now_ns() - begin) < SECONDS / 3 * 1e9) continue;
        if (st != TW_OK) break;
        if (!n && x->power) tw_power_energy(x->power, &joules, &from);
        us += one;
        n++;
        clock += tw_power_clock(x->power);
        clocks++;
    }
    if (x->power) tw_power_energy(x->power, &ended, &to);
    tw_cuda_timer_free(timer);
    if (st != TW_OK || !n) return st;
    const double flop = 2.0 * (double)x->p.m * (double)x->p.n * (double)x->p.k;
    printf("{\"part\": \"%s\", \"us\": %.3f, \"tflops\": %.1f, \"mhz\": %.0f, \"watts\": %.0f}\n", name, us / n,
           flop / (us / n) * 1e-6, clock / clocks, to > from ? (ended - joules) / ((double)(to - from) * 1e-9) : 0);
    fflush(stdout);
    return st;
}

static tw_status run_part(bench *x, const tw_gemm_config *c, const char *name, int without, tw_diag *diag) {
    const tw_ptx_compiler by = tw_ptx_compiler_for(x->cuda, false);
    tw_buf ptx = {0};
    tw_cubin cubin = {0};
    tw_gemm_own own = {0};
    tw_kernel *k = tw_gemm_make(&x->p, c, tw_cuda_describe(x->cuda)->target, false, diag);
    if (!k) return diag->status;
    tw_builder b = tw_builder_of(k);
    const tw_val m = parameter(k, "m");
    const tw_val never = tw_edit_insert(k, k->body.first, TW_OP_lt_s32, TW_T_pred, m, tw_i32(&b, 0), TW_NONE);
    strip(&b, &k->body, without, never);
    tw_status st = tw_ptx_print(&ptx, k, tw_cuda_describe(x->cuda)->target, diag);
    if (st == TW_OK) st = tw_ptx_compile_by(&by, ptx.data, ptx.size, &cubin, diag);
    if (st == TW_OK) st = tw_gemm_own_load(&own, x->rig, c, cubin.data, cubin.bytes, diag);
    const tw_gemm_candidate of = tw_gemm_own_candidate(&own);
    if (st == TW_OK && !without) st = tw_gemm_rig_check(x->rig, &of, diag);
    if (st == TW_OK) st = hold(x, name, &of, diag);
    tw_gemm_own_unload(&own);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
    tw_kernel_free(k);
    return st;
}

static tw_status run_vendor(bench *x, tw_diag *diag) {
    tw_cublaslt *vendor;
    tw_cublaslt_plan *plan;
    if (tw_cublaslt_open(&vendor, x->cuda, NULL) != TW_OK) return TW_OK;
    tw_status st = tw_gemm_vendor_plan(vendor, &x->p, &plan, diag);
    tw_gemm_vendor v = {plan, 0};
    const tw_gemm_candidate of = tw_gemm_vendor_candidate(&v);
    if (st == TW_OK && plan) st = hold(x, "cuBLASLt", &of, diag);
    if (plan) tw_cublaslt_plan_free(plan);
    tw_cublaslt_close(vendor);
    return st;
}

int main(int argc, char **argv) {
    bench x = {.p = {.type = TW_GEMM_BF16, .trans_b = true, .alpha = 1}};
    tw_diag diag = {0};
    tw_status st = TW_OK;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0 && st == TW_OK; i++)
        if (!tw_gemm_problem_word(&x.p, argv[i], &st, &diag) && st == TW_OK)
            st = tw_fail(&diag, TW_ERR_USAGE, "\"%s\" says nothing of a product", argv[i]);
    if (st == TW_OK) st = tw_gemm_problem_complete(&x.p, &diag);
    tw_gemm_pool *pool = NULL;
    if (st == TW_OK) st = tw_cuda_open(&x.cuda, 0, &diag);
    if (st == TW_OK) st = tw_gemm_pool_make(&pool, x.cuda, TW_GEMM_BF16, POOL, 1, &diag);
    if (st == TW_OK) st = tw_gemm_rig_make_of(&x.rig, x.cuda, pool, &x.p, 0, WORKSPACE, &diag);
    if (st == TW_OK) tw_power_open_gpu(&x.power, tw_cuda_describe(x.cuda)->bus, NULL);
    if (st == TW_OK) st = run_vendor(&x, &diag);
    /* Configurations are separated by "--". */
    while (st == TW_OK && i < argc) {
        tw_gemm_config c = tw_gemm_config_default(&x.p);
        char text[300];
        for (i++; i < argc && strcmp(argv[i], "--") != 0 && st == TW_OK; i++)
            st = tw_gemm_config_parse(&c, argv[i], &diag);
        if (st != TW_OK) break;
        c = tw_gemm_config_plain(&x.p, c);
        tw_gemm_config_print(&c, text, sizeof text);
        printf("{\"config\": \"%s\"}\n", text);
        for (size_t p = 0; p < sizeof parts / sizeof *parts && st == TW_OK; p++)
            st = run_part(&x, &c, parts[p].name, parts[p].without, &diag);
        if (st == TW_OK) continue;
        fprintf(stderr, "bench_gemm_parts: %s\n", diag.message);
        st = TW_OK;
    }
    if (st != TW_OK) fprintf(stderr, "bench_gemm_parts: %s\n", diag.message);
    tw_power_close(x.power);
    tw_gemm_rig_free(x.rig);
    tw_gemm_pool_free(pool);
    if (x.cuda) tw_cuda_close(x.cuda);
    return st == TW_OK ? 0 : 1;
}
