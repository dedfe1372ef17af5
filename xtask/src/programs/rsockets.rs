//! Programs over rsockets that need more than a server and a client: rcopy, whose server never ends and
//! whose file is compared, and programs that know only TCP.
//!
//! rdma-core's `librspreload.so` makes rsockets of a program's sockets, and falls back to TCP without a
//! word where that fails. So what the NICs of both programs counted is looked at as well.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::matrix::{Expect, Kind, Row, words};
use super::{Lab, describe, expected, verdict};
use crate::lab::{Ended, free_port};
use crate::workspace;

const RCOPY: &str = "rcopy";
/// What is copied: no multiple of a page, of a message or of a buffer.
const FILE_BYTES: usize = 3_000_001;

/// The script's sum of what it sends, which comes back.
const SCRIPT: &str = "tcp_echo.py";
const SCRIPT_SOURCE: &str = "examples/python/tcp_echo.py";
const SCRIPT_BYTES: u64 = 20 * (1 + 100 + 4_096 + 70_000 + 300_001);
const PYTHON: &str = "/usr/bin/python3";
/// Where distributions have the library: those of Debian, then others.
const PRELOADS: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so",
    "/usr/lib/aarch64-linux-gnu/rsocket/librspreload.so",
    "/usr/lib64/rsocket/librspreload.so",
];

/// Every row runs in `make test`.
pub(super) fn rows() -> Vec<Row> {
    let row = |command: &'static str, kind, texts| Row {
        words: words(&[command]),
        kind,
        expect: Expect::Texts(texts),
        survives_loss: true,
    };
    vec![
        row(RCOPY, Kind::Copies, &["bytes in "]),
        row("python3 tcp_echo.py", Kind::Preloaded, &["bytes: all right"]),
    ]
}

/// Whether the row is one of these.
pub(super) fn is_ours(row: &Row) -> bool {
    matches!(row.kind, Kind::Copies | Kind::Preloaded)
}

/// Copies a file, and compares.
pub(super) fn copies(
    lab: &Lab,
    flags: &[String],
    row: &Row,
    deadline: Instant,
) -> Result<Result<(), String>> {
    let port = free_port()?;
    let (source, target) = (lab.folder().join("source"), lab.folder().join("target"));
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
    fs::write(&source, &bytes)?;
    fs::set_permissions(&source, fs::Permissions::from_mode(0o644))?;
    let number = port.to_string();

    let words = [RCOPY, "-p", &number];
    let mut server = lab.start("server", lab.run(flags, &words))?;
    if !server.listens_for_cm(port, deadline)? {
        let ended = server.finish(Instant::now())?;
        return Ok(Err(describe("server", "does not listen", &ended)));
    }
    let address = format!("{}:{}", lab.address(), target.display());
    let from = source.display().to_string();
    let client = lab.run(flags, &[RCOPY, &from, &address, "-p", &number]);
    let client = lab.finish("client", client, deadline)?;
    server.kill();
    let checked = verdict(row, &client, "client").and_then(|()| expected(row, &client, "client"));
    let copied = fs::read(&target).unwrap_or_default();
    Ok(checked.and_then(|()| match copied == bytes {
        true => Ok(()),
        false => Err(format!("what was copied is not the file: {} bytes", copied.len())),
    }))
}

/// Runs both sides with sockets replaced, and asks whether their bytes went over RDMA.
pub(super) fn preloaded(
    lab: &Lab,
    flags: &[String],
    row: &Row,
    deadline: Instant,
) -> Result<Result<(), String>> {
    let Some(library) = PRELOADS.into_iter().find(|path| Path::new(path).is_file()) else {
        return Ok(Err(format!("none of {PRELOADS:?} is there: librdmacm1 has it")));
    };
    let script = lab.folder().join(SCRIPT);
    fs::copy(workspace::root().join(SCRIPT_SOURCE), &script).context("the script")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644))?;
    let (port, script) = (free_port()?, script.display().to_string());
    let number = port.to_string();
    let command = |role: &str, more: &[&str]| -> Command {
        let mut flags = flags.to_vec();
        let stats = lab.folder().join(format!("{role}.json"));
        flags.extend(["--stats".to_owned(), stats.display().to_string()]);
        // As the book has it: `ferroce` itself keeps its sockets.
        let preload = format!("LD_PRELOAD={library}:$LD_PRELOAD exec \"$@\"");
        let shell = ["sh", "-c", &preload, "sh", PYTHON, &script, &number, lab.address()];
        lab.run(&flags, &[&shell[..], more].concat())
    };
    let mut server = lab.start("server", command("server", &["server"]))?;
    if !server.listens_for_cm(port, deadline)? {
        let ended = server.finish(Instant::now())?;
        return Ok(Err(describe("server", "does not listen with an rsocket", &ended)));
    }
    let client = lab.finish("client", command("client", &[]), deadline)?;
    let failed = !client.status.is_some_and(|status| status.success());
    let server = server.finish(if failed { Instant::now() } else { deadline })?;
    let checked = verdict(row, &client, "client")
        .and_then(|()| expected(row, &client, "client"))
        .and_then(|()| verdict(row, &server, "server"));
    if checked.is_err() {
        return Ok(checked.map_err(|why| format!("{why}\n{}", describe("server", "then", &server))));
    }
    for (role, ended) in [("server", &server), ("client", &client)] {
        if let Err(why) = went_over_rdma(lab, role, ended)? {
            return Ok(Err(why));
        }
    }
    Ok(Ok(()))
}

/// Whether the NICs of a process carried what it sent and received.
fn went_over_rdma(lab: &Lab, role: &str, ended: &Ended) -> Result<Result<(), String>> {
    let stats = fs::read_to_string(lab.folder().join(format!("{role}.json")))?;
    let stats: Value = serde_json::from_str(&stats).context("the file of --stats")?;
    let counted = |name: &str| -> u64 {
        let lists = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        let nics =
            lists(&stats, "processes").into_iter().flat_map(|process| lists(&process, "nics"));
        nics.filter_map(|nic| nic["counters"][name].as_u64()).sum()
    };
    for name in COUNTERS {
        if counted(name) < SCRIPT_BYTES {
            let why = format!("{name} is {}, of {SCRIPT_BYTES} bytes", counted(name));
            return Ok(Err(describe(role, &why, ended)));
        }
    }
    Ok(Ok(()))
}

/// Payload that queue pairs have carried in each direction, in bytes.
const COUNTERS: [&str; 2] = ["sent_bytes", "rcvd_bytes"];
