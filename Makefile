# make demo      install with the embedded engine, fetch its model, score examples/
# make test      install what tests need and run them
# make test-all  install every extra and run all tests but the slow and gpu ones
# make check     format, lint and types
# make bench-small   ladder against direct scoring on parts of three benchmarks, resumable:
#                ADJUDGE_DATA=... MODEL=... SMALL="summeval=4:coherence,fluency hanna=2:coherence"

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --only-binary :all: -c constraints.txt
STAMPS := .venv/stamps
CHECK_PYTHON := "import sys; sys.exit('make: needs Python 3.11 or newer, as in: make PYTHON=python3.12 demo' if sys.version_info < (3, 11) else 0)"
EMBEDDED := smollm2-135m
ENCODER := all-minilm-l6-v2
MODEL ?= $(EMBEDDED)
SMALL ?= summeval=10:coherence,consistency,fluency,relevance \
    topicalchat=10:naturalness,engagingness,overall hanna=6:coherence,surprise,complexity
BENCH_STORE ?= bench-small.db

.PHONY: demo test test-all check bench-small clean

demo: $(STAMPS)/demo
	@$(BIN)/adjudge models pull $(EMBEDDED)
	@for each in news:summarization dialogue:dialogue story:story; do \
	    echo; echo "examples/$${each%%:*}.jsonl"; \
	    $(BIN)/adjudge score examples/$${each%%:*}.jsonl --judge ladder --criterion coherence \
	        --task $${each##*:} --model $(EMBEDDED) --store demo.db \
	        --out demo-$${each%%:*}.jsonl || exit; \
	done

test: $(STAMPS)/test
	@$(BIN)/adjudge models pull $(EMBEDDED)
	$(BIN)/python -m pytest

test-all: $(STAMPS)/test-all
	@$(BIN)/adjudge models pull $(EMBEDDED)
	@$(BIN)/adjudge models pull $(ENCODER)
	$(BIN)/python -m pytest --no-missing-backends

check: $(STAMPS)/check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench-small: $(STAMPS)/demo
	@case "$(MODEL)" in *.gguf*|hf:*) ;; *) $(BIN)/adjudge models pull "$(MODEL)";; esac
	@for each in $(SMALL); do \
	    bench=$${each%%=*}; rest=$${each#*=}; n=$${rest%%:*}; names=$${rest#*:}; \
	    for judge in direct ladder; do \
	        echo; echo "$$bench, $$n sources, $$judge"; \
	        $(BIN)/adjudge bench run $$bench --judge $$judge --limit-sources $$n \
	            $$(echo $$names | sed 's/[^,]*/--criterion &/g; s/,/ /g') \
	            --model "$(MODEL)" --store $(BENCH_STORE) || exit; \
	    done; \
	done

$(STAMPS)/demo: EXTRAS := llama
$(STAMPS)/test: EXTRAS := llama,test
$(STAMPS)/test-all: EXTRAS := all,compare,test
$(STAMPS)/check: EXTRAS := test,check

$(STAMPS)/%: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { $(PYTHON) -c $(CHECK_PYTHON) && $(PYTHON) -m venv .venv; }
	@mkdir -p $(STAMPS)
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf .venv demo.db demo.db-* demo-*.jsonl bench-small.db*
