//! `ferroce pingmesh`.

mod agents;

use core::time::Duration;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use snapbox::str;

use super::ferroce;

/// A scenario of the repository.
fn scenario(name: &str) -> String {
    format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn pingmesh_names_the_nic_that_storms_in_a_simulation() {
    let storm = scenario("pingmesh/storm");
    ferroce().args(["pingmesh", "sim", &storm]).assert().success().stderr_eq("").stdout_eq(str![[
        r#"
pingmesh of "A NIC that storms, among 32 servers" (simulated): 32 hosts, 6
windows of 20 ms
scope   probes answered timeout error clocks unknown p50 us    p99  p99.9  resp.
tor      16932    14937     898  1097      0       0    0.3    0.4    0.5   10.1
podset    1688     1225     351   112      0       0    1.2    1.4    3.7   10.3
dc         566      387     143    36      0       0    7.6    9.9   15.1   11.1
verdict: NIC of h5: pauses without end, since 40 ms, confirmed
  h5 has stopped the port of tor0-1 for 100.0 % of its worst window (358 pause
  frames), and nothing is below a NIC
  of 594 probes of it 370 were not answered; the 99th percentile of a pair is
  1.2 us there, and 1.2 us elsewhere
  agrees: the NIC of h5 counts 358 pause frames that it has sent
also seen: link h12-tor0-3: loses packets
also seen: link h13-tor0-3: loses packets
also seen: link h5-tor0-1: carries nothing
also seen: 5 more, which may follow from that as well

"#
    ]]);
}

#[test]
fn a_short_run_has_windows_enough_or_says_what_it_is_too_short_for() {
    let sim = |more: &[&str]| {
        let command = ferroce().args(["pingmesh", "sim", &scenario("alpha")]).args(more).assert();
        String::from_utf8(command.success().get_output().stdout.clone()).unwrap()
    };
    let said = sim(&[]);
    assert!(said.contains("3.334 ms"), "{said}");
    assert!(said.contains("\nverdict: ToR leaf2: pauses sooner than its like"), "{said}");
    assert!(!said.contains("too short"), "{said}");
    let row = said.lines().find(|line| line.starts_with("tor ")).unwrap();
    let of: Vec<u64> =
        row.split_whitespace().skip(1).take(6).map(|it| it.parse().unwrap()).collect();
    assert_eq!(of[0], of[1..].iter().sum::<u64>(), "{row}");

    let said = sim(&["--window-ms", "20"]);
    assert!(said.contains("verdict: nothing wrong"), "{said}");
    assert!(
        said.contains("too short to judge switches that pause sooner than their like"),
        "{said}"
    );
}

#[test]
fn pingmesh_says_what_is_wrong_with_what_it_is_given() {
    ferroce().args(["pingmesh", "sim", "nowhere.toml"]).assert().code(125).stdout_eq("").stderr_eq(
        str![[r#"
error: cannot read nowhere.toml: No such file or directory (os error 2)
hint: a scenario is a TOML file, such as those in scenarios/pingmesh

"#]],
    );
    ferroce()
        .args(["pingmesh", "trial", "--fault", "cosmic ray"])
        .assert()
        .code(125)
        .stdout_eq("")
        .stderr_eq(str![[r#"
error: no fault has such a name
hint: nothing, dead link, link losing 0.1 %, storming NIC, slow receiver, ToR with alpha 1/64, busy host, ToR with wrong DSCP map, two dead links, two links losing 0.1 %

"#]]);
}

#[test]
fn a_trial_tells_what_was_injected_and_what_was_said() {
    let trial = ["pingmesh", "trial", "--fault", "wrong DSCP", "--seeds", "1", "--explain"];
    ferroce().args(trial).assert().success().stderr_eq("").stdout_eq(str![[r#"
ToR with wrong DSCP map  seed 1    ToR tor0-0               right
verdict: ToR tor0-0: queues its packets otherwise than its like, since 0 ms
  tor0-0 has sent 100 % of its packets by queue 1; the median of the other 5 switches of its tier is 0 %

fault                    trials  right  recall  precision
ToR with wrong DSCP map       1      1   100 %      100 %
115184 probes in 1 simulated networks

"#]]);
}

/// A collector at a free port of loopback, in a folder with its key.
struct Collecting {
    folder: tempfile::TempDir,
    child: Child,
    address: String,
}

impl Collecting {
    fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "a key that both of them have").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
        command.args(["pingmesh", "collect", "--topology", &scenario("pingmesh/four-hosts")]);
        command.args(["--db", "mesh.db", "--key", "key", "--listen", "127.0.0.1:0"]);
        command.args(["--window-ms", "500"]).args(more).current_dir(folder.path());
        command.stdout(Stdio::piped()).stderr(File::create(folder.path().join("stderr")).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(' ').nth(2).unwrap().to_owned();
        Self { folder, child, address }
    }

    fn load(&self, windows: u32) -> snapbox::cmd::OutputAssert {
        let topology = scenario("pingmesh/four-hosts");
        let command = ferroce().args(["pingmesh", "load", "--topology", &topology, "--key", "key"]);
        let command = command.args(["--collector", &self.address]);
        let command = command.args(["--windows", &windows.to_string()]);
        command.current_dir(self.folder.path()).assert()
    }

    /// What it has said on standard error, once that contains something.
    fn says(&self, what: &str) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let said = fs::read_to_string(self.folder.path().join("stderr")).unwrap();
            if said.contains(what) {
                return said;
            }
            assert!(Instant::now() < until, "not \"{what}\" but {said}");
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_load_of_few_agents_is_taken_whole() {
    Collecting::start(&["--rate", "10"]).load(2).success().stdout_eq(str![[r#"
4 agents have said hello in [..] s; windows are 500 ms
window 1: 4 kept, 0 not; answered after [..] ms (p50), [..] ms (p99); at most [..] ms behind
window 2: 4 kept, 0 not; answered after [..] ms (p50), [..] ms (p99); at most [..] ms behind

"#]]);
}

#[test]
fn whoever_has_no_key_keeps_few_places_for_a_while_and_is_counted() {
    let collecting = Collecting::start(&[]);
    let connect = || {
        let stream = TcpStream::connect(&collecting.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let silent: Vec<TcpStream> = (0..40).map(|_| connect()).collect();
    // All are closed, though they say nothing: some at once, the others after their two seconds.
    for mut stream in silent {
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() <= 32, "{heard:?}");
    }
    collecting.load(1).success();
    let said = collecting.says("refused so far: ");
    let said = said.lines().find(|line| line.contains("refused so far")).unwrap();
    assert!(said.contains(" connections beyond 32 of one address, "), "{said}");
    assert!(said.ends_with("; the last from 127.0.0.1"), "{said}");
}

#[test]
fn a_collector_is_told_what_is_wrong_with_what_it_is_to_read_beside() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "a key that both of them have").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let collect = |more: [&str; 2]| {
        let topology = scenario("pingmesh/four-hosts");
        let command = ferroce().args(["pingmesh", "collect", "--topology", &topology]);
        let command = command.args(["--db", "mesh.db", "--key", "key", "--listen", "127.0.0.1:0"]);
        command.args(more).current_dir(folder.path()).assert().code(125).stdout_eq("")
    };
    collect(["--cluster", "nowhere"]).stderr_eq(str![[r#"
error: cannot read nowhere: No such file or directory (os error 2)
hint: --cluster names a folder as `ferroce doctor` reads it: one for each device

"#]]);
    fs::create_dir_all(folder.path().join("cluster/other")).unwrap();
    fs::write(folder.path().join("cluster/other/config_db.json"), "{}").unwrap();
    collect(["--cluster", "cluster"]).stderr_eq(str![[r#"
error: no device of cluster has the name of one in the topology
hint: folders and the topology name hosts and switches alike

"#]]);
}

#[test]
fn a_collector_has_its_file_for_itself() {
    let collecting = Collecting::start(&[]);
    let topology = scenario("pingmesh/four-hosts");
    let command =
        ferroce().args(["pingmesh", "collect", "--topology", &topology, "--db", "mesh.db"]);
    let command = command.args(["--key", "key", "--listen", "127.0.0.1:0", "--window-ms", "500"]);
    let second = command.current_dir(collecting.folder.path()).assert();
    second.code(125).stdout_eq("").stderr_eq(str![[r#"
error: mesh.db: another collector writes to it
hint: --db names another file; one collector can take all agents

"#]]);
}

#[test]
fn a_report_of_a_file_without_windows_gives_no_verdict_and_leaves_the_file() {
    let collecting = Collecting::start(&[]);
    let report = |more: &[&str]| {
        let command = ferroce().args(["pingmesh", "report", "mesh.db"]).args(more);
        command.current_dir(collecting.folder.path()).assert()
    };
    report(&["-o", "./mesh.db"]).code(125).stdout_eq("").stderr_eq(str![[r#"
error: ./mesh.db is the collector's file
hint: -o names another file, for the page

"#]]);
    report(&[]).success().stdout_eq(str![[r#"
pingmesh of 4 hosts, none of which has told anything in that time
scope   probes answered timeout error clocks unknown p50 us    p99  p99.9  resp.
windows: 0 of 0 hosts, 0 missing between the first and the last of each
single probes: 0 in the file, 0 of them failed or slow
verdict: none, without probes

"#]]);
}

#[test]
fn a_report_says_of_a_file_that_is_no_collector_s_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let report = |name: &str| {
        let command = ferroce().args(["pingmesh", "report", name]);
        command.current_dir(folder.path()).assert().code(125).stdout_eq("")
    };
    fs::write(folder.path().join("empty.db"), "").unwrap();
    report("empty.db").stderr_eq(str![[r#"
error: empty.db: it is empty
hint: a collector makes it, and has not begun to: ferroce pingmesh collect --db FILE

"#]]);
    report("absent.db").stderr_eq(str![[r#"
error: absent.db: unable to open database file: absent.db
hint: a collector writes it: ferroce pingmesh collect --db FILE

"#]]);
}

#[test]
fn single_probes_of_a_load_are_kept_within_the_bound_and_counted() {
    let collecting = Collecting::start(&["--rate", "10", "--single-probes", "20"]);
    collecting.load(3).success();
    let command = ferroce().args(["pingmesh", "report", "mesh.db", "--parquet", "tables"]);
    let output = command.current_dir(collecting.folder.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    // Half of them are for those that failed or were slow, of which there are none.
    assert!(said.contains("single probes: 10 in the file, 0 of them failed or slow; "), "{said}");
    let file = File::open(collecting.folder.path().join("tables/probes.parquet")).unwrap();
    assert_eq!(telemetry::Table::read_parquet(file).unwrap().0.len(), 10);
}
