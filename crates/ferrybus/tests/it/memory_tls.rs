//! Memory under TLS connections that are never finished: the real process, as the system sees it.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use crate::{
    memory::{IDLE, Scene, pour},
    support::{Folder, code, ferrybus},
};

/// Memory bound of an unfinished TLS handshake with a hello of usual length: its read buffer and its state.
const HALF_OPEN: u64 = IDLE;
/// `HANDSHAKE_BYTES_MAX` of the broker.
const HANDSHAKE: usize = 16 << 10;

/// A broker with a certificate, and the authority that it is of.
fn scene(name: &str) -> (Scene, Arc<ClientConfig>) {
    let certificates = Folder::new(&format!("{name}-certificates"));
    assert_eq!(code(&ferrybus(&certificates.0, &["cert", "dev", "--out", "."])), 0);
    let path = |file: &str| certificates.0.join(file).display().to_string();
    let more = format!("[tls]\ncertificate = {:?}\nkey = {:?}\n", path("server.pem"), path("server-key.pem"));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let scene = Scene::started(name, &more, &["--listen-tls", "127.0.0.1:0"]);
    (scene, Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost").unwrap()).unwrap()
}

fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut hello = Vec::new();
    client(config).write_tls(&mut hello).unwrap();
    hello
}

/// `bytes` bytes of a hello that is to have 65,000, as records.
fn long_hello(bytes: usize) -> Vec<u8> {
    const RECORD: usize = 4000;
    let mut message = vec![0; bytes];
    message[..4].copy_from_slice(&[1, 0, 0xfd, 0xe8]);
    let record = |part: &[u8]| {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[22, 3, 1, length[0], length[1]][..], part].concat()
    };
    message.chunks(RECORD).flat_map(record).collect()
}

fn connect(scene: &Scene) -> TcpStream {
    let stream = TcpStream::connect(scene.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Room for so many sockets in this process.
fn make_room(sockets: u64) {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.map(|current| current.max(sockets));
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

#[test]
fn half_open_tls_connections_cost_a_bounded_hello_each() {
    const OF_EACH: u64 = 1000;
    make_room(3 * OF_EACH + 200);
    let (mut scene, config) = scene("memory-tls");
    let hello = hello(&config);
    let mut open = Vec::new();
    for number in 0..OF_EACH {
        // The first bytes; half a hello; and a whole one, whose answer is not taken up.
        for said in [&hello[..6], &hello[..hello.len() / 2], &hello] {
            let mut stream = connect(&scene);
            assert!(pour(&mut stream, said));
            open.push(stream);
        }
        if number % 100 == 0 {
            scene.innocent_works();
        }
    }
    for answered in open.iter_mut().skip(2).step_by(3) {
        let mut answer = [0; 6];
        answered.read_exact(&mut answer).unwrap();
        assert_eq!((answer[0], answer[5]), (22, 2), "a record with the server's hello");
    }
    scene.bounded_by(3 * OF_EACH * HALF_OPEN);
}

#[test]
fn the_longest_hello_that_is_taken_costs_its_length() {
    const CONNECTIONS: u64 = 1500;
    make_room(CONNECTIONS + 200);
    let (mut scene, _) = scene("memory-tls-longest");
    let longest = long_hello(HANDSHAKE - 100);
    let mut open = Vec::new();
    for number in 0..CONNECTIONS {
        let mut stream = connect(&scene);
        // It trickles.
        for part in longest.chunks(1000) {
            assert!(pour(&mut stream, part));
        }
        open.push(stream);
        if number % 100 == 0 {
            scene.innocent_works();
        }
    }
    scene.bounded_by(CONNECTIONS * (HALF_OPEN + HANDSHAKE as u64));
}

#[test]
fn a_hello_that_goes_on_ends_the_connection_and_not_the_memory() {
    const CONNECTIONS: u64 = 500;
    make_room(CONNECTIONS + 200);
    let (mut scene, _) = scene("memory-tls-long");
    let long = long_hello(60_000);
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connect(&scene);
        // In two pieces, for the broker may hang up in the second.
        let _ = pour(&mut stream, &long[..HANDSHAKE]);
        let _ = pour(&mut stream, &long[HANDSHAKE..]);
        open.push(stream);
    }
    scene.innocent_works();
    for stream in &mut open {
        let mut said = Vec::new();
        let ended = stream.read_to_end(&mut said);
        let waits = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!ended.as_ref().is_err_and(waits), "the connection goes on");
    }
    scene.bounded_by(CONNECTIONS * HALF_OPEN);
}

#[test]
fn finished_tls_connections_that_say_nothing_cost_no_more_than_half_open_ones() {
    const CONNECTIONS: u64 = 300;
    make_room(CONNECTIONS + 200);
    let (mut scene, config) = scene("memory-tls-silent");
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let (mut stream, mut client) = (connect(&scene), client(&config));
        while client.is_handshaking() {
            client.complete_io(&mut stream).unwrap();
        }
        stream.flush().unwrap();
        open.push((stream, client));
    }
    scene.innocent_works();
    scene.bounded_by(CONNECTIONS * HALF_OPEN);
}
