#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# evidence.sh BENCH_DECODE: in the emulator, a machine that answers rightly is found correct, one whose answer at a context is
# spoiled is not, there and nowhere else, and what nothing judged is neither.
set -eu
bench=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

# Two sequences, the second some positions shorter; launches at the first position, within and at the cache's end.
run() { "$bench" --emulate --shape llama-tiny --batch 2 --tokens 2 --launches 1 --cache 8 --depths 1,5 --contexts end "$@"; }

# verdicts FILE: of each row, its context or depth, whether it is evidence, and the verdict.
verdicts() {
    sed -n 's/.*context \([0-9]*\)".*"correct": \([a-z]*\)}/context \1 \2/p; s/.*"depth": \([0-9]*\),.*"correct": \([a-z]*\)}/depth \1 \2/p' "$1" |
        tr '\n' ';'
}

# expect STATUS VERDICTS, after a run into $dir/out.
expect() {
    got=$(verdicts "$dir/out")
    if [ "$status" = "$1" ] && [ "$got" = "$2" ]; then return; fi
    echo "$what: status $status, $got"
    echo "    instead of   $1, $2"
    cat "$dir/out"
    bad=1
}

what=right status=0
run >"$dir/out" || status=$?
expect 0 "context 1 true;context 5 true;context 8 true;depth 1 true;depth 5 true;"
grep -q 'context 1".*"tokens_equal": 4, "tokens_close": 0, "tokens_wrong": 0' "$dir/out" || {
    echo "two tokens of each of two sequences are not equal"
    bad=1
}

# Four positions more, of two sequences: keys and values of 2 layers, 2 heads of 16, two bytes each.
bytes() { sed -n 's/.*"depth": '"$1"',.*"bytes": \([0-9]*\),.*/\1/p' "$dir/out"; }
[ $(($(bytes 5) - $(bytes 1))) = $((4 * 2 * 2 * 2 * 2 * 16 * 2)) ] || { echo "bytes: $(bytes 1), $(bytes 5)"; bad=1; }

# The last context's answer is the one that is spoiled.
for spoil in logit nan token; do
    what="spoiled $spoil" status=0
    run --batch 1 --depths 4 --contexts 1 --spoil $spoil >"$dir/out" || status=$?
    expect 1 "context 1 true;context 4 false;depth 4 false;"
done

what="not judged" status=0
run --unchecked --depths 2 >"$dir/out" || status=$?
expect 0 "depth 2 null;"

# A reference elsewhere: its file whole, too short, too long, and none.
what="served" status=0
: >"$dir/err"
until_says() {
    for _ in $(seq 600); do
        if grep -q "$1" "$2"; then return; fi
        sleep 0.2
    done
    echo "never said: $1"
}
{
    printf 'check\nanswer\njudge processor\ntime 5\n'
    until_says '"depth": 5' "$dir/out" >&2
    cp "$dir/reference.f32" "$dir/whole"
    head -c -4 "$dir/whole" >"$dir/reference.f32"
    printf 'judge short\n'
    until_says 'too few logits' "$dir/err" >&2
    { cat "$dir/whole"; printf x; } >"$dir/reference.f32"
    printf 'judge long\n'
    until_says 'too many logits' "$dir/err" >&2
    rm "$dir/reference.f32"
    printf 'judge none\n'
} | run --serve "$dir" >"$dir/out" 2>"$dir/err" || status=$?
grep -v -e '"long".*null' -e '"short".*null' "$dir/out" >"$dir/kept"
mv "$dir/kept" "$dir/out"
expect 1 "context 1 true;context 5 true;context 8 true;depth 5 true;context 1 null;context 5 null;context 8 null;"
[ "$(wc -c <"$dir/whole")" = $((3 * 2 * 2 * 256 * 4)) ] || { echo "the reference's file has another size"; bad=1; }

# Wrong use.
for words in "--depths 0" "--depths 5000" "--batch 9" "--tokens 0" "--what" "--depths"; do
    status=0
    run $words >"$dir/out" 2>&1 || status=$?
    [ "$status" = 2 ] || { echo "$words: status $status"; bad=1; }
done
# Launches that overlap would change what an earlier one read.
status=0
run --batch 1 --depths 4,5 >"$dir/out" 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'context 5 is not 2 positions beyond' "$dir/out" || { echo "overlapping launches pass"; bad=1; }
exit $bad
