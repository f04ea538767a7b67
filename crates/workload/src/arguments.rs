// SPDX-License-Identifier: GPL-2.0-only
//! Values that several programs take on their command lines.

use std::time::Duration;

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
