// SPDX-License-Identifier: GPL-2.0-only
//! What `policy/cgroup.h` promises, over trees of cgroups: each is a weight, a parent that comes before it, and the weights
//! of its ready threads.

use proptest::prelude::*;
use threadwise_policy::{Cgroup, cgroup_ready_ns};

const MS: u64 = 1_000_000;
const NICE_0: u32 = 100;

#[derive(Clone, Debug)]
struct Node {
    weight: u32,
    parent: usize,
    /// Weights of its threads by nice value; each is ready all the time.
    threads: Vec<u32>,
}

fn node(weight: u32, parent: usize, threads: &[u32]) -> Node {
    Node {
        weight,
        parent,
        threads: threads.to_vec(),
    }
}

/// A look at the whole tree, whose first node is the root, as `look_at_cgroup()` in `cgroups.bpf.h` takes it.
fn look(nodes: &[Node], cgroups: &mut [Cgroup], elapsed_ns: u64) {
    for (node, cgroup) in nodes.iter().zip(cgroups.iter_mut()) {
        cgroup.weight = node.weight;
        let load: u64 = node.threads.iter().map(|&weight| u64::from(weight)).sum();
        cgroup.begin(
            node.threads.len() as u64 * elapsed_ns,
            load * elapsed_ns,
            elapsed_ns,
        );
    }
    let total_256 = cgroups.iter().map(|cgroup| cgroup.load_256).sum();
    for index in 0..nodes.len() {
        let ready_256 = cgroups[index].ready_256;
        let mut above = index;
        cgroups[above].below_256 += ready_256;
        while above != 0 {
            above = nodes[above].parent;
            cgroups[above].below_256 += ready_256;
        }
    }
    for index in 1..nodes.len() {
        let active_256 = cgroups[index].active_256();
        cgroups[nodes[index].parent].rivals_256 += active_256;
    }
    for index in 0..nodes.len() {
        let part_16m = if index == 0 {
            10_000 << 24
        } else {
            part_of(nodes, cgroups, index)
        };
        cgroups[index].share_64k = cgroups[0].share(part_16m, total_256);
    }
}

fn part_of(nodes: &[Node], cgroups: &[Cgroup], mut index: usize) -> u64 {
    let mut part_16m = u64::from(nodes[index].weight) << 24;
    while nodes[index].parent != 0 {
        let parent = nodes[index].parent;
        part_16m = cgroups[index].nested(part_16m, &cgroups[parent]);
        index = parent;
    }
    part_16m
}

/// What each thread of each node weighs.
fn weights(nodes: &[Node]) -> Vec<Vec<u32>> {
    let mut cgroups = vec![Cgroup::default(); nodes.len()];
    look(nodes, &mut cgroups, 32 * MS);
    let of = |(index, node): (usize, &Node)| {
        let weigh = |&nice: &u32| cgroups[index].weight_of(nice, index == 0);
        node.threads.iter().map(weigh).collect()
    };
    nodes.iter().enumerate().map(of).collect()
}

/// The same by the definition: what a node gets is shared by the weights of those of its children below which anybody is
/// ready and of its own threads, and scaled to the same sum.
fn exact(nodes: &[Node]) -> Vec<Vec<f64>> {
    let ready: Vec<bool> = (0..nodes.len()).map(|index| is_ready(nodes, index)).collect();
    let rivals = |index: usize| -> f64 {
        let children = (1..nodes.len()).filter(|&child| nodes[child].parent == index && ready[child]);
        children.map(|child| f64::from(nodes[child].weight)).sum::<f64>()
            + nodes[index]
                .threads
                .iter()
                .map(|&nice| f64::from(nice))
                .sum::<f64>()
    };
    let mut gets = vec![0.0; nodes.len()];
    gets[0] = nodes
        .iter()
        .flat_map(|node| &node.threads)
        .map(|&nice| f64::from(nice))
        .sum();
    for index in 1..nodes.len() {
        let parent = nodes[index].parent;
        gets[index] = gets[parent] * f64::from(nodes[index].weight) / rivals(parent);
    }
    let of = |(index, node): (usize, &Node)| {
        let weigh = |&nice: &u32| gets[index] * f64::from(nice) / rivals(index);
        node.threads.iter().map(weigh).collect()
    };
    nodes.iter().enumerate().map(of).collect()
}

