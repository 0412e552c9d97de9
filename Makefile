# Everything runs in .venv, which is made when there is none; SGLang has an environment of its own. ARGS="..." passes options to pytest.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

SGLANG := 0.5.23
SGLANG_VENV := .venv-sglang
SGLANG_PYTHON := $(SGLANG_VENV)/bin/python
SGLANG_READY := $(SGLANG_VENV)/.ready
RELEASES := $(SGLANG_VENV)/releases
SGLANG_ALL := 0.5.14 0.5.15 0.5.16 0.5.17 0.5.18 0.5.19 0.5.20 0.5.21 0.5.22 0.5.23

.DEFAULT_GOAL := help
.PHONY: help properties model gate gate-selftest gate-mutants matrix test faults mutants bench guide docs docs-check diff capacity sweep batched clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

properties: $(READY)  ## judge every law in every cell: the main job
	$(PYTHON) -m pytest properties -n auto --dist loadgroup $(ARGS)

model: $(READY)  ## explore every order of the start-up, and tell the historical faults
	$(PYTHON) -m spec.startup

# Two workers: each imports SGLang, which takes 1.4 GB. CHECKOUT is a folder that holds sglang/, in place of a release.
GATE_PATH = $(or $(CHECKOUT),$(RELEASES)/$(SGLANG))
GATE_READY = $(if $(CHECKOUT),$(SGLANG_READY),$(RELEASES)/$(SGLANG)/.ready)

gate: $(GATE_READY)  ## judge a released SGLang, or a checkout: make gate SGLANG=0.5.23, make gate CHECKOUT=DIR/python
	$(SGLANG_PYTHON) -m pytest properties -n 2 --dist loadgroup --kv-impl sglang --kv-impl-path $(GATE_PATH) $(ARGS)

gate-selftest: $(RELEASES)/$(SGLANG)/.ready  ## does the gate see a wrong price, and a release it does not know?
	KV_IMPL_PATH=$(RELEASES)/$(SGLANG) $(SGLANG_PYTHON) -m pytest tests/check_gate.py $(ARGS)

gate-mutants: $(RELEASES)/$(SGLANG)/.ready  ## change one term of SGLang's own budget at a time: does the gate see it?
	$(SGLANG_PYTHON) -W ignore -m tests.sglang_mutants $(RELEASES)/$(SGLANG) $(ARGS)

matrix: $(SGLANG_ALL:%=$(RELEASES)/%/.ready)  ## judge all ten releases beside what is known of them, and write impl/sglang/FINDINGS.md
	$(SGLANG_PYTHON) -m properties.matrix $(RELEASES) $(SGLANG_VENV)/matrix $(ARGS)

# A release that BASE or HEAD names is fetched; a checkout is sglang@DIR/python, answers that were saved are their file.
BASE := sglang@0.5.17
HEAD := sglang@0.5.18
diff: $(SGLANG_READY) $(patsubst sglang@%,$(RELEASES)/%/.ready,$(filter sglang@0.%,$(BASE) $(HEAD)))  ## what does HEAD sell beside BASE: make diff BASE=sglang@0.5.22 HEAD=sglang@0.5.23
	$(SGLANG_PYTHON) -m properties diff --base $(BASE) --head $(HEAD) $(ARGS)

capacity: $(SGLANG_ALL:%=$(RELEASES)/%/.ready)  ## each release beside the one before it, into impl/sglang/CAPACITY.md
	$(SGLANG_PYTHON) -m properties capacity $(ARGS)

test: $(READY)  ## the suite's own tests with their coverage, lint, format and types
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest tests -n auto --dist loadfile --benchmark-disable --cov $(ARGS)

faults: $(READY)  ## hunt every known-bad implementation by every law; ARGS=--check: one seed, as CI does
	$(PYTHON) -m tests.kill_matrix $(ARGS)

mutants: $(READY)  ## change one operator, constant, name or term at a time: what survives? ARGS=--sample, as CI does
	$(PYTHON) -m tests.mutants $(ARGS)

sweep: $(READY)  ## judge every point of a bounded space, 10**9 of them; ARGS="--help" says more
	$(PYTHON) -m properties sweep $(ARGS)

batched: $(READY)  ## size a million random scenarios at once and one by one: are they alike?
	$(PYTHON) -m tests.batched_random $(ARGS)

bench: $(READY)  ## time everything, keep the figures, and compare with the last run
	$(PYTHON) -m pytest tests/benchmarks --benchmark-only --benchmark-autosave $(ARGS)
	$(PYTHON) -m tests.benchmarks.baseline
	$(PYTHON) -m tests.benchmarks.ratios

guide: $(READY)  ## run every page of spec/guide/ again and write what it says now: then read git diff
	$(PYTHON) -m tests.guide $(ARGS)

docs: $(READY)  ## build the offline site build/site/index.html from README, guide and all they link to; check its links
	$(PYTHON) -m tests.site build/site

docs-check: $(READY)  ## open the site in headless Chromium or Chrome: does a reader see it?
	$(PYTHON) -m pytest tests/check_site.py $(ARGS)

clean:  ## remove both environments and every cache
	rm -rf $(VENV) $(SGLANG_VENV) build *.egg-info .hypothesis .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last: a set-up that was cut short runs again.
$(READY): pyproject.toml .ci/constraints.txt
	.ci/make-venv $(VENV)
	touch $@

$(SGLANG_READY): impl/sglang/requirements.txt
	.ci/make-venv $(SGLANG_VENV) $<
	touch $@

# One folder a release, which holds sglang/ as its wheel does. A newer environment does not fetch it again.
$(RELEASES)/%/.ready: | $(SGLANG_READY)
	rm -rf $(@D)
	$(SGLANG_PYTHON) -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--dest $(@D) sglang==$*
	$(SGLANG_PYTHON) -m zipfile -e $(@D)/*.whl $(@D)
	rm $(@D)/*.whl
	touch $@
