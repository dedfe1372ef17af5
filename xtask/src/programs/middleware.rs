//! The middleware above verbs: UCX, OpenMPI, libfabric, and a program in Python.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::matrix::{Expect, Kind, Row, words};
use crate::lab::Lab;
use crate::workspace;

/// The tests of `ucx_perftest`: tags, puts, gets, active messages and atomics; threads, a program
/// that sleeps, and the transport of datagrams alone. `-f -w 10`: results only, a short warm-up.
const PERFTEST: &[&str] = &[
    "-t tag_lat -s 8 -n 1000",
    "-t tag_bw -s 65536 -n 200",
    "-t tag_bw -s 8388608 -n 10",
    "-t ucp_put_lat -s 8 -n 1000",
    "-t ucp_put_bw -s 1048576 -n 50",
    "-t ucp_put_bw -s 8388608 -n 10",
    "-t ucp_get -s 1048576 -n 50",
    "-t ucp_am_lat -s 8 -n 1000",
    "-t ucp_am_bw -s 4096 -n 500",
    "-t ucp_add -s 8 -n 500",
    "-t ucp_fadd -s 8 -n 500",
    "-t ucp_swap -s 8 -n 500",
    "-t ucp_cswap -s 8 -n 500",
    "-t stream_lat -s 4096 -n 500",
    "-t ucp_cswap -s 4 -n 500",
    "-t tag_lat -s 8 -n 200 -T 2 -M multi",
    "-t tag_bw -s 65536 -n 100 -T 4 -M serialized",
    "-t tag_lat -s 8 -n 200 -E sleep",
    "-t am_lat -s 8 -n 500 -d ferroce0:1 -x ud_verbs",
    "-t am_bw -s 1024 -n 500 -d ferroce0:1 -x rc_verbs -D bcopy",
    "-t fadd -s 8 -n 500 -d ferroce0:1 -x rc_verbs",
];

/// What the documentation tells users to set.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("UCX_NET_DEVICES", "ferroce0:1"),
    ("UCX_TLS", "rc_verbs,ud_verbs,self"),
    ("OMPI_MCA_pml", "ucx"),
    ("OMPI_MCA_osc", "ucx"),
    ("OMPI_MCA_btl", "^openib"),
    ("OMPI_MCA_opal_common_ucx_devices", "any"),
    // The device has one address, which is IPv4: its GID of IPv6 cannot be used.
    ("FI_VERBS_GID_IDX", "1"),
    // There may be fewer cores than ranks.
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    // The same for OpenMPI 5.
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// What is also set where packets are lost: a shorter timeout of UCX, which otherwise waits a second
/// after every loss. Without losses a short timeout would only show how busy the machine is.
const UNDER_FAULTS: &[(&str, &str)] = &[("UCX_RC_VERBS_TIMEOUT", "20ms")];

/// And elsewhere, where UCX may be 1.16 or newer: its fences ask each lane to flush what is remote, which it can do with
/// mlx5's devices alone. Debian 12's UCX does not know the word.
const ELSEWHERE: &[(&str, &str)] = &[("UCX_FENCE_MODE", "weak")];

/// fi_pingpong's options, what it prints of the longest messages, and whether lost packets are
/// repeated.
const FI_PINGPONG: &[(&str, Expect, bool)] = &[
    ("-p verbs -e msg -c -I 20", Expect::Texts(&["\n1m "]), true),
    ("-p verbs;ofi_rxm -e rdm -c -I 20", Expect::Texts(&["\n1m "]), true),
    ("-p verbs -e dgram -c -I 20", Expect::Texts(&["\n1k "]), false),
];

const MPI: &str = "mpi";
const MPI_SOURCE: &str = "examples/c/mpi.c";
const SCRIPT: &str = "pyverbs_messages.py";
/// Loads the system's library by its path.
const BY_PATH: &str = "by_path.py";
const SCRIPTS: &str = "examples/python";
/// fi_pingpong's flags for the port: its own, and that of its peer.
const FI_SERVER_PORT: &str = "-B";
const FI_CLIENT_PORT: &str = "-P";
/// The interpreter that `python3-pyverbs` is built for, whatever else is on the path.
const PYTHON: &str = "/usr/bin/python3";

