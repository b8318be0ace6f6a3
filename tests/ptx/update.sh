#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# update.sh [-b BUILD]: rewrites tests/ptx/golden with what the printer prints now, and shows what changed.
set -eu
R=$(cd "$(dirname "$0")/../.." && pwd)
build=$R/build
[ "${1:-}" = -b ] && build=$2
for t in test_ptx_golden test_ptx_spelling; do
    TILEWRIGHT_GOLDEN=write "$build/tests/$t" >/dev/null || echo "update.sh: $t fails beside that" >&2
done
git -C "$R" diff -- tests/ptx/golden
