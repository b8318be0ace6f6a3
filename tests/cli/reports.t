# SPDX-License-Identifier: Apache-2.0
# What a report says twice it says the same, and what follows from other figures in it does follow.
# doctor: the words are the numbers, in larger units.
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> tilewright doctor >t; tilewright doctor --json >j
> echo "L2 $(($(json j l2_bytes) / 1024)) KiB, L3 $(($(json j l3_bytes) / 1048576)) MiB" | grep -qf - t && echo caches
> echo "$(json j memory_bytes | awk '{printf "memory       %.1f GB", $1 / 1e9}')" | grep -qf - t && echo memory
> echo "$(json j cores) core" | grep -qf - t && echo cores
> grep -qF "$(json j cpu)," t && echo name
> grep -A 1 '^GPU' t; json j gpus.# gpus.0.name gpus.0.sms gpus.0.target gpus.0.l2_bytes gpus.0.clock_khz gpus.0.memory_bytes
  caches
  memory
  cores
  name
  GPU 0        Fake H100 number 0, driver CUDA 13.0, 132 SMs at 1.98 GHz, 85.9 GB, L2 50 MiB
    kernels    sm_90a, 227 KiB of shared memory a block
  1
  Fake H100 number 0
  132
  sm_90a
  52428800
  1980000
  85899345920
# bench, of one repetition: the mean is the median, nothing is spread, and rates and times are each other's inverse.
$ tilewright bench models/demo -p 12 -n 6 -d 3 -r 1 -t 2 -o csv >c; tail -n 2 c | tr -d '"' | awk -F, '
> function near(a, b) { return a > 0 && b > 0 && a / b < 1.001 && b / a < 1.001 }
> { print $1, $2, $3, $4, $6, $7, $8, $9, $16, $17, $21
>   print near($10, $12), ($11 == 0), near($18 * $10, 1e6), near($18, $19), near($18, $20), ($13 / $14 - $15 < 1e-3 && $15 - $13 / $14 < 1e-3), ($15 < 2) }' | sed 's/\(cpu\) .*/\1/'
  models/demo bf16 5770496 native 2 pp12 @ d3 12 3 true cpu
  1 1 1 1 1 1 1
  models/demo bf16 5770496 native 2 tg6 @ d3 6 3 true cpu
  1 1 1 1 1 1 1
# The work of a token is the same at any speed.
$ tilewright bench models/demo -p 0 -n 6 -d 3 -r 1 -t 1 -o csv | tail -n 1 | awk -F, '{printf "%.3f\n", $13 / $10 / 1e6}' >a
> tilewright bench models/demo -p 0 -n 6 -d 3 -r 1 -t 2 --json | json - 0.work 0.tokens_per_second | tr '\n' ' ' | awk '{printf "%.3f\n", $1 / $2 / 1e6}' | cmp - a && echo same
  same
# A position later it is that many keys and values more; the middle of what is decoded stands for all.
$ for w in "-n 8 -d 0" "-n 8 -d 96" "-n 72 -d 0"; do tilewright bench models/demo -p 0 $w -r 1 -t 1 --json | json - 0.work 0.tokens_per_second | tr '\n' ' ' | awk '{printf "%.0f ", $1 / $2}'; done >w
> awk '{a = ($2 - $1) / 96; b = ($3 - $1) / 32; print (a > 1000), (a / b > 0.99 && b / a > 0.99)}' w
  1 1
# The table says the same in other units.
$ tilewright bench models/demo -p 8 -n 4 -r 1 -t 1 --weights int8 -o md | grep '^|' | sed 1,2d | tr -d '±%,' | awk '{print $2, $4, $5, $6, $8, $13, $15, ($17 > 0 && $18 == 0), ($20 == $22 && $20 > 0), ($17 * $20 > 999000 && $17 * $20 < 1001000)}'
> for w in native int8 int4; do tilewright bench models/demo -p 1 -n 0 -r 1 -t 1 --weights $w -o csv | tail -n 1 | cut -d, -f5; done | tr '\n' ' ' | awk '{print ($1 > 1.7 * $2), ($2 > 1.5 * $3)}'
  models/demo bf16 0.01 B int8 1 pp8 1 1 1
  models/demo bf16 0.01 B int8 1 tg4 1 1 1
  1 1
