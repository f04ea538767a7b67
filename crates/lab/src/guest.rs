// SPDX-License-Identifier: GPL-2.0-only
//! A guest: QEMU with a kernel, an image and the governor, and the conversation with its agent.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use threadwise_machine::Machine;

use crate::error::{Error, io_error};
use crate::governor::{self, Counters, Governing, Totals};
use crate::image::Image;
use crate::profile::Profile;
use crate::protocol::{PORT_NAME, Request, Response};

const QEMU: &str = "qemu-system-x86_64";
/// QEMU connects at once.
const CONNECT_DEADLINE: Duration = Duration::from_secs(90);
/// A boot takes 10 s with 8 CPUs on 2 of the host's, and 110 s with 64: CPUs are started one after the other.
const BOOT_DEADLINE: Duration = Duration::from_secs(60);
const BOOT_DEADLINE_OF_CPU: Duration = Duration::from_secs(4);
/// Attaching or stopping a scheduler takes seconds.
const SCHEDULER_DEADLINE: Duration = Duration::from_secs(120);
/// One boot in some 40 hangs (QEMU 10.0, MTTCG): one more try, then it is an error.
const BOOT_ATTEMPTS: u32 = 2;
/// Besides the console, which tells of warnings and faults only: a panic ends QEMU; the emulated clock can be relied on, and how
/// long the kernel's delays spin is given, because measuring it fails on emulated CPUs after 0.3 s for each; nothing that the
/// kernel does on its own account (tests of its ciphers, statistics of memory accesses) runs beside what is measured.
const KERNEL_COMMAND_LINE: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off nokaslr tsc=reliable \
     lpj=10000000 cryptomgr.notests=1 damon_stat.enabled=0";
/// Where the plugin keeps the profile.
const PROFILE: &str = "profile";
/// Programs that start together count their delay from when the guest has read the request: up to 60 ms later than the host.
const STARTING: Duration = Duration::from_millis(100);
/// A guest whose time stands still for so long has a CPU that hangs.
const STANDSTILL_DEADLINE: Duration = Duration::from_secs(60);
/// How often that is looked at while an answer is awaited.
const LOOK: Duration = Duration::from_secs(1);
const SYMBOLS_DEADLINE: Duration = Duration::from_secs(60);
const CONSOLE_LINES: usize = 60;
const PANIC: &str = "Kernel panic";
/// With what the kernel begins to tell of a fault, before it panics (arch/x86/mm/fault.c, arch/x86/kernel/dumpstack.c and traps.c,
/// include/linux/bug.h, kernel/watchdog.c, kernel/rcu/tree_stall.h).
const FAULTS: [&str; 8] = [
    "BUG: ",
    "Oops: ",
    "general protection fault",
    "divide error",
    "invalid opcode",
    "cut here",
    "rcu: INFO:",
    PANIC,
];

/// The kernel that guests boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What QEMU loads: an ELF file with a PVH entry (Documentation/arch/x86/boot.rst), or a bzImage.
    pub image: PathBuf,
    /// Its configuration; libbpf wants it in the guest.
    pub config: PathBuf,
    /// Its release, as `uname -r` says.
    pub release: String,
    /// What its command line has beside what the lab needs (Documentation/admin-guide/kernel-parameters.txt).
    pub arguments: Vec<String>,
}

impl Kernel {
    /// A kernel in a folder with `vmlinuz`, `config` and `release`, as `make setup` leaves it. Beside them may be a
    /// `vmlinux`, the same unpacked, which spares each guest a second.
    ///
    /// # Errors
    /// If one of the three is missing, and no `vmlinux` is in the first one's place.
    pub fn in_folder(folder: &Path) -> Result<Self, Error> {
        let [unpacked, packed, config, release] =
            ["vmlinux", "vmlinuz", "config", "release"].map(|name| folder.join(name));
        let image = if unpacked.is_file() { unpacked } else { packed };
        for path in [&image, &config, &release] {
            if !path.is_file() {
                return Err(Error::Missing {
                    what: format!("the guest's kernel ({})", path.display()),
                });
            }
        }
        let release = fs::read_to_string(&release)
            .map_err(io_error("read", &release))?
            .trim()
            .to_string();
        Ok(Self {
            image,
            config,
            release,
            arguments: Vec::new(),
        })
    }