/// Every row runs in `make test`.
pub(super) fn rows() -> Vec<Row> {
    let row =
        |parts: &[_], kind, expect| Row { words: words(parts), kind, expect, survives_loss: true };
    let shown = Expect::Texts(&["Device: ferroce0:1", "rc_verbs", "ud_verbs"]);
    let checked_2 = Expect::Texts(&["2 ranks:", " checks, 0 failures"]);
    let checked_4 = Expect::Texts(&["4 ranks:", " checks, 0 failures"]);
    let found = Expect::Texts(&["provider: verbs", "domain: ferroce0", "type: FI_EP_MSG"]);
    let received = Expect::Texts(&["messages: all right"]);
    let mut rows = vec![
        row(&["ucx_info -d"], Kind::Alone, shown),
        row(&["mpirun -n 2", MPI], Kind::Alone, checked_2),
        row(&["mpirun -n 4", MPI], Kind::Alone, checked_4),
        row(&["python3", SCRIPT], Kind::Pair, received),
        row(&["python3", BY_PATH], Kind::Alone, Expect::Texts(&["libibverbs.so.1: ferroce0"])),
        row(&["fi_info -p verbs"], Kind::Elsewhere { pair: false }, found),
    ];
    let pingpong = Kind::Elsewhere { pair: true };
    rows.extend(FI_PINGPONG.iter().map(|&(options, longest, survives_loss)| Row {
        survives_loss,
        ..row(&["fi_pingpong", options], pingpong, longest)
    }));
    rows.extend(
        PERFTEST
            .iter()
            .map(|options| row(&["ucx_perftest -f -w 10", options], Kind::Pair, Expect::Results)),
    );
    rows
}

/// Whether the row is one of these.
pub(super) fn is_ours(row: &Row) -> bool {
    ["ucx_info", "ucx_perftest", "mpirun", "python3", "fi_info", "fi_pingpong"]
        .contains(&row.words[0])
}

/// What is set for the row's programs.
pub(super) fn environment(
    row: &Row,
    under_faults: bool,
    is_elsewhere: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let always = ENVIRONMENT.iter().filter(|_| is_ours(row));
    let more = UNDER_FAULTS.iter().filter(move |_| under_faults && is_ours(row));
    let there = ELSEWHERE.iter().filter(move |_| is_elsewhere && is_ours(row));
    always.chain(more).chain(there).copied()
}

/// How the row's program is told its port, if it is one of these.
pub(super) fn port_words(row: &Row, port: &str) -> Option<Vec<String>> {
    let words: &[&str] = match row.words[0] {
        "python3" => &[port],
        "fi_pingpong" => &[FI_SERVER_PORT, port],
        _ => &["-p", port],
    };
    is_ours(row).then(|| words.iter().map(|&word| word.to_owned()).collect())
}

/// Whether what the row stands on in another distribution was built for RDMA: UCX of Debian sid is not (November 2026).
pub(super) fn has_verbs(root: &Path, row: &Row) -> bool {
    if !["ucx_info", "ucx_perftest", "mpirun"].contains(&row.words[0]) {
        return true;
    }
    let module = format!("usr/lib/{}-linux-gnu/ucx/libuct_ib.so.0", env::consts::ARCH);
    root.join(module).exists()
}

/// What a program needs to be told elsewhere: Debian builds later releases of `ucx_perftest` with MPI, and that one
/// then takes itself for a process of `mpirun` where it has no terminal.
pub(super) fn words_elsewhere(row: &Row) -> &'static [&'static str] {
    if row.words[0] == "ucx_perftest" { &["-P", "0"] } else { &[] }
}

/// The words of a client, made from those of its server.
pub(super) fn client_words(mut words: Vec<String>) -> Vec<String> {
    for word in words.iter_mut().filter(|word| *word == FI_SERVER_PORT) {
        *word = FI_CLIENT_PORT.to_owned();
    }
    words
}

/// Copies or compiles our own programs of the row, and returns the whole command.
pub(super) fn program(lab: &Lab, row: &Row) -> Result<Vec<String>> {
    let place = |word: &&str| -> Result<String> {
        let path = lab.folder().join(word);
        match *word {
            "python3" => return Ok(PYTHON.to_owned()),
            MPI => compile(&path)?,
            SCRIPT | BY_PATH => {
                let script = workspace::root().join(SCRIPTS).join(word);
                fs::copy(&script, &path)
                    .with_context(|| format!("cannot copy {}", script.display()))?;
            }
            other => return Ok(other.to_owned()),
        }
        // Whatever the mask for new files is, `nobody` must be able to run it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path.display().to_string())
    };
    row.words.iter().map(place).collect()
}

fn compile(program: &Path) -> Result<()> {
    let mut command = Command::new("mpicc");
    command.current_dir(workspace::root()).args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    workspace::run(command.arg(program).arg(MPI_SOURCE)).context("mpicc is in libopenmpi-dev")
}
