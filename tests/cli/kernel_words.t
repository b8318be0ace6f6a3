# SPDX-License-Identifier: Apache-2.0
# What is said of a kernel, in words and as JSON, on a target and on a stand-in for the driver.
$ tilewright kernel gemm m=100 n=72 k=640 type=f16 ml=64 nl=32 ms=32 ns=16 u=32 kg=3 split=2 --target sm_90a | sed 's/^PTX .*/PTX/' >t; cat t
  problem    type=f16 m=100 n=72 k=640
  config     mma=1 ms=32 ns=16 ml=64 nl=32 u=32 ks=1 kl=1 kg=3 vec=16 frag=8 copy=0 stages=3 split=2 swap=0 group=4 multicast=0 persistent=0 pingpong=0 stream=0 staged=0 early=0 blocks=0
  target     sm_90a
  legal      yes
  block      128 threads, 23040 bytes of shared memory, about 52 registers a thread: 9 of them on an SM
  grid       18 blocks: 6 tiles, split by 3; each walks 7 stages of k
  workspace  49152 bytes, and 24 of counters
  PTX
$ tilewright kernel gemm m=100 n=72 k=640 type=f16 ml=64 nl=32 ms=32 ns=16 u=32 kg=3 split=2 --target sm_90a --json >j
> { json j threads shared_bytes registers blocks_per_sm grid tiles config.kg stages_of_k workspace_bytes counter_bytes; } | tr '\n' ' ' | awk '{printf "block      %d threads, %d bytes of shared memory, about %d registers a thread: %d of them on an SM\ngrid       %d blocks: %d tiles, split by %d; each walks %d stages of k\nworkspace  %d bytes, and %d of counters\n", $1, $2, $3, $4, $5, $6, $7, $8, $9, $10}' >same; sed -n 5,7p t | cmp - same && echo same
> tilewright kernel gemm m=100 n=72 k=640 type=f16 ml=64 nl=32 ms=32 ns=16 u=32 kg=3 split=2 --target sm_90a --emit ptx >ptx
> [ "$(grep -c '' ptx) $(wc -c <ptx | tr -d ' ')" = "$(json j ptx_lines) $(json j ptx_bytes)" ] && echo as long
  same
  as long
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> tilewright kernel gemm m=64 n=64 k=64 --run --seed 9
> tilewright kernel gemm m=64 n=64 k=64 --run --json >j; json j on driver correct us us_p10 us_p90 floor_by registers spill_bytes blocks_per_sm
  Fake H100 number 0, driver CUDA 13.0, seed 9: correct
  10.00 us (p10 10.00, p90 10.00, cold L2), floor 0.01 us by operations: 0 %
  16 registers, 0 bytes spilt, 16 blocks on an SM
  Fake H100 number 0
  CUDA 13.0
  true
  10.0
  10.0
  10.0
  operations
  16
  0
  16
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> FAKE_CUDA_US=1 tilewright kernel gemm m=64 n=64 k=64 --run | sed -n 2p
  1.00 us (p10 1.00, p90 1.00, cold L2), floor 0.01 us by operations: 1 %
# Words that say yes or no, types and scalars.
$ for w in bias=2 bias=0.5 mul=-1 out=f8 out=f64 alpha=x beta= activation=tanh; do tilewright kernel gemm m=16 n=16 k=16 $w; done
  tilewright: "bias=2": no such value
  tilewright: "bias=0.5": no such value
  tilewright: "mul=-1": no such value
  tilewright: "out=f8": no such value
  tilewright: C cannot be f64 for f32
  tilewright: "alpha=x": no such value
  tilewright: "beta=": no such value
  tilewright: "activation=tanh": no such value
  [2]
$ for w in bias=1 mul=1 residual=1 out=f32 alpha=0.5 beta=2 activation=gelu batch=2; do tilewright kernel gemm m=16 n=16 k=16 type=f16 $w --json | json - problem | grep -o "\"${w%%=*}\":[^,}]*"; done
  "bias":true
  "mul":true
  "residual":true
  "out":"f32"
  "alpha":0.5
  "beta":2.0
  "activation":"gelu"
  "batch":2
