#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# update.sh [-b BUILD] NAME...: rewrites the transcripts with what the command prints now, and shows what changed.
set -eu
R=$(cd "$(dirname "$0")/../.." && pwd)
build=$R/build
[ "${1:-}" = -b ] && { build=$2; shift 2; }
for name; do
    t=$R/tests/cli/$name.t
    new=$(mktemp)
    sh "$R/tests/cli/run.sh" --play "$build" "$name" >"$new"
    diff -u "$t" "$new" || cat "$new" >"$t"
    rm -f "$new"
done
