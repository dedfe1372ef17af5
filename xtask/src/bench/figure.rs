//! What can be measured, one value a figure: which program measures it, and its name. Names call a GSO
//! batch a train.

const TINY: u32 = 8;
const SMALL: u32 = 64;
const PAGE: u32 = 4 << 10;
const TRAIN: u32 = 64 << 10;
const LARGE: u32 = 1 << 20;

/// The path between our two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// UDP, as from host to host.
    Udp,
    /// UDP without GSO batches: each packet a datagram of its own.
    Exact,
    /// Shared memory, as between processes of one host.
    SameHost,
    /// The same, with ICRCs.
    SameHostWithIcrc,
}

/// What makes a figure.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tool {
    /// Two threads and a cache line, to and fro, in ns.
    CacheLine,
    /// Two threads and a datagram, to and fro, in us. Both poll, or both sleep.
    Datagram {
        /// Whether they sleep until it is there.
        asleep: bool,
    },
    /// Two processes of perftest over Ferroce, and the column of what the client prints last, times
    /// a factor.
    Perftest { link: Link, words: &'static [&'static str], column: usize, factor: f64 },
    /// `ferroce bench` on soft NICs, a server and a client, and a number of the flow's, times a factor.
    Ferroce { link: Link, words: &'static [&'static str], number: &'static str, factor: f64 },
    /// Two processes of `ucx_perftest` over transports of UCX's own, and a column as for perftest.
    Ucx {
        transports: &'static str,
        test: &'static str,
        bytes: u32,
        iterations: u32,
        column: usize,
        factor: f64,
    },
    /// As [`Tool::Ucx`], over verbs and Ferroce.
    UcxOverFerroce {
        link: Link,
        test: &'static str,
        bytes: u32,
        iterations: u32,
        column: usize,
        factor: f64,
    },
    /// Two processes of `fi_pingpong` over a provider of libfabric's own: one way, in us.
    FiPingpong { provider: &'static str, bytes: u32, iterations: u32 },
    /// Two processes of iperf3 over TCP: Gb/s.
    Iperf { length: &'static str },
    /// Resident memory of each of so many open, connected RC queue pairs: KiB.
    QpMemory { count: u32 },
    /// To open and to close each of so many RC queue pairs: us.
    QpTime { count: u32 },
    /// The time of each of so many connections in cmtime, until it is established: us.
    Cmtime { count: u32 },
    /// A program of ours, and the number that it prints.
    Program { program: &'static Program, words: &'static [&'static str] },
    /// A core that computes nothing but the ICRCs of packets with this payload: Gb/s.
    Icrc { payload: u32 },
}

/// A program in C that is compiled for the purpose, and run with Ferroce. Its first lines say what it
/// measures.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) link: Link,
    /// Its sources, and what else it is linked with.
    pub(super) sources: &'static [&'static str],
    /// The package, and what of it is asked for.
    pub(super) needs: (&'static str, &'static str),
}

const fn program(name: &'static str, sources: &'static [&'static str]) -> Program {
    Program { name, link: Link::Udp, sources, needs: ("gcc", "cc") }
}

static THREADS: Program = program("threads", &["xtask/src/bench/threads.c", "examples/c/peer.c"]);
static SPINS: Program = program("spins", &["xtask/src/bench/spins.c", "examples/c/peer.c"]);
static COPIES: Program = Program {
    link: Link::SameHost,
    ..program("copies", &["xtask/src/bench/copies.c", "examples/c/peer.c"])
};
static TRAINS_OF_UDP: Program = program("trains", &["xtask/src/bench/trains.c"]);
static TURNS_OF_UDP: Program = program("turns", &["xtask/src/bench/turns.c"]);
static FABRIC_WRITES: Program = Program {
    needs: ("libfabric-dev", "/usr/include/rdma/fabric.h"),
    ..program("fabric_writes", &["xtask/src/bench/fabric_writes.c", "-lfabric"])
};

/// Something that is measured once a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    /// Its name, with its unit.
    pub(super) name: &'static str,
    pub(super) tool: Tool,
}

const fn figure(name: &'static str, tool: Tool) -> Figure {
    Figure { name, tool }
}

/// What one of our programs prints.
const fn printed(
    name: &'static str,
    program: &'static Program,
    words: &'static [&'static str],
) -> Figure {
    figure(name, Tool::Program { program, words })
}

