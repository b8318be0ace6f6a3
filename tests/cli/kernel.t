# SPDX-License-Identifier: Apache-2.0
# Generated kernels. What depends on how they are generated is cut away.
$ tilewright kernel gemm m=33 n=17 k=65 type=f16 ta=1 lda=40 ldb=20 ldc=18 out=f32 alpha=-0.5 beta=1 bias=1 mul=1 residual=1 activation=silu kg=2 u=32 --target sm_80 >said; sed -n '1p;3,4p' said; sed 's/ .*//' said | tr '\n' ' '
  problem    type=f16 m=33 n=17 k=65 ta=1 lda=40 ldb=20 ldc=18 bias=1 mul=1 residual=1 out=f32 alpha=-0.5 beta=1 activation=silu
  target     sm_80
  legal      yes
  problem config target legal block grid workspace PTX 
$ tilewright kernel gemm m=64 n=64 k=64 kl=2 kg=2 split=2 --emulate | sed 's/;.*//'
  emulated for sm_90a, seed 1: correct, nothing found
$ tilewright kernel gemm m=8 n=8 k=8 --emulate --json | json - lane_operations | awk '{print ($1 > 8 * 8 * 8)}'
  1
$ tilewright kernel gemm m=64 n=64 k=64 batch=2 sa=-1 sb=4100 sc=4200 --target sm_89 --emulate --json --seed 7 | json - target on correct seed findings.# problem.batch config.kg
  sm_89
  emulator
  true
  7
  0
  2
  1
$ tilewright kernel gemm m=8 n=8 k=8 --emulate --json | json - mismatch
  json: nothing at mismatch
  [1]
$ tilewright kernel gemm m=9 n=7 k=300 type=s8 kg=4 split=1 --json >g.json; json g.json legal problem.out problem.lda config.kg grid counter_bytes
  true
  i32
  300
  4
  4
  4
# As text; what was printed is read by others.
$ tilewright kernel gemm m=64 n=64 k=64 --emit ir | sed -n '1,3p'
  kernel gemm
      target 90
      threads 128
$ tilewright kernel gemm m=64 n=64 k=64 --emit ptx --target sm_120a >k.ptx; grep -c '^\.visible \.entry gemm(' k.ptx; grep '^\.target' k.ptx
  1
  .target sm_120a
$ tilewright kernel gemm m=64 n=64 k=64 --emit ptx >one.ptx; tilewright kernel gemm m=640 n=64 k=64 --emit ptx | cmp - one.ptx && echo "shared by problems of a variant"
  shared by problems of a variant
$ PATH=$(dirname "$(command -v tilewright)") TILEWRIGHT_LIBCUDA=none tilewright kernel gemm m=64 n=64 k=64 --emit sass
  tilewright: --emit sass: ptxas is not on PATH, and no GPU here is of sm_90a
  [1]
# Machine code: by the compiler that the environment names, and whatever takes it apart.
$ mkdir bin; printf '#!/bin/sh\n' | tee bin/assemble >bin/cuobjdump; chmod +x bin/*
$ echo 'while [ $# -gt 1 ]; do [ $1 = -o ] && out=$2; [ $1 = --gpu-name ] && name=$2; shift; done; echo "made for $name" >$out' >>bin/assemble
$ echo 'echo "taken apart: $(cat $2)"' >>bin/cuobjdump
$ PATH=$PWD/bin:$PATH TILEWRIGHT_PTXAS=$PWD/bin/assemble TILEWRIGHT_LIBCUDA=none tilewright kernel gemm m=64 n=64 k=64 --emit sass --target sm_89
  taken apart: made for sm_89
$ TILEWRIGHT_PTXAS=nothing-of-that-name TILEWRIGHT_LIBCUDA=none tilewright kernel gemm m=64 n=64 k=64 --emit sass
  tilewright: nothing-of-that-name: no such program to compile PTX with
  [1]
# What there is to say.
$ tilewright kernel gemm --list | sed -n '1,2p;/^  u /p;/^  split /p'
  of the problem:
  m n k; type=f32|f64|f16|bf16|tf32|s8|e4m3|tf32x3; ta tb (1: stored transposed); lda ldb ldc; batch, sa sb sc (strides);
    u      macro  4 8 16 32 64 128
    split  micro  0 1 2 3
$ tilewright kernel gemm --list --json | json - stages.values.0 stages.role kg.role
  1
  micro
  macro
$ tilewright kernel gemm m=64 n=64 k=64 --space >s; grep -e '^  mma ' -e '^  u ' -e ^points s; sed 's/[0-9].*//;s/ *$//' s | tail -2
    mma    macro    3  0 1 2
    u      macro    6  4 8 16 32 64 128
  points     6.085e+15, of the macro parameters 9.825e+06
  legal
  drawing    of uniform draws
$ tilewright kernel gemm m=64 n=64 k=64 --space --json >s; json s target problem.m parameters.mma.role parameters.kg.count parameters.u.values.5 macro_points exact judged
> { json s points legal error; } | tr '\n' ' ' | awk '{print ($2 > 0 && $2 < $1 / 50 && $3 > 0 && $3 < $2 / 5)}'
> { json s uniform_share categorical_share; } | tr '\n' ' ' | awk '{print ($1 > 0 && $2 > 10 * $1 && $2 < 1)}'
  sm_90a
  64
  macro
  38
  128
  9824980.0
  false
  1000000
  1
  1
$ tilewright kernel gemm --space
  tilewright: m = 0 is not within 1..1073741823
  [2]
