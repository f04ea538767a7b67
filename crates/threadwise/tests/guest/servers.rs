// SPDX-License-Identifier: GPL-2.0-only
//! Servers and their clients, over loopback: they run under our scheduler, and what they print is a figure.

use super::notes::note;
use super::{as_fast_as_possible, exec, job, number_after, reported, stdout};

/// Programs of Debian's package dbench.
const DBENCH: [&str; 3] = ["dbench", "tbench", "tbench_srv"];

/// What the guests have of these, and the load for them, by its path.
pub fn programs() -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let found = DBENCH.into_iter().filter(|name| is_there(name));
    found.map(String::from).chain([LOAD.into()]).collect()
}

/// From the repository's root, as guests have it from theirs. By its whole path a guest would not see it where the repository is in
/// /tmp, which guests have one of their own of.
const LOAD: &str = "workloads/letters.dbench";

const SCHEDULER: &str = "scx_threadwise --machine dual-smt-hidden";

fn ran(script: &str) -> String {
    stdout(exec(
        "dual-smt-hidden",
        &as_fast_as_possible(job(SCHEDULER, script)),
    ))
}

#[test]
#[ignore = "long: make test FULL=1"]
fn file_servers_have_a_throughput() {
    if programs().len() <= DBENCH.len() {
        note("skipped: dbench is not installed, so no file server was run (apt-get install dbench)");
        return;
    }
    let out = ran(&format!(
        "dbench -t 3 -c {LOAD} -D /dev/shm 3; tbench_srv >/dev/null & busybox sleep 0.5; tbench -t 3 -c {LOAD} 3 127.0.0.1"
    ));
    let of_files: Vec<&str> = out
        .lines()
        .filter(|line| line.starts_with("Throughput"))
        .collect();
    assert_eq!(of_files.len(), 2, "{out}");
    for line in of_files {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(
            words[1].parse::<f64>().unwrap() > 0.0 && words[2..5] == ["MB/sec", "3", "clients"],
            "{line}"
        );
    }
    // Each read finds what was written: an error would have ended the client.
    let count = |operation: &str| {
        number_after(
            operation,
            out.lines().find(|line| line.contains(operation)).unwrap(),
        )
    };
    assert!(count("ReadX") > count("WriteX") && count("WriteX") > 0, "{out}");
}

#[test]
fn everybody_in_a_chat_hears_everything() {
    let out = ran(
        "O='--port 7005 --rooms 2 --users 5 --messages 20'; threadwise bench chat --part server $O & \
         threadwise bench chat --part clients $O --format json",
    );
    assert_eq!(reported("sent", &out), [200.0]);
    assert_eq!(reported("received", &out), [800.0]);
    assert!(reported("messages_per_s", &out)[0] > 0.0);
}
