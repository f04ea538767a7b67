// SPDX-License-Identifier: GPL-2.0-only
//! What must hold after every event, whatever the scheduler.

use crate::Ns;
use crate::hardware::{RATE_ONE, Rate, rate_of};
use crate::kernel::{Cpu, Doing, Kernel, Place, TaskIndex, Work};
use crate::scheduler::Scheduler;
use crate::world::{Sleepers, futex_key};

/// Watches over a world ([`crate::World::check`]).
#[derive(Clone, Copy, Debug)]
pub struct Checker {
    /// No CPU is idle for longer beside a task that waits for as long and may run there.
    pub idle_bound: Ns,
    /// No ready task waits for longer.
    pub wait_bound: Ns,
}

/// A checker, and what it remembers of the event before.
pub(crate) struct Watch {
    checker: Checker,
    clock: u64,
    /// Of each task its vtime, and that at which its program's phase began.
    seen: Vec<Option<(u64, u64)>>,
    progress: Progress,
}

impl Watch {
    pub(crate) fn new(checker: Checker) -> Self {
        Self {
            checker,
            clock: 0,
            seen: Vec::new(),
            progress: Progress::default(),
        }
    }

    /// Whether all is well.
    ///
    /// # Errors
    /// What is not.
    pub(crate) fn look(&mut self, kernel: &Kernel, scheduler: &dyn Scheduler) -> Result<(), String> {
        self.checker
            .look(kernel, &|task| scheduler.withholds(kernel, task))?;
        held_wait_once(kernel, scheduler)?;
        scheduler.check(kernel)?;
        self.progress.go_on(kernel)?;
        self.vtimes_go_on(kernel, scheduler)
    }

    /// The clock never goes back. A task's vtime falls only where it was ahead of the clock, and not to before that
    /// (`tw_vtime_bound()` takes back what it is too far ahead), or to where its program's phase began; all else adds to it.
    fn vtimes_go_on(&mut self, kernel: &Kernel, scheduler: &dyn Scheduler) -> Result<(), String> {
        let clock = scheduler.clock();
        if before(clock, self.clock) {
            return Err(format!("the clock goes back from {} to {clock}", self.clock));
        }
        self.seen.resize(kernel.tasks.len(), None);
        for (task, seen) in self.seen.iter_mut().enumerate() {
            let Some(is) = scheduler.vtime(task) else {
                *seen = None;
                continue;
            };
            // In one event several phases may begin.
            if let Some((was, phase_base)) = *seen
                && before(is, was)
                && before(is, self.clock)
                && before(is, phase_base)
            {
                return Err(format!(
                    "the vtime of task {task} goes back from {was} to {is}, before the clock's {}",
                    self.clock
                ));
            }
            *seen = Some((is, scheduler.phase_base(kernel, task)));
        }
        self.clock = clock;
        Ok(())
    }
}

/// All work that was done up to an event, and who went on with some after it. Nothing of that changes before the next event.
#[derive(Default)]
struct Progress {
    /// Nothing is known before the first.
    done: Option<u128>,
    /// From when on, how fast, and how much is left to do.
    computing: Vec<(Ns, Rate, Work)>,
}

impl Progress {
    /// Whether as much more is done at this event as those did who went on.
    fn go_on(&mut self, kernel: &Kernel) -> Result<(), String> {
        let did = |&(from, pace, left): &(Ns, Rate, Work)| (kernel.now.saturating_sub(from) * pace).min(left);
        let more: u128 = self.computing.drain(..).map(|of| u128::from(did(&of))).sum();
        let tasks = kernel.tasks.iter();
        let mut done: u128 = tasks.map(|task| u128::from(task.done)).sum();
        for cpu in &kernel.cpus {
            let running = cpu.running.map(|task| &kernel.tasks[task]);
            let Some(task) = running.filter(|task| task.doing == Doing::Compute) else {
                continue;
            };
            let since = kernel.now.saturating_sub(cpu.progress_from);
            let unaccounted = (since * cpu.pace()).min(task.left);
            done += u128::from(unaccounted);
            let from = kernel.now.max(cpu.progress_from);
            self.computing.push((from, cpu.pace(), task.left - unaccounted));
        }
        let due = self.done.replace(done).map_or(done, |before| before + more);
        if done == due {
            return Ok(());
        }
        Err(format!(
            "work is not conserved: {done} of it are done, and {due} are due, {RATE_ONE} for each ns"
        ))
    }
}

