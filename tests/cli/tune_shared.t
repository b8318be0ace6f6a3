# The number of measurements of a campaign that one process runs.
$ echo 'OPENBLAS_NUM_THREADS=1 exec tilewright measure gemm type=bf16 -t 1 --plan waves --reference 0 --range m=16:24 --range n=256:272 --range k=256:320 "$@"' >m
> sh m --store one.db --json >one; json one cut; tilewright export one.db >a
  false
# Each device of a list gets a process. The store has all that they say they measured, and no key twice.
$ sh m --store two.db --device cpu,cpu --json >two; echo $?; wc -l <two; tilewright export two.db >b
> echo $(($(sed -n 1p two | json - measured) + $(sed -n 2p two | json - measured) - $(wc -l <b)))
> sed 's/.*"key": "\([^"]*\)".*/\1/' b | sort | uniq -d | wc -l
  0
  2
  0
  0
# The screens are the same as those of one process.
$ for f in a b; do sed -n 's/.*"key": "\([^"]*|screen|[^"]*\)".*/\1/p' $f | sort >$f.keys; done; cmp a.keys b.keys; test -s a.keys
# Two processes that are started apart share a campaign, too, and both end it.
$ sh m --store three.db --json >p & sh m --store three.db --json >q; wait; json p cut; json q cut; tilewright export three.db >c
> echo $(($(json p measured) + $(json q measured) - $(wc -l <c)))
  false
  false
  0
# A name that is no device is refused, and the other device is measured.
$ sh m --store four.db --device cpu,tpu | wc -l; sh m --store five.db --device tpu,gpu 2>&1 | sort; sh m --store five.db --device tpu,gpu >log 2>&1
  tilewright: --device: "tpu" is not cpu, cuda, cuda:N or recorded
  1
  tilewright: --device: "gpu" is not cpu, cuda, cuda:N or recorded
  tilewright: --device: "tpu" is not cpu, cuda, cuda:N or recorded
  [2]
