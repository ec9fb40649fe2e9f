//! Connections and handshakes that namespaces share.

use std::{
    fs,
    net::TcpStream,
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use amqp_codec::performative::{Open, Performative};
use broker_auth::{Anonymous, Authority, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_core::NamespaceSettings;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto::ring, pki_types::ServerName};
use testkit::Wire;

use super::config;
use crate::{NamespacePlan, Outcome, Server, ServerConfig, TlsFiles, io_threads::Spawner};

fn plan(name: &str) -> NamespacePlan {
    NamespacePlan {
        name: name.to_owned(),
        settings: NamespaceSettings::default(),
        authority: Arc::new(Authority::new(Credentials::development(Anonymous::Deny))),
        key_sources: Vec::new(),
        entities: Vec::new(),
    }
}

/// Waits until the server has so many connections.
fn wait_for_connections(server: &Server, count: usize) {
    let patience = Instant::now() + Duration::from_secs(60);
    while server.connection_limit.taken() != count {
        assert!(Instant::now() < patience, "{} connections", server.connection_limit.taken());
        thread::yield_now();
    }
}

/// A client that means this namespace, and has sent its open.
fn open(server: &Server, hostname: &str) -> Wire {
    let mut wire = Wire::connect(server.addresses()[0]).unwrap();
    let mut open = Open::new("client");
    open.hostname = Some(hostname.into());
    wire.script.sasl_plain(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).open_with(open).begin(0);
    wire.flush().unwrap();
    wire
}

fn is_let_in(mut wire: Wire) -> Wire {
    wire.until(|performative| matches!(performative, Performative::Begin(_))).unwrap();
    wire
}

fn is_refused(mut wire: Wire, connections: usize) {
    let error = wire.closed().unwrap().error.unwrap();
    assert_eq!(error.condition, "amqp:resource-limit-exceeded");
    let text = error.description.unwrap_or_default();
    assert!(text.contains(&format!("has {connections} connections, and the last ones")), "{text}");
}

#[test]
fn of_the_last_connections_a_namespace_gets_none_that_has_its_share() {
    let config = ServerConfig { max_connections: 20, namespaces: vec![plan("team-a")], ..config() };
    let server = Server::start(&config).unwrap();
    let mut open_ones: Vec<Wire> = (0..18).map(|_| is_let_in(open(&server, "vhost:/"))).collect();
    is_refused(open(&server, "vhost:/"), 18);
    // Also what was refused has a slot until it is closed.
    wait_for_connections(&server, 18);
    open_ones.push(is_let_in(open(&server, "vhost:team-a")));
    is_refused(open(&server, "vhost:team-a"), 1);
    let default = server.reloader.setup.directory.of_default();
    assert_eq!((default.connections(), default.refused_for_share()), (18, 1));
    drop(open_ones);
    assert_eq!(server.stop(), Outcome::Stopped);
}

#[test]
fn a_namespace_that_is_alone_gets_all_connections() {
    let server = Server::start(&ServerConfig { max_connections: 20, ..config() }).unwrap();
    let open_ones: Vec<Wire> = (0..20).map(|_| is_let_in(open(&server, "localhost"))).collect();
    let mut beyond = open(&server, "localhost");
    assert_eq!(beyond.closed().unwrap().error.unwrap().condition, "amqp:resource-limit-exceeded");
    drop((open_ones, beyond));
    assert_eq!(server.stop(), Outcome::Stopped);
}

/// Certificate of the server for all host names of these tests, and clients that trust it.
fn certificates(folder: &Path) -> (TlsFiles, Arc<ClientConfig>) {
    let names = ["a.test", "b.test"].map(str::to_owned).to_vec();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    fs::create_dir_all(folder).unwrap();
    let (certificate, key) = (folder.join("server.pem"), folder.join("server-key.pem"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let check_every = Duration::from_secs(3_600);
    (TlsFiles { certificate, key, client_authorities: None, check_every }, Arc::new(client))
}

/// A client that is connected and has said nothing.
fn connected(
    server: &Server,
    client: &Arc<ClientConfig>,
    name: &'static str,
) -> (ClientConnection, TcpStream) {
    let socket = TcpStream::connect(server.addresses()[0]).unwrap();
    (ClientConnection::new(Arc::clone(client), ServerName::try_from(name).unwrap()).unwrap(), socket)
}

fn say_hello((tls, socket): &mut (ClientConnection, TcpStream)) {
    while tls.wants_write() {
        tls.write_tls(socket).unwrap();
    }
}

#[expect(clippy::used_underscore_binding, reason = "the server itself only keeps them running")]
fn spawner(server: &Server) -> Spawner {
    server._threads.spawner()
}

/// Waits until the I/O thread has begun to serve all connections of the server, of which there are so many.
fn wait_for_service(server: &Server, count: usize) {
    wait_for_connections(server, count);
    let (tell, told) = mpsc::channel();
    spawner(server).spawn(|_| async move {
        tell.send(()).ok();
    });
    told.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_handshake_waits_for_its_turn_and_not_for_all_that_another_namespace_has_waiting() {
    const WAITING: usize = 200;
    let folder = std::env::temp_dir().join(format!("ferrybus-handshakes-{}", std::process::id()));
    let (files, client) = certificates(&folder);
    let config = ServerConfig {
        tls: Some(files),
        io_threads: 1,
        max_connections: WAITING + 10,
        namespaces: vec![plan("a"), plan("b")],
        ..config()
    };
    let server = Server::start(&config).unwrap();
    let [first, second] = ["a", "b"].map(|name| server.reloader.setup.directory.named(name).unwrap());
    let mut of_first: Vec<_> = (0..WAITING).map(|_| connected(&server, &client, "a.test")).collect();
    let mut of_second = connected(&server, &client, "b.test");
    let last = TcpStream::connect(server.addresses()[0]).unwrap();
    wait_for_service(&server, WAITING + 2);
    // Holds the thread until all hellos have come. Then it looks at the counters each time that the thread has looked at its sockets.
    let (release, held) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let counted = [Arc::clone(&first), Arc::clone(&second)];
    spawner(&server).spawn(|_| async move {
        tell.send(0).ok();
        held.recv().ok();
        let [first, second] = counted;
        while second.handshakes.begun() == 0 {
            tokio::task::yield_now().await;
        }
        tell.send(first.handshakes.begun()).ok();
    });
    let patience = Duration::from_secs(60);
    told.recv_timeout(patience).unwrap();
    of_first.iter_mut().for_each(say_hello);
    say_hello(&mut of_second);
    release.send(()).unwrap();
    let before = told.recv_timeout(patience).unwrap();
    // A few are before it, and those that compute while others are still read. Without turns all of them were, for its hello came last.
    assert!(before < WAITING as u64 / 2, "{before} handshakes of the other namespace were before it");
    let (mut tls, mut socket) = of_second;
    // It is done while the clients of the other have not answered.
    tls.complete_io(&mut socket).unwrap();
    assert!(!tls.is_handshaking());
    for (tls, socket) in &mut of_first {
        tls.complete_io(socket).unwrap();
    }
    assert_eq!((first.handshakes.begun(), second.handshakes.begun()), (WAITING as u64, 1));
    assert!(first.handshakes.time() > second.handshakes.time() && !second.handshakes.time().is_zero());
    drop((of_first, tls, socket, last));
    assert_eq!(server.stop(), Outcome::Stopped);
    fs::remove_dir_all(&folder).unwrap();
}
