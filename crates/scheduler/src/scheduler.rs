// SPDX-License-Identifier: GPL-2.0-only
//! The BPF scheduler from the loader's side: check the kernel, attach, serve statistics, detach.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use crossbeam_channel::{Receiver, select};
use libbpf_rs::{Link, OpenObject};
use memmap2::{Mmap, MmapOptions};
use scx_stats::prelude::*;
use scx_utils::{UserExitInfo, compat, scx_ops_attach, scx_ops_load, scx_ops_open, uei_exited, uei_report};
use tracing::info;

use crate::bpf_intf;
use crate::bpf_skel::{BpfSkel, BpfSkelBuilder};
use crate::configure::{configure, rodata};
use crate::mode::{Follower, Mode};
use crate::newcomers::Newcomers;
use crate::online;
use crate::options::Options;
use crate::pairing::Counting;
use crate::programs::{self, Programs};
use crate::record::{Recorder, Recording};
use crate::stats::{self, Metrics, Snapshot};

/// How often to look whether the kernel has ended the scheduler. Each look wakes a serial program, this one, which takes a CPU for
/// a millisecond or two on processors as slow as the lab's.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often to take over what was recorded, which is much.
const RECORD_INTERVAL: Duration = Duration::from_millis(200);

/// `struct tw_group`; the ready count comes first.
const GROUP_BYTES: usize = size_of::<bpf_intf::tw_group>();

const NO_BSS: &str = "the BPF object has no bss";

const STATE: &str = "/sys/kernel/sched_ext/state";

/// Refuses early, with the remedy, what would otherwise fail deep inside libbpf.
pub fn check_kernel() -> Result<()> {
    let release = || fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !Path::new(STATE).exists() {
        bail!(
            "the running kernel {} has no sched_ext: boot Linux 7.1 or later, built with CONFIG_SCHED_CLASS_EXT=y as Debian's is \
             (tested on 7.2), or try it without one: threadwise lab run",
            release().trim()
        );
    }
    // On older ones the flag would be 0, and a task that goes to a CPU of its own might wait there behind another.
    if compat::read_enum("scx_enq_flags", "SCX_ENQ_IMMED").is_err() {
        bail!(
            "the sched_ext of the running kernel {} is too old, it has no SCX_ENQ_IMMED: boot Linux 7.1 or later",
            release().trim()
        );
    }
    // SAFETY: geteuid() has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        bail!("loading a scheduler needs root: run it with sudo");
    }
    let state = fs::read_to_string(STATE).with_context(|| format!("cannot read {STATE}"))?;
    if state.trim() != "disabled" {
        let other = fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
        bail!(
            "another sched_ext scheduler is attached ({} is {}): stop it first",
            other.trim(),
            state.trim()
        );
    }
    Ok(())
}

/// Why a scheduler ended.
pub enum Ended {
    /// It was told to stop, or the kernel ended it.
    Detached(UserExitInfo),
    /// CPUs came that it did not know: it has to be loaded anew.
    Newcomers,
}

/// The attached scheduler. Dropping it hands the machine back to the kernel's scheduler.
pub struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    link: Option<Link>,
    stats: StatsServer<(), Snapshot>,
    /// The map of thread groups, by tgid.
    groups: Mmap,
    /// The counters that tell who goes well beside whom.
    counting: Option<Counting>,
    /// CPUs of which the BPF program was not told, if they may come.
    newcomers: Option<Newcomers>,
    /// The ring buffer of decisions, if they are recorded.
    recording: Option<Recording>,
    /// The platform's power profile, if it decides.
    profile: Option<Follower>,
}

impl<'a> Scheduler<'a> {
    /// Loads the BPF program with these options and attaches it.
    pub fn attach(options: &Options, object: &'a mut MaybeUninit<OpenObject>) -> Result<Self> {
        let mut builder = BpfSkelBuilder::default();
        builder.obj_builder.debug(options.verbose);
        let open_opts = options.libbpf.clone().into_bpf_open_opts();
        let mut skel = scx_ops_open!(builder, object, threadwise_ops, open_opts)?;

        // Read once: the map and its mapping must have the same size.
        let nr_groups = pid_max()?;
        let (machine, counting) = configure(&mut skel, options, nr_groups)?;
        // A machine file tells of all.
        let shows_online_only = options.machine.as_deref().is_none_or(|name| name == "host");
        let newcomers = shows_online_only.then(|| Newcomers::beside(&machine));
        if options.mode != Mode::Near {
            skel.maps.bss_data.as_mut().context(NO_BSS)?.mode = options.mode.number()?;
        }
        let recorder = options
            .record
            .as_ref()
            .map(|path| Recorder::append(path, &rodata(&mut skel)?.tunables))
            .transpose()?;

        let mut skel = scx_ops_load!(skel, threadwise_ops, uei)?;
        if let Some(counting) = &counting {
            counting.install(&skel.maps.instruction_counters, &skel.maps.miss_counters)?;
        }
        let recording = recorder
            .map(|recorder| recorder.read(&skel.maps.decisions))
            .transpose()?;
        let link = Some(scx_ops_attach!(skel, threadwise_ops).map_err(explained)?);
        skel.maps.bss_data.as_mut().context(NO_BSS)?.attached = true;
        let stats = StatsServer::new(stats::server_data(options.programs.unwrap_or(0) as usize)).launch()?;
        // SAFETY: the map lives as long as the skeleton, its size never changes, and whole words are
        // read at once; that the kernel writes them meanwhile is what is wanted.
        let groups = unsafe {
            MmapOptions::new()
                .len(nr_groups as usize * GROUP_BYTES)
                .map(&skel.maps.groups.as_fd())
        }
        .context("cannot map the thread groups")?;
        Ok(Self {
            skel,
            link,
            stats,
            groups,
            counting,
            newcomers,
            recording,
            profile: (options.mode == Mode::Auto).then(Follower::begin),
        })
    }

