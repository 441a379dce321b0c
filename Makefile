# Everything a newcomer and the CI need. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
DEMO_STAMP := $(VENV)/.demo-done
ENGINES := .venv-engines
ENGINES_STAMP := $(ENGINES)/.setup-done
CONTEXTS_STAMP := $(ENGINES)/.contexts-done
KERAS := .venv-keras
KERAS_STAMP := $(KERAS)/.setup-done
PYTHONS_VENV := .venv-pythons
PYTHONS := 3.11 3.12 3.13
PYTHONS_TESTS := tests/core tests/tune tests/wire tests/store tests/test_two_trials.py
CODE := src tests $(wildcard benchmarks examples)

comma := ,

# Further options for `uv pip install`, for instance: make setup UV_FLAGS="--index-url https://..."
UV_FLAGS ?=

# How many processes run the tests at once. Most tests wait for processes of their own.
JOBS ?= 2

.PHONY: help setup demo notebooks test browser sandbox graphviz test-pythons test-engines test-keras check format format-check lint types docs coverage chaos fresh live bench diagram clean

help: ## List the targets
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Make the virtual environment; does nothing if it is up to date

# $(call install,ENVIRONMENT,WHAT,CONSTRAINTS)
# uv reads no pip configuration, so wheels that lie on disk are handed over to it. Where there are none,
# torch comes from its own index for CPU builds: the default build on Linux brings gigabytes for GPUs.
define install
options=(); \
for place in $$($(BIN)/python -m pip config get global.find-links 2>/dev/null || true) $${PIP_FIND_LINKS:-}; do \
    options+=(--find-links "$$place"); \
done; \
if [ $${#options[@]} -eq 0 ]; then options+=(--torch-backend cpu); fi; \
$(BIN)/python -m uv pip install --compile-bytecode --quiet --python $(1)/bin/python "$${options[@]}" $(UV_FLAGS) \
    -c $(or $(3),constraints-dev.txt) $(2); \
found=$$($(BIN)/python -m uv pip list --quiet --python $(1)/bin/python | awk '/^nvidia-/ { print $$1 }' | xargs); \
if [ -n "$$found" ]; then \
    echo "setup: a GPU build of torch was installed ($$found)." >&2; \
    echo "The tests want the CPU build. Run: make clean setup UV_FLAGS='--torch-backend cpu'" >&2; exit 1; \
fi
endef

# TensorFlow goes with one TensorBoard, which may not be the newest.
FOR_TENSORFLOW := <(grep -v '^tensorboard==' constraints-dev.txt)

$(STAMP): pyproject.toml constraints-dev.txt | $(BIN)/uv
	@$(call install,$(VENV),-e . --group dev)
	@touch $@
	@echo "setup: done"

# A newcomer waits for this one: what the demo imports, and nothing else. `make setup` adds the rest to it.
$(DEMO_STAMP): pyproject.toml constraints-dev.txt | $(BIN)/uv
	@$(call install,$(VENV),-e . torch scikit-learn)
	@touch $@
	@echo "setup: done, for the demo; make setup brings what tests need"

$(BIN)/uv:
	@if [ ! -x $(BIN)/python ]; then \
	    python=python3; if python3.11 -c '' 2>/dev/null; then python=python3.11; fi; \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	        echo "setup: $$($$python --version 2>&1) is too old. Install Python 3.11 or later, then run make again." >&2; exit 1; }; \
	    echo "setup: $(VENV) with $$($$python --version)"; \
	    $$python -m venv $(VENV); \
	fi
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP)) ## Tune a small CNN on real images, and show what came of it
	@$(BIN)/etude demo

notebooks: setup ## Run the tutorials in examples/notebooks, and store what came of them: minutes; NAMES=1-tune for some
	@$(BIN)/python examples/notebooks/execute.py $(NAMES)

