#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# select.sh BENCH_SELECT WRONG: the bench's decisions are right; a program that decides wrongly once, WRONG, says so and
# prints no time, whether the decision is timed or not.
set -u
bad=0
fail() {
    echo "select.sh: $*"
    bad=1
}

out=$("$1" --check) || fail "--check: exit status $?"
case $out in
*_ns*) fail "--check printed times: $out" ;;
*'"checked": 32768, "correct": true}') ;;
*) fail "--check printed: $out" ;;
esac
"$1" --what 2>/dev/null
[ $? = 2 ] || fail "a word that is none was taken"

# The first decisions are held to the reference, the second of each problem being remembered; then follow, timed, those of
# one problem again, of new ones, and of new ones with the tables flushed.
for at in 99:--check 100:--check 100: 40000: 300000: 545000:; do
    out=$(WRONG_AT=${at%:*} "$2" ${at#*:} 2>&1)
    [ $? = 1 ] || fail "decision $at is wrong: exit status"
    case $out in
    *_ns* | *true*) fail "decision $at is wrong: printed $out" ;;
    *'decisions are wrong') ;;
    *) fail "decision $at is wrong: said $out" ;;
    esac
done
exit $bad
