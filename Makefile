# Everything lives in .venv (the program and its tools) and .venv-vllm (what vLLM's own modules import, for the
# behaviour tests). Both are made when needed, and again when what they are made from changes.
# Variables: PYTHON (3.11 or newer), PYTEST_ARGS (for example PYTEST_ARGS='-n 2 tests/kernels').

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help render test test-triton lint bench docs clean

VENV := .venv
VLLM := .venv-vllm
BIN := $(VENV)/bin
PYTEST_ARGS ?=
NEWER := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
FIND := for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$p -c '$(NEWER)' 2>/dev/null; then command -v $$p; break; fi; done
PYTHON ?= $(shell $(FIND))
PIP_FLAGS := --quiet --disable-pip-version-check

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## */\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r name what; do \
		printf '  make %-8s %s\n' "$$name" "$$what"; done

render: $(VENV)/.render  ## write build/ for the default target
	$(BIN)/orchestrator render

test: lint $(VLLM)/.ready  ## lint, then every test
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.test  ## ruff, mypy and the contract between the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The Triton kernels, interpreted and compiled; minutes, and it installs Triton.
test-triton: $(VENV)/.test
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[triton]'
	$(BIN)/python -m pytest -m triton $(PYTEST_ARGS) tests/kernels

bench: $(VENV)/.test  ## time of a run, as a share of what libcst needs to read the same files
	$(BIN)/python benchmarks/run_ratio.py

docs: $(VENV)/.test  ## write the generated documents again
	$(BIN)/python docs/generate.py

clean:  ## remove what these targets made
	rm -rf build build.new build.old .build.lock $(VENV) $(VLLM) *.egg-info
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python $(VLLM)/bin/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv on PATH; set PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(@D:/bin=)

$(VENV)/.render: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_FLAGS) -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[dev,kernels]'
	@touch $@ $(VENV)/.render

$(VLLM)/.ready: tests/behaviour/requirements.txt | $(VLLM)/bin/python
	$(VLLM)/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@
