# `make demo` and `make test` each work from nothing: a machine with Python 3.11 or newer.
# Other Python: make test PYTHON=python3.12      Other folder: make test VENV=/elsewhere
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# The caller's shell must not leak other checkouts into this one.
unexport PYTHONPATH

.DEFAULT_GOAL := help
.PHONY: help demo test check format coverage system clean

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo-ready  ## Compare schedulers and autoscalers on embedded workloads; write HTML reports.
	$(BIN)/trimtab demo dag $(ARGS)
	$(BIN)/trimtab demo stream $(ARGS)
	$(BIN)/trimtab demo pod $(ARGS)
	$(BIN)/trimtab demo gpu $(ARGS)

test: $(VENV)/.dev-ready system  ## Run every test (two workers). Narrow it with ARGS="-k words".
	$(BIN)/python -m pytest -n 2 $(ARGS)

check: $(VENV)/.dev-ready  ## Lint, format, types, layers, spelling.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/codespell

format: $(VENV)/.dev-ready  ## Rewrite the sources the way `make check` wants them.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(VENV)/.dev-ready  ## Run the compiled code of the core, learning and DAG jobs as plain Python and hold 95 % of lines and branches.
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 --cov --cov-fail-under=95 \
		-m "not slow and not spark and not browser and not streams and not pods" $(ARGS)

bench-%: $(VENV)/.dev-ready  ## Run one benchmark: bench-dag-fidelity runs benchmarks/dag_fidelity.py.
	$(BIN)/python -m benchmarks.$(subst -,_,$*) $(ARGS)

train-decima-cpu: $(VENV)/.dev-ready  ## Train a scheduler on two cores and keep its curve (an hour; ARGS="--minutes 10").
	$(BIN)/trimtab train dag --preset decima-cpu --out runs/decima-cpu $(ARGS)
	$(BIN)/python -m benchmarks.training_curve decima-training-cpu runs/decima-cpu

train-decima-compact: $(VENV)/.dev-ready  ## Train compact schedulers like those that come with trimtab (all cores; hours on two).
	for preset in compact-tpch compact-multi; do \
		$(BIN)/trimtab train dag --preset $$preset $(ARGS) || exit 1; \
	done

train-decima-gpu: $(VENV)/.dev-ready  ## Train networks like the shipped ones (one GPU, 16 cores; half an hour each).
	for preset in decima-tpch-batch decima-tpch-stream decima-multi; do \
		$(BIN)/trimtab train dag --preset $$preset --out runs/$$preset $(ARGS) || exit 1; done

train-sure: $(VENV)/.dev-ready  ## Train the shipped autoscaler (hours on two cores; lessons stay in runs/sure-lessons).
	$(BIN)/trimtab train stream --preset sure --out runs/sure $(ARGS)

train-stream-policies: $(VENV)/.dev-ready  ## Train what bench-stream-learning and -ablations compare, from the lessons of train-sure (hours on two cores).
	$(BIN)/python -m benchmarks.stream_training $(ARGS)

train-sure-compact: $(VENV)/.dev-ready  ## Train the compact autoscaler of streaming jobs (20 minutes on 16 cores, two to three hours on two).
	$(BIN)/trimtab train stream --preset sure-compact --set searched=uneven --out runs/sure-compact-uneven $(ARGS)
	$(BIN)/trimtab train stream --preset sure-compact-longer --start-from runs/sure-compact-uneven/bundle --out runs/sure-compact-longer $(ARGS)
	$(BIN)/trimtab train stream --preset sure-compact-even --start-from runs/sure-compact-longer/bundle --out runs/sure-compact $(ARGS)

train-aware: $(VENV)/.dev-ready  ## Train the shipped autoscaler of services (half an hour on one core).
	$(BIN)/trimtab train pod --preset aware --out runs/aware $(ARGS)

train-pod-rivals: $(VENV)/.dev-ready  ## Practise with the learned rivals of services (ARGS="simppo adrl": only these).
	$(BIN)/python -m trimtab.pod_autoscaling.rivals.practice $(ARGS)

train-pod-ablations: $(VENV)/.dev-ready  ## Train what bench-pod-ablations compares (an hour on one core; ARGS="--variants none").
	$(BIN)/python -m benchmarks.pod_ablation_training $(ARGS)

train-das: $(VENV)/.dev-ready  ## Train the compact schedulers of training jobs (hours on two cores; ARGS="--minutes 30").
	for preset in das-gang das; do \
		$(BIN)/trimtab train gpu --preset $$preset --out runs/$$preset $(ARGS) || exit 1; done

train-das-network: $(VENV)/.dev-ready  ## Train the networks of DAS, rollouts against each other (ten minutes on one GPU, hours on two cores).
	$(BIN)/trimtab train gpu --preset das-network --out runs/das-network $(ARGS)

train-gpu-rivals: $(VENV)/.dev-ready  ## Practise with the learned rivals of training jobs (ARGS="dl2": only this).
	$(BIN)/python -m trimtab.gpu_scheduling.rivals.practice $(ARGS)

clean:  ## Remove the environment and what tools left behind.
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* build dist

# Chromium and Java, only where they are missing and we may install them. Without Chromium the
# browser tests are skipped, without Java the Spark tests, each with its reason.
system:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| command -v google-chrome >/dev/null || $(call apt_install,chromium,browser tests are skipped)
	@command -v java >/dev/null || $(call apt_install,default-jre-headless,Spark tests are skipped)

may_apt = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null
apt_install = { if $(may_apt); then echo "Installing $(1) with apt-get"; \
	(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
	--no-install-recommends $(1)) >/dev/null || echo "$(1) could not be installed: $(2)"; \
	else echo "$(1) is missing: $(2)"; fi; }

# bin/pip and not bin/python: Debian without python3-venv leaves an environment that has no pip.
$(BIN)/pip:
	@[ -n "$(PYTHON)" ] || { echo "trimtab needs Python 3.11 or newer; install it or set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(call apt_install,python3-venv,the next step needs it)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP) -e .
	@touch $@

$(VENV)/.dev-ready: pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP) -e '.[dev,gym,spark]'
	@touch $@ $(VENV)/.demo-ready
