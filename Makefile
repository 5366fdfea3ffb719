# make demo      install with the embedded engine, fetch its model, score examples/
# make test      install what tests need and run them
# make test-all  install every extra and run all tests but the slow and gpu ones
# make check     format, lint and types

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --only-binary :all: -c constraints.txt
STAMPS := .venv/stamps
CHECK_PYTHON := "import sys; sys.exit('make: needs Python 3.11 or newer, as in: make PYTHON=python3.12 demo' if sys.version_info < (3, 11) else 0)"
MODEL := smollm2-135m

.PHONY: demo test test-all check clean

demo: $(STAMPS)/demo
	@$(BIN)/adjudge models pull $(MODEL)
	@for each in news:summarization dialogue:dialogue story:story; do \
	    echo; echo "examples/$${each%%:*}.jsonl"; \
	    $(BIN)/adjudge score examples/$${each%%:*}.jsonl --judge ladder --criterion coherence \
	        --task $${each##*:} --model $(MODEL) --store demo.db \
	        --out demo-$${each%%:*}.jsonl || exit; \
	done

test: $(STAMPS)/test
	@$(BIN)/adjudge models pull $(MODEL)
	$(BIN)/python -m pytest

test-all: $(STAMPS)/test-all
	@$(BIN)/adjudge models pull $(MODEL)
	$(BIN)/python -m pytest --no-missing-backends

check: $(STAMPS)/check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

$(STAMPS)/demo: EXTRAS := llama
$(STAMPS)/test: EXTRAS := llama,test
$(STAMPS)/test-all: EXTRAS := all,test
$(STAMPS)/check: EXTRAS := test,check

$(STAMPS)/%: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { $(PYTHON) -c $(CHECK_PYTHON) && $(PYTHON) -m venv .venv; }
	@mkdir -p $(STAMPS)
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf .venv demo.db demo.db-* demo-*.jsonl
