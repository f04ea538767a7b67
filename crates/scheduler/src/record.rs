// SPDX-License-Identifier: GPL-2.0-only
//! Writes what the BPF program asked of the policy, and what that answered, for a replay through the
//! policy's native build (`crates/threadwise/tests/guest/decisions.rs`): both builds must agree bit for bit.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use serde::Serialize;
use serde_json::json;

use crate::bpf_intf::{self, tw_decision};
use crate::bpf_skel::types;

/// The ring buffer while recording; what finds it full is dropped.
pub const BUFFER_BYTES: u32 = 1 << 20;

/// A file of decisions.
pub struct Recorder {
    file: BufWriter<File>,
}

/// What comes through the ring buffer, and the file to which it goes.
pub struct Recording {
    decisions: RingBuffer<'static>,
    file: Rc<RefCell<BufWriter<File>>>,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    function: &'static str,
    r#in: &'a [u64],
    out: u64,
}

/// Empties the file, or makes it.
pub fn begin(path: &Path) -> Result<()> {
    File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(())
}

impl Recorder {
    /// Opens the file at its end and writes the settings under which everything that follows is decided.
    pub fn append(path: &Path, tunables: &types::tw_tunables) -> Result<Self> {
        let file = File::options().append(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        let mut file = BufWriter::new(file);
        let settings = json!({
            "schema": "threadwise.decisions/7",
            "slice_ns": tunables.slice_ns,
            "rotate_ns": tunables.rotate_ns,
            "serial_boost_ns": tunables.serial_boost_ns,
            "senior_boost_ns": tunables.senior_boost_ns,
            "serial_turn_ns": tunables.serial_turn_ns,
            "senior_turn_ns": tunables.senior_turn_ns,
            "vtime_window_ns": tunables.vtime_window_ns,
            "vtime_lag_ns": tunables.vtime_lag_ns,
            "serial_threshold": tunables.serial_threshold,
            "boost_shares": tunables.boost_shares,
        });
        writeln!(file, "{settings}").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file })
    }

    /// Writes what comes through the ring buffer, whenever that is consumed.
    pub fn read(self, decisions: &dyn MapCore) -> Result<Recording> {
        let file = Rc::new(RefCell::new(self.file));
        let writer = Rc::clone(&file);
        let mut builder = RingBufferBuilder::new();
        builder.add(decisions, move |bytes| {
            match write(&mut *writer.borrow_mut(), bytes) {
                Ok(()) => 0,
                Err(error) => {
                    tracing::error!("recording: {error:#}");
                    -libc::EIO
                }
            }
        })?;
        Ok(Recording {
            decisions: builder.build()?,
            file,
        })
    }
}

impl Recording {
    /// Writes what was decided since the last time.
    pub fn consume(&self) -> Result<()> {
        self.decisions.consume()?;
        Ok(self.file.borrow_mut().flush()?)
    }
}

/// Writes one decision. The longer this takes, the more of them find the ring buffer full and are dropped.
fn write(file: &mut impl Write, bytes: &[u8]) -> Result<()> {
    ensure!(
        bytes.len() == size_of::<tw_decision>(),
        "a decision of {} bytes",
        bytes.len()
    );
    // SAFETY: plain integers, of the size that was just checked; the read does not ask for alignment.
    let decision: tw_decision = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
    let line = Line {
        function: name(decision.kind)?,
        r#in: &decision.in_,
        out: decision.out,
    };
    serde_json::to_writer(&mut *file, &line).context("cannot write")?;
    file.write_all(b"\n").context("cannot write")
}

/// The policy's function.
fn name(kind: u64) -> Result<&'static str> {
    let names = [
        (bpf_intf::tw_decision_kind_TW_DECISION_CLASS, "tw_class_of"),
        (bpf_intf::tw_decision_kind_TW_DECISION_ADVANCE, "tw_vtime_advance"),
        (bpf_intf::tw_decision_kind_TW_DECISION_KEY_IN, "tw_key_in"),
        (bpf_intf::tw_decision_kind_TW_DECISION_GOES_FIRST, "tw_goes_first"),
        (bpf_intf::tw_decision_kind_TW_DECISION_PREEMPTS, "tw_preempts"),
        (
            bpf_intf::tw_decision_kind_TW_DECISION_MAKES_WAY,
            "tw_makes_way_in",
        ),
        (
            bpf_intf::tw_decision_kind_TW_DECISION_SLICE_BESIDE,
            "tw_slice_beside",
        ),
        (bpf_intf::tw_decision_kind_TW_DECISION_SEEN, "tw_vtime_seen"),
        (
            bpf_intf::tw_decision_kind_TW_DECISION_UNBOOSTED,
            "tw_goes_unboosted",
        ),
        (bpf_intf::tw_decision_kind_TW_DECISION_MAKES_ROOM, "tw_makes_room"),
        (bpf_intf::tw_decision_kind_TW_DECISION_CLOCK, "tw_clock"),
        (bpf_intf::tw_decision_kind_TW_DECISION_STEP, "tw_step"),
        (
            bpf_intf::tw_decision_kind_TW_DECISION_SURELY_STAYS,
            "tw_surely_stays",
        ),
        (bpf_intf::tw_decision_kind_TW_DECISION_USED_UP, "tw_is_used_up"),
        (
            bpf_intf::tw_decision_kind_TW_DECISION_MEAN_WEIGHT,
            "tw_mean_weight",
        ),
        (
            bpf_intf::tw_decision_kind_TW_DECISION_WEIGHT_AMONG,
            "tw_weight_among",
        ),
    ];
    names
        .iter()
        .find(|(known, _)| u64::from(*known) == kind)
        .map(|(_, name)| *name)
        .with_context(|| format!("a decision of unknown kind {kind}"))
}
