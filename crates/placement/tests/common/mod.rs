// SPDX-License-Identifier: GPL-2.0-only
//! A machine, and a campaign on it that keeps its results in memory.

// Each test binary uses a part.
#![allow(dead_code)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use threadwise_machine::Machine;
use threadwise_placement::spec::Precision;
use threadwise_placement::{Campaign, Layouts, Reading, Runner, Scope, Size, Store, Tables, Tree, manifest};

/// A machine, and how far threads disturb each other on it.
pub struct Bench {
    pub machine: Machine,
    pub tree: Tree,
    pub scope: Scope,
    interrupted: AtomicBool,
}

impl Bench {
    pub fn load(source: &str) -> Bench {
        let machine = Machine::load(source).unwrap();
        let tree = Tree::new(&machine).unwrap();
        let scope = Scope::new(&machine, &tree, Scope::DEFAULT).unwrap();
        Bench {
            machine,
            tree,
            scope,
            interrupted: AtomicBool::new(false),
        }
    }

    pub fn t2() -> Bench {
        Bench::load("ultrasparc-t2")
    }

    pub fn layouts(&self) -> Layouts<'_> {
        Layouts::new(&self.tree, &self.scope).unwrap()
    }

    /// Runs each experiment once, in the order of seed 1.
    pub fn campaign<'a>(&'a self, layouts: &'a Layouts<'a>, size: Size) -> Campaign<'a> {
        Campaign {
            tree: &self.tree,
            scope: &self.scope,
            layouts,
            size,
            precision: Precision {
                relative: 0.01,
                min: 1,
                max: 1,
            },
            seed: 1,
            interrupted: &self.interrupted,
        }
    }
}

pub const fn size(roles: usize, instances: usize) -> Size {
    Size { roles, instances }
}

/// A store in memory.
pub fn store() -> Store {
    Store::open(Path::new(":memory:"), ("test", "test")).unwrap()
}

/// The tables of a campaign that has run its whole manifest.
pub fn profile(campaign: &Campaign, reading: Reading, runner: &mut dyn Runner, store: &Store) -> Tables {
    let how = (campaign.size, reading);
    let experiments = manifest(campaign.tree, campaign.scope, campaign.layouts, how).unwrap();
    campaign.run(&experiments, runner, store, |_| {}).unwrap();
    campaign.tables(store).unwrap()
}
