// SPDX-License-Identifier: GPL-2.0-only
//! What CPUs are worth that share a core.

mod common;

use threadwise_policy::{Class, Seat, looks_for_seat};

use common::MS;

/// The seats of different worth, the best first: on idle cores, on shared ones, and beside a serial task.
fn seats() -> [Seat; 9] {
    let seat = |shared, beside_serial, same_cpu, same_core, first| Seat {
        shared,
        beside_serial,
        same_cpu,
        same_core,
        first,
    };
    [
        seat(false, false, true, true, false),
        seat(false, false, false, true, false),
        seat(false, false, false, false, true),
        seat(true, false, true, true, false),
        seat(true, false, false, true, true),
        seat(true, false, false, false, true),
        seat(true, true, true, true, false),
        seat(true, true, false, true, true),
        seat(true, true, false, false, true),
    ]
}

#[test]
fn whole_cores_come_before_siblings_those_of_serial_tasks_last_and_the_one_that_was_left_first() {
    let ranks = seats().map(|seat| seat.rank());
    assert!(
        ranks.is_sorted_by(|a, b| a < b) && ranks[0] == Some(0),
        "{ranks:?}"
    );
    let second = Seat {
        first: false,
        ..seats()[2]
    };
    assert_eq!(second.rank(), None, "the second hardware thread of an idle core");
}

#[test]
fn a_task_leaves_a_core_that_it_shares_but_a_bound_kernel_thread_does_not() {
    let leaves_for = |class: Class, shared, beside_serial| {
        let limit = class.leaves_seat_for(shared, beside_serial);
        seats()
            .into_iter()
            .filter(|seat| seat.rank() < Some(limit))
            .count()
    };
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert_eq!(leaves_for(class, false, false), 0);
        assert_eq!(leaves_for(class, true, false), 3, "whole cores only");
    }
    assert_eq!(leaves_for(Class::Kernel, true, true), 0);
    // The core of a serial task is left to it also for one that another parallel task shares.
    assert_eq!(leaves_for(Class::Parallel, true, true), 6);
    assert_eq!(leaves_for(Class::Senior, true, true), 6);
    assert_eq!(leaves_for(Class::Serial, true, true), 3);
}

#[test]
fn who_looked_for_an_idle_core_in_vain_does_not_do_so_again_at_once() {
    let looked_at = 5000 * MS;
    let looks = |limit, now_ns| looks_for_seat(limit, now_ns, looked_at);
    assert!(!looks(Seat::SHARED, looked_at) && !looks(Seat::SHARED, looked_at + MS / 2));
    assert!(looks(Seat::SHARED, looked_at + 2 * MS) && looks_for_seat(Seat::SHARED, looked_at, 0));
    // Seats that are not beside a serial task are no cores that the kernel may have lost, and nobody leaves the best one.
    assert!(looks(Seat::BESIDE_SERIAL, looked_at) && !looks(Seat::BEST, looked_at + 2 * MS));
}
