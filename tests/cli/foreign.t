# SPDX-License-Identifier: Apache-2.0
# Kernels of others: a file describes them, and a command measures them. This one's times are a formula.
$ cp "$R"/examples/foreign/* .; tilewright measure made_up.json --samples 3000 --store t.db --json >a; json a family wrong failed
> tilewright measure made_up.json --samples 1 --store t.db --json >b; test "$(json b had)" -ge 2000
> tilewright train made_up.json --store t.db -o t.select | tail -1
> tilewright select t.select m=100 n=512 k=1024 | head -1 | sed 's/=[a-z0-9]*/=/g'
> tilewright explain t.select m=100 n=512 k=1024 --json | json - device slots match
> tilewright explain t.select m=100 n=512 k=1024 | sed 's/: .*, [0-9.]* % more$/: C, P % more/;t;s/:.*//'
  made-up-gemm
  0
  40
  t.select
  BM= BN= BK= SPLIT= stages= order=
  a made-up GPU
  32
  unknown
  device
  choice
  predicted
  work
  evidence
  second: C, P % more
  measured on
# Configurations with a result are right, wrong or not supported, and the store has them.
$ cp "$R"/examples/foreign/* .; sed 's/"runner.py"/&, "--fault=wrong"/' made_up.json >wrong.json
> tilewright measure wrong.json --samples 200 --store w.db --json >a; json a wrong failed; tilewright export w.db >w; grep '"wrong"' w | head -1 | json - config.SPLIT message; grep '"unsupported"' w | head -1 | json - message
  84
  4
  4
  3 of 9 cells are wrong
  too many registers
# All of it in one run, and again from what was recorded, without the command.
$ cp "$R"/examples/foreign/* .; tilewright tune made_up.json --budget 0 --problems 3 --store all.db -o all.select --report r.html | sed 's/[0-9][0-9.]*/N/g' | tail -2
> sed 's/python3/none/' made_up.json >r.json; RECORDED="--device recorded --store all.db"
> tilewright train r.json $RECORDED -o r.select | tail -1; cmp all.select r.select && echo the same artefact
> tilewright eval made_up.json --problems 2 --seed 1000 --store all.db --artefact all.select --json | sed 1d >e; head -1 e | json - correct wrong of.thumb.of_best >/dev/null && echo judged
> tilewright eval r.json $RECORDED --problems 2 --seed 1000 --artefact r.select --json | sed 1d | cmp e - && echo the same figures
> tilewright measure r.json --store all.db
  r.html
  select has N % of the oracle's speed (N % of problems below N %, worst N %) and N times the default's, on N held-out problems
  r.select
  the same artefact
  judged
  the same figures
  tilewright: r.json: the command "none -B runner.py": cannot run: No such file or directory
  [1]
# A command that ends, dies, is silent or writes what is no result ends the measurement with a line.
$ cp "$R"/examples/foreign/* .; for fault in mute greeting exit die sleep endless text list twice index status negative many none early; do
>   sed "s/\"runner.py\"/&, \"--fault=$fault\"/" made_up.json >x.json; [ $fault != sleep ] || sed -i 's/"timeout": 60/"timeout": 1.5/' x.json
>   tilewright measure x.json --store x.db 2>&1 | sed 's/ wrote ".*": / wrote "...": /'; done
  tilewright: x.json: the command "python3 -B runner.py --fault=mute" ended too early, with status 0
  tilewright: x.json: the command "python3 -B runner.py --fault=greeting" wrote "...": the first line tells no environment with a device
  tilewright: x.json: the command "python3 -B runner.py --fault=exit" ended too early, with status 3
  tilewright: x.json: the command "python3 -B runner.py --fault=die" ended too early, by signal 9
  tilewright: x.json: the command "python3 -B runner.py --fault=sleep" said nothing for 1.5 s
  tilewright: x.json: the command "python3 -B runner.py --fault=endless" wrote a line of more than 1048576 bytes
  tilewright: x.json: the command "python3 -B runner.py --fault=text" wrote "...": that is no JSON object
  tilewright: x.json: the command "python3 -B runner.py --fault=list" wrote "...": that is no JSON object
  tilewright: x.json: the command "python3 -B runner.py --fault=twice" wrote "...": the configuration has a result already
  tilewright: x.json: the command "python3 -B runner.py --fault=index" wrote "...": "config" is no number of a configuration
  tilewright: x.json: the command "python3 -B runner.py --fault=status" wrote "...": "status" is not right, wrong or unsupported
  tilewright: x.json: the command "python3 -B runner.py --fault=negative" wrote "...": "samples" are not as many times above 0 as were asked for
  tilewright: x.json: the command "python3 -B runner.py --fault=many" wrote "...": "samples" are not as many times above 0 as were asked for
  tilewright: x.json: the command "python3 -B runner.py --fault=none" wrote "...": "samples" are not as many times above 0 as were asked for
  tilewright: x.json: the command "python3 -B runner.py --fault=early" wrote "...": there are configurations without a result
# Ctrl-C ends the command too, and nobody is left.
$ cp "$R"/examples/foreign/* .; sed "s|\"runner.py\"|\"$PWD/runner.py\", \"--fault=sleep\"|" made_up.json >x.json
> timeout --foreground --preserve-status -k 9 -s INT 3 env --default-signal=INT tilewright measure x.json --store c.db --json >c; json c cut; grep -la "$PWD/[r]unner" /proc/[0-9]*/cmdline 2>/dev/null | wc -l
  true
  0
