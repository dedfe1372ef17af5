//! 5.3 and 6.2: what each probe of RDMA Pingmesh logs, and whether it names the two incidents.
//!
//! ```text
//!   two podsets of two racks of four servers ─┬─ healthy                       ─► a round trip for every probe: the control
//!                                             └─ one server dies, by chance    ─► an error for every probe to it
//!   the Clos of `ferroce pingmesh trial`     ─┬─ healthy                       ─► nothing is named: the control
//!                                             ├─ a NIC storms                  ─► that NIC
//!                                             └─ a ToR at alpha 1/64           ─► that ToR
//! ```
//!
//! What hosts say that they sent is held against what their switches have received of them.

use fabric::NetworkConfig;
use fabric::fault::{Fault as NetworkFault, FaultKind};
use fabric::random::Random;
use fabric::topology::{Cables, ClosShape, End, clos};
use ops::pingmesh::scope::Scope;
use ops::pingmesh::simulation::{Mesh, Scale};
use ops::pingmesh::summary::Summary;
use ops::pingmesh::trial::{Fault, Trial, Tried};
use ops::pingmesh::window::{Counts, Pair, Window};
use rdma::{Rate, Span, Time};

use crate::draws::{Spread, each, seeds};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const PINGMESH: &str = "guo16.pingmesh";
pub(super) const CLAIMS: &[&str] = &[PINGMESH];

const SHAPE: ClosShape = ClosShape {
    podsets: 2,
    tors: 2,
    leaves: 2,
    spines: 2,
    hosts: 4,
    host_cables: Cables::new(Rate::from_gbps(40), 2),
    tor_cables: Cables::new(Rate::from_gbps(40), 20),
    spine_cables: Cables::new(Rate::from_gbps(40), 300),
};
const WINDOW: Span = Span::from_ms(10);
/// How long an answer may take. The network is idle, and its hosts answer within tens of microseconds.
const PATIENCE: Span = Span::from_ms(5);
const END: Span = Span::from_ms(60);
/// A server dies within this, from here on.
const DIES: (Span, Span) = (Span::from_ms(15), Span::from_ms(10));
/// The class of probes, and the group of switches that it comes to.
const CLASS: usize = 3;
/// Who is probed sends two packets: the answer, and the report of when that left.
const ANSWER: u64 = 2;
/// Windows of a trial.
const TRIAL_WINDOW_NS: u64 = 25_000_000;

/// One run.
struct Log {
    /// By scope: p50 in us.
    medians: [f64; 3],
    /// Of probes of the living to the living, and what their histograms hold.
    living: Counts,
    logged: u64,
    /// Of probes to the server that died, in windows that began after it.
    dead: Counts,
    /// Packets that switches have received of the living, and how many those say: the least and the most.
    packets: u64,
    packets_said: [u64; 2],
}

impl Log {
    fn measure(options: Options, dies: bool) -> Result<Self, Error> {
        let mut config = NetworkConfig::new(clos(&SHAPE));
        config.seed = options.seed;
        let mut random = Random::new(options.seed);
        let victim = random.below(config.topology.hosts.len() as u64) as u32;
        let at = Time::ZERO + DIES.0 + Span::from_ps(random.below(DIES.1.as_ps()));
        let dead = dies.then_some(victim);
        if dies {
            let kind = FaultKind::HostDies { host: victim, mac_aged: false };
            config.faults.push(NetworkFault { at, kind });
        }
        let scale = Scale { window: WINDOW, patience: PATIENCE, ..Scale::default() };
        let mesh = Mesh::new(config, scale, Time::ZERO + END);
        let mut mesh = mesh.map_err(|error| Error::Files(error.to_string()))?;
        mesh.run(|_| true);
        let summary = Summary::of(mesh.topology(), mesh.map(), mesh.windows());
        let medians =
            Scope::ALL.map(|scope| summary.scope(scope).network.us(0.5).unwrap_or(f64::NAN));
        let windows = mesh.windows().iter();
        let pairs = windows.flat_map(|window| window.pairs.iter().map(move |pair| (window, pair)));
        let pairs: Vec<(&Window, &Pair)> = pairs.collect();
        let sum = |so: &dyn Fn(&Window, &Pair) -> bool| {
            let mut counts = Counts::default();
            let chosen = pairs.iter().filter(|(window, pair)| so(window, pair));
            chosen.for_each(|(_, pair)| counts.add(&pair.counts));
            counts
        };
        let of_living = |window: &Window| Some(window.host) != dead;
        let to_living = |pair: &Pair| Some(pair.target) != dead;
        let both = |window: &Window, pair: &Pair| of_living(window) && to_living(pair);
        let logged = pairs.iter().filter(|(window, pair)| both(window, pair));
        let logged = logged.map(|(_, pair)| pair.network.count()).sum();
        let too_late = |window: &Window, pair: &Pair| {
            of_living(window) && !to_living(pair) && window.start_ns >= at.as_ns()
        };
        let network = mesh.network();
        let packets = (0..network.topology().switches.len() as u32)
            .flat_map(|switch| network.switch_counters(switch))
            .filter(|(neighbour, _)| matches!(neighbour, End::Host(host) if Some(*host) != dead))
            .map(|(_, counters)| counters.group_packets[CLASS])
            .sum();
        // The living have sent their probes, and answers to any. What was answered, and is not known to be, may have been.
        let probes = sum(&|window, _| of_living(window));
        let answers = sum(&|_, pair| to_living(pair));
        let least = probes.sent - probes.send_error + ANSWER * answers.answered;
        let most = least + ANSWER * (answers.unknown + answers.timeout + answers.invalid_rtt);
        Ok(Self {
            medians,
            living: sum(&both),
            logged,
            dead: sum(&too_late),
            packets,
            packets_said: [least, most],
        })
    }

