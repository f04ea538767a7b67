// SPDX-License-Identifier: GPL-2.0-only
//! A machine as a tree in which interchangeable hardware can be told from other hardware.

use std::collections::HashMap;
use std::ops::Range;

use threadwise_machine::{CpuId, Machine};

use crate::Error;

/// A hardware thread by its place in the tree: from 0, in the order in which [`Tree`] stands its children.
pub type Leaf = u16;

/// A machine's levels as a tree. Levels with one member in a node are left out; nodes of equal shape are
/// interchangeable: whatever runs on one could as well run on the other, if nothing else changes.
#[derive(Debug)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) nr_classes: usize,
    /// For each leaf the nodes on the way to it, the root left out.
    pub(crate) paths: Vec<Vec<usize>>,
    cpus: Vec<CpuId>,
    leaf_of: HashMap<CpuId, Leaf>,
}

/// The root's place in [`Tree::nodes`].
pub(crate) const ROOT: usize = 0;

#[derive(Debug)]
pub(crate) struct Node {
    pub shape: usize,
    pub leaves: Range<usize>,
    /// Which of its parent's classes it belongs to, and that class's number among all; 0 for the root.
    pub class: usize,
    pub class_id: usize,
    /// The children by shape, in the order of the shape's own children.
    pub classes: Vec<Class>,
}

/// Children of one shape. They stand one after the other.
#[derive(Debug)]
pub(crate) struct Class {
    /// Its number among all classes of the tree.
    pub id: usize,
    pub nodes: Vec<usize>,
    /// Leaves of each of them.
    pub size: usize,
}

/// What makes nodes interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// The innermost level of which the node is one member; `pu` for a leaf.
    pub level: String,
    /// A leaf's capacity; 0 for other nodes.
    pub capacity: u32,
    /// Shape and number of the children, ascending by shape.
    pub children: Vec<(usize, usize)>,
    pub nr_leaves: usize,
}

impl Tree {
    /// The tree of a machine.
    ///
    /// # Errors
    /// [`Error::TooManyCpus`] for more hardware threads than a [`Leaf`] can number.
    pub fn new(machine: &Machine) -> Result<Tree, Error> {
        if machine.nr_cpus() > usize::from(Leaf::MAX) {
            return Err(Error::TooManyCpus {
                nr: machine.nr_cpus(),
            });
        }
        let cpus: Vec<CpuId> = machine.cpus().iter().map(|cpu| cpu.id).collect();
        let mut tree = Tree {
            nodes: Vec::new(),
            shapes: Vec::new(),
            nr_classes: 0,
            paths: Vec::new(),
            cpus: Vec::new(),
            leaf_of: HashMap::new(),
        };
        let root = Split::new(machine, cpus, 0, &mut tree.shapes);
        tree.add(&root, (0, 0), &mut Vec::new());
        tree.leaf_of = tree
            .cpus
            .iter()
            .zip(0..)
            .map(|(&cpu, leaf)| (cpu, leaf))
            .collect();
        Ok(tree)
    }

    /// How many hardware threads there are, at least 1.
    pub fn nr_leaves(&self) -> usize {
        self.cpus.len()
    }

    /// The CPU at a place.
    pub fn cpu(&self, leaf: Leaf) -> CpuId {
        self.cpus[usize::from(leaf)]
    }

    /// The place of a CPU; none for one that the machine does not have.
    pub fn leaf(&self, cpu: CpuId) -> Option<Leaf> {
        self.leaf_of.get(&cpu).copied()
    }

    /// The groups of a level, each as a range of leaves, in the tree's order; empty when there is no such level.
    pub fn groups(&self, machine: &Machine, level: &str) -> Vec<Range<usize>> {
        let Some(level) = machine.level(level) else {
            return Vec::new();
        };
        let mut groups: Vec<_> = level
            .groups()
            .iter()
            .filter_map(|group| group.cpus.iter().filter_map(|&cpu| self.leaf(cpu)).min())
            .zip(level.groups().iter().map(|group| group.cpus.len()))
            .map(|(first, nr)| usize::from(first)..usize::from(first) + nr)
            .collect();
        groups.sort_by_key(|range| range.start);
        groups
    }

