# SPDX-License-Identifier: GPL-2.0-only
# The commands that people type. CI calls the same.

EXPERIMENT ?= experiments/two-apps.toml

.PHONY: help setup build demo reproduce peers test bench lint format

help: ## Show this
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## Install what is missing (Debian 12, root) and download a kernel for the lab
	@scripts/setup

build: setup ## Build everything
	cargo build --release --workspace
	$(MAKE) --no-print-directory -C workloads/openmp OUT="$(abspath $(or $(CARGO_TARGET_DIR),target))/release"

demo: build ## Run two programs under the kernel's scheduler and ours, on an emulated 8-core machine
	target/release/threadwise lab run $(EXPERIMENT)

reproduce: build ## Run every result of the papers into reproduction.html: under half an hour; FULL=1: all of it, in hours
	target/release/threadwise reproduce $(if $(FULL),--full)

peers: setup ## Build the other sched_ext schedulers that experiments/peers.toml compares with (20 minutes)
	scripts/peers

test: build ## Run every test, those that boot a guest included
	cargo test --release --workspace --no-fail-fast

bench: setup ## Count events that are simulated and assignments that are predicted in a second
	cargo bench -p threadwise-simulator --bench events
	cargo bench -p threadwise-placement --bench predict

lint: setup ## Check style: Rust, C, shell
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	clang-format-19 --dry-run --Werror policy/*.h lab/*.c crates/scheduler/src/bpf/*.[ch] crates/policy/src/*.c workloads/openmp/*.[ch]
	shellcheck scripts/setup scripts/peers .ci/run tests/topologies/record

format: setup ## Format the code
	cargo fmt --all
	clang-format-19 -i policy/*.h lab/*.c crates/scheduler/src/bpf/*.[ch] crates/policy/src/*.c workloads/openmp/*.[ch]
