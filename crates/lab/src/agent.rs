// SPDX-License-Identifier: GPL-2.0-only
//! The first process of the guest: mounts what programs expect, then does what the lab asks.
//!
//! It decides nothing: deadlines, repetitions and evaluation are the host's. It waits in blocking
//! system calls only, so that it takes no CPU while programs are measured.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::mount::MsFlags;
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, sync};
use threadwise_machine::cpulist;
use threadwise_workload::stat_fields;
use threadwise_workload::synthetic::now_ns;

use crate::protocol::{Output, PORT_NAME, Request, Response, START_PLACEHOLDER};

const STATE: &str = "/sys/kernel/sched_ext/state";
const OPS: &str = "/sys/kernel/sched_ext/root/ops";
const SEQ: &str = "/sys/kernel/sched_ext/enable_seq";
/// Whether /proc/kallsyms names BPF programs (Documentation/admin-guide/sysctl/net.rst).
const BPF_SYMBOLS: &str = "/proc/sys/net/core/bpf_jit_kallsyms";
const SCHEDULER_LOG: &str = "/tmp/scheduler.log";
/// Emulated, the verifier takes seconds.
const ENABLE_DEADLINE: Duration = Duration::from_secs(90);
/// How much of a log is worth showing.
const LOG_TAIL: usize = 4000;

/// Runs as the guest's init, and switches the guest off at the end.
pub fn run() -> ! {
    if let Err(error) = serve() {
        eprintln!("lab agent: {error}");
    }
    power_off()
}

fn serve() -> io::Result<()> {
    for (kind, target) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tracefs", "/sys/kernel/tracing"),
        ("debugfs", "/sys/kernel/debug"),
        ("bpf", "/sys/fs/bpf"),
        ("cgroup2", "/sys/fs/cgroup"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/dev/shm"),
    ] {
        mount(kind, target)?;
    }
    ignore_hangups();
    bring_up_loopback()?;
    // Kernels without a BPF compiler do not have it.
    let _ = fs::write(BPF_SYMBOLS, "1");
    let mut port = OpenOptions::new().read(true).write(true).open(port_path()?)?;
    let requests = BufReader::new(port.try_clone()?);
    let mut scheduler = None;
    answer(
        &mut port,
        &Response::Booted {
            kernel: read_trimmed("/proc/sys/kernel/osrelease"),
            // Not those that it may run on itself: CPUs may be isolated.
            nr_cpus: cpulist::parse(&read_trimmed("/sys/devices/system/cpu/online"))
                .map_or(0, |cpus| cpus.len()),
        },
    )?;
    for line in requests.lines() {
        let request: Request = serde_json::from_str(&line?)?;
        if matches!(request, Request::PowerOff) {
            break;
        }
        let response = carry_out(&request, &mut scheduler).unwrap_or_else(|error| Response::Failed {
            message: error.to_string(),
        });
        answer(&mut port, &response)?;
        // After the answer: what was measured ended with the programs.
        if request.runs_programs() {
            end_leftovers(&mut scheduler)?;
        }
    }
    Ok(())
}

fn answer(port: &mut File, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_string(response)?;
    line.push('\n');
    port.write_all(line.as_bytes())
}

/// A scheduler that was attached.
struct Scheduler {
    child: Child,
    /// The kernel's count of schedulers then.
    sequence: String,
    /// How it ended, if it did before it was told to, and whoever waited for any process saw it.
    ended: Option<ExitStatus>,
}

