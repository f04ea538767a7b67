// SPDX-License-Identifier: GPL-2.0-only
//! A working set, and ways through it.

use std::collections::TryReserveError;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Mmap, MmapOptions};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::{Pattern, Sharing};

/// What is accessed at once: a line of the caches of most processors.
pub const LINE_BYTES: u64 = 64;

/// A line: which comes next, and how often it was written.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line {
    next: u64,
    writes: AtomicU64,
}

/// The lines of a working set.
#[derive(Debug)]
pub(crate) enum Lines {
    /// This process's own.
    Own(Vec<Line>),
    /// Those of a file, which are not linked.
    OfFile(Mmap),
}

/// What accesses came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub accesses: u64,
    pub writes: u64,
}

impl Lines {
    /// So many lines, at least one, in one random cycle that depends on the seed.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(count: u64, seed: u64) -> Result<Self, TryReserveError> {
        let mut lines = leading_to_themselves(count)?;
        // Sattolo's variant of the shuffle (Information Processing Letters 22, 1986) yields a single cycle.
        let mut random = Pcg64::new(u128::from(seed), 0xa02_bdbf_7bb3_c0a7_ac28_fa16_a64a_bf96);
        for last in (1..lines.len()).rev() {
            let other = below(random.next_u64(), last as u64) as usize;
            let (head, tail) = lines.split_at_mut(last);
            std::mem::swap(&mut head[other].next, &mut tail[0].next);
        }
        Ok(Self::Own(lines))
    }

    /// So many lines of which each leads to itself, for who does not chase: linking them takes longer than writing them.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn unlinked(count: u64) -> Result<Self, TryReserveError> {
        leading_to_themselves(count).map(Self::Own)
    }

    /// The first so many lines of a file, which all processes that do so have in the same memory, to be read only. It is made, or
    /// made longer, if need be, and stays.
    ///
    /// # Errors
    /// If it cannot be opened, made as long, or mapped.
    pub fn of_file(path: &Path, count: u64) -> io::Result<Self> {
        let bytes = count * LINE_BYTES;
        let is_long = |file: &File| Ok::<_, io::Error>(file.metadata()?.len() >= bytes);
        let file = match File::open(path) {
            Ok(file) if is_long(&file)? => file,
            _ => {
                let mut options = OpenOptions::new();
                let file = options
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)?;
                // Others that begin at once with other sets must not make it shorter again.
                file.lock()?;
                if !is_long(&file)? {
                    file.set_len(bytes)?;
                }
                file.unlock()?;
                file
            }
        };
        // SAFETY: what another process writes meanwhile is read as numbers, any of which will do. Who makes the file shorter
        // ends this program by SIGBUS, as with any file that is mapped.
        let map = unsafe { MmapOptions::new().len(bytes as usize).map(&file)? };
        Ok(Self::OfFile(map))
    }

    /// All, in order.
    fn all(&self) -> &[Line] {
        match self {
            Self::Own(lines) => lines,
            Self::OfFile(map) => {
                let count = map.len() / size_of::<Line>();
                // SAFETY: it begins with a page and is as long, any bytes are a line, and only loads are made of them.
                unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), count) }
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.all().len() as u64
    }

    /// All writes of this process that the lines hold.
    pub fn held(&self) -> u64 {
        match self {
            Self::Own(lines) => lines.iter().map(|line| line.writes.load(Ordering::Relaxed)).sum(),
            Self::OfFile(_) => 0,
        }
    }
}

fn leading_to_themselves(count: u64) -> Result<Vec<Line>, TryReserveError> {
    let mut lines = Vec::new();
    lines.try_reserve_exact(count as usize)?;
    // Memory that was never written is one page of zeroes, wherever it is read.
    lines.extend((0..count).map(|next| Line {
        next,
        writes: AtomicU64::new(0),
    }));
    Ok(lines)
}

/// A number below `limit` from 64 random bits (Lemire, Fast Random Integer Generation in an Interval, 2019, without the
/// rejection: with fewer than 2^30 lines the bias is below 2^-34).
fn below(random: u64, limit: u64) -> u64 {
    ((u128::from(random) * u128::from(limit)) >> 64) as u64
}

/// One thread's way through the lines.
pub(crate) struct Walk<'a> {
    lines: &'a [Line],
    at: usize,
    pattern: Pattern,
    /// Whether others write the same lines.
    shared: bool,
    write_percent: u32,
    compute: u32,
    random: u64,
    /// Counts towards the next write.
    due: u32,
    /// What was read and computed; kept so that nothing is optimised away.
    sink: u64,
}

/// How a walk is made.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub pattern: Pattern,
    pub sharing: Sharing,
    pub write_percent: u32,
    pub compute: u32,
    pub seed: u64,
}

