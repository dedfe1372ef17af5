//! Several processes on one address, some of which are killed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use rdma::{Gid, Key, Operation, QpType, Qpn};
use softnic::{Options, counters};

use crate::support::{Host, Mapping, PAGE, PATIENCE, all_rights};

/// Tells this test binary that it is a helper, and on which address.
const ADDRESS: &str = "FERROCE_TEST_HELPER";

/// Names the file of the helper's region, so that written data outlives the helper.
pub(crate) const FILE: &str = "FERROCE_TEST_FILE";

/// The local ACK timeout of the helper's queue pair, if not the usual one.
pub(crate) const PATIENCE_CODE: &str = "FERROCE_TEST_TIMEOUT";

/// The user that the helper becomes.
pub(crate) const USER: &str = "FERROCE_TEST_USER";

/// Whether the kernel denies the helper shared memory.
pub(crate) const CONFINED: &str = "FERROCE_TEST_CONFINED";

/// A process with a NIC, a queue pair and a region.
pub(crate) struct Helper {
    pub(crate) child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) qpn: Qpn,
    pub(crate) key: Key,
    pub(crate) address: u64,
}

impl Helper {
    fn start(address: &str) -> Self {
        Self::start_with(address, &[])
    }

    /// Sets variables of its environment.
    pub(crate) fn start_with(address: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["processes::helper", "--exact", "--ignored", "--nocapture"])
            .env(ADDRESS, address)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut helper = Self { child, output, qpn: Qpn::new(0), key: Key(0), address: 0 };
        let words = helper.line();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        helper.qpn = Qpn::new(number(1) as u32);
        helper.key = Key(number(2) as u32);
        helper.address = number(3);
        helper
    }

    /// The next line that the helper itself has printed, in words.
    pub(crate) fn line(&mut self) -> Vec<String> {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the helper has ended");
            // The test harness leaves its own line open.
            if let Some((_, line)) = line.split_once("helper:") {
                return line.split_whitespace().map(str::to_owned).collect();
            }
        }
    }

    pub(crate) fn connect(&mut self, gid: Gid, qpn: Qpn) {
        self.tell(&format!("connect {gid} {}", qpn.value()));
        assert_eq!(self.line(), ["connected"]);
    }

    /// Makes it READ `length` bytes into its region, so many times. It prints `pulled` at the end.
    pub(crate) fn pull(&mut self, address: u64, key: Key, length: usize, times: u64) {
        self.tell(&format!("pull {address} {} {length} {times}", key.0));
    }

    /// Lets it end without closing its NIC.
    fn exit(&mut self) {
        self.tell("exit");
        assert!(self.child.wait().unwrap().success());
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends it a signal.
    fn signal(&self, signal: libc::c_int) {
        // SAFETY: a plain system call; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    /// Stops it. When this returns, none of its threads runs.
    pub(crate) fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let (pid, mut status) = (self.child.id() as libc::pid_t, 0);
        // SAFETY: a live place; a child that is stopped is not reaped by this.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) }, pid);
        assert!(libc::WIFSTOPPED(status));
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    pub(crate) fn kill(&mut self) {
        // SIGKILL: nothing of it runs any more.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let all = counters::read_all();
        let process = all.iter().find(|process| process.pid == self.child.id()).unwrap();
        process.counters.iter().find(|(other, _)| other == name).unwrap().1
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Not a test: what a helper process runs.
#[test]
#[ignore = "run by the tests below, as a process of its own"]
fn helper() {
    let address = std::env::var(ADDRESS).unwrap();
    if let Ok(user) = std::env::var(USER) {
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::setuid(user.parse().unwrap()) }, 0);
    }
    if std::env::var_os(CONFINED).is_some() {
        refuse(libc::SYS_memfd_create);
    }
    let options = Options::from_environment().unwrap();
    let mut host = Host::open_with(&address, QpType::Rc, 1 << 20, &options);
    if let Ok(timeout) = std::env::var(PATIENCE_CODE) {
        host.timeout = timeout.parse().unwrap();
    }
    let file = std::env::var(FILE).ok().map(|path| {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        Mapping::of(&file, file.metadata().unwrap().len() as usize / PAGE)
    });
    let (key, region) = match &file {
        Some(file) => (host.register(file.address(), file.length(), all_rights()), file.address()),
        None => (host.key, host.address()),
    };
    println!("helper: qp {} {} {region}", host.qpn.value(), key.0);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        if words[0] == "connect" {
            let gid = Gid::from(words[1].parse::<core::net::Ipv6Addr>().unwrap());
            host.connect_qp(host.qpn, gid, Qpn::new(number(2) as u32));
            println!("helper: connected");
        } else if words[0] == "exit" {
            // Nothing is dropped, so the NIC is not closed.
            std::process::exit(0);
        } else {
            let read = Operation::Read { remote_address: number(1), r_key: Key(number(2) as u32) };
            for id in 0..number(4) {
                host.post(id, read, host.sge(0, number(3) as usize));
                host.completions(1);
            }
            println!("helper: pulled");
        }
    }
}