/// Whether one vtime is before another; both wrap.
fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// Whom a scheduler holds waits in one of its queues, or nobody would ever run it, or two CPUs would.
fn held_wait_once(kernel: &Kernel, scheduler: &dyn Scheduler) -> Result<(), String> {
    for (index, task) in kernel.tasks.iter().enumerate() {
        if task.place == Place::Held {
            match scheduler.nr_held(index) {
                1 => {}
                0 => {
                    return Err(format!(
                        "task {index} is lost: the scheduler holds it and does not know of it"
                    ));
                }
                nr => return Err(format!("task {index} waits in {nr} of the scheduler's queues")),
            }
        }
    }
    Ok(())
}

/// Who sleeps on a futex is known to it, or nobody would ever wake it.
pub(crate) fn sleepers_are_known(kernel: &Kernel, sleepers: &Sleepers) -> Result<(), String> {
    for (index, task) in kernel.tasks.iter().enumerate() {
        if let (Place::Nowhere, Doing::Sleep(futex)) = (task.place, task.doing) {
            let known = sleepers.get(&futex_key(task.program, futex));
            if !known.is_some_and(|known| known.contains(&index)) {
                return Err(format!(
                    "task {index} is lost: it sleeps on futex {futex}, which does not know of it"
                ));
            }
        }
    }
    Ok(())
}

