// SPDX-License-Identifier: GPL-2.0-only
//! The equations by their numbers, as the paper prints them, with their values.

use num_rational::BigRational;
use num_traits::ToPrimitive;
use serde::Serialize;

use super::cells::Cell;
use super::{Error, Fairness, Joint, Machine, Others, Scheduler, Speedup, measured};

/// The first and the last number.
pub const EQUATIONS: std::ops::RangeInclusive<u32> = 1..=23;

/// One of the paper's equations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equation {
    /// Its number.
    pub equation: u32,
    /// What it is about.
    pub title: &'static str,
    /// As printed, corrected where the note says so.
    pub formula: &'static str,
    /// Where the print and arithmetic disagree, or what is more general here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
    /// What it yields.
    pub values: Vec<Cell>,
    /// What it yields where that is no rational number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub irrational: Option<f64>,
}

/// Title, formula and note of each equation, from 1.
const TEXTS: [(&str, &str, Option<&str>); 23] = [
    (
        "Ratio of parallel to serial work",
        "(k·I_p/n : k·I_s), the smaller part 1",
        None,
    ),
    ("Speedup", "Performance_{A,A||B} / Performance_{A,A}", None),
    (
        "Fairness",
        "min(speedup_A/speedup_B, speedup_B/speedup_A)",
        Some("of more than two speedups: the least over all pairs"),
    ),
    (
        "Speedup from times (Fig. 6)",
        "t_{A,alone} / (1/2 · (t_{A1} + t_{A2}))",
        Some("of more or fewer than two times together: over their mean"),
    ),
    ("Jitter", "√(1/N · Σ (t_{A,n}/t_{A,avg} - 1)²)", None),
    ("Performance of one thread alone", "a", None),
    ("Performance of n threads alone", "n - 1 + a", None),
    ("Speedup in (S,S), maximum", "1", None),
    ("Speedup in (S,S), minimum", "1/a", None),
    ("Speedup in (S,S), average", "1/2 · (1 + 1/a)", None),
    ("Speedup in (P,P), maximum", "(n - 2 + 2a) / (2(n - 1 + a))", None),
    ("Speedup in (P,P), minimum", "n / (2(n - 1 + a))", None),
    (
        "Speedup in (P,P), average",
        "n/2n · (n-1)/(2n-1) · eq. 11 + 2 · n/2n · n/(2n-1) · ((n-1)/2 + a/2)/(n-1+a) + n/2n · (n-1)/(2n-1) · eq. 12 = 1/2",
        Some("the third term is printed as the first; it is that of no thread on the large core, eq. 12"),
    ),
    ("Speedup of A in (S,P), minimum", "1/(2a)", None),
    ("Speedup of A in (S,P), maximum", "1", None),
    (
        "Speedup of A in (S,P), average",
        "2/(n+1) · (1/n · 1/2 + (n-1)/n · 1/(2a)) + (n-1)/(n+1) · (1/n + (n-1)/n · 1/a) = (n-1+a) / (a(n+1))",
        Some("the text before it prints 2/(n+1), the chance to share a core, as 2(n-1)^-1"),
    ),
    (
        "Speedup of A in (P,S), maximum",
        "(n - 3/2 + a) / (n - 1 + a)",
        None,
    ),
    ("Speedup of A in (P,S), minimum", "(n - 1) / (n - 1 + a)", None),
    (
        "Speedup of A in (P,S), average",
        "1/(n-1+a) · (2/(n+1) · (1/n · (n-1+a/2) + (n-1)/n · (n-3/2+a)) + (n-1)/(n+1) · (1/n · (n-1) + (n-1)/n · (n-2+a))) \
         = n/(n+1)",
        Some("printed as Perf, but divided by the performance alone"),
    ),
    ("Fairness in (S,S), lower bound", "1/a", None),
    ("Fairness in (P,P), lower bound", "n / (n - 2 + 2a)", None),
    (
        "Fairness in (S,P), lower bound, the serial program at its worst",
        "(n - 1 + a) / (2a(n - 3/2 + a))",
        None,
    ),
    (
        "Fairness in (S,P), lower bound, the parallel program at its worst",
        "(n - 1) / (n - 1 + a)",
        None,
    ),
];

