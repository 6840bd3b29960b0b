# The targets require Python 3.11 or newer, make and git.
#
# Try the backend:
#   make demo                 classify this repository's files with a real model
#   make scale-out            run the Dask example: two local workers, then a scheduler and two workers on 127.0.0.1
#
# Test it:
#   make try FILE=ENDING      run the test files with that ending on this tree, without building a wheel;
#                             TEST="-k NAME" selects tests, ENV=cuda another environment
#   make lint                 check the code with ruff
#   make test                 run the tests on the default base, onnxruntime
#   make test-openvino        run the tests on onnxruntime-openvino
#   make test-plugins         test the plugin EPs of OpenVINO and Qualcomm
#   make test-webgpu          test the EP of onnxruntime-webgpu on SwiftShader (Debian: apt install chromium-common)
#   make test-webgpu-plugin   test the WebGPU plugin EP and graph capture on SwiftShader
#   make test-cuda            test the EP of onnxruntime-gpu on a GPU, or on a software CUDA (requires gcc and nm)
#   make test-python PYTHON=python3.13               run the CPU tests on another Python;
#                             WITH="numpy==1.24.4 onnx==1.17.0" selects other releases than constraints.txt
#   make conformance          run ONNX's backend tests; conformance-openvino and conformance-webgpu on the other bases
#
# Long checks:
#   make bench                measure the backend, and write the table and the picture of docs/benchmarks.md (6 minutes);
#                             BENCH="run_path --match Magika" measures a part
#   make bench-openvino       measure parallel runs on OpenVINO, and write their table of docs/benchmarks.md
#   make bench-capture        measure graph capture and other runs on CUDA and on the WebGPU plugin
#   make campaign-cuda        capture 120 random models on CUDA, in 12,000 runs
#   make captured-operators   capture each operator on the WebGPU plugin
#   make parallel-operators   run each operator that OpenVINO may run in parallel with hostile values, built-in and plugin
#   make openvino-graphs      run 5,000 random graphs on each form of OpenVINO, and compare values and memory;
#                             GRAPHS="--count 100 --seed 7" selects others
#   make conformance-keys     run ONNX's tests once for each permitted config key, with a value that is not its default
#   make conformance-numbers  compare both backends and InferenceSession in the tests of each onnx release in $(ONNX)
#   make fuzz                 test the allowlist with 50,000 examples, and compare outputs with 2,000 configurations on the
#                             CPU EP and 2,000 on the OpenVINO EP (30 minutes)
#   make mutants              change the backend in 200 small ways, and list changes that no test detects (an hour)
#
# Maintain it:
#   make -j2 environments     create all environments, two at a time
#   make document             write docs/options.md and two similar documents from the tables of the allowlist
#   make drift RELEASES=onnxruntime==1.31.1          list option names of a release that the allowlist does not contain
#   make new-release RELEASE=onnxruntime==1.33.0     test this tree on a release, and print one page of things to review
#   make patch CHECKOUT=FOLDER                       write the patches for an ORT source tree into build/patch;
#                             PATCH=--test also runs the tests of each step
#   make scoreboard CHECKOUT=FOLDER                  run the tests and the generator of onnx/backend-scoreboard on several
#                             EPs, and compare the results with the stock wheel; TEST="-k relu" selects tests (30 minutes)
#   make upstream-tests CHECKOUT=FOLDER              run ORT's own backend tests, and compare the results with the stock wheel
#   make clean                remove every environment and cache
#
# Each environment is a folder .venv-NAME. It contains a wheel that setup.py builds from this tree and a stock wheel, the
# base. To select another base, set a variable: make test BASE_cpu=onnxruntime==1.30.0

PYTHON ?= python3

# The variables of an environment:
#   BASE_name      the distribution that setup.py builds on
#   PACKAGES_name  the packages that its tests need, in addition to PACKAGES
#   ONLY_name      endings of test files that run only in environments that list them here
#   ALSO_name      endings of further test files. They run first, because after a session on a CUDA device other than 0,
#                  each session of the process captures on a worker thread
#   UNDER_name     a command that runs the tests
#   AGAIN_name     settings with which the files of ONLY_name and ALSO_name run a second time
# Environments in ALONE test an EP: they run only these files and the drift check.
ENVIRONMENTS := cpu openvino webgpu-plugin webgpu plugins cuda
# Environments without tests of their own.
EXAMPLES := scale-out
ALONE := webgpu-plugin webgpu plugins cuda
# Tests of this repository's files and tools. They create no session, so the default base runs them for all bases.
ONCE := architecture benchmarks names_in_prose new_release patch scoreboard upstream_tests
# pytest runs one process for each CPU, and all tests of a file in the same process. The longest files begin first.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
LONGEST := documents command_line_processes allowlist_properties option_drift packaging stock_comparison runs_values patch
PACKAGES := pytest pytest-xdist hypothesis
# Packages with the real models of the tests and examples. Their requirements are not needed, so they are installed into
# a folder of their own.
MODELS := magika silero-vad

