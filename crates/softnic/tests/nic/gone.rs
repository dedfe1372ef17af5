//! Memory that goes while a region is registered over it: the request fails with an error.

use core::ffi::c_int;
use std::fs::File;

use rdma::{
    Access, CompletionStatus, Key, Operation, QpState, QpType, Qpn, RecvRequest, Sge, UdAddress,
};
use softnic::limits::FAULT_HANDLERS_MAX;
use softnic::{Options, PathChoice};
use transport::Event;

use crate::fork::status_of_child;
use crate::support::{Host, Mapping, PAGE, Q_KEY, SEND, all_rights, pair, pair_with};

/// How memory goes.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Unmapped,
    ReadOnly,
    /// A file that was mapped has become shorter.
    Truncated,
}

const LOSSES: [Loss; 3] = [Loss::Unmapped, Loss::ReadOnly, Loss::Truncated];

/// A page that is about to go.
struct Doomed {
    mapping: Mapping,
    file: File,
    loss: Loss,
}

impl Doomed {
    fn new(loss: Loss) -> Self {
        // SAFETY: a name that ends in zero; the descriptor is nobody else's.
        let file: File = unsafe {
            let fd = libc::memfd_create(c"ferroce-test".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0);
            std::os::fd::FromRawFd::from_raw_fd(fd)
        };
        file.set_len(PAGE as u64).unwrap();
        let mapping = match loss {
            Loss::Truncated => Mapping::of(&file, 1),
            Loss::Unmapped | Loss::ReadOnly => Mapping::new(1),
        };
        mapping.set(0, &[0xee; PAGE]);
        Self { mapping, file, loss }
    }

    fn goes(&self) {
        match self.loss {
            Loss::Unmapped => self.mapping.unmap(),
            Loss::ReadOnly => self.mapping.protect(0, libc::PROT_READ),
            Loss::Truncated => self.file.set_len(0).unwrap(),
        }
    }

    fn sge(&self, length: u32, l_key: Key) -> Sge {
        Sge { address: self.mapping.address(), length, l_key }
    }
}

/// A message of several packets.
const LENGTH: u32 = 10_000;

/// Requests that read, and requests that write, the memory at `remote_address`.
fn readers(remote_address: u64, r_key: Key) -> Vec<(Operation, u32)> {
    vec![(Operation::Read { remote_address, r_key }, LENGTH)]
}

fn writers(remote_address: u64, r_key: Key) -> Vec<(Operation, u32)> {
    vec![
        (Operation::Write { remote_address, r_key, immediate: None }, 1),
        (Operation::Write { remote_address, r_key, immediate: None }, LENGTH),
        (Operation::FetchAdd { remote_address, r_key, add: 1 }, 8),
        (Operation::CompareSwap { remote_address, r_key, compare: 1, swap: 2 }, 8),
        (Operation::AtomicWrite { remote_address, r_key, bytes: [1; 8] }, 8),
    ]
}

#[test]
fn a_peer_that_asks_for_memory_that_is_gone_gets_a_remote_access_error() {
    for loss in LOSSES {
        let (a, b) = pair(64, QpType::Rc, 16 << 10);
        let doomed = Doomed::new(loss);
        let (remote_address, length) = (doomed.mapping.address(), doomed.mapping.length());
        let key = b.register(remote_address, length, all_rights());
        let mut operations = writers(remote_address, key);
        if !matches!(loss, Loss::ReadOnly) {
            operations.extend(readers(remote_address, key));
        }
        // A connection each: every one of them fails.
        let ends: Vec<(Qpn, Qpn)> = operations
            .iter()
            .map(|_| {
                let (at_a, at_b) = (a.create_qp(QpType::Rc), b.create_qp(QpType::Rc));
                a.connect_qp(at_a, b.gid().gid, at_b);
                b.connect_qp(at_b, a.gid().gid, at_a);
                (at_a, at_b)
            })
            .collect();
        for (&(at_a, _), &(operation, length)) in ends.iter().zip(&operations) {
            a.post_on(at_a, 1, operation, a.sge(0, length as usize));
            a.completions(1);
        }
        doomed.goes();
        for (&(at_a, at_b), &(operation, length)) in ends.iter().zip(&operations) {
            let before = b.nic.with(|endpoint, _, _| endpoint.stats().resp_remote_access_errors);
            a.post_on(at_a, 2, operation, a.sge(0, length as usize));
            let outcome = a.outcomes(1)[0];
            let expected = CompletionStatus::RemoteAccess;
            assert_eq!((outcome.id, outcome.status), (2, expected), "{loss:?}: {operation:?}");
            assert_eq!((a.state(at_a), b.state(at_b)), (QpState::Error, QpState::Error));
            assert!(b.was_told(Event::QpAccessError(at_b)), "{loss:?}: {operation:?}");
            let after = b.nic.with(|endpoint, _, _| endpoint.stats().resp_remote_access_errors);
            assert_eq!(after, before + 1);
        }
        // Other connections, and what can still be read, are as good as before.
        let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
        a.post(3, write, a.sge(0, 100));
        a.completions(1);
        if matches!(loss, Loss::ReadOnly) {
            a.post(4, Operation::Read { remote_address, r_key: key }, a.sge(0, LENGTH as usize));
            a.completions(1);
        }
    }
}

