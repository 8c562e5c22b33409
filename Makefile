# Common commands. `make up` and `make test` install what they need on a fresh machine; `make help` lists the rest.

FLOTILLA_KUBE_BIN ?= $(HOME)/.cache/flotilla/bin
FLOTILLA_VENV ?= $(HOME)/.cache/flotilla/python
FLOTILLA_PREVIOUS := $(or $(FLOTILLA_PREVIOUS),$(shell FLOTILLA_KUBE_BIN='$(FLOTILLA_KUBE_BIN)' tools/previous --path))
export FLOTILLA_KUBE_BIN
export FLOTILLA_PREVIOUS
export FLOTILLA_PYTHON = $(FLOTILLA_VENV)/bin/python

KUBE = etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kwok crane helm actionlint karmadactl kubectl-1.32 wire grpc-client
KARMADA = karmada-controller-manager karmada-scheduler karmada-webhook karmada-aggregated-apiserver karmada-agent karmada-metrics-adapter karmada-scheduler-estimator karmada-descheduler

.PHONY: kube-and-karmada
.PHONY: console
.PHONY: test-cmd conformance karmada-suite-programs
.PHONY: help up program dist image release release-names site down test check fmt bench bench-quick soak setup setup-tests kube karmada karmada-suite python previous lxd fuzz

help:
	@echo "make up     start a testbed: control plane (127.0.0.1:5443), three members, a registry; state in ~/.flotilla/default"
	@echo "make dist   build the fully optimised binary, target/dist/flotilla, and the release files in target/dist/release"
	@echo "make image  build the container image as an archive, target/dist/flotilla-image.tar"
	@echo "make release IMAGE=REPOSITORY BASE_URL=URL  both, with charts, manifests and defaults that name the published image and files"
	@echo "make site   render the documentation as a static site, target/site/index.html"
	@echo "make down   stop it and keep its data"
	@echo "make test   install the test dependencies and run all tests"
	@echo "make check  check formatting, lints and source rules only"
	@echo "make bench  compare with Karmada, kube-apiserver and etcd (an hour); report in bench/out/report.md"
	@echo "make bench-quick  the same with small sizes (10 minutes); make bench-PART runs one part: see bench/README.md"
	@echo "make karmada-suite FOCUS=REGEX  run Karmada's own end-to-end suite against our control plane; see docs/interop.md"
	@echo "make test-cmd FOCUS=REGEX  run the functions of Kubernetes' test/cmd against our control plane; see docs/interop.md"
	@echo "make conformance FOCUS=REGEX  run Kubernetes' conformance specs that need no nodes, and test/cmd, here and on kube-apiserver; see docs/interop.md"
	@echo "make soak SEED=1 MINUTES=10  seeded user actions and faults against a whole fleet; SOAK='--engine etcd' for three replicas"
	@echo "make fuzz SECONDS=60 JOBS=1  fuzz every reader of untrusted input for that long; see fuzz/README.md"

up: setup console
	@echo "==> building flotilla (the first build takes several minutes)"
	eval "$$(tools/commit)"; cargo build --profile local --locked -p cli
	./target/local/flotilla up

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
# Where the image of a release is pushed, and where its files can be downloaded from.
IMAGE :=
BASE_URL :=
ARCHIVE = target/dist/flotilla-image.tar

# The fully optimised binary, which benchmarks and releases use.
program: setup console
	eval "$$(tools/commit)"; $(if $(IMAGE),FLOTILLA_RELEASE_IMAGE=$(IMAGE):v$(VERSION)) cargo build --profile dist --locked -p cli

dist: program
	tools/dist target/dist/flotilla target/dist/release

# The container image of this tree.
image: program
	eval "$$(tools/commit)"; tools/image target/dist/flotilla $(ARCHIVE) $(if $(IMAGE),$(IMAGE):v$(VERSION))

# Binary, charts, Compose files and krew manifest name what the release workflow publishes.
release: release-names image
	tools/dist target/dist/flotilla target/dist/release --image $(IMAGE) --image-archive $(ARCHIVE) --base-url $(BASE_URL)

release-names:
	@test -n "$(IMAGE)" -a -n "$(BASE_URL)" || { echo "usage: make release IMAGE=REPOSITORY BASE_URL=URL" >&2; exit 2; }

# The documentation as a static site; needs only Python.
site:
	tools/site target/site

down:
	./target/local/flotilla down

test: setup-tests console check kube-and-karmada karmada-suite-programs python previous lxd
	@echo "==> building the tests"
	cargo build --locked --workspace --all-targets
	@echo "==> running the tests"
	cargo test --locked --workspace --doc
	cargo run --locked -p xtask -- tests

check: setup
	@echo "==> checking formatting, lints, source rules"
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo test --locked -p xtask
	@tools/deny

fmt:
	cargo fmt --all

BENCH = FLOTILLA_BIN=target/dist/flotilla ./target/dist/bench

bench: setup kube karmada
	cargo build --profile dist --locked -p cli -p bench
	$(BENCH) all

bench-quick: setup kube karmada
	cargo build --profile dist --locked -p cli -p bench
	$(BENCH) all --quick

bench-%: setup kube karmada
	cargo build --profile dist --locked -p cli -p bench
	$(BENCH) $*

soak: setup kube
	cargo build --locked -p cli -p e2e --bins && ./target/debug/soak --seed $(or $(SEED),1) --minutes $(or $(MINUTES),10) $(SOAK)

# State and logs are in target/karmada-suite; the report of the last run is report.txt there.
karmada-suite: setup kube karmada karmada-suite-programs
	@tools/kube/build karmada-search
	cargo build --locked -p cli
	tools/kube/karmada/suite all target/karmada-suite $(if $(FOCUS),--focus='$(FOCUS)') $(if $(SKIP),--skip='$(SKIP)') $(SUITE)

# Karmada's suite, compiled; e2e/tests/karmada_suite.rs runs a part of it.
karmada-suite-programs: kube
	@mkdir -p target/karmada-suite
	@tools/kube/karmada/suite build target/karmada-suite

# State and logs are in target/test-cmd.
test-cmd: setup kube
	@tools/kube/build kubectl-convert
	cargo build --locked -p cli
	tools/kube/test-cmd all target/test-cmd $(if $(FOCUS),'$(FOCUS)')

# State and logs are in target/conformance.
conformance: setup kube
	@tools/kube/build kubectl-convert e2e.test
	cargo build --locked -p cli
	tools/kube/conformance $(if $(FOCUS),specs,all) target/conformance $(if $(FOCUS),'$(FOCUS)')

fuzz: setup
	tools/fuzz --seconds $(or $(SECONDS),60) --jobs $(or $(JOBS),1)

setup:
	@tools/setup

setup-tests:
	@tools/setup tests

# The web console; without Node the binary is built without it.
console:
	@tools/console

lxd:
	@tools/lxd

# One call, so that programs of one module are built together.
kube:
	@tools/kube/build $(KUBE)

karmada:
	@tools/kube/build $(KARMADA)

kube-and-karmada:
	@tools/kube/build $(KUBE) $(KARMADA)

# The program of the previous release, for the test of version skew.
previous:
	@tools/previous $(FLOTILLA_PREVIOUS)

python:
	@test -x $(FLOTILLA_PYTHON) || { echo "==> creating a Python environment in $(FLOTILLA_VENV)"; python3 -m venv $(FLOTILLA_VENV); }
	@$(FLOTILLA_PYTHON) -c "import kubernetes" 2>/dev/null || { echo "==> installing the Python Kubernetes client"; $(FLOTILLA_PYTHON) -m pip install --quiet --disable-pip-version-check kubernetes==34.1.0; }