fn carry_out(request: &Request, scheduler: &mut Option<Scheduler>) -> io::Result<Response> {
    match request {
        Request::StartScheduler { command } => {
            let started = start_scheduler(command)?;
            *scheduler = Some(started);
            Ok(Response::SchedulerStarted {
                ops: read_trimmed(OPS),
            })
        }
        Request::StopScheduler => match scheduler.take() {
            Some(running) => stop_scheduler(running),
            None => Err(io::Error::other("no scheduler was started")),
        },
        Request::Run {
            commands,
            start_delay_ns,
        } => {
            let streams = side_by_side(commands, *start_delay_ns);
            ran(&streams, scheduler)
        }
        Request::RunStreams { streams } => ran(streams, scheduler),
        Request::Symbols => Ok(Response::Symbols {
            kallsyms: fs::read_to_string("/proc/kallsyms")?,
        }),
        Request::PowerOff => unreachable!("handled by the caller"),
    }
}

fn ran(streams: &[Vec<Vec<String>>], scheduler: &mut Option<Scheduler>) -> io::Result<Response> {
    let outputs = run_streams(Path::new("/tmp"), streams, || reap(scheduler, 0))?;
    Ok(Response::Ran {
        outputs,
        scheduler_lost: scheduler.as_ref().and_then(lost),
    })
}

fn start_scheduler(command: &[String]) -> io::Result<Scheduler> {
    let log = File::create(SCHEDULER_LOG)?;
    let sequence_before = read_trimmed(SEQ);
    let mut child = spawn(command, log.try_clone()?, log)?;
    let started = Instant::now();
    // The kernel counts a scheduler a moment after it says that it is enabled.
    while read_trimmed(STATE) != "enabled" || read_trimmed(SEQ) == sequence_before {
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!(
                "{} ended with {status}:\n{}",
                command.join(" "),
                log_tail()
            )));
        }
        if started.elapsed() > ENABLE_DEADLINE {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!(
                "{} was not attached in time:\n{}",
                command.join(" "),
                log_tail()
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Scheduler {
        child,
        sequence: read_trimmed(SEQ),
        ended: None,
    })
}

fn stop_scheduler(mut scheduler: Scheduler) -> io::Result<Response> {
    let status = match scheduler.ended {
        Some(status) => status,
        None => {
            // It has not been waited for, so its id is still its own.
            let _ = kill(Pid::from_raw(scheduler.child.id() as i32), Signal::SIGINT);
            scheduler.child.wait()?
        }
    };
    while read_trimmed(STATE) != "disabled" {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Response::SchedulerStopped {
        log: fs::read_to_string(SCHEDULER_LOG)?,
        status: status.code(),
    })
}

/// What is left to say of a scheduler that is no longer the one that was started.
fn lost(scheduler: &Scheduler) -> Option<String> {
    let state = read_trimmed(STATE);
    (state != "enabled" || read_trimmed(SEQ) != scheduler.sequence)
        .then(|| format!("sched_ext is {state}\n{}", log_tail()))
}

/// A stream's program that runs.
struct Running {
    stream: usize,
    /// Its place in its stream.
    place: usize,
    started: Instant,
}

/// Runs streams of programs beside each other, those of a stream one after the other, and returns what each left, stream by
/// stream. `reap` waits for any process to end; what programs write passes through files in `folder`.
///
/// # Errors
/// If a program cannot be started, or `reap` fails.
pub fn run_streams(
    folder: &Path,
    streams: &[Vec<Vec<String>>],
    mut reap: impl FnMut() -> io::Result<Option<(i32, ExitStatus)>>,
) -> io::Result<Vec<Output>> {
    let file = |stream: usize, place: usize, kind: &str| folder.join(format!("{stream}.{place}.{kind}"));
    let start = |stream: usize, place: usize| -> io::Result<Option<(i32, Running)>> {
        let Some(command) = streams[stream].get(place) else {
            return Ok(None);
        };
        let [out, err] = ["out", "err"].map(|kind| File::create(file(stream, place, kind)));
        let started = Instant::now();
        let child = spawn(command, out?, err?)?;
        let running = Running {
            stream,
            place,
            started,
        };
        Ok(Some((child.id() as i32, running)))
    };
    let mut running = HashMap::new();
    for stream in 0..streams.len() {
        running.extend(start(stream, 0)?);
    }
    let mut outputs: Vec<Vec<Output>> = vec![Vec::new(); streams.len()];
    while !running.is_empty() {
        // The first process inherits orphans; they are not ours to report.
        let Some((ended, status)) = reap()?.and_then(|(pid, status)| Some((running.remove(&pid)?, status)))
        else {
            continue;
        };
        let Running {
            stream,
            place,
            started,
        } = ended;
        let elapsed_ns = started.elapsed().as_nanos() as u64;
        running.extend(start(stream, place + 1)?);
        let read = |kind: &str| fs::read(file(stream, place, kind));
        let (stdout, mut stderr) = (read("out")?, read("err")?);
        if let Some(signal) = status.signal() {
            writeln!(stderr, "lab: signal {signal} ended it")?;
        }
        outputs[stream].push(Output {
            status: status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            elapsed_ns,
        });
    }
    Ok(outputs.into_iter().flatten().collect())
}

