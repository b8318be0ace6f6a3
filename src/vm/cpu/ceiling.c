/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cpu/vm.h"

/* Positions from which on the head's work does not count, since the head multiplies only the last position. */
enum { MANY = 64 };

void tw_vm_units(const tw_vm *vm, int64_t positions, int passes[TW_CPU_UNIT_COUNT]) {
    const tw_kernels *k = &vm->k;
    uint32_t types = 0;
    for (int i = 0; i < vm->n_threads; i++) types |= tw_tape_types(&vm->threads[i]);
    for (int u = 0; u < TW_CPU_UNIT_COUNT; u++) passes[u] = 0;
    passes[TW_CPU_UNIT_F32] = 1;
    for (int t = 0; t < TW_DTYPE_COUNT; t++) {
        if (!(types >> t & 1)) continue;
        tw_kernel_unit found[] = {k->gemm_unit[t], k->gemv_unit[t]};
        if (positions < k->packed_rows[t])
            found[0] = (tw_kernel_unit){TW_CPU_UNIT_F32, 1};
        else if (k->gemm_packed[t] && t != TW_F32)
            found[0].passes = tw_vm_terms(vm, (tw_dtype)t);
        if (found[0].passes == TW_PACK_BYTES) found[0] = (tw_kernel_unit){TW_CPU_UNIT_AMX_I8, 1};
        for (int i = 0; i < (positions < MANY ? 2 : 1); i++) {
            int *p = &passes[found[i].unit];
            if (!*p || found[i].passes < *p) *p = found[i].passes;
        }
    }
}

tw_status tw_vm_measure_arithmetic(const tw_vm *vm, int64_t positions, tw_vm_ceiling *ceiling, tw_diag *diag) {
    int passes[TW_CPU_UNIT_COUNT];
    tw_vm_units(vm, positions, passes);
    *ceiling = (tw_vm_ceiling){0, TW_CPU_UNIT_F32, 1};
    for (int u = 0; u < TW_CPU_UNIT_COUNT; u++) {
        double rate;
        if (!passes[u]) continue;
        tw_status st = tw_cpu_measure_unit((tw_cpu_unit)u, 0, &rate, diag);
        if (st != TW_OK) return st;
        if (rate / passes[u] > ceiling->operations)
            *ceiling = (tw_vm_ceiling){rate / passes[u], (tw_cpu_unit)u, passes[u]};
    }
    return TW_OK;
}