/// Makes the kernel refuse a system call to this thread and those that it starts, as a container may.
fn refuse(call: libc::c_long) {
    let filter = |code, jumps: [u8; 2], k| libc::sock_filter {
        code: code as u16,
        jt: jumps[0],
        jf: jumps[1],
        k,
    };
    let mut program = [
        // The number of the system call is the first word of the filter's input.
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, [0, 0], 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, [0, 1], call as u32),
        filter(libc::BPF_RET | libc::BPF_K, [0, 0], libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        filter(libc::BPF_RET | libc::BPF_K, [0, 0], libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter is as long as is said, and the kernel copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
        assert_eq!(libc::syscall(call, c"".as_ptr(), 0), -1);
    }
}

/// Writes to a helper, which has to answer.
fn write(host: &Host, qpn: Qpn, helper: &Helper) {
    let write =
        Operation::Write { remote_address: helper.address, r_key: helper.key, immediate: None };
    host.post_on(qpn, 1, write, host.sge(0, 8));
    host.completions(1);
}

fn connected(host: &Host, address: &str, count: usize) -> Vec<(Qpn, Helper)> {
    let mut helpers = Vec::new();
    for _ in 0..count {
        let mut helper = Helper::start(address);
        let qpn = host.create_qp(QpType::Rc);
        host.connect_qp(
            qpn,
            Gid::from(address.parse::<core::net::Ipv4Addr>().unwrap()),
            helper.qpn,
        );
        helper.connect(host.gid().gid, qpn);
        helpers.push((qpn, helper));
    }
    helpers
}

#[test]
fn processes_share_an_address_without_disturbing_each_other() {
    let host = Host::open("127.0.50.1", QpType::Rc, 4096);
    let helpers = connected(&host, "127.0.50.2", 4);
    for _ in 0..10 {
        for (qpn, helper) in &helpers {
            write(&host, *qpn, helper);
        }
    }
    for (_, helper) in &helpers {
        // Counters are published a little later than packets are answered.
        let started = Instant::now();
        while helper.counter("rx_write_requests") < 10 {
            assert!(started.elapsed() < PATIENCE, "{}", helper.counter("rx_write_requests"));
        }
        assert_eq!(helper.counter("rx_handed_over") + helper.counter("rx_unknown_slot"), 0);
    }
}

#[test]
fn what_a_program_has_counted_when_it_exits_is_in_its_file() {
    let host = Host::open("127.0.54.1", QpType::Rc, 4096);
    let (_, mut helper) = connected(&host, "127.0.54.2", 1).remove(0);
    let prefix = format!("{}-", helper.child.id());
    let mut files = fs::read_dir(counters::counters_dir().unwrap()).unwrap().flatten();
    let file = files.find(|file| file.file_name().to_string_lossy().starts_with(&prefix));
    let mut file = fs::File::open(file.unwrap().path()).unwrap();
    helper.pull(host.address(), host.key, 8, 20);
    assert_eq!(helper.line(), ["pulled"]);
    helper.exit();

    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let name = b"rx_packets\0";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + 64;
    // The responses of its READs, and nothing else.
    assert_eq!(bytes[at..at + 8], 20_u64.to_ne_bytes());
}

#[test]
fn the_others_go_on_when_one_is_killed() {
    let host = Host::open("127.0.51.1", QpType::Rc, 4096);
    let mut helpers = connected(&host, "127.0.51.2", 4);
    // The last socket of the kernel's array takes the place of the first.
    helpers[0].1.kill();
    survive(&host, &helpers[1..]);
}

#[test]
fn the_others_go_on_when_several_are_killed_at_once() {
    let host = Host::open("127.0.52.1", QpType::Rc, 4096);
    let mut helpers = connected(&host, "127.0.52.2", 7);
    for index in [4, 0, 2] {
        helpers[index].1.child.kill().unwrap();
    }
    for index in [4, 2, 0] {
        let (_, mut helper) = helpers.remove(index);
        helper.child.wait().unwrap();
    }
    assert_eq!(helpers.len(), 4);
    survive(&host, &helpers);
}

/// Packets arrive, and in the end at the right socket.
fn survive(host: &Host, helpers: &[(Qpn, Helper)]) {
    for _ in 0..5 {
        for (qpn, helper) in helpers {
            write(host, *qpn, helper);
        }
        std::thread::sleep(core::time::Duration::from_millis(15));
    }
    let detours =
        || helpers.iter().map(|(_, helper)| helper.counter("rx_handed_over")).collect::<Vec<_>>();
    let before = detours();
    for (qpn, helper) in helpers {
        for _ in 0..20 {
            write(host, *qpn, helper);
        }
    }
    std::thread::sleep(core::time::Duration::from_millis(20));
    assert_eq!(detours(), before, "packets still go to the wrong process");
}

#[test]
fn nics_of_one_process_share_an_address_in_any_order() {
    let host = Host::open("127.0.53.1", QpType::Rc, 4096);
    let mut peers: Vec<Host> = Vec::new();
    for round in 0..12 {
        let peer = Host::open("127.0.53.2", QpType::Rc, 4096);
        let qpn = host.create_qp(QpType::Rc);
        host.connect_qp(qpn, peer.gid().gid, peer.qpn);
        peer.connect_qp(peer.qpn, host.gid().gid, qpn);
        let write = |peer: &Host, qpn| {
            let write = Operation::Write {
                remote_address: peer.address(),
                r_key: peer.key,
                immediate: None,
            };
            host.post_on(qpn, 1, write, host.sge(0, 8));
            host.completions(1);
        };
        write(&peer, qpn);
        peers.push(peer);
        if round % 3 == 2 {
            peers.remove(round % peers.len());
        }
    }
    // A helper that another test of this process is just starting has copies of our sockets for a
    // moment, so for the kernel they are still open. This corrects itself.
    let detours: u64 = peers.iter().map(|peer| peer.nic.counts().rx_handed_over).sum();
    assert!(detours < 10, "{detours} packets went to the wrong NIC");
}
