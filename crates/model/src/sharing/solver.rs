// SPDX-License-Identifier: GPL-2.0-only
//! The steady state by approximate mean value analysis.
//!
//! A closed network of queues with one customer for each thread, which cycles through its stations for ever. Mean value
//! analysis (Reiser and Lavenberg, JACM 27(2), 1980) has an arriving customer see the others as they are on average
//! without itself; Schweitzer's approximation (1979; Lazowska et al., *Quantitative System Performance*, 1984, chapters
//! 6 and 7) takes that from the network as it is. A class of one customer never waits for itself, so with demand D a
//! thread i spends at station k
//!
//! ```text
//! R(i,k) = D(i,k) · (1 + sum over j != i of Q(j,k)),   Q(i,k) = R(i,k) / (delay(i) + sum over k of R(i,k)),
//! ```
//!
//! where Q(j,k) is the share of time that j is at k. The pipeline ties threads together: the stages of an instance all
//! run at the rate X of the slowest. Another stage, whose cycle C is shorter, works for the share X·C of time and else
//! polls, so its Q is the mean of those of its work and its poll loop.
//!
//! No station is ever more than fully used: a thread uses U(i) = Q(i)/(1 + sum of the others' Q) of one, and the sum of
//! these is convex in each Q(i), which are 0 to 1, so it is largest at a corner, where it is 0 or 1.

use super::Error;
use super::demands::{Demand, Thread};
use super::hardware::Station;

/// The largest change of any Q in the last iteration. With it rates are good to about 1e-9 of their value.
const TOLERANCE: f64 = 1e-11;
/// Iterations with one damping; each further round takes steps half as large.
const ROUND: u32 = 250;
/// Rounds before it is given up.
const ROUNDS: u32 = 6;

/// The steady state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    /// Packets per cycle of each instance.
    pub rates: Vec<f64>,
}

/// Solves for `threads`, of which each `stages` neighbours are an instance. Their stations are below `nr_stations`.
///
/// All queues change at once and each is summed in the order of the threads. So the result does not depend on how
/// stations are numbered. Nothing says that there is only one steady state; tests have found no second.
///
/// # Errors
/// [`Error::NotConverged`] after 1500 iterations; usual are 20 to 60.
pub(super) fn solve(threads: &[Thread], stages: usize, nr_stations: usize) -> Result<Solution, Error> {
    let state = settle(threads, stages, nr_stations)?;
    Ok(Solution { rates: state.rates })
}

fn settle(threads: &[Thread], stages: usize, nr_stations: usize) -> Result<State, Error> {
    let mut state = State::alone(threads, stages, nr_stations);
    let mut change = f64::INFINITY;
    let mut step = 0.6;
    for _ in 0..ROUNDS {
        for _ in 0..ROUND {
            change = state.advance(threads, stages, step);
            if change <= TOLERANCE && state.is_sound() {
                return Ok(state);
            }
        }
        step /= 2.0;
    }
    Err(Error::NotConverged {
        iterations: ROUND * ROUNDS,
        change,
    })
}

/// How long a thread is at each of its stations, and in all, for a packet or a turn of the poll loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stay {
    at: [f64; Station::NR],
    cycle: f64,
}

impl Stay {
    /// `others` is the sum of the others' Q at each station.
    fn new(demand: &Demand, others: &[f64; Station::NR]) -> Self {
        let mut at = [0.0; Station::NR];
        let mut cycle = demand.delay;
        for ((at, demand), others) in at.iter_mut().zip(&demand.at).zip(others) {
            *at = demand * (1.0 + others);
            cycle += *at;
        }
        Self { at, cycle }
    }
}

/// An iterate.
struct State {
    /// Q: for each thread the share of time that it is at each of its stations.
    shares: Vec<[f64; Station::NR]>,
    /// For each station the sum of them.
    sums: Vec<f64>,
    /// For each thread, work and poll.
    stays: Vec<(Stay, Stay)>,
    /// X: packets per cycle of each instance.
    rates: Vec<f64>,
}

impl State {
    /// Each thread as if the others were not there.
    fn alone(threads: &[Thread], stages: usize, nr_stations: usize) -> Self {
        let mut state = Self {
            shares: vec![[0.0; Station::NR]; threads.len()],
            sums: vec![0.0; nr_stations],
            stays: vec![Default::default(); threads.len()],
            rates: vec![0.0; threads.len() / stages],
        };
        state.advance(threads, stages, 1.0);
        state
    }

