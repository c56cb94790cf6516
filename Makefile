PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export DS_ACCELERATOR ?= cpu
export TOKENIZERS_PARALLELISM := false

.PHONY: demo test test-all check fix bench docs clean

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)  ## crawl, clean, shard, train: the whole chain on a real crawl
	$(BIN)/python tools/demo.py --output runs/demo

test: $(STAMP)  ## the test suite, under 15 minutes on two cores
	$(BIN)/python -m pytest

test-all: $(STAMP)  ## full matrices, long runs, real data
	$(BIN)/python -m pytest -m ''

check: $(STAMP)  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## every benchmark, one table each
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) runs build *.egg-info
