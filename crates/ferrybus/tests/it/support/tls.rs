//! Connections with TLS to a broker that uses the files in `certs` of its folder.

use std::{net::TcpStream, path::Path, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

/// A connection whose handshake is done. `server_name` is that of the client's hello; `certificate` names the file that
/// the client shows, `client-NAME.pem`.
pub(crate) fn connect(
    folder: &Path,
    address: &str,
    server_name: &str,
    certificate: Option<&str>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let path = |file: &str| folder.join("certs").join(file);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let certificate = CertificateDer::from_pem_file(path(&format!("client-{name}.pem"))).unwrap();
            let key = PrivateKeyDer::from_pem_file(path(&format!("client-{name}-key.pem"))).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let server_name = ServerName::try_from(server_name.to_owned()).unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), server_name).unwrap();
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp).unwrap();
    }
    StreamOwned::new(tls, tcp)
}