    /// Goes the part `step` of the way to what the present shares lead to. Returns the largest whole way.
    fn advance(&mut self, threads: &[Thread], stages: usize, step: f64) -> f64 {
        self.sum_up(threads);
        for ((thread, shares), stays) in threads.iter().zip(&self.shares).zip(&mut self.stays) {
            let others = std::array::from_fn(|kind| {
                // Rounding may leave less than nothing.
                (self.sums[thread.stations[kind]] - shares[kind]).max(0.0)
            });
            *stays = (Stay::new(&thread.work, &others), Stay::new(&thread.poll, &others));
        }
        for (rate, stays) in self.rates.iter_mut().zip(self.stays.chunks(stages)) {
            let slowest = stays.iter().map(|(work, _)| work.cycle).fold(0.0, f64::max);
            *rate = 1.0 / slowest;
        }
        let mut largest: f64 = 0.0;
        for (index, shares) in self.shares.iter_mut().enumerate() {
            let (work, poll) = &self.stays[index];
            let rate = self.rates[index / stages];
            let turns = poll_rate(work, poll, rate);
            for (kind, share) in shares.iter_mut().enumerate() {
                let way = rate * work.at[kind] + turns * poll.at[kind] - *share;
                *share += step * way;
                largest = largest.max(way.abs());
            }
        }
        largest
    }

    /// Demands that overflow leave rates that are no numbers.
    fn is_sound(&self) -> bool {
        self.rates.iter().all(|rate| rate.is_finite() && *rate > 0.0)
    }

    fn sum_up(&mut self, threads: &[Thread]) {
        self.sums.fill(0.0);
        for (thread, shares) in threads.iter().zip(&self.shares) {
            for (station, share) in thread.stations.iter().zip(shares) {
                self.sums[*station] += share;
            }
        }
    }
}

