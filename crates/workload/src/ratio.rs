// SPDX-License-Identifier: GPL-2.0-only
//! The ratio of parallel to serial work that labels a program.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Parallel to serial work of a program, p:s, each divided by the number of cores it uses (thread-essence, eq. 1).
///
/// A (1:1) program that runs alone on equal cores spends equal time in its parallel and in its serial phases.
/// Each part is a positive number or infinite, and at most one is infinite: `inf:1` is a program that is always
/// parallel, `1:inf` one that is always serial. Only the quotient matters: `2:2` behaves like `1:1`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio {
    parallel: f64,
    serial: f64,
}

impl Ratio {
    /// Always parallel, `inf:1`.
    pub const PARALLEL: Self = Self {
        parallel: f64::INFINITY,
        serial: 1.0,
    };
    /// Always serial, `1:inf`.
    pub const SERIAL: Self = Self {
        parallel: 1.0,
        serial: f64::INFINITY,
    };

    /// The ratio `parallel`:`serial`; [`f64::INFINITY`] stands for the infinite part.
    ///
    /// # Errors
    /// If a part is not positive (NaN included) or both are infinite.
    pub fn new(parallel: f64, serial: f64) -> Result<Self, ParseRatioError> {
        let value = || format!("{parallel}:{serial}");
        for part in [parallel, serial] {
            if part.is_nan() || part <= 0.0 {
                return Err(ParseRatioError::Part {
                    part: part.to_string(),
                    value: value(),
                });
            }
        }
        if parallel.is_infinite() && serial.is_infinite() {
            return Err(ParseRatioError::BothInfinite { value: value() });
        }
        Ok(Self { parallel, serial })
    }

    /// The parallel part p, in (0, inf].
    pub fn parallel(self) -> f64 {
        self.parallel
    }

    /// The serial part s, in (0, inf].
    pub fn serial(self) -> f64 {
        self.serial
    }

    /// p/(p+s), in `[0, 1]`: the share of time in parallel phases when alone on equal cores. 1 for `inf:1`.
    pub fn parallel_share(self) -> f64 {
        1.0 / (1.0 + self.serial / self.parallel)
    }

    /// s/(p+s), in `[0, 1]`: the share of time in serial phases when alone on equal cores. 1 for `1:inf`.
    pub fn serial_share(self) -> f64 {
        1.0 / (1.0 + self.parallel / self.serial)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // f64 prints its infinity as "inf", which is what the parser reads.
        write!(f, "{}:{}", self.parallel, self.serial)
    }
}

impl FromStr for Ratio {
    type Err = ParseRatioError;

    /// Reads `P:S`; each part is a decimal number above zero, `inf` or `∞`. Spaces around a part are ignored.
    fn from_str(value: &str) -> Result<Self, Self::Err> {
        let (parallel, serial) = value.split_once(':').ok_or_else(|| ParseRatioError::Form {
            value: value.to_owned(),
        })?;
        let (parallel, serial) = (parse_part(parallel, value)?, parse_part(serial, value)?);
        if parallel.is_infinite() && serial.is_infinite() {
            return Err(ParseRatioError::BothInfinite {
                value: value.to_owned(),
            });
        }
        Ok(Self { parallel, serial })
    }
}

/// One part of `value`; a number too large for `f64` is refused rather than taken for infinity.
fn parse_part(part: &str, value: &str) -> Result<f64, ParseRatioError> {
    match part.trim() {
        "inf" | "∞" => Ok(f64::INFINITY),
        text => text
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number > 0.0)
            .ok_or_else(|| ParseRatioError::Part {
                part: text.to_owned(),
                value: value.to_owned(),
            }),
    }
}

impl TryFrom<String> for Ratio {
    type Error = ParseRatioError;

    fn try_from(value: String) -> Result<Self, Self::Error> {
        value.parse()
    }
}

impl From<Ratio> for String {
    fn from(ratio: Ratio) -> Self {
        ratio.to_string()
    }
}

