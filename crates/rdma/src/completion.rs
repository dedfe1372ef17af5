//! Completions: the results of work requests.

use core::fmt;

use crate::{Key, Qpn};

/// How a work request ended (`enum ibv_wc_status`; IBTA vol 1, 11.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum CompletionStatus {
    /// Done.
    Success = 0,
    /// The scatter list is shorter than the message, or the message longer than allowed.
    LocalLength = 1,
    /// The queue pair itself is inconsistent.
    LocalQpOperation = 2,
    /// An L_Key, its bounds, rights or protection domain do not fit.
    LocalProtection = 4,
    /// Flushed: the queue pair was in the error state, or entered it first.
    Flushed = 5,
    /// A window could not be bound.
    WindowBind = 6,
    /// The peer answered with an unexpected opcode.
    BadResponse = 7,
    /// A local access error at the responder's own memory (RDMA WRITE with immediate).
    LocalAccess = 8,
    /// The peer refused the request as malformed, too long or unsupported.
    RemoteInvalidRequest = 9,
    /// The peer refused the R_Key, its bounds or its rights.
    RemoteAccess = 10,
    /// The peer failed at its own end.
    RemoteOperation = 11,
    /// No acknowledgement after `retry_cnt` retries.
    RetryExceeded = 12,
    /// The peer had no receive posted for `rnr_retry` retries.
    RnrRetryExceeded = 13,
    /// The peer aborted the operation.
    RemoteAborted = 16,
    /// The completion queue or the device failed.
    Fatal = 19,
    /// Anything else.
    General = 21,
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::LocalLength => "local length error",
            Self::LocalQpOperation => "local QP operation error",
            Self::LocalProtection => "local protection error",
            Self::Flushed => "Work Request Flushed Error",
            Self::WindowBind => "memory management operation error",
            Self::BadResponse => "bad response error",
            Self::LocalAccess => "local access error",
            Self::RemoteInvalidRequest => "remote invalid request error",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operation error",
            Self::RetryExceeded => "transport retry counter exceeded",
            Self::RnrRetryExceeded => "RNR retry counter exceeded",
            Self::RemoteAborted => "aborted error",
            Self::Fatal => "fatal error",
            Self::General => "general error",
        })
    }
}

/// Which operation completed (`enum ibv_wc_opcode`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum CompletionOpcode {
    /// A SEND was sent.
    Send = 0,
    /// An RDMA WRITE was done.
    Write = 1,
    /// An RDMA READ was done.
    Read = 2,
    /// A compare and swap was done.
    CompareSwap = 3,
    /// A fetch and add was done.
    FetchAdd = 4,
    /// A memory window was bound.
    BindWindow = 5,
    /// A key was invalidated.
    LocalInvalidate = 6,
    /// An atomic write was done.
    AtomicWrite = 9,
    /// A SEND was received.
    Recv = 128,
    /// An RDMA WRITE with immediate data was received.
    RecvWriteImmediate = 129,
}

impl fmt::Display for CompletionOpcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "SEND",
            Self::Write => "RDMA WRITE",
            Self::Read => "RDMA READ",
            Self::CompareSwap => "COMPARE SWAP",
            Self::FetchAdd => "FETCH ADD",
            Self::BindWindow => "BIND WINDOW",
            Self::LocalInvalidate => "LOCAL INVALIDATE",
            Self::AtomicWrite => "ATOMIC WRITE",
            Self::Recv => "RECEIVE",
            Self::RecvWriteImmediate => "RECEIVE of RDMA WRITE with immediate",
        })
    }
}

/// What came with a received message beside its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attached {
    /// Nothing.
    #[default]
    None,
    /// Immediate data, in network byte order.
    Immediate([u8; 4]),
    /// The key that a SEND with invalidate has made invalid.
    Invalidated(Key),
}

/// The header in which a datagram came, which its receiver finds before the message (IBTA annex
/// A17.4.5). A connected queue pair hands none on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NetworkHeader {
    /// None.
    #[default]
    None,
    /// IPv4, in the last 20 of the 40 bytes.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// The end of a work request (`struct ibv_wc`).
///
/// With a status other than success only `id`, `status`, `qpn` and `vendor_error` are meaningful,
/// as for any verbs device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The application's own.
    pub id: u64,
    /// How it ended.
    pub status: CompletionStatus,
    /// What ended.
    pub opcode: CompletionOpcode,
    /// A number that says more about an error; zero on success.
    pub vendor_error: u32,
    /// Bytes received, or read; for UD the 40 of the GRH are counted.
    pub byte_len: u32,
    /// Immediate data or an invalidated key.
    pub attached: Attached,
    /// The local queue pair.
    pub qpn: Qpn,
    /// The sender (UD only).
    pub source_qpn: Qpn,
    /// What the first 40 bytes of the buffer hold (UD only).
    pub network_header: NetworkHeader,
    /// Whether the sender asked for a solicited event.
    pub solicited: bool,
}

impl Completion {
    /// One that says nothing, to be overwritten.
    pub const NOTHING: Self = Self {
        id: 0,
        status: CompletionStatus::Success,
        opcode: CompletionOpcode::Send,
        vendor_error: 0,
        byte_len: 0,
        attached: Attached::None,
        qpn: Qpn::new(0),
        source_qpn: Qpn::new(0),
        network_header: NetworkHeader::None,
        solicited: false,
    };
}
