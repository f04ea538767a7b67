// SPDX-License-Identifier: GPL-2.0-only
//! SIGINT and SIGTERM end a run of the pipeline early, with a report. Alone in its process, as signals belong to one.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use threadwise_workload::pipeline::{Spec, run};

#[test]
fn signals_end_a_run_with_its_report() {
    let folder = tempfile::tempdir().unwrap();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let counter = folder.path().join("packets");
        let spec = Spec {
            table_bytes: Some(1 << 14),
            duration: Some(Duration::from_secs(3600)),
            counter: Some(counter.clone()),
            catch_interrupts: true,
            ..Spec::default()
        };
        // SAFETY: the default action; a shell that started this in the background has them ignored, and a run leaves
        // what is ignored alone.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        let program = std::thread::spawn(move || run(&spec, &mut |_| ()).unwrap());
        while std::fs::read(&counter).map_or(true, |bytes| bytes.iter().all(|byte| *byte == 0)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: sends a signal to this process, which the run catches, as it transmits already.
        assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
        let report = program.join().unwrap();
        assert!(report.interrupted && report.packets > 0, "{report}");
        assert!(report.duration_s < 3600.0);
        assert_eq!(report.received, report.packets);
        std::fs::remove_file(&counter).unwrap();
    }
}
