// SPDX-License-Identifier: GPL-2.0-only
//! The threads of a run and what each does.

use std::ffi::{CStr, CString};
use std::thread::Scope;

use super::phases::{Draws, Round, Rounds};
use super::reading::Reader;
use super::team::{Dismiss, Team, Wait};
use super::work::{Units, calibrate};
use super::{Error, MAX_PHASE_UNITS, PhaseLength, Report, SCHEMA, Spec, probe};
use crate::memory::LINE_BYTES;
use crate::memory::lines::Lines;
use crate::signals::{Interrupts, Mask, Timer};
use crate::stop::{Stop, now_ns};

/// Runs the synthetic program on the calling thread, as its main thread, and `spec.threads` - 1 new ones.
///
/// The threads are named `syn-main`, `syn-1`, and so on; the calling thread has its own name back afterwards. Each
/// thread finishes the unit in hand at the stop, so up to one unit per thread is counted that ended after it.
/// Leaks some hundred bytes per run, which a late signal handler may still read.
///
/// # Errors
/// If `spec` is out of range, its start time is past, or the system refuses a thread, a timer or a handler.
pub fn run(spec: &Spec) -> Result<Report, Error> {
    if spec.threads == 0 {
        return Err(Error::NoThreads);
    }
    if spec.duration.is_zero() {
        return Err(Error::NoDuration);
    }
    let stop: &'static Stop = Box::leak(Box::default());
    let _interrupts = spec
        .catch_interrupts
        .then(|| Interrupts::catch(stop))
        .transpose()?;
    let phase = Phase::resolve(spec.phase)?;
    let sets = working_sets(spec)?;
    let units: Vec<Units> = (0..spec.threads).map(|_| Units::default()).collect();
    let team = Team::new(spec.threads, spec.wait);
    let program = Program {
        spec,
        stop,
        team: &team,
        units: &units,
        sets: &sets,
    };
    let course = program.run(Rounds::new(
        spec.ratio,
        phase.units,
        Draws::new(spec.distribution, spec.seed),
    ))?;
    Ok(report(spec, &phase, &course, &units, stop.was_interrupted()))
}

/// What its threads read; nothing if they do not.
fn working_sets(spec: &Spec) -> Result<Vec<Lines>, Error> {
    let Some(reading) = spec.reading else {
        return Ok(Vec::new());
    };
    if reading.bytes < LINE_BYTES || reading.per_1000_units == 0 {
        return Err(Error::Reading { reading });
    }
    let bytes = reading.bytes;
    reading.sets(spec.threads).map_err(|_| Error::NoMemory { bytes })
}

/// The mean phase in work units, and what it was computed from.
struct Phase {
    units: u64,
    calibrated_units_per_s: Option<f64>,
}

impl Phase {
    fn resolve(phase: PhaseLength) -> Result<Self, Error> {
        let out_of_range = Error::PhaseLength { phase };
        let (units, calibrated_units_per_s) = match phase {
            PhaseLength::Units(units) => (units, None),
            PhaseLength::Milliseconds(ms) if ms.is_finite() && ms > 0.0 => {
                let rate = calibrate();
                ((rate * ms / 1000.0).round().max(1.0) as u64, Some(rate))
            }
            PhaseLength::Milliseconds(_) => return Err(out_of_range),
        };
        if !(1..=MAX_PHASE_UNITS).contains(&units) {
            return Err(out_of_range);
        }
        Ok(Self {
            units,
            calibrated_units_per_s,
        })
    }
}

/// What the threads of a run share.
#[derive(Clone, Copy)]
struct Program<'a> {
    spec: &'a Spec,
    stop: &'static Stop,
    team: &'a Team,
    /// One for each thread, the main thread first.
    units: &'a [Units],
    /// The working sets of threads that read; one for all, or one for each.
    sets: &'a [Lines],
}

/// What the main thread saw of a run.
#[derive(Default)]
struct Course {
    started_at_ns: u64,
    /// The end of the last phase until the run stops.
    stopped_at_ns: u64,
    rounds: u64,
    parallel_ns: u64,
    serial_ns: u64,
}

impl Course {
    /// The time since the last phase ended, at most up to the stop, and whether the run goes on.
    fn end_of_phase(&mut self, stop: &Stop) -> (u64, bool) {
        // The clock first: a stop that comes between the two is seen at the end of the next phase.
        let now_ns = now_ns();
        let stopped_at_ns = stop.at_ns();
        let end_ns = stopped_at_ns.unwrap_or(now_ns).max(self.stopped_at_ns);
        (
            end_ns - std::mem::replace(&mut self.stopped_at_ns, end_ns),
            stopped_at_ns.is_none(),
        )
    }
}

impl<'a> Program<'a> {
    /// The whole run, from the first thread to the last.
    fn run(self, rounds: Rounds) -> Result<Course, Error> {
        let _name = ThreadName::set(c"syn-main");
        let mask = Mask::block_all();
        std::thread::scope(|scope| {
            let _dismiss = Dismiss(self.team);
            self.create_workers(scope)?;
            mask.admit_stop();
            self.team.join();
            let started_at_ns = self.start()?;
            let end_ns =
                started_at_ns.saturating_add(self.spec.duration.as_nanos().min(u128::from(u64::MAX)) as u64);
            let _timer = Timer::arm(end_ns, self.stop)?;
            Ok(self.main_thread(started_at_ns, rounds))
        })
    }

