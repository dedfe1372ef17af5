//! Sockets are made, and connected: `rsocket`, `rbind`, `rlisten`, `raccept`, `rconnect`.

use core::ffi::c_int;
use core::ptr;
use std::sync::Arc;

use wire::cm::ip::PortSpace;

use super::super::abi::rdma_conn_param;
use super::super::id::CmId;
use super::super::{bind, connect, create, endpoint, resolve};
use super::names;
use super::settings::Options;
use super::socket::{self, Inner, Patience, Phase, Socket, Step};
use super::stream::Stream;
use crate::errno::{Errno, minus_one};
use abi::Plain;

/// How often the peer is asked again if it does not answer or is not ready, which is for ever.
const RETRIES: u8 = 7;
/// What the type of a socket may be joined with.
const TYPE_FLAGS: c_int = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// Puts a number where C wants one, or -1.
fn number(result: Result<c_int, Errno>, call: fn() -> &'static str) -> c_int {
    match result {
        Ok(number) => number,
        Err(error) => {
            crate::errno::refused(error, call());
            -1
        }
    }
}

/// Makes a socket: of streams, over IPv4 or IPv6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    number(make(domain, kind, protocol), crate::errno::here!())
}

fn make(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Errno> {
    let is_ip = domain == libc::AF_INET || domain == libc::AF_INET6;
    let is_stream = kind & !TYPE_FLAGS == libc::SOCK_STREAM;
    if !is_ip || !is_stream || (protocol != 0 && protocol != libc::IPPROTO_TCP) {
        return Err(Errno::UNSUPPORTED);
    }
    let id = create::create(ptr::null_mut(), ptr::null_mut(), PortSpace::TCP.0.into())?;
    let mut options = Options::new(domain);
    options.nonblocking = kind & libc::SOCK_NONBLOCK != 0;
    let made = socket::insert(Arc::clone(&id), Inner::new(options, Phase::New, None));
    if made.is_err() {
        create::destroy(&id);
    }
    Ok(made?.number)
}

/// Binds a socket to an address and port of a device, or of all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rbind(
    socket: c_int,
    addr: *const libc::sockaddr,
    addrlen: libc::socklen_t,
) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        // SAFETY: C passes an address of this length.
        let address = unsafe { names::read(addr, addrlen) }?;
        let inner = socket.lock();
        if inner.phase != Phase::New {
            return Err(Errno::invalid("the socket listens or is connected already"));
        }
        bind::bind(&socket.id, &mut socket.id.lock(), address)
    }))
}

/// Waits for connections.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rlisten(socket: c_int, backlog: c_int) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        let mut inner = socket.lock();
        match inner.phase {
            Phase::Listening => return Ok(()),
            Phase::New => {}
            _ => return Err(Errno::invalid("the socket is connected already")),
        }
        let mut id = socket.id.lock();
        if id.local.is_none() {
            bind::bind(&socket.id, &mut id, names::any(inner.options.domain))?;
        }
        drop(id);
        bind::listen(&socket.id, backlog)?;
        inner.phase = Phase::Listening;
        Ok(())
    }))
}

/// Takes the oldest connection that a peer has asked for. It may be used at once: what is sent waits
/// for the peer's confirmation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_raccept(
    socket: c_int,
    addr: *mut libc::sockaddr,
    addrlen: *mut libc::socklen_t,
) -> c_int {
    let accepted = socket::find(socket).and_then(|listener| {
        let mut new = None;
        listener.until(Patience::AsSet, |inner| {
            if inner.phase != Phase::Listening {
                return Err(Errno::invalid("the socket does not listen"));
            }
            loop {
                match endpoint::get_request(&listener.id) {
                    Err(error) if error == Errno::AGAIN => return Ok(Step::Waits(0)),
                    Err(error) => return Err(error),
                    Ok(id) => {
                        // A peer that speaks something else, or has gone, is nothing to the program.
                        if let Some(socket) = accept(&id, inner.options) {
                            new = Some(socket);
                            return Ok(Step::Done(0));
                        }
                    }
                }
            }
        })?;
        let new = new.ok_or(Errno::IO)?;
        let (domain, remote) = (new.lock().options.domain, new.id.lock().remote);
        if !addr.is_null() {
            // SAFETY: C passes room for an address, and its length.
            unsafe { names::write(remote, domain, addr, addrlen) }?;
        }
        Ok(new.number)
    });
    number(accepted, crate::errno::here!())
}

