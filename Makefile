# Commands for a machine with Python 3.11 or newer, make and git:
#   make demo            classify this repository's files with a real model
#   make test            the tests on the default base, onnxruntime
#   make try FILE=ENDING the test files with that ending, on this tree without building a wheel; TEST="-k NAME" for some
#                        of their tests, ENV=cuda for another environment
#   make scale-out       the batch example on Dask: two local workers, then a scheduler and two workers on 127.0.0.1
#   make test-openvino   the tests on onnxruntime-openvino
#   make test-webgpu-plugin  graph capture and the WebGPU plugin EP on SwiftShader
#   make test-webgpu     the EP of onnxruntime-webgpu on SwiftShader (Debian: apt install chromium-common)
#   make test-plugins    the plugin EPs of OpenVINO and Qualcomm
#   make test-cuda       the EP of onnxruntime-gpu, on a GPU, or without one on a software CUDA (255 MB; gcc, nm)
#   make campaign-cuda   120 random models captured there, 12,000 runs (long)
#   make conformance     ONNX's whole backend test series; conformance-openvino and conformance-webgpu on those bases
#   make conformance-numbers  the series on this backend, the stock one and bare sessions side by side, for each of $(ONNX)
#   make upstream-tests CHECKOUT=FOLDER  ORT's own tests of the backend, as a checkout has them, here and on the stock wheel
#   make conformance-keys  the series with each permitted config key away from its default (long)
#   make captured-operators  what WebGPU's graph capture replays, operator by operator, on SwiftShader (long)
#   make bench           measure the backend beside the same work by hand and the stock backend, and write the table and
#                        the picture of docs/benchmarks.md; BENCH="run_path --match Magika" measures a part of it
#   make bench-capture   what graph capture gains, on CUDA and on the WebGPU plugin
#   make fuzz            50,000 examples for the property that the allowlist is held to, and 2,000 configurations on each
#                        of the CPU's and OpenVINO's EPs, which must change precision and speed only (half an hour)
#   make drift RELEASES=onnxruntime==1.31.1   which option names of a release nobody has judged
#   make mutants         break the backend in 200 small ways and list those that no test notices (an hour on two CPUs)
#   make document        write docs/options.md and docs/provider-options.md again, from the allowlist
#   make patch CHECKOUT=FOLDER  write the patches for an ORT source tree into build/patch; PATCH=--test runs each step's
#                        tests; without CHECKOUT, the patches start from the stock wheel and leave the build files out
#   make lint            ruff
#   make clean           remove every environment and cache
# Each environment is a folder .venv-NAME holding a wheel built from this tree on the environment's base. Another base
# is a variable: make test BASE_cpu=onnxruntime==1.30.0

PYTHON ?= python3

# An environment: BASE_name, what setup.py builds on; PACKAGES_name, what its tests need besides PACKAGES;
# ONLY_name, endings of test files that run in no environment without it; ALSO_name, of others that it runs; UNDER_name,
# a command that runs the tests; AGAIN_name, settings with which those of the two run once more. The others come first: a
# process that ever had a session on another CUDA device than 0 captures on threads of its own from then on.
# Those in ALONE run no other test files but the drift check: they are there for an EP, and what that changes of the
# others is not ours.
ENVIRONMENTS := cpu openvino webgpu-plugin webgpu plugins cuda
# Environments without tests of their own.
EXAMPLES := scale-out
ALONE := webgpu-plugin webgpu plugins cuda
# A process for each CPU, and a file in one process. The longest files begin first.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
LONGEST := documents stock_comparison option_drift allowlist_properties command_line_text command_line_processes
PACKAGES := pytest pytest-xdist hypothesis
# Whose files the tests and examples take real models from; put beside the environment's packages, because what they
# require is not needed.
MODELS := magika silero-vad

# The onnx that ORT's tests are written for (onnxruntime/test/python/requirements.txt of its tree).
ONNX_UPSTREAM := 1.22.0

# Releases of onnx whose series the numbers are counted on.
ONNX := 1.17.0 1.19.1 1.20.1 1.21.0 1.22.0 1.23.2

BASE_cpu := onnxruntime
PACKAGES_cpu := magika ruff onnxruntime-extensions jsonschema
ONLY_cpu := demo session_opening session_presence session_verification session_failures

