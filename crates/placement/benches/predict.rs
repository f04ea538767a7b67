// SPDX-License-Identifier: GPL-2.0-only
//! How many assignments are predicted in a second: all of three instances of IPFwd on an UltraSPARC T2, and random ones of
//! eight.

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand_pcg::Pcg64;
use threadwise_machine::Machine;
use threadwise_placement::spec::Precision;
use threadwise_placement::{
    Assignments, Campaign, Computed, Layouts, Predictor, Reading, Sampler, Scope, Size, Store, Tree,
    best_of_all, manifest,
};

const ROLES: usize = 3;

fn predict(criterion: &mut Criterion) {
    let machine = Machine::load("ultrasparc-t2").expect("it is in the zoo");
    let tree = Tree::new(&machine).expect("64 CPUs");
    let scope = Scope::new(&machine, &tree, Scope::DEFAULT).expect("it has cores");
    let layouts = Layouts::new(&tree, &scope).expect("8 CPUs a core");
    let campaign = Campaign {
        tree: &tree,
        scope: &scope,
        layouts: &layouts,
        size: Size {
            roles: ROLES,
            instances: 8,
        },
        precision: Precision {
            relative: 0.01,
            min: 1,
            max: 1,
        },
        seed: 1,
        interrupted: &AtomicBool::new(false),
    };
    let store = Store::open(Path::new(":memory:"), ("ipfwd", "ipfwd")).expect("in memory");
    let mut runner = Computed::new(&machine, "intadd", 0.0, 1).expect("it is known");
    let experiments =
        manifest(&tree, &scope, &layouts, (campaign.size, Reading::Literal)).expect("3 threads fit");
    campaign
        .run(&experiments, &mut runner, &store, |_| {})
        .expect("it computes");
    let tables = campaign.tables(&store).expect("in memory");
    for (name, reading) in [("literal", Reading::Literal), ("excess", Reading::Excess)] {
        let mut predictor =
            Predictor::new(&tables, &tree, &layouts, &scope, (ROLES, reading)).expect("it fits");
        let mut group = criterion.benchmark_group("predict");
        group.sample_size(10);
        let nr = Assignments::new(&tree, 3 * ROLES).expect("9 threads fit").count() as u64;
        group.throughput(Throughput::Elements(nr));
        group.bench_function(format!("{name}/all of 9 threads"), |bencher| {
            bencher.iter(|| {
                best_of_all(&tree, &mut predictor, 3 * ROLES, 5)
                    .expect("9 threads fit")
                    .nr_seen
            });
        });
        let mut sampler = Sampler::new(&tree, 8 * ROLES).expect("24 threads fit");
        let mut random = Pcg64::new(1, 1);
        let sample: Vec<_> = (0..1000).map(|_| sampler.draw(&mut random)).collect();
        group.throughput(Throughput::Elements(1000));
        group.bench_function(format!("{name}/random of 24 threads"), |bencher| {
            bencher.iter(|| {
                sample
                    .iter()
                    .map(|placed| black_box(predictor.predict(placed)))
                    .sum::<f64>()
            });
        });
    }
}

criterion_group!(benches, predict);
criterion_main!(benches);
