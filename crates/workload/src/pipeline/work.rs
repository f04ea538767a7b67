// SPDX-License-Identifier: GPL-2.0-only
//! The integer work of `intadd`, `intmul` and `intdiv`: chains in which each instruction needs the one before.

use std::num::NonZeroU64;

use super::variant::Operation;

/// Makes the chain of multiplications and additions visit many values; 2^64 / golden ratio, odd.
const OPERAND: u64 = 0x9e37_79b9_7f4a_7c15;
/// A divisor between 2^31 and 2^32 and its complement as a dividend above 2^63: divisions of 64 bits, never a short one.
const DIVISOR: NonZeroU64 = NonZeroU64::new(0x9e37_79b1).expect("not zero");
const HIGH_BIT: u64 = 1 << 63;

/// Performs `operations` of one kind on `start`, one after the other, and returns the result.
#[inline(never)]
pub fn perform(operation: Operation, operations: u32, start: u64) -> u64 {
    let operand = opaque(OPERAND);
    match operation {
        Operation::Add => chain(operations, start, |x| x.wrapping_add(operand)),
        Operation::Multiply => chain(operations, start, |x| x.wrapping_mul(operand)),
        Operation::Divide => {
            let divisor = NonZeroU64::new(opaque(DIVISOR.get())).unwrap_or(DIVISOR);
            chain(operations, start, |x| (x | HIGH_BIT) / divisor)
        }
    }
}

/// Applies `step` so many times, eight in a straight line: a processor that jumps back only every other cycle would
/// else have additions as slow as that.
#[inline(always)]
fn chain(times: u32, start: u64, step: impl Fn(u64) -> u64) -> u64 {
    let mut x = start;
    for _ in 0..times / 8 {
        for _ in 0..8 {
            x = opaque(step(x));
        }
    }
    for _ in 0..times % 8 {
        x = opaque(step(x));
    }
    x
}

/// `x`, about which the compiler then knows nothing, so that it can neither drop nor merge what computed it.
///
/// `core::hint::black_box` would do, but takes its argument through memory, and a store and a load at each step cost
/// more than an addition.
#[inline(always)]
fn opaque(x: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    {
        let mut x = x;
        // SAFETY: there is no instruction, only a comment that names the register.
        unsafe { std::arch::asm!("/* {} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
        x
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    std::hint::black_box(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_performed_as_often_as_asked() {
        let folded = |step: fn(u64) -> u64, times: u32| (0..times).fold(5, |x, _| step(x));
        for times in [0, 1, 2, 7, 1000] {
            let add = folded(|x| x.wrapping_add(OPERAND), times);
            let multiply = folded(|x| x.wrapping_mul(OPERAND), times);
            let divide = folded(|x| (x | HIGH_BIT) / DIVISOR, times);
            assert_eq!(perform(Operation::Add, times, 5), add);
            assert_eq!(perform(Operation::Multiply, times, 5), multiply);
            assert_eq!(perform(Operation::Divide, times, 5), divide);
        }
    }
}
