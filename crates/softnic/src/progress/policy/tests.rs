//! The rules as tables: a situation, and what is decided. All time is pretended.

use transport::Flight;

use super::turns::{Reach, reach_of_stand_in};
use super::*;

const NOW: Time = Time::from_ns(5_000_000_000);
const MOMENT: Span = Span::from_us(1);
const SECOND: Span = Span::from_ms(1_000);

use OnDuty::{StandIn, Thread};

/// A policy to which something has happened.
fn after(happens: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::default();
    happens(&mut policy);
    policy
}

/// One on duty who has been parked because the application polls.
fn parked(policy: &mut Policy) -> Parking {
    let (before, mut parking) = (policy.clone(), Parking::since(policy.packets));
    policy.event_at = None;
    poll(policy, NOW, 0);
    poll(policy, NOW, 0);
    assert!(policy.parks(Thread, NOW, &mut parking, false));
    *policy = before;
    parking
}

fn poll(policy: &mut Policy, now: Time, found: usize) -> bool {
    policy.polled(now, found, false, Carrier::Kernel)
}

/// The application takes `inline` packets, and the one on duty then `here`. Says whether it is parked.
fn look(policy: &mut Policy, parking: &mut Parking, inline: u64, here: u64) -> bool {
    policy.took(inline);
    policy.took_on_duty(NOW, parking, here);
    parking.is_parked()
}

/// The progress thread goes to sleep, and watches.
fn thread_sleeps(policy: &mut Policy, now: Time) -> Sleep {
    policy.sleeps(Thread, now, &Parking::default(), Pending::default())
}

/// Somebody begins to stand in and goes to sleep.
fn stand_in_sleeps(policy: &mut Policy, now: Time) -> Sleep {
    let (_, parking) = policy.stands_in(now, false).unwrap();
    policy.sleeps(StandIn, now, &parking, Pending::default())
}

fn timer(at: Time) -> Pending {
    Pending { engine: Some(at), ..Pending::default() }
}

fn flight(requests: usize, answer_due_since: Option<Time>) -> Flight {
    Flight { requests, answer_due_since, is_window_full: false }
}

#[test]
fn a_post_waits_behind_many_until_there_is_a_gso_batch() {
    let due = Pressure { own: flight(0, Some(NOW)), ..Pressure::default() };
    let behind = |requests| Pressure { own: flight(requests, Some(NOW)), ..due };
    let many = behind(BATCH_BEHIND + 1);
    let none_due = Pressure { own: flight(BATCH_BEHIND + 1, None), ..due };
    let other = |since| Pressure { last: flight(1, Some(since)), ..none_due };
    let (just, late) = (NOW - ANSWER_PATIENCE + MOMENT, NOW - ANSWER_PATIENCE);
    let (last, bytes) = (BATCH_REQUESTS - 1, BATCH_BYTES - 1);
    for (situation, pressure, posts, decision) in [
        ("not a queue pair that may wait", Pressure::default(), 9, Posted::Leaves),
        ("nothing in flight", due, 1, Posted::Leaves),
        ("a few in flight", behind(BATCH_BEHIND), 1, Posted::Leaves),
        ("several in flight", many, 1, Posted::Waits),
        ("a few posted in a row", due, BATCH_BEHIND, Posted::Leaves),
        ("several posted in a row", due, BATCH_BEHIND + 1, Posted::Waits),
        ("no answer is due", none_due, 9, Posted::Leaves),
        ("another's answer is due", other(just), 1, Posted::Waits),
        ("another's answer is late", other(late), 1, Posted::Leaves),
        ("one less than a GSO batch", Pressure { waiting: last, ..many }, 1, Posted::Waits),
        ("enough requests", Pressure { waiting: BATCH_REQUESTS, ..many }, 1, Posted::Leaves),
        ("a byte less", Pressure { waiting_bytes: bytes, ..many }, 1, Posted::Waits),
        ("enough bytes", Pressure { waiting_bytes: BATCH_BYTES, ..many }, 1, Posted::Leaves),
    ] {
        let mut policy = Policy::default();
        let decisions = (0..posts).map(|_| policy.posted(NOW, &pressure));
        assert_eq!(decisions.last(), Some(decision), "{situation}");
    }
}

