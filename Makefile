# `make test` is everything CI runs. It installs what it lacks from the package registries.

CARGO ?= cargo

# The modules of faces come from their list, a macro, which cargo fmt does not look into.
FACES = crates/server/src/faces/*/mod.rs

.PHONY: cluster-demo dist packages help run test test-long lint fmt fuzz deny need bench bench-quick bench-build

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Serve on 127.0.0.1:8080 with data in ./leasehold-data
	$(CARGO) run --release -- serve

cluster-demo: ## etcd with three members, three nodes and a small load, for CLUSTER_DEMO_SECONDS (600) or until Ctrl-C
	scripts/cluster-demo.sh

test: need lint ## Format, lints, and every test
	scripts/test.sh

test-long: need lint ## The same layers for longer, and packages, container, sign-on by SAML: LONG=1, an hour; LONG=10, a night
	scripts/test-long.sh

dist: ## The tarball, the Debian package, the wheel and the npm tarball, in target/packages (installs cargo-deb)
	scripts/dist.sh

packages: ## Build the packages quickly; install, start, upgrade and remove them on a copy of this machine's root
	scripts/packages.sh

fuzz: ## Coverage-guided fuzzing, a minute a target (installs cargo-fuzz and a nightly toolchain)
	scripts/fuzz.sh $${FUZZ_SECONDS:-60}

lint: ## Formatting, clippy, names, and the sentences and columns of docs and comments, nothing but clean
	$(CARGO) fmt --all --check
	rustfmt --check $(FACES)
	scripts/sentences.py
	scripts/names.py
	scripts/columns.py
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

fmt: ## Format everything
	$(CARGO) fmt --all
	rustfmt $(FACES)
	scripts/columns.py --fix

deny: ## Licences, sources and advisories of dependencies (installs cargo-deny)
	scripts/deny.sh

need: ## Install what the tests need and the machine lacks
	scripts/need.sh
	bench/need.sh

bench: bench-build ## Measure beside Redis, PostgreSQL and etcd, in a quarter of an hour (installs them)
	$(CARGO) run --release --locked -q -p leasehold-bench --bin leasehold-bench -- $(BENCH_ARGS)

bench-quick: bench-build ## The same in two minutes: checks every answer, asserts no timing
	$(CARGO) run --release --locked -q -p leasehold-bench --bin leasehold-bench -- --quick --out target/bench-quick $(BENCH_ARGS)

bench-build:
	bench/need.sh
	$(CARGO) build --release --locked -p leasehold -p leasehold-bench
