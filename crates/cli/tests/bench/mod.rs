//! `ferroce bench`.

use core::time::Duration;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use snapbox::str;
use tempfile::TempDir;

use super::ferroce;

/// `ferroce` as a process that is not waited for, on loopback.
fn process(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FERROCE_") {
            command.env_remove(name);
        }
    }
    command
}

/// Arguments of a run that is over soon.
const SHORT: [&str; 4] = ["--length-ms", "200", "--warmup-ms", "20"];

#[test]
fn help_of_bench_shows_flags_and_examples() {
    ferroce().args(["bench", "--help"]).assert().success().stderr_eq("").stdout_eq(str![[r#"
Measure verbs: bandwidth, rates and latencies of any number of flows at once

Usage: ferroce bench [OPTIONS] [VERB|FILE]
       ferroce bench <COMMAND>

Commands:
  serve      Serve clients of other processes or hosts, one after the other
  compare    Hold the results of two runs against each other: ratios, with an
             interval each
  isolation  What flows do to each other: every kind beside every other, as a
             heat map

Arguments:
  [VERB|FILE]
          A verb, or a flow file, such as flows/mix.toml

Options:
      --size <BYTES>
          Payload of a message

      --window <NUMBER>
          Operations outstanding on each queue pair

      --wait <MODE>
          How the end of an operation is waited for: poll, event or memory

      --queue-pairs <NUMBER>
          Queue pairs of each thread

      --threads <NUMBER>
          Threads at each end, each with a NIC of its own

      --rate <NUMBER>
          Operations a second, all threads together; otherwise the next begins
          when one ends

      --length-ms <MILLISECONDS>
          How long is measured

      --warmup-ms <MILLISECONDS>
          How long is run before that

      --hogs <CORES>
          So many cores, from core 0 on, have a task that never waits: a solver
          of queens on a chessboard

      --verify
          Check every payload

      --set <KEY=VALUE>
          Set a key of all flows, such as inline=true, depends=3 or
          latency_p99_us_max=50

      --sweep <KEY=VALUE,...>
          Run once for each value, or for each combination of several sweeps

      --testbed <NAME|FILE>
          Simulated hosts: cx3-10g-arm, cx3-40g-ethernet, cx3-40g-xeon,
          cx3-56g-xeon, cx4-100g-power8, or a file like those of
          studies/testbeds/

      --hosts <NUMBER>
          How many simulated hosts there are under one switch: h0 serves, the
          others ask

      --topology <FILE>
          A file with the table of a scenario's topology, for simulated hosts

      --seed <NUMBER>
          Of what is left to chance in a simulation

      --connect <HOST:PORT>
          The address of a `ferroce bench serve`; otherwise both ends are in
          this process

      --json <FILE>
          Write the results as one JSON document; - for stdout, instead of the
          text

  -o, --output <FOLDER>
          A folder for report.html, results.json, the summary, and tables as
          Parquet

      --world <WORLD>
          Where time passes

          Possible values:
          - soft: Soft NICs of this machine, in real time
          - nic:  RDMA devices of this machine, by its own libibverbs
          - sim:  Simulated hosts of a testbed, in model time
          
          [default: soft]

      --dev <INTERFACE,...>
          Interfaces of those that ask and of those that serve, such as
          lo/127.0.0.1,lo/127.0.0.2, otherwise those of FERROCE_DEV, or
          loopback; in the world nic devices, such as mlx5_0, otherwise the
          first

      --link <LINK>
          Which way packets take to soft NICs of the same host (FERROCE_LINK)
          
          [possible values: shm, shm,icrc, udp]

      --library <FILE>
          The libibverbs.so.1 of the world nic; otherwise the one that programs
          find

      --gid-index <NUMBER>
          The place of the address in the GID table, in the world nic; otherwise
          the first for RoCEv2

  -h, --help
          Print help (see a summary with '-h')

Verbs: read, write, write_imm, send, fetch_add, compare_swap; and compound
reads, in which the server answers: write_send, send_send, write_write.

Examples:
  ferroce bench read --size 64 --wait poll
  ferroce bench write --sweep size=64,65536 --window 16 --json results.json
  ferroce bench flows/mix.toml -o results
  ferroce bench serve                             # on one host, or terminal
  ferroce bench send --connect 127.0.0.1:18516    # on another
  ferroce bench compare before.json after.json    # or a.json,b.json c.json
  ferroce bench read --world sim --testbed cx3-56g-xeon --size 64

A flag sets the key of the same name in every flow; --set sets any key of a flow
file (docs/book/bench.md). Ctrl-C ends the run: what was measured until then is
told, and said to be partial.

Exit status: 0 when all was measured; 1 when a threshold was missed, or a
payload was wrong; 125 when the run could not begin, or was cut short; 130 when
it was interrupted; 2 when the command line cannot be read.

"#]]);
}

#[test]
fn mistakes_of_bench_are_told_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("flows.toml");
    fs::write(&file, "[[flow]]\nverb = \"read\"\nsize = 64\n").unwrap();
    let said = |arguments: &[&str]| {
        let output = ferroce()
            .args([&["bench"], arguments].concat())
            .current_dir(folder.path())
            .assert()
            .code(125)
            .stdout_eq("")
            .get_output()
            .clone();
        String::from_utf8(output.stderr).unwrap()
    };
    let of_flag = said(&["read", "--dev", "eth99"]);
    let known = "error: --dev: there is no network interface `eth99`\nhint: this host has ";
    assert!(of_flag.starts_with(known), "{of_flag}");
    let all = [
        said(&[]),
        said(&["raed"]),
        said(&["flows.toml"]),
        said(&["read", "--size", "many"]),
        said(&["send", "--wait", "memory"]),
        said(&["read", "--sweep", "sise=1,2"]),
        said(&["read", "--set", "depth=3"]),
        said(&["read", "--set", "name=mouse"]),
        said(&["read", "--set", "latency_p50_us_max=-1"]),
        said(&["read", "--connect", "127.0.0.1:1"]),
        said(&["read", "--json", "no/such/folder.json"]),
        said(&["compare", "flows.toml", "flows.toml"]),
    ];
    snapbox::assert_data_eq!(
        all.join("\n"),
        str![[r#"
error: there is nothing to measure
hint: name a verb (read, write, write_imm, send, fetch_add, compare_swap, write_send, send_send, write_write), or a flow file

error: raed is no verb, and cannot be read as a file: No such file or directory (os error 2)
hint: the verbs are read, write, write_imm, send, fetch_add, compare_swap, write_send, send_send, write_write

error: flows.toml: line 3: unknown key `size`
hint: did you mean `size_bytes`?

error: size_bytes: expected a whole number from 1 to 1073741824, and found the text "many"
hint: write a value of that range; the end of the key says its unit

error: flow "send": wait: the end of a send is not to be seen in memory
hint: use wait = "poll" or "event"; or verb = "read", or "write_write", which is a ping-pong

error: unknown key `sise`
hint: did you mean `size_bytes`?

error: unknown key `depth`
hint: the keys here are name, verb, size_bytes, window, rd_atomic, wait, inline, signal_every, depends, service_us, work_us, touch, queue_pairs, threads, servers, post_list, rate_per_s, start_ms, start_within_ms, length_ms, transport, traffic_class, core, bandwidth_gbps_min, window_gbps_min, rate_per_s_min, latency_p50_us_max, latency_p99_us_max, latency_p999_us_max, count

error: name: is of a flow file alone
hint: write it in one: name = ...

error: latency_p50_us_max: expected a number from 0 on, and found -1
hint: write a value of that range; the end of the key says its unit

error: cannot reach a server at 127.0.0.1:1: Connection refused (os error 111)
hint: start `ferroce bench serve` there first, and give its address: HOST:PORT

error: cannot write no/such/folder.json: No such file or directory (os error 2)
hint: name a file in a folder of yours

error: flows.toml: not results of ferroce bench: invalid type: sequence, expected a string at line 1 column 1
hint: give files that `ferroce bench ... --json FILE` has written

"#]]
    );
}

#[test]
fn a_run_says_its_world_and_its_json_is_one_document() {
    let folder = TempDir::new().unwrap();
    let text = ferroce()
        .args(["bench", "read", "--size", "64", "--verify", "--json", "first.json", "-o", "out"])
        .args(SHORT)
        .current_dir(folder.path())
        .assert()
        .success()
        .stderr_eq("")
        .get_output()
        .clone();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("world     soft: soft NICs in real time, by "), "{text}");
    assert!(text.contains("\nread  read     64  poll    1  "), "{text}");
    assert!(text.contains(" payloads, 0 wrong\n"), "{text}");
    let json = ferroce()
        .args(["bench", "read", "--sweep", "size=64,128", "--json", "-"])
        .args(SHORT)
        .assert()
        .success()
        .get_output()
        .clone();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["world"], &json["simulated"]), (&"soft".into(), &false.into()));
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    assert_eq!(json["runs"][1]["at"]["size_bytes"], "128");
    for name in ["report.html", "results.json", "summary.txt", "flows.parquet", "windows.parquet"] {
        assert!(folder.path().join("out").join(name).exists(), "{name}");
    }
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("<strong>Measured:</strong> world soft"));
    let compared = ferroce()
        .args(["bench", "compare", "first.json", "out/results.json"])
        .current_dir(folder.path())
        .assert()
        .success()
        .get_output()
        .clone();
    let compared = String::from_utf8(compared.stdout).unwrap();
    assert!(compared.contains("\nread  1.000 ("), "{compared}");
}