/// Each of the commands a stream of its own, with the common start filled in.
fn side_by_side(commands: &[Vec<String>], start_delay_ns: u64) -> Vec<Vec<Vec<String>>> {
    let start = (now_ns() + start_delay_ns).to_string();
    let filled_in = |word: &String| word.replace(START_PLACEHOLDER, &start);
    commands
        .iter()
        .map(|command| vec![command.iter().map(filled_in).collect()])
        .collect()
}

/// Waits for any process to end, with waitpid(2)'s options; none if none has.
fn reap(scheduler: &mut Option<Scheduler>, options: i32) -> io::Result<Option<(i32, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: waitpid writes the status through a valid pointer.
    let pid = unsafe { libc::waitpid(-1, &mut status, options) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let status = ExitStatus::from_raw(status);
    if let Some(scheduler) = scheduler
        && scheduler.child.id() as i32 == pid
    {
        scheduler.ended = Some(status);
    }
    Ok((pid > 0).then_some((pid, status)))
}

/// Ends what programs left running, schedulers too, so that whoever comes next has the machine for itself.
fn end_leftovers(scheduler: &mut Option<Scheduler>) -> io::Result<()> {
    loop {
        let spared = scheduler
            .as_ref()
            .filter(|scheduler| scheduler.ended.is_none())
            .map(|scheduler| scheduler.child.id() as i32);
        let left: Vec<Process> = processes()?
            .filter(|process| process.id != 1 && Some(process.group) != spared)
            .collect();
        for process in &left {
            // A process that is gone is what is wanted.
            let _ = kill(Pid::from_raw(process.id), Signal::SIGKILL);
        }
        // Without children there is nothing to reap.
        while let Ok(Some(_)) = reap(scheduler, libc::WNOHANG) {}
        // A scheduler that a program started goes with its process, but not at once.
        let none_attached = || ["disabled", ""].contains(&read_trimmed(STATE).as_str());
        if left.is_empty() && (spared.is_some() || none_attached()) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Process {
    id: i32,
    group: i32,
}

/// The processes of user space that still have a thread.
fn processes() -> io::Result<impl Iterator<Item = Process>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read(entry.path().join("stat")).ok()?;
        let group = group_of_running(&stat)?;
        Some(Process { id, group })
    }))
}

/// The process group in /proc/PID/stat (proc(5)); none of a kernel thread, or of a process that has ended.
fn group_of_running(stat: &[u8]) -> Option<i32> {
    /// include/linux/sched.h
    const PF_KTHREAD: u64 = 0x0020_0000;
    // State, parent, group, ..., the 7th flags, the 18th threads.
    let fields: Vec<&str> = stat_fields(stat).collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let (flags, nr_threads) = (number(6)?, number(17)?);
    let ended = ["Z", "X"].contains(fields.first()?) && nr_threads <= 1;
    (flags & PF_KTHREAD == 0 && !ended).then(|| fields[2].parse().ok())?
}