# The release of onnx that ORT's tests are written for (onnxruntime/test/python/requirements.txt of its tree).
ONNX_UPSTREAM := 1.22.0

# The releases of onnx for conformance-numbers.
ONNX := 1.17.0 1.19.1 1.20.1 1.21.0 1.22.0 1.23.2

BASE_cpu := onnxruntime
PACKAGES_cpu := magika ruff onnxruntime-extensions jsonschema
ONLY_cpu := demo session_opening session_presence session_verification session_failures

BASE_openvino := onnxruntime-openvino
ONLY_openvino := openvino

BASE_webgpu-plugin := onnxruntime
PACKAGES_webgpu-plugin := onnxruntime-ep-webgpu
ONLY_webgpu-plugin := webgpu_capture webgpu
ALSO_webgpu-plugin := session_ort_messages
UNDER_webgpu-plugin := sh onnxruntime/test/python/with_software_gpu.sh

BASE_webgpu := onnxruntime-webgpu
ONLY_webgpu := webgpu
UNDER_webgpu := $(UNDER_webgpu-plugin)

BASE_plugins := onnxruntime
PACKAGES_plugins := onnxruntime-ep-openvino onnxruntime-qnn
ONLY_plugins := plugins
ALSO_plugins := session_replacement exploits

BASE_cuda := onnxruntime-gpu
ONLY_cuda := cuda cuda_models
ALSO_cuda := session_ort_messages capture_graphs capture_graph_ids capture_replays capture_threads
UNDER_cuda := sh onnxruntime/test/python/with_software_cuda.sh
# The software CUDA does work as late as a GPU can, and captures take so long that other threads meet them.
AGAIN_cuda := SOFTCUDA_LAZY=1 SOFTCUDA_CAPTURE_US=300

BASE_scale-out := onnxruntime
PACKAGES_scale-out := dask distributed joblib magika

export ORT_DISABLE_TELEMETRY := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The name of a stamp is a digest of the content that it stands for, so that no clock decides what is up to date: a
# deleted file, a checkout of an older commit, an edit within one second and another Python all change the name.
digest = $(shell { $(PYTHON) --version; printf '%s\n' $(1) '$(2)'; git hash-object $(1); } | git hash-object --stdin)
MADE := made-$(call digest,Makefile constraints.txt)
READY := ready-$(call digest,Makefile constraints.txt setup.py pyproject.toml \
	$(sort $(wildcard onnxruntime/python/backend/*.py onnxruntime/python/backend/*/*.py \
		onnxruntime/python/backend/*/*/*.py onnxruntime/python/backend/py.typed)),$(foreach name,$(ENVIRONMENTS) $(EXAMPLES),$(BASE_$(name))))

# The tests that go into ORT's tree, and those of this repository.
TEST_FILES := $(sort $(wildcard onnxruntime/test/python/onnxruntime_test_python_backend*.py tests/test_*.py))
tests_ending = $(foreach ending,$(1),$(filter %_$(ending).py,$(TEST_FILES)))
tests_only_in = $(call tests_ending,$(ONLY_$(1)))
NOT_EVERYWHERE := $(foreach name,$(ENVIRONMENTS),$(call tests_only_in,$(name)))

# The accepted minor releases of ORT, for the drift check.
RELEASES ?= $(addprefix onnxruntime==,1.24.4 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0 1.31.1 1.32.0)

# The stock wheels, with which the benchmark, the tests and the scoreboard compare.
STOCKS := stock stock-openvino
BASE_stock := $(BASE_cpu)
BASE_stock-openvino := $(BASE_openvino)
STOCK := stock-$(call digest,Makefile constraints.txt setup.py,$(BASE_cpu) $(BASE_openvino))

.PHONY: environments demo scale-out test try patch campaign-cuda bench bench-openvino bench-capture fuzz mutants drift new-release document lint clean $(ENVIRONMENTS:%=test-%) environment-python test-python conformance conformance-cpu conformance-openvino \
	conformance-webgpu conformance-keys conformance-numbers upstream-tests scoreboard captured-operators parallel-operators openvino-graphs $(ONNX:%=numbers-%)

