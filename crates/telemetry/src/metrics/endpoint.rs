//! An HTTP endpoint for scrapers: one page, read anew for each request.
//!
//! ```text
//!   GET /metrics ─► 200 metrics, in the format that Accept asks for
//!   GET /        ─► 200 a link to them
//!   anything else, too long or too slow ─► 404, 405, 400, or the end of the connection
//! ```
//!
//! # What holds
//!
//! - It listens on a loopback address, unless whoever starts it says [`Reach::Anywhere`].
//! - A client can cost it one thread for [`REQUEST_TIME_MAX`], and [`CONNECTIONS_MAX`] of them at most; those beyond
//!   are closed at once.
//! - Metrics are gathered by one thread at a time, so a scraper that is impatient does not multiply the work.
//!
//! One request a connection, which scrapers understand. httparse reads the head; the rest of an HTTP server (bodies,
//! keep-alive, chunks) has no use here. TLS and passwords are for a proxy before it.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::{Format, Metrics};
use crate::limits::{CONNECTIONS_MAX, REQUEST_BYTES_MAX, REQUEST_HEADERS_MAX, REQUEST_TIME_MAX};

/// Who may reach an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Programs of this host.
    Loopback,
    /// Whoever the network lets through.
    Anywhere,
}

/// Why an endpoint cannot be made.
#[derive(Debug)]
pub enum EndpointError {
    /// The address is not of loopback, and [`Reach::Anywhere`] was not said.
    BeyondLoopback(SocketAddr),
    /// The system refuses it.
    Bind(SocketAddr, io::Error),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondLoopback(address) => write!(f, "{address} can be reached from other hosts"),
            Self::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl core::error::Error for EndpointError {}

/// What gives the metrics of a scrape.
type Gather = dyn FnMut() -> Metrics + Send;

/// Serves metrics until it is dropped. See the module.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Listens on `address` (port 0: any free one), and asks `gather` for the metrics of each scrape.
    pub fn serve(
        address: SocketAddr,
        reach: Reach,
        gather: impl FnMut() -> Metrics + Send + 'static,
    ) -> Result<Self, EndpointError> {
        if reach == Reach::Loopback && !address.ip().to_canonical().is_loopback() {
            return Err(EndpointError::BeyondLoopback(address));
        }
        let bound =
            TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| EndpointError::Bind(address, error))?;
        let ends = Arc::new(AtomicBool::new(false));
        let gather: Arc<Mutex<Box<Gather>>> = Arc::new(Mutex::new(Box::new(gather)));
        let told = Arc::clone(&ends);
        let thread = thread::Builder::new().name("metrics".into());
        let thread = thread.spawn(move || accept(&listener, &told, &gather));
        let thread = Some(thread.map_err(|error| EndpointError::Bind(address, error))?);
        Ok(Self { address, ends, thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // A connection of our own wakes the thread that accepts.
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let woken =
            TcpStream::connect_timeout(&(ip, self.address.port()).into(), Duration::from_secs(1));
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, ends: &AtomicBool, gather: &Arc<Mutex<Box<Gather>>>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of file descriptors, most likely: not a reason to spin.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let place = Place(Arc::clone(&open));
        let gather = Arc::clone(gather);
        let answer = move || {
            let _place = place;
            // A client that goes away is its own affair.
            let _ = answer(stream, &gather);
        };
        // If there is no thread to be had, the place is given back with the closure.
        let _ = thread::Builder::new().name("scrape".into()).spawn(answer);
    }
}

/// One of the connections that may be open.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream, gather: &Mutex<Box<Gather>>) -> io::Result<()> {
    stream.set_write_timeout(Some(REQUEST_TIME_MAX))?;
    let request = read_request(&mut stream);
    let Request { path, accept, is_get, is_head } = match request {
        Ok(Some(request)) => request,
        Ok(None) => {
            return respond(&mut stream, "400 Bad Request", TEXT, "not an HTTP request\n", false);
        }
        Err(error) => return Err(error),
    };
    if !is_get && !is_head {
        return respond(&mut stream, "405 Method Not Allowed", TEXT, "GET and HEAD only\n", false);
    }
    match path.split('?').next() {
        Some("/metrics") => {
            // One that panicked in a gatherer before does not end all others.
            let mut gather = gather.lock().unwrap_or_else(PoisonError::into_inner);
            let metrics = gather();
            drop(gather);
            let format = Format::accepted(&accept);
            respond(&mut stream, "200 OK", format.content_type(), &metrics.to_text(format), is_head)
        }
        Some("/") => respond(&mut stream, "200 OK", "text/html; charset=utf-8", LANDING, is_head),
        _ => respond(&mut stream, "404 Not Found", TEXT, "metrics are at /metrics\n", is_head),
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const LANDING: &str = "<!DOCTYPE html><title>Ferroce</title><a href=\"/metrics\">Metrics</a>\n";

struct Request {
    path: String,
    accept: String,
    is_get: bool,
    is_head: bool,
}

/// Reads the head of a request. `None`: it is none, or too long.
fn read_request(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let end = Instant::now() + REQUEST_TIME_MAX;
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // A byte now and then does not hold a thread for longer.
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..read]);
        let mut headers = [httparse::EMPTY_HEADER; REQUEST_HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Partial) if bytes.len() < REQUEST_BYTES_MAX => {}
            Ok(httparse::Status::Complete(_)) => {
                let method = request.method.unwrap_or_default();
                let accept =
                    request.headers.iter().filter(|at| at.name.eq_ignore_ascii_case("accept"));
                let accept = accept.map(|at| String::from_utf8_lossy(at.value)).collect();
                let path = request.path.unwrap_or_default().to_owned();
                let (is_get, is_head) = (method == "GET", method == "HEAD");
                return Ok(Some(Request { path, accept, is_get, is_head }));
            }
            _ => return Ok(None),
        }
    }
}

