// SPDX-License-Identifier: GPL-2.0-only
//! Programs whose threads spin while they wait for each other go one after the other, whoever comes later, weighs less, or is there too.

use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::schedulers::Known;
use threadwise_simulator::{Costs, Ns, Synthetic, World};
use threadwise_workload::synthetic::Wait;

const MS: Ns = 1_000_000;

/// At so many million instructions a second, the lab's costs.
const MIPS: u32 = 60;

/// For so long after the last one begins.
const MEASURED: Ns = 3_000 * MS;

/// What programs of eight threads do on eight CPUs, in CPUs' work, once the last has begun `after` the others: one that spins, those
/// of these ratios whose threads sleep, with phases of 20 ms, and (if it has a weight) another that spins.
fn done(tun: Tunables, sleeping: &[&str], last: Option<u32>, after: Ns) -> Vec<f64> {
    let machine = Machine::load("smp-8").expect("a machine");
    let costs = Costs::of_lab_with_ours(MIPS, &machine, false);
    let mut world = Known::Threadwise.world(&machine, costs, tun);
    let program = |ratio: &str, phase_us, wait, seed| {
        let ratio = ratio.parse().expect("a ratio");
        Box::new(Synthetic::new(ratio, phase_us, 1_000, 8, wait, seed))
    };
    world.start(program("inf:1", 5_000, Wait::Active, 1), 100, None);
    for ratio in sleeping {
        world.start(program(ratio, 20_000, Wait::Passive, 2), 100, None);
    }
    world.run_until(after).expect("nothing is checked");
    if let Some(weight) = last {
        world.start(program("inf:1", 7_500, Wait::Active, 3), weight, None);
    }
    let work = |world: &mut World| -> Vec<f64> {
        let programs = world.outcome().programs;
        programs.iter().map(|program| program.work_ns).collect()
    };
    let before = work(&mut world);
    world.run_until(after + MEASURED).expect("nothing is checked");
    let all = work(&mut world);
    let of = |(all, before): (&f64, &f64)| (all - before) / MEASURED as f64;
    all.iter().zip(&before).map(of).collect()
}

/// Together they do 99 % of what one does alone. As long as the clock left out what the first ran ahead while it was alone, they did 34
/// to 75 % if the second came 66 ms later or more: neither lost more than the other, and no turn was handed on.
#[test]
fn who_comes_later_has_its_turns() {
    let tun = Tunables::default();
    let alone: f64 = done(tun, &[], None, 0).iter().sum();
    for after in [1, 66, 200, 313] {
        let both = done(tun, &[], Some(100), after * MS);
        let (sum, least) = (both[0] + both[1], both[0].min(both[1]));
        assert!(
            sum > 0.95 * alone && least > 0.45 * alone,
            "{both:.2?} of {alone:.2} CPUs' work, {after} ms later"
        );
    }
}

/// Tasks of the lighter one run ahead of the others' vtime the faster, and its turns are rarer: its boost and the other's are used up
/// long before, and half of the time was lost.
#[test]
fn who_weighs_less_has_its_part() {
    let (tun, alone) = (Tunables::default(), done(Tunables::default(), &[], None, 0)[0]);
    for (weight, part) in [(300, 0.75), (50, 0.333), (20, 0.167)] {
        let both = done(tun, &[], Some(weight), 100 * MS);
        let sum = both[0] + both[1];
        assert!(
            sum > 0.88 * alone && (both[1] / sum - part).abs() < 0.06,
            "{both:.2?} of {alone:.2} CPUs' work with a weight of {weight}"
        );
    }
}

/// A third program makes way for serial tasks and has phases of its own, so that vtimes and losses come apart: three did 40 % of what one
/// does alone, now 75 to 90.
#[test]
fn a_third_program_does_not_keep_turns_from_being_handed_on() {
    let tun = Tunables::default();
    let alone = done(tun, &[], None, 0)[0];
    for ratio in ["1:1", "inf:1"] {
        for (weight, part) in [(100, 0.5), (50, 0.333)] {
            let three = done(tun, &[ratio], Some(weight), 150 * MS);
            let (sum, found) = (three.iter().sum::<f64>(), three[2] / (three[0] + three[2]));
            assert!(
                sum > 0.7 * alone && (found - part).abs() < 0.1,
                "{three:.2?} of {alone:.2} CPUs' work beside {ratio} with a weight of {weight}"
            );
        }
    }
}
