/* SPDX-License-Identifier: Apache-2.0 */
/* Unrolls the loop that follows completely: arrays of accumulators live in registers only then, and gcc stops at 16
   iterations on its own. BY4 repeats the body of a long loop. */
#ifndef TW_DEVICE_CPU_UNROLL_H
#define TW_DEVICE_CPU_UNROLL_H

#if defined(__clang__)
#define TW_UNROLL     _Pragma("clang loop unroll(full)")
#define TW_UNROLL_BY4 _Pragma("clang loop unroll_count(4)")
#else
#define TW_UNROLL     _Pragma("GCC unroll 32")
#define TW_UNROLL_BY4 _Pragma("GCC unroll 4")
#endif

#endif
