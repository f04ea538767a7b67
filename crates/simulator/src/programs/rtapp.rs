// SPDX-License-Identifier: GPL-2.0-only
//! What an rt-app file says, as a [`Play`].

use threadwise_machine::Machine;
use threadwise_workload::rtapp::{Access, Action, Event, File, Lines, Phase, Policy, Settings, Task};

use super::script::{Object, Op, Play, Script, Stage, TimerKind};
use super::weights;
use crate::Ns;
use crate::kernel::CpuIndex;
use crate::program::Memory;

/// What rt-app finds out or meets when it runs, and a simulation has to be told. All are assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// CPUs that there are.
    pub nr_cpus: usize,
    /// How long a thread that finds a mutex taken spins before it sleeps; rt-app's own mutexes do not.
    pub spin_ns: Ns,
    /// What is read or written in memory in a microsecond of the fastest CPU, in bytes.
    pub memory_bytes_per_us: u64,
    /// How long following a pointer takes on the fastest CPU while the buffer fits into a cache of a CPU's own; in the
    /// last-level cache; and in memory, where no prefetcher knows the next one.
    pub hop_ns: [Ns; 3],
    /// The size of that cache of a CPU's own, in bytes.
    pub cache_bytes: u64,
    /// Whether the machine knows how large its last-level caches are. Buffers beyond a CPU's own cache share them then, and
    /// what misses takes the machine's latency and bandwidth; where it does not, they are in memory, with as much of it for
    /// each as if it were alone.
    pub has_llc: bool,
    /// What a device writes in a microsecond, in bytes, while the thread sleeps. /dev/null takes everything at once.
    pub io_bytes_per_us: u64,
}

impl Assumptions {
    /// Round numbers of a current server: 8 GB/s a CPU, 4, 20 and 80 ns a pointer, 1 MiB of L2, a disk of 500 MB/s.
    pub fn of_server(machine: &Machine) -> Self {
        let knows = |bytes: &Option<u64>| bytes.is_some();
        Self {
            nr_cpus: machine.nr_cpus(),
            has_llc: machine.hardware().memory.is_some() && machine.llc_bytes().iter().all(knows),
            spin_ns: 0,
            memory_bytes_per_us: 8_000,
            hop_ns: [4, 20, 80],
            cache_bytes: 1 << 20,
            io_bytes_per_us: 500,
        }
    }
}

/// Something in the file that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it stands, from 1.
    pub line: usize,
    /// The task, and the phase and setting.
    pub key: String,
    /// What, and what to do.
    pub what: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: tasks.{}: {}", self.line, self.key, self.what)
    }
}

impl std::error::Error for Refused {}

/// Of a cache.
const LINE_BYTES: u64 = 64;

/// A microsecond.
const US: Ns = 1_000;

/// A call of write(2) that has nothing to wait for, on the fastest CPU; an estimate.
const WRITE_NS: Ns = 1_000;

/// The program that the file describes.
///
/// # Errors
/// If it asks for what the simulator does not know: real-time and deadline policies, settings that change with the phase,
/// groups, memory nodes, utilization clamps.
pub fn play(file: &File, assumptions: &Assumptions) -> Result<Play, Refused> {
    let mut compiler = Compiler {
        file,
        assumptions,
        mutexes: Names::default(),
        conditions: Names::default(),
        barriers: Names::default(),
        semaphores: Names::default(),
        timers: Names::default(),
        buffers: Names::default(),
        timer_kinds: Vec::new(),
    };
    let scripts = file
        .tasks
        .iter()
        .map(|task| compiler.script(task))
        .collect::<Result<_, _>>()?;
    Ok(Play {
        scripts,
        nr_mutexes: compiler.mutexes.0.len(),
        spin_ns: assumptions.spin_ns,
        nr_conditions: compiler.conditions.0.len(),
        barriers: compiler
            .barriers
            .0
            .iter()
            .map(|name| file.barrier_users(name))
            .collect(),
        nr_semaphores: compiler.semaphores.0.len(),
        timers: compiler.timer_kinds,
        cumulative_slack: file.global.cumulative_slack,
    })
}

/// Objects by name, numbered as they come.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn number(&mut self, name: &str) -> Object {
        match self.0.iter().position(|known| known == name) {
            Some(number) => number,
            None => {
                self.0.push(name.to_owned());
                self.0.len() - 1
            }
        }
    }
}

/// What memory events read or write.
#[derive(Clone, Copy)]
struct Buffer<'a> {
    size: u64,
    /// Its name, if threads share it.
    shared: Option<&'a str>,
}

struct Compiler<'a> {
    file: &'a File,
    assumptions: &'a Assumptions,
    mutexes: Names,
    conditions: Names,
    barriers: Names,
    semaphores: Names,
    timers: Names,
    buffers: Names,
    timer_kinds: Vec<TimerKind>,
}

