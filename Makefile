# `make help` lists what there is to do.

EXP  ?= experiments/quickstart.yaml
ARGS ?=
# Of the p4 tutorials: TOPO=topology.json DEFAULT_PROG=basic.p4 (or .json)
TOPO         ?=
DEFAULT_PROG ?=
PROGRAM       = $(if $(filter %.p4,$(DEFAULT_PROG)),build/$(notdir $(DEFAULT_PROG:.p4=.json)),$(DEFAULT_PROG))
CRATE     ?=
P4C       ?= p4c-bm2-ss
P4C_FLAGS ?=

CARGO  ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
WEIR   := $(TARGET)/release/weir

.PHONY: run results check test soak bench p4 p4-tna packages stop clean help build virtual-time

run: $(if $(TOPO),build,virtual-time) ## Build what virtual time needs, run an experiment and write its report: EXP=experiments/x.yaml ARGS="--seed 7"; with TOPO=topology.json a network of the p4 tutorials
ifeq ($(TOPO),)
	@$(WEIR) run $(EXP) $(ARGS)
else
ifneq ($(filter %.p4,$(DEFAULT_PROG)),)
	@mkdir -p build && $(P4C) $(P4C_FLAGS) --p4v 16 --p4runtime-files $(PROGRAM:.json=.p4.p4info.txtpb) -o $(PROGRAM) $(DEFAULT_PROG)
endif
	@$(WEIR) mininet $(TOPO) $(if $(PROGRAM),--program $(PROGRAM)) $(ARGS)
endif

results: build ## Run the papers' experiments and write the tables of docs/results/: 40 minutes on two cores, or ARGS=--quick for a few
	@$(WEIR) results $(ARGS)

check: ## Check while you work, without root: format, lints, unit, property, simulation and packet tests; CRATE=host: that crate, and lints of those that depend on it
	@CRATE=$(CRATE) .ci/test check

test: ## Run everything that checks: what `make check` does, and tests in Mininet, of clients, of the documentation
	@.ci/test

soak: build ## Run switches, agents and a controller for MINUTES=60 under flapping links, 10,000 seeds and 5,000 random experiments in virtual time, and the fuzz targets
	@.ci/soak

bench: build ## Measure: packet-hops per second, ns per packet, memory; then the criterion benches
	@$(WEIR) bench $(ARGS)
	@$(CARGO) bench --workspace --benches

p4: ## Compile p4src into p4src/build with p4c: P4C=/x/p4c-bm2-ss P4C_FLAGS="-I /x/p4include"
	@$(MAKE) --no-print-directory -C p4src P4C="$(P4C)" P4C_FLAGS="$(P4C_FLAGS)"

p4-tna: P4C = p4c
p4-tna: ## Compile and assemble p4src/tna for Tofino 1 and 2, and write their table of resources: P4C=/x/p4c
	@$(MAKE) --no-print-directory -C p4src tna P4C="$(P4C)" P4C_FLAGS="$(P4C_FLAGS)"

packages: ## Build a .deb, the Python wheel, crates and a container image into target/packages, and try them: minutes
	@packaging/build

stop: ## Take down what a run in Mininet that was killed left up
	@if [ "$$(id -u)" = 0 ] && [ -x $(WEIR) ] && /usr/bin/python3 -c 'import mininet' 2>/dev/null; then $(WEIR) mininet --clean; fi

clean: stop ## Remove what was built; runs/ stays, it holds your results
	@$(CARGO) clean

help: ## Show this
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile | expand -t 16

build: ## Build all commands
	@$(CARGO) build --release --locked -p weir-fabric

# A first run should not wait for gRPC, TLS and the other things that virtual time does not need. Once all commands are built,
# they stay: only a full build has `weir man`.
virtual-time:
	@if $(WEIR) man --help >/dev/null 2>&1; then $(MAKE) --no-print-directory build; \
	else $(CARGO) build --release --locked -p weir-fabric --no-default-features; fi
