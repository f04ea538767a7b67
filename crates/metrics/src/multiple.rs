// SPDX-License-Identifier: GPL-2.0-only
//! Many comparisons at a time: of twenty things that did not change, one looks changed at the 5 % level.

/// The p values adjusted by Holm's method (Scandinavian Journal of Statistics 6, 1979): if those below 0.05 are taken for
/// changes, the probability that even one of them is none is at most 5 %, however they depend on each other. In the
/// order of `ps`, each from 0 to 1.
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|&a, &b| ps[a].total_cmp(&ps[b]));
    let mut adjusted = vec![0.0; ps.len()];
    let mut least = 0.0_f64;
    for (place, index) in order.into_iter().enumerate() {
        least = least.max(ps[index] * (ps.len() - place) as f64).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_values_of_r() {
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") in R 4.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (value, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((value - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn none_becomes_more_certain_and_the_order_stays(ps in vec(0.0..=1.0f64, 0..20)) {
            let adjusted = holm(&ps);
            for (p, one) in ps.iter().zip(&adjusted) {
                prop_assert!(p <= one && *one <= 1.0);
                for (q, other) in ps.iter().zip(&adjusted) {
                    prop_assert!(p > q || one <= other);
                }
            }
        }
    }
}
