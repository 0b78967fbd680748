# SPDX-License-Identifier: Apache-2.0
#
# Commands for developers; meson does the builds. `make help` lists the targets.
#
#   VENV=DIR   another virtual environment (default .venv)      DATA=DIR   your own data, for the demos and bench
#   BUILD=DIR  another build folder (default build)             PREFIX=DIR for `make install` (default /usr/local)
#   MESON_FLAGS="-Dname=value ..."  options for meson; a build folder keeps the last value of each

BUILD ?= build
VENV ?= .venv
PREFIX ?= /usr/local
INSTALL_BUILD ?= build-install
DATA ?=
SUITE ?= trixie
RUN ?= make test
PYTHON3 ?= python3
JOBS ?= $(shell nproc)
export VENV JOBS

PYTHON = $(VENV)/bin/python
MESON_FLAGS ?=
BUILD_ALL = tools/build.sh $(BUILD) -Dtests=enabled $(MESON_FLAGS)
PY_TESTS = STOKER_BUILD=$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -q
# Runs the parity tests, which have thousands of small cases, in several processes. Other tests cannot: they fork, and count their process's threads and files.
PY_WORKERS = -n $(JOBS) --maxprocesses 8 --dist worksteal
FAULT_TESTS = codec device_faults faults format io ragged source thread
GPU_TESTS ?= test/python/gpu
EMULATED = -Dtests=enabled -Dfaults=true -Dcuda=emulated
C_FILES = $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.cu' '*.cuh')
PY_FOLDERS = python tools bench test examples site

# The groups of packages (tools/packages.txt, tools/requirements-GROUP.txt) that each target needs in addition to `build`. The target setup installs those of
# all requested targets at once, so that a user who cannot install packages has to ask an administrator only once.
tests = torch images test
groups-test = $(tests)
groups-test-c = test-c
groups-test-plain-c = test-c
groups-test-faults = test-c
groups-test-python = $(tests)
groups-test-gpu-emulated = $(tests)
groups-demo = torch images bench
groups-demo-streampetr = $(tests)
groups-wheel = wheel
groups-wheel-test = wheel python
groups-release = wheel release kernels
groups-site = torch images site
groups-docs = images
groups-bench = $(tests) parity bench
groups-instructions = test-c valgrind
groups-lint = $(tests) format lint kernels $(if $(STOKER_TIDY),tidy)
groups-asan = $(tests)
groups-tsan = $(tests)
groups-parity = $(tests) parity
groups-selfcheck = $(tests)
groups-fuzz = $(tests) test-c parity check
groups-check-all = $(groups-lint) $(groups-wheel-test) parity check
GOALS = $(or $(MAKECMDGOALS),$(.DEFAULT_GOAL))

.DEFAULT_GOAL = build
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

build: setup ## build library, command and Python module into build/
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	@echo "build: $(BUILD)/cli/stoker, $(BUILD)/libstoker.so, and the Python package: PYTHONPATH=$(BUILD)/python"
	@echo "build: next: make demo (a comparison on photographs), make wheel (to install it), make test; make help lists the rest"

test: setup ## all tests, in C and Python; every part runs, also after one has failed
	@failed=; for part in test-c test-faults test-python test-gpu-emulated; do \
		$(MAKE) --no-print-directory $$part GPU_TESTS="test/python/gpu/test_gpu_files.py test/python/gpu/test_gpu_tensors.py" || failed="$$failed $$part"; \
	done; [ -z "$$failed" ] || { echo "make test: failed:$$failed" >&2; exit 1; }

test-c: setup ## tests in C
	@$(BUILD_ALL)
	meson test -C $(BUILD) --print-errorlogs

test-plain-c: setup ## tests in C of kernels, decoders and operators, in a build that has only the plain C kernels
	@tools/build.sh build-plain-c -Dtests=enabled -Dplain_c=true -Dpython=disabled -Dcuda=disabled
	STOKER_JPEG=stoker meson test -C build-plain-c --print-errorlogs codec jpeg_fast jpeg_kernels pass ops fusion

test-faults: setup ## tests in C in which allocations and system calls fail on purpose
	@TARGETS="test/cuda/libcuda.so.1 $(FAULT_TESTS:%=test/c/test_%)" tools/build.sh build-emulated $(EMULATED)
	meson test -C build-emulated --no-rebuild --print-errorlogs $(FAULT_TESTS) device_faults_emulated

test-python: setup ## tests in Python
	@$(BUILD_ALL)
	tools/python_tests.sh env $(PY_TESTS)

test-gpu: ## tests on a GPU, of the wheel in dist/ (make wheel); PYTHON3=... has torch; ARGS=... go to pytest
	PYTHON=$(PYTHON3) tools/test_gpu.sh dist $(ARGS)

test-gpu-emulated: setup ## GPU tests on an emulated CUDA driver, which needs no GPU; ARGS=... go to pytest
	@tools/build.sh build-emulated $(EMULATED)
	LD_LIBRARY_PATH=build-emulated/test/cuda STOKER_TEST_GPU=1 STOKER_BUILD=build-emulated PYTHONPATH=build-emulated/python \
		$(PYTHON) -m pytest -q $(GPU_TESTS) $(ARGS)

test-install: setup ## install into temporary prefixes, and use the installed files
	tools/test_install.sh

demo: setup ## decode and augment real photographs, next to a PyTorch DataLoader; DATA=DIR takes your own
	@LEFT_OUT_LATER=1 tools/build.sh $(BUILD) $(MESON_FLAGS)
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/demo.py $(if $(DATA),--data $(DATA))
	@tools/left_out.sh $(BUILD)

