// SPDX-License-Identifier: GPL-2.0-only
//! What ran where and when: for the terminal, and for Perfetto.

use serde_json::{Value, json};

use crate::Ns;
use crate::kernel::{CpuIndex, TaskIndex};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A CPU goes on with this task, or has none.
    Switch { cpu: CpuIndex, next: Option<TaskIndex> },
    /// A task is ready; it was woken by what ran on this CPU, if by anything.
    Wake { task: TaskIndex, by: Option<CpuIndex> },
    /// A task is not ready any more.
    Sleep { task: TaskIndex },
    /// A task was put before others.
    Boost {
        task: TaskIndex,
        cpu: CpuIndex,
        boost: Boost,
    },
}

/// Why a task was put before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boost {
    /// It takes over a CPU because its program is in its serial phase.
    Serial,
    /// It goes to a faster CPU that is idle, for the same reason.
    Faster,
    /// It takes over a CPU because its program is the senior one.
    Senior,
    /// It takes over a faster CPU because it is its turn there.
    Turn,
}

impl Boost {
    /// What a timeline calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial: takes over",
            Self::Senior => "senior: takes over",
            Self::Faster => "serial: to a faster CPU",
            Self::Turn => "its turn on a faster CPU",
        }
    }
}

/// All that happened in a world that was recorded ([`crate::World::record`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    pub(crate) nr_cpus: usize,
    /// The program and the thread of each task.
    pub(crate) tasks: Vec<(usize, usize)>,
    pub(crate) happenings: Vec<(Ns, Happening)>,
    pub(crate) end: Ns,
}

/// Someone ran somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where.
    pub cpu: CpuIndex,
    /// Who.
    pub task: TaskIndex,
    /// From when.
    pub from: Ns,
    /// Until when.
    pub to: Ns,
}

/// A program was in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Which program.
    pub program: usize,
    /// Whether more of its threads were ready than a serial phase has.
    pub parallel: bool,
    /// From when.
    pub from: Ns,
    /// Until when.
    pub to: Ns,
}

/// How a timeline is drawn.
#[derive(Clone, Debug)]
pub struct Drawing<'a> {
    /// What the programs are called.
    pub names: &'a [String],
    /// At most so many ready threads, and the program is serial.
    pub serial_threshold: u32,
    /// From when.
    pub from: Ns,
    /// Until when.
    pub to: Ns,
}

/// The processes under which Perfetto shows CPUs and programs.
const CPUS: u32 = 0;
const PROGRAMS: u32 = 1;

impl Timeline {
    /// Who ran where, in the order of their ends.
    pub fn runs(&self) -> Vec<Run> {
        let mut running: Vec<Option<(TaskIndex, Ns)>> = vec![None; self.nr_cpus];
        let mut runs = Vec::new();
        let mut end_of = |cpu: CpuIndex, to: Ns, before: Option<(TaskIndex, Ns)>| {
            if let Some((task, from)) = before.filter(|&(_, from)| from < to) {
                runs.push(Run { cpu, task, from, to });
            }
        };
        for &(at, happening) in &self.happenings {
            if let Happening::Switch { cpu, next } = happening {
                let before = std::mem::replace(&mut running[cpu], next.map(|task| (task, at)));
                end_of(cpu, at, before);
            }
        }
        for (cpu, before) in running.into_iter().enumerate() {
            end_of(cpu, self.end, before);
        }
        runs
    }

    /// The program that a task belongs to.
    pub fn program_of(&self, task: TaskIndex) -> usize {
        self.tasks[task].0
    }

