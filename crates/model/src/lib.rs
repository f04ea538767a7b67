// SPDX-License-Identifier: GPL-2.0-only
//! What scheduling policies reach in theory.
//!
//! [`tables`] has the equations and tables of "Task Scheduling Based On Thread Essence and Resource Limitations"
//! (*thread-essence* below), section VI, exactly. [`fluid`] plays its model out over time with perfect sharing. [`sharing`]
//! is about another question: how fast pipelines of threads run when their hardware threads share pipelines, cores and
//! caches. Nothing here is measured or simulated on a scheduler.
//!
//! # Where each equation, table and figure of thread-essence is
//!
//! n cores, one of them faster by a; k programs. The last column is what is more general here.
//!
//! | printed | about | computed by | beyond the paper |
//! |---|---|---|---|
//! | eq. 1 | ratio of parallel to serial work | [`tables::measured::ratio`]; as a label [`threadwise_workload::Ratio`] | phases of any number of threads: [`fluid::Program`] |
//! | eq. 2 | speedup | [`tables::measured::speedup`]; of measurements [`threadwise_metrics::Performance::speedup`] | |
//! | eq. 3 | fairness | [`tables::measured::fairness`]; [`threadwise_metrics::fairness`] | more than two programs |
//! | eq. 4 | speedup from times in two orders (Fig. 6) | [`tables::measured::speedup_from_times`]; [`threadwise_metrics::speedup_from_times`] | any number of times |
//! | eq. 5 | jitter | [`tables::measured::jitter_squared`]; [`threadwise_metrics::jitter`] | its interval: [`threadwise_metrics::jitter_summary`] |
//! | eqs. 6, 7 | performance alone | [`tables::Machine::serial`], [`tables::Machine::parallel`] | several kinds of cores: [`fluid::Machine::of_types`] |
//! | eqs. 8 to 10 | speedup in (S,S) | [`tables::Machine::speedup`] | k programs: [`tables::Machine::speedup_beside`] |
//! | eqs. 11 to 13 | in (P,P); the third term of 13 as eq. 12 has it | the same | the same |
//! | eqs. 14 to 16 | in (S,P); with 2/(n+1) in 16 | the same | the same |
//! | eqs. 17 to 19 | in (P,S) | the same | the same |
//! | eqs. 20 to 23 | lower bounds for fairness | [`tables::Machine::fairness_bound`] | k programs: [`tables::Machine::fairness_bound_among`] |
//! | Tables 1, 2, 5 | speedups in joint phases, without and with serial boost | [`tables::Machine::speedup`] | k programs: [`tables::Machine::speedup_beside`] |
//! | Table 3 | lower bounds for fairness | [`tables::Machine::fairness_bound`] | |
//! | Tables 4, 6 | extremes for k programs | [`tables::Machine::speedup_among`] | each joint phase, with averages: [`tables::Machine::speedup_beside`] |
//! | Fig. 3 | the chain of joint phases | [`fluid::expectation`], [`fluid::play_out`] | k programs, each boost, any cores, any phases |
//! | section VIII | idle time, throughput, fairness over all pairs and triples | [`fluid::average`] | |
//!
//! By its number, [`tables::Equation`] has each equation as printed and its value, and [`tables::Table`] each table.

pub mod fluid;
pub mod sharing;
pub mod tables;