/// Starts a program in a process group of its own, with whatever that starts.
fn spawn(command: &[String], stdout: File, stderr: File) -> io::Result<Child> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::other("an empty command"))?;
    Command::new(program)
        .args(arguments)
        .env("PATH", "/bin")
        .env("HOME", "/tmp")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()
        .map_err(|error| io::Error::other(format!("cannot start {program}: {error}")))
}

/// Lets no program be ended by a hang-up. Every process without a parent becomes a child of this one, which is init, in the same
/// session and another process group; as such a child ends while any other of its group is stopped, the kernel takes the group for
/// one that nobody will ever continue, and hangs up on all of it (`kill_orphaned_pgrp()`, kernel/exit.c). A session for each
/// program would do as well, but the kernel's scheduler shares CPUs among sessions (`sched_autogroup`).
fn ignore_hangups() {
    // SAFETY: no handler is installed. What is ignored stays ignored in programs that are started.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

fn log_tail() -> String {
    let log = fs::read_to_string(SCHEDULER_LOG).unwrap_or_default();
    let start = log.len().saturating_sub(LOG_TAIL);
    let start = (start..log.len())
        .find(|&i| log.is_char_boundary(i))
        .unwrap_or(log.len());
    log[start..].to_string()
}

fn port_path() -> io::Result<PathBuf> {
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        if fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME) {
            return Ok(PathBuf::from("/dev").join(entry.file_name()));
        }
    }
    Err(io::Error::other(format!("no virtio port {PORT_NAME}")))
}

fn mount(kind: &str, target: &str) -> io::Result<()> {
    fs::create_dir_all(target)?;
    nix::mount::mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>)
        .map_err(|error| io::Error::other(format!("mount {target}: {}", io::Error::from(error))))
}

/// Servers and their clients talk over it; it has its address once it is up.
fn bring_up_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request names a device and holds its flags, and the call keeps no pointer to it.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) } {
        0 => Ok(()),
        _ => Err(io::Error::other(format!(
            "bring up lo: {}",
            io::Error::last_os_error()
        ))),
    }
}

fn read_trimmed(path: &str) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_string())
        .unwrap_or_default()
}

fn power_off() -> ! {
    sync();
    // As the first process it does not return.
    let Err(error) = reboot(RebootMode::RB_POWER_OFF);
    panic!("power-off failed: {error}")
}

#[cfg(test)]
mod tests {
    use nix::unistd::getpgrp;

    use super::*;

    #[test]
    fn processes_have_a_group_while_a_thread_of_theirs_lives() {
        let stat = |state: &str, flags: u32, nr_threads: u32| {
            let line = format!("7 (a) b) {state} 1 5 5 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {nr_threads} 0 99");
            group_of_running(line.as_bytes())
        };
        assert_eq!(stat("S", 0x40_0100, 1), Some(5));
        assert_eq!(stat("S", 0x20_8040, 1), None, "a thread of the kernel");
        assert_eq!(stat("Z", 0x40_0100, 1), None, "ended");
        assert_eq!(
            stat("Z", 0x40_0100, 3),
            Some(5),
            "only its first thread has ended"
        );
        assert_eq!(group_of_running(b"garbage"), None);
        let own = fs::read("/proc/self/stat").unwrap();
        assert_eq!(group_of_running(&own), Some(getpgrp().as_raw()));
    }

    #[test]
    fn a_process_whose_name_was_cut_in_a_character_is_seen() {
        let mut child = Command::new("sh")
            .args(["-c", "printf ééééééééé > /proc/$$/comm; echo named; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let id = child.id() as i32;
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let name = fs::read(format!("/proc/{id}/comm")).unwrap();
        let is_seen = processes().unwrap().any(|process| process.id == id);
        // Its input ends, and so does it.
        child.stdin = None;
        child.wait().unwrap();
        assert!(str::from_utf8(&name).is_err(), "{name:?} was not cut");
        assert!(said == "named\n" && is_seen);
    }
}
