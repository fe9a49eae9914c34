# Every target that needs Python sets up its environment first. `make help` lists them.

VENV           ?= .venv
VENV_OLDEST    ?= .venv-oldest
VENV_PUBLISHED ?= .venv-published
TORCH          ?= torch==2.13.0
TORCH_INDEX    ?=
PUBLISHED      ?= laya==0.4.15
MODEL          ?=
PYTEST_ARGS    ?=

# The first interpreter that is new enough and can make an environment.
PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13; do \
	"$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

# What `test-oldest` runs: the parts that touch transformers, the hub client, tokenizers, NumPy or pydantic. Its
# environment has none of the extras.
OLDEST_TESTS ?= $(wildcard \
	tests/unit/test_layering.py tests/unit/test_questions.py tests/unit/test_schema.py \
	tests/unit/pipeline tests/unit/forward tests/unit/checkpoints \
	tests/integration/test_agent.py tests/integration/test_conformance.py tests/integration/test_hub.py)

# What `test-published` runs: the adapters use public names of laya only, so another release serves them as well.
PUBLISHED_TESTS ?= tests/unit/integrations tests/integration/langchain tests/integration/llama_index \
	tests/integration/opentelemetry

BIN    := $(VENV)/bin
STAMP  := $(VENV)/stamp
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check
TORCH_FROM  = $(TORCH) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-oldest test-published lint types docs eval-mini bench check constraints clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## answer a few questions; MODEL=<directory or Hub id> chooses another checkpoint
	$(BIN)/python -m laya_integrations.demo $(MODEL)

test: $(STAMP) ## run every test, the documentation's code blocks included; PYTEST_ARGS='-k name' selects
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-oldest: $(VENV_OLDEST)/stamp ## run the runtime's tests with the oldest dependencies that are allowed
	$(if $(strip $(OLDEST_TESTS)),,$(error none of the tests that OLDEST_TESTS names exists))
	$(VENV_OLDEST)/bin/python -m pytest --ignore-glob='*onnx*' $(PYTEST_ARGS) $(OLDEST_TESTS)

test-published: $(VENV_PUBLISHED)/stamp ## run the adapters' tests with the published laya in place of this one
	$(PUBLISHED_PYTHON) -c 'import laya, sys; sys.exit(None if laya.__file__.startswith(sys.prefix) else laya.__file__)'
	$(PUBLISHED_PYTHON) -m pytest --override-ini pythonpath= $(PYTEST_ARGS) $(PUBLISHED_TESTS)

# -P and a folder of links keep this repository's own laya off the path.
PUBLISHED_PYTHON = PYTHONPATH="$(abspath $(VENV_PUBLISHED))/adapters" $(VENV_PUBLISHED)/bin/python -P

lint: $(STAMP) ## ruff check, and ruff format --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy, strict, on both packages
	$(BIN)/mypy

docs: $(STAMP) ## run the fenced Python blocks of the Markdown files, then build the site into site/, strictly
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

eval-mini: $(STAMP) ## print how laya-mini answers its evaluation set, beside chance and cosine similarity
	$(BIN)/python -m training.evaluate laya-mini

bench: $(STAMP) ## run the benchmarks
	$(BIN)/python benchmarks/run.py

check: lint types test ## what a change must pass: lint, types and tests

constraints: ## resolve the dependencies anew, in an environment of its own, and rewrite constraints.txt
	@$(call make_environment,.venv-resolve)
	.venv-resolve/bin/python $(PIP_INSTALL) --upgrade pip
	.venv-resolve/bin/python $(PIP_INSTALL) $(TORCH_FROM)
	.venv-resolve/bin/python $(PIP_INSTALL) --editable '.[all,dev]'
	{ sed '/^[^#]/,$$d' constraints.txt; \
	  .venv-resolve/bin/python -m pip freeze --all --exclude-editable | sed '/^torch==/s/+.*//'; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .venv-resolve

clean: ## remove the environments and the caches
	rm -rf .venv .venv-oldest .venv-published .venv-resolve build dist site .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call make_environment,FOLDER) makes an empty environment there unless one works already.
define make_environment
	if [ -z "$(PYTHON)" ]; then \
		echo "No Python 3.11 or newer with venv and ensurepip was found; set PYTHON=/path/to/python3." >&2; exit 1; \
	fi; \
	"$(1)/bin/python" -c 'import pip' 2>/dev/null || "$(PYTHON)" -m venv --clear "$(1)"
endef

$(STAMP): pyproject.toml constraints.txt
	@rm -f $@
	@$(call make_environment,$(VENV))
	$(BIN)/python $(PIP_INSTALL) --upgrade pip --constraint constraints.txt
	$(BIN)/python $(PIP_INSTALL) $(TORCH_FROM)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[all,dev]'
	@touch $@

$(VENV_OLDEST)/stamp: pyproject.toml constraints-oldest.txt
	@rm -f $@
	@$(call make_environment,$(VENV_OLDEST))
	$(VENV_OLDEST)/bin/python $(PIP_INSTALL) $(TORCH_FROM)
	$(VENV_OLDEST)/bin/python $(PIP_INSTALL) --constraint constraints-oldest.txt --editable . \
		pytest pytest-asyncio pytest-timeout hypothesis
	@touch $@

$(VENV_PUBLISHED)/stamp: pyproject.toml constraints.txt
	@rm -f $@
	@$(call make_environment,$(VENV_PUBLISHED))
	$(VENV_PUBLISHED)/bin/python $(PIP_INSTALL) $(TORCH_FROM)
	$(VENV_PUBLISHED)/bin/python $(PIP_INSTALL) --constraint constraints.txt $(PUBLISHED) \
		langchain langchain-core langchain-tests langgraph llama-index-core opentelemetry-sdk \
		openinference-instrumentation-llama-index openinference-instrumentation-langchain hypothesis pytest pytest-asyncio pytest-timeout
	@mkdir -p $(VENV_PUBLISHED)/adapters
	@ln -sfn "$(CURDIR)/laya_integrations" $(VENV_PUBLISHED)/adapters/laya_integrations
	@ln -sfn "$(CURDIR)/tests" $(VENV_PUBLISHED)/adapters/tests
	@touch $@