#[test]
fn a_message_is_placed_as_far_as_there_is_memory() {
    let (a, b) = pair(65, QpType::Rc, 4 * PAGE);
    let mapping = Mapping::new(4);
    let key = b.register(mapping.address(), mapping.length(), all_rights());
    mapping.protect(2, libc::PROT_NONE);
    let remote_address = mapping.address() + 100;
    let write = Operation::Write { remote_address, r_key: key, immediate: None };
    let mut source = a;
    source.memory.fill(0x5a);
    source.post(1, write, source.sge(0, 3 * PAGE));
    assert_eq!(source.outcomes(1)[0].status, CompletionStatus::RemoteAccess);
    let written = mapping.bytes(0, 2 * PAGE);
    assert!(written[..100].iter().all(|&byte| byte == 0));
    let whole_packets = (2 * PAGE - 100) / 4096 * 4096;
    assert!(written[100..100 + whole_packets].iter().all(|&byte| byte == 0x5a));
    mapping.protect(2, libc::PROT_READ);
    assert!(mapping.bytes(2 * PAGE, 2 * PAGE).iter().all(|&byte| byte == 0));
}

#[test]
fn memory_that_a_requester_names_and_has_not_is_a_local_protection_error() {
    for loss in LOSSES {
        let (a, b) = pair(66, QpType::Rc, 16 << 10);
        let doomed = Doomed::new(loss);
        let key =
            a.register(doomed.mapping.address(), doomed.mapping.length(), Access::LOCAL_WRITE);
        let (remote_address, r_key) = (b.address(), b.key);
        // What is sent is read, and what is asked for is written.
        let mut operations = vec![
            (Operation::Read { remote_address, r_key }, LENGTH),
            (Operation::Read { remote_address, r_key }, 1),
            (Operation::FetchAdd { remote_address, r_key, add: 0 }, 8),
        ];
        if !matches!(loss, Loss::ReadOnly) {
            operations.extend([
                (Operation::Write { remote_address, r_key, immediate: None }, LENGTH),
                (Operation::Write { remote_address, r_key, immediate: None }, 1),
                (SEND, LENGTH),
            ]);
        }
        doomed.goes();
        for (operation, length) in operations {
            let (at_a, at_b) = (a.create_qp(QpType::Rc), b.create_qp(QpType::Rc));
            a.connect_qp(at_a, b.gid().gid, at_b);
            b.connect_qp(at_b, a.gid().gid, at_a);
            let write =
                Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
            a.post_on(at_a, 1, write, a.sge(0, 8000));
            a.post_on(at_a, 2, operation, doomed.sge(length, key));
            a.post_on(at_a, 3, write, a.sge(0, 8000));
            let outcomes: Vec<_> =
                a.outcomes(3).iter().map(|outcome| (outcome.id, outcome.status)).collect();
            assert_eq!(
                outcomes,
                [
                    (1, CompletionStatus::Success),
                    (2, CompletionStatus::LocalProtection),
                    (3, CompletionStatus::Flushed)
                ],
                "{loss:?}: {operation:?}"
            );
            assert_eq!(a.state(at_a), QpState::Error);
            assert_eq!(b.state(at_b), QpState::Rts, "the peer hears nothing of it");
        }
    }
}

