// SPDX-License-Identifier: GPL-2.0-only
//! Performs what is written down ([`Play`]), and notes what rt-app would log.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::objects::{Barrier, Condition, Mutex, Semaphore, Verdict, object_futex};
use super::script::{Object, Op, Play, Script};
use crate::Ns;
use crate::kernel::CpuIndex;
use crate::program::{Program, Step};

/// What each repetition of a stage costs beside its operations, on the fastest CPU: clocks to read, a line to log. An
/// estimate; without it a loop of nothing would stop time.
const LOOP_NS: Ns = 1_000;

/// How long [`Op::RunFor`] works between two looks at the clock, as rt-app's `runtime` does.
const LOOK_NS: Ns = 32_000;

/// What became of a thread, as rt-app logs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The script that it performs.
    pub script: usize,
    /// How many repetitions of stages it has completed.
    pub nr_loops: u64,
    /// For each of them that had a timer: how long before its expiry it was ready for it, negative if after.
    pub slack_ns: Vec<i64>,
    /// For each expiry that was slept for: how long after it the thread ran.
    pub timer_latency_ns: Vec<Ns>,
    /// When it ended.
    pub ended: Option<Ns>,
}

/// What became of all threads so far.
pub type Records = Rc<RefCell<Vec<Record>>>;

/// What a thread has yet to do before its next operation, the last first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Step(Step),
    RunUntil(Ns),
    Expired(Ns),
    Lock { mutex: Object, has_spun: bool },
    Unlock(Object),
    Enter(Object),
    AwaitSignal(Object),
    Signal(Object),
    AwaitBarrier(Object, u64),
    Take(Object),
    EndLoop,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    script: usize,
    has_begun: bool,
    acts: Vec<Act>,
    stage: usize,
    op: usize,
    repeat: u64,
    pass: u64,
    /// When its first stage begins.
    first: Ns,
    /// The next expiry of its own timers.
    timers: BTreeMap<Object, Ns>,
    slack: Option<i64>,
}

/// A program that performs a [`Play`].
pub struct Scripted {
    play: Play,
    threads: Vec<Thread>,
    nr_first: usize,
    mutexes: Vec<Mutex>,
    conditions: Vec<Condition>,
    barriers: Vec<Barrier>,
    semaphores: Vec<Semaphore>,
    /// The next expiry of timers that threads share.
    timers: BTreeMap<Object, Ns>,
    records: Records,
}

impl Scripted {
    /// A program that has yet to begin.
    pub fn new(play: Play) -> Self {
        let mut numbers = 0..;
        let mut futex = || object_futex(numbers.next().expect("it does not end"));
        let of = |script: usize| Thread {
            script,
            ..Thread::default()
        };
        let instances = |(index, script): (usize, &Script)| (0..script.instances).map(move |_| of(index));
        let threads: Vec<Thread> = play.scripts.iter().enumerate().flat_map(instances).collect();
        let record = |thread: &Thread| Record {
            script: thread.script,
            ..Record::default()
        };
        let mutex = |futex| Mutex {
            futex,
            spin_ns: play.spin_ns,
            is_taken: false,
        };
        let barrier = |(futex, &users): (_, &u64)| Barrier {
            futex,
            users,
            arrived: 0,
            generation: 0,
        };
        Self {
            nr_first: threads.len(),
            mutexes: (0..play.nr_mutexes).map(|_| mutex(futex())).collect(),
            conditions: vec![Condition::default(); play.nr_conditions],
            barriers: play
                .barriers
                .iter()
                .map(|users| barrier((futex(), users)))
                .collect(),
            semaphores: (0..play.nr_semaphores)
                .map(|_| Semaphore {
                    futex: futex(),
                    count: 0,
                })
                .collect(),
            timers: BTreeMap::new(),
            records: Rc::new(RefCell::new(threads.iter().map(record).collect())),
            threads,
            play,
        }
    }

    /// What becomes of its threads, to be looked at while or after it runs.
    pub fn records(&self) -> Records {
        Rc::clone(&self.records)
    }

    fn record(&self, thread: usize, note: impl FnOnce(&mut Record)) {
        note(&mut self.records.borrow_mut()[thread]);
    }

    /// The thread's next operation; nothing if it has ended.
    fn next_op(&mut self, thread: usize) -> Option<Op> {
        let state = &mut self.threads[thread];
        let script = &self.play.scripts[state.script];
        loop {
            if script.passes.is_some_and(|passes| state.pass >= passes) || script.stages.is_empty() {
                return None;
            }
            let stage = &script.stages[state.stage];
            if stage.repeats.is_none_or(|repeats| state.repeat < repeats)
                && let Some(&op) = stage.ops.get(state.op)
            {
                state.op += 1;
                if state.op == stage.ops.len() {
                    state.op = 0;
                    state.repeat += 1;
                    state.acts.push(Act::EndLoop);
                }
                return Some(op);
            }
            (state.op, state.repeat) = (0, 0);
            state.stage += 1;
            if state.stage == script.stages.len() {
                state.stage = 0;
                state.pass += 1;
            }
        }
    }

