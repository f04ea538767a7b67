// SPDX-License-Identifier: GPL-2.0-only
//! The agent's streams of programs, here. The only test of its process, because it waits for any child.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use threadwise_lab::agent::run_streams;

fn reap() -> io::Result<Option<(i32, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: waitpid writes the status through a valid pointer.
    let pid = unsafe { libc::waitpid(-1, &mut status, 0) };
    Ok((pid > 0).then_some((pid, ExitStatus::from_raw(status))))
}

#[test]
fn the_programs_of_a_stream_run_one_after_the_other_beside_those_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // Each program waits for some of the others to have begun, if any, and for ever if they never do.
    let program = |name: &str, waits_for: &str| {
        let script = format!(
            "echo {name} >> {log}; for other in {waits_for}; do until grep -q $other {log}; do sleep 0.01; done; done; \
             echo {name} ended >> {log}; echo out {name}; echo err {name} >&2; [ {name} != third ]",
            log = log.display()
        );
        ["sh", "-c", &script].map(String::from).to_vec()
    };
    let streams = [
        vec![program("first", "fourth"), program("second", "")],
        vec![program("third", ""), program("fourth", "second")],
    ];
    let outputs = run_streams(folder.path(), &streams, reap).unwrap();
    let said: Vec<_> = outputs.iter().map(|output| output.stdout.trim()).collect();
    assert_eq!(said, ["out first", "out second", "out third", "out fourth"]);
    let status: Vec<_> = outputs.iter().map(|output| output.status).collect();
    assert_eq!(status, [Some(0), Some(0), Some(1), Some(0)]);
    assert!(
        outputs
            .iter()
            .all(|output| output.stderr.starts_with("err") && output.elapsed_ns > 0)
    );
    let log = std::fs::read_to_string(&log).unwrap();
    let at = |line: &str| log.lines().position(|found| found == line).unwrap();
    assert!(
        at("first ended") < at("second") && at("third ended") < at("fourth"),
        "{log}"
    );

    let killed = [vec![
        ["sh", "-c", "echo said; kill -9 $$"].map(String::from).to_vec(),
    ]];
    let outputs = run_streams(folder.path(), &killed, reap).unwrap();
    assert_eq!((outputs[0].status, outputs[0].stdout.as_str()), (None, "said\n"));
    assert_eq!(outputs[0].stderr, "lab: signal 9 ended it\n");

    let missing = [vec![vec![String::from("/no/such/program")]]];
    let error = run_streams(folder.path(), &missing, reap)
        .unwrap_err()
        .to_string();
    assert!(error.contains("/no/such/program"), "{error}");
}
