#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD: installs into a folder of its own and builds the examples there as a user would: shared, static, as C++,
# and through CMake. Both libraries export what the public headers declare, and nothing else.
set -eu
build=$(cd "$1" && pwd)
R=$(cd "$(dirname "$0")/../.." && pwd)
work=$build/scratch/install
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
lib=$(dirname "$(find "$work/prefix" -name libtilewright.a)")
export PKG_CONFIG_PATH="$lib/pkgconfig" LD_LIBRARY_PATH="$lib"
cp "$R"/examples/*.c "$work"
cd "$work"

# The prefix that was asked for is the one that is found, and nothing of the tree.
pkg-config --cflags --libs tilewright | grep -qF "$work/prefix" || { echo "pkg-config: not in $work/prefix"; exit 1; }
[ "$(pkg-config --modversion tilewright)" = "$("$work/prefix/bin/tilewright" --version | sed 's/.* //')" ]

declared() {
    cat prefix/include/tilewright/*.h | tr '\n' ' ' | grep -o '\btw_[a-z0-9_]*(' | tr -d '(' | grep -v '_fn$' | sort -u
}
exported() { nm -g --defined-only "$@" | awk 'NF == 3 && $2 != "A" {print $3}' | sort -u; }
declared >declared
for what in "-D $lib/libtilewright.so" "$lib/libtilewright.a"; do
    exported $what >exported
    [ -s exported ]
    comm -13 declared exported >hidden
    comm -23 declared exported >missing
    [ ! -s hidden ] || { echo "$what exports what no public header declares: $(head -3 hidden | tr '\n' ' ')"; exit 1; }
    [ ! -s missing ] || { echo "$what lacks what a public header declares: $(head -3 missing | tr '\n' ' ')"; exit 1; }
done

# libtilewright-select.so needs the C library alone, and exports nothing but what headers declare.
choose=$lib/libtilewright-select.so
exported -D "$choose" >exported
comm -13 declared exported >hidden
[ ! -s hidden ] || { echo "$choose exports what no public header declares: $(head -3 hidden | tr '\n' ' ')"; exit 1; }
for name in $(grep -o '\btw_select[a-z_]*(' prefix/include/tilewright/select.h | tr -d '(' | sort -u); do
    grep -qx "$name" exported || { echo "$choose lacks $name"; exit 1; }
done
needs=$(readelf -d "$choose" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | grep -v '^lib[cm]\.so' | tr '\n' ' ')
[ -z "$needs" ] || { echo "$choose needs $needs"; exit 1; }

warnings="-Wall -Wextra -Wpedantic -Werror"
for example in *.c; do
    name=${example%.c}
    ${CC:-cc} -std=c17 $warnings "$example" $(pkg-config --cflags --libs tilewright) -lm -o "$name"
    ${CC:-cc} -std=c17 $warnings "$example" $(pkg-config --cflags tilewright) "$lib/libtilewright.a" \
        $(pkg-config --libs-only-L --libs-only-l --static tilewright | sed 's/-ltilewright//') -o "$name-static"
done
cat >cpp.cc <<'END'
#include <tilewright/engine.h>
#include <tilewright/vm.h>
int main() { tw_engine_close(nullptr); return tw_model_shape_name(0) ? 0 : 1; }
END
${CXX:-c++} -std=c++17 $warnings cpp.cc $(pkg-config --cflags --libs tilewright) -o cpp
./cpp

cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(user C)
find_package(tilewright 0.1 REQUIRED)
add_executable(by_cmake check.c)
target_link_libraries(by_cmake tilewright::tilewright)
add_executable(by_cmake_static check.c)
target_link_libraries(by_cmake_static tilewright::static)
END
cmake -S . -B cmake -DCMAKE_PREFIX_PATH="$work/prefix" >>log && cmake --build cmake >>log || { tail -20 log; exit 1; }

for program in ./check ./check-static cmake/by_cmake cmake/by_cmake_static; do
    $program llama-tiny >out
    grep -qx 'accepted: [0-9]* instructions of 4 workers' out || { cat out; exit 1; }
done
for program in ./generate ./generate-static; do
    $program "$R/models/demo" "The " >out
    grep -q '^[0-9]* tokens$' out || { cat out; exit 1; }
    ! $program "$R/models/nowhere" "The " >out 2>&1
    grep -q '^generate: .*nowhere' out || { cat out; exit 1; }
done
for program in ./multiply ./multiply-static; do
    TILEWRIGHT_LIBCUDA=none $program >out || { cat out; exit 1; }
    grep -q 'on emulator of sm_90a: worst error' out || { cat out; exit 1; }
done
for program in ./trace ./trace-static; do
    TILEWRIGHT_LIBCUDA=none $program >out || { cat out; exit 1; }
    grep -q '^block 0, warp  0: ' out && grep -qx '12 records' out || { cat out; exit 1; }
done
# Python gets the same choices as the command, and errors of one line.
cp "$R"/examples/foreign/* .
prefix/bin/tilewright measure made_up.json --samples 3000 --store t.db >>log
prefix/bin/tilewright train made_up.json --device recorded --store t.db -o t.select >>log
cat >choose.py <<END
import sys
sys.path.insert(0, "$R/examples/triton")
import tilewright
s = tilewright.Selector("t.select")
for m in (64, 100, 1000, 4096):
    config = s.choose({"k": 1024, "n": 512, "m": m})
    print(" ".join(f"{name}={value}" for name, value in config.items()))
    assert isinstance(config["BM"], int) and s.predicted() > 0 and s.choose({"m": m, "n": 512, "k": 1024}) is config
s.close()
for wrong in (lambda: s.choose({"m": 1, "n": 1, "k": 1}), lambda: tilewright.Selector("choose.py"),
              lambda: tilewright.Selector("t.select").choose({"m": 0, "n": 1, "k": 1})):
    try:
        wrong()
        print("taken")
    except tilewright.Error as e:
        print(e)
END
for m in 64 100 1000 4096; do prefix/bin/tilewright select t.select m=$m n=512 k=1024 | head -1; done >expected
cat >>expected <<END
made-up-gemm: the artefact is closed
choose.py: no artefact of a tuner
made-up-gemm: nothing can be chosen for {'m': 0, 'n': 1, 'k': 1}: status 1
END
TILEWRIGHT_SELECT_LIBRARY=$choose.0 python3 -B choose.py >out
cmp expected out || { diff expected out; exit 1; }
! TILEWRIGHT_SELECT_LIBRARY=none.so python3 -B choose.py >out 2>&1
grep -q '^tilewright.Error: no library of Tilewright: none.so: cannot open' out || { cat out; exit 1; }

# The same programs on the first GPU, where there is one.
if ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
    env -u TILEWRIGHT_LIBCUDA ./trace >out || { cat out; exit 1; }
    for program in ./multiply ./multiply-static; do
        env -u TILEWRIGHT_LIBCUDA $program >out || { cat out; exit 1; }
        cat out
        grep ': worst error' out | grep -qv 'on emulator' || { echo "$program did not run on the GPU"; exit 1; }
    done
else
    echo "multiply on a GPU: skipped, since there is no NVIDIA device"
fi
