// SPDX-License-Identifier: GPL-2.0-only
//! Caches, and which of them is each CPU's last level.

use std::rc::Rc;

use super::CPU;
use super::tree::{CpuSet, Tree, agree};
use crate::error::Error;
use crate::id::CpuId;
use crate::machine::{Cache, CacheKind};

/// The most caches of one CPU; a bound for a tree that never ends.
const MAX_CACHES: u32 = 64;
/// A private L1 is nobody's shared cache: a tree that stops there does not tell of the LLC.
const LOWEST_LLC_LEVEL: u8 = 2;

pub(super) struct Caches {
    pub all: Vec<Cache>,
    /// For each online CPU those that share its last-level cache; none where the tree does not tell.
    pub llc_of: Vec<Option<CpuSet>>,
}

/// One cache as one CPU's folder tells of it.
struct View {
    level: u8,
    kind: CacheKind,
    size_bytes: Option<u64>,
    shared: CpuSet,
}

pub(super) fn read(tree: &mut Tree, cpus: &[CpuId]) -> Result<Caches, Error> {
    let mut all = Vec::new();
    let mut llc_of: Vec<Option<CpuSet>> = Vec::new();
    for &cpu in cpus {
        let views = views_of(tree, cpus, cpu)?;
        let candidates = views
            .iter()
            .filter(|view| view.level >= LOWEST_LLC_LEVEL && view.kind != CacheKind::Instruction);
        llc_of.push(
            candidates
                .max_by_key(|view| view.level)
                .map(|view| view.shared.clone()),
        );
        // The first of the CPUs that share a cache stands for all of them.
        all.extend(
            views
                .into_iter()
                .filter(|view| view.shared.first() == Some(&cpu))
                .map(|view| Cache {
                    level: view.level,
                    kind: view.kind,
                    size_bytes: view.size_bytes,
                    cpus: view.shared.to_vec(),
                }),
        );
    }
    agree(tree, cpus, &llc_of, |cpu| {
        format!("{CPU}/cpu{cpu}/cache (last level)")
    })?;
    Ok(Caches { all, llc_of })
}

/// The caches of one CPU. Virtual machines leave files out: without a level, a type or a list of
/// sharers a cache tells us nothing.
fn views_of(tree: &mut Tree, online: &[CpuId], cpu: CpuId) -> Result<Vec<View>, Error> {
    let mut views = Vec::new();
    for index in 0..MAX_CACHES {
        let folder = format!("{CPU}/cpu{cpu}/cache/index{index}");
        if !tree.exists(&folder) {
            break;
        }
        let level = read_level(tree, &format!("{folder}/level"))?;
        let kind = read_kind(tree, &format!("{folder}/type"))?;
        let path = format!("{folder}/shared_cpu_list");
        let shared = tree.online_set(&path, online)?;
        let size_bytes = read_size(tree, &format!("{folder}/size"))?;
        let (Some(level), Some(kind), Some(shared)) = (level, kind, shared) else {
            continue;
        };
        if !shared.contains(&cpu) {
            return Err(tree.contradiction(&path, format!("the list lacks CPU {cpu} itself")));
        }
        views.push(View {
            level,
            kind,
            size_bytes,
            shared: Rc::clone(&shared),
        });
    }
    Ok(views)
}

fn read_level(tree: &Tree, path: &str) -> Result<Option<u8>, Error> {
    match tree.number(path)? {
        None | Some(0) => Ok(None),
        Some(level @ 1..=9) => Ok(Some(level as u8)),
        Some(other) => Err(tree.wrong_value(path, &other.to_string(), "the level of a cache, 1 to 9")),
    }
}

fn read_kind(tree: &Tree, path: &str) -> Result<Option<CacheKind>, Error> {
    match tree.text(path)?.as_deref() {
        None | Some("Unknown") => Ok(None),
        Some("Data") => Ok(Some(CacheKind::Data)),
        Some("Instruction") => Ok(Some(CacheKind::Instruction)),
        Some("Unified") => Ok(Some(CacheKind::Unified)),
        Some(other) => Err(tree.wrong_value(path, other, "Data, Instruction or Unified")),
    }
}

/// `32K` in bytes; none for 0, which is how the kernel says that it does not know.
fn read_size(tree: &Tree, path: &str) -> Result<Option<u64>, Error> {
    let Some(text) = tree.text(path)? else {
        return Ok(None);
    };
    let (digits, shift) = match text.char_indices().last() {
        Some((end, 'K')) => (&text[..end], 10),
        Some((end, 'M')) => (&text[..end], 20),
        _ => (text.as_str(), 0),
    };
    match digits
        .parse::<u64>()
        .ok()
        .and_then(|size| size.checked_mul(1 << shift))
    {
        Some(size) => Ok(Some(size).filter(|&size| size > 0)),
        None => Err(tree.wrong_value(path, &text, "a size such as 32K")),
    }
}
