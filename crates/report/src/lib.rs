// SPDX-License-Identifier: GPL-2.0-only
//! What was run and what came of it.
//!
//! A [`store::Store`] keeps a [`Record`] of every run: the [`Manifest`] that says what was run on what, and each sample
//! from the moment that it is taken. From records come [`page`]s, [`figure`]s, tables ([`figures`]) and comparisons ([`compare`]).
//! Numbers are computed by `threadwise_lab::evaluate` and `threadwise_metrics`; this crate shows them.
//!
//! Deliberately absent: scripts in pages, and anything that a page would have to fetch.

pub mod compare;
pub mod error;
pub mod figure;
pub mod figures;
mod headline;
pub mod page;
pub mod record;
pub mod repeat;
pub mod reproduction;
pub mod store;
pub mod timeline;
mod words;

pub use error::Error;
pub use record::{Manifest, Record, State, host};
