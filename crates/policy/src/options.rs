// SPDX-License-Identifier: GPL-2.0-only
//! The options that set the policy's tunables, of `scx_threadwise` and of whoever simulates it.

use clap::value_parser;

use crate::Tunables;

/// Options of a command line; all times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct TunableOptions {
    /// A program is serial while it has at most this many ready threads
    #[arg(long, default_value_t = USUAL.serial_threshold, value_name = "THREADS")]
    pub serial_threshold: u32,

    /// How long a task runs before those who wait are considered, in microseconds; 20 ms where nobody waits, a turn for
    /// a serial one that waited, up to 60 ms for one of the senior program until others are due; sixteen looks at least, but beside others who wait
    #[arg(short, long, default_value_t = USUAL.slice_us, value_name = "MICROSECONDS", value_parser = value_parser!(u64).range(100..=1_000_000))]
    pub slice_us: u64,

    /// How far a task runs ahead of a waiting one before it yields, at most, in microseconds. Threads of a parallel phase begin with
    /// 125, or three looks if that is more, which grow with its age, to sixteen looks if that is more than this; serial ones have turns beside each other (--serial-turn-us)
    #[arg(long, default_value_t = USUAL.rotate_us, value_name = "MICROSECONDS", value_parser = value_parser!(u64).range(100..=1_000_000))]
    pub rotate_us: u64,

    /// How far ahead the tasks of the senior parallel program are placed, in microseconds; less where many wait. With no
    /// more than a turn, its threads make way one by one before the turn is over, and wait for each other
    #[arg(long, default_value_t = USUAL.senior_boost_us, value_name = "MICROSECONDS", value_parser = value_parser!(u64).range(0..=300_000))]
    pub senior_boost_us: u64,

    /// How long a parallel program goes before another that competes with it and loses as much meanwhile, in microseconds
    #[arg(long, default_value_t = USUAL.senior_turn_us, value_name = "MICROSECONDS", value_parser = value_parser!(u64).range(1_000..=10_000_000))]
    pub senior_turn_us: u64,

    /// How far ahead of other tasks a serial task is placed, in microseconds; less where many wait
    #[arg(long, default_value_t = USUAL.serial_boost_us, value_name = "MICROSECONDS", value_parser = value_parser!(u64).range(0..=300_000))]
    pub serial_boost_us: u64,

    /// For how long a serial task has a CPU at least before another serial one takes it, in microseconds, unless that is owed
    /// two such turns
    #[arg(long, default_value_t = USUAL.serial_turn_us, value_name = "MICROSECONDS", value_parser = value_parser!(u64).range(0..=20_000))]
    pub serial_turn_us: u64,
}

const USUAL: TunableOptions = TunableOptions {
    serial_threshold: 2,
    slice_us: 1_000,
    rotate_us: 1_000,
    senior_boost_us: 100_000,
    senior_turn_us: 75_000,
    serial_boost_us: 200_000,
    serial_turn_us: 3_000,
};

/// How far vtimes may lie apart, in senior boosts: juniors fall behind by one, and a few programs may share a CPU.
const LAG_BOOSTS: u64 = 4;

/// The least lag, where the boost is small.
const LAG_NS: u64 = 100_000_000;

/// What credit a parallel task brings along when it wakes up, and what a serial one keeps of what it ran ahead. With the largest
/// settings (boosts of 0.3 s, with that a lag of 1.2 s, and up to 20 boosts for heavy tasks) the longest wait stays below the
/// watchdog's 10 s, but for the turns of those that wait beside it.
const WINDOW_NS: u64 = 1_000_000;

/// As many tasks waiting in a queue, beyond the second, halve a boost twice. Two parallel programs, with a task waiting at
/// each CPU, have all of it, and a crowd nothing.
const BOOST_SHARES: u32 = 4;

impl TunableOptions {
    /// The policy's settings under these options.
    pub fn tunables(&self) -> Tunables {
        let senior_boost_ns = self.senior_boost_us * 1000;
        Tunables {
            slice_ns: self.slice_us * 1000,
            rotate_ns: self.rotate_us * 1000,
            serial_boost_ns: self.serial_boost_us * 1000,
            serial_turn_ns: self.serial_turn_us * 1000,
            senior_boost_ns,
            senior_turn_ns: self.senior_turn_us * 1000,
            vtime_window_ns: WINDOW_NS,
            vtime_lag_ns: LAG_NS.max(LAG_BOOSTS * senior_boost_ns),
            serial_threshold: self.serial_threshold,
            boost_shares: BOOST_SHARES,
        }
    }
}

impl Default for Tunables {
    /// Those of `scx_threadwise` without options.
    fn default() -> Self {
        USUAL.tunables()
    }
}
