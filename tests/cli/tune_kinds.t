# SPDX-License-Identifier: Apache-2.0
# Grouped products have a family of their own: measured, learned, judged and chosen, on a stand-in for the driver whose
# kernels take ten microseconds and are found right.
$ cat >env <<'END'
> export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> G="gemm type=bf16 groups=1 --range m=16:2048 --range n=256:512 --range k=256:512 --range groups=4:16 --store g.db"
> END
$ . ./env; tilewright measure $G --device cuda:0 | sed 's/, [0-9.]* s.*//;s/[0-9]* of [0-9]* problems/P problems/;s/[0-9]* failed/F failed/;s/[0-9]* configurations/N configurations/'
> tilewright train $G --device recorded -o g.select | sed 's/, .*//'
> tilewright eval $G --device cuda:0 --problems 2 --artefact g.select --json >e; wc -l <e | tr -d ' '; grep -c 'm=[0-9]* n=[0-9]* k=[0-9]* groups=[0-9]*' e
> tilewright select g.select m=64 n=512 k=512 groups=16 | sed 's/=.*//'; tilewright select g.select m=64 n=512 k=512
> tilewright explain g.select m=100 n=512 k=512 groups=200 | grep -c "work: G ="
> tilewright tune $G --device recorded --problems 1 -o t.select --report t.html | tail -1; tilewright select t.select m=64 n=512 k=512 groups=16 | wc -l
  gemm-gpu-bf16-groups: P problems, N configurations measured, 0 were there already, 0 wrong, F failed
  gemm-gpu-bf16-groups: form spline
  g.select
  6
  2
  mma
  model: 10 us
  tilewright: the problem lacks groups
  1
  select has 100.0 % of the oracle's speed (5 % of problems below 100.0 %, worst 100.0 %) and 1.00 times the default's, on 1 held-out problems
  2
# What it chose serves kernels.
$ tilewright kernel gemm type=bf16 m=40 n=256 k=256 groups=4 tb=1 --artefact g.select | grep -E "chosen|legal"
> tilewright kernel gemm type=bf16 m=40 n=256 k=256 groups=4 tb=1 --artefact g.select --emulate | sed 's/;.*//'
> tilewright kernel gemm type=bf16 m=40 n=256 k=256 groups=4 tb=1 --artefact g.select --json | json - chosen_by legal problem.groups
> tilewright kernel gemm type=bf16 m=40 n=256 k=256 groups=4 tb=1 --artefact g.select nl=24 ns=24 | grep -o "nl=24"
> tilewright kernel gemm type=bf16 m=40 n=256 k=256 tb=1 --artefact g.select
> tilewright kernel gemm type=bf16 m=40 n=256 k=256 groups=4 tb=1 --artefact nothing.select
  chosen     by model
  legal      yes
  emulated for sm_90a, seed 1: correct, nothing found
  model
  true
  4
  nl=24
  tilewright: g.select: the artefact is of gemm-gpu-bf16-groups, and the problem is one of gemm-gpu-bf16
  tilewright: nothing.select: cannot open: No such file or directory
  [1]
# What there is no family of.
$ . ./env; for w in type=s8 "type=f32 groups=1" groups=2 "groups=1 batch=1" rows=1; do tilewright measure gemm $w --device cuda:0 --store g.db; done
> tilewright measure gemm type=bf16 groups=1 --device cuda:0 --range n=8192:8192 --range k=8192:8192 --range groups=200:256 --store g.db
> tilewright train gemm groups=1 --store g.db
  tilewright: "type=s8" is not type=bf16, f16, e4m3, tf32x3 or f32, nor groups=1 or batch=1, one of them
  tilewright: gemm-gpu-f32-groups: there is no such family
  tilewright: "groups=2" is not type=bf16, f16, e4m3, tf32x3 or f32, nor groups=1 or batch=1, one of them
  tilewright: "batch=1" is not type=bf16, f16, e4m3, tf32x3 or f32, nor groups=1 or batch=1, one of them
  tilewright: "rows=1" is not type=bf16, f16, e4m3, tf32x3 or f32, nor groups=1 or batch=1, one of them
  tilewright: --range: the device has no room for the smallest of these problems
  tilewright: "groups=1" is not type=f32, f16, bf16, i8 or i4
  [2]