#[test]
fn how_many_were_posted_between_two_empty_polls_is_remembered() {
    let due = Pressure { own: flight(0, Some(NOW)), ..Pressure::default() };
    let mut policy = Policy::default();
    let mut round = |posts: usize| {
        let first = policy.posted(NOW, &due);
        for _ in 1..posts {
            policy.posted(NOW, &due);
        }
        policy.polled(NOW, 0, false, Carrier::Kernel);
        // A second poll is none between posts.
        policy.polled(NOW, 0, false, Carrier::Kernel);
        first
    };
    assert_eq!(round(BATCH_BEHIND + 1), Posted::Leaves);
    assert_eq!(round(1), Posted::Waits, "it had posted several the last time");
    assert_eq!(round(1), Posted::Leaves, "and one this time");
}

#[test]
fn a_program_that_posts_on_and_on_has_it_looked_what_has_arrived() {
    let mut policy = Policy::default();
    for _ in 0..POSTS_PER_LOOK {
        assert_eq!(policy.posted(NOW, &Pressure::default()), Posted::Leaves);
    }
    assert_eq!(policy.posted(NOW, &Pressure::default()), Posted::LooksFirst);
    policy.receives();
    assert_eq!(policy.posted(NOW, &Pressure::default()), Posted::Leaves);
}

#[test]
fn polls_that_find_nothing_yield_after_a_while() {
    use Carrier::{Kernel, Lab, Sender};
    let (few, many) = (POLLS_BEFORE_YIELD, RING_POLLS_BEFORE_YIELD);
    let at_once = LAB_POLLS_BEFORE_YIELD;
    for (situation, empty, found, is_served, carrier, yields) in [
        ("the first", 0, 0, false, Kernel, false),
        ("the last of a few", few - 1, 0, false, Kernel, false),
        ("one more", few, 0, false, Kernel, true),
        ("one more, of memory", few, 0, false, Sender, false),
        ("the last of many, of memory", many - 1, 0, false, Sender, false),
        ("one more than that", many, 0, false, Sender, true),
        ("the first of a lab", 0, 0, false, Lab, false),
        ("one more than it gets", at_once, 0, false, Lab, true),
        ("another thread looks or sends", 0, 0, true, Kernel, true),
        ("it does, and something was found", 0, 1, true, Kernel, false),
        ("something was found at last", few, 1, false, Kernel, false),
    ] {
        let mut policy = Policy::default();
        for _ in 0..empty {
            policy.polled(NOW, 0, false, carrier);
        }
        assert_eq!(policy.polled(NOW, found, is_served, carrier), yields, "{situation}");
    }
    let mut policy = Policy::default();
    for _ in 0..few {
        assert!(!poll(&mut policy, NOW, 0));
    }
    assert!(!poll(&mut policy, NOW, 1) && !poll(&mut policy, NOW, 0), "it is counted anew");
}

/// What the application does.
#[derive(Clone, Copy)]
enum Does {
    /// Polls that find nothing.
    Polls(u32),
    /// A poll that finds something.
    Finds,
    Takes(u64),
    IsTold(Time),
}

