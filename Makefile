# `make test` is everything CI runs. It installs what it lacks from the package registries.

CARGO ?= cargo

.PHONY: help run test test-long lint fmt deny need bench-quick

help: ## What there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Serve on 127.0.0.1:8080 with data in ./leasehold-data
	$(CARGO) run --release -- serve

test: need lint ## Format, lints, and every test
	scripts/test.sh

test-long: need lint ## The same layers, for longer: more cases, more kills
	MODEL_CASES=$${MODEL_CASES:-100000} LEASEHOLD_KILLS=$${LEASEHOLD_KILLS:-500} scripts/test.sh

lint: ## Formatting and clippy, nothing but clean
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

fmt: ## Format everything
	$(CARGO) fmt --all

deny: ## Licences, sources and advisories of dependencies (installs cargo-deny)
	command -v cargo-deny >/dev/null || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check

need: ## Install what the tests need and the machine lacks
	scripts/need.sh