/// Whether anybody is ready in or below a node.
fn is_ready(nodes: &[Node], index: usize) -> bool {
    !nodes[index].threads.is_empty()
        || (1..nodes.len())
            .any(|child| child > index && nodes[child].parent == index && is_ready(nodes, child))
}

#[test]
fn a_single_cgroup_changes_nothing() {
    let threads = [NICE_0, 33, 305];
    assert_eq!(weights(&[node(100, 0, &threads)]), [threads]);
    for weight in [1, 100, 10_000] {
        let nodes = [node(100, 0, &[]), node(weight, 0, &threads), node(50, 0, &[])];
        assert_eq!(weights(&nodes), [vec![], threads.to_vec(), vec![]], "{weight}");
    }
}

#[test]
fn siblings_share_by_weight_whatever_their_threads() {
    let nodes = [
        node(100, 0, &[]),
        node(100, 0, &[NICE_0; 8]),
        node(300, 0, &[NICE_0; 16]),
    ];
    // 1 to 3 in all, and 24 threads of nice 0 in all.
    assert_eq!(weights(&nodes), [vec![], vec![75; 8], vec![113; 16]]);
    assert_eq!(exact(&nodes)[1][0], 75.0);
}

#[test]
fn nested_cgroups_multiply_and_the_root_s_threads_stand_for_themselves() {
    let nodes = [
        node(100, 0, &[NICE_0]),
        node(100, 0, &[]),
        node(100, 1, &[NICE_0; 4]),
        node(300, 1, &[NICE_0; 4]),
        node(100, 0, &[NICE_0; 3]),
    ];
    // Thirds of 1200: a thread; two cgroups, of which one is shared 1 to 3.
    assert_eq!(
        weights(&nodes),
        [vec![400], vec![], vec![25; 4], vec![75; 4], vec![133; 3]]
    );
}

#[test]
fn what_a_cgroup_does_not_use_goes_to_the_others() {
    // One thread that is ready for a twentieth of the time leaves the other cgroup almost all of its weight.
    let nodes = [
        node(100, 0, &[]),
        node(100, 0, &[]),
        node(100, 1, &[NICE_0; 8]),
        node(100, 1, &[]),
        node(100, 0, &[NICE_0; 8]),
    ];
    let mut cgroups = [Cgroup::default(); 5];
    let mut means = cgroups;
    look(&nodes, &mut cgroups, 32 * MS);
    let alone = cgroups[2].weight_of(NICE_0, false);
    // As in look(), but with the fourth node's thread.
    for (index, cgroup) in means.iter_mut().enumerate() {
        cgroup.weight = 100;
        let ready = if index == 3 {
            32 * MS / 20
        } else {
            nodes[index].threads.len() as u64 * 32 * MS
        };
        cgroup.begin(ready, 100 * ready, 32 * MS);
    }
    means[3].below_256 = means[3].ready_256;
    let active_256 = means[3].active_256();
    assert!((1100..=1300).contains(&active_256), "{active_256} of 25600");
    means[2].below_256 = means[2].ready_256;
    means[1].rivals_256 = means[2].active_256() + active_256;
    let part = |index: usize| means[index].nested(100 << 24, &means[1]);
    assert!(part(2) > (93 << 24), "of 100");
    assert!(
        ((45 << 24)..=(51 << 24)).contains(&part(3)),
        "when it is ready it competes with one"
    );
    assert_eq!(alone, NICE_0);
}

