// SPDX-License-Identifier: GPL-2.0-only
//! The timer by which those who wait get their turn (`rotation.bpf.h`).

use threadwise_policy::{
    Beside, Class, Due, Keys, Kick, LEAVES_CACHE_NS, ROTATION_CPUS, ROTATION_MARKS, ROTATION_QUEUES,
    ROTATION_SORTED, Task, Timer, follows_senior, waits_us,
};

use super::{Rotation, Threadwise};
use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};
use crate::queue::key_at;

impl Threadwise {
    /// Has the timer look in so long, if it does not look before.
    pub(super) fn start_rotation(&mut self, kernel: &mut Kernel, key: u64, in_ns: Ns) {
        if !self.rotation.timer.starts(kernel.now, in_ns) {
            return;
        }
        self.rotation.timer = Timer {
            until_ns: kernel.now + in_ns,
            key,
            armed: true,
        };
        kernel.start_timer(in_ns);
    }

    /// `arm_rotation()`.
    pub(super) fn arm_rotation(&mut self, kernel: &mut Kernel, task: &Task, nr_threads: u32) {
        self.rotation.look.expect();
        let mut timer = self.rotation.timer;
        if let Some(in_ns) = timer.look_for(task, nr_threads, kernel.now, &self.tun) {
            self.start_rotation(kernel, timer.key, in_ns);
        }
        self.tasks_wait = true;
    }

    /// Has the timer look before long, if it runs: a parallel phase ended.
    pub(super) fn look_soon(&mut self, kernel: &mut Kernel) {
        self.rotation.look.disturb();
        let in_ns = self.shortest_step();
        if self.rotation.timer.hastens(kernel.now, in_ns) {
            self.start_rotation(kernel, self.rotation.timer.key, in_ns);
        }
    }

    /// A task stays for a moment although CPUs are idle behind another last-level cache: the timer looks when that is over.
    pub(super) fn look_when_it_leaves(&mut self, kernel: &mut Kernel) {
        self.start_rotation(kernel, self.rotation.timer.key, LEAVES_CACHE_NS);
    }

    /// Has the timer look at once if a program has become senior since it looked.
    pub(super) fn follow_senior(&mut self, kernel: &mut Kernel) {
        let Rotation { timer, handovers, .. } = self.rotation;
        if self.nr_handovers != handovers && timer.hastens(kernel.now, 0) {
            self.start_rotation(kernel, timer.key, 0);
        }
    }

    /// Whether what runs on a CPU is due to make way for this one, that may be bound to it, and of which class it is beside that;
    /// and when to look again.
    fn look_whether_due(
        &mut self,
        kernel: &Kernel,
        cpu: CpuIndex,
        (waiting, queue): (&Task, CpuIndex),
        is_bound: bool,
    ) -> Option<Due> {
        let running = kernel.cpus[cpu].running?;
        let ahead_ns = kernel.now - kernel.tasks[running].exec_start;
        let mut task = self.look_at(kernel, running, ahead_ns, false);
        let first = self.first_of(kernel, queue)?;
        let waiting = self.seen_from(kernel, (cpu, None), (queue, waiting));
        let beside = Beside {
            waiting_bound: is_bound,
            ..Self::beside(kernel, running, first)
        };
        let in_ns = self.tun.makes_way_in(&mut task, &waiting, beside);
        self.rotation.look.due(&task, &waiting, in_ns, &self.tun)
    }

    /// Kicks a CPU whose task is due to make way for the foremost, which waits in this queue, or for the first of its own.
    fn kick_due(&mut self, kernel: &mut Kernel, cpu: CpuIndex, due: Due, foremost: Option<CpuIndex>) {
        let kick = self.rotation.look.kick(due, foremost.is_some());
        if kick == Kick::AndSend {
            self.sent_to[cpu] = foremost;
        }
        if kick != Kick::Not {
            kernel.kick_preempt(cpu);
        }
    }

    /// Wakes an idle CPU on which a waiting task may run; it will look for that itself.
    pub(super) fn kick_idle_for(&mut self, kernel: &mut Kernel, task: TaskIndex) -> bool {
        match self.claim_near(kernel, task) {
            Ok(idle) => {
                if kernel.domains.nr_llcs() > 1 {
                    self.sent_to[idle] = Some(kernel.tasks[task].cpu);
                }
                kernel.kick(idle);
                true
            }
            Err(later) => {
                if later {
                    self.look_when_it_leaves(kernel);
                }
                false
            }
        }
    }

    /// Of those that wait behind the first of a queue, wakes an idle CPU for one that leaves its last-level cache by now: when it
    /// was queued it did not.
    fn kick_idle_behind_first(&mut self, kernel: &mut Kernel, queue: CpuIndex) -> bool {
        if kernel.domains.nr_llcs() == 1 {
            return false;
        }
        let mut behind = kernel
            .queued(self.queues + queue, ROTATION_SORTED)
            .into_iter()
            .skip(1);
        behind.any(|task| self.kick_idle_for(kernel, task))
    }

