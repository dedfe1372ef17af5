//! A scenario around a bare `config_db.json`: the switch with a host at each of its ports, and an incast.
//!
//! What the file says is taken from it: rates and cables of the ports, a DSCP of a lossless class, and whether
//! queues mark. The rest is ours, and the text says so, because it is to be changed.

use core::fmt::Write as _;

use super::ConfigDb;
use super::tables::Port;
use crate::mistake::FileError;
use crate::switch::config::SwitchConfig;
use crate::topology::Cables;
use rdma::Rate;

/// Rate of ports whose file does not say it. Ours.
const GBPS: u64 = 100;
/// Cable of ports whose file does not say it. Ours.
const METRES: u32 = 5;
/// Buffer of a switch whose file does not say it. Ours.
const BUFFER_BYTES: u32 = 16_000_000;
/// Servers that send at once. Ours.
const SENDERS: usize = 16;

/// The text of a scenario around the `config_db.json` whose text is `text`, for a file beside it; `name` is what it
/// is called. Host h3 is at the fourth port of `PORT`.
///
/// # Errors
/// [`FileError`] if the file cannot be read, or has fewer than two ports.
pub fn around(text: &str, name: &str) -> Result<String, FileError> {
    let config = ConfigDb::parse(text)?;
    let link = |port: &Port| Link {
        gbps: port.speed.map_or(GBPS, |mbps| (mbps / 1_000).max(1)),
        metres: port.cable.unwrap_or(METRES),
    };
    let links: Vec<Link> = config.ports.iter().map(link).collect();
    if links.len() < 2 {
        let wrong = FileError::at(1, "PORT", "there are not two ports");
        return Err(wrong.hint("a scenario needs a host at each of two ports: add them to PORT"));
    }
    let cables = |link: &Link| Cables::new(Rate::from_gbps(link.gbps), link.metres);
    let cables: Vec<Cables> = links.iter().map(cables).collect();
    let switch = |buffer| config.switch(&cables, None, buffer, &SwitchConfig::default());
    let (switch, buffer_bytes) = match (switch(None), switch(Some(BUFFER_BYTES))) {
        (Err(_), Ok((switch, _))) => (switch, Some(BUFFER_BYTES)),
        (said, _) => (said?.0, None),
    };
    let lossless = |dscp: &u8| {
        let class = switch.dscp_to_class[usize::from(*dscp)] & 7;
        let group = switch.class_to_group[usize::from(class)] & 7;
        (0..links.len() as u16).all(|local| switch.groups_of(local)[usize::from(group)].lossless)
    };
    let dscp = (0..64).find(lossless);
    let marks = switch.queues.iter().any(|queue| queue.ecn.is_some());
    let mut of = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut of, &Around { name, links: &links, buffer_bytes, dscp, marks });
    Ok(of)
}

/// What a port is cabled with.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    gbps: u64,
    metres: u32,
}

struct Around<'a> {
    name: &'a str,
    links: &'a [Link],
    buffer_bytes: Option<u32>,
    dscp: Option<u8>,
    marks: bool,
}

fn write(text: &mut String, around: &Around<'_>) -> core::fmt::Result {
    let Around { name, links, buffer_bytes, dscp, marks } = *around;
    let senders = SENDERS.min(links.len() - 1);
    // What JSON escapes, TOML reads.
    let file = serde_json::Value::from(name);
    writeln!(
        text,
        "# The switch of {file}, with a host at each port: h0 at the first of PORT. The file says"
    )?;
    writeln!(
        text,
        "# rates and cables, and which DSCP is lossless. What hosts do is an example, to be changed:"
    )?;
    writeln!(text, "# see `ferroce sim --keys workload`.\n")?;
    let title = serde_json::Value::from(format!("The switch of {name}"));
    writeln!(text, "title = {title}\nend_ms = 20\n")?;
    topology(text, links)?;
    writeln!(text, "[switch]\nconfig_db = {file}")?;
    if let Some(bytes) = buffer_bytes {
        writeln!(
            text,
            "# The file has no BUFFER_POOL with a size: see the data sheet.\nbuffer_bytes = {bytes}"
        )?;
    }
    writeln!(text)?;
    let control = if marks { "dcqcn" } else { "none" };
    writeln!(text, "[nic]\ncongestion = \"{control}\"\n")?;
    writeln!(text, "[[workload]]\nkind = \"incast\"\nreceiver = \"h0\"\nsenders = {senders}")?;
    writeln!(text, "message_bytes = 1_000_000")?;
    match dscp {
        Some(dscp) => writeln!(text, "dscp = {dscp}"),
        None => writeln!(text, "# No DSCP is lossless at all ports."),
    }
}

