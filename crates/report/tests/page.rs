// SPDX-License-Identifier: GPL-2.0-only
//! Pages and figures about a kept run: sound, complete, and harmless whatever is in the run.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::path::Path;

use scraper::{Html, Selector};
use threadwise_lab::run::{Label, Sample};
use threadwise_lab::table;
use threadwise_report::page::{self, Shown};
use threadwise_report::{Record, State, figures};

/// A simulated run of experiments/phases.toml, as `threadwise runs export` wrote it.
fn kept() -> Record {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs/phases.json");
    Record::from_file(&path).unwrap()
}

/// A run of experiments/interactive.toml in the lab, whose programs are timed.
fn timed() -> Record {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs/lab-interactive.json");
    Record::from_file(&path).unwrap()
}

fn page_of(record: Record) -> (String, Html) {
    let text = page::write(&[Shown::new(record).unwrap()]).unwrap();
    let html = Html::parse_document(&text);
    assert!(html.errors.is_empty(), "{:?}", html.errors);
    (text, html)
}

fn texts(html: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    html.select(&selector)
        .map(|element| element.text().collect())
        .collect()
}

#[test]
fn a_page_has_every_figure_with_its_interval() {
    let record = kept();
    let evaluation = record.evaluate().unwrap();
    let (_, html) = page_of(record);
    let cells = texts(&html, "tbody td, tbody th");
    for run in &evaluation.runs {
        for result in &run.schedulers {
            for cell in table::row(run, result) {
                assert!(cells.contains(&cell), "{cell:?} of {:?}", run.run);
            }
        }
    }
    // Each in the figures too: bars with their intervals, in words and drawn.
    let svg = texts(&html, "figure svg text").join("\n");
    for run in &evaluation.runs {
        let gain = run.schedulers[1].over_baseline.unwrap();
        assert!(svg.contains(&table::gain(&gain)), "{gain:?}");
    }
    let headline = texts(&html, ".headline").join("");
    let most = evaluation.runs[5].schedulers[1].over_baseline.unwrap();
    assert!(
        headline.contains("For 9 sets of programs, threadwise got more work done than kernel with")
            && headline.contains(&format!("inf:1 and 1:inf, together: {}", table::gain(&most)))
            && headline.contains("0.5 of 9 would count by chance. Judged together (Holm), more with"),
        "{headline}"
    );
}

#[test]
fn a_page_says_which_of_several_schedulers_has_most_and_where_another_wins() {
    let mut record = kept();
    let measured = &mut record.measurement;
    let mut other = measured.experiment.schedulers[1].clone();
    other.name = String::from("other");
    measured.experiment.schedulers.push(other);
    measured.scheduler_versions.push(String::new());
    let best = ["inf:1", "1:inf"];
    let ours = measured
        .samples
        .iter()
        .filter(|sample| sample.scheduler == "threadwise");
    let others: Vec<_> = ours
        .cloned()
        .map(|mut sample| {
            let of_ours = if sample.run == best { 1.01 } else { 0.5 };
            sample.scheduler = String::from("other");
            sample.performance.iter_mut().for_each(|each| *each *= of_ours);
            sample
        })
        .collect();
    measured.samples.extend(others);
    let headline = texts(&page_of(record).1, ".headline").join("");
    assert!(
        headline.contains(" other with 1 (inf:1 and 1:inf, together)"),
        "{headline}"
    );
    // Of two, each sentence says it already.
    let of_two = texts(&page_of(kept()).1, ".headline").join("");
    assert!(!of_two.contains("Of all schedulers"), "{of_two}");
}

