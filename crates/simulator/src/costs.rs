// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel's own work takes.

use threadwise_machine::Machine;

use crate::Ns;

/// The time that each of these takes on the fastest CPU, in nanoseconds; slower CPUs take longer in proportion, but where it
/// says that it is not scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// From a task that falls asleep to another.
    pub switch_ns: Ns,
    /// From a task that would go on to another.
    pub preempt_ns: Ns,
    /// From a task to idle: who wakes it up before that is over finds it on its CPU still. It delays nobody else.
    pub to_idle_ns: Ns,
    /// For a task that begins on another core than its last, beyond the switch: caches of a core's own, to be filled anew. To fill a
    /// megabyte of L2 at 8 GB/s takes 130 us; most tasks have less there.
    pub migrate_ns: Ns,
    /// From idle to a task: the interrupt, the way out of idle and into the task.
    pub from_idle_ns: Ns,
    /// For a CPU that asks what is to run, and goes on with what runs.
    pub keep_ns: Ns,
    /// For who wakes a sleeping thread, each; the next one is woken after it.
    pub wake_ns: Ns,
    /// A tick.
    pub tick_ns: Ns,
    /// What kernel threads do on each CPU that is busy, once a second, one CPU after the other.
    pub background_ns: Ns,
    /// An expiry of the scheduler's timer, however many queues it looks at.
    pub timer_ns: Ns,
    /// From the request to another CPU that is idle to look for something to run until it does; not scaled.
    pub kick_ns: Ns,
    /// How late timers and other CPUs' requests interrupt what runs at most; all delays up to that are as likely.
    pub interrupt_ns: Ns,
    /// Between ticks; not scaled. All CPUs have theirs at once.
    pub tick_period_ns: Ns,
}

impl Costs {
    /// Nothing costs anything, and slices end to a tenth of a millisecond: for comparisons with theory.
    pub const FREE: Self = Self {
        switch_ns: 0,
        preempt_ns: 0,
        to_idle_ns: 0,
        migrate_ns: 0,
        from_idle_ns: 0,
        keep_ns: 0,
        wake_ns: 0,
        tick_ns: 0,
        background_ns: 0,
        timer_ns: 0,
        kick_ns: 0,
        interrupt_ns: 0,
        tick_period_ns: 100_000,
    };

    /// The lab's guest kernel (HZ=250) under its own scheduler, on CPUs of so many million instructions a second, at least
    /// 1.
    ///
    /// Instructions were counted in the lab on smp-8 (`lab exec --profile`), in runs of four seconds less those of one:
    /// ticks and switches between tasks that would go on are what fits 8, 9, 12, 16 and 24 threads that never sleep. A thread
    /// that wakes another and one that sleeps until then take 7,450 and 7,770, of which the waker has a thousand, and the way
    /// to idle, 2,800, delays nobody. Where 2, 4 and 8 threads of a program share one CPU and meet every 0.4 ms, each that
    /// sleeps and is woken takes 5,600, 6,200 and 6,500 with the wake-up. That a CPU asks and goes on with what runs is too
    /// rare there to be counted, and taken from ours. Kernel threads (kworkers of each CPU, RCU, compaction) have 6 to 9 ms
    /// of all CPUs' time a second at 40 million instructions a second (`sched_switch`, six seconds, both schedulers).
    pub fn of_lab(mips: u32) -> Self {
        let instructions = |n: u64| n * 1000 / u64::from(mips.max(1));
        Self {
            switch_ns: instructions(5_200),
            preempt_ns: instructions(4_300),
            to_idle_ns: instructions(2_800),
            // Emulated CPUs have no caches, and what the kernel does for it is in what was counted for switches.
            migrate_ns: 0,
            from_idle_ns: instructions(3_800),
            keep_ns: instructions(3_300),
            wake_ns: instructions(1_000),
            tick_ns: instructions(2_750),
            background_ns: instructions(36_000),
            timer_ns: instructions(9_500),
            kick_ns: 20_000,
            // Emulated CPUs take interrupts at the ends of quanta of 160 us, 20,000 instructions at most (crates/lab/src/governor.rs).
            interrupt_ns: instructions(20_000).min(160_000),
            tick_period_ns: 4_000_000,
        }
    }

    /// The same under ours, on a machine that the lab boots: what fits nine threads on eight CPUs with slices of 1, 4 and 20 ms
    /// and rotation each 0.25, 1, 4 and 8 ms, and 16 threads with two slices, seven runs each on smp-8, amp-8 and smt-8: 18 of 21
    /// within 5 %, the others 6 and 10. The more queues hold something, the more each of them takes. Those switches are asked
    /// for by the timer, whose callback looks at eight CPUs; what CPUs take to ask and to be asked is in them. Who sleeps
    /// beside others on one CPU, as under the kernel's own, takes 7,700 with the wake-up, less the timer's expiries. Where
    /// CPUs share cores, or differ and the scheduler knows it (`cores_differ`), what goes on looks at more of them: on amp-8 a
    /// tick of who is alone, and looks for a faster CPU, takes 6,940.
    pub fn of_lab_with_ours(mips: u32, machine: &Machine, cores_differ: bool) -> Self {
        let instructions = |n: u64| n * 1000 / u64::from(mips.max(1));
        let (switch, preempt, keep) = match (cores_differ, machine.has_smt()) {
            (true, _) => (6_900, 15_700, 4_640),
            (false, true) => (6_900, 15_700, 3_600),
            (false, false) => (6_700, 14_700, 2_300),
        };
        Self {
            switch_ns: instructions(switch),
            preempt_ns: instructions(preempt),
            keep_ns: instructions(keep),
            tick_ns: instructions(2_300),
            ..Self::of_lab(mips)
        }
    }
}
