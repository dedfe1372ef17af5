//! How NICs come to share rings, and how they talk until then or where they do not.

use super::*;

#[test]
fn two_nics_that_speak_often_go_over_to_rings() {
    for path in [PathChoice::SharedMemory, PathChoice::SharedMemoryWithIcrc] {
        let (a, b) = (Honest::open("127.0.48.21", path), Honest::open("127.0.48.22", path));
        // The last comes with an offer.
        (0..=RUNS_BEFORE_OFFER).for_each(|_| a.reaches(&b));
        let by_udp = u64::from(RUNS_BEFORE_OFFER) + 1;
        for _ in 0..2 {
            for nic in [&a.nic, &b.nic] {
                let counts = nic.counts();
                assert_eq!((counts.rings_taken, counts.rings_refused), (1, 0));
                assert_eq!((counts.tx_trains, counts.rx_trains), (by_udp, by_udp));
                assert_eq!(counts.tx_packets - counts.tx_ring_packets, by_udp);
                assert_eq!(counts.rx_packets - counts.rx_ring_packets, by_udp);
            }
            a.reaches(&b);
            b.reaches(&a);
        }
        for nic in [&a.nic, &b.nic] {
            let counts = nic.counts();
            assert_eq!(
                (counts.rings_made, counts.tx_ring_packets, counts.rx_ring_packets),
                (1, 4, 4)
            );
        }
    }
}

#[test]
fn a_nic_is_not_looked_for_before_it_may_be_offered_a_ring() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (a, b) = (open("127.0.48.70"), open("127.0.48.71"));
    a.reaches_often(&b);
    assert_eq!((a.knows(), b.knows()), (0, 0));
    a.reaches(&b);
    assert_eq!((a.knows(), b.knows()), (1, 1));
}

#[test]
fn who_has_a_ring_is_reached_by_it_also_where_that_was_forgotten() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (a, b) = (open("127.0.48.72"), open("127.0.48.73"));
    a.shares_rings_with(&b);
    let mut core = a.nic.shared().lock();
    let (Attachment { site, .. }, engine) = core.parts(crate::clock::now());
    let (now, slot) = (crate::clock::now(), b.member().slot);
    for host in 0..CHOICES_MAX as u8 {
        let elsewhere = Gid::from(IpAddr::from([127, 0, 49, host]));
        site.paths.shm().reach_or_offer(
            &site.membership.registry,
            elsewhere,
            slot,
            now,
            engine.counts,
        );
    }
    drop(core);
    let before = a.nic.counts();
    a.reaches(&b);
    let after = a.nic.counts();
    let by_udp = |counts: &Counts| counts.tx_packets - counts.tx_ring_packets;
    assert_eq!(by_udp(&after), by_udp(&before));
    assert!(after.tx_ring_packets > before.tx_ring_packets);
}

#[test]
fn no_packet_overtakes_another_when_a_ring_begins() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (a, b) = (open("127.0.48.61"), open("127.0.48.62"));
    a.reaches_often(&b);
    let ours = a.queue_pair(b.gid(), |ours| b.queue_pair(a.gid(), |_| ours));
    // The first by UDP, the second through a ring; both are there when it looks.
    a.post(ours, 8, (b.address(), b.key));
    b.takes_offers();
    a.post(ours, 8, (b.address(), b.key));
    a.nic.poll();
    let by_udp = u64::from(RUNS_BEFORE_OFFER) + 1;
    let sent = a.nic.counts();
    assert_eq!((sent.tx_trains, sent.tx_ring_packets, sent.rings_made), (by_udp, 1, 1));
    b.looks_at_rings();
    assert_eq!(b.nic.with(|endpoint, _, _| endpoint.stats().out_of_seq_request), 0);
    for _ in 0..2 {
        b.nic.poll();
    }
    let counts = b.nic.counts();
    assert_eq!((counts.rx_trains, counts.rx_ring_packets), (by_udp, 1));
    assert_eq!(b.nic.with(|endpoint, _, _| endpoint.stats().out_of_seq_request), 0);
    assert_eq!(a.write(ours, (b.address(), b.key), || b.nic.poll()), CompletionStatus::Success);
}

