//! Fault injection: whatever happens to packets, a reliable connection delivers.

use rdma::{Operation, QpType};
use softnic::Options;
use transport::Recovery;

use crate::support::{Host, LOSSY, SEND, options, pattern};

#[test]
fn everything_arrives_through_loss_reordering_duplication_and_corruption() {
    everything_arrives(40, Recovery::GoBackN);
}

#[test]
fn everything_arrives_by_selective_repeat() {
    everything_arrives(34, Recovery::SelectiveRepeat);
}

fn everything_arrives(third: u8, recovery: Recovery) {
    const LENGTH: usize = 256 << 10;
    let faults = "loss=0.01,reorder=0.02,duplicate=0.02,corrupt=0.01,seed=7".parse().unwrap();
    let options = Options { faults: Some(faults), recovery, ..options() };
    let [mut a, b] = [1, 2].map(|last| {
        let address = format!("127.0.{third}.{last}");
        let mut host = Host::open_with(&address, QpType::Rc, 2 * LENGTH, &options);
        host.timeout = LOSSY;
        host
    });
    a.connect(&b);
    b.connect(&a);
    pattern(&mut a.memory[..LENGTH], 9);
    for round in 0..20 {
        let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
        a.post(round, write, a.sge(0, LENGTH));
        a.completions(1);
        assert!(b.memory[..LENGTH] == a.memory[..LENGTH]);
        let read = Operation::Read { remote_address: b.address(), r_key: b.key };
        a.post(round, read, a.sge(LENGTH, LENGTH));
        a.completions(1);
        assert!(a.memory[LENGTH..] == b.memory[..LENGTH]);
        a.memory[LENGTH..].fill(0);
    }
    for round in 0..50 {
        b.post_recv(round, b.sge(0, 5000));
        a.post(round, SEND, a.sge(0, 5000));
        a.completions(1);
        assert_eq!(b.completions(1)[0].id, round);
    }
    let (a, b) = (a.nic.counts(), b.nic.counts());
    for counts in [a, b] {
        assert!(counts.fault_lost > 0 && counts.fault_reordered > 0, "{counts:?}");
        assert!(counts.fault_duplicated > 0 && counts.fault_corrupted > 0, "{counts:?}");
    }
    // A flipped bit is noticed, unless the ICRC does not cover it or it makes an unknown QPN.
    assert!(a.rx_icrc_encapsulated > b.fault_corrupted / 2, "{a:?} {b:?}");
}
