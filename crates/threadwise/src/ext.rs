// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise ext`: a command whose tasks ask for the sched_ext scheduler.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// Run a command under the policy SCHED_EXT, which its children inherit
///
/// With `scx_threadwise --partial` such tasks, and no others, are scheduled by it. While no sched_ext scheduler is
/// attached they are the kernel's, like all others.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// include/uapi/linux/sched.h
const SCHED_EXT: i32 = 7;

/// Becomes the command.
pub fn run(options: &Options) -> Result<ExitCode> {
    become_command(&options.command).map(|never| match never {})
}

fn become_command(command: &[String]) -> Result<Infallible> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters outlive the call, which only reads them.
    if unsafe { libc::sched_setscheduler(0, SCHED_EXT, &raw const parameters) } != 0 {
        return Err(io::Error::last_os_error()).context(
            "this kernel has no policy SCHED_EXT: it needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT=y",
        );
    }
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    Err(error).with_context(|| format!("cannot run {}", command[0]))
}
