//! What is run between the kernel's Soft-RoCE and ours. Nearly each case runs twice: once with the server
//! in the guest, once with it here.

use core::net::Ipv4Addr;

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

/// How a server is found by its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meeting {
    /// They agree over TCP.
    Tcp,
    /// By RDMA CM.
    Cm,
    /// In a multicast group, of which the server is a member and the client another, or none.
    Group,
}

/// One program on both sides.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) words: Vec<String>,
    pub(super) meeting: Meeting,
    pub(super) expect: Expect,
    pub(super) weather: Weather,
}

/// Which side listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Kernel,
    Ferroce,
}

/// A device, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) device: &'static str,
    pub(super) address: &'static str,
}

/// The program that checks every byte of every verb.
pub(super) const INTEGRITY: &str = "integrity";
/// The command, whose `bench` measures over any libibverbs: the kernel's in the guest, and ours here.
pub(super) const BENCH: &str = "ferroce";
/// What its client is told, and in part its server.
const BENCHED: [&str; 3] = [
    "ferroce bench write --size 4096 --window 4 --wait event --verify --length-ms 2000",
    "ferroce bench read --size 65536 --wait event --verify --length-ms 2000",
    "ferroce bench send_send --size 512 --wait event --verify --length-ms 2000",
];
const VERIFIED: Expect = Expect::Texts(&["verified  ", " payloads, 0 wrong"]);
/// Where udaddy listens.
const UDADDY_PORT: u16 = 7174;
/// Programs that connect by RDMA CM alone; those of perftest want `-R`.
const CONNECTING: [&str; 5] = ["rping", "ucmatose", "udaddy", "rstream", "riostream"];
/// mckey's group.
pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 0, 1);
/// Waits in `rpoll`, whose POLLHUP its client takes for an error, even where the last of the data is still to be read.
const POLLING: &str = "rstream -S 300000 -C 5 -T b -T a -T v";
/// What is connected by RDMA CM, and what the client prints.
const CONNECTED: [(&str, Expect); 17] = [
    ("rping -v -C 10", Expect::Texts(&["ping data: rdma-ping-9"])),
    ("rping -v -C 10 -q", Expect::Texts(&["ping data: rdma-ping-9"])),
    ("ucmatose", TRANSFERRED),
    ("ucmatose -c 16", TRANSFERRED),
    ("udaddy", TRANSFERRED),
    ("udaddy -c 16", TRANSFERRED),
    ("mckey", TRANSFERRED),
    ("mckey -c 4 -C 20 -S 1000", TRANSFERRED),
    ("rstream -S 4096 -C 200 -T b -T v", STREAMED),
    ("rstream -S 1000000 -C 5 -T b -T v", STREAMED),
    (POLLING, STREAMED),
    ("riostream -S 100000 -C 2 -I 5 -T b -T v", STREAMED),
    ("ib_write_bw -R -s 65536 -n 20", Expect::Results),
    ("ib_read_lat -R -s 4096 -n 20", Expect::Results),
    ("ib_send_bw -R -s 65536 -n 20", Expect::Results),
    ("ib_send_bw -R -c UD -s 1024 -n 20", Expect::Results),
    ("ib_atomic_lat -R -n 20", Expect::Results),
];
/// What rstream and riostream print of a size that was asked for.
const STREAMED: Expect = Expect::Texts(&["custom "]);
const TRANSFERRED: Expect = Expect::Texts(&["data transfers complete", "return status 0"]);
/// Programs of perftest without events.
const SPINNING: [&str; 2] = ["ib_write_bw", "ib_write_lat"];
const MTUS: [&str; 2] = ["1024", "4096"];
const SIZES: [&str; 4] = ["1", "4096", "65536", "1048576"];

