//! Programs that scribble over their rings, and send what is no packet: they harm themselves alone.

mod common;

use core::time::Duration;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use common::{End, Running, two_hosts, wait_until};
use rdma::CompletionStatus;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use softnic::lab::{Channel, VERSION};

/// Where entries begin in the memory of a ring, and how much there is of them.
const DATA_AT: u64 = 4096;
const RING_BYTES: u64 = 256 << 10;
const NONCE: u64 = 99;

/// A program that is attached by hand: its channel, and the memory of both rings.
struct Hostile {
    channel: Channel,
    rings: [File; 2],
}

impl Hostile {
    fn attach(running: &Running, host: &str, slot: u16) -> Self {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("hostile", flags).unwrap();
        ftruncate(&file, DATA_AT + RING_BYTES).unwrap();
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).unwrap();
        let file = File::from(file);
        file.write_all_at(&NONCE.to_ne_bytes(), 0).unwrap();
        let channel = Channel::connect(&running.found.socket).unwrap();
        let request = format!("attach {VERSION} {host} {slot} {NONCE}");
        channel.send(request.as_bytes(), Some(file.as_fd())).unwrap();
        let reply = channel.wait(5_000).unwrap();
        assert!(reply.text.starts_with("ok 10.0.0."), "{}", reply.text);
        let back: OwnedFd = reply.file.unwrap();
        Self { channel, rings: [file, File::from(back)] }
    }

    /// Puts an entry of these bytes at line `place` of its ring, as if it kept to the rules. Returns the next place.
    fn push(&self, place: u64, bytes: &[u8]) -> u64 {
        let lines = (8 + bytes.len() as u64).div_ceil(64);
        let at = |line: u64| DATA_AT + line % (RING_BYTES / 64) * 64;
        self.rings[0].write_all_at(bytes, at(place) + 8).unwrap();
        self.rings[0].write_all_at(&0_u64.to_ne_bytes(), at(place + lines)).unwrap();
        let word = place & 0x00ff_ffff | (bytes.len() as u64) << 24;
        self.rings[0].write_all_at(&word.to_ne_bytes(), at(place)).unwrap();
        let _ = self.channel.send(&[1], None);
        place + lines
    }
}

#[test]
fn a_program_that_scribbles_over_its_rings_harms_itself_alone() {
    let running = Running::start("scribble", common::hosts(3));
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    let mut random = fastrand::Rng::with_seed(11);
    let begin = Instant::now();
    let mut rounds = 0_u16;
    while begin.elapsed() < Duration::from_secs(2) {
        let hostile = Hostile::attach(&running, "h2", 1 + rounds);
        for _ in 0..200 {
            let ring = &hostile.rings[random.usize(..2)];
            let at = match random.u8(..3) {
                0 => random.u64(..DATA_AT / 8) * 8,
                1 => DATA_AT + random.u64(..64) * 8,
                _ => DATA_AT + random.u64(..RING_BYTES / 8) * 8,
            };
            // Words that are nearly right as well as any.
            let word = match random.u8(..4) {
                0 => random.u64(..),
                1 => random.u64(..8) << 24 | random.u64(..32),
                2 => random.u64(..4),
                _ => random.u64(..0x2000) << 24,
            };
            ring.write_all_at(&word.to_ne_bytes(), at).unwrap();
            let _ = hostile.channel.send(&[1], None);
        }
        a.fill(rounds as u8);
        assert_eq!(a.write_to(&b), CompletionStatus::Success, "round {rounds}");
        assert_eq!(b.bytes(), a.bytes());
        rounds = (rounds + 1) % 1_000;
    }
    wait_until(|| running.ask("status").matches(" process ").count() == 2);
    running.end();
}

#[test]
fn what_is_no_packet_is_refused_and_counted_and_a_right_one_of_another_host_too() {
    let running = Running::start("packets", two_hosts());
    let hostile = Hostile::attach(&running, "h0", 3);
    let mut random = fastrand::Rng::with_seed(12);
    let (mut place, mut count) = (0, 0);
    // An IPv4 header for UDP, sometimes with the right addresses, and anything behind it.
    for round in 0..300_u32 {
        let mut bytes: Vec<u8> = (0..random.usize(1..200)).map(|_| random.u8(..)).collect();
        if bytes.len() > 40 {
            let length = (bytes.len() as u16).to_be_bytes();
            bytes[..4].copy_from_slice(&[0x45, 0, length[0], length[1]]);
            bytes[6..10].copy_from_slice(&[0x40, 0, 64, 17]);
            bytes[12..20].copy_from_slice(&[10, 0, 0, 1 + (round % 3) as u8, 10, 0, 0, 2]);
        }
        place = hostile.push(place, &bytes);
        count += 1;
        // As many as the ring holds, so that none is overwritten.
        if round % 100 == 99 {
            let sent = format!("sent {count} and");
            wait_until(|| running.ask("status").contains(&sent));
        }
    }
    let status = running.ask("status");
    assert!(status.contains("300 were refused"), "{status}");
    assert!(status.contains("dropped     nothing"), "{status}");
    running.end();
}

#[test]
fn a_slot_has_one_program_and_is_free_when_it_is_gone() {
    let running = Running::start("slot", two_hosts());
    let first = Hostile::attach(&running, "h0", 5);
    let _elsewhere = Hostile::attach(&running, "h1", 5);
    let second = Channel::connect(&running.found.socket).unwrap();
    let request = format!("attach {VERSION} h0 5 {NONCE}");
    first.rings[0].write_all_at(&0_u64.to_ne_bytes(), 128).unwrap();
    second.send(request.as_bytes(), Some(first.rings[0].as_fd())).unwrap();
    let refused = second.wait(5_000).unwrap().text;
    assert!(refused.starts_with("no another program has this slot"), "{refused}");
    drop(first);
    wait_until(|| running.ask("status").matches(" process ").count() == 1);
    let _third = Hostile::attach(&running, "h0", 5);
    running.end();
}
