# SPDX-License-Identifier: Apache-2.0
# A schedule decides its workers and its context; what is asked for beside it must agree.
$ tilewright compile data/models/llama-biases --workers 2 -c 24 -o s.json
> run() { tilewright run data/models/llama-biases --ids 1,5,9 -n 4 --quiet "$@" 2>&1; }; run -t 2 >1; run -t 2 --schedule s.json >2; cmp 1 2 && cat 2
  s.json: 26 instructions for 2 workers, 14 counters, 48 buffers
  tilewright: data/models/llama-biases: no tokenizer.json: ids only
  191,209,29,147
$ tilewright run data/models/llama-biases --ids 1,5,9 -n 4 -t 2 -c 25 --schedule s.json
  tilewright: s.json is for a context of 24, not 25
  [2]
$ tilewright run data/models/llama-biases --ids 1,5,9 -n 4 -t 2 -c 24 --schedule s.json --quiet
  tilewright: data/models/llama-biases: no tokenizer.json: ids only
  191,209,29,147
$ tilewright run data/models/llama-biases --ids 1,5,9 -n 40 -t 2 --schedule s.json --json | json - finish ids.#
  context
  22
$ tilewright run data/models/llama-biases --ids 1 -t 2 --schedule nothing.json
  tilewright: nothing.json: cannot open: No such file or directory
  [1]
# Its steps may be of several positions, of which decoding takes one.
$ tilewright compile data/models/llama-biases --workers 2 -c 24 --tokens 3 -o s3.json; tilewright run data/models/llama-biases --ids 1,5,9 -n 4 -t 2 --schedule s3.json --quiet
  s3.json: 26 instructions for 2 workers, 14 counters, 48 buffers
  tilewright: s3.json takes 3 positions a step; a decode schedule takes one
  [2]
