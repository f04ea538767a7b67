// SPDX-License-Identifier: GPL-2.0-only
//! What a task weighs among those that run (`policy/weight.h`).

mod ffi {
    unsafe extern "C" {
        pub safe fn tw_weighed_ns(weight: u32, ran_ns: u64) -> u64;
        pub safe fn tw_mean_weight(before: u32, ran_ns: u64, weighed_ns: u64, in_ns: u64) -> u32;
        pub safe fn tw_is_light(weight: u32) -> bool;
        pub safe fn tw_weight_among(weight: u32, mean: u32) -> u32;
    }
}

/// The mean weight of tasks of nice 0, in 65536ths (`TW_WEIGHT_ONE`).
pub const MEAN_WEIGHT_ONE: u32 = 6_553_600;

/// What counts of a task of this weight that ran for so many nanoseconds towards the mean of those that run.
pub fn weighed_ns(weight: u32, ran_ns: u64) -> u64 {
    ffi::tw_weighed_ns(weight, ran_ns)
}

/// The mean weight of those that run, in 65536ths, so much before, after they ran for `ran_ns` in sum in the last `in_ns` and weighed
/// so much ([`weighed_ns`]).
pub fn mean_weight(before: u32, ran_ns: u64, weighed_ns: u64, in_ns: u64) -> u32 {
    ffi::tw_mean_weight(before, ran_ns, weighed_ns, in_ns)
}

/// Whether a task that weighs so much among those that run ([`weight_among`]) is light beside them.
pub fn is_light(weight: u32) -> bool {
    ffi::tw_is_light(weight)
}

/// What a task of this weight weighs among such that weigh so much on the mean, in 65536ths: 1 to 10000; 100 for nice 0, 50 for one
/// lighter than half of that among its like.
pub fn weight_among(weight: u32, mean: u32) -> u32 {
    ffi::tw_weight_among(weight, mean)
}
