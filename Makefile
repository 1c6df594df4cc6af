# Every target works in a fresh clone: the virtual environment is made on the way.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Clusters have an environment of their own: the rest must work without their packages.
CLUSTERS := .venv-distributed
# What builds the site and the packages is not needed to run anything.
DOCS := .venv-docs
DIST := .venv-dist

# What a bench- target is to run, in the words of its own command line: WHAT="grid --runs 2".
WHAT ?=

.PHONY: demo test coverage test-slow test-distributed test-gpu sanitize-gpu lint docs dist results clean
.PHONY: bench-utility bench-speed bench-accounting bench-papers

demo: $(VENV)/.demo
	$(BIN)/python examples/adult.py

# One process a core; the tests of a file stay together, since they share what they fit. Files that
# take longest come first (tests/conftest.py); left alone, xdist would begin with those of most tests.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
test: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL)

# Fails below the floor in pyproject.toml.
coverage: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e ".[coverage]"
	$(BIN)/python -m pytest $(PARALLEL) --cov --cov-report term:skip-covered --cov-report xml:build/coverage.xml

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m slow

test-distributed: $(CLUSTERS)/.test
	$(CLUSTERS)/bin/python -m pytest tests/distributed

# On a card of this machine; GPU says which CUDA its driver is for (gpu12 or gpu13).
GPU ?= gpu13
test-gpu: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e ".[$(GPU)]"
	$(BIN)/python -m pytest tests/cuda

# Every kernel on few rows, under the checker that comes with CUDA's toolkit.
SANITIZER ?= compute-sanitizer
sanitize-gpu: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e ".[$(GPU)]"
	$(SANITIZER) --tool memcheck --error-exitcode 1 $(BIN)/python -m tests.cuda.sanitize
	$(SANITIZER) --tool racecheck --error-exitcode 1 $(BIN)/python -m tests.cuda.sanitize

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# A static site in site/, to be opened from the disk; a link that leads nowhere is an error.
docs: $(DOCS)/.made
	rm -rf site
	$(DOCS)/bin/python website/pages.py build/website
	$(DOCS)/bin/sphinx-build -q -E -W --keep-going -c website build/website site

# Wheel and sdist in dist/, each tried in an empty environment of every Python that is here.
PYTHONS ?= $(shell for each in 3.11 3.12 3.13 3.14; do python$$each -c "" 2>/dev/null && echo python$$each; done)
dist: $(DIST)/.made
	rm -rf dist
	$(DIST)/bin/python -m build --outdir dist .
	$(DIST)/bin/python -m twine check --strict dist/*
	for each in $(PYTHONS); do .ci/try_dist $$each || exit 1; done

bench-utility bench-speed bench-accounting bench-papers: bench-%: $(VENV)/.bench
	$(BIN)/python -m bench.$* $(WHAT)

results: $(VENV)/.bench
	$(BIN)/python -m bench.results

clean:
	rm -rf $(VENV) $(CLUSTERS) $(DOCS) $(DIST) build dist site
	find src tests -name '*.nb[ic]' -delete

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras, so that the demo installs little.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[plot]"
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

$(DOCS)/.made: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet -e ".[docs]"
	touch $@

$(DIST)/.made: pyproject.toml
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet build twine
	touch $@
