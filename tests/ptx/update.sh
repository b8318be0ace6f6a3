#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# update.sh [-b BUILD]: rewrites tests/ptx/golden with what the printer prints now, and shows what changed.
set -eu
R=$(cd "$(dirname "$0")/../.." && pwd)
build=$R/build
[ "${1:-}" = -b ] && build=$2
TILEWRIGHT_GOLDEN=write "$build/tests/test_ptx_golden" >/dev/null || echo "update.sh: test_ptx_golden fails beside that" >&2
git -C "$R" diff -- tests/ptx/golden