    fn create_workers<'scope>(self, scope: &'scope Scope<'scope, 'a>) -> Result<(), Error> {
        for (index, units) in self.units.iter().enumerate().skip(1) {
            std::thread::Builder::new()
                .name(format!("syn-{index}"))
                .spawn_scoped(scope, move || self.worker(index, units))
                .map_err(|source| Error::Thread {
                    thread: index as u32 + 1,
                    threads: self.spec.threads,
                    source,
                })?;
        }
        Ok(())
    }

    fn worker(self, thread: usize, own: &Units) {
        let mut generation = 0;
        let mut reader = self.reader(thread);
        self.team.arrive();
        while let Some(units) = self.team.next_phase(&mut generation) {
            own.work_parallel(units, self.stop, reader.as_mut());
            self.team.arrive();
        }
    }

    fn reader(self, thread: usize) -> Option<Reader<'a>> {
        let reading = self.spec.reading?;
        Some(Reader::new(reading, self.sets, thread, self.spec.seed))
    }

    /// Waits for the common start, and returns the time of it.
    fn start(self) -> Result<u64, Error> {
        if let Some(start_at_ns) = self.spec.start_at_ns {
            let now_ns = now_ns();
            if start_at_ns < now_ns {
                return Err(Error::StartPassed {
                    start_at_ns,
                    now_ns,
                    late_ns: now_ns - start_at_ns,
                });
            }
            self.stop.sleep_until(start_at_ns);
        }
        if self.spec.wait == Wait::Active {
            // An empty phase, after which the workers spin even if no parallel phase ever comes.
            self.team.fork(0);
            self.team.join();
        }
        // Programs that start together are measured for the same time, whoever has a CPU first.
        Ok(self.spec.start_at_ns.unwrap_or_else(now_ns))
    }

    fn main_thread(self, started_at_ns: u64, mut rounds: Rounds) -> Course {
        let mut course = Course {
            started_at_ns,
            stopped_at_ns: started_at_ns,
            ..Course::default()
        };
        let mut reader = self.reader(0);
        while self.round(rounds.next_round(), &mut course, reader.as_mut()) {
            course.rounds += 1;
        }
        course
    }

    /// Performs a round; false if the run stopped in it.
    fn round(self, round: Round, course: &mut Course, mut reader: Option<&mut Reader>) -> bool {
        let mut goes_on = true;
        if round.parallel_units_per_thread > 0 {
            self.parallel_phase(round.parallel_units_per_thread, reader.as_deref_mut());
            let phase_ns;
            (phase_ns, goes_on) = course.end_of_phase(self.stop);
            course.parallel_ns += phase_ns;
        }
        if goes_on && round.serial_units > 0 {
            self.serial_phase(round.serial_units, reader);
            let phase_ns;
            (phase_ns, goes_on) = course.end_of_phase(self.stop);
            course.serial_ns += phase_ns;
        }
        goes_on
    }

    fn parallel_phase(self, units: u64, reader: Option<&mut Reader>) {
        if self.stop.is_set() {
            return;
        }
        probe::threadwise_phase_begin(probe::PARALLEL, units);
        self.team.fork(units);
        self.units[0].work_parallel(units, self.stop, reader);
        self.team.join();
    }

    fn serial_phase(self, units: u64, reader: Option<&mut Reader>) {
        if self.stop.is_set() {
            return;
        }
        probe::threadwise_phase_begin(probe::SERIAL, units);
        self.units[0].work_serial(units, self.stop, reader);
    }
}

fn report(spec: &Spec, phase: &Phase, course: &Course, units: &[Units], interrupted: bool) -> Report {
    let parallel_units = units.iter().map(Units::parallel).sum();
    let serial_units = units.iter().map(Units::serial).sum();
    let work_units = parallel_units + serial_units;
    let duration_s = seconds(course.stopped_at_ns - course.started_at_ns);
    Report {
        schema: SCHEMA.to_owned(),
        ratio: spec.ratio,
        threads: spec.threads,
        seed: spec.seed,
        phase_units: phase.units,
        calibrated_units_per_s: phase.calibrated_units_per_s,
        distribution: spec.distribution,
        wait: spec.wait,
        reading: spec.reading,
        started_at_ns: course.started_at_ns,
        duration_s,
        interrupted,
        work_units,
        work_units_per_s: if duration_s > 0.0 {
            work_units as f64 / duration_s
        } else {
            0.0
        },
        rounds: course.rounds,
        parallel_units,
        serial_units,
        units_per_thread: units.iter().map(|own| own.parallel() + own.serial()).collect(),
        parallel_s: seconds(course.parallel_ns),
        serial_s: seconds(course.serial_ns),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The name of the calling thread, put back when dropped.
struct ThreadName {
    former: CString,
}

impl ThreadName {
    fn set(name: &CStr) -> Self {
        let mut former = [0u8; 16];
        // SAFETY: PR_GET_NAME writes at most 16 bytes with the terminator; PR_SET_NAME reads up to the terminator.
        unsafe {
            libc::prctl(libc::PR_GET_NAME, former.as_mut_ptr());
            libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        }
        Self {
            former: CStr::from_bytes_until_nul(&former).unwrap_or_default().to_owned(),
        }
    }
}

impl Drop for ThreadName {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::prctl(libc::PR_SET_NAME, self.former.as_ptr()) };
    }
}
