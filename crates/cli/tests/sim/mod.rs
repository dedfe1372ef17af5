//! Runs in the simulator: `ferroce sim` and `ferroce papers`.

mod switch;

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use snapbox::{assert_data_eq, str};
use tempfile::TempDir;

use super::ferroce;

/// A scenario of the repository.
fn scenario(name: &str) -> String {
    format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn sim_tells_what_a_scenario_came_to() {
    ferroce().args(["sim", &scenario("incast")]).assert().success().stderr_eq("").stdout_eq(str![
        [r#"
Incast of 31 under a leaf-spine (simulated)
  finished at 2.679 ms
  flows        31 (31 finished, 0 failed)
  completed    31 of 31 messages
  goodput      92.541 Gb/s: 31000000 bytes in order, in the first 2.679 ms
  latency      p50 2.162 ms, p95 2.679 ms, p99 2.679 ms
  slowdown     p50 24.37, p95 30.19, p99 30.19
  drops        0
  retransmits  0 of 60574 packets, 0 timeouts
  ECN          0 marks, 0 CNPs
  pauses       3984 frames
    who pauses whom     frames     ports     paused        most  which
    leaf pauses server    1284  31 of 32  16.668 ms  874.242 us  h30 by leaf3
    spine pauses leaf     1468    6 of 8   9.807 ms    1.988 ms  leaf3 by spine1
    leaf pauses spine     1232    2 of 8   2.898 ms    1.484 ms  spine1 by leaf0
  simulated    214940 link-hops, [..] events
  finding      full link: leaf0 -> h0 carried 98.1 of 100 Gb/s (98 %): 31 flows
               that wait lead there
  finding      source of pauses: leaf0, which paused spine1, which paused
               leaf1, which paused h8. leaf0 is the source: more comes there
               than its link to h0 takes (98 % used)
  finding      no ECN: no queue marks: no switch.ecn says so
               change: give switch.ecn min_bytes, max_bytes and
               max_probability, and nic.congestion = "dcqcn"
               tried: switch.ecn={}, nic.congestion=dcqcn does not help:
               messages done: 1 by 2.679 ms (was 31), 84.0 Gb/s (was 92.5),
               2277 pause frames (was 3984)

"#]
    ]);
}

/// The files of a run, by name.
fn sim_files(scenario: &str, folder: &Path) -> BTreeMap<String, Vec<u8>> {
    ferroce().args(["sim", scenario, "-o"]).arg(folder).assert().success();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

#[test]
fn sim_writes_the_same_files_each_time() {
    let folder = TempDir::new().unwrap();
    let first = sim_files(&scenario("incast"), &folder.path().join("first"));
    let second = sim_files(&scenario("incast"), &folder.path().join("second"));
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "counters.parquet",
            "flows.parquet",
            "report.html",
            "samples.parquet",
            "seeds.parquet",
            "summary.txt"
        ]
    );
    for (name, bytes) in &first {
        assert!(second[name] == *bytes, "{name} differs");
        assert!(
            !name.ends_with(".parquet") || bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")
        );
    }
    let page = String::from_utf8(first["report.html"].clone()).unwrap();
    assert!(page.contains("<title>Incast of 31 under a leaf-spine (simulated)</title>"));
}

#[test]
fn sim_and_papers_refuse_a_folder_that_cannot_be_written_before_they_run() {
    for command in [vec!["sim", &scenario("incast")], vec!["papers", "guo16", "figure-3"]] {
        let command = ferroce().args(command).args(["-o", "/proc/nothing"]);
        command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: cannot write /proc/nothing: No such file or directory (os error 2)
hint: name a folder of yours; it and those above it are made if they are not there

"#]]);
    }
}

#[test]
fn sim_says_what_it_found_though_it_cannot_be_written() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("flows.parquet")).unwrap();
    let command = ferroce().args(["sim", &scenario("incast"), "-o"]).arg(folder.path());
    let assert = command.assert().code(125).stderr_eq(str![[r#"
error: cannot write [..]/flows.parquet: Is a directory (os error 21)

"#]]);
    let stdout = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(stdout.contains("  finished at 2.679 ms\n"), "{stdout}");
}

#[test]
fn sim_says_what_a_scenario_is_where_there_is_none() {
    ferroce().args(["sim", "nowhere.toml"]).assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: cannot read nowhere.toml: No such file or directory (os error 2)
hint: a scenario is a TOML file, such as those in the folder scenarios of Ferroce's source

"#]]);
}

#[test]
fn sim_that_is_checked_writes_nothing_and_says_so() {
    let command = ferroce().args(["sim", "--check", &scenario("incast"), "-o", "out"]);
    command.assert().code(2).stdout_eq("").stderr_eq(str![[r#"
error: the argument '--check' cannot be used with '--output <FOLDER>'
...
"#]]);
}

#[test]
fn sim_that_is_interrupted_says_so_and_leaves_what_there_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("long.toml");
    let text = fs::read_to_string(scenario("livelock-go-back-n")).unwrap();
    fs::write(&path, text.replace("end_ms = 40", "end_ms = 4_000_000")).unwrap();
    let out = folder.path().join("out");
    let child = Process::new(env!("CARGO_BIN_EXE_ferroce"))
        .arg("sim")
        .arg(&path)
        .arg("-o")
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Long enough to have begun; a signal that came before the handler would end it by 128 + 2 too,
    // but without a word.
    thread::sleep(Duration::from_secs(2));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    // As `timeout` does, which tells us and then our group.
    thread::sleep(Duration::from_millis(10));
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{stdout}");
    assert!(stdout.contains("  INTERRUPTED at "), "{stdout}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: interrupted: the results are partial\n"
    );
    let flows = fs::read(out.join("flows.parquet")).unwrap();
    assert!(flows.ends_with(b"PAR1"));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("The run was interrupted at "));
}

#[test]
fn sim_that_is_interrupted_while_it_writes_ends() {
    let folder = TempDir::new().unwrap();
    // The page is longer than what a pipe holds, and nobody reads on.
    let page = folder.path().join("report.html");
    assert!(Process::new("mkfifo").arg(&page).status().unwrap().success());
    let mut pipe = File::options().read(true).write(true).open(&page).unwrap();
    let mut child = Process::new(env!("CARGO_BIN_EXE_ferroce"))
        .args(["sim", &scenario("incast"), "-o"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    pipe.read_exact(&mut [0]).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(100));
        child.try_wait().unwrap()
    });
    if ended.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(ended.and_then(|status| status.signal()), Some(Signal::INT.as_raw()));
}

#[test]
fn sim_says_how_fast_it_was_and_does_the_same_on_two_threads() {
    let run = |flags: &[&str]| {
        let output = ferroce().args(["sim", &scenario("incast")]).args(flags).output().unwrap();
        assert!(output.status.success(), "{flags:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let one = run(&[]);
    let two = run(&["--threads", "2", "--bench"]);
    let (same, cost) = two.split_at(one.len());
    assert_eq!(same, one);
    assert_data_eq!(
        cost,
        str![[r#"
  speed        214940 link-hops in [..] s: [..] M/s, [..] ns and [..] events each
  memory       [..] packets at most; the process grew by [..] kB: [..] bytes each; [..] kB in all
  instructions [..]

"#]]
    );
}

#[test]
fn sim_with_many_seeds_says_medians_and_intervals() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("hashes.toml");
    let scenario = MISFIT.split("[switch]").next().unwrap();
    let flows = "[[workload]]\nkind = \"permutation\"\nmessage_bytes = 100_000\n";
    fs::write(&path, format!("{}{flows}", scenario.replace("spines = 1", "spines = 2"))).unwrap();
    let out = folder.path().join("out");
    let run =
        || ferroce().args(["sim", "--seeds", "9", "--seed", "3"]).arg(&path).arg("-o").arg(&out);
    let assert = run().assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(
        told.starts_with("Misfit (simulated, seeds 3 to 11)\n  ended        9 finished\n"),
        "{told}"
    );
    assert!(told.contains("95 % interval") && told.contains("\n  goodput, gbps "), "{told}");
    assert_eq!(fs::read_to_string(out.join("summary.txt")).unwrap(), told);
    assert!(fs::read(out.join("seeds.parquet")).unwrap().starts_with(b"PAR1"));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("Goodput over seeds"));
    let again = run().output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&again), told, "whichever thread ran which seed");
    let deadlock = format!("{}/../../scenarios/deadlock.toml", env!("CARGO_MANIFEST_DIR"));
    ferroce().args(["sim", "--seeds", "2", &deadlock]).assert().code(3);
    let last = u64::MAX.to_string();
    let beyond =
        |seed: &str| ferroce().args(["sim", "--seeds", "3", "--seed", seed]).arg(&path).assert();
    let assert = beyond(&last).failure().stdout_eq("");
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let wrong = "go beyond 18446744073709551615\nhint: begin at 18446744073709551613 or before";
    assert!(told.contains(wrong), "{told}");
    beyond("18446744073709551613").success();
}

#[test]
fn sim_runs_several_scenarios_with_what_is_set_and_compare_holds_their_results_side_by_side() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let scenario = MISFIT.split("[switch]").next().unwrap().replace("spines = 1", "spines = 2");
    let flows = "[[workload]]\nkind = \"permutation\"\nmessage_bytes = 100_000\n";
    fs::write(path("one.toml"), format!("{scenario}{flows}")).unwrap();
    fs::write(path("two.toml"), format!("{scenario}[switch]\nalpha = 1\n{flows}")).unwrap();
    let sim = || ferroce().current_dir(folder.path()).args(["sim", "one.toml", "two.toml"]);
    let assert = sim().args(["--seeds", "6", "-o", "out", "--set", "title=Set"]).assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert_eq!(told.matches("Set, title=Set (simulated, seeds 1 to 6)\n").count(), 2, "{told}");
    for file in ["out/one/flows.parquet", "out/one/seeds.parquet", "out/two/report.html"] {
        assert!(path(file).is_file(), "{file}");
    }
    sim().args(["--set", "workload.message_byte=1"]).assert().code(125).stdout_eq("").stderr_eq(
        "error: one.toml: --set workload.message_byte=1: unknown key `message_byte`\n\
         hint: did you mean `message_bytes`?\n",
    );
    let compare = || ferroce().current_dir(folder.path()).arg("compare");
    // A browser knows a page by its name.
    let assert = compare().args(["out/one", "out/two", "-o", "page"]).assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(told.ends_with("\nwritten  page.html\n"), "{told}");
    assert_data_eq!(
        String::from_utf8_lossy(&assert.get_output().stdout).into_owned(),
        str![[r#"
A  out/one: Set, title=Set (6 seeds: 6 finished)
B  out/two: Set, title=Set (6 seeds: 6 finished)

B against A                      A            B            B / A (95 %)
flows not finished               0            0  same
last flow done, us [..]
...
"#]]
    );
    let page = fs::read_to_string(path("page.html")).unwrap();
    assert!(page.contains("Flow by flow, B against A"));
    let documents = sim().args(["--seeds", "2", "--json"]).output().unwrap().stdout;
    let documents = String::from_utf8(documents).unwrap();
    assert!(documents.starts_with("{\n  \"figures\": ["), "{documents}");
    assert_eq!(documents.matches("\n      \"seed\": 2").count(), 2, "one in each: {documents}");
    let output = compare().args(["--json", "out/one", "out/two"]).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&output).contains("\"origin\": \"simulated\""));
    compare().args(["out/one", "out"]).assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: there is no out/seeds.parquet
hint: results are what `ferroce sim SCENARIO -o FOLDER` leaves behind

"#]]);
    let flows = path("out/one/flows.parquet");
    let mut bytes = fs::read(&flows).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&flows, bytes).unwrap();
    let assert = compare().args(["out/one", "out/two"]).assert().code(125).stdout_eq("");
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(told.starts_with("error: out/one/flows.parquet is damaged: "), "{told}");
}