    /// Its command line. The emulated clock is told; the last of several values of an argument holds.
    fn command_line(&self) -> String {
        let of_lab = format!("{KERNEL_COMMAND_LINE}{}", tsc_argument());
        let all = std::iter::once(&of_lab).chain(&self.arguments);
        all.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// What the governor counted while a guest did what it was asked.
pub struct Counted {
    /// Up to the answer.
    pub all: Totals,
    /// While programs were measured, and how long that was in the machine's time.
    pub window: (Totals, Duration),
    /// For how long the machine's time stood still up to the answer.
    pub stood_still: Duration,
    /// How long the host took for `all`.
    pub host: Duration,
}

/// The folders of this process's guests.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Ends this process, with this status, and removes the folders of all its guests: a signal's handler cannot drop them while
/// who has them waits for something. What ends the process ends QEMU.
pub fn exit_without_folders(status: i32) -> ! {
    // Held to the end, so that nobody makes another.
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in folders.iter() {
        // Its guest may be dropped at this moment, or a file made in it.
        let _ = fs::remove_dir_all(folder).or_else(|_| fs::remove_dir_all(folder));
    }
    std::process::exit(status);
}

/// A guest's folder, which is removed when this is dropped, or by [`exit_without_folders`].
struct Folder(TempDir);

impl Folder {
    fn create() -> Result<Self, Error> {
        // Held until it is known: whoever removes all of them by then finds it.
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new()
            .prefix("threadwise-lab")
            .tempdir()
            .map_err(io_error("create", "a folder"))?;
        folders.insert(folder.path().to_path_buf());
        Ok(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        // Before it is forgotten, or a handler that looks just then would end the process with half of it left.
        let _ = fs::remove_dir_all(self.path());
        folders.remove(self.path());
    }
}

/// A running guest. Dropping it ends QEMU and removes its files.
pub struct Guest {
    qemu: Child,
    port: BufReader<UnixStream>,
    counters: Counters,
    folder: Folder,
    /// The kernel's release as the guest reports it.
    pub release: String,
    /// Whether programs run at the machine's speed, as they do at first, or as fast as the host can.
    pub governed: bool,
    /// Of one that is profiled: its kernel's symbols, as /proc/kallsyms had them last.
    symbols: Option<String>,
}

/// The time of a machine that passes while it is waited for.
struct Clock {
    /// On the host.
    begun: Instant,
    first: Duration,
    /// The machine's time, and when it was found to be that.
    last: (Duration, Instant),
}

impl Clock {
    fn begin(counters: &Counters) -> Self {
        let (first, begun) = (counters.clock(), Instant::now());
        Self {
            begun,
            first,
            last: (first, begun),
        }
    }

    /// Looks at the machine's time, and says how much has passed.
    fn look(&mut self, counters: &Counters) -> Duration {
        let now = counters.clock();
        if now > self.last.0 {
            self.last = (now, Instant::now());
        }
        self.passed()
    }

    /// How much had passed at the last look.
    fn passed(&self) -> Duration {
        self.last.0.saturating_sub(self.first)
    }

    /// Whether it was not seen to go on for longer than a host is late.
    fn has_stopped(&self) -> bool {
        self.last.1.elapsed() > STANDSTILL_DEADLINE
    }
}

impl Guest {
    /// Boots the machine with the image; once more if the first boot hangs, unless it is to `stop`. If it is profiled,
    /// [`Guest::profile`] can be asked for, and the host has a little more to do; if its caches are modelled, a lot more.
    ///
    /// # Errors
    /// If QEMU cannot be started, the machine cannot be governed so, the guest does not come up, or it sees another number of
    /// CPUs.
    pub fn boot(
        machine: &Machine,
        governing: &Governing,
        kernel: &Kernel,
        image: &Image,
        stop: &AtomicBool,
    ) -> Result<Self, Error> {
        let mut attempt = 1;
        loop {
            match Self::boot_once(machine, governing, kernel, image) {
                // QEMU has the signal of the terminal too.
                Err(_) if stop.load(Ordering::Relaxed) => return Err(Error::Interrupted),
                Err(Error::Hung { .. } | Error::Guest { .. }) if attempt < BOOT_ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    fn boot_once(
        machine: &Machine,
        governing: &Governing,
        kernel: &Kernel,
        image: &Image,
    ) -> Result<Self, Error> {
        let folder = Folder::create()?;
        let path = |name: &str| folder.path().join(name);
        image.write(&path("image.cpio"))?;
        let plugin = governor::build(folder.path())?;
        let listener = UnixListener::bind(path("port")).map_err(io_error("listen on", path("port")))?;
        listener
            .set_nonblocking(true)
            .map_err(io_error("listen on", path("port")))?;
        let counters = Counters::create(&path("counters"))?;
        let mut qemu = qemu_command(machine, governing, kernel, folder.path(), &plugin)?
            .spawn()
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => Error::Missing {
                    what: String::from("QEMU (qemu-system-x86_64)"),
                },
                _ => Error::Io {
                    what: "start",
                    path: PathBuf::from(QEMU),
                    source,
                },
            })?;
        let stream = match accept(&listener, &mut qemu) {
            Ok(stream) => stream,
            Err(error) => {
                end(&mut qemu);
                let said = fs::read_to_string(path("qemu.log")).unwrap_or_default();
                return Err(Error::Guest {
                    what: format!("did not start: {error}"),
                    console: said,
                });
            }
        };
        let mut guest = Self {
            qemu,
            port: BufReader::new(stream),
            counters,
            folder,
            release: String::new(),
            governed: true,
            symbols: governing.profiled.then(String::new),
        };
        let deadline = BOOT_DEADLINE + BOOT_DEADLINE_OF_CPU * machine.nr_cpus() as u32;
        match guest.answer("boot", deadline)? {
            Response::Booted { kernel, nr_cpus } if nr_cpus == machine.nr_cpus() => guest.release = kernel,
            other => {
                return Err(guest.gone(format!(
                    "came up with something else than {} CPUs: {other:?}",
                    machine.nr_cpus()
                )));
            }
        }
        Ok(guest)
    }

    /// Asks the agent and waits for its answer, at most until the deadline.
    ///
    /// # Errors
    /// If the guest hangs, panics or goes away, or answers that it failed.
    pub fn ask(&mut self, request: &Request, deadline: Duration) -> Result<Response, Error> {
        self.send(request)?;
        self.receive(request, deadline)
    }

    /// As [`Guest::ask`], and what the governor counted from `settle` after the request to the answer.
    ///
    /// Programs that are being loaded are new code, which QEMU translates more slowly than it runs;
    /// that they are late then says nothing about what is measured after. Of programs that run for a known time the
    /// window is that, without its first [`STARTING`].
    ///
    /// # Errors
    /// As [`Guest::ask`].
    pub fn ask_counting(
        &mut self,
        request: &Request,
        settle: Duration,
        running: Option<Duration>,
        deadline: Duration,
    ) -> Result<(Response, Counted), Error> {
        let stood_still = self.counters.stood_still();
        self.send(request)?;
        self.sleep(settle)?;
        let (begin, begun) = (self.mark(), Instant::now());
        let window = match running {
            None => None,
            Some(running) => {
                let starting = STARTING.min(running / 2);
                self.sleep(starting)?;
                let begin = self.mark();
                self.sleep(running - starting)?;
                Some(self.since(begin))
            }
        };
        let response = self.receive(request, deadline)?;
        let all = self.since(begin);
        let window = window.unwrap_or(all);
        let stood_still = self.counters.stood_still().saturating_sub(stood_still);
        Ok((
            response,
            Counted {
                all: all.0,
                window,
                stood_still,
                host: begun.elapsed(),
            },
        ))
    }

    /// Sleeps for so long by the machine's time.
    fn sleep(&mut self, time: Duration) -> Result<(), Error> {
        let mut clock = Clock::begin(&self.counters);
        while clock.look(&self.counters) < time {
            if clock.has_stopped() {
                return Err(self.hung("go on", &clock));
            }
            if !matches!(self.qemu.try_wait(), Ok(None)) {
                return Err(self.gone(String::from("went away")));
            }
            std::thread::sleep((time - clock.passed()).clamp(Duration::from_millis(1), LOOK));
        }
        Ok(())
    }

    fn mark(&self) -> (Totals, Duration) {
        (self.totals(), self.counters.clock())
    }

    fn since(&self, (totals, begun): (Totals, Duration)) -> (Totals, Duration) {
        (
            self.totals().since(&totals),
            self.counters.clock().saturating_sub(begun),
        )
    }

    /// Attaches a scheduler.
    ///
    /// # Errors
    /// As [`Guest::ask`].
    pub fn start_scheduler(&mut self, command: Vec<String>) -> Result<(), Error> {
        self.ask(&Request::StartScheduler { command }, SCHEDULER_DEADLINE)?;
        Ok(())
    }

    /// Stops it, and returns its exit status, none if a signal ended it, and all that it printed.
    ///
    /// # Errors
    /// As [`Guest::ask`].
    pub fn stop_scheduler(&mut self) -> Result<(Option<i32>, String), Error> {
        match self.ask(&Request::StopScheduler, SCHEDULER_DEADLINE)? {
            Response::SchedulerStopped { log, status } => Ok((status, log)),
            other => Err(Error::InGuest(format!(
                "an unexpected answer to stopping: {other:?}"
            ))),
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), Error> {
        // What is measured are programs. Booting, and the verifier when a scheduler is attached, may be fast.
        self.counters.govern(self.governed && request.runs_programs());
        let mut line = serde_json::to_string(request).expect("requests have string keys only");
        line.push('\n');
        if let Err(error) = self.port.get_mut().write_all(line.as_bytes()) {
            return Err(self.gone(format!("no longer listens ({error})")));
        }
        Ok(())
    }

    fn receive(&mut self, request: &Request, deadline: Duration) -> Result<Response, Error> {
        let what = match request {
            Request::StartScheduler { command } => format!("attach {}", command.join(" ")),
            Request::StopScheduler => String::from("stop its scheduler"),
            Request::Run { .. } | Request::RunStreams { .. } => String::from("finish its programs"),
            Request::Symbols => String::from("tell its symbols"),
            Request::PowerOff => String::from("power off"),
        };
        let answer = self.answer(&what, deadline)?;
        // Who has nothing to do needs no timekeeper that looks every 50 us.
        self.counters.govern(false);
        match answer {
            Response::Failed { message } => Err(Error::InGuest(message)),
            response => Ok(response),
        }
    }

    /// Has a guest that is profiled tell its symbols, those of the BPF programs included that are loaded now.
    ///
    /// # Errors
    /// As [`Guest::ask`].
    pub fn learn_symbols(&mut self) -> Result<(), Error> {
        if self.symbols.is_none() {
            return Ok(());
        }
        match self.ask(&Request::Symbols, SYMBOLS_DEADLINE)? {
            Response::Symbols { kallsyms } => self.symbols = Some(kallsyms),
            _ => return Err(self.gone(String::from("gave an unexpected answer"))),
        }
        Ok(())
    }

    /// Where the instructions of all programs up to now went, by the symbols that were told last.
    ///
    /// # Errors
    /// If the guest was not booted to be profiled, and as [`Profile::read`].
    pub fn profile(&self) -> Result<Profile, Error> {
        let symbols = self.symbols.as_deref().unwrap_or_default();
        Profile::read(&self.folder.path().join(PROFILE), symbols)
    }

    /// Switches the guest off.
    pub fn power_off(mut self) {
        // If it is gone already, so much the better.
        let _ = self.send(&Request::PowerOff);
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(5) && matches!(self.qemu.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the governor has counted.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// The guest's console from its first fault on, with what the kernel panicked for, or else its last lines.
    pub fn console(&self) -> String {
        let bytes = fs::read(self.folder.path().join("console.log")).unwrap_or_default();
        excerpt(&String::from_utf8_lossy(&bytes).replace('\r', ""))
    }

    /// Waits for an answer, at most until the deadline by the machine's time.
    fn answer(&mut self, what: &str, deadline: Duration) -> Result<Response, Error> {
        let (mut clock, mut line) = (Clock::begin(&self.counters), Vec::new());
        self.port
            .get_mut()
            .set_read_timeout(Some(LOOK))
            .map_err(io_error("set a deadline on", PORT_NAME))?;
        loop {
            // What has come of a line by the timeout stays.
            match self.port.read_until(b'\n', &mut line) {
                Ok(0) => return Err(self.gone(String::from("went away"))),
                Ok(_) => {
                    return serde_json::from_slice(&line).map_err(|error| {
                        self.gone(format!("said {:?} ({error})", String::from_utf8_lossy(&line)))
                    });
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(self.gone(format!("cannot be read from ({error})"))),
            }
            if clock.look(&self.counters) > deadline {
                return Err(self.late(what, deadline));
            }
            if clock.has_stopped() {
                return Err(self.hung(what, &clock));
            }
        }
    }

    fn late(&self, what: &str, after: Duration) -> Error {
        Error::Hung {
            what: what.to_string(),
            after,
            console: self.console(),
        }
    }

    /// A guest whose time stands still.
    fn hung(&self, what: &str, clock: &Clock) -> Error {
        let what = format!("{what} (its time stands still)");
        self.late(&what, clock.begun.elapsed())
    }

    fn gone(&self, what: String) -> Error {
        // The console is written by QEMU's own thread; a panic message may still be on its way.
        std::thread::sleep(Duration::from_millis(200));
        let console = self.console();
        let what = if console.contains(PANIC) {
            String::from("panicked")
        } else {
            what
        };
        Error::Guest { what, console }
    }
}

/// What tells most of a console.
fn excerpt(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    let fault = lines
        .iter()
        .position(|line| FAULTS.iter().any(|fault| line.contains(fault)));
    let first = fault.unwrap_or(lines.len().saturating_sub(CONSOLE_LINES));
    let last = lines.len().min(first + CONSOLE_LINES);
    let panic = lines[last..].iter().find(|line| line.contains(PANIC));
    lines[first..last]
        .iter()
        .chain(panic)
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}

impl Drop for Guest {
    fn drop(&mut self) {
        end(&mut self.qemu);
    }
}

/// The first line of `qemu-system-x86_64 --version`.
///
/// # Errors
/// If it cannot be run.
pub fn qemu_version() -> Result<String, Error> {
    let output = Command::new(QEMU)
        .arg("--version")
        .output()
        .map_err(io_error("start", QEMU))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().next().unwrap_or_default().to_string())
}

fn end(qemu: &mut Child) {
    // Both fail only if it has ended already.
    let _ = qemu.kill();
    let _ = qemu.wait();
}

fn accept(listener: &UnixListener, qemu: &mut Child) -> io::Result<UnixStream> {
    let started = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => {}
        }
        if let Some(status) = qemu.try_wait()? {
            return Err(io::Error::other(format!("QEMU ended with {status}")));
        }
        if started.elapsed() > CONNECT_DEADLINE {
            return Err(io::Error::other("QEMU did not connect"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn qemu_command(
    machine: &Machine,
    governing: &Governing,
    kernel: &Kernel,
    folder: &Path,
    plugin: &Path,
) -> Result<Command, Error> {
    let rates = governor::rates(machine, governing.mips)?;
    let quantum = governor::quantum(&rates);
    let rates: Vec<String> = rates.iter().map(u64::to_string).collect();
    let path = |name: &str| folder.join(name).display().to_string();
    let profile = match governing.profiled {
        true => format!(",profile={}", path(PROFILE)),
        false => String::new(),
    };
    let log =
        fs::File::create(folder.join("qemu.log")).map_err(io_error("create", folder.join("qemu.log")))?;
    let mut command = Command::new(QEMU);
    command
        .args([
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max,vendor=GenuineIntel",
            "-m",
            "2G",
        ])
        .args(["-smp", &smp(machine)])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        .args([
            "-kernel",
            &kernel.image.display().to_string(),
            "-initrd",
            &path("image.cpio"),
        ])
        .args(["-append", &kernel.command_line()])
        .args(["-serial", &format!("file:{}", path("console.log"))])
        .args(["-device", "virtio-serial-pci"])
        .args(["-chardev", &format!("socket,id=port,path={}", path("port"))])
        .args([
            "-device",
            &format!("virtserialport,chardev=port,name={PORT_NAME}"),
        ])
        .args([
            "-plugin",
            &format!(
                "{},rates={},quantum={quantum},stats={}{}{profile}",
                plugin.display(),
                rates.join(":"),
                path("counters"),
                governor::arguments(machine, governing)?
            ),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // SAFETY: both calls are safe between fork and exec. Whatever ends this process ends QEMU.
    unsafe {
        command.pre_exec(|| {
            succeeded(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            // A vCPU that wakes another in QEMU often holds a lock of the guest that this one wants next: under
            // SCHED_BATCH, which its threads inherit, the host does not let the woken one preempt it and spin for it.
            let parameters = libc::sched_param { sched_priority: 0 };
            succeeded(libc::sched_setscheduler(
                0,
                libc::SCHED_BATCH,
                &raw const parameters,
            ))
        });
    }
    Ok(command)
}

/// What a system call that returns 0 if it succeeded came to.
fn succeeded(status: i32) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What tells the guest's kernel the rate of its time stamp counter, which is the host's. On a host that is late it measures
/// anything at boot, a twentieth of the rate for one, and then its clock is as wrong.
#[cfg(target_arch = "x86_64")]
fn tsc_argument() -> String {
    // SAFETY: every x86-64 processor has the instruction.
    let count = || unsafe { core::arch::x86_64::_rdtsc() };
    // The moment that took least between two looks at the counter was not interrupted.
    let moment = || {
        let tries = (0..10).map(|_| {
            let before = count();
            let now = Instant::now();
            (count() - before, before, now)
        });
        tries.min_by_key(|&(took, ..)| took).expect("there are ten")
    };
    let (_, from, begun) = moment();
    std::thread::sleep(Duration::from_millis(50));
    let (_, to, ended) = moment();
    let khz = (to - from) as f64 / (ended - begun).as_secs_f64() / 1000.0;
    format!(" tsc_early_khz={khz:.0}")
}

/// Elsewhere QEMU has one of its own.
#[cfg(not(target_arch = "x86_64"))]
fn tsc_argument() -> String {
    String::new()
}

/// The topology for QEMU, as the guest's kernel is to see it. Machines whose packages or cores differ in size have none.
fn smp(machine: &Machine) -> String {
    let (packages, cpus) = (machine.nr_packages(), machine.nr_cpus());
    let hides_smt = machine.lab().is_some_and(|lab| lab.hides_smt);
    let cores = if hides_smt { cpus } else { machine.nr_cores() };
    format!(
        "{cpus},sockets={packages},cores={},threads={}",
        cores / packages,
        cpus / cores
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_told_from_its_first_fault_to_its_panic() {
        let lines = |what: &str, n: usize| format!("{what}\n").repeat(n);
        let booted = lines("boots", 100);
        assert_eq!(excerpt(&booted).lines().count(), CONSOLE_LINES);
        assert_eq!(excerpt("one\ntwo\n"), "one\ntwo");
        let fault = "BUG: unable to handle page fault for address: 0\n";
        let panic = "Kernel panic - not syncing: Fatal exception in interrupt";
        let short = format!("{booted}{fault}RIP: 1\n{panic}\nthe rest\n");
        assert_eq!(excerpt(&short), format!("{fault}RIP: 1\n{panic}\nthe rest"));
        let long = excerpt(&format!("{booted}{fault}{}{panic}\n", lines("frame", 200)));
        assert_eq!(long.lines().count(), CONSOLE_LINES + 1);
        assert!(long.starts_with(fault) && long.ends_with(panic), "{long}");
    }
}
