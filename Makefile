# Two commands for a new checkout: `make demo` and `make test`. Each installs what it needs; Python packages go into
# .venv and nowhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Test files that run at once. Each worker starts a control plane of its own.
WORKERS ?= 2

.PHONY: help demo test check bench oracle clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 16

demo: tools-demo $(VENV)/.installed  ## Show the whole story on this machine: a registry, a repository, real builds
	@$(BIN)/python -m tests.demo

test: tools-test $(VENV)/.installed-dev check  ## Install what the suite needs, then run every check
	@$(BIN)/python -m tests.controlplane build || [ "$$CI" != true ]
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

check: $(VENV)/.installed-dev  ## Format, lint and types
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

bench: tools-test $(VENV)/.installed-dev  ## Measure plans, builds, a daemon, previews and a cluster; results go to bench/results
	@$(BIN)/python -m bench.plan --json bench/results/plan.json
	@$(BIN)/python -m bench.builds --json bench/results/builds.json
	@$(BIN)/python -m bench.soak --json bench/results/soak.json
	@$(BIN)/python -m bench.preview --json bench/results/preview.json
	@$(BIN)/python -m bench.cluster --json bench/results/cluster.json

oracle: tools-test $(VENV)/.installed-dev  ## Let buildah judge 500 pairs of definitions: no rebuild may be missed
	@$(BIN)/python -m tests.oracle --pairs 500

clean:  ## Remove what these commands left in this folder
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info build dist

tools-%:
	@PYTHON=$(PYTHON) tests/install-tools.sh $*

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed
