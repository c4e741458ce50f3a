# SPDX-License-Identifier: Apache-2.0
# A thin front for CMake: every build lives in build/<preset>.
PREFIX ?= /usr/local
SECONDS_PER_FUZZER ?= 60

all: build/release/build.ninja
	@cmake --build build/release

build/%/build.ninja:
	@cmake --preset $* >/dev/null

demo:
	@tools/packages.sh build
	@$(MAKE) --no-print-directory all
	@tools/demo.sh

test:
	@tools/packages.sh test
	@$(MAKE) --no-print-directory check-dev

asan tsan:
	@$(MAKE) --no-print-directory check-$@

# Of the tests, those that have threads.
check-tsan: TESTS = -R 'pool|jobs|runtime|cache|api|judge|fusion|models|dynamic|cuda_device|example'

check-%: build/%/build.ninja
	@cmake --build build/$* || { echo "The build failed."; echo "0 passed, 1 failed"; exit 1; }
	@tools/run_tests.sh build/$* $(TESTS)

fuzz: build/fuzz/build.ninja
	@cmake --build build/fuzz
	@tools/run_fuzz.sh build/fuzz $(SECONDS_PER_FUZZER)

coverage: build/coverage/build.ninja
	@cmake --build build/coverage
	@tools/coverage.sh build/coverage

format:
	@tools/check_format.sh --fix

layering:
	@tools/check_layering.sh

install: all
	@cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build

# Build files are kept although they are only steps on the way.
.SECONDARY:
.PHONY: all demo test asan tsan fuzz coverage format layering install clean
