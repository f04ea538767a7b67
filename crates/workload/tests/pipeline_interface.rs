// SPDX-License-Identifier: GPL-2.0-only
//! The pipeline on real interfaces: a veth(4) pair in a network namespace of its own. Needs root; else it says so and
//! is skipped.

#![allow(clippy::unwrap_used)]

#[path = "../../../tests/notes.rs"]
mod notes;

use std::fs;
use std::io;
use std::process::Command;
use std::time::Duration;

use notes::note;
use threadwise_workload::pipeline::{Error, Report, Source, Spec, run};

const PACKETS: u64 = 20_000;

/// Two pairs, veth-a - veth-b and veth-c - veth-d, in a namespace that the calling thread and what it starts are in from now on.
fn enter_namespace_with_pairs() -> Result<(), String> {
    // SAFETY: no pointers are passed; the call concerns the calling thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("unshare(CLONE_NEWNET): {}", io::Error::last_os_error()));
    }
    for (one, other) in [("veth-a", "veth-b"), ("veth-c", "veth-d")] {
        ip(&format!("link add {one} type veth peer name {other}"))?;
        ip(&format!("link set dev {one} up"))?;
        ip(&format!("link set dev {other} up"))?;
    }
    Ok(())
}

fn ip(arguments: &str) -> Result<(), String> {
    let result = Command::new("ip").args(arguments.split(' ')).output();
    let output = result.map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    output
        .status
        .success()
        .then_some(())
        .ok_or_else(|| format!("ip {arguments}: {said}"))
}

fn spec(source: Source, interface_out: Option<&str>) -> Spec {
    Spec {
        source,
        interface_out: interface_out.map(str::to_owned),
        table_bytes: Some(1 << 14),
        // Long enough for any machine: the number of packets is to end the run.
        duration: Some(Duration::from_secs(60)),
        packets: Some(PACKETS),
        ..Spec::default()
    }
}

fn interface(name: &str) -> Source {
    Source::Interface {
        name: name.to_owned(),
    }
}

/// A generator sends by veth-a; a forwarder receives from veth-b and sends by veth-c; a third program receives from
/// veth-d.
fn forward_through_both_pairs() -> [Report; 3] {
    std::thread::scope(|scope| {
        let start = |spec: Spec| {
            let listening =
                listening_sockets() + usize::from(matches!(spec.source, Source::Interface { .. }));
            let program = scope.spawn(move || run(&spec, &mut |_| ()).unwrap());
            while listening_sockets() < listening {
                std::thread::sleep(Duration::from_millis(5));
            }
            program
        };
        let last = start(spec(interface("veth-d"), None));
        let forwarder = start(spec(interface("veth-b"), Some("veth-c")));
        let first = start(spec(Source::default(), Some("veth-a")));
        [first, forwarder, last].map(|program| program.join().unwrap())
    })
}

/// Packet sockets of this namespace that receive IPv4: the fourth column is the EtherType.
fn listening_sockets() -> usize {
    let sockets = fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    let ether_types = sockets.lines().filter_map(|line| line.split_whitespace().nth(3));
    ether_types.filter(|ether_type| *ether_type == "0800").count()
}

#[test]
fn packets_go_through_real_interfaces() {
    if let Err(reason) = enter_namespace_with_pairs() {
        note(&format!(
            "skipped packets_go_through_real_interfaces: no veth pairs here: {reason}"
        ));
        return;
    }
    let reports = forward_through_both_pairs();
    for report in &reports {
        assert_eq!((report.received, report.packets), (PACKETS, PACKETS), "{report}");
        assert_eq!(report.drops.total(), 0, "{report}");
    }
    let lost = reports.map(|report| report.lost_by_interface);
    assert_eq!(lost, [None, Some(0), Some(0)]);

    // What the interface cannot take is an error that says why.
    let too_long = Source::Generated {
        flows: 1,
        packet_bytes: 1518,
    };
    ip("link set dev veth-a mtu 1000").unwrap();
    let error = run(&spec(too_long, Some("veth-a")), &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, Error::Interface { .. }) && error.to_string().contains("MTU"),
        "{error}"
    );
    ip("link set dev veth-a down").unwrap();
    let error = run(&spec(Source::default(), Some("veth-a")), &mut |_| ()).unwrap_err();
    assert!(
        error.to_string().contains("on interface veth-a failed"),
        "{error}"
    );

    // Where nothing comes, the time ends the run.
    let silent = Spec {
        duration: Some(Duration::from_millis(200)),
        ..spec(interface("veth-d"), None)
    };
    let report = run(&silent, &mut |_| ()).unwrap();
    assert!(report.received == 0 && report.polls.receive > 0, "{report}");
}