BASE_openvino := onnxruntime-openvino
ONLY_openvino := openvino

BASE_webgpu-plugin := onnxruntime
PACKAGES_webgpu-plugin := onnxruntime-ep-webgpu
ONLY_webgpu-plugin := webgpu_capture webgpu
UNDER_webgpu-plugin := sh onnxruntime/test/python/with_software_gpu.sh

BASE_webgpu := onnxruntime-webgpu
ONLY_webgpu := webgpu
UNDER_webgpu := $(UNDER_webgpu-plugin)

BASE_plugins := onnxruntime
PACKAGES_plugins := onnxruntime-ep-openvino onnxruntime-qnn
ONLY_plugins := plugins
ALSO_plugins := session_replacement

BASE_cuda := onnxruntime-gpu
ONLY_cuda := cuda cuda_models
ALSO_cuda := capture_graphs
UNDER_cuda := sh onnxruntime/test/python/with_software_cuda.sh
# The software CUDA with work as late as a GPU may do it, and with captures that other threads meet.
AGAIN_cuda := SOFTCUDA_LAZY=1 SOFTCUDA_CAPTURE_US=300

BASE_scale-out := onnxruntime
PACKAGES_scale-out := dask distributed joblib magika

export ORT_DISABLE_TELEMETRY := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Stamps are named by the content that they stand for, so that no clock decides what is up to date: a deleted file, a
# checkout of an older commit, an edit within one second and another Python all change the name.
digest = $(shell { $(PYTHON) --version; printf '%s\n' $(1) '$(2)'; git hash-object $(1); } | git hash-object --stdin)
MADE := made-$(call digest,Makefile constraints.txt)
READY := ready-$(call digest,Makefile constraints.txt setup.py pyproject.toml \
	$(sort $(wildcard onnxruntime/python/backend/*.py onnxruntime/python/backend/*/*.py \
		onnxruntime/python/backend/*/*/*.py)),$(foreach name,$(ENVIRONMENTS) $(EXAMPLES),$(BASE_$(name))))

# The tests that go into ORT's tree, and those of this repository.
TEST_FILES := $(sort $(wildcard onnxruntime/test/python/onnxruntime_test_python_backend*.py tests/test_*.py))
tests_ending = $(foreach ending,$(1),$(filter %_$(ending).py,$(TEST_FILES)))
tests_only_in = $(call tests_ending,$(ONLY_$(1)))
NOT_EVERYWHERE := $(foreach name,$(ENVIRONMENTS),$(call tests_only_in,$(name)))

# Every minor release of ORT that is accepted, for the drift check.
RELEASES ?= $(addprefix onnxruntime==,1.24.4 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0 1.31.1)

# What the benchmark and the tests compare with: the stock wheel as it is.
STOCK := stock-$(call digest,Makefile constraints.txt setup.py)

.PHONY: demo scale-out test try patch campaign-cuda bench bench-capture fuzz mutants drift document lint clean $(ENVIRONMENTS:%=test-%) conformance conformance-cpu conformance-openvino \
	conformance-webgpu conformance-keys conformance-numbers upstream-tests captured-operators $(ONNX:%=numbers-%)

test: test-cpu

test-cpu: .venv-stock/$(STOCK)
test-cpu: export ORT_STOCK_PYTHON := $(CURDIR)/.venv-stock/bin/python

$(ENVIRONMENTS:%=test-%): test-%: .venv-%/$(READY)
	$(UNDER_$*) .venv-$*/bin/python -m pytest $(if $(filter $*,$(ALONE)),,$(PARALLEL) $(call tests_ending,$(LONGEST))) \
		$(call tests_ending,$(ALSO_$*) $(ONLY_$*)) $(if $(filter $*,$(ALONE)),\
		$(filter %_option_drift.py,$(TEST_FILES)),$(filter-out $(NOT_EVERYWHERE),$(TEST_FILES)))
	$(if $(AGAIN_$*),$(AGAIN_$*) $(UNDER_$*) .venv-$*/bin/python -m pytest $(call tests_ending,$(ALSO_$*) $(ONLY_$*)))

