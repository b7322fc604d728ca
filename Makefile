# README's two commands are `make demo` and `make test`. Everything is installed into $(VENV), nothing into the system.
# The Python it is made with: PYTHON=python3.11; else python3, or the newest one that will do.
PYTHON ?=
# LOCKED=1: with exactly the wheels of locks/.
LOCKED ?=
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= runs/demo
# Images set it for their own steps; here Python would then compile every module again at every start.
unexport PYTHONDONTWRITEBYTECODE


.PHONY: env lock demo test test-system test-and-system test-all fuzz chaos check bench clean

env:
	@tools/environment.sh "$(VENV)" "$(PYTHON)" "$(LOCKED)"

# The wheels that LOCKED=1 installs and their hashes, once more from what PyPI has now.
PYTHONS ?= 3.8 3.13 3.14
lock: env
	$(BIN)/python -m tools.lock $(PYTHONS)

# Handwritten digits as an image folder -> .rec -> a trained net, on two CPU contexts.
demo: env
	$(BIN)/python examples/digits.py $(DEMO)/images
	$(BIN)/python -m tools.im2rec_wrapper pack $(DEMO)/images $(DEMO)/rec --split 0.8
	$(BIN)/python -m mxtrain.fit --config examples/digits.yaml \
	  --train $(DEMO)/rec/train.rec --val $(DEMO)/rec/val.rec --out $(DEMO)/run

# Several processes at once: many tests wait for other processes. What measures time comes after them, alone.
WORKERS ?= 5
# A process that crashes ends them with its message: xdist would wait for its tests for ever.
PARALLEL := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --max-worker-restart=0
test: env
	$(PARALLEL) -m "not (slow or system or alone)"
	$(BIN)/python -m pytest $(call marked,alone) -m "alone and not (slow or system)"

# What needs root or system packages; with NO_SKIPS=1 none may skip.
test-system: env
	$(PARALLEL) $(call marked,system) -m "system and not (slow or alone)"
	$(BIN)/python -m pytest $(call marked,alone) -m "system and alone and not slow"

# Both at once, as CI runs them: what needs root waits for hosts and browsers most of the time.
test-and-system: env
	$(PARALLEL) -m "not (slow or alone)"
	$(BIN)/python -m pytest $(call marked,alone) -m "alone and not slow"

# The files with tests of a marker: to import all others too would take each process several seconds.
marked = $(shell grep -rl --include='test_*.py' 'mark\.$(1)' tests)

# Also what takes minutes and what needs root or system packages, with more examples of each property.
test-all: env
	FUZZ_INPUTS=5000 $(PARALLEL) --hypothesis-profile=full -m "not alone"
	$(BIN)/python -m pytest -m alone

# Damaged files, each read, loaded and checked. What fails names the seed that makes it again.
FUZZ_INPUTS ?= 100000
fuzz: env
	$(BIN)/python -m tests.fuzz --inputs $(FUZZ_INPUTS)

# Jobs over a cluster, struck at random; what became of them goes into the docs.
FAULTS ?= --faults 230 --at-once 2
chaos: env
	$(BIN)/python -m tests.faults $(FAULTS) --page docs/faults.md

check: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: env
	$(BIN)/python -m benchmarks.threads
	$(BIN)/python -m benchmarks.step.overhead
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.same_curve
	$(BIN)/python -m benchmarks.learn
	$(BIN)/python -m benchmarks.remat
	$(BIN)/python -m benchmarks.checkpoint
	$(BIN)/python -m benchmarks.comm
	$(BIN)/python -m benchmarks.sparse
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.packing
	$(BIN)/python -m benchmarks.loader

clean:
	rm -rf $(VENV) runs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
