# make NAME runs the session NAME of noxfile.py, and make list lists the sessions. The variables of a session are variables
# of make, as in make try FILE=locks. This requires Python 3.11 or newer, make and git.
PYTHON ?= python3
SESSIONS := test test-first-step test-openvino test-plugins test-webgpu test-webgpu-plugin test-cuda test-python environment-python \
	environments try lint demo scale-out conformance conformance-openvino conformance-webgpu conformance-keys \
	conformance-numbers bench bench-openvino bench-capture captured-operators \
	unwritten-outputs zoo fuzz mutants document drift new-release patch first-step \
	upstream-tests

.PHONY: $(SESSIONS) test-cpu conformance-cpu list clean

test-cpu: test
conformance-cpu: conformance
$(SESSIONS): .venv-nox/made
	@.venv-nox/bin/nox --session $@

list: .venv-nox/made
	@.venv-nox/bin/nox --list

# nox creates environments with uv, which is much faster than pip. If uv cannot be installed, nox uses pip. Neither has a
# version in constraints.txt, so a new version of another package does not create this environment again.
.venv-nox/made: | constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is required: make PYTHON=...")'
	$(PYTHON) -m venv .venv-nox
	.venv-nox/bin/python -m pip install --quiet --constraint constraints.txt nox
	-.venv-nox/bin/python -m pip install --quiet --constraint constraints.txt --only-binary uv uv
	touch $@

clean:
	rm -rf .nox .venv-* .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
