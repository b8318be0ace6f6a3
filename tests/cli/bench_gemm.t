# SPDX-License-Identifier: Apache-2.0
# The product's tuner, as far as it goes without a GPU.
$ tilewright bench gemm --help
  tilewright bench gemm m=M n=N k=K ... [ml=64 ...] [flags]
  the fastest own kernel for a product beside cuBLASLt
  
  flags:
    --table4                     every product of ISAAC's table 4
    --row-major                  read the table's layouts as row-major ones
    --types LIST                 of these types only, e.g. f32,f16
    --cases LIST                 these rows only, e.g. linpack-512,ica-32
    --products FILE              of its lines: a name, then m=M n=N k=K ...
    --artefact FILE              compare what this artefact chooses, too
    --sampled N                  legal configurations drawn for each (default 20000)
    --measured N                 of them built, checked and timed (default 256)
    --generations N              of variations of the best (default 4)
    --offspring N                variations in each (default 128)
    --seed N                     of the drawing (default 1)
    --deterministic              no atomic splits
    --known FILE                 a log whose configurations are tried first
    --log FILE                   every configuration that was timed, a line each
    --store FILE                 add them to a store, which `tilewright export` reads
    --skew X                     group i of a mixture has rows in proportion to (i + 1) ^ -X (default 0)
    --commit NAME                what was built, for the first line of --json
    --json                       a line of JSON for each
  
  example:
    tilewright bench gemm m=2560 n=16 k=2560 type=f32
    tilewright bench gemm --table4 --types f16 --json
$ tilewright bench gemm
  tilewright: m = 0 is not within 1..1073741823
  [2]
$ tilewright bench gemm m=64 n=64
  tilewright: k = 0 is not within 1..1073741823
  [2]
$ tilewright bench gemm m=64 n=64 k=64 type=f8
  tilewright: "type=f8": no such value
  [2]
$ tilewright bench gemm m=64 n=64 k=64 ml
  tilewright: "ml" is not a parameter's name and value, like ml=64
  [2]
$ tilewright bench gemm m=64 n=64 k=64 x=1
  tilewright: "x=1" is not a parameter's name and value, like ml=64
  [2]
$ tilewright bench gemm m=64 n=64 k=64 ml=many
  tilewright: "ml=many": the value is not a number within 0..65535
  [2]
$ tilewright bench gemm m=64 n=64 k=64 --offspring 0
  tilewright: bench gemm: --offspring: 0 is not within 1..100000
  [2]
$ tilewright bench gemm m=64 n=64 k=64 --sampled few
  tilewright: --sampled: "few" is not a whole number
  [2]
$ tilewright bench gemm m=64 n=64 k=64 --known nothing.log
  tilewright: nothing.log: cannot open: No such file or directory
  [1]
$ tilewright bench gemm m=64 n=64 k=64 --log nowhere/new.log
  tilewright: nowhere/new.log: cannot write: No such file or directory
  [1]
$ tilewright bench gemm m=64 n=64 k=64 --rounds 3
  tilewright: bench gemm: unknown flag --rounds (tilewright bench gemm --help)
  [2]
# Without a GPU the driver's absence is what stops it.
$ TILEWRIGHT_LIBCUDA=nothing.so tilewright bench gemm --table4 --types f32 2>&1 | sed 's/: nothing.so.*//'
  tilewright: no NVIDIA driver
# On a stand-in for the driver, whose kernels do nothing in ten microseconds and are all found right, there is a row.
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> tilewright bench gemm m=64 n=64 k=64 --sampled 50 --measured 1 --generations 0 --json | tail -1 | json - ours_us correct measured
  10.0
  true
  1
# No speed is told of a kernel that is wrong when it is tried,
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> FAKE_CUDA_WRONG=0 tilewright bench gemm m=64 n=64 k=64 --sampled 50 --measured 1 --generations 0 2>&1 | sed 's/: mma=.*:/:/'
  gemm: 1 wrong, 0 failed: 1 of 4096 cells are wrong
  tilewright: gemm: no configuration works
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
# nor of one that is wrong when it is timed,
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> FAKE_CUDA_WRONG=2 tilewright bench gemm m=64 n=64 k=64 --sampled 50 --measured 1 --generations 0
  tilewright: gemm: wrong on a second look
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  [1]
# nor one that no device can have,
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> FAKE_CUDA_US=0 tilewright bench gemm m=64 n=64 k=64 --sampled 50 --measured 1 --generations 0
  tilewright: gemm: 0.000 us is faster than the device can be (0.008 us)
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  [1]
# nor by the command that runs one kernel.
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> FAKE_CUDA_WRONG=0 tilewright kernel gemm m=64 n=64 k=64 --run
  tilewright: 1 of 4096 cells are wrong
  [1]
