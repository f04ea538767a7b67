# SPDX-License-Identifier: GPL-2.0-only
# The commands that people type. CI calls the same.

EXPERIMENT ?= experiments/openmp-active.toml experiments/two-apps.toml
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# What tests that passed have to say, such as that they were skipped.
NOTES := $(TARGET)/test-notes.txt
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
PARSERS ?= rtapp trace machine synthetic experiment workload ratio
SECONDS ?= 60
ROUNDS ?= 20
CLANG_FORMAT ?= clang-format-19

.PHONY: help setup rust build openmp demo reproduce peers test fuzz soak drift tables figures bench lint format

help: ## Show this
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## Install what is missing (Debian 12, root) and download a kernel for the lab
	@scripts/setup

rust:
	@has=$$(cargo --version 2>/dev/null | cut -d' ' -f2); \
	[ "$$(printf '%s\n' $(RUST) "$$has" | sort -V | head -1)" = $(RUST) ] || \
	{ echo "Rust $(RUST) or later is needed, and $${has:-none} is here: install rustup from https://rustup.rs" >&2; exit 2; }

build: rust setup openmp ## Build everything
	cargo build --release --workspace

openmp: setup
	@$(MAKE) --no-print-directory -C workloads/openmp OUT="$(TARGET)/release"

demo: build ## Run two programs that spin at barriers, and two with phases, under the kernel's scheduler and ours, on an emulated 8-core machine
	@for experiment in $(EXPERIMENT); do $(TARGET)/release/threadwise lab run $$experiment || exit; done

reproduce: build $(if $(FULL),peers) ## Run every result of the papers into reproduction.html: under half an hour; FULL=1: all of it, beside the other sched_ext schedulers, in most of a day
	$(TARGET)/release/threadwise reproduce $(if $(FULL),--full)

peers: rust setup ## Build the other sched_ext schedulers that lab run --peers compares with (20 minutes); ALL=1: those of --peers=all too
	scripts/peers $(if $(ALL),all)

test: rust setup openmp ## Run the tests, half of those that boot a guest included; FULL=1: all of them
	@rm -f "$(NOTES)"; status=0; \
	THREADWISE_TEST_NOTES="$(NOTES)" cargo test --release --workspace --no-fail-fast $(if $(FULL),-- --include-ignored) || status=$$?; \
	if [ -e "$(NOTES)" ]; then echo "Skipped, or done again:"; cat "$(NOTES)"; fi; exit $$status

fuzz: rust setup ## Feed damaged files to each parser for SECONDS of CPU time (60)
	@for target in $(PARSERS); do \
		cargo run --release --quiet -p threadwise --example fuzz -- --seconds $(SECONDS) $$target || exit; \
	done

soak: build ## Stress the scheduler in guests with everything at once for SECONDS (60), and as long again on other machines and with options
	THREADWISE_SOAK_SECONDS=$(SECONDS) cargo test --release -p threadwise --test guest -- --include-ignored --nocapture soak::

drift: build ## Compare the simulator with the lab in ROUNDS rounds (20: an hour and a half), row by row
	THREADWISE_DRIFT_ROUNDS=$(ROUNDS) cargo test --release -p threadwise --test guest -- --include-ignored --nocapture --test-threads 1 drift::

tables: rust setup ## Simulate the marked tables of docs/results and write them there
	THREADWISE_WRITE_TABLES=1 cargo test --release -p threadwise --test tables

figures: build ## Measure anew the figures of docs/results that are no runs of experiments (tests/runs/*.jsonl; an hour)
	scripts/figures

bench: rust setup ## Count events that are simulated and assignments that are predicted in a second
	cargo bench -p threadwise-simulator --bench events
	cargo bench -p threadwise-placement --bench predict

lint: rust setup ## Check style: Rust, C, shell
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	$(CLANG_FORMAT) --dry-run --Werror policy/*.h lab/*.[ch] crates/lab/tests/*.c crates/scheduler/src/bpf/*.[ch] crates/policy/src/*.c workloads/openmp/*.[ch]
	shellcheck scripts/setup scripts/peers scripts/figures .ci/run tests/topologies/record

format: setup ## Format the code
	cargo fmt --all
	$(CLANG_FORMAT) -i policy/*.h lab/*.[ch] crates/lab/tests/*.c crates/scheduler/src/bpf/*.[ch] crates/policy/src/*.c workloads/openmp/*.[ch]
