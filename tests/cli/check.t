# SPDX-License-Identifier: Apache-2.0
# Unsafe edits of an accepted schedule, each rejected; shown is the first finding under the rule that it breaks.
$ tilewright compile models/demo --workers 2 -c 64 -o s.json && tilewright check s.json
  s.json: 66 instructions for 2 workers, 34 counters, 78 buffers
  s.json: accepted: 66 instructions on 2 workers, 34 counters, every interleaving of every step
$ cat >reject <<'END'
> [ $# = 1 ] || sed "$2" s.json >u.json; cmp -s s.json u.json && echo "the edit changes nothing"
> tilewright check u.json >found; echo "exit $?"; grep -m1 ": $1: " found || cat found
> END
# A wait is dropped.
$ sh reject race '/"arrive": "0.ffn"/s/"wait": \[\["0.project", 2\]\]/"wait": []/'
  exit 1
  u.json: workers[0][4] project: race: writes x [0..1, 0..1, bytes 0..512], which workers[1][4] ffn reads; nothing orders them
# A threshold too small: the first arrival of two lets it pass.
$ sh reject 'partial join' 's/\["2.attend", 2\]/["2.attend", 1]/'
  exit 1
  u.json: workers[0][14] project: partial join: waits for 1 arrivals at 2.attend, which gets 2 a step: it may pass before all producers ran
# A threshold too large: it is never met.
$ sh reject deadlock 's/\["2.attend", 2\]/["2.attend", 3]/'
  exit 1
  u.json: workers[0][14] project: deadlock: waits for 3 arrivals at 2.attend, which gets 2 a step
# A counter that does not start at zero.
$ sh reject 'counter init' 's/{"name": "1.qkv", "init": 0}/{"name": "1.qkv", "init": 1}/'
  exit 1
  u.json: counter 1.qkv: counter init: starts at 1: waits would pass before their producers ran
# Rows beyond the matrix.
$ sh reject shape '/"op": "head"/s/"from": 2048, "to": 4096/"from": 2048, "to": 4112/'
  exit 1
  u.json: workers[1][31] head: shape: head: range 2048..4112 is not within 0..4096
# Two workers write the same rows.
$ sh reject race '/"arrive": "3.ffn"/s/"from": 384, "to": 768/"from": 368, "to": 768/'
  exit 1
  u.json: workers[0][20] ffn: race: writes h [0..1, 0..1, bytes 0..1536], which workers[1][19] ffn writes; nothing orders them
# Rows that nobody writes are read.
$ sh reject coverage '/"arrive": "3.ffn"/s/"from": 384, "to": 768/"from": 400, "to": 768/'
  exit 1
  u.json: workers[0][21] project: coverage: reads h [0..1, 0..1, bytes 0..3072], parts of which were written 3 times and parts 4 times
# Two instructions change places: workers wait for each other.
$ awk '/"arrive": "1.qkv"/ && !done { held = $0; next } { print } held != "" { print held; held = ""; done = 1 }' s.json >u.json
> sh reject deadlock
  exit 1
  u.json: workers[0][7] attend: deadlock: no worker can go on: workers[0][7] attend waits for 1.qkv
# A cycle of two: each waits for what the other does after waiting.
$ sh reject deadlock '/"head_from": 2.*"arrive": "2.attend"/s/\["2.qkv", 2\]/["2.project", 2]/'
  exit 1
  u.json: workers[0][14] project: deadlock: no worker can go on: workers[0][14] project waits for 2.attend; workers[1][12] attend waits for 2.project
# A wait for what comes later on the same worker.
$ sh reject deadlock '/"arrive": "2.ffn"/s/\["2.project", 2\]/["2.down", 2]/'
  exit 1
  u.json: workers[0][15] ffn: deadlock: no worker can go on: workers[0][15] ffn waits for 2.down
# An activation is read that nobody wrote.
$ sh reject 'undefined read' '/"arrive": "0.qkv"/s/"x": "x"/"x": "y"/; s/^  {"name": "x", .*/&\n  {"name": "y", "kind": "activation", "dtype": "f32", "shape": [1, 1, 256]},/'
  exit 1
  u.json: workers[1][1] qkv: undefined read: reads y [0..1, 0..1, bytes 0..1024], part of which nothing before it has written
# A wait for another counter than the one that counts.
$ sh reject race '/"arrive": "4.ffn"/s/"4.project"/"3.project"/'
  exit 1
  u.json: workers[0][24] project: race: writes x [0..1, 0..1, bytes 0..512], which workers[1][24] ffn reads; nothing orders them
# An arrival at another counter.
$ sh reject deadlock '/"arrive": "4.ffn"/s/"arrive": "4.ffn"/"arrive": "3.ffn"/'
  exit 1
  u.json: workers[0][26] project: deadlock: waits for 2 arrivals at 4.ffn, which gets 0 a step
# A weight is written.
$ sh reject read-only '/"arrive": "5.down"/s/"x": "x"/"x": "layers.5.attn.o"/'
  exit 1
  u.json: workers[0][31] project: read-only: operand x must be of kind activation, but layers.5.attn.o is of kind weight
# An output is not written whole.
$ sh reject coverage '/"op": "head"/s/"from": 2048, "to": 4096/"from": 2048, "to": 4080/'
  exit 1
  u.json: logits: coverage: part of this output is never written
# The step ends before a worker is done.
$ sh reject 'not joined' '/"op": "output"/s/"wait": \[\["head", 2\]\]/"wait": []/'
  exit 1
  u.json: workers[0][33] output: not joined: the step may end before workers[1][31] head has run
# As JSON, with the same status.
$ sed 's/\["2.attend", 2\]/["2.attend", 3]/' s.json | tilewright check - --json >r.json; echo $?; json r.json accepted findings.# findings.0.rule
  1
  false
  2
  deadlock
$ tilewright check s.json --json | json - accepted findings.#
  true
  0
# What is no schedule at all.
$ sed 's/"op": "ffn"/"op": "fnf"/' s.json | tilewright check -
  tilewright: -: workers[0][5]: unknown op fnf
  [1]
$ sed 's/"wait": \[\["head", 2\]\]/"wait": [["heap", 2]]/' s.json | tilewright check -
  tilewright: -: workers[0][33]: a wait is [counter, threshold], the counter by name
  [1]
$ sed 's/"slot": 0/"slto": 0/' s.json | tilewright check -
  tilewright: -: workers[0][32]: unknown field slto
  [1]
$ sed 's/"tokens": 1,/"tokens": 0,/' s.json | tilewright check -
  tilewright: -: schedule: 1 <= tokens <= max_seq does not hold
  [1]
$ sed 's/"tilewright_schedule": 1/"tilewright_schedule": 2/' s.json | tilewright check -
  tilewright: -: schedule: unknown format version
  [1]
# What is ordered around a race, a run that reaches it, and a picture of who waits for whom.
$ sed '/"arrive": "0.ffn"/s/"wait": \[\["0.project", 2\]\]/"wait": []/' s.json >u.json; tilewright check u.json --explain --dot u.dot | grep -m1 -A1 ': race: '; grep -c fillcolor u.dot; tail -1 u.dot
  u.json: workers[0][4] project: race: writes x [0..1, 0..1, bytes 0..512], which workers[1][4] ffn reads; nothing orders them
    workers[0][4] project comes after workers[1][2] attend of that worker, not after workers[1][4] ffn. workers[1][4] ffn comes after workers[0][3] attend of that worker, not after workers[0][4] project. Shortest run: workers[0] does 4, workers[1] does 4, 8 instructions in all; then both may run at once
  3
  }
