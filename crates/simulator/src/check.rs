// SPDX-License-Identifier: GPL-2.0-only
//! What must hold after every event, whatever the scheduler.

use crate::Ns;
use crate::hardware::{RATE_ONE, rate_of};
use crate::kernel::{Cpu, Doing, Kernel, Place, TaskIndex};

/// Watches over a world ([`crate::World::check`]).
#[derive(Clone, Copy, Debug)]
pub struct Checker {
    /// No CPU is idle for longer beside a task that waits for as long and may run there.
    pub idle_bound: Ns,
    /// No ready task waits for longer.
    pub wait_bound: Ns,
}

impl Checker {
    /// Whether all is well.
    ///
    /// # Errors
    /// What is not.
    pub(crate) fn look(&self, kernel: &Kernel) -> Result<(), String> {
        for index in 0..kernel.tasks.len() {
            task_is_somewhere(kernel, index)?;
        }
        for (index, cpu) in kernel.cpus.iter().enumerate() {
            if let Some(running) = cpu.running {
                is_at(kernel, running, Place::On(index))?;
            }
            for &task in &cpu.local {
                is_at(kernel, task, Place::Local(index))?;
            }
            self.nobody_waits_beside_idle(kernel, index)?;
        }
        for (index, queue) in kernel.queues.iter().enumerate() {
            for task in queue.iter() {
                is_at(kernel, task, Place::Queue(index))?;
            }
        }
        for (index, task) in kernel.tasks.iter().enumerate() {
            if waits(task.place) && kernel.now - task.waits_since > self.wait_bound {
                return Err(format!("task {index} has waited since {} ns", task.waits_since));
            }
        }
        rates_are_due(kernel)?;
        work_is_conserved(kernel)
    }

    fn nobody_waits_beside_idle(&self, kernel: &Kernel, cpu: usize) -> Result<(), String> {
        let Some(since) = kernel.cpus[cpu].idle_since else {
            return Ok(());
        };
        if kernel.now - since <= self.idle_bound {
            return Ok(());
        }
        let waiting = kernel.tasks.iter().position(|task| {
            waits(task.place)
                && kernel.now - task.waits_since > self.idle_bound
                && task.bound_to.is_none_or(|bound| bound == cpu)
        });
        match waiting {
            Some(task) => Err(format!(
                "CPU {cpu} has been idle since {since} ns beside task {task}, which waits since {} ns, {:?}",
                kernel.tasks[task].waits_since, kernel.tasks[task].place
            )),
            None => Ok(()),
        }
    }
}

fn waits(place: Place) -> bool {
    matches!(place, Place::Local(_) | Place::Queue(_) | Place::Held)
}

/// Who has a task is who the task says it is with.
fn is_at(kernel: &Kernel, task: TaskIndex, place: Place) -> Result<(), String> {
    let says = kernel.tasks[task].place;
    if says == place {
        return Ok(());
    }
    Err(format!("task {task} is at {place:?}, and says {says:?}"))
}

/// A task is in one place, which knows of it, and in which it may be.
fn task_is_somewhere(kernel: &Kernel, index: TaskIndex) -> Result<(), String> {
    let task = &kernel.tasks[index];
    let (is_there, cpu) = match task.place {
        Place::On(cpu) => (kernel.cpus[cpu].running == Some(index), Some(cpu)),
        Place::Local(cpu) => (kernel.cpus[cpu].local.contains(&index), Some(cpu)),
        Place::Queue(queue) => (kernel.queues[queue].iter().any(|queued| queued == index), None),
        Place::Nowhere => (matches!(task.doing, Doing::Sleep(_) | Doing::SleepTime), None),
        Place::Held | Place::Gone => (true, None),
    };
    if !is_there {
        return Err(format!("task {index} is lost: {:?}", task.place));
    }
    if let (Some(cpu), Some(bound)) = (cpu, task.bound_to)
        && cpu != bound
    {
        return Err(format!("task {index} is on CPU {cpu}, and bound to {bound}"));
    }
    Ok(())
}

/// Each CPU's task gets on at the rate that follows from who runs where, computed anew.
fn rates_are_due(kernel: &Kernel) -> Result<(), String> {
    if kernel.hardware.is_plain() {
        return Ok(());
    }
    let occupants: Vec<_> = (0..kernel.cpus.len()).map(|cpu| kernel.occupant(cpu)).collect();
    let due = kernel.hardware.rates_anew(&occupants);
    for (index, (cpu, due)) in kernel.cpus.iter().zip(due).enumerate() {
        if let Some(due) = due.filter(|&due| due != cpu.rate) {
            return Err(format!(
                "CPU {index} has a rate of {}, and {due} is due",
                cpu.rate
            ));
        }
    }
    Ok(())
}

/// Nobody did more than the CPUs could while they were not idle, and what is accounted as run is no more than that.
fn work_is_conserved(kernel: &Kernel) -> Result<(), String> {
    let busy = |cpu: &Cpu| kernel.now - cpu.idled_until(kernel.now);
    let could = |cpu: &Cpu| u128::from(busy(cpu)) * u128::from(rate_of(cpu.capacity));
    let could: u128 = kernel.cpus.iter().map(could).sum();
    let done: u128 = kernel.tasks.iter().map(|task| u128::from(task.done)).sum();
    let ran: Ns = kernel.tasks.iter().map(|task| task.ran).sum();
    let was_busy: Ns = kernel.cpus.iter().map(busy).sum();
    if done > could || ran > was_busy {
        return Err(format!(
            "{} ns of work done in {ran} ns of running, where {} and {was_busy} were possible",
            done / u128::from(RATE_ONE),
            could / u128::from(RATE_ONE)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use threadwise_machine::Machine;

    use super::*;
    use crate::costs::Costs;
    use crate::kernel::work;
    use crate::schedulers::RoundRobin;
    use crate::{Synthetic, World};

    /// Three threads on two cores of two hardware threads, a second later.
    fn shared_cores() -> World {
        let machine = Machine::load("core:2 pu:2").unwrap();
        let mut world = World::new(&machine, Costs::of_lab(60), |kernel| {
            RoundRobin::new(kernel, 1_000_000)
        });
        let ratio = "inf:1".parse().unwrap();
        let wait = threadwise_workload::synthetic::Wait::Passive;
        world.start(
            Box::new(Synthetic::new(ratio, 20_000, 1_000, 3, wait, 1)),
            100,
            None,
        );
        world.run_until(1_000_000_000).unwrap();
        world
    }

    #[test]
    fn a_wrong_rate_trips() {
        let kernel = &mut shared_cores().kernel;
        rates_are_due(kernel).unwrap();
        let busy = kernel.cpus.iter().position(|cpu| cpu.running.is_some()).unwrap();
        kernel.cpus[busy].rate += 1;
        let wrong = rates_are_due(kernel).unwrap_err();
        assert!(wrong.starts_with(&format!("CPU {busy} has a rate of")), "{wrong}");
    }

    #[test]
    fn work_from_nowhere_trips() {
        let kernel = &mut shared_cores().kernel;
        work_is_conserved(kernel).unwrap();
        kernel.tasks[0].done += work(4_000_000_000);
        let wrong = work_is_conserved(kernel).unwrap_err();
        assert!(wrong.contains("ns of work done"), "{wrong}");
    }
}
