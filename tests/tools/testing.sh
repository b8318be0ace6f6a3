#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tools/test and tools/check say last, and their status, with a stand-in for ctest: counts of several runs are added, and
# a run that fails ends them.
set -eu
R=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/tree"
cat >"$dir/bin/ctest" <<'END'
#!/bin/sh
for last; do :; done
case $last in
good) echo "100% tests passed, 0 tests failed out of 7" ;;
one) echo "100% tests passed, 0 tests failed out of 1" ;;
bad) echo "60% tests passed, 4 tests failed out of 10"; exit 8 ;;
none) echo "No tests were found!!!"; exit 8 ;;
esac
END
chmod +x "$dir/bin/ctest"
bad=0

# expect STATUS LAST-LINE RUN...
expect() {
    want=$1 line=$2
    shift 2
    status=0
    (
        cd "$dir/tree"
        PATH=$dir/bin:$PATH
        tool=test
        . "$R/tools/testing.sh"
        step "a step"
        for run; do
            case $run in
            fail) fail ;;
            quietly) quietly false ;;
            *) tests build "$run" ;;
            esac
        done
        finish
    ) >"$dir/out" 2>&1 || status=$?
    if [ "$status" = "$want" ] && [ "$(tail -1 "$dir/out")" = "$line" ]; then return; fi
    echo "$*: status $status, $(tail -1 "$dir/out") instead of $want, $line"
    bad=1
}
expect 0 "8 passed, 0 failed" good one
expect 1 "13 passed, 4 failed" good bad one
expect 1 "7 passed, 1 failed" good none
expect 1 "7 passed, 1 failed" good fail
expect 1 "0 passed, 1 failed" quietly good
exit $bad
