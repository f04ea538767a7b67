// SPDX-License-Identifier: GPL-2.0-only
//! Weights as sched_ext has them: 1 to 10,000, 100 for nice 0 (`sched_weight_to_cgroup()`).

/// Weights of nice -20 to 19, 1024 for nice 0 (kernel/sched/core.c, `sched_prio_to_weight`).
const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// What the kernel's own scheduler goes by for a weight as sched_ext has it, 1024 for nice 0: that of the nice value. Where two
/// of these have the same it is the one that goes first: nice 14 for 15, 17 for 18, and 19 for SCHED_IDLE, which is 3 there.
pub(crate) fn load_of(weight: u32) -> u32 {
    let of_nice = NICE_WEIGHTS.iter().find(|&&load| rounded(load) == weight);
    of_nice.copied().unwrap_or((weight * 1024 / 100).max(1))
}

fn rounded(load: u32) -> u32 {
    ((load * 100 + 512) / 1024).clamp(1, 10_000)
}

/// That of SCHED_IDLE, `WEIGHT_IDLEPRIO` of 1024: the least there is.
pub(super) const OF_IDLE: u32 = 1;

/// The weight, 1 to 10,000, of a nice value; those beyond -20 and 19 count as these.
pub fn of_nice(nice: i32) -> u32 {
    rounded(NICE_WEIGHTS[nice.saturating_add(20).clamp(0, 39) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_have_the_kernels_weights() {
        // What /sys/fs/cgroup's cpu.weight says of cpu.weight.nice (kernel/sched/core.c, `cpu_weight_nice_read_s64()`).
        assert_eq!([-20, -5, 0, 1, 19].map(of_nice), [8_668, 305, 100, 80, 1]);
        assert_eq!([-21, 20].map(of_nice), [-20, 19].map(of_nice));
        let loads = [-20, -5, 0, 1, 14, 15, 17, 18, 19].map(|nice| load_of(of_nice(nice)));
        assert_eq!(loads, [88_761, 3_121, 1_024, 820, 45, 45, 23, 23, 15]);
        assert_eq!([200, 10_000].map(load_of), [2_048, 102_400]);
    }
}
