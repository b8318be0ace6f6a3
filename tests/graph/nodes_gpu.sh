#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nodes_gpu.sh PROGRAM ARCHIVE LIST EVERY: ONNX's node tests in a GPU's emulator, one of EVERY. None may be wrong, and
# those that are refused, since a node has no kernel, stand in the list.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$folder.said"' EXIT
tar -xf "$2" -C "$folder"
status=0
"$1" "$folder" --device emulator --every "$4" >"$folder.said" || status=$?
grep '^wrong' "$folder.said" && status=1
grep '^refused' "$folder.said" | sed 's/^refused *//' | while read -r line; do
  grep -qx "${line%%:*}" "$3" || echo "refused $line"
done >"$folder/refused"
[ -s "$folder/refused" ] && status=1
cat "$folder/refused"
grep -q '^passes' "$folder.said" || status=1
exit $status