    pub(super) fn look_at_queue(&mut self, kernel: &mut Kernel, queue: CpuIndex) {
        let Some(first) = self.first_of(kernel, queue) else {
            self.rotation.look.found(false);
            return;
        };
        self.rotation.look.found(true);
        let task = self.look_at_waiting(kernel, first, queue);
        self.tasks_wait = true;
        if self.kick_idle_for(kernel, first) || self.kick_idle_behind_first(kernel, queue) {
            self.rotation.look.disturb();
            return;
        }
        self.rotation.look.waits();
        if kernel.tasks[first].bound_to.is_some() {
            // No CPU but this one, and nobody else, looks after it.
            self.rotation.look.disturb();
            if let Some(due) = self.look_whether_due(kernel, queue, (&task, queue), true) {
                self.kick_due(kernel, queue, due, None);
            }
        } else if self
            .rotation
            .first
            .is_none_or(|(foremost, _)| self.tun.goes_first(&task, &foremost))
        {
            self.rotation.first = Some((task, queue));
        }
    }

    /// Puts the first tasks of a queue in the order in which they go now, or those of them that wait for long (`sort_queue()`).
    fn sort_queue(&mut self, kernel: &mut Kernel, cpu: CpuIndex, all: bool) {
        let queue = self.queues + cpu;
        if all {
            self.keys[cpu].nr_looks = self.keys[cpu].nr_looks.saturating_sub(1);
        }
        for waiting in kernel.queued(queue, ROTATION_SORTED) {
            let task = self.look_at_charged(kernel, waiting, cpu);
            let unboosted = self.goes_unboosted(kernel, waiting, task.class);
            let key = self.tun.key_in(&self.keys[cpu], &task, unboosted);
            if task.moves_in_queue(key, key_at(kernel.tasks[waiting].position), all) {
                kernel.move_within(waiting, queue, key);
            }
        }
    }

    /// Puts a CPU's queue in order if a program became senior since that was done last; false if not.
    pub(super) fn sort_for_senior(&mut self, kernel: &mut Kernel, cpu: CpuIndex) -> bool {
        if self.sorted_for[cpu] == self.nr_handovers {
            return false;
        }
        self.sorted_for[cpu] = self.nr_handovers;
        self.renew_keys(kernel, cpu);
        self.sort_queue(kernel, cpu, true);
        true
    }

    fn renew_keys(&mut self, kernel: &Kernel, cpu: CpuIndex) {
        let nr_waiting = self.nr_waiting(kernel, cpu);
        self.keys[cpu].renew(nr_waiting, self.crowd.boost_left());
    }

    /// Puts a queue in order whose keys go by what no longer holds, or are not all made anew yet; false if not.
    fn sort_if_stale(&mut self, kernel: &mut Kernel, queue: CpuIndex) -> bool {
        let (nr_waiting, left) = (self.nr_waiting(kernel, queue), self.crowd.boost_left());
        if self.tun.keys_are_stale(&self.keys[queue], nr_waiting, left) {
            self.renew_keys(kernel, queue);
        } else if self.keys[queue].nr_looks == 0 {
            return false;
        }
        self.sort_queue(kernel, queue, true);
        true
    }

    /// Where keys are made anew by one look, which longer queues do not have, each is by no boost, or by that of a class as the
    /// queue's keys have it, or before that by no more than its task's age.
    ///
    /// # Errors
    /// Who has not.
    pub(super) fn check_keys(&self, kernel: &Kernel) -> Result<(), String> {
        let at_once = |keys: &Keys| keys.nr_looks <= 1 && keys.nr_waiting as usize <= ROTATION_SORTED;
        for (cpu, keys) in self.keys.iter().enumerate().filter(|(_, keys)| at_once(keys)) {
            for index in kernel.queued(self.queues + cpu, usize::MAX) {
                let (vtime, key) = (self.tasks[index].vtime, key_at(kernel.tasks[index].position));
                let by = |class, waits_ns| {
                    let task = Task {
                        vtime,
                        here_ns: 0,
                        class,
                        nr_waiting: 0,
                        boost_left: 0,
                        waits_us: waits_us(waits_ns),
                        step_ns: 0,
                    };
                    self.tun.key_in(keys, &task, false)
                };
                let waits_ns = kernel.now - kernel.tasks[index].waits_since;
                let fits = [Class::Parallel, Class::Senior, Class::Serial]
                    .into_iter()
                    .any(|class| {
                        let (by_boost, oldest) = (by(class, 0), by(class, waits_ns));
                        by_boost.wrapping_sub(key) <= by_boost.wrapping_sub(oldest)
                    });
                if !fits {
                    return Err(format!(
                        "task {index} waits at CPU {cpu} under a key of its own, {} ns before its vtime, beside {keys:?}",
                        vtime.wrapping_sub(key)
                    ));
                }
            }
        }
        Ok(())
    }

