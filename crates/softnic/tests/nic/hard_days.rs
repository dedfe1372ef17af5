//! A peer that stops, dies or has no room, and a process without descriptors.
//!
//! Acknowledged data is not lost, and nothing waits for longer than the retries take. The bounds are the
//! specification's, plus what a busy machine may add.

use core::time::Duration;
use std::fs::File;
use std::thread::sleep;
use std::time::Instant;

use rdma::{Completion, CompletionStatus, Gid, Operation, QpType, Qpn};
use softnic::{DeviceInfo, Nic, OpenError};

use crate::fork::status_of_child;
use crate::processes::{FILE, Helper, PATIENCE_CODE};
use crate::support::{Events, Host, IMPATIENT, LOSSY, PAGE, PATIENCE, RETRIES, pair, pattern};

/// The retries of a queue pair last so long at least, and four times as long at most (IBTA vol 1,
/// 9.7.6.1.3).
fn budget(timeout: u8) -> Duration {
    (u32::from(RETRIES) + 1) * Duration::from_nanos(4096 << timeout)
}

/// The timeout of queue pairs that are to survive: the retries last two seconds and more.
const PATIENT: u8 = 16;

/// How long a helper is stopped: longer than its peers pause.
const STOPPED: Duration = Duration::from_millis(1000);

/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

/// A helper at an address, connected to a queue pair of `host` of its own.
fn helper(host: &Host, address: &str, variables: &[(&str, &str)]) -> (Qpn, Helper) {
    let mut helper = Helper::start_with(address, variables);
    let qpn = host.create_qp(QpType::Rc);
    let gid = Gid::from(address.parse::<core::net::Ipv4Addr>().unwrap());
    host.connect_qp(qpn, gid, helper.qpn);
    helper.connect(host.gid().gid, qpn);
    (qpn, helper)
}

fn write_to(helper: &Helper, offset: usize) -> Operation {
    let remote_address = helper.address + offset as u64;
    Operation::Write { remote_address, r_key: helper.key, immediate: None }
}

/// Bytes of a message, and messages that are on their way at a time.
const MESSAGE: usize = 30_000;
const AT_A_TIME: u64 = 16;
const MESSAGES: usize = 400;

/// A file that outlives the process that maps it.
struct Shared {
    file: File,
    path: String,
}

impl Shared {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ferroce-{name}-{}", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len((MESSAGES * MESSAGE).next_multiple_of(PAGE) as u64).unwrap();
        Self { file, path: path.to_str().unwrap().to_owned() }
    }

    /// Whether message `id` is there as it was sent.
    fn holds(&self, id: u64) -> bool {
        let mut bytes = vec![0; MESSAGE];
        let offset = id * MESSAGE as u64;
        std::os::unix::fs::FileExt::read_exact_at(&self.file, &mut bytes, offset).unwrap();
        bytes == message(id)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn message(id: u64) -> Vec<u8> {
    let mut bytes = vec![0; MESSAGE];
    pattern(&mut bytes, 2 * id + 1);
    bytes
}

/// Messages from one host to one helper, each to a place of its own in the helper's file.
struct Load<'h> {
    host: &'h Host,
    qpn: Qpn,
    posted: u64,
    ended: u64,
    acknowledged: Vec<u64>,
    /// The first that failed, and when that was known.
    failure: Option<(CompletionStatus, Instant)>,
}

impl<'h> Load<'h> {
    fn new(host: &'h Host, qpn: Qpn) -> Self {
        Self { host, qpn, posted: 0, ended: 0, acknowledged: Vec::new(), failure: None }
    }

    /// Keeps the queue filled, and polls completions. `false` when all is done.
    fn go_on(&mut self, helper: &Helper) -> bool {
        let is_over = self.failure.is_some() || self.posted == MESSAGES as u64;
        while !is_over && self.posted < (self.ended + AT_A_TIME).min(MESSAGES as u64) {
            let id = self.posted;
            let at = id as usize * MESSAGE;
            let sge = self.host.sge(at, MESSAGE);
            self.host.post_on(self.qpn, id, write_to(helper, at), sge);
            self.posted += 1;
        }
        let mut some = [Completion::NOTHING; 16];
        let found = self.host.nic.poll_cq(self.host.cq, &mut some);
        for completion in &some[..found] {
            assert_eq!(completion.qpn, self.qpn);
            match completion.status {
                CompletionStatus::Success => self.acknowledged.push(completion.id),
                status if self.failure.is_none() => self.failure = Some((status, Instant::now())),
                status => assert_eq!(status, CompletionStatus::Flushed),
            }
        }
        self.ended += found as u64;
        self.ended < self.posted || !is_over
    }

