// SPDX-License-Identifier: GPL-2.0-only
//! A set of CPUs, a bit for each, in which the next one is found a word at a time.

use crate::kernel::CpuIndex;

const BITS: usize = u64::BITS as usize;

/// A set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuMask {
    words: Vec<u64>,
    /// How many there are: on a large machine most looks are for an idle CPU where there is none.
    nr: usize,
}

impl CpuMask {
    /// None of so many CPUs.
    pub(crate) fn none(nr_cpus: usize) -> Self {
        Self {
            words: vec![0; nr_cpus.div_ceil(BITS)],
            nr: 0,
        }
    }

    /// These of so many CPUs.
    pub(crate) fn of(nr_cpus: usize, cpus: impl IntoIterator<Item = CpuIndex>) -> Self {
        let mut mask = Self::none(nr_cpus);
        cpus.into_iter().for_each(|cpu| mask.add(cpu));
        mask
    }

    /// The one that is there, if it is one.
    pub(crate) fn only(&self) -> Option<CpuIndex> {
        let first = self.next(0, None)?;
        self.next(0, Some(first)).is_none().then_some(first)
    }

    /// The next from `from` on, after the last the first, of those that are in both.
    pub(crate) fn next_in(&self, other: &Self, from: CpuIndex) -> Option<CpuIndex> {
        if self.nr == 0 {
            return None;
        }
        next_of(self.words.len(), from, |word| {
            self.words[word] & other.words[word]
        })
    }

    /// Those that are in both, ascending.
    pub(crate) fn shared<'m>(&'m self, other: &'m Self) -> impl Iterator<Item = CpuIndex> + 'm {
        let words = if self.nr == 0 { &[] } else { self.words.as_slice() };
        let both = words.iter().zip(&other.words).map(|(a, b)| a & b);
        both.enumerate().flat_map(|(word, bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(word * BITS + bit)
            })
        })
    }

    /// Those that are in both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let words: Vec<u64> = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        Self {
            nr: words.iter().map(|word| word.count_ones() as usize).sum(),
            words,
        }
    }

    pub(crate) fn has(&self, cpu: CpuIndex) -> bool {
        self.words[cpu / BITS] & (1 << (cpu % BITS)) != 0
    }

    pub(crate) fn add(&mut self, cpu: CpuIndex) {
        self.nr += usize::from(!self.has(cpu));
        self.words[cpu / BITS] |= 1 << (cpu % BITS);
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, cpu: CpuIndex) -> bool {
        let was_there = self.has(cpu);
        self.nr -= usize::from(was_there);
        self.words[cpu / BITS] &= !(1 << (cpu % BITS));
        was_there
    }

    /// The next from `from` on, after the last the first; but not `but`.
    pub(crate) fn next(&self, from: CpuIndex, but: Option<CpuIndex>) -> Option<CpuIndex> {
        if self.nr == 0 {
            return None;
        }
        next_of(self.words.len(), from, |word| match but {
            Some(but) if but / BITS == word => self.words[word] & !(1 << (but % BITS)),
            _ => self.words[word],
        })
    }
}

/// The next bit from `from` on, around the end, of so many words.
fn next_of(nr_words: usize, from: CpuIndex, bits_of: impl Fn(usize) -> u64) -> Option<CpuIndex> {
    for step in 0..=nr_words {
        let word = (from / BITS + step) % nr_words;
        let mut bits = bits_of(word);
        if step == 0 {
            bits &= !0 << (from % BITS);
        }
        if bits != 0 {
            return Some(word * BITS + bits.trailing_zeros() as usize);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_found_across_words_and_around_the_end() {
        let mut mask = CpuMask::none(130);
        assert_eq!(mask.next(7, None), None);
        for cpu in [3, 64, 129] {
            mask.add(cpu);
        }
        let next = |from, but| mask.next(from, but);
        assert_eq!(
            [next(0, None), next(4, None), next(65, None)],
            [Some(3), Some(64), Some(129)]
        );
        assert_eq!((next(129, Some(129)), next(64, Some(64))), (Some(3), Some(129)));
        assert!(mask.has(64) && mask.remove(64) && !mask.remove(64) && !mask.has(64));
        assert_eq!(mask.next_in(&CpuMask::of(130, [3, 4, 129]), 4), Some(129));
        assert_eq!(mask.next_in(&CpuMask::of(130, [4]), 0), None);
        assert_eq!((mask.only(), CpuMask::of(130, [129]).only()), (None, Some(129)));
        mask.add(66);
        let shared = |of: &[CpuIndex]| {
            mask.shared(&CpuMask::of(130, of.iter().copied()))
                .collect::<Vec<_>>()
        };
        assert_eq!(shared(&[0, 3, 65, 66, 129]), [3, 66, 129]);
        assert!(shared(&[0, 65]).is_empty());
        mask.remove(66);
        assert!(mask.remove(129));
        assert_eq!((mask.next(4, None), mask.next(3, Some(3))), (Some(3), None));
    }
}
