// SPDX-License-Identifier: GPL-2.0-only
//! Two programs of fixed work in two orders, in a guest: A, then B, beside B, then A (thread-essence, Fig. 6).
//!
//! What that shows is computed in [`threadwise_metrics::orders`].

use threadwise_metrics::TwoOrders;

use crate::error::Error;
use crate::experiment::Program;
use crate::protocol::{Output, Request};
use crate::run::performance;

/// Asks for the two orders of the commands of A and B.
///
/// # Panics
/// If there are not two, which the experiment's check has seen to.
pub(crate) fn request(commands: &[Vec<String>]) -> Request {
    let [a, b] = commands else {
        panic!("two orders of {} commands", commands.len())
    };
    Request::RunStreams {
        streams: vec![vec![a.clone(), b.clone()], vec![b.clone(), a.clone()]],
    }
}

/// Reads the times of A and B from what the four runs left.
///
/// # Errors
/// If one of them failed, or one is missing.
pub(crate) fn measured(programs: &[&Program], outputs: &[Output]) -> Result<TwoOrders, Error> {
    let ([a, b], [a_first, b_second, b_first, a_second]) = (programs, outputs) else {
        let (nr, of) = (outputs.len(), programs.len());
        return Err(Error::InGuest(format!(
            "{nr} outputs of {of} programs in two orders"
        )));
    };
    let seconds = |program: &Program, output: &Output| performance(output, program).map(|rate| 1.0 / rate);
    let first = [seconds(a, a_first)?, seconds(b, b_second)?];
    let second = [seconds(b, b_first)?, seconds(a, a_second)?];
    TwoOrders::new(first, second).map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(seconds: u64) -> Output {
        Output {
            status: Some(0),
            stdout: String::new(),
            stderr: String::new(),
            elapsed_ns: seconds * 1_000_000_000,
        }
    }

    fn program(name: &str) -> Program {
        Program {
            name: name.into(),
            command: vec![name.into()],
            ..Program::default()
        }
    }

    #[test]
    fn the_second_stream_has_the_other_order() {
        let commands = ["a", "b"].map(|name| vec![name.to_string()]);
        let Request::RunStreams { streams } = request(&commands) else {
            panic!("streams")
        };
        let names: Vec<String> = streams.iter().map(|stream| stream.concat().concat()).collect();
        assert_eq!(names, ["ab", "ba"]);
    }

    #[test]
    fn times_are_those_of_the_right_program() {
        let (a, b) = (program("a"), program("b"));
        let outputs = [6, 14, 8, 10].map(output);
        let orders = measured(&[&a, &b], &outputs).unwrap();
        let expected = [(6.0 + 10.0) / 2.0, (14.0 + 8.0) / 2.0];
        assert!(
            orders
                .mean_times()
                .iter()
                .zip(expected)
                .all(|(time, is)| (time - is).abs() < 1e-9)
        );
        let failed = Output {
            status: Some(1),
            ..output(1)
        };
        let error = measured(&[&a, &b], &[output(6), output(14), output(8), failed]).unwrap_err();
        assert!(error.to_string().contains("a ended with"), "{error}");
        assert!(measured(&[&a, &b], &outputs[..3]).is_err());
    }
}
