// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise reproduce`: every result of the papers beside what they printed.
//!
//! Each source of figures is a command of this program, run as a process of its own: one that fails or is ended takes nothing
//! else with it, and anybody can repeat it.

mod kept;
mod process;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Parser;
use comfy_table::{Table, presets};
use serde_json::json;
use threadwise_lab::experiment::Experiment;
use threadwise_lab::run::{VERSION, missing_program};
use threadwise_report::figure::{file_name, ready_threads};
use threadwise_report::host;
use threadwise_report::page::Shown;
use threadwise_report::reproduction::{
    About, Form, Length, Outcome, Output, Plan, Produced, Source, Verdict, csv, outcomes, page,
};

use crate::report::{save, save_in, try_to_write};
use crate::runs::StoreOptions;
use crate::{Command, Format, bench, lab, sim};
use kept::Keeper;
use process::{Clock, Ended};

/// Run every result of the papers that can be run, and write one page that shows each beside what was printed.
///
/// What is run, and what was printed, stands in a file; run it in the folder of the repository. What was produced is kept, so
/// that after an interruption the same command goes on where it stopped, and what the same version produced before is not run
/// again. A part that fails, as the lab does where there is no QEMU, is named on the page and ends nothing else. Exit status: 0 if
/// everything is as the file claims, 1 if something is not or failed.
#[derive(clap::Args)]
pub struct Options {
    /// What is reproduced
    #[arg(default_value = "docs/papers.toml")]
    plan: PathBuf,

    /// The long form: all rounds, and what takes hours
    #[arg(long)]
    full: bool,

    /// Only these results, or all of these papers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// Leave out what boots a guest
    #[arg(long)]
    no_lab: bool,

    /// Run anew what was produced before
    #[arg(long)]
    again: bool,

    /// Only check everything, and say what would be run and about how long it takes; with --format json in the schema
    /// threadwise.reproduce.plan/1
    #[arg(long)]
    dry_run: bool,

    /// Write the page to this file
    #[arg(long, short, default_value = "reproduction.html")]
    output: PathBuf,

    /// Write the pictures of the page to this folder too, as SVG
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    svg: Option<PathBuf>,

    /// Write every number beside what was printed to this file too, as CSV
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    csv: Option<PathBuf>,

    #[command(flatten)]
    store: StoreOptions,

    /// How to print the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A source that is to be run.
struct Job<'a> {
    source: &'a Source,
    arguments: Vec<String>,
    /// What it carries out in the simulator or the lab, with the text of its file.
    experiment: Option<(Experiment, String)>,
    /// About how long it takes.
    seconds: u32,
    /// Why it is not run, if it is not.
    left_out: Option<String>,
}

/// What became of it.
struct Made {
    output: Output,
    state: String,
    seconds: Option<f64>,
    shown: Option<Shown>,
    /// The command that made it, if that is another than the source's.
    repeat: Option<String>,
}

/// Runs and shows.
pub fn run(options: &Options) -> Result<ExitCode> {
    let text = std::fs::read_to_string(&options.plan).with_context(|| {
        format!(
            "cannot read {}; run it in the folder of the repository",
            options.plan.display()
        )
    })?;
    let plan = Plan::from_toml(&text, &options.plan)?;
    let plan = plan.only(&options.only).map_err(anyhow::Error::msg)?;
    let length = if options.full { Length::Full } else { Length::Quick };
    let jobs = jobs(&plan, length, options.no_lab)?;
    let stored = stored(&plan)?;
    if options.dry_run {
        print_plan(options.format, &plan, &jobs, length)?;
        return Ok(ExitCode::SUCCESS);
    }
    // What cannot be written is known now and not hours later.
    for path in [Some(&options.output), options.csv.as_ref()]
        .into_iter()
        .flatten()
    {
        try_to_write(path)?;
    }
    if let Some(folder) = &options.svg {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut made = produce(options, &jobs)?;
    stand_in(stored, &mut made);
    let outputs = plan
        .sources
        .iter()
        .map(|source| (source.name.clone(), output(source, &made)));
    let outcomes = outcomes(&plan, &outputs.collect());
    let about = about(&plan, length, made);
    save(&options.output, &page(&plan, &outcomes, &about))?;
    if let Some(path) = &options.csv {
        save(path, &csv(&outcomes))?;
    }
    if let Some(folder) = &options.svg {
        save_figures(folder, &about)?;
    }
    print_results(options, &outcomes, &about)?;
    let wrong = outcomes.iter().filter(|outcome| !outcome.is_as_claimed());
    let wrong: Vec<&str> = wrong.map(|outcome| outcome.name.as_str()).collect();
    if wrong.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "threadwise: not as claimed, or failed: {}; the page says why",
        wrong.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

/// What is to be run. Every command is parsed, so that nothing is wrong hours later.
fn jobs(plan: &Plan, length: Length, no_lab: bool) -> Result<Vec<Job<'_>>> {
    let job = |source: &'_ Source| -> Option<(Vec<String>, u32)> {
        Some((source.arguments(length)?, source.effort(length)?.seconds))
    };
    let of_length = plan
        .sources
        .iter()
        .filter_map(|source| Some((source, job(source)?)));
    of_length
        .map(|(source, (arguments, seconds))| {
            let Checked { experiment, missing } =
                checked(source, &arguments).with_context(|| format!("source {:?}", source.name))?;
            Ok(Job {
                source,
                arguments,
                experiment,
                seconds,
                left_out: left_out(source, no_lab, missing),
            })
        })
        .collect()
}

