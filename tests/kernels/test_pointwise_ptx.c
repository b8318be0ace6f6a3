/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of maps and rows, assembled by ptxas where there is one: none spills. */
#include "support/support.h"

#include "kernels/pointwise/map_kernel.h"
#include "kernels/rows/rows_kernel.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"

#include <stdio.h>
#include <string.h>

static tw_kernel *make(char *words, const tw_target *t, tw_diag *d) {
    tw_map_problem map;
    tw_rows_problem rows;
    if (!strncmp(words, "map", 3))
        return tw_map_parse(&map, words + 3, d) == TW_OK ? tw_map_make(&map, t, true, d) : NULL;
    return tw_rows_parse(&rows, words + 4, d) == TW_OK ? tw_rows_make(&rows, NULL, t, true, d) : NULL;
}

static void assemble(const char *ptxas, const char *problem, const char *target) {
    const tw_target *t = tw_target_find(target);
    tw_ptx_compiler by = tw_ptx_compiler_for(NULL, false);
    char words[1000];
    tw_diag d;
    tw_buf ptx = {0};
    tw_cubin cubin = {0};
    by.ptxas = ptxas;
    by.target = t->name;
    snprintf(words, sizeof words, "%s", problem);
    tw_kernel *k = make(words, t, &d);
    if (!k) fail_msg("%s, %s: %s", problem, target, d.message);
    assert_int_equal(tw_ptx_print(&ptx, k, t, &d), TW_OK);
    if (tw_ptx_compile_by(&by, ptx.data, ptx.size, &cubin, &d) != TW_OK)
        fail_msg("%s, %s: %s", problem, target, d.message);
    if (cubin.spill_bytes) fail_msg("%s, %s: %d bytes are spilt", problem, target, cubin.spill_bytes);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
    tw_kernel_free(k);
}

static void kernels_do_not_spill(void **state) {
    (void)state;
    static const char *const of[] = {
        "map dims=4x512x768 x0=f16 x1=f16[0,0,1] expr=add(x0,x1) out=f16",
        "map dims=512x3072 x0=f16 x1=f16[0,1] expr=gelu_erf(add(x0,x1)) out=f16",
        "map dims=1x512x768 x0=f32[0,0,1]@2*768/30522 x1=f32[0,768,1] x2=i64[512,1,0] expr=add(x0,x1) out=f32",
        "map dims=4x12x512x64 x0=f16[393216,64,768,1] expr=x0 out=f16",
        "map dims=32x12345 x0=bf16 x1=i64 x2=bool expr=where(and(x2,less(x1,d1)),pow(x0,1.3),sin(x0)) out=f32",
        "map dims=8192x3200 x0=f16 x1=f16[0,1] expr=gelu_erf(add(x0,x1)) out=f16",
        "map dims=8192x3200 x0=bf16 x1=f32 x2=f16[0,1]! expr=mul(silu(add(x0,x2)),x1) out=f16[3208,1]",
        "map dims=77777 x0=i32 x1=i8 expr=mod(x0,div(x1,3)) out=i16",
        "rows of=layer_norm dims=512x768 x0=f16 x1=f16 expr=add(x0,x1) gain=f16! bias=f16! out=f16 kept=f16",
        ("rows of=layer_norm dims=2048x1024 x0=f32 x1=f32 x2=f32[0,1] expr=add(add(x0,x2),x1) gain=f32 bias=f32 "
         "out=f32 "
         "kept=f32"),
        "rows of=layer_norm dims=8x16384 x0=f32 gain=f32 bias=f32 out=f32",
        "rows of=rms_norm dims=512x3200 x0=f16 x1=f16 expr=add(x0,x1) gain=f16 out=f16 kept=f16",
        "rows of=rms_norm dims=512x4096 x0=bf16 x1=bf16 x2=bf16 expr=add(add(x0,x1),x2) gain=bf16 out=bf16 kept=bf16",
        "rows of=softmax dims=4x12x512x512 x0=f16 x1=f16[512,0,0,1] expr=add(mul(x0,0.125),x1) out=f16",
        "rows of=softmax dims=12x197x197 x0=f32 out=f32",
        "rows of=softmax dims=64x16384 x0=f32 x1=f32[0,1] expr=add(x0,x1) out=f32",
        "rows of=softmax dims=64x32768 x0=f16 out=f16",
        "rows of=log_softmax dims=512x50257 x0=f32 out=f32",
        "rows of=mean dims=128x2048 x0=f32 expr=mul(x0,x0) out=f32",
        "rows of=max dims=1000x77 x0=f16 out=f16",
    };
    static const char *const targets[] = {"sm_80", "sm_90a", "sm_120"};
    char path[4096];
    if (TEST_SANITIZED) skip(); /* Only ptxas is asked. */
    if (!tw_ptxas_find("ptxas", path, sizeof path)) skip();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int k = 0; k < 3; k++) assemble(path, of[i], targets[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_do_not_spill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