#[test]
fn a_page_says_what_was_run_and_how_to_repeat_it() {
    let record = kept();
    let (text, html) = page_of(record.clone());
    let said = html.root_element().text().collect::<String>();
    for expected in [
        record.measurement.version.as_str(),
        record.manifest.host.as_str(),
        record.manifest.experiment_text.as_str(),
        record.manifest.machine_text.as_deref().unwrap(),
        "threadwise sim run phases.toml --rounds 3 --seconds 2",
        "simulated",
        "CPU 7, capacity 1024",
    ] {
        assert!(said.contains(expected), "no {expected:?}");
    }
    assert!(texts(&html, "dl.words dt").contains(&"fluid bound".to_string()));
    // What would be fetched; the name of SVG's namespace is none.
    let without_names = text.replace("http://www.w3.org/2000/svg", "");
    for foreign in [
        "http://", "https://", "src=", "@import", "url(", "<script", "<link",
    ] {
        assert!(!without_names.contains(foreign), "{foreign}");
    }
    // Every link of the page leads somewhere.
    let links = Selector::parse("a[href]").unwrap();
    for link in html.select(&links) {
        let target = link.attr("href").unwrap();
        let target = Selector::parse(&format!("[id='{}']", &target[1..])).unwrap();
        assert_eq!(html.select(&target).count(), 1, "{link:?}");
    }
}

#[test]
fn every_kind_of_program_and_what_schedulers_say_of_their_versions_is_shown() {
    let mut record = kept();
    let measured = &mut record.measurement;
    measured.scheduler_versions = vec![String::new(), String::from("scx_threadwise 9.8.7")];
    let programs = &mut measured.experiment.programs;
    programs[0].synthetic = None;
    programs[0].stages = toml::from_str("phase_units = 77").unwrap();
    programs[1].synthetic = None;
    programs[1].rtapp = Some("loads/x.json".into());
    programs[2].synthetic = None;
    programs[2].command = ["sh", "-c", "exec hackbench -g2"].map(String::from).to_vec();
    measured.experiment.schedulers[1].command = ["scx_x", "a b"].map(String::from).to_vec();
    let (_, html) = page_of(record);
    let cells = texts(&html, "tbody td");
    for expected in [
        "stages of one thread to all",
        "77 units",
        "loads/x.json",
        "sh -c 'exec hackbench -g2'",
    ] {
        assert!(
            cells.iter().any(|cell| cell == expected),
            "no {expected:?} in {cells:?}"
        );
    }
    let facts = texts(&html, "dl.facts dd");
    assert!(
        facts.contains(&"kernel, threadwise (scx_x 'a b')".to_string()),
        "{facts:?}"
    );
    assert!(
        facts.contains(&String::from("threadwise: scx_threadwise 9.8.7")),
        "{facts:?}"
    );
}

#[test]
fn of_timed_programs_a_page_says_the_time() {
    let record = timed();
    let evaluation = record.evaluate().unwrap();
    let (text, html) = page_of(record);
    for work in ["work gets done", "work done", "Work done", "most work"] {
        let glossary = text.rfind("id=\"words\"").unwrap();
        assert!(!text[..glossary].contains(work), "{work}");
    }
    let heads = texts(&html, "thead th");
    assert!(
        heads.iter().any(|head| head == "99 of 100 no later than"),
        "{heads:?}"
    );
    let run = &evaluation.runs[0];
    let [kernel, ours] = [0, 1].map(|index| table::row(run, &run.schedulers[index])[1].clone());
    let captions = texts(&html, "caption").join("\n");
    let less = 100.0 * (1.0 - 1.0 / run.schedulers[1].over_baseline.unwrap().ratio);
    let mean = |cell: &str| cell.split(" ±").next().unwrap().to_string();
    let said = format!(
        "Under threadwise it takes {less:.1} % less time than under kernel: {} in place of {} (99 of 100 no later than).",
        mean(&ours),
        mean(&kernel)
    );
    assert!(captions.contains(&said), "{said}\n{captions}");
    let headline = texts(&html, ".headline").join("");
    assert!(
        headline.contains("threadwise took less time than kernel with") && headline.contains("least time"),
        "{headline}"
    );
    let titles = texts(&html, "figure h3").join("\n");
    assert!(
        titles.contains("One over the time, compared with kernel"),
        "{titles}"
    );
    // The shortest time is the largest figure.
    let seconds = |index: usize| 1.0 / run.schedulers[index].total.mean;
    assert!(seconds(1) < seconds(0));
}

