//! Which programs are run, with which arguments, and what their output must show.
//!
//! The names of the rows are their command lines, without the device, the port and the address.
//! `--full` runs every row; otherwise those in [`QUICK`] run.

/// The address of the rows' servers, as arguments have it.
pub(super) const ADDRESS: &str = "127.0.0.1";
/// Placeholder for the multicast group of a run.
pub(super) const GROUP: &str = "239.0.0.1";
/// The port of RoCE v2, where members of a group listen.
const ROCE_PORT: u16 = 4791;

/// One line of the matrix.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Program and arguments.
    pub(super) words: Vec<&'static str>,
    pub(super) kind: Kind,
    pub(super) expect: Expect,
    /// Whether it ends under injected loss: its transport repeats lost packets, or it waits for nothing
    /// that can be lost.
    pub(super) survives_loss: bool,
}

/// How a row is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One process that ends by itself.
    Alone,
    /// One process that goes on until it is killed.
    Watcher,
    /// A server, then a client with the server's address as its last argument.
    Pair,
    /// qperf: its server, then a client that runs the tests of the row and ends the server.
    Qperf,
    /// fio: a server that reads, and checks if told to, then a client that writes. Options of its engine come behind it.
    Fio,
    /// One process, or a server and a client, that ignore devices on loopback.
    Elsewhere {
        /// Whether there is a server.
        pair: bool,
    },
    /// A receiver, then a sender, which meet in a multicast group; the words of each alone.
    Group { receiver: &'static [&'static str], sender: &'static [&'static str] },
    /// A server and a client of RDMA CM, whose ports the kernel does not know.
    Cm {
        /// Whether `-p` names the port; else the program has one of its own.
        port: Option<u16>,
        server: &'static [&'static str],
        /// The client's program and words, before what it has in common with the server; none if it
        /// is the server's program with the address behind.
        client: &'static [&'static str],
    },
    /// rcopy: a server that goes on until it is killed, and a client that copies a file to it.
    Copies,
    /// A server and a client that know only TCP, with rdma-core's library that makes rsockets of their sockets.
    Preloaded,
}

/// What the output must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Every one of these.
    Texts(&'static [&'static str]),
    /// The two closing lines of the pingpong programs, from both sides.
    Pingpong,
    /// At least one row of results from perftest's client, with rates or times above zero.
    Results,
    /// perftest's rows for 2 bytes, 4 bytes and so on to this many.
    ResultsUpTo(u64),
}

/// A C program of this repository.
#[derive(Debug)]
pub(super) struct Example {
    name: &'static str,
    pub(super) sources: &'static [&'static str],
    /// The port that it listens at, if no argument sets it.
    port: Option<u16>,
}

const EXAMPLES: [Example; 4] = [
    Example {
        name: "integrity",
        sources: &["examples/c/integrity.c", "examples/c/peer.c"],
        port: None,
    },
    Example {
        name: "dead_peer",
        sources: &["examples/c/dead_peer.c", "examples/c/peer.c"],
        port: None,
    },
    Example {
        name: "unmapped",
        sources: &["examples/c/unmapped.c", "examples/c/peer.c"],
        port: None,
    },
    Example {
        name: "rc_write",
        sources: &["examples/c/rc_write.c", "examples/c/peer.c"],
        port: Some(18516),
    },
];

impl Row {
    /// The row's command line.
    pub(super) fn name(&self) -> String {
        self.words.join(" ")
    }

    /// The program's source, if it is ours.
    pub(super) fn example(&self) -> Option<&'static Example> {
        EXAMPLES.iter().find(|example| example.name == self.words[0])
    }

    /// The port that a pair must use, if no argument sets it.
    pub(super) fn fixed_port(&self) -> Option<u16> {
        match self.kind {
            Kind::Cm { port, .. } => port,
            Kind::Group { .. } => Some(ROCE_PORT),
            _ => self.example().and_then(|example| example.port),
        }
    }

    /// The arguments of every program of its family, unless it is middleware: the device, the port, and the
    /// flags that keep it quiet.
    pub(super) fn family_words(&self, port: &str) -> Vec<String> {
        let words: &[&str] = if self.example().is_some() || matches!(self.kind, Kind::Group { .. })
        {
            &[]
        } else if self.kind == Kind::Fio {
            &[
                "--name=verbs",
                "--ioengine=rdma",
                "--bs=64k",
                "--size=20m",
                "--iodepth=8",
                "--port",
                port,
            ]
        } else if let Kind::Cm { port: fixed, .. } = self.kind {
            if fixed.is_none() { &["-p", port] } else { &[] }
        } else if self.kind == Kind::Qperf {
            &["-lp", port]
        } else if self.words[0].starts_with("ibv_") {
            // The GID of the IPv4 address; without one these programs address by LID.
            &["-d", "ferroce0", "-g", "1", "-p", port]
        } else {
            // -F: no warning about the governor of the processor.
            &["-d", "ferroce0", "-F", "-p", port]
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }
}

