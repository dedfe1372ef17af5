//! How commands end when nobody reads what they print, and when their terminal goes.

use core::time::Duration;
use std::fs;
use std::io::pipe;
use std::path::Path;
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::thread::sleep;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A command whose reader has closed the pipe before the first word.
fn unread(arguments: &[&str]) -> Process {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut command = Process::new(env!("CARGO_BIN_EXE_ferroce"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).args(arguments);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    command
}

/// What it ends with, within a minute.
fn end(mut child: Child) -> ExitStatus {
    let ended = (0..600).find_map(|_| {
        sleep(Duration::from_millis(100));
        child.try_wait().unwrap()
    });
    if let Some(status) = ended {
        return status;
    }
    let does = threads(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it does not end: {does}");
}

/// The threads of a process: name, state, and where in the kernel it waits.
fn threads(process: u32) -> String {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return String::new() };
    let of = |task: fs::DirEntry| {
        let [name, status, place] = ["comm", "status", "wchan"]
            .map(|file| fs::read_to_string(task.path().join(file)).unwrap_or_default());
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
        format!("{} {} {}", name.trim(), state.trim(), place.trim())
    };
    tasks.flatten().map(of).collect::<Vec<_>>().join("; ")
}

#[test]
fn results_and_status_are_the_same_when_nobody_reads() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    let said = |arguments: &[&str]| {
        let output = unread(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let seeds = ["sim", "scenarios/incast.toml", "--seeds", "2", "-o", out];
    assert_eq!(said(&seeds), (Some(0), String::new()));
    assert!(folder.path().join("seeds.parquet").is_file());
    let deadlock = said(&["sim", "--no-trials", "scenarios/deadlock.toml"]);
    assert_eq!(deadlock, (Some(3), "error: the network is deadlocked\n".to_owned()));
    assert_eq!(said(&["doctor", "examples/cluster"]), (Some(1), String::new()));
}

#[test]
fn files_are_there_though_stdout_is_full() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    let mut command = unread(&["sim", "scenarios/incast.toml", "--seeds", "2", "-o", out]);
    command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(125) && said.starts_with("error: cannot write"), "{said}");
    assert!(folder.path().join("seeds.parquet").is_file());
}

#[test]
fn what_prints_for_ever_ends_when_nobody_reads_unless_it_does_more() {
    let folder = TempDir::new().unwrap();
    let counters = "NIC statistics:\n tx_prio3_pause: 5\n";
    fs::write(folder.path().join("ethtool-mlx5_0.txt"), counters).unwrap();
    let from = folder.path().to_str().unwrap();
    let watch = ["watch", "--interval", "0.1", "--from", from];
    assert_eq!(end(unread(&watch).spawn().unwrap()).code(), Some(0));
    assert_eq!(end(unread(&["counters", "--watch", "0.1"]).spawn().unwrap()).code(), Some(0));
    let record = folder.path().join("record.jsonl");
    let looks = || fs::read_to_string(&record).unwrap_or_default().lines().count();
    let mut looking = unread(&watch);
    looking.arg("--record").arg(&record).args(["--looks", "4"]);
    assert_eq!(end(looking.spawn().unwrap()).code(), Some(0));
    assert_eq!(looks(), 4);
    let mut recording = unread(&watch).arg("--record").arg(&record).spawn().unwrap();
    let goes_on = (0..100).any(|_| {
        sleep(Duration::from_millis(100));
        looks() >= 8
    });
    recording.kill().unwrap();
    recording.wait().unwrap();
    assert!(goes_on, "{} looks", looks());
}

/// A lab that nobody reads, once it can be asked; `before` is said before it, in a shell.
fn lab(before: &str, name: &str, out: &Path) -> Child {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    // Whoever runs the tests may do so under nohup.
    let mut child = Process::new("env")
        .args(["--default-signal=HUP", "sh", "-c", &format!("{before}exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_ferroce"))
        .args(["lab", "up", "--name", name, "-o"])
        .arg(out)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/lab/two-hosts.toml"))
        .stdout(writer)
        .spawn()
        .unwrap();
    for _ in 0..300 {
        sleep(Duration::from_millis(100));
        if is_there(name) {
            return child;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the lab does not begin");
}

fn is_there(name: &str) -> bool {
    let mut status = Process::new(env!("CARGO_BIN_EXE_ferroce"));
    status.args(["lab", "status", "--lab", name]).output().unwrap().status.success()
}

#[test]
fn a_lab_whose_terminal_goes_leaves_its_report_and_one_under_nohup_stays() {
    let folder = TempDir::new().unwrap();
    for (before, signals) in
        [("", &[Signal::HUP][..]), ("trap '' HUP; ", &[Signal::HUP, Signal::TERM])]
    {
        let name = format!("ends{}_{}", signals.len(), std::process::id());
        let out = folder.path().join(&name);
        let child = lab(before, &name, &out);
        for (number, signal) in signals.iter().enumerate() {
            sleep(Duration::from_millis(300));
            assert!(number == 0 || is_there(&name));
            kill_process(Pid::from_child(&child), *signal).unwrap();
        }
        assert_eq!(end(child).code(), Some(0));
        assert!(out.join("report.json").is_file());
    }
}
