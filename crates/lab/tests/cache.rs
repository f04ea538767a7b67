// SPDX-License-Identifier: GPL-2.0-only
//! The governor's cache model (`lab/cache.h`), compiled natively: it is LRU to the letter where all sets are modelled, and says
//! nearly the same where one in N is.

#![allow(clippy::unwrap_used)] // a test that panics has failed

mod native;

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// 4096 lines: 256 sets of 16 ways, four pages a way.
const BYTES: u64 = 256 << 10;
const WAYS: u64 = 16;

/// What the model says of each address: 0 not looked at, 1 hit, 2 missed.
fn model(one_in: u64, addresses: &[u64]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let program = native::compile(folder.path(), "cache", &[]);
    let mut running = Command::new(&program)
        .args([BYTES, WAYS, one_in].map(|number| number.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = running.stdin.take().unwrap();
    let bytes: Vec<u8> = addresses
        .iter()
        .flat_map(|address| address.to_ne_bytes())
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let mut said = Vec::new();
    running.stdout.take().unwrap().read_to_end(&mut said).unwrap();
    writer.join().unwrap();
    assert!(running.wait().unwrap().success());
    assert_eq!(said.len(), addresses.len());
    said
}

/// The share of accesses that missed, of those that were looked at from `skipped` on.
fn miss_rate(said: &[u8], skipped: usize) -> f64 {
    let looked_at = said[skipped..].iter().filter(|answer| **answer != 0).count();
    let missed = said[skipped..].iter().filter(|answer| **answer == 2).count();
    missed as f64 / looked_at as f64
}

/// LRU as a textbook has it: a list for each set.
fn textbook(addresses: &[u64]) -> Vec<u8> {
    let nr_sets = BYTES / LINE / WAYS;
    let mut sets = vec![Vec::new(); nr_sets as usize];
    let access = |address: &u64| {
        let line = address / LINE;
        let set: &mut Vec<u64> = &mut sets[(line % nr_sets) as usize];
        let found = set.iter().position(|known| *known == line);
        if let Some(at) = found {
            set.remove(at);
        }
        set.insert(0, line);
        set.truncate(WAYS as usize);
        if found.is_some() { 1 } else { 2 }
    };
    addresses.iter().map(access).collect()
}

fn random(seed: u64, count: usize, of: u64) -> Vec<u64> {
    let mut random = Pcg64::new(u128::from(seed), 1);
    (0..count).map(|_| random.next_u64() % of).collect()
}

/// Random lines of a working set, laid out in pages that are scattered as physical ones are.
fn scattered(seed: u64, count: usize, bytes: u64) -> Vec<u64> {
    let pages = random(seed + 1, (bytes / PAGE) as usize, 1 << 30);
    let address = |at: u64| pages[(at / PAGE) as usize] * PAGE + at % PAGE;
    random(seed, count, bytes).into_iter().map(address).collect()
}

#[test]
fn where_all_sets_are_modelled_it_is_lru() {
    for bytes in [BYTES / 2, BYTES, 2 * BYTES, 100 * BYTES] {
        let addresses = random(bytes, 50_000, bytes);
        let (said, mut expected) = (model(1, &addresses), textbook(&addresses));
        assert!(said == expected, "{bytes} bytes");
        // The comparison would notice one line that stays too long.
        let last = expected.len() - 1;
        expected[last] = 3 - expected[last];
        assert!(said != expected);
    }
}

#[test]
fn known_patterns_miss_as_they_must() {
    let laps = |bytes: u64| -> Vec<u64> { (0..10 * bytes / LINE).map(|nr| nr * LINE % bytes).collect() };
    for one_in in [1, 4, 16] {
        // Round and round: all that fits hits, and of what does not fit nothing.
        let fits = model(one_in, &laps(BYTES));
        assert_eq!(miss_rate(&fits, (BYTES / LINE) as usize), 0.0);
        assert_eq!(miss_rate(&model(one_in, &laps(2 * BYTES)), 0), 1.0);
        // At random: what is there is any part of the set.
        for (times, expected) in [(2, 0.5), (4, 0.75), (8, 0.875)] {
            let said = model(one_in, &random(times, 200_000, times * BYTES));
            let rate = miss_rate(&said, 20_000);
            assert!((rate - expected).abs() < 0.015, "1 in {one_in}, {times}: {rate}");
        }
    }
}

#[test]
fn one_set_in_sixteen_says_nearly_what_all_say() {
    for bytes in [BYTES / 2, BYTES * 3 / 4, BYTES * 3 / 2, 2 * BYTES, 5 * BYTES] {
        let addresses = scattered(bytes, 400_000, bytes);
        let [all, some] = [1, 16].map(|one_in| model(one_in, &addresses));
        let looked_at = some.iter().filter(|answer| **answer != 0).count() * 16;
        assert!((looked_at as f64 / addresses.len() as f64 - 1.0).abs() < 0.02);
        let [all, some] = [all, some].map(|said| miss_rate(&said, 40_000));
        assert!((all - some).abs() < 0.03, "{bytes} bytes: {all} and {some}");
    }
}

/// The limit of sampling by what lies within a page, which the header tells.
#[test]
fn who_touches_one_line_of_each_page_is_seen_wrong() {
    let first_lines: Vec<u64> = (0..10_000).map(|nr| nr % 5000 * PAGE).collect();
    assert_eq!(miss_rate(&model(1, &first_lines), 0), 1.0);
    assert!(model(16, &first_lines).iter().all(|answer| *answer == 0));
}