impl Compiler<'_> {
    fn script(&mut self, task: &Task) -> Result<Script, Refused> {
        let refuse = |(setting, what): (&str, &str)| {
            Refused::setting(&task.name, task.line, &task.lines, setting, what)
        };
        let stages = task
            .phases
            .iter()
            .map(|phase| self.stage(task, phase))
            .collect::<Result<_, _>>()?;
        Ok(Script {
            name: task.name.clone(),
            instances: task.instances,
            delay: task.delay_us * US,
            weight: weight(&task.settings).map_err(refuse)?,
            cpus: self.cpus(&task.settings).map_err(refuse)?,
            stages,
            passes: task.loops,
        })
    }

    /// Its set of CPUs; none if it may run on all.
    fn cpus(&self, settings: &Settings) -> Result<Vec<CpuIndex>, Unknown> {
        let named = settings.cpus.iter().flatten();
        let mut cpus: Vec<CpuIndex> = named.map(|&cpu| cpu as CpuIndex).collect();
        cpus.sort_unstable();
        cpus.dedup();
        match cpus.last() {
            None if settings.cpus.is_some() => Err(("cpus", "it names no CPU")),
            Some(&last) if last >= self.assumptions.nr_cpus => {
                Err(("cpus", "it names a CPU that the machine does not have"))
            }
            _ if cpus.len() == self.assumptions.nr_cpus => Ok(Vec::new()),
            _ => Ok(cpus),
        }
    }

    fn stage(&mut self, task: &Task, phase: &Phase) -> Result<Stage, Refused> {
        if phase.settings != Settings::default() {
            let first = phase.lines.iter().min_by_key(|&(_, line)| line);
            let setting = first.map_or("", |(key, _)| key);
            let of = format!("{}.{}", task.name, phase.name);
            let what = "settings that change with the phase cannot be simulated; move them to the task";
            return Err(Refused::setting(&of, phase.line, &phase.lines, setting, what));
        }
        let mut ops = Vec::new();
        for event in &phase.events {
            self.event(task, event, &mut ops);
        }
        Ok(Stage {
            ops,
            repeats: phase.loops,
        })
    }

    fn event(&mut self, task: &Task, event: &Event, ops: &mut Vec<Op>) {
        let op = match &event.action {
            Action::Run(us) => Op::Compute(us * US),
            Action::Runtime(us) => Op::RunFor(us * US),
            Action::Sleep(us) => Op::Sleep(us * US),
            Action::Timer {
                name,
                unique,
                period_us,
                absolute,
            } => Op::Timer {
                timer: self.timer(name, *unique, *absolute),
                period: period_us * US,
            },
            Action::Lock(name) => Op::Lock(self.mutexes.number(name)),
            Action::Unlock(name) => Op::Unlock(self.mutexes.number(name)),
            Action::Wait { condition, mutex } => self.wait(condition, mutex),
            Action::Signal(name) => Op::Signal(self.conditions.number(name)),
            Action::Broadcast(name) => Op::Broadcast(self.conditions.number(name)),
            Action::Sync { condition, mutex } => {
                ops.push(Op::Signal(self.conditions.number(condition)));
                self.wait(condition, mutex)
            }
            Action::Barrier(name) => Op::Barrier(self.barriers.number(name)),
            Action::SemPost(name) => Op::Post(self.semaphores.number(name)),
            Action::SemWait(name) => Op::Take(self.semaphores.number(name)),
            // A condition and a mutex that have the task's name.
            Action::Suspend => {
                let mutex = self.mutexes.number(&task.name);
                ops.extend([Op::Lock(mutex), self.wait(&task.name, &task.name)]);
                Op::Unlock(mutex)
            }
            Action::Resume(name) => {
                let mutex = self.mutexes.number(name);
                ops.extend([Op::Lock(mutex), Op::Broadcast(self.conditions.number(name))]);
                Op::Unlock(mutex)
            }
            Action::Fork(name) => {
                let tasks = &self.file.tasks;
                let child = tasks.iter().position(|task| task.name == *name);
                Op::Fork(child.expect("the reader has seen that there is one"))
            }
            Action::Yield => Op::Yield,
            Action::Mem(bytes) => {
                // Each begins where the buffer does (`memload()`).
                let buffer = Buffer {
                    size: self.file.global.mem_buffer_size.min(*bytes),
                    shared: None,
                };
                return self.accesses(Access::Write, *bytes, buffer, ops);
            }
            Action::Memrun {
                access,
                size,
                count,
                shared,
            } => {
                let buffer = Buffer {
                    size: *size,
                    shared: shared.as_deref(),
                };
                return self.accesses(*access, *count, buffer, ops);
            }
            Action::Iorun(bytes) => {
                let nr_calls = bytes.div_ceil(self.file.global.mem_buffer_size);
                ops.push(Op::Compute(nr_calls * WRITE_NS));
                match self.file.global.io_device.as_str() {
                    "/dev/null" => return,
                    _ => Op::Sleep(bytes * US / self.assumptions.io_bytes_per_us.max(1)),
                }
            }
        };
        ops.push(op);
    }

    fn wait(&mut self, condition: &str, mutex: &str) -> Op {
        Op::Wait {
            condition: self.conditions.number(condition),
            mutex: self.mutexes.number(mutex),
        }
    }

    /// A timer is absolute if any event that uses it says so.
    fn timer(&mut self, name: &str, unique: bool, absolute: bool) -> Object {
        let number = self.timers.number(name);
        if number == self.timer_kinds.len() {
            self.timer_kinds.push(TimerKind { unique, absolute });
        }
        self.timer_kinds[number].absolute |= absolute;
        number
    }

    fn memory_ns(&self, bytes: u64) -> Ns {
        bytes * US / self.assumptions.memory_bytes_per_us.max(1)
    }

    /// So many accesses of a kind to a buffer. What fits into a CPU's own cache goes no further.
    fn accesses(&mut self, access: Access, count: u64, buffer: Buffer, ops: &mut Vec<Op>) {
        let [near, llc, far] = self.assumptions.hop_ns;
        let fits = buffer.size <= self.assumptions.cache_bytes;
        // A prefetcher brings a line of each step, however far they are apart, as fast as memory gives lines.
        let of_line = |stride: u64| self.memory_ns(stride.min(LINE_BYTES));
        // How long so many of them take, and how many lines that are.
        let (ns, lines) = match access {
            Access::Read | Access::Write => (self.memory_ns(count), count / LINE_BYTES),
            Access::Chase { .. } if fits => (count * near, 0),
            Access::Chase { random: true, .. } if self.assumptions.has_llc => (count * llc, count),
            Access::Chase { random: true, .. } => (count * far, count),
            Access::Chase { stride, .. } => (
                count * near.max(of_line(stride)),
                count * stride.min(LINE_BYTES) / LINE_BYTES,
            ),
        };
        if fits || !self.assumptions.has_llc {
            return ops.push(Op::Compute(ns));
        }
        let memory = Memory {
            working_set_bytes: buffer.size,
            accesses_per_us: (lines * US / ns.max(1)) as u32,
            is_shared: buffer.shared.is_some(),
            // A thread's own are 0: it uses one at a time.
            buffer: buffer
                .shared
                .map_or(0, |name| 1 + self.buffers.number(name) as u32),
            is_streamed: !matches!(access, Access::Chase { random: true, .. }),
        };
        ops.extend([Op::Use(memory), Op::Compute(ns), Op::Use(memory.at_rest())]);
    }
}

