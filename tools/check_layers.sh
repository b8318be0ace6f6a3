#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A room may include headers of itself and of the rooms before it in this list, nothing else of ours.
set -eu
cd "$(dirname "$0")/.."
rooms="base space device ir ptx emu prof kernels select tune tokenizer model schedule vm engine search serve cli"
bad=0
rank() { i=0; for r in $rooms; do i=$((i + 1)); [ "$r" = "$1" ] && { echo $i; return; }; done; echo 0; }
for f in $(find src -name '*.[ch]' | sort); do
    room=$(echo "$f" | cut -d/ -f2)
    mine=$(rank "$room")
    [ "$mine" -gt 0 ] || { echo "$f: no such room: $room"; bad=1; continue; }
    for inc in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f"); do
        case $inc in
        tilewright/kernel.h) other=kernels ;;
        tilewright/*) other=$(basename "$inc" .h) ;;
        */*) other=${inc%%/*} ;;
        *) echo "$f: include \"$inc\" by its room (\"$room/...\")"; bad=1; continue ;;
        esac
        theirs=$(rank "$other")
        [ "$theirs" -gt 0 ] || { echo "$f: \"$inc\" names no room"; bad=1; continue; }
        [ "$theirs" -le "$mine" ] || { echo "$f: $room may not include \"$inc\": $other comes after it"; bad=1; }
    done
done
for h in include/tilewright/*.h; do
    for cc in "cc -std=c17 -x c" "c++ -std=c++17 -x c++"; do
        $cc -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only "$h" || { echo "$h: does not compile alone ($cc)"; bad=1; }
    done
done
exit $bad