#[test]
fn a_missed_threshold_is_an_exit_status() {
    let output = ferroce()
        .args(["bench", "read", "--set", "latency_p50_us_max=0.001"])
        .args(SHORT)
        .assert()
        .code(1)
        .stderr_eq("error: missed 1 of what was to be reached\n")
        .get_output()
        .clone();
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nMISSED    read: latency_p50_us "));
}

#[test]
fn after_ctrl_c_what_was_measured_is_told_as_partial() {
    let child = process(&["bench", "read", "--warmup-ms", "0", "--length-ms", "60000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nPARTIAL   interrupted\n"), "{text}");
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: interrupted: the results are partial\n"
    );
}

#[test]
fn a_server_process_and_a_client_process_measure_together() {
    use std::io::{BufRead, BufReader};
    let mut server = process(&["bench", "serve", "--listen", "127.0.0.1:0", "--once"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.strip_prefix("serving at ").unwrap().split(';').next().unwrap();
    ferroce()
        .args(["bench", "send", "--wait", "event", "--verify", "--connect", address])
        .args(SHORT)
        .assert()
        .success();
    assert!(server.wait().unwrap().success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.last().unwrap().ends_with(": done"), "{rest:?}");
}

/// No number of one end's clock is held against one of the other's: a server whose clock is a day ahead gives the
/// same latencies.
#[test]
fn clocks_that_differ_between_both_ends_do_not_matter() {
    use std::io::{BufRead, BufReader};
    let serve = process(&["bench", "serve", "--listen", "127.0.0.1:0", "--once", "--link", "udp"]);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--time", "--monotonic", "86400"]);
    let allowed = command.arg("true").output().is_ok_and(|output| output.status.success());
    if !allowed {
        // Past the test's captured output.
        let _ = std::io::stderr()
            .write_all(b"not tested: clocks that differ: no time namespaces here\n");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--time", "--monotonic", "86400", "--"]);
    command.arg(serve.get_program()).args(serve.get_args()).stdin(Stdio::null());
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.strip_prefix("serving at ").unwrap().split(';').next().unwrap();
    let json = ferroce()
        .args(["bench", "send_send", "--size", "64", "--verify", "--link", "udp", "--json", "-"])
        .args(["--connect", address])
        .args(SHORT)
        .assert()
        .success()
        .get_output()
        .clone();
    assert!(server.wait().unwrap().success());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let flow = &json["runs"][0]["flows"][0];
    assert!(flow["operations"].as_u64().unwrap() > 10, "{flow}");
    assert!(flow["latency_us"]["p50"].as_f64().unwrap() < 1e6, "{flow}");
}

#[test]
fn a_server_process_that_is_killed_ends_its_client() {
    use std::io::{BufRead, BufReader};
    let mut server = process(&["bench", "serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.strip_prefix("serving at ").unwrap().split(';').next().unwrap().to_owned();
    let client = process(&["bench", "write_send", "--connect", &address, "--length-ms", "60000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says which flows there are once a client is there.
    assert!(lines.next().unwrap().unwrap().contains("flows \"write_send\""));
    std::thread::sleep(Duration::from_millis(1000));
    server.kill().unwrap();
    server.wait().unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: the results are partial: the server is gone: "), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nPARTIAL   the server is gone"));
}

#[test]
fn the_flow_file_that_comes_with_it_is_right() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let output = ferroce()
        .args(["bench", "flows/mix.toml"])
        .current_dir(folder)
        .assert()
        .success()
        .get_output()
        .clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nmouse     read      64  poll"), "{text}");
    assert!(text.contains("\nelephant  write  65536  poll"), "{text}");
}

#[test]
fn every_verb_runs_over_a_libibverbs_and_its_payloads_are_right() {
    let library =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/dist/lib/ferroce/libibverbs.so.1");
    if !std::path::Path::new(library).exists() {
        assert!(std::env::var_os("CI").is_none(), "there is no {library}");
        eprintln!("not tested: `cargo xtask dist` has not built {library}");
        return;
    }
    for arguments in [
        "read --set depends=3",
        "write --wait event --window 8 --set post_list=4",
        "write_imm --set inline=true",
        "send --set transport=ud",
        "send --set transport=uc --wait event",
        "fetch_add --queue-pairs 4",
        "compare_swap",
        "write_send",
        "send_send --wait event",
        "write_write",
    ] {
        let output = process(&["bench"])
            .args(arguments.split(' '))
            .args(SHORT)
            .args(["--verify", "--json", "-", "--world", "nic", "--library", library])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments}: {text}{said}");
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["world"], "nic");
        let flow = &report["runs"][0]["flows"][0];
        assert!(flow["checked"].as_u64().unwrap() > 0, "{arguments}: {flow}");
        assert_eq!(flow["mismatches"], 0, "{arguments}");
    }
}

#[test]
fn what_is_wrong_with_a_library_or_its_devices_is_said() {
    let said = |arguments: &[&str]| {
        let output =
            process(&["bench", "read", "--world", "nic"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = said(&["--library", "/nonexistent.so"]);
    assert!(missing.starts_with("error: cannot load /nonexistent.so: "), "{missing}");
    assert!(missing.contains("\nhint: install libibverbs1"), "{missing}");
    let other = said(&["--library", "libc.so.6"]);
    assert!(other.starts_with("error: libc.so.6: the library has no ibv_"), "{other}");
    let link = said(&["--link", "udp"]);
    assert!(link.starts_with("error: --link is of soft NICs"), "{link}");
}

/// The least matrix there is: one round of short draws.
const ISOLATION: [&str; 7] = ["bench", "isolation", "--quick", "--rounds", "1", "--draw-ms", "20"];

#[test]
fn isolation_shows_maps_writes_every_draw_and_its_limits_are_a_gate() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let output =
        process(&ISOLATION).args(["--fairness-min", "1.1", "-o"]).arg(&out).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // An index above 1 cannot be: every crowd misses it.
    assert_eq!(output.status.code(), Some(1), "{text}{said}");
    assert_eq!(text.matches("MISSED    ").count(), 6, "{text}");
    assert!(said.contains("error: 6 limits were missed"), "{said}");
    for map in [
        "elephants: bandwidth of left over top; left event, top event",
        "mice: p99 latency of left beside top over left alone",
        "elephants beside mice: bandwidth of left beside top over left alone",
    ] {
        assert!(text.contains(&format!("\n{map}\n")), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains(": ")), "{text}");
    let json = fs::read_to_string(out.join("results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert!(cells.len() > 40);
    for cell in cells {
        let draws = cell["draws"].as_array().unwrap();
        assert_eq!(draws.len(), 1, "{cell}");
        assert_eq!(draws[0].as_array().unwrap().len(), cell["flows"].as_array().unwrap().len());
    }
    for name in ["report.html", "summary.txt", "pairs.parquet", "crowds.parquet"] {
        assert!(out.join(name).exists(), "{name}");
    }
}

#[test]
fn isolation_that_is_interrupted_says_that_it_is_partial() {
    let child = process(&["bench", "isolation", "--rounds", "100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(
        text.contains("\nPARTIAL   ") && text.contains("\nmeasured  0 of 100 rounds"),
        "{text}"
    );
}

#[test]
fn a_simulated_run_says_so_everywhere_and_is_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, seed: &str| {
        let path = folder.path().join(name);
        let words =
            ["bench", "read", "--world", "sim", "--testbed", "cx3-56g-xeon", "--size", "64"];
        let more =
            ["--length-ms", "1", "--hosts", "3", "--threads", "2", "--verify", "--seed", seed];
        let output = ferroce().args(words).args(more).arg("-o").arg(&path).assert().success();
        let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        let page = fs::read_to_string(path.join("report.html")).unwrap();
        let json = fs::read_to_string(path.join("results.json")).unwrap();
        (text, page, json)
    };
    let (text, page, json) = run("a", "1");
    assert!(
        text.starts_with("world     sim (simulated): testbed cx3-56g-xeon (ConnectX-3"),
        "{text}"
    );
    assert!(text.contains(" 0 wrong") && text.contains("cores of the simulated hosts"), "{text}");
    assert!(text.contains(" of the simulator, ") && text.contains("\nevents    "), "{text}");
    assert!(page.contains("imulated") && page.contains("cx3-56g-xeon"));
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&parsed["world"], &parsed["simulated"]), (&"sim".into(), &true.into()));
    assert!(json == run("b", "1").2 && json != run("c", "2").2);
}

#[test]
fn what_a_world_has_not_is_refused() {
    let refused = |words: &[&str]| {
        let assert = ferroce().args(["bench", "read"]).args(words).assert().code(125);
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    let said = refused(&["--world", "sim"]);
    assert!(
        said.contains("the world sim needs a testbed\nhint: --testbed cx3-10g-arm, "),
        "{said}"
    );
    let said = refused(&["--world", "sim", "--testbed", "cx5"]);
    assert!(said.contains("cx5 is no testbed, and cannot be read as a file"), "{said}");
    let said = refused(&["--testbed", "cx3-10g-arm"]);
    assert!(
        said.contains("--testbed means nothing in the world soft\nhint: add --world sim"),
        "{said}"
    );
    let said = refused(&["--world", "sim", "--testbed", "cx3-10g-arm", "--dev", "lo"]);
    assert!(said.contains("--dev means nothing in the world sim"), "{said}");
}