impl Checker {
    /// Whether all is well.
    ///
    /// # Errors
    /// What is not.
    fn look(&self, kernel: &Kernel, withheld: &dyn Fn(TaskIndex) -> bool) -> Result<(), String> {
        for index in 0..kernel.tasks.len() {
            task_is_somewhere(kernel, index)?;
        }
        for (index, cpu) in kernel.cpus.iter().enumerate() {
            if let Some(running) = cpu.running {
                is_at(kernel, running, Place::On(index))?;
            }
            if !cpu.is_online && (cpu.running.is_some() || !cpu.local.is_empty()) {
                return Err(format!("CPU {index} is offline and has tasks"));
            }
            for &task in &cpu.local {
                is_at(kernel, task, Place::Local(index))?;
            }
            self.nobody_waits_beside_idle(kernel, index, withheld)?;
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

    /// But for those whom the scheduler withholds from any CPU, and whose wait is bounded all the same.
    fn nobody_waits_beside_idle(
        &self,
        kernel: &Kernel,
        cpu: usize,
        withheld: &dyn Fn(TaskIndex) -> bool,
    ) -> Result<(), String> {
        let Some(since) = kernel.cpus[cpu].idle_since.filter(|_| kernel.is_online(cpu)) else {
            return Ok(());
        };
        if kernel.now - since <= self.idle_bound {
            return Ok(());
        }
        let waiting = kernel.tasks.iter().enumerate().position(|(index, task)| {
            let since = task.waits_since.max(task.allowed_since);
            waits(task.place)
                && kernel.now - since > self.idle_bound
                && kernel.may_run(index, cpu)
                && !withheld(index)
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
    if let Some(cpu) = cpu
        && !kernel.may_run(index, cpu)
    {
        return Err(format!("task {index} is on CPU {cpu}, where it may not run"));
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

/// Nobody did more than the CPUs could while they were not idle, and whenever one was not idle one task ran there.
fn work_is_conserved(kernel: &Kernel) -> Result<(), String> {
    let busy = |cpu: &Cpu| kernel.now - cpu.idled_until(kernel.now);
    let could = |cpu: &Cpu| u128::from(busy(cpu)) * u128::from(rate_of(cpu.capacity));
    let could: u128 = kernel.cpus.iter().map(could).sum();
    let done: u128 = kernel.tasks.iter().map(|task| u128::from(task.done)).sum();
    let accounted: Ns = kernel.tasks.iter().map(|task| task.ran).sum();
    let running = kernel.cpus.iter().filter_map(|cpu| cpu.running);
    let since: Ns = running
        .map(|task| kernel.now - kernel.tasks[task].exec_start)
        .sum();
    let was_busy: Ns = kernel.cpus.iter().map(busy).sum();
    if done > could || accounted + since != was_busy {
        return Err(format!(
            "work is not conserved: {} ns of work done in {} ns of running, where CPUs could do {} in {was_busy}",
            done / u128::from(RATE_ONE),
            accounted + since,
            could / u128::from(RATE_ONE)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use threadwise_machine::Machine;

    use super::*;
    use crate::Synthetic;
    use crate::costs::Costs;
    use crate::kernel::{CpuIndex, Task, work};
    use crate::program::{Program, Step};
    use crate::scheduler::Enqueue;
    use crate::schedulers::RoundRobin;
    use crate::world::World;

    const MS: Ns = 1_000_000;

    /// Threads that compute for ever, and a last one that sleeps.
    struct Busy(usize);

    impl Program for Busy {
        fn nr_threads(&self) -> usize {
            self.0 + 1
        }

        fn next(&mut self, thread: usize, _now: Ns) -> Step {
            if thread < self.0 {
                Step::Compute(MS)
            } else {
                Step::Wait(0)
            }
        }
    }

    /// Two CPUs, three tasks that compute and one that sleeps, after 10 ms.
    fn world() -> World {
        let machine = Machine::load("core:2").expect("a machine");
        let mut world = World::new(&machine, Costs::of_lab(1000), |kernel| {
            RoundRobin::new(kernel, MS)
        });
        world.check(Checker {
            idle_bound: 5 * MS,
            wait_bound: 100 * MS,
        });
        world.start(Box::new(Busy(3)), 100, None);
        world.run_until(10 * MS).expect("all is well");
        world
    }

    /// What a checker says when the kernel's state is not what it should be.
    fn noticed(sabotage: impl FnOnce(&mut World)) -> String {
        let mut world = world();
        sabotage(&mut world);
        world.look(|_| String::new()).err().unwrap_or_default()
    }

    fn waiting(kernel: &Kernel) -> TaskIndex {
        let waits = |task: &Task| matches!(task.place, Place::Queue(_));
        kernel.tasks.iter().position(waits).expect("one waits")
    }

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

    /// Says that whom it holds waits in so many queues.
    struct InSeveral(usize);

    impl Scheduler for InSeveral {
        fn select_cpu(&mut self, _kernel: &mut Kernel, _task: TaskIndex, prev: CpuIndex) -> CpuIndex {
            prev
        }

        fn enqueue(&mut self, _kernel: &mut Kernel, _task: TaskIndex, _why: Enqueue) {}

        fn dispatch(&mut self, _kernel: &mut Kernel, _cpu: CpuIndex, _running: Option<TaskIndex>) {}

        fn nr_held(&self, _task: TaskIndex) -> usize {
            self.0
        }
    }

    #[test]
    fn a_scheduler_that_holds_somebody_in_no_queue_or_in_two_is_noticed() {
        let mut world = world();
        let found = |kernel: &Kernel, nr| held_wait_once(kernel, &InSeveral(nr)).err();
        assert_eq!(found(&world.kernel, 0), None, "nobody is held");
        let task = waiting(&world.kernel);
        world.kernel.take_away(task);
        world.kernel.hold(task);
        assert_eq!(found(&world.kernel, 1), None);
        assert!(found(&world.kernel, 0).unwrap().contains("is lost"));
        assert!(
            found(&world.kernel, 2)
                .unwrap()
                .contains("in 2 of the scheduler's queues")
        );
    }

    #[test]
    fn a_kernel_that_is_wrong_is_noticed() {
        assert_eq!(noticed(|_| ()), "");
        let two_cpus = noticed(|world| world.kernel.cpus[1].running = world.kernel.cpus[0].running);
        assert!(
            two_cpus.contains("is lost") || two_cpus.contains("and says"),
            "{two_cpus}"
        );
        let in_two_queues = noticed(|world| {
            let task = waiting(&world.kernel);
            let other = world.kernel.create_queues(1);
            world.kernel.queues[other].insert(task, 0, 0);
        });
        assert!(in_two_queues.contains("and says Queue(0)"), "{in_two_queues}");
        let in_a_local_queue_too = noticed(|world| {
            let task = waiting(&world.kernel);
            world.kernel.cpus[0].local.push_back(task);
        });
        assert!(
            in_a_local_queue_too.contains("is at Local(0)"),
            "{in_a_local_queue_too}"
        );
        let lost = noticed(|world| {
            let task = waiting(&world.kernel);
            let position = world.kernel.tasks[task].position;
            world.kernel.queues[0].remove(task, position);
        });
        assert!(lost.contains("is lost: Queue(0)"), "{lost}");
        let dropped = noticed(|world| {
            let task = waiting(&world.kernel);
            world.kernel.take_away(task);
        });
        assert!(dropped.contains("is lost: Nowhere"), "{dropped}");
        let never_woken = noticed(|world| world.sleepers.clear());
        assert!(never_woken.contains("which does not know of it"), "{never_woken}");
        let conjured = noticed(|world| world.kernel.tasks[0].done += work(MS) * 100);
        assert!(conjured.contains("work is not conserved"), "{conjured}");
        let forgotten = noticed(|world| world.kernel.tasks[0].done -= work(MS));
        assert!(forgotten.contains("are due"), "{forgotten}");
        let unaccounted = noticed(|world| world.kernel.tasks[0].ran -= 1);
        assert!(unaccounted.contains("work is not conserved"), "{unaccounted}");
        let offline = noticed(|world| world.kernel.cpus[1].is_online = false);
        assert!(offline.contains("CPU 1 is offline and has tasks"), "{offline}");
    }
}