    fn is_of_packets(&self) -> bool {
        (self.packets_said[0]..=self.packets_said[1]).contains(&self.packets)
    }

    /// Every probe has its round trip.
    fn all_answered(&self) -> bool {
        let Counts { sent, answered, .. } = self.living;
        answered > 0 && answered == sent && self.logged == answered
    }
}

/// Of an incident: how many verdicts name it, and how many windows after the one in which it began they date it.
fn named(all: &[Tried]) -> (usize, Spread) {
    let right = all.iter().filter(|one| one.is_right()).count();
    let late = Spread::of(all, |one| {
        let window = |ns: u64| (ns / TRIAL_WINDOW_NS) as f64;
        let since = one.verdict.suspects.first().map(|suspect| window(suspect.since_ns));
        since.unwrap_or(f64::INFINITY) - window(one.at_ns)
    });
    (right, late)
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let draws = seeds(context.options);
    context.say(&format!("pingmesh: probes of sixteen servers, {} seeds", draws.len()));
    let healthy = each(&draws, |options| Log::measure(options, false))?;
    let dying = each(&draws, |options| Log::measure(options, true))?;
    let mut trial = |fault: Fault| {
        context.say(&format!("pingmesh: {}, {} seeds", fault.name(), draws.len()));
        // A quick run has one of each: a trial is a hundred thousand probes.
        let few = if context.options.quick { 1 } else { draws.len() };
        each(&draws[..few], |options| {
            let trial = Trial::new(fault, options.seed).and_then(Trial::run);
            trial.map_err(|error| Error::Files(error.to_string()))
        })
    };
    let nothing = trial(Fault::Nothing)?;
    let (storms, storm_since) = named(&trial(Fault::Storm)?);
    let (alphas, alpha_since) = named(&trial(Fault::WrongAlpha)?);
    let quiet = nothing.iter().filter(|one| one.is_right()).count();
    let [tor, podset, dc] = [0, 1, 2].map(|scope| Spread::of(&healthy, |log| log.medians[scope]));
    let sent = Spread::of(&healthy, |log| log.living.sent as f64);
    let to_dead = Spread::of(&dying, |log| log.dead.sent as f64);
    let errors = Spread::of(&dying, |log| (log.dead.timeout + log.dead.send_error) as f64);
    let dead_logged = dying.iter().all(|log| {
        let Counts { sent, timeout, send_error, .. } = log.dead;
        timeout > 0 && timeout + send_error == sent
    });
    let (number, trials) = (draws.len(), nothing.len());
    Ok(vec![Outcome {
        claim: context.claim(PINGMESH)?,
        ran: format!(
            "ferroce pingmesh in the simulator, probes of 512 bytes a thousand times as often as outside: sixteen \
             servers, of which none or one dies; and its trial, with nothing, the storm and the alpha of 6.2 at a \
             place and a time by chance; {number} draws"
        ),
        scale: None,
        measured: format!(
            "{sent} probes between the living, each with its round trip: median ToR {tor}, podset {podset}, data \
             centre {dc} us. Of {to_dead} probes to a server that is dead {errors} log a timeout; no other logs an error. \
             Where nothing is wrong nothing is named in {quiet} of {trials}; the NIC that storms is named in {storms}, and \
             dated {storm_since} windows after that in which it began; the ToR at 1/64 in {alphas}, dated {alpha_since} after"
        ),
        checks: vec![
            Check::event(
                "where nobody dies every probe logs its round trip",
                healthy.iter().all(Log::all_answered),
            ),
            Check::event("of probes to the dead every one logs an error", dead_logged),
            Check::event("and every other its round trip", dying.iter().all(Log::all_answered)),
            Check::event(
                "switches have received as many packets as hosts say",
                healthy.iter().chain(&dying).all(Log::is_of_packets),
            ),
            Check::order(("ToR, at most", tor.most()), ("podset, at least", podset.least()), "us"),
            Check::order(
                ("podset, at most", podset.most()),
                ("data centre, at least", dc.least()),
                "us",
            ),
            Check::event("nothing is named where nothing is wrong", quiet == trials),
            Check::event("the NIC that storms is named with every seed", storms == trials),
            Check::event("the ToR at 1/64 is named with every seed", alphas == trials),
        ],
        figures: Vec::new(),
    }])
}
