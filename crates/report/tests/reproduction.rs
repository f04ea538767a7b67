// SPDX-License-Identifier: GPL-2.0-only
//! Plans, what becomes of them, and the page: sound where all is well, and loud where it is not.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::collections::BTreeMap;
use std::path::Path;

use scraper::{Html, Selector};
use serde_json::json;
use threadwise_report::Error;
use threadwise_report::reproduction::{
    About, Form, Length, Outcome, Output, Plan, Produced, csv, outcomes, page,
};

const PLAN: &str = r#"
[[paper]]
name = "p"
title = "A paper <b>&"

[[source]]
name = "s"
form = "computed"
command = ["model", "table", "1"]
quick = { seconds = 1 }

[[result]]
name = "r"
paper = "p"
place = "Table 1"
title = "gains"
unit = "gain"
given = { n = 8, a = 2 }
tolerance = 1.0
rows = [
    { what = "number", printed = 4.5 },
    { what = "range", printed = [5, 15] },
    { what = "formula", printed = "(n - 7) / (a * 10)" },
    { what = "more", printed = "+" },
    { what = "drawn" },
    { what = "misprint", printed = 99, known = "it does not follow" },
]

[[result.figures]]
from = "s"
at = "$.rows[*].value"
claim = "within"
share = 0.5
"#;

fn plan(text: &str) -> Plan {
    Plan::from_toml(text, Path::new("p.toml")).unwrap()
}

/// What becomes of the plan if its source printed these values.
fn outcome(text: &str, values: &[f64]) -> Outcome {
    let rows: Vec<_> = values.iter().map(|value| json!({ "value": value })).collect();
    of_output(text, Output::Made(json!({ "rows": rows })))
}

fn of_output(text: &str, output: Output) -> Outcome {
    let outputs = BTreeMap::from([(String::from("s"), output)]);
    outcomes(&plan(text), &outputs).remove(0)
}

fn verdicts(outcome: &Outcome) -> Vec<&'static str> {
    let of = |column: &threadwise_report::reproduction::Column| {
        let names = column
            .figures
            .iter()
            .map(|(_, verdict)| verdict.map_or("", |verdict| verdict.name()));
        names.collect()
    };
    of(&outcome.columns[0])
}

#[test]
fn figures_are_judged_by_what_was_printed() {
    let good = outcome(PLAN, &[0.05, 0.16, 0.05, 0.01, 0.5, 0.0]);
    assert_eq!(
        verdicts(&good),
        ["within", "within", "within", "same sign", "", "differs"]
    );
    assert!(good.is_as_claimed(), "{good:?}");
    assert_eq!(good.rows[2].printed, "(n - 7) / (a * 10) = +5.0 %");
    let bad = outcome(PLAN, &[0.07, -0.05, -0.01, 0.0004, 0.5, 0.99]);
    assert_eq!(
        verdicts(&bad),
        ["same sign", "differs", "differs", "differs", "", "within"]
    );
    // Fewer than half of those that are claimed to be.
    assert!(!bad.is_as_claimed());
    let said = &bad.columns[0].broken[0];
    assert!(
        said.starts_with("0 of 4 rows are within, 50 % are claimed to be; not: number, range"),
        "{said}"
    );
}

#[test]
fn a_share_may_be_said_to_be_some() {
    let rows =
        "[{ what = \"some\", printed = \"+\" }, { what = \"none\", printed = \"+\" }]\n\n[[result.figures]]";
    let (head, tail) = PLAN.split_once("[[result.figures]]").unwrap();
    let head = head
        .split("rows = [")
        .next()
        .unwrap()
        .replace("\"gain\"", "\"percent\"");
    let text = format!("{head}rows = {rows}{}", tail.replace("within", "same sign"));
    let some = outcome(&text, &[0.3, 0.0001]);
    assert_eq!(verdicts(&some), ["same sign", "differs"]);
    assert_eq!(some.rows[0].printed, "some");
    let less = Plan::from_toml(&text.replace("\"+\"", "\"-\""), Path::new("p.toml"));
    assert!(less.unwrap_err().to_string().contains("shares a +"));
}

