# Every target sets itself up: a virtual environment of its own in .venv, and a stamp file per
# set of dependencies, so that set-up happens once and again only when pyproject.toml changes.
#
#   make demo    fuse a text recogniser and read a line of text with it
#   make test    the tests                      (ARGS="tests/cli -k json" narrows them)
#   make slow    the sweeps that take minutes
#   make lint    ruff, pyright, the import floors
#   make docs    the pages as a site in site/
#   make bench   side by side with numpy, onnxruntime, torch and OpenVINO (minutes)
#   make clean   remove .venv, site and caches

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV  ?= .venv
BIN   := $(VENV)/bin
ARGS  ?=
PYTHON ?=
# One torch release, so that pip never wanders to a newer one. On Linux the default package index serves
# torch's CUDA build under this number too: set PIP_EXTRA_INDEX_URL to an index of CPU wheels for a small one.
TORCH ?= torch==2.13.0
# The tests compile the CUDA and HIP C++ that they read and run the OpenCL C, where compilers and runtime have
# wheels; EXTRAS=dev does without.
EXTRAS ?= $(if $(filter Linux_x86_64,$(shell uname -sm | tr ' ' _)),dev$(,)images$(,)cuda$(,)opencl$(,)amdgpu,dev$(,)images)
, := ,

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test slow lint docs bench clean

help:
	@sed -n 's/^#   //p' Makefile

# The first Python that is new enough and can make virtual environments; PYTHON=... names one.
$(VENV)/.made:
	@for python in $(PYTHON) python3 python3.13 python3.12 python3.11 /usr/bin/python3 python; do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "making $(VENV) with $$("$$python" --version)"; \
	        "$$python" -m venv --clear $(VENV); touch $@; exit 0; \
	    fi; \
	done; \
	echo "no Python >= 3.11 with venv found: install one (Debian: apt install python3 python3-venv), or say make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.base: $(VENV)/.made pyproject.toml
	@echo "installing regweave"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "installing the extras $(EXTRAS)"
	@$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	@echo "installing the extra docs"
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	@echo "installing the extra bench (torch, OpenVINO, Triton: some hundred megabytes) and compilers for GPUs"
	@$(BIN)/python -m pip install --quiet '$(TORCH)' --editable '.[bench$(if $(findstring cuda,$(EXTRAS)),$(,)cuda$(,)amdgpu)]'
	@touch $@

demo: $(VENV)/.base
	@$(BIN)/python demo/recognise.py $(ARGS)

test: $(VENV)/.dev
	@$(BIN)/python -m pytest $(ARGS)

slow: $(VENV)/.dev
	@$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check src tests demo
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)
	@echo "open site/index.html"

bench: $(VENV)/.bench
	@$(BIN)/regweave bench cascade $(ARGS)
	@$(BIN)/regweave bench gemm $(ARGS)
	@$(BIN)/regweave bench conv $(ARGS)
	@$(BIN)/regweave bench models $(ARGS)
	@$(BIN)/regweave bench rearrange

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
