// SPDX-License-Identifier: GPL-2.0-only
//! What will happen, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Ns;
use crate::faults::Fault;
use crate::kernel::{CpuIndex, TaskIndex};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The step of the task that runs here is done, if nothing changed since (the CPU's `generation`).
    Done { cpu: CpuIndex, generation: u32 },
    /// A CPU that is not idle has a tick.
    Tick { cpu: CpuIndex },
    /// A CPU looks for what to run.
    Reschedule { cpu: CpuIndex },
    /// What runs on a CPU loses its slice to another CPU's request.
    Preempt { cpu: CpuIndex, by: CpuIndex },
    /// A time that the scheduler asked for on this CPU.
    Alarm { cpu: CpuIndex },
    /// The scheduler's timer expires.
    Timer { generation: u32 },
    /// The scheduler's other timer expires.
    OtherTimer,
    /// A task that slept for a time wakes up.
    Wake { task: TaskIndex },
    /// Something goes wrong.
    Strike { fault: Fault },
}

/// Events in the order of their time; of those at the same time, the one that was added first.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    nr_added: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at: Ns, event: Event) {
        self.nr_added += 1;
        self.heap.push(Reverse((at, self.nr_added, event)));
    }

    /// The next event that is not after `until`.
    pub(crate) fn pop(&mut self, until: Ns) -> Option<(Ns, Event)> {
        if self.heap.peek()?.0.0 > until {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_orders_events_and_then_who_came_first() {
        let mut events = Events::default();
        let tick = |cpu| Event::Tick { cpu };
        for (at, event) in [(5, tick(3)), (4, tick(9)), (5, tick(1)), (7, tick(0))] {
            events.add(at, event);
        }
        let order: Vec<_> = std::iter::from_fn(|| events.pop(6)).collect();
        assert_eq!(order, [(4, tick(9)), (5, tick(3)), (5, tick(1))]);
    }
}
