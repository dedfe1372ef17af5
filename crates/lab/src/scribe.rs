//! Who writes out what is seen: a thread, so that the lab waits for no file and no reader.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softnic::lab::Channel;

use crate::limits::{LOOKS_MAX, SEEN_MESSAGE_BYTES, SEEN_PATIENCE};
use crate::seen::Seen;

/// Who writes out what is seen, so that the lab need not.
#[derive(Debug, Default)]
pub(crate) struct Scribe(Option<SyncSender<(Channel, Seen)>>);

impl Scribe {
    /// Has it written to `channel`; gives that back if too much waits already.
    pub(crate) fn write(&mut self, channel: Channel, seen: Seen) -> Result<(), Channel> {
        let sender = match &self.0 {
            Some(sender) => sender,
            None => {
                let (sender, receiver) = sync_channel(LOOKS_MAX);
                let thread = thread::Builder::new().name("scribe".into());
                if thread.spawn(move || work(&receiver)).is_err() {
                    return Err(channel);
                }
                self.0.insert(sender)
            }
        };
        sender.try_send((channel, seen)).map_err(|error| match error {
            TrySendError::Full((channel, _)) | TrySendError::Disconnected((channel, _)) => channel,
        })
    }
}

fn work(receiver: &Receiver<(Channel, Seen)>) {
    while let Ok((channel, mut seen)) = receiver.recv() {
        seen.add_counters();
        let Ok(text) = serde_json::to_vec(&seen) else { continue };
        // Whoever has gone away does not miss it.
        let _ = send(&channel, &text);
    }
}

/// Sends `text` in as many messages as it takes, each behind `d`, and then `e`.
fn send(channel: &Channel, text: &[u8]) -> io::Result<()> {
    let begin = Instant::now();
    let parts = text.chunks(SEEN_MESSAGE_BYTES).map(|part| [b"d", part].concat());
    for message in parts.chain([b"e".to_vec()]) {
        loop {
            match channel.send(&message, None) {
                Ok(()) => break,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => {
                    let left = SEEN_PATIENCE.saturating_sub(begin.elapsed());
                    let left = Timespec {
                        tv_sec: left.as_secs() as i64,
                        tv_nsec: left.subsec_nanos().into(),
                    };
                    let fd = channel.as_fd();
                    if poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&left))? == 0 {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            }
        }
    }
    Ok(())
}
