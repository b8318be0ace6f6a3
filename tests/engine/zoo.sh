#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# zoo.sh TILEWRIGHT ARCHIVE: models as three exporters write them agree with onnxruntime, on every machine and from packages.
set -eu
export TILEWRIGHT_LIBCUDA=none
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xf "$2" -C "$folder"
status=0
agrees() {
    "$1" verify "$2" --golden "$3/case.npz" --device "$4" --dtype "$5" >"$folder/said" 2>&1 && return
    echo "$(basename "$3"), $4, $5: $(cat "$folder/said")"
    status=1
}
for model in "$folder"/*-*; do
    for device in plain cpu emulator; do
        for dtype in f32 f16; do agrees "$1" "$model/model.onnx" "$model" $device $dtype; done
    done
    if ! "$1" build "$model/model.onnx" -o "$folder/m.tw" --dim batch=1,2 --dim sequence=7 --dtype bf16 --device cpu >"$folder/said" 2>&1; then
        echo "$(basename "$model"): $(cat "$folder/said")"
        status=1
    fi
    agrees "$1" "$folder/m.tw" "$model" cpu bf16
done
[ "$(ls -d "$folder"/*-* | wc -l)" = 9 ] || status=1
exit $status
