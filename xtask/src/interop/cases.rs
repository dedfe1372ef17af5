//! What is run between the kernel's Soft-RoCE and ours. Each case runs twice: once with the server
//! in the guest, once with it here.

use crate::programs::matrix::Expect;

/// What happens to packets on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weather {
    /// Nothing.
    Clear,
    /// One in a hundred of ours is lost, and one in a hundred of the kernel's.
    Loss,
    /// A bit of one in a hundred of ours is flipped, which the kernel must notice.
    Corruption,
}

/// One program on both sides.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) words: Vec<String>,
    pub(super) expect: Expect,
    pub(super) weather: Weather,
}

/// Which side listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Kernel,
    Ferroce,
}

/// The program that checks every byte of every verb.
pub(super) const INTEGRITY: &str = "integrity";
const MTUS: [&str; 2] = ["1024", "4096"];
const SIZES: [&str; 4] = ["1", "4096", "65536", "1048576"];

impl Case {
    /// Its command line, without what every program of its family is told.
    pub(super) fn name(&self) -> String {
        let name = self.words.join(" ");
        match self.weather {
            Weather::Clear => name,
            Weather::Loss => format!("{name}, 1 % lost each way"),
            Weather::Corruption => format!("{name}, 1 % corrupted"),
        }
    }

    /// The full command line of one side; `server` is the address that a client connects to.
    pub(super) fn line(&self, device: &str, port: u16, server: Option<&str>) -> Vec<String> {
        let port = port.to_string();
        let mut words = self.words.clone();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
        if self.words[0] == INTEGRITY {
            add(&["-d", device, "-g", "1"]);
            match server {
                None => add(&["-l", &port]),
                Some(server) => add(&["-c", server, "-p", &port]),
            }
            return words;
        }
        // GID 1 is that of the IPv4 address, on both sides. -F: no warning about the governor.
        // Whoever polls takes the guest's only processor from its kernel. ib_write_bw has no -e.
        if self.words[0] != "ib_write_bw" {
            add(&["-e"]);
        }
        if self.words[0].starts_with("ibv_") {
            add(&["-d", device, "-g", "1", "-p", &port]);
        } else {
            add(&["-F", "-d", device, "-x", "1", "-p", &port]);
        }
        words.extend(server.map(str::to_owned));
        words
    }
}

/// All cases, in the order of running.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |weather, expect, line: &str| {
        let words = line.split(' ').map(str::to_owned).collect();
        cases.push(Case { words, expect, weather });
    };

    // -c compares what arrives with what was sent.
    for mtu in MTUS {
        for program in ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong -q 4"] {
            let line = format!("{program} -c -m {mtu} -n 100");
            add(Weather::Clear, Expect::Pingpong, &line);
        }
    }
    add(Weather::Clear, Expect::Pingpong, "ibv_ud_pingpong -c -n 100");
    for mtu in MTUS {
        for program in ["ib_send_bw", "ib_write_bw", "ib_read_bw"] {
            for size in SIZES {
                let line = format!("{program} -m {mtu} -s {size} -n 10");
                add(Weather::Clear, Expect::Results, &line);
            }
        }
        for kind in ["FETCH_AND_ADD", "CMP_AND_SWAP"] {
            let line = format!("ib_atomic_bw -m {mtu} -A {kind} -n 20");
            add(Weather::Clear, Expect::Results, &line);
        }
    }
    for line in [
        "ib_send_bw -c UC -s 65536 -n 10",
        "ib_send_bw -c UD -s 1024 -n 10",
        "ib_write_bw -c UC -s 65536 -n 10",
    ] {
        add(Weather::Clear, Expect::Results, line);
    }
    let done = Expect::Texts(&[]);
    add(Weather::Clear, done, INTEGRITY);
    for line in ["ibv_rc_pingpong -c -m 1024 -n 100", "ibv_srq_pingpong -q 4 -c -m 4096 -n 100"] {
        add(Weather::Loss, Expect::Pingpong, line);
    }
    for line in [
        "ib_send_bw -m 1024 -s 65536 -n 20",
        "ib_write_bw -m 1024 -s 65536 -n 20",
        "ib_read_bw -m 1024 -s 65536 -n 20",
        "ib_send_bw -m 4096 -s 1048576 -n 5",
        "ib_write_bw -m 4096 -s 1048576 -n 5",
        "ib_read_bw -m 4096 -s 1048576 -n 5",
        "ib_atomic_bw -m 4096 -A FETCH_AND_ADD -n 200",
    ] {
        add(Weather::Loss, Expect::Results, line);
    }
    add(Weather::Corruption, Expect::Pingpong, "ibv_rc_pingpong -c -m 1024 -n 200");
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_told_their_device_and_the_client_the_address() {
        let case = &all()[0];
        let server = case.line("rxe0", 7, None).join(" ");
        assert_eq!(server, "ibv_rc_pingpong -c -m 1024 -n 100 -e -d rxe0 -g 1 -p 7");
        let client = case.line("ferroce0", 7, Some("10.0.0.1")).join(" ");
        assert!(client.ends_with("-d ferroce0 -g 1 -p 7 10.0.0.1"));
    }

    #[test]
    fn no_case_is_listed_twice() {
        let mut names: Vec<String> = all().iter().map(Case::name).collect();
        let listed = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed);
    }
}