fn respond(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    body: &str,
    head: bool,
) -> io::Result<()> {
    let length = body.len();
    let header = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(header.as_bytes())?;
    if !head {
        stream.write_all(body.as_bytes())?;
    }
    stream.shutdown(Shutdown::Write)?;
    // What the client still says is read, or closing would take back what it has not read yet.
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let _ = stream.read(&mut [0; 512]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MetricKind;

    fn endpoint() -> Endpoint {
        let mut scrapes = 0u64;
        let gather = move || {
            scrapes += 1;
            let mut metrics = Metrics::new();
            metrics.add("scrapes_total", MetricKind::Counter, "", &[], scrapes);
            metrics
        };
        Endpoint::serve((Ipv4Addr::LOCALHOST, 0).into(), Reach::Loopback, gather).unwrap()
    }

    fn ask(endpoint: &Endpoint, request: &str) -> String {
        let mut stream = TcpStream::connect(endpoint.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // It may be refused in the middle.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn a_scraper_is_served_in_the_format_that_it_accepts() {
        let endpoint = endpoint();
        let answer = ask(&endpoint, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("scrapes_total 1\n"),
            "{answer}"
        );
        let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.3\r\n";
        let answer = ask(&endpoint, &format!("GET /metrics?x=1 HTTP/1.1\r\n{accept}\r\n"));
        assert!(answer.ends_with("scrapes_total 2\n# EOF\n"), "{answer}");
        assert!(answer.contains("Content-Type: application/openmetrics-text"), "{answer}");
    }

    #[test]
    fn what_is_no_scrape_is_refused_and_the_next_one_served() {
        let endpoint = endpoint();
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(2 * REQUEST_BYTES_MAX));
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 405"),
            ("GET /other HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
            ("\u{16}\u{3}\u{1}hello\r\n\r\n", "HTTP/1.1 400"),
            (&long, "HTTP/1.1 400"),
        ] {
            let answer = ask(&endpoint, request);
            assert!(answer.starts_with(status), "{request:.40}: {answer}");
        }
        assert!(!ask(&endpoint, "HEAD /metrics HTTP/1.1\r\n\r\n").contains("scrapes_total"));
        drop(TcpStream::connect(endpoint.address()).unwrap());
        assert!(ask(&endpoint, "GET /metrics HTTP/1.1\r\n\r\n").contains("scrapes_total"));
    }

    #[test]
    fn connections_that_say_nothing_are_bounded() {
        let endpoint = endpoint();
        let silent: Vec<TcpStream> = (0..2 * CONNECTIONS_MAX)
            .map(|_| TcpStream::connect(endpoint.address()).unwrap())
            .collect();
        // Those beyond the bound are closed, so their end is read; all others are silent too.
        silent.last().unwrap().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let read = silent.last().unwrap().read(&mut [0]);
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        drop(silent);
        let answered = (0..600).any(|_| {
            thread::sleep(Duration::from_millis(100));
            ask(&endpoint, "GET /metrics HTTP/1.1\r\n\r\n").contains("scrapes_total")
        });
        assert!(answered);
    }

    #[test]
    fn only_loopback_is_listened_on_unless_told() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9879"] {
            let made = Endpoint::serve(address.parse().unwrap(), Reach::Loopback, Metrics::new);
            assert!(matches!(made, Err(EndpointError::BeyondLoopback(_))), "{address}");
        }
    }
}
