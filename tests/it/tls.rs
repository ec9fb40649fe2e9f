//! TLS: on its own port and beside plain connections, and certificates instead of passwords.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use amqp_codec::{
    performative::{Performative, SaslCode},
    types::ReceiverSettleMode,
};
use broker_auth::{
    Access, Anonymous, Authority, ClientCertificate, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME,
    Rights,
};
use broker_server::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use testkit::Wire;

use crate::{
    broker::{Broker, Folder, QUEUE},
    client::Client,
    http,
    message::{Delivery, long_text},
};

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// The host names of each certificate.
const HOSTS: [&str; 3] = ["localhost", "*.bus.example", "orders.example"];

/// An authority, and what it has signed.
pub(crate) struct Certificates {
    folder: Folder,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Folder::new();
        fs::write(folder.0.join("ca.pem"), authority.pem()).unwrap();
        Self { folder, authority }
    }

    /// Certificate and key in PEM, for the names of [`HOSTS`] and this common name.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(HOSTS.map(str::to_owned).to_vec()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn files(&self) -> TlsFiles {
        let path = |name: &str| -> PathBuf { self.folder.0.join(name) };
        let (certificate, key) = self.sign("broker");
        fs::write(path("server.pem"), certificate).unwrap();
        fs::write(path("server-key.pem"), key).unwrap();
        TlsFiles {
            certificate: path("server.pem"),
            key: path("server-key.pem"),
            client_authorities: Some(path("ca.pem")),
            check_every: Duration::from_secs(3600),
        }
    }

    /// The authority's own certificate, in PEM.
    pub(crate) fn authorities(&self) -> PathBuf {
        self.folder.0.join("ca.pem")
    }

    /// What another server than the broker shows: a certificate for `localhost`.
    pub(crate) fn server(&self) -> ServerConfig {
        let (certificate, key) = self.sign("server");
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap()
    }

    /// A broker with TLS on both kinds of ports, that knows the certificate `CN=till-7`.
    pub(crate) fn broker(&self) -> Broker {
        self.broker_with(|_| {})
    }

    /// The same with changed settings.
    pub(crate) fn broker_with(&self, change: impl FnOnce(&mut broker_server::ServerConfig)) -> Broker {
        Broker::with(|config| {
            config.tls = Some(self.files());
            config.listen_tls = vec!["127.0.0.1:0".parse().unwrap()];
            let mut credentials = Credentials::development(Anonymous::Deny);
            credentials.certificates = vec![ClientCertificate {
                subject: "CN=till-7".to_owned(),
                access: Access::namespace(Rights::ALL),
            }];
            config.authority = Arc::new(Authority::new(credentials));
            change(config);
        })
    }

    /// A client that trusts the authority and shows the certificate of `name`, if any.
    fn connect(&self, address: SocketAddr, name: Option<&str>) -> Wire<Stream> {
        Wire::over(self.stream(address, name))
    }

    /// The same before it says anything.
    pub(crate) fn stream(&self, address: SocketAddr, name: Option<&str>) -> Stream {
        self.stream_to(address, name, "localhost")
    }

    /// The same of a client that calls the broker by this TLS server name, one of [`HOSTS`].
    pub(crate) fn stream_to(&self, address: SocketAddr, name: Option<&str>, server: &str) -> Stream {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match name.map(|name| self.sign(name)) {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        let host = ServerName::try_from(server.to_owned()).unwrap();
        let tls = ClientConnection::new(Arc::new(config), host).unwrap();
        let tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        StreamOwned::new(tls, tcp)
    }
}

/// Sends and receives on a connection that is about to log in.
fn serves(mut wire: Wire<Stream>, mechanism: &'static str, response: &[u8]) {
    wire.script.sasl(mechanism, Some(response)).open("tls").begin(0);
    wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
    let mut client = Client::on(wire);
    client.sender(1, QUEUE);
    let large = long_text(50_000);
    client.accepted(1, &["over tls", &large, "and the next", &large]);
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::Second));
    let received = client.receive(2, 4);
    assert_eq!(
        received.iter().map(Delivery::text).collect::<Vec<_>>(),
        ["over tls", &large, "and the next", &large]
    );
    for delivery in &received {
        client.complete(delivery);
    }
    client.close();
}

