// SPDX-License-Identifier: GPL-2.0-only
//! Rates of who runs beside whom, computed by hand.

use super::*;

/// A machine file's text with a name.
fn hardware(text: &str) -> Hardware {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.toml");
    std::fs::write(&path, format!("name = \"m\"\n{text}")).unwrap();
    Hardware::new(&Machine::from_file(&path).unwrap())
}

fn occupy(hardware: &mut Hardware, cpu: CpuIndex, occupant: Occupant) -> Vec<(CpuIndex, Rate)> {
    let changed = hardware.occupy(cpu, occupant, 0);
    let copy = changed.clone();
    hardware.done_with(changed);
    copy
}

/// The rates of all CPUs after these run.
fn rates(hardware: &mut Hardware, occupants: &[Occupant]) -> Vec<Rate> {
    for (cpu, &occupant) in occupants.iter().enumerate() {
        occupy(hardware, cpu, occupant);
    }
    hardware.seats.iter().map(|seat| seat.rate).collect()
}

const MB: u64 = 1 << 20;

/// A program's only thread with a working set of so many MB.
fn uses(program: usize, mb: u64, accesses_per_us: u32) -> Occupant {
    let memory = Memory {
        working_set_bytes: mb * MB,
        accesses_per_us,
        is_shared: false,
        ..Memory::default()
    };
    Occupant::computing(memory, program, 0)
}

#[test]
fn who_wants_little_gets_it_and_the_rest_is_shared() {
    assert_eq!(share_out(&[(10, 1), (20, 1)], 100), [10, 20]);
    assert_eq!(share_out(&[(90, 1), (10, 1), (90, 1)], 100), [45, 10, 45]);
    // Three quarters go to who has three times the weight, but no more than it wants.
    assert_eq!(share_out(&[(200, 3), (200, 1)], 100), [75, 25]);
    assert_eq!(share_out(&[(60, 3), (200, 1)], 100), [60, 40]);
    assert!(share_out(&[], 100).is_empty());
}

#[test]
fn a_machine_that_shares_nothing_is_plain() {
    assert!(hardware("topology = \"package:2 core:4 pu:1\"").is_plain());
    let mut smt = hardware("topology = \"core:2 pu:2\"");
    assert!(!smt.is_plain());
    smt.switch_off(Mechanism::Pipelines);
    assert!(smt.is_plain());
}

#[test]
fn hardware_threads_share_their_core() {
    let mut smt = hardware("topology = \"core:2 pu:4\"");
    assert_eq!(occupy(&mut smt, 0, Occupant::Runs), []);
    // 1.24 of a core for two: 0.62 each. The other core is not looked at.
    assert_eq!(occupy(&mut smt, 2, Occupant::Runs), [(0, 40632), (2, 40632)]);
    // (1 + 2 * 0.24) / 3.
    let third = occupy(&mut smt, 3, Occupant::Runs);
    assert_eq!(third, [(0, 32331), (2, 32331), (3, 32331)]);
    assert_eq!(occupy(&mut smt, 4, Occupant::Runs), []);
    occupy(&mut smt, 0, Occupant::Nobody);
    assert_eq!(smt.seats[3].rate, 40632);
    smt.switch_off(Mechanism::Pipelines);
    occupy(&mut smt, 3, Occupant::Nobody);
    occupy(&mut smt, 3, Occupant::Runs);
    assert_eq!(smt.seats[3].rate, RATE_ONE);
}

#[test]
fn pipes_share_their_core() {
    let text = "topology = \"core:2 pipe:2 pu:2\"\nlab = { mips = 10, smt_gain_percent = 50 }\n\
                [[sharing]]\nlevel = \"pipe\"\ngain_percent = 20\n";
    let mut nested = hardware(text);
    let (runs, idle) = (Occupant::Runs, Occupant::Nobody);
    // Two threads of a pipe: 1.2 / 2; the core has one pipe that runs.
    assert_eq!(rates(&mut nested, &[runs, runs, idle, idle])[..2], [39321, 39321]);
    // Beside a thread of the other pipe: two pipes have 1.5 / 2 of the core each.
    let all = rates(&mut nested, &[runs, runs, runs, idle, runs]);
    assert_eq!(all[..3], [29490, 29490, 49152]);
    assert_eq!(all[4], RATE_ONE, "another core");
}

