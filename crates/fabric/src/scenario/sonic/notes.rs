//! Notes on a `config_db.json`: what its owner should know, though it is no error.

use std::collections::BTreeMap;

/// Something about a configuration that its owner should know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Note {
    /// It is likely to be a mistake, or to make the simulation differ from the switch.
    pub warning: bool,
    /// What it is.
    pub text: String,
}

/// Notes that are being collected. What is the same on several ports is said once.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// By note, the ports that it is about.
    notes: BTreeMap<Note, Vec<String>>,
}

impl Notes {
    pub(super) fn info(&mut self, text: impl Into<String>) {
        self.notes.entry(Note { warning: false, text: text.into() }).or_default();
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.notes.entry(Note { warning: true, text: text.into() }).or_default();
    }

    /// A warning about one port.
    pub(super) fn warn_port(&mut self, port: &str, text: impl Into<String>) {
        let ports = self.notes.entry(Note { warning: true, text: text.into() }).or_default();
        if !ports.iter().any(|known| known == port) {
            ports.push(port.to_owned());
        }
    }

    /// Warnings first.
    pub(super) fn list(&self) -> Vec<Note> {
        let mut notes: Vec<Note> = self
            .notes
            .iter()
            .map(|(note, ports)| {
                let text = match ports.as_slice() {
                    [] => note.text.clone(),
                    [port] => format!("{}: {port}", note.text),
                    [first, .., last] => {
                        format!("{}: {first} to {last} ({} ports)", note.text, ports.len())
                    }
                };
                Note { warning: note.warning, text }
            })
            .collect();
        notes.sort_by_key(|note| !note.warning);
        notes
    }
}
