// SPDX-License-Identifier: GPL-2.0-only
//! Two programs of fixed work in two orders (thread-essence, Fig. 6).
//!
//! Two benchmarks run beside each other: the first runs program A, then B; the second runs B, then A. Their work is the
//! same, so that they end nearly together, and next to no time is measured in which one of them is alone. Whatever
//! remains of it counts, as it does in the paper.

use serde::{Deserialize, Serialize};

use crate::error::{Error, check_positive, in_range};

const WHAT: &str = "two orders";

/// The run times in one measurement, in seconds; all above zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwoOrders {
    /// Of A, then of B.
    first: [f64; 2],
    /// Of B, then of A.
    second: [f64; 2],
}

impl TwoOrders {
    /// The times of A and B in the first benchmark, and of B and A in the second, in seconds.
    ///
    /// # Errors
    /// If a time is not finite and above zero, or so near to zero that there is no throughput.
    pub fn new(first: [f64; 2], second: [f64; 2]) -> Result<Self, Error> {
        check_positive(WHAT, &[first, second].concat(), 4)?;
        let orders = Self { first, second };
        in_range(WHAT, orders.throughput())?;
        Ok(orders)
    }

    /// How long each benchmark took: t_B1 and t_B2 of the figure.
    pub fn benchmark_times(&self) -> [f64; 2] {
        [self.first, self.second].map(|times| times.iter().sum())
    }

    /// Work per second, where the unit of work is A and B once: the throughputs of the two benchmarks, added up as
    /// those of programs are (section V).
    pub fn throughput(&self) -> f64 {
        self.benchmark_times().iter().map(|time| 1.0 / time).sum()
    }

    /// The mean time of A and that of B over the two orders: what eq. 4 compares the time alone with.
    pub fn mean_times(&self) -> [f64; 2] {
        let [a_first, b_second] = self.first;
        let [b_first, a_second] = self.second;
        [(a_first + a_second) / 2.0, (b_first + b_second) / 2.0]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values() {
        // A takes 6 s and 10 s, B 14 s and 10 s: the benchmarks take 20 s each.
        let orders = TwoOrders::new([6.0, 14.0], [10.0, 10.0]).unwrap();
        assert_eq!(orders.benchmark_times(), [20.0, 20.0]);
        assert_eq!(orders.throughput(), 0.1);
        assert_eq!(orders.mean_times(), [8.0, 12.0]);
    }

    #[test]
    fn bad_times_are_named() {
        let error = TwoOrders::new([1.0, 2.0], [3.0, 0.0]).unwrap_err();
        assert_eq!(error.to_string(), "two orders: value 3 is 0, not above zero");
        assert!(TwoOrders::new([1e-320, 1e-320], [1.0, 1.0]).is_err());
    }

    fn sane() -> impl Strategy<Value = f64> {
        1e-3..1e6f64
    }

    proptest! {
        #[test]
        fn which_program_is_called_a_does_not_matter(a in sane(), b in sane(), c in sane(), d in sane()) {
            let orders = TwoOrders::new([a, b], [c, d]).unwrap();
            let renamed = TwoOrders::new([c, d], [a, b]).unwrap();
            let close = |x: f64, y: f64| (x / y - 1.0).abs() < 1e-12;
            prop_assert!(close(orders.throughput(), renamed.throughput()));
            let [x, y] = orders.mean_times();
            let [y2, x2] = renamed.mean_times();
            prop_assert!(close(x, x2) && close(y, y2));
        }
    }
}