/// Why the source is not run although the form has it.
fn left_out(source: &Source, no_lab: bool, missing: Option<String>) -> Option<String> {
    if no_lab && source.form == Form::Lab {
        return Some(String::from("the lab was left out (--no-lab)"));
    }
    missing.map(|name| {
        format!("it needs {name}, which is not there; make build makes ours and installs Debian's, make peers builds other schedulers")
    })
}

/// A command that is sound.
#[derive(Default)]
struct Checked {
    /// The experiment that it carries out, if it does, with the text of its file.
    experiment: Option<(Experiment, String)>,
    /// A program that a guest has to run and that is not here.
    missing: Option<String>,
}

fn checked(source: &Source, arguments: &[String]) -> Result<Checked> {
    let words = [String::from("threadwise")].into_iter().chain(as_json(arguments));
    let parsed = crate::Options::try_parse_from(words).map_err(|error| {
        let said = error.to_string();
        anyhow::anyhow!(
            "{}",
            said.lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ")
        )
    })?;
    let (form, experiment) = match &parsed.command {
        Command::Sim(sim::Command::Run(options)) => (Form::Simulated, options.experiment.file()),
        Command::Lab(lab::Command::Run(options)) => (Form::Lab, options.experiment.file()),
        Command::Lab(lab::Command::Exec(_)) => (Form::Lab, None),
        Command::Bench(bench::Command::ReadyThreads(_)) => (Form::Measured, None),
        Command::Place(command) if command.is_simulated() => (Form::Simulated, None),
        Command::Sim(sim::Command::Table(_)) => (Form::Simulated, None),
        Command::Model(_) | Command::Place(_) => (Form::Computed, None),
        _ => bail!(
            "only sim run, sim table, lab run, lab exec, bench ready-threads, model and place produce figures"
        ),
    };
    if form != source.form {
        bail!("its figures are {}, not {}", form.name(), source.form.name());
    }
    let Some(path) = experiment else {
        return match parsed.command {
            Command::Sim(sim::Command::Run(_)) | Command::Lab(lab::Command::Run(_)) => {
                bail!("it names no experiment")
            }
            _ => Ok(Checked::default()),
        };
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let experiment = Experiment::from_toml(&text, path)?;
    let missing = match &parsed.command {
        Command::Lab(lab::Command::Run(options)) => {
            let mut compared = experiment.clone();
            options.choose_schedulers(&mut compared)?;
            missing_program(&compared).map(String::from)
        }
        _ => None,
    };
    Ok(Checked {
        experiment: Some((experiment, text)),
        missing,
    })
}

/// The arguments with what has the command print JSON. What runs in a guest says so itself.
fn as_json(arguments: &[String]) -> Vec<String> {
    let mut words = arguments.to_vec();
    let is_guests = words.iter().take(2).eq(["lab", "exec"]);
    // What follows is another program's.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    if !is_guests {
        words.splice(end..end, ["--format", "json"].map(String::from));
    }
    words
}

