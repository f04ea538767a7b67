// SPDX-License-Identifier: GPL-2.0-only
//! What must hold of every run: within a flow no packet is lost or overtaken, and every packet is accounted for.

use super::Error;
use super::packet::Stamp;
use super::report::Drops;

/// The sequence number that is due in each flow.
#[derive(Debug)]
pub struct Order {
    due: Vec<u64>,
}

impl Order {
    /// Flows 0 to `flows` - 1, of which nothing has been seen.
    pub fn new(flows: u32) -> Self {
        Self {
            due: vec![0; flows as usize],
        }
    }

    /// Takes the next packet.
    ///
    /// # Errors
    /// [`Error::Order`] if it is not the one that is due in its flow; in a flow that does not exist, none is.
    #[inline]
    pub fn check(&mut self, Stamp { flow, sequence }: Stamp) -> Result<(), Error> {
        match self.due.get_mut(flow as usize) {
            Some(due) if *due == sequence => {
                *due += 1;
                Ok(())
            }
            due => Err(Error::Order {
                flow,
                expected: due.map_or(0, |due| *due),
                found: sequence,
            }),
        }
    }
}

/// Checks that what was received was transmitted or dropped.
///
/// # Errors
/// [`Error::Balance`] if not.
pub fn balance(received: u64, transmitted: u64, drops: &Drops) -> Result<(), Error> {
    let dropped = drops.total();
    if received == transmitted + dropped {
        Ok(())
    } else {
        Err(Error::Balance {
            received,
            transmitted,
            dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether packets of these flows and sequence numbers pass.
    fn pass(packets: &[(u32, u64)]) -> Result<(), Error> {
        let mut order = Order::new(2);
        packets
            .iter()
            .try_for_each(|&(flow, sequence)| order.check(Stamp { flow, sequence }))
    }

    #[test]
    fn flows_may_overtake_each_other() {
        pass(&[(1, 0), (1, 1), (0, 0), (1, 2), (0, 1)]).unwrap();
    }

    #[test]
    fn a_fault_in_a_flow_is_found() {
        for (name, packets) in [
            ("swapped", &[(0, 0), (0, 2), (0, 1)][..]),
            ("lost", &[(0, 0), (1, 0), (0, 2)]),
            ("first lost", &[(0, 1)]),
            ("twice", &[(0, 0), (0, 0)]),
            ("no such flow", &[(2, 0)]),
        ] {
            assert!(matches!(pass(packets), Err(Error::Order { .. })), "{name}");
        }
    }

    #[test]
    fn every_packet_is_accounted_for() {
        let drops = Drops {
            no_route: 1,
            unsent: 2,
            ..Drops::default()
        };
        balance(10, 7, &drops).unwrap();
        for (received, transmitted) in [(11, 7), (9, 7), (10, 10), (10, 6)] {
            let result = balance(received, transmitted, &drops);
            assert!(matches!(result, Err(Error::Balance { dropped: 3, .. })));
        }
    }
}
