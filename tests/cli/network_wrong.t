# SPDX-License-Identifier: Apache-2.0
# Wrong uses of ONNX models and packages: one line, which says where, what, and what would be right.
#
# Files that are no models.
$ mkdir d.onnx; : >e.onnx; : >e.tw; printf 'hello\n' >t.onnx; head -c 30 data/onnx/encoder/model.onnx >c.onnx
> for f in e.onnx t.onnx c.onnx d.onnx absent.onnx e.tw absent.tw; do tilewright run $f; echo $?; done
  tilewright: e.onnx:0: the file has no graph of the ONNX format
  1
  tilewright: t.onnx:2: a field is of a kind that the format does not have
  1
  tilewright: c.onnx:14: a field is longer than what it is in
  1
  tilewright: d.onnx: not a regular file
  1
  tilewright: absent.onnx: cannot open: No such file or directory
  1
  tilewright: e.tw:0: the file is no package
  1
  tilewright: absent.tw: cannot open: No such file or directory
  1
# Dimensions: unknown, missing, too large, none.
$ M="data/onnx/encoder/model.onnx"; r() { tilewright run $M --random "$@" -o - >out.npz 2>err; s=$?; [ $s = 0 ] || cat err; echo $s; }
> r --dim batch=1 --dim size=3; r --dim batch=1; r --dim batch=99999999999999999999 --dim length=8
> r --dim batch=9999999999999999 --dim length=8; r --dim batch=1 --dim batch=2 --dim length=8; r --dim batch=1 --dim length=0
  tilewright: data/onnx/encoder/model.onnx: no dimension of the model is called "size"; it has "batch", "length"
  2
  tilewright: data/onnx/encoder/model.onnx: dimension "length" of input "x", f32[batch, length, 16], has no extent; "length=N" or the input's content gives it
  2
  tilewright: --dim: "batch=99999999999999999999" is not a dimension's name and its extents, like batch=4 or batch=1,4
  2
  tilewright: data/onnx/encoder/model.onnx: input "x" would be f32[9999999999999999, 8, 16], and arrays have fewer than 2^48 elements
  2
  tilewright: data/onnx/encoder/model.onnx: dimension "batch" is given twice, as 2 and as 1
  2
  0
# Inputs that are larger than memory are not drawn.
$ M="data/onnx/encoder/model.onnx"; for d in cpu emulator; do tilewright run $M --random --dim batch=1099511627776 --dim length=8 --device $d 2>err; echo $?; sed "s/[0-9.]* GB of/N GB of/" err; done
  1
  tilewright: data/onnx/encoder/model.onnx: input "x" takes 562950.0 GB, and N GB of memory are free
  1
  tilewright: data/onnx/encoder/model.onnx: input "x" takes 562950.0 GB, and N GB of memory are free
# Nor are those of f8, which a model here hands on.
$ printf '\010\011B\002\020\025:4\012\020\012\001x\022\001y"\010IdentityZ\017\012\001x\022\012\012\010\010\021\022\004\012\002\010\001b\017\012\001y\022\012\012\010\010\021\022\004\012\002\010\001' >f8.onnx; tilewright run f8.onnx --random; echo $?
  tilewright: f8.onnx: input "x" has elements of e4m3fn, which cannot be drawn
  1
# Inputs: missing, of another type, of another shape, of types that NumPy has alone; and both ways to say extents.
$ M="data/onnx/encoder/model.onnx"; C=data/onnx/encoder/case.npz; npy() { printf "\223NUMPY\1\0\166\0%-117s\n" "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"; }
> (npy '<f8' 0,5,16) >f8.npy; (npy '<f4' 0,5) >rank.npy; (npy '<U1' 0,5,16) >text.npy
> for f in f8 rank text; do tilewright run $M --input x=$f.npy --random; echo $?; done
> tilewright run $M --input x=$C; echo $?; tilewright run $M --input q=$C; echo $?; tilewright run $M --input x=absent.npy; echo $?
> tilewright verify $M --golden f8.npy; echo $?; tilewright verify $M --golden $C --dim batch=2; echo $?; tilewright bench $M --golden $C --dim batch=2; echo $?
  tilewright: data/onnx/encoder/model.onnx: input "x" is f32[batch, length, 16], and not f64[0, 5, 16]
  2
  tilewright: data/onnx/encoder/model.onnx: input "x" is f32[batch, length, 16], and not f32[0, 5]
  2
  tilewright: text.npy:10: elements of type '<U1' are not supported
  1
  tilewright: data/onnx/encoder/model.onnx: input "mask" has no content; --input mask=FILE reads it, and --random draws it
  2
  tilewright: data/onnx/encoder/model.onnx: the model has no input "q"; its inputs are x, mask
  2
  tilewright: absent.npy: cannot open: No such file or directory
  1
  tilewright: f8.npy: the file is no zip of arrays, as numpy.savez writes it
  1
  tilewright: verify: extents are those of --golden, or of --dim, not of both
  2
  tilewright: bench: inputs are those of --golden, or of --dim and --input, not of both
  2