#[test]
fn a_cgroup_that_wakes_up_counts_at_once_and_is_forgotten_in_a_second() {
    let mut cgroup = Cgroup::default();
    cgroup.begin(8 * 32 * MS, 800 * 32 * MS, 32 * MS);
    assert_eq!((cgroup.ready_256, cgroup.load_256), (8 << 8, 800 << 8));
    for _ in 0..8 {
        cgroup.begin(0, 0, 32 * MS);
    }
    assert!((2 << 8..4 << 8).contains(&cgroup.ready_256), "{cgroup:?}");
    for _ in 0..32 {
        cgroup.begin(0, 0, 32 * MS);
    }
    assert!(cgroup.ready_256 < 1 << 5, "{cgroup:?}");
    (0..16).for_each(|_| cgroup.begin(0, 0, 32 * MS));
    let mut woken = cgroup;
    woken.begin(8 * 32 * MS, 800 * 32 * MS, 32 * MS);
    assert_eq!(woken.ready_256, 8 << 8, "as if it had been forgotten");
    cgroup.begin(0, 0, 3000 * MS);
    assert_eq!((cgroup.ready_256, cgroup.load_256), (0, 0));
}

#[test]
fn who_is_ready_at_times_is_followed_slowly_and_counts_for_that_time_look_after_look() {
    let mut cgroup = Cgroup {
        weight: 100,
        ..Cgroup::default()
    };
    for _ in 0..10 {
        cgroup.begin(4 * MS, 400 * MS, 32 * MS);
        cgroup.below_256 += cgroup.ready_256;
        assert!(
            (3000..=3200).contains(&cgroup.active_256()),
            "an eighth of 25600: {cgroup:?}"
        );
    }
    cgroup.begin(8 * 32 * MS, 800 * 32 * MS, 32 * MS);
    assert!(cgroup.ready_256 < 2 << 8, "{cgroup:?}");
}

#[test]
fn where_nothing_is_known_of_a_cgroup_a_thread_weighs_what_its_nice_value_says() {
    let weight_of = |weight, share_64k| {
        let cgroup = Cgroup {
            weight,
            share_64k,
            ..Cgroup::default()
        };
        cgroup.weight_of(NICE_0, false)
    };
    assert_eq!(
        [weight_of(0, 0), weight_of(0, 1 << 16), weight_of(300, 0)],
        [NICE_0; 3]
    );
}

#[test]
fn threads_that_are_charged_seldom_count_for_no_more() {
    // Eight threads that wait for long: nothing for three looks, then all of it.
    let mut cgroup = Cgroup::default();
    cgroup.begin(8 * 32 * MS, 800 * 32 * MS, 32 * MS);
    let mut sum_256 = 0;
    for index in 0..400 {
        let lump = if index % 4 == 3 { 4 * 32 * MS } else { 0 };
        cgroup.begin(8 * lump, 800 * lump, 32 * MS);
        sum_256 += cgroup.load_256;
    }
    let mean = sum_256 / 400 / 256;
    assert!((760..=840).contains(&mean), "{mean} for 800");
}

#[test]
fn what_ran_long_ago_counts_as_a_mean() {
    assert_eq!(cgroup_ready_ns(3 * MS, 5 * MS, 8 * MS), 8 * MS);
    // Half of a minute, over which nobody had to wait.
    let ready = cgroup_ready_ns(30_000 * MS, 0, 60_000 * MS);
    assert!((130 * MS..140 * MS).contains(&ready), "{ready}");
    // What it waited is recent, because it is charged when somebody waits.
    assert_eq!(cgroup_ready_ns(0, 900 * MS, 900 * MS), 900 * MS);
}

/// More than any machine has of what is a mean.
const MEAN_MAX: u64 = 1 << 32;

#[test]
fn more_than_any_machine_has_counts_as_the_most() {
    for sum in [1 << 57, u64::MAX] {
        let mut cgroup = Cgroup::default();
        cgroup.begin(sum, sum, 1);
        assert_eq!((cgroup.ready_256, cgroup.load_256), (MEAN_MAX, MEAN_MAX));
    }
}

#[test]
fn a_small_part_of_a_small_part_counts() {
    let root = Cgroup {
        weight: 100,
        rivals_256: 100 << 8,
        ..Cgroup::default()
    };
    let share = |part_16m| root.share(part_16m, (10_000 * u64::from(NICE_0)) << 8);
    assert_eq!(share(200) / share(100), 2);
    assert_eq!(root.share(1, 1), 1, "and the smallest is not nothing");
}

