// SPDX-License-Identifier: GPL-2.0-only
//! Where a tracer sees the phases.

/// `kind` of a serial phase for [`threadwise_phase_begin`].
pub const SERIAL: u32 = 0;
/// `kind` of a parallel phase for [`threadwise_phase_begin`].
pub const PARALLEL: u32 = 1;

/// Called by the main thread when a phase begins, and does nothing: a place for a uprobe.
///
/// `kind` is [`SERIAL`] or [`PARALLEL`] and `units` the work units of each ready thread in the phase. The name is
/// stable; for instance `bpftrace -e 'uprobe:/path/to/threadwise:threadwise_phase_begin { @[arg0] = hist(arg1) }'`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn threadwise_phase_begin(kind: u32, units: u64) {
    std::hint::black_box((kind, units));
}
