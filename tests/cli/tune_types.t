# SPDX-License-Identifier: Apache-2.0
# Batches and other element types have families of their own in one store, on a stand-in for the driver as in tune_kinds.t.
$ cat >env <<'END'
> export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> END
$ . ./env; tilewright measure gemm type=f16 batch=1 --range batch=2:4 --range m=64:128 --range n=256:256 --range k=256:512 --device cuda:0 --store g.db | cut -d: -f1
> tilewright train gemm type=f16 batch=1 --device recorded --store g.db -o k.select | sed 's/, .*//'
> tilewright kernel gemm type=bf16 m=70 n=64 k=64 batch=2 --artefact k.select --emulate | sed 's/;.*//'
> for t in tf32x3 e4m3; do tilewright measure gemm type=$t --device cuda:0 --samples 5 --store g.db | sed 's/:.*, 0 wrong, .*/: none wrong/'; done
> tilewright train gemm type=f16 batch=1 --device recorded --store g.db -o k.select | tail -1
  gemm-gpu-f16-batch
  gemm-gpu-f16-batch: form spline
  k.select
  emulated for sm_90a, seed 1: correct, nothing found
  gemm-gpu-tf32x3: none wrong
  gemm-gpu-e4m3: none wrong
  k.select
$ tilewright train gemm type=e4m3 groups=1 --device recorded --store g.db
  tilewright: g.db has no measurements of gemm type=e4m3 of groups
  [2]
