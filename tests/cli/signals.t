# SPDX-License-Identifier: Apache-2.0
# What happens when a command is cut short.
#
# Ctrl-C while text is generated, while the prompt is awaited, and while a model is measured: gone within two seconds.
$ cut() { timeout --foreground --preserve-status -k 3 -s INT "$@" >/dev/null 2>&1
> case $? in 0) echo "went on" ;; 137) echo "had to be killed" ;; *) echo stopped ;; esac; }
> run="env --default-signal=INT tilewright"
> mkfifo pipe; sleep 5 >pipe & cut 0.3 $run run models/demo -p - <pipe
> sleep 5 >pipe & cut 0.3 $run chat data/chat-model <pipe
> cut 0.5 $run run models/demo -p x -n 100000 -c 100000 --ignore-eos --isa none -t 1
> cut 0.5 $run bench --shape llama-1b -t 1
> cut 0.3 $run ppl models/demo -f models/demo/heldout.txt --isa none -t 1
  stopped
  stopped
  stopped
  stopped
  stopped
# A reader that goes away ends the command.
$ tilewright run models/demo -p x -n 100000 -c 100000 --ignore-eos --quiet | head -c 20 | wc -c | tr -d ' '
  20
# Killed while it writes: no file, or a whole one.
$ tilewright compile --shape llama-8b --workers 64 -o whole.json >/dev/null
> for delay in 0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.15 0.2 0.3 0.5; do
>     rm -f s.json; tilewright compile --shape llama-8b --workers 64 -o s.json >/dev/null & sleep $delay; kill -9 $!; wait $! 2>/dev/null
>     [ ! -e s.json ] || cmp s.json whole.json || echo torn at $delay
> done 2>/dev/null; echo done
  done
