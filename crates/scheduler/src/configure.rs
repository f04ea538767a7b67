// SPDX-License-Identifier: GPL-2.0-only
//! What the BPF program is told before it is loaded, and what of it is left out.

use std::ptr;

use anyhow::{Context, Result, ensure};
use libbpf_rs::skel::OpenSkel;
use nix::unistd::{SysconfVar, sysconf};
use scx_utils::compat;
use threadwise_machine::Machine;
use threadwise_policy::{PairingBy, pairs};
use tracing::info;

use crate::alternation::Alternation;
use crate::bpf_intf;
use crate::bpf_skel::{OpenBpfSkel, types};
use crate::calibrate;
use crate::cgroups;
use crate::cores::Cores;
use crate::mode::{Domains, Mode};
use crate::options::{Fault, Options};
use crate::pairing::{Counting, Pairing};
use crate::record;
use crate::speeds::Speeds;

/// The log level at which the verifier says how much it looked at, and nothing else (BPF_LOG_STATS of the kernel).
const VERIFIER_STATISTICS: u32 = 4;

/// Makes the BPF program do what the options ask for, where thread ids are below `nr_groups`; returns the machine as it was
/// told, and the counters by which it decides, if there are any.
pub fn configure(
    skel: &mut OpenBpfSkel<'_>,
    options: &Options,
    nr_groups: u32,
) -> Result<(Machine, Option<Counting>)> {
    choose_programs(skel, options);
    let rodata = rodata(skel)?;
    rodata.fault = number_of(options.inject_fault);
    tell_tunables(&mut rodata.tunables, options);
    let machine = machine(options)?;
    let counting = tell_machine(rodata, &machine, options)?;
    tell_shares(rodata, options)?;
    rodata.partial = options.partial;
    rodata.has_cgroups = !options.ignore_cgroups && cgroups::are_told_of()?;
    rodata.recording = options.record.is_some();
    if !rodata.has_cgroups {
        cgroups::leave_out(skel);
    }
    set_flags(skel)?;
    size_maps(skel, options, nr_groups)?;
    if counting.is_none() {
        skel.progs.threadwise_note_runtime.set_autoload(false);
    }
    Ok((machine, counting))
}

/// The program's constants.
pub fn rodata<'s>(skel: &'s mut OpenBpfSkel<'_>) -> Result<&'s mut types::rodata> {
    let rodata = skel.maps.rodata_data.as_mut();
    Ok(rodata.context("the BPF object has no rodata")?)
}

fn choose_programs(skel: &mut OpenBpfSkel<'_>, options: &Options) {
    // The headers' probe for is_migration_disabled(), which we do not ask. Its bpf_printk() would switch on a tracepoint
    // at every context switch of the machine, for good (__set_printk_clr_event() in kernel/trace/bpf_trace.c).
    skel.progs.scx_lib_init_probe.set_autoload(false);
    if options.verbose {
        for mut program in skel.open_object_mut().progs_mut() {
            program.set_log_level(VERIFIER_STATISTICS);
        }
    }
    let ops = skel.struct_ops.threadwise_ops_mut();
    ops.exit_dump_len = options.exit_dump_len;
    if options.programs.is_none() {
        // What these hooks would do is left out; so are they.
        ops.running = ptr::null_mut();
        ops.exit_task = ptr::null_mut();
    }
    if matches!(options.inject_fault, Some(Fault::Hookless)) {
        ops.select_cpu = ptr::null_mut();
        ops.enqueue = ptr::null_mut();
        ops.dispatch = ptr::null_mut();
        ops.quiescent = ptr::null_mut();
        ops.running = ptr::null_mut();
        ops.enable = ptr::null_mut();
        ops.disable = ptr::null_mut();
    }
}

