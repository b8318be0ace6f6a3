#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nodes.sh PROGRAM ARCHIVE: ONNX's node tests whose operators are supported, all of them, must pass.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xf "$2" -C "$folder"
status=0
"$1" "$folder" >"$folder.said" || status=$?
grep -v '^passes' "$folder.said" || status=1
want=$(ls "$folder" | wc -l)
grep -qx "$want tests: $want pass, 0 are refused, 0 are wrong" "$folder.said" || status=1
rm -f "$folder.said"
exit $status
