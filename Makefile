# `make run` and `make test` do all their own set-up; all they need is this checkout, make, and Python 3.11 or newer.

PYTHON ?= python3
PORT ?= 8000

VENV := .venv
BIN := $(VENV)/bin
# Build tools are pinned as well as what they build.
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt
# Where there is no network pip ends with a conflict of versions.
HELP := { echo "pip could not install: check the network and the disk, then give the same command again" >&2; exit 1; }

.PHONY: run test thorough check env fmt lock clean
.DELETE_ON_ERROR:

run: $(VENV)/.runtime ## the server, on PORT
	@$(BIN)/duplex models fetch
	@exec $(BIN)/duplex serve --port $(PORT)

test: check ## everything that must hold
	$(BIN)/duplex models fetch --test
	$(BIN)/python -m pytest

thorough: $(VENV)/.complete ## ten thousand stories of the whole kernel: a quarter of an hour
	$(BIN)/python -m pytest tests/kernel --hypothesis-profile thorough

check: $(VENV)/.complete
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

env: $(VENV)/.complete ## .venv with what tests and benchmarks need

fmt: $(VENV)/.complete ## format, and repair what ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: ## write constraints.txt anew from the newest releases that pyproject.toml allows
	$(PYTHON) -m venv --clear .lock
	.lock/bin/python -m pip install --quiet --upgrade pip hatchling
	.lock/bin/python -m pip install --quiet --editable '.[test,bench]'
	(echo '# What is tested, all of it: made by `make lock`.'; \
	.lock/bin/python -m pip freeze --all --exclude-editable --exclude setuptools) > .lock/constraints.txt
	mv .lock/constraints.txt constraints.txt
	rm -rf .lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The stamps lie inside the environment: whoever deletes it deletes them too. The complete set includes the runtime.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Python 3.11 or newer is needed, and $(PYTHON) is older or absent: add PYTHON=python3.12 to the command" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	{ echo "$(PYTHON) comes without venv: install it (on Debian, the package python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip || $(HELP)
	@touch $@

$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/.python
	@echo "installing what the server needs into $(VENV) (about 100 MB to fetch)"
	@$(INSTALL) --editable . || $(HELP)
	@touch $@

$(VENV)/.complete: pyproject.toml constraints.txt | $(VENV)/.python
	@echo "installing what server, tests and benchmarks need into $(VENV) (about 200 MB to fetch)"
	@$(INSTALL) --editable '.[test,bench]' || $(HELP)
	@touch $(VENV)/.runtime $@