/// For more than two programs.
const AMONG_MORE: &str = "as printed for two programs; computed for more: in 8 to 19 all programs beside A are in B's \
                          phase, in 22 and 23 all but one are parallel";

impl Equation {
    /// Equation 6 to 23 for this machine, from 8 on for this many programs (k, 2 in the paper).
    ///
    /// # Errors
    /// If there is no such equation, it needs values (1 to 5), or the number of programs is out of range.
    pub fn new(equation: u32, machine: &Machine, programs: u32) -> Result<Self, Error> {
        machine.check_programs(programs)?;
        let joint = |index: usize| -> Result<Speedup, Error> {
            let Joint { a, b } = Joint::ALL[index];
            machine.speedup_beside(a, Others::all(b, programs - 1), Scheduler::Baseline)
        };
        let fairness = |of| machine.fairness_bound_among(of, programs);
        let (column, value) = match equation {
            1..=5 => return Err(Error::NeedsValues { equation }),
            6 => ("performance", machine.serial()),
            7 => ("performance", machine.parallel()),
            8 => ("speedup", joint(0)?.max),
            9 => ("speedup", joint(0)?.min),
            10 => ("speedup", joint(0)?.avg),
            11 => ("speedup", joint(3)?.max),
            12 => ("speedup", joint(3)?.min),
            13 => ("speedup", joint(3)?.avg),
            14 => ("speedup", joint(1)?.min),
            15 => ("speedup", joint(1)?.max),
            16 => ("speedup", joint(1)?.avg),
            17 => ("speedup", joint(2)?.max),
            18 => ("speedup", joint(2)?.min),
            19 => ("speedup", joint(2)?.avg),
            20 => ("fairness", fairness(Fairness::BothSerial)?),
            21 => ("fairness", fairness(Fairness::BothParallel)?),
            22 => ("fairness", fairness(Fairness::SerialLoses)?),
            23 => ("fairness", fairness(Fairness::ParallelLoses)?),
            _ => return Err(Error::NoEquation { equation }),
        };
        let mut found = Self::with(equation, vec![Cell { column, value }]);
        if programs > 2 && equation >= 8 {
            found.note = Some(AMONG_MORE);
        }
        Ok(found)
    }

    /// Equation 1 to 5 for values that are measured or given: see [`measured`] for which. `cores` is n, for eq. 1.
    ///
    /// # Errors
    /// If it is another equation, or the values are not those that it takes.
    pub fn of_values(equation: u32, values: &[BigRational], cores: u32) -> Result<Self, Error> {
        let cell = |column, value| Cell { column, value };
        Ok(match equation {
            1 => {
                let (parallel, serial) = measured::ratio(values, cores)?;
                Self::with(1, vec![cell("parallel", parallel), cell("serial", serial)])
            }
            2 => Self::with(2, vec![cell("speedup", measured::speedup(values)?)]),
            3 => Self::with(3, vec![cell("fairness", measured::fairness(values)?)]),
            4 => Self::with(4, vec![cell("speedup", measured::speedup_from_times(values)?)]),
            5 => {
                let squared = measured::jitter_squared(values)?;
                let jitter = squared.to_f64().map(f64::sqrt);
                Self {
                    irrational: jitter,
                    ..Self::with(5, vec![cell("jitter squared", squared)])
                }
            }
            6..=23 => return Err(Error::TakesNoValues { equation }),
            _ => return Err(Error::NoEquation { equation }),
        })
    }

    fn with(equation: u32, values: Vec<Cell>) -> Self {
        let (title, formula, note) = TEXTS[equation as usize - 1];
        Self {
            equation,
            title,
            formula,
            note,
            values,
            irrational: None,
        }
    }
}
