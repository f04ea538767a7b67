// SPDX-License-Identifier: GPL-2.0-only
//! BlackBox: which thread on which hardware thread, found by profiling.
//!
//! The method is that of Radojković et al., *Thread Assignment of Multithreaded Network Applications in
//! Multicore/Multithreaded Processors*, called *blackbox-scheduler* below. An *assignment* gives each thread of each
//! instance of a program a hardware thread of its own. A [`Tree`] says what hardware is interchangeable; [`count()`]
//! counts assignments, [`Assignments`] lists them, [`Sampler`] draws them at random, [`search()`] finds the one that is
//! predicted to be the best.
//!
//! [`Campaign`] measures the entries of the paper's tables, or [`learn()`] a small part of them and expects the others.
//!
//! Start at [`Tree`], then [`Assignments`].

mod across;
mod apply;
mod assignments;
mod campaign;
mod computed;
mod count;
mod cycles;
mod entries;
mod error;
mod evaluate;
mod experiment;
mod fingerprint;
pub mod host;
mod layout;
mod learn;
mod predict;
mod random;
mod rank;
mod run;
mod scope;
mod search;
mod select;
mod simulated;
pub mod spec;
mod store;
mod tables;
mod tree;

pub use apply::{Tool, text as text_for};
pub use assignments::{Assignments, Canonical};
pub use campaign::{Campaign, CampaignError, Progress};
pub use computed::Computed;
pub use count::{Counts, count};
pub use error::Error;
pub use evaluate::{Evaluation, evaluate};
pub use experiment::{Experiment, Setting, Size, manifest};
pub use fingerprint::fingerprint;
pub use layout::{Layout, Layouts};
pub use learn::{Learned, Plan, Selection, learn, learn_watched};
pub use predict::{Predictor, Reading};
pub use random::{Sampler, deal};
pub use rank::Ranking;
pub use run::{RunError, Runner};
pub use scope::{Beyond, Scope};
pub use search::{Effort, Found, TOLERANCE, search};
pub use select::{Best, Predicted, all_around, best_of_all, distinct, nr_orders};
pub use simulated::Simulated;
pub use store::{Change, Merged, Merging, Recorded, Store, StoreError};
pub use tables::{Across, Beside, Fallback, Tables};
pub use tree::{Leaf, Tree};

fn check_fit(tree: &Tree, threads: usize) -> Result<(), Error> {
    let cpus = tree.nr_leaves();
    match threads {
        0 => Err(Error::Zero { what: "threads" }),
        _ if threads > cpus => Err(Error::TooManyThreads { threads, cpus }),
        _ => Ok(()),
    }
}