# Types and devices.
$ M="data/onnx/encoder/model.onnx"; r() { tilewright run $M --random --dim batch=1 --dim length=2 "$@" >out; echo $?; }
> r --dtype f8; r --device cuda; r --device gpu; r --products all; r -t -1; r -t 1025; r --seconds -1; r -p hello
  tilewright: dtype: "f8" is not f32, f16 or bf16
  2
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  1
  tilewright: device: "gpu" is not auto, cpu, cuda, cuda:N, plain or emulator
  2
  tilewright: --products: "all" is not best, own or vendor
  2
  tilewright: -t: -1 is not within 0..1024
  2
  tilewright: -t: 1025 is not within 0..1024
  2
  tilewright: --seconds: -1 is not within 0..1000000
  2
  tilewright: run: unknown flag -p (tilewright run --help)
  2
# Outputs that cannot be written are refused before anything is computed. A device is written to, and stays one.
$ M="data/onnx/encoder/model.onnx"; r() { tilewright run $M --random --dim batch=1 --dim length=2 "$@" >out; echo $?; }
> ln -s /dev/full full.npz; ln -s /dev/full full.tw; r -o absent/o.npz --input x=absent.npy; r -o .; r -o full.npz; r -o - --json; [ -c /dev/full ] && echo device
> b() { tilewright build $M --dim batch=1 --dim length=2 "$@" >out; echo $?; }
> b -o absent/m.tw; b -o full.tw; b -o m.bin; b -o - --json; b; echo *.bin
  tilewright: absent/o.npz: cannot write: No such file or directory
  1
  tilewright: .: cannot write: Is a directory
  1
  tilewright: full.npz: cannot write: No space left on device
  1
  tilewright: run: --json and -o - both write to standard output
  2
  device
  tilewright: absent/m.tw: cannot write: No such file or directory
  1
  tilewright: full.tw: cannot write: No space left on device
  1
  tilewright: -o: "m.bin" does not end with .tw, by which packages are known
  2
  tilewright: build: --json and -o - both write to standard output
  2
  tilewright: build: needs -o M.tw
  2
  *.bin
# What goes to standard output is a file.
$ M="data/onnx/encoder/model.onnx"; tilewright build $M --dim batch=1 --dim length=2 -o - 2>/dev/null >p.tw; tilewright verify p.tw --dim batch=1 --dim length=2 | cut -d: -f1
> tilewright run p.tw --random --dim batch=1 --dim length=2 -o - 2>/dev/null >o.npz; head -c 2 o.npz; echo
  agrees with the model, node by node
  PK
# What a package has, and does not take.
$ tilewright build data/onnx/encoder/model.onnx --dim batch=1 --dim length=2 -o m.tw >out; tilewright compile m.tw --dim batch=1 --dim length=2 --explain; echo $?; tilewright run m.tw --random --dim batch=2 --dim length=2; echo $?
> tilewright run m.tw --random --dim batch=1 --dim length=2 --dtype f16; echo $?
        1  programs' graphs in f32
       16  constants (0.0 MB)
  0
  tilewright: m.tw: the package was built for x f32[1, 2, 16], mask i64[1, 2]
  1
  tilewright: m.tw: the package is of f32, and not of f16
  2
# Killed while it builds: no package, or a whole one.
$ M="data/onnx/encoder/model.onnx"; b() { exec tilewright build $M --dim batch=1,2,3,4 --dim length=64,128 -o k.tw >/dev/null 2>&1; }
> for s in KILL INT TERM; do for delay in 0.002 0.02 0.04 0.06 0.08 0.1 0.15 0.2 0.3; do
>     rm -f k.tw; b & sleep $delay; kill -$s $!; wait $! 2>/dev/null; [ ! -e k.tw ] || tilewright verify k.tw --dim batch=4 --dim length=128 >out 2>&1 || echo torn at $delay
> done; done 2>/dev/null; echo done
  done
# A time with wrong outputs is no success: the golden outputs' last bytes are changed here.
$ cat >spoil.py <<'END'
> import sys, zipfile
> with zipfile.ZipFile(sys.argv[1]) as a, zipfile.ZipFile(sys.argv[2], "w") as b:
>     for name in a.namelist():
>         data = a.read(name)
>         b.writestr(name, data[:-4] + b"\0\0\x80\x44" if name.startswith("out_") else data)
> END
> M="data/onnx/encoder/model.onnx"; python3 spoil.py data/onnx/encoder/case.npz bad.npz; tilewright bench $M --golden bad.npz --device cpu -r 2 >out; echo $?; sed "s,: .*TFLOP.s,: N," out
  tilewright: data/onnx/encoder/model.onnx: 1 of the times are of wrong outputs
  1
  bad.npz: N, 8 steps on cpu in f32, WRONG
# A difference is said with the file that has it, and an emulator takes no times.
$ M="data/onnx/encoder/model.onnx"; tilewright verify $M --golden bad.npz 2>err; echo $?; sed "s/is [0-9.]* here/is N here/" err; tilewright bench $M --dim batch=1 --dim length=2 --device emulator; echo $?
  1
  tilewright: bad.npz: output "y": element 159 is N here and 1024 in the file
  tilewright: data/onnx/encoder/model.onnx: an emulator's passes have no times; a GPU's have
  1
