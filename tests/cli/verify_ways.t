# SPDX-License-Identifier: Apache-2.0
# The same answers in every way that they can be computed.
# With any instruction set, and split otherwise.
$ for isa in none avx2 avx512 avx512,avx512vnni; do for m in data/models/*; do tilewright verify $m --isa $isa -t 1 >/dev/null || echo $isa $m; done; done
$ for m in data/models/*; do tilewright verify $m -t 3 >/dev/null || echo $m; done
$ tilewright verify models/demo --isa avx2 | sed 's/, logits within.*//; s/ (ref.*//'
  agrees with models/demo/golden.json: 4 cases, 256 greedy tokens equal
  perplexity 25.92209
# Prompts in chunks of any size.
$ for n in 1 7 64; do for m in data/models/*; do tilewright verify $m --chunk $n >/dev/null || echo $n $m; done; done
# Groups of any size.
$ for g in 32 64 128; do tilewright verify models/demo --weights int4 --group $g | sed 's/, logits within.*//'; done
  agrees with its own dequantised weights: 4 cases, 128 greedy tokens equal
  agrees with its own dequantised weights: 4 cases, 128 greedy tokens equal
  agrees with its own dequantised weights: 4 cases, 128 greedy tokens equal
# Integer weights by activations of 8 bits, with the matrix unit and in plain C. A mixture's choice of experts may change, and is not compared.
$ for w in int8 int4; do for m in models/demo $(ls -d data/models/* | grep -v -e moe -e mixtral); do tilewright verify $m --weights $w --activations int8 >/dev/null || echo $w $m; done; done
$ for w in int8 int4; do tilewright verify data/models/llama-biases --weights $w --activations int8 --isa none >/dev/null || echo $w; done
# Weights of floats have activations of floats.
$ tilewright verify models/demo --activations int8 | sed 's/, logits within.*//; s/ (ref.*//; s/\(25.9220\)./\1/'
  agrees with models/demo/golden.json: 4 cases, 256 greedy tokens equal
  perplexity 25.9220
