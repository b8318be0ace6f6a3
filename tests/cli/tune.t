# SPDX-License-Identifier: Apache-2.0
# The verbs of the tuner, on one thread of this processor, for small products.
$ export OPENBLAS_NUM_THREADS=1 RANGE="--range m=16:40 --range n=256:320 --range k=256:512"
> tilewright measure gemm type=bf16 -t 1 --plan waves $RANGE --budget 100 --store t.db --json >a; json a family had wrong failed
> tilewright measure gemm type=bf16 -t 1 --plan waves $RANGE --samples 1 --store t.db --json >b; json b family wrong failed; test "$(json b had)" -ge 100
> tilewright train gemm type=bf16 -t 1 --store t.db -o t.select | tail -1
> tilewright train gemm type=f32 -t 1 --store t.db
  gemm-cpu-bf16
  0
  0
  0
  gemm-cpu-bf16
  0
  0
  t.select
  tilewright: the store has too few measurements of gemm-cpu-f32 on this device
  [2]
# The choice is one of the family's, and it is explained. Whether it has a second depends on the times (foreign.t).
$ tilewright select t.select m=30 n=304 k=300 | sed 's/=[a-z0-9]*/=/g;s/: .*/: T/'
> tilewright explain t.select m=30 n=304 k=300 --json | json - choice.source choice.config slots | sed 's/=[a-z0-9]*/=/g'
> tilewright explain t.select m=30 n=304 k=300 | sed 's/:.*//;/^second$/d'
> tilewright select t.select m=30 n=304 k=300 --own --vendor
  by= tm= tn= span= rows= order=
  model: T
  model
  by= tm= tn= span= rows= order=
  1
  device
  choice
  predicted
  work
  evidence
  left out
  measured on
  tilewright: the artefact has no choice for this problem and these flags
  [1]
# What choices are worth: a problem, then a line for each strategy.
$ export OPENBLAS_NUM_THREADS=1; tilewright eval gemm type=bf16 -t 1 --range m=16:40 --range n=256:320 --range k=256:512 --problems 1 --store t.db --artefact t.select --commit 0 --json >e; wc -l <e; sed -n 1p e | json - family commit tilewright; sed -n 2p e | json - wrong failed correct
> sed -n 3,9p e | while read line; do echo "$line" | json - strategy problems correct; done
  9
  gemm-cpu-bf16
  0
  0.1.0
  0
  0
  true
  default
  1
  true
  openblas
  1
  true
  select
  1
  true
  select-own
  1
  true
  wave
  1
  true
  linear
  1
  true
  step
  1
  true
# What the store has says the same without the processor. A type that it lacks is not there.
$ RECORDED="--device recorded --range m=16:40 --range n=256:320 --range k=256:512 --problems 1"; sed 1d e >measured
> tilewright train gemm --device recorded --store t.db -o r.select | tail -1; cmp t.select r.select && echo the same artefact
> tilewright eval gemm type=bf16 $RECORDED --store t.db --artefact r.select --json | sed 1d | cmp measured - && echo the same figures
> tilewright eval gemm type=bf16 $RECORDED --store t.db --models near,tree --json | tail -2 | while read line; do echo "$line" | json - strategy problems correct; done
> tilewright eval gemm type=bf16 $RECORDED --store t.db --artefact r.select --prune 5 --json | sed -n 2p >p; sed -n 2p e >q; test "$(json p configs)" -lt "$(json q configs)" && json p correct
> tilewright eval gemm type=bf16 $RECORDED --store t.db --models near,far
> tilewright eval gemm type=bf16 $RECORDED --store t.db --models near,near
> tilewright eval gemm type=f32 $RECORDED --store t.db
> tilewright eval gemm type=f33 $RECORDED --store t.db
  r.select
  the same artefact
  the same figures
  near
  1
  true
  tree
  1
  true
  true
  tilewright: "far" is no model: mlp, trees, tree, near, spline, residual, mix, distilled, analytic or linear
  tilewright: the model near is given twice
  tilewright: t.db has no measurements of gemm type=f32
  tilewright: "type=f33" is not type=f32, f16, bf16, i8 or i4
  [2]
