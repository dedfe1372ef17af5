//! Mutual TLS in place of the shared key: both sides show a certificate of one authority.
//!
//! ```text
//!   agent: the collector's certificate has its address, or what --tls-name says
//!   collector: an agent's certificate has the name of the host that it speaks for
//! ```
//!
//! TLS 1.3 alone, by rustls. What is said is secret then, too. An agent whose certificate is stolen can lie about its own
//! host, where a key that is stolen lets lie about all.

use core::net::IpAddr;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use rustls::client::verify_server_name;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, RootCertStore,
    ServerConfig, ServerConnection, StreamOwned,
};

use crate::failure::Failure;

/// How both sides know each other: by a key that all have, or by certificates.
#[derive(Debug, Args)]
pub(super) struct Trust {
    /// The file with the key that all agents and the collector have; nobody else may read it
    #[arg(long, value_name = "FILE", required_unless_present = "tls_cert")]
    pub(super) key: Option<PathBuf>,

    /// In place of a key: the certificate of this side, and those between it and the authority, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"], conflicts_with = "key")]
    tls_cert: Option<PathBuf>,

    /// Its private key, as PEM; nobody else may read it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The authority of the other side's certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
}

impl Trust {
    pub(super) fn tls(&self) -> Result<Option<Tls>, Failure> {
        match (&self.tls_cert, &self.tls_key, &self.tls_ca) {
            (Some(cert), Some(key), Some(ca)) => Tls::read(cert, key, ca).map(Some),
            _ => Ok(None),
        }
    }
}

/// What TLS needs, on either side.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// The collector's name, if its certificate does not have its address.
    pub(super) name: Option<ServerName<'static>>,
}

fn about(path: &Path, what: &str) -> Failure {
    Failure::new(format!("{}: {what}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = read.map_err(|error| about(path, &format!("no certificates: {error}")))?;
    if all.is_empty() {
        return Err(about(path, "there is no certificate in it").hint("it is to be PEM"));
    }
    Ok(all)
}

impl Tls {
    fn read(cert: &Path, key: &Path, ca: &Path) -> Result<Self, Failure> {
        let known = fs::metadata(key).map_err(|error| about(key, &error.to_string()))?;
        if known.mode() & 0o077 != 0 {
            return Err(about(key, "others may read this private key")
                .hint(format!("chmod 600 {}", key.display())));
        }
        let private = || {
            PrivateKeyDer::from_pem_file(key)
                .map_err(|error| about(key, &format!("no private key: {error}")))
        };
        let chain = certificates(cert)?;
        let mut roots = RootCertStore::empty();
        for root in certificates(ca)? {
            roots.add(root).map_err(|error| about(ca, &format!("no authority: {error}")))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(default_provider()));
        let wrong = |error: rustls::Error| {
            about(cert, &format!("{error}"))
                .hint("--tls-cert and --tls-key are to be of one another")
        };
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), private()?)
            .map_err(wrong)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| about(ca, &format!("no authority: {error}")))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, private()?)
            .map_err(wrong)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), name: None })
    }

    /// To the collector.
    pub(super) fn connect(&self, address: IpAddr, socket: TcpStream) -> io::Result<Stream> {
        let name = self.name.clone().unwrap_or(ServerName::IpAddress(address.into()));
        let mut connection =
            ClientConnection::new(Arc::clone(&self.client), name).map_err(refused)?;
        let mut socket = socket;
        greet(&mut connection, &mut socket, None)?;
        Ok(Stream::Agent(Box::new(StreamOwned::new(connection, socket))))
    }

    /// From an agent.
    pub(super) fn accept(&self, socket: TcpStream, until: Option<Instant>) -> io::Result<Stream> {
        let mut connection = ServerConnection::new(Arc::clone(&self.server)).map_err(refused)?;
        let mut socket = socket;
        greet(&mut connection, &mut socket, until)?;
        Ok(Stream::Collector(Box::new(StreamOwned::new(connection, socket))))
    }
}

