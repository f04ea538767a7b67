// SPDX-License-Identifier: GPL-2.0-only
//! What came out, in a sentence for each scheduler.

use threadwise_lab::evaluate::{Evaluation, RunResult};
use threadwise_lab::table;
use threadwise_metrics::{RatioSummary, holm, percent_more};

use crate::compare::{LEVEL, Outcome, least_gain};

/// Sets of programs that are named where another scheduler than that which mostly has won.
const NAMED: usize = 4;

/// A sentence for each scheduler but the baseline, and one that says which has most, if there are several; one that says so if
/// there is nothing to compare with.
pub(crate) fn sentences(evaluation: &Evaluation) -> Vec<String> {
    let schedulers = &evaluation.measurement.experiment.schedulers;
    let baseline = &schedulers[0].name;
    if schedulers.len() == 1 {
        return vec![format!(
            "There is nothing to compare {baseline} with in this run."
        )];
    }
    let others = schedulers.iter().enumerate().skip(1);
    others
        .map(|(index, scheduler)| sentence(evaluation, index, &scheduler.name, baseline))
        .chain((schedulers.len() > 2).then(|| winners(evaluation)))
        .collect()
}

/// With which sets of programs each scheduler has most work done.
pub(crate) fn winners(evaluation: &Evaluation) -> String {
    let schedulers = &evaluation.measurement.experiment.schedulers;
    let mut won: Vec<(&str, Vec<String>)> = schedulers
        .iter()
        .map(|scheduler| (scheduler.name.as_str(), Vec::new()))
        .collect();
    for run in &evaluation.runs {
        let totals = run.schedulers.iter().map(|scheduler| scheduler.total.mean);
        let best = totals.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((index, _)) = best {
            won[index].1.push(table::heading(run));
        }
    }
    won.sort_by_key(|(_, sets)| std::cmp::Reverse(sets.len()));
    let said: Vec<String> = won
        .iter()
        .enumerate()
        .filter(|(_, (_, sets))| !sets.is_empty())
        .map(
            |(place, (name, sets))| match (place, sets.len().saturating_sub(NAMED)) {
                (0, _) => format!("{name} with {}", sets.len()),
                (_, 0) => format!("{name} with {} ({})", sets.len(), sets.join("; ")),
                (_, more) => format!(
                    "{name} with {} ({}; {more} more)",
                    sets.len(),
                    sets[..NAMED].join("; ")
                ),
            },
        )
        .collect();
    format!(
        "Of all schedulers, {} on the mean over the rounds: {}.",
        Words::of(evaluation).most,
        said.join(", ")
    )
}

/// How many sets are of one program that is timed: they did no work that could be counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timed {
    None,
    Some,
    All,
}

impl Timed {
    pub(crate) fn of(evaluation: &Evaluation) -> Self {
        let nr = evaluation.runs.iter().filter(|run| run.time.is_some()).count();
        match nr {
            0 => Self::None,
            all if all == evaluation.runs.len() => Self::All,
            _ => Self::Some,
        }
    }
}

