// SPDX-License-Identifier: GPL-2.0-only
//! The papers, reproduced: every result beside what the paper printed.
//!
//! A [`Plan`] is a file that says which results there are, what the paper printed, which commands produce our figures, and
//! where in their JSON these are. An [`Outcome`] is a result with its figures and a [`Verdict`] on each. [`page()`] shows them.
//!
//! No figure of ours stands in a plan: what no command produced is not run. Deliberately absent: running the commands, which is
//! the caller's.

mod csv;
mod figures;
mod outcome;
mod page;
mod plan;

pub use csv::csv;
pub use figures::Figure;
pub use outcome::{Column, Outcome, Output, Row, outcomes};
pub use page::{About, Produced, page};
pub use plan::{Form, Length, Paper, Plan, Printed, Source, Unit, Verdict};
