# Everything runs in .venv, which is made when there is none. ARGS="..." passes options to pytest.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help properties test bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

properties: $(READY)  ## judge every law in every cell: the main job
	$(PYTHON) -m pytest properties -n auto --dist loadgroup $(ARGS)

test: $(READY)  ## the suite's own tests with their coverage, lint, format and types
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest tests -n auto --dist loadfile --benchmark-disable --cov $(ARGS)

bench: $(READY)  ## how much faster the configurator is than the spec
	$(PYTHON) -m pytest tests/benchmarks --benchmark-only $(ARGS)
	$(PYTHON) -m tests.benchmarks.ratios

clean:  ## remove .venv and every cache
	rm -rf $(VENV) *.egg-info .hypothesis .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last: a set-up that was cut short runs again.
$(READY): pyproject.toml .ci/constraints.txt
	.ci/make-venv $(VENV)
	touch $@
