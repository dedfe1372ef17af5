//! What can be set: `rsetsockopt`, `rgetsockopt`, `rfcntl`.

use core::ffi::{c_int, c_long, c_void};

use super::greeting;
use super::settings::{Options, bytes, inline, queue};
use super::socket::{self, Inner, Phase, Socket};
use crate::errno::{Errno, minus_one};

/// The level of options of RDMA, and these.
const SOL_RDMA: c_int = 0x10000;
const RDMA_SQSIZE: c_int = 0;
const RDMA_RQSIZE: c_int = 1;
const RDMA_INLINE: c_int = 2;
const RDMA_IOMAPSIZE: c_int = 3;

/// What a segment is said to have, if the path is not known.
const SEGMENT_BYTES: c_int = 2048;

/// An option that there is not.
const ABSENT: Errno = Errno::UNSUPPORTED;

/// Sets an option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rsetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: libc::socklen_t,
) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        if optval.is_null() || (optlen as usize) < size_of::<c_int>() {
            return Err(Errno::invalid("optval is NULL, or optlen is shorter than the option"));
        }
        // SAFETY: C passes as many readable bytes as it says.
        let value = unsafe { optval.cast::<c_int>().read_unaligned() };
        let second = if optlen as usize >= size_of::<libc::linger>() {
            // SAFETY: as above.
            unsafe { optval.cast::<c_int>().add(1).read_unaligned() }
        } else {
            0
        };
        change(&socket, (level, optname), value, second)
    }))
}

fn change(
    socket: &Socket,
    (level, name): (c_int, c_int),
    value: c_int,
    second: c_int,
) -> Result<(), Errno> {
    let mut inner = socket.lock();
    let is_new = matches!(inner.phase, Phase::New | Phase::Listening);
    let options = &mut inner.options;
    let is_on = value != 0;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
            options.reuses_address = is_on;
            socket.id.lock().settings.reuse_address = is_on;
        }
        // As in Linux, twice what was asked for; too late, it changes nothing.
        (libc::SOL_SOCKET, libc::SO_RCVBUF) if is_new => {
            options.sizes.receive_bytes = bytes(doubled(value));
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF) if is_new => {
            options.sizes.send_bytes = bytes(doubled(value));
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF) => {}
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            (options.lingers, options.linger_seconds) = (is_on, second);
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keeps_alive = is_on,
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.out_of_band_inline = is_on,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay = is_on,
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) if value > 0 => options.keep_idle_seconds = value,
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
            return Err(Errno::invalid("TCP_KEEPIDLE is not above 0"));
        }
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG) => {}
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
            options.only_v6 = is_on;
            socket.id.lock().settings.one_family = is_on;
        }
        (SOL_RDMA, RDMA_SQSIZE | RDMA_RQSIZE | RDMA_INLINE | RDMA_IOMAPSIZE) if !is_new => {
            return Err(Errno::invalid("the connection is made already: set this before"));
        }
        (SOL_RDMA, RDMA_SQSIZE) => options.sizes.send_queue = queue(value.cast_unsigned()),
        (SOL_RDMA, RDMA_RQSIZE) => options.sizes.receive_queue = queue(value.cast_unsigned()),
        (SOL_RDMA, RDMA_INLINE) => options.sizes.inline = inline(value.cast_unsigned()),
        (SOL_RDMA, RDMA_IOMAPSIZE) => {
            options.sizes.maps = greeting::tellable(value.cast_unsigned());
        }
        _ => return Err(ABSENT),
    }
    Ok(())
}

fn doubled(value: c_int) -> usize {
    (value.cast_unsigned() as usize).saturating_mul(2)
}

/// Tells an option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rgetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut libc::socklen_t,
) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        // SAFETY: C passes a writable length.
        let length = unsafe { optlen.as_mut() }.ok_or(Errno::FAULT)?;
        let mut inner = socket.lock();
        if (level, optname) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
            if optval.is_null() {
                return Err(Errno::FAULT);
            }
            // TCP's figures are zeros, so that programs that print them print no others.
            // SAFETY: C passes as many writable bytes as it says.
            unsafe { core::ptr::write_bytes(optval.cast::<u8>(), 0, *length as usize) };
            return Ok(());
        }
        let (value, second) = told(&socket, &mut inner, (level, optname))?;
        let words = [value, second.unwrap_or(0)];
        let whole = if second.is_some() { size_of_val(&words) } else { size_of::<c_int>() };
        if optval.is_null() || (*length as usize) < whole {
            return Err(Errno::invalid("optval is NULL, or optlen is shorter than the option"));
        }
        // SAFETY: C passes as many writable bytes as it says.
        unsafe {
            core::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), optval.cast(), whole);
        }
        *length = whole as libc::socklen_t;
        Ok(())
    }))
}

fn told(
    socket: &Socket,
    inner: &mut Inner,
    (level, name): (c_int, c_int),
) -> Result<(c_int, Option<c_int>), Errno> {
    let int = |number: usize| c_int::try_from(number).unwrap_or(c_int::MAX);
    let Options { sizes, .. } = inner.options;
    let options = &inner.options;
    let value = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            socket.look(inner);
            core::mem::take(&mut inner.error)
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            return Ok((options.lingers.into(), Some(options.linger_seconds)));
        }
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuses_address.into(),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keeps_alive.into(),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.out_of_band_inline.into(),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => int(sizes.receive_bytes),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => int(sizes.send_bytes),
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => options.domain,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => (inner.phase == Phase::Listening).into(),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay.into(),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => options.keep_idle_seconds,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => 1,
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => match &inner.stream {
            Some(stream) => int(stream.context.nic.device().active_mtu.bytes() as usize),
            None => SEGMENT_BYTES,
        },
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => options.only_v6.into(),
        (SOL_RDMA, RDMA_SQSIZE) => sizes.send_queue.into(),
        (SOL_RDMA, RDMA_RQSIZE) => sizes.receive_queue.into(),
        (SOL_RDMA, RDMA_INLINE) => int(sizes.inline as usize),
        (SOL_RDMA, RDMA_IOMAPSIZE) => sizes.maps.into(),
        _ => return Err(ABSENT),
    };
    Ok((value, None))
}

/// `fcntl` of a socket: whether it blocks, and whether a program that is executed inherits it. C passes
/// its third argument as any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rfcntl(socket: c_int, cmd: c_int, arg: c_long) -> c_int {
    let mut answer = 0;
    let result = socket::find(socket).and_then(|it| {
        match cmd {
            libc::F_GETFL => {
                let blocks = !it.lock().options.nonblocking;
                answer = libc::O_RDWR | if blocks { 0 } else { libc::O_NONBLOCK };
            }
            libc::F_SETFL => {
                it.lock().options.nonblocking = arg & c_long::from(libc::O_NONBLOCK) != 0;
            }
            libc::F_GETFD | libc::F_SETFD => {
                // SAFETY: a plain system call on our descriptor.
                answer = unsafe { libc::fcntl(it.number, cmd, arg) };
                if answer < 0 {
                    return Err(Errno::last());
                }
            }
            _ => return Err(ABSENT),
        }
        Ok(())
    });
    if minus_one!(result) == 0 { answer } else { -1 }
}
