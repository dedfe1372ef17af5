//! What the unit tests of several modules need.

use std::env;
use std::process::Command;

use rdma::Gid;
use transport::{Event, Route};
use wire::cm::sidr;
use wire::udp::ROCE_PORT;

use crate::{DeviceInfo, EventSink, Nic, Options, PathChoice, clock};

/// Hears of nothing.
pub(crate) struct Nothing;

impl EventSink for Nothing {
    fn event(&self, _: Event) {}
}

/// A NIC at an address of loopback, which is reached by UDP alone and has no thread.
pub(crate) fn open(address: &str) -> Nic {
    open_by(address, PathChoice::Udp)
}

/// A NIC at an address of loopback, which reaches others of this host by `link` and has no thread.
pub(crate) fn open_by(address: &str, path: PathChoice) -> Nic {
    let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
    let options = Options { path, ..Options::default() };
    Nic::open_with(&device, Box::new(Nothing), &options).unwrap()
}

/// Runs the test of this name once more, in a network namespace of its own, with mounts of its own, that a
/// shell script has made ready. `true` if this is that second run.
pub(crate) fn in_namespace(test: &str, script: &str) -> bool {
    /// Set in the second run.
    const INSIDE: &str = "FERROCE_TEST_INSIDE";
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let namespace = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount"]);
        command
    };
    if !namespace().arg("true").status().is_ok_and(|status| status.success()) {
        println!("not tested: no namespaces may be made here");
        return false;
    }
    let script = format!("set -e; {script}; exec \"$0\" --exact {test}");
    let mut inside = namespace();
    inside.args(["sh", "-c", &script]).arg(env::current_exe().unwrap()).env(INSIDE, "1");
    let output = inside.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Has the NIC send a packet to nobody.
pub(crate) fn ask(nic: &Nic) {
    let own: Gid = nic.shared().lock().attachment.site.membership.sockets[0].gid();
    let nobody = core::net::Ipv4Addr::new(127, 0, 135, 9).into();
    let route = Route { source_port: ROCE_PORT, ..Route::between(own, nobody) };
    nic.with_manager(|manager, now| manager.ask(now, route, sidr::Req::default()).unwrap());
}

/// How many packets it has sent.
pub(crate) fn sent(nic: &Nic) -> u64 {
    nic.shared().lock().counts.tx_packets
}

/// Has sending wait for room at the second NIC, which does not look by itself.
pub(crate) fn paused_for(nic: &Nic, full: &Nic) {
    let core = full.shared().lock();
    let membership = &core.attachment.site.membership;
    let (slot, destination) = (membership.registry.slot(), membership.sockets[0].gid());
    drop(core);
    let mut core = nic.shared().lock();
    let paths = &mut core.attachment.site.paths;
    while !paths.credits().plan(slot, 4096) {}
    paths.pause(destination, slot, 0, clock::now());
}