test: test-cpu

environments: .venv-stock/$(STOCK) $(patsubst %,.venv-%/$(READY),$(ENVIRONMENTS) $(EXAMPLES))

test-cpu: .venv-stock/$(STOCK)
test-cpu: export ORT_STOCK_PYTHON := $(CURDIR)/.venv-stock/bin/python

# OpenBLAS, numpy's library, starts a thread for each CPU at import, and the threads spin for 0.1 s. The tests start more
# than 100 processes.
$(ENVIRONMENTS:%=test-%): export OPENBLAS_NUM_THREADS := 1
$(ENVIRONMENTS:%=test-%): test-%: .venv-%/$(READY)
	$(UNDER_$*) .venv-$*/bin/python -m pytest $(if $(filter $*,$(ALONE)),,$(PARALLEL) $(call tests_ending,$(LONGEST))) \
		$(call tests_ending,$(ALSO_$*) $(ONLY_$*)) $(if $(filter $*,$(ALONE)),\
		$(filter %_option_drift.py,$(TEST_FILES)),$(filter-out $(NOT_EVERYWHERE) \
		$(if $(filter-out cpu,$*),$(call tests_ending,$(ONCE))),$(TEST_FILES)))
	$(if $(AGAIN_$*),$(AGAIN_$*) $(UNDER_$*) .venv-$*/bin/python -m pytest $(call tests_ending,$(ALSO_$*) $(ONLY_$*)))

# The default environments remain: another Python and other packages have an environment of their own. Names that a wheel
# or a document contains do not depend on them.
OTHER := .venv-$(subst $() ,-,$(strip $(notdir $(PYTHON)) $(subst ==,-,$(WITH))))
environment-python: $(OTHER)/$(READY)

test-python: export OPENBLAS_NUM_THREADS := 1
test-python: export ORT_BACKEND_EXAMPLES := 100
test-python: $(OTHER)/$(READY)
	$(OTHER)/bin/python -m pytest $(PARALLEL) $(filter-out $(call tests_ending,$(ONCE) option_drift option_document),\
		$(call tests_ending,$(LONGEST) $(ONLY_cpu)) $(filter-out $(NOT_EVERYWHERE),$(TEST_FILES))) $(TEST)

$(OTHER)/$(READY):
	rm -rf $(OTHER)
	$(PYTHON) -m venv $(OTHER)
	grep -v $(patsubst %,-e '^%==',$(filter-out =%,$(subst ==, =,$(WITH))) none) constraints.txt \
		> $(OTHER)/constraints.txt
	ORT_BACKEND_BASE=$(BASE_cpu) $(OTHER)/bin/python -m pip install --quiet --constraint $(OTHER)/constraints.txt \
		. $(PACKAGES) $(PACKAGES_cpu) $(WITH)
	$(OTHER)/bin/python -m pip install --quiet --constraint constraints.txt --no-deps --target $(OTHER)/models $(MODELS)
	touch $@

campaign-cuda: .venv-cuda/$(READY)
	for lazy in 0 1; do SOFTCUDA_LAZY=$$lazy ORT_BACKEND_MODELS=120 $(UNDER_cuda) .venv-cuda/bin/python -m pytest \
		$(filter %_cuda_models.py,$(TEST_FILES)) || exit; done

# ONNX's string tests need the locale en_US.UTF-8. A user without root rights can create it (Debian: package locales):
#   localedef -i en_US -f UTF-8 "$PWD/.venv-locale/en_US.UTF-8"; make conformance LOCPATH="$PWD/.venv-locale"
conformance: conformance-cpu

conformance-cpu conformance-openvino conformance-webgpu: conformance-%: .venv-%/$(READY)
	$(UNDER_$*) .venv-$*/bin/python -m pytest -q -rX $(if $(UNDER_$*),,-n auto) tests/onnx_series.py

captured-operators: .venv-webgpu-plugin/$(READY)
	$(UNDER_webgpu-plugin) .venv-webgpu-plugin/bin/python onnxruntime/test/python/backend_captured_operators.py

parallel-operators: .venv-openvino/$(READY) .venv-plugins/$(READY)
	.venv-openvino/bin/python onnxruntime/test/python/backend_parallel_operators.py
	.venv-plugins/bin/python onnxruntime/test/python/backend_parallel_operators.py

openvino-graphs: .venv-openvino/$(READY) .venv-plugins/$(READY)
	.venv-openvino/bin/python onnxruntime/test/python/backend_openvino_graphs.py $(GRAPHS)
	.venv-plugins/bin/python onnxruntime/test/python/backend_openvino_graphs.py $(GRAPHS)

