//! What goes wrong around a lab, with real programs: each day is played as it happens to people.
//!
//! Short forms are for every day; `--full` has more of what is left to chance, and a thousand programs.

use core::time::Duration;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use rustix::process::{Signal, geteuid};

use super::up::{PATIENCE, Pair, TIMEOUT_CODE, Up, kill, signal, succeeded};
use crate::lab::{Ended, Lab, NOBODY, Running};

/// Nobody in particular: neither the lab's user nor root.
const STRANGER: u32 = 64_998;
/// What perftest says of `IBV_WC_RETRY_EXC_ERR`, and that.
const RETRIES_EXCEEDED: [&str; 2] = ["Failed status 12", "transport retry counter exceeded"];
/// perftest's `retry_cnt`.
const RETRIES: u32 = 7;
/// What a starved machine may add to any time, which is ours.
const STARVED: Duration = Duration::from_secs(15);
/// What a lab's memory may grow by while programs come and go, which is ours: the first ones make it read its code.
const GROWTH_KB: u64 = 8 << 10;

/// What it is called, and how it goes; in full or not.
pub(super) type Day = (&'static str, fn(&Lab, bool) -> Result<()>);

pub(super) const DAYS: [Day; 12] = [
    ("a program is killed", a_program_is_killed),
    ("programs are killed at any moment", programs_are_killed_at_any_moment),
    ("a lab is killed", a_lab_is_killed),
    ("a lab ends under its programs", a_lab_ends),
    ("two labs beside each other", two_labs),
    ("a name that is taken", a_name_is_taken),
    ("two of one name at the same moment", two_of_one_name),
    ("an experiment is killed", an_experiment_is_killed),
    ("an experiment is interrupted", an_experiment_is_interrupted),
    ("a program of another user", another_user),
    ("many short programs", many_programs),
    ("a full disk", a_full_disk),
];

/// How long a QP tries before it gives up: between one and four timeouts a try (IBTA vol 1, 9.7.6.1.3).
fn promised() -> Result<[Duration; 2]> {
    let code: i32 = TIMEOUT_CODE.parse()?;
    let timeout = Duration::from_secs_f64(4.096e-6 * f64::from(code).exp2());
    Ok([timeout * (RETRIES + 1), timeout * 4 * (RETRIES + 1)])
}

/// Ends with retries exceeded, and not because it had to be killed.
fn sees_retries_exceeded(who: &str, running: Running) -> Result<()> {
    let ended = running.finish(Instant::now() + PATIENCE)?;
    let said = said(&ended);
    ensure!(ended.status.is_some(), "the {who} hangs: {said}");
    ensure!(!succeeded(&ended), "the {who} ended as if nothing had happened: {said}");
    let is_told = RETRIES_EXCEEDED.iter().any(|text| said.contains(text));
    ensure!(is_told, "the {who} did not see retries exceeded: {said}");
    Ok(())
}

fn said(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

/// Both ends of a pair whose network has gone at `since`: one sees that nothing arrives any more, and the other that or
/// that the first has ended.
fn see_that_nothing_arrives(Pair { server, client }: Pair, since: Instant) -> Result<()> {
    let [least, most] = promised()?;
    sees_retries_exceeded("client", client)?;
    let after = since.elapsed();
    ensure!(
        after >= least,
        "the client gave up after {after:?}, before it had tried for {least:?}"
    );
    ensure!(after < most + STARVED, "the client gave up after {after:?} and not within {most:?}");
    let ended = server.finish(Instant::now() + PATIENCE)?;
    ensure!(ended.status.is_some(), "the server hangs: {}", said(&ended));
    Ok(())
}

fn a_program_is_killed(lab: &Lab, _: bool) -> Result<()> {
    let mut up = Up::begin(lab, 'k')?;
    let bystanders = up.pair("bystanders")?;
    let Pair { server, client } = up.pair("killed")?;
    kill(&server)?;
    let begin = Instant::now();
    up.wait_for("the host to be clean", |up| Ok(up.status()?.matches(" process ").count() < 4))?;
    let clean_after = begin.elapsed();
    ensure!(clean_after < STARVED, "its host was clean after {clean_after:?}");
    up.wait_for_more(&bystanders)?;
    up.is_whole()?;
    sees_retries_exceeded("peer", client)?;
    server.finish(Instant::now())?;
    up.wait_for_more(&bystanders)?;
    drop(bystanders);
    up.becomes_empty()?;
    up.down()
}

/// While it opens the device, connects, sends.
fn programs_are_killed_at_any_moment(lab: &Lab, full: bool) -> Result<()> {
    let mut up = Up::begin(lab, 'm')?;
    let moments = if full { 40 } else { 4 };
    for moment in 0..moments {
        let Pair { server, client } = up.sending("killed")?;
        sleep(Duration::from_millis(400) * moment / moments);
        for victim in if moment % 2 == 0 { [&server, &client] } else { [&client, &server] } {
            kill(victim)?;
        }
        for ended in [server, client] {
            ended.finish(Instant::now() + PATIENCE)?;
        }
        up.becomes_empty()?;
    }
    up.is_whole()?;
    up.down()
}

fn a_lab_is_killed(lab: &Lab, _: bool) -> Result<()> {
    let mut up = Up::begin(lab, 'f')?;
    let pair = up.pair("left")?;
    let socket = up.socket()?;
    kill(&up.process)?;
    see_that_nothing_arrives(pair, Instant::now())?;
    drop(up);
    ensure!(socket.exists(), "whoever is killed removes nothing");
    let next = Up::begin(lab, 'f')?;
    next.is_whole()?;
    ensure!(!socket.exists(), "{} is still there", socket.display());
    next.down()
}

fn a_lab_ends(lab: &Lab, _: bool) -> Result<()> {
    let mut up = Up::begin(lab, 'e')?;
    let pair = up.pair("left")?;
    let socket = up.socket()?;
    up.end()?;
    see_that_nothing_arrives(pair, Instant::now())?;
    let ended = up.process.finish(Instant::now() + PATIENCE)?;
    ensure!(succeeded(&ended), "the lab ended badly: {}", ended.stderr);
    ensure!(!socket.exists(), "{} is still there", socket.display());
    Ok(())
}

fn two_labs(lab: &Lab, _: bool) -> Result<()> {
    let mut first = Up::begin(lab, 'a')?;
    let mut second = Up::begin(lab, 'b')?;
    // Both have the same addresses.
    let pairs = [first.pair("pair")?, second.pair("pair")?];
    for up in [&first, &second] {
        let status = up.status()?;
        ensure!(status.contains("dropped     nothing"), "{status}");
        ensure!(status.matches(" process ").count() == 2, "{status}");
    }
    first.end()?;
    second.wait_for_more(&pairs[1])?;
    drop(pairs);
    second.is_whole()?;
    second.down()
}

fn a_name_is_taken(lab: &Lab, _: bool) -> Result<()> {
    let up = Up::begin(lab, 't')?;
    let mut commands = [up.again(), up.again()];
    commands[1].arg("--detach");
    for command in commands {
        let ended = lab.finish("again", command, Instant::now() + PATIENCE)?;
        let text = &ended.stderr;
        let is_told = text.contains("runs already") && text.contains("hint: end it with");
        ensure!(is_told && !succeeded(&ended), "who is second is not told why: {text}");
    }
    up.is_whole()?;
    up.down()
}

fn two_of_one_name(lab: &Lab, full: bool) -> Result<()> {
    for moment in 0..if full { 20 } else { 3 } {
        let (up, told) = Up::begin_twice(lab, 'r')?;
        ensure!(told.contains("runs already"), "moment {moment}: who is second is told: {told}");
        up.is_whole()?;
        up.down()?;
    }
    Ok(())
}

/// An experiment in the midst of its first row.
fn experiment(lab: &Lab) -> Result<Running> {
    let mut exec = lab.plain(&lab.command().to_string_lossy());
    exec.args(["lab", "exec", "--quick"]).arg(lab.folder().join("scenarios/lab/6-storm.toml"));
    // What it writes there nobody removes, if it is killed.
    exec.env("TMPDIR", lab.folder());
    let experiment = lab.start("experiment", exec)?;
    // Servers, and the clients, which begin when those listen.
    let is_perftest = |it: &&String| it.contains("(ib_write_bw)");
    let runs = |lab: &Lab| lab.processes().iter().filter(is_perftest).count() > 3;
    let begin = Instant::now();
    while !runs(lab) {
        ensure!(begin.elapsed() < PATIENCE, "its programs do not begin");
        sleep(Duration::from_millis(50));
    }
    Ok(experiment)
}

/// Whoever carries it out: its lab is in the same process, its programs are not.
fn an_experiment_is_killed(lab: &Lab, _: bool) -> Result<()> {
    let experiment = experiment(lab)?;
    kill(&experiment)?;
    let begin = Instant::now();
    while !lab.processes().is_empty() {
        let left = lab.processes().join(", ");
        ensure!(begin.elapsed() < STARVED, "{left} live on for {:?}", begin.elapsed());
        sleep(Duration::from_millis(50));
    }
    // The next one removes what the lab has left.
    Up::begin(lab, 'x')?.down()
}

/// As by Ctrl-C: what was cut short is not judged.
fn an_experiment_is_interrupted(lab: &Lab, _: bool) -> Result<()> {
    let experiment = experiment(lab)?;
    signal(&experiment, Signal::INT)?;
    let ended = experiment.finish(Instant::now() + PATIENCE)?;
    let code = ended.status.and_then(|status| status.code());
    ensure!(code == Some(130), "it ends with {code:?}: {}", said(&ended));
    ensure!(ended.stderr.contains("nothing is judged"), "{}", said(&ended));
    ensure!(!ended.stdout.contains("expected"), "it judges all the same: {}", ended.stdout);
    let left = lab.processes().join(", ");
    ensure!(left.is_empty(), "{left} live on");
    Ok(())
}

fn another_user(lab: &Lab, _: bool) -> Result<()> {
    let up = Up::begin(lab, 'u')?;
    if !geteuid().is_root() {
        println!("  only root can become another user");
        return up.down();
    }
    let socket = up.socket()?;
    // Root gets past the folder's rights.
    let refused = format!("the lab is of user {NOBODY}, and the program of user 0");
    for (user, expected) in [(STRANGER, "is of another user"), (0, &refused)] {
        let as_user = |words: &[&str]| {
            let mut command = Command::new(lab.command());
            command.args(words).current_dir(lab.folder()).env_remove("XDG_RUNTIME_DIR");
            command.env("FERROCE_LAB", &socket).env("FERROCE_LAB_HOST", "h0");
            command.uid(user).gid(user);
            command
        };
        let attached = as_user(&["run", "--", "ibv_devinfo"]);
        let ended = lab.finish("stranger", attached, Instant::now() + PATIENCE)?;
        let text = said(&ended);
        if succeeded(&ended) || !text.contains(expected) || !text.contains("hint: ") {
            bail!("user {user} is not told `{expected}` but: {text}");
        }
        let seen = as_user(&["lab", "status"]);
        let ended = lab.finish("stranger", seen, Instant::now() + PATIENCE)?;
        let text = said(&ended);
        ensure!(!text.contains("two_hosts"), "user {user} sees the lab: {text}");
    }
    up.is_whole()?;
    up.down()
}

fn many_programs(lab: &Lab, full: bool) -> Result<()> {
    let up = Up::begin(lab, 's')?;
    let words = ["ibv_rc_pingpong", "-d", "ferroce0", "-g", "1", "-n", "10", "-s", "256"];
    up.exchange(&words)?;
    let before = up.holds()?;
    for _ in 0..if full { 500 } else { 10 } {
        up.exchange(&words)?;
    }
    let after = up.holds()?;
    let is_as_before = before[..2] == after[..2] && after[2] <= before[2] + GROWTH_KB;
    ensure!(is_as_before, "files, descriptors and KiB of memory: {before:?}, and then {after:?}");
    if full {
        println!("  files, descriptors and KiB of memory: {before:?}, and then {after:?}");
    }
    up.down()
}

/// The disk on which a capture is written.
fn a_full_disk(lab: &Lab, _: bool) -> Result<()> {
    let mut up = Up::begin(lab, 'd')?;
    let pair = up.pair("captured")?;
    let capture = up.command(&["capture", "s0:h1", "--write", "/dev/full"]);
    let ended = lab.finish("capture", capture, Instant::now() + PATIENCE)?;
    let is_told = ended.stderr.contains("cannot write /dev/full: No space left on device");
    ensure!(is_told && !succeeded(&ended), "it is not told: {}", said(&ended));
    // The lab goes on, and can be captured as before.
    up.wait_for_more(&pair)?;
    let file = lab.folder().join("captured.pcapng");
    let mut capture = up.command(&["capture", "s0:h1", "--packets", "100"]);
    capture.arg("--write").arg(&file);
    let ended = lab.finish("capture", capture, Instant::now() + PATIENCE)?;
    ensure!(succeeded(&ended), "{}", said(&ended));
    ensure!(fs::metadata(&file)?.len() > 10_000, "{} is short", file.display());
    drop(pair);
    up.becomes_empty()?;
    up.down()
}