/// What is simulated repeats itself to the last digit, so that the least difference is more than noise.
#[test]
fn what_is_simulated_is_the_same_to_within_a_thousandth() {
    // The last spreads: its interval reaches beyond a thousandth, which only the mean is within.
    let spread = [1.0007, 1.0009, 1.0011];
    for (factors, same) in [
        ([1.0005; 3], true),
        ([0.9995; 3], true),
        ([1.003; 3], false),
        (spread, true),
    ] {
        let mut record = kept();
        let of = |scheduler: &str, samples: &[Sample]| -> Vec<Sample> {
            let of = samples.iter().filter(|sample| sample.scheduler == scheduler);
            of.cloned().collect()
        };
        let mut samples = of("kernel", &record.measurement.samples);
        let ours = samples.clone().into_iter().map(|mut sample| {
            sample.scheduler = String::from("threadwise");
            let factor = factors[sample.round as usize];
            sample.performance.iter_mut().for_each(|each| *each *= factor);
            sample
        });
        samples.extend(ours.collect::<Vec<_>>());
        record.measurement.samples = samples;
        let (_, html) = page_of(record);
        let headline = texts(&html, ".headline").join("");
        let captions = texts(&html, "caption").join("\n");
        let said = "the same to within 0.1 % on the mean";
        assert_eq!(
            captions.matches(said).count(),
            if same { 9 } else { 0 },
            "{captions}"
        );
        assert_eq!(
            headline.contains(&format!("with 9 it is {said}")),
            same,
            "{headline}"
        );
        assert_eq!(
            headline.contains("with 0, less with 0, with 9"),
            same,
            "{headline}"
        );
        let tones = texts(&html, "td.gain").len() + texts(&html, "td.loss").len();
        assert_eq!(tones == 0, same, "{factors:?}");
    }
}

#[test]
fn programs_that_did_not_run_are_none_of_the_page() {
    let mut record = kept();
    let measured = &mut record.measurement;
    let alone: Vec<String> = vec![String::from("inf:1")];
    measured.experiment.runs = vec![alone.clone()];
    measured.samples.retain(|sample| sample.run == alone);
    record.timelines.clear();
    let (_, html) = page_of(record);
    let programs = texts(&html, "table")
        .into_iter()
        .find(|table| table.contains("mean phase"));
    let programs = programs.unwrap();
    assert!(
        programs.contains("inf:1") && !programs.contains("1:inf"),
        "{programs}"
    );
}

#[test]
fn whatever_is_in_a_run_is_text() {
    let evil = "<script>alert(1)</script>\"'&";
    let mut record = kept();
    let measured = &mut record.measurement;
    measured.experiment.name = evil.into();
    measured.experiment.description = evil.into();
    measured.experiment.schedulers[1].name = evil.into();
    measured.experiment.programs[0].name = evil.into();
    for run in &mut measured.experiment.runs {
        run.iter_mut()
            .filter(|name| *name == "inf:1")
            .for_each(|name| *name = evil.into());
    }
    for sample in &mut measured.samples {
        sample
            .run
            .iter_mut()
            .filter(|name| *name == "inf:1")
            .for_each(|name| *name = evil.into());
        if sample.scheduler == "threadwise" {
            sample.scheduler = evil.into();
        }
    }
    for timeline in &mut record.timelines {
        timeline.scheduler = evil.into();
        timeline.run[0] = evil.into();
    }
    record.manifest.experiment_text = evil.into();
    record.manifest.command = vec![evil.into()];
    record.manifest.host = evil.into();
    record.manifest.machine["name"] = evil.into();
    record.failure = Some(evil.into());
    record.state = State::Interrupted;
    let shown = Shown::new(record.clone()).unwrap();
    for figure in &shown.figures {
        assert!(
            figure
                .name
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || sign == '-'),
            "{}",
            figure.name
        );
        let document = figure.document();
        let tree = roxmltree::Document::parse(&document).unwrap();
        assert!(!tree.descendants().any(|node| node.has_tag_name("script")));
    }
    let (_, html) = page_of(record);
    assert!(texts(&html, "script").is_empty());
    assert!(texts(&html, "h1")[0].contains(evil), "it is there, as text");
}

