# Two commands: `make demo` and `make test`. Each first makes .venv and installs the pinned dependencies, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/peers
# DeepSpeed looks for its tools on PATH, and needs to know that there is no GPU; `make demo DS_ACCELERATOR=cuda` on one.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export DS_ACCELERATOR ?= cpu
export TOKENIZERS_PARALLELISM := false
# The tests start hundreds of processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test try fast without test-all test-lowest test-newest check fix objectives docs rows site bench baby clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A torch that is already in the environment stays; otherwise exactly this pin. Whether that is the small build for the CPU
# or one with CUDA libraries depends on the package index and the platform: install another build into .venv first.
$(STAMP): pyproject.toml constraints.txt $(wildcard clozeline/native/*.cpp clozeline/native/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, $(PYTHON) is older: make PYTHON=python3.11 ..." >&2; exit 64; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

install: $(STAMP)  ## make .venv with the pinned dependencies

demo: $(STAMP)  ## clean, shard, train: the whole chain, on Python's documentation
	$(BIN)/clozeline demo output=runs/demo

test: $(STAMP)  ## the test suite; CONTRIBUTING.md says how long it takes
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

try: $(STAMP)  ## rules and tests for the uncommitted change, in a minute; of one algorithm: make try NAME=my_objective
	$(BIN)/python -m tests.try_one $(NAME)

fast: $(STAMP)  ## every contract test once, each with another algorithm, in a minute
	$(BIN)/python -m tests.try_one --fast -n 0

without: $(STAMP)  ## hide extensions, and see the main line work: make without NAMES="curation exports", or all
	CLOZELINE_WITHOUT="$(or $(NAMES),all)" $(BIN)/python -m pytest -n 0 tests/test_without.py
	CLOZELINE_HIDE="$(shell echo $(or $(NAMES),all) | tr ' ' ',')" $(BIN)/python -m tests.try_one --fast

test-all: $(STAMP)  ## full matrices, long runs, real data, a Ray cluster, a Slurm of one node if it is there (installs the extras `ray` and `site`)
	$(BIN)/pip install -q -c constraints.txt -e '.[dev,ray,site]'
	$(BIN)/python -m pytest -m '' --hypothesis-profile exploring -n auto --dist worksteal --no-loadscope-reorder

# Both ends of the versions that pyproject.toml allows; torch is the same, and Python is that of PYTHON.
$(VENV)/%/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(@D)
	sed -nE 's/^ *"([a-z0-9-]+)(\[[a-z0-9]+\])?>=([0-9.]+)(,<[0-9]+)?",.*/\1==\3/p' $< > $(@D)/lowest.txt
	$(@D)/bin/pip install -q --upgrade 'pip>=26'
	$(@D)/bin/pip install -q torch==2.13.0
	$(@D)/bin/pip install -q $(if $(filter lowest,$*),-c $(@D)/lowest.txt) -e '.[dev]'
	touch $@

test-lowest:  ## contract tests and the whole chain at the lowest versions that pyproject.toml allows
test-newest:  ## the same at the newest versions of the package index
# Elsewhere a warning is an error; here a package may call what a newer one deprecates.
test-lowest test-newest: export PYTEST_ADDOPTS = -n 0 -W default::DeprecationWarning -W default::FutureWarning
test-lowest test-newest: test-%: $(VENV)/%/.installed
	PATH="$(CURDIR)/$(VENV)/$*/bin:$$PATH" python -m tests.try_one --fast
	PATH="$(CURDIR)/$(VENV)/$*/bin:$$PATH" python -m pytest tests/test_end_to_end.py tests/pipeline/tables

check: $(STAMP)  ## lint, format, types, import contracts, messages of commits, weight of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "mypy reads all types: 140 CPU seconds at the first time, later seconds"
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.history
	$(BIN)/python -m tests.weight

fix: $(STAMP)  ## repair what lint and format can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

objectives: $(STAMP)  ## make the golden bytes and the page of objectives and groupings again, after one was added or changed
	$(BIN)/python -m tests.pipeline.corrupt.objectives.golden
	$(BIN)/python -m tests.pipeline.group.groupings.test_grouping_bytes
	$(BIN)/python -m docs.generate.page

docs: $(STAMP)  ## make the generated parts of docs/ again
	$(BIN)/python -m docs.generate.page
	$(BIN)/python -m docs.generate.house

rows: $(STAMP)  ## run every command of docs/rows.yaml, and write docs/rows.md from what they print
	$(BIN)/python -m docs.generate.rows $(if $(ONLY),--only "$(ONLY)")

site: $(STAMP)  ## build the documentation as a site, with search and the Python reference, into site/
	$(BIN)/pip install -q -c constraints.txt -e '.[site]'
	$(BIN)/mkdocs build

# Other libraries of the benchmarks need an environment of their own. Older releases of pip stop at the extra of lxml.
$(PEERS)/.installed: benchmarks/peers/requirements.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install -q --upgrade 'pip>=26'
	$(PEERS)/bin/pip install -q torch==2.13.0 -r benchmarks/peers/requirements.txt
	touch $@

bench: $(STAMP) $(PEERS)/.installed  ## every benchmark that needs nothing, with its peers, and one table of all rows
	$(BIN)/python -m benchmarks.run_all --peers $(PEERS)/bin/python --json runs/benchmarks.json

# TEXT and BLIMP name files or folders of yours, TASKS=NAME=FILE[,TEST]; SHARE=0.01 tries the chain, see docs/baby.md.
BABY ?= runs/baby
baby: $(STAMP)  ## train a small body on TEXT="FILES" and score it on BLIMP=FOLDER next to n-grams, in hours
	$(BIN)/python -m benchmarks.baby $(BABY) --text $(TEXT) --pairs $(BLIMP) --share $(or $(SHARE),1) \
	  $(if $(TASKS),--task $(TASKS)) $(if $(TRAIN),--train $(TRAIN))

clean:  ## remove the environment, runs and build folders
	rm -rf $(VENV) runs build site *.egg-info