conformance-keys: .venv-cpu/$(READY)
	.venv-cpu/bin/python -W ignore tests/onnx_series.py --each-key

conformance-numbers: $(ONNX:%=numbers-%)

$(ONNX:%=numbers-%): numbers-%: .venv-onnx-%/$(READY)
	.venv-onnx-$*/bin/python -W ignore tests/onnx_series.py --stock .venv-onnx-$*/stock/bin/python

# The environments of the scoreboard's runs, next to the stock wheels.
BOARD := cpu openvino plugins webgpu-plugin
scoreboard: $(STOCKS:%=.venv-%/$(STOCK)) $(BOARD:%=.venv-%/$(READY))
	for name in $(BOARD) $(STOCKS); do .venv-$$name/bin/python -m pip install --quiet --constraint constraints.txt \
		pytest pytest-xdist tabulate jinja2 || exit; done
	.venv-cpu/bin/python tests/scoreboard.py \
		"$(or $(CHECKOUT),$(error scoreboard requires CHECKOUT=FOLDER, the source tree of onnx/backend-scoreboard))" \
		$(foreach name,$(STOCKS) $(BOARD),$(name)=.venv-$(name)/bin/python) $(TEST)

upstream-tests: .venv-onnx-$(ONNX_UPSTREAM)/$(READY)
	.venv-onnx-$(ONNX_UPSTREAM)/bin/python tests/upstream_tests.py \
		"$(or $(CHECKOUT),$(error upstream-tests requires CHECKOUT=FOLDER, the source tree of ONNX Runtime))" \
		.venv-onnx-$(ONNX_UPSTREAM)/stock/bin/python

$(ONNX:%=.venv-onnx-%/$(READY)): .venv-onnx-%/$(READY):
	rm -rf .venv-onnx-$*
	$(PYTHON) -m venv .venv-onnx-$*
	$(PYTHON) -m venv .venv-onnx-$*/stock
	grep -v '^onnx==' constraints.txt > .venv-onnx-$*/constraints.txt
	.venv-onnx-$*/bin/python -m pip install --quiet --constraint .venv-onnx-$*/constraints.txt . pytest onnx==$*
	release=$$(.venv-onnx-$*/bin/python -c 'import onnxruntime; print(onnxruntime.__version__)') && \
	.venv-onnx-$*/stock/bin/python -m pip install --quiet --constraint .venv-onnx-$*/constraints.txt \
		onnxruntime==$$release pytest onnx==$*
	touch $@

demo: .venv-cpu/$(READY)
	git ls-files -z | xargs -0 .venv-cpu/bin/python examples/magika_demo.py

scale-out: .venv-scale-out/$(READY)
	.venv-scale-out/bin/python tests/scale_out.py
	.venv-scale-out/bin/python -m pytest tests/test_documents.py -k services_and_scale_out

# The tests import the installed package, and a build of the wheel after each edit takes long. So the installed ORT gets
# the folder of this tree in place of its backend.
TRY := $(CURDIR)/build/try
ENV ?= cpu
# Without files, pytest would run all tests.
TRIED = $(or $(call tests_ending,$(FILE)),$(error no test file ends with _$(or $(FILE),FILE).py))
try: $(if $(wildcard .venv-$(ENV)/ready-*),,.venv-$(ENV)/$(READY))
	rm -rf $(TRY)
	mkdir -p $(TRY)/onnxruntime
	ln -s $(CURDIR)/.venv-$(ENV)/lib/python3*/site-packages/onnxruntime/* $(TRY)/onnxruntime
	rm $(TRY)/onnxruntime/backend
	ln -s $(CURDIR)/onnxruntime/python/backend $(TRY)/onnxruntime/backend
	PYTHONPATH=$(TRY) $(UNDER_$(ENV)) .venv-$(ENV)/bin/python -m pytest $(TRIED) $(TEST)

bench: .venv-cpu/$(READY) .venv-stock/$(STOCK)
	.venv-cpu/bin/python -m pip install --quiet --constraint constraints.txt matplotlib
	.venv-cpu/bin/python -m benchmarks --stock .venv-stock/bin/python --json build/bench.json \
		$(or $(BENCH),--document docs/benchmarks.md)

bench-openvino: .venv-openvino/$(READY)
	PYTHONPATH=.venv-openvino/models .venv-openvino/bin/python -m benchmarks openvino \
		--json build/bench-openvino.json $(or $(BENCH),--document docs/benchmarks.md --table openvino)

fuzz: .venv-cpu/$(READY) .venv-openvino/$(READY)
	ORT_BACKEND_EXAMPLES=50000 .venv-cpu/bin/python -m pytest -s $(filter %_properties.py,$(TEST_FILES))
	.venv-cpu/bin/python onnxruntime/test/python/backend_differential_fuzz.py
	.venv-openvino/bin/python onnxruntime/test/python/backend_differential_fuzz.py

mutants: .venv-cpu/$(READY)
	.venv-cpu/bin/python -m pip install --quiet --constraint constraints.txt coverage
	mkdir -p build
	ORT_BACKEND_EXAMPLES=100 .venv-cpu/bin/python tools/python/backend_mutants.py --sample 200 --json build/mutants.json \
		$(MUTANTS) $(filter onnxruntime/%,$(call tests_only_in,cpu) $(filter-out $(NOT_EVERYWHERE),$(TEST_FILES)))

drift: .venv-cpu/$(READY)
	.venv-cpu/bin/python tools/python/backend_option_drift.py $(RELEASES)

new-release:
	$(PYTHON) tools/python/backend_new_release.py "$(or $(RELEASE),$(error new-release requires RELEASE=NAME==VERSION))"

document: .venv-cpu/$(READY)
	.venv-cpu/bin/python tools/python/backend_option_document.py

patch: .venv-cpu/$(READY) .venv-stock/$(STOCK)
	.venv-cpu/bin/python tools/python/backend_patch.py --out build/patch $(PATCH) \
		$(if $(CHECKOUT),--checkout "$(CHECKOUT)",--stock .venv-stock/lib/python3*/site-packages/onnxruntime/backend)

