# SPDX-License-Identifier: Apache-2.0
# Outputs of an ONNX model beside those of a .npz file.
$ E="$R/tests/data/onnx/encoder"; tilewright verify "$E/model.onnx" --golden "$E/case.npz" | sed 's/within [0-9.]*/within N/;s|with .*/case|with case|'
> tilewright verify "$E/model.onnx" --golden "$E/case.npz" --json | json - agrees device outputs elements
> for d in plain emulator; do tilewright verify "$E/model.onnx" --golden "$E/case.npz" --device $d --dtype f16 | sed 's/within [0-9.]*/within N/;s|with .*/case|with case|'; done
> tilewright verify "$E/model.onnx" --dim batch=2 --dim length=6 | sed 's/within [0-9.]*/within N/'
  agrees with case.npz: 1 outputs, 160 elements within N of what is allowed
  true
  cpu
  1
  160
  agrees with case.npz: 1 outputs, 160 elements within N of what is allowed on plain
  agrees with case.npz: 1 outputs, 160 elements within N of what is allowed on emulator
  agrees with the model, node by node: 1 outputs, 192 elements within N of what is allowed
# What is missing or damaged is said in a line.
$ E="$R/tests/data/onnx/encoder"; tilewright verify "$E/model.onnx"; echo $?
> head -c 9000 "$E/model.onnx" >m.onnx; tilewright verify m.onnx --golden "$E/case.npz"; echo $?
> head -c 900 "$E/case.npz" >c.npz; tilewright verify "$E/model.onnx" --golden c.npz; echo $?
> tilewright verify "$E/model.onnx" --golden absent.npz; echo $?
  tilewright: REPOSITORY/tests/data/onnx/encoder/model.onnx: dimension "batch" of input "x", f32[batch, length, 16], has no extent; "batch=N" or the input's content gives it
  2
  tilewright: m.onnx:14: a field is longer than what it is in
  1
  tilewright: c.npz: the file is no zip of arrays, as numpy.savez writes it
  1
  tilewright: absent.npz: cannot open: No such file or directory
  1
