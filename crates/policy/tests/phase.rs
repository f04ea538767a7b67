// SPDX-License-Identifier: GPL-2.0-only
//! Which phase a program is in, and since when.

mod common;

use proptest::prelude::*;
use threadwise_policy::{Class, Group, Tunables, is_counted, phase_began, phase_ended};

use common::{MS, tunables};

#[test]
fn the_paper_s_threshold_is_more_than_two() {
    let group = Group::default();
    let classes = [(); 4].map(|()| tunables().class_of(group.add(), false, false));
    assert_eq!(
        classes,
        [Class::Serial, Class::Serial, Class::Parallel, Class::Parallel]
    );
    assert_eq!(tunables().class_of(group.nr_ready(), false, true), Class::Senior);
    assert_eq!(
        tunables().class_of(1, false, true),
        Class::Serial,
        "serial goes before senior"
    );
    assert_eq!(tunables().class_of(9, true, true), Class::Kernel);
    assert_eq!(Class::try_from(4), Err(4));
}

#[test]
fn counts_survive_concurrency() {
    let group = Group::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    assert!((1..=8).contains(&group.add()));
                    assert!(group.sub() < 8);
                }
            });
        }
    });
    assert_eq!(group.nr_ready(), 0);
}

#[test]
fn programs_that_can_become_parallel_are_counted() {
    for (nr_threads, serial_threshold) in (0..6).flat_map(|nr| (0..6).map(move |threshold| (nr, threshold))) {
        let tunables = Tunables {
            serial_threshold,
            ..tunables()
        };
        let parallel =
            (0..=nr_threads).any(|ready| tunables.class_of(ready, false, false) == Class::Parallel);
        assert_eq!(
            is_counted(nr_threads, serial_threshold),
            parallel,
            "{nr_threads} {serial_threshold}"
        );
    }
}

#[test]
fn a_phase_begins_and_ends_once() {
    let group = Group::default();
    let began: Vec<bool> = (0..5).map(|_| phase_began(group.add(), 2)).collect();
    assert_eq!(began, [false, false, true, false, false]);
    let ended: Vec<bool> = (0..5).map(|_| phase_ended(group.sub(), 2)).collect();
    assert_eq!(ended, [false, false, true, false, false]);
}

#[test]
fn a_phase_may_last_for_days() {
    let group = Group::default();
    for _ in 0..3 {
        group.add();
    }
    let (began, hour) = (5_000 * MS, 3_600_000 * MS);
    group.begin(began, 0, 0);
    for hours in [1, 30, 45, 78] {
        let age = group.age_ns(began + hours * hour);
        assert!((hours * hour).abs_diff(age) < MS, "{hours} h: {age}");
    }
    // Another CPU's clock is behind.
    assert_eq!(group.age_ns(began - 10 * MS), 0);
}

proptest! {
    #[test]
    fn a_stamp_is_found_again(vtime: u64, ahead in 0..1u64 << 46) {
        let group = Group::default();
        group.begin(0, vtime, 0);
        let found = group.base(vtime.wrapping_add(ahead));
        prop_assert!(vtime.wrapping_sub(found) < 1 << 16, "{} for {}", found, vtime);
        let found = group.base(vtime.wrapping_sub(ahead));
        prop_assert!(vtime.wrapping_sub(found) < 1 << 16, "{} for {}", found, vtime);
    }
}