demo-streampetr: setup ## six cameras, matrices and boxes of a StreamPETR training, next to a PyTorch DataLoader; DATA=DIR takes your own NuScenes
	@LEFT_OUT_LATER=1 tools/build.sh $(BUILD) $(MESON_FLAGS)
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/structured/streampetr_demo.py $(if $(DATA),--data $(DATA))
	@tools/left_out.sh $(BUILD)

wheel: setup ## make a wheel in dist/, with the kernels of all architectures if MESON_FLAGS does not name some
	python3 tools/wheel_backend.py dist $(MESON_FLAGS)

wheel-test: wheel ## install the wheel in an empty environment without a compiler and use it
	tools/test_wheel.sh dist

release: setup ## make the wheels for every Linux (MACHINES="x86_64 aarch64") and the sdist in dist/; the libraries that the wheels contain are built too
	$(PYTHON) tools/release/release.py dist $(MACHINES)

bench: setup ## measure Stoker and its peers, and write the figures into bench/results/; DATA=DIR takes your own images
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	PYTHONPATH=$(BUILD)/python $(PYTHON) bench/run.py --build $(BUILD) $(if $(DATA),--data $(DATA))

instructions: setup ## count the instructions for an image with callgrind, and compare them with the recorded ones; RECORD=1 records them again
	@$(BUILD_ALL)
	python3 bench/instructions.py --build $(BUILD) $(if $(RECORD),--record)

lint: checks ## formatting, static analysis, types, and the project's own rules
	@$(VENV)/bin/clang-format --dry-run --Werror $(C_FILES)
	tools/analyse.sh $(BUILD)
	$(PYTHON) tools/release/nvcc.py -fsyntax-only $$(git ls-files '*.cu')
	$(VENV)/bin/ruff check $(PY_FOLDERS)
	$(VENV)/bin/ruff format --check $(PY_FOLDERS)
	$(VENV)/bin/mypy

checks: build ## check includes between layers, exported symbols, hardening, sizes, headers, and the words of comments
	python3 tools/check_includes.py
	python3 tools/check_symbols.py $(BUILD)
	python3 tools/check_hardening.py $(BUILD)
	python3 tools/check_size.py
	tools/check_headers.sh
	python3 tools/check_words.py

format: ## rewrite sources in the project's style
	@tools/setup.sh format
	@$(VENV)/bin/clang-format -i $(C_FILES)
	$(VENV)/bin/ruff format $(PY_FOLDERS)
	$(VENV)/bin/ruff check --fix $(PY_FOLDERS)

asan: setup ## C tests and essential Python ones under AddressSanitizer and UndefinedBehaviorSanitizer
	tools/sanitize.sh address

tsan: setup ## C tests and essential Python ones under ThreadSanitizer
	tools/sanitize.sh thread

parity: setup ## compare every operator with DALI's on the CPU
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	$(PY_TESTS) $(PY_WORKERS) test/python/parity test/python/test_ops_parity.py

fuzz: setup ## fuzz parsers, decoders and random graphs, also next to DALI; FUZZ_SECONDS=N for each target, FUZZ_SEED=S repeats a run, ARGS=... targets
	BUILD=$(BUILD) tools/fuzz.sh $(ARGS)

selfcheck: setup ## plant faults one after the other, and check that its tests catch each of them
	$(PYTHON) tools/selfcheck.py

check-all: setup ## what .ci/run runs, and long tests, plain C, all emulated GPU tests, planted faults and fuzzing: an hour and a half on two cores
	.ci/run all

fresh: ## RUN='make test' in a fresh clone on a bare Debian, SUITE=trixie or bookworm; as root; USERNAME=ann runs it as a user without root
	@tools/fresh.sh $(SUITE) '$(subst ','\'',$(RUN))'

docs: setup ## generate the operator reference, doc/operators.md and doc/operator-table.md
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	$(BUILD)/cli/stoker ops --json | python3 tools/operator_pages.py > doc/operators.md
	$(BUILD)/cli/stoker ops --json | PYTHONPATH=$(BUILD)/python $(PYTHON) tools/operator_table.py > $(BUILD)/operator-table.md
	mv $(BUILD)/operator-table.md doc/operator-table.md

site: setup ## guides, gallery, Python and C interfaces and the command as HTML that needs no network, in build-site/html
	@tools/build.sh $(BUILD) $(MESON_FLAGS)
	@PYTHONPATH=$(BUILD)/python $(PYTHON) site/make_site.py build-site --command $(BUILD)/cli/stoker

symbols: build ## write the exported symbols to tools/symbols.txt, and print the size of the change; read it with git diff
	python3 tools/check_symbols.py $(BUILD) --update
	git diff --stat tools/symbols.txt

install: setup ## install library, headers, pkg-config file and command under PREFIX
	@tools/build.sh $(INSTALL_BUILD) -Dtests=disabled -Dpython=disabled --prefix="$(PREFIX)" $(MESON_FLAGS)
	@tools/install.sh $(INSTALL_BUILD) "$(PREFIX)"

clean: ## remove what was built; the virtual environment and the demo's images stay
	rm -rf build build-* dist

setup:
	@tools/setup.sh $(sort build $(foreach goal,$(GOALS),$(groups-$(goal))))

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' -v width="$${COLUMNS:-$$(tput cols 2>/dev/null || echo 100)}" '{ \
		line = sprintf("%-24s", $$1); n = split($$2, words, " "); \
		for (i = 1; i <= n; i++) { if (length(line words[i]) + 1 > width && length(line) > 25) { print line; line = sprintf("%24s", "") } line = line " " words[i] } \
		print line }'
