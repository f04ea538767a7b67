// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF program and generates its skeleton and the bindings of `intf.h`.

fn main() {
    println!("cargo:rerun-if-changed=../../policy");
    scx_cargo::BpfBuilder::new()
        .expect("clang 17 or later is needed for BPF: make setup installs it and sets BPF_CLANG")
        .enable_intf("src/bpf/intf.h", "bpf_intf.rs")
        .enable_skel("src/bpf/main.bpf.c", "bpf")
        .compile_link_gen()
        .expect("the BPF program compiles");
}
