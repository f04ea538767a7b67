// SPDX-License-Identifier: GPL-2.0-only
//! A set of CPUs, a bit for each, in which the next one is found a word at a time.

use crate::kernel::CpuIndex;

const BITS: usize = u64::BITS as usize;

/// A set of CPUs.
#[derive(Clone, Debug)]
pub(crate) struct CpuMask {
    words: Vec<u64>,
}

impl CpuMask {
    /// None of so many CPUs.
    pub(crate) fn none(nr_cpus: usize) -> Self {
        Self {
            words: vec![0; nr_cpus.div_ceil(BITS)],
        }
    }

    pub(crate) fn has(&self, cpu: CpuIndex) -> bool {
        self.words[cpu / BITS] & (1 << (cpu % BITS)) != 0
    }

    pub(crate) fn add(&mut self, cpu: CpuIndex) {
        self.words[cpu / BITS] |= 1 << (cpu % BITS);
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, cpu: CpuIndex) -> bool {
        let was_there = self.has(cpu);
        self.words[cpu / BITS] &= !(1 << (cpu % BITS));
        was_there
    }

    /// The next from `from` on, after the last the first; but not `but`.
    pub(crate) fn next(&self, from: CpuIndex, but: Option<CpuIndex>) -> Option<CpuIndex> {
        let nr_words = self.words.len();
        for step in 0..=nr_words {
            let word = (from / BITS + step) % nr_words;
            let mut bits = self.words[word];
            if let Some(but) = but.filter(|but| but / BITS == word) {
                bits &= !(1 << (but % BITS));
            }
            if step == 0 {
                bits &= !0 << (from % BITS);
            }
            if bits != 0 {
                return Some(word * BITS + bits.trailing_zeros() as usize);
            }
        }
        None
    }
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
        assert!(mask.remove(129));
        assert_eq!((mask.next(4, None), mask.next(3, Some(3))), (Some(3), None));
    }
}
