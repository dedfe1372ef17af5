//! The hot path takes no memory from the heap: counted, in the threads of the application.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use rdma::{Completion, CompletionStatus, Operation, QpType};
use softnic::{Options, PathChoice};

use crate::support::{Host, SEND, pair_with};

/// The system's allocator, with a count of its calls for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is handed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

const LARGE: usize = 64 << 10;
/// After so many rounds every queue has its full length.
const WARM_UP: u64 = 300;
const ROUNDS: u64 = 300;

/// Polls both until there is a completion at each that expects one.
fn finish(a: &Host, b: &Host, receives: bool) {
    let mut some = [Completion::NOTHING; 4];
    let (mut sent, mut received) = (0, 0);
    while sent == 0 || (receives && received == 0) {
        for (host, count) in [(a, &mut sent), (b, &mut received)] {
            let found = host.nic.poll_cq(host.cq, &mut some);
            *count += found;
            for completion in &some[..found] {
                assert_eq!(completion.status, CompletionStatus::Success);
            }
        }
    }
}

/// A short SEND, a long WRITE and a long READ.
fn round(a: &Host, b: &Host) {
    b.post_recv(1, b.sge(0, LARGE));
    a.post(2, SEND, a.sge(0, 8));
    finish(a, b, true);
    let (remote_address, r_key) = (b.address(), b.key);
    a.post(3, Operation::Write { remote_address, r_key, immediate: None }, a.sge(0, LARGE));
    finish(a, b, false);
    a.post(4, Operation::Read { remote_address, r_key }, a.sge(0, LARGE));
    finish(a, b, false);
}

fn allocations_of_rounds(third: u8, path: PathChoice) -> u64 {
    let options = Options { path, ..Options::default() };
    let (a, b) = pair_with(third, QpType::Rc, LARGE, &options);
    for _ in 0..WARM_UP {
        round(&a, &b);
    }
    let before = allocations();
    for _ in 0..ROUNDS {
        round(&a, &b);
    }
    allocations() - before
}

#[test]
fn nothing_is_allocated_for_a_message_over_udp() {
    assert_eq!(allocations_of_rounds(149, PathChoice::Udp), 0);
}

#[test]
fn nothing_is_allocated_for_a_message_by_rings() {
    assert_eq!(allocations_of_rounds(150, PathChoice::SharedMemory), 0);
}
