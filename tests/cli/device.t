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
  tilewright: threads and instruction sets are a processor's: not with device cuda
  [2]
$ tilewright verify models/demo --device cuda:0 --isa avx2
  tilewright: threads and instruction sets are a processor's: not with device cuda:0
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
