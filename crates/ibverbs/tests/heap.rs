//! A signal handler that takes memory of the C library's, as perftest's does, while this library takes some of its own.

#![allow(unsafe_code, reason = "signals and the C library's heap")]

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

// What is tested is the heap that it brings.
use ibverbs as _;

const SIGNALS: u64 = 200_000;
const PATIENCE: Duration = Duration::from_secs(60);

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_signal: i32) {
    // SAFETY: what is taken is given back. That a handler may not do this is what the test is about.
    unsafe { libc::free(libc::malloc(1024)) };
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_handler_may_take_memory_while_the_library_does() {
    let handler: extern "C" fn(i32) = handler;
    // SAFETY: the handler takes the signal's number.
    unsafe { libc::signal(libc::SIGUSR1, handler as usize) };
    let (told, taker) = mpsc::channel();
    let taking = thread::spawn(move || {
        // SAFETY: names this thread.
        told.send(unsafe { libc::pthread_self() }).unwrap();
        let mut kept = Vec::new();
        for size in (1_usize..).map(|number| number % 4_096) {
            kept.push(vec![0_u8; size]);
            if kept.len() > 64 {
                kept.clear();
            }
            if HANDLED.load(Ordering::Relaxed) >= SIGNALS {
                break;
            }
        }
    });
    let taker = taker.recv().unwrap();
    let begin = Instant::now();
    while HANDLED.load(Ordering::Relaxed) < SIGNALS {
        // A thread that waits for itself cannot be joined, nor the test end.
        if begin.elapsed() > PATIENCE {
            eprintln!("{} of {SIGNALS} signals were handled", HANDLED.load(Ordering::Relaxed));
            std::process::abort();
        }
        // SAFETY: the thread lives until it has been joined.
        unsafe { libc::pthread_kill(taker, libc::SIGUSR1) };
    }
    taking.join().unwrap();
}
