# Two commands do everything on a machine with Python 3.11 or newer and make: `make demo` and `make test`.
# PYTHON chooses the interpreter, for example `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
STAMPS := $(VENV)/.stamps

.PHONY: demo test lint docs wheel benchmark clean

demo: $(STAMPS)/core
	$(BIN)/allfocus demo --output demo --overwrite

test: lint
	$(BIN)/python -m pytest -q -n auto --maxprocesses 8

lint: $(STAMPS)/all
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo > $(STAMPS)/lint-imports.txt || (cat $(STAMPS)/lint-imports.txt; false)

# The site of the documentation, in build/site/VERSION; a warning is an error. To look at it with its search and the
# switch between versions: python -m http.server --directory build/site
docs: $(STAMPS)/all
	$(BIN)/python tools/docs_site.py build/site

# The wheel and, beside it, its bill of materials (SBOM).
wheel: $(STAMPS)/all
	rm -rf build/wheel
	@mkdir -p dist
	$(BIN)/python -m pip wheel -qq --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	$(BIN)/python tools/supply.py sbom build/wheel/*.whl
	mv build/wheel/* dist/

# An hour on two cores; needs 7 GB below reports/ and, for the last one, the data sets.
benchmark: $(STAMPS)/all
	$(BIN)/python benchmarks/fuzz_decoders.py
	$(BIN)/python benchmarks/alignment_accuracy.py
	$(BIN)/python benchmarks/large_stacks.py reports/large
	$(BIN)/allfocus benchmark --rivals benchmarks/rivals/peers.py -o reports/benchmark
	$(BIN)/python benchmarks/results.py

clean:
	rm -rf demo dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks tools -name __pycache__ -type d -exec rm -rf {} +

# A stamp says that an installation has happened; it is renewed when what is to be installed changes.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit("allfocus needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/core: $(STAMPS)/venv pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e .
	@touch $@

$(STAMPS)/all: $(STAMPS)/venv pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[train,raw,heif,web,batch,film,docs,dev]'
	@touch $@ $(STAMPS)/core
