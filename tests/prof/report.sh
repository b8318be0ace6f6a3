#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# report.sh BUILD: opens reports of traces in a browser without a screen. Every row and bar must have been drawn, be where
# it can be seen, and have a label; zooming, pointing and keys must work. Skipped (77) where there is no browser.
set -eu
build=$(cd "$1" && pwd)
work=$build/scratch/prof_report
rm -rf "$work"
mkdir -p "$work"
cd "$work"
browser=
for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null && { browser=$name; break; }
done
[ -n "$browser" ] || { echo "skipped: no chromium here"; exit 77; }

# Opens a page, with a script that runs when it is loaded, and leaves what becomes of it in dom.html.
open_page() {
    { sed 's/<\/body>//; s/<\/html>//' "$1"; echo "<script>$2</script></body></html>"; } >page.html
    HOME=$work timeout 60 $browser --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --window-size=1200,900 --virtual-time-budget=5000 --dump-dom "file://$work/page.html" 2>"$work/browser.log" >"$work/dom.html" ||
        { tail -5 "$work/browser.log"; echo "the browser failed"; exit 1; }
}
drawn() { sed -n 's/.*id="drawn"[^>]*>\([^<]*\)<.*/\1/p' dom.html; }
expect() {
    [ "$2" = "$3" ] || { echo "$1: \"$2\" instead of \"$3\""; exit 1; }
    echo "$1: $2"
}

"$build/tests/write_traces" .

# What is drawn: rows and bars. Without Chart.js plots lack, and timelines do not.
open_page small.html ''
expect small "$(drawn)" "ok 5:18"
for label in 'wait, 20 ns, a wait, iteration 0, from 14 ns to 34 ns' 'copy B, 20 ns, asynchronous, from 24 ns to 44 ns' \
    'store, 30 ns, iteration 1, from 64 ns to 94 ns' 'arrive, at 34 ns' 'stages, value -3, at 34 ns' \
    'wgmma &quot;64x256&quot; \\ &lt;b&gt;'; do
    grep -q "role=\"img\" aria-label=\"$label" dom.html || { echo "no bar is labelled $label"; exit 1; }
done
open_page empty.html ''
expect empty "$(drawn)" "ok"
open_page product.html ''
expect product "$(drawn)" "none 56:4736"
open_page large.html ''
expect large "$(drawn)" "none 21:6018"

# Every bar has a place in the picture, and a color that is not the paper's.
measure='
const view = document.querySelector(".timeline .view").getBoundingClientRect();
const bars = [...document.querySelectorAll("[data-bar]")];
const seen = bars.filter(b => {
  const r = b.getBoundingClientRect(), s = getComputedStyle(b);
  return r.width > 0 && r.height > 4 && r.left >= view.left + 100 && r.right <= view.right + 9 && r.top >= view.top &&
    r.bottom <= view.bottom && s.fill !== "none" && s.fill !== "rgb(255, 255, 255)" && s.visibility === "visible";
});
const top_ones = seen.filter(b => {
  const r = b.getBoundingClientRect(), x = r.left + r.width / 2, y = r.top + r.height / 2;
  if (y > innerHeight) return false;
  return document.elementFromPoint(x, y) === b;
});
document.title = "seen " + seen.length + " of " + bars.length + (top_ones.length > 12 ? " on top" : "");'
open_page small.html "$measure"
expect places "$(sed -n 's/.*<title>\(seen[^<]*\)<.*/\1/p' dom.html)" "seen 18 of 18 on top"
open_page product.html "$measure"
expect places "$(sed -n 's/.*<title>\(seen[^<]*\)<.*/\1/p' dom.html)" "seen 4736 of 4736 on top"

# The wheel zooms where it is, keys and buttons too; a bar that is pointed at is told, with its arrows.
# A browser without a screen has no frames to wait for.
open_page product.html '
window.requestAnimationFrame = f => setTimeout(f, 0);
const view = document.querySelector(".timeline .view"), box = view.getBoundingClientRect(), steps = [];
const count = () => document.querySelectorAll("[data-bar]").length;
const wheel = (by, x) => view.dispatchEvent(new WheelEvent("wheel", { deltaY: by, clientX: box.left + x, clientY: box.top + 60, cancelable: true }));
const key = k => view.dispatchEvent(new KeyboardEvent("keydown", { key: k }));
const acts = [() => wheel(-300, 600), () => wheel(-300, 600), () => key("-"), () => wheel(-300, 20),
  () => document.querySelector("[aria-label=\"show everything\"]").click()];
const labels = () => [...document.querySelectorAll(".axis text")].map(t => t.textContent).join(" ");
const go = i => {
  steps.push(count());
  if (i < acts.length) { acts[i](); setTimeout(() => go(i + 1), 50); return; }
  const wait = [...document.querySelectorAll("[data-bar]")].find(b => b.getAttribute("aria-label").startsWith("wait for a full stage"));
  wait.dispatchEvent(new PointerEvent("pointermove", { clientX: 500, clientY: 300, bubbles: true }));
  const tip = document.querySelector(".tip"), ok = steps[1] < steps[0] && steps[2] < steps[1] && steps[3] > steps[2] &&
    steps[4] === steps[3] && steps[5] === steps[0];
  document.title = "acts " + (ok ? "well" : steps) + ", tip " + tip.hidden + " " + tip.firstChild.textContent + ", arrows " +
    document.querySelectorAll(".arrows path").length;
};
go(0);'
expect acts "$(sed -n 's/.*<title>\(acts[^<]*\)<.*/\1/p' dom.html)" "acts well, tip false wait for a full stage, arrows 1"

# The test sees a timeline that cannot be drawn, and bars without a label.
sed 's/id="timeline0"/id="other"/' small.html >broken.html
open_page broken.html ''
case $(drawn) in failed:*) ;; *) echo "a timeline without a place was not seen: $(drawn)"; exit 1 ;; esac
sed "s/'aria-label': label/'aria-hidden': label/" small.html >broken.html
open_page broken.html ''
case $(drawn) in failed:*) ;; *) echo "bars without labels were not seen: $(drawn)"; exit 1 ;; esac

# How a kernel uses memory: four plots with a series for each kind of access, or each object. They need Chart.js.
"$build/tilewright" trace kernel gemm type=f16 m=64 n=128 k=256 tb=1 mma=2 ms=64 ns=64 ml=64 nl=64 u=64 stages=2 vec=16 \
    kg=1 --device emulator:sm_90a --memory -o memory.html >/dev/null
open_page memory.html ''
case $(drawn) in
none*) echo "plots: skipped, no Chart.js here" ;;
"ok 129+129 129+129 65+65+65 65 "*) echo "memory: $(drawn)" ;;
*) echo "memory: \"$(drawn)\" is not what was to be drawn"; exit 1 ;;
esac
