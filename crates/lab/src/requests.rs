//! What people and programs ask of a lab.
//!
//! ```text
//!   device VERSION HOST              ok ADDRESS MAC MTU
//!   attach VERSION HOST SLOT NONCE   ok ADDRESS PRIORITIES    + a ring each way; from then on a program
//!   greeting                         ok TEXT
//!   status                           ok TEXT
//!   event TABLE                      ok TEXT               TABLE: a [[fault]] of a scenario, its times from now
//!   events FIRST                     ok NEXT, and a line for each event from that number on
//!   seen                             ok                       + what is seen, in JSON (`seen.rs`)
//!   down                             ok bye
//!   down, a FOLDER in the next line  ok TEXT                  once the results are there
//!   capture VERSION SNAP FRAMES BYTES PRIORITIES, a PORT a line
//!                                    ok                       from then on a reader (`captures.rs`)
//! ```
//!
//! A refusal is `no`, what is wrong, and a `hint:` line.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use fabric::BuildError;
use fabric::fault::{Fault, FaultKind};
use rdma::{Mtu, Span, Time};
use softnic::lab::{Channel, Jack, Message, VERSION};

use crate::captures::Asked;
use crate::limits::ANSWER_BYTES;
use crate::programs::Unfit;
use crate::refusal::{Refusal, SAME_VERSION, no};
use crate::state::State;
use crate::status;

/// Who has connected, and is no program.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) channel: Channel,
    /// Another user, who has got past the rights of the folder.
    stranger: Option<u32>,
}

impl Visitor {
    /// Lets in whoever can be asked who he is.
    pub(crate) fn admit(channel: Channel) -> Option<Self> {
        let user = channel.peer().ok()?;
        let stranger = (user != own_user()).then_some(user);
        Some(Self { channel, stranger })
    }

    /// One of this user.
    fn of_ours(channel: Channel) -> Self {
        Self { channel, stranger: None }
    }

    fn answer(&self, text: &str) -> io::Result<()> {
        self.channel.send(format!("ok {text}").as_bytes(), None)
    }

    fn refuse(&self, (what, hint): &Refusal) -> io::Result<()> {
        self.channel.send(format!("no {what}\nhint: {hint}").as_bytes(), None)
    }
}

fn own_user() -> u32 {
    rustix::process::getuid().as_raw()
}

fn refused_user(user: u32) -> Refusal {
    no(
        format!("the lab is of user {}, and the program of user {user}", own_user()),
        "a lab serves the programs of the user who has started it",
    )
}

impl State {
    /// Hears a visitor, and keeps it if it may say more.
    pub(crate) fn hear(&mut self, visitor: Visitor) -> Option<Visitor> {
        let message = match visitor.channel.receive() {
            Ok(message) => message,
            Err(error) => return (error.kind() == io::ErrorKind::WouldBlock).then_some(visitor),
        };
        // Not before it has asked: whoever sends to a socket that is closed already never reads why.
        if let Some(user) = visitor.stranger {
            let _ = visitor.refuse(&refused_user(user));
            return None;
        }
        let mut lines = message.text.lines();
        let words: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        let answer = match words[..] {
            ["event", ..] => self.event(message.text["event".len()..].trim_start()),
            ["events", first] => Ok(self.journal.page(first.parse().unwrap_or(0))),
            ["device", version, host] => self.device(version, host),
            ["attach", version, host, slot, nonce] => {
                let of = self.check_attach(version, host, slot, nonce);
                return self.attach(visitor, of, &message);
            }
            ["capture", version, ref bounds @ ..] => {
                let ports: Vec<&str> = lines.collect();
                return self.capture(visitor, version, bounds, &ports);
            }
            ["greeting"] => Ok(status::greeting(self)),
            ["status"] => Ok(cut(status::status(self))),
            ["seen"] => return self.show(visitor),
            ["down"] => {
                self.is_over = true;
                if let Some(folder) = lines.next() {
                    self.heir.get_or_insert((visitor.channel, PathBuf::from(folder)));
                    return None;
                }
                Ok("bye".to_owned())
            }
            _ => Err(no("the lab does not know what is asked", SAME_VERSION)),
        };
        let sent = match answer {
            Ok(text) => visitor.answer(&text),
            Err(refusal) => visitor.refuse(&refusal),
        };
        sent.is_ok().then_some(visitor)
    }

    /// Does what a `[[fault]]` says.
    fn event(&mut self, table: &str) -> Result<String, Refusal> {
        let faults = fabric::scenario::faults(table, self.network.topology()).map_err(|error| {
            let text = error.to_string();
            let (what, hint) =
                text.split_once("\nhint: ").unwrap_or((&text, "see lab.md in the book"));
            no(what, hint)
        })?;
        self.happen(&faults).map_err(|error| no(error.to_string(), "name nodes that are there"))?;
        let topology = self.network.topology();
        let texts = faults.iter().map(|fault| {
            let after = fault.at.since(Time::ZERO);
            let when = if after == Span::ZERO { "now".to_owned() } else { format!("in {after}") };
            format!("{when}: {}\n", fault.kind.text(topology))
        });
        Ok(cut(texts.collect()))
    }

    /// Does faults to the network, each so long from now.
    pub(crate) fn happen(&mut self, faults: &[Fault]) -> Result<(), BuildError> {
        let kinds: Vec<(Span, FaultKind)> =
            faults.iter().map(|fault| (fault.at.since(Time::ZERO), fault.kind)).collect();
        self.network.add_faults(&kinds, self.reroute)
    }

