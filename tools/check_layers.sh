#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A room may include headers of itself and of the rooms before it in this list, nothing else of ours. The command, the last
# room, stands on the public headers: of what is inside the library it may include base/ and what `inside` lists.
# The list is the design's: search and serve have no folder yet, but their places are decided.
set -eu
cd "$(dirname "$0")/.."
rooms="base report space device ir ptx emu prof kernels select tune tokenizer model graph schedule vm engine search serve cli"
inside='
bench.c engine/timing.h
bench_sequences.c engine/timing.h
bench_gemm.c kernels/gemm/space.h
bench_gemm.c tune/gemm_bench.h
bench_gemm.c tune/gemm_choose.h
bench_gemm.c tune/store.h
compile.c device/target.h
compile.c vm/cuda/vm.h
doctor.c device/cuda/cuda.h
doctor.c kernels/vendor/cublaslt.h
doctor.c kernels/vendor/cudnn.h
doctor.c tune/gpu_bandwidth.h
eval.c tune/rivals.h
eval.c tune/strategies.h
export.c tune/interchange.h
export.c tune/lines.h
import.c tune/interchange.h
import.c tune/lines.h
kernel.c ir/text.h
kernel.c kernels/gemm/space.h
kernel.c ptx/load.h
kernel.c ptx/ptx.h
kernel.c ptx/ptxas.h
kernel.c space/categorical.h
kernel.c tune/gemm_bench.h
kernel.c tune/gemm_choose.h
kernel.h space/space.h
kernel_attention.c ir/text.h
kernel_attention.c kernels/attention/attention.h
kernel_words.c ir/text.h
kernel_words.c kernels/combine/combine.h
kernel_words.c kernels/pointwise/map_kernel.h
kernel_words.c kernels/rows/rows_kernel.h
kernel_words.c ptx/ptx.h
problem.c kernels/gemm/space.h
problem.h kernels/gemm/gemm.h
select.c tune/axes.h
select.c tune/identity.h
trace.c prof/analysis.h
trace.c prof/chrome.h
trace.c prof/perfetto.h
trace.c prof/summary.h
trace.c prof/report.h
trace.h prof/memory.h
trace.h prof/trace.h
trace_edits.c prof/orders.h
trace_edits.c prof/path.h
trace_improve.c kernels/gemm/space.h
trace_improve.c prof/path.h
trace_kernel.c kernels/attention/attention.h
trace_kernel.c kernels/gemm/space.h
trace_kernel.c ptx/ptx.h
trace_model.c engine/trace.h
trace_orders.c kernels/attention/attention.h
trace_orders.c prof/orders.h
traced.h kernels/kernel.h
train.c kernels/gemm/estimate.h
train.c tune/analytic.h
tune.c tune/report.h
tune_problem.c tune/again.h
tune_model.c engine/timing.h
tune_model.c tune/gemm_cpu.h
tune_model.c tune/store.h
tune_model.c tune/train.h
tune_model.c tune/campaign.h
tune.c tune/store.h
tuning.c device/name.h
tuning.c tune/foreign.h
tuning.c tune/gemm_cpu.h
tuning.c tune/gemm_gpu.h
tuning.c tune/store.h
tuning.h tune/campaign.h
tuning.h tune/train.h
'
bad=0
# Sets `found` to a room's place in the list, or 0. A subshell for each include would take most of the time.
rank() { found=0; i=0; for r in $rooms; do i=$((i + 1)); [ "$r" != "$1" ] || { found=$i; return 0; }; done; }
for f in $(find src -name '*.[ch]' | sort); do
    room=${f#src/}
    room=${room%%/*}
    rank "$room"
    mine=$found
    [ "$mine" -gt 0 ] || { echo "$f: no such room: $room"; bad=1; continue; }
    for inc in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f"); do
        case $inc in
        tilewright/kernel.h | tilewright/trace.h) other=kernels ;;
        tilewright/*) other=${inc##*/}; other=${other%.h} ;;
        */*) other=${inc%%/*} ;;
        *) echo "$f: include \"$inc\" by its room (\"$room/...\")"; bad=1; continue ;;
        esac
        rank "$other"
        theirs=$found
        [ "$theirs" -gt 0 ] || { echo "$f: \"$inc\" names no room"; bad=1; continue; }
        [ "$theirs" -le "$mine" ] || { echo "$f: $room may not include \"$inc\": $other comes after it"; bad=1; }
        case $room:$inc in cli:tilewright/* | cli:base/* | cli:cli/*) continue ;; cli:*) ;; *) continue ;; esac
        echo "$inside" | grep -qxF "${f#src/cli/} $inc" || {
            echo "$f: the command may not include \"$inc\", which is inside the library: tools/check_layers.sh lists what it may"
            bad=1
        }
    done
done
for f in src/cli/*.[ch]; do
    for inc in $(echo "$inside" | sed -n "s#^$(basename "$f") ##p"); do
        grep -qF "#include \"$inc\"" "$f" || { echo "$f does not include \"$inc\" any more: strike it from tools/check_layers.sh"; bad=1; }
    done
done
for h in include/tilewright/*.h; do
    for cc in "cc -std=c17 -x c" "c++ -std=c++17 -x c++"; do
        $cc -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$h" || { echo "$h: does not compile alone ($cc)"; bad=1; }
    done
done
exit $bad