#[test]
fn what_lies_before_the_hole_in_a_long_message_leaves_and_nothing_behind_it() {
    // Packets that are built together, some before the hole and some behind it.
    let (kept, all) = (2 * PAGE, 4 * PAGE);
    for (third, path) in [(137, PathChoice::Udp), (138, PathChoice::SharedMemory)] {
        let (a, b) = pair_with(third, QpType::Rc, all, &Options { path, ..Options::default() });
        let read = Operation::Read { remote_address: b.address(), r_key: b.key };
        a.post(1, read, a.sge(0, 8));
        a.completions(1);
        let mapping = Mapping::new(4);
        mapping.set(0, &vec![0x5a; all]);
        let key = a.register(mapping.address(), all, all_rights());
        mapping.protect(2, libc::PROT_NONE);
        let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
        let (at_a, at_b) = (a.create_qp(QpType::Rc), b.create_qp(QpType::Rc));
        a.connect_qp(at_a, b.gid().gid, at_b);
        b.connect_qp(at_b, a.gid().gid, at_a);
        a.post_on(at_a, 2, write, a.sge(0, 8));
        let sge = Sge { address: mapping.address(), length: all as u32, l_key: key };
        a.post_on(at_a, 3, write, sge);
        let outcomes: Vec<_> =
            a.outcomes(2).iter().map(|outcome| (outcome.id, outcome.status)).collect();
        let expected = [(2, CompletionStatus::Success), (3, CompletionStatus::LocalProtection)];
        assert_eq!(outcomes, expected, "{path:?}");
        // The answer to another shows that what was sent before it has arrived.
        a.post(4, read, a.sge(0, 8));
        a.completions(1);
        assert!(b.memory[..kept].iter().all(|&byte| byte == 0x5a), "{path:?}");
        assert!(b.memory[kept..].iter().all(|&byte| byte == 0), "{path:?}");
        assert_eq!(a.nic.counts().tx_faulted, 1, "{path:?}");
    }
}

#[test]
fn a_receive_whose_memory_is_gone_fails_at_both_ends() {
    for (loss, length) in LOSSES.into_iter().flat_map(|loss| [(loss, 1), (loss, LENGTH)]) {
        let (a, b) = pair(67, QpType::Rc, 16 << 10);
        let doomed = Doomed::new(loss);
        let key =
            b.register(doomed.mapping.address(), doomed.mapping.length(), Access::LOCAL_WRITE);
        b.post_recv(7, doomed.sge(LENGTH, key));
        b.post_recv(8, b.sge(0, 100));
        doomed.goes();
        a.post(1, SEND, a.sge(0, length as usize));
        assert_eq!(a.outcomes(1)[0].status, CompletionStatus::RemoteOperation, "{loss:?}");
        let outcomes: Vec<_> =
            b.outcomes(2).iter().map(|outcome| (outcome.id, outcome.status)).collect();
        assert_eq!(
            outcomes,
            [(7, CompletionStatus::LocalProtection), (8, CompletionStatus::Flushed)],
            "{loss:?}"
        );
        assert!(b.was_told(Event::QpFatal(b.qpn)));
    }
}

#[test]
fn unreliable_queue_pairs_fail_at_the_end_that_has_lost_its_memory() {
    let lost = |host: &Host| {
        let mapping = Mapping::new(1);
        let key = host.register(mapping.address(), mapping.length(), Access::LOCAL_WRITE);
        mapping.unmap();
        let sge = Sge { address: mapping.address(), length: 100, l_key: key };
        (mapping, sge)
    };
    for kind in [QpType::Uc, QpType::Ud] {
        let (a, b) = pair_with(68, kind, 16 << 10, &Options::default());
        let send = match kind {
            QpType::Ud => Operation::Send {
                immediate: None,
                address: Some(UdAddress {
                    gid: b.gid().gid,
                    source_gid: a.gid().gid,
                    qpn: b.qpn,
                    q_key: Q_KEY,
                    traffic_class: 0,
                    hop_limit: 64,
                    flow_label: 0,
                }),
            },
            _ => SEND,
        };
        let (_gone, sge) = lost(&a);
        b.post_recv(7, b.sge(0, 4096));
        a.post(1, send, a.sge(0, 100));
        a.post(2, send, sge);
        a.post(3, send, a.sge(0, 100));
        let outcomes: Vec<_> =
            a.outcomes(3).iter().map(|outcome| (outcome.id, outcome.status)).collect();
        assert_eq!(
            outcomes,
            [
                (1, CompletionStatus::Success),
                (2, CompletionStatus::LocalProtection),
                (3, CompletionStatus::Flushed)
            ]
        );
        assert_eq!(a.state(a.qpn), QpState::Sqe);
        assert_eq!(b.completions(1)[0].id, 7);

        let (a, b) = pair_with(68, kind, 16 << 10, &Options::default());
        let send = match send {
            Operation::Send { address: Some(address), .. } => Operation::Send {
                immediate: None,
                address: Some(UdAddress { qpn: b.qpn, ..address }),
            },
            other => other,
        };
        let (_gone, sge) = lost(&b);
        let receive = RecvRequest { id: 9, sges: &[sge, b.sge(0, 100)] };
        b.nic.with(|endpoint, _, _| endpoint.post_recv(b.qpn, &receive)).unwrap();
        a.post(1, send, a.sge(0, 100));
        a.completions(1);
        assert_eq!(b.outcomes(1)[0].status, CompletionStatus::LocalProtection);
        assert!(b.was_told(Event::QpFatal(b.qpn)));
    }
}

