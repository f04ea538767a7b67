// SPDX-License-Identifier: GPL-2.0-only
//! The threads of a run and what each does.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{Scope, ScopedJoinHandle};

use super::lines::{Done, How, LINE_BYTES, Lines, Walk};
use super::{Error, Pattern, Report, SCHEMA, Sharing, Spec};
use crate::signals::{Interrupts, Mask};
use crate::stop::{Stop, now_ns};

/// Accesses between two looks at the stop.
const BATCH: u64 = 64;

/// Runs `spec.threads` new threads, named `mem-0`, `mem-1` and so on, while the calling thread sleeps.
///
/// Private working sets are made by the threads that use them, so that a system with several memories puts them near.
/// Leaks some hundred bytes per run, which a late signal handler may still read.
///
/// # Errors
/// If `spec` is out of range, its start time is past, there is no memory or thread to be had, or the lines do not hold
/// what was written.
pub fn run(spec: &Spec) -> Result<Report, Error> {
    check(spec)?;
    let stop: &'static Stop = Box::leak(Box::default());
    let _interrupts = spec
        .catch_interrupts
        .then(|| Interrupts::catch(stop))
        .transpose()?;
    let shared = match spec.sharing {
        Sharing::Shared => Some(lines(spec, 0)?),
        Sharing::Private => None,
    };
    let program = Program {
        spec,
        stop,
        shared: shared.as_ref(),
        started: AtomicBool::new(false),
        running: AtomicU32::new(spec.threads),
    };
    let (started_at_ns, ends) = program.run()?;
    let ended_at_ns = ends.iter().map(|end| end.at_ns).max().unwrap_or(started_at_ns);
    let per_thread: Vec<Done> = ends.iter().map(|end| end.done).collect();
    let held: u64 = ends.iter().map(|end| end.held).sum::<u64>() + shared.as_ref().map_or(0, Lines::held);
    let duration_s = ended_at_ns.saturating_sub(started_at_ns).max(1) as f64 / 1e9;
    let per_thread = conserved(per_thread, held)?;
    let accesses: u64 = per_thread.iter().map(|done| done.accesses).sum();
    Ok(Report {
        schema: SCHEMA.to_owned(),
        threads: spec.threads,
        bytes: spec.bytes,
        pattern: spec.pattern,
        sharing: spec.sharing,
        write_percent: spec.write_percent,
        compute: spec.compute,
        seed: spec.seed,
        started_at_ns,
        duration_s,
        interrupted: stop.was_interrupted(),
        accesses,
        accesses_per_s: accesses as f64 / duration_s,
        accesses_per_thread: per_thread.iter().map(|done| done.accesses).collect(),
        writes: held,
    })
}

/// What the threads did, if the lines hold as many writes as they made.
fn conserved(per_thread: Vec<Done>, held: u64) -> Result<Vec<Done>, Error> {
    let written = per_thread.iter().map(|done| done.writes).sum();
    match held == written {
        true => Ok(per_thread),
        false => Err(Error::Lost { written, held }),
    }
}

fn check(spec: &Spec) -> Result<(), Error> {
    let check = |what, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(Error::OutOfRange {
            what,
            value,
            least,
            most,
        }),
    };
    let ns = u64::try_from(spec.duration.as_nanos()).unwrap_or(u64::MAX);
    check("a number of threads", spec.threads.into(), 1, u32::MAX.into())?;
    check("a working set in bytes", spec.bytes, LINE_BYTES, Spec::MAX_BYTES)?;
    check("a share of writes in percent", spec.write_percent.into(), 0, 100)?;
    check("a number of accesses", spec.accesses.unwrap_or(1), 1, u64::MAX)?;
    check("a duration in ns", ns, 1, u64::MAX)?;
    match spec.file {
        Some(_) => check_of_file(spec),
        None => Ok(()),
    }
}

fn check_of_file(spec: &Spec) -> Result<(), Error> {
    let what = match spec {
        _ if spec.sharing == Sharing::Private => "say --sharing shared",
        _ if spec.write_percent > 0 => "leave --writes at 0",
        _ if spec.pattern == Pattern::Chase => "say --pattern sequential or random",
        _ => return Ok(()),
    };
    Err(Error::OfFile { what })
}