/// Why a text is not a [`Ratio`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRatioError {
    /// There is no colon.
    #[error("`{value}` is not a ratio: write PARALLEL:SERIAL, such as 1:1, 4:1, inf:1 or 1:inf")]
    Form {
        /// The whole text.
        value: String,
    },
    /// One part is not a positive number or `inf`.
    #[error(
        "`{part}` in the ratio `{value}` is not a positive number or inf (write inf:1 for a program without serial \
         phases, 1:inf for one without parallel phases)"
    )]
    Part {
        /// The offending part.
        part: String,
        /// The whole text.
        value: String,
    },
    /// Both parts are infinite.
    #[error("both parts of the ratio `{value}` are infinite: at most one may be")]
    BothInfinite {
        /// The whole text.
        value: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_ratios_of_the_paper() {
        for (text, share) in [
            ("1:1", 0.5),
            ("4:1", 0.8),
            ("1:4", 0.2),
            ("inf:1", 1.0),
            ("1:inf", 0.0),
            ("∞:1", 1.0),
        ] {
            let ratio: Ratio = text.parse().unwrap();
            assert!((ratio.parallel_share() - share).abs() < 1e-15, "{text}");
            assert!((ratio.serial_share() - (1.0 - share)).abs() < 1e-15, "{text}");
        }
        assert_eq!("∞:1".parse(), Ok(Ratio::PARALLEL));
        assert_eq!("1:inf".parse(), Ok(Ratio::SERIAL));
    }

    #[test]
    fn refuses_what_is_no_ratio_and_names_it() {
        let bad = [
            "", "1", ":", "1:", ":1", "0:0", "0:1", "1:0", "inf:inf", "∞:inf", "-1:1", "1:-inf", "nan:1",
            "1:2:3", "a:b",
        ];
        for text in bad.into_iter().chain(["1e999:1", "1,5:1", "infinity:1", "-0:1"]) {
            let error = text.parse::<Ratio>().unwrap_err();
            assert!(
                error.to_string().contains(&format!("`{text}`")),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn new_has_the_rules_of_the_parser() {
        for (p, s) in [
            (0.0, 1.0),
            (1.0, -1.0),
            (f64::NAN, 1.0),
            (f64::INFINITY, f64::INFINITY),
        ] {
            assert!(Ratio::new(p, s).is_err(), "{p}:{s}");
        }
        assert_eq!(Ratio::new(f64::INFINITY, 1.0), Ok(Ratio::PARALLEL));
    }

    #[test]
    fn travels_as_text_in_json() {
        let json = serde_json::to_string(&Ratio::PARALLEL).unwrap();
        assert_eq!(json, "\"inf:1\"");
        assert_eq!(serde_json::from_str::<Ratio>(&json).unwrap(), Ratio::PARALLEL);
        assert!(serde_json::from_str::<Ratio>("\"0:0\"").is_err());
    }

    fn part() -> impl Strategy<Value = f64> {
        prop_oneof![9 => 1e-300..1e300f64, 1 => Just(f64::INFINITY)]
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(p in part(), s in part()) {
            prop_assume!(p.is_finite() || s.is_finite());
            let ratio = Ratio::new(p, s).unwrap();
            prop_assert_eq!(ratio.to_string().parse::<Ratio>(), Ok(ratio));
            prop_assert!((ratio.parallel_share() + ratio.serial_share() - 1.0).abs() < 1e-12);
        }

        #[test]
        fn no_text_panics_and_none_yields_a_bad_ratio(text in "\\PC*") {
            if let Ok(ratio) = text.parse::<Ratio>() {
                prop_assert!(Ratio::new(ratio.parallel(), ratio.serial()).is_ok());
            }
        }

        #[test]
        fn no_pair_of_near_numbers_panics(text in "[-+]?[0-9a-z.∞]{0,6}:[-+]?[0-9a-z.∞]{0,6}") {
            if let Ok(ratio) = text.parse::<Ratio>() {
                prop_assert!((0.0..=1.0).contains(&ratio.parallel_share()));
            }
        }
    }
}