#[test]
fn figures_are_means_extremes_and_changes() {
    let figures = |more: &str| {
        let head = PLAN.split("rows = [").next().unwrap();
        let text = format!(
            "{head}rows = [{{ what = \"one\", printed = 10 }}]\n[[result.figures]]\nfrom = \"s\"\nclaim = \"within\"\n{more}"
        );
        let found = outcome(&text, &[0.2, 0.4, 0.9]);
        let column = &found.columns[0];
        match column.figures.as_slice() {
            [(figure, _)] => Ok((figure.value * 1e6).round() / 1e6),
            _ => Err(column.missing.clone().unwrap()),
        }
    };
    let all = "at = \"$.rows[*].value\"\n";
    assert_eq!(figures(&format!("{all}take = \"mean\"")), Ok(50.0));
    assert_eq!(figures(&format!("{all}take = \"max\"")), Ok(90.0));
    assert_eq!(figures(&format!("{all}take = \"sum\"")), Ok(150.0));
    assert_eq!(
        figures(&format!("{all}take = \"min\"\nminus_one = true")),
        Ok(-80.0)
    );
    assert_eq!(
        figures(&format!("{all}take = \"min\"\nover = \"$.rows[1].value\"")),
        Ok(-50.0)
    );
    assert_eq!(
        figures(&format!(
            "{all}take = \"max\"\nover = \"$.rows[*].value\"\nover_take = \"min\""
        )),
        Ok(350.0)
    );
    // Each path that leads astray is named.
    for (more, said) in [
        (all, "leads to 3 figures, not 1"),
        ("at = \"$.rows[7].value\"", "leads to nothing"),
        ("at = \"$.rows[0]\"", "which is no number"),
    ] {
        let problem = figures(more).unwrap_err();
        assert!(problem.contains(said), "{more}: {problem}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let failed = of_output(PLAN, Output::Failed(String::from("no QEMU")));
    assert!(!failed.is_as_claimed() && failed.columns[0].missing.as_deref() == Some("no QEMU"));
    let not_run = of_output(PLAN, Output::NotRun(String::from("only the long form")));
    assert!(not_run.is_as_claimed() && not_run.columns[0].figures.is_empty());
    let page = written(PLAN, &failed);
    assert!(
        page.contains("No figures, computed: no QEMU.")
            && page.contains("Not as we claim, or failed: gains.")
    );
    assert!(written(PLAN, &not_run).contains("Not run at all: gains."));
}

#[test]
fn a_wrong_plan_is_refused() {
    for (old, new, said) in [
        (
            "paper = \"p\"",
            "paper = \"q\"",
            "line 14: result \"r\": there is no paper",
        ),
        ("from = \"s\"", "from = \"t\"", "no result uses source \"s\""),
        (
            "share = 0.5",
            "[[result.figures]]\nfrom = \"t\"\nat = \"$.a\"\nclaim = \"within\"",
            "no such source",
        ),
        ("$.rows[*].value", "$.rows[", "line"),
        (
            "(n - 7)",
            "(k - 7)",
            "line 23: result \"r\": row \"formula\": formula \"(k - 7) / (a * 10)\": k is not given",
        ),
        ("(n - 7)", "(n - 7", "formula"),
        ("a = 2", "a = 0", "no finite value"),
        (
            "[5, 15]",
            "[15, 5]",
            "line 22: result \"r\": row \"range\": the range begins after its end",
        ),
        ("claim = \"within\"", "claim = \"differs\"", "why?"),
        ("unit = \"gain\"", "unit = \"ratio\"", "only gains have a sign"),
        (
            "share = 0.5",
            "share = 2.0",
            "line 29: result \"r\": figures from \"s\": share is not within",
        ),
        (
            "quick = { seconds = 1 }",
            "",
            "line 7: source \"s\" needs quick or full",
        ),
        ("tolerance = 1.0", "tolerence = 1.0", "unknown field"),
        (
            "$.rows[*].value\"",
            "$.rows[*].value\"\nover = [\"$.a\"]",
            "one for each row",
        ),
    ] {
        assert!(PLAN.contains(old), "{old}");
        let result = Plan::from_toml(&PLAN.replace(old, new), Path::new("p.toml"));
        let Err(Error::Plan { problem, .. }) = result else {
            panic!("{new} is no error")
        };
        assert!(problem.contains(said), "{new}: {problem}");
    }
}

#[test]
fn results_are_chosen_by_their_names() {
    let chosen = plan(PLAN).only(&[String::from("r")]).unwrap();
    assert_eq!((chosen.results.len(), chosen.sources.len()), (1, 1));
    assert_eq!(plan(PLAN).only(&[String::from("p")]).unwrap().results.len(), 1);
    let problem = plan(PLAN).only(&[String::from("x")]).unwrap_err();
    assert!(
        problem.contains("no result and no paper; results are r"),
        "{problem}"
    );
}

fn written(text: &str, outcome: &Outcome) -> String {
    let about = About {
        length: Length::Quick,
        version: String::from("1"),
        host: String::from("here"),
        seconds: 3.0,
        sources: vec![Produced {
            name: String::from("s"),
            form: Form::Computed,
            command: String::from("threadwise model table 1"),
            state: String::from("done"),
            has_failed: false,
            seconds: Some(3.0),
            picture: None,
            drawn: None,
        }],
    };
    page(&plan(text), std::slice::from_ref(outcome), &about)
}

#[test]
fn the_page_is_sound_and_has_every_figure() {
    let text = written(PLAN, &outcome(PLAN, &[0.05, 0.16, 0.05, 0.01, 0.5, 0.0]));
    let html = Html::parse_document(&text);
    assert!(html.errors.is_empty(), "{:?}", html.errors);
    let texts = |selector: &str| -> Vec<String> {
        let selector = Selector::parse(selector).unwrap();
        html.select(&selector)
            .map(|element| element.text().collect())
            .collect()
    };
    let cells = texts("td");
    for cell in [
        "+4.5 %",
        "+5 % to +15 %",
        "+5.0 %",
        "+16.0 %",
        "more",
        "+50.0 %",
        "+99 %",
        "differs",
    ] {
        assert!(cells.contains(&cell.to_string()), "no {cell:?} in {cells:?}");
    }
    assert!(texts("p").contains(&String::from("misprint: it does not follow")));
    assert!(texts("code").contains(&String::from("threadwise model table 1")));
    assert!(texts("p").contains(&String::from("A paper <b>&")), "escaped");
    for foreign in [
        "http://", "https://", "src=", "@import", "url(", "<script", "<link",
    ] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    let links = Selector::parse("a[href]").unwrap();
    for link in html.select(&links) {
        let target = &link.attr("href").unwrap()[1..];
        let target = Selector::parse(&format!("[id='{target}']")).unwrap();
        assert_eq!(html.select(&target).count(), 1, "{:?}", link.attr("href"));
    }
}

#[test]
fn csv_has_every_figure_beside_what_was_printed_and_why_one_is_missing() {
    let lines = |outcome: Outcome| -> Vec<csv::StringRecord> {
        let text = csv(&[outcome]);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap().iter().nth(8), Some("value"));
        reader.records().map(Result::unwrap).collect()
    };
    let made = lines(outcome(PLAN, &[0.045, 0.5, 0.05, 0.1, 0.2, 0.3]));
    let cells = |line: &csv::StringRecord| [3, 4, 8, 11, 12].map(|index| line[index].to_string());
    assert_eq!(made.len(), 6);
    assert_eq!(cells(&made[0]), ["number", "+4.5 %", "4.5", "within", ""]);
    assert_eq!(
        cells(&made[1]),
        ["range", "+5 % to +15 %", "50.0", "same sign", ""]
    );
    assert_eq!(cells(&made[4]), ["drawn", "", "20.0", "", ""]);
    let failed = lines(of_output(PLAN, Output::Failed("it fell".into())));
    assert_eq!(cells(&failed[0]), ["number", "+4.5 %", "", "", "it fell"]);
}