/// The bandwidth of perftest, in Gb/s. Columns: bytes, iterations, peak, average.
const fn bandwidth(name: &'static str, link: Link, words: &'static [&'static str]) -> Figure {
    figure(name, Tool::Perftest { link, words, column: 3, factor: 1.0 })
}

/// The bandwidth of `ferroce bench` with messages of 64 KiB, in Gb/s.
const fn benched(name: &'static str, link: Link, words: &'static [&'static str]) -> Figure {
    figure(name, Tool::Ferroce { link, words, number: "bandwidth_gbps", factor: 1.0 })
}

/// Its rate of operations, in millions a second.
const fn benched_rate(name: &'static str, link: Link, words: &'static [&'static str]) -> Figure {
    figure(name, Tool::Ferroce { link, words, number: "rate_per_s", factor: 1e-6 })
}

/// Its rate of messages, in millions a second.
const fn messages(name: &'static str, link: Link, words: &'static [&'static str]) -> Figure {
    figure(name, Tool::Perftest { link, words, column: 4, factor: 1.0 })
}

/// Its median latency, in us, times `factor`. Columns: bytes, iterations, least, most, typical.
const fn latency(
    name: &'static str,
    link: Link,
    words: &'static [&'static str],
    factor: f64,
) -> Figure {
    figure(name, Tool::Perftest { link, words, column: 4, factor })
}

/// The bandwidth of UCX, in Gb/s: from the overall rate of messages, the last of eight columns.
const fn ucx(
    name: &'static str,
    transports: &'static str,
    test: &'static str,
    bytes: u32,
    iterations: u32,
) -> Figure {
    let factor = bytes as f64 * 8.0 / 1e9;
    figure(name, Tool::Ucx { transports, test, bytes, iterations, column: 7, factor })
}

/// The same over Ferroce.
const fn ucx_over_ferroce(
    name: &'static str,
    link: Link,
    test: &'static str,
    bytes: u32,
    iterations: u32,
) -> Figure {
    let factor = bytes as f64 * 8.0 / 1e9;
    figure(name, Tool::UcxOverFerroce { link, test, bytes, iterations, column: 7, factor })
}

/// The median latency of `tag_lat` over Ferroce, in us. Columns: iterations, median.
const fn ucx_latency(name: &'static str, link: Link) -> Figure {
    let (bytes, iterations) = (TINY, 20_000);
    figure(
        name,
        Tool::UcxOverFerroce { link, test: "tag_lat", bytes, iterations, column: 1, factor: 1.0 },
    )
}

const TCP: &str = "tcp,self";
const MEMORY: &str = "posix,cma,self";

pub(super) const CACHE_LINE: Figure = figure("cache line, to and fro, ns", Tool::CacheLine);
pub(super) const SPIN: Figure =
    figure("UDP spin ping-pong, to and fro, us", Tool::Datagram { asleep: false });
pub(super) const SLEEP: Figure =
    figure("UDP blocking ping-pong, to and fro, us", Tool::Datagram { asleep: true });

pub(super) const TURNS: Figure =
    printed("bare UDP trains of a WRITE and its ACK, to and fro, us", &TURNS_OF_UDP, &[]);
pub(super) const TRAINS: Figure = printed("bare UDP trains of 64 KiB, Gb/s", &TRAINS_OF_UDP, &[]);
pub(super) const ICRC: Figure =
    figure("ICRCs of 4 KiB packets alone, Gb/s", Tool::Icrc { payload: PAGE });
pub(super) const WRITE_LAT_8: Figure = latency(
    "ib_write_lat 8 B, to and fro, us",
    Link::Udp,
    &["ib_write_lat", "-s", "8", "-n", "20000"],
    2.0,
);
pub(super) const WRITE_LAT_64K: Figure = latency(
    "ib_write_lat 64 KiB, one way, us",
    Link::Udp,
    &["ib_write_lat", "-s", "65536", "-n", "5000"],
    1.0,
);
pub(super) const FI_TCP_LAT_64K: Figure = figure(
    "libfabric tcp fi_pingpong 64 KiB, one way, us",
    Tool::FiPingpong { provider: "tcp", bytes: TRAIN, iterations: 5_000 },
);
pub(super) const FI_TCP_WRITE_64K: Figure =
    printed("libfabric tcp 64 KiB writes, Gb/s", &FABRIC_WRITES, &["tcp"]);
/// The target of a READ sleeps.
pub(super) const READ_LAT_8: Figure = latency(
    "ib_read_lat 8 B, target asleep, us",
    Link::Udp,
    &["ib_read_lat", "-s", "8", "-n", "10000"],
    1.0,
);
/// The target computes, and does not poll.
pub(super) const SPINS_MEDIAN: Figure =
    printed("8 B WRITE, target spins on memory, us", &SPINS, &["median"]);
pub(super) const SPINS_MEAN: Figure =
    printed("8 B WRITE, target spins on memory, mean, us", &SPINS, &["mean"]);
pub(super) const SEND_LAT_EVENTS: Figure = latency(
    "ib_send_lat -e 8 B, to and fro, us",
    Link::Udp,
    &["ib_send_lat", "-e", "-s", "8", "-n", "5000"],
    2.0,
);
pub(super) const WRITE_64: Figure = messages(
    "ib_write_bw -l 16 64 B, M/s",
    Link::Udp,
    &["ib_write_bw", "-s", "64", "-l", "16", "-n", "200000"],
);
pub(super) const WRITE_4K: Figure = bandwidth(
    "ib_write_bw 4 KiB, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-s", "4096", "-t", "16", "-n", "100000"],
);
pub(super) const WRITE_64K: Figure = bandwidth(
    "ib_write_bw 64 KiB, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-s", "65536", "-n", "20000"],
);
pub(super) const SEND_64K: Figure =
    bandwidth("ib_send_bw 64 KiB, Gb/s", Link::Udp, &["ib_send_bw", "-s", "65536", "-n", "20000"]);
pub(super) const READ_64K: Figure =
    bandwidth("ib_read_bw 64 KiB, Gb/s", Link::Udp, &["ib_read_bw", "-s", "65536", "-n", "20000"]);
pub(super) const BENCH_WRITE_64K: Figure =
    benched("ferroce bench write 64 KiB, Gb/s", Link::Udp, &["write", "--size", "65536"]);
pub(super) const BENCH_SEND_64K: Figure =
    benched("ferroce bench send 64 KiB, Gb/s", Link::Udp, &["send", "--size", "65536"]);
pub(super) const BENCH_READ_64K: Figure =
    benched("ferroce bench read 64 KiB, Gb/s", Link::Udp, &["read", "--size", "65536"]);
pub(super) const BENCH_HOST_64K: Figure = benched(
    "same host: ferroce bench write 64 KiB, Gb/s",
    Link::SameHost,
    &["write", "--size", "65536"],
);
pub(super) const BENCH_HOST_SEND_64K: Figure = benched(
    "same host: ferroce bench send 64 KiB, Gb/s",
    Link::SameHost,
    &["send", "--size", "65536"],
);
pub(super) const HOST_SEND_64K: Figure = bandwidth(
    "same host: ib_send_bw 64 KiB, Gb/s",
    Link::SameHost,
    &["ib_send_bw", "-s", "65536", "-n", "50000"],
);
pub(super) const BENCH_HOST_READ_64K: Figure = benched(
    "same host: ferroce bench read 64 KiB, Gb/s",
    Link::SameHost,
    &["read", "--size", "65536"],
);
pub(super) const HOST_READ_64K: Figure = bandwidth(
    "same host: ib_read_bw 64 KiB, Gb/s",
    Link::SameHost,
    &["ib_read_bw", "-s", "65536", "-n", "50000"],
);
pub(super) const BENCH_FETCH_ADD: Figure = benched_rate(
    "ferroce bench fetch_add, 128 outstanding, M/s",
    Link::Udp,
    &["fetch_add", "--set", "rd_atomic=128"],
);
pub(super) const FETCH_ADD: Figure = messages(
    "ib_atomic_bw -A FETCH_AND_ADD, M/s",
    Link::Udp,
    &["ib_atomic_bw", "-A", "FETCH_AND_ADD", "-n", "200000"],
);
pub(super) const BENCH_FETCH_ADD_16: Figure =
    benched_rate("ferroce bench fetch_add, M/s", Link::Udp, &["fetch_add"]);
pub(super) const FETCH_ADD_16: Figure = messages(
    "ib_atomic_bw -A FETCH_AND_ADD -o 16, M/s",
    Link::Udp,
    &["ib_atomic_bw", "-A", "FETCH_AND_ADD", "-o", "16", "-n", "200000"],
);
pub(super) const WRITE_64K_MTU_1024: Figure = bandwidth(
    "ib_write_bw -m 1024 64 KiB, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-m", "1024", "-s", "65536", "-n", "20000"],
);
pub(super) const WRITE_64K_EXACT: Figure = bandwidth(
    "ib_write_bw 64 KiB, no trains, Gb/s",
    Link::Exact,
    &["ib_write_bw", "-s", "65536", "-n", "10000"],
);
pub(super) const WRITE_1M: Figure = bandwidth(
    "ib_write_bw 1 MiB, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-s", "1048576", "-n", "2000"],
);

