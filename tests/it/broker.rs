//! A broker on a free port of this machine, and a folder for it to live in.

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use broker_auth::{Anonymous, Authority, Credentials};
use broker_core::{CoreConfig, EntitySettings};
use broker_log::{Durability, JournalConfig};
use broker_server::{EntityPlan, Outcome, ReloadableConfig, Server, ServerConfig};

use crate::client::Client;

/// The queue of most tests.
pub(crate) const QUEUE: &str = "orders";

/// A running broker; dropped, it stops.
pub(crate) struct Broker {
    server: Option<Server>,
    pub(crate) address: SocketAddr,
}

impl Broker {
    /// In memory, with the queue [`QUEUE`] and the development key.
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// The same with changed settings.
    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let mut config = config();
        change(&mut config);
        Self::of(&config)
    }

    /// The same with changed settings of its queue.
    pub(crate) fn with_queue(settings: EntitySettings) -> Self {
        Self::with(|config| config.entities = vec![EntityPlan::queue(QUEUE, settings)])
    }

    /// On these settings.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        let server = Server::start(config).unwrap();
        Self { address: server.addresses()[0], server: Some(server) }
    }

    /// Durable in `dir`.
    pub(crate) fn durable(dir: &Path) -> Self {
        Self::of(&durable(dir))
    }

    /// Where only TLS is spoken.
    pub(crate) fn tls_address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().tls_addresses()[0]
    }

    /// The port for HTTP.
    pub(crate) fn http_address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().http_addresses()[0]
    }

    /// A client of plain AMQP with a session on channel 0.
    pub(crate) fn plain(&self) -> Client {
        Client::plain(self.address)
    }

    /// A client whose queue is its own, to see whether it is disturbed.
    pub(crate) fn innocent(&self) -> Innocent {
        let mut client = self.plain();
        client.sender(1, "innocent");
        client.receiver(2, "innocent", Some(amqp_codec::types::ReceiverSettleMode::First));
        Innocent { client }
    }

    /// Takes in a new configuration of what a reload replaces.
    pub(crate) fn reload(&mut self, new: ReloadableConfig) {
        self.server.as_mut().unwrap().reloader().reload(new).unwrap();
    }

    /// Stops gracefully.
    pub(crate) fn stop(mut self) -> Outcome {
        self.server.take().unwrap().stop()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// Somebody else on the same broker.
pub(crate) struct Innocent {
    client: Client,
}

impl Innocent {
    /// Sends, receives and completes a message on the connection it has had all along.
    pub(crate) fn works(&mut self) {
        self.client.accepted(1, &["still here"]);
        let delivery = self.client.receive(2, 1).remove(0);
        assert_eq!(delivery.text(), "still here");
        self.client.complete(&delivery);
    }
}

/// What tests run on when they say nothing else.
pub(crate) fn config() -> ServerConfig {
    ServerConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        listen_http: vec!["127.0.0.1:0".parse().unwrap()],
        journal: JournalConfig {
            durability: Durability::None,
            segment_bytes: 1 << 20,
            cache_bytes: 64 << 20,
            reserve_bytes: 0,
            ..JournalConfig::default()
        },
        core: CoreConfig { max_links_per_client: 4096, max_history_ids: 100_000, ..CoreConfig::default() },
        entities: [QUEUE, "innocent"].map(|name| EntityPlan::queue(name, EntitySettings::default())).to_vec(),
        auto_create: true,
        authority: authority(Anonymous::Deny),
        max_connections: 1000,
        handshake_time_out: Duration::from_secs(60),
        shutdown_time_out: Duration::from_secs(2),
        io_threads: 2,
        testing: true,
        ..ServerConfig::default()
    }
}

/// Durable in `dir`.
pub(crate) fn durable(dir: &Path) -> ServerConfig {
    let mut config = ServerConfig { data_dir: dir.to_path_buf(), ..config() };
    config.journal.durability = Durability::Fsync;
    config
}

/// The development key.
pub(crate) fn authority(anonymous: Anonymous) -> Arc<Authority> {
    Arc::new(Authority::new(Credentials::development(anonymous)))
}

/// A folder that goes with its value.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new one.
    pub(crate) fn new() -> Self {
        let mut name = [0; 8];
        getrandom::fill(&mut name).unwrap();
        let path = env::temp_dir().join(format!("ferrybus-test-{:016x}", u64::from_be_bytes(name)));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The files as they are now, in a folder of their own: what a crash at this moment would leave.
    pub(crate) fn image(&self) -> Self {
        let image = Self::new();
        copy(&self.0, &image.0);
        image
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is gone already is no harm.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Copies all files below a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
