//! `ferroce export` and `ferroce watch`: snapshots of a host and of a switch, a dashboard's names, a real Prometheus.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use serde_json::Value;
use snapbox::str;
use tempfile::TempDir;

use super::ferroce;

/// Counters that mlx5 has in files.
const COUNTERS: [&str; 16] = [
    "port_rcv_data",
    "port_xmit_data",
    "port_rcv_packets",
    "port_xmit_packets",
    "port_xmit_wait",
    "port_xmit_discards",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_rcv_constraint_errors",
    "port_xmit_constraint_errors",
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "multicast_rcv_packets",
    "unicast_rcv_packets",
];
const HW_COUNTERS: [&str; 7] = [
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "lifespan",
];

/// What was saved of a host with one port of mlx5.
fn save_host(folder: &Path, pauses: u64) {
    let port = folder.join("sys/class/infiniband/mlx5_0/ports/1");
    for (kind, names) in [("counters", &COUNTERS[..]), ("hw_counters", &HW_COUNTERS)] {
        fs::create_dir_all(port.join(kind)).unwrap();
        for name in names {
            fs::write(port.join(kind).join(name), "17\n").unwrap();
        }
    }
    fs::create_dir_all(port.join("gid_attrs/ndevs")).unwrap();
    for (name, text) in [
        ("state", "4: ACTIVE\n"),
        ("phys_state", "5: LinkUp\n"),
        ("link_layer", "Ethernet\n"),
        ("rate", "100 Gb/sec (4X EDR)\n"),
        ("gid_attrs/ndevs/0", "eth0\n"),
    ] {
        fs::write(port.join(name), text).unwrap();
    }
    save_ethtool(folder, pauses);
    let links = r#"[{"ifindex":0,"ifname":"mlx5_0","port":1,"np_cnp_sent":17,"cc_rx_ce_pkts":1,"cc_rx_cnp_pkts":2,
        "cc_tx_cnp_pkts":3,"rdma_rx_bytes":4,"rdma_tx_bytes":5,"rdma_rx_packets":6,"rdma_tx_packets":7}]"#;
    fs::write(folder.join("rdma-statistic.json"), links).unwrap();
    let sets = r#"[{"ifname":"mlx5_0","port":1,"cntn":1,"qp-type":"RC","rdma_rx_bytes":1,"rdma_tx_bytes":2,
        "rdma_rx_packets":3,"rdma_tx_packets":4,"lqpn":[17]},
        {"ifname":"mlx5_0","port":1,"cntn":2,"qp-type":"RC","rdma_rx_bytes":10}]"#;
    fs::write(folder.join("rdma-statistic-qp.json"), sets).unwrap();
}

fn save_ethtool(folder: &Path, pauses: u64) {
    let text = format!(
        "NIC statistics:\n     rx_packets: 100\n     rx_prio3_pause: {pauses}\n     rx_prio3_pause_duration: 250000\n     \
         tx_prio3_pause: 2\n     tx_prio3_pause_duration: 9\n     rx_prio3_discards: 0\n     rx_global_pause: 0\n     \
         rx_global_pause_duration: 0\n     rx_global_pause_transition: 0\n     tx_pause_storm_error_events: 0\n     \
         outbound_pci_stalled_rd_events: 0\n     rx_bits_phy: 1\n     rx_corrected_bits_phy: 0\n     \
         rx_pcs_symbol_err_phy: 0\n"
    );
    // In one step, as whoever scrapes may read at any time.
    fs::write(folder.join("new"), text).unwrap();
    fs::rename(folder.join("new"), folder.join("ethtool-eth0.txt")).unwrap();
}

fn save_switch(folder: &Path) {
    fs::create_dir_all(folder.join("tor0")).unwrap();
    let text = "\
 Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0       0       0       0   1,024       0       0       0       0
";
    fs::write(folder.join("tor0/pfc-counters.txt"), text).unwrap();
}