/// The key of a setting that has no model, and what to do.
type Unknown = (&'static str, &'static str);

impl Refused {
    /// A setting of this task or phase, which begins at that line.
    fn setting(of: &str, line: usize, lines: &Lines, key: &str, what: &str) -> Self {
        // Some have two names, and a policy may be the file's default.
        let names = [key, key.trim_start_matches("dl-")];
        let found = names.into_iter().find_map(|name| lines.get_key_value(name));
        let (line, key) = match found {
            Some((key, &line)) => (line, format!("{of}.{key}")),
            None => (line, of.to_owned()),
        };
        Self {
            line,
            key,
            what: what.to_owned(),
        }
    }
}

/// The weight, if the policy is one that sched_ext schedules.
fn weight(settings: &Settings) -> Result<u32, Unknown> {
    const NEITHER: &str = "it cannot be simulated; take it out";
    let unknown = [
        ("dl-runtime", settings.deadline_us[0].is_some()),
        ("dl-period", settings.deadline_us[1].is_some()),
        ("dl-deadline", settings.deadline_us[2].is_some()),
        ("taskgroup", settings.taskgroup.is_some()),
        ("nodes_membind", settings.nodes.is_some()),
        ("util_min", settings.util[0].is_some()),
        ("util_max", settings.util[1].is_some()),
    ];
    if let Some(&(key, _)) = unknown.iter().find(|(_, is_given)| *is_given) {
        return Err((key, NEITHER));
    }
    match settings.policy.unwrap_or_default() {
        Policy::Other | Policy::Batch => Ok(weights::of_nice(settings.priority.unwrap_or(0))),
        Policy::Idle => Ok(weights::OF_IDLE),
        Policy::RoundRobin | Policy::Fifo | Policy::Deadline => Err((
            "policy",
            "real-time and deadline policies cannot be simulated; use SCHED_OTHER",
        )),
    }
}