    /// Has what is seen written to a visitor.
    fn show(&mut self, visitor: Visitor) -> Option<Visitor> {
        if visitor.answer("").is_err() {
            return None;
        }
        let seen = status::seen(self);
        let channel = self.scribe.write(visitor.channel, seen).err()?;
        let visitor = Visitor::of_ours(channel);
        visitor.refuse(&no("too many look at the lab", "ask less often")).ok()?;
        Some(visitor)
    }

    fn device(&self, version: &str, host: &str) -> Result<String, Refusal> {
        let host = self.check(version, host)?;
        let (address, mac) = self.network.host_addresses(host);
        let mac = mac.iter().fold(0_u64, |mac, byte| mac << 8 | u64::from(*byte));
        let mtu = self.network.host_nic(host).map_or(Mtu::B1024, |nic| nic.mtu);
        Ok(format!("{address} {mac:x} {}", mtu.bytes()))
    }

    /// The host that a program wants to be.
    fn check(&self, version: &str, host: &str) -> Result<u32, Refusal> {
        check_version(version)?;
        let hosts = &self.network.topology().hosts;
        let found = hosts.iter().position(|name| name == host);
        found.map(|index| index as u32).ok_or_else(|| {
            let hint = match &hosts[..] {
                [first, .., last] => format!("its hosts are {first} to {last}"),
                _ => format!("its only host is {}", hosts.concat()),
            };
            no(format!("there is no host `{host}` in lab `{}`", self.found.name), hint)
        })
    }

    fn check_attach(
        &self,
        version: &str,
        host: &str,
        slot: &str,
        nonce: &str,
    ) -> Result<(u32, u16, u64), Refusal> {
        let host = self.check(version, host)?;
        let slot = slot.parse().ok().filter(|slot| softnic::lab::is_slot(*slot));
        match slot.zip(nonce.parse().ok()) {
            Some((slot, nonce)) => Ok((host, slot, nonce)),
            None => Err(no("that is no slot, or no nonce", SAME_VERSION)),
        }
    }

    /// Makes a reader of a visitor, or tells it why not.
    fn capture(
        &mut self,
        visitor: Visitor,
        version: &str,
        bounds: &[&str],
        ports: &[&str],
    ) -> Option<Visitor> {
        let asked = check_version(version).and_then(|()| {
            let bounds = bounds.try_into().map_err(|_| no("that is no capture", SAME_VERSION))?;
            Asked::read(bounds, ports, self.network.topology())
        });
        let (visitor, refusal) = match asked {
            Ok(asked) => {
                let remark = self.remark();
                match self.captures.begin(visitor.channel, &asked, &mut self.network, &remark) {
                    Ok(()) => return None,
                    Err((channel, refusal)) => (Visitor::of_ours(channel), refusal),
                }
            }
            Err(refusal) => (visitor, refusal),
        };
        visitor.refuse(&refusal).ok().map(|()| visitor)
    }

    /// What a capture says of the lab, and of its times.
    fn remark(&self) -> String {
        let (name, factor) = (&self.found.name, self.clock.factor());
        let since = SystemTime::now() - self.begin.elapsed();
        let unix = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        format!(
            "lab {name}: packets of programs on modelled links. Times are the model's since {}.{:03} (Unix), at \
             factor {factor}",
            unix.as_secs(),
            unix.subsec_millis()
        )
    }

    /// Makes a program of a visitor, or tells it why not.
    fn attach(
        &mut self,
        visitor: Visitor,
        of: Result<(u32, u16, u64), Refusal>,
        message: &Message,
    ) -> Option<Visitor> {
        let made = of.and_then(|(host, slot, nonce)| {
            self.programs.has_place(host, slot).map_err(unfit)?;
            let jack = message.file.as_ref().ok_or(io::ErrorKind::InvalidData.into());
            let jack = jack.and_then(|file| Jack::take(file, nonce));
            let why =
                |error: io::Error| no(format!("the ring cannot be used: {error}"), SAME_VERSION);
            let (jack, file) = jack.map_err(why)?;
            Ok((host, slot, jack, file))
        });
        let (host, slot, jack, file) = match made {
            Ok(made) => made,
            Err(refusal) => return visitor.refuse(&refusal).ok().map(|()| visitor),
        };
        let (address, _) = self.network.host_addresses(host);
        let priority = |dscp| {
            self.network.host_nic(host).map_or(0, |nic| nic.priority_of(dscp) & 7).to_string()
        };
        let priorities: String = (0..64).map(priority).collect();
        let process = visitor.channel.process().unwrap_or(0);
        let answer = format!("ok {address} {priorities}");
        if visitor.channel.send(answer.as_bytes(), Some(file.as_fd())).is_err() {
            return None;
        }
        self.programs.add(visitor.channel, (host, slot, process), jack);
        None
    }
}

fn check_version(version: &str) -> Result<(), Refusal> {
    if version == VERSION.to_string() {
        return Ok(());
    }
    let what = format!("the lab speaks version {VERSION}, and the program version {version}");
    Err(no(what, SAME_VERSION))
}

fn unfit(why: Unfit) -> Refusal {
    match why {
        Unfit::Taken => no("another program has this slot", "start it again"),
        Unfit::TooMany => no("the lab has as many programs as it can", "end one of them"),
    }
}

/// As much as one message holds.
fn cut(mut text: String) -> String {
    if text.len() > ANSWER_BYTES {
        text.truncate(text[..ANSWER_BYTES].rfind('\n').map_or(0, |end| end + 1));
        text += "...\n";
    }
    text
}
