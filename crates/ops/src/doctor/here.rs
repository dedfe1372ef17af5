//! This host, as a folder of one device.
//!
//! Who runs commands and reads `/sys` is the caller ([`Ask`]); here is which, and what their answers are called.

use super::folder::{File, Folder};

/// What can be asked of this host. Each answer is `None` where there is none.
pub trait Ask {
    /// The names in a folder.
    fn list(&mut self, folder: &str) -> Vec<String>;
    /// A small file.
    fn read(&mut self, path: &str) -> Option<String>;
    /// What a command prints, within a bounded time.
    fn run(&mut self, program: &str, arguments: &[&str]) -> Option<String>;
    /// The variables of our own environment.
    fn environment(&mut self) -> Vec<(String, String)>;
}

/// Asks a host for everything that is judged. Interfaces without hardware are left out.
pub fn here(name: &str, ask: &mut impl Ask) -> Folder {
    let mut files = Vec::new();
    let mut add = |path: String, text: Option<String>| {
        files.extend(
            text.filter(|text| !text.trim().is_empty())
                .map(|text| File::new(format!("{name}/{path}"), text)),
        );
    };
    if let Some(text) = ask.read("/etc/sonic/config_db.json") {
        let running = ask.run("show", &["runningconfiguration", "all"]);
        let running = running.filter(|text| text.trim_start().starts_with('{'));
        add("config_db.json".to_owned(), running.or(Some(text)));
        add("lldp.txt".to_owned(), ask.run("show", &["lldp", "table"]));
        return Folder::of(files);
    }
    let mut sysfs = String::new();
    let mut take = |ask: &mut dyn FnMut(&str) -> Option<String>, path: String| {
        let Some(text) = ask(&path) else { return };
        for line in text.lines().filter(|line| !line.is_empty()) {
            sysfs.push_str(&format!("{path}:{line}\n"));
        }
    };
    for interface in ask.list("/sys/class/net") {
        let at = format!("/sys/class/net/{interface}");
        if ask.list(&at).iter().all(|entry| entry != "device") {
            continue;
        }
        add(format!("mlnx_qos.{interface}.txt"), ask.run("mlnx_qos", &["-i", &interface]));
        for what in ["pfc", "app", "ets", "buffer"] {
            let said = ask.run("dcb", &["-j", what, "show", "dev", &interface]);
            add(format!("dcb-{what}.{interface}.json"), said);
        }
        add(format!("ethtool-S.{interface}.txt"), ask.run("ethtool", &["-S", &interface]));
        add(format!("ethtool-i.{interface}.txt"), ask.run("ethtool", &["-i", &interface]));
        for file in ["mtu", "address", "speed", "ecn/roce_np/cnp_dscp"] {
            take(&mut |path| ask.read(path), format!("{at}/{file}"));
        }
        for priority in 0..8 {
            for role in ["roce_np", "roce_rp"] {
                take(&mut |path| ask.read(path), format!("{at}/ecn/{role}/enable/{priority}"));
            }
        }
    }
    for device in ask.list("/sys/class/infiniband") {
        let at = format!("/sys/class/infiniband/{device}");
        take(&mut |path| ask.read(path), format!("{at}/fw_ver"));
        for port in ask.list(&format!("{at}/ports")) {
            take(&mut |path| ask.read(path), format!("{at}/tc/{port}/traffic_class"));
            let at = format!("{at}/ports/{port}");
            for index in ask.list(&format!("{at}/gids")) {
                for file in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
                    take(&mut |path| ask.read(path), format!("{at}/{file}/{index}"));
                }
            }
        }
    }
    add("sysfs.txt".to_owned(), Some(sysfs));
    add("lldp.json".to_owned(), ask.run("lldpctl", &["-f", "json"]));
    add("lldpad.txt".to_owned(), ask.run("systemctl", &["is-active", "lldpad"]));
    let ours = ask
        .environment()
        .into_iter()
        .filter(|(name, _)| name.starts_with("NCCL_") || name.starts_with("UCX_"));
    let lines: String = ours.map(|(name, value)| format!("{name}={value}\n")).collect();
    add("env.here.txt".to_owned(), Some(lines));
    Folder::of(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pretended;

    impl Ask for Pretended {
        fn list(&mut self, folder: &str) -> Vec<String> {
            let names: &[&str] = match folder {
                "/sys/class/net" => &["eth2", "lo"],
                "/sys/class/net/eth2" => &["device", "mtu"],
                "/sys/class/infiniband" => &["mlx5_0"],
                "/sys/class/infiniband/mlx5_0/ports" => &["1"],
                "/sys/class/infiniband/mlx5_0/ports/1/gids" => &["3"],
                _ => &[],
            };
            names.iter().map(|name| (*name).to_owned()).collect()
        }

        fn read(&mut self, path: &str) -> Option<String> {
            match path {
                "/sys/class/net/eth2/mtu" => Some("9000\n".to_owned()),
                "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3" => {
                    Some("IB/RoCE v1\n".into())
                }
                "/sys/class/infiniband/mlx5_0/ports/1/gids/3" => {
                    Some("0000:ffff:c0a8:0102\n".into())
                }
                _ => None,
            }
        }

        fn run(&mut self, program: &str, arguments: &[&str]) -> Option<String> {
            let pfc = program == "dcb" && arguments[1] == "pfc";
            pfc.then(|| {
                "{\"prio_pfc\":[false,false,false,true,false,false,false,false]}".to_owned()
            })
        }

        fn environment(&mut self) -> Vec<(String, String)> {
            let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            vec![of("HOME", "/"), of("NCCL_IB_GID_INDEX", "3")]
        }
    }

    #[test]
    fn what_a_host_answers_is_judged_as_a_folder_is() {
        let folder = here("me", &mut Pretended);
        let paths: Vec<&str> = folder.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["me/dcb-pfc.eth2.json", "me/env.here.txt", "me/sysfs.txt"]);
        let diagnosis = super::super::Diagnosis::of(&folder, None, None);
        let found: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.rule.id()).collect();
        assert_eq!(found, ["FD011"], "{:#?}", diagnosis.findings);
    }
}
