# Everything installs into .venv from constraints.txt; nothing else is needed but Python, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FUZZ_MINUTES ?= 120
# Folders of rank files for make paper, as FOLDER or NAME=FOLDER.
RANKS ?= $(if $(wildcard ../shared/data/published_ranks),published=../shared/data/published_ranks)
ifneq ($(wildcard ../shared/data),)
KGPROBE_DATA ?= $(abspath ../shared/data)
export KGPROBE_DATA
endif

.PHONY: help install demo paper test test-slow test-campaign test-all fuzz lint bench docs clean

help:
	@echo "make demo   set up, and train, rank and compare models on the built-in graph"
	@echo "make paper  set up, and repeat the PROBE paper from the rank files of RANKS=FOLDER: tables, figures, verdicts"
	@echo "make test   set up, and run the tests, which takes minutes"
	@echo "make test-all   the same, then the long studies (make test-slow) and thousands of damaged inputs, flipped bits"
	@echo "                and kills (make test-campaign)"
	@echo "make fuzz   run the fuzzers of all input files on all cores for FUZZ_MINUTES=$(FUZZ_MINUTES)"
	@echo "make install | lint | bench | docs | clean"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[models,report]'
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

install: $(VENV)/.core

demo: install
	$(BIN)/kgprobe demo

paper: install
	@test -n "$(RANKS)" || { echo "make paper needs rank files FOLDER/GRAPH/MODEL.parquet: make paper RANKS=FOLDER"; exit 2; }
	mkdir -p paper
	$(BIN)/kgprobe study init probe-paper -o paper/probe-paper.toml --force
	$(BIN)/kgprobe study run paper/probe-paper.toml -o paper/results --update $(addprefix --ranks ,$(RANKS))
	$(BIN)/kgprobe study report paper/results

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not campaign"

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m slow

test-campaign: $(VENV)/.dev
	$(BIN)/python -m pytest -q -s -n 2 --dist worksteal -m campaign

test-all: test test-slow test-campaign

# atheris adds coverage guidance; there is no wheel of it for every platform.
fuzz: $(VENV)/.dev
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: atheris
	$(BIN)/python tests/fuzz/run.py --guided --minutes $(FUZZ_MINUTES)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/surface.py
	$(BIN)/python benchmarks/stream.py
	$(BIN)/python benchmarks/popularity.py
	$(BIN)/python benchmarks/family_tree.py
	$(BIN)/python benchmarks/ranking.py
	$(BIN)/python benchmarks/int16_soundness.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/openworld_speed.py
	$(BIN)/python benchmarks/large_files.py
	$(BIN)/python benchmarks/decision.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/interval_coverage.py
	$(BIN)/python benchmarks/openworld_estimate.py
	$(BIN)/python benchmarks/claim_verdicts.py

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) demo paper fuzz_failures build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
