# The two commands a newcomer needs are `make demo` and `make test`; both set everything up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# CI sets `uv pip`, which can choose torch's CPU build: on Linux x86 pip takes the one for CUDA.
PIP ?= $(BIN)/python -m pip
INSTALLED := $(VENV)/.installed
INSTALLED_DOCS := $(VENV)/.installed_docs
JOBS ?= 2
# Two test processes on two cores: one thread each, or they wait for one another. Whoever is done
# takes work from the other: some slow tests take minutes.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: demo test test-all lint ruff format docs clean

demo: $(INSTALLED)
	$(BIN)/python -m tools.demo

test-all: export AIB_FUZZ_CASES = 1000
test-all: PYTEST += -m "slow or not slow"

# mypy takes a minute without its cache: it runs beside the tests, and is reported after them.
test test-all: ruff
	@$(BIN)/mypy >$(VENV)/mypy.txt 2>&1 & mypy=$$!; \
	$(PYTEST); tests=$$?; \
	wait $$mypy; types=$$?; \
	cat $(VENV)/mypy.txt; exit $$((tests + types))

lint: ruff
	$(BIN)/mypy

ruff: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A site in site/. Links that lead nowhere are errors; nothing is loaded from a network.
docs: $(INSTALLED_DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Installed once; again only when the requirements change.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("aib needs Python 3.11 or newer; say which with make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	VIRTUAL_ENV=$(abspath $(VENV)) $(PIP) install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[dev]"
	@# pip would compile on one core, and the tests of every package too.
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib || true
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	VIRTUAL_ENV=$(abspath $(VENV)) $(PIP) install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
