#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD NAME: plays the transcript tests/cli/NAME.t and compares. A transcript holds remarks (#), commands ($, and >
# for lines that go on), and what they print, indented by two, with their exit status in brackets unless it is 0.
# Commands run in an empty folder with `tilewright` and `json` on PATH and $R for the repository; models/ and data/
# are links to models/ and tests/data/, and there is no GPU unless the transcript names a driver. run.sh --play prints the transcript as it is now (update.sh uses it).
set -u
play=
[ "$1" = --play ] && { play=1; shift; }
build=$(cd "$1" && pwd)
R=$(cd "$(dirname "$0")/../.." && pwd)
t=$R/tests/cli/$2.t
work=$build/scratch/cli_$2
rm -rf "$work"
mkdir -p "$work/in" && cd "$work/in" || exit 1
ln -s "$R/models" models
ln -s "$R/tests/data" data
PATH=$build/tests/bin:$build:$PATH
: "${TILEWRIGHT_CACHE:=$work/cache}"
LC_ALL=C
TILEWRIGHT_LIBCUDA=none
TILEWRIGHT_POWERCAP=none
export R PATH TILEWRIGHT_CACHE TILEWRIGHT_LIBCUDA TILEWRIGHT_POWERCAP LC_ALL

perform() {
    sh -c "$1" >"$work/out" 2>&1 </dev/null
    status=$?
    # A last line without an end is shown as one.
    sed -e "s|$R|REPOSITORY|g" -e "s|$work/in|HERE|g" -e 's/^/  /' -e '$a\' "$work/out"
    [ $status = 0 ] || echo "  [$status]"
}

command=
while IFS= read -r line || [ -n "$line" ]; do
    case $line in
    '> '*) ;;
    *) [ -n "$command" ] && perform "$command"; command= ;;
    esac
    case $line in
    '$ '*) command=${line#??}; printf '%s\n' "$line" ;;
    '> '*) command="$command
${line#??}"; printf '%s\n' "$line" ;;
    '  '*) ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$t" >"$work/now"
[ -n "$command" ] && perform "$command" >>"$work/now"

if [ -n "$play" ]; then
    cat "$work/now"
elif ! diff -u "$t" "$work/now"; then
    echo "tests/cli/$2.t: differs (tests/cli/update.sh $2 takes the new output over)"
    exit 1
fi