/// Says what would be run.
fn print_plan(format: Format, plan: &Plan, jobs: &[Job], length: Length) -> Result<()> {
    match format {
        Format::Text => print!("{}", listed(plan, jobs)),
        Format::Json => {
            let sources = jobs.iter().map(|job| {
                json!({
                    "name": job.source.name,
                    "form": job.source.form.name(),
                    "command": command(&job.arguments),
                    "seconds": job.seconds,
                    "left_out": job.left_out,
                })
            });
            let printed = json!({
                "schema": "threadwise.reproduce.plan/1",
                "length": length,
                "version": VERSION,
                "sources": sources.collect::<Vec<_>>(),
                "results": plan.results.iter().map(|result| &result.name).collect::<Vec<_>>(),
            });
            println!("{}", serde_json::to_string_pretty(&printed)?);
        }
    }
    Ok(())
}

fn listed(plan: &Plan, jobs: &[Job]) -> String {
    let is_run = |job: &&Job| job.left_out.is_none();
    let mut text = String::new();
    for job in jobs.iter().filter(is_run) {
        text += &format!("{:>6} s  {}\n", job.seconds, command(&job.arguments));
    }
    let seconds: u32 = jobs.iter().filter(is_run).map(|job| job.seconds).sum();
    text + &format!(
        "about {} minutes for {} results\n",
        seconds.div_ceil(60),
        plan.results.len()
    )
}

/// Produces what is not kept; by the sources' names.
fn produce<'a>(options: &Options, jobs: &[Job<'a>]) -> Result<BTreeMap<&'a str, Made>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("cannot handle signals")?;
    let keeper = Keeper::new(options.store.open_or_create()?, options.again);
    let clock = Clock::new(jobs.iter().map(|job| job.seconds).sum());
    let mut made = BTreeMap::new();
    for (nr, job) in jobs.iter().enumerate() {
        clock.message(format!(
            "[{}/{}] {}: {}",
            nr + 1,
            jobs.len(),
            job.source.form.name(),
            job.source.name
        ));
        let one = match &job.left_out {
            Some(why) => not_run(why),
            None => one(job, &keeper, &clock, &stop)?,
        };
        clock.done(job.seconds);
        made.insert(job.source.name.as_str(), one);
    }
    clock.finish();
    Ok(made)
}

fn one(job: &Job, keeper: &Keeper, clock: &Clock, stop: &AtomicBool) -> Result<Made> {
    if let Some(made) = keeper.kept(job)? {
        return Ok(made);
    }
    if let Some(id) = keeper.running(job)? {
        return Ok(failed(
            format!("run {id} measures it now; wait for it to end"),
            None,
        ));
    }
    let arguments = keeper.arguments(job)?;
    match process::run(&arguments.words, job.seconds, clock, stop)? {
        Ended::Interrupted => bail!("interrupted; the same command goes on where it stopped"),
        Ended::Printed(text, seconds) => match serde_json::from_str(&text) {
            Ok(output) => keeper.keep(job, output, seconds),
            Err(error) => Ok(failed(
                format!("what it printed is no JSON: {error}"),
                Some(seconds),
            )),
        },
        Ended::Failed(why, seconds) => {
            clock.say(&format!("threadwise: {} failed: {why}", command(&job.arguments)));
            keeper.part_of(job, &why, seconds)
        }
    }
}

/// The runs that were measured before. They are read before anything is run, so that none is missing hours later.
fn stored(plan: &Plan) -> Result<BTreeMap<&str, Made>> {
    let stored = plan.sources.iter().filter_map(|source| {
        let path = source.stored.as_ref()?;
        let made = kept::stored(source, path).with_context(|| format!("source {:?}", source.name));
        Some(made.map(|made| (source.name.as_str(), made)))
    });
    stored.collect()
}

/// Puts runs that were measured before in the place of what is not run.
fn stand_in<'a>(stored: BTreeMap<&'a str, Made>, made: &mut BTreeMap<&'a str, Made>) {
    for (name, stored) in stored {
        let is_run = made
            .get(name)
            .is_some_and(|made| !matches!(made.output, Output::NotRun(_)));
        if !is_run {
            made.insert(name, stored);
        }
    }
}

fn not_run(why: &str) -> Made {
    Made {
        output: Output::NotRun(why.into()),
        state: format!("not run: {why}"),
        seconds: None,
        shown: None,
        repeat: None,
    }
}

