#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD: executes every block marked ```sh run of README.md, CONTRIBUTING.md and docs/*.md, from the repository root
# and with `tilewright` of that build. A page is one script that ends at the first failure; files that it makes go
# to $TMPDIR, or to build/, which is a folder of this run. Links within the pages must lead to a file.
set -eu
build=$(cd "$1" && pwd)
R=$(cd "$(dirname "$0")/../.." && pwd)
work=$build/scratch/docs
rm -rf "$work"
mkdir -p "$work/tree/build" "$work/tmp"
# The repository as a page's reader sees it, but with a build folder of its own.
for f in "$R"/*; do case ${f##*/} in build | build-*) ;; *) ln -s "$f" "$work/tree/" ;; esac; done
ln -s "$build/tilewright" "$work/tree/build/tilewright"
PATH=$build/tests/bin:$build:$PATH
TMPDIR=$work/tmp
: "${TILEWRIGHT_CACHE:=$work/cache}"
export PATH TMPDIR TILEWRIGHT_CACHE
cd "$work/tree"
bad=0 pages=0
for page in README.md CONTRIBUTING.md docs/*.md; do
    [ -e "$page" ] || continue
    awk '/^```sh run *$/ { on = 1; next } /^```/ { on = 0 } on' "$page" >"$work/script"
    [ -s "$work/script" ] || continue
    pages=$((pages + 1))
    if sh -eux "$work/script" >"$work/log" 2>&1 </dev/null; then
        echo "$page: $(grep -c . "$work/script") lines ran"
    else
        echo "$page: an example failed:"
        tail -20 "$work/log"
        bad=1
    fi
done
# Links between pages lead somewhere.
for page in README.md CONTRIBUTING.md docs/*.md; do
    for link in $(grep -o ']([^):]*)' "$page" | sed 's/^](//; s/#.*//; s/)$//'); do
        [ -e "$(dirname "$page")/$link" ] || { echo "$page: leads to $link, which is not there"; bad=1; }
    done
done
[ $pages -gt 0 ] || { echo "no examples found"; bad=1; }
exit $bad
