# SPDX-License-Identifier: Apache-2.0
# A model's own products are measured as each maker computes them. The running model decides whether the artefact is kept.
$ export OPENBLAS_NUM_THREADS=1; tilewright tune --model models/demo -t 1 --store m.db --json >a; head -1 a | json - family correct; grep -c '"config": "by=own"' a; grep -c kept a
> tail -1 a | json - family prompt correct; tilewright export m.db | wc -l >before
> tilewright tune --model models/demo -t 1 --store m.db >b; tilewright export m.db | wc -l | cmp - before && echo nothing is measured again
> sed 's/:.*//' b; tail -1 b | sed 's/.*tokens.s by/by/;s/[0-9][0-9.]* by/N by/;s/kept in .*/kept/;s/not kept/kept/'
  gemm-cpu-bf16-strips
  true
  4
  1
  gemm-cpu-bf16-strips
  512
  true
  nothing is measured again
  gemm-cpu-bf16-strips m=512 n=256 k=256
  gemm-cpu-bf16-strips m=512 n=256 k=768
  gemm-cpu-bf16-strips m=512 n=512 k=256
  gemm-cpu-bf16-strips m=512 n=1536 k=256
  a prompt of 512
  by measuring at load, N by the artefact: kept
# What it needs is said in a line.
$ tilewright tune
> tilewright tune gemm --model models/demo
> tilewright tune --model models/none
> tilewright tune strips --device cuda
> tilewright tune conv
  tilewright: tune: what is to be tuned: gemm, strips, or --model MODEL
  tilewright: tune: --model takes no other object
  tilewright: models/none: not a directory
  tilewright: --device: "cuda" is not cpu, where strips are
  tilewright: "conv" is not what can be tuned: gemm, strips, or a description that ends in .json
  [2]
