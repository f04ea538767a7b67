// SPDX-License-Identifier: GPL-2.0-only
//! Programs as the fluid model sees them: phases in turn, each with its number of ready threads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use threadwise_workload::Ratio;
use threadwise_workload::synthetic::phases::MeanRound;

use super::Machine;

/// How many threads are ready in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One for each core, n.
    All,
    /// So many, m >= 1.
    Some(u32),
}

/// A phase of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// How many threads are ready.
    pub threads: Threads,
    /// Mean length for each of its threads, relative to the program's other phases; finite and above 0.
    pub length: f64,
}

/// What a program does again and again: its phases in turn. A phase is serial if one thread is ready.
///
/// Of the paper's programs, p:s, one phase has n threads and the other has one. Written as text, a program is such a
/// ratio, or its phases as THREADSxLENGTH: `8x2/4x1/1x3` has eight threads for two units of time each, then four, then
/// one; `nx1/1x1` is `1:1`. A phase is 1 unit long on the mean over the program's phases, as in the benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Program {
    text: String,
    phases: Vec<Phase>,
}

/// Why a text is not a [`Program`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseProgramError {
    /// It has a colon, so a ratio was meant.
    #[error(transparent)]
    Ratio(#[from] threadwise_workload::ParseRatioError),
    /// A phase is not well-formed.
    #[error(
        "`{phase}` in the program `{program}` is no phase: write a ratio such as 4:1, or phases as THREADSxLENGTH with \
         slashes between them, such as 8x2/4x1/1x3, where THREADS is n (one a core) or 1 and more, and LENGTH above 0"
    )]
    Phase {
        /// The offending part.
        phase: String,
        /// The whole text.
        program: String,
    },
}

/// A phase on a certain machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub threads: u32,
    /// Mean work of all its threads together, in core units times mean phases.
    pub work: f64,
}

impl Program {
    /// The phases in turn, at least one.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The phases with their work on this machine.
    pub(super) fn loads(&self, machine: Machine) -> Vec<Load> {
        let sum: f64 = self.phases.iter().map(|phase| phase.length).sum();
        let mean = sum / self.phases.len() as f64;
        let load = |phase: &Phase| {
            let threads = match phase.threads {
                Threads::All => machine.cores(),
                Threads::Some(threads) => threads,
            };
            Load {
                threads,
                work: f64::from(threads) * phase.length / mean,
            }
        };
        self.phases.iter().map(load).collect()
    }
}

impl From<Ratio> for Program {
    fn from(ratio: Ratio) -> Self {
        let MeanRound { parallel, serial } = MeanRound::new(ratio, 1.0);
        let phases = [(Threads::All, parallel), (Threads::Some(1), serial)];
        Self {
            text: ratio.to_string(),
            phases: phases
                .into_iter()
                .filter(|(_, length)| *length > 0.0)
                .map(|(threads, length)| Phase { threads, length })
                .collect(),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl FromStr for Program {
    type Err = ParseProgramError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains(':') {
            return Ok(Ratio::from_str(text)?.into());
        }
        let phase = |part: &str| {
            parse_phase(part).ok_or_else(|| ParseProgramError::Phase {
                phase: part.to_owned(),
                program: text.to_owned(),
            })
        };
        let phases = text.split('/').map(phase).collect::<Result<_, _>>()?;
        Ok(Self {
            text: text.to_owned(),
            phases,
        })
    }
}

/// Lengths and threads that are out of all proportion are refused, so that sums stay finite.
fn parse_phase(text: &str) -> Option<Phase> {
    let (threads, length) = text.trim().split_once('x')?;
    let threads = match threads {
        "n" => Threads::All,
        number => Threads::Some(
            number
                .parse()
                .ok()
                .filter(|threads| (1..=1 << 16).contains(threads))?,
        ),
    };
    let length = length
        .parse()
        .ok()
        .filter(|length| (1e-9..=1e9).contains(length))?;
    Some(Phase { threads, length })
}

impl TryFrom<String> for Program {
    type Error = ParseProgramError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Program> for String {
    fn from(program: Program) -> Self {
        program.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(text: &str) -> Vec<Load> {
        let machine = Machine::new(8, 1.0).unwrap();
        text.parse::<Program>().unwrap().loads(machine)
    }

    #[test]
    fn a_ratio_is_two_phases() {
        for (ratio, phases) in [
            ("1:1", "nx1/1x1"),
            ("4:1", "8x4/1x1"),
            ("inf:1", "nx3"),
            ("1:inf", "1x1"),
        ] {
            assert_eq!(loads(ratio), loads(phases), "{ratio}");
        }
        let three = loads("8x2/4x1/1x3");
        assert_eq!(
            three
                .iter()
                .map(|load| (load.threads, load.work))
                .collect::<Vec<_>>(),
            [(8, 8.0), (4, 2.0), (1, 1.5)]
        );
    }

    #[test]
    fn what_is_no_program_is_refused_by_name() {
        for text in [
            "", "8", "8x", "x1", "0x1", "-1x1", "1x0", "1xinf", "1xNaN", "8x1//1x1", "1x1/", "9e9x1",
        ] {
            let error = text.parse::<Program>().unwrap_err();
            assert!(error.to_string().contains("no phase"), "{text}: {error}");
        }
        assert!(matches!(
            "1:x".parse::<Program>(),
            Err(ParseProgramError::Ratio(_))
        ));
    }
}
