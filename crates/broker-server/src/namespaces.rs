//! The namespaces that the server serves, and which of them a connection or a request means.
//!
//! Invariant: a namespace is served only once its definition is durable, and by one shard.

pub(crate) mod change;
pub(crate) mod directory;
pub(crate) mod handshake_meter;
pub(crate) mod keys;
pub(crate) mod send_rate;
pub(crate) mod served;
pub(crate) mod setup;

pub(crate) use directory::NamespaceDirectory;
pub(crate) use served::ServedNamespace;
