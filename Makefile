# Two commands do all set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test tests test-full check checks lint types contracts bench docs golden clean java

demo: java $(STAMP)
	$(BIN)/python examples/late_orders/late_orders.py

# Two processes, each with its own Spark session; whole files, since they share what they set up.
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

test: java $(STAMP)
	$(MAKE) -j2 lint contracts $(VENV)/spark.jsa
	$(MAKE) -j2 types tests

tests: $(STAMP)
	$(PYTEST) -m "not full"

test-full: java $(STAMP)
	$(MAKE) -j2 checks
	WHENCE_EXAMPLES=6 $(PYTEST)

check: java $(STAMP)
	$(MAKE) -j2 checks
	$(PYTEST) -m "not spark and not slow and not full and not postgresql"

checks: lint types contracts $(VENV)/spark.jsa

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

bench: java $(STAMP)
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "whence needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	touch $(STAMP)

# For the JVMs of the tests, which are started many times.
$(VENV)/spark.jsa: $(STAMP) tests/classes.py
	PYTHONPATH=tests $(BIN)/python tests/classes.py 2>/dev/null || echo "tests start Spark without it"

java:
	@command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java" || { \
	  echo "Java 17 or newer is needed by Spark and was not found."; \
	  echo "On Debian or Ubuntu: apt-get install openjdk-17-jre-headless"; \
	  echo "Elsewhere, install a JDK 17+ and set JAVA_HOME."; exit 1; }

docs: $(STAMP)
	$(BIN)/python -m whence.spark.instrument.supported > docs/operators.md

golden: java $(STAMP)
	WHENCE_WRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/plan tests/spark/test_read.py tests/spark/test_read_cases.py

clean:
	rm -rf $(VENV) build data provenance spark-warehouse .pytest_cache .mypy_cache .ruff_cache