/// An incast into a short lossy queue: what is lost at the end of a message waits for a timeout.
const LOSSY: &str = r#"
title = "Lossy"
end_ms = 20
[topology]
shape = "single-switch"
hosts = 17
rate_gbps = 100
[switch]
lossless_priorities = []
lossy_queue_bytes = 30_000
[[workload]]
kind = "incast"
receiver = "h0"
message_bytes = 200_000
"#;

#[test]
fn sim_tries_what_takes_longer_than_a_run_that_only_waited() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("lossy.toml");
    fs::write(&path, LOSSY).unwrap();
    let sim = |more: &[&str]| {
        let output = ferroce().arg("sim").arg(&path).args(more).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let told = sim(&[]);
    assert!(told.contains("tried: switch.lossless_priorities=[3] helps: finished at "), "{told}");
    let told = sim(&["--no-trials"]);
    assert!(told.contains("to try: --set 'switch.lossless_priorities=[3]'"), "{told}");
}

/// Whether anywhere stands "1 to 2".
fn has_interval(told: &str) -> bool {
    told.match_indices(" to ")
        .any(|(at, _)| told[..at].ends_with(|last: char| last.is_ascii_digit()))
}

#[test]
fn sim_with_many_seeds_and_no_chance_says_that_they_are_one_draw() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let network = LOSSY.split("[switch]").next().unwrap();
    let flow =
        "[[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h0\"\nmessage_bytes = 200_000\n";
    fs::write(path("flow.toml"), format!("{network}{flow}")).unwrap();
    let sim = || ferroce().current_dir(folder.path()).args(["sim", "flow.toml", "--seeds", "8"]);
    let assert = sim().args(["-o", "a"]).assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    // Not the seeds of the title.
    let told = told.split_once('\n').unwrap().1.to_owned();
    assert!(told.contains("  chance       none: each seed came to the same"), "{told}");
    assert!(!has_interval(&told), "{told}");
    sim().args(["-o", "b", "--set", "workload.message_bytes=100000"]).assert().success();
    let compare = ferroce().current_dir(folder.path()).args(["compare", "a", "b"]).assert();
    let told = String::from_utf8_lossy(&compare.success().get_output().stdout).into_owned();
    assert!(told.contains("!  all seeds of A and of B came to the same"), "{told}");
    assert!(!has_interval(&told), "{told}");
}

