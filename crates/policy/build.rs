// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policy with the host's C compiler: the very headers that the BPF program includes.

fn main() {
    println!("cargo:rerun-if-changed=../../policy");
    println!("cargo:rerun-if-changed=src/native.c");
    cc::Build::new()
        .file("src/native.c")
        .warnings_into_errors(true)
        .extra_warnings(true)
        // What is `inline` and not `static` is a symbol as well: by C99's rules it would be none.
        .flag("-fgnu89-inline")
        .compile("threadwise_policy");
}
