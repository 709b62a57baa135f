# `make test` is everything CI runs. It installs what it lacks from the package registries.

CARGO ?= cargo

.PHONY: cluster-demo dist packages help run test test-long lint fmt fuzz deny need bench bench-quick bench-build

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Serve on 127.0.0.1:8080 with data in ./leasehold-data
	$(CARGO) run --release -- serve

cluster-demo: ## etcd with three members, three nodes and a small load, for CLUSTER_DEMO_SECONDS (600) or until Ctrl-C
	scripts/cluster-demo.sh

test: need lint ## Format, lints, and every test
	scripts/test.sh

test-long: need lint ## The same layers, for longer: more cases, more kills, an hour of soak
	MODEL_CASES=$${MODEL_CASES:-100000} LEASEHOLD_KILLS=$${LEASEHOLD_KILLS:-500} \
	LEASEHOLD_SOAK_SECONDS=$${LEASEHOLD_SOAK_SECONDS:-3600} LEASEHOLD_SCHEDULES=$${LEASEHOLD_SCHEDULES:-100} \
	LEASEHOLD_CONFORMANCE_SECONDS=$${LEASEHOLD_CONFORMANCE_SECONDS:-300} LEASEHOLD_CONFORMANCE_ROWS=$${LEASEHOLD_CONFORMANCE_ROWS:-all} \
	LEASEHOLD_ETCD_SECONDS=$${LEASEHOLD_ETCD_SECONDS:-3600} LEASEHOLD_POSTGRES_FAULTS=$${LEASEHOLD_POSTGRES_FAULTS:-200} \
	LEASEHOLD_CLUSTER_FAULTS=$${LEASEHOLD_CLUSTER_FAULTS:-1500} LEASEHOLD_CLUSTER_FAILOVERS=$${LEASEHOLD_CLUSTER_FAILOVERS:-100} \
	LEASEHOLD_FUZZ=$${LEASEHOLD_FUZZ:-200} SIM_SEEDS=$${SIM_SEEDS:-100000} SIM_CLUSTER_SEEDS=$${SIM_CLUSTER_SEEDS:-20000} \
	SIM_SCOPE_STATES=$${SIM_SCOPE_STATES:-200000} SIM_RELAY_STATES=$${SIM_RELAY_STATES:-200000} \
	LEASEHOLD_CRASH_STATES=$${LEASEHOLD_CRASH_STATES:-1000000} LEASEHOLD_FAULTS=$${LEASEHOLD_FAULTS:-30} \
	SCHEMATHESIS_EXAMPLES=$${SCHEMATHESIS_EXAMPLES:-200} SCHEMATHESIS_SEED=$${SCHEMATHESIS_SEED:-$$(date +%s)} scripts/test.sh
	node tests/cluster/size.mjs $${LEASEHOLD_ETCD_SECONDS:-3600}
	scripts/deny.sh
	scripts/planted.sh
	scripts/shibboleth.sh
	scripts/otlp.sh
	scripts/container.sh
	scripts/packages.sh

dist: ## The tarball, the Debian package, the wheel and the npm tarball, in target/packages (installs cargo-deb)
	scripts/dist.sh

packages: ## Build the packages quickly; install, start, upgrade and remove them on a copy of this machine's root
	scripts/packages.sh

fuzz: ## Coverage-guided fuzzing, a minute a target (installs cargo-fuzz and a nightly toolchain)
	scripts/fuzz.sh $${FUZZ_SECONDS:-60}

lint: ## Formatting, clippy, names, and the sentences and columns of docs, nothing but clean
	$(CARGO) fmt --all --check
	scripts/sentences.py
	scripts/names.py
	scripts/columns.py
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

fmt: ## Format everything
	$(CARGO) fmt --all
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