# After kill -9 the command ends with its input.
$ cp "$R"/examples/foreign/* .; sed "s|\"runner.py\"|\"$PWD/runner.py\", \"--fault=slow\"|" made_up.json >x.json
> tilewright measure x.json --store k.db & until tilewright export k.db 2>&1 | grep -q '"right"'; do sleep 0.2; done; kill -9 $!
> for i in $(seq 100); do grep -la "$PWD/[r]unner" /proc/[0-9]*/cmdline >pid 2>/dev/null; [ -s pid ] || break; sleep 0.1; done; wc -c <pid
  0
# A limit that even the smallest problem is above ends nothing.
$ cp "$R"/examples/foreign/* .; sed 's/.*"parameters"/"most_work": 1,&/' made_up.json >x.json; timeout 20 tilewright measure x.json --samples 1 --store one.db --json | json - wrong
  0
# The plan by waves, also with groups that multiply the grid, and what the file says of grids.
$ cp "$R"/examples/foreign/* .; tilewright measure made_up.json --plan waves --samples 1500 --store v.db --json | json - wrong
> sed 's/"axes": \[/&{"name": "groups", "least": 1, "most": 16}, /; s/"parameters"/"rows": "m", "columns": "n", &/; s/"grid": "/&groups * /; s/made-up/grouped/' made_up.json >g.json
> tilewright measure g.json --plan waves --store g.db --json >a; json a wrong cut; tilewright export g.db | grep -c points.groups=4
> tilewright train g.json --device recorded --store g.db -o g.select | sed 's/[0-9][0-9.]*/N/g'
> tilewright explain g.select groups=3 m=640 n=512 k=1024 --json | json - choice.source
> sed 's/"grid": .*/"grid": "ceil(m \/ BM)",/' made_up.json >x.json; tilewright measure x.json --plan waves --store x2.db
  0
  0
  false
  456
  grouped-gemm: form wave, N samples, RN N, mean error N %; its choices have N % of the best on N screened problems
  g.select
  model
  tilewright: made-up-gemm has no points by waves, which need tiles of rows and of columns on two axes, and of rounds
  [2]
