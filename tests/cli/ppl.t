# SPDX-License-Identifier: Apache-2.0
# The value is golden.json's.
$ tilewright ppl models/demo -f models/demo/heldout.txt -c 256 --json >p.json; json models/demo/golden.json perplexity.value
> json p.json perplexity tokens context | sed 's/^\(25\.92[0-9]\).*/\1/'
  25.92208434479809
  25.922
  10302
  256
$ tilewright ppl models/demo -f - -c 256 <models/demo/heldout.txt | sed 's/\(25\.92\)[0-9]*/\1/; s/(.*)/()/'
  perplexity 25.92 over 10302 tokens in windows of 256 ()
# A file of choices may have fewer positions than a window.
$ echo '{"max_seq": 100}' >few.json; head -c 2000 models/demo/heldout.txt | tilewright ppl models/demo -f - --config few.json --json | json - context
  100
# Quantisation costs what PROVENANCE.md says, or less.
$ for w in int8 int4; do tilewright ppl models/demo -f models/demo/heldout.txt -c 256 --weights $w --json | json - perplexity | cut -c1-4; done
  25.9
  26.0
$ printf In | tilewright ppl models/demo -f - | sed 's/perplexity [0-9.]*/perplexity/; s/ in windows.*//'
  perplexity over 1 tokens
$ : | tilewright ppl models/demo -f -
  tilewright: (standard input): too short: one token predicts nothing
  [1]