    /// Has an operation be what is to be done next.
    fn begin(&mut self, thread: usize, op: Op, now: Ns) {
        let lock = |mutex| Act::Lock {
            mutex,
            has_spun: false,
        };
        let acts: &[Act] = match op {
            Op::Compute(ns) => &[Act::Step(Step::Compute(ns))],
            Op::RunFor(ns) => &[Act::RunUntil(now.saturating_add(ns))],
            Op::Sleep(ns) => &[Act::Step(Step::Sleep(ns))],
            Op::Timer { timer, period } => return self.set_timer(thread, timer, period, now),
            Op::Lock(mutex) => &[lock(mutex)],
            Op::Unlock(mutex) => &[Act::Unlock(mutex)],
            Op::Wait { condition, mutex } => &[
                lock(mutex),
                Act::AwaitSignal(condition),
                Act::Unlock(mutex),
                Act::Enter(condition),
            ],
            Op::Signal(condition) => &[Act::Signal(condition)],
            Op::Broadcast(condition) => {
                &vec![Act::Signal(condition); self.conditions[condition].nr_waiting()]
            }
            Op::Barrier(barrier) => {
                let (generation, verdict) = self.barriers[barrier].arrive();
                self.threads[thread]
                    .acts
                    .push(Act::AwaitBarrier(barrier, generation));
                match verdict {
                    Verdict::Then(step) => &[Act::Step(step)],
                    _ => &[],
                }
            }
            Op::Post(semaphore) => match self.semaphores[semaphore].post() {
                Verdict::Then(step) => &[Act::Step(step)],
                _ => &[],
            },
            Op::Take(semaphore) => &[Act::Take(semaphore)],
            Op::Fork(script) => {
                self.threads.push(Thread {
                    script,
                    ..Thread::default()
                });
                self.records.borrow_mut().push(Record {
                    script,
                    ..Record::default()
                });
                &[Act::Step(Step::Fork)]
            }
            Op::Yield => &[Act::Step(Step::Yield)],
            Op::Use(memory) => &[Act::Step(Step::Use(memory))],
        };
        self.threads[thread].acts.extend_from_slice(acts);
    }

    /// rt-app's timer event (`run_event()`): slack is noted whether it is slept for or not.
    fn set_timer(&mut self, thread: usize, timer: Object, period: Ns, now: Ns) {
        let kind = self.play.timers[timer];
        let state = &mut self.threads[thread];
        let first = state.first;
        let own = if kind.unique {
            &mut state.timers
        } else {
            &mut self.timers
        };
        let next = own.entry(timer).or_insert(first);
        *next = next.saturating_add(period);
        let at = *next;
        if now >= at && !kind.absolute {
            *next = now;
        }
        let slack = at as i64 - now as i64;
        let state = &mut self.threads[thread];
        state.slack = Some(match state.slack {
            Some(before) if self.play.cumulative_slack => before + slack,
            _ => slack,
        });
        if now < at {
            state.acts.push(Act::Expired(at));
            state.acts.push(Act::Step(Step::Sleep(at - now)));
        }
    }

    fn perform(&mut self, thread: usize, act: Act, now: Ns) -> (Verdict, Act) {
        let mut again = act;
        let verdict = match act {
            Act::Step(step) => Verdict::Then(step),
            Act::RunUntil(end) if now >= end => Verdict::Done,
            Act::RunUntil(_) => Verdict::Again(Step::Compute(LOOK_NS)),
            Act::Expired(at) => {
                self.record(thread, |record| {
                    record.timer_latency_ns.push(now.saturating_sub(at))
                });
                Verdict::Done
            }
            Act::Lock { mutex, mut has_spun } => {
                let verdict = self.mutexes[mutex].lock(&mut has_spun);
                again = Act::Lock { mutex, has_spun };
                verdict
            }
            Act::Unlock(mutex) => self.mutexes[mutex].unlock(),
            Act::Enter(condition) => {
                self.conditions[condition].enter(thread);
                Verdict::Done
            }
            Act::AwaitSignal(condition) => self.conditions[condition].wait(thread),
            Act::Signal(condition) => self.conditions[condition].signal(),
            Act::AwaitBarrier(barrier, generation) => self.barriers[barrier].wait(generation),
            Act::Take(semaphore) => self.semaphores[semaphore].take(),
            Act::EndLoop => {
                let slack = self.threads[thread].slack.take();
                self.record(thread, |record| {
                    record.nr_loops += 1;
                    record.slack_ns.extend(slack);
                });
                Verdict::Then(Step::Overhead(LOOP_NS))
            }
        };
        (verdict, again)
    }
}

impl Program for Scripted {
    fn nr_threads(&self) -> usize {
        self.nr_first
    }

    fn next(&mut self, thread: usize, now: Ns) -> Step {
        let state = &mut self.threads[thread];
        if !std::mem::replace(&mut state.has_begun, true) {
            let delay = self.play.scripts[state.script].delay;
            state.first = now + delay;
            if delay > 0 {
                return Step::Sleep(delay);
            }
        }
        loop {
            if let Some(act) = self.threads[thread].acts.pop() {
                match self.perform(thread, act, now) {
                    (Verdict::Done, _) => continue,
                    (Verdict::Then(step), _) => return step,
                    (Verdict::Again(step), again) => {
                        self.threads[thread].acts.push(again);
                        return step;
                    }
                }
            }
            match self.next_op(thread) {
                Some(op) => self.begin(thread, op, now),
                None => {
                    self.record(thread, |record| record.ended = Some(now));
                    return Step::Exit;
                }
            }
        }
    }

    fn weight(&self, thread: usize) -> Option<u32> {
        Some(self.play.scripts[self.threads[thread].script].weight)
    }

    fn cpus(&self, thread: usize) -> &[CpuIndex] {
        &self.play.scripts[self.threads[thread].script].cpus
    }
}
