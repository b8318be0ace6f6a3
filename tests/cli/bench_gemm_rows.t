# SPDX-License-Identifier: Apache-2.0
# The tuner's rows and logs, on a stand-in for the driver whose kernels take ten microseconds and are found right.
$ cat >gemm <<'END'
> export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> export TILEWRIGHT_LIBCUBLASLT=${LT:-none}
> tilewright bench gemm --sampled 60 --generations 0 "$@"
> END
$ sh ./gemm m=48 n=40 k=64 --measured 3 --log l --json --commit abc >j; wc -l <l | tr -d ' '; sed 's/ mma=.* us=/ ... us=/' l
> head -n 1 j | json - device commit peer sms command clock_khz l2_bytes
> head -n 1 j | json - date | grep -q '^20[0-9][0-9]-[01][0-9]-[0-3][0-9]$' && echo dated
> tail -n 1 j >row; json row load_ms | awk '{print ($1 > 0)}'; json row case type layout m n k trans_a trans_b ours_us spread correct measured wrong ceiling_by registers
  3
  gemm type=f32 m=48 n=40 k=64 ... us=10.000
  gemm type=f32 m=48 n=40 k=64 ... us=10.000
  gemm type=f32 m=48 n=40 k=64 ... us=10.000
  Fake H100 number 0
  abc
  
  132
  tilewright bench gemm --sampled 60 --generations 0 m=48 n=40 k=64 --measured 3 --log l --json --commit abc
  1980000
  52428800
  dated
  1
  gemm
  f32
  row-major
  48
  40
  64
  false
  false
  10.0
  0.0
  true
  3
  0
  operations
  16
# What a log holds for the very product is tried first: here, alone. The last line's configuration is among them.
$ tail -n 1 l >last; sed 's/m=48/m=49/' l >other; sed 's/us=.*/us=-1.000/' l >wrong; sed 's/us=/xx=1 us=/' l >strange
> sh ./gemm m=48 n=40 k=64 --measured 0 --known last --json | tail -n 1 >k; json k measured
> for p in $(json k config | tr -d '{}"' | tr ',' ' ' | tr : =); do grep -qF " $p " last && echo "${p%=*}"; done | tr '\n' ' '
  1
  mma ms ns ml nl u ks kl kg vec frag copy stages split swap group multicast persistent pingpong stream staged early blocks 
$ sh ./gemm m=48 n=40 k=64 --measured 0 --known l --json | tail -n 1 | json - measured
  3
$ for f in other wrong strange; do sh ./gemm m=48 n=40 k=64 --measured 0 --known $f; done
  tilewright: gemm: no configuration works
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  tilewright: gemm: no configuration works
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  tilewright: gemm: no configuration works
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  [1]
$ cat other wrong strange last >all; sh ./gemm m=48 n=40 k=64 --measured 0 --known all --json | tail -n 1 | json - measured
  1
# Beside a stand-in for cuBLASLt.
$ LT=$(dirname "$(command -v tilewright)")/tests/libfake_cublaslt.so sh ./gemm m=16 n=24 k=8 --measured 1 --json >j; head -n 1 j | json - peer
> tail -n 1 j | json - peer peer_us ratio peer_best_us ratio_best peer_best_algorithm peer_correct peer_best_correct peer_spread correct
  cuBLASLt 13.1.2
  cuBLASLt 13.1.2
  30.0
  3.0
  20.0
  2.0
  1
  true
  true
  0.0
  true
$ LT=$(dirname "$(command -v tilewright)")/tests/libfake_cublaslt.so sh ./gemm m=16 n=24 k=8 --measured 1 | sed 's/ms=.*//'
  Fake H100 number 0, driver CUDA 13.0, cuBLASLt 13.1.2
  gemm             f32       10.00 us  cuBLASLt 13.1.2     30.00 (3.00x), its best     20.00 (2.00x)  floor 0.00 (operations)  mma=0 
# A library that is wrong when it is timed is told with its times.
$ FAKE_CUDA_WRONG=10 LT=$(dirname "$(command -v tilewright)")/tests/libfake_cublaslt.so sh ./gemm m=16 n=24 k=8 --measured 1 | sed '1d;s/  floor.*//'
> FAKE_CUDA_WRONG=12 LT=$(dirname "$(command -v tilewright)")/tests/libfake_cublaslt.so sh ./gemm m=16 n=24 k=8 --measured 1 --json | tail -n 1 | json - correct peer_correct peer_best_us
  gemm             f32       10.00 us  cuBLASLt 13.1.2     30.00 (3.00x), its best     30.00 (3.00x) WRONG
  true
  true
  30.0