    /// If a program has become senior since the last look, CPUs whose queues hold something go over to it.
    pub(super) fn go_over(&mut self, kernel: &mut Kernel) -> bool {
        if self.rotation.handovers == self.nr_handovers {
            return false;
        }
        self.rotation.handovers = self.nr_handovers;
        for cpu in 0..kernel.cpus.len() {
            let running = kernel.cpus[cpu].running.filter(|_| self.marked.has(cpu));
            if running.is_some_and(|running| follows_senior(self.class_of(kernel, running))) {
                kernel.kick_preempt(cpu);
            }
        }
        true
    }

    /// Looks at a few of the queues that may hold something, once at each.
    pub(super) fn look_at_queues(&mut self, kernel: &mut Kernel) {
        let nr = kernel.cpus.len();
        let mut first = None;
        self.rotation.first = None;
        // Once more, to see that it has been at all of them.
        for _ in 0..=ROTATION_MARKS {
            if self.rotation.look.nr_held() >= ROTATION_QUEUES {
                return;
            }
            let next = self.marked.next(self.rotation.queue_cursor, None);
            self.rotation.queue_cursor = next.map_or(self.rotation.queue_cursor, |queue| (queue + 1) % nr);
            let Some(queue) = next.filter(|_| next != first) else {
                // It has been at all of them.
                self.rotation.look.has_all();
                return;
            };
            first = first.or(Some(queue));
            let ages = self.rotation.look.ages();
            if !self.sort_for_senior(kernel, queue) && !self.sort_if_stale(kernel, queue) && ages {
                self.sort_queue(kernel, queue, false);
            }
            self.look_at_queue(kernel, queue);
        }
    }

    pub(super) fn rotate_for_first(&mut self, kernel: &mut Kernel, waiting: &Task, queue: CpuIndex) {
        let Some(first) = self.first_of(kernel, queue) else {
            return;
        };
        let (total, from) = (kernel.cpus.len(), self.rotation.cpu_cursor);
        let nr = total.min(ROTATION_CPUS);
        self.rotation.cpu_cursor = (from + if nr < total { nr } else { 1 }) % total;
        let mut others = Vec::new();
        for cpu in (0..nr).map(|step| (from + step) % total) {
            if !kernel.may_run(first, cpu) {
                continue;
            }
            // Those that run one of a later class first: kicks are few, and turns of its own kind would use them up.
            match self.look_whether_due(kernel, cpu, (waiting, queue), false) {
                Some(Due::Later) => self.kick_due(kernel, cpu, Due::Later, Some(queue)),
                Some(due) => others.push((cpu, due)),
                None => {}
            }
        }
        for (cpu, due) in others {
            self.kick_due(kernel, cpu, due, Some(queue));
        }
    }
}

#[cfg(test)]
mod tests {
    use threadwise_policy::BOOST_WHOLE;

    use super::super::tests::beside_others;
    use super::*;
    use crate::kernel::Place;

    /// Of 20 that came to an empty queue, each look puts those in order that are first.
    #[test]
    fn keys_made_anew_are_put_in_order_by_several_looks() {
        let (mut world, mut ours) = beside_others("core:1", "1:inf", 21);
        let kernel = &mut world.kernel;
        ours.marked.add(0);
        let waiting: Vec<TaskIndex> = (0..kernel.tasks.len())
            .filter(|&task| matches!(kernel.tasks[task].place, Place::Queue(_)))
            .collect();
        assert_eq!(waiting.len(), 20);
        for &task in &waiting {
            let key = ours.key_to_queue((&ours.look_at_charged(kernel, task, 0), false), 0);
            kernel.move_to_queue(task, ours.queues, 1_000_000, key);
        }
        let is_by_keys = |ours: &Threadwise, kernel: &Kernel, task: TaskIndex| {
            let found = ours.look_at_charged(kernel, task, 0);
            ours.tun.key_in(&ours.keys[0], &found, false) == key_at(kernel.tasks[task].position)
        };
        assert_eq!(
            (ours.keys[0].nr_waiting, ours.keys[0].boost_left),
            (0, BOOST_WHOLE)
        );
        for (is_looked_at, in_order) in [(true, 16), (true, 20), (true, 20), (false, 20)] {
            assert_eq!(ours.sort_if_stale(kernel, 0), is_looked_at);
            let ordered = waiting.iter().filter(|&&task| is_by_keys(&ours, kernel, task));
            assert_eq!(ordered.count(), in_order);
        }
    }
}
