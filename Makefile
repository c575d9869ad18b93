# One list of commands, for people and for continuous integration alike.
# Needs Python 3.11 or newer and make; everything else is installed into .venv, locked with hashes.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint type format docs bench findings lock dist clean setup
.DEFAULT_GOAL := demo

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "outspan needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python"; exit 2; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY)  ## run the main job on the example
	@$(BIN)/outspan models fetch
	@echo
	$(BIN)/outspan check examples/answer.md --evidence examples/report.md --evidence examples/minutes.txt
	@echo
	@echo "Next: . $(BIN)/activate && cd examples, and the commands of the README run as they stand."

test: $(READY)  ## the whole test suite
	@$(BIN)/outspan models fetch
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## every benchmark, each paired against the plain alternative
	$(BIN)/python benchmarks/geometry.py --quick
	$(BIN)/python benchmarks/embedding.py
	$(BIN)/python benchmarks/checking.py

lock: $(READY)  ## resolve the dependencies anew, for Python 3.11 and newer
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra parquet --extra frames --extra plots --extra postgres --extra lab --group dev \
		--universal --python-version 3.11 --generate-hashes --quiet --upgrade \
		--custom-compile-command "make lock" -o requirements.lock

dist: $(READY)  ## a wheel and a source archive in dist/
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

DATA ?= ../shared/data
findings: $(READY)  ## the whole programme of the lab on DATA; a set that was finished by this code is not run again
	$(BIN)/outspan evaluate $(DATA)/qags_cnndm.jsonl $(DATA)/qags_xsum.jsonl $(DATA)/wice_claims.jsonl \
		$(DATA)/faithbench.jsonl $(DATA)/pubmedqa.jsonl $(DATA)/wice_tokens.jsonl -o findings