fn refused(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// What is wrong, if it is what the other side of TLS has shown, or has said of ours: behind "the collector is there, but".
pub(super) fn explained(error: &io::Error) -> Option<&'static str> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => {
                "its certificate is not of the authority that --tls-ca names"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate has not this address: --tls-name says which name it has"
            }
            _ => "its certificate is not good",
        },
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA => {
                "it does not know the authority of our certificate: its --tls-ca is another"
            }
            AlertDescription::CertificateExpired => "our certificate has expired",
            AlertDescription::CertificateRequired => "it wants a certificate of ours",
            _ => "it does not take our certificate",
        },
        rustls::Error::InvalidMessage(_) => "it does not speak TLS: it wants a key (--key)",
        _ => "TLS with it fails",
    })
}

/// Both sides show who they are, until a time if there is one.
fn greet<Side>(
    connection: &mut rustls::ConnectionCommon<Side>,
    socket: &mut TcpStream,
    until: Option<Instant>,
) -> io::Result<()> {
    while connection.is_handshaking() || connection.wants_write() {
        while connection.wants_write() {
            connection.write_tls(socket)?;
        }
        if !connection.is_handshaking() {
            break;
        }
        hurry(socket, until)?;
        if connection.read_tls(socket)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if let Err(error) = connection.process_new_packets() {
            // The other is told why.
            let _ = connection.write_tls(socket);
            return Err(refused(error));
        }
    }
    Ok(())
}

