// SPDX-License-Identifier: GPL-2.0-only
//! The nine programs of blackbox, section 4.3: IP forwarding in three stages.
//!
//! R receives packets, P processes them, T transmits them. Which resources a variant stresses is the paper's. It
//! gives no counts of instructions, so those below are estimated. They are chosen so that eight instances stay about
//! within what a link of 10 Gb/s carries, 14.9 million packets of 64 bytes a second (it never was the limit: section
//! 4.1), that the bottleneck is not always the same stage (section 4.3), and that assignments differ about as much as
//! in its Fig. 7.

use super::program::{Message, Program, Region, Sharing, Stage, Work};

/// The names that [`ipfwd`] knows.
pub const IPFWD_VARIANTS: [&str; 9] = [
    "hash1_L1",
    "hash1_L2",
    "hash1_Mem",
    "hashN_L1",
    "hashN_L2",
    "hashN_Mem",
    "intadd",
    "intmul",
    "intdiv",
];

/// Look-ups in the table for a packet of the variants hashN (section 4.3).
const N: f64 = 3.0;
/// Accesses of a look-up that depend on each other: a bucket and the entries behind it. Estimated.
const CHAIN: f64 = 3.0;

/// What P adds to plain forwarding.
struct Variant {
    lookups: f64,
    table_bytes: f64,
    /// Inserted at the end of P.
    inserted: Work,
}

impl Variant {
    fn named(name: &str) -> Option<Variant> {
        let (lookups, table_bytes, inserted) = match name {
            "hash1_L1" => (1.0, IN_L1, Work::default()),
            "hash1_L2" => (1.0, IN_L2, Work::default()),
            "hash1_Mem" => (1.0, IN_MEMORY, Work::default()),
            "hashN_L1" => (N, IN_L1, Work::default()),
            "hashN_L2" => (N, IN_L2, Work::default()),
            "hashN_Mem" => (N, IN_MEMORY, Work::default()),
            "intadd" => (1.0, IN_L1, additions()),
            "intmul" => (1.0, IN_L1, multiplications()),
            "intdiv" => (1.0, IN_L1, divisions()),
            _ => return None,
        };
        Some(Variant {
            lookups,
            table_bytes,
            inserted,
        })
    }
}

/// The table of an instance: the L1 of a core holds one, not two. Estimated.
const IN_L1: f64 = 4096.0;
/// The L2 holds those of eight instances, no L1 holds much of one. Estimated.
const IN_L2: f64 = 262144.0;
/// Far more than the L2. Estimated.
const IN_MEMORY: f64 = 268435456.0;

/// Estimated: 500 additions, unrolled.
fn additions() -> Work {
    Work {
        instructions: 500.0,
        taken_branches: 5.0,
        ..Work::default()
    }
}

/// Estimated: as long as the additions, at five cycles each.
fn multiplications() -> Work {
    Work {
        instructions: 106.0,
        multiplications: 100.0,
        taken_branches: 2.0,
        ..Work::default()
    }
}

/// Estimated: as long as the additions, at 27 cycles each.
fn divisions() -> Work {
    Work {
        instructions: 21.0,
        divisions: 19.0,
        taken_branches: 1.0,
        ..Work::default()
    }
}

/// The variant of IP forwarding with this name, one of [`IPFWD_VARIANTS`]; none for others.
///
/// Stages R, P and T; their tables are those of an instance, their queues and headers too.
pub fn ipfwd(variant: &str) -> Option<Program> {
    let region = |name: &str, bytes, sharing| Region {
        name: name.to_string(),
        bytes,
        sharing,
    };
    let stage = |name: &str, work, accesses: [f64; 3]| Stage {
        name: name.to_string(),
        work,
        accesses: accesses.to_vec(),
    };
    let Variant {
        lookups,
        table_bytes,
        inserted,
    } = Variant::named(variant)?;
    Some(Program {
        name: variant.to_string(),
        stages: vec![
            stage("R", receive(), [20.0, 10.0, 0.0]),
            stage("P", process(lookups, &inserted), [10.0, 15.0, lookups * CHAIN]),
            stage("T", transmit(), [20.0, 10.0, 0.0]),
        ],
        regions: vec![
            region("private", 768.0, Sharing::Thread),
            region("packets", 768.0, Sharing::Instance),
            region("table", table_bytes, Sharing::Instance),
        ],
        message: Message {
            sender_reads: 1.0,
            receiver_reads: 2.0,
        },
        poll: poll(),
    })
}

/// Estimated: descriptors of the network interface, slow registers of it, buffers, the queue to P.
fn receive() -> Work {
    Work {
        instructions: 110.0,
        loads: 8.0,
        stores: 15.0,
        taken_branches: 10.0,
        stall_cycles: 300.0,
        ..Work::default()
    }
}

/// Estimated: the same the other way, and buffers to be freed.
fn transmit() -> Work {
    Work {
        instructions: 120.0,
        loads: 8.0,
        stores: 15.0,
        taken_branches: 11.0,
        stall_cycles: 320.0,
        ..Work::default()
    }
}

/// Estimated: the header's fields, for each look-up a hash, and what is inserted.
fn process(lookups: f64, inserted: &Work) -> Work {
    Work {
        instructions: 200.0 + 50.0 * lookups + inserted.instructions,
        loads: 8.0 + 5.0 * lookups,
        stores: 12.0,
        taken_branches: 20.0 + 9.0 * lookups + inserted.taken_branches,
        multiplications: inserted.multiplications,
        divisions: inserted.divisions,
        stall_cycles: 0.0,
    }
}

/// Estimated: a function that loads both indexes of a queue and compares them, 37 cycles alone, 9 of them in the issue
/// slot.
fn poll() -> Work {
    Work {
        instructions: 9.0,
        loads: 2.0,
        taken_branches: 3.0,
        stall_cycles: 12.0,
        ..Work::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_sound() {
        for name in IPFWD_VARIANTS {
            let program = ipfwd(name).unwrap();
            assert_eq!((program.name.as_str(), program.stages.len()), (name, 3));
            assert_eq!(program.check(), Ok(()));
        }
        assert_eq!(ipfwd("hash2_L1"), None);
    }
}
