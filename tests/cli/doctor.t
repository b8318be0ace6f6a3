# SPDX-License-Identifier: Apache-2.0
# With a GPU there is a line or two for each; here there is none, whatever the machine has.
$ tilewright doctor >d.txt; sed 's/ .*//' d.txt
  tilewright
  processor
  kernels
  caches
  memory
  reads
  arithmetic
  GPU
  oneDNN
  cuBLASLt
  cuDNN
  XGBoost
$ tilewright doctor --json >d.json && json d.json version && json d.json cpu cores isa memory_bytes read_bytes_per_second flops libraries gpus | wc -l
  0.1.0
  8
$ json d.json flops >f; json d.json operations.f32 | cmp - f
$ sed -n 's/.*a second: \([a-z0-9]*\) .*/\1/p' d.txt
  f32
$ grep GPU d.txt | head -n 1
  GPU          not here: programs run on the processor, kernels for GPUs in the emulator (no NVIDIA driver: none: cannot open shared object file: No such file or directory)
$ json d.json gpus
  []