pub(super) const UCX_PUT_64: Figure = figure(
    "UCX tcp ucp_put_bw 64 B, M/s",
    Tool::Ucx {
        transports: TCP,
        test: "ucp_put_bw",
        bytes: SMALL,
        iterations: 200_000,
        column: 7,
        factor: 1e-6,
    },
);
pub(super) const UCX_PUT_4K: Figure =
    ucx("UCX tcp ucp_put_bw 4 KiB, Gb/s", TCP, "ucp_put_bw", PAGE, 50_000);
pub(super) const UCX_PUT_64K: Figure =
    ucx("UCX tcp ucp_put_bw 64 KiB, Gb/s", TCP, "ucp_put_bw", TRAIN, 20_000);
pub(super) const UCX_PUT_1M: Figure =
    ucx("UCX tcp ucp_put_bw 1 MiB, Gb/s", TCP, "ucp_put_bw", LARGE, 300);
pub(super) const UCX_TAG_64K: Figure =
    ucx("UCX tcp tag_bw 64 KiB, Gb/s", TCP, "tag_bw", TRAIN, 20_000);
pub(super) const UCX_TAG_1M: Figure =
    ucx("UCX tcp tag_bw 1 MiB, Gb/s", TCP, "tag_bw", LARGE, 2_000);