fn lines(spec: &Spec, thread: u64) -> Result<Lines, Error> {
    let (seed, bytes, count) = (
        spec.seed.wrapping_add(thread),
        spec.bytes,
        spec.bytes / LINE_BYTES,
    );
    match &spec.file {
        Some(path) => Lines::of_file(path, count).map_err(|source| Error::File {
            path: path.clone(),
            bytes,
            source,
        }),
        None => Lines::new(count, seed).map_err(|_| Error::NoMemory { bytes }),
    }
}

/// What the threads of a run share.
struct Program<'a> {
    spec: &'a Spec,
    stop: &'static Stop,
    /// The working set, if all have one.
    shared: Option<&'a Lines>,
    /// Set at the start; threads are parked until then.
    started: AtomicBool,
    /// Threads that have not ended.
    running: AtomicU32,
}

/// A thread's end.
struct End {
    done: Done,
    /// Writes that its own lines hold.
    held: u64,
    at_ns: u64,
}

type Thread<'scope> = ScopedJoinHandle<'scope, Result<End, Error>>;

impl Program<'_> {
    /// The whole run: when it started, and how each thread ended.
    fn run(&self) -> Result<(u64, Vec<End>), Error> {
        let mask = Mask::block_all();
        std::thread::scope(|scope| {
            let (ready, all_ready) = mpsc::channel();
            let mut threads = Vec::new();
            let created = self.create(scope, &ready, &mut threads);
            drop(ready);
            mask.admit_stop();
            // Ends when each thread has said that it is ready, or has failed.
            while all_ready.recv().is_ok() {}
            let started = created.and_then(|()| self.wait_for_start());
            if started.is_err() {
                self.stop.set();
            }
            let started_at_ns = self.spec.start_at_ns.unwrap_or_else(now_ns);
            self.started.store(true, Ordering::Release);
            threads.iter().for_each(|thread| thread.thread().unpark());
            let duration_ns = u64::try_from(self.spec.duration.as_nanos()).unwrap_or(u64::MAX);
            self.stop.sleep_until(started_at_ns.saturating_add(duration_ns));
            self.stop.set();
            let ends: Result<Vec<End>, Error> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect();
            started.and_then(|()| Ok((started_at_ns, ends?)))
        })
    }

    /// Creates the threads; those that were created before one that could not be are in `threads` too.
    fn create<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        ready: &Sender<()>,
        threads: &mut Vec<Thread<'scope>>,
    ) -> Result<(), Error> {
        for thread in 0..self.spec.threads {
            let ready = ready.clone();
            let handle = std::thread::Builder::new()
                .name(format!("mem-{thread}"))
                .spawn_scoped(scope, move || self.thread(thread, ready))
                .map_err(|source| Error::Thread { thread, source })?;
            threads.push(handle);
        }
        Ok(())
    }

    fn wait_for_start(&self) -> Result<(), Error> {
        let Some(start_at_ns) = self.spec.start_at_ns else {
            return Ok(());
        };
        let now_ns = now_ns();
        if start_at_ns < now_ns {
            return Err(Error::StartPassed { start_at_ns, now_ns });
        }
        self.stop.sleep_until(start_at_ns);
        Ok(())
    }

    fn thread(&self, thread: u32, ready: Sender<()>) -> Result<End, Error> {
        let own = match self.shared {
            Some(_) => None,
            // Nobody waits for a run that cannot begin.
            None => Some(lines(self.spec, thread.into()).inspect_err(|_| self.stop.set())?),
        };
        drop(ready);
        while !self.started.load(Ordering::Acquire) {
            std::thread::park();
        }
        let lines = self.shared.or(own.as_ref()).expect("one of the two is there");
        let done = self.walk(thread, lines);
        // Looking at all lines for what they hold takes as long as a round through them, and is not what was asked for.
        let at_ns = now_ns();
        // The last one ends the run, if the time has not.
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stop.set();
        }
        Ok(End {
            done,
            held: own.as_ref().map_or(0, Lines::held),
            at_ns,
        })
    }

    /// Threads that share lines begin at places as far from each other as can be.
    fn walk(&self, thread: u32, lines: &Lines) -> Done {
        let spec = self.spec;
        let start = u128::from(lines.count()) * u128::from(thread) / u128::from(spec.threads);
        let how = How {
            pattern: spec.pattern,
            sharing: spec.sharing,
            write_percent: spec.write_percent,
            compute: spec.compute,
            seed: spec.seed.wrapping_add(thread.into()),
        };
        let mut walk = Walk::new(lines, start as u64, how);
        let mut all = Done::default();
        let limit = spec.accesses.unwrap_or(u64::MAX);
        while all.accesses < limit && !self.stop.is_set() {
            let done = walk.take(BATCH.min(limit - all.accesses));
            all.accesses += done.accesses;
            all.writes += done.writes;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn spec() -> Spec {
        Spec {
            threads: 3,
            bytes: 64 * 100,
            accesses: Some(1000),
            write_percent: 50,
            ..Spec::default()
        }
    }

    #[test]
    fn each_thread_does_what_was_asked_for_and_no_write_is_lost() {
        for sharing in [Sharing::Private, Sharing::Shared] {
            for pattern in [Pattern::Sequential, Pattern::Chase, Pattern::Random] {
                let spec = Spec {
                    sharing,
                    pattern,
                    ..spec()
                };
                let report = run(&spec).unwrap();
                assert_eq!(report.accesses_per_thread, [1000; 3]);
                assert_eq!((report.accesses, report.writes), (3000, 1500));
                assert!(report.accesses_per_s > 0.0 && !report.interrupted);
            }
        }
    }

    #[test]
    fn a_file_is_a_working_set_that_is_only_read() {
        let folder = tempfile::tempdir().unwrap();
        let of_file = Spec {
            file: Some(folder.path().join("set")),
            sharing: Sharing::Shared,
            pattern: Pattern::Random,
            write_percent: 0,
            ..spec()
        };
        let report = run(&of_file).unwrap();
        assert_eq!((report.accesses, report.writes), (3000, 0));
        let refused = |spec: Spec| run(&spec).unwrap_err().to_string();
        let writing = Spec {
            write_percent: 1,
            ..of_file.clone()
        };
        assert!(refused(writing).contains("--writes at 0"));
        let chasing = Spec {
            pattern: Pattern::Chase,
            ..of_file.clone()
        };
        assert!(refused(chasing).contains("sequential or random"));
        let private = Spec {
            sharing: Sharing::Private,
            ..of_file.clone()
        };
        assert!(refused(private).contains("--sharing shared"));
        let nowhere = Spec {
            file: Some(folder.path().join("none/set")),
            ..of_file
        };
        assert!(refused(nowhere).contains("none/set"));
    }

    #[test]
    fn looking_at_what_lines_hold_does_not_count() {
        let one = Spec {
            threads: 1,
            bytes: 64 << 20,
            accesses: Some(1),
            write_percent: 0,
            ..spec()
        };
        let lines = lines(&one, 0).unwrap();
        let look_s = || {
            let begun = std::time::Instant::now();
            std::hint::black_box(lines.held());
            begun.elapsed().as_secs_f64()
        };
        let run_s = || run(&one).unwrap().duration_s;
        // Others may keep the thread from running for a while.
        let least = |seconds: &dyn Fn() -> f64| (0..8).map(|_| seconds()).fold(f64::MAX, f64::min);
        let (looked, ran) = (least(&look_s), least(&run_s));
        assert!(ran < 0.15 * looked, "ran for {ran} s, and looking takes {looked}");
    }

    #[test]
    fn lost_writes_are_an_error() {
        let done = Done {
            accesses: 10,
            writes: 5,
        };
        assert!(conserved(vec![done, done], 10).is_ok());
        let error = conserved(vec![done, done], 9).unwrap_err().to_string();
        assert!(error.contains("10 writes") && error.contains("hold 9"), "{error}");
    }

    #[test]
    fn time_ends_a_run() {
        let timed = Spec {
            accesses: None,
            duration: Duration::from_millis(30),
            start_at_ns: Some(now_ns() + 20_000_000),
            ..spec()
        };
        let report = run(&timed).unwrap();
        assert!(report.duration_s >= 0.03 && report.accesses_per_thread.iter().all(|done| *done > 0));
        assert!(report.started_at_ns >= timed.start_at_ns.unwrap());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |spec: Spec| run(&spec).unwrap_err().to_string();
        assert!(refused(Spec { threads: 0, ..spec() }).contains("threads of 0"));
        assert!(refused(Spec { bytes: 63, ..spec() }).contains("working set in bytes of 63"));
        let spec_of = |write_percent| Spec {
            write_percent,
            ..spec()
        };
        assert!(refused(spec_of(101)).contains("101"));
        let late = Spec {
            start_at_ns: Some(1),
            ..spec()
        };
        let complaint = refused(late);
        assert!(
            complaint.contains("the start time 1 ns") && complaint.contains("is past"),
            "{complaint}"
        );
    }
}