/// The next read of a socket ends at a time, if there is one.
pub(super) fn hurry(socket: &TcpStream, until: Option<Instant>) -> io::Result<()> {
    let Some(until) = until else { return Ok(()) };
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    socket.set_read_timeout(Some(left))
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Agent(Box<StreamOwned<ClientConnection, TcpStream>>),
    Collector(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Agent(stream) => stream.get_ref(),
            Self::Collector(stream) => stream.get_ref(),
        }
    }

    /// Whether the other side may speak for a host: its certificate has that name, or it has the key of all.
    pub(super) fn may_be(&self, host: &str) -> bool {
        let Self::Collector(stream) = self else { return true };
        let shown = stream.conn.peer_certificates().and_then(<[_]>::first);
        let parsed = shown.and_then(|shown| ParsedCertificate::try_from(shown).ok());
        let name = ServerName::try_from(host);
        parsed.zip(name.ok()).is_some_and(|(of, name)| verify_server_name(&of, &name).is_ok())
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Agent(stream) => stream.read(bytes),
            Self::Collector(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Agent(stream) => stream.write(bytes),
            Self::Collector(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Agent(stream) => stream.flush(),
            Self::Collector(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use rcgen::{
        BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd,
    };

    use super::super::line::{Line, Secret};
    use super::*;

    /// An authority.
    struct Authority {
        certificate: Certificate,
        key: KeyPair,
    }

    impl Authority {
        fn new(name: &str) -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            Self { certificate: params.self_signed(&key).unwrap(), key }
        }

        /// A side whose certificate it has signed, and which trusts another's.
        fn made(&self, name: &str, last_year: i32, trusts: &Self) -> Tls {
            let folder = tempfile::tempdir().unwrap();
            let key = KeyPair::generate().unwrap();
            let mut params =
                CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
            params.not_after = date_time_ymd(last_year, 1, 1);
            let signed = params.signed_by(&key, &self.certificate, &self.key).unwrap();
            let texts = [
                ("cert", signed.pem()),
                ("key", key.serialize_pem()),
                ("ca", trusts.certificate.pem()),
            ];
            let [cert, key, ca] = texts.map(|(name, text)| {
                let file = folder.path().join(name);
                fs::write(&file, text).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
                file
            });
            Tls::read(&cert, &key, &ca).unwrap()
        }
    }

    /// What was heard, or why nothing was.
    type Heard<T> = Result<T, String>;

    /// What an agent says, and whether it may be h0 and h1; and what the agent is told.
    fn meet(collector: Tls, agent: Tls) -> (Heard<(u32, bool, bool)>, Heard<u32>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let said = thread::spawn(move || {
            let mut line = Line::connect(address, &Secret::Tls(agent))?;
            line.say(&7_u32)?;
            Ok(line.hear::<u32>()?.unwrap_or(0))
        });
        let (stream, _) = listener.accept().unwrap();
        let patience = Duration::from_secs(60);
        let heard = Line::accept(stream, &Secret::Tls(collector), patience).and_then(|mut line| {
            let heard = line.hear()?.unwrap_or(0);
            line.say(&8_u32)?;
            Ok((heard, line.may_be("h0"), line.may_be("h1")))
        });
        // What the command line makes of it, and what rustls says.
        let text =
            |error: io::Error| format!("{}: {error}", explained(&error).unwrap_or("unknown"));
        (heard.map_err(text), said.join().unwrap().map_err(text))
    }

    #[test]
    fn certificates_of_the_authority_are_taken_and_no_others() {
        let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
        let collector = || ours.made("collector", 2100, &ours);
        let (heard, told) = meet(collector(), ours.made("h0", 2100, &ours));
        assert_eq!((heard, told), (Ok((7, true, false)), Ok(8)));
        let refused = |collector: Tls, agent: Tls, by_collector: &str, by_agent: &str| {
            let (heard, told) = meet(collector, agent);
            let (heard, told) = (heard.unwrap_err(), told.unwrap_err());
            assert!(heard.contains(by_collector), "{by_collector}: {heard}");
            assert!(told.contains(by_agent), "{by_agent}: {told}");
        };
        let stranger = theirs.made("h0", 2100, &ours);
        refused(collector(), stranger, "UnknownIssuer", "its --tls-ca is another: ");
        let expired = ours.made("h0", 2001, &ours);
        refused(collector(), expired, "expired", "our certificate has expired: ");
        let impostor = theirs.made("collector", 2100, &ours);
        let of_another = "not of the authority that --tls-ca names: ";
        refused(impostor, ours.made("h0", 2100, &ours), "UnknownCA", of_another);
        let old = ours.made("collector", 2001, &ours);
        let expired = "its certificate has expired: ";
        refused(old, ours.made("h0", 2100, &ours), "CertificateExpired", expired);
        let mut elsewhere = ours.made("h0", 2100, &ours);
        elsewhere.name = Some(ServerName::try_from("another-collector").unwrap());
        refused(collector(), elsewhere, "BadCertificate", "has not this address: ");
        // One that shows none.
        let mut nobody = ours.made("h0", 2100, &ours);
        let mut roots = RootCertStore::empty();
        roots.add(ours.certificate.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        nobody.client = Arc::new(config);
        refused(collector(), nobody, "no certificates", "it wants a certificate of ours: ");
    }

    #[test]
    fn a_collector_that_has_a_key_is_told_from_one_that_is_not_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ours = Authority::new("ours");
        let agent = Secret::Tls(ours.made("h0", 2100, &ours));
        let said = thread::spawn(move || {
            let error = Line::connect(address, &agent).unwrap_err();
            explained(&error)
        });
        let (mut stream, _) = listener.accept().unwrap();
        // Chance, with which a collector of a key begins.
        stream.write_all(&[0xc5; 32]).unwrap();
        assert_eq!(said.join().unwrap(), Some("it does not speak TLS: it wants a key (--key)"));
        drop(listener);
        let agent = Secret::Tls(ours.made("h0", 2100, &ours));
        assert_eq!(explained(&Line::connect(address, &agent).unwrap_err()), None);
    }

    #[test]
    fn files_that_are_none_are_told_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.pem");
        fs::write(&file, "no PEM").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let why = Tls::read(&file, &file, &file).unwrap_err().to_string();
        assert!(
            why.contains("some.pem: others may read") && why.contains("hint: chmod 600"),
            "{why}"
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let why = Tls::read(&file, &file, &file).unwrap_err().to_string();
        assert!(why.contains("there is no certificate in it"), "{why}");
        assert!(Tls::read(Path::new("nowhere"), &file, &file).is_err());
    }
}
