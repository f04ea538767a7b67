// SPDX-License-Identifier: GPL-2.0-only
//! Counting, listing and drawing agree with each other, with the paper, and with brute force.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use rand_pcg::Pcg64;
use threadwise_machine::Machine;
use threadwise_placement::{
    Assignments, Canonical, Error, Leaf, Predicted, Sampler, Scope, Tree, count, distinct,
};

fn t2() -> Machine {
    Machine::load("ultrasparc-t2").unwrap()
}

fn counts(machine: &Machine, threads: usize, instances: usize) -> [String; 3] {
    let tree = Tree::new(machine).unwrap();
    let scope = Scope::new(machine, &tree, Scope::DEFAULT).unwrap();
    let counts = count(&tree, &scope, threads, instances).unwrap();
    [
        counts.base,
        counts.base_modulo_instances.unwrap(),
        counts.slowdown,
    ]
    .map(|nr| nr.to_string())
}

#[test]
fn table_1_of_the_paper() {
    assert_eq!(counts(&t2(), 3, 1)[0], "11"); // Fig. 3
    let rows = [(4, "49", "9800"), (6, "1526", "105840"), (8, "74376", "653400")];
    for (threads, base, slowdown) in rows {
        assert_eq!(counts(&t2(), threads, 1), [base, base, slowdown]);
    }
    // The paper prints 1.4e31, and 4.7e8 for the Slowdown Table, which its own rule does not give.
    let [base, _, slowdown] = counts(&t2(), 32, 1);
    assert_eq!(base.len(), 32);
    assert!(base.starts_with("14"), "{base}");
    assert_eq!(slowdown, "12337063200");
}

/// All injective placements, sorted into classes by trying every exchange of hardware.
fn classes_by_brute_force(tree: &Tree, threads: usize) -> BTreeSet<Vec<Leaf>> {
    let mut classes = BTreeSet::new();
    let mut canonical = Canonical::new(tree);
    let mut placed = Vec::new();
    fn extend(threads: usize, nr_leaves: usize, placed: &mut Vec<Leaf>, found: &mut impl FnMut(&[Leaf])) {
        if placed.len() == threads {
            return found(placed);
        }
        for leaf in 0..nr_leaves as Leaf {
            if !placed.contains(&leaf) {
                placed.push(leaf);
                extend(threads, nr_leaves, placed, found);
                placed.pop();
            }
        }
    }
    let mut of = Vec::new();
    extend(threads, tree.nr_leaves(), &mut placed, &mut |placed| {
        canonical.of(placed, &mut of);
        classes.insert(of.clone());
    });
    classes
}

/// Machines on which everything can be tried: regular ones, and such as have cores of two kinds.
const SMALL: [&str; 7] = [
    "package:1 core:1 pu:1",
    "core:2 pu:2",
    "package:2 core:2 pu:2",
    "core:3 pu:1",
    "package:2 llc:1 core:3 pu:1",
    "tests/hybrid",
    "amp-8",
];

fn load(name: &str) -> Machine {
    match name {
        // Two cores with two hardware threads each, and three small ones, one of them slower than the others.
        "tests/hybrid" => {
            let text = "name = \"hybrid\"\ntopology = \"package:1 llc:1 core:5 pu:1\"\n";
            let file = std::env::temp_dir().join(format!("hybrid-{}.toml", std::process::id()));
            let capacities = "[[capacity]]\ncpus = \"0-1\"\ncapacity = 1024\n[[capacity]]\ncpus = \"2-3\"\ncapacity = 512\n\
                              [[capacity]]\ncpus = \"4\"\ncapacity = 256\n";
            std::fs::write(&file, format!("{text}{capacities}")).unwrap();
            let machine = Machine::load(file.to_str().unwrap()).unwrap();
            std::fs::remove_file(file).ok();
            machine
        }
        _ => Machine::load(name).unwrap(),
    }
}

#[test]
fn listing_counting_and_brute_force_agree() {
    for name in SMALL {
        let machine = load(name);
        let tree = Tree::new(&machine).unwrap();
        for threads in 1..=tree.nr_leaves().min(5) {
            let listed: Vec<_> = Assignments::new(&tree, threads).unwrap().collect();
            assert!(listed.is_sorted(), "{name}: the order is ascending");
            let expected: Vec<_> = classes_by_brute_force(&tree, threads).into_iter().collect();
            assert_eq!(listed, expected, "{name}, {threads} threads");
            assert_eq!(
                counts(&machine, threads, 1)[0],
                listed.len().to_string(),
                "{name}, {threads} threads"
            );
        }
    }
}