const PINGPONG: &[(&str, &[&str])] = &[
    (
        "ibv_rc_pingpong",
        &[
            "",
            "-e",
            "-c",
            "-e -c",
            "-c -s 1",
            "-c -s 65536 -n 200",
            "-c -s 1048576 -n 20",
            "-c -m 256",
            "-c -m 4096",
            "-c -r 2",
        ],
    ),
    ("ibv_uc_pingpong", &["", "-e", "-c", "-s 65536 -n 200"]),
    ("ibv_ud_pingpong", &["", "-e", "-c", "-s 64"]),
    ("ibv_srq_pingpong", &["", "-e", "-c", "-q 4"]),
];

/// Programs that connect by RDMA CM: the words that server and client have in common, how they are
/// started, and what the client must show.
const CONNECTED: &[(&str, Kind, Expect)] = &[
    ("rping -v -C 10", RPING, Expect::Texts(&["ping data: rdma-ping-9"])),
    ("rping -v -C 10 -q", RPING, Expect::Texts(&["ping data: rdma-ping-9"])),
    ("ucmatose", UCMATOSE, Expect::Texts(TRANSFERRED)),
    ("ucmatose -c 16", UCMATOSE, Expect::Texts(TRANSFERRED)),
    ("ucmatose -m", UCMATOSE, Expect::Texts(TRANSFERRED)),
    ("udaddy", UDADDY, Expect::Texts(TRANSFERRED)),
    ("udaddy -c 16", UDADDY, Expect::Texts(TRANSFERRED)),
    ("mckey", MCKEY, Expect::Texts(TRANSFERRED)),
    ("mckey -c 8 -C 20 -S 1000", MCKEY, Expect::Texts(TRANSFERRED)),
    ("mckey -p 0x2", MCKEY, Expect::Texts(TRANSFERRED)),
    ("mckey -S 4096", MCKEY_SENDS_ONLY, Expect::Texts(TRANSFERRED)),
    (
        "rdma_server",
        Kind::Cm { port: None, server: &[], client: &["rdma_client", "-s", "127.0.0.1"] },
        Expect::Texts(&["rdma_client: end 0"]),
    ),
    ("rdma_xserver -c r", XSERVER, Expect::Texts(&["rdma_xclient: end 0"])),
    ("rdma_xserver -c x", XSERVER, Expect::Texts(&["rdma_xclient: end 0"])),
    (QPERF_TESTS, Kind::Qperf, Expect::Texts(&["latency  =", "bw  =", "msg_rate  =", "quit:"])),
    ("fio --verb=write", Kind::Fio, Expect::Texts(FIO_ENDS)),
    ("fio --verb=read", Kind::Fio, Expect::Texts(FIO_ENDS)),
    ("fio --verb=send", Kind::Fio, Expect::Texts(FIO_ENDS)),
    ("fio --verb=send --verify=crc32c", Kind::Fio, Expect::Texts(FIO_ENDS)),
    ("rstream -S 64 -I 1000 -C 1", RSTREAM, Expect::Texts(STREAMED)),
    ("rstream -S 65536 -C 500", RSTREAM, Expect::Texts(STREAMED)),
    ("rstream -S 1000000 -C 20 -T b -T v", RSTREAM, Expect::Texts(STREAMED)),
    ("rstream -S 300000 -C 20 -T a -T v", RSTREAM, Expect::Texts(STREAMED)),
    ("rstream -S 4096 -C 100 -T r -T n", RSTREAM, Expect::Texts(STREAMED)),
    ("riostream -S 64 -I 100 -C 1", RIOSTREAM, Expect::Texts(STREAMED)),
    ("riostream -S 1000000 -C 20 -T b -T v", RIOSTREAM, Expect::Texts(STREAMED)),
    ("ib_send_bw -R -F", PERFTEST_CM, Expect::Results),
    ("ib_send_lat -R -F -c UD", PERFTEST_CM, Expect::Results),
    ("ib_write_bw -R -F -q 4", PERFTEST_CM, Expect::Results),
    ("ib_write_lat -R -F", PERFTEST_CM, Expect::Results),
    ("ib_read_bw -R -F", PERFTEST_CM, Expect::Results),
    ("ib_atomic_lat -R -F", PERFTEST_CM, Expect::Results),
];