#[test]
fn one_on_duty_parks_while_the_application_looks_itself() {
    use Does::{Finds, IsTold, Polls, Takes};
    let soon = NOW + POLL_LOOP - MOMENT;
    let later = NOW + SECOND;
    let (short, long) = (NOW - PARK_EVENT_FREE + POLL_LOOP, NOW - PARK_EVENT_FREE);
    let rows: &[(&str, bool, &[Does], Time, bool)] = &[
        ("nobody polls", false, &[], soon, false),
        ("one poll was empty", false, &[Polls(1)], soon, false),
        ("two polls were", false, &[Polls(2)], soon, true),
        ("they were too long ago", false, &[Polls(2)], NOW + POLL_LOOP, false),
        ("a later one found something", false, &[Polls(9), Finds], soon, false),
        ("one was empty since", false, &[Polls(9), Finds, Polls(1)], soon, false),
        ("it waits for events too", false, &[IsTold(short), Polls(2)], soon, false),
        ("it has waited for none for long", false, &[IsTold(long), Polls(2)], soon, true),
        ("it takes packets from one who watches", false, &[Takes(1)], soon, false),
        ("it is parked for and takes packets", true, &[Takes(1)], later, true),
        ("it is parked for and takes none", true, &[], later, false),
        ("it takes packets and waits for events", true, &[Takes(1), IsTold(later)], later, false),
    ];
    for &(situation, is_parked, does, now, parks) in rows {
        let (mut policy, mut parking) = (Policy::default(), Parking::default());
        if is_parked {
            parking = parked(&mut policy);
        }
        for &what in does {
            match what {
                Polls(times) => {
                    for _ in 0..times {
                        poll(&mut policy, NOW, 0);
                    }
                }
                Finds => {
                    poll(&mut policy, NOW, 1);
                }
                Takes(packets) => policy.took(packets),
                IsTold(at) => policy.told(at),
            }
        }
        let watched = parking.clone();
        assert!(!policy.parks(Thread, now, &mut parking, true), "{situation}: something is left");
        for who in [Thread, StandIn] {
            parking = watched.clone();
            assert_eq!(policy.parks(who, now, &mut parking, false), parks, "{situation}");
            assert_eq!(parking.is_parked(), parks || is_parked, "{situation}");
        }
    }
}

#[test]
fn it_parks_while_the_application_takes_nearly_everything() {
    let (mut policy, mut parking) = Default::default();
    assert!(!look(&mut policy, &mut parking, PARK_PACKETS - 2, 1));
    assert!(look(&mut policy, &mut parking, 2, 0));
    assert!(look(&mut policy, &mut parking, 5, 0));
    // Nothing arrived for a nap: the application may have stopped.
    assert!(!look(&mut policy, &mut parking, 0, 0));
}

#[test]
fn it_parks_at_once_where_the_application_looks_itself() {
    let mut policy = after(|policy| policy.took(10));
    let mut parking = parked(&mut policy);
    let later = NOW + SECOND;
    assert!(!policy.clone().parks(Thread, later, &mut parking.clone(), false));
    policy.took(1);
    assert!(policy.parks(Thread, later, &mut parking, false));
    assert!(look(&mut policy, &mut parking, 1, 0), "the application has taken it");
    let mut parking = parked(&mut policy);
    assert!(!look(&mut policy, &mut parking, 0, 0), "it has not");
}

#[test]
fn a_packet_that_nobody_took_ends_it() {
    let (mut policy, mut parking) = Default::default();
    assert!(look(&mut policy, &mut parking, 1000, 0));
    assert!(!look(&mut policy, &mut parking, 500, 1));
    assert!(!look(&mut policy, &mut parking, 10, 0), "they are counted anew");
}

#[test]
fn one_who_is_needed_does_not_park() {
    let (mut policy, mut parking) = Default::default();
    for _ in 0..100 {
        assert!(!look(&mut policy, &mut parking, 100, 50));
    }
    // One packet in ten is the most that may be left to it.
    assert!(!look(&mut policy, &mut Parking::since(10_000), 890, 110));
    assert!(look(&mut policy, &mut Parking::since(10_890), 900, 100));
}

#[test]
fn nobody_parks_for_an_application_that_waits_for_events() {
    let mut policy = after(|policy| policy.told(NOW - Span::from_ms(900)));
    let mut parking = Parking::default();
    assert!(!look(&mut policy, &mut parking, 1000, 0));
    policy.told(Time::ZERO);
    assert!(!look(&mut policy, &mut parking, 10, 0), "they are counted from there");
    assert!(look(&mut policy, &mut parking, 990, 0));
}