pub(super) const UCX_PUT_LAT_64K: Figure = figure(
    "UCX tcp ucp_put_lat 64 KiB, one way, us",
    Tool::Ucx {
        transports: TCP,
        test: "ucp_put_lat",
        bytes: TRAIN,
        iterations: 5_000,
        // Iterations, and then the median.
        column: 1,
        factor: 1.0,
    },
);
pub(super) const IPERF_64K: Figure =
    figure("iperf3 TCP -l 64K, Gb/s", Tool::Iperf { length: "64K" });
pub(super) const IPERF_1M: Figure = figure("iperf3 TCP -l 1M, Gb/s", Tool::Iperf { length: "1M" });

pub(super) const HOST_LAT_8: Figure = latency(
    "same host: ib_write_lat 8 B, us",
    Link::SameHost,
    &["ib_write_lat", "-s", "8", "-n", "50000"],
    1.0,
);
pub(super) const HOST_64K: Figure = bandwidth(
    "same host: ib_write_bw 64 KiB, Gb/s",
    Link::SameHost,
    &["ib_write_bw", "-s", "65536", "-n", "50000"],
);
/// In rings an ICRC also costs one more copy: without it, packets are built in the ring.
pub(super) const HOST_64K_ICRC: Figure = bandwidth(
    "same host: ib_write_bw 64 KiB, with ICRC, Gb/s",
    Link::SameHostWithIcrc,
    &["ib_write_bw", "-s", "65536", "-n", "50000"],
);
pub(super) const HOST_1M: Figure = bandwidth(
    "same host: ib_write_bw 1 MiB, Gb/s",
    Link::SameHost,
    &["ib_write_bw", "-s", "1048576", "-n", "5000"],
);
pub(super) const UCX_MEMORY_64K: Figure =
    ucx("UCX posix,cma tag_bw 64 KiB, Gb/s", MEMORY, "tag_bw", TRAIN, 50_000);
pub(super) const UCX_MEMORY_1M: Figure =
    ucx("UCX posix,cma tag_bw 1 MiB, Gb/s", MEMORY, "tag_bw", LARGE, 5_000);

/// A benchmark mostly sends the same data again; these are written anew before each message.
pub(super) const HOST_NEW_64K: Figure =
    printed("same host: 64 KiB WRITEs of new data, Gb/s", &COPIES, &["write", "65536"]);
pub(super) const HOST_NEW_1M: Figure =
    printed("same host: 1 MiB WRITEs of new data, Gb/s", &COPIES, &["write", "1048576"]);
pub(super) const READ_NEW_64K: Figure =
    printed("process_vm_readv of 64 KiB of new data, Gb/s", &COPIES, &["read", "65536"]);
