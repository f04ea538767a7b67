// SPDX-License-Identifier: GPL-2.0-only
//! Values that several programs take on their command lines.

use std::time::Duration;

use crate::memory::{self, LINE_BYTES};

/// The most threads of a program: some ten thousand more, and a process has no memory map left for a stack.
pub const MOST_THREADS: u32 = 4096;

/// A number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{text}` is not a number above zero"))
}

/// Seconds: a time of at least a nanosecond.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let duration =
        Duration::try_from_secs_f64(positive(text)?).map_err(|error| format!("`{text}`: {error}"))?;
    if duration.is_zero() {
        return Err(format!("`{text}` s is less than a nanosecond"));
    }
    Ok(duration)
}

/// The size of a working set, such as 65536, 64K or 1G, in powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let range = LINE_BYTES..=memory::Spec::MAX_BYTES;
    let (digits, scale) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 1 << 10),
        Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
        Some((at, 'G' | 'g')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits
        .parse()
        .ok()
        .and_then(|number: u64| number.checked_mul(scale));
    bytes
        .filter(|bytes| range.contains(bytes))
        .ok_or_else(|| format!("`{text}` is no size from {LINE_BYTES} to 64G, such as 65536, 64K or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_above_zero_are_taken() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for nonsense in ["0", "-1", "1e-30", "1e30", "nan", "inf", "ten", ""] {
            assert!(seconds(nonsense).is_err(), "{nonsense}");
        }
        assert!(positive("1e30").is_ok() && positive("nan").is_err());
    }
}
