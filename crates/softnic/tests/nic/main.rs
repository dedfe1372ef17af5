//! NICs on real sockets: whole conversations, on addresses of loopback that no other test uses.

#![allow(unsafe_code, reason = "forks and kills processes")]

mod allocations;
mod conditions;
mod congestion;
mod connections;
mod crowd;
mod faulty;
mod flood;
mod forged;
mod forger;
mod fork;
mod gone;
mod hard_days;
mod hostile;
mod multicast;
mod processes;
mod record;
mod reliable;
mod same_host;
mod stand_in;
mod storm;
mod strangers;
mod support;
mod threads;