    /// Answers requests for statistics until thrown out or told to stop, for which `signals` is waited for, or until CPUs came of
    /// which the BPF program was not told; then detaches and says why.
    pub fn serve(&mut self, shutdown: &AtomicBool, signals: &Receiver<()>) -> Result<Ended> {
        let (response, request) = self.stats.channels();
        let interval = match self.recording {
            Some(_) => RECORD_INTERVAL,
            None => LOOK_INTERVAL,
        };
        let mut grown = false;
        while !grown && !shutdown.load(Ordering::Relaxed) && !uei_exited!(&self.skel, uei) {
            select! {
                recv(request) -> asked => {
                    asked?;
                    response.send(self.snapshot()?)?;
                }
                recv(signals) -> signal => signal?,
                default(interval) => {}
            }
            if let Some(recording) = &self.recording {
                recording.consume().context("cannot write what was recorded")?;
            }
            self.follow_profile()?;
            let came = self.take_came()?;
            self.count_on(&came);
            grown = self
                .newcomers
                .as_mut()
                .is_some_and(|newcomers| newcomers.have_settled(&came, Instant::now()));
        }
        let ring = if uei_exited!(&self.skel, uei) {
            Ok(())
        } else {
            self.check_ring()
        };
        // The hooks do not see a CPU that comes or goes after that.
        let exited = uei_exited!(&self.skel, uei);
        let goes_on = grown && !shutdown.load(Ordering::Relaxed) && !exited;
        drop(self.link.take());
        if let Some(recording) = &self.recording {
            recording.consume().context("cannot write what was recorded")?;
        }
        // Why it ended matters more than what it left.
        let exit = uei_report!(&self.skel, uei)?;
        if !exited {
            ring?;
        }
        self.check_counts()?;
        self.check_programs()?;
        if goes_on {
            info!("CPUs that were offline came online: starting anew, with what they share");
            return Ok(Ended::Newcomers);
        }
        Ok(Ended::Detached(exit))
    }

    /// Takes over the mode that the platform's power profile asks for by now.
    fn follow_profile(&mut self) -> Result<()> {
        let Some(mode) = self.profile.as_mut().and_then(Follower::look) else {
            return Ok(());
        };
        let bss = self.skel.maps.bss_data.as_mut().context(NO_BSS)?;
        if bss.mode != mode {
            info!("the platform's power profile changed");
            bss.mode = mode;
        }
        Ok(())
    }

    /// By CPU, whether it came online since this was asked last.
    fn take_came(&mut self) -> Result<Vec<bool>> {
        let bss = self.skel.maps.bss_data.as_mut().context(NO_BSS)?;
        let take = |came: &mut bool| {
            // SAFETY: it is a valid bool that the BPF program sets, and nobody here reads it otherwise meanwhile.
            let came = unsafe { AtomicBool::from_ptr(came) };
            // Others are left alone, or one that comes at this moment would be lost.
            came.load(Ordering::Relaxed) && came.swap(false, Ordering::Relaxed)
        };
        Ok(bss.came_online.iter_mut().map(take).collect())
    }

    /// Opens the counters of CPUs that came, for the first time or again. One that is gone again will say so again.
    fn count_on(&mut self, came: &[bool]) {
        let Some(counting) = &mut self.counting else {
            return;
        };
        let maps = (
            &self.skel.maps.instruction_counters,
            &self.skel.maps.miss_counters,
        );
        for (cpu, _) in (0..).zip(came).filter(|&(_, &came)| came) {
            if let Err(error) = counting.count_on(cpu, maps.0, maps.1) {
                info!("CPU {cpu} is not counted on: {error:#}");
            }
        }
    }