/// Orbits of the listed assignments under all exchanges of instances.
fn modulo_instances(tree: &Tree, threads: usize, instances: usize) -> usize {
    let mut canonical = Canonical::new(tree);
    let mut of = Vec::new();
    let mut smallest = BTreeSet::new();
    for placed in Assignments::new(tree, threads * instances).unwrap() {
        let orbit = permutations(instances).into_iter().map(|order| {
            let moved: Vec<Leaf> = order
                .iter()
                .flat_map(|&nr| placed[nr * threads..][..threads].to_vec())
                .collect();
            canonical.of(&moved, &mut of);
            of.clone()
        });
        smallest.insert(orbit.min().unwrap());
    }
    smallest.len()
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(n - 1);
    (0..n)
        .flat_map(|at| shorter.iter().map(move |rest| (at, rest)))
        .map(|(at, rest)| {
            let mut order = rest.clone();
            order.insert(at, n - 1);
            order
        })
        .collect()
}

#[test]
fn interchangeable_instances_by_brute_force() {
    for name in SMALL {
        let machine = load(name);
        let tree = Tree::new(&machine).unwrap();
        for (threads, instances) in [(1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (3, 2), (1, 5)] {
            if threads * instances <= tree.nr_leaves() {
                let expected = modulo_instances(&tree, threads, instances).to_string();
                assert_eq!(
                    counts(&machine, threads, instances)[1],
                    expected,
                    "{name}: {instances} of {threads}"
                );
            }
        }
    }
    // On a real machine too: two instances of IPFwd on a T2.
    let tree = Tree::new(&t2()).unwrap();
    assert_eq!(
        counts(&t2(), 3, 2),
        [
            "1526".to_string(),
            modulo_instances(&tree, 3, 2).to_string(),
            "2100".into()
        ]
    );
}

/// Of all assignments of two instances as many are left as there are when they are interchangeable; of three as well.
#[test]
fn instances_in_another_order_are_told() {
    for (machine, threads, instances) in [
        ("ultrasparc-t2", 3, 2),
        ("core:3 pu:2", 2, 3),
        ("core:4 pu:2", 1, 4),
    ] {
        let machine = Machine::load(machine).unwrap();
        let tree = Tree::new(&machine).unwrap();
        let mut all = Assignments::new(&tree, threads * instances).unwrap();
        let listed = std::iter::from_fn(|| all.advance().map(|_| all.current().to_vec()));
        let listed: Vec<Predicted> = listed
            .map(|placed| Predicted {
                placed,
                performance: 1.0,
            })
            .collect();
        let nr = listed.len();
        let different = distinct(&tree, threads, listed, nr);
        assert_eq!(
            different.len().to_string(),
            counts(&machine, threads, instances)[1]
        );
    }
}

#[test]
fn counting_goes_on_where_listing_cannot() {
    let [base, modulo, _] = counts(&t2(), 4, 8);
    assert_eq!(base.len(), 32, "{base}");
    // Hardly any assignment is its own mirror image, so there are about 8! times fewer.
    let ratio = base.parse::<f64>().unwrap() / modulo.parse::<f64>().unwrap();
    assert!((0.999 * 40320.0..40320.0).contains(&ratio), "{base} {modulo}");
    let tree = Tree::new(&t2()).unwrap();
    let scope = Scope::new(&t2(), &tree, Scope::DEFAULT).unwrap();
    let counts = count(&tree, &scope, 4, 16).unwrap();
    assert!(counts.base.to_string().len() > 50, "{counts:?}");
    assert_eq!(counts.base_modulo_instances, None);
}

/// The 99.9 % quantile of chi-square, by Wilson and Hilferty's approximation (PNAS 17, 1931).
fn chi_square_limit(degrees: f64) -> f64 {
    let z = 3.0902;
    degrees * (1.0 - 2.0 / (9.0 * degrees) + z * (2.0 / (9.0 * degrees)).sqrt()).powi(3)
}

fn chi_square(drawn: &BTreeMap<Vec<Leaf>, u32>, nr_classes: usize) -> f64 {
    let expected = f64::from(drawn.values().sum::<u32>()) / nr_classes as f64;
    let seen: f64 = drawn
        .values()
        .map(|&nr| (f64::from(nr) - expected).powi(2) / expected)
        .sum();
    seen + (nr_classes - drawn.len()) as f64 * expected
}

#[test]
fn every_class_is_drawn_as_often() {
    for (name, threads) in [
        ("ultrasparc-t2", 4),
        ("package:2 core:2 pu:2", 4),
        ("tests/hybrid", 4),
        ("amp-8", 3),
    ] {
        let machine = load(name);
        let tree = Tree::new(&machine).unwrap();
        let listed: BTreeSet<_> = Assignments::new(&tree, threads).unwrap().collect();
        let mut sampler = Sampler::new(&tree, threads).unwrap();
        let mut random = Pcg64::new(7, 11);
        let mut drawn = BTreeMap::new();
        for _ in 0..listed.len() * 50 {
            let placed = sampler.draw(&mut random);
            assert!(listed.contains(&placed), "{name}: {placed:?} is not canonical");
            *drawn.entry(placed).or_insert(0) += 1;
        }
        let limit = chi_square_limit((listed.len() - 1) as f64);
        let found = chi_square(&drawn, listed.len());
        assert!(
            found < limit,
            "{name}: chi-square {found:.0} of {} classes, limit {limit:.0}",
            listed.len()
        );
    }
}

#[test]
fn drawing_threads_one_by_one_would_fail_the_test() {
    // Random hardware threads: what the word "random assignment" suggests first. Classes with more members come oftener.
    use rand_pcg::rand_core::Rng;
    let tree = Tree::new(&t2()).unwrap();
    let nr_classes = Assignments::new(&tree, 4).unwrap().count();
    let mut canonical = Canonical::new(&tree);
    let (mut random, mut drawn, mut of) = (Pcg64::new(7, 11), BTreeMap::new(), Vec::new());
    while drawn.values().sum::<u32>() < 50 * nr_classes as u32 {
        let placed: Vec<Leaf> = (0..4).map(|_| (random.next_u64() % 64) as Leaf).collect();
        if placed.iter().collect::<BTreeSet<_>>().len() == 4 {
            canonical.of(&placed, &mut of);
            *drawn.entry(of.clone()).or_insert(0) += 1;
        }
    }
    assert!(chi_square(&drawn, nr_classes) > chi_square_limit((nr_classes - 1) as f64));
}

/// Drawing went through all ways to spread threads over different cores: 24 threads on as many would take for ever.
#[test]
fn many_kinds_of_cores_are_no_obstacle() {
    let mut text = String::from("name = \"many\"\ndescription = \"d\"\ntopology = \"core:24 pu:1\"\n");
    for cpu in 0..24 {
        text += &format!("[[capacity]]\ncpus = \"{cpu}\"\ncapacity = {}\n", 1024 - 20 * cpu);
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("many.toml");
    std::fs::write(&path, text).unwrap();
    let tree = Tree::new(&Machine::load(path.to_str().unwrap()).unwrap()).unwrap();
    let mut sampler = Sampler::new(&tree, 24).unwrap();
    // 24!
    assert_eq!(sampler.total().to_string(), "620448401733239439360000");
    let drawn: BTreeSet<Leaf> = sampler.draw(&mut Pcg64::new(1, 1)).into_iter().collect();
    assert_eq!(drawn.len(), 24);
}

#[test]
fn each_number_is_one_assignment() {
    for (name, threads) in [
        ("ultrasparc-t2", 5),
        ("tests/hybrid", 3),
        ("package:2 core:2 pu:2", 5),
    ] {
        let machine = load(name);
        let tree = Tree::new(&machine).unwrap();
        let mut sampler = Sampler::new(&tree, threads).unwrap();
        let total: u64 = sampler.total().try_into().unwrap();
        let by_number: BTreeSet<_> = (0..total).map(|number| sampler.nth(number.into())).collect();
        let listed: BTreeSet<_> = Assignments::new(&tree, threads).unwrap().collect();
        assert_eq!(by_number, listed, "{name}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let machine = Machine::load("core:2 pu:2").unwrap();
    let tree = Tree::new(&machine).unwrap();
    let scope = Scope::new(&machine, &tree, "core").unwrap();
    let too_many = Error::TooManyThreads { threads: 6, cpus: 4 };
    assert_eq!(count(&tree, &scope, 3, 2).unwrap_err(), too_many);
    assert_eq!(Assignments::new(&tree, 6).err().unwrap(), too_many);
    assert_eq!(Sampler::new(&tree, 6).err().unwrap(), too_many);
    assert_eq!(
        count(&tree, &scope, 0, 2).unwrap_err(),
        Error::Zero { what: "threads" }
    );
    assert_eq!(
        count(&tree, &scope, 2, 0).unwrap_err(),
        Error::Zero { what: "instances" }
    );
    assert!(matches!(
        count(&tree, &scope, usize::MAX, 2),
        Err(Error::TooManyThreads { .. })
    ));
    let error = Scope::new(&machine, &tree, "pipe").unwrap_err().to_string();
    assert_eq!(
        error,
        "the machine has no level \"pipe\"; it has package, llc, core, pu"
    );
}

proptest! {
    #[test]
    fn exchanging_hardware_changes_no_class(
        leaves in Just((0..64u16).collect::<Vec<Leaf>>()).prop_shuffle(),
        threads in 1usize..20,
        exchange in 0usize..3,
        core in 0u16..7,
    ) {
        let tree = Tree::new(&t2()).unwrap();
        let placed = &leaves[..threads];
        // Two neighbouring cores, the pipes of one, or two strands of its first pipe.
        let (size, start) = [(8, core * 8), (4, core * 8), (1, core * 8)][exchange];
        let exchanged: Vec<Leaf> = placed
            .iter()
            .map(|&leaf| match leaf {
                leaf if (start..start + size).contains(&leaf) => leaf + size,
                leaf if (start + size..start + 2 * size).contains(&leaf) => leaf - size,
                leaf => leaf,
            })
            .collect();
        let (mut one, mut other, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let mut canonical = Canonical::new(&tree);
        canonical.of(placed, &mut one);
        canonical.of(&exchanged, &mut other);
        canonical.of(&one, &mut again);
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(&one, &again);
    }
}
