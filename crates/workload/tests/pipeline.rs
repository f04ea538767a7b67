// SPDX-License-Identifier: GPL-2.0-only
//! Whole runs of the packet pipeline: counts, ends, and what an observer outside sees.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use threadwise_workload::pipeline::{Error, Report, Source, Spec, Variant, Wait, run};

/// The threads of all runs in this process have the same names, so that only one may run at a time.
static ONE_RUN: Mutex<()> = Mutex::new(());

/// A short run with tables that need no knowledge of the machine and little memory.
fn spec(variant: Variant) -> Spec {
    Spec {
        variant,
        table_bytes: Some(1 << 20),
        duration: None,
        packets: Some(20_000),
        ..Spec::default()
    }
}

fn run_alone(spec: &Spec) -> Result<Report, Error> {
    let _guard = ONE_RUN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    run(spec, &mut |_| ())
}

#[test]
fn every_variant_forwards_every_packet() {
    for variant in Variant::ALL {
        let report = run_alone(&spec(variant)).unwrap();
        assert_eq!((report.packets, report.received), (20_000, 20_000), "{report}");
        assert_eq!(report.drops.total(), 0);
        assert!(!report.interrupted && report.duration_s > 0.0);
        let rate = 20_000.0 / report.duration_s;
        assert!((report.packets_per_s - rate).abs() <= 1e-9 * rate);
    }
}

#[test]
fn sizes_flows_buffers_and_spinning_do_too() {
    for (flows, packet_bytes, buffers, wait) in [
        (1, 64, 1, Wait::Yield),
        (1000, 1518, 2, Wait::Yield),
        (3, 65, 1000, Wait::Yield),
        (7, 200, 64, Wait::Spin),
    ] {
        let report = run_alone(&Spec {
            source: Source::Generated { flows, packet_bytes },
            buffers,
            wait,
            // With a buffer only and fewer CPUs than threads, every spinning packet may cost a time slice.
            packets: Some(5000),
            ..spec(Variant::Hash1L1)
        })
        .unwrap();
        assert_eq!((report.packets, report.received), (5000, 5000), "{report}");
    }
}

#[test]
fn a_run_ends_in_time_and_tells_its_rate_meanwhile() {
    let _guard = ONE_RUN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("packets");
    let spec = Spec {
        duration: Some(Duration::from_millis(500)),
        packets: None,
        interval: Some(Duration::from_millis(100)),
        counter: Some(counter.clone()),
        ..spec(Variant::HashNL2)
    };
    let (mut rates, mut counts) = (Vec::new(), vec![0]);
    let report = run(&spec, &mut |rate| {
        rates.push(rate);
        counts.push(count(&counter));
    })
    .unwrap();
    assert!(report.duration_s >= 0.45, "{report}");
    // As many as fit, less those that a busy machine was too late for.
    assert!((1..=5).contains(&rates.len()), "{rates:?}");
    assert!(rates.iter().any(|rate| *rate > 0.0), "{rates:?}");
    assert!(counts.is_sorted());
    assert_eq!(count(&counter), report.packets);
}

