// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel tells of a process or thread in a line.

/// The fields of /proc/PID/stat after the name: the state, which is field 3 of proc_pid_stat(5), and what follows; none of
/// what is no such line. The name, in parentheses, may be any bytes: parentheses and blanks, and the kernel cuts it after 15
/// of them, in the middle of a character.
pub fn stat_fields(stat: &[u8]) -> impl Iterator<Item = &str> {
    let end = stat.iter().rposition(|byte| *byte == b')');
    let after_name = end.and_then(|end| str::from_utf8(&stat[end + 1..]).ok());
    after_name.unwrap_or_default().split_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_follow_the_name() {
        let fields = |stat: &'static [u8]| stat_fields(stat).collect::<Vec<_>>();
        assert_eq!(fields(b"7 (a) R b) S 1 2\n"), ["S", "1", "2"]);
        assert_eq!(fields(b"7 (sh) R"), ["R"]);
        assert!(
            [&b""[..], b"7 (sh)", b"garbage"]
                .into_iter()
                .all(|stat| fields(stat).is_empty())
        );
    }

    #[test]
    fn a_name_that_was_cut_in_a_character_is_no_obstacle() {
        let named = std::thread::Builder::new().name("ééééééééé".into());
        let thread = named.spawn(|| std::fs::read("/proc/thread-self/stat")).unwrap();
        let stat = thread.join().unwrap().unwrap();
        assert!(str::from_utf8(&stat).is_err(), "it was not cut");
        let parent = std::os::unix::process::parent_id().to_string();
        assert_eq!(stat_fields(&stat).take(2).collect::<Vec<_>>(), ["R", &parent]);
    }
}
