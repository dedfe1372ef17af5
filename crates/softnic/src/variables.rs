//! The variables of the environment that Ferroce reads, and what is wrong with others that are called as those are.

use std::env;

use rdma::nearest;

use crate::SettingError;

/// Every variable that Ferroce reads: the engine, the C library or the command.
const ALL: [&str; 16] = [
    "FERROCE_CC",
    "FERROCE_DEV",
    "FERROCE_FAULTS",
    "FERROCE_LAB",
    "FERROCE_LAB_HOST",
    "FERROCE_LIBDIR",
    "FERROCE_LINK",
    "FERROCE_LOG",
    "FERROCE_MTU",
    "FERROCE_PCAP",
    "FERROCE_RCVBUF_BYTES",
    "FERROCE_RECOVERY",
    "FERROCE_SOURCE_PORTS",
    "FERROCE_STATS",
    "FERROCE_SYSFS",
    "FERROCE_WIRE",
];

/// What is wrong with the variables of the environment that are called as ours are, and that nobody reads.
pub fn doubts() -> impl Iterator<Item = String> {
    env::vars_os().filter_map(|(name, _)| doubt(&name.to_string_lossy()))
}

fn doubt(name: &str) -> Option<String> {
    if !name.starts_with("FERROCE_") || ALL.contains(&name) {
        return None;
    }
    let meant = match nearest(name, &ALL) {
        Some(meant) => format!("you may have meant {meant}"),
        None => format!("there are {}", ALL.join(", ")),
    };
    Some(format!("nothing reads {name}: {meant}"))
}

/// How much is told, for `FERROCE_LOG`.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The parts of the library that have a level of their own.
const PARTS: [&str; 5] = ["ibverbs", "rdma", "softnic", "transport", "wire"];

/// Refuses a value of `FERROCE_LOG` with a word that is not ours: whoever reads it takes that for a part, of which
/// nothing is ever heard.
///
/// # Errors
/// With the word, and the one that was meant.
pub fn check_log(value: &str) -> Result<(), SettingError> {
    // Those with brackets, of spans, are for the reader to judge.
    let directives = value.split(',').map(str::trim);
    for directive in directives.filter(|it| !it.is_empty() && !it.contains('[')) {
        let (part, level) = match directive.split_once('=') {
            None if is_level(directive) => continue,
            None => (directive, ""),
            Some(both) => both,
        };
        let part = part.split("::").next().unwrap_or(part);
        let wrong = match (PARTS.contains(&part), level.is_empty() || is_level(level)) {
            (true, true) => continue,
            (true, false) => level,
            (false, _) => part,
        };
        let hint = match nearest(&wrong.to_lowercase(), &[&LEVELS[..], &PARTS].concat()) {
            Some(meant) => format!("you may have meant `{meant}`"),
            None => "use a level, error, warn, info, debug or trace, or that of a part, as in softnic=debug".to_owned(),
        };
        let problem = format!("`{wrong}` is neither a level nor a part of the library");
        return Err(SettingError::new("FERROCE_LOG", problem, hint));
    }
    Ok(())
}

fn is_level(word: &str) -> bool {
    let number = word.parse::<usize>().ok();
    number.is_some_and(|number| number < LEVELS.len())
        || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_nobody_reads_is_told_with_the_one_that_was_meant() {
        assert_eq!(doubt("FERROCE_LINK"), None);
        assert_eq!(doubt("XDG_RUNTIME_DIR"), None);
        let meant = doubt("FERROCE_LNK").unwrap();
        assert_eq!(meant, "nothing reads FERROCE_LNK: you may have meant FERROCE_LINK");
        assert!(doubt("FERROCE_COLOUR_OF_TABLES").unwrap().contains("FERROCE_CC, FERROCE_DEV"));
    }

    #[test]
    fn a_word_of_a_filter_that_is_not_ours_is_told_with_the_one_that_was_meant() {
        for fine in [
            "",
            "warn",
            "INFO",
            "0",
            "softnic",
            "softnic=debug,warn",
            "softnic::udp=5",
            "[span{x=1}]=wran",
        ] {
            assert_eq!(check_log(fine), Ok(()), "{fine}");
        }
        let hint = |value: &str| check_log(value).unwrap_err().to_string();
        let meant = hint("wran");
        assert_eq!(
            meant,
            "FERROCE_LOG: `wran` is neither a level nor a part of the library\nhint: you may have meant `warn`"
        );
        assert!(hint("info,softnci=debug").ends_with("you may have meant `softnic`"));
        assert!(hint("softnic=Debgu").ends_with("you may have meant `debug`"));
        assert!(hint("loud").ends_with("as in softnic=debug"));
    }

    #[test]
    fn every_variable_of_the_readme_is_read() {
        let readme = include_str!("../../../README.md");
        let letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        let words = readme.split(|c| !letter(c));
        let named: Vec<&str> = words.filter(|word| word.starts_with("FERROCE_")).collect();
        assert!(named.len() > 5);
        assert!(named.iter().all(|name| ALL.contains(name)), "{named:?}");
    }
}