    /// The phases of all programs, in the order of their ends. While none of its threads is ready a program has none.
    pub fn phases(&self, serial_threshold: u32) -> Vec<Phase> {
        let nr_programs = self
            .tasks
            .iter()
            .map(|&(program, _)| program + 1)
            .max()
            .unwrap_or(0);
        let mut state: Vec<(u32, Ns)> = vec![(0, 0); nr_programs];
        let mut phases = Vec::new();
        let phase_of = |nr_ready: u32| (nr_ready > 0).then_some(nr_ready > serial_threshold);
        let mut end_of = |program: usize, to: Ns, (nr_ready, from): (u32, Ns)| {
            if let Some(parallel) = phase_of(nr_ready).filter(|_| from < to) {
                phases.push(Phase {
                    program,
                    parallel,
                    from,
                    to,
                });
            }
        };
        for &(at, happening) in &self.happenings {
            let (task, more) = match happening {
                Happening::Wake { task, .. } => (task, 1),
                Happening::Sleep { task } => (task, -1),
                Happening::Switch { .. } | Happening::Boost { .. } => continue,
            };
            let program = self.tasks[task].0;
            let before = state[program];
            let nr_ready = before.0.checked_add_signed(more).expect("who sleeps was ready");
            state[program].0 = nr_ready;
            if phase_of(nr_ready) != phase_of(before.0) {
                end_of(program, at, before);
                state[program].1 = at;
            }
        }
        for (program, before) in state.into_iter().enumerate() {
            end_of(program, self.end, before);
        }
        phases
    }

    /// A row for each CPU and each program, `columns` characters wide. On a CPU a letter is the program that ran there most
    /// of that time, a capital in its parallel phase; on a program's row `=` is a parallel phase and `-` a serial one.
    pub fn text(&self, drawing: &Drawing, columns: usize) -> String {
        let scale = Scale { drawing, columns };
        let phases = self.phases(drawing.serial_threshold);
        let mut cpus = vec![scale.row(); self.nr_cpus];
        for run in self.runs() {
            let program = self.tasks[run.task].0;
            scale.add(&mut cpus[run.cpu], run.from, run.to, letter(program));
        }
        let mut programs = vec![scale.row(); drawing.names.len()];
        for phase in &phases {
            let sign = if phase.parallel { '=' } else { '-' };
            scale.add(&mut programs[phase.program], phase.from, phase.to, sign);
        }
        let programs: Vec<String> = programs.into_iter().map(|row| scale.drawn(row)).collect();
        let mut text = String::new();
        for (cpu, row) in cpus.into_iter().enumerate() {
            let row = scale.drawn(row);
            let shown = row.chars().enumerate().map(|(column, sign)| {
                let is_parallel = |program: &String| program.as_bytes()[column] == b'=';
                match programs.get(program_of(sign)).is_some_and(is_parallel) {
                    true => sign.to_ascii_uppercase(),
                    false => sign,
                }
            });
            text += &format!("CPU {cpu:<4} {}\n", shown.collect::<String>());
        }
        for (program, (row, name)) in programs.iter().zip(drawing.names).enumerate() {
            text += &format!("{:<8} {row} {name}\n", letter(program).to_ascii_uppercase());
        }
        text
    }

    /// For <https://ui.perfetto.dev>, in the Trace Event Format: a track for each CPU and each program, an arrow from who woke
    /// a task to where it ran next, and a mark where a task was put before others.
    pub fn perfetto(&self, drawing: &Drawing) -> Value {
        let us = |ns: Ns| ns as f64 / 1000.0;
        let within = |from: Ns, to: Ns| from < drawing.to && to > drawing.from;
        let mut events = vec![process_name(CPUS, "CPUs"), process_name(PROGRAMS, "programs")];
        events.extend((0..self.nr_cpus).map(|cpu| track_name(CPUS, cpu, &format!("CPU {cpu}"))));
        let programs = drawing.names.iter().enumerate();
        events.extend(programs.map(|(program, name)| track_name(PROGRAMS, program, name)));
        let runs: Vec<Run> = self.runs();
        for run in runs.iter().filter(|run| within(run.from, run.to)) {
            let (program, thread) = self.tasks[run.task];
            events.push(json!({
                "ph": "X", "cat": "run", "pid": CPUS, "tid": run.cpu, "ts": us(run.from), "dur": us(run.to - run.from),
                "name": format!("{} {thread}", drawing.names[program]),
            }));
        }
        for phase in self
            .phases(drawing.serial_threshold)
            .iter()
            .filter(|phase| within(phase.from, phase.to))
        {
            events.push(json!({
                "ph": "X", "cat": "phase", "pid": PROGRAMS, "tid": phase.program, "ts": us(phase.from),
                "dur": us(phase.to - phase.from), "name": if phase.parallel { "parallel" } else { "serial" },
            }));
        }
        for (arrow, (at, by, run)) in self.arrows(&runs).into_iter().enumerate() {
            if within(at, run.from) {
                let end = |cpu: CpuIndex, at: Ns, ph: &str| {
                    json!({
                        "ph": ph, "cat": "wake", "name": "wakes", "id": arrow,
                        "pid": CPUS, "tid": cpu, "ts": us(at),
                    })
                };
                let mut arrives = end(run.cpu, run.from, "f");
                arrives["bp"] = json!("e");
                events.extend([end(by, at, "s"), arrives]);
            }
        }
        for &(at, happening) in self.happenings.iter().filter(|&&(at, _)| within(at, at + 1)) {
            if let Happening::Boost { task, cpu, boost } = happening {
                let (program, thread) = self.tasks[task];
                events.push(json!({
                    "ph": "i", "cat": "boost", "s": "t", "pid": CPUS, "tid": cpu, "ts": us(at), "name": boost.name(),
                    "args": {"thread": format!("{} {thread}", drawing.names[program])},
                }));
            }
        }
        json!({"displayTimeUnit": "ns", "traceEvents": events})
    }

