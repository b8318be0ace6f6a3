# SPDX-License-Identifier: Apache-2.0
# What tools/test and tools/check have in common; they source it. The caller has set `tool`, its own name, and stands in
# the repository's root. The last line of either is "N passed, M failed".
jobs=$(nproc)
begin=$(date +%s)
passed=0
name=
log=build/$tool.log
mkdir -p build

# Sanitizers map memory at fixed places, which a kernel that randomises widely may have given away.
fixed=
setarch -R true 2>/dev/null && fixed="setarch -R"

step() {
    name=$1
    echo
    echo "==> [$(($(date +%s) - begin)) s] $name"
}
fail() {
    echo
    echo "tools/$tool: failed at: $name"
    echo "$passed passed, ${1:-1} failed"
    exit 1
}
finish() {
    echo
    echo "everything passed in $(($(date +%s) - begin)) s"
    echo "$passed passed, 0 failed"
}
quietly() { "$@" >"$log" 2>&1 || { tail -60 "$log"; fail; }; }

# build FOLDER COMPILER TARGETS [CMake options]
build() {
    folder=$1 compiler=$2 targets=$3
    shift 3
    quietly env CC=$compiler cmake -G Ninja -S . -B "$folder" "$@"
    quietly cmake --build "$folder" -j "$jobs" --target $targets
}

# tests FOLDER [ctest options]: shows what ctest shows, and counts.
tests() {
    folder=$1
    shift
    status=0
    $fixed ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error "$@" >"$log" 2>&1 || status=$?
    grep -v -e '^ *Start' -e '^Internal ctest' "$log" || true
    count=$(sed -n 's/.* tests passed, \([0-9]*\) tests* failed out of \([0-9]*\)$/\1 \2/p' "$log" | tail -1)
    bad=${count%% *} all=${count##* }
    passed=$((passed + ${all:-0} - ${bad:-0}))
    [ $status = 0 ] || fail "${bad:-1}"
}