# What is wrong with a description is said in a line.
$ cp "$R"/examples/foreign/* .; try() { sed "$1" made_up.json >x.json; tilewright measure x.json --samples 1 --store y.db; }
> try 's/made-up-gemm/gemm-cpu-f32/'
> try 's/"command": .*/"command": [],/'
> try 's/python3/no such program/'
> try 's/"timeout": 60/"timeout": 0/'
> try 's/"timeout"/"time"/'
> try 's/"name": "n"/"name": "m"/'
> try 's/"most": 8192/"most": 128/'
> try 's/"name": "BN"/"name": "BM"/'
> try 's/\[64, 128\]/[64, 64]/'
> try 's/\[64, 128\]/[64, "a"]/'
> try 's/"role": "macro"/"role": "micro"/'
> try 's/"micro"/"mini"/'
> try 's/<= shared/<= shared +/'
> try 's/<= shared/<= mystery/'
> try 's/<= shared/< 0/'
> try 's/ceil(m/ceil(o/'
> try 's/ceil(n/ceil(m/'
> try 's/\* SPLIT"/* stages"/'
> try 's/"ceil(k/"2 * ceil(k/'
> try 's/.*"parameters"/"work": "m - 64",&/'
> try 's/.*"parameters"/"work": "m * sms * m * m * m * m * m",&/'
> try 's/sms \* 2/sms - 16/'
> try 's/"slots": .*//'
> try 's/{"least": "SPLIT/{"fewest": "SPLIT/'
> try 's/"BM": 64, "BN": 64/"BM": 66, "BN": 64/'
> try 's/m <= 256/m <= BM/'
> try 's/"by": "library"/"by": "a library"/'
> try 's/\]$/,/'
> tilewright measure none.json
> tilewright measure made_up.json type=f16
> tilewright measure made_up.json -t 2
> tilewright measure made_up.json --device cuda
> tilewright train made_up.json --device recorded --store none.db
> tilewright import z.db a >/dev/null 2>&1; tilewright train made_up.json --device recorded --store z.db
  tilewright: x.json: "name" is not a name of small letters, digits, "-", "_" and "." that no family of Tilewright's has
  tilewright: x.json: "command" is not a list of a program and its arguments
  tilewright: x.json: the command "no such program -B runner.py": cannot run: No such file or directory
  tilewright: x.json: "timeout" is not a number of seconds above 0
  tilewright: x.json: the description: "time" is an unknown field
  tilewright: x.json: axis 2: "name" is not a name of at most 16 letters and digits that no other axis has
  tilewright: x.json: axis "k": "least", "most" and "step" are not numbers from 1 to 16777216
  tilewright: x.json: "parameters": a "name" is not a name that no axis and no other parameter has
  tilewright: x.json: parameter "BN": value 2 is there already
  tilewright: x.json: parameter "BN": value 2 is not a whole number
  tilewright: x.json: "parameters": none is macro
  tilewright: x.json: "parameters": a "role" is not macro or micro
  tilewright: x.json: "constraints": "stages * (BM + BN) * BK * 2 <= shared +": a value is missing at character 40
  tilewright: x.json: "constraints": "stages * (BM + BN) * BK * 2 <= mystery": an unknown name at character 32
  tilewright: x.json: no configuration fulfils all constraints
  tilewright: x.json: "grid": "ceil(o / BM) * ceil(n / BN) * SPLIT": an unknown name at character 6
  tilewright: x.json: "grid": "ceil(m / BM) * ceil(m / BN) * SPLIT": an axis that is a factor already at character 28
  tilewright: x.json: "grid": "ceil(m / BM) * ceil(n / BN) * stages": an unknown name at character 31
  tilewright: x.json: "rounds" has a factor that is no axis
  tilewright: x.json: "work" is 0, not from 1 to 9223372036854775807
  tilewright: x.json: "work": "m * sms * m * m * m * m * m": a value that does not fit into 64 bits at character 24
  tilewright: x.json: "slots" is 0, not from 1 to 65535
  tilewright: x.json: "slots" is missing
  tilewright: x.json: "rules": "fewest" is not multiple, least or most
  tilewright: x.json: "default" is none of the configurations
  tilewright: x.json: "when": "m <= BM": an unknown name at character 6
  tilewright: x.json: library: "by" is not a name with a whole number or a word
  tilewright: x.json:30:1: invalid JSON: unexpected token near '}'
  tilewright: none.json: cannot open: No such file or directory
  tilewright: "type=f16": a description has no further words
  tilewright: -t: the command of made_up.json decides how many threads it has
  tilewright: --device: "cuda" is not recorded; the command of made_up.json decides what it runs on
  tilewright: none.db: cannot open it: unable to open database file
  tilewright: z.db has no measurements of made-up-gemm
  [2]