# Of f16 either type of C is the library's too; of others the usual one.
$ for w in "type=f16" "type=f16 out=f32" "type=f32 activation=silu"; do
>   LT=$(dirname "$(command -v tilewright)")/tests/libfake_cublaslt.so sh ./gemm m=16 n=24 k=8 $w --measured 1 --json 2>&1 | tail -n 1 | json - peer 2>&1; done
  cuBLASLt 13.1.2
  cuBLASLt 13.1.2
  json: nothing at peer
  [1]
$ LT=$(dirname "$(command -v tilewright)")/tests/libfake_cublaslt.so sh ./gemm m=16 n=24 k=8 bias=1 --measured 1 --json | tail -n 1 | json - peer
  json: nothing at peer
  [1]
# The table's rows by name and type; its matrices are column-major, or read as row-major ones.
$ sh ./gemm --table4 --types f64,f32 --cases linpack-512,deepbench-b-16 --measured 1 --json >j; sed 1d j | wc -l | tr -d ' '
> sed 1d j | while read -r row; do echo "$row" | json - case type layout m n k trans_a trans_b | tr '\n' ' '; echo; done
  4
  linpack-512 f32 column-major 512 512 512 false true 
  deepbench-b-16 f32 column-major 2560 16 2560 true false 
  linpack-512 f64 column-major 512 512 512 false true 
  deepbench-b-16 f64 column-major 2560 16 2560 true false 
$ sh ./gemm --table4 --types f32 --cases deepbench-f-16 --row-major --measured 1 --json | tail -n 1 | json - layout m n k trans_a trans_b
  row-major
  2560
  16
  2560
  false
  false
$ sh ./gemm --table4 --types f32 --cases deepbench-f-16 --measured 1 | sed 's/ms=.*//'
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  deepbench-f-16   f32       10.00 us  floor 3.13 (operations)  mma=0 
$ sh ./gemm --table4 --cases linpack
  tilewright: bench gemm: --cases: "linpack" is not a row, like linpack-512 or ica-32
  [2]
$ sh ./gemm --table4 --types f33
  tilewright: bench gemm: --types: "f33" is not f32, f64, f16, bf16, tf32, s8, e4m3 or tf32x3
  [2]
$ sh ./gemm --table4 m=3
  tilewright: bench gemm: "m=3": --table4 has its own products
  [2]
$ sh ./gemm m=3 n=3 k=3 --row-major
  tilewright: bench gemm: --types, --cases and --row-major choose among the rows of --table4
  [2]
$ for w in "--sampled 0" "--measured -1" "--generations -1" "--offspring 100001"; do tilewright bench gemm m=3 n=3 k=3 $w; done
  tilewright: bench gemm: --sampled: 0 is not within 1..10000000
  tilewright: bench gemm: --measured: -1 is not within 0..1000000
  tilewright: bench gemm: --generations: -1 is not within 0..10000
  tilewright: bench gemm: --offspring: 100001 is not within 1..100000
  [2]
$ sh ./gemm m=3 n=3 k=3 --skew 11; sh ./gemm m=3 n=3 k=3 --skew 1
  tilewright: bench gemm: --skew: 11 is not within 0..10
  tilewright: bench gemm: --skew is of --products
  [2]
$ printf 'mix m=64 n=64 k=64 groups=2 type=f64 tb=1\n' >mix; sh ./gemm --products mix --skew 1 --json >j
  tilewright: mix: --skew is of products whose reference the device computes
  [1]
# Products of a list. A line of the log that does not say all of a product is for every product that it fits.
$ printf 'one m=48 n=40 k=64\n# none\n\ntwo m=16 n=24 k=8 type=f16\n' >list; sh ./gemm --products list --measured 1 --json >j; sed -n 2p j | json - case m type correct; sed -n 3p j | json - case m type correct
  one
  48
  f32
  true
  two
  16
  f16
  true
$ echo "any m=48 $(sed 's/.* mma=/mma=/;s/ us=.*//' last)" >some; echo 'one m=48 n=40 k=64' >list
> sh ./gemm --products list --measured 0 --known some --json | tail -n 1 | json - measured; sed -i 's/m=48/m=49/' some; sh ./gemm --products list --measured 0 --known some
  1
  tilewright: one: no configuration works
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  [1]
# Mistakes are found before anything is measured.
$ printf 'one m=48 n=40 k=64\ntwo m=16 n=24 k=8 x=3\n' >list; sh ./gemm --products list; printf 'one m=48 n=40\n' >list; sh ./gemm --products list
  tilewright: list:2:1: "x=3" says nothing of a product
  tilewright: list:1:1: k = 0 is not within 1..1073741823
  [1]
$ sh ./gemm --products list m=3; sh ./gemm --products list --table4; sh ./gemm m=8 n=8 k=8 --artefact list; sh ./gemm --products missing
  tilewright: bench gemm: "m=3": --products has its own products
  tilewright: bench gemm: either --table4 or --products
  tilewright: list: no artefact of a tuner
  tilewright: missing: cannot open: No such file or directory
  [1]
