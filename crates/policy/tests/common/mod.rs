// SPDX-License-Identifier: GPL-2.0-only
//! Tasks, runs and programs to test decisions with.

// Each test binary uses a part.
#![allow(dead_code)]

use threadwise_policy::{
    BOOST_WHOLE, CAPACITY_ONE, Class, Group, Origin, Run, Task, Tunables, Waiting, here_ns,
};

pub const MS: u64 = 1_000_000;

pub const CLASSES: [Class; 4] = [Class::Kernel, Class::Serial, Class::Senior, Class::Parallel];

/// Round numbers; what holds does so for any, and the defaults are nobody's promise.
pub fn tunables() -> Tunables {
    Tunables {
        senior_boost_ns: 100 * MS,
        vtime_lag_ns: 400 * MS,
        ..Tunables::default()
    }
}

/// A task that nobody waits beside, and whose turn has been over for long.
pub fn task(class: Class, vtime: u64) -> Task {
    task_among(0, class, vtime)
}

pub fn task_among(nr_waiting: u32, class: Class, vtime: u64) -> Task {
    Task {
        vtime,
        here_ns: here_ns(u64::MAX),
        class,
        nr_waiting,
        boost_left: BOOST_WHOLE,
        waits_us: 0,
        step_ns: tunables().rotate_ns as u32,
    }
}

/// The boosts of serial and senior tasks beside so many.
pub fn boosts(nr_waiting: u32) -> (u64, u64) {
    let boost = |boost_ns| tunables().boost(boost_ns, nr_waiting, BOOST_WHOLE);
    (boost(200 * MS), boost(100 * MS))
}

/// Of a nice-0 task that has its CPU for itself.
pub const ALONE: Run = Run {
    before_ns: 0,
    since_ns: 0,
    weight: 100,
    capacity: CAPACITY_ONE,
    nr_waiting: 0,
    boost_left: BOOST_WHOLE,
    origin: Origin::Charge,
    unboosted: 0,
    others_wait: 1,
};

pub fn turns_of_80_ms() -> Tunables {
    Tunables {
        senior_turn_ns: 80 * MS,
        ..Tunables::default()
    }
}

/// A group of eight ready threads that has lost so much time.
pub fn group(lost_ns: u64) -> Group {
    let group = Group::default();
    (0..8).for_each(|_| assert!(group.add() > 0));
    group.lose(loss(lost_ns, 1));
    group
}

/// Of one of so many threads of nice 0 that waits.
pub fn loss(waited_ns: u64, nr_threads: u32) -> u32 {
    let waiting = Waiting {
        waited_ns,
        weight: 100,
        nr_ready: 1,
        nr_threads,
        nr_cpus: 8,
    };
    waiting.loss()
}
