//! `ferroce pingmesh`.

use core::time::Duration;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;

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
  scope    probes answered timeout  error invalid p50 us    p99  p99.9 responder
  tor       16941    14936     222      0       0    1.8    2.5    2.7       9.3
  podset     1688     1225      31      0       0    2.7    3.5    4.9       9.3
  dc          566      387      10      0       0    9.2   11.4   17.5       9.5
verdict: NIC of h5: pauses without end, since 40 ms
  h5 has stopped the port of tor0-1 for 100.0 % of its worst window (358 pause
  frames), and nothing is below a NIC
  of 350 probes of it 126 were not answered; the 99th percentile of a pair is 3
  us there, and 3 us elsewhere
also seen: link h5-tor0-1: carries nothing

"#
    ]]);
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
hint: nothing, dead link, link losing 0.1 %, storming NIC, slow receiver, ToR with alpha 1/64, busy host, ToR with wrong DSCP map

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

#[test]
fn a_load_of_few_agents_is_taken_whole() {
    let folder = tempfile::TempDir::new().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "some key of thirty-two bytes, or more\n").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let topology = scenario("pingmesh/four-hosts");
    let mut collector = Command::new(env!("CARGO_BIN_EXE_ferroce"))
        .args(["pingmesh", "collect", "--db", "big.db", "--rate", "10", "--window-ms", "500"])
        .args(["--topology", &topology, "--key", "key", "--listen", &free])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while TcpStream::connect(&free).is_err() && collector.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(20));
    }
    let load = ["pingmesh", "load", "--key", "key", "--windows", "2"];
    let load = ferroce()
        .args(load)
        .args(["--topology", &topology, "--collector", &free])
        .current_dir(folder.path())
        .assert();
    collector.kill().unwrap();
    collector.wait().unwrap();
    load.success().stdout_eq(str![[r#"
4 agents have said hello in [..] s; windows are 500 ms
window 1: 4 kept, 0 not; answered after [..] ms (p50), [..] ms (p99); at most [..] ms behind
window 2: 4 kept, 0 not; answered after [..] ms (p50), [..] ms (p99); at most [..] ms behind

"#]]);
}
