# SPDX-License-Identifier: Apache-2.0
# A thin front: CMake and Ninja do the work, in build/ and build-*/.
BUILD = cmake --build
CONFIGURE = cmake -G Ninja -S . -B

all: build/build.ninja
	@$(BUILD) build --target tilewright

build/build.ninja:
	@tools/deps
	@$(CONFIGURE) build >/dev/null

# Builds, shows the machine, writes a little text with the shipped model, and says how fast.
demo:
	@tools/deps
	@$(MAKE) --no-print-directory all
	@tools/demo

# A verdict in minutes: the release build and its tests; see tools/test for the steps.
test:
	@tools/deps test
	@tools/test

# What takes longer: sanitizers, exhaustive runs, fuzzers; see tools/check.
check:
	@tools/deps check
	@tools/check

# A real model beside what transformers computes of it, where its Python package can be had; see tests/real/run.sh.
real: all
	@$(BUILD) build --target json
	@ctest --test-dir build -C real -R '^real$$' --output-on-failure

bench: all
	@bench/run

# The command, the libraries, shared and static, their headers, and what pkg-config and CMake need to find them.
PREFIX ?= /usr/local
install: all
	@$(BUILD) build --target libraries
	@cmake --install build --prefix "$(PREFIX)"

# One file for any recent x86-64 Linux: everything but the C library inside; the same of bench/checkgemm, checkattention and bench_decode;
# and libtilewright-select.so, which needs nothing else.
portable:
	@tools/deps
	@$(CONFIGURE) build-portable -DTW_PORTABLE=ON -DTW_TESTS=OFF >/dev/null
	@$(BUILD) build-portable --target tilewright tilewright_select checkgemm checkattention bench_decode profile bench_gemm_parts replay bench_tiles

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

lint: build/build.ninja
	@tools/lint

fuzz:
	@for f in tests/fuzz/fuzz_*.c; do tools/fuzz "$$(basename $$f .c)" 60 || exit 1; done

clean:
	rm -rf build build-*

.PHONY: all demo test check real bench install portable format lint fuzz clean
