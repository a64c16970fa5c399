# What a person types; .ci/run types the same.
BIN := .venv/bin
SETUP := sh tools/setup.sh
# ip, nft and sshd live in sbin, which not every login has on its path.
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: help demo test soak lint docs clean

help:
	@echo "make demo   train the digits on two nodes that are both this machine"
	@echo "make test   install what the tests need and run them all"
	@echo "make soak   break real runs at random; MINUTES=10 and SEED= may be given"
	@echo "make lint   linters, types, and whether the generated documents are up to date"
	@echo "make docs   write the generated documents"
	@echo "make clean  remove .venv and caches"

# An activated .venv is what a person has who types the command by hand: the nodes then find its python3 on PATH.
demo: .venv/demo
	@$(SETUP) torch
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ncclrun launch cluster.example.yaml examples/train.py

test: .venv/dev
	@$(SETUP) system
	@$(SETUP) torch
	@$(SETUP) nccl
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder  # most wait, and each has hosts of its own

MINUTES := 10
soak: .venv/dev
	@$(SETUP) system
	@$(SETUP) torch
	$(BIN)/python -m tests.faults.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

lint: .venv/dev
	@$(SETUP) torch
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@rm -rf .venv/docs && cp -r docs .venv/docs
	@$(MAKE) --no-print-directory docs
	@diff -r -x __pycache__ .venv/docs docs || { echo "docs/ was not up to date: it is now, commit it"; exit 1; }

docs: .venv/dev
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/events_schema.py
	$(BIN)/python docs/finding_pages.py

.venv/demo .venv/dev: pyproject.toml tools/setup.sh
	@$(SETUP) $(@F)
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