/// What rstream and riostream print of a size that was asked for.
const STREAMED: &[&str] = &["\ncustom "];
const RSTREAM: Kind =
    Kind::Cm { port: None, server: &["-b", ADDRESS], client: &["rstream", "-s", ADDRESS] };
const RIOSTREAM: Kind =
    Kind::Cm { port: None, server: &["-b", ADDRESS], client: &["riostream", "-s", ADDRESS] };
const TRANSFERRED: &[&str] = &["data transfers complete", "return status 0"];
const RPING: Kind = Kind::Cm {
    port: None,
    server: &["-s", "-a", "127.0.0.1"],
    client: &["rping", "-c", "-a", "127.0.0.1"],
};
const UCMATOSE: Kind =
    Kind::Cm { port: None, server: &[], client: &["ucmatose", "-s", "127.0.0.1"] };
const UDADDY: Kind =
    Kind::Cm { port: Some(7174), server: &[], client: &["udaddy", "-s", "127.0.0.1"] };

const XSERVER: Kind =
    Kind::Cm { port: None, server: &[], client: &["rdma_xclient", "-s", "127.0.0.1"] };
/// All tests of qperf that connect by RDMA CM. Those of UD and UC do not, whatever `-cm1` says, and
/// address by LID without a GID, which no RoCE device takes.
const QPERF_TESTS: &str = "qperf rc_lat rc_bw rc_bi_bw rc_rdma_read_lat rc_rdma_read_bw \
     rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat ver_rc_compare_swap ver_rc_fetch_add";
/// fio gives both sides an RNR retry count of 0.
const FIO_ENDS: &[&str] = &["err= 0", "io=20.0MiB"];
const MCKEY: Kind = Kind::Group {
    receiver: &["-m", GROUP, "-b", "127.0.0.1"],
    sender: &["-s", "-m", GROUP, "-b", "127.0.0.1"],
};
const MCKEY_SENDS_ONLY: Kind = Kind::Group {
    receiver: &["-m", GROUP, "-b", "127.0.0.1"],
    sender: &["-s", "-o", "-m", GROUP, "-b", "127.0.0.1"],
};

/// perftest's client is its server with an address behind.
const PERFTEST_CM: Kind = Kind::Cm { port: None, server: &[], client: &[] };

struct Perftest {
    program: &'static str,
    connections: &'static [&'static str],
    options: &'static [&'static str],
}

/// Options that perftest offers for the program at all; each runs with each kind of connection.
/// With `-l`, perftest wants a number of iterations that the length of the list divides.
const PERFTEST: &[Perftest] = &[
    Perftest {
        program: "ib_send_bw",
        connections: &["RC", "UC", "UD", "XRC"],
        options: &[
            "",
            "-a",
            "-e",
            "-b",
            "-q 16",
            "-I 64 -s 64",
            "-l 16 -n 1600",
            "-D 3",
            "-m 1024",
            "--use-srq",
        ],
    },
    Perftest {
        program: "ib_send_lat",
        connections: &["RC", "UC", "UD", "XRC"],
        options: &["", "-a", "-e", "-I 64 -s 64", "-D 3", "-m 1024", "--use-srq"],
    },
    Perftest {
        program: "ib_write_bw",
        connections: &["RC", "UC", "XRC"],
        options: &["", "-a", "-b", "-q 16", "-I 64 -s 64", "-l 16 -n 1600", "-D 3", "-m 1024"],
    },
    Perftest {
        program: "ib_write_lat",
        connections: &["RC", "UC", "XRC"],
        options: &["", "-a", "-I 64 -s 64", "-D 3", "-m 1024"],
    },
    Perftest {
        program: "ib_read_bw",
        connections: &["RC", "XRC"],
        options: &["", "-a", "-e", "-b", "-q 16", "-l 16 -n 1600", "-D 3", "-m 1024"],
    },
    Perftest {
        program: "ib_read_lat",
        connections: &["RC", "XRC"],
        options: &["", "-a", "-e", "-D 3", "-m 1024"],
    },
    Perftest {
        program: "ib_atomic_bw",
        connections: &["RC", "XRC"],
        options: &["", "-e", "-b", "-q 16", "-l 16 -n 1600", "-D 3", "-m 1024", "-A CMP_AND_SWAP"],
    },
    Perftest {
        program: "ib_atomic_lat",
        connections: &["RC", "XRC"],
        options: &["", "-e", "-D 3", "-m 1024", "-A CMP_AND_SWAP"],
    },
];

