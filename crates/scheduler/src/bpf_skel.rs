// SPDX-License-Identifier: GPL-2.0-only
//! The skeleton that the build generates from `main.bpf.c`.
#![allow(
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
