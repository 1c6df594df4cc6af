# Every target works in a fresh clone: the virtual environment is made on the way.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint clean
.PHONY: bench-adult bench-speed bench-scale bench-accounting bench-sbdt bench-streams bench-trees bench-dpxgb bench-sarus bench-lazybb bench-adassp bench-linear bench-papers

demo: $(VENV)/.demo
	$(BIN)/privboost demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench-adult: $(VENV)/.bench
	$(BIN)/python -m bench.accuracy adult --runs 20

bench-speed: $(VENV)/.bench
	$(BIN)/python -m bench.speed

bench-scale: $(VENV)/.bench
	$(BIN)/python -m bench.scale
	$(BIN)/python -m bench.scale --recipe trees
	$(BIN)/python -m bench.scale --recipe filter
	$(BIN)/python -m bench.scale --recipe linear --rounds 25
	$(BIN)/python -m bench.scale --recipe votes --rounds 25

bench-sbdt: $(VENV)/.bench
	$(BIN)/python -m bench.papers sbdt

bench-streams: $(VENV)/.bench
	$(BIN)/python -m bench.papers sbdt.figure5

bench-dpxgb: $(VENV)/.bench
	$(BIN)/python -m bench.papers dpxgb

bench-sarus: $(VENV)/.bench
	$(BIN)/python -m bench.papers sarus

bench-lazybb: $(VENV)/.bench
	$(BIN)/python -m bench.papers lazybb

bench-adassp: $(VENV)/.bench
	$(BIN)/python -m bench.papers adassp

bench-papers: $(VENV)/.bench
	$(BIN)/python -m bench.papers

bench-linear: $(VENV)/.bench
	$(BIN)/python -m bench.linear_speed

bench-trees: $(VENV)/.bench
	$(BIN)/python -m bench.tree_speed

bench-accounting: $(VENV)/.bench
	$(BIN)/python -m bench.accounting

clean:
	rm -rf $(VENV)

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
