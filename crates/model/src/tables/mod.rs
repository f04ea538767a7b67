// SPDX-License-Identifier: GPL-2.0-only
//! Tables 1 to 6 of thread-essence, exactly.
//!
//! What each of several programs gets in each joint phase, relative to running alone ([`Speedup`]), and what follows
//! for fairness. All values are rational numbers of n (cores), a (how much faster one of them is) and k (programs).
//! [`Table`] has them as rows of cells, [`Equation`] by the paper's numbers; the crate's first page says where each is
//! computed.

mod beside;
mod cells;
mod equations;
pub mod measured;
mod speedup;

pub use beside::Others;
pub use cells::{Cell, Row, Table};
pub use equations::{EQUATIONS, Equation};
pub use num_rational::BigRational as Rational;
pub use speedup::{Fairness, Joint, Machine, Phase, Scheduler, Speedup};

/// Why there is no such value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The phases of two programs differ only where there are two cores.
    #[error("{cores} cores are out of range: the analysis is about 2 or more")]
    Cores {
        /// What was given.
        cores: u32,
    },
    /// Beyond 2 it would pay to leave a slow core idle, which the analysis does not do.
    #[error("an asymmetry of {asymmetry} is out of range: the analysis is about 1 (equal cores) to 2")]
    Asymmetry {
        /// What was given.
        asymmetry: Rational,
    },
    /// Each serial program has a core.
    #[error(
        "{programs} programs are out of range: the analysis is about 2 to {cores}, as many as there are cores"
    )]
    Programs {
        /// What was given.
        programs: u32,
        /// n.
        cores: u32,
    },
    /// There are six.
    #[error("there is no table {table}: the analysis has 1 to 6")]
    NoTable {
        /// What was asked for.
        table: u32,
    },
    /// There are 23.
    #[error("there is no equation {equation}: the paper has 1 to 23")]
    NoEquation {
        /// What was asked for.
        equation: u32,
    },
    /// It is about measured or given quantities.
    #[error("equation {equation} is about values that are measured or given, not about n and a: give them")]
    NeedsValues {
        /// Its number.
        equation: u32,
    },
    /// It is about n and a.
    #[error("equation {equation} is about n and a and takes no values: only 1 to 5 do")]
    TakesNoValues {
        /// Its number.
        equation: u32,
    },
    /// The number of values is wrong, or one is not above 0.
    #[error("equation {equation} takes {takes}, each above 0")]
    Values {
        /// Its number.
        equation: u32,
        /// What is expected.
        takes: &'static str,
    },
    /// It is about equal cores.
    #[error("table 2 is table 1 for equal cores: ask for table 1, or leave the asymmetry at 1")]
    Symmetric,
}