#[test]
fn flows_that_are_drawn_for_another_simulator_are_a_trace_here() {
    let folder = TempDir::new().unwrap();
    let script = format!("{}/../../scripts/ns3-draws", env!("CARGO_MANIFEST_DIR"));
    let drawn = Process::new(&script).args(["draw", "--seed", "3"]).arg(folder.path()).output();
    let drawn = drawn.unwrap();
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let trace = fs::read_to_string(folder.path().join("3.csv")).unwrap();
    let list = fs::read_to_string(folder.path().join("3.txt")).unwrap();
    let flows = trace.lines().count() - 1;
    assert_eq!(list.lines().next().unwrap(), flows.to_string());
    assert_eq!(list.lines().count(), flows + 1);
    let file = format!("workload.trace_file={}", folder.path().join("3.csv").display());
    let check = ["sim", "--check", &scenario("controls/ns3/hpcc"), "--set", &file];
    let told = ferroce().args(check).assert().success();
    let told = String::from_utf8_lossy(&told.get_output().stdout).into_owned();
    let said = format!(" {},{:03} flows, until 200 ms", flows / 1_000, flows % 1_000);
    assert!(told.contains(&said), "{told}");
}

/// 65,536 hosts, of which two talk.
const LARGE: &str = r#"
end_ms = 0.1

