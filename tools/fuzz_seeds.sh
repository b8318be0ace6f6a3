# SPDX-License-Identifier: Apache-2.0
# fuzz_seeds NAME FOLDER: copies what a fuzzer begins with into FOLDER; tools/check and tools/fuzz read this file.
fuzz_seeds() {
    mkdir -p "$2"
    [ ! -d "tests/fuzz/corpus/$1" ] || cp -r "tests/fuzz/corpus/$1/." "$2"
    [ "$1" = onnx ] || return 0
    # Every tenth model of ONNX's node tests.
    tar -tf tests/data/onnx/node.tar.xz | grep '/model\.onnx$' | awk 'NR % 10 == 1' >"$2.list"
    mkdir -p "$2.models"
    tar -xf tests/data/onnx/node.tar.xz -C "$2.models" -T "$2.list"
    while read -r f; do cp "$2.models/$f" "$2/$(echo "$f" | tr / _)"; done <"$2.list"
    rm -rf "$2.models" "$2.list"
}
