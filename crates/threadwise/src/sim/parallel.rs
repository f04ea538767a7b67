// SPDX-License-Identifier: GPL-2.0-only
//! Simulations beside each other, one a core.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::Result;

/// Does each job on some core and hands its result over in the order of the jobs, as soon as all before it have been. The
/// first error, of a job or of who takes results, ends it: jobs under way are finished, no others begun.
pub fn in_order<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R> + Sync,
    mut take: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        // It goes when this returns, and then nobody sends.
        let results = results;
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((index, job)) = nth(jobs, next.fetch_add(1, Ordering::Relaxed))
                    && sender.send((index, work(job))).is_ok()
                {}
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        for (index, result) in results {
            early.insert(index, result);
            while let Some(result) = early.remove(&due) {
                take(result?)?;
                due += 1;
            }
        }
        Ok(())
    })
}

fn nth<J>(jobs: &[J], index: usize) -> Option<(usize, &J)> {
    jobs.get(index).map(|job| (index, job))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use anyhow::bail;

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs_whoever_is_done_first() {
        let jobs: Vec<u64> = (0..40).collect();
        let mut taken = Vec::new();
        let slow_first = |&job: &u64| {
            thread::sleep(Duration::from_millis(if job % 4 == 0 { 5 } else { 0 }));
            Ok(job)
        };
        in_order(&jobs, slow_first, |job| {
            taken.push(job);
            Ok(())
        })
        .unwrap();
        assert_eq!(taken, jobs);
    }

    #[test]
    fn as_many_jobs_as_cores_are_done_at_a_time() {
        let nr_cores = thread::available_parallelism().map_or(1, NonZero::get);
        let nr_begun = AtomicUsize::new(0);
        let meet = |_: &usize| {
            nr_begun.fetch_add(1, Ordering::SeqCst);
            let deadline = Instant::now() + Duration::from_secs(20);
            while nr_begun.load(Ordering::SeqCst) < nr_cores && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(nr_begun.load(Ordering::SeqCst))
        };
        let jobs: Vec<usize> = (0..nr_cores).collect();
        in_order(&jobs, meet, |nr| {
            assert_eq!(nr, nr_cores, "the others wait for this one");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn the_first_error_ends_it() {
        let jobs: Vec<u64> = (0..100_000).collect();
        let nr_begun = AtomicUsize::new(0);
        let mut taken = Vec::new();
        let work = |&job: &u64| {
            // Ten minutes of a core, if nothing ended it.
            if nr_begun.fetch_add(1, Ordering::Relaxed) > 7 {
                thread::sleep(Duration::from_millis(6));
            }
            if job == 7 { bail!("job 7") } else { Ok(job) }
        };
        let error = in_order(&jobs, work, |job| {
            taken.push(job);
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "job 7");
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6]);
        assert!(
            nr_begun.into_inner() < jobs.len(),
            "those after it were not begun"
        );
        let refused = in_order(&jobs, |&job: &u64| Ok(job), |_| bail!("no room")).unwrap_err();
        assert_eq!(refused.to_string(), "no room");
    }
}
