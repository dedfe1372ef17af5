//! Threads of the application that wait for events, and do the progress thread's work meanwhile.

use core::time::Duration;
use std::time::Instant;
use std::{io, thread};

use rdma::{CompletionStatus, Operation, QpType};
use transport::Event;

use crate::support::{Host, PATIENCE, SEND, all_rights, pair};

/// Two connected hosts without progress threads: the application does all work.
fn pair_without_threads(third: u8) -> [Host; 2] {
    let hosts = [1, 2].map(|last| Host::open(&format!("127.0.{third}.{last}"), QpType::Rc, 4096));
    for (host, peer) in [(&hosts[0], &hosts[1]), (&hosts[1], &hosts[0])] {
        for change in host.way_to_rts(peer.gid().gid, peer.qpn, all_rights()) {
            host.nic.with(|endpoint, _, _| endpoint.modify_qp(host.qpn, &change)).unwrap();
        }
    }
    hosts
}

/// Waits for a message by events alone.
fn receive(host: &Host, id: u64) {
    let started = Instant::now();
    loop {
        let mut found = [rdma::Completion::NOTHING; 4];
        let count = host.nic.with(|endpoint, _, _| {
            let one = endpoint.poll_cq(host.cq);
            found[0] = one.unwrap_or(found[0]);
            usize::from(one.is_some())
        });
        if count == 0 {
            host.stand_in().unwrap();
            host.arm();
        } else if found[0].id == id {
            assert_eq!(found[0].status, CompletionStatus::Success);
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{id}: {:?}", host.nic.counts());
    }
}

#[test]
fn messages_go_to_and_fro_between_two_that_wait_for_events() {
    const ROUNDS: u64 = 200;
    let hosts = pair_without_threads(70);
    for host in &hosts {
        host.arm();
        host.post_recv(1, host.sge(0, 100));
    }
    thread::scope(|scope| {
        for (index, host) in hosts.iter().enumerate() {
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    if index == 0 {
                        host.post(0, SEND, host.sge(100, 100));
                    }
                    receive(host, round);
                    host.post_recv(round + 1, host.sge(0, 100));
                    if index == 1 {
                        host.post(0, SEND, host.sge(100, 100));
                    }
                }
            });
        }
    });
    for host in &hosts {
        let counts = host.nic.counts();
        assert!(counts.stand_in_packets >= ROUNDS, "{counts:?}");
        assert_eq!(counts.thread_wakeups, 0);
    }
}

#[test]
fn timers_fire_while_somebody_stands_in() {
    let [mut a, b] = pair_without_threads(71);
    // 4.096 us x 2^8, eight times: about two milliseconds without an answer.
    a.timeout = 8;
    drop(b);
    let peer = ("127.0.71.2".parse::<core::net::Ipv4Addr>().unwrap().into(), a.qpn);
    a.qpn = a.create_qp(QpType::Rc);
    for change in a.way_to_rts(peer.0, peer.1, all_rights()) {
        a.nic.with(|endpoint, _, _| endpoint.modify_qp(a.qpn, &change)).unwrap();
    }
    a.arm();
    a.post(5, SEND, a.sge(0, 100));
    a.stand_in().unwrap();
    assert!(a.was_told(Event::CompletionNotify(a.cq)));
    assert_eq!(a.outcomes(1)[0].status, CompletionStatus::RetryExceeded);
}

#[test]
fn the_thread_is_back_when_the_application_does_something_else() {
    let (a, b) = pair(72, QpType::Rc, 4096);
    let write = |host: &Host, peer: &Host| {
        let remote_address = peer.address();
        let write = Operation::Write { remote_address, r_key: peer.key, immediate: None };
        let started = Instant::now();
        host.post(1, write, host.sge(0, 8));
        host.completions(1);
        started.elapsed()
    };
    let mut fastest = Duration::MAX;
    for round in 0..5 {
        a.post_recv(round, a.sge(0, 100));
        a.arm();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| a.stand_in());
            thread::sleep(Duration::from_millis(20));
            b.post(round, SEND, b.sge(0, 100));
            b.completions(1);
            waiter.join().unwrap().unwrap();
        });
        // No thread calls its NIC now.
        fastest = fastest.min(write(&b, &a));
        a.completions(1);
    }
    assert!(fastest < Duration::from_millis(300), "it would have slept for a second: {fastest:?}");
    assert!(a.nic.counts().stand_in_packets > 0, "{:?}", a.nic.counts());
}

#[test]
fn nobody_stands_in_while_another_waits() {
    let (a, b) = pair(73, QpType::Rc, 4096);
    let stand_in = a.nic.stand_in();
    a.arm();
    let another = stand_in.waiting();
    // There is no event, and it does not wait for one.
    a.stand_in().unwrap();
    drop(another);
    assert!(!a.was_told(Event::CompletionNotify(a.cq)));
    for round in 0..5 {
        a.post_recv(round, a.sge(0, 100));
        a.arm();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| a.stand_in());
            thread::sleep(Duration::from_millis(5));
            let another = stand_in.waiting();
            b.post(round, SEND, b.sge(0, 100));
            b.completions(1);
            waiter.join().unwrap().unwrap();
            // The progress thread works for the one that still waits.
            b.post(
                round,
                Operation::Read { remote_address: a.address(), r_key: a.key },
                b.sge(0, 8),
            );
            b.completions(1);
            drop(another);
        });
        a.completions(1);
    }
}

#[test]
fn a_signal_ends_the_wait() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int);
    // SAFETY: all zeros are a valid sigaction: no flags, no signals that are held back.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: a handler that does nothing, for a signal that nobody else here uses.
    let result =
        unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut()) };
    assert_eq!(result, 0);
    let (a, _b) = pair(74, QpType::Rc, 4096);
    a.arm();
    thread::scope(|scope| {
        let (a, events) = (&a, &a.events);
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = scope.spawn(move || {
            // SAFETY: takes nothing and cannot fail.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            a.nic.stand_in().until(events.doorbell(), || false)
        });
        let target = told.recv().unwrap();
        let started = Instant::now();
        while !waiter.is_finished() {
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
            thread::sleep(Duration::from_millis(1));
            assert!(started.elapsed() < PATIENCE);
        }
        let error = waiter.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    });
}

#[test]
fn who_stands_in_does_not_keep_the_nic_open() {
    let (a, b) = pair(75, QpType::Rc, 4096);
    let stand_in = a.nic.stand_in();
    let events = a.events.clone();
    let waiter = thread::spawn(move || stand_in.until(events.doorbell(), || false));
    thread::sleep(Duration::from_millis(5));
    drop(a);
    waiter.join().unwrap().unwrap();
    drop(b);
}
