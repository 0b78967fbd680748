# SPDX-License-Identifier: Apache-2.0
#
# The front door; meson builds underneath. `make help` lists what there is.
#
#   VENV=DIR   another virtual environment (default .venv)      DATA=DIR   your own folder of images, for demo and bench
#   BUILD=DIR  another build folder (default build)             PREFIX=DIR where `make install` puts things (default /usr/local)

BUILD ?= build
VENV ?= .venv
PREFIX ?= /usr/local
DATA ?=
PYTHON3 ?= python3
JOBS ?= $(shell nproc)
export VENV

PYTHON = $(VENV)/bin/python
SETUP = tools/setup.sh
MESON_FLAGS ?=
C_FILES = $(shell git ls-files -co --exclude-standard '*.c' '*.h')
PY_FOLDERS = python tools bench test examples

.DEFAULT_GOAL = build
.PHONY: build build-faults setup test test-c test-faults test-python test-gpu test-gpu-emulated demo wheel wheel-test bench instructions lint format asan tsan parity selfcheck check-all docs install symbols checks clean help

build: ## build library, command and Python module into build/
	@$(SETUP) build
	@tools/build.sh $(BUILD) $(MESON_FLAGS)

test: test-c test-faults test-python ## all tests, in C and Python

test-c: ## tests in C
	@$(SETUP) build test
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	meson test -C $(BUILD) --print-errorlogs

test-faults: ## tests in C with fault injection built in: the fault loops
	@$(SETUP) build test
	@tools/build.sh build-faults -Dfaults=true -Dpython=disabled -Dcuda=disabled
	meson test -C build-faults --print-errorlogs

test-python: ## tests in Python
	@$(SETUP) build test
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	STOKER_BUILD=$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -q test/python --ignore=test/python/parity --ignore=test/python/test_ops_parity.py
	@# pipelines on an emulated GPU (test/cuda); the rest is for test-gpu-emulated
	@! [ -e $(BUILD)/test/cuda/libcuda.so.1 ] || STOKER_BUILD=$(BUILD) PYTHONPATH=$(BUILD)/python LD_LIBRARY_PATH=$(BUILD)/test/cuda \
		$(PYTHON) -m pytest -q test/python/gpu/test_gpu_files.py test/python/gpu/test_gpu_tensors.py

test-gpu: ## tests on a GPU, of the wheel in dist/ (make wheel); PYTHON3=... has torch; ARGS=... go to pytest
	PYTHON=$(PYTHON3) tools/test_gpu.sh dist $(ARGS)

test-gpu-emulated: ## the same on the emulated driver, where there is no GPU: exactness, faults, order of streams
	@$(SETUP) build test
	@tools/build.sh build-emulated -Dcuda=emulated
	LD_LIBRARY_PATH=build-emulated/test/cuda STOKER_TEST_GPU=1 STOKER_BUILD=build-emulated PYTHONPATH=build-emulated/python \
		$(PYTHON) -m pytest -q test/python/gpu $(ARGS)

demo: ## decode and augment real photographs beside a PyTorch DataLoader; DATA=DIR takes your own
	@$(SETUP) build test bench
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/demo.py $(if $(DATA),--data $(DATA))

wheel: ## make a wheel in dist/
	@$(SETUP) build wheel
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	STOKER_BUILD=build-wheel python3 tools/wheel_backend.py dist # of its own: it has the kernels of all architectures

wheel-test: wheel ## install the wheel in an empty environment without a compiler and use it
	tools/test_wheel.sh dist

bench: ## figures beside those of the peers, into bench/results/; DATA=DIR takes your own images
	@$(SETUP) build test parity bench
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	PYTHONPATH=$(BUILD)/python $(PYTHON) bench/run.py --build $(BUILD) $(if $(DATA),--data $(DATA))

instructions: ## instructions an image, counted by callgrind, beside the recorded ones; RECORD=1 records them anew
	@$(SETUP) build test
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	$(PYTHON) bench/instructions.py --build $(BUILD) $(if $(RECORD),--record)

lint: checks ## formatting, static analysis, types, and the project's own rules
	@$(SETUP) build test lint
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	$(VENV)/bin/clang-format --dry-run --Werror $(C_FILES)
	tools/analyse.sh $(BUILD)
	$(VENV)/bin/ruff check $(PY_FOLDERS)
	$(VENV)/bin/ruff format --check $(PY_FOLDERS)
	$(VENV)/bin/mypy

checks: build ## direction of includes, exported symbols, sizes, headers that compile alone
	python3 tools/check_includes.py
	python3 tools/check_symbols.py $(BUILD)
	python3 tools/check_size.py
	tools/check_headers.sh

format: ## rewrite sources in the project's style
	@$(SETUP) lint
	$(VENV)/bin/clang-format -i $(C_FILES)
	$(VENV)/bin/ruff format $(PY_FOLDERS)
	$(VENV)/bin/ruff check --fix $(PY_FOLDERS)

asan: ## C tests and essential Python ones under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(SETUP) build test
	tools/sanitize.sh address

tsan: ## the same under ThreadSanitizer
	@$(SETUP) build test
	tools/sanitize.sh thread

parity: ## every operator against DALI on the CPU
	@$(SETUP) build test parity
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	STOKER_BUILD=$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -q test/python/parity test/python/test_ops_parity.py

selfcheck: ## plant faults and see each caught by its own check
	@$(SETUP) build test
	$(PYTHON) tools/selfcheck.py

check-all: export STOKER_LONG = 1
check-all: lint test test-gpu-emulated asan tsan parity wheel-test selfcheck ## everything, with the long fuzzing and the full matrices
	@$(SETUP) check
	tools/fuzz.sh
	STOKER_TEST_FULL=1 STOKER_BUILD=$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -q test/python --ignore=test/python/parity --ignore=test/python/test_ops_parity.py

docs: build ## generate the operator reference, doc/operators.md
	$(BUILD)/cli/stoker ops --json | python3 tools/operator_pages.py > doc/operators.md

symbols: build ## take the exported symbols over into tools/symbols.txt, after a look at the difference
	python3 tools/check_symbols.py $(BUILD) --update
	git diff --stat tools/symbols.txt

install: ## install library, headers, pkg-config file and command under PREFIX
	@$(SETUP) build
	@tools/build.sh build-install -Dtests=false -Dpython=disabled --prefix=$(abspath $(PREFIX))
	meson install -C build-install --no-rebuild

clean: ## remove what was built; the virtual environment and the demo's images stay
	rm -rf build build-* dist

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'