fn failed(why: String, seconds: Option<f64>) -> Made {
    Made {
        state: format!("failed: {why}"),
        output: Output::Failed(why),
        seconds,
        shown: None,
        repeat: None,
    }
}

fn output(source: &Source, made: &BTreeMap<&str, Made>) -> Output {
    match made.get(source.name.as_str()) {
        Some(made) => made.output.clone(),
        None => Output::NotRun(String::from("only the long form (--full) runs it")),
    }
}

fn about(plan: &Plan, length: Length, mut made: BTreeMap<&str, Made>) -> About {
    let mut sources = Vec::new();
    for source in &plan.sources {
        let made = made
            .remove(source.name.as_str())
            .unwrap_or_else(|| not_run("only the long form (--full) runs it"));
        let arguments = source
            .arguments(length)
            .or_else(|| source.arguments(Length::Full));
        sources.push(Produced {
            name: source.name.clone(),
            form: source.form,
            command: made
                .repeat
                .unwrap_or_else(|| command(&arguments.unwrap_or_default())),
            has_failed: matches!(made.output, Output::Failed(_)),
            picture: match &made.output {
                Output::Made(json) if source.is_drawn => ready_threads(json),
                _ => None,
            },
            state: made.state,
            seconds: made.seconds,
            drawn: made.shown.filter(|_| source.is_drawn),
        });
    }
    About {
        length,
        version: VERSION.into(),
        host: host(),
        seconds: sources.iter().filter_map(|source| source.seconds).sum(),
        sources,
    }
}

/// For a shell.
fn command(arguments: &[String]) -> String {
    let word = |word: &String| {
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./:,=".contains(sign);
        match word.chars().all(is_plain) {
            true => word.clone(),
            false if word == "{scratch}" => String::from("scratch.place"),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    let words: Vec<String> = arguments.iter().map(word).collect();
    format!("threadwise {}", words.join(" "))
}

/// The page's figures, named by their sources.
fn save_figures(folder: &Path, about: &About) -> Result<()> {
    for source in &about.sources {
        let prefix = file_name(&source.name);
        let of_run = source.drawn.iter().flat_map(|run| &run.figures);
        for figure in of_run.filter(|figure| figure.is_main).chain(&source.picture) {
            save_in(
                folder,
                &format!("{prefix}-{}.svg", figure.name),
                &figure.document(),
            )?;
        }
    }
    Ok(())
}

fn print_results(options: &Options, outcomes: &[Outcome], about: &About) -> Result<()> {
    if options.format == Format::Json {
        let sources = about.sources.iter().map(|source| {
            json!({"name": source.name, "command": source.command, "state": source.state, "seconds": source.seconds})
        });
        let printed = json!({
            "schema": "threadwise.reproduce/1",
            "length": about.length,
            "version": about.version,
            "page": options.output,
            "sources": sources.collect::<Vec<_>>(),
            "results": outcomes,
        });
        println!("{}", serde_json::to_string_pretty(&printed)?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["result", "where", "figures", "verdict"]);
    for outcome in outcomes {
        for column in &outcome.columns {
            let verdict = match (&column.missing, column.figures.as_slice()) {
                (Some(_), _) if column.has_failed => String::from("failed"),
                (Some(_), _) => String::from("not run"),
                (None, [(_, verdict)]) => verdict.map_or("", Verdict::name).into(),
                _ => column.summary.clone(),
            };
            let claim = if column.broken.is_empty() {
                ""
            } else {
                " (not as claimed)"
            };
            table.add_row([
                outcome.name.clone(),
                outcome.place.clone(),
                format!("{} {}", column.form.name(), column.what),
                format!("{verdict}{claim}"),
            ]);
        }
    }
    println!("{table}\n{}", options.output.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::as_json;

    #[test]
    fn json_is_asked_of_our_command_not_of_what_it_runs() {
        for (line, asked) in [
            ("model table 1", "model table 1 --format json"),
            (
                "bench ready-threads -- omp-lu --seconds 2",
                "bench ready-threads --format json -- omp-lu --seconds 2",
            ),
            ("lab exec -- omp-lu", "lab exec -- omp-lu"),
        ] {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            assert_eq!(as_json(&words).join(" "), asked);
        }
    }
}