#[test]
fn unequal_cores_are_shared_too() {
    let text = "topology = \"core:2 pu:2\"\n[[capacity]]\ncpus = \"2-3\"\ncapacity = 512\n";
    let (runs, idle) = (Occupant::Runs, Occupant::Nobody);
    let found = rates(&mut hardware(text), &[runs, idle, runs, runs]);
    assert_eq!((found[0], found[2], found[3]), (65536, 20316, 20316));
}

#[test]
fn busy_cores_slow_each_other_down() {
    let text = "topology = \"package:2 core:4 pu:1\"\nacceleration = { mhz = [3000, 3000, 2666] }\n";
    let (runs, idle) = (Occupant::Runs, Occupant::Nobody);
    let mut turbo = hardware(text);
    assert_eq!(
        rates(&mut turbo, &[runs, runs, idle, idle, runs, runs]),
        [RATE_ONE; 8]
    );
    // The third core of a package slows the others of it: 65536 * 2666 / 3000.
    let changed = occupy(&mut turbo, 3, runs);
    assert_eq!(changed, [(0, 58239), (1, 58239), (3, 58239)]);
    assert_eq!(occupy(&mut turbo, 2, runs), [(2, 58239)]);
    let mut off = hardware(text);
    off.switch_off(Mechanism::Acceleration);
    assert_eq!(rates(&mut off, &[runs; 8]), [RATE_ONE; 8]);
}

const CACHED: &str = "topology = \"package:2 l2:1(size=4MB) core:2 pu:1\"\n";

#[test]
fn working_sets_share_a_cache() {
    let text = format!("{CACHED}memory = {{ latency_ns = 100 }}\n");
    let (idle, four) = (Occupant::Nobody, uses(0, 4, 10));
    // Alone it fits and misses nothing.
    assert_eq!(rates(&mut hardware(&text), &[four])[0], RATE_ONE);
    // Two of 4 MB in 4 MB: half of 10 accesses in a microsecond miss for 100 ns each, and it takes 1.5 us.
    let both = rates(&mut hardware(&text), &[four, uses(1, 4, 10)]);
    assert_eq!(both[..2], [43690, 43690]);
    // On another cache it loses nothing, nor to who leaves memory alone.
    let apart = rates(
        &mut hardware(&text),
        &[four, Occupant::Runs, uses(1, 4, 10), idle],
    );
    assert_eq!(apart[..3], [RATE_ONE; 3]);
    // Threads that share their data have it there once.
    let shared = |thread| {
        let memory = Memory {
            working_set_bytes: 4 * MB,
            accesses_per_us: 10,
            is_shared: true,
            ..Memory::default()
        };
        Occupant::computing(memory, 0, thread)
    };
    assert_eq!(
        rates(&mut hardware(&text), &[shared(0), shared(1)])[..2],
        [RATE_ONE; 2]
    );
    // Without sharing each has the cache for itself; 8 MB miss half of the time also then.
    let mut off = hardware(&text);
    off.switch_off(Mechanism::Caches);
    assert_eq!(rates(&mut off, &[four, uses(1, 8, 10)])[..2], [RATE_ONE, 43690]);
}

#[test]
fn who_reads_more_holds_more_of_a_cache() {
    let text = format!("{CACHED}memory = {{ latency_ns = 100 }}\n");
    // 30 of 40 accesses: 3 of 4 MB, and 1/4 of 30 miss: 1.75 us a microsecond. The other: 3/4 of 10, the same.
    let found = rates(&mut hardware(&text), &[uses(0, 4, 30), uses(1, 4, 10)]);
    assert_eq!(found[..2], [37449, 37449]);
    // A small working set that is read often stays; who streams has poor locality anyway (IMDS in Table 1 of the paper).
    let found = rates(&mut hardware(&text), &[uses(0, 1, 30), uses(1, 1024, 10)]);
    assert_eq!(found[0], RATE_ONE);
    // 3 of 1024 MB are there: 1021/1024 of 10 accesses miss.
    assert_eq!(found[1], 65536 * 65536 / (65536 + 10 * 65344 * 100 / 1000));
}

#[test]
fn memory_stalls_know_no_clock() {
    // At half the speed computing takes 2 us instead of one and the misses 1 us as before: 1/3, not 1/4.
    assert_eq!(stalled(RATE_ONE, 10, RATE_ONE, 100), 32768);
    assert_eq!(stalled(RATE_ONE / 2, 10, RATE_ONE, 100), 21845);
}