#[test]
fn an_offer_that_nobody_takes_keeps_nothing_from_getting_there() {
    let a = Honest::open("127.0.48.63", PathChoice::SharedMemory);
    // It takes no rings, and somebody else has its mailbox for them.
    let b = Honest::open("127.0.48.64", PathChoice::Udp);
    let _other = Offers::bind(crate::host::runtime::network_namespace(), b.member()).unwrap();
    a.reaches_often(&b);
    a.reaches(&b);
    b.reaches(&a);
    let counts = a.nic.counts();
    assert_eq!((counts.rings_made, counts.rings_refused, counts.tx_ring_packets), (0, 0, 0));
}

#[test]
fn an_offer_is_made_again_when_the_mailbox_has_room() {
    let open = |address| Honest::open(address, PathChoice::SharedMemory);
    let (a, b) = (open("127.0.48.65"), open("127.0.48.66"));
    let liar = Liar::without_ring("127.0.48.67", &b);
    a.reaches_often(&b);
    while liar.offers().send(b.member(), liar.message(Kind::Doorbell, 0), None).is_ok() {}
    let ours = a.queue_pair(b.gid(), |ours| b.queue_pair(a.gid(), |_| ours));
    a.post(ours, 8, (b.address(), b.key));
    let counts = a.nic.counts();
    assert_eq!((counts.rings_made, counts.rings_refused), (0, 1));
    a.shares_rings_with(&b);
    assert_eq!(a.nic.counts().rings_made, 1);
}

#[test]
fn a_nic_has_so_many_rings_and_reaches_others_by_udp() {
    let open = || Honest::open("127.0.48.68", PathChoice::SharedMemory);
    let one = Honest::open("127.0.48.69", PathChoice::SharedMemory);
    let others: Vec<Honest> = (0..RINGS_MAX + 2).map(|_| open()).collect();
    let started = Instant::now();
    while one.nic.counts().rings_made < RINGS_MAX as u64 {
        for other in &others {
            one.reaches_often(other);
            one.reaches(other);
        }
        assert!(started.elapsed().as_secs() < PATIENCE_SECONDS, "{:?}", one.nic.counts());
    }
    for _ in 0..2 {
        others.iter().for_each(|other| one.reaches(other));
    }
    let counts = one.nic.counts();
    assert_eq!(counts.rings_made, RINGS_MAX as u64);
    assert!(counts.rings_taken <= RINGS_MAX as u64, "{counts:?}");
    assert!(counts.tx_ring_packets > 0 && counts.rings_refused > 0, "{counts:?}");
    // Who comes now is not looked for, however often it is sent to.
    let (late, known) = (open(), one.knows());
    (0..2).for_each(|_| one.reaches_often(&late));
    assert_eq!(one.knows(), known);
}

#[test]
fn one_of_many_that_a_nic_speaks_to_in_turn_is_offered_no_ring() {
    let one = Honest::open("127.0.48.75", PathChoice::SharedMemory);
    // They offer it none themselves.
    let open = || Honest::open("127.0.48.76", PathChoice::Udp);
    let others: Vec<Honest> = (0..2 * RINGS_MAX).map(|_| open()).collect();
    for _ in 0..RUNS_BEFORE_OFFER + 4 {
        others.iter().for_each(|other| one.reaches(other));
    }
    assert_eq!((one.knows(), one.nic.counts().rings_refused), (0, 0));
    // One of them says much now.
    (0..2).for_each(|_| one.reaches_often(&others[0]));
    assert_eq!(one.knows(), 1);
}