    fn until_the_end(&mut self, helper: &Helper) {
        let began = Instant::now();
        while self.go_on(helper) {
            assert!(began.elapsed() < PATIENCE, "{} of {} ended", self.ended, self.posted);
        }
    }
}

/// A host whose memory holds all messages.
fn source(address: &str, timeout: u8) -> Host {
    let mut host = Host::open(address, QpType::Rc, MESSAGES * MESSAGE);
    host.timeout = timeout;
    for id in 0..MESSAGES {
        host.memory[id * MESSAGE..][..MESSAGE].copy_from_slice(&message(id as u64));
    }
    host
}

#[test]
fn a_peer_that_stops_for_a_while_under_load_and_has_little_room_loses_nothing() {
    let host = source("127.0.74.1", PATIENT);
    let shared = Shared::new("stopped");
    // While the helper is stopped, its buffers fill soon.
    let variables = [
        (FILE, shared.path.as_str()),
        ("FERROCE_RCVBUF_BYTES", "40000"),
        // A ring has room of its own.
        ("FERROCE_LINK", "udp"),
    ];
    let (qpn, helper) = helper(&host, "127.0.74.2", &variables);
    let mut load = Load::new(&host, qpn);
    for part in 1..=3 {
        while load.ended < part * MESSAGES as u64 / 5 {
            load.go_on(&helper);
        }
        helper.stop();
        let began = Instant::now();
        while began.elapsed() < STOPPED {
            load.go_on(&helper);
        }
        helper.resume();
    }
    load.until_the_end(&helper);
    assert_eq!(load.failure, None);
    assert_eq!(load.acknowledged, (0..MESSAGES as u64).collect::<Vec<_>>());
    for id in 0..MESSAGES as u64 {
        assert!(shared.holds(id), "message {id}");
    }
    assert!(helper.counter("rx_buffer_overflow") > 0, "there was room for all of it");
}

#[test]
fn a_sender_that_stops_for_longer_than_the_retries_takes_up_where_it_was() {
    const LENGTH: usize = 1 << 20;
    let host = Host::open("127.0.75.1", QpType::Rc, LENGTH);
    // Long enough for a busy machine to answer within what is left of the retries.
    const TIMEOUT: u8 = 14;
    let variables = [(PATIENCE_CODE, &*TIMEOUT.to_string())];
    let (_, mut helper) = helper(&host, "127.0.75.2", &variables);
    for _ in 0..2 {
        helper.pull(host.address(), host.key, LENGTH, 20);
        sleep(Duration::from_millis(3));
        helper.stop();
        sleep(budget(TIMEOUT) * 4 / 3);
        helper.resume();
        // The helper checks that each of its READs succeeds.
        assert_eq!(helper.line(), ["pulled"]);
    }
}

#[test]
fn a_peer_that_stops_for_good_is_given_up_within_the_retries_and_the_others_are_served() {
    let mut host = Host::open("127.0.76.1", QpType::Rc, 4096);
    host.timeout = IMPATIENT;
    let (stopped, victim) = helper(&host, "127.0.76.2", &[]);
    host.timeout = PATIENT;
    let (alive, other) = helper(&host, "127.0.76.3", &[]);
    victim.stop();
    let began = Instant::now();
    for id in 1..=3 {
        host.post_on(stopped, id, write_to(&victim, 0), host.sge(0, 8));
    }
    let (mut failed, mut served) = (Vec::new(), 0);
    host.post_on(alive, 9, write_to(&other, 0), host.sge(0, 8));
    while failed.len() < 3 {
        for outcome in host.outcomes(1) {
            if outcome.qpn == stopped {
                failed.push((outcome.id, outcome.status));
            } else {
                assert_eq!(outcome.status, CompletionStatus::Success);
                served += 1;
                host.post_on(alive, 9, write_to(&other, 0), host.sge(0, 8));
            }
        }
    }
    let took = began.elapsed();
    assert!(took >= budget(IMPATIENT) && took <= 4 * budget(IMPATIENT) + SLACK, "{took:?}");
    assert_eq!(
        failed,
        [
            (1, CompletionStatus::RetryExceeded),
            (2, CompletionStatus::Flushed),
            (3, CompletionStatus::Flushed)
        ]
    );
    assert!(served > 0);
    host.completions(1);
    // It may then receive old packets, which do no harm.
    victim.resume();
    for _ in 0..100 {
        host.post_on(alive, 9, write_to(&other, 0), host.sge(0, 8));
        host.completions(1);
    }
}