#[test]
fn who_misses_shares_the_bandwidth() {
    let text =
        format!("{CACHED}memory = {{ latency_ns = 100, bandwidth_mb_s = 480, level = \"package\" }}\n");
    // All of 10 accesses miss, in 2 us: 5 lines of 64 bytes a microsecond, 320 MB/s. One fits, of two each has 240.
    let stream = |program| uses(program, 1 << 30, 10);
    let mut limited = hardware(&text);
    let rate = rates(&mut limited, &[stream(0)])[0];
    assert!((32768..32900).contains(&rate), "{rate}");
    let (idle, alone) = (Occupant::Nobody, rate);
    let changed = occupy(&mut limited, 1, stream(1));
    let three_quarters = alone * 240 / 320;
    assert!(
        changed.len() == 2
            && changed
                .iter()
                .all(|&(_, rate)| rate.abs_diff(three_quarters) < 200),
        "{changed:?}"
    );
    // Who takes little is not slowed; the other package has its own.
    occupy(&mut limited, 1, uses(1, 1 << 30, 1));
    let little = stalled(RATE_ONE, 1, RATE_ONE, 100);
    assert!(limited.seats[1].rate.abs_diff(little) < 200);
    let mut apart = hardware(&text);
    let apart = rates(&mut apart, &[stream(0), idle, stream(1), idle]);
    assert_eq!((apart[0], apart[2]), (alone, alone));
    let mut off = hardware(&text);
    off.switch_off(Mechanism::Bandwidth);
    let endless = rates(&mut off, &[stream(0), stream(1)]);
    assert!(
        endless[..2].iter().all(|rate| rate.abs_diff(alone) < 100),
        "{endless:?}"
    );
}

#[test]
fn packages_take_what_their_cores_keep_awake() {
    let text = "topology = \"package:2 core:4 pu:1\"\nacceleration = { mhz = [2000, 1000] }\n\
                [power]\npackage_active_mw = 10000\npackage_idle_mw = 4000\ncore_active_mw = 5000\ncore_idle_mw = 1000\n";
    let mut powered = hardware(text);
    let second = 1_000_000_000;
    // Idle for a second: 4 J. One core at twice the clock takes 8 times 5 W: 10 + 40 + 3 * 1 W.
    powered.occupy(0, Occupant::Runs, second);
    let joules = powered.joules(2 * second);
    assert_eq!(joules, [4.0 + 53.0, 8.0]);
    // A second one: 10 + 2 * 5 + 2 * 1 W from then on.
    powered.occupy(1, Occupant::Runs, 2 * second);
    assert_eq!(powered.joules(3 * second), [57.0 + 22.0, 12.0]);
    powered.switch_off(Mechanism::Power);
    assert!(powered.joules(3 * second).is_empty());
}

#[test]
fn whatever_comes_and_goes_rates_are_those_of_who_is_there() {
    let text = "topology = \"package:2 l2:2(size=4MB) core:2 pipe:2 pu:2\"\nacceleration = { mhz = [3000, 2800, 2500] }\n\
                memory = { latency_ns = 100, bandwidth_mb_s = 300 }\n[[sharing]]\nlevel = \"pipe\"\ngain_percent = 10\n";
    let mut hardware = hardware(text);
    let mut kept = vec![RATE_ONE; hardware.seats.len()];
    let mut occupants = vec![Occupant::Nobody; kept.len()];
    let mut throttled = 0;
    // A fixed sequence (Knuth's MMIX generator).
    let mut random = 1u64;
    for _ in 0..3_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let draw = (random >> 33) as usize;
        let cpu = draw % kept.len();
        occupants[cpu] = match draw / 64 % 4 {
            0 => Occupant::Nobody,
            1 => Occupant::Runs,
            _ => uses(
                draw / 256 % 5,
                1 << (draw / 2048 % 12),
                1 + (draw / 65536 % 40) as u32,
            ),
        };
        for (cpu, rate) in occupy(&mut hardware, cpu, occupants[cpu]) {
            kept[cpu] = rate;
        }
        for (cpu, due) in hardware.rates_anew(&occupants).into_iter().enumerate() {
            assert!(
                due.is_none_or(|due| due == kept[cpu]),
                "CPU {cpu}: {} {due:?}",
                kept[cpu]
            );
        }
        let memory = hardware.memory.as_ref().unwrap();
        throttled += memory.demand_mb_s.iter().filter(|&&demand| demand > 300).count();
    }
    assert!(throttled > 100, "bandwidth was short {throttled} times");
}
