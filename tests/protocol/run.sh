#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Verifies the models beside it with SPIN: every interleaving of small instances. `holds OPTIMISATION MODEL PARAMETERS`
# must be free of errors, searched to the end, with no statement that is never executed; `breaks MODEL ERROR PARAMETERS` must
# show that error, which is what tells that the properties bite. A line each. Exits with 77 (skipped, to CTest) where there is no spin.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v spin >/dev/null || {
    echo "skipped: no spin here (tools/deps test installs it; Debian calls it spin)"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
begin=$(date +%s)

# explore OPTIMISATION MODEL DEFINITIONS: the verifier's report into `report`. -b: a path that was cut short is an error.
# Errors are found at once, and small instances end soon, so that compiling is what takes time.
explore() {
    optimise=$1 model=$2
    shift 2
    rm -f pan*
    spin -a "$@" "$here/$model.pml" >report 2>&1 &&
        ${CC:-cc} "$optimise" -w -DSAFETY -DMEMLIM=1024 -o pan pan.c >>report 2>&1 &&
        ./pan -b -m200000 -w22 >>report 2>&1 || echo "could not be run" >>report
}

# line VERDICT MODEL DEFINITIONS
line() {
    verdict=$1 model=$2
    shift 2
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' report)
    seconds=$(sed -n 's/^pan: elapsed time \([0-9.e+-]*\) seconds/\1/p' report)
    printf '%-9s %-48s %9s states %6s s  %s\n' "$model" "$(echo "$*" | sed 's/-D//g')" "${states:--}" "${seconds:--}" "$verdict"
}

bad() {
    line "$@"
    sed 's/^/    /' report | tail -40
    failures=$((failures + 1))
}

# OPTIMISATION MODEL PARAMETERS
holds() {
    explore "$@"
    shift
    if ! grep -q 'errors: 0$' report || grep -q -e 'could not be run' -e 'max search depth' -e 'not completed' report; then
        bad "WRONG: should hold" "$@"
    elif grep '([0-9]* of [0-9]* states)' report | grep -qv '(0 of '; then
        bad "WRONG: has statements that are never executed" "$@"
    else
        line holds "$@"
    fi
}

# ERROR: lost (somebody waits for ever) or assertion (memory read or written at the wrong time)
breaks() {
    model=$1 error=$2
    shift 2
    explore -O0 "$model" "$@"
    case $error in
    lost) pattern='invalid end state' ;;
    *) pattern='assertion violated' ;;
    esac
    if grep -q 'errors: [1-9]' report && grep -q "^pan:1: $pattern" report; then
        line "breaks, as it should: $error" "$model" "$@"
    else
        bad "WRONG: should break: $error" "$model" "$@"
    fi
}

# Few workers at length, more for shorter, most where nobody sleeps. Who waits has arrived itself, so three workers are at most
# two arrivals away from a target, which a counter modulo 4 can just tell.
holds -O0 counters -DN=2 -DEPOCHS=5
holds -O0 counters -DN=3 -DEPOCHS=5
holds -O0 counters -DN=3 -DMOD=4
holds -O0 counters -DN=3 -DLATE
holds -O1 counters -DN=4 -DEPOCHS=2
holds -O0 counters -DN=4 -DEPOCHS=3 -DSPIN_ONLY
holds -O0 launch -DN=2 -DLAUNCHES=6
holds -O0 launch -DN=3 -DLAUNCHES=5
holds -O0 launch -DN=3 -DLAUNCHES=5 -DSPARE
holds -O0 ring -DN=2 -DSTAGES=3 -DTILES=12
holds -O0 ring -DN=3 -DSTAGES=2 -DTILES=8
holds -O0 ring -DN=3 -DSTAGES=3 -DTILES=9
holds -O1 ring -DN=4 -DSTAGES=2 -DTILES=6 -DMOD=8
holds -O0 ring -DN=4 -DSTAGES=3 -DTILES=12 -DMOD=8 -DSPIN_ONLY

breaks counters lost -DBROKEN_SILENT
breaks counters lost -DBROKEN_LOOK_FIRST
breaks counters lost -DBROKEN_BLIND
breaks counters lost -DBROKEN_BLIND -DLATE
breaks counters lost -DBROKEN_WAKE_ONE
breaks counters lost -DBROKEN_RESET
breaks counters assertion -DBROKEN_COMPARE
breaks counters assertion -DN=3 -DMOD=2
breaks counters assertion -DN=4 -DMOD=4
breaks counters assertion -DBROKEN_PARTIAL_JOIN
breaks counters assertion -DBROKEN_ARRIVE_FIRST
breaks counters assertion -DBROKEN_STEPS_OVERLAP
breaks launch lost -DBROKEN_LOOK_FIRST
breaks launch assertion -DBROKEN_PUBLISH_LATE
breaks launch assertion -DBROKEN_JOB_UNSETTLED
breaks launch assertion -DBROKEN_RUN_UNSETTLED -DSPARE
breaks launch assertion -DBROKEN_QUIT_UNSETTLED -DSPARE
breaks ring lost -DBROKEN_LOOK_FIRST
breaks ring lost -DBROKEN_RESET
breaks ring assertion -DBROKEN_COMPARE
breaks ring assertion -DBROKEN_CREDIT_EARLY
breaks ring assertion -DBROKEN_WINDOW -DMOD=8
breaks ring assertion -DBROKEN_READ_EARLY
breaks ring assertion -DBROKEN_FULL_EARLY
breaks ring assertion -DBROKEN_FREE_EARLY

echo "$(($(date +%s) - begin)) s"
[ $failures = 0 ] || echo "$failures instances are wrong"
[ $failures = 0 ]