fn number_of(fault: Option<Fault>) -> bpf_intf::tw_fault {
    match fault {
        None | Some(Fault::Hookless) => bpf_intf::tw_fault_TW_FAULT_NONE,
        Some(Fault::Ageless) => bpf_intf::tw_fault_TW_FAULT_AGELESS,
        Some(Fault::LostTimer) => bpf_intf::tw_fault_TW_FAULT_LOST_TIMER,
        Some(Fault::OldClock) => bpf_intf::tw_fault_TW_FAULT_OLD_CLOCK,
        Some(Fault::Patient) => bpf_intf::tw_fault_TW_FAULT_PATIENT,
        Some(Fault::Aloof) => bpf_intf::tw_fault_TW_FAULT_ALOOF,
        Some(Fault::Error) => bpf_intf::tw_fault_TW_FAULT_ERROR,
        Some(Fault::Stall) => bpf_intf::tw_fault_TW_FAULT_STALL,
        Some(Fault::Miscount) => bpf_intf::tw_fault_TW_FAULT_MISCOUNT,
        Some(Fault::Starve) => bpf_intf::tw_fault_TW_FAULT_STARVE,
        Some(Fault::Weightless) => bpf_intf::tw_fault_TW_FAULT_WEIGHTLESS,
        Some(Fault::Demote) => bpf_intf::tw_fault_TW_FAULT_DEMOTE,
        Some(Fault::Unlinked) => bpf_intf::tw_fault_TW_FAULT_UNLINKED,
        Some(Fault::Hoard) => bpf_intf::tw_fault_TW_FAULT_HOARD,
    }
}

fn tell_tunables(told: &mut types::tw_tunables, options: &Options) {
    let tunables = options.tunables.tunables();
    told.slice_ns = tunables.slice_ns;
    told.rotate_ns = tunables.rotate_ns;
    told.senior_boost_ns = tunables.senior_boost_ns;
    told.serial_turn_ns = tunables.serial_turn_ns;
    told.senior_turn_ns = tunables.senior_turn_ns;
    told.serial_boost_ns = tunables.serial_boost_ns;
    told.vtime_window_ns = tunables.vtime_window_ns;
    told.vtime_lag_ns = tunables.vtime_lag_ns;
    told.serial_threshold = tunables.serial_threshold;
    told.boost_shares = match options.inject_fault {
        Some(Fault::Ageless) => u32::from(u16::MAX),
        _ => tunables.boost_shares,
    };
}

/// Which cgroups' programs share memory.
fn tell_shares(rodata: &mut types::rodata, options: &Options) -> Result<()> {
    ensure!(
        options.share.is_empty() || options.mode != Mode::Near,
        "--share says who stays behind one last-level cache, which nobody does without --mode performance, powersave or auto"
    );
    ensure!(
        options.share.len() <= rodata.share_names.len(),
        "--share takes {} names at most",
        rodata.share_names.len()
    );
    rodata.nr_shares = options.share.len() as u32;
    for (slot, name) in rodata.share_names.iter_mut().zip(&options.share) {
        for (to, from) in slot.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
    }
    Ok(())
}

/// Which CPUs there are, how fast they are, and what they share, as far as that is asked for; and the counters that
/// tell who goes well beside whom.
fn tell_machine(
    rodata: &mut types::rodata,
    machine: &Machine,
    options: &Options,
) -> Result<Option<Counting>> {
    rodata.nr_cpus = u32::try_from(*scx_utils::NR_CPU_IDS)?;
    ensure!(
        rodata.nr_cpus <= bpf_intf::tw_limits_TW_MAX_CPUS,
        "this machine has {} CPUs; {} are supported",
        rodata.nr_cpus,
        bpf_intf::tw_limits_TW_MAX_CPUS
    );
    let cores = Cores::of(machine);
    rodata.has_smt = machine.has_smt();
    rodata.hidden_smt = options.machine.is_some() && machine.has_smt() && !Machine::load("host")?.has_smt();
    rodata.siblings.copy_from_slice(&cores.siblings);
    rodata.core_first.copy_from_slice(&cores.first);
    rodata.has_mode = options.mode != Mode::Near;
    rodata.tells_programs = options.programs.is_some();
    rodata.has_caches = Domains::tells_caches(machine);
    rodata.has_homes = rodata.has_mode && rodata.has_caches;
    if rodata.has_mode || rodata.tells_programs || rodata.has_caches {
        let domains = Domains::of(machine)?;
        rodata.llc_of.copy_from_slice(&domains.llc);
        rodata.package_of.copy_from_slice(&domains.package);
        rodata.llc_cores.copy_from_slice(&domains.llc_cores);
        rodata.llc_package.copy_from_slice(&domains.llc_package);
    }
    let speeds = speeds(options, machine)?;
    rodata.capacities.copy_from_slice(&speeds.capacities);
    rodata.slowest = speeds.slowest;
    rodata.nr_faster = speeds.nr_faster as u32;
    let places = match machine.has_smt() {
        true => &speeds.places[..],
        false => &speeds.places[..speeds.nr_faster],
    };
    rodata.nr_places = places.len() as u32;
    rodata.places[..places.len()].copy_from_slice(places);
    let (unequal, nr_cpus) = (speeds.nr_faster > 0, rodata.nr_cpus as usize);
    let pairs = pairs(options.mode.spreading(), machine.nr_llcs(), unequal, nr_cpus);
    if !pairs && !matches!(options.pairing, PairingBy::Auto | PairingBy::Off) {
        info!(
            "tasks are not paired: that takes --mode performance, several last-level caches, equal CPUs, and no more than {} of them",
            bpf_intf::TW_IDLE_SCAN
        );
    }
    let pairing = Pairing::of(if pairs { options.pairing } else { PairingBy::Off }, machine)?;
    rodata.pairing = pairing.number();
    let paired_bytes = pairing.llc_bytes();
    let mut counting = pairing.into_counting();
    let alternation = Alternation::of(options.alternate, machine, &mut counting)?;
    rodata.alternate = alternation.number();
    rodata.llc_bytes = paired_bytes.or(alternation.llc_bytes()).unwrap_or(0);
    let page_bytes =
        sysconf(SysconfVar::PAGE_SIZE)?.context("the C library does not say how large a page is")?;
    rodata.page_shift = page_bytes.trailing_zeros();
    rodata.lines_per_miss = counting.as_ref().map_or(1, Counting::lines_per_miss);
    Ok(counting)
}

