// SPDX-License-Identifier: GPL-2.0-only
//! Threads of a parallel phase that share fewer CPUs than they are, in steps that are short against it.

use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::schedulers::Known;
use threadwise_simulator::{Costs, Ns, Synthetic, World};
use threadwise_workload::synthetic::Wait;

const MS: Ns = 1_000_000;

/// At so many million instructions a second, the lab's costs.
const MIPS: u32 = 2_000;

/// What is done in two seconds, in CPUs, by a program of eight threads whose parallel phases follow one another, each thread's work
/// of so many microseconds on the mean, and a serial one, on eight CPUs.
fn done(which: Known, phase_us: u64) -> f64 {
    let machine = Machine::load("smp-8").expect("a machine");
    let costs = match which {
        Known::Threadwise => Costs::of_lab_with_ours(MIPS, &machine, false),
        _ => Costs::of_lab(MIPS),
    };
    let mut world: World = which.world(&machine, costs, Tunables::default());
    for (seed, ratio) in [(1, "inf:1"), (2, "1:inf")] {
        let ratio = ratio.parse().expect("a ratio");
        let program = Synthetic::new(ratio, phase_us, 1_000, 8, Wait::Passive, seed);
        world.start(Box::new(program), 100, None);
    }
    let seconds = 2_000 * MS;
    world.run_until(seconds).expect("nothing is checked");
    let programs = world.outcome().programs;
    programs.iter().map(|program| program.work_ns).sum::<f64>() / seconds as f64
}

/// Seven CPUs are shared by eight threads in turn, however short their phases: 7.45, 7.66 and 7.85 of eight CPUs' work. Steps of a
/// millisecond, and a timer that took queues that others had emptied for all there were, left 5.72, 6.92 and 7.74.
#[test]
fn eight_threads_share_seven_cpus() {
    for (phase_us, least) in [(2_000, 7.3), (5_000, 7.5), (20_000, 7.78)] {
        let [ours, kernel] = [Known::Threadwise, Known::Kernel].map(|which| done(which, phase_us));
        assert!(
            ours > least && ours > 1.2 * kernel,
            "{ours:.2} CPUs' work with phases of {phase_us} us, and {kernel:.2}"
        );
    }
}
