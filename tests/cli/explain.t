# SPDX-License-Identifier: Apache-2.0
# An artefact's device is compared with the one that is here: the processor with so many threads.
$ export OPENBLAS_NUM_THREADS=1
> tilewright measure gemm type=f32 -t 1 --range m=16:40 --range n=256:320 --range k=256:512 --plan waves --store t.db >/dev/null
> tilewright train gemm type=f32 -t 1 --store t.db -o t.select | tail -1
> explain() { tilewright explain t.select m=16 n=256 k=256 "$@"; }
> explain -t 1 | sed -n 's/^measured on: .*, 1 threads (/(/p'
> explain -t 999 | sed -n 's/^measured on: .*, 1 threads (/(/p'
> explain -t 1 --json | json - match
> export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> explain --device cuda --json | json - match
  t.select
  (this device)
  (one of this architecture, so this is a prior)
  same
  other
$ tilewright explain t.select m=16 n=256 k=256 --device gpu
> tilewright explain t.select m=16 n=256 k=256 --device cuda
> tilewright explain t.select m=16 n=256 k=256 -t 1025
  tilewright: --device: "gpu" is not auto, cpu, cuda or cuda:N
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  tilewright: -t: 1025 is not from 1 to 1024
  [2]
