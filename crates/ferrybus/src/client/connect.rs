//! Reaches the broker: TCP, TLS, SASL, session, and `$cbs` tokens.
//!
//! Invariant: every step ends within [`RESPONSE_TIMEOUT`]; a key is used to sign and never sent.

use std::{
    env, fmt, fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use broker_auth::{Scope, Secret, sign_token};
use broker_core::namespace_key;
use fe2o3_amqp::{
    Connection, Receiver, Sender, Session, connection::ConnectionHandle, link::receiver::CreditMode,
    sasl_profile::SaslProfile, session::SessionHandle, transaction::Controller,
};
use fe2o3_amqp_types::{
    definitions::{ReceiverSettleMode, SenderSettleMode},
    messaging::{ApplicationProperties, Source},
    primitives::Value,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    admin_login::admin_login,
    fault::{fault, too_slow},
    probe::AnyCertificate,
    request::Requester,
    wire_address::{url_path, wire_address},
};
use crate::{
    arguments::{AdminArguments, ConnectArguments, OperatorArguments},
    ca_bundle,
    connection_string::{self, ConnectionString, Login},
    failure::Failure,
    settings::ProbeAddress,
};

/// Longest wait for a response of the broker.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Which broker, and how to get there.
#[derive(Clone, Debug)]
pub(crate) struct BrokerEndpoint {
    string: ConnectionString,
    address: Option<IpAddr>,
    authorities: Option<PathBuf>,
    /// Take every certificate, unless authorities are named.
    is_probe: bool,
    /// The namespace, where not the host leads to it.
    namespace: Option<Box<str>>,
    /// Nobody gave a connection string: the development one, which asks for no encryption, stands in.
    is_assumed: bool,
}

impl BrokerEndpoint {
    /// The broker that a configuration on this machine names, without a log-in.
    pub(super) fn of_probe(address: ProbeAddress, authorities: Option<PathBuf>) -> Self {
        let ProbeAddress { host, port, tls } = address;
        let string = ConnectionString { host, port, tls, login: Login::Anonymous, entity: None };
        let is_probe = authorities.is_none();
        Self { string, address: None, authorities, is_probe, namespace: None, is_assumed: false }
    }

    /// From the arguments, the environment, or the development default.
    pub(crate) fn new(arguments: &ConnectArguments) -> Result<Self, Failure> {
        let from_environment = |name| env::var(name).ok().filter(|text| !text.is_empty());
        let given =
            arguments.connection_string.clone().or_else(|| from_environment("FERRYBUS_CONNECTION_STRING"));
        let is_assumed = given.is_none();
        let text = given.unwrap_or_else(|| connection_string::development(5672));
        let authorities = arguments.ca.clone().or_else(|| from_environment("FERRYBUS_CA").map(PathBuf::from));
        let mut string: ConnectionString = text.parse()?;
        if let Some(server) = &arguments.server {
            string.set_server(server)?;
        }
        let namespace = arguments.namespace.as_deref().map(|name| {
            namespace_key(name).map_err(|error| {
                Failure::misuse(format_args!("`{name}` cannot be the name of a namespace: {error}"))
            })
        });
        Ok(Self {
            string,
            address: arguments.address,
            authorities,
            is_probe: false,
            namespace: namespace.transpose()?,
            is_assumed,
        })
    }

    /// The same with the log-in of an administrator, where the arguments or the environment have one.
    pub(crate) fn of_administrator(arguments: &AdminArguments) -> Result<Self, Failure> {
        if arguments.connect.namespace.is_some() {
            return Err(Failure::misuse(
                "`ferrybus namespace` takes the namespace as its argument, not as `--namespace`",
            ));
        }
        let login = admin_login(arguments.admin_file.as_deref(), |name| env::var(name).ok())?;
        Self::new(&arguments.connect)?.with_admin_login(login)
    }

    /// The same for a command that looks at the installation, or at the namespace that `--namespace` names.
    pub(crate) fn of_operator(arguments: &OperatorArguments) -> Result<Self, Failure> {
        let get = |name: &str| env::var(name).ok().filter(|_| arguments.connect.namespace.is_none());
        let login = admin_login(arguments.admin_file.as_deref(), get)?;
        Self::new(&arguments.connect)?.with_admin_login(login)
    }

    fn is_of_this_machine(&self) -> bool {
        let host = self.string.host.as_str();
        match self.address.or_else(|| host.parse().ok()) {
            Some(address) => address.to_canonical().is_loopback(),
            None => host == "localhost" || host.ends_with(".localhost"),
        }
    }

    /// The password of an administrator goes unencrypted to another machine only where a connection string says so.
    fn with_admin_login(mut self, login: Option<Login>) -> Result<Self, Failure> {
        let Some(login) = login else { return Ok(self) };
        if self.is_assumed && !self.is_of_this_machine() {
            return Err(Failure::misuse(format_args!(
                "the password of an administrator is not sent to {} without encryption",
                self.place()
            ))
            .hint(format_args!(
                "give `--connection-string 'Endpoint=sb://{}'`, which connects with TLS",
                self.string.host
            )));
        }
        self.string.login = login;
        Ok(self)
    }

    /// The host of HTTP requests: a name of one label leads to the namespace of that name.
    pub(super) fn http_host(&self) -> String {
        self.namespace.as_deref().map_or_else(|| self.place(), str::to_owned)
    }

    /// Connects, opens a session and logs in for the entity at `address`.
    pub(super) async fn connect(self, address: &str) -> Result<Client, Failure> {
        self.connect_for(&[address]).await
    }

    /// The same for several entities.
    pub(super) async fn connect_for(self, addresses: &[&str]) -> Result<Client, Failure> {
        for address in addresses {
            refuse_other_entities(self.string.entity.as_deref(), address)?;
        }
        let what = format!("cannot connect to {}", self.place());
        let tcp = self.tcp(&what).await?;
        let opened = if self.string.tls {
            let stream = self.tls(tcp, &what).await?;
            timeout(RESPONSE_TIMEOUT, self.open(stream, &what)).await
        } else {
            timeout(RESPONSE_TIMEOUT, self.open(tcp, &what)).await
        };
        let mut connection = opened.map_err(|_| too_slow(&what))??;
        let session =
            timeout(RESPONSE_TIMEOUT, Session::begin(&mut connection)).await.map_err(|_| too_slow(&what))?;
        let session = session.map_err(|error| fault(&what, &error))?;
        let mut client = Client { connection, session, requests: 0 };
        for address in addresses {
            client
                .authorize(
                    self.login(),
                    &format!(
                        "sb://{}/{}",
                        token_host(&self.string.host, self.namespace.as_deref()),
                        url_path(address)
                    ),
                )
                .await?;
        }
        Ok(client)
    }

    /// Host and port, as a person writes them.
    pub(super) fn place(&self) -> String {
        let ConnectionString { host, port, .. } = &self.string;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Credentials.
    pub(super) const fn login(&self) -> &Login {
        &self.string.login
    }

    /// Whether the connection is to be encrypted.
    pub(super) const fn tls_wanted(&self) -> bool {
        self.string.tls
    }

    pub(super) async fn tcp(&self, what: &str) -> Result<TcpStream, Failure> {
        let ConnectionString { host, port, .. } = &self.string;
        let connecting = async {
            match self.address {
                Some(address) => TcpStream::connect((address, *port)).await,
                None => match TcpStream::connect((host.as_str(), *port)).await {
                    // `localhost` is known even without a resolver, as in an image without system files (RFC 6761 section 6.3).
                    Err(error) if host.eq_ignore_ascii_case("localhost") => {
                        let known = LOOPBACK.map(|ip| SocketAddr::new(ip, *port));
                        TcpStream::connect(&known[..]).await.map_err(|_| error)
                    }
                    connected => connected,
                },
            }
        };
        let connected = timeout(RESPONSE_TIMEOUT, connecting).await.map_err(|_| too_slow(what))?;
        let stream = connected.with_context(|| what.to_owned()).map_err(|error| {
            Failure::of(error)
                .hint("is the broker running? `ferrybus` starts one; `--connection-string` names another")
        })?;
        // Small frames must not wait for company; that the setting is refused is no reason to give up.
        drop(stream.set_nodelay(true));
        Ok(stream)
    }

    pub(super) async fn tls(&self, stream: TcpStream, what: &str) -> Result<impl Stream + use<>, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .with_context(|| what.to_owned())
            .map_err(Failure::of)?;
        let config = if self.is_probe {
            let verifier = Arc::new(AnyCertificate(provider));
            config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        } else {
            config.with_root_certificates(self.authorities()?).with_no_client_auth()
        };
        let name = ServerName::try_from(self.string.host.clone())
            .map_err(|_| Failure::misuse(format_args!("`{}` is not a host name", self.string.host)))?;
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = timeout(RESPONSE_TIMEOUT, handshake).await.map_err(|_| too_slow(what))?;
        stream.with_context(|| what.to_owned()).map_err(|error| {
            Failure::of(error)
                .hint("`--ca FILE` names the authorities to trust; without TLS use `amqp://` or the emulator's flag")
        })
    }

    /// The authorities to trust: the named file's, else the system's bundle.
    fn authorities(&self) -> Result<RootCertStore, Failure> {
        let path = self.authorities.clone().or_else(ca_bundle::authorities).ok_or_else(|| {
            Failure::misuse("no authorities to trust were found").hint("`--ca FILE` names them")
        })?;
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(read_certificates(&path)?);
        if added == 0 {
            return Err(Failure::misuse(format_args!("`{}` holds no certificate", path.display())));
        }
        Ok(store)
    }

    async fn open<S: Stream>(&self, stream: S, what: &str) -> Result<ConnectionHandle<()>, Failure> {
        let profile = match &self.string.login {
            Login::Password { name, password } => {
                SaslProfile::Plain { username: name.clone(), password: password.clone() }
            }
            Login::Key { .. } | Login::Token(_) | Login::Anonymous => SaslProfile::Anonymous,
        };
        Connection::builder()
            .container_id(format!("ferrybus-cli-{}", std::process::id()))
            .hostname(amqp_host(&self.string.host, self.namespace.as_deref()).as_str())
            .max_frame_size(FRAME_BYTES)
            .idle_time_out(IDLE_TIME_OUT_MILLIS)
            .sasl_profile(profile)
            .open_with_stream(stream)
            .await
            .map_err(|error| fault(what, &error))
    }
}

/// A connection string may be for one entity only.
fn refuse_other_entities(only: Option<&str>, address: &str) -> Result<(), Failure> {
    match only {
        Some(entity) if !Scope::of_configured(entity).covers(&Scope::of_name(address)) => {
            Err(Failure::misuse(format_args!("the connection string is for `{entity}`, not for `{address}`")))
        }
        _ => Ok(()),
    }
}

/// The host that `open` names.
fn amqp_host(host: &str, namespace: Option<&str>) -> String {
    namespace.map_or_else(|| host.to_owned(), |namespace| format!("vhost:{namespace}"))
}

/// The host for which tokens are signed: it leads to the namespace, too.
fn token_host(host: &str, namespace: Option<&str>) -> String {
    let host = namespace.unwrap_or(host);
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Transport of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin + 'static> Stream for S {}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let text = fs::read(path).map_err(|error| {
        Failure::misuse(format_args!("cannot read authorities `{}`: {error}", path.display()))
    })?;
    CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|error| {
        Failure::misuse(format_args!("cannot read authorities `{}`: {error}", path.display()))
    })
}

