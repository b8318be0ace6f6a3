#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exports.sh PROGRAM ARCHIVE GOLDEN: models that exporters wrote become the nodes that GOLDEN says.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xf "$2" -C "$folder"
status=0
"$1" "$folder" >"$folder/said" || status=$?
diff "$3" "$folder/said" || status=1
exit $status
