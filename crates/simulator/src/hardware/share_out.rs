// SPDX-License-Identifier: GPL-2.0-only
//! Capacity that several want: that of a cache, and bandwidth.

/// Gives each what it wants, or, where that is more than there is, as much for each unit of weight, but to nobody more than
/// it wants (weighted max-min fairness: Bertsekas and Gallager, Data Networks, 1992, section 6.5.2).
///
/// `wants` are amounts and weights above 0. What integer division leaves over nobody gets.
pub(super) fn share_out(wants: &[(u64, u64)], there_is: u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    // Who wants least for its weight first; cross products compare the quotients exactly.
    order.sort_by(|&a, &b| {
        let product = |x: usize, y: usize| u128::from(wants[x].0) * u128::from(wants[y].1);
        product(a, b).cmp(&product(b, a)).then(a.cmp(&b))
    });
    let mut left = there_is;
    let mut weights: u128 = wants.iter().map(|&(_, weight)| u128::from(weight)).sum();
    let mut given = vec![0; wants.len()];
    for nr in order {
        let (wanted, weight) = wants[nr];
        let fair = (u128::from(left) * u128::from(weight) / weights) as u64;
        given[nr] = wanted.min(fair);
        left -= given[nr];
        weights -= u128::from(weight);
    }
    given
}
