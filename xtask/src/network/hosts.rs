//! Two hosts at the ends of a path: network namespaces that belong to no file, so that they are gone with
//! the processes that hold them.

use core::time::Duration;
use std::fs;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::cable::ENDS;
use crate::workspace;

pub(super) const ADDRESSES: [&str; 2] = ["10.80.0.1", "10.80.0.2"];

/// A network namespace, for as long as this lives.
pub(crate) struct Host {
    holder: Child,
    /// The holder ends when this is closed, also if we are killed.
    _open: ChildStdin,
}

impl Host {
    pub(crate) fn new() -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut holder = command.spawn().context("cannot start unshare")?;
        let open = holder.stdin.take().context("the holder of a namespace has no stdin")?;
        let host = Self { holder, _open: open };
        let ours = fs::read_link("/proc/self/ns/net")?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::read_link(format!("/proc/{}/ns/net", host.id()))? == ours {
            if Instant::now() >= deadline {
                bail!("no network namespace was made within 5 s");
            }
            sleep(Duration::from_millis(1));
        }
        Ok(host)
    }

    /// The process whose namespace it is.
    pub(crate) fn id(&self) -> u32 {
        self.holder.id()
    }

    /// Runs `ip` there.
    pub(crate) fn ip(&self, words: &[&str]) -> Result<()> {
        self.run(&[&["ip"], words].concat())
    }

    /// Runs a program there, as root.
    pub(crate) fn run(&self, words: &[&str]) -> Result<()> {
        let target = self.id().to_string();
        let mut command = Command::new("nsenter");
        workspace::run(command.args(["--target", &target, "--net"]).args(words))
    }

    /// Gives it an interface of ours, with an address.
    pub(crate) fn plug(&self, end: &str, address: &str, mtu: u32) -> Result<()> {
        let target = self.id().to_string();
        workspace::run(Command::new("ip").args(["link", "set", end, "netns", &target]))?;
        self.ip(&["link", "set", "lo", "up"])?;
        self.ip(&["link", "set", end, "mtu", &mtu.to_string()])?;
        self.ip(&["address", "add", &format!("{address}/24"), "dev", end])?;
        self.ip(&["link", "set", end, "up"])
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It fails only if the process is gone already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Makes both hosts, and gives each its end of the cable.
pub(super) fn join(mtu: u32) -> Result<[Host; 2]> {
    let hosts = [Host::new()?, Host::new()?];
    for ((host, end), address) in hosts.iter().zip(ENDS).zip(ADDRESSES) {
        host.plug(end, address, mtu)?;
    }
    Ok(hosts)
}
