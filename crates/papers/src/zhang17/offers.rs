//! 2.1, table 1: which service offers which verb.

use bench::world::sim::{self, Seated};
use rdma::app::{
    App, Channel, Cq, CqSpec, Layout, On, Qp, QpSpec, Region, RegionSpec, Verbs, Wait, Woke,
};
use rdma::{Access, Operation, QpType, RecvRequest, SendFlags, Span, Time, WorkRequest};

use super::FIRST;
use crate::hosts::Hosts;
use crate::soft;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const OFFERS: &str = "zhang17.table1";
pub(super) const CLAIMS: &[&str] = &[OFFERS];

const SERVICES: [(QpType, &str); 3] = [(QpType::Rc, "RC"), (QpType::Uc, "UC"), (QpType::Ud, "UD")];
/// What is posted, and which services offer it by the paper.
const POSTED: [(&str, [bool; 3]); 7] = [
    ("SEND", [true, true, true]),
    ("RECEIVE", [true, true, true]),
    ("WRITE", [true, true, false]),
    ("WIMM", [true, true, false]),
    ("READ", [true, false, false]),
    ("FETCH AND ADD", [true, false, false]),
    ("COMPARE AND SWAP", [true, false, false]),
];

const MEMORY: [RegionSpec; 1] = [RegionSpec {
    length: 64,
    access: Access::LOCAL_WRITE
        .with(Access::REMOTE_WRITE)
        .with(Access::REMOTE_READ)
        .with(Access::REMOTE_ATOMIC),
}];
const QUEUES: [CqSpec; 1] = [CqSpec { depth: 64 }];
const CQ: Cq = Cq(0);

/// Posts everything everywhere, or is there for it.
#[derive(Clone, Debug)]
struct Poster {
    pairs: Vec<QpSpec>,
    serves: bool,
    /// By [`POSTED`] and [`SERVICES`]: whether it was taken.
    taken: Vec<[bool; 3]>,
}

impl Poster {
    fn new(serves: bool) -> Self {
        let pair = |(number, (kind, _))| QpSpec {
            send_depth: 16,
            recv_depth: 16,
            ..QpSpec::new(kind, Channel(number), CQ)
        };
        Self { pairs: (0..).zip(SERVICES).map(pair).collect(), serves, taken: Vec::new() }
    }

    fn is_taken(verbs: &mut dyn Verbs, what: &str, qp: Qp) -> bool {
        let sges = [verbs.region(Region(0)).sge(0, 8)];
        if what == "RECEIVE" {
            return verbs.post_recv(qp, &[RecvRequest { id: 0, sges: &sges }]).is_ok();
        }
        let Some(there) = verbs.remote(qp, 0, Region(0)) else { return false };
        let (remote_address, r_key) = (there.address, there.r_key);
        let operation = match what {
            "WRITE" => Operation::Write { remote_address, r_key, immediate: None },
            "WIMM" => Operation::Write { remote_address, r_key, immediate: Some([0; 4]) },
            "READ" => Operation::Read { remote_address, r_key },
            "FETCH AND ADD" => Operation::FetchAdd { remote_address, r_key, add: 1 },
            "COMPARE AND SWAP" => {
                Operation::CompareSwap { remote_address, r_key, compare: 0, swap: 1 }
            }
            _ => Operation::Send { immediate: None, address: verbs.remote_address(qp, 0) },
        };
        let (id, flags, inline) = (0, SendFlags::SIGNALED, None);
        let request = WorkRequest { id, operation, flags, sges: &sges, inline };
        verbs.post_send(qp, &[request]).is_ok()
    }
}

impl App for Poster {
    fn layout(&self) -> Layout<'_> {
        Layout { regions: &MEMORY, cqs: &QUEUES, qps: &self.pairs, serves: self.serves }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, _: Woke) -> Wait {
        let sges = [verbs.region(Region(0)).sge(0, 8)];
        if self.serves {
            for qp in 0..SERVICES.len() as u16 {
                for id in 0..8 {
                    // A service that takes none is noticed at the other end.
                    let _ = verbs.post_recv(Qp(qp), &[RecvRequest { id, sges: &sges }]);
                }
            }
            return Wait { on: On::Time, until: None };
        }
        let of = |what| [0, 1, 2].map(|qp| Self::is_taken(verbs, what, Qp(qp)));
        self.taken = POSTED.map(|posted| posted.0).map(of).into();
        Wait::done()
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    context.say("table 1");
    let wrong = |why: String| Error::Hosts(FIRST, why);
    let posters = [true, false].map(Poster::new);
    let ended = match context.settings() {
        Some(settings) => soft::pair(settings, posters),
        None => {
            let config = Hosts::pair(FIRST).network(context.options)?;
            let seat = |(app, host)| Seated { app, host, core: 0 };
            let end = Time::ZERO + Span::from_ms(10);
            let seated = posters.into_iter().zip(0..).map(seat).collect();
            sim::run(config, seated, end, &mut ())
                .and_then(|played| played.why.map_or(Ok(played.outcomes), Err))
        }
    };
    let outcomes = ended.map_err(|failure| wrong(failure.to_string()))?;
    let taken = outcomes.into_iter().map(|outcome| outcome.app).find(|app| !app.serves);
    let taken = taken.map_or_else(Vec::new, |app| app.taken);
    let services = |taken: &[bool; 3]| {
        let those = SERVICES.iter().zip(taken).filter(|(_, taken)| **taken);
        those.map(|((_, name), _)| *name).collect::<Vec<_>>().join(", ")
    };
    let said: Vec<String> = POSTED
        .iter()
        .zip(&taken)
        .map(|((what, _), taken)| format!("{what}: {}", services(taken)))
        .collect();
    let check = |(index, (what, expected)): (usize, &(&str, [bool; 3]))| {
        let so = taken.get(index) == Some(expected);
        Check::event(format!("{what} is taken by {}, and by no other", services(expected)), so)
    };
    Ok(vec![Outcome {
        claim: context.claim(OFFERS)?,
        ran: "every verb posted to a connected queue pair of every service".to_owned(),
        scale: None,
        measured: format!("taken: {}", said.join("; ")),
        checks: POSTED.iter().enumerate().map(check).collect(),
        figures: Vec::new(),
    }])
}
