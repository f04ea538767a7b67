// SPDX-License-Identifier: GPL-2.0-only
//! The cores that the fluid model divides.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Error, Program};

/// The most kinds of cores that a [`Machine`] has: hybrid processors have two or three.
pub const MAX_CORE_TYPES: usize = 8;

/// Some equal cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreType {
    /// How many.
    pub cores: u32,
    /// The speed of each, in any unit: capacities will do.
    pub speed: f64,
}

/// Cores of one or several speeds. That of thread-essence, section VI, has n cores one of which is faster by the
/// factor a; [`Machine::of_types`] has several kinds, as the paper's section IX asks. A *core unit* is the speed of
/// the slowest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// From the fastest to the slowest, whose speed is 1; the rest is empty.
    types: [CoreType; MAX_CORE_TYPES],
}

impl Machine {
    /// `cores` is n >= 1; `asymmetry` is a >= 1, and 1 makes all cores equal. The paper assumes a < 2, where it never
    /// pays to leave a slow core idle; with perfect sharing no core is idle for any a.
    ///
    /// # Errors
    /// If there is no core, or `asymmetry` is below 1 or not finite.
    pub fn new(cores: u32, asymmetry: f64) -> Result<Self, Error> {
        if cores == 0 {
            return Err(Error::NoCores);
        }
        if !asymmetry.is_finite() || asymmetry < 1.0 {
            return Err(Error::Asymmetry { asymmetry });
        }
        let fast = CoreType {
            cores: 1,
            speed: asymmetry,
        };
        let slow = CoreType {
            cores: cores - 1,
            speed: 1.0,
        };
        let mut machine = Self::of_types(&[fast, slow])?;
        // A single core keeps its a: the unit is then that of the slow cores that it would have beside it.
        if cores == 1 {
            machine.types[0].speed = asymmetry;
        }
        Ok(machine)
    }

    /// Cores of several kinds, in any order; kinds without cores count for nothing.
    ///
    /// # Errors
    /// If there is no core, a speed is not finite and above 0, or there are more than [`MAX_CORE_TYPES`] speeds.
    pub fn of_types(types: &[CoreType]) -> Result<Self, Error> {
        let mut kinds: Vec<CoreType> = types.iter().copied().filter(|kind| kind.cores > 0).collect();
        kinds.sort_by(|a, b| b.speed.total_cmp(&a.speed));
        if let Some(kind) = kinds
            .iter()
            .find(|kind| !kind.speed.is_finite() || kind.speed <= 0.0)
        {
            return Err(Error::Speed { speed: kind.speed });
        }
        kinds.dedup_by(|next, kind| {
            let is_same = next.speed == kind.speed;
            if is_same {
                kind.cores = kind.cores.saturating_add(next.cores);
            }
            is_same
        });
        let slowest = kinds.last().ok_or(Error::NoCores)?.speed;
        if kinds.len() > MAX_CORE_TYPES {
            return Err(Error::CoreTypes { kinds: kinds.len() });
        }
        let mut machine = Self {
            types: [CoreType::default(); MAX_CORE_TYPES],
        };
        for (to, kind) in machine.types.iter_mut().zip(kinds) {
            *to = CoreType {
                cores: kind.cores,
                speed: kind.speed / slowest,
            };
        }
        Ok(machine)
    }

    /// The number of cores, n.
    pub fn cores(self) -> u32 {
        self.types
            .iter()
            .fold(0, |sum: u32, kind| sum.saturating_add(kind.cores))
    }

    /// The speed of the fastest core in core units, a.
    pub fn asymmetry(self) -> f64 {
        self.types[0].speed
    }

    /// The speed of the `count` fastest cores together, in core units; 0 for none.
    pub(super) fn fastest(self, count: u32) -> f64 {
        let mut left = count;
        let mut speed = 0.0;
        for kind in self.types.iter().take_while(|kind| kind.cores > 0) {
            let used = left.min(kind.cores);
            speed += f64::from(used) * kind.speed;
            left -= used;
        }
        speed
    }

    /// The speed of all cores together, in core units: n - 1 + a where one is faster (eq. 7).
    pub fn all(self) -> f64 {
        self.fastest(u32::MAX)
    }

    /// The long-run throughput of a program that has the machine to itself, in core units (eqs. 6 and 7, each for its
    /// share of the work).
    pub fn alone(self, program: impl Into<Program>) -> f64 {
        let (mut work, mut time) = (0.0, 0.0);
        for load in program.into().loads(self) {
            work += load.work;
            time += load.work / self.fastest(load.threads);
        }
        work / time
    }
}

impl fmt::Display for Machine {
    /// As `8 equal cores`, or `8 cores: 1x2 7x1`, each kind as its number and speed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&CoreType> = self.types.iter().filter(|kind| kind.cores > 0).collect();
        if kinds.len() == 1 {
            return write!(f, "{} equal cores", self.cores());
        }
        write!(f, "{} cores:", self.cores())?;
        kinds
            .iter()
            .try_for_each(|kind| write!(f, " {}x{}", kind.cores, kind.speed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cores: u32, speed: f64) -> CoreType {
        CoreType { cores, speed }
    }

    #[test]
    fn two_types_are_the_paper_s_machine() {
        let paper = Machine::new(8, 2.0).unwrap();
        let types = Machine::of_types(&[kind(3, 512.0), kind(1, 1024.0), kind(4, 512.0)]).unwrap();
        assert_eq!(paper, types);
        assert_eq!((types.cores(), types.asymmetry(), types.all()), (8, 2.0, 9.0));
        assert_eq!(
            Machine::new(8, 1.0),
            Machine::of_types(&[kind(8, 3.0), kind(0, f64::NAN)])
        );
        assert_eq!(Machine::new(1, 1.5).unwrap().all(), 1.5);
        assert_eq!(types.to_string(), "8 cores: 1x2 7x1");
        assert_eq!(Machine::new(8, 1.0).unwrap().to_string(), "8 equal cores");
    }

    #[test]
    fn the_fastest_come_first() {
        let machine = Machine::of_types(&[kind(8, 1.0), kind(2, 3.0), kind(4, 2.0)]).unwrap();
        assert_eq!(
            [0, 1, 2, 3, 6, 7, 14, 99].map(|count| machine.fastest(count)),
            [0.0, 3.0, 6.0, 8.0, 14.0, 15.0, 22.0, 22.0]
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Machine::of_types(&[]), Err(Error::NoCores));
        assert_eq!(Machine::of_types(&[kind(0, 1.0)]), Err(Error::NoCores));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                Machine::of_types(&[kind(1, speed), kind(1, 1.0)]),
                Err(Error::Speed { .. })
            ));
        }
        let nine: Vec<CoreType> = (1..=9).map(|speed| kind(1, f64::from(speed))).collect();
        assert_eq!(Machine::of_types(&nine), Err(Error::CoreTypes { kinds: 9 }));
    }
}