campaign-cuda: .venv-cuda/$(READY)
	for lazy in 0 1; do SOFTCUDA_LAZY=$$lazy ORT_BACKEND_MODELS=120 $(UNDER_cuda) .venv-cuda/bin/python -m pytest \
		$(filter %_cuda_models.py,$(TEST_FILES)) || exit; done

# ONNX's string tests need the locale en_US.UTF-8. Without being root (Debian's package locales has the sources):
#   localedef -i en_US -f UTF-8 "$PWD/.venv-locale/en_US.UTF-8"; make conformance LOCPATH="$PWD/.venv-locale"
conformance: conformance-cpu

conformance-cpu conformance-openvino conformance-webgpu: conformance-%: .venv-%/$(READY)
	$(UNDER_$*) .venv-$*/bin/python -m pytest -q -rX tests/onnx_series.py

captured-operators: .venv-webgpu-plugin/$(READY)
	$(UNDER_webgpu-plugin) .venv-webgpu-plugin/bin/python onnxruntime/test/python/backend_captured_operators.py

conformance-keys: .venv-cpu/$(READY)
	.venv-cpu/bin/python -W ignore tests/onnx_series_keys.py

conformance-numbers: $(ONNX:%=numbers-%)

$(ONNX:%=numbers-%): numbers-%: .venv-onnx-%/$(READY)
	.venv-onnx-$*/bin/python -W ignore tests/onnx_series_numbers.py .venv-onnx-$*/stock/bin/python

upstream-tests: .venv-onnx-$(ONNX_UPSTREAM)/$(READY)
	.venv-onnx-$(ONNX_UPSTREAM)/bin/python tests/upstream_tests.py "$(CHECKOUT)" .venv-onnx-$(ONNX_UPSTREAM)/stock/bin/python

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
try: $(if $(wildcard .venv-$(ENV)/ready-*),,.venv-$(ENV)/$(READY))
	rm -rf $(TRY)
	mkdir -p $(TRY)/onnxruntime
	ln -s $(CURDIR)/.venv-$(ENV)/lib/python3*/site-packages/onnxruntime/* $(TRY)/onnxruntime
	rm $(TRY)/onnxruntime/backend
	ln -s $(CURDIR)/onnxruntime/python/backend $(TRY)/onnxruntime/backend
	PYTHONPATH=$(TRY) $(UNDER_$(ENV)) .venv-$(ENV)/bin/python -m pytest $(call tests_ending,$(FILE)) $(TEST)

bench: .venv-cpu/$(READY) .venv-stock/$(STOCK)
	.venv-cpu/bin/python -m pip install --quiet --constraint constraints.txt matplotlib
	.venv-cpu/bin/python -m benchmarks --stock .venv-stock/bin/python --json build/bench.json \
		$(or $(BENCH),--document docs/benchmarks.md)

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

$(patsubst %,.venv-%/$(MADE),$(ENVIRONMENTS) $(EXAMPLES) stock): .venv-%/$(MADE):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	rm -rf .venv-$*
	$(PYTHON) -m venv .venv-$*
	touch $@

# pip always builds a folder anew, and replaces what an earlier build of the same version installed.
$(patsubst %,.venv-%/$(READY),$(ENVIRONMENTS) $(EXAMPLES)): .venv-%/$(READY): .venv-%/$(MADE)
	rm -f .venv-$*/ready-*
	ORT_BACKEND_BASE=$(BASE_$*) .venv-$*/bin/python -m pip install --quiet --constraint constraints.txt \
		. $(PACKAGES) $(PACKAGES_$*)
	.venv-$*/bin/python -m pip check
	.venv-$*/bin/python -m pip install --quiet --constraint constraints.txt --no-deps --upgrade \
		--target .venv-$*/models $(MODELS)
	touch $@

.venv-stock/$(STOCK): .venv-stock/$(MADE)
	rm -f .venv-stock/stock-*
	.venv-stock/bin/python -m pip install --quiet --constraint constraints.txt \
		"$$($(PYTHON) -c 'import setup; print("==".join(setup.requested_base("")))')" onnx
	.venv-stock/bin/python -m pip install --quiet --constraint constraints.txt --no-deps magika
	touch $@