#[test]
fn what_was_acknowledged_is_in_memory_whenever_the_peer_is_killed() {
    for round in 0..6_u64 {
        let host = source(&format!("127.0.77.{}", 1 + 3 * round), LOSSY);
        let mut bystander = Host::open(&format!("127.0.77.{}", 2 + 3 * round), QpType::Rc, 4096);
        bystander.timeout = PATIENT;
        let shared = Shared::new(&format!("killed-{round}"));
        let address = format!("127.0.77.{}", 3 + 3 * round);
        let (qpn, mut victim) = helper(&host, &address, &[(FILE, &shared.path)]);
        let (alive, other) = helper(&bystander, &address, &[]);
        let mut load = Load::new(&host, qpn);
        // Somewhere in the load, a little further each time.
        while (load.acknowledged.len() as u64) < 1 + round * round * 6 {
            load.go_on(&victim);
        }
        victim.kill();
        let killed = Instant::now();
        let mut served = 0;
        while load.go_on(&victim) {
            assert!(killed.elapsed() < PATIENCE);
            bystander.post_on(alive, 1, write_to(&other, 0), bystander.sge(0, 8));
            bystander.completions(1);
            served += 1;
        }
        let (status, known) = load.failure.expect("not all of the load had been taken");
        assert_eq!(status, CompletionStatus::RetryExceeded);
        let took = known - killed;
        assert!(took <= 4 * budget(LOSSY) + SLACK, "{took:?}");
        assert!(served > 0);
        for id in load.acknowledged {
            assert!(shared.holds(id), "round {round}: message {id} was acknowledged");
        }
    }
}

/// How many descriptors are open, without those that a NIC's thread opens for a moment: lists of NICs, and
/// rings that it passes on.
fn descriptors() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let files = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let passing = ["/group-", "/making-", "memfd:ferroce-ring"];
    files.filter(|file| !passing.iter().any(|name| file.to_string_lossy().contains(name))).count()
}

/// Lets this process open files up to this number only.
fn allow(descriptors: u64) {
    let limit = libc::rlimit { rlim_cur: descriptors, rlim_max: 4096 };
    // SAFETY: a live place.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[test]
fn without_descriptors_no_device_is_opened_and_those_that_are_open_go_on() {
    // In a child, as the limit is the whole process's.
    let status = status_of_child(|| {
        let (a, b) = pair(78, QpType::Rc, 4096);
        let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
        let device = DeviceInfo::find("lo/127.0.78.3", 0).unwrap();
        let open = || Nic::open(&device, Box::new(Events::default()));
        let before = descriptors();
        drop(open().unwrap());
        assert_eq!(descriptors(), before, "what was opened is closed");
        let next = File::open("/dev/null").unwrap();
        let first_free = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
        drop(next);
        let mut refused = 0;
        for more in 0.. {
            allow(first_free + more);
            let result = open();
            // NICs that are open need no more descriptors.
            a.post(1, write, a.sge(0, 8));
            a.completions(1);
            match result {
                Ok(nic) => {
                    drop(nic);
                    break;
                }
                Err(OpenError::Io { error, .. }) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            allow(4096);
            assert_eq!(descriptors(), before, "{more} more: what was opened is closed");
        }
        assert!(refused >= 3, "{refused}");
        allow(4096);
        drop(open().unwrap());
    });
    assert_eq!(status, 0);
}
