# SPDX-License-Identifier: Apache-2.0
# A step on two workers: what each did, and what it waited for. Times differ from run to run.
$ tilewright trace models/demo -t 2 -r 1 --context 20 >out; sed 's/^.*: 2 tracks of/2 tracks of/; s/ on [12] cores//; s/, [0-9.]* us$//; 2q' out
  models/demo: decode of 1 token after 20
  2 tracks of 1 blocks, 214 events
$ grep -o '^  [a-z][a-z_ ]* \(iteration\|region\|wait\|mark\)  *[a-z]*  *[0-9]*' out | sed 's/   */ /g' | sort
   arrive region sync 66
   attend region alu 12
   down region alu 12
   embed region alu 2
   ffn region alu 12
   head region alu 2
   input region alu 1
   launch region sync 1
   launched mark none 1
   layer iteration none 12
   output region alu 1
   project region alu 12
   qkv region alu 12
   step iteration none 2
   wait attend wait sync 12
   wait down wait sync 12
   wait embed wait sync 2
   wait ffn wait sync 12
   wait head wait sync 1
   wait input wait sync 2
   wait launch wait sync 1
   wait project wait sync 12
   wait qkv wait sync 12
# The same as JSON. A prompt of 40 tokens is one step.
$ tilewright trace models/demo -t 1 -r 1 --prefill 40 --json >t.json; json t.json title unit tracks events edges dropped
  models/demo: prefill of 40 tokens after 0
  ns
  1
  110
  33
  0
$ json t.json roles.# roles.0.role roles.0.tracks roles.0.regions.0.name roles.0.regions.1.count
  1
  worker
  1
  step
  6
$ json t.json length clean traced | sed 's/[1-9][0-9]*\.[0-9]*/POSITIVE/'
  POSITIVE
  POSITIVE
  POSITIVE
# Several steps, into files of each format; which one is in the name, or said.
$ for f in t.pftrace t.json t.txt t; do tilewright trace models/demo -t 1 -r 1 --steps 3 -o $f | head -1; done
  models/demo: decode of 3 tokens after 0
  models/demo: decode of 3 tokens after 0
  models/demo: decode of 3 tokens after 0
  models/demo: decode of 3 tokens after 0
$ for f in t t.pftrace; do head -c 1 $f | od -An -tx1; done; json t.json otherData.title; head -1 t.txt
   0a
   0a
  models/demo: decode of 3 tokens after 0
  models/demo: decode of 3 tokens after 0
$ tilewright trace models/demo -t 1 -r 1 --format summary -o - | grep -c '^  qkv '
  1
$ tilewright trace models/demo -t 1 -r 1 --format chrome -o - | json - otherData.unit
  ns
$ tilewright trace models/demo -t 1 -r 1 -o t.trace --format chrome --json | json - file
  t.trace
# Decoding by a schedule, of more workers than there may be processors.
$ tilewright compile models/demo --workers 3 -c 16 -o s.json; tilewright trace models/demo --schedule s.json -r 1 --json | json - tracks
  s.json: 98 instructions for 3 workers, 34 counters, 78 buffers
  3
# Wrong use.
$ tilewright trace
  tilewright: trace: needs MODEL|kernel gemm|attention WORD... (tilewright trace --help)
  [2]
$ tilewright trace models/demo --format summary
  tilewright: --format is of the file that -o names
  [2]
$ tilewright trace models/demo --format svg -o t.svg
  tilewright: --format: "svg" is not perfetto, chrome, html or summary
  [2]
$ tilewright trace models/demo -o nowhere/t.txt
  tilewright: nowhere/t.txt: cannot write: No such file or directory
  [1]
$ tilewright trace models/demo --prefill 3 --steps 2
  tilewright: --steps are decode's: not with --prefill
  [2]
$ tilewright trace models/demo --context -1
  tilewright: --context, --steps, --prefill, -r: out of range
  [2]
$ tilewright trace models/demo -c 8 --context 8
  tilewright: 1 tokens after 8 others do not fit the context of 8
  [2]
$ tilewright trace models/demo --device cuda
  tilewright: no NVIDIA driver: none: cannot open shared object file: No such file or directory
  [1]
$ tilewright trace models/nothing
  tilewright: models/nothing: not a directory
  [1]
