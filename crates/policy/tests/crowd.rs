// SPDX-License-Identifier: GPL-2.0-only
//! What the sums that CPUs charge are counted to come to.

use threadwise_policy::{BOOST_WHOLE, Charged, Crowd, MEAN_WEIGHT_ONE};

const MS: u64 = 1_000_000;

/// How long the machine has been up when a crowd is counted first.
const UPTIME: u64 = 60_000 * MS;

/// After eight CPUs ran serial tasks of this weight beside others for so long, and nothing else.
fn charged(ms: u64, weight: u64) -> Charged {
    Charged {
        serial_ns: 8 * ms * MS,
        beside_ns: 8 * ms * MS,
        weighed_ns: 8 * ms * MS * weight,
    }
}

#[test]
fn sums_count_from_where_they_were_counted() {
    let mut crowd = Crowd::default();
    assert_eq!(
        (crowd.boost_left(), crowd.mean_weight()),
        (BOOST_WHOLE, MEAN_WEIGHT_ONE)
    );
    // All of the first ones count, as that is long after the machine was booted; but they are spread over that time.
    crowd.count(&charged(100, 1), UPTIME, 8);
    assert_eq!((crowd.boost_left(), crowd.mean_weight()), (BOOST_WHOLE, 1 << 16));
    // From then on a quarter of what is new: eight serial tasks on eight CPUs leave nothing of boosts in the end.
    let mut left = vec![];
    for nr in 1..=20 {
        crowd.count(&charged(100 + 16 * nr, 1), UPTIME + 16 * MS * nr, 8);
        left.push(crowd.boost_left());
    }
    assert_eq!(left[..2], [BOOST_WHOLE, BOOST_WHOLE]);
    assert!(left.is_sorted_by(|before, after| before >= after), "{left:?}");
    assert!(left[19] < BOOST_WHOLE / 50, "{left:?}");
    assert!(crowd.mean_weight() == 1 << 16, "{crowd:?}");
}

#[test]
fn it_is_counted_each_16_ms_whatever_clocks_say() {
    let mut crowd = Crowd::default();
    crowd.count(&charged(0, 100), UPTIME, 8);
    for early in [UPTIME + 16 * MS - 1, UPTIME, UPTIME - MS, UPTIME - 1_000 * MS] {
        crowd.count(&charged(1_000, 1), early, 8);
        assert_eq!(crowd.mean_weight(), MEAN_WEIGHT_ONE);
    }
    crowd.count(&charged(16, 1), UPTIME + 16 * MS, 8);
    assert_eq!(crowd.mean_weight(), (3 * MEAN_WEIGHT_ONE + (1 << 16)) / 4);
}