#[test]
fn tls_and_plain_clients_share_a_port_and_tls_has_one_of_its_own() {
    let certificates = Certificates::new();
    let broker = certificates.broker();
    let response = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}");
    serves(certificates.connect(broker.address, None), "PLAIN", response.as_bytes());
    serves(certificates.connect(broker.tls_address(), None), "PLAIN", response.as_bytes());
    broker.plain().close();
    // Plain bytes on the port for TLS get no answer.
    let mut wire = Wire::connect(broker.tls_address()).unwrap();
    wire.script.header(amqp_codec::frame::ProtocolHeader::Sasl);
    assert_eq!(wire.rest().unwrap(), []);
}

#[test]
fn http_https_and_amqp_with_and_without_tls_are_served_on_the_port_for_management() {
    let certificates = Certificates::new();
    let broker = certificates.broker();
    let address = broker.http_address();
    let login = http::root();
    let description = "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\">\
         <QueueDescription xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\"/>\
         </content></entry>";
    let mut over_tls = certificates.stream(address, None);
    let (status, text) =
        http::ask_over(&mut over_tls, "PUT /made?api-version=2021-05", Some(&login), description);
    assert_eq!(status, 201, "{text}");
    let request = "GET /made?api-version=2021-05";
    let (status, plain) = http::ask_over(&mut http::connect(address), request, Some(&login), "");
    assert_eq!(status, 200, "{plain}");
    let (status, over_tls) =
        http::ask_over(&mut certificates.stream(address, None), request, Some(&login), "");
    assert_eq!(status, 200, "{over_tls}");
    // Links say how it was asked.
    assert!(plain.contains("<id>http://localhost/made?"), "{plain}");
    assert_eq!(over_tls.replace("https://", "http://"), plain);
    let response = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}");
    serves(certificates.connect(address, None), "PLAIN", response.as_bytes());
    Client::plain(address).close();
}

#[test]
fn a_known_client_certificate_is_a_log_in() {
    let certificates = Certificates::new();
    let broker = certificates.broker();
    serves(certificates.connect(broker.tls_address(), Some("till-7")), "EXTERNAL", b"");
    serves(certificates.connect(broker.address, Some("till-7")), "EXTERNAL", b"");
}

#[test]
fn external_is_refused_to_strangers_and_to_those_without_a_certificate() {
    let certificates = Certificates::new();
    let broker = certificates.broker();
    for name in [Some("till-8"), None] {
        let mut wire = certificates.connect(broker.tls_address(), name);
        wire.script.sasl("EXTERNAL", Some(b""));
        assert_eq!(wire.sasl_outcome().unwrap().code, SaslCode::Auth, "{name:?}");
    }
    // A certificate of another authority does not even get through the handshake.
    let others = Certificates::new();
    let (certificate, key) = others.sign("till-7");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificates.authority.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let tls = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = StreamOwned::new(tls, TcpStream::connect(broker.tls_address()).unwrap());
    let said = stream.write_all(b"AMQP\x03\x01\x00\x00").and_then(|()| stream.read(&mut [0; 8]));
    assert!(said.is_err() || said.is_ok_and(|count| count == 0));
}

/// What a client of TLS says first.
fn hello(certificates: &Certificates, address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::new();
    certificates.stream(address, None).conn.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn tls_handshakes_that_stop_end_within_the_handshake_time_out() {
    let certificates = Certificates::new();
    let broker = certificates.broker_with(|config| config.handshake_time_out = Duration::from_secs(2));
    let mut innocent = broker.innocent();
    let started = Instant::now();
    let hello = hello(&certificates, broker.address);
    // On the port for both and on that for TLS alone: a first byte, half a header, half of the hello, all of it.
    let cuts = [1, 3, hello.len() / 2, hello.len()];
    let halves = [broker.address, broker.tls_address()].map(|address| {
        cuts.map(|cut| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.write_all(&hello[..cut]).unwrap();
            stream
        })
    });
    // And one that is done with TLS and says nothing inside.
    let mut silent = certificates.stream(broker.tls_address(), None);
    silent.conn.complete_io(&mut silent.sock).unwrap();
    for mut stream in halves.into_iter().flatten() {
        // What is answered to the whole hello comes before the end.
        stream.read_to_end(&mut Vec::new()).ok();
        assert!(stream.read(&mut [0]).is_ok_and(|count| count == 0), "closed");
    }
    match silent.read(&mut [0; 64]) {
        Ok(count) => assert_eq!(count, 0, "nothing inside of TLS"),
        Err(error) => {
            let ends = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
            assert!(ends.contains(&error.kind()), "{error:?}");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    innocent.works();
}