[topology]
shape = "leaf-spine"
leaves = 512
spines = 8
hosts = 128
rate_gbps = 100

[[workload]]
kind = "flow"
from = "h0"
to = "h65535"
message_bytes = 1_000
"#;

#[test]
fn sim_shows_on_a_terminal_that_it_builds() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("large.toml");
    fs::write(&path, LARGE).unwrap();
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let terminal = File::options().read(true).write(true).open(name).unwrap();
    let mut child = Process::new(env!("CARGO_BIN_EXE_ferroce"))
        .arg("sim")
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(terminal)
        .spawn()
        .unwrap();
    let mut shown = Vec::new();
    // The end of a terminal that nobody has open any more is an error.
    let _ = File::from(ours).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("building a network of 65536 hosts"), "{shown:?}");
}

#[test]
fn sim_finds_the_deadlock_and_fails() {
    let command = ferroce().args(["sim", &scenario("deadlock")]);
    command.assert().code(3).stderr_eq("error: the network is deadlocked\n").stdout_eq(str![[r#"
Deadlock by flooding, figure 4 (simulated)
  DEADLOCK at 2.000 ms: these queues wait for each other
    T0 port to La, queue 3
    La port to T1, queue 3
    T1 port to Lb, queue 3
    Lb port to T0, queue 3
  flows        5 (0 finished, 0 failed)
  completed    8 messages, of flows without an end
...
  finding      deadlock: each of these ports is paused by the next, for ever:
               T0 -> La, La -> T1, T1 -> Lb, Lb -> T0, T0 -> La
               change: packets must not go up again once they have gone down:
               with switch.incomplete_arp = "drop" none is flooded
               tried: switch.incomplete_arp=drop helps: no deadlock by 2.000 ms
               (was one), [..]
...
"#]]);
}

/// A scenario in which nothing fits.
const MISFIT: &str = r#"
title = "Misfit"
end_ms = 1

[topology]
shape = "leaf-spine"
leaves = 2
spines = 1
hosts = 2
rate_gbps = 400
cable_m = 100

[switch]
buffer_bytes = 4_000_000
headroom_bytes = 20_000
balance = "packet"

[switch.ecn]
min_bytes = 2_000_000
max_bytes = 3_000_000
max_probability = 0.1

[switch.watchdog]
rule = "broadcom"
poll_ms = 0.05
detection_ms = 0.01
restoration_ms = 1

[switches.spine0]
lossless_priorities = [4]
buffer_bytes = 30_000

[nic]
congestion = "dcqcn"

[[workload]]
kind = "permutation"
message_bytes = 1_000
"#;

#[test]
fn sim_check_warns_of_settings_that_defeat_each_other_and_fails_if_nothing_can_be_built() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("misfit.toml");
    fs::write(&path, MISFIT).unwrap();
    let expected = str![[r#"
Misfit
  4 hosts, 3 switches, 6 links, 4 flows, until 1 ms

9 warnings
  ! leaf0, leaf1: groups 3-4 have 20,000 bytes of headroom at 3 ports, and
    56,610 are needed for 400 Gb/s over 100 m: lossless packets can be lost
  ! leaf0, leaf1: queue 3 marks from 2,000,000 bytes, and one sender is paused
    at 228,235: pauses come before marks; lower min_bytes, or raise alpha
  ! leaf0, leaf1: the watchdog has a detection time of 10 us, and looks every 50
    us: it cannot tell a storm that short
  ! leaf0, leaf1: packets are sprayed, and overtake each other; go-back-n and
    go-back-0 take that for losses, and send everything from there on again: use
    recovery "selective-repeat", or balance "flow"
  ! spine0: the buffer of 30,000 bytes is less than the 40,000 of reserves and
    headrooms: there is no such switch; make the buffer larger, or headroom,
    reserves or cables smaller
  ! spine0: group 4 has 20,000 bytes of headroom at 2 ports, and 56,610 are
    needed for 400 Gb/s over 100 m: lossless packets can be lost
  ! spine0: the watchdog has a detection time of 10 us, and looks every 50 us:
    it cannot tell a storm that short
  ! spine0: packets are sprayed, and overtake each other; go-back-n and
    go-back-0 take that for losses, and send everything from there on again: use
    recovery "selective-repeat", or balance "flow"
  ! DSCP 3 is lossless at leaf0, leaf1 and lossy at spine0

leaf0, leaf1
  ports      2 hosts at 400 Gb/s over 100 m; 1 switch at 400 Gb/s over 100 m
  layers     800 Gb/s below, 400 above: oversubscribed 2 to 1
  buffer     4,000,000 bytes: 3,880,000 shared, 0 reserved, 120,000 headroom
  classes    DSCP 3, 24-31 -> TC 3 -> group 3 -> queue 3, lossless (priority 3)
             DSCP 4, 32-39 -> TC 4 -> group 4 -> queue 4, lossless (priority 4)
             the others are lossy
  groups 3-4 XOFF at 228,235 bytes alone, 204,210 with all 3 ports congested
             (alpha 1/16); XON 4,608 below that
             headroom 20,000 at 3 ports of 400 Gb/s and 100 m: 56,610 needed,
             118,044 by SONiC's formula, TOO LITTLE
  ECN        queues 0-2, 5-7 from 2,000,000 bytes, up to 10 % at 3,000,000
             queues 3-4 from 2,000,000 bytes, up to 10 % at 3,000,000, after
             pauses
  schedule   every queue alike
  paths      by packet
  watchdog   SONiC's on Broadcom, at 3 ports: looks every 50 us, drops after 10
             us, until 1 ms of quiet

spine0
  ports      2 switches at 400 Gb/s over 100 m
  buffer     30,000 bytes: 0 shared, 0 reserved, 40,000 headroom
  classes    DSCP 4, 32-39 -> TC 4 -> group 4 -> queue 4, lossless (priority 4)
             the others are lossy
  group 4    XOFF at 0 bytes alone, 0 with all 2 ports congested (alpha 1/16);
             XON 4,608 below that
             headroom 20,000 at 2 ports of 400 Gb/s and 100 m: 56,610 needed,
             118,044 by SONiC's formula, TOO LITTLE
  ECN        queues 0-3, 5-7 from 2,000,000 bytes, up to 10 % at 3,000,000
             queue 4 from 2,000,000 bytes, up to 10 % at 3,000,000, after pauses
  schedule   every queue alike
  paths      by packet
  watchdog   SONiC's on Broadcom, at 2 ports: looks every 50 us, drops after 10
             us, until 1 ms of quiet

NICs
  settings   MTU 1024, go-back-N, DCQCN, lossless priorities 3-4
  DCQCN      at 400 Gb/s at every host: additive_mbps 400, hyper_mbps 2,000,
             rate_timer_us 55, byte_counter_bytes 100,000,000,
             fast_recovery_steps 5, min_mbps 1,000, max_mbps 0, first_mbps 0,
             initial_alpha_1024ths 1,024, alpha_gain_1024ths 4, alpha_timer_us
             55, cut_log2 11, cut_floor_percent 0, cut_interval_us 0,
             clamp_target 1, clamp_target_after_timer 1, cut_on_loss 1,
             cnp_interval_us 50, cnp_dscp 48
  recovery   to 99 % of 400 Gb/s in 19.9 ms after two CNPs in a row, 39.5 ms
             after sixteen
  flows      DSCP 3 -> priority 3

"#]];
    ferroce().args(["sim", "--check"]).arg(&path).assert().code(125).stdout_eq(expected);
}

#[test]
fn sim_says_before_a_run_that_settings_look_wrong() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spray.toml");
    let (network, _) = MISFIT.split_once("buffer_bytes").unwrap();
    let flows = "[[workload]]\nkind = \"permutation\"\nmessage_bytes = 1_000\n";
    fs::write(&path, format!("{network}balance = \"packet\"\n{flows}")).unwrap();
    let said = "warning: 2 settings look wrong: see `ferroce sim --check [..]/spray.toml`\n";
    for more in [vec![], vec!["--seeds", "2"]] {
        ferroce().arg("sim").arg(&path).args(more).assert().success().stderr_eq(said);
    }
    let quiet = ["--set", "nic.recovery=selective-repeat"];
    ferroce().arg("sim").arg(&path).args(quiet).assert().success().stderr_eq("");
}

#[test]
fn sim_says_what_may_be_written_in_a_table() {
    let expected = str![[r#"
[nic.tcp]
The TCP of a host. Between an application and the stack a message is under way
for kernel_floor_us, and longer by kernel_mean_us on average, exponentially
distributed.

  mtu_bytes        a whole number from 576 to 9216, in bytes; otherwise 1500
                   An IP packet at most.

  buffer_bytes     a whole number from 2048 to 268435456, in bytes; otherwise
                   262144
                   The buffer of a connection in each direction, and so its
                   window.

  congestion       "reno" or "cubic"; otherwise "reno"
                   What a loss means to a sender.

  kernel_floor_us  a number from 0, in us; otherwise 15
                   The least that a message takes between application and stack.

  kernel_mean_us   a number from 0, in us; otherwise 43
                   What is added on average.

"#]];
    ferroce().args(["sim", "--keys", "nic.tcp"]).assert().success().stdout_eq(expected);
    let all = ferroce().args(["sim", "--keys"]).assert().success();
    let all = String::from_utf8_lossy(&all.get_output().stdout).into_owned();
    for text in ["end_ms", "[topology] shape = \"fat-tree\"", "reroute_us", "ecmp_seed", "balance"]
    {
        assert!(all.contains(text), "{text}");
    }
    assert!(all.lines().all(|line| line.len() <= 80), "{all}");
    let expected = "error: there is no table \"nick\"\nhint: tables are [topology], ";
    let assert = ferroce().args(["sim", "--keys", "nick"]).assert().code(125);
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(stderr.starts_with(expected), "{stderr}");
}

#[test]
fn sim_names_the_line_of_a_misspelt_key() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad.toml");
    let text = fs::read_to_string(scenario("incast")).unwrap();
    fs::write(&path, text.replace("uplink_cable_m", "uplink_cabel_m")).unwrap();
    let assert = ferroce().arg("sim").arg(&path).assert().code(125);
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let expected =
        "bad.toml: line 14: unknown key `uplink_cabel_m`\nhint: did you mean `uplink_cable_m`?\n";
    assert!(stderr.ends_with(expected), "{stderr}");
}

#[test]
fn papers_holds_a_claim_against_what_was_measured_and_writes_what_there_is_to_see() {
    let folder = TempDir::new().unwrap();
    let command = ferroce().args(["papers", "guo16", "figure-3", "-o"]).arg(folder.path());
    let assert = command.assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let (table, written) = told.split_once("\nwritten  ").unwrap();
    let page = folder.path().join("guo16.html");
    assert_eq!(written, format!("4 files: see {}\n", page.display()));
    let first =
        "guo16.dscp.pfc (3, figure 3): holds\n  paper     PCP is lost at the subnet boundary";
    assert!(table.starts_with(first), "{table}");
    assert!(
        table.contains("\n1 claim, 1 measured: of these 1 holds, 0 hold at another scale"),
        "{table}"
    );
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("guo16.txt"), table.as_bytes());
    assert!(String::from_utf8(read("guo16.html")).unwrap().contains("guo16.dscp.pfc: holds"));
    let data = "series,switch,priority_group\nVLAN,first ToR,3\nVLAN,router,0\n";
    assert!(read("guo16-figure-3.csv").starts_with(data.as_bytes()));
    assert_eq!(read("guo16-figure-3.parquet")[..4], *b"PAR1");
}

#[test]
fn papers_writes_its_scenarios_which_sim_runs() {
    let folder = TempDir::new().unwrap();
    let papers = ["papers", "guo16", "livelock", "--scenarios", "own"];
    let write = || ferroce().current_dir(folder.path()).args(papers).assert();
    write().success().stderr_eq("").stdout_eq(str![[r#"
written own/livelock.toml
The first lines of each say what is run with it.

"#]]);
    write().code(125).stderr_eq(str![[r#"
error: cannot write own/livelock.toml: File exists (os error 17)
hint: name a folder of no such files

"#]]);
    let row = ["sim", "own/livelock.toml", "--no-trials", "--set", "nic.recovery=go-back-0"];
    let run = ferroce().current_dir(folder.path()).args(row).assert().success();
    run.stdout_eq(str![[r#"
...
  finding      wasted link: s0 -> h1 carried [..]
...
               to try: --set 'nic.recovery=go-back-n'
               to try: --set 'nic.recovery=selective-repeat'
...
"#]]);
    let other = ferroce().args(["papers", "le19", "--scenarios", "own"]).assert();
    other.code(125).stderr_eq(str![[r#"
error: only guo16 is made of scenarios
hint: the others run on modelled hosts: see `ferroce bench --world sim --testbed`

"#]]);
}

#[test]
fn papers_says_which_claims_there_are() {
    let assert = ferroce().args(["papers", "guo16", "figure-11"]).assert().code(125);
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let expected = "error: there is no claim or figure \"figure-11\"\nhint: livelock.go-back-0, ";
    assert!(stderr.starts_with(expected), "{stderr}");
}