# The first products of a store decide what it is of, or those of a type.
$ echo '{"environment": {"device": "a GPU", "sms": 132}, "space": "gemm-gpu-bf16", "problem": "m=64 n=64 k=64", "config": {}, "protocol": "samples=1", "unit": "us", "status": "right", "samples": [1], "began_ns": 1}' >gpu.jsonl
> sed 's/bf16/f16/;s/a GPU/another/' gpu.jsonl | cat gpu.jsonl - | tilewright import g.db - >/dev/null; tilewright export t.db | head -1 | sed 's/gemm-cpu-bf16/gemm-cpu-i4-64/' | tilewright import g.db - >/dev/null
> tilewright eval gemm --device recorded --store g.db --prune 5
> for type in "" type=bf16 type=f16 type=i4 type=i8; do tilewright train gemm $type --device recorded --store g.db -o g.select; done
  tilewright: the store has no screened problems of gemm-gpu-bf16
  tilewright: the store has too few measurements of gemm-gpu-bf16 on this device
  tilewright: the store has too few measurements of gemm-gpu-bf16 on this device
  tilewright: the store has too few measurements of gemm-gpu-f16 on this device
  tilewright: the store has too few measurements of gemm-cpu-i4-64 on this device
  tilewright: g.db has no measurements of gemm type=i8
  [2]