impl Weather {
    /// What the guest's card does to the packets that it sends, in the words of `tc-netem`.
    pub(super) fn of_guest(self) -> &'static str {
        match self {
            Self::Clear | Self::Corruption => "",
            Self::Loss => "loss 1%",
        }
    }

    /// What Ferroce does to the packets that it sends.
    pub(super) fn of_ferroce(self) -> Option<&'static str> {
        match self {
            Self::Clear => None,
            Self::Loss => Some("loss=0.01,seed=1"),
            Self::Corruption => Some("corrupt=0.01,seed=1"),
        }
    }
}

impl Case {
    /// Its command line, without the arguments that every program of its family gets.
    pub(super) fn name(&self) -> String {
        let name = self.words.join(" ");
        match self.weather {
            Weather::Clear => name,
            Weather::Loss => format!("{name}, 1 % lost each way"),
            Weather::Corruption => format!("{name}, 1 % corrupted"),
        }
    }

    /// Which sides listen, one after the other.
    pub(super) fn servers(&self) -> &'static [Server] {
        // The guest is the slower side: a server here has hung up before a client there has read all.
        match self.name() == POLLING {
            true => &[Server::Kernel],
            false => &[Server::Kernel, Server::Ferroce],
        }
    }

    /// The port that the program listens at, if no argument sets it.
    pub(super) fn fixed_port(&self) -> Option<u16> {
        (self.words[0] == "udaddy").then_some(UDADDY_PORT)
    }

    /// How many queue pairs each side has.
    pub(super) fn queue_pairs(&self) -> u64 {
        // `-c` is no number where it names a transport, or asks for a comparison.
        let counts = self.words.windows(2).filter(|pair| pair[0] == "-q" || pair[0] == "-c");
        counts.filter_map(|pair| pair[1].parse().ok()).next().unwrap_or(1)
    }

    /// The full command line of a client of `server`, or of a server.
    pub(super) fn line(&self, own: Side, port: u16, server: Option<Side>) -> Vec<String> {
        let port = port.to_string();
        let server = server.map(|side| side.address);
        let mut words = self.words.clone();
        if words[0] == BENCH && server.is_none() {
            // What is to be run, its server learns from its client.
            words.truncate(2);
            words.push("serve".to_owned());
        }
        let device = ["--world", "nic", "--dev", own.device, "--gid-index", "1"];
        let mut add = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
        match (&*self.words[0], self.meeting, server) {
            (INTEGRITY, _, None) => add(&["-d", own.device, "-g", "1", "-l", &port]),
            (INTEGRITY, _, Some(server)) => {
                add(&["-d", own.device, "-g", "1", "-c", server, "-p", &port]);
            }
            (BENCH, _, None) => {
                add(&["--listen", &format!("{}:{port}", own.address), "--once"]);
                add(&device);
            }
            (BENCH, _, Some(server)) => {
                add(&["--connect", &format!("{server}:{port}")]);
                add(&device);
            }
            ("rping", ..) => {
                let (role, address) = server.map_or(("-s", own.address), |server| ("-c", server));
                add(&[role, "-a", address, "-p", &port]);
            }
            ("ucmatose" | "rstream" | "riostream", ..) => add(&["-p", &port]),
            ("udaddy", ..) => {}
            ("mckey", ..) => {
                add(&["-m", &GROUP.to_string(), "-b", own.address]);
                add(if server.is_some() { &["-s"] } else { &[] });
            }
            (program, Meeting::Tcp, _) if program.starts_with("ibv_") => {
                // GID 1 is that of the IPv4 address, on both sides.
                add(&["-e", "-d", own.device, "-g", "1", "-p", &port]);
            }
            // -F: no warning about the governor.
            (_, Meeting::Tcp, _) => add(&["-F", "-d", own.device, "-x", "1", "-p", &port]),
            (_, Meeting::Cm | Meeting::Group, _) => add(&["-F", "-p", &port]),
        }
        // A program that polls takes the guest's only processor from its kernel.
        if self.words[0].starts_with("ib_") && !SPINNING.contains(&&*self.words[0]) {
            add(&["-e"]);
        }
        match (&*self.words[0], server) {
            (INTEGRITY | BENCH | "rping" | "mckey", _) | (_, None) => {}
            ("ucmatose" | "udaddy" | "rstream" | "riostream", Some(server)) => add(&["-s", server]),
            (_, Some(server)) => add(&[server]),
        }
        words
    }
}