#[test]
fn more_is_looked_for_where_packets_come_for_the_progress_thread_alone() {
    for (situation, packets, inline, event, more) in [
        ("nothing came", 0, 0, None, false),
        ("a packet came", 1, 0, None, true),
        ("the application takes packets as well", 1, 1, None, false),
        ("it is woken by this look", 1, 0, Some(NOW), false),
        ("it was woken before", 1, 0, Some(NOW - MOMENT), true),
    ] {
        let mut policy = Policy::default();
        policy.took(inline);
        policy.event_at = event;
        assert_eq!(policy.took_on_duty(NOW, &mut Parking::default(), packets), more, "{situation}");
    }
}

#[test]
fn a_sleep_ends_with_what_is_pending() {
    let none = Pending::default();
    let (sent, ms) = (NOW - MOMENT, Span::from_ms);
    let paused = Pending { is_paused: true, ..none };
    let left = Pending { is_left_behind: true, ..none };
    let arrived = Pending { has_arrived: true, ..timer(NOW + ms(7)) };
    let both = Pending { others: Some(NOW + ms(3)), ..timer(NOW + ms(7)) };
    for (situation, pending, posts, until) in [
        ("nothing", none, 1, NOW + SLEEP_MAX),
        ("a timer", timer(NOW + ms(7)), 1, NOW + ms(7)),
        ("a timer far away", timer(NOW + ms(7_000)), 1, NOW + SLEEP_MAX),
        ("an earlier timer of somebody else", both, 1, NOW + ms(3)),
        ("somebody has no room", paused, 1, sent + PAUSE_RETRY),
        ("something is left to send", left, 1, sent),
        ("packets lie in rings", arrived, 1, NOW),
        ("posts may wait", timer(NOW + ms(70)), BATCH_BEHIND + 1, sent + HELD_MAX),
        ("too few posts to wait", timer(NOW + ms(70)), BATCH_BEHIND, NOW + ms(70)),
        ("posts wait for nobody's answer", none, BATCH_BEHIND + 1, NOW + SLEEP_MAX),
    ] {
        let mut policy = after(|policy| policy.sends(sent));
        for _ in 0..posts {
            policy.posted(NOW, &Pressure::default());
        }
        let sleep = policy.sleeps(Thread, NOW, &Parking::default(), pending);
        let expected = Sleep { until, watch: Watch::Sockets, wakes_other: false };
        assert_eq!(sleep, expected, "{situation}");
        // What was posted in a row counts for the next row too.
        policy.polled(NOW, 0, false, Carrier::Kernel);
        policy.posted(NOW, &Pressure::default());
        assert_eq!(policy.sleeps(Thread, NOW, &Parking::default(), pending), expected);
        let mut parking = parked(&mut policy);
        let sleep = policy.sleeps(Thread, NOW, &parking, pending);
        assert_eq!((sleep.until, sleep.watch), (NOW + PARK_NAP, Watch::Nothing), "{situation}");
        assert!(!look(&mut policy, &mut parking, 0, 0));
    }
}