    /// The node that covers exactly these leaves, which are a member of some level.
    pub(crate) fn node_over(&self, leaves: &Range<usize>) -> usize {
        let node = self.nodes.iter().position(|node| node.leaves == *leaves);
        node.expect("levels nest, so their members are nodes")
    }

    /// Its shape.
    pub(crate) fn shape_over(&self, leaves: &Range<usize>) -> usize {
        self.nodes[self.node_over(leaves)].shape
    }

    /// Adds a node and all below it; `path` leads to it, and is as it was afterwards.
    fn add(&mut self, split: &Split, (class, class_id): (usize, usize), path: &mut Vec<usize>) -> usize {
        let node = self.nodes.len();
        let first = self.cpus.len();
        self.nodes.push(Node {
            shape: split.shape,
            leaves: first..first,
            class,
            class_id,
            classes: Vec::new(),
        });
        if node != ROOT {
            path.push(node);
        }
        if split.classes.is_empty() {
            self.cpus.extend(&split.cpus);
            self.paths.push(path.clone());
        }
        for (nr, class) in split.classes.iter().enumerate() {
            let id = self.nr_classes;
            self.nr_classes += 1;
            let nodes = class
                .iter()
                .map(|child| self.add(child, (nr, id), path))
                .collect();
            let size = class[0].cpus.len();
            self.nodes[node].classes.push(Class { id, nodes, size });
        }
        path.pop();
        self.nodes[node].leaves.end = self.cpus.len();
        node
    }
}

/// A node before the leaves are numbered.
struct Split {
    shape: usize,
    cpus: Vec<CpuId>,
    classes: Vec<Vec<Split>>,
}

impl Split {
    /// Divides `cpus`, which are together in all levels before `level`, by the first level that does.
    fn new(machine: &Machine, cpus: Vec<CpuId>, level: usize, shapes: &mut Vec<Shape>) -> Split {
        let levels = machine.levels();
        let parts = (level..levels.len())
            .map(|nr| (nr, parts(machine, &cpus, levels[nr].name())))
            .find(|(_, parts)| parts.len() > 1);
        let Some((nr, parts)) = parts else {
            let capacity = machine.cpu(cpus[0]).map_or(0, |cpu| cpu.capacity);
            let shape = Shape {
                level: threadwise_machine::names::PU.to_string(),
                capacity,
                children: Vec::new(),
                nr_leaves: 1,
            };
            return Split {
                shape: intern(shapes, shape),
                cpus,
                classes: Vec::new(),
            };
        };
        let mut classes: Vec<Vec<Split>> = Vec::new();
        for part in parts {
            let child = Split::new(machine, part, nr, shapes);
            match classes.iter_mut().find(|class| class[0].shape == child.shape) {
                Some(class) => class.push(child),
                None => classes.push(vec![child]),
            }
        }
        // Nodes of equal shape have their classes in the same order, whichever of their CPUs comes first.
        classes.sort_by_key(|class| class[0].shape);
        let children = classes
            .iter()
            .map(|class| (class[0].shape, class.len()))
            .collect();
        let shape = Shape {
            level: nr
                .checked_sub(1)
                .map_or("machine", |outer| levels[outer].name())
                .to_string(),
            capacity: 0,
            children,
            nr_leaves: cpus.len(),
        };
        Split {
            shape: intern(shapes, shape),
            cpus,
            classes,
        }
    }
}

/// `cpus` by their group of a level, in order of each group's lowest CPU.
fn parts(machine: &Machine, cpus: &[CpuId], level: &str) -> Vec<Vec<CpuId>> {
    let mut parts: Vec<(Option<usize>, Vec<CpuId>)> = Vec::new();
    for &cpu in cpus {
        let group = machine.group_of(level, cpu);
        match parts.iter_mut().find(|(known, _)| *known == group) {
            Some((_, part)) => part.push(cpu),
            None => parts.push((group, vec![cpu])),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

fn intern(shapes: &mut Vec<Shape>, shape: Shape) -> usize {
    shapes
        .iter()
        .position(|known| *known == shape)
        .unwrap_or_else(|| {
            shapes.push(shape);
            shapes.len() - 1
        })
}