#[test]
fn figures_are_sound_documents() {
    let record = kept();
    let picture = record.manifest.machine().unwrap().render_svg();
    let shown = Shown::new(record).unwrap();
    let names: Vec<&str> = shown.figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names[..3], ["gains", "pairs-threadwise", "performance"]);
    assert_eq!(
        names.len(),
        3 + 9 * 2,
        "a timeline for each run and scheduler: {names:?}"
    );
    let documents = shown.figures.iter().map(|figure| figure.document());
    for document in documents.chain([picture]) {
        let tree = roxmltree::Document::parse(&document).unwrap();
        let root = tree.root_element();
        assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
        let bounds: Vec<f64> = root
            .attribute("viewBox")
            .unwrap()
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        assert!(bounds.iter().all(|bound| bound.is_finite()), "{bounds:?}");
        assert!(
            !document.contains("NaN") && !document.contains("inf\""),
            "{document}"
        );
    }
    let pairs = shown.figures[1].document();
    let tree = roxmltree::Document::parse(&pairs).unwrap();
    let cells = tree
        .descendants()
        .filter(|node| node.has_tag_name("rect"))
        .count();
    assert_eq!(cells, 6, "three programs and each beside its like");
}

#[test]
fn csv_has_every_figure_and_every_sample() {
    let record = kept();
    let evaluation = record.evaluate().unwrap();
    let text = figures::csv(&evaluation);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(lines.len(), figures::lines(&evaluation).len());
    let of_pair = |what: &str| {
        lines
            .iter()
            .find(|line| &line[1] == "inf:1 + 1:inf" && &line[2] == "threadwise" && &line[3] == what)
            .unwrap()
    };
    let gain = evaluation.runs[5].schedulers[1].over_baseline.unwrap();
    let line = of_pair("ratio to the baseline");
    let number = |index: usize| line[index].parse::<f64>().unwrap();
    assert_eq!(
        (number(6), number(7), number(8)),
        (gain.ratio, gain.low, gain.high)
    );
    assert_eq!((&line[0], &line[9]), ("simulated", "3"));
    let samples = figures::samples_csv(&evaluation);
    let programs: usize = record
        .measurement
        .samples
        .iter()
        .map(|sample| sample.run.len())
        .sum();
    assert_eq!(
        csv::Reader::from_reader(samples.as_bytes()).records().count(),
        programs
    );
}

#[test]
fn a_run_of_the_lab_says_so_and_what_is_missing() {
    let mut record = kept();
    record.measurement.label = Label::Lab;
    record.measurement.kernel = "7.2.9".into();
    record.state = State::Interrupted;
    record.failure = Some("interrupted".into());
    // The third round was cut short, and the second taken in another boot.
    record
        .measurement
        .samples
        .retain(|sample| sample.round < 2 || sample.scheduler == "kernel");
    for sample in record
        .measurement
        .samples
        .iter_mut()
        .filter(|sample| sample.round > 0)
    {
        sample.boot = 1;
    }
    let (_, html) = page_of(record.clone());
    let said = html.root_element().text().collect::<String>();
    for expected in [
        "2 of 3 rounds in 2 boots",
        "Linux 7.2.9",
        "This run is interrupted",
        "threadwise lab run phases.toml",
    ] {
        assert!(said.contains(expected), "no {expected:?}");
    }
    // Fewer than two rounds are no result.
    record.measurement.samples.retain(|sample| sample.round == 0);
    assert!(Shown::new(record).is_err());
}

#[test]
fn a_page_about_two_runs_compares_them() {
    let (before, mut after) = (kept(), kept());
    after.id = before.id + 1;
    for sample in after
        .measurement
        .samples
        .iter_mut()
        .filter(|sample| sample.scheduler == "threadwise")
    {
        sample.performance.iter_mut().for_each(|value| *value *= 0.9);
    }
    let shown = [before, after].map(|record| Shown::new(record).unwrap());
    let html = Html::parse_document(&page::write(&shown).unwrap());
    assert!(html.errors.is_empty(), "{:?}", html.errors);
    assert!(
        texts(&html, ".headline")[0].contains("0 got better and 18 worse"),
        "{:?}",
        texts(&html, ".headline")[0]
    );
    assert_eq!(
        texts(&html, "td.loss")
            .iter()
            .filter(|cell| *cell == "WORSE")
            .count(),
        18
    );
}
