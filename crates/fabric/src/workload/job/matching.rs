//! Which send belongs to which receive: the n-th of a rank to another with a tag to the other's n-th from it.

use std::collections::BTreeMap;

use super::schedule::{OpId, Plan};

/// A message that does not fit, by the operation that shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mismatch {
    pub(super) op: OpId,
    pub(super) ends: (u32, u32),
    pub(super) tag: u32,
    pub(super) bytes: u32,
    pub(super) why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// A send, and no receive takes it.
    NotReceived,
    /// A receive, and nothing is sent to it.
    NotSent,
    /// A receive with room for less than that send sends.
    TooLong { send: OpId, room: u32 },
}

/// The sends and receives between two ranks with one tag, with their lengths.
#[derive(Debug, Default)]
struct Ends {
    sends: Vec<(OpId, u32)>,
    receives: Vec<(OpId, u32)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Matching {
    /// By source, destination and tag.
    messages: BTreeMap<(u32, u32, u32), Ends>,
}

impl Matching {
    /// A send on `channel`.
    pub(super) fn send(
        &mut self,
        plan: &mut Plan,
        ends: (u32, u32),
        (tag, channel): (u32, u32),
        bytes: u32,
    ) -> OpId {
        let send = plan.send(ends, channel, bytes);
        self.messages.entry((ends.0, ends.1, tag)).or_default().sends.push((send, bytes));
        send
    }

    /// A receive with so much room.
    pub(super) fn receive(
        &mut self,
        plan: &mut Plan,
        ends: (u32, u32),
        tag: u32,
        bytes: u32,
    ) -> OpId {
        let receive = plan.receive(ends.1);
        self.messages.entry((ends.0, ends.1, tag)).or_default().receives.push((receive, bytes));
        receive
    }

    /// Joins all. Of several that do not fit the first is returned, in the order of their operations.
    pub(super) fn join(&self, plan: &mut Plan) -> Option<Mismatch> {
        let mut wrong: Vec<Mismatch> = Vec::new();
        for (&(source, destination, tag), of) in &self.messages {
            let mut note = |op, bytes, why| {
                wrong.push(Mismatch { op, ends: (source, destination), tag, bytes, why });
            };
            for (&(send, bytes), &(receive, room)) in of.sends.iter().zip(&of.receives) {
                plan.join(send, receive);
                if bytes > room {
                    note(receive, bytes, Why::TooLong { send, room });
                }
            }
            if let Some(&(send, bytes)) = of.sends.get(of.receives.len()) {
                note(send, bytes, Why::NotReceived);
            }
            if let Some(&(receive, bytes)) = of.receives.get(of.sends.len()) {
                note(receive, bytes, Why::NotSent);
            }
        }
        wrong.into_iter().min_by_key(|wrong| wrong.op)
    }
}
