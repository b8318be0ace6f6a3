# SPDX-License-Identifier: Apache-2.0
# Every model that is kept here agrees with what transformers computed.
# (The seventh digit of a perplexity is that of the processor's arithmetic.)
$ for m in models/demo data/models/*; do tilewright verify $m | sed 's/, logits within.*//; s/ (reference.*//; s/\(25.9220\)./\1/'; done
  agrees with models/demo/golden.json: 4 cases, 256 greedy tokens equal
  perplexity 25.9220
  agrees with data/models/gemma-gelu/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/gemma2-caps/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/gemma3-ropes/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/gemma3-wide/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/gpt2-gelu-bare/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/gpt2-relu-untied/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/llama-biases/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/llama-dynamic/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/llama-linear-mqa/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/llama-llama3-sharded/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/llama-yarn-mha/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/mistral-window/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/mixtral-fused/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/mixtral-window/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/olmo2-norms/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/phi3-long/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/phi3-window/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/qwen2-window/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/qwen3-bias/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/qwen3moe-dense-first/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/qwen3moe-step-fused/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/smollm3-norope/golden.json: 4 cases, 128 greedy tokens equal
# Quantised weights agree with the floats that the integers stand for.
$ for m in models/demo data/models/llama-biases data/models/qwen3moe-step-fused; do tilewright verify $m --weights int8 | sed 's/, logits within.*//'; done
  agrees with its own dequantised weights: 4 cases, 128 greedy tokens equal
  agrees with its own dequantised weights: 4 cases, 128 greedy tokens equal
  agrees with its own dequantised weights: 4 cases, 128 greedy tokens equal
# Prompts in chunks of any size.
$ for n in 1 7 64; do tilewright verify data/models/mistral-window --chunk $n | sed 's/, logits within.*//'; done
  agrees with data/models/mistral-window/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/mistral-window/golden.json: 4 cases, 128 greedy tokens equal
  agrees with data/models/mistral-window/golden.json: 4 cases, 128 greedy tokens equal
$ tilewright verify data/models/mistral-window --chunk -1
  tilewright: --chunk: -1 is not within 0..1048576
  [2]
# How near it came, as text and as JSON.
$ tilewright verify data/models/qwen3-bias -t 1 | sed 's/.*, logits/logits/' >text; tilewright verify data/models/qwen3-bias -t 1 --json >v.json
> json v.json worst_logit worst_loss | tr '\n' ' ' | awk '{printf "logits within %.3f and losses within %.3f of what is allowed\n", $1, $2; if ($1 == $2) print "equal"}' | cmp - text
# The verdict as JSON.
$ tilewright verify models/demo --json | json - agrees reference rope cases greedy_tokens
  true
  models/demo/golden.json
  float
  4
  256
# A reference that says something else: the first difference, exit status 1.
$ tilewright verify data/models/llama-biases --golden data/models/gpt2-gelu-bare/golden.json 2>&1 | sed 's/is [-0-9.e]* here and [-0-9.e]* in/is A here and B in/'
  tilewright: data/models/gpt2-gelu-bare/golden.json: cases[0]: logit 0 is A here and B in the reference
$ sed 's/"greedy":\[[0-9]*/"greedy":[77/' data/models/llama-biases/golden.json >g.json; tilewright verify data/models/llama-biases --golden g.json
  tilewright: g.json: cases[0]: greedy token 0 is 0 here and 77 in the reference
  [1]
$ sed 's/"loss":[0-9]/"loss":9/' data/models/llama-biases/golden.json >g.json; tilewright verify data/models/llama-biases --golden g.json 2>&1 | sed 's/is [-0-9.e]* here and [-0-9.e]* in/is A here and B in/'
  tilewright: g.json: cases[1]: loss over prompt tokens 5 is A here and B in the reference
$ tilewright verify data/models/llama-biases --golden models/demo/golden.json
  tilewright: models/demo/golden.json: cases[0]: an id is not an integer within the vocabulary
  [1]
# Logits of some ids alone, the largest among them; without as many values as ids it is no reference.
$ echo '{"cases":[{"prompt":[245,245,141,240,143],"greedy":[137,181,181],"logits_last":{"ids":[0,7,51],"values":[-1.068768,1.47213,-2.451952]}}]}' >some.json
$ tilewright verify data/models/llama-biases --golden some.json | sed 's/, logits within.*//'
  agrees with some.json: 1 cases, 3 greedy tokens equal
$ sed 's/1.47213/1.47313/' some.json >other.json; tilewright verify data/models/llama-biases --golden other.json --json | json - worst_logit | cut -c1-4
  0.39
$ sed 's/1.47213/1.48213/' some.json >other.json; tilewright verify data/models/llama-biases --golden other.json 2>&1 | sed 's/is [-0-9.e]* here/is A here/'
  tilewright: other.json: cases[0]: logit 7 is A here and 1.48213 in the reference
$ sed 's/"ids":\[0,/"ids":[/' some.json >other.json; tilewright verify data/models/llama-biases --golden other.json
  tilewright: other.json: cases[0]: logits_last has not as many values as ids
  [1]
# Quantised weights beside a reference of their own: this one is of the weights as stored.
$ tilewright verify data/models/llama-biases --golden some.json --weights int8 2>&1 | sed 's/is [-0-9.e]* here/is A here/'
  tilewright: some.json: cases[0]: logit 0 is A here and -1.068768 in the reference