    /// When and on which CPU somebody was woken, and where that ran next.
    fn arrows(&self, runs: &[Run]) -> Vec<(Ns, CpuIndex, Run)> {
        let mut by_task: Vec<Vec<Run>> = vec![Vec::new(); self.tasks.len()];
        for &run in runs {
            by_task[run.task].push(run);
        }
        let woken = |&(at, happening): &(Ns, Happening)| match happening {
            Happening::Wake { task, by: Some(by) } => {
                let next = by_task[task].partition_point(|run| run.from < at);
                Some((at, by, *by_task[task].get(next)?))
            }
            _ => None,
        };
        self.happenings.iter().filter_map(woken).collect()
    }
}

fn process_name(process: u32, name: &str) -> Value {
    json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}})
}

fn track_name(process: u32, track: usize, name: &str) -> Value {
    json!({"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": name}})
}

/// Programs beyond the 26th share the last letter.
fn letter(program: usize) -> char {
    char::from(b'a' + program.min(25) as u8)
}

fn program_of(sign: char) -> usize {
    (sign as usize).checked_sub('a' as usize).unwrap_or(usize::MAX)
}

/// Columns of equal time.
struct Scale<'a> {
    drawing: &'a Drawing<'a>,
    columns: usize,
}

/// For each column what had how much of it.
type Row = Vec<Vec<(char, Ns)>>;

impl Scale<'_> {
    fn row(&self) -> Row {
        vec![Vec::new(); self.columns]
    }

    fn edge(&self, column: usize) -> Ns {
        let length = self.drawing.to - self.drawing.from;
        self.drawing.from + (u128::from(length) * column as u128 / self.columns as u128) as Ns
    }

    /// The columns that this time touches.
    fn columns_of(&self, from: Ns, to: Ns) -> std::ops::Range<usize> {
        let length = u128::from(self.drawing.to - self.drawing.from);
        let column = |at: Ns| {
            let at = u128::from(at.clamp(self.drawing.from, self.drawing.to) - self.drawing.from);
            (at * self.columns as u128 / length) as usize
        };
        column(from)..(column(to) + 1).min(self.columns)
    }

    fn add(&self, row: &mut Row, from: Ns, to: Ns, sign: char) {
        for column in self.columns_of(from, to) {
            let overlap = to
                .min(self.edge(column + 1))
                .saturating_sub(from.max(self.edge(column)));
            if overlap == 0 {
                continue;
            }
            let shares = &mut row[column];
            match shares.iter_mut().find(|(known, _)| *known == sign) {
                Some((_, share)) => *share += overlap,
                None => shares.push((sign, overlap)),
            }
        }
    }

    /// What had most of each column; `.` where that was nothing.
    fn drawn(&self, row: Row) -> String {
        row.into_iter()
            .enumerate()
            .map(|(column, shares)| {
                let nothing = (self.edge(column + 1) - self.edge(column))
                    .saturating_sub(shares.iter().map(|&(_, share)| share).sum());
                let most = shares.into_iter().max_by_key(|&(_, share)| share);
                most.filter(|&(_, share)| share >= nothing)
                    .map_or('.', |(sign, _)| sign)
            })
            .collect()
    }
}