/// The switch and its hosts: in three keys if all ports are alike, else link by link.
fn topology(text: &mut String, links: &[Link]) -> core::fmt::Result {
    let (first, hosts) = (links[0], links.len());
    writeln!(text, "[topology]")?;
    if links.iter().all(|link| *link == first) {
        writeln!(text, "shape = \"single-switch\"\nhosts = {hosts}")?;
        return writeln!(text, "rate_gbps = {}\ncable_m = {}\n", first.gbps, first.metres);
    }
    writeln!(text, "shape = \"links\"")?;
    writeln!(text, "rate_gbps = {}\ncable_m = {}", first.gbps, first.metres)?;
    writeln!(text, "switch = [{{ name = \"s0\", tier = 0 }}]")?;
    let names: Vec<String> = (0..hosts).map(|host| format!("\"h{host}\"")).collect();
    writeln!(text, "host = [{}]\nlink = [", names.join(", "))?;
    for (host, link) in links.iter().enumerate() {
        write!(text, "    {{ from = \"h{host}\", to = \"s0\"")?;
        if link.gbps != first.gbps {
            write!(text, ", rate_gbps = {}", link.gbps)?;
        }
        if link.metres != first.metres {
            write!(text, ", cable_m = {}", link.metres)?;
        }
        writeln!(text, " }},")?;
    }
    writeln!(text, "]\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn file(name: &str) -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/sonic/");
        std::fs::read_to_string(format!("{path}{name}")).unwrap()
    }

    #[test]
    fn a_switch_alone_becomes_a_scenario_that_runs() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/sonic");
        for name in ["td3-tor.json", "spectrum-tor.json"] {
            let text = around(&file(name), name).unwrap();
            let scenario = Scenario::parse_in(&text, std::path::Path::new(folder), None);
            let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert!(scenario.network.flows.len() > 1, "{text}");
            assert!(crate::Network::new(scenario.network).is_ok());
        }
        let text = around(&file("td3-tor.json"), "td3-tor.json").unwrap();
        let uplink = "{ from = \"h31\", to = \"s0\", cable_m = 300 },\n";
        for part in ["rate_gbps = 100\ncable_m = 5\n", uplink, "senders = 16\n", "dscp = 3\n"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        // Nothing that we wrote contradicts the file.
        let scenario = Scenario::parse_in(&text, std::path::Path::new(folder), None).unwrap();
        let check = crate::check::Check::new(&scenario);
        assert_eq!(check.warnings(), [""; 0]);
    }

    #[test]
    fn ports_that_are_alike_need_no_list() {
        let port = |name| format!("\"{name}\": {{\"speed\": \"40000\"}}");
        let two = format!("{{\"PORT\": {{{}, {}}}}}", port("Ethernet0"), port("Ethernet4"));
        let text = around(&two, "two.json").unwrap();
        assert!(text.contains("hosts = 2\nrate_gbps = 40\ncable_m = 5\n"), "{text}");
        assert!(text.contains("\nbuffer_bytes = 16000000\n"), "{text}");
        assert!(text.contains("senders = 1\n"), "{text}");
    }

    #[test]
    fn a_file_with_one_port_is_refused_with_a_remedy() {
        let one = r#"{"PORT": {"Ethernet0": {"speed": "100000"}}}"#;
        let told = around(one, "one.json").unwrap_err().to_string();
        assert!(told.contains("there are not two ports"), "{told}");
        assert!(told.contains("hint: "), "{told}");
    }
}