# Configurations that cannot be.
$ tilewright kernel gemm m=64 n=64 k=64 kg=100 | tail -1
  legal      no: more splits than stages along k
$ tilewright kernel gemm m=64 n=64 k=64 kg=100 >said; echo $?; tilewright kernel gemm m=64 n=64 k=64 kg=100 --json | json - legal why
  1
  false
  more splits than stages along k
$ tilewright kernel gemm m=1000000 n=1000000 k=1000 --emit ptx
  tilewright: the configuration is not legal: more blocks than a grid holds
  [2]
$ tilewright kernel gemm m=10000 n=10000 k=1000000000 --emulate
  tilewright: A spans 1e+13 elements, and 2^42 are more than any machine holds
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 ms=3 --emulate
  tilewright: the configuration is not legal: a block's tile is no whole number of smaller ones
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 type=tf32 mma=0 --emit ptx
  tilewright: the configuration is not legal: tf32 is what tensor cores compute with
  [2]
# No GPU.
$ TILEWRIGHT_LIBCUDA=none tilewright kernel gemm m=64 n=64 k=64 --run 2>&1 | cut -c1-30
  tilewright: no NVIDIA driver: 
# A stand-in for the driver, whose kernels all do nothing in ten microseconds: it is not believed.
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so
> tilewright kernel gemm m=64 n=64 k=64 --run --json | json - correct us; tilewright kernel gemm type=f64 m=1000 n=700 k=700 --run
  true
  10.0
  tilewright: 10.000 us is faster than the device can be (14.647 us)
  [1]
# Wrong words.
$ tilewright kernel
  tilewright: kernel: needs NAME k=v ... (tilewright kernel --help)
  [2]
$ tilewright kernel gemv
  tilewright: kernel: "gemv" is no kernel; there are gemm, attention, combine, map and rows
  [2]
$ tilewright kernel combine tokens=4 top=2 n=24 type=f16 --emulate | cut -d';' -f1; tilewright kernel combine tokens=4 top=2 n=24 early=1 --emit ptx | grep -c griddepcontrol
  emulated for sm_90a, seed 1: correct, nothing found
  2
$ tilewright kernel combine tokens=4 top=0 n=24 --emulate
  tilewright: top = 0 is not within 1..32
  [2]
$ tilewright kernel combine tokens=4 top=2 n=24 --emulate --json
  tilewright: kernel combine: --json is of gemm alone
  [2]
$ tilewright kernel combine tokens=4 top=2 n=24
  tilewright: kernel combine: --emit or --emulate says what to do with it
  [2]
$ tilewright kernel map dims=4x512x768 x0=f16 x1=f16[0,0,1] 'expr=add(x0,x1)' out=f16 early=1 --emit ptx | grep -cE 'griddepcontrol|v4'
  5
$ tilewright kernel map dims=4x24 x0=f16 'expr=gelu(x0)' out=f16 --emulate | cut -d';' -f1; tilewright kernel rows of=layer_norm dims=4x24 x0=f16 gain=f32 out=f16 warps=2 --emulate | cut -d';' -f1
  emulated for sm_90a, seed 1: correct, nothing found
  emulated for sm_90a, seed 1: correct, nothing found
$ tilewright kernel map dims=24 x0=f32 'expr=div(div(x0,8),3)' out=f32 --emit ptx | grep -c div.rn
  4
$ tilewright kernel map dims=4x24 x0=f16 'expr=gelu(x1)' out=f16 --emulate
  tilewright: "gelu(x1)": there is no such operand at ")"
  [2]
$ tilewright kernel rows of=softmax dims=4x24 x0=f16 out=f16 warps=3 --emulate
  tilewright: warps=3: a row has 1, 2, 4, 8, 16 or 32 warps
  [2]
$ tilewright kernel gemm
  tilewright: m = 0 is not within 1..1073741823
  [2]
$ tilewright kernel gemm m=64 n=64
  tilewright: k = 0 is not within 1..1073741823
  [2]
$ tilewright kernel gemm m=64 n=64 k=0
  tilewright: k = 0 is not within 1..1073741823
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 type=f8
  tilewright: "type=f8": no such value
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 out=f64
  tilewright: C cannot be f64 for f32
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 x=1
  tilewright: "x=1" is not a parameter's name and value, like ml=64
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 ml
  tilewright: "ml" is not a parameter's name and value, like ml=64
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 ml=64x
  tilewright: "ml=64x": the value is not a number within 0..65535
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 batch=2 sc=100
  tilewright: the products of a batch overlap in C
  [2]
$ tilewright kernel gemm m=1000000 n=4 k=4 ldc=2147483647 batch=65535 sc=1e15
  tilewright: C spans 6.55e+19 elements, and 2^42 are more than any machine holds
  [2]
$ tilewright kernel gemm m=1 n=1 k=1 sa=1e13 --emulate | sed 's/;.*//'
  emulated for sm_90a, seed 1: correct, nothing found
$ tilewright kernel gemm m=64 n=64 k=64 lda=63
  tilewright: lda = 63 is not within 64..2147483647
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 --target sm_75
  tilewright: --target: "sm_75" is none of sm_80, sm_89, sm_90a, sm_100a, sm_120a
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 --emit c
  tilewright: --emit: "c" is not ir, ptx or sass
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 --emit ptx --run
  tilewright: kernel: --emit, --emulate, --run, --list and --space: one of them
  [2]
$ tilewright kernel gemm m=64 n=64 k=64 --seed many
  tilewright: --seed: "many" is not a whole number
  [2]
