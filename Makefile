# make run   the main job on the embedded default: several rounds, then a report
# make quick  the fast tests, all day
# make test  ruff, mypy, pytest; with `make vllm-env`, also against a real vLLM server; with `make trainers-env`, also with
#            the loaders of four trainers; with `make osworld-env`, also with OSWorld's own code; with `make azurite`, also in a
#            container of Azure
PYTHON ?= python3
BIN := .venv/bin
VLLM := .venv-vllm
TRAINERS := .venv-trainers
OSWORLD := .venv-osworld
AZURITE := 3.35.0

# Tests start hundreds of Python processes: without written bytecode each compiles the project again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run demo run-web run-pixels run-vllm test quick quick-stages quick-rest lint types pytest vllm-env test-vllm trainers-env osworld-env azurite bench reference rows docs system-deps clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# uv needs a tenth of pip's time. It ignores pip's settings, so it is told the one that decides which build of torch is taken.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python $(and $(PIP_FIND_LINKS),--find-links "$(PIP_FIND_LINKS)")
INSTALL := install() { { $(PIP) uv && $(UV) "$$@"; } || $(PIP) "$$@"; }; install --constraint constraints.txt --editable

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

.venv/installed-dev: .venv/installed
	$(INSTALL) '.[dev,web,browsergym,android,desktop,openenv,cluster,curate,knowledge,ocr,train,docs]'
	touch $@

.venv/installed-web: .venv/installed
	$(INSTALL) '.[web]'
	touch $@

run: .venv/installed ## install and run the main job on the embedded default
	$(BIN)/trajmill evolve

demo: .venv/installed ## a first look: three rounds in under a minute, then the viewer until Ctrl-C
	$(BIN)/trajmill evolve --config docs/examples/demo.toml
	$(BIN)/trajmill view --config docs/examples/demo.toml

run-web: .venv/installed-web ## the same loop on MiniWoB++ in a real headless Chromium (needs `make system-deps`)
	$(BIN)/trajmill evolve --config docs/examples/miniwob.toml

.venv/installed-train: .venv/installed
	$(INSTALL) '.[train]'
	touch $@

# So small a model is slower with two threads than with one.
run-pixels: export OMP_NUM_THREADS := 1
run-pixels: .venv/installed-train ## a tiny Qwen2.5-VL learns to operate an app from its screenshots alone (docs/pixels.md)
	$(BIN)/trajmill untrained --config docs/examples/pixels.toml
	$(BIN)/trajmill evolve --config docs/examples/pixels.toml

run-vllm: .venv/installed-train $(VLLM)/installed ## the loop with a tiny Qwen2.5-VL behind a vLLM server on this machine's CPU (docs/policy.md)
	$(BIN)/trajmill untrained --config docs/examples/vllm.toml
	$(BIN)/trajmill evolve --config docs/examples/vllm.toml

test: lint ## ruff, mypy and pytest, the last two beside each other
	$(MAKE) --no-print-directory --jobs=2 types pytest

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

# More workers than there are cores, because tests of servers, browsers and desktops wait half of the time. On Linux one
# more costs two CPU seconds (tests/forked_workers.py).
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 4)

# Each worker trains with one thread: threads of several workers would wait for each other.
# Without their environments, the tests of vLLM, of the trainers and of OSWorld's code are skipped and say so.
# Files and tests run in random order, so none can depend on another: `make pytest SEED=...` repeats an order.
SEED := $(or $(SEED),$(shell date +%s))
pytest: export OMP_NUM_THREADS := 1
pytest: .venv/installed-dev
	@echo "order of the tests: SEED=$(SEED)"
	$(BIN)/python -m compileall -q trajmill   # once, not by each worker
	$(BIN)/pytest -n $(WORKERS) --randomly-seed=$(SEED) --durations=25 -rs

quick: .venv/installed-dev ## the tests that need no browser, X server or model server, and are not slow: under a minute
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target quick-stages quick-rest

# In two processes that take as long as one another: each of xdist's workers would import what the tests of both need.
QUICK := $(BIN)/pytest -p no:randomly --hypothesis-profile quick -m "not browser and not desktop and not vllm and not trainers and not slow"

