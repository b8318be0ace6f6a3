# A search adds what it timed to a store, and export shows it. A second search adds its own, right or wrong.
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> tilewright bench gemm m=64 n=64 k=64 --sampled 50 --measured 3 --generations 0 --store s.db >bench 2>&1; sed -n 1p bench
> tilewright export s.db >a; wc -l <a; head -1 a | json - environment.device space problem unit correct protocol samples.#
> FAKE_CUDA_WRONG=0 tilewright bench gemm m=64 n=48 k=64 --sampled 50 --measured 2 --generations 0 --store s.db >bench 2>&1
> tilewright export s.db >b; wc -l <b; head -3 b | cmp - a && tail -2 b | sed 's/.*"correct"/"correct"/; s/"began.*m/"m/'
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  3
  json: nothing at correct
  Fake H100 number 0
  gemm
  type=f32 m=64 n=64 k=64
  us
  samples=3 caches=cold launches=graph
  3
  5
  {"environment": {"clock_khz": 1980000, "device": "Fake H100 number 0", "driver": "CUDA 13.0", "sms": 132, "tilewright": "0.1.0"}, "space": "gemm", "problem": "type=f32 m=64 n=48 k=64", "config": {"mma": 0, "ms": 4, "ns": 4, "ml": 16, "nl": 32, "u": 32, "ks": 1, "kl": 2, "kg": 1, "vec": 4, "frag": 16, "copy": 0, "stages": 14, "split": 0, "swap": 0, "group": 8, "multicast": 0, "persistent": 0, "pingpong": 0, "stream": 0, "staged": 0, "early": 0, "blocks": 0}, "protocol": "samples=3 caches=cold launches=graph", "unit": "us", "status": "wrong", "samples": [], "message": "1 of 3072 cells are wrong"}
  {"environment": {"clock_khz": 1980000, "device": "Fake H100 number 0", "driver": "CUDA 13.0", "sms": 132, "tilewright": "0.1.0"}, "space": "gemm", "problem": "type=f32 m=64 n=48 k=64", "config": {"mma": 0, "ms": 16, "ns": 8, "ml": 64, "nl": 128, "u": 8, "ks": 1, "kl": 1, "kg": 8, "vec": 4, "frag": 16, "copy": 0, "stages": 2, "split": 3, "swap": 0, "group": 4, "multicast": 0, "persistent": 0, "pingpong": 0, "stream": 0, "staged": 0, "early": 0, "blocks": 0}, "protocol": "samples=3 caches=cold launches=graph", "unit": "us", "status": "wrong", "samples": [], "message": "1 of 3072 cells are wrong"}
# Its raw samples, when they were taken, and its configuration as numbers.
$ head -1 a | json - samples.2 | awk '{printf "%.3f\n", $1}'; head -1 a | json - began config.kl | sed 's/[0-9]/9/g'
  10.000
  9999-99-99T99:99:99Z
  9
# Parts of a store; the autotuners' format, of one problem.
$ p=$(head -1 b | json - problem)
> tilewright export s.db --problem "$p" | cmp - a && tilewright export s.db --space other | wc -l
> tilewright export s.db --format t4 >t; echo $?; tilewright export s.db --format t4 --problem "$p" -o t; json t schema_version results.# results.0.invalidity results.0.correctness results.0.times.runtimes.# results.0.configuration.kl results.0.measurements.0.unit results.0.objectives.0
> tilewright export s.db --format t4 --problem "$(tail -1 b | json - problem)" | json - results.0.invalidity results.0.times.runtimes.# results.0.measurements.#
  0
  tilewright: the format has one problem a file: say which with --problem 'type=f32 m=64 n=64 k=64'
  2
  1.0.0
  3
  correct
  1.0
  3
  2
  ms
  time
  correctness
  0
  0
# What is no store stays as it is.
$ echo text >x; tilewright export x; tilewright export nothing.db; ls nothing.db; tilewright bench gemm m=64 n=64 k=64 --store x | tail -n +2; cat x
  tilewright: x: no store of measurements
  tilewright: nothing.db: cannot open it: unable to open database file
  ls: cannot access 'nothing.db': No such file or directory
  tilewright: x: no store of measurements
  text
$ tilewright export
  tilewright: export: needs STORE (tilewright export --help)
  [2]
$ tilewright export s.db --format xml
  tilewright: export: --format: "xml" is not jsonl, t4 or kernel-tuner
  [2]
# Lines go into another store, once, and come out as they were; a line that is none is named.
$ tilewright import u.db b; tilewright export u.db | sed 's/, "key.*/}/' | cmp - b && tilewright import u.db b
> sed 3s/gemm/7/ b | sed 's/"7"/7/' | tilewright import v.db -; tilewright export v.db | wc -l
> tilewright import x b; tilewright import u.db nothing; tilewright import u.db
  5 measurements added, 0 were there already
  0 measurements added, 5 were there already
  tilewright: -:3:1: no measurement: "space" is missing or out of range
  2 measurements added, 0 were there already
  2
  tilewright: x: no store of measurements
  tilewright: nothing: cannot open: No such file or directory
  tilewright: import: needs STORE FILE (tilewright import --help)
  [2]