# Tests start thousands of processes. Where Python may write no bytecode, each of them would compile what it imports anew.
test: setup browser sandbox graphviz ## Run the tests, two at a time; JOBS=4 for more
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Where it cannot be installed the tests of a page are skipped, and say so, unless ETUDE_BROWSER=required.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || { \
	    echo "setup: Chromium is missing, in which reports are tested; trying apt-get install chromium"; \
	    { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 || true; \
	}

# Where it cannot be installed the tests of that sandbox are skipped, and say so.
sandbox:
	@command -v bwrap >/dev/null 2>&1 || [ "$$(uname)" != Linux ] || { \
	    echo "setup: bubblewrap is missing, in which generated code is run; trying apt-get install bubblewrap"; \
	    { apt-get update -qq && apt-get install -y -qq bubblewrap; } >/dev/null 2>&1 || true; \
	}

# Without torch, of which there is not a wheel for each of them on every machine. pyenv's own commands stand for versions that
# are not chosen, so its folders are looked into. A test that says what it misses is skipped there.
test-pythons: $(BIN)/uv ## Test the core, searches, wire and journal on each Python from 3.11 on that is found here
	@for version in $(PYTHONS); do \
	    python=$$(PATH="$$(printf '%s:' $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1*/bin)$$PATH" $(BIN)/python -m uv \
	        python find --no-project --no-python-downloads $$version 2>/dev/null) || { \
	        echo "test-pythons: no Python $$version here, so nothing is said of it"; continue; }; \
	    echo "test-pythons: $$($$python --version)"; \
	    $(BIN)/python -m uv venv --quiet --clear --python "$$python" $(PYTHONS_VENV)/$$version; \
	    $(PYTHONS_VENV)/$$version/bin/python -c "import sys; sys.exit(not sys.version.startswith('$$version.'))"; \
	    $(call install,$(PYTHONS_VENV)/$$version,-e '.[cluster$(comma)cmaes$(comma)qmc]' pytest hypothesis psutil); \
	    $(PYTHONS_VENV)/$$version/bin/python -m pytest -q -p no:cacheprovider $(PYTHONS_TESTS); \
	done

test-engines: $(ENGINES_STAMP) ## Run the tests on real Ray and real Spark, which it installs; Spark needs Java 17
	@$(ENGINES)/bin/python -m pytest tests/engines_real

test-keras: $(KERAS_STAMP) ## Run the tests of Keras on TensorFlow and JAX, which it installs: minutes, on two cores
	@$(KERAS)/bin/python -m pytest tests/engines_real/test_keras_backends.py

$(KERAS_STAMP): $(STAMP)
	@echo "setup: $(KERAS)"
	@$(BIN)/python -m uv venv --quiet --clear --python $(BIN)/python $(KERAS)
	@$(call install,$(KERAS),-e . --group engines --group keras-backends,$(FOR_TENSORFLOW))
	@touch $@
	@echo "setup: $(KERAS) done"

# An environment of their own: they are large, and nothing else needs them.
$(ENGINES_STAMP): $(STAMP)
	@java -version >/dev/null 2>&1 || { \
	    echo "setup: Java is missing; trying apt-get install openjdk-17-jre-headless"; \
	    { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; } >/dev/null || true; \
	}
	@java=$$(java -XshowSettings:properties -version 2>&1 | awk '/java.specification.version/ { print $$3 }' || true); \
	case "$$java" in \
	    1[7-9]|[2-9][0-9]) ;; \
	    *) echo "setup: Spark needs Java 17 or later, and found is $${java:-none}. Install one (on Debian:" \
	        "apt-get install openjdk-17-jre-headless), then run make test-engines again." >&2; \
	        exit 1 ;; \
	esac
	@$(BIN)/python -m uv venv --quiet --clear --python $(BIN)/python $(ENGINES)
	@$(call install,$(ENGINES),-e '.[ray$(comma)spark]' --group engines)
	@touch $@
	@echo "setup: $(ENGINES) done"