$ tilewright bench models/demo -p 12 -n 0 -r 3 -t 1 --json >j; json j 0.samples_s.# 0.shares.# 0.n 0.depth 0.model 0.device
> json j 0.samples_s | tr -d '[]' | awk -F, '{print 12 / $1, 12 / $2, 12 / $3}' | tr ' ' '\n' | sort -g | sed -n 2p >middle
> json j 0.median | cat - middle | tr '\n' ' ' | awk '{print ($1 / $2 < 1.001 && $2 / $1 < 1.001)}'
> json j 0.worst_logit | awk '{print ($1 > 0 && $1 <= 1)}'
  3
  3
  12
  0
  models/demo
  cpu
  1
  1
# As much as is asked for, and no more rows.
$ tilewright bench models/demo -p 0 -n 0 -r 1 -t 1 --json
  []
$ tilewright bench models/demo -p 0 -n 1 -r 101 -t 1
  tilewright: -p, -n, -d, -r: out of range
  [2]
$ tilewright bench models/demo -n -1
  tilewright: -p, -n, -d, -r: out of range
  [2]
$ tilewright bench models/demo --shape llama-1b
  tilewright: bench: needs a MODEL or --shape, one of them
  [2]
$ tilewright bench models/demo -o xml
  tilewright: -o: "xml" is not md, csv or json
  [2]
$ tilewright bench --shape llama-tiny --dtype int8
  tilewright: --dtype: "int8" is not f32, f16 or bf16
  [2]
# ppl: the loss is the perplexity's logarithm.
$ head -c 3000 models/demo/heldout.txt >text; tilewright ppl models/demo -f text -c 64 --json >p
> json p perplexity nll | tr '\n' ' ' | awk '{d = log($1) - $2; print (d < 1e-6 && d > -1e-6)}'; json p context tokens; json p seconds | awk '{print ($1 > 0)}'
> tilewright ppl models/demo -f text -c 64 >t; sed 's/[0-9][0-9.]*/N/g' t
> { json p perplexity nll tokens context; tr -d '(,)' <t; } | tr '\n' ' ' | awk '{print ($6 - $1 < 1e-3 && $1 - $6 < 1e-3), ($8 == $3), ($13 == $4), ($16 - $2 < 1e-5 && $2 - $16 < 1e-5), ($18 > 0)}'
  1
  64
  739
  1
  perplexity N over N tokens in windows of N (mean loss N nats, N tokens/s)
  1 1 1 1 1
# verify: the words are the numbers, for floats and for integers.
$ for how in "--rope float" "--weights int8 -s 4"; do tilewright verify data/models/llama-biases $how --json >v; tilewright verify data/models/llama-biases $how >t
> json v agrees device cases greedy_tokens greedy_close rope; json v reference cases greedy_tokens worst_logit worst_loss | tr '\n' ' ' | awk '{n = NF; printf "%d cases, %d greedy tokens equal, logits within %.3f and losses within %.3f of what is allowed\n", $(n - 3), $(n - 2), $(n - 1), $n}' | grep -qFf - t && echo same; done
  true
  cpu
  4
  128
  0
  float
  same
  true
  cpu
  4
  128
  0
  float
  same
$ sed 's/"greedy":\[[0-9]*/"greedy":[77/' data/models/llama-biases/golden.json >g.json; tilewright verify data/models/llama-biases --golden g.json --json
  tilewright: g.json: cases[0]: greedy token 0 is 0 here and 77 in the reference
  {"agrees": false, "difference": "cases[0]: greedy token 0 is 0 here and 77 in the reference"}
  [1]
# A GPU whose kernels compute nothing has no speed.
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> tilewright bench --shape llama-tiny --device cuda -p 4 -n 4 -r 1 >rows 2>why; echo $?; wc -c <rows | tr -d ' '; grep -c '^tilewright: ' why
  1
  0
  1