/// All cases, in the order of running.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |weather, expect, line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let is_connected = CONNECTING.contains(&&*words[0]) || words.iter().any(|it| it == "-R");
        let meeting = match is_connected {
            _ if words[0] == "mckey" => Meeting::Group,
            true => Meeting::Cm,
            false => Meeting::Tcp,
        };
        cases.push(Case { words, meeting, expect, weather });
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
    for line in BENCHED {
        add(Weather::Clear, VERIFIED, line);
    }
    for (line, expect) in CONNECTED {
        add(Weather::Clear, expect, line);
    }
    // One queue pair. With several the program may end while one of them waits for its timeout: the
    // others have then had their hundred messages.
    for line in ["ibv_rc_pingpong -c -m 1024 -n 100", "ibv_srq_pingpong -q 1 -c -m 4096 -n 100"] {
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
    add(Weather::Loss, TRANSFERRED, "ucmatose -c 16");
    add(Weather::Corruption, Expect::Pingpong, "ibv_rc_pingpong -c -m 1024 -n 200");
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_told_their_device_and_the_client_the_address() {
        let kernel = Side { device: "rxe0", address: "10.0.0.1" };
        let ferroce = Side { device: "ferroce0", address: "10.0.0.2" };
        let lines = |name: &str| {
            let case = all().into_iter().find(|case| case.name() == name).unwrap();
            [(kernel, None), (ferroce, Some(kernel))]
                .map(|(own, server)| case.line(own, 7, server).join(" "))
        };
        assert_eq!(
            lines("ibv_rc_pingpong -c -m 1024 -n 100"),
            [
                "ibv_rc_pingpong -c -m 1024 -n 100 -e -d rxe0 -g 1 -p 7",
                "ibv_rc_pingpong -c -m 1024 -n 100 -e -d ferroce0 -g 1 -p 7 10.0.0.1"
            ]
        );
        let bench = lines(BENCHED[1]);
        assert_eq!(
            bench[0],
            "ferroce bench serve --listen 10.0.0.1:7 --once --world nic --dev rxe0 --gid-index 1"
        );
        let client = "--connect 10.0.0.1:7 --world nic --dev ferroce0 --gid-index 1";
        assert_eq!(bench[1], format!("{} {client}", BENCHED[1]));
        assert_eq!(
            lines("rping -v -C 10"),
            ["rping -v -C 10 -s -a 10.0.0.1 -p 7", "rping -v -C 10 -c -a 10.0.0.1 -p 7"]
        );
        assert_eq!(
            lines("ib_atomic_lat -R -n 20"),
            ["ib_atomic_lat -R -n 20 -F -p 7 -e", "ib_atomic_lat -R -n 20 -F -p 7 -e 10.0.0.1"]
        );
    }

    #[test]
    fn one_case_is_served_by_the_kernel_alone() {
        let alone: Vec<String> =
            all().iter().filter(|case| case.servers().len() == 1).map(Case::name).collect();
        assert_eq!(alone, [POLLING]);
    }

    #[test]
    fn queue_pairs_are_counted() {
        let count = |line: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            Case { words, ..all().remove(0) }.queue_pairs()
        };
        assert_eq!(count("ibv_srq_pingpong -q 4 -c -m 4096"), 4);
        assert_eq!((count("ucmatose -c 16"), count("ib_send_bw -R -c UD -s 1024")), (16, 1));
        assert_eq!((count("rping -v -C 10 -q"), count("ibv_rc_pingpong -c -n 100")), (1, 1));
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