pub(super) const READ_NEW_1M: Figure =
    printed("process_vm_readv of 1 MiB of new data, Gb/s", &COPIES, &["read", "1048576"]);

pub(super) const QPS_16: Figure = bandwidth(
    "ib_write_bw 4 KiB, 16 QPs, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-s", "4096", "-q", "16", "-t", "16", "-n", "4000"],
);
pub(super) const QPS_2: Figure = bandwidth(
    "ib_write_bw 4 KiB, 2 QPs, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-s", "4096", "-q", "2", "-t", "16", "-n", "30000"],
);
pub(super) const QPS_256: Figure = bandwidth(
    "ib_write_bw 4 KiB, 256 QPs, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-s", "4096", "-q", "256", "-t", "16", "-n", "250"],
);
pub(super) const QPS_4096: Figure = bandwidth(
    "ib_write_bw 4 KiB, 4096 QPs, Gb/s",
    Link::Udp,
    &["ib_write_bw", "-s", "4096", "-q", "4096", "-t", "16", "-n", "20"],
);
pub(super) const THREADS_1: Figure = printed("4 KiB WRITEs of 1 thread, Gb/s", &THREADS, &["1"]);
pub(super) const THREADS_2: Figure = printed("4 KiB WRITEs of 2 threads, Gb/s", &THREADS, &["2"]);
pub(super) const THREADS_4: Figure = printed("4 KiB WRITEs of 4 threads, Gb/s", &THREADS, &["4"]);
pub(super) const QP_MEMORY: Figure =
    figure("memory of 1000 connected RC QPs, KiB each", Tool::QpMemory { count: 1000 });
pub(super) const QP_MEMORY_10: Figure =
    figure("memory of 10 connected RC QPs, KiB each", Tool::QpMemory { count: 10 });
pub(super) const QP_MEMORY_10000: Figure =
    figure("memory of 10000 connected RC QPs, KiB each", Tool::QpMemory { count: 10_000 });
pub(super) const QP_TIME_10: Figure =
    figure("10 RC QPs opened and closed, us each", Tool::QpTime { count: 10 });
pub(super) const QP_TIME_1000: Figure =
    figure("1000 RC QPs opened and closed, us each", Tool::QpTime { count: 1000 });
pub(super) const QP_TIME_10000: Figure =
    figure("10000 RC QPs opened and closed, us each", Tool::QpTime { count: 10_000 });
pub(super) const CMTIME_50: Figure = figure("cmtime -c 50, us each", Tool::Cmtime { count: 50 });
pub(super) const CMTIME_500: Figure = figure("cmtime -c 500, us each", Tool::Cmtime { count: 500 });
pub(super) const CMTIME_5000: Figure =
    figure("cmtime -c 5000, us each", Tool::Cmtime { count: 5000 });

pub(super) const TAG_LAT_TCP: Figure = figure(
    "UCX tcp tag_lat 8 B, us",
    Tool::Ucx {
        transports: TCP,
        test: "tag_lat",
        bytes: TINY,
        iterations: 20_000,
        column: 1,
        factor: 1.0,
    },
);
pub(super) const TAG_LAT_UDP: Figure = ucx_latency("UCX Ferroce tag_lat 8 B, us", Link::Udp);
pub(super) const TAG_LAT_HOST: Figure =
    ucx_latency("same host: UCX Ferroce tag_lat 8 B, us", Link::SameHost);
pub(super) const TAG_64K_UDP: Figure =
    ucx_over_ferroce("UCX Ferroce tag_bw 64 KiB, Gb/s", Link::Udp, "tag_bw", TRAIN, 20_000);
pub(super) const TAG_64K_HOST: Figure = ucx_over_ferroce(
    "same host: UCX Ferroce tag_bw 64 KiB, Gb/s",
    Link::SameHost,
    "tag_bw",
    TRAIN,
    20_000,
);
pub(super) const TAG_1M_UDP: Figure =
    ucx_over_ferroce("UCX Ferroce tag_bw 1 MiB, Gb/s", Link::Udp, "tag_bw", LARGE, 2_000);
pub(super) const TAG_1M_HOST: Figure = ucx_over_ferroce(
    "same host: UCX Ferroce tag_bw 1 MiB, Gb/s",
    Link::SameHost,
    "tag_bw",
    LARGE,
    2_000,
);
pub(super) const IDLE: Figure = printed("an open, idle device, % of a core", &THREADS, &["idle"]);
