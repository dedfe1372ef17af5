//! Names of statuses, events, types and states: `ibv_wc_status_str` and its kin.

use core::ffi::{CStr, c_char, c_int};

/// `enum ibv_wc_status`.
const WC_STATUSES: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

/// `enum ibv_event_type`.
const EVENTS: [&CStr; 20] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"work queue fatal error",
];

/// `enum ibv_node_type`, from 0.
const NODE_TYPES: [&CStr; 8] = [
    c"unknown",
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// `enum ibv_port_state`.
const PORT_STATES: [&CStr; 6] =
    [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active deferred"];

fn name(names: &'static [&CStr], number: c_int, otherwise: &'static CStr) -> *const c_char {
    let found = usize::try_from(number).ok().and_then(|at| names.get(at));
    found.copied().unwrap_or(otherwise).as_ptr()
}

/// What a completion status means.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    name(&WC_STATUSES, status, c"unknown")
}

/// What an asynchronous event means.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    name(&EVENTS, event, c"unknown")
}

/// What a node type means.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node_type: c_int) -> *const c_char {
    name(&NODE_TYPES, node_type, c"unknown")
}

/// What a port state means.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(port_state: c_int) -> *const c_char {
    name(&PORT_STATES, port_state, c"invalid state")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: *const c_char) -> &'static str {
        // SAFETY: a C string literal.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    }

    #[test]
    fn statuses_have_the_names_of_the_completions() {
        use rdma::CompletionStatus::{Flushed, RemoteAccess, RnrRetryExceeded, Success};
        for status in [Success, Flushed, RemoteAccess, RnrRetryExceeded] {
            assert_eq!(read(ibv_wc_status_str(status as c_int)), status.to_string());
        }
    }

    #[test]
    fn a_number_out_of_range_has_a_name_too() {
        assert_eq!(read(ibv_wc_status_str(-1)), "unknown");
        assert_eq!(read(ibv_port_state_str(6)), "invalid state");
        assert_eq!(read(ibv_event_type_str(15)), "SRQ limit reached");
        assert_eq!(read(ibv_node_type_str(1)), "InfiniBand channel adapter");
    }
}
