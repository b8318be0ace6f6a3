#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tools/check_layers.sh says of a small tree: a line for each include that breaks a rule, and nothing else.
set -eu
R=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/tools" "$dir/include/tilewright" "$dir/src/base" "$dir/src/ir" "$dir/src/kernels/cpu" "$dir/src/cli"
cp "$R/tools/check_layers.sh" "$dir/tools"
cd "$dir"
echo 'typedef int tw_status;' >include/tilewright/base.h

# What the list of the command's exceptions names is there.
sed -n "/^inside='/,/^'/p" tools/check_layers.sh | sed "1d;\$d" | while read -r file header; do
    echo "#include \"$header\"" >>"src/cli/$file"
done
include() { for h in "$@"; do echo "#include \"$h\""; done; }
bad=0

# expect WHAT LINE...: the lines that the check prints, by what they begin with.
expect() {
    what=$1
    shift
    status=0
    tools/check_layers.sh >out 2>&1 || status=$?
    [ "$status" = "$([ $# = 0 ] && echo 0 || echo 1)" ] || { echo "$what: exits with $status"; bad=1; }
    [ "$(wc -l <out)" = $# ] || { echo "$what: $(wc -l <out) lines, not $#"; bad=1; }
    for line in "$@"; do
        grep -qF "$line" out || { echo "$what: does not say: $line"; cat out; bad=1; }
    done
}

include base/buf.h >src/base/buf.c
include ir/ir.h base/buf.h tilewright/base.h >src/ir/ir.c
include kernels/cpu/panel.h tilewright/kernel.h tilewright/device.h >src/kernels/cpu/panel.c
include cli/cli.h tilewright/vm.h base/file.h >src/cli/main.c
expect "a tree in order"

include ir/ir.h >>src/base/buf.c
include vm/cpu/vm.h schedule/schedule.h >>src/kernels/cpu/panel.c
include panel.h attic/old.h >>src/ir/ir.c
expect "rooms" 'src/base/buf.c: base may not include "ir/ir.h"' \
    'src/kernels/cpu/panel.c: kernels may not include "vm/cpu/vm.h"' \
    'src/kernels/cpu/panel.c: kernels may not include "schedule/schedule.h"' \
    'src/ir/ir.c: include "panel.h" by its room' 'src/ir/ir.c: "attic/old.h" names no room'
include base/buf.h | tee src/base/buf.c src/kernels/cpu/panel.c >src/ir/ir.c

include model/model.h engine/timing.h >>src/cli/main.c
expect "the command" 'src/cli/main.c: the command may not include "model/model.h"' \
    'src/cli/main.c: the command may not include "engine/timing.h"'
include cli/cli.h >src/cli/main.c

include tilewright/engine.h >src/cli/bench.c
expect "a list that is too long" 'src/cli/bench.c does not include "engine/timing.h" any more'
exit $bad
