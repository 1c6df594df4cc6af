# Every target works in a fresh clone: the virtual environment is made on the way.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Clusters have an environment of their own: the rest must work without their packages.
CLUSTERS := .venv-distributed

# What a bench- target is to run, in the words of its own command line: WHAT="grid --runs 2".
WHAT ?=

.PHONY: demo test test-slow test-distributed lint results clean
.PHONY: bench-utility bench-speed bench-accounting bench-papers

demo: $(VENV)/.demo
	$(BIN)/privboost demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

test-distributed: $(CLUSTERS)/.test
	$(CLUSTERS)/bin/python -m pytest tests/distributed

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench-utility bench-speed bench-accounting bench-papers: bench-%: $(VENV)/.bench
	$(BIN)/python -m bench.$* $(WHAT)

results: $(VENV)/.bench
	$(BIN)/python -m bench.results

clean:
	rm -rf $(VENV) $(CLUSTERS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras, so that the demo installs little.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[test,lint]"
	touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[test,bench]"
	touch $@

$(CLUSTERS)/.test: pyproject.toml
	$(PYTHON) -m venv $(CLUSTERS)
	$(CLUSTERS)/bin/python -m pip install --quiet -e ".[test,dask,spark]"
	touch $@