# Constants for estimates are of a GPU's products: here those of SIMT, which took longer than estimated.
$ for m in 256 1024 4096; do echo '{"environment": {"device": "a GPU", "sms": 132, "clock_khz": 1980000}, "space": "gemm", "problem": "type=f32 m='$m' n=1024 k=1024", "config": {"mma": 0}, "protocol": "samples=1", "unit": "us", "status": "right", "samples": ['$m'], "began_ns": 1, "key": "'$m'"}'; done | tilewright import c.db -
> tilewright train gemm --constants --store c.db 2>err | sed 's/{[0-9.]*, .*/{.../'; sed 's/ms [0-9.]*,/ms E,/' err; tilewright train gemm --constants --store t.db
  3 measurements added, 0 were there already
  RATES("a GPU", 0, {...
  tilewright: root of the mean squared error of logarithms E, of 3 simt products; shares of other units are those of rates.def
  tilewright: the store has no right products of a GPU
  [2]
# A recorded GPU has the algorithms of cuBLASLt that were measured. Oracles are looked for among covers of own and of vendors' ones.
$ for a in 1 2 3; do echo '{"environment": {"device": "a GPU", "sms": 132}, "space": "gemm-gpu-bf16", "problem": "m=64 n=512 k=2048", "config": {"by": "cublaslt", "id": 66, "tile": '$a', "tm": 64, "tn": 128, "split": 1, "stages": 35}, "protocol": "samples=1", "unit": "us", "status": "right", "samples": ['$a'], "began_ns": 1, "key": "c|screen|m=64 n=512 k=2048|'$a'"}'; done | tilewright import v.db -
> for n in 1 2 6; do tilewright eval gemm --device recorded --store v.db --problems 1 --prune $n | head -1; done; tilewright eval gemm --device recorded --store v.db --problems 1 --prune 2 --json | head -1 | json - pruned.configurations pruned.screens pruned.loss pruned.own_loss
  3 measurements added, 0 were there already
  oracles are looked for among 8 configurations, which lose 109563.32 % of the best on 1 screened problems, and 0.00 % of the best own one
  oracles are looked for among 9 configurations, which lose 0.00 % of the best on 1 screened problems, and 0.00 % of the best own one
  oracles are looked for among 11 configurations, which lose 0.00 % of the best on 1 screened problems, and 0.00 % of the best own one
  9
  1
  0.0
  0.0
# A wrong result of any configuration shows in the problem's line and in all that sum up. Here it is the default.
$ tilewright export t.db | sed '/"key": "eval|.*|by=own tm=65536/s/"status": "right"/"status": "wrong", "message": "planted"/' | tilewright import w.db - >/dev/null
> EVAL="tilewright eval gemm --device recorded --range m=16:40 --range n=256:320 --range k=256:512 --problems 1 --store w.db"
> $EVAL --json >e; wc -l <e; sed -n 2p e | json - wrong correct of.default.us
> sed -n 3,6p e | while read line; do echo "$line" | json - strategy correct; done
> $EVAL | sed 's/.* %)  1 wrong  .*/1 wrong/;s/.*below.*%//'
  6
  1
  false
  0.0
  openblas
  false
  wave
  false
  linear
  false
  step
  false
  1 wrong
  ; some results are wrong
  ; some results are wrong
  ; some results are wrong
  ; some results are wrong
# All of it in one run. Run again, it measures nothing.
$ export OPENBLAS_NUM_THREADS=1; all() { tilewright tune gemm type=bf16 -t 1 --plan waves --range m=16:24 --range n=256:272 --range k=256:320 --budget 60 --problems 2 --store all.db "$@"; }
> all -o all.select --report r.html --json >a; json a family artefact report problems wrong cut; grep -c '<canvas' r.html
> all -o all.v1 | tail -1 | sed 's/[0-9][0-9.]* /N /g'; ls all*
> all -o all.v1 --json | json - measured problems
> tilewright select all.v1 m=20 n=256 k=256 | tail -1 | sed 's/:.*//'
  gemm-cpu-bf16
  all.select
  r.html
  2
  0
  false
  6
  select has N % of the oracle's speed (N % of problems below N %, worst N %) and N times the default's, on N held-out problems
  all.db
  all.html
  all.select
  all.v1
  0
  2
  model
# Where the artefact or the report cannot be written, nothing is measured.
$ tilewright tune gemm --store no.db -o some/all.select
> tilewright tune gemm --store no.db --report some/all.html; test ! -e no.db && ls no*
> tilewright tune gemm --store no.db -o .
> tilewright train gemm --store no.db -o some/all.select
  tilewright: some/all.select: cannot write: No such file or directory
  tilewright: some/all.html: cannot write: No such file or directory
  ls: cannot access 'no*': No such file or directory
  tilewright: .: cannot write: Is a directory
  tilewright: some/all.select: cannot write: No such file or directory
  [1]
$ tilewright tune gemm --store no.db -o -
> tilewright tune gemm --store no.db -o one --report one
  tilewright: tune: -o: the artefact is a file, since it is evaluated
  tilewright: tune: -o and --report are both one
  [2]
# Ctrl-C ends it, and it goes on later.
$ export OPENBLAS_NUM_THREADS=1; timeout --foreground --preserve-status -k 9 -s INT 0.5 env --default-signal=INT tilewright tune gemm type=bf16 -t 1 --store cut.db -o cut.select
  tilewright: interrupted; the same command goes on where it was
  [1]
$ tilewright export cut.db | grep -c 'tune|'  >n; test "$(cat n)" -ge 1; test ! -e cut.select
# What is wrong is said in a line.
$ tilewright measure gemm type=q7
> tilewright measure conv
> tilewright measure gemm --device tpu
> tilewright measure gemm --effort much
> tilewright measure gemm --range m=9:1
> tilewright eval gemm --problems 0
> tilewright tune gemm --problems 0
> tilewright tune gemm --budget -1
> tilewright tune gemm --effort much
> tilewright tune conv
> tilewright tune gemm --budget 1e-9 --store late.db
> tilewright select t.select m=30 n=304
> tilewright select t.select m=30 n=304 k=0
> tilewright select t.db m=30 n=304 k=300
> tilewright select none.select m=30
  tilewright: "type=q7" is not type=f32, f16, bf16, i8 or i4
  tilewright: "conv" is not what can be tuned: gemm, strips, or a description that ends in .json
  tilewright: --device: "tpu" is not cpu, cuda, cuda:N or recorded
  tilewright: measure: --effort: "much" is not quick or full
  tilewright: --range: "m=9:1" is not an axis and its values, such as m=64:512
  tilewright: eval: --problems: from 1 to 100000
  tilewright: tune: --problems: from 1 to 100000
  tilewright: tune: a budget is not negative
  tilewright: tune: --effort: "much" is not quick or full
  tilewright: "conv" is not what can be tuned: gemm, strips, or a description that ends in .json
  tilewright: the budget was over before there was anything to learn from: give it more seconds
  tilewright: the problem lacks k
  tilewright: "k=0" is no axis of gemm-cpu-bf16 with a number from 1 to 16777216, such as m=64
  tilewright: t.db: no artefact of a tuner
  tilewright: none.select: cannot open: No such file or directory
  [1]
# Energy needs a counter, and a store of its own.
$ tilewright measure gemm --minimise power
> tilewright measure gemm --minimise energy --store e.db 2>&1 | sed "s/: [^:]* has no/: DEVICE has no/"
> tilewright tune gemm --minimise energy
> mkdir -p cap/p; echo package-0 >cap/p/name; echo 5 >cap/p/energy_uj
> TILEWRIGHT_POWERCAP=cap timeout 60 tilewright measure gemm type=bf16 -t 1 --minimise energy --store t.db
  tilewright: --minimise: "power" is not time or energy
  tilewright: --minimise: DEVICE has no counter of energy that may be read here (NVML of a GPU, RAPL of a processor)
  tilewright: tune: --minimise: "energy" is not time; measure, train and eval minimise energy, too
  tilewright: t.db: it has measurements of gemm-cpu-bf16 in us: energy needs a store of its own
  [2]
