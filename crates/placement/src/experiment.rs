// SPDX-License-Identifier: GPL-2.0-only
//! What is run to fill the tables, and where each thread runs in it.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::layout::{Layout, Layouts, TARGET};
use crate::tables::{Across, Beside};
use crate::{Assignments, Error, Leaf, Reading, Scope, Tree, count};

/// One experiment. Its text names it in a store, and is the same for the same program on the same machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Experiment {
    /// One instance alone, in a canonical assignment: an entry of the Base Time Table.
    Base(Vec<Leaf>),
    /// A target instance, one thread of which runs beside stressing threads: an entry of the Slowdown Table.
    Beside(Beside),
    /// A target instance with threads of one role in other members of the scope, but in the same group beyond it.
    Across(Across),
    /// All instances in an assignment.
    Assignment(Vec<Leaf>),
    /// So many instances, placed by the kernel.
    Kernel(usize),
}

/// Where the threads of an experiment run: for each instance its threads' leaves, the instances whose performance counts
/// first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// By instance.
    pub instances: Vec<Vec<Leaf>>,
    /// How many of the instances count.
    pub nr_observed: usize,
}

/// The size of a workload: instances of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Distinct threads of an instance.
    pub roles: usize,
    /// Instances that are to run together.
    pub instances: usize,
}

/// The most experiments that are listed one by one.
const MAX_EXPERIMENTS: u32 = 2_000_000;

/// The experiments of both tables that predicting a workload can ask for, in a fixed order: alone first, then beside ever
/// more threads. A target's neighbours are at most one less of its own role than there are instances, and of each other
/// role as many as there are instances. A single instance has no neighbours but its own threads, which only the literal
/// reading counts.
///
/// # Errors
/// Those of [`count()`](crate::count()), and [`Error::TooManyExperiments`] where the whole tables have more than two
/// million entries.
pub fn manifest(
    tree: &Tree,
    scope: &Scope,
    layouts: &Layouts,
    (size, reading): (Size, Reading),
) -> Result<Vec<Experiment>, Error> {
    let entries = count(tree, scope, size.roles, 1)?;
    let nr = entries.base + entries.slowdown;
    if nr > MAX_EXPERIMENTS.into() {
        return Err(Error::TooManyExperiments { nr: nr.to_string() });
    }
    let base = Assignments::new(tree, size.roles)?.map(Experiment::Base);
    if size.instances == 1 && reading != Reading::Literal {
        return Ok(base.collect());
    }
    let mut beside: Vec<(u32, Beside)> = Vec::new();
    for kind in 0..layouts.nr_kinds() {
        for layout in layouts.around_target(kind, size.roles) {
            let nr = nr_of_each(layout, size.roles);
            for role in 0..size.roles {
                let most = |other| {
                    if other == role {
                        size.instances - 1
                    } else {
                        size.instances
                    }
                };
                if nr.iter().enumerate().all(|(other, &nr)| nr <= most(other)) {
                    let entry = Beside {
                        role: role as u8,
                        kind: kind as u8,
                        layout,
                    };
                    beside.push((nr.iter().sum::<usize>() as u32, entry));
                }
            }
        }
    }
    beside.sort_unstable();
    beside.dedup();
    Ok(base
        .chain(beside.into_iter().map(|(_, beside)| Experiment::Beside(beside)))
        .chain(across(scope, size).map(Experiment::Across))
        .collect())
}

/// For each kind of group beyond the scope and each role, one thread of each of ever more other instances.
fn across(scope: &Scope, size: Size) -> impl Iterator<Item = Across> {
    let kinds = scope
        .beyond()
        .into_iter()
        .flat_map(|beyond| (0..beyond.groups().len()).filter(move |&group| beyond.kind(group) == group));
    kinds.flat_map(move |kind| {
        (0..size.roles).flat_map(move |role| {
            (1..size.instances).map(move |nr| Across {
                kind: kind as u16,
                role: role as u8,
                nr: nr as u16,
            })
        })
    })
}

