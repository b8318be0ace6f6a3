# SPDX-License-Identifier: Apache-2.0
# A step on two workers: what each did, and what it waited for. Times differ from run to run.
$ tilewright trace models/demo -t 2 -r 1 --context 20 >out; head -2 out | sed '1s/,.*//; s/, [0-9.]* µs;.*//'
  models/demo: decode of 1 token after 20
  2 tracks, 214 events, 129 edges
$ sed 1,4d out | awk '{print $1, $2, $3}' | sed 's/ [0-9]*\.[0-9]*$//' | sort
  arrive 66
  attend 12
  down 12
  embed 2
  ffn 12
  head 2
  input 1
  launch 1
  output 1
  project 12
  qkv 12
  wait attend 12
  wait down 12
  wait embed 2
  wait ffn 12
  wait head 1
  wait input 2
  wait launch 1
  wait project 12
  wait qkv 12
# The same as JSON. A prompt of 40 tokens is one step.
$ tilewright trace models/demo -t 1 -r 1 --prefill 40 --json >t.json; json t.json title unit tracks events edges dropped
  models/demo: prefill of 40 tokens after 0
  ns
  1
  110
  33
  0
$ json t.json regions.0.kind regions.0.events length clean traced | sed 's/[1-9][0-9]*\.[0-9]*/POSITIVE/'
  region
  6
  POSITIVE
  POSITIVE
  POSITIVE
# Several steps, into a file.
$ tilewright trace models/demo -t 1 -r 1 --steps 3 -o t.txt | sed 's/,.*//; 1q'; sed 's/,.*//; 1q' t.txt
  models/demo: decode of 3 tokens after 0
  models/demo: decode of 3 tokens after 0
$ tilewright trace models/demo -t 1 -r 1 --format summary -o - | grep -c '^qkv '
  1
# Wrong use.
$ tilewright trace
  tilewright: trace: needs MODEL (tilewright trace --help)
  [2]
$ tilewright trace models/demo --format summary
  tilewright: --format is of the file that -o names
  [2]
$ tilewright trace models/demo --format svg -o t.svg
  tilewright: --format: "svg" is not summary
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
