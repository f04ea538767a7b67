// SPDX-License-Identifier: GPL-2.0-only
//! Idle CPUs for tasks that lost their own or wait for it (`idle.bpf.h`).

use threadwise_policy::leaves_cache;

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, Place, TaskIndex};

impl Threadwise {
    /// Whether a waiting task goes to an idle CPU behind another last-level cache than that of its own.
    pub(super) fn leaves_cache(&self, kernel: &Kernel, task: TaskIndex) -> bool {
        let state = &kernel.tasks[task];
        let waits_ns = match state.place {
            Place::Queue(_) => kernel.now - state.waits_since,
            _ => 0,
        };
        leaves_cache(self.tasks[task].woke, waits_ns)
    }

    /// Claims an idle CPU for a task that lost its own or waits for it: first one behind the same last-level cache. Or says
    /// whether there are idle ones, to which it does not go yet.
    pub(super) fn claim_near(&self, kernel: &mut Kernel, task: TaskIndex) -> Result<CpuIndex, bool> {
        let llc = kernel.domains.llc_of(kernel.tasks[task].cpu);
        let has_caches = kernel.domains.nr_llcs() > 1;
        let from = kernel.tasks[task].cpu;
        let near =
            has_caches.then(|| kernel.claim_in_llc(task, llc, |idle, near| idle.claim_next_in(near, from)));
        if let Some(near) = near.flatten() {
            return Ok(near);
        }
        if has_caches && !self.leaves_cache(kernel, task) {
            return Err(kernel.has_idle_for(task));
        }
        kernel.claim_any_idle(task).ok_or(false)
    }
}
