//! Reasons for which a server does not start.
//!
//! Invariant: each says what an operator can change.

use std::{io, net::SocketAddr, path::PathBuf};

use broker_core::{EntityError, NamespaceError};
use broker_log::OpenError;
use broker_node::RecoveryError;

use crate::{node_identity::IdentityError, randomness::RandomnessError, remote::RemoteError, tls::TlsError};

/// Text of the refusal of a name that a namespace of a shard may have which recovers.
pub(crate) const NAMES_UNKNOWN: &str =
    "a shard recovers from a failure, and the names that it has are not known: try again";

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    /// The journal of a shard cannot be opened.
    #[error("in `{}`: {error}", .folder.display())]
    Recovery {
        /// Folder of the journal.
        folder: PathBuf,
        #[source]
        error: RecoveryError,
    },
    /// The disk cannot be opened.
    #[error(transparent)]
    Disk(#[from] OpenError),
    /// The file with the id of the node cannot be read or made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The TLS endpoint cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A provider of keys, or the collector of spans, cannot be asked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A configured entity cannot be created.
    #[error("entity `{name}`: {error}")]
    Entity { name: String, error: EntityError },
    /// A configured namespace cannot be created or changed.
    #[error("namespace `{name}`: {error}")]
    Namespace { name: String, error: NamespaceError },
    /// Entities are declared in a namespace that the broker does not have.
    #[error("there is no namespace `{0}`")]
    NamespaceMissing(String),
    /// A thread or the runtime cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The memory has a limit, and the system does not tell what the process uses.
    #[error("`max_memory` is set, and the memory of the process cannot be measured: {0}")]
    Memory(io::Error),
    /// The machine gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
    /// A shard has panicked: what it is asked is not answered, and the names of its namespaces are not known for certain.
    #[error("{NAMES_UNKNOWN}")]
    Recovering,
    /// The journal failed while starting.
    #[error("the journal failed while starting")]
    Journal,
}

impl StartError {
    /// Whether a folder has the journal of another shard: it was copied or renamed.
    #[must_use]
    pub const fn is_other_shard(&self) -> bool {
        let Self::Recovery { error, .. } = self else { return false };
        matches!(error, RecoveryError::Journal(broker_log::RecoveryError::OtherShard { .. }))
    }
}