impl<'a> Walk<'a> {
    /// From a line on, which is one of the lines.
    pub fn new(lines: &'a Lines, start: u64, how: How) -> Self {
        Self {
            lines: lines.all(),
            at: start as usize,
            pattern: how.pattern,
            shared: how.sharing == Sharing::Shared,
            write_percent: how.write_percent,
            compute: how.compute,
            // Zero is the one state that xorshift never leaves.
            random: how.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            due: 0,
            sink: 0,
        }
    }

    /// Accesses so many lines.
    pub fn take(&mut self, accesses: u64) -> Done {
        let mut done = Done { accesses, writes: 0 };
        for _ in 0..accesses {
            let line = &self.lines[self.at];
            self.sink ^= line.writes.load(Ordering::Relaxed);
            self.due += self.write_percent;
            if self.due >= 100 {
                self.due -= 100;
                done.writes += 1;
                self.write(line);
            }
            for _ in 0..self.compute {
                self.sink = xorshift(self.sink | 1);
            }
            self.at = self.next(line);
        }
        std::hint::black_box(self.sink);
        done
    }

    fn write(&self, line: &Line) {
        if self.shared {
            line.writes.fetch_add(1, Ordering::Relaxed);
        } else {
            line.writes
                .store(line.writes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    fn next(&mut self, line: &Line) -> usize {
        match self.pattern {
            Pattern::Sequential if self.at + 1 == self.lines.len() => 0,
            Pattern::Sequential => self.at + 1,
            Pattern::Chase => line.next as usize,
            Pattern::Random => {
                self.random = xorshift(self.random);
                below(self.random, self.lines.len() as u64) as usize
            }
        }
    }
}

/// A step of Marsaglia's generator (Xorshift RNGs, 2003).
fn xorshift(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(pattern: Pattern, write_percent: u32) -> How {
        How {
            pattern,
            sharing: Sharing::Private,
            write_percent,
            compute: 0,
            seed: 1,
        }
    }

    fn writes(lines: &Lines) -> Vec<u64> {
        let load = |line: &Line| line.writes.load(Ordering::Relaxed);
        lines.all().iter().map(load).collect()
    }

    #[test]
    fn a_lap_visits_every_line_once() {
        for pattern in [Pattern::Chase, Pattern::Sequential] {
            for count in [1, 2, 3, 1000] {
                let lines = Lines::new(count, 5).unwrap();
                let mut walk = Walk::new(&lines, count - 1, how(pattern, 100));
                walk.take(count);
                assert_eq!(writes(&lines), vec![1; count as usize], "{pattern:?} {count}");
                let start = walk.at as u64;
                assert_eq!(start, count - 1, "and ends where it began");
                walk.take(2 * count);
                assert_eq!(writes(&lines), vec![3; count as usize]);
            }
        }
    }

    #[test]
    fn a_chase_goes_where_no_prefetcher_follows() {
        let lines = Lines::new(4096, 1).unwrap();
        let near = |(at, line): (usize, &Line)| line.next.abs_diff(at as u64) < 8;
        let nr_near = lines.all().iter().enumerate().filter(|line| near(*line)).count();
        assert!(nr_near < 4096 / 50, "{nr_near} of 4096 go to a neighbour");
        let other = Lines::new(4096, 2).unwrap();
        assert!(
            lines.all().iter().zip(other.all()).any(|(a, b)| a.next != b.next),
            "the seed counts"
        );
    }

    #[test]
    fn random_accesses_are_spread_evenly() {
        let lines = Lines::new(64, 1).unwrap();
        Walk::new(&lines, 0, how(Pattern::Random, 100)).take(64_000);
        // The standard deviation of each count is 31.
        assert!(
            writes(&lines).iter().all(|count| (800..1200).contains(count)),
            "{lines:?}"
        );
    }

    #[test]
    fn as_many_accesses_write_as_asked_for() {
        for (percent, expected) in [(0, 0), (25, 250), (33, 330), (100, 1000)] {
            let lines = Lines::new(7, 1).unwrap();
            let done = Walk::new(&lines, 0, how(Pattern::Chase, percent)).take(1000);
            assert_eq!(
                (done.accesses, done.writes, lines.held()),
                (1000, expected, expected)
            );
        }
    }

    #[test]
    fn who_maps_one_file_has_one_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set");
        let [one, other] = [3, 5].map(|count| Lines::of_file(&path, count).unwrap());
        assert_eq!((one.count(), other.count()), (3, 5));
        Lines::of_file(&path, 4).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 5 * LINE_BYTES);
        std::os::unix::fs::FileExt::write_at(
            &OpenOptions::new().write(true).open(&path).unwrap(),
            &7_u64.to_ne_bytes(),
            LINE_BYTES,
        )
        .unwrap();
        let next = |lines: &Lines| lines.all()[1].next;
        assert_eq!((next(&one), next(&other)), (7, 7));
        assert!(Lines::of_file(folder.path(), 1).is_err(), "a folder");
    }

    #[test]
    fn a_line_is_a_line() {
        assert_eq!(std::mem::size_of::<Line>() as u64, LINE_BYTES);
    }
}
