# SPDX-License-Identifier: Apache-2.0
# Where to run. There is no GPU here, whatever the machine has.
$ tilewright verify models/demo --device cpu --json | json - agrees device
  true
  cpu
$ tilewright verify models/demo --device auto --json | json - agrees device
  true
  cpu
$ tilewright run models/demo -p x --device cuda
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  [1]
$ tilewright run models/demo -p x --device cuda:1
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  [1]
$ tilewright verify models/demo --device cuda
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  [1]
$ tilewright ppl models/demo -f models/demo/heldout.txt --device cuda
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  [1]
$ tilewright bench models/demo --device cuda
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  [1]
# Threads and instruction sets are a processor's.
$ tilewright run models/demo -p x --device cuda -t 2
  tilewright: threads, instruction sets and rounded activations are a processor's: not with device cuda
  [2]
$ tilewright verify models/demo --device cuda:0 --isa avx2
  tilewright: threads, instruction sets and rounded activations are a processor's: not with device cuda:0
  [2]
# Names.
$ tilewright run models/demo -p x --device cuda:
  tilewright: device: "cuda:" is not auto, cpu, cuda or cuda:N
  [2]
$ tilewright run models/demo -p x --device cuda:two
  tilewright: device: "cuda:two" is not auto, cpu, cuda or cuda:N
  [2]
$ tilewright bench models/demo --device tpu
  tilewright: device: "tpu" is not auto, cpu, cuda or cuda:N
  [2]
# A model larger than memory is refused with both numbers before anything is packed.
$ hide() { sed 's/[0-9.]* [GM]B/N/g'; }; tilewright run models/demo -p x -c 2000000000 2>&1 | hide; tilewright bench --shape llama-8b -c 2000000000 --weights int8 2>&1 | hide
  tilewright: models/demo: needs N of memory, of which N are available: N for weights, N for keys and values; a shorter context (-c) would need less
  tilewright: llama-8b: needs N of memory, of which N are available: N for weights, N for keys and values; a shorter context (-c) would need less
$ export TILEWRIGHT_LIBCUDA="$(dirname "$(command -v json)")/../libfake_cuda.so" FAKE_CUDA_FREE_MB=1000; tilewright bench --shape llama-8b --device cuda; tilewright bench --shape llama-8b --device cuda --weights int4
  tilewright: llama-8b: needs 16.2 GB of the GPU's memory, of which 1049 MB are available: 16.2 GB for weights, 68.16 MB for keys and values; --weights int8 or int4 would need less
  tilewright: llama-8b: needs 5550 MB of the GPU's memory, of which 1049 MB are available: 5481 MB for weights, 68.16 MB for keys and values; a smaller model is needed
  [1]
# "auto" goes on to the processor where the GPU has no room for a model.
$ export TILEWRIGHT_LIBCUDA="$(dirname "$(command -v json)")/../libfake_cuda.so" FAKE_CUDA_FREE_MB=1
> for d in cpu auto; do tilewright run models/demo -p x -n 3 --device $d --json | json - text; done | uniq -c | sed 's/^ *//; s/ .*//'
> tilewright run models/demo -p x -n 3 --device cuda 2>&1 | sed 's/needs.*//'
  2
  tilewright: models/demo: 
