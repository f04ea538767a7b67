// SPDX-License-Identifier: GPL-2.0-only
//! Which programs may have turns (`policy/members.h`).

use crate::Counts;
use crate::alternation::{Look, PROGRAMS, Work, exceed_cache};

mod ffi {
    use super::{Counts, Look as AlternationLook, Members, PROGRAMS, Witness, Work};

    unsafe extern "C" {
        pub safe fn tw_find_id(ids: &[u32; PROGRAMS], id: u32) -> i32;
        pub safe fn tw_consider(
            members: &mut Members,
            task: &Witness,
            by_resident: bool,
            cache_bytes: u64,
            now_ns: u64,
        );
        pub safe fn tw_look_at_member(
            members: &mut Members,
            slot: u32,
            nr_ready: u32,
            by_resident: bool,
            cache_bytes: u64,
            look: &mut AlternationLook,
        );
        pub safe fn tw_hold(members: &mut Members, held: u32) -> bool;
        pub safe fn tw_note_work(work: &mut Work, members: &Members, id: u32, counts: &Counts, whole: bool);
    }
}

/// A task that was found running, on behalf of its program (`struct tw_witness`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Witness {
    /// What the program is called, not 0.
    pub id: u32,
    /// The task's class (`enum tw_class`).
    pub class: crate::Class,
    /// The program's resident set.
    pub resident_bytes: u64,
    /// What the task needs of a cache, by counters ([`crate::Need`]).
    pub need: u32,
}

/// The programs that may have turns (`struct tw_members`); without `cache_bytes` they are found by counters, else by resident sets
/// against this size of a last-level cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Members {
    ids: [u32; PROGRAMS],
    held: [u32; PROGRAMS],
    ready_ns: [u64; PROGRAMS],
    resident: [u64; PROGRAMS],
}

impl Members {
    /// The program of this task, found running now, may be one of them from now on.
    pub fn consider(&mut self, task: &Witness, cache_bytes: Option<u64>, now_ns: u64) {
        let (by_resident, bytes) = by_resident(cache_bytes);
        ffi::tw_consider(self, task, by_resident, bytes, now_ns);
    }

    /// Who is there at this look, and has a ready thread, of which programs have so many; who is gone is no member any more.
    pub fn look_at(
        &mut self,
        look: &mut Look,
        cache_bytes: Option<u64>,
        mut nr_ready_of: impl FnMut(u32) -> u32,
    ) {
        let (by_resident, bytes) = by_resident(cache_bytes);
        for slot in 0..PROGRAMS {
            let nr_ready = match self.ids[slot] {
                0 => 0,
                id => nr_ready_of(id),
            };
            ffi::tw_look_at_member(self, slot as u32, nr_ready, by_resident, bytes, look);
        }
    }

    /// Whether the resident sets of those that are there exceed the cache together, or `was` so and still about is.
    pub fn exceed_cache(&self, look: &Look, cache_bytes: u64, was: bool) -> bool {
        exceed_cache(&self.resident, look.members, cache_bytes, was)
    }

    /// Says whose turn it is not, a bit for each; whether that is somebody else than before.
    pub fn hold(&mut self, held: u32) -> bool {
        ffi::tw_hold(self, held)
    }

    /// The number of a program whose turn it is not.
    pub fn held_as(&self, id: u32) -> Option<usize> {
        usize::try_from(ffi::tw_find_id(&self.held, id)).ok()
    }

    /// A task of this program ran while counters counted this, or did not count all the time.
    pub fn note_work(&self, work: &mut Work, id: u32, counts: Option<&Counts>) {
        let whole = counts.is_some();
        ffi::tw_note_work(work, self, id, counts.unwrap_or(&Counts::default()), whole);
    }
}

fn by_resident(cache_bytes: Option<u64>) -> (bool, u64) {
    (cache_bytes.is_some(), cache_bytes.unwrap_or(0))
}