# What a function is tried with in every context: Keras and TensorFlow beside Ray and Spark.
$(CONTEXTS_STAMP): $(ENGINES_STAMP)
	@$(call install,$(ENGINES),-e '.[ray$(comma)spark]' --group engines --group keras-backends,$(FOR_TENSORFLOW))
	@touch $@
	@echo "setup: $(ENGINES) done, with Keras"

check: format-check lint types docs coverage test-pythons test-engines test-keras test ## Run everything that CI runs, and more

format: setup ## Put the code into shape, and mend what the linter can
	@$(BIN)/ruff check --fix-only --quiet $(CODE)
	@$(BIN)/ruff format $(CODE)

format-check: setup
	@$(BIN)/ruff format --check $(CODE)

lint: setup
	@$(BIN)/ruff check $(CODE)

types: setup
	@$(BIN)/mypy

docs: setup graphviz ## Make the site in build/site, warnings being errors; run its snippets, check links, glossary and pictures
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs . build/site -d build/doctrees
	@echo "docs: build/site/docs/index.html"
	@$(BIN)/python -m pytest -q tests/test_docs.py

# Where it cannot be installed the site cannot be made; the test of it is skipped, and says so.
graphviz:
	@command -v dot >/dev/null 2>&1 || { \
	    echo "setup: Graphviz is missing, which draws the diagrams of the site; trying apt-get install graphviz"; \
	    { apt-get update -qq && apt-get install -y -qq --no-install-recommends graphviz; } >/dev/null 2>&1 || true; \
	}

coverage: setup ## Test the core alone; fails below 95 %
	@$(BIN)/python -m pytest -q -n $(JOBS) tests/core --cov=etude.core --cov-report=term-missing:skip-covered --cov-fail-under=95

chaos: setup ## Let 200 faults fall on a study, and stop everything for a minute: about 4 minutes
	@ETUDE_CHAOS=full $(BIN)/python -m pytest -q -s tests/study/test_chaos.py \
	    tests/study/test_policy.py::test_a_laptop_that_sleeps_costs_no_attempt

fresh: setup sandbox ## Let replies of fresh eyes climb all rungs of the mage, and all variants of the paper: more than an hour
	@ETUDE_FRESH=full $(BIN)/python -m pytest -q tests/mage/test_fresh_replies.py \
	    tests/mage/test_unseen_replies.py tests/mage/test_paper_experiments.py

# It sends to whom it names, and costs what that costs: nothing else here calls it.
live: setup sandbox ## Ask a model of yours the tiny question and for one variant: make live BACKEND=anthropic:MODEL
	@[ -n "$(BACKEND)" ] || { \
	    echo "live: nobody is named. Run: make live BACKEND=anthropic:MODEL, or BACKEND=openai:MODEL@URL" >&2; exit 2; }
	@$(BIN)/python -m benchmarks.mage_live --backend "$(BACKEND)" $(ARGS)

BENCH_STAMP := $(if $(filter contexts,$(NAME)),$(CONTEXTS_STAMP),$(if $(filter engines,$(NAME)),$(ENGINES_STAMP),$(STAMP)))

bench: $(BENCH_STAMP) ## Run one benchmark: make bench NAME=handout; without NAME list them
ifdef NAME
	@$(dir $(BENCH_STAMP))bin/python -m benchmarks.$(subst -,_,$(NAME)) $(ARGS)
else
	@echo "make bench NAME=..., where NAME is one of:"
	@for file in $$(grep -ls '__main__' benchmarks/[!_]*.py || true); do \
	    printf '  %-13s %s\n' "$$(basename $$file .py)" "$$(sed -n '1s/^"""\(.*[^"]\)\("""\)\{0,1\}$$/\1/p' $$file)"; \
	done
endif

diagram: setup ## Draw the pictures of the docs anew
	@$(BIN)/python tests/test_docs.py

clean: ## Remove what can be made again: environment, caches, builds (studies stay)
	@rm -rf $(VENV) $(ENGINES) $(KERAS) $(PYTHONS_VENV) dist build htmlcov .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