/// Faults in the middle of the program, as far from any region as can be.
fn fault() {
    // SAFETY: nothing is mapped at this address; the fault is intended.
    unsafe { core::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
}

/// A host in this process to which a peer, in this process, writes in vain.
fn survive(third: u8) {
    let (a, b) = pair(third, QpType::Rc, 4096);
    let mapping = Mapping::new(1);
    let key = b.register(mapping.address(), mapping.length(), all_rights());
    mapping.unmap();
    let remote_address = mapping.address();
    a.post(1, Operation::Write { remote_address, r_key: key, immediate: None }, a.sge(0, 8));
    assert_eq!(a.outcomes(1)[0].status, CompletionStatus::RemoteAccess);
}

#[test]
fn faults_that_are_not_ours_end_the_program_as_ever() {
    for (name, cause) in [
        ("a fault", fault as fn()),
        // SAFETY: sends a signal to this thread.
        ("a signal", || assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0)),
    ] {
        let status = status_of_child(|| {
            // The standard library has a handler of its own.
            handle_faults_by(libc::SIG_DFL);
            survive(69);
            cause();
        });
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{name}");
    }
}

/// The exit status of a program's own handler.
const THEIRS: i32 = 42;

extern "C" fn their_handler(_: c_int) {
    // SAFETY: ends the process, as a handler may.
    unsafe { libc::_exit(THEIRS) };
}

/// Installs a handler that hands nothing on.
fn handle_faults() {
    handle_faults_by(their_handler as extern "C" fn(c_int) as usize);
}

fn handle_faults_by(handler: libc::sighandler_t) {
    // SAFETY: an all-zero action with a handler of the type that it stands for.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, core::ptr::null_mut()), 0);
    }
}

#[test]
fn a_handler_of_the_program_gets_what_is_not_ours_whoever_was_first() {
    for theirs_first in [true, false] {
        let status = status_of_child(|| {
            if theirs_first {
                handle_faults();
            }
            let host = Host::open("127.0.70.9", QpType::Rc, 4096);
            if !theirs_first {
                handle_faults();
            }
            survive(70);
            survive(70);
            drop(host);
            fault();
        });
        assert!(libc::WIFEXITED(status), "{theirs_first}: {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), THEIRS, "{theirs_first}");
    }
}

#[test]
fn a_program_that_insists_on_its_own_handler_has_it_in_the_end() {
    let status = status_of_child(|| {
        let host = Host::open("127.0.70.8", QpType::Rc, 4096);
        for _ in 0..=FAULT_HANDLERS_MAX {
            handle_faults();
            host.register(host.address(), 1, Access::NONE);
        }
        survive(70);
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == THEIRS, "{status:#x}");
}

#[test]
fn handlers_that_hand_on_to_each_other_come_to_an_end() {
    static OURS: std::sync::Mutex<Option<usize>> = std::sync::Mutex::new(None);

    extern "C" fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let ours = OURS.lock().unwrap().take();
        // A second call would mean a circle of handlers.
        let Some(ours) = ours else {
            their_handler(signal);
            return;
        };
        // SAFETY: what was displaced was of this type, and the arguments are the kernel's.
        unsafe {
            let ours: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                core::mem::transmute(ours);
            ours(signal, info, context);
        }
    }

    let status = status_of_child(|| {
        let host = Host::open("127.0.71.9", QpType::Rc, 4096);
        // SAFETY: an all-zero action with a handler of the type that its flags stand for.
        unsafe {
            let mut displaced: libc::sigaction = core::mem::zeroed();
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_flags = libc::SA_SIGINFO;
            action.sa_sigaction = hand_on as *const () as usize;
            let result = libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut displaced);
            assert_eq!(result, 0);
            *OURS.lock().unwrap() = Some(displaced.sa_sigaction);
        }
        survive(71);
        drop(host);
        fault();
    });
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
}