#[test]
fn who_would_oversleep_is_woken_once() {
    let slack = WAKE_SLACK;
    let begins = |policy: &mut Policy| {
        stand_in_sleeps(policy, NOW);
    };
    let sleeps = |policy: &mut Policy| {
        thread_sleeps(policy, NOW);
    };
    let awake = |policy: &mut Policy| {
        policy.stands_in(NOW, false);
    };
    let end = NOW + SLEEP_MAX;
    type Happens<'a> = &'a dyn Fn(&mut Policy);
    let rows: [(&str, Happens<'_>, Pending, Option<OnDuty>); 8] = [
        ("nobody sleeps", &|_| {}, timer(NOW), None),
        ("nothing is pending", &sleeps, Pending::default(), None),
        ("a timer when it wakes up anyway", &sleeps, timer(end), None),
        ("a timer hardly before", &sleeps, timer(end - slack), None),
        ("a timer well before", &sleeps, timer(end - slack - MOMENT), Some(Thread)),
        ("the same, and somebody stands in", &begins, timer(end - slack - MOMENT), Some(StandIn)),
        ("a stand-in wakes up anyway", &begins, timer(end - slack), None),
        ("a stand-in is awake", &awake, timer(NOW), None),
    ];
    for (situation, happens, pending, woken) in rows {
        let mut policy = after(happens);
        assert_eq!(policy.wakes(NOW, || pending), woken, "{situation}");
        assert_eq!(policy.wakes(NOW, || pending), None, "{situation}, again");
    }
}

#[test]
fn what_is_pending_is_asked_for_only_while_somebody_sleeps() {
    let mut policy = Policy::default();
    assert_eq!(policy.wakes(NOW, || unreachable!()), None);
}

#[test]
fn the_thread_comes_back_a_nap_after_the_last_stand_in_left() {
    let mut policy = Policy::default();
    let relief = |policy: &mut Policy, now| policy.clone().relieves(now, Pending::default);
    let until = |sleep: Option<Sleep>| sleep.map(|sleep| sleep.until);
    assert_eq!(
        thread_sleeps(&mut policy, NOW - Span::from_ms(100)).until,
        NOW + Span::from_ms(900)
    );
    assert_eq!(relief(&mut policy, NOW), None);
    assert!(policy.stands_in(NOW, false).is_some());
    assert_eq!(until(relief(&mut policy, NOW)), Some(NOW + STAND_IN_GRACE));
    assert_eq!(policy.ends(NOW, false), Some(PARK_NAP), "it is told to wake up earlier");
    assert_eq!(until(relief(&mut policy, NOW)), Some(NOW + PARK_NAP));
    let later = NOW + Span::from_us(10);
    assert!(policy.stands_in(later, false).is_some());
    assert_eq!(policy.ends(later, false), None, "it will be up by then");
    assert_eq!(until(relief(&mut policy, NOW + PARK_NAP)), Some(later + PARK_NAP));
    assert_eq!(relief(&mut policy, later + PARK_NAP), None);
}

#[test]
fn the_thread_comes_back_at_once_for_what_cannot_wait() {
    let mut policy = Policy::default();
    assert!(policy.stands_in(NOW, false).is_some());
    let sleep = policy.relieves(NOW, Pending::default).unwrap();
    assert_eq!(sleep.until, NOW + STAND_IN_GRACE);
    assert_eq!(policy.ends(NOW, true), Some(Span::ZERO));
    assert_eq!(policy.relieves(NOW, Pending::default), None);
    assert_eq!(policy.wakes(NOW, || timer(NOW - SECOND)), None, "it has been woken");
    // What is left to send cannot wait either, once nobody stands in.
    assert!(policy.stands_in(NOW, false).is_some());
    let left = || Pending { is_left_behind: true, ..Pending::default() };
    assert!(policy.relieves(NOW, left).is_some());
    policy.ends(NOW, false);
    assert_eq!(policy.relieves(NOW, left), None);
}

#[test]
fn the_thread_that_watches_is_woken_once_to_be_relieved() {
    let mut policy = Policy::default();
    thread_sleeps(&mut policy, NOW);
    let (number, parking) = policy.stands_in(NOW, false).unwrap();
    let mut sleep = || policy.sleeps(StandIn, NOW, &parking, Pending::default());
    assert!(sleep().wakes_other);
    assert!(!sleep().wakes_other, "it has been");
    assert!(policy.is_stand_in(number));
    // It has started a timer that the stand-in knows nothing of.
    let relieved = policy.relieves(NOW, || timer(NOW + MOMENT)).unwrap();
    assert_eq!((relieved.watch, relieved.wakes_other), (Watch::Relieved, true));
    assert!(!policy.relieves(NOW, || timer(NOW + MOMENT)).unwrap().wakes_other, "again");
    assert!(!policy.sleeps(StandIn, NOW, &parking, Pending::default()).wakes_other);
    let mut policy = Policy::default();
    let parking = parked(&mut policy);
    policy.sleeps(Thread, NOW, &parking, Pending::default());
    assert!(!stand_in_sleeps(&mut policy, NOW).wakes_other, "it is parked");
}

#[test]
fn one_stands_in_at_a_time_and_who_is_lost_is_replaced() {
    let mut policy = Policy::default();
    assert!(policy.stands_in(NOW, true).is_none(), "another waits");
    let (first, _) = policy.stands_in(NOW, false).unwrap();
    assert!(policy.stands_in(NOW + MOMENT, false).is_none());
    let (second, _) = policy.stands_in(NOW + STAND_IN_GRACE, false).unwrap();
    assert!(policy.is_stand_in(second) && !policy.is_stand_in(first));
    assert_eq!(policy.ends(NOW, false), None, "there is no thread, or it is awake");
}

#[test]
fn who_stands_in_is_lost_some_time_after_it_should_have_woken_up() {
    let mut policy = Policy::default();
    let sleep = stand_in_sleeps(&mut policy, NOW);
    let lost = sleep.until + STAND_IN_GRACE;
    assert!(policy.is_held(lost - MOMENT) && !policy.is_held(lost));
    assert_eq!(policy.relieves(NOW, Pending::default).unwrap().until, lost);
    assert_eq!(policy.relieves(lost, Pending::default), None);
}

#[test]
fn nobody_stands_in_for_a_while_after_packets_had_to_wait() {
    let relieved = |packets| {
        let mut policy = Policy::default();
        policy.stands_in(NOW - PARK_NAP, false);
        policy.ends(NOW - PARK_NAP, false);
        assert!(policy.relieves(NOW - MOMENT, Pending::default).is_some());
        policy.found(NOW, packets);
        policy
    };
    assert!(relieved(0).stands_in(NOW, false).is_some());
    assert!(relieved(1).stands_in(NOW + STAND_IN_DISTRUST - MOMENT, false).is_none());
    assert!(relieved(1).stands_in(NOW + STAND_IN_DISTRUST, false).is_some());
    // What it finds later, and what it found before, has not waited for anybody.
    let mut policy = relieved(0);
    policy.found(NOW, 1);
    assert!(policy.stands_in(NOW, false).is_some());
    let mut policy = Policy::default();
    thread_sleeps(&mut policy, NOW);
    policy.found(NOW, 1);
    assert!(policy.stands_in(NOW, false).is_some());
}

#[test]
fn who_stands_in_is_not_taken_to_poll() {
    let mut policy = Policy::default();
    poll(&mut policy, NOW, 0);
    poll(&mut policy, NOW, 0);
    let (_, mut parking) = policy.stands_in(NOW, false).unwrap();
    assert!(!policy.parks(StandIn, NOW, &mut parking, false));
}

#[test]
fn a_stand_in_looks_as_far_as_what_woke_it() {
    for (is_woken_by_others, has_rings, everywhere) in
        [(false, false, false), (true, false, true), (false, true, true), (true, true, true)]
    {
        let reach = if everywhere { Reach::All } else { Reach::Hot };
        assert_eq!(reach_of_stand_in(is_woken_by_others, has_rings), reach);
    }
}

#[test]
fn groups_are_looked_after_now_and_then() {
    let mut policy = Policy::default();
    assert!(policy.is_upkeep_due(NOW));
    assert!(!policy.is_upkeep_due(NOW + SLEEP_MAX - MOMENT));
    assert!(policy.is_upkeep_due(NOW + SLEEP_MAX));
}

#[test]
fn a_parked_thread_does_not_get_in_the_way_but_for_so_long() {
    let mut policy = Policy::default();
    let mut parking = parked(&mut policy);
    for _ in 0..2 {
        assert!(!parking.naps_again(Watch::Nothing, true), "somebody wants it");
        assert!(
            !parking.naps_again(Watch::Sockets, false)
                && !parking.naps_again(Watch::Relieved, false)
        );
        for _ in 0..PARK_BLIND_NAPS {
            assert!(parking.naps_again(Watch::Nothing, false));
        }
        assert!(!parking.naps_again(Watch::Nothing, false));
        policy.parks(Thread, NOW + SECOND, &mut parking, false);
    }
}

/// The end of work that took so long, and until when it is busy polled after it.
fn works(busy_poll: &mut BusyPoll, since: Time, span: Span) -> Span {
    let end = since + span;
    assert!(busy_poll.begins(since, end, || Time::ZERO));
    busy_poll.until.since(end)
}

/// A thread that has its processor for itself.
fn alone() -> BusyPoll {
    let mut busy_poll = BusyPoll::new(Time::ZERO, Time::ZERO);
    assert!(busy_poll.begins(NOW, NOW, || Time::ZERO));
    busy_poll
}

#[test]
fn it_looks_for_more_in_proportion_to_what_there_was() {
    let us = Span::from_us;
    let mut busy_poll = alone();
    assert_eq!(works(&mut busy_poll, NOW, us(5)), us(5) * BUSY_POLL_FACTOR);
    // A packet came when a microsecond of those was left.
    let since = busy_poll.until - us(1);
    assert_eq!(works(&mut busy_poll, since, us(5)), us(1) + us(5) * BUSY_POLL_FACTOR);
    assert_eq!(works(&mut busy_poll, since, us(400)), BUSY_POLL_MAX);
    let since = busy_poll.until - us(1);
    busy_poll.woke();
    assert_eq!(works(&mut busy_poll, since, us(5)), us(5) * BUSY_POLL_FACTOR, "it has slept");
}

#[test]
fn it_looks_for_more_until_its_time_is_up() {
    let mut busy_poll = alone();
    works(&mut busy_poll, NOW, Span::from_us(5));
    let until = busy_poll.until;
    assert!(busy_poll.goes_on(until - MOMENT, || unreachable!()));
    assert!(!busy_poll.goes_on(until, || unreachable!()));
}

#[test]
fn threads_that_run_are_contention() {
    let share = Span::from_ps(CONTENTION_INTERVAL.as_ps() / CONTENTION_SHARE);
    let due = NOW + CONTENTION_INTERVAL;
    for (situation, end, ran, is_alone) in [
        ("nobody ran", due, Span::ZERO, true),
        ("somebody ran for a little", due, share, true),
        ("somebody ran for longer", due, share + MOMENT, false),
        ("it was not yet looked", due - MOMENT, SECOND, true),
    ] {
        let mut busy_poll = alone();
        assert_eq!(busy_poll.begins(end, end, || Time::ZERO + ran), is_alone, "{situation}");
    }
}

#[test]
fn contention_stays_for_a_while() {
    let mut busy_poll = BusyPoll::new(NOW, Time::ZERO);
    let later = NOW + CONTENTION_STAYS;
    let nobody = || Time::ZERO;
    assert!(!busy_poll.begins(later - MOMENT, later - MOMENT, || unreachable!()));
    assert!(busy_poll.begins(later, later, nobody), "nobody has run for a while");
    // Somebody has the processor for long.
    let gap = later + CONTENTION_GAP;
    assert!(works(&mut busy_poll, later, Span::ZERO) == Span::ZERO);
    busy_poll.until = later + SECOND;
    assert!(busy_poll.goes_on(gap, nobody));
    assert!(busy_poll.goes_on(gap + CONTENTION_GAP, nobody));
    let now = gap + CONTENTION_GAP + CONTENTION_GAP + MOMENT;
    assert!(!busy_poll.goes_on(now, nobody));
    let later = now + CONTENTION_STAYS - MOMENT;
    assert!(!busy_poll.begins(later, later, || unreachable!()));
    assert!(busy_poll.begins(later + MOMENT, later + MOMENT, nobody));
}
