#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# report.sh BUILD: opens the report of `tilewright tune` in a browser without a screen. Its script must have drawn every
# plot, with the points that are expected. Skipped (77) where there is no browser, or the command has no Chart.js.
set -eu
build=$(cd "$1" && pwd)
work=$build/scratch/tune_report
rm -rf "$work"
mkdir -p "$work"
cd "$work"
browser=
for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null && { browser=$name; break; }
done
[ -n "$browser" ] || { echo "skipped: no chromium here"; exit 77; }

# Prints what the page's script says after it ran.
drawn() {
    HOME=$work timeout 60 $browser --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --virtual-time-budget=5000 --dump-dom "file://$work/$1" 2>"$work/browser.log" >"$work/dom.html" ||
        { tail -5 "$work/browser.log"; echo "the browser failed"; exit 1; }
    sed -n 's/.*id="drawn"[^>]*>\([^<]*\)<.*/\1/p' "$work/dom.html"
}

export OPENBLAS_NUM_THREADS=1
"$build/tilewright" tune gemm type=bf16 -t 1 --plan waves --range m=16:40 --range n=256:320 --range k=256:512 --budget 0 --problems 4
! grep -q 'The plots are missing' gemm.html || { echo "skipped: this build has no Chart.js"; exit 77; }
said=$(drawn gemm.html)
echo "$said"
# The points of the series. Each of seven strategies has a staircase, with a point for each of four problems and one at
# its foot. The strategies, the vendors' best and the oracle have a bar each. By problem, select, the oracle and vendors
# have four points. Predictions have four points, and their line has two.
case $said in
"ok 5+5+5+5+5+5+5 9 4+4+4 4+2 "*" 1+1+1+1+1") ;;
*) echo "that is not what was to be drawn"; exit 1 ;;
esac
plots=$(grep -c '<canvas' gemm.html)
[ "$(echo "$said" | wc -w)" = $((plots + 1)) ] || { echo "$plots plots are in the page"; exit 1; }
echo "$said" | grep -qE '(^|[ +])0([ +]|$)' && { echo "a series is empty"; exit 1; }

# The test sees a plot that cannot be drawn.
sed 's/<canvas id="plot1"/<canvas id="other"/' gemm.html >broken.html
said=$(drawn broken.html)
case $said in
failed:*) ;;
*) echo "a plot without a canvas was not seen: $said"; exit 1 ;;
esac