/// Turns of the poll loop per cycle of a thread that works at `rate`.
fn poll_rate(work: &Stay, poll: &Stay, rate: f64) -> f64 {
    if poll.cycle > 0.0 {
        (1.0 - rate * work.cycle).max(0.0) / poll.cycle
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use threadwise_machine::{CpuId, Machine};

    use super::super::{Hardware, IPFWD_VARIANTS, demands, ipfwd};
    use super::*;

    const ISSUE: usize = Station::Issue as usize;
    const LOAD_STORE: usize = Station::LoadStore as usize;
    const MEMORY: usize = Station::Memory as usize;

    impl State {
        /// The share of time that each station is busy.
        fn utilizations(&self, threads: &[Thread], stages: usize) -> Vec<f64> {
            let mut sums = vec![0.0; self.sums.len()];
            for (index, thread) in threads.iter().enumerate() {
                let (work, poll) = &self.stays[index];
                let rate = self.rates[index / stages];
                let turns = poll_rate(work, poll, rate);
                for kind in 0..Station::NR {
                    sums[thread.stations[kind]] += rate * thread.work.at[kind] + turns * thread.poll.at[kind];
                }
            }
            sums
        }
    }

    /// A thread that never polls; kinds not given have no demand.
    fn thread(demands: &[(usize, f64)], delay: f64, stations: [usize; Station::NR]) -> Thread {
        let mut at = [0.0; Station::NR];
        demands.iter().for_each(|(kind, cycles)| at[*kind] = *cycles);
        Thread {
            work: Demand { at, delay },
            poll: Demand::default(),
            stations,
        }
    }

    fn rates(threads: &[Thread], stages: usize) -> Vec<f64> {
        solve(threads, stages, 20).unwrap().rates
    }

    fn assert_near(rates: &[f64], expected: &[f64]) {
        assert_eq!(rates.len(), expected.len());
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate / expected - 1.0).abs() < 1e-9, "{rates:?} {expected:?}");
        }
    }

    const HERE: [usize; Station::NR] = [0, 2, 4, 6, 8, 9];
    const THERE: [usize; Station::NR] = [1, 3, 5, 7, 8, 9];

    #[test]
    fn one_thread_alone_takes_the_sum_of_its_demands() {
        let alone = thread(&[(ISSUE, 100.0), (LOAD_STORE, 20.0), (MEMORY, 3.0)], 77.0, HERE);
        assert_near(&rates(&[alone], 1), &[1.0 / 200.0]);
    }

    #[test]
    fn threads_that_only_issue_share_the_slot() {
        for n in 1..=8u32 {
            let threads = vec![thread(&[(ISSUE, 50.0)], 0.0, HERE); n as usize];
            let expected = vec![1.0 / (50.0 * f64::from(n)); n as usize];
            assert_near(&rates(&threads, 1), &expected);
        }
    }

    #[test]
    fn balanced_jobs_of_two_threads_by_hand() {
        // Equal threads with demand D and delay Z: Q = D(1 + Q)/(Z + D(1 + Q)), a quadratic equation in Q.
        let (d, z) = (30.0f64, 70.0);
        let q = (-z + (z * z + 4.0 * d * d).sqrt()) / (2.0 * d);
        let threads = [thread(&[(ISSUE, d)], z, HERE); 2];
        let expected = 1.0 / (z + d * (1.0 + q));
        assert_near(&rates(&threads, 1), &[expected; 2]);
        // The exact value for exponential service, by mean value analysis itself: Q of one alone is D/(D + Z).
        let exact = 1.0 / (z + d * (1.0 + d / (d + z)));
        assert!((expected / exact - 1.0).abs() < 0.03, "{expected} {exact}");
    }

    #[test]
    fn different_cores_meet_in_the_memory_only() {
        let demands = [(ISSUE, 60.0), (LOAD_STORE, 30.0)];
        let apart = [thread(&demands, 10.0, HERE), thread(&demands, 10.0, THERE)];
        assert_near(&rates(&apart, 1), &[0.01; 2]);
        let demands = [(ISSUE, 60.0), (MEMORY, 30.0)];
        let apart = [thread(&demands, 10.0, HERE), thread(&demands, 10.0, THERE)];
        assert!(rates(&apart, 1)[0] < 0.0099);
    }

    #[test]
    fn a_pipeline_runs_as_fast_as_its_slowest_stage() {
        let stage = |cycles, stations| thread(&[(ISSUE, cycles)], 0.0, stations);
        assert_near(&rates(&[stage(40.0, HERE), stage(100.0, THERE)], 2), &[0.01]);
        // On one slot without polling: the light one takes its 40 cycles for each packet, at least.
        let rate = rates(&[stage(40.0, HERE), stage(100.0, HERE)], 2)[0];
        assert!(rate < 1.0 / 140.0 + 1e-9, "{rate}");
    }

    #[test]
    fn who_polls_disturbs_and_who_sleeps_does_not() {
        let slow = thread(&[(ISSUE, 90.0)], 10.0, HERE);
        let light = thread(&[(ISSUE, 1.0)], 0.0, HERE);
        let sleeps = rates(&[slow, light], 2)[0];
        let mut polls = light;
        polls.poll.at[ISSUE] = 6.0;
        polls.poll.delay = 6.0;
        let polls = rates(&[slow, polls], 2)[0];
        assert!(sleeps > 0.0098 && polls < 0.8 * sleeps, "{sleeps} {polls}");
    }

    #[test]
    fn what_does_not_settle_is_an_error() {
        let broken = thread(&[(ISSUE, f64::NAN)], 0.0, HERE);
        let error = solve(&[broken; 2], 1, 20).unwrap_err().to_string();
        assert!(
            error.starts_with("no steady state after 1500 iterations"),
            "{error}"
        );
    }

    fn t2() -> Hardware {
        Hardware::from_machine(&Machine::load("ultrasparc-t2").unwrap()).unwrap()
    }

    /// As many instances as fit on the first so many CPUs.
    fn cpus() -> impl Strategy<Value = Vec<CpuId>> {
        (3..=64usize).prop_flat_map(|within| {
            let all: Vec<_> = (0..within as u32).map(CpuId).collect();
            prop::sample::subsequence(all, within / 3 * 3).prop_shuffle()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Threads that begin crowded, each always in its issue slot, settle where those do that begin alone.
        #[test]
        fn there_is_one_steady_state(variant in 0..9usize, cpus in cpus()) {
            let program = ipfwd(IPFWD_VARIANTS[variant]).unwrap();
            let hardware = t2();
            let threads = demands::threads(&hardware, &program, &cpus).unwrap();
            let alone = settle(&threads, 3, hardware.nr_stations()).unwrap();
            let mut crowded = State::alone(&threads, 3, hardware.nr_stations());
            for shares in &mut crowded.shares {
                *shares = [0.0; Station::NR];
                shares[ISSUE] = 1.0;
            }
            let settled = (0..1000).any(|_| crowded.advance(&threads, 3, 0.5) <= TOLERANCE);
            prop_assert!(settled);
            for (one, other) in alone.rates.iter().zip(&crowded.rates) {
                prop_assert!((one / other - 1.0).abs() < 1e-8, "{} {}", one, other);
            }
        }

        /// Work is conserved, in dense assignments as well.
        #[test]
        fn no_station_is_more_than_fully_used(
            variant in 0..9usize,
            cpus in cpus(),
        ) {
            let program = ipfwd(IPFWD_VARIANTS[variant]).unwrap();
            let hardware = t2();
            let threads = demands::threads(&hardware, &program, &cpus).unwrap();
            let state = settle(&threads, 3, hardware.nr_stations()).unwrap();
            for (station, used) in state.utilizations(&threads, 3).into_iter().enumerate() {
                prop_assert!((0.0..=1.0 + 1e-8).contains(&used), "{station} {used}");
            }
        }
    }
}
