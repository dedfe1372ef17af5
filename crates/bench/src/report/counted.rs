//! What the applications of a flow did, held against what their devices have counted.
//!
//! | verb | who asks sends | and receives |
//! |---|---|---|
//! | `read` | nothing | the payload, and 8 bytes for each READ that it depends on |
//! | `write`, `write_imm`, `send` | the payload | nothing; the payload, if a `write` is read back |
//! | atomics | nothing, but the other device has executed so many | nothing |
//! | compound reads | a request | the payload |
//!
//! All counts are of the whole run. If nothing was sent twice they are exact, but for operations of which
//! nobody knows whether they have ended: those that have no completion of their own.

use crate::limits::REQUEST_BYTES;
use crate::outcome::DeviceCounts;
use crate::plan::{Flow, Verb};
use crate::session::Measured;
use crate::world::meeting::Service;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted<'a> {
    flow: &'a Flow,
    verify: bool,
    begun: u64,
    ended: u64,
    near: DeviceCounts,
    far: DeviceCounts,
}

impl<'a> Counted<'a> {
    /// Nothing, if the devices do not say.
    pub(super) fn of(verify: bool, flow: &'a Flow, measured: &Measured) -> Option<Self> {
        let near = measured.device?;
        let far = measured.served.as_ref()?.device?;
        let Measured { begun, ended, .. } = *measured;
        Some(Self { flow, verify, begun, ended, near, far })
    }

    /// Payload that both have counted, both ways.
    pub(super) fn bytes(&self) -> u64 {
        self.near.sent_bytes + self.near.rcvd_bytes
    }

    /// Bytes that who asks sends and receives in an operation.
    fn of_one(&self) -> (u64, u64) {
        let size = u64::from(self.flow.size_bytes);
        match self.flow.verb {
            Verb::Read => (0, size + u64::from(self.flow.depends - 1) * size.min(8)),
            Verb::Write if self.verify => (size, size),
            Verb::Write | Verb::WriteImm | Verb::Send => (size, 0),
            Verb::FetchAdd | Verb::CompareSwap => (0, 0),
            Verb::WriteSend | Verb::SendSend | Verb::WriteWrite => (REQUEST_BYTES, size),
        }
    }

    /// What does not agree, in words.
    pub(super) fn miscounts(&self) -> Vec<String> {
        let (sends, receives) = self.of_one();
        let is_calm = [self.near, self.far]
            .iter()
            .all(|device| device.retransmitted_pkts + device.disordered == 0);
        let is_reliable = self.flow.transport == Service::Rc;
        let [near, far] = ["the device that asks", "the device that serves"];
        let mut all = vec![
            (near, "bytes sent", self.near.sent_bytes, sends, true),
            (near, "bytes received", self.near.rcvd_bytes, receives, true),
            (far, "bytes received", self.far.rcvd_bytes, sends, is_reliable),
            (far, "bytes sent", self.far.sent_bytes, receives, true),
        ];
        if self.flow.verb.is_atomic() {
            all.push((far, "atomics executed", self.far.rx_atomic_requests, 1, true));
        }
        let wrong = |&(device, what, count, each, is_all): &(&str, &str, u64, u64, bool)| {
            let least = if is_all { self.ended * each } else { 0 };
            let most = self.begun * each;
            let agrees = count >= least && (count <= most || !is_calm);
            let expected =
                if least == most { most.to_string() } else { format!("{least} to {most}") };
            (!agrees).then(|| format!("{device} has counted {count} {what}, and not {expected}"))
        };
        all.iter().filter_map(wrong).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_more_or_less_than_the_applications_sent_is_told() {
        let flow = Flow { size_bytes: 100, ..Flow::new(Verb::WriteSend) };
        let near = DeviceCounts { sent_bytes: 160, rcvd_bytes: 1_000, ..DeviceCounts::default() };
        let far = DeviceCounts { sent_bytes: 1_000, rcvd_bytes: 160, ..DeviceCounts::default() };
        let counted = Counted { flow: &flow, verify: false, begun: 10, ended: 10, near, far };
        assert_eq!(counted.miscounts(), [""; 0]);
        for (sent_bytes, rcvd_bytes) in [(159, 1_000), (161, 1_000), (160, 999), (160, 1_001)] {
            let near = DeviceCounts { sent_bytes, rcvd_bytes, ..near };
            assert_eq!(Counted { near, ..counted }.miscounts().len(), 1);
        }
        let far = DeviceCounts { sent_bytes: 1_100, ..far };
        assert_eq!(
            Counted { far, ..counted }.miscounts(),
            ["the device that serves has counted 1100 bytes sent, and not 1000"]
        );
        // What was sent again is more.
        let again = DeviceCounts { retransmitted_pkts: 1, ..far };
        assert_eq!(Counted { far: again, ..counted }.miscounts(), [""; 0]);
        // And of two that have no completion nobody knows.
        assert_eq!(Counted { begun: 11, far, ..counted }.miscounts(), [""; 0]);
    }

    #[test]
    fn what_an_unreliable_service_loses_may_not_arrive_but_was_sent() {
        let flow = Flow { size_bytes: 8, transport: Service::Uc, ..Flow::new(Verb::Send) };
        let near = DeviceCounts { sent_bytes: 80, ..DeviceCounts::default() };
        let far = DeviceCounts { rcvd_bytes: 72, ..DeviceCounts::default() };
        let counted = Counted { flow: &flow, verify: false, begun: 10, ended: 10, near, far };
        assert_eq!(counted.miscounts(), [""; 0]);
        let reliable = Flow { transport: Service::Rc, ..flow.clone() };
        assert_eq!(Counted { flow: &reliable, ..counted }.miscounts().len(), 1);
    }
}
