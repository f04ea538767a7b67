// SPDX-License-Identifier: GPL-2.0-only
//! Many random small worlds, on all cores.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::schedulers::Known;
use crate::small::SmallWorld;

/// Which worlds are played.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Worlds are drawn from it and their numbers.
    pub seed: u64,
    /// The first world's number.
    pub from: u64,
    /// How many.
    pub nr_worlds: u64,
    /// Each world has one of them; not empty.
    pub schedulers: Vec<Known>,
}

/// How a sweep went.
#[derive(Clone, Debug, PartialEq)]
pub struct Swept {
    /// All worlds up to this number, without it, were played, and others perhaps.
    pub up_to: u64,
    /// How many were played; if one failed, how many come before that.
    pub nr_worlds: u64,
    /// The events in them; where one failed nobody knows, as others were begun behind it.
    pub nr_events: Option<u64>,
    /// The first world that failed, and what was wrong in it.
    pub failed: Option<(u64, String)>,
}

impl Sweep {
    /// Plays the worlds until one fails or `stop` is set; `done` is told after each how many were. The result is the
    /// same on any number of cores: whoever has begun a world of a smaller number finishes it.
    pub fn run(&self, stop: &AtomicBool, done: &(dyn Fn(u64) + Sync)) -> Swept {
        let (next, nr_done, nr_events) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let failed = Mutex::new(None);
        let work = || {
            while !stop.load(Ordering::Relaxed) && lock(&failed).is_none() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.nr_worlds {
                    return;
                }
                let number = self.from + index;
                match SmallWorld::draw(self.seed, number, &self.schedulers).run() {
                    Ok(outcome) => nr_events.fetch_add(outcome.nr_events, Ordering::Relaxed),
                    Err(wrong) => {
                        keep_first(&mut lock(&failed), number, wrong);
                        0
                    }
                };
                done(nr_done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(work);
            }
        });
        let failed = lock(&failed).take();
        Swept {
            up_to: self.from + next.into_inner().min(self.nr_worlds),
            nr_worlds: match &failed {
                Some((number, _)) => number - self.from,
                None => nr_done.into_inner(),
            },
            nr_events: failed.is_none().then(|| nr_events.into_inner()),
            failed,
        }
    }
}

type Failed = Option<(u64, String)>;

fn lock(failed: &Mutex<Failed>) -> std::sync::MutexGuard<'_, Failed> {
    failed.lock().expect("no worker panics: worlds catch what does")
}

fn keep_first(failed: &mut Failed, number: u64, wrong: String) {
    if failed.as_ref().is_none_or(|&(first, _)| number < first) {
        *failed = Some((number, wrong));
    }
}
