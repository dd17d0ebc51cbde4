# Everything lives in .venv (the program and its tools), .venv-vllm (what vLLM's own modules import, for the behaviour
# tests), .venv-triton2 (Triton 2.3.1, for the compile gate; it needs a Python from 3.8 to 3.12) and .venv-engine (vLLM
# that serves on a CPU, for the tests of `sweep`). They are made when needed, and again when what they are made from
# changes.
# Variables: PYTHON (3.11 or newer), PYTEST_ARGS (for example PYTEST_ARGS='-n 2 tests/kernels'), MINUTES of fuzzing.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help render test test-engine lint bench fuzz docs clean

VENV := .venv
VLLM := .venv-vllm
TRITON2 := .venv-triton2
ENGINE := .venv-engine
BIN := $(VENV)/bin
PYTEST_ARGS ?=
MINUTES ?= 60
NEWER := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
FIND := for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$p -c '$(NEWER)' 2>/dev/null; then command -v $$p; break; fi; done
PYTHON ?= $(shell $(FIND))
OLDER := import sys, venv, ensurepip; sys.exit(not (3, 8) <= sys.version_info < (3, 13))
FIND_OLDER := for p in $(PYTHON) python3 python3.12 python3.11 python3.10 python3.9 python3.8; do \
	if $$p -c '$(OLDER)' 2>/dev/null; then command -v $$p; break; fi; done
PIP_FLAGS := --quiet --disable-pip-version-check

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## */\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r name what; do \
		printf '  make %-11s %s\n' "$$name" "$$what"; done

render: $(VENV)/.render  ## write build/ for the default target
	$(BIN)/orchestrator render

test: lint $(VLLM)/.ready $(TRITON2)/.ready  ## lint, then every test
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest $(PYTEST_ARGS)

test-engine: $(VENV)/.test $(ENGINE)/.ready  ## the tests that serve with a real engine, on a CPU
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m engine tests/serving_engine

lint: $(VENV)/.test  ## ruff, mypy and the contract between the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test  ## time of a run, as a share of what libcst needs to read the same files
	$(BIN)/python benchmarks/run_ratio.py

fuzz: $(VENV)/.test  ## damaged input to every reader, for MINUTES; what it finds stands in fuzz.jsonl
	$(BIN)/python -m tests.fuzz.drive --minutes $(MINUTES) --log fuzz.jsonl

docs: $(VENV)/.test  ## write the generated documents again
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/kernels/generate.py

clean:  ## remove what these targets made
	rm -rf build .build.new .build.old .build.lock $(VENV) $(VLLM) $(TRITON2) $(ENGINE) *.egg-info
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python $(VLLM)/bin/python $(ENGINE)/bin/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv on PATH; set PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(@D:/bin=)

$(VENV)/.render: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_FLAGS) -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[dev,kernels,bench,sweep]'
	@touch $@ $(VENV)/.render

$(VLLM)/.ready: tests/behaviour/requirements.txt | $(VLLM)/bin/python
	$(VLLM)/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@

$(ENGINE)/.ready: tests/serving_engine/requirements.txt tests/serving_engine/known_as_vllm.py | $(ENGINE)/bin/python
	$(ENGINE)/bin/python -m pip install $(PIP_FLAGS) -r $<
	$(ENGINE)/bin/python -m pip uninstall $(PIP_FLAGS) --yes torchvision torchaudio torchcodec
	$(ENGINE)/bin/python tests/serving_engine/known_as_vllm.py
	@touch $@

# Without a Python that old the tests that need it are skipped, which is a failure in CI.
$(TRITON2)/.ready: tests/kernels/triton2.txt
	@found="$$($(FIND_OLDER))"; if [ -z "$$found" ]; then \
		echo "make: no Python from 3.8 to 3.12 on PATH; the tests with Triton 2.3.1 are skipped" >&2; \
	else \
		"$$found" -m venv $(@D) && $(@D)/bin/python -m pip install $(PIP_FLAGS) -r $< && touch $@; \
	fi