    /// As long as it is attached, it walks over the CPUs that are online.
    fn check_ring(&self) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_ref().context(NO_BSS)?;
        online::check_ring(|| Ok((bss.next_online.to_vec(), bss.nr_online)))
    }

    /// After the last task has left, every thread group must count zero ready threads, and none is parallel.
    fn check_counts(&self) -> Result<()> {
        let left: Vec<String> = self
            .ready_groups()
            .iter()
            .map(|(tgid, nr_ready)| format!("{tgid}: {nr_ready}"))
            .collect();
        ensure!(
            left.is_empty(),
            "ready counts drifted; after detaching these thread groups are left: {left:?}"
        );
        let parallel = self.skel.maps.bss_data.as_ref().context(NO_BSS)?.nr_parallel;
        ensure!(
            parallel == 0,
            "{parallel} programs are counted as parallel after detaching"
        );
        Ok(())
    }

    /// After the last task has left, no program is left in the table.
    fn check_programs(&self) -> Result<()> {
        let left = self.programs()?;
        ensure!(
            left.is_empty(),
            "programs that ended were kept; after detaching these are left: {:?}",
            left.keys()
        );
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot {
            metrics: self.metrics()?,
            programs: self.programs()?,
            at: Instant::now(),
        })
    }

    /// What each program did, if they are told apart.
    fn programs(&self) -> Result<Programs> {
        let told = self
            .skel
            .maps
            .rodata_data
            .as_ref()
            .is_some_and(|rodata| rodata.tells_programs);
        if !told {
            return Ok(Programs::new());
        }
        programs::read(&self.skel.maps.programs, |tgid| self.nr_ready(tgid as usize))
    }

    fn metrics(&self) -> Result<Metrics> {
        let bss = self.skel.maps.bss_data.as_ref().context(NO_BSS)?;
        let sum = |stat: u32| bss.cpu_ctxs.iter().map(|cpu| cpu.stats[stat as usize]).sum();
        let threshold = self
            .skel
            .maps
            .rodata_data
            .as_ref()
            .map_or(2, |rodata| rodata.tunables.serial_threshold);
        let (mut ready, mut parallel_programs) = (0, 0);
        for (_, nr_ready) in self.ready_groups() {
            ready += u64::from(nr_ready);
            parallel_programs += u64::from(nr_ready > threshold);
        }
        Ok(Metrics {
            queued: sum(bpf_intf::tw_stat_TW_STAT_QUEUED),
            serial_preemptions: sum(bpf_intf::tw_stat_TW_STAT_SERIAL_PREEMPTIONS),
            serial_queued: sum(bpf_intf::tw_stat_TW_STAT_SERIAL_QUEUED),
            senior_preemptions: sum(bpf_intf::tw_stat_TW_STAT_SENIOR_PREEMPTIONS),
            stolen: sum(bpf_intf::tw_stat_TW_STAT_STOLEN),
            rebalanced: sum(bpf_intf::tw_stat_TW_STAT_REBALANCED),
            kept: sum(bpf_intf::tw_stat_TW_STAT_KEPT),
            handovers: sum(bpf_intf::tw_stat_TW_STAT_HANDOVERS),
            used_up: sum(bpf_intf::tw_stat_TW_STAT_USED_UP),
            exchanged: sum(bpf_intf::tw_stat_TW_STAT_EXCHANGED),
            homes_moved: sum(bpf_intf::tw_stat_TW_STAT_HOMES_MOVED),
            trials: sum(bpf_intf::tw_stat_TW_STAT_TRIALS),
            alternated: sum(bpf_intf::tw_stat_TW_STAT_ALTERNATED),
            moved_up: sum(bpf_intf::tw_stat_TW_STAT_MOVED_UP),
            ready,
            parallel_programs,
            ..Metrics::default()
        })
    }

    /// The thread groups with ready threads: tgid and how many.
    fn ready_groups(&self) -> Vec<(usize, u32)> {
        self.groups
            .chunks_exact(GROUP_BYTES)
            .map(ready_in)
            .enumerate()
            .filter(|&(_, nr_ready)| nr_ready != 0)
            .collect()
    }

    fn nr_ready(&self, tgid: usize) -> u32 {
        self.groups
            .chunks_exact(GROUP_BYTES)
            .nth(tgid)
            .map_or(0, ready_in)
    }
}

/// The ready count of a `struct tw_group`.
fn ready_in(group: &[u8]) -> u32 {
    u32::from_ne_bytes(group[..4].try_into().expect("a group has sixteen bytes"))
}

/// One more than the largest thread id.
fn pid_max() -> Result<u32> {
    let path = "/proc/sys/kernel/pid_max";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    text.trim()
        .parse()
        .with_context(|| format!("{path} holds {text:?}"))
}

/// Why the scheduler was not attached, where only the kernel's log says so (scx_enable_workfn(), kernel/sched/ext.c).
fn explained(error: anyhow::Error) -> anyhow::Error {
    let arguments = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    match arguments.split_whitespace().find(|argument| argument.starts_with("isolcpus=")) {
        Some(isolated) => error.context(format!(
            "the kernel takes no sched_ext scheduler where CPUs were isolated at boot: start it without {isolated}, and isolate \
             them by a cgroup's cpuset.cpus.partition"
        )),
        None => error,
    }
}