fn exposed(folder: &Path) -> String {
    let assert =
        ferroce().args(["export", "--once", "--from"]).arg(folder).assert().success().stderr_eq("");
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

#[test]
fn export_gives_the_names_and_labels_of_the_dashboard() {
    let folder = TempDir::new().unwrap();
    save_host(folder.path(), 5);
    let text = exposed(folder.path());
    let mut labels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        labels.entry(name).or_default().push(rest);
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/dashboards/grafana-24241.txt");
    let golden = fs::read_to_string(golden).unwrap();
    let mut asked = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let samples = labels.get(name).unwrap_or_else(|| panic!("{name} is not exposed:\n{text}"));
        for label in words {
            assert!(
                samples.iter().all(|sample| sample.contains(&format!("{label}=\""))),
                "{name} has no {label}"
            );
        }
        asked += 1;
    }
    assert_eq!(asked, 44);
    assert!(
        text.contains("rdma_qp_rx_bytes_total{device=\"mlx5_0\",port=\"1\",qp_type=\"RC\"} 11\n"),
        "{text}"
    );
}

#[test]
fn export_tells_hosts_and_switches_apart() {
    let folder = TempDir::new().unwrap();
    for host in ["gpu1", "gpu2"] {
        fs::create_dir(folder.path().join(host)).unwrap();
        save_host(&folder.path().join(host), 5);
    }
    save_switch(folder.path());
    let text = exposed(folder.path());
    for line in [
        "rdma_np_cnp_sent_total{device=\"mlx5_0\",host=\"gpu1\",port=\"1\"} 17",
        "rdma_np_cnp_sent_total{device=\"mlx5_0\",host=\"gpu2\",port=\"1\"} 17",
        "rdma_roce_pfc_pause_frames_total{device=\"tor0\",direction=\"rx\",netdev=\"\",port=\"Ethernet0\",priority=\"3\"} 1024",
        "# TYPE rdma_roce_pfc_pause_frames_total counter",
    ] {
        assert!(text.lines().any(|at| at == line), "{line}\n{text}");
    }
    promtool(&text);
}

/// Has Prometheus' own tool look at what is exposed.
fn promtool(text: &str) {
    let child = Process::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("left out: promtool is not installed (apt-get install prometheus)");
        return;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // It also has opinions on names, which are not ours to choose.
    assert!(output.status.success() || !said.contains("error while linting"), "{said}");
}