/// How many stressing threads of each role there are.
fn nr_of_each(layout: Layout, roles: usize) -> Vec<usize> {
    let mut nr = vec![0; roles];
    for byte in layout.0.to_le_bytes() {
        if byte != 0 && byte != TARGET {
            nr[usize::from(byte) - 1] += 1;
        }
    }
    nr
}

impl Experiment {
    /// Where its threads run, for programs of `roles` threads. None when the machine has no room for it: the other
    /// threads of the target and of the stressing instances must run outside of the target's member of the scope.
    pub fn setting(&self, layouts: &Layouts, scope: &Scope, roles: usize) -> Option<Setting> {
        match self {
            Experiment::Base(placed) => Some(Setting {
                instances: vec![placed.clone()],
                nr_observed: 1,
            }),
            Experiment::Beside(beside) => set_beside(beside, layouts, scope, roles),
            Experiment::Across(across) => set_across(across, scope, roles),
            Experiment::Assignment(placed) => Some(Setting {
                instances: placed.chunks_exact(roles).map(<[Leaf]>::to_vec).collect(),
                nr_observed: placed.len() / roles,
            }),
            Experiment::Kernel(_) => None,
        }
    }
}

/// The target's other threads get members of the scope for themselves as far as there are any, then the stressing
/// instances' other threads share what is left.
fn set_beside(beside: &Beside, layouts: &Layouts, scope: &Scope, roles: usize) -> Option<Setting> {
    let here = layouts.example(usize::from(beside.kind));
    let mut leaves: Vec<Vec<Option<Leaf>>> = vec![vec![None; roles]];
    let mut nr_seen = vec![0; roles];
    for (at, leaf) in here.clone().enumerate() {
        match beside.layout.byte(at) {
            0 => {}
            TARGET => leaves[0][usize::from(beside.role)] = Some(leaf as Leaf),
            byte => {
                let role = usize::from(byte) - 1;
                nr_seen[role] += 1;
                if leaves.len() <= nr_seen[role] {
                    leaves.push(vec![None; roles]);
                }
                leaves[nr_seen[role]][role] = Some(leaf as Leaf);
            }
        }
    }
    let mut elsewhere: Vec<Vec<Leaf>> = (scope.members().iter())
        .filter(|&member| *member != here)
        .map(|member| member.clone().rev().map(|leaf| leaf as Leaf).collect())
        .collect();
    // Who is placed first gets the emptiest member; the target's threads come first, and theirs are used up last.
    let mut of_target: Vec<Vec<Leaf>> = Vec::new();
    for thread in leaves[0].iter_mut().filter(|thread| thread.is_none()) {
        if elsewhere.is_empty() {
            *thread = Some(emptiest(&mut of_target)?.pop()?);
        } else {
            let mut member = elsewhere.remove(0);
            *thread = Some(member.pop()?);
            of_target.push(member);
        }
    }
    // Out of the way of the target as far as possible: in other groups beyond the scope, then in other members of it.
    let is_remote = |member: &Vec<Leaf>| {
        scope.beyond().is_some_and(|beyond| {
            let group = beyond.group_of(here.start as Leaf);
            member.iter().all(|&leaf| beyond.group_of(leaf) != group)
        })
    };
    let (mut remote, mut near): (Vec<_>, Vec<_>) = elsewhere.into_iter().partition(is_remote);
    for thread in leaves[1..].iter_mut().flatten().filter(|thread| thread.is_none()) {
        let mut pools = [&mut remote, &mut near, &mut of_target].into_iter();
        let pool = pools.find(|pool| pool.iter().any(|member| !member.is_empty()))?;
        *thread = Some(emptiest(pool)?.pop()?);
    }
    Some(Setting {
        instances: leaves
            .into_iter()
            .map(|threads| threads.into_iter().flatten().collect())
            .collect(),
        nr_observed: 1,
    })
}

