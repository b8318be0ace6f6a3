# SPDX-License-Identifier: Apache-2.0
# Machine code by a program in ptxas's place, without a GPU.
$ printf '%s\n' '#!/bin/sh' 'while [ $# -gt 1 ]; do case $1 in -o) out=$2; shift ;; esac; shift; done' 'printf "\177ELF" >$out' >ptxas; chmod +x ptxas
> export TILEWRIGHT_PTXAS=./ptxas TILEWRIGHT_CACHE=cache
> tilewright build data/onnx/encoder/model.onnx -o code.tw --dim batch=1 --dim length=5 --dtype f16 --target sm_90a
> tilewright compile code.tw --dim batch=1 --dim length=5 --explain
> tilewright run code.tw --random --dim batch=1 --dim length=5 --device cpu >out 2>&1 && echo runs
> tilewright build data/onnx/encoder/model.onnx -o x.tw --dim batch=1 --dim length=5 --target sm_90a --device cpu
> tilewright build data/onnx/encoder/model.onnx -o x.tw --dim batch=1 --dim length=5 --target sm_1
> TILEWRIGHT_PTXAS=./none tilewright build data/onnx/encoder/model.onnx -o x.tw --dim batch=1 --dim length=5 --target sm_90a
> ls x.tw
  code.tw: 1 shape in f16, 11 steps, 0.0 MB of weights
        1  programs' graphs in f16
        7  constants (0.0 MB)
       10  kernels of sm_90a (0.0 MB)
  runs
  tilewright: target: cpu makes no kernels for sm_90a; emulator:sm_90a does
  tilewright: device: the emulator knows no target "sm_1"
  tilewright: ./none: no such program to compile PTX with
  ls: cannot access 'x.tw': No such file or directory
  [2]
# Constants as kernels read them, and the model for other extents.
$ tilewright build data/onnx/encoder/model.onnx -o m.tw --dim batch=1 --dim length=5 --packed --model --device cpu
> tilewright compile m.tw --dim batch=1 --dim length=5 --explain
> tilewright run m.tw --random --dim batch=4 --dim length=3 --json 2>err | json - outputs.0.shape steps
> tilewright verify m.tw --golden data/onnx/encoder/case.npz | sed 's/within [0-9.]*/within N/'
> tilewright build m.tw -o again.tw --dim batch=7 --dim length=1 --device cpu
> tilewright run again.tw --random --dim batch=4 --dim length=3
> tilewright build again.tw -o x.tw --dim batch=7 --dim length=1 --device cpu --model
> tilewright build data/onnx/encoder/model.onnx -o x.tw --dim batch=1 --dim length=5 --packed --device plain
  m.tw: 1 shape in f32, 8 steps, 0.0 MB of weights
        1  programs' graphs in f32
       31  constants (0.0 MB)
        4  constants as a processor reads them (0.0 MB)
        1  model for other extents (54 nodes)
  [4,3,16]
  8
  agrees with data/onnx/encoder/case.npz: 1 outputs, 160 elements within N of what is allowed
  again.tw: 1 shape in f32, 8 steps, 0.0 MB of weights
  tilewright: again.tw: the package was built for x f32[7, 1, 16], mask i64[7, 1]
  tilewright: again.tw: the package was built without the model
  tilewright: packed: plain packs no constants; cpu does
  [2]
# A constant that was changed is noticed before it is used, and an older package is refused.
$ tilewright build data/onnx/encoder/model.onnx -o m.tw --dim batch=1 --dim length=5 --device cpu
> size=$(wc -c <m.tw); (head -c $((size - 256)) m.tw; printf XYZ; tail -c 253 m.tw) >hit.tw
> tilewright run hit.tw --random --dim batch=1 --dim length=5 2>err; sed 's/tw:[0-9]*/tw:N/' err
> (head -c 8 m.tw; printf '\001'; tail -c +10 m.tw) >old.tw; tilewright run old.tw --random --dim batch=1 --dim length=5
  m.tw: 1 shape in f32, 8 steps, 0.0 MB of weights
  tilewright: hit.tw:N: a constant does not have its checksum
  tilewright: old.tw:8: the package is of version 1; this build reads version 2
  [1]