/// Trees of up to 12 cgroups with up to 5 threads each.
fn trees() -> impl Strategy<Value = Vec<Node>> {
    let weight = prop_oneof![Just(100u32), 1..=10_000u32];
    let threads = prop::collection::vec(prop_oneof![Just(NICE_0), 1..=10_000u32], 0..6);
    prop::collection::vec((weight, any::<prop::sample::Index>(), threads), 1..12).prop_map(|drawn| {
        let mut nodes: Vec<Node> = Vec::new();
        for (index, (weight, parent, threads)) in drawn.into_iter().enumerate() {
            let parent = if index == 0 { 0 } else { parent.index(index) };
            nodes.push(Node {
                weight,
                parent,
                threads,
            });
        }
        nodes
    })
}

proptest! {
    #[test]
    fn weights_are_those_of_the_definition_within_bounds(nodes in trees()) {
        for (weights, exact) in weights(&nodes).iter().zip(exact(&nodes)) {
            for (&weight, exact) in weights.iter().zip(exact) {
                prop_assert!((1..=10_000).contains(&weight));
                let bounded = exact.clamp(1.0, 10_000.0);
                // Half for rounding, a two-hundredth for fixed point and small parts of small parts.
                let room = 1.0 + bounded * 0.005;
                prop_assert!((f64::from(weight) - bounded).abs() < room, "{weight} for {exact}");
            }
        }
    }

    #[test]
    fn a_heavier_thread_or_cgroup_never_weighs_less(nodes in trees(), which in any::<prop::sample::Index>(), more in 1..5000u32) {
        let index = which.index(nodes.len());
        let mut cgroups = vec![Cgroup::default(); nodes.len()];
        look(&nodes, &mut cgroups, 32 * MS);
        for nice in [1, 33, NICE_0, 305, 8000] {
            prop_assert!(
                cgroups[index].weight_of(nice, index == 0) <= cgroups[index].weight_of(nice + 1, index == 0)
            );
        }
        let mut heavier = nodes.clone();
        heavier[index].weight = (heavier[index].weight + more).min(10_000);
        let of = |nodes: &[Node]| weights(nodes)[index].iter().sum::<u32>();
        // One of rounding for each thread.
        prop_assert!(of(&heavier) + nodes[index].threads.len() as u32 >= of(&nodes));
    }

    #[test]
    fn no_input_overflows(
        sums in prop::collection::vec((any::<u64>(), any::<u64>(), prop_oneof![0u64..1000, any::<u64>()]), 1..6),
        nice in 1..=10_000u32,
        weight in 1..=10_000u32,
        part in 1..=10_000u64,
        total in prop_oneof![0u64..1 << 34, any::<u64>()],
        ran in any::<u64>(), waited in any::<u64>(), elapsed in any::<u64>(),
    ) {
        let mut cgroup = Cgroup { weight, ..Cgroup::default() };
        for (ready, load, elapsed_ns) in sums {
            cgroup.begin(ready, load, elapsed_ns);
            prop_assert!(cgroup.ready_256 <= MEAN_MAX && cgroup.load_256 <= MEAN_MAX);
        }
        cgroup.below_256 = cgroup.ready_256;
        prop_assert!(cgroup.active_256() <= u64::from(weight) << 8);
        let root = Cgroup { weight: 100, rivals_256: cgroup.active_256(), ..Cgroup::default() };
        // Never more than all of the parent's.
        let part_16m = (part << 24).min(u64::from(weight) << 24);
        let nested = cgroup.nested(part_16m, &Cgroup { weight: 10_000, ..root });
        prop_assert!((1..=10_000 << 24).contains(&nested));
        prop_assert!(root.share(nested, total / 2) <= root.share(nested, total));
        cgroup.share_64k = root.share(nested, total);
        prop_assert!((1..=1 << 48).contains(&cgroup.share_64k));
        prop_assert!((1..=10_000).contains(&cgroup.weight_of(nice, false)));
        prop_assert!(cgroup_ready_ns(ran.min(elapsed), waited, elapsed) <= 5 << 28);
    }
}
