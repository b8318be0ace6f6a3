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
# A problem by name: a few configurations are drawn, a model ranks all, the first are measured, and the artefact lists the fastest.
$ export OPENBLAS_NUM_THREADS=1; tilewright tune gemm type=bf16 -t 1 --problem "m=16 n=256 k=256" --again 10 --store p.db -o p.select --json >a; json a family problem model wrong correct
> tilewright select p.select m=16 n=256 k=256 | sed 's/=.*/=/;s/: .*/: T/'; tilewright select p.select m=17 n=256 k=256 | tail -1 | sed 's/:.*//'
> tilewright tune gemm type=bf16 -t 1 --problem "m=16 n=256 k=256" --again 10 --by analytic --store p.db -o p.select | sed 's/: .* by by=.*;/: T by C;/;s/, [0-9.]* s/, S s/;s/number [0-9]*/number N/;s/ of [0-9]* / of N /;s/, [0-9]* were/, N were/;s/from [0-9]*/from N/'
  gemm-cpu-bf16
  m=16 n=256 k=256
  analytic
  0
  true
  by=
  exact: T
  default
  m=16 n=256 k=256: T by C; 0 of N configurations measured, N were there already, 0 wrong, S s
  it was number N by analytic, which learned from N trials
  p.select
$ tilewright tune gemm --problem "m=16 n=256" --store none.db
> tilewright tune gemm --problem "m=16 n=256 k=256" --by far --store none.db
> tilewright tune gemm --problem "m=16 n=256 k=256" --again -1
> tilewright tune --model models/demo --problem "m=16 n=256 k=256"
> tilewright tune gemm type=bf16 --device recorded --problem "m=16 n=256 k=256" --store p.db -o q.select
  tilewright: "m=16 n=256" does not say k
  tilewright: --by: "far" is no model, such as mlp or analytic
  tilewright: tune: --again: from 1 to 100000, or 0 for all
  tilewright: tune: --model tunes all of a model's problems, not --problem
  tilewright: gemm-cpu-bf16 is recorded: nothing can be measured of it
  [1]
