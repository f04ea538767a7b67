// SPDX-License-Identifier: GPL-2.0-only
//! The caches that the lab models, and cores that are faster while others are idle.

use super::measured_by;

/// A machine file in a folder of its own.
fn machine(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, text).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (folder, name)
}

fn over_first(done: &[f64]) -> Vec<f64> {
    done.iter().map(|it| it / done[0]).collect()
}

/// CPUs 0 and 1 have a cache, 2 and 3 another. One program on CPU 0; two behind one cache; two behind two; and one of two
/// threads that share a set behind one cache. A set is three quarters of a cache, and beside each access are some 200 instructions.
const SCRIPT: &str = r#"
    on() { cpus=$1; shift; busybox taskset $cpus threadwise bench memory --pattern random --working-set 768K --compute 20 --duration 2 --format json "$@"; }
    both() { on 1 >/tmp/a & A=$!; on $1 >/tmp/b; wait $A; busybox cat /tmp/a /tmp/b; }
    on 1; both 2; both 4; on 3 --threads 2 --sharing shared
    "#;
const TWO_CACHES: &str = "name = \"m\"\ntopology = \"package:2 l2:1(size=1MB) core:2\"\n\
                          [memory]\nlatency_ns = 100\n[lab]\nmips = 60\n";

#[test]
fn programs_lose_where_their_sets_do_not_fit_into_the_cache_that_they_share() {
    let (_folder, name) = machine(TWO_CACHES);
    // A third misses, for what 200 instructions take: 67 more for some 220. The threads of one program do as much as two.
    let shows = |done: &[f64]| {
        let share = over_first(done);
        // Pages are not spread evenly over the sets of a cache.
        let near = |share: f64, expected: f64| (share / expected - 1.0).abs() < 0.1;
        share.len() == 6
            && share[1..3].iter().all(|share| (0.65..0.88).contains(share))
            && share[3..5].iter().all(|share| near(*share, 1.0))
            && near(share[5], 2.0)
    };
    let modelled = measured_by(
        "accesses_per_s",
        &format!("{name} --caches 16"),
        "",
        SCRIPT,
        shows,
    );
    assert!(shows(&modelled), "{:?}", over_first(&modelled));
    // Without the model nothing of that is there, and the comparison says so.
    let is_flat = |done: &[f64]| {
        let share = over_first(done);
        share[1..5].iter().all(|share| (0.92..1.08).contains(share))
    };
    let plain = measured_by("accesses_per_s", &name, "", SCRIPT, is_flat);
    assert!(is_flat(&plain) && !shows(&plain), "{:?}", over_first(&plain));
}

#[test]
fn cores_are_faster_while_others_of_their_package_are_idle() {
    let (_folder, name) = machine(
        "name = \"m\"\ntopology = \"package:2 llc:1 core:2\"\n[acceleration]\nmhz = [3000, 2000]\n[lab]\nmips = 60\n",
    );
    let script = r#"
        on() { busybox taskset $1 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 2 --format json; }
        both() { on 1 >/tmp/a & A=$!; on $1 >/tmp/b; wait $A; busybox cat /tmp/a /tmp/b; }
        on 1; both 2; both 4
        "#;
    let expected = [1.0, 2.0 / 3.0, 2.0 / 3.0, 1.0, 1.0];
    let holds = |done: &[f64]| {
        let near = |(share, expected): (&f64, &f64)| (share / expected - 1.0).abs() < 0.05;
        done.len() == expected.len() && over_first(done).iter().zip(&expected).all(near)
    };
    let done = measured_by("work_units", &name, "", script, holds);
    assert!(holds(&done), "{:?}, not {expected:?}", over_first(&done));
}
