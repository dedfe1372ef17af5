//! NICs on real sockets: whole conversations, on addresses of loopback that no other test uses.

#![allow(unsafe_code, reason = "forks and kills processes")]

mod reliable;
mod support;
