# SPDX-License-Identifier: Apache-2.0
$ tilewright doctor | sed 's/ .*//'
  tilewright
  processor
  kernels
  caches
  memory
  reads
  arithmetic
  oneDNN
  NVIDIA
$ tilewright doctor --json >d.json && json d.json version && json d.json cpu cores isa memory_bytes read_bytes_per_second flops libraries | wc -l
  0.1.0
  7
