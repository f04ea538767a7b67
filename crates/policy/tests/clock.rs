// SPDX-License-Identifier: GPL-2.0-only
//! Readings of a clock that is late at times.

use threadwise_policy::clock_ahead;

#[test]
fn an_old_reading_of_a_clock_is_noticed() {
    let second = 1_000_000_000;
    // Ahead by 7 ms, read 3 ms late, a millisecond after it was not.
    assert_eq!(
        clock_ahead(7_000_000, 1_000_000, 4_000_000),
        7_000_000 - 1_000_000 / 64
    );
    assert_eq!(clock_ahead(7_000_000, 1_000_000, 7_000_100), 7_000_100);
    // Another CPU read it since.
    assert_eq!(clock_ahead(7_000_000, -50, 4_000_000), 7_000_000);
    // Read late for long, it is behind by a 64th of that time.
    let mut ahead = 0;
    for late in 1..=1_000 {
        ahead = clock_ahead(ahead, 4_000, -4_000 * late);
    }
    assert_eq!(ahead, -62_000);
    // Set back.
    assert_eq!(clock_ahead(0, 0, -2 * second), -2 * second);
}