quick-stages:
	$(QUICK) $(filter-out tests/stages/__pycache__/ tests/stages/export/,$(wildcard tests/stages/*/))

quick-rest:
	$(QUICK) tests/stages/export $(filter-out tests/__pycache__/ tests/stages/,$(wildcard tests/*/)) $(wildcard tests/test_*.py)

$(VLLM)/installed: tests/vllm/requirements.txt .ci/torchvision_without_cuda.py
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement tests/vllm/requirements.txt
	$(VLLM)/bin/python -c "import torchvision" 2>/dev/null || $(VLLM)/bin/python .ci/torchvision_without_cuda.py
	$(VLLM)/bin/python -c "import torchvision, vllm"
	touch $@

vllm-env: $(VLLM)/installed ## vLLM for CPUs in an environment of its own, which `make test` then tests too (2.6 GB)

test-vllm: .venv/installed-dev $(VLLM)/installed ## the tests against a real vLLM server on this machine's CPU
	$(BIN)/pytest tests/vllm

# Each sees the project's own packages, and puts before them what its trainer wants in another version.
$(TRAINERS)/%/installed: tests/trainers/requirements-%.txt .ci/join_project.py .ci/torchvision_without_cuda.py | .venv/installed-dev
	rm -rf $(@D)
	$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/pip --python $(@D)/bin/python install --quiet --disable-pip-version-check --no-deps --requirement $<
	$(@D)/bin/python .ci/join_project.py $(BIN)
	$(@D)/bin/python -c "import torchvision" 2>/dev/null || $(@D)/bin/python .ci/torchvision_without_cuda.py
	$(@D)/bin/python -c "import torchvision"
	touch $@

# The loaders of four trainers, each in an environment of its own: they want other versions of transformers and datasets.
trainers-env: $(foreach trainer,trl verl llamafactory swift,$(TRAINERS)/$(trainer)/installed) ## loaders of four trainers, which `make test` then tries on what we export (1.3 GB)

OSWORLD_PINS := requirements/osworld.txt

$(OSWORLD)/installed: $(OSWORLD_PINS) | .venv/installed
	test -x $(OSWORLD)/bin/python || $(PYTHON) -m venv $(OSWORLD)
	{ $(PIP) uv && $(BIN)/uv pip install --quiet --no-deps --python $(OSWORLD)/bin/python -r $<; } || \
		$(OSWORLD)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	touch $@

osworld-env: $(OSWORLD)/installed ## OSWorld's own code (desktop-env) in an environment of its own, which `make test` then tests too (1.1 GB)

# With npm, because Microsoft's emulator of Azure's storage is a program for Node.js.
.azurite/installed:
	npm install --prefix $(@D) --no-fund --no-audit --no-save azurite@$(AZURITE)
	touch $@

azurite: .azurite/installed ## an emulator of Azure's storage, which `make test` then keeps a warehouse in (190 MB, needs npm)

# Whole: the same without --quick, and `python -m benchmarks.loop`. Beside Selenium: `python -m benchmarks.browser`.
BENCHMARKS := drawing commits export judge judge_savings rejudge model_client pool "pathways --quick" "environments --quick"

bench: .venv/installed-dev ## measure the parts, at most 15 minutes each: prints tables, asserts nothing
	for name in $(BENCHMARKS); do timeout 15m $(BIN)/python -m benchmarks.$$name || exit 1; done

rows: .venv/installed ## write docs/rows.md: ten rows of each family and each derived kind, with their screens
	$(BIN)/python docs/rows.py

reference: .venv/installed ## write the pages of docs/ that come from the code
	$(BIN)/python docs/reference.py

.venv/installed-docs: .venv/installed
	$(INSTALL) '.[docs]'
	touch $@

docs: .venv/installed-docs reference ## build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

SYSTEM_PACKAGES := chromium-headless-shell fonts-dejavu-core fonts-noto-core libgl1 adb xvfb openbox at-spi2-core libatk-adaptor dbus \
	dbus-x11 mousepad galculator pcmanfm libreoffice-calc libreoffice-writer libreoffice-gtk3

system-deps: ## what the real environments run: Chromium, adb, an X server and desktop programs (Debian; needs root)
	apt-get update
	apt-get install --yes --no-install-recommends $(SYSTEM_PACKAGES)

clean: ## remove the virtual environment and caches, never data
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