/// Rows that run in `make test`: each program, transport and option at least once.
pub(super) const QUICK: &[&str] = &[
    "integrity",
    "dead_peer",
    "unmapped",
    "rc_write",
    "ibv_devices",
    "ibv_devinfo -v",
    "ibv_asyncwatch",
    "ibv_rc_pingpong",
    "ibv_rc_pingpong -e -c",
    "ibv_rc_pingpong -c -s 1048576 -n 20",
    "ibv_uc_pingpong -c",
    "ibv_uc_pingpong -e",
    "ibv_ud_pingpong -c",
    "ibv_ud_pingpong -e",
    "ibv_srq_pingpong -c",
    "ibv_srq_pingpong -e",
    "ibv_xsrq_pingpong",
    "rping -v -C 10",
    "rping -v -C 10 -q",
    "ucmatose",
    "ucmatose -c 16",
    "ucmatose -m",
    "udaddy",
    "udaddy -c 16",
    "mckey",
    "mckey -c 8 -C 20 -S 1000",
    "mckey -p 0x2",
    "mckey -S 4096",
    "rdma_server",
    "rdma_xserver -c r",
    "rdma_xserver -c x",
    "qperf rc_lat rc_bw rc_bi_bw rc_rdma_read_lat rc_rdma_read_bw rc_rdma_write_lat \
     rc_rdma_write_bw rc_rdma_write_poll_lat ver_rc_compare_swap ver_rc_fetch_add",
    "fio --verb=write",
    "fio --verb=read",
    "fio --verb=send",
    "fio --verb=send --verify=crc32c",
    "rstream -S 64 -I 1000 -C 1",
    "rstream -S 65536 -C 500",
    "rstream -S 1000000 -C 20 -T b -T v",
    "rstream -S 300000 -C 20 -T a -T v",
    "rstream -S 4096 -C 100 -T r -T n",
    "riostream -S 64 -I 100 -C 1",
    "riostream -S 1000000 -C 20 -T b -T v",
    "ib_send_bw -R -F",
    "ib_send_lat -R -F -c UD",
    "ib_write_bw -R -F -q 4",
    "ib_write_lat -R -F",
    "ib_read_bw -R -F",
    "ib_atomic_lat -R -F",
    "ib_send_bw -c RC -a",
    "ib_send_bw -c RC -e",
    "ib_send_bw -c RC --use-srq",
    "ib_send_bw -c RC -l 16 -n 1600",
    "ib_send_bw -c UC",
    "ib_send_bw -c UD",
    "ib_send_bw -c XRC -q 16",
    "ib_send_lat -c RC -e",
    "ib_send_lat -c UC -I 64 -s 64",
    "ib_send_lat -c UD -a",
    "ib_write_bw -c RC -b",
    "ib_write_bw -c RC -q 16",
    "ib_write_bw -c RC -m 1024",
    "ib_write_bw -c UC -D 3",
    "ib_write_lat -c RC -a",
    "ib_read_bw -c RC -a",
    "ib_read_bw -c RC -q 16",
    "ib_read_bw -c XRC",
    "ib_read_lat -c RC -e",
    "ib_atomic_bw -c RC -q 16",
    "ib_atomic_lat -c RC -A CMP_AND_SWAP",
];

