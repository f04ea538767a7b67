// SPDX-License-Identifier: GPL-2.0-only
//! The types of `intf.h`.
#![allow(
    missing_docs,
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case
)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
