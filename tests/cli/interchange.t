# Kernel Tuner's cache goes into a store, also one whose writer was interrupted; a second time nothing is added.
$ D=data/kernel_tuner; tilewright import s.db $D/open.json; tilewright import s.db $D/cache.json; tilewright import s.db $D/cache.json
> tilewright export s.db | sed -n 2p | json - space problem config.block_size_x config.FACTOR config.FAULT status message samples.# protocol
  5 measurements added, 0 were there already
  1 measurements added, 5 were there already
  0 measurements added, 6 were there already
  scale
  x=4096
  64
  0.5
  1
  unsupported
  CompilationFailedConfig
  0
  from=kernel-tuner
# It comes out as a cache, and another store that reads it has the same.
$ tilewright export s.db --format kernel-tuner -o c.json; json c.json device_name kernel_name problem_size.0 tune_params_keys.# tune_params.FACTOR.1 objective.0
> tilewright import t.db c.json; tilewright export s.db >s; tilewright export t.db | cmp - s
  
  scale
  4096
  3
  1e20
  time
  6 measurements added, 0 were there already
# T4 of others has no names. A description in T1 gives them, and is the space that results lie in.
$ D=data/kernel_tuner; tilewright import u.db $D/t4.json
> tilewright import u.db $D/t4.json --t1 $D/t1.json; tilewright export u.db | head -1 | json - environment.device space problem
> tilewright export u.db --format t4 -o t4.json; tilewright import v.db t4.json; tilewright export u.db >u; tilewright export v.db | cmp - u
  tilewright: data/kernel_tuner/t4.json: it does not say its device: say it with --device
  0 measurements added, 0 were there already
  6 measurements added, 0 were there already
  A processor
  scale
  x=4096
  6 measurements added, 0 were there already
$ D=data/kernel_tuner; sed 's/== 64"/== 4"/; s/in .64, 128./== 3/' $D/t1.json >t1; tilewright import w.db $D/t4.json --t1 t1
  tilewright: data/kernel_tuner/t4.json: results[1]: it does not meet "FAULT == 0 or block_size_x == 3" of t1
  1 measurements added, 0 were there already
  [1]
$ D=data/kernel_tuner; sed 's/"\[64, 512\]"/"[64, x]"/' $D/t1.json >t1; tilewright import w.db $D/t4.json --t1 t1
  tilewright: t1: TuningParameters "block_size_x": "Values": "[64, x]", character 6: the name is unknown
  [1]
$ D=data/kernel_tuner; sed 's/FAULT == 0/FAULTS == 0/' $D/t1.json >t1; tilewright import w.db $D/t4.json --t1 t1
  tilewright: t1: Conditions[0]: "FAULTS == 0 or block_size_x in [64, 128]", character 1: the name is unknown
  0 measurements added, 0 were there already
  [1]
$ D=data/kernel_tuner; tilewright import w.db $D/t1.json; tilewright import w.db s --space k
  tilewright: data/kernel_tuner/t1.json: T1 describes a problem and has no results: give it to --t1, and a file of results
  0 measurements added, 0 were there already
  tilewright: s: lines have names of their own: flags are for T4 and caches
  0 measurements added, 0 were there already
  [2]
# Results become trials of a campaign.
$ tilewright import x.db data/kernel_tuner/cache.json --device "My GPU" --space scale --problem n=4096 --campaign kt; tilewright export x.db | tail -1 | json - environment.device problem key
  6 measurements added, 0 were there already
  My GPU
  n=4096
  kt|spread|n=4096|block_size_x=512 FACTOR=1e+20 FAULT=0
# Messages have the place of what is wrong.
$ D=data/kernel_tuner; sed 's/"FAULT": 1/"fault": 1/' $D/cache.json >c; tilewright import y.db c; sed 's/, "t/ "t/' $D/cache.json >c; tilewright import y.db c
> sed 's/"compile"/"tired"/' $D/t4.json >c; tilewright import y.db c --device d --space s --problem p=1; tilewright export y.db | wc -l
  tilewright: c: cache "64,0.5,1": it has no value of "FAULT"
  1 measurements added, 0 were there already
  tilewright: c:28:65: invalid JSON: '}' expected near '"time"'
  0 measurements added, 0 were there already
  tilewright: c: results[1]: "invalidity" is not correct, correctness, constraints, compile, runtime or timeout
  1 measurements added, 0 were there already
  2
# A cache has one problem, space and environment, and at least one measurement.
$ sed 's/x=4096/x=8192/' s | sed 's/"key": "./"key": "x/' >other; tilewright import s.db other; tilewright export s.db --format kernel-tuner
> tilewright export s.db --format kernel-tuner --problem x=4096 | cmp - c.json
  6 measurements added, 0 were there already
  tilewright: the format has one problem a file: say which with --problem 'x=4096'
$ tilewright export s.db --format kernel-tuner --environment None
  tilewright: there are no such measurements: a cache has at least one
  [2]
$ tilewright import u.db t.json; tilewright export s.db --environment '{"device": ""}' | wc -l
  tilewright: t.json: cannot open: No such file or directory
  12
