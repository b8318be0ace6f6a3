# SPDX-License-Identifier: Apache-2.0
# Outputs of a model: inputs by name from files, or drawn; extents from either.
$ tilewright run data/onnx/encoder/model.onnx --input x=data/onnx/encoder/case.npz --input mask=data/onnx/encoder/case.npz -o out.npz 2>err; sed 's/in [0-9.]* ms, prepared in [0-9.]* s/in N ms, prepared in N s/' err
> tilewright run data/onnx/encoder/model.onnx --input data/onnx/encoder/case.npz --json | json - device dtype steps outputs.0.name outputs.0.type outputs.0.shape
> tilewright run data/onnx/encoder/model.onnx --random --dim batch=3 --dim length=4 --json | json - outputs.0.shape
  y f32[2, 5, 16]: 0.996632 1.2514 -1.56409 0.678256 -1.05321 -0.572378 ...
  [8 steps on cpu in N ms, prepared in N s]
  cpu
  f32
  8
  y
  f32
  [2,5,16]
  [3,4,16]
# What was written is read again.
$ tilewright run data/onnx/encoder/model.onnx --input data/onnx/encoder/case.npz -o x.npz >x 2>&1; tilewright run data/onnx/encoder/model.onnx --input x=x.npz --input mask=data/onnx/encoder/case.npz --json | json - outputs.0.shape
  [2,5,16]
# A package has its shapes, type and constants, and takes nothing else.
$ tilewright build data/onnx/encoder/model.onnx -o m.tw --dim batch=1,2 --dim length=5 --dtype f16 --device cpu
> tilewright verify m.tw --golden data/onnx/encoder/case.npz | sed 's/within [0-9.]*/within N/'
> tilewright run m.tw --random --dim batch=3 --dim length=5
> tilewright run m.tw --random --dim batch=2 --dim length=5 --dtype bf16
> head -c 9000 m.tw >cut.tw; tilewright verify cut.tw --golden data/onnx/encoder/case.npz
> (head -c 300 m.tw; printf X; tail -c +302 m.tw) >hit.tw; tilewright run hit.tw --random --dim batch=2 --dim length=5
> echo no >none.tw; tilewright bench none.tw
  m.tw: 2 shapes in f16, 9 steps, 0.0 MB of weights
  agrees with data/onnx/encoder/case.npz: 1 outputs, 160 elements within N of what is allowed
  tilewright: m.tw: the package was built for x f32[1, 5, 16], mask i64[1, 5]
  tilewright: m.tw: and for x f32[2, 5, 16], mask i64[2, 5]
  tilewright: m.tw: the package is of f16, and not of bf16
  tilewright: cut.tw:16: the file has 9000 bytes, and its header says otherwise
  tilewright: hit.tw:56: the description does not have its checksum
  tilewright: none.tw:0: the file is no package
  [1]
# The time of a pass, a row for each combination of extents.
$ tilewright bench data/onnx/encoder/model.onnx --dim batch=1,2 --dim length=3 -r 3 | sed 's/: .* TFLOP.s/: N/'
> tilewright bench data/onnx/encoder/model.onnx --golden data/onnx/encoder/case.npz --device plain -r 2 --json | json - case device correct
  x f32[1, 3, 16], mask i64[1, 3]: N, 8 steps on cpu in f32, correct
  x f32[2, 3, 16], mask i64[2, 3]: N, 8 steps on cpu in f32, correct
  data/onnx/encoder/case.npz
  plain
  true
# What a model becomes.
$ tilewright compile data/onnx/encoder/model.onnx --dim batch=1 --dim length=5 --explain
> tilewright compile data/onnx/encoder/model.onnx --dim batch=1 --dim length=5 | grep -c =
> tilewright compile data/onnx/encoder/model.onnx --dim batch=1 --dim length=5 --dot | head -1
      2  layer norm (14 nodes)
      2  norm's scale (4 nodes)
      2  norm's bias (4 nodes)
      1  GELU (erf) (5 nodes)
      1  attention (5 nodes)
      1  transpose (2 nodes)
      1  attention's heads (8 nodes)
      8  reshape (12 nodes)
      6  product (6 nodes)
      6  product and bias (12 nodes)
      2  product and residual (4 nodes)
      1  product and activation (2 nodes)
      1  products joined (3 nodes)
  12
  digraph model {
# What is missing or wrong is said in a line.
$ tilewright run data/onnx/encoder/model.onnx --random --dim batch=2
> tilewright run data/onnx/encoder/model.onnx --random --dim batch=2 --dim size=2
> tilewright run data/onnx/encoder/model.onnx --random --dim batch=two
> tilewright run data/onnx/encoder/model.onnx --random --dim batch=1,2 --dim length=2
> tilewright run data/onnx/encoder/model.onnx --input y=data/onnx/encoder/case.npz
> tilewright run data/onnx/encoder/model.onnx --input none.tw
> tilewright run data/onnx/encoder/model.onnx --input mask=data/onnx/encoder/case.npz
> tilewright build data/onnx/encoder/model.onnx
> tilewright build data/onnx/encoder/model.onnx -o m.tw --dtype f64 --dim batch=1 --dim length=1
> tilewright run data/onnx/encoder/model.onnx --random --device tpu
> tilewright compile data/onnx/encoder/model.onnx --dot --explain
  tilewright: data/onnx/encoder/model.onnx: dimension "length" of input "x", f32[batch, length, 16], has no extent; "length=N" or the input's content gives it
  tilewright: data/onnx/encoder/model.onnx: no dimension of the model is called "size"; it has "batch", "length"
  tilewright: --dim: "batch=two" is not a dimension's name and its extents, like batch=4 or batch=1,4
  tilewright: run: a dimension has one extent
  tilewright: data/onnx/encoder/model.onnx: the model has no input "y"; its inputs are x, mask
  tilewright: none.tw:0: a field is of a kind that the format does not have
  tilewright: data/onnx/encoder/model.onnx: input "x" has no content; --input x=FILE reads it, and --random draws it
  tilewright: build: needs -o M.tw
  tilewright: dtype: "f64" is not f32, f16 or bf16
  tilewright: device: "tpu" is not auto, cpu, cuda, cuda:N, plain or emulator
  tilewright: compile: --explain, --steps, --launches and --dot exclude one another
  [2]
