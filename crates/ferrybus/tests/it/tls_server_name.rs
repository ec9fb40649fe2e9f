//! A server name of TLS that is no host name: the handshake is refused, and the log says how to mend it.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};

use crate::support::{Broker, Folder, code, ferrybus};

/// The hello of a client that takes `name` for the server's name, also where rustls would not write it.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    let written = name.replace(':', "-");
    let mut client = ClientConnection::new(config, ServerName::try_from(written.clone()).unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let at = hello.windows(written.len()).position(|part| part == written.as_bytes()).unwrap();
    hello[at..at + name.len()].copy_from_slice(name.as_bytes());
    hello
}

fn connect(broker: &Broker, name: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&broker.addresses[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(&hello(name)).unwrap();
    stream
}

/// All that the broker answers until it closes the connection, perhaps by a reset: it has not read the whole hello.
fn answer(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    answer
}

#[test]
fn a_server_name_with_a_port_is_refused_and_the_log_says_how_to_mend_it() {
    const ILLEGAL_PARAMETER: u8 = 47;
    let folder = Folder::new("tls-server-name");
    let log = folder.0.join("log");
    assert_eq!(code(&ferrybus(&folder.0, &["cert", "dev", "--out", "."])), 0);
    let tls =
        ["--tls-certificate", "server.pem", "--tls-key", "server-key.pem", "--listen-tls", "127.0.0.1:0"];
    let serve = ["--listen", "127.0.0.1:0", "--durability", "none"];
    let broker = Broker::logged(&folder.0, &[&serve[..], &tls[..]].concat(), &log);
    let mut first = [0];
    connect(&broker, "localhost").read_exact(&mut first).unwrap();
    assert_eq!(first, [22], "a host name is answered by a handshake record");
    let alert = answer(connect(&broker, "localhost:5671"));
    assert_eq!((alert.len(), alert[0], alert[6]), (7, 21, ILLEGAL_PARAMETER), "{alert:?}");
    assert!(broker.stop().success());
    let log = fs::read_to_string(log).unwrap();
    let line = "the client's TLS server name is no host name, perhaps it has a port";
    assert_eq!(log.matches(line).count(), 1, "{log}");
}
