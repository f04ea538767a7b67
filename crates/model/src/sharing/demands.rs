// SPDX-License-Identifier: GPL-2.0-only
//! What each thread asks of each station, given where all are: the input of the solver.

use threadwise_machine::CpuId;

use super::Error;
use super::cache::{self, Footprint};
use super::hardware::{Hardware, Parameters, Place, Station};
use super::program::{Program, Sharing, Stage, Work};

/// Cycles for a packet, or for a turn of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// At each kind of station, by [`Station`].
    pub at: [f64; Station::NR],
    /// Spent without anybody.
    pub delay: f64,
}

/// A thread as the solver sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thread {
    /// For a packet.
    pub work: Demand,
    /// For a turn of the poll loop; all zero for threads that sleep when they wait.
    pub poll: Demand,
    /// Its station of each kind, by [`Station`].
    pub stations: [usize; Station::NR],
}

/// The loads of a packet that miss.
#[derive(Clone, Copy, Default)]
struct Misses {
    /// The L1: served by the L2 or beyond.
    l2: f64,
    /// The L2 too: served by the memory.
    memory: f64,
}

/// The threads in the order of the assignment.
///
/// # Errors
/// If the program is ill-formed or the assignment does not fit it or the machine.
pub(super) fn threads(
    hardware: &Hardware,
    program: &Program,
    assignment: &[CpuId],
) -> Result<Vec<Thread>, Error> {
    program.check()?;
    let places = places(hardware, program, assignment)?;
    let mut misses = region_misses(hardware.parameters(), program, &places);
    add_messages(program, &places, &mut misses);
    let poll = demand(hardware.parameters(), &program.poll, 0.0, Misses::default());
    let thread = |(index, place): (usize, &Place)| {
        let stage = stage_of(program, index);
        Thread {
            work: demand(
                hardware.parameters(),
                &stage.work,
                stage.accesses.iter().sum(),
                misses[index],
            ),
            poll,
            stations: hardware.stations(*place),
        }
    };
    Ok(places.iter().enumerate().map(thread).collect())
}

fn stage_of(program: &Program, thread: usize) -> &Stage {
    &program.stages[thread % program.stages.len()]
}

fn places(hardware: &Hardware, program: &Program, assignment: &[CpuId]) -> Result<Vec<Place>, Error> {
    let (threads, stages) = (assignment.len(), program.stages.len());
    if threads == 0 || !threads.is_multiple_of(stages) {
        return Err(Error::Instances { threads, stages });
    }
    let mut cpus = assignment.to_vec();
    cpus.sort_unstable();
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::SharedCpu { cpu: pair[0] });
    }
    assignment.iter().map(|cpu| hardware.place(*cpu)).collect()
}

/// For each thread, what its accesses to regions miss.
fn region_misses(parameters: &Parameters, program: &Program, places: &[Place]) -> Vec<Misses> {
    let copy = |(thread, region): (usize, usize), cache: usize, rate: f64| Footprint {
        cache,
        region,
        owner: match program.regions[region].sharing {
            Sharing::Thread => thread,
            Sharing::Instance => thread / program.stages.len(),
            Sharing::Program => 0,
        },
        bytes: program.regions[region].bytes,
        rate,
        miss: 0.0,
    };
    let uses: Vec<_> = (0..places.len())
        .flat_map(|thread| {
            let accesses = stage_of(program, thread).accesses.iter().enumerate();
            accesses.map(move |(region, rate)| ((thread, region), *rate))
        })
        .filter(|(_, rate)| *rate > 0.0)
        .collect();
    let (mut in_l1, mut in_l2) = (Vec::with_capacity(uses.len()), Vec::with_capacity(uses.len()));
    let l1: Vec<_> = uses
        .iter()
        .map(|&(of, rate)| cache::add(&mut in_l1, copy(of, places[of.0].core, rate)))
        .collect();
    cache::set_misses(&mut in_l1, parameters.l1_data_bytes);
    let l2: Vec<_> = uses
        .iter()
        .zip(&l1)
        .map(|(&(of, rate), l1)| cache::add(&mut in_l2, copy(of, places[of.0].llc, rate * in_l1[*l1].miss)))
        .collect();
    cache::set_misses(&mut in_l2, parameters.l2_bytes);
    let mut misses = vec![Misses::default(); places.len()];
    for ((((thread, _), rate), l1), l2) in uses.iter().zip(l1).zip(l2) {
        let to_l2 = rate * in_l1[l1].miss;
        misses[*thread].l2 += to_l2;
        misses[*thread].memory += to_l2 * in_l2[l2].miss;
    }
    misses
}

/// Adds what neighbouring stages on different cores read of each other: from the L2, or the memory between LLCs.
fn add_messages(program: &Program, places: &[Place], misses: &mut [Misses]) {
    let is_first = |thread: usize| thread.is_multiple_of(program.stages.len());
    for receiver in (1..places.len()).filter(|thread| !is_first(*thread)) {
        let sender = receiver - 1;
        let reads = [
            (sender, program.message.sender_reads),
            (receiver, program.message.receiver_reads),
        ];
        for (thread, reads) in reads {
            if places[sender].core != places[receiver].core {
                misses[thread].l2 += reads;
            }
            if places[sender].llc != places[receiver].llc {
                misses[thread].memory += reads;
            }
        }
    }
}

/// The cycles of `work` and of so many loads more.
fn demand(parameters: &Parameters, work: &Work, accesses: f64, misses: Misses) -> Demand {
    let mut demand = Demand {
        at: [0.0; Station::NR],
        delay: work.stall_cycles
            + (work.loads + accesses) * parameters.load_stall_cycles
            + work.taken_branches * parameters.branch_stall_cycles
            + work.multiplications * parameters.multiply_stall_cycles
            + misses.l2 * parameters.l2_stall_cycles
            + misses.memory * parameters.memory_stall_cycles,
    };
    let mut set = |station: Station, cycles: f64| demand.at[station as usize] = cycles;
    set(Station::Issue, work.instructions + accesses);
    set(Station::LoadStore, work.loads + accesses + work.stores);
    set(Station::Multiplier, work.multiplications);
    set(Station::Divider, work.divisions * parameters.divide_cycles);
    set(
        Station::L2,
        (misses.l2 + work.stores) * parameters.l2_access_cycles,
    );
    set(Station::Memory, misses.memory * parameters.memory_access_cycles);
    demand
}