fn set_flags(skel: &mut OpenBpfSkel<'_>) -> Result<()> {
    let rodata = rodata(skel)?;
    // Who wakes a task that is still switching away from its CPU leaves it to that one, and does not spin until then.
    let mut flags = *compat::SCX_OPS_ALLOW_QUEUED_WAKEUP;
    if rodata.partial {
        flags |= *compat::SCX_OPS_SWITCH_PARTIAL;
    }
    let alternates = rodata.alternate != bpf_intf::tw_alternate_by_TW_ALTERNATE_OFF;
    let has_better_cpus = rodata.nr_faster > 0 || rodata.has_smt || rodata.has_mode || alternates;
    let has_cgroups = rodata.has_cgroups;
    let ops = skel.struct_ops.threadwise_ops_mut();
    if has_better_cpus && !ops.enqueue.is_null() {
        // A task that would go on alone is enqueued all the same, which is how it leaves for a better CPU.
        flags |= *compat::SCX_OPS_ENQ_LAST;
    }
    if has_cgroups {
        flags |= cgroups::flags();
    }
    ops.flags |= flags;
    Ok(())
}

fn size_maps(skel: &mut OpenBpfSkel<'_>, options: &Options, nr_groups: u32) -> Result<()> {
    skel.maps.groups.set_max_entries(nr_groups)?;
    if options.record.is_some() {
        skel.maps.decisions.set_max_entries(record::BUFFER_BYTES)?;
    }
    if options.mode != Mode::Near {
        skel.maps.homes.set_max_entries(nr_groups)?;
    }
    if options.programs.is_some() {
        let most = bpf_intf::tw_limits_TW_MAX_PROGRAMS;
        skel.maps.programs.set_max_entries(most)?;
    }
    Ok(())
}

/// The machine that the options name, or else the running one as its kernel shows it.
fn machine(options: &Options) -> Result<Machine> {
    let name = options.machine.as_deref().unwrap_or("host");
    let machine = Machine::load(name)?;
    // Not how many are possible: where CPUs can be added, as in many virtual machines, those are more than there are.
    ensure!(
        name == "host" || machine.nr_cpus() == *scx_utils::NR_CPU_IDS,
        "--machine {name} has {} CPUs, this machine has {}: name one with as many",
        machine.nr_cpus(),
        *scx_utils::NR_CPU_IDS
    );
    Ok(machine)
}

/// How fast its CPUs are: measured, or as the machine says.
fn speeds(options: &Options, machine: &Machine) -> Result<Speeds> {
    if !options.calibrate {
        return Ok(Speeds::of(machine));
    }
    let capacities = calibrate::capacities(machine)?;
    let shown: Vec<String> = capacities
        .iter()
        .map(|(cpu, capacity)| format!("{cpu}: {capacity}"))
        .collect();
    info!("measured capacities: {}", shown.join(", "));
    Ok(Speeds::from_capacities(capacities))
}