/// Accepts what a peer has asked for; none if that fails.
fn accept(id: &Arc<CmId>, options: Options) -> Option<Arc<Socket>> {
    let result = (|| {
        let (_, greeting) = socket::heard(id).ok_or(Errno::IO)?;
        let greeting = greeting.ok_or(Errno::UNSUPPORTED)?;
        let mut stream = Stream::new(id, &options.sizes)?;
        stream.greet(greeting);
        let ours = stream.greeting().emit();
        // SAFETY: the event of the request is a connection's, and is not acknowledged yet.
        let asked = unsafe { (*id.shown().event).param.conn };
        let param = with_greeting(asked, &ours);
        let inner = Inner::new(options.inherited(), Phase::Accepting, Some(stream));
        let socket = socket::insert(Arc::clone(id), inner)?;
        // SAFETY: private data that lives as long as the call.
        match unsafe { connect::accept(id, &param) } {
            Err(error) if error == Errno::AGAIN => {}
            Ok(()) => {
                let mut inner = socket.lock();
                match socket.established(&mut inner) {
                    Ok(()) => inner.open(),
                    Err(error) => inner.refuse(error),
                }
            }
            Err(error) => {
                // Nobody else has heard of it.
                let _ = socket::remove(socket.number);
                socket.destroy();
                return Ok(Err(error));
            }
        }
        Ok::<_, Errno>(Ok(socket))
    })();
    match result {
        Ok(Ok(socket)) => return Some(socket),
        Ok(Err(error)) => tracing::debug!(?error, "rsocket: a request was withdrawn"),
        Err(error) => {
            tracing::debug!(?error, "rsocket: a request was refused");
            create::destroy(id);
        }
    }
    None
}

fn with_greeting(param: rdma_conn_param, greeting: &[u8]) -> rdma_conn_param {
    rdma_conn_param {
        private_data: greeting.as_ptr().cast(),
        private_data_len: greeting.len() as u8,
        ..param
    }
}

/// Connects a socket; `EINPROGRESS` if it is non-blocking and the peer has not answered yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rconnect(
    socket: c_int,
    addr: *const libc::sockaddr,
    addrlen: libc::socklen_t,
) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        // SAFETY: C passes an address of this length.
        let address = unsafe { names::read(addr, addrlen) }?;
        let mut inner = socket.lock();
        match inner.phase {
            Phase::New => begin(&socket, &mut inner, address)?,
            Phase::Connecting => {
                socket.look(&mut inner);
                if inner.phase == Phase::Connecting && inner.options.nonblocking {
                    return Err(Errno::new(libc::EALREADY));
                }
            }
            Phase::Open | Phase::Accepting => return Err(Errno::new(libc::EISCONN)),
            Phase::Listening | Phase::Refused | Phase::Gone => {
                return Err(Errno::invalid(
                    "the socket listens, or was refused a connection before",
                ));
            }
        }
        drop(inner);
        let connected = socket.until(Patience::AsSet, |inner| match inner.ready()? {
            Some(_) => Ok(Step::Done(0)),
            None => Ok(Step::Waits(0)),
        });
        match connected {
            Err(error) if error == Errno::AGAIN => Err(Errno::new(libc::EINPROGRESS)),
            result => result.map(drop),
        }
        .map_err(explained)
    }))
}

/// The same error with its reason. librspreload connects by TCP then, without a word.
fn explained(error: Errno) -> Errno {
    match error.number {
        libc::ECONNREFUSED => error.because("no rsocket listens there"),
        libc::ETIMEDOUT => error.because("nobody answers there"),
        libc::EOPNOTSUPP => error.because("who listens there is no rsocket"),
        _ => error,
    }
}

/// Asks the peer at `address` for a connection.
fn begin(socket: &Socket, inner: &mut Inner, address: core::net::SocketAddr) -> Result<(), Errno> {
    let id = &socket.id;
    let resolved = resolve::resolve_addr(id, None, address);
    resolved.map_err(|error| error.because("no device reaches that address"))?;
    resolve::resolve_route(id)?;
    let stream = Stream::new(id, &inner.options.sizes)?;
    let greeting = stream.greeting().emit();
    inner.stream = Some(stream);
    let param = rdma_conn_param {
        flow_control: 1,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        ..rdma_conn_param::zeroed()
    };
    let param = with_greeting(param, &greeting);
    inner.phase = Phase::Connecting;
    // SAFETY: private data that lives as long as the call.
    let result = match unsafe { connect::connect(id, &param) } {
        Err(error) if error == Errno::AGAIN => return Ok(()),
        Ok(()) => socket.established(inner),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => inner.open(),
        Err(error) => inner.refuse(error),
    }
    Ok(())
}
