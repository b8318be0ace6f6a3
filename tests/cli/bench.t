# SPDX-License-Identifier: Apache-2.0
# Numbers differ from run to run; what is beside them does not.
$ tilewright bench models/demo -p 16 -n 8 -r 2 -t 2 --json >b.json && json b.json '#' 0.test 0.correct 0.unit 1.test 1.correct 1.unit 1.threads 1.ceiling_of
  2
  pp16
  true
  flop/s
  tg8
  true
  bytes/s
  2
  reads
$ tilewright bench models/demo -p 16 -n 0 -r 1 -t 1 --json >b.json; json b.json 0.work 0.median | tr '\n' ' ' | awk '{printf "%.0f operations a token\n", $1 / $2}'
  9620480 operations a token
# Memory: what was resident, and of it the packed weights and the cache.
$ tilewright bench models/demo -p 16 -n 8 -r 1 -t 1 --weights int8 --json >b.json; json b.json 0.cache_bytes 0.weight_bytes 0.packed_bytes 0.peak_bytes | tr '\n' ' ' | awk '{print $1, ($2 >= $3), ($4 > $1 + $2)}'
  147456 1 1
# On a terminal, what goes on. The first repetition does not count.
$ printf 'expect tg4: 0 of 1\nexpect tg4: 1 of 1\nend 0\n' | pty tilewright bench models/demo -p 0 -n 4 -r 1 -t 1
$ tilewright bench models/demo -p 0 -n 4 -d 100 -r 1 -t 1 --weights int8 -o csv | cut -d, -f1,2,4,6,7,8,9,21
  model,stored,weights,threads,test,n,depth,ceiling_of
  "models/demo",bf16,int8,1,tg4 @ d100,4,100,reads
# Floats are multiplied by float vectors where no unit takes their terms.
$ tilewright bench --shape llama-tiny --dtype f32 -p 64 -n 0 -r 1 --isa avx2 --json | json - 0.ceiling_of
  f32
$ tilewright bench models/demo -p 4 -n 4 -r 1 -t 1 --weights int4 -o md | sed -e 's/P.s, [a-z][^|]* |/P\/s, UNIT |/' -e 's/ 0\.00 |/ ZERO |/' -e 's/[0-9][0-9.]*/N/g'
  | model | stored | weights | packed | threads | test | tokens/s | µs a token, N to N % | | ceiling, measured | share | correct |
  |---|---|---|---:|---:|---|---:|---:|---:|---:|---:|---|
  | models/demo | bfN N B | intN | N GB | N | ppN | N ± ZERO | N to N | N GFLOP/s | N GFLOP/s, UNIT | N % | yes |
  | models/demo | bfN N B | intN | N GB | N | tgN | N ± ZERO | N to N | N GB/s | N GB/s, reads | N % | yes |
  
  resident: N GB at most; weights N GB, keys and values N GB
$ tilewright bench --shape llama-tiny --dtype f16 -p 8 -n 0 -r 1 -t 2 -o json | json - 0.stored 0.test
  f16
  pp8
# Several lengths of prompts are read by one model, the longest first.
$ tilewright bench models/demo -p 4,16,8 -n 0 -r 1 -t 1 -o csv | cut -d, -f6,7
  threads,test
  1,pp16
  1,pp8
  1,pp4
$ tilewright bench models/demo -p 4,x
  tilewright: -p: "4,x" is not 1 to 8 lengths with commas between them
  [2]
$ echo '{"weights": "int4", "max_seq": 8}' >c.json
$ tilewright bench --shape llama-tiny -p 4 -n 0 -r 1 -t 1 --config c.json -o csv | cut -d, -f4
  weights
  int4
$ tilewright bench --shape llama-tiny -p 0 -n 16 -r 1 -t 1 --config c.json -o csv >/dev/null
  tilewright: 1 tokens do not fit the context of 8, of which 8 are taken: a larger -c, or a shorter prompt
  [2]
$ tilewright bench models/demo -p 128 -n 0 -r 1 -t 1 --explain 2>&1 >/dev/null | cut -c1-14
  bf16 256x768: 
  bf16 1536x256:
  bf16 512x256: 
# Several sequences.
$ tilewright bench models/demo --sequences 4 -n 4
  tilewright: --sequences: this machine decodes at most 1 together of this model
  [1]
$ tilewright bench models/demo --sequences 0
  tilewright: --sequences: 0 is not within 1..128
  [2]
$ tilewright bench models/demo --sequences 4 -d 5
  tilewright: bench: --sequences goes with one length of -p, without -d and --explain
  [2]
