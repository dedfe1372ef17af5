//! The `config_db.json` of a switch in the place of a scenario, and what `--check` says besides text.

use std::fs;
use std::path::PathBuf;

use snapbox::str;
use tempfile::TempDir;

use super::{ferroce, scenario};

/// A folder with the file of a switch.
fn switch() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("switch.json");
    let of = scenario("sonic/td3-tor").replace(".toml", ".json");
    fs::copy(of, &path).unwrap();
    (folder, path)
}

#[test]
fn a_switch_alone_is_explained_and_run_with_a_host_at_each_port() {
    let (folder, _) = switch();
    let sim = |arguments: &[&str]| {
        let command = ferroce().current_dir(folder.path()).arg("sim");
        command.args(arguments).arg("switch.json").assert()
    };
    let said = str![[r#"
note: switch.json is the configuration of a switch: this is a scenario with a host at each port, which `ferroce sim --init switch.json` writes

"#]];
    sim(&["--check", "--strict"]).success().stderr_eq(said.clone()).stdout_eq(str![[r#"
The switch of switch.json
  32 hosts, 1 switch, 32 links, 16 flows, until 20 ms

no warnings
...
"#]]);
    sim(&["--no-trials"]).success().stderr_eq(said).stdout_eq(str![[r#"
The switch of switch.json (simulated)
  finished at [..]
...
  finding      idle link: s0 -> h0 carried [..]
...
               to try: --set 'nic.dcqcn.rate_timer_us=5'
               to try: --set 'nic.congestion=none'
...
"#]]);
    sim(&["--init"]).success().stdout_eq(str![[r#"
written switch.toml: see `ferroce sim --check switch.toml`, and change its flows

"#]]);
    sim(&["--init"]).code(125).stderr_eq(str![[r#"
error: cannot write switch.toml: File exists (os error 17)
hint: remove it, or give the JSON file another name

"#]]);
    let check = ["sim", "--check", "--strict", "switch.toml"];
    ferroce().current_dir(folder.path()).args(check).assert().success().stderr_eq("");
    let command = ["sim", "--init", "switch.toml"];
    ferroce().current_dir(folder.path()).args(command).assert().code(125).stderr_eq(str![[r#"
error: switch.toml is no config_db.json
hint: --init takes what `show runningconfiguration all` says on a SONiC switch

"#]]);
}

#[test]
fn a_file_called_json_is_read_as_such_whatever_is_in_it() {
    let (folder, path) = switch();
    let check =
        || ferroce().current_dir(folder.path()).args(["sim", "--check", "switch.json"]).assert();
    let text = fs::read_to_string(&path).unwrap();
    // As editors of Windows write it.
    fs::write(&path, format!("\u{feff}{text}")).unwrap();
    check().success();
    for text in ["", "[]", "title = \"no switch\""] {
        fs::write(&path, text).unwrap();
        check().code(125).stderr_eq(str![[r#"
error: switch.json: line 1: the file: it is no JSON: [..]
hint: expected an object of tables, as `show runningconfiguration all` prints it

"#]]);
    }
}

#[test]
fn warnings_are_json_and_with_strict_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("late.toml");
    let late = "end_ms = 1\n[topology]\nshape = \"back-to-back\"\nrate_gbps = 40\n[[workload]]\n\
                kind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nmessage_bytes = 1_024\nstart_us = 5_000\n";
    fs::write(&path, late).unwrap();
    let check = ferroce().args(["sim", "--check", "--json"]).arg(&path).assert().success();
    let check: serde_json::Value = serde_json::from_slice(&check.get_output().stdout).unwrap();
    assert_eq!(check["warnings"].as_array().unwrap().len(), 1);
    assert_eq!((&check["hosts"], &check["size"]["hosts"]), (&serde_json::Value::Null, &2.into()));
    assert!(check["explanation"][0].is_string());
    for seeds in [&[][..], &["--seeds", "2"]] {
        let run = ferroce().args(["sim", "--strict"]).args(seeds).arg(&path).assert();
        run.code(1).stdout_eq("").stderr_eq(str![[r#"
error: [..]/late.toml: 1 warning, and --strict: line 10: workload.start_us is after the end of the run, 1.000 ms: nothing of it is sent
hint: `ferroce sim --check [..]/late.toml` says all

"#]]);
    }
    ferroce().arg("sim").arg(&path).assert().success().stdout_eq(str![[r#"
...
  finding      nothing simulated: no packet was sent: no flow begins before
               1.000 ms
               change: raise end_ms, or let the workload begin sooner

"#]]);
}