/// The target is in one group, spread over as many members as leave room for the stressing threads in others; the other
/// threads of the stressing instances are in other groups.
fn set_across(across: &Across, scope: &Scope, roles: usize) -> Option<Setting> {
    let beyond = scope.beyond()?;
    let group = beyond.groups().get(usize::from(across.kind))?;
    let leaves_of = |member: &Range<usize>| {
        (member.clone())
            .rev()
            .map(|leaf| leaf as Leaf)
            .collect::<Vec<_>>()
    };
    let (here, mut elsewhere): (Vec<_>, Vec<_>) = (scope.members().iter().map(leaves_of))
        .partition(|member: &Vec<Leaf>| group.contains(&usize::from(member[0])));
    let room = |members: &[Vec<Leaf>]| members.iter().map(Vec::len).sum::<usize>();
    let nr = usize::from(across.nr);
    let is_good = |&own: &usize| room(&here[..own]) >= roles && room(&here[own..]) >= nr;
    let own = (1..here.len().min(roles + 1)).rev().find(is_good)?;
    let (mut own, mut others) = (here[..own].to_vec(), here[own..].to_vec());
    let take = |pool: &mut [Vec<Leaf>]| emptiest(pool)?.pop();
    let mut instances = vec![(0..roles).map(|_| take(&mut own)).collect::<Option<Vec<_>>>()?];
    for _ in 0..nr {
        let mut thread = |role| {
            take(if role == usize::from(across.role) {
                &mut others
            } else {
                &mut elsewhere
            })
        };
        instances.push((0..roles).map(&mut thread).collect::<Option<_>>()?);
    }
    Some(Setting {
        instances,
        nr_observed: 1,
    })
}

/// The member with most free leaves; the first of several.
fn emptiest(members: &mut [Vec<Leaf>]) -> Option<&mut Vec<Leaf>> {
    members.iter_mut().rev().max_by_key(|member| member.len())
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |placed: &[Leaf]| placed.iter().map(Leaf::to_string).collect::<Vec<_>>().join(",");
        match self {
            Experiment::Base(placed) => write!(f, "base {}", list(placed)),
            Experiment::Beside(at) => write!(f, "beside {},{},{:x}", at.role, at.kind, at.layout.0),
            Experiment::Across(at) => write!(f, "across {},{},{}", at.kind, at.role, at.nr),
            Experiment::Assignment(placed) => write!(f, "assignment {}", list(placed)),
            Experiment::Kernel(instances) => write!(f, "kernel {instances}"),
        }
    }
}

impl FromStr for Experiment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = || Error::Assignment {
            problem: format!("\"{text}\" names no experiment"),
        };
        let list = |text: &str| -> Result<Vec<Leaf>, Error> {
            text.split(',')
                .map(|leaf| leaf.parse().map_err(|_| fail()))
                .collect()
        };
        match text.split_once(' ') {
            Some(("base", placed)) => Ok(Experiment::Base(list(placed)?)),
            Some(("assignment", placed)) => Ok(Experiment::Assignment(list(placed)?)),
            Some(("beside", at)) => match at.split(',').collect::<Vec<_>>()[..] {
                [role, kind, layout] => Ok(Experiment::Beside(Beside {
                    role: role.parse().map_err(|_| fail())?,
                    kind: kind.parse().map_err(|_| fail())?,
                    layout: Layout(u128::from_str_radix(layout, 16).map_err(|_| fail())?),
                })),
                _ => Err(fail()),
            },
            Some(("across", at)) => match at.split(',').collect::<Vec<_>>()[..] {
                [kind, role, nr] => Ok(Experiment::Across(Across {
                    kind: kind.parse().map_err(|_| fail())?,
                    role: role.parse().map_err(|_| fail())?,
                    nr: nr.parse().map_err(|_| fail())?,
                })),
                _ => Err(fail()),
            },
            Some(("kernel", instances)) => Ok(Experiment::Kernel(instances.parse().map_err(|_| fail())?)),
            _ => Err(fail()),
        }
    }
}
