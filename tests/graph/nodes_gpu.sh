#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nodes_gpu.sh PROGRAM ARCHIVE EVERY: the same in a GPU's emulator, one of EVERY. All have kernels there.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$folder.said"' EXIT
tar -xf "$2" -C "$folder"
status=0
"$1" "$folder" --device emulator --every "$3" >"$folder.said" || status=$?
grep -v '^passes' "$folder.said" | grep -v ' 0 are refused, 0 are wrong$' && status=1
grep -q '^passes' "$folder.said" || status=1
exit $status