#[test]
fn export_refuses_what_it_cannot_do() {
    ferroce().args(["export", "--listen", "0.0.0.0:0"]).assert().code(125).stdout_eq("").stderr_eq(
        str![[r#"
error: 0.0.0.0:0 can be reached from other hosts
hint: say --beyond-loopback if they are to; there is no password

"#]],
    );
    let folder = TempDir::new().unwrap();
    let assert =
        ferroce().args(["export", "--once", "--from"]).arg(folder.path()).assert().code(125);
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(stderr.contains("there are no counters in") && stderr.contains("\nhint: "), "{stderr}");
    fs::write(folder.path().join("ethtool-eth0.txt"), "Cannot get stats strings\n").unwrap();
    let assert =
        ferroce().args(["export", "--once", "--from"]).arg(folder.path()).assert().code(125);
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(stderr.contains("ethtool-eth0.txt: expected what ethtool -S prints"), "{stderr}");
}

/// Ends a program when the test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

#[test]
fn prometheus_scrapes_the_exporter_and_answers_for_a_rate_of_pauses() {
    if Process::new("prometheus").arg("--version").output().is_err() {
        eprintln!("left out: prometheus is not installed (apt-get install prometheus)");
        return;
    }
    let folder = TempDir::new().unwrap();
    let host = folder.path().join("snapshots");
    fs::create_dir(&host).unwrap();
    save_host(&host, 0);
    let mut exporter = Process::new(env!("CARGO_BIN_EXE_ferroce"));
    exporter
        .args(["export", "--listen", "127.0.0.1:0", "--from"])
        .arg(&host)
        .stdout(Stdio::piped());
    let mut exporter = Running(exporter.spawn().unwrap());
    let mut said = String::new();
    BufReader::new(exporter.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let target = said.split("http://").nth(1).unwrap().split('/').next().unwrap();
    // A port that is free now is, most likely, free in a moment.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let prometheus_at = format!("127.0.0.1:{port}");
    let config = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: rdma\n    static_configs: [ {{ targets: [ \"{target}\" ] }} ]\n"
    );
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let _prometheus = Running(
        Process::new("prometheus")
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={prometheus_at}"))
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("prometheus.log")).unwrap())
            .spawn()
            .unwrap(),
    );
    // rate(rdma_roce_pfc_pause_frames_total{direction="rx",priority="3"}[1m])
    let query = "/api/v1/query?query=rate(rdma_roce_pfc_pause_frames_total%7Bdirection%3D%22rx%22%2Cpriority%3D%223%22%7D%5B1m%5D)";
    let end = Instant::now() + Duration::from_secs(90);
    let mut pauses = 0;
    let answer = loop {
        pauses += 1_000;
        save_ethtool(&host, pauses);
        thread::sleep(Duration::from_millis(500));
        let answer: Value = get(&prometheus_at, query)
            .and_then(|body| serde_json::from_str(&body).ok())
            .unwrap_or_default();
        let rate = answer["data"]["result"][0]["value"][1]
            .as_str()
            .and_then(|text| text.parse::<f64>().ok());
        if rate.is_some_and(|rate| rate > 0.0) {
            break answer;
        }
        let log = || fs::read_to_string(folder.path().join("prometheus.log")).unwrap_or_default();
        assert!(Instant::now() < end, "{answer}\n{}", log());
    };
    let labels = &answer["data"]["result"][0]["metric"];
    assert_eq!(
        (&labels["device"], &labels["netdev"], &labels["job"]),
        (&"mlx5_0".into(), &"eth0".into(), &"rdma".into())
    );
}

/// Takes a request, answers it, and returns its head and what it brings.
fn take(listener: &TcpListener, answer: &str) -> (String, Value) {
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let at = head.len();
        assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
        if let Some(text) = head[at..].to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    stream.into_inner().write_all(answer.as_bytes()).unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}

#[test]
fn export_pushes_by_otlp_what_prometheus_gets() {
    let folder = TempDir::new().unwrap();
    save_host(folder.path(), 5);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let push = || {
        let args = ["export", "--once", "--otlp", &url, "--from"];
        ferroce().args(args).arg(folder.path()).assert()
    };
    let answered = |answer: &str| {
        let answer = format!("HTTP/1.1 {answer}");
        thread::scope(|scope| {
            let taken = scope.spawn(|| take(&listener, &answer));
            let assert = push();
            let said = assert.get_output().clone();
            let said = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
            (taken.join().unwrap(), assert.get_output().status.code(), said)
        })
    };
    let ((head, body), status, said) = answered("200 OK\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(status, Some(0), "{said}");
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/json\r\n"), "{head}");
    // Each sample that Prometheus gets is there, with its labels and its value.
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let mut pushed = Vec::new();
    for metric in metrics {
        let data = metric.get("sum").or_else(|| metric.get("gauge")).unwrap();
        for point in data["dataPoints"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let labels = point["attributes"].as_array().unwrap().iter();
            let labels = labels
                .map(|it| format!("{}={:?}", text(&it["key"]), text(&it["value"]["stringValue"])));
            let labels = labels.collect::<Vec<_>>().join(",");
            let value = point["asInt"].as_str().map(str::to_owned);
            let value = value.unwrap_or_else(|| point["asDouble"].to_string());
            let value: f64 = value.parse().unwrap();
            pushed.push((text(&metric["name"]), labels, value));
        }
    }
    let text = exposed(folder.path());
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        (name.to_owned(), labels.trim_end_matches('}').to_owned(), value.parse::<f64>().unwrap())
    });
    let samples: Vec<_> = samples.collect();
    assert!(samples.len() > 60, "{text}");
    assert_eq!(pushed, samples);

    let (_, status, said) = answered("400 Bad Request\r\nContent-Length: 9\r\n\r\ntoo large");
    assert_eq!(status, Some(125));
    assert_eq!(said, format!("error: {url}/v1/metrics refuses: 400 Bad Request: too large\n"));
    let partial = r#"{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"old"}}"#;
    let answer = format!("200 OK\r\nContent-Length: {}\r\n\r\n{partial}", partial.len());
    let (_, status, said) = answered(&answer);
    assert_eq!((status, &*said), (Some(125), "error: 2 points were rejected: old\n"));
    drop(listener);
    let said = push().code(125).get_output().stderr.clone();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("/v1/metrics cannot be reached: "), "{said}");
    ferroce()
        .args(["export", "--otlp", "https://collector"])
        .assert()
        .code(125)
        .stdout_eq("")
        .stderr_eq(str![[r#"
error: --otlp: https://collector is no URL of OTLP/HTTP: http://HOST:PORT
hint: a collector that wants https has one of its own, or a sidecar, on this host

"#]]);
}

#[test]
fn what_cannot_be_read_costs_its_own_counters_and_is_told() {
    let folder = TempDir::new().unwrap();
    for host in ["h0", "h1", "tor0", "tor1"] {
        fs::create_dir(folder.path().join(host)).unwrap();
    }
    save_ethtool(&folder.path().join("h0"), 5);
    save_ethtool(&folder.path().join("h1"), 5);
    let long = File::options().write(true).open(folder.path().join("h0/ethtool-eth0.txt"));
    long.unwrap().set_len((64 << 20) + 1).unwrap();
    fs::write(folder.path().join("tor1/counters-db.json"), "{\"COUNTERS_DB\": {").unwrap();
    // A byte order mark, and a line that an editor has moved.
    let moved =
        "\u{feff} Port Rx    PFC0    PFC3\n---------  ------  ------\n Ethernet0       0   1,024\n";
    fs::write(folder.path().join("tor0/pfc-counters.txt"), moved).unwrap();

    let args = ["export", "--once", "--from"];
    let output = ferroce().args(args).arg(folder.path()).assert().success().get_output().clone();
    let [text, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    for line in [
        "rdma_scrape_errors_total 2",
        "rdma_scrape_collector_success{collector=\"ferroce\"} 0",
        "rdma_roce_pfc_pause_frames_total{device=\"tor0\",direction=\"rx\",netdev=\"\",port=\"Ethernet0\",priority=\"3\"} 1024",
    ] {
        assert!(text.lines().any(|is| is == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("host=\"h1\"") && !text.contains("host=\"h0\""), "{text}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("h0/ethtool-eth0.txt: it is longer than 64 MiB"), "{said}");
    assert!(lines[1].contains("tor1/counters-db.json: line 1: no JSON"), "{said}");

    let watch = |more: &[&str]| {
        let args = ["watch", "--looks", "2", "--interval", "0.05", "--from"];
        let assert = ferroce().args(args).arg(folder.path()).args(more).assert().code(125);
        let output = assert.get_output().clone();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [text, said] = watch(&[]);
    assert!(text.contains("\n? cannot read ") && !text.contains("nothing looks wrong"), "{text}");
    assert_eq!(said, "error: nothing was found, but 2 files cannot be read\n");
    let line: Value = serde_json::from_str(&watch(&["--json"])[0]).unwrap();
    assert_eq!(line["not_read"].as_array().unwrap().len(), 2, "{line}");
}

#[test]
fn watch_tells_rates_and_ends_with_one_if_something_is_wrong() {
    let folder = TempDir::new().unwrap();
    save_host(folder.path(), 5);
    let watch = |arguments: &[&str]| {
        ferroce().args(["watch", "--from"]).arg(folder.path()).args(arguments).assert()
    };
    watch(&["--once", "--interval", "2.5"]).success().stderr_eq("").stdout_eq(str![[r#"
1 port, 10[..] s
nothing looks wrong
PORT               PR RX-PS/s PAUSED TX-PS/s MARK/s  CNP/s DROP/s RETX/s  bit/s
mlx5_0/1            -       -      -       -      0      0      0      0      0
mlx5_0/1            3       0     0%       0      -      -      0      -      -


"#]]);
    let two = ["--looks", "2", "--interval", "0.05"];
    watch(&two).success().stdout_eq(str![[r#"
1 port, [..]
nothing found so far
too soon to judge deadlock (2.0 s), pause-storm (0.4 s), slow-receiver (5.0 s),
   ecn-never-marks (10.0 s), early-pauses (5.0 s)
PORT [..]
...
"#]]);
    let assert = watch(&[&two[..], &["--once", "--json"]].concat()).success();
    let line: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(line["not_judged_yet"].as_array().unwrap().len(), 5, "{line}");
    assert_eq!(
        (line["findings"].as_array().unwrap().len(), line["rows"].as_array().unwrap().len()),
        (0, 2)
    );

    // A recording of a NIC that pauses without end while nothing comes in, judged again.
    let recording = folder.path().join("storm.jsonl");
    let mut text = String::new();
    for second in 0..20u64 {
        let (at, pauses) = (second * 1_000_000, 3_000 * second);
        text += &format!(
            r#"{{"at_us":{at},"ports":[{{"host":"","device":"mlx5_0","port":"1","role":"nic","counters":
            {{"ethtool":{{"tx_prio3_pause":{pauses},"rx_prio3_bytes":77}}}}}}]}}"#
        )
        .replace('\n', "");
        text.push('\n');
    }
    fs::write(&recording, text).unwrap();
    ferroce()
        .args(["watch", "--replay"])
        .arg(&recording)
        .assert()
        .code(1)
        .stdout_eq(str![[r#"
       2.0 s  found  pause-storm mlx5_0, priority 3: mlx5_0/1 sends pauses without end, and nothing comes in
20 looks; 1 found, 1 of them at the end

"#]])
        .stderr_eq(str![[r#"
error: one thing was found wrong

"#]]);
    fs::write(&recording, "{\n").unwrap();
    let assert = ferroce().args(["watch", "--replay"]).arg(&recording).assert().code(125);
    assert!(String::from_utf8_lossy(&assert.get_output().stderr).contains("line 1: no JSON"));
}

#[test]
fn of_a_recording_whose_writer_was_ended_the_whole_lines_are_judged() {
    let folder = TempDir::new().unwrap();
    let recording = folder.path().join("storm.jsonl");
    let look = |second: u64| {
        let (at, pauses) = (second * 1_000_000, 3_000 * second);
        format!(
            r#"{{"at_us":{at},"ports":[{{"device":"mlx5_0","port":"1","counters":{{"ethtool":{{"tx_prio3_pause":{pauses},"rx_prio3_bytes":77}}}}}}]}}"#
        ) + "\n"
    };
    let whole: String = (0..10).map(look).collect();
    let judge = |text: &str| {
        fs::write(&recording, text).unwrap();
        let assert = ferroce().args(["watch", "--replay"]).arg(&recording).assert();
        let output = assert.get_output().clone();
        let [text, said] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.code(), text, said)
    };
    let (code, text, said) = judge(&format!("{whole}{{\"at_us\":9"));
    assert_eq!(code, Some(1), "{said}");
    assert!(text.ends_with("10 looks; 1 found, 1 of them at the end\n"), "{text}");
    assert!(
        said.contains("warning: line 11 of ") && said.contains(" is cut, and left out"),
        "{said}"
    );

    // Who goes on with it begins on a new line.
    let host = folder.path().join("host");
    fs::create_dir(&host).unwrap();
    save_ethtool(&host, 5);
    let args = ["watch", "--looks", "2", "--interval", "0.01", "--from"];
    ferroce().args(args).arg(&host).arg("--record").arg(&recording).assert().success();
    let text = fs::read_to_string(&recording).unwrap();
    assert!(text.contains("\n{\"at_us\":9\n{"), "{text}");
    let (code, text, _) = judge(&text);
    assert_eq!(code, Some(1));
    assert!(text.contains("12 looks; 1 found"), "{text}");

    // Too short a recording says so, and what is none, or says nothing, is an error.
    let (code, _, said) = judge(&(look(0) + &look(1)));
    assert!(code == Some(0) && said.starts_with("warning: too soon to judge deadlock"), "{said}");
    for (text, expected) in [
        ("", "there are no looks in it"),
        ("{\"at_us\":0,\"ports\":[]}\n", "there are no ports in its looks"),
        (&*whole.replace(":77", ":-77"), "line 1: rx_prio3_bytes of mlx5_0/1 is no count: -77"),
        ("\u{0}\n", "line 1: no JSON"),
    ] {
        let (code, _, said) = judge(text);
        assert_eq!(code, Some(125), "{text}");
        assert!(said.contains(expected), "{said}");
    }
    let assert = ferroce().args(["watch", "--replay", "/dev/zero"]).assert().code(125);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("cannot read /dev/zero: line 1: it is longer than 64 MiB"), "{said}");
}

#[test]
fn once_is_long_enough_for_a_storm_that_goes_on() {
    let folder = TempDir::new().unwrap();
    let host = folder.path().join("h");
    fs::create_dir(&host).unwrap();
    let storm = |pauses: u64| {
        let text = format!("NIC statistics:\n tx_prio3_pause: {pauses}\n rx_prio3_bytes: 77\n");
        fs::write(folder.path().join("new"), text).unwrap();
        fs::rename(folder.path().join("new"), host.join("ethtool-eth0.txt")).unwrap();
    };
    storm(0);
    let (end, ended) = mpsc::channel::<()>();
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            for number in 1.. {
                storm(500 * number);
                let wait = ended.recv_timeout(Duration::from_millis(100));
                if wait != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        });
        let args = ["watch", "--once", "--interval", "5", "--from"];
        let assert = ferroce().args(args).arg(folder.path()).assert();
        drop(end);
        assert.get_output().clone()
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\n! pause-storm h, priority 3: "), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn watch_finds_the_storm_of_a_simulation_in_what_it_wrote() {
    let folder = TempDir::new().unwrap();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/storm.toml");
    ferroce().args(["sim", scenario, "-o"]).arg(folder.path()).assert().success();
    ferroce().args(["watch", "--from"]).arg(folder.path()).assert().code(1).stdout_eq(str![[r#"
    2.578 ms  found  pause-storm h0, priority 3: tor0-0/h0 is paused all the time, and 440578 bytes for it do not drain
224 ports of a simulation; 1 found, 1 of them at its end

"#]]);
    let text = exposed(folder.path());
    assert!(
        text.contains("rdma_roce_pfc_pause_frames_total{device=\"h0\",direction=\"tx\""),
        "no pauses of h0"
    );
}

#[test]
fn a_hook_is_told_unless_it_is_to_act() {
    let folder = TempDir::new().unwrap();
    let told = folder.path().join("told");
    for (act, expected) in [(false, None), (true, Some("pause-storm mlx5_0 3\n"))] {
        let host = folder.path().join(format!("host-{act}"));
        fs::create_dir(&host).unwrap();
        let storm = |events: u64| {
            let text = format!(
                "NIC statistics:\n tx_prio3_pause: 5\n tx_pause_storm_error_events: {events}\n"
            );
            fs::write(host.join("ethtool-mlx5_0.new"), text).unwrap();
            fs::rename(host.join("ethtool-mlx5_0.new"), host.join("ethtool-mlx5_0.txt")).unwrap();
        };
        storm(1);
        let mut watch = Process::new(env!("CARGO_BIN_EXE_ferroce"));
        watch.args(["watch", "--looks", "200", "--interval", "0.1", "--from"]).arg(&host);
        let command = format!(
            "echo \"$FERROCE_FINDING $FERROCE_WHO $FERROCE_PRIORITIES\" > {}",
            told.display()
        );
        watch.args(["--on-finding", &command]).stdout(Stdio::piped());
        if act {
            watch.arg("--act");
        }
        let mut watch = Running(watch.spawn().unwrap());
        let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "nothing found so far"));
        storm(2);
        let told_line = lines.find(|line| line.contains("echo")).unwrap();
        assert_eq!(told_line.trim_start().contains(": would run: "), !act, "{told_line}");
        drop(watch);
        assert_eq!(fs::read_to_string(&told).ok().as_deref(), expected);
    }
}

#[test]
fn watch_finds_in_what_a_simulation_wrote_what_the_book_says_of_it() {
    for (scenario, expected) in [
        ("storm", Some("found  pause-storm h0, priority 3: ")),
        ("deadlock", Some("found  deadlock La,T1,Lb,T0, priority 3: ")),
        ("slow-receiver", Some("found  slow-receiver h1, priority 3: ")),
        ("alpha", Some("found  early-pauses leaf2, priority 3: ")),
        ("incast", None),
    ] {
        let folder = TempDir::new().unwrap();
        let file = format!("{}/../../scenarios/{scenario}.toml", env!("CARGO_MANIFEST_DIR"));
        let ran = ferroce().args(["sim", &file, "--no-trials", "-o"]).arg(folder.path()).assert();
        ran.code(if scenario == "deadlock" { 3 } else { 0 });
        let assert = ferroce().args(["watch", "--from"]).arg(folder.path()).assert();
        let said = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        let found: Vec<&str> = said.lines().filter(|line| line.contains("  found  ")).collect();
        match expected {
            None => assert!(found.is_empty(), "{said}"),
            Some(what) => assert!(found.len() == 1 && found[0].contains(what), "{said}"),
        }
    }
}