/// What every distribution's own programs must do: one or two rows of each.
pub(super) const OF_DISTRIBUTIONS: &[&str] = &[
    "integrity",
    "ibv_devices",
    "ibv_devinfo -v",
    "ibv_asyncwatch",
    "ibv_rc_pingpong",
    "ibv_rc_pingpong -e -c",
    "ibv_uc_pingpong -c",
    "ibv_ud_pingpong -c",
    "ibv_srq_pingpong -c",
    "ibv_xsrq_pingpong",
    "rping -v -C 10",
    "ucmatose",
    "udaddy",
    "mckey",
    "rdma_server",
    "rdma_xserver -c x",
    "rstream -S 1000000 -C 20 -T b -T v",
    "ib_send_bw -R -F",
    "ib_write_lat -R -F",
    "ib_send_bw -c RC -e",
    "ib_send_lat -c RC -e",
    "ib_write_bw -c RC -m 1024",
    "ib_read_bw -c XRC",
    "ib_atomic_bw -c RC -q 16",
];

/// Every row but those of the middleware.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        alone("integrity", &[" cases, 0 failures here"]),
        alone("dead_peer", &["status 12 after", "then status 5", "as promised"]),
        alone("unmapped", &["as promised here, and all at both sides"]),
        Row { kind: Kind::Pair, ..alone("rc_write", &["written: success"]) },
        alone("ibv_devices", &["ferroce0"]),
        alone("ibv_devinfo -v", &["hca_id:\tferroce0", "PORT_ACTIVE", "Ethernet", "RoCE v2"]),
        Row { kind: Kind::Pair, ..alone("ibv_xsrq_pingpong", &["success"]) },
        Row { kind: Kind::Watcher, ..alone("ibv_asyncwatch", &["ferroce0: async event FD"]) },
    ];
    for (program, options) in PINGPONG {
        let survives_loss = !program.contains("_uc_") && !program.contains("_ud_");
        rows.extend(options.iter().map(|options| Row {
            words: words(&[program, options]),
            kind: Kind::Pair,
            expect: Expect::Pingpong,
            survives_loss,
        }));
    }
    rows.extend(CONNECTED.iter().map(|(command, kind, expect)| Row {
        words: words(&[command]),
        kind: *kind,
        expect: *expect,
        survives_loss: !["udaddy", "UD", "mckey"].iter().any(|it| command.contains(it)),
    }));
    for Perftest { program, connections, options } in PERFTEST {
        for connection in *connections {
            let options = options.iter().filter(|options| takes(connection, options));
            rows.extend(options.map(|options| perftest(program, connection, options)));
        }
    }
    rows
}

/// Shared receive queues are for RC and UD; the specification has none for UC, and XRC no other.
fn takes(connection: &str, options: &str) -> bool {
    !(matches!(connection, "UC" | "XRC") && options == "--use-srq")
}

fn perftest(program: &'static str, connection: &'static str, options: &'static str) -> Row {
    let expect = match (options, connection) {
        // A UD message is one packet, and the path MTU of loopback is 4096.
        ("-a", "UD") => Expect::ResultsUpTo(4096),
        ("-a", _) => Expect::ResultsUpTo(8 << 20),
        _ => Expect::Results,
    };
    Row {
        words: words(&[program, "-c", connection, options]),
        kind: Kind::Pair,
        expect,
        // The client of an unreliable WRITE waits for its own completions alone. In all other
        // unreliable runs one side waits for every message.
        survives_loss: matches!(connection, "RC" | "XRC") || program == "ib_write_bw",
    }
}

fn alone(command: &'static str, texts: &'static [&'static str]) -> Row {
    Row {
        words: words(&[command]),
        kind: Kind::Alone,
        expect: Expect::Texts(texts),
        survives_loss: true,
    }
}

pub(super) fn words(parts: &[&'static str]) -> Vec<&'static str> {
    parts.iter().flat_map(|part| part.split_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quick_row_is_a_row() {
        let names: Vec<String> = rows().iter().map(Row::name).collect();
        for quick in QUICK {
            assert!(names.iter().any(|name| name == quick), "{quick}");
        }
    }

    #[test]
    fn the_quick_rows_show_each_program_transport_and_option() {
        let quick: Vec<&str> = QUICK.iter().flat_map(|name| name.split_whitespace()).collect();
        for word in rows().into_iter().flat_map(|row| row.words) {
            // Numbers are values of options, which the quick rows may choose otherwise.
            assert!(quick.contains(&word) || word.parse::<u32>().is_ok() || word == "-r", "{word}");
        }
    }
}
