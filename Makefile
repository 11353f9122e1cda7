# Every target sets up its own virtual environment on first use and reuses it afterwards.
PYTHON ?= python3
VENV ?= .venv
# One exact version, so that a CPU build that lies at hand is taken instead of gigabytes of CUDA.
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
export OMP_WAIT_POLICY ?= PASSIVE
export KMP_BLOCKTIME ?= 0

.PHONY: setup browser demo gallery test campaign check format bench docs clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

# The page is tested in a real browser: Debian's Chromium, or the one that SMLSTM_CHROMIUM names.
browser:
	@test -n "$$SMLSTM_CHROMIUM" || command -v chromium > /dev/null || { \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium > /dev/null; \
	} || { echo "cannot install chromium here: install it, or name one with SMLSTM_CHROMIUM" >&2; exit 1; }

demo: setup
	$(BIN)/python examples/photos.py demo

# Drawn scenes, so that the pictures may be passed on; the same seed, the same scenes.
GALLERY ?= build/gallery
gallery: setup
	test -e $(GALLERY)/scenes/captions.csv || $(BIN)/smlstm data scenes $(GALLERY)/scenes --dev 100 --size 112 --captions 2 --patches 7
	$(BIN)/smlstm train configs/scenes.toml --out $(GALLERY)/run \
		--set data.0.dataset=$(abspath $(GALLERY))/scenes --set data.0.features=$(abspath $(GALLERY))/scenes/features \
		--set stage.smlstm.model.modulation=paired --set stage.smlstm.model.instance_score=true --set stage.smlstm.phrases=1.0
	mkdir -p docs/results
	$(BIN)/smlstm explain --data $(GALLERY)/scenes --features $(GALLERY)/scenes/features --model $(GALLERY)/run/model \
		--pairs 4 --out docs/results/scene-gallery.png
	$(BIN)/smlstm explain --data $(GALLERY)/scenes --features $(GALLERY)/scenes/features --model $(GALLERY)/run/model \
		--average --out docs/results/scene-centre-bias.png
	$(BIN)/smlstm evaluate $(GALLERY)/run/smlstm --data $(GALLERY)/scenes --features $(GALLERY)/scenes/features \
		--attention > docs/results/scene-attention.txt

test: setup browser
	$(BIN)/python -m pytest

# Not a part of `test`: it goes on for as long as it is told to. SEED=7 ONLY=kill-index repeat an attempt.
MINUTES ?= 10
SEED ?= 1
campaign: setup
	$(BIN)/python -m tests.campaign --minutes $(MINUTES) --seed $(SEED) $(if $(ONLY),--only $(ONLY))

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/extraction.py $(PHOTOS)
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/pretrained.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/search_million.py
	$(BIN)/python benchmarks/web.py

# pdoc shows what `__all__` names, if it was imported, and nothing else: so the names come first, and modules by theirs.
MODULES = $(subst /,.,$(patsubst src/%.py,%,$(patsubst %/__init__.py,%.py,$(wildcard src/smlstm/*.py src/smlstm/*/__init__.py))))
docs: setup
	$(BIN)/python -c "from smlstm import *; from pdoc.__main__ import cli; cli()" \
		--docformat google --output-directory docs/api $(MODULES)
	@echo "open docs/api/index.html"

clean:
	rm -rf $(VENV) build dist docs/api .pytest_cache .ruff_cache .mypy_cache .hypothesis
