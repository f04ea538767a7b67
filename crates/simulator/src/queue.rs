// SPDX-License-Identifier: GPL-2.0-only
//! A dispatch queue: waiting tasks by key.

use std::collections::BTreeSet;

use crate::kernel::TaskIndex;

/// Waiting tasks, the one with the smallest key first; of equal ones who came first. Keys wrap, as vtimes do: those in
/// one queue lie within half of their range.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    tasks: BTreeSet<(u64, u64, TaskIndex)>,
}

/// Where a task stands in a [`Queue`].
pub(crate) type Position = (u64, u64);

/// The key under which a task stands there.
pub(crate) fn key_at(position: Position) -> u64 {
    position.0.wrapping_add(1 << 63)
}

impl Queue {
    /// `order` grows with every insertion anywhere.
    pub(crate) fn insert(&mut self, task: TaskIndex, key: u64, order: u64) -> Position {
        // Half of the range on, so that the wrap is where vtimes never are.
        let position = (key.wrapping_add(1 << 63), order);
        self.tasks.insert((position.0, position.1, task));
        position
    }

    pub(crate) fn remove(&mut self, task: TaskIndex, position: Position) {
        self.tasks.remove(&(position.0, position.1, task));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TaskIndex> + '_ {
        self.tasks.iter().map(|&(_, _, task)| task)
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }
}