bench-capture: .venv-webgpu-plugin/$(READY) .venv-cuda/$(READY)
	$(UNDER_cuda) .venv-cuda/bin/python -m benchmarks graph_capture --json build/bench-capture-cuda.json $(BENCH)
	$(UNDER_webgpu-plugin) .venv-webgpu-plugin/bin/python -m benchmarks graph_capture --json build/bench-capture.json $(BENCH)

lint: .venv-cpu/$(READY)
	.venv-cpu/bin/python -m ruff check
	.venv-cpu/bin/python -m ruff format --check

clean:
	rm -rf .venv-* .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(patsubst %,.venv-%/$(MADE),$(ENVIRONMENTS) $(EXAMPLES) $(STOCKS)): .venv-%/$(MADE):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	rm -rf .venv-$*
	$(PYTHON) -m venv .venv-$*
	touch $@

# Each base has one wheel of this tree, which every environment with this base installs.
wheel = build/wheels/$(subst ==,-,$(1))/$(READY)
$(foreach base,$(sort $(foreach name,$(ENVIRONMENTS) $(EXAMPLES),$(BASE_$(name)))),$(call wheel,$(base))): \
		build/wheels/%/$(READY): .venv-stock/$(MADE)
	rm -rf $(@D)
	ORT_BACKEND_BASE=$(subst -1.,==1.,$*) .venv-stock/bin/python -m pip wheel --quiet --no-deps --wheel-dir $(@D) .
	touch $@

# pip does not replace an installed wheel of the same version without --force-reinstall.
.SECONDEXPANSION:
$(patsubst %,.venv-%/$(READY),$(ENVIRONMENTS) $(EXAMPLES)): .venv-%/$(READY): .venv-%/$(MADE) \
		| $$(call wheel,$$(BASE_$$*))
	rm -f .venv-$*/ready-*
	.venv-$*/bin/python -m pip install --quiet --no-deps --force-reinstall $(dir $(call wheel,$(BASE_$*)))*.whl
	.venv-$*/bin/python -m pip install --quiet --constraint constraints.txt \
		$(dir $(call wheel,$(BASE_$*)))*.whl $(PACKAGES) $(PACKAGES_$*)
	.venv-$*/bin/python -m pip check
	.venv-$*/bin/python -m pip install --quiet --constraint constraints.txt --no-deps --upgrade \
		--target .venv-$*/models $(MODELS)
	touch $@

$(STOCKS:%=.venv-%/$(STOCK)): .venv-%/$(STOCK): .venv-%/$(MADE)
	rm -f .venv-$*/stock-*
	.venv-$*/bin/python -m pip install --quiet --constraint constraints.txt \
		"$$($(PYTHON) -c 'import setup; print("==".join(setup.requested_base("$(BASE_$*)")))')" onnx
	$(if $(filter stock,$*),.venv-stock/bin/python -m pip install --quiet --constraint constraints.txt --no-deps magika)
	touch $@