/// A pcap file (the format of pcap-savefile(5)) of UDP packets of 28 bytes over IPv4, with these times to live.
fn pcap(times_to_live: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (nr, ttl) in times_to_live.iter().enumerate() {
        let to = [10, 0, 0, nr as u8];
        let mut header = [
            0x45, 0, 0, 28, 0, 0, 0, 0, *ttl, 17, 0, 0, 172, 16, 0, 1, to[0], to[1], to[2], to[3],
        ];
        // RFC 1071: the ones' complement of the ones' complement sum.
        let sum: u32 = header
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
        let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let udp = [0x12, 0x34, 0, 53, 0, 8, 0, 0];
        let frame = [&ethernet[..], &header, &udp].concat();
        for word in [1, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn packets_of_a_file_go_through_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcap");
    let replay = |times_to_live: &[u8]| {
        fs::write(&path, pcap(times_to_live)).unwrap();
        let source = Source::Pcap { path: path.clone() };
        let spec = Spec {
            source,
            ..spec(Variant::HashNL1)
        };
        run_alone(&spec).unwrap()
    };
    let report = replay(&[64, 64, 64]);
    assert_eq!(
        (report.received, report.packets, report.drops.total()),
        (20_000, 20_000, 0),
        "{report}"
    );
    // One of four has come too far, each time.
    let report = replay(&[64, 1, 64, 64]);
    assert_eq!((report.received, report.packets), (20_000, 15_000), "{report}");
    assert_eq!(
        (report.drops.ttl_expired, report.drops.total()),
        (5000, 5000),
        "{report}"
    );
}

fn count(counter: &Path) -> u64 {
    u64::from_le_bytes(fs::read(counter).unwrap().try_into().unwrap())
}

#[test]
fn three_threads_have_their_names_and_the_main_thread_sleeps() {
    let _guard = ONE_RUN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let spec = Spec {
        duration: Some(Duration::from_millis(1500)),
        packets: None,
        ..spec(Variant::IntDiv)
    };
    let program = std::thread::Builder::new()
        .name("program".to_owned())
        .spawn(move || run(&spec, &mut |_| ()).unwrap())
        .unwrap();
    let start = Instant::now();
    let (mut names, mut ticks) = (Vec::new(), 0);
    while start.elapsed() < Duration::from_millis(1000) {
        std::thread::sleep(Duration::from_millis(100));
        (names, ticks) = (pipeline_threads(), cpu_ticks("program"));
    }
    program.join().unwrap();
    assert_eq!(names, ["P", "R", "T"]);
    // Ten ticks are 0.1 s: what making the table and the threads may take on a busy machine.
    assert!(ticks <= 10, "{ticks}");
}

/// The names, sorted, of those threads of this process that have a pipeline's name.
fn pipeline_threads() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .filter(|name| name.len() == 1)
        .collect();
    names.sort();
    names
}

/// CPU time of the thread of this name: utime and stime of proc(5), in ticks.
fn cpu_ticks(name: &str) -> u64 {
    let stats = fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    stats
        .filter(|stat| stat.contains(&format!("({name})")))
        .map(|stat| {
            let (_, fields) = stat.rsplit_once(')').unwrap();
            let times = fields.split_whitespace().skip(11).take(2);
            times.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>()
        })
        .sum()
}

#[test]
fn nonsense_is_refused() {
    let good = spec(Variant::Hash1L1);
    let generated = |flows, packet_bytes| Source::Generated { flows, packet_bytes };
    let refused = [
        Spec {
            buffers: 0,
            ..good.clone()
        },
        Spec {
            buffers: Spec::MAX_BUFFERS + 1,
            ..good.clone()
        },
        Spec {
            source: generated(0, 64),
            ..good.clone()
        },
        Spec {
            source: generated(Spec::MAX_FLOWS + 1, 64),
            ..good.clone()
        },
        Spec {
            source: generated(1, 63),
            ..good.clone()
        },
        Spec {
            source: generated(1, 1519),
            ..good.clone()
        },
        Spec {
            packets: Some(0),
            ..good.clone()
        },
        Spec {
            duration: Some(Duration::ZERO),
            ..good.clone()
        },
        Spec {
            interval: Some(Duration::ZERO),
            ..good.clone()
        },
        Spec {
            table_bytes: Some(0),
            ..good.clone()
        },
        Spec {
            table_bytes: Some(u64::MAX),
            ..good.clone()
        },
    ];
    for spec in refused {
        let error = run_alone(&spec).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    }
    let endless = Spec {
        packets: None,
        ..good.clone()
    };
    assert!(matches!(run_alone(&endless), Err(Error::NoEnd)));
    let idle_work = Spec {
        operations: Some(5),
        ..good
    };
    assert!(matches!(run_alone(&idle_work), Err(Error::NoOperations { .. })));
}

#[test]
fn the_size_of_the_table_follows_the_machine_or_the_error_says_what_to_do() {
    for variant in [Variant::Hash1L1, Variant::Hash1L2] {
        let result = run_alone(&Spec {
            table_bytes: None,
            ..spec(variant)
        });
        match result {
            Ok(report) => assert!(report.table_bytes >= 1 << 10, "{report}"),
            Err(error) => assert!(error.to_string().contains("--table-bytes"), "{error}"),
        }
    }
}
