# A search adds what it timed to a store, and export shows it. A second search adds its own, right or wrong.
$ export TILEWRIGHT_LIBCUDA=$(dirname "$(command -v tilewright)")/tests/libfake_cuda.so TILEWRIGHT_LIBCUBLASLT=none
> tilewright bench gemm m=64 n=64 k=64 --sampled 50 --measured 3 --generations 0 --store s.db >bench 2>&1; sed -n 1p bench
> tilewright export s.db >a; wc -l <a; head -1 a | json - environment.device space problem unit correct protocol samples.#
> FAKE_CUDA_WRONG=0 tilewright bench gemm m=64 n=48 k=64 --sampled 50 --measured 2 --generations 0 --store s.db >bench 2>&1
> tilewright export s.db >b; wc -l <b; head -3 b | cmp - a && tail -2 b | sed 's/.*"correct"/"correct"/; s/"began.*m/"m/'
  Fake H100 number 0, driver CUDA 13.0, no cuBLASLt here
  3
  Fake H100 number 0
  gemm
  type=f32 m=64 n=64 k=64
  us
  true
  samples=3 caches=cold launches=graph
  3
  5
  "correct": false, "samples": [], "message": "1 of 3072 cells are wrong"}
  "correct": false, "samples": [], "message": "1 of 3072 cells are wrong"}
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
  tilewright: T4 has one problem a file: say which with --problem "type=f32 m=64 n=64 k=64"
  2
  1.0.0
  3
  correct
  1.0
  3
  1
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
  tilewright: export: --format: "xml" is not jsonl or t4
  [2]