/// What is more and what is less, where programs are timed and where their work is counted.
struct Words {
    more: &'static str,
    than: &'static str,
    less: &'static str,
    /// What has the most gain, and the least.
    extremes: [&'static str; 2],
    judged: [&'static str; 2],
    most: &'static str,
}

impl Words {
    const COUNTED: Self = Self {
        more: "got more work done",
        than: "",
        less: "less",
        extremes: ["most with", "least with"],
        judged: ["more", "less"],
        most: "most work",
    };
    const TIMED: Self = Self {
        more: "took less time",
        than: "",
        less: "more",
        extremes: ["by most with", "by most with"],
        judged: ["less time", "more"],
        most: "least time",
    };
    const BOTH: Self = Self {
        more: "got more work done, or the same in less time,",
        than: ",",
        less: "less, or in more time,",
        extremes: ["most with", "least with"],
        judged: ["more, or in less time,", "less, or in more time,"],
        most: "most work, or least time,",
    };

    fn of(evaluation: &Evaluation) -> &'static Self {
        match Timed::of(evaluation) {
            Timed::None => &Self::COUNTED,
            Timed::All => &Self::TIMED,
            Timed::Some => &Self::BOTH,
        }
    }
}

/// How much less time a gain is, or how much more.
pub(crate) fn less_time(gain: &RatioSummary) -> String {
    let percent = percent_more(1.0 / gain.ratio);
    let word = if percent < 0.0 { "less" } else { "more" };
    format!("{:.1} % {word} time", percent.abs())
}

fn sentence(evaluation: &Evaluation, index: usize, name: &str, baseline: &str) -> String {
    let gains: Vec<(&RunResult, &RatioSummary)> = evaluation
        .runs
        .iter()
        .filter_map(|run| Some((run, run.schedulers[index].over_baseline.as_ref()?)))
        .collect();
    let outcomes: Vec<Outcome> = gains
        .iter()
        .map(|(_, gain)| Outcome::of(gain, evaluation.label))
        .collect();
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let extreme = |wanted, sign: f64| {
        let all = gains.iter().zip(&outcomes);
        all.filter(|(_, outcome)| **outcome == wanted)
            .map(|(gain, _)| gain)
            .max_by(|a, b| (sign * a.1.ratio).total_cmp(&(sign * b.1.ratio)))
    };
    let found = |found: Option<&(&RunResult, &RatioSummary)>, word: &str| {
        found.map_or_else(String::new, |(run, gain)| {
            let gain = match run.time {
                Some(_) => less_time(gain),
                None => table::gain(gain),
            };
            format!(" ({word} {}: {gain})", table::heading(run))
        })
    };
    let sets = match gains.len() {
        1 => String::from("For the one set of programs here"),
        nr => format!("For {nr} sets of programs"),
    };
    let same = match count(Outcome::Same) {
        0 => String::new(),
        nr => format!(" with {nr} it is {},", Outcome::same()),
    };
    let words = Words::of(evaluation);
    let counted = format!(
        "{sets}, {name} {} than {baseline}{} with {}{}, {} with {}{},{same} and with {} the difference is within noise.",
        words.more,
        words.than,
        count(Outcome::More),
        found(extreme(Outcome::More, 1.0), words.extremes[0]),
        words.less,
        count(Outcome::Less),
        found(extreme(Outcome::Less, -1.0), words.extremes[1]),
        count(Outcome::Noise),
    );
    let gains: Vec<&RatioSummary> = gains.into_iter().map(|(_, gain)| gain).collect();
    match gains.len() {
        0 | 1 => counted,
        _ => format!(
            "{counted} {}",
            by_chance(&gains, least_gain(evaluation.label), words)
        ),
    }
}

/// What the counts are worth: each set is judged by its own interval, as in the tables, and of many some are clear of 1 by
/// chance. Few rounds of many sets can leave none when they are judged together, so both are said.
fn by_chance(gains: &[&RatioSummary], least: f64, words: &Words) -> String {
    // A gain that cannot be tested is no difference.
    let ps: Vec<f64> = gains.iter().map(|gain| gain.p(least).unwrap_or(1.0)).collect();
    let adjusted = holm(&ps);
    let clear = gains.iter().zip(adjusted).filter(|(_, p)| *p < LEVEL);
    let (more, less): (Vec<_>, Vec<_>) = clear.partition(|(gain, _)| gain.ratio > 1.0);
    format!(
        "Each set is judged at the {:.0} % level by itself: if nothing differed, {:.1} of {} would count by chance. Judged \
         together (Holm), {} with {} and {} with {}.",
        LEVEL * 100.0,
        LEVEL * gains.len() as f64,
        gains.len(),
        words.judged[0],
        more.len(),
        words.judged[1],
        less.len()
    )
}

#[cfg(test)]
mod tests {
    use threadwise_metrics::paired_ratio;

    use super::*;

    #[test]
    fn what_may_be_chance_is_said_to_be() {
        // p = 0.0027 and twice 0.0261 (Student's t with 2 degrees of freedom). By themselves all are clear of 1; adjusted
        // they are 0.0082 and 0.0523.
        let gain = |logs: [f64; 3]| paired_ratio(&logs.map(f64::exp), &[1.0; 3]).unwrap();
        let clear = gain([0.10, 0.11, 0.12]);
        let weak = gain([-0.05, -0.07, -0.09]);
        let said = by_chance(&[&clear, &weak, &weak], 0.0, &Words::COUNTED);
        assert!(clear.excludes_one() && weak.excludes_one());
        assert!(
            said.contains("0.2 of 3 would count by chance") && said.ends_with("more with 1 and less with 0."),
            "{said}"
        );
    }
}
