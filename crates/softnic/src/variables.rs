//! The variables of the environment that Ferroce reads, and what is wrong with others that are called as those are.

use std::env;

use rdma::nearest;

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
    fn every_variable_of_the_readme_is_read() {
        let readme = include_str!("../../../README.md");
        let letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        let words = readme.split(|c| !letter(c));
        let named: Vec<&str> = words.filter(|word| word.starts_with("FERROCE_")).collect();
        assert!(named.len() > 5);
        assert!(named.iter().all(|name| ALL.contains(name)), "{named:?}");
    }
}
