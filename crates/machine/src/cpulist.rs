// SPDX-License-Identifier: GPL-2.0-only
//! Lists of CPUs as the kernel writes them: `0-3,8,10-11`.
//!
//! The kernel's strides (`0-31:2/4`) are left out: no file that we read uses them.

use crate::error::shorten;
use crate::id::{CpuId, MAX_CPUS};

/// Why a text is not a list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("CPU list \"{text}\", column {column}: {problem}")]
pub struct CpuListError {
    /// The text, escaped and shortened.
    pub text: String,
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: String,
}

/// Reads a list; the result is sorted. Items may come in any order; white space around the list and
/// around an item is ignored; an empty list is no CPU.
///
/// # Errors
/// Says the column of an item that is no id or range, of a range that descends, of an id of
/// [`MAX_CPUS`] or more, and of a CPU that is given twice.
pub fn parse(text: &str) -> Result<Vec<CpuId>, CpuListError> {
    let fail = |at: usize, problem: String| CpuListError {
        text: shorten(text),
        column: text[..at].chars().count() + 1,
        problem,
    };
    let mut seen = vec![false; MAX_CPUS as usize];
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut at = 0;
    for item in text.split(',') {
        let (first, last) = parse_item(item).map_err(|problem| fail(at, problem))?;
        for id in first..=last {
            if std::mem::replace(&mut seen[id as usize], true) {
                return Err(fail(at, format!("CPU {id} is given twice")));
            }
        }
        at += item.len() + 1;
    }
    Ok((0..MAX_CPUS).filter(|&id| seen[id as usize]).map(CpuId).collect())
}

/// Writes a list: sorted, without duplicates, neighbours joined to ranges. `parse` undoes it.
pub fn format(cpus: &[CpuId]) -> String {
    let mut ids: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let ranges = ids.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// `5` or `5-9`, as first and last id, both below [`MAX_CPUS`].
fn parse_item(item: &str) -> Result<(u32, u32), String> {
    let (first, last) = match item.split_once('-') {
        Some((first, last)) => (parse_id(first)?, parse_id(last)?),
        None => (parse_id(item)?, parse_id(item)?),
    };
    if first > last {
        return Err(format!("the range {first}-{last} descends"));
    }
    Ok((first, last))
}

fn parse_id(text: &str) -> Result<u32, String> {
    let digits = text.trim();
    // `str::parse` would take a leading plus sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "\"{}\" is not a CPU id or a range of ids",
            shorten(digits)
        ));
    }
    match digits.parse::<u32>() {
        Ok(id) if id < MAX_CPUS => Ok(id),
        _ => Err(format!(
            "CPU {} is beyond the highest possible id, {}",
            shorten(digits),
            MAX_CPUS - 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<u32> {
        parse(text).unwrap().into_iter().map(|cpu| cpu.0).collect()
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(ids("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert!(ids("\n").is_empty());
        assert_eq!(ids(" 5 , 2 "), [2, 5]);
        assert_eq!(ids("8191"), [8191]);
    }

    #[test]
    fn errors_name_the_column() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("0,x"),
            "CPU list \"0,x\", column 3: \"x\" is not a CPU id or a range of ids"
        );
        assert_eq!(
            message("3-1"),
            "CPU list \"3-1\", column 1: the range 3-1 descends"
        );
        assert_eq!(
            message("0-2,1"),
            "CPU list \"0-2,1\", column 5: CPU 1 is given twice"
        );
        assert_eq!(
            message("0-4294967295"),
            "CPU list \"0-4294967295\", column 1: CPU 4294967295 is beyond the highest possible id, 8191"
        );
        for wrong in ["0,", ",", "-", "1-", "-1", "+1", "1--2", "0-8192", "0x1"] {
            assert!(parse(wrong).is_err(), "{wrong} was taken");
        }
    }

    #[test]
    fn writes_ranges() {
        let list = |ids: &[u32]| format(&ids.iter().copied().map(CpuId).collect::<Vec<_>>());
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[11, 0, 1, 2, 2, 8, 10]), "0-2,8,10-11");
    }
}