/// An open connection with one session.
pub(super) struct Client {
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
    requests: u32,
}

impl Client {
    /// Puts a token for this audience, if the log-in is by token.
    async fn authorize(&mut self, login: &Login, audience: &str) -> Result<(), Failure> {
        let token = match login {
            Login::Anonymous | Login::Password { .. } => return Ok(()),
            Login::Token(token) => token.clone(),
            Login::Key { name, key } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                sign_token(audience, name, &Secret::new(key.as_str()), now + TOKEN_SECONDS)
            }
        };
        let properties = ApplicationProperties::builder()
            .insert("operation", "put-token")
            .insert("type", "servicebus.windows.net:sastoken")
            .insert("name", audience)
            .build();
        let mut cbs = self.requester("$cbs").await?;
        let answer = cbs.ask(properties, Value::String(token)).await?;
        cbs.close().await;
        if answer.is_good() {
            return Ok(());
        }
        Err(Failure::new(format_args!("the broker refuses the log-in: {}", answer.error_text()))
            .hint("check the key in `--connection-string` or FERRYBUS_CONNECTION_STRING"))
    }

    /// A pair of links to a node that answers requests.
    pub(super) async fn requester(&mut self, node: &str) -> Result<Requester, Failure> {
        self.requests += 1;
        Requester::open(&mut self.session, node, self.requests).await
    }

    /// A link to send on.
    pub(super) async fn sender(&mut self, address: &str, settled: bool) -> Result<Sender, Failure> {
        let mode = if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
        let what = format!("cannot send to `{address}`");
        let attach = Sender::builder()
            .name(format!("send-{address}-{}", std::process::id()))
            .target(&*wire_address(address))
            .sender_settle_mode(mode)
            .attach(&mut self.session);
        let attached = timeout(RESPONSE_TIMEOUT, attach).await.map_err(|_| too_slow(&what))?;
        attached.map_err(|error| fault(&what, &error))
    }

    /// A link to receive on; locks what it receives unless `delete`.
    pub(super) async fn receiver(&mut self, address: &str, delete: bool) -> Result<Receiver, Failure> {
        let what = format!("cannot receive from `{address}`");
        let builder = Receiver::builder()
            .name(format!("receive-{address}-{}", std::process::id()))
            .source(&*wire_address(address))
            .credit_mode(CreditMode::Manual);
        let builder = if delete {
            builder
                .sender_settle_mode(SenderSettleMode::Settled)
                .receiver_settle_mode(ReceiverSettleMode::First)
        } else {
            builder
                .sender_settle_mode(SenderSettleMode::Unsettled)
                .receiver_settle_mode(ReceiverSettleMode::Second)
        };
        let attached = timeout(RESPONSE_TIMEOUT, builder.attach(&mut self.session))
            .await
            .map_err(|_| too_slow(&what))?;
        attached.map_err(|error| fault(&what, &error))
    }

    /// A link that locks a session.
    pub(super) async fn session_receiver(
        &mut self,
        address: &str,
        session: &str,
    ) -> Result<Receiver, Failure> {
        let what = format!("cannot lock session `{session}` of `{address}`");
        let source = Source::builder()
            .address(&*wire_address(address))
            .add_to_filter_using_legacy_format("com.microsoft:session-filter", Value::String(session.into()))
            .build();
        let attach = Receiver::builder()
            .name(format!("session-{session}-{}", std::process::id()))
            .source(source)
            .credit_mode(CreditMode::Manual)
            .attach(&mut self.session);
        let attached = timeout(RESPONSE_TIMEOUT, attach).await.map_err(|_| too_slow(&what))?;
        attached.map_err(|error| fault(&what, &error))
    }

    /// A link to begin and end transactions on.
    pub(super) async fn controller(&mut self) -> Result<Controller, Failure> {
        let what = "cannot begin a transaction";
        let attach = Controller::attach(&mut self.session, format!("transact-{}", std::process::id()));
        let attached = timeout(RESPONSE_TIMEOUT, attach).await.map_err(|_| too_slow(what))?;
        attached.map_err(|error| fault(what, &error))
    }

    /// Says goodbye. What matters has been answered before, so nothing here can fail the command.
    pub(super) async fn close(mut self) {
        drop(timeout(GOODBYE, self.session.end()).await);
        drop(timeout(GOODBYE, self.connection.close()).await);
    }
}

/// Addresses of `localhost`.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
const FRAME_BYTES: u32 = 64 * 1024;
const IDLE_TIME_OUT_MILLIS: u32 = 60_000;
/// Long enough for any command short of a long bench, whose links outlive the token anyway.
const TOKEN_SECONDS: u64 = 24 * 3_600;
/// Time for a farewell that nothing depends on.
pub(super) const GOODBYE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