#[test]
fn a_nic_that_takes_no_rings_is_reached_by_udp() {
    let (a, b) = (
        Honest::open("127.0.48.23", PathChoice::SharedMemory),
        Honest::open("127.0.48.24", PathChoice::Udp),
    );
    a.reaches_often(&b);
    a.reaches(&b);
    b.reaches(&a);
    let counts = [a.nic.counts(), b.nic.counts()];
    assert_eq!(counts.map(|counts| counts.tx_ring_packets), [0, 0]);
    assert!(counts[0].rings_refused > 0 && counts[1].rings_refused == 0, "{counts:?}");
}

#[test]
fn a_slot_that_has_gone_to_another_leads_to_the_other() {
    let victim = Honest::open("127.0.48.25", PathChoice::SharedMemory);
    let mut liar = Liar::open("127.0.48.26", &victim);
    let (gid, qpn) = (liar.address(), liar.qpn());
    // It takes a ring and nothing in it, ends, and another one has its slot.
    liar.take_ring_from(&victim);
    let ours = victim.queue_pair(gid, |_| qpn);
    assert_eq!(victim.write(ours, (0, Key(0)), || {}), CompletionStatus::RetryExceeded);
    assert_eq!(victim.nic.counts().rings_made, 1);
    liar.attachment.leave();
    drop(liar);
    let ours = victim.queue_pair(gid, |_| qpn);
    assert_eq!(victim.write(ours, (0, Key(0)), || {}), CompletionStatus::RetryExceeded);
    let new = Honest::open("127.0.48.26", PathChoice::SharedMemory);
    victim.shares_rings_with(&new);
    assert_eq!(victim.nic.counts().rings_made, 2);
}

#[test]
fn offers_of_something_else_are_refused_and_leave_nothing() {
    let victim = Honest::open("127.0.48.27", PathChoice::SharedMemory);
    let liar = Liar::without_ring("127.0.48.28", &victim);
    let (good, ring) = Producer::create(7).unwrap();
    let short = map::sealed_memory(BYTES).unwrap();
    let not_memory = sys::eventfd().unwrap();
    for (file, nonce) in [(None, 7), (Some(&short), 0), (Some(&not_memory), 0), (Some(&ring), 8)] {
        liar.offer(file, nonce);
        victim.nic.poll();
    }
    assert_eq!(good.state(), State::Offered);
    // Of nobody, and of nobody who is alive.
    for from in [
        Member { slot: 0, claim: 1 },
        Member { slot: u16::MAX, claim: 1 },
        Member {
            claim: liar.attachment.site.membership.registry.member().claim ^ 1,
            ..liar.attachment.site.membership.registry.member()
        },
    ] {
        let (of_nobody, file) = Producer::create(7).unwrap();
        let message = Message { from, ..liar.message(Kind::Offer, 7) };
        liar.offers().send(liar.victim, message, Some(file.as_fd())).unwrap();
        victim.nic.poll();
        assert_eq!(of_nobody.state(), State::Gone);
    }
    assert_eq!(victim.nic.counts().rings_refused, 7);
    // The owner of the slot before it has had another mailbox.
    let earlier = Member { claim: liar.victim.claim ^ 1, ..liar.victim };
    let lost = liar.offers().send(earlier, liar.message(Kind::Offer, 7), Some(ring.as_fd()));
    assert_eq!(lost.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    // One that was taken back, a good one at last, and a second, which is one too many.
    let (withdrawn, file) = Producer::create(7).unwrap();
    withdrawn.withdraw();
    liar.offer(Some(&file), 7);
    liar.offer(Some(&ring), 7);
    let (second, file) = Producer::create(7).unwrap();
    liar.offer(Some(&file), 7);
    victim.nic.poll();
    let answers = [withdrawn, good, second].map(|ring| ring.state());
    assert_eq!(answers, [State::Gone, State::Awake, State::Gone]);
    let counts = victim.nic.counts();
    assert_eq!((counts.rings_taken, counts.rings_refused), (1, 9));
}
