//! Replies of the layer above to an open and to an attach.
//!
//! Invariant: what an answer leaves out is filled in by the engine with a value the peer accepts.

use amqp_codec::performative::{Attach, Source, Target};
use amqp_codec::raw::RawMap;
use amqp_codec::types::Symbol;

/// Our half of the open. What is `None` comes from the [`Config`](crate::Config).
#[derive(Clone, Debug, Default)]
pub struct OpenReply {
    /// Our name.
    pub container_id: Option<String>,
    /// Extensions we support.
    pub offered_capabilities: Option<Vec<Symbol>>,
    /// Further properties.
    pub properties: Option<RawMap>,
}

/// Our half of an attach. The engine adds name, handle, role, the settle modes (as the peer asked
/// for them) and, when we send, an initial delivery-count of 0.
#[derive(Clone, Debug, Default)]
pub struct AttachReply {
    /// The source that is in force.
    pub source: Option<Source>,
    /// The target that is in force.
    pub target: Option<Target>,
    /// Largest message we take, in bytes; 0 for no limit, `None` for that of the
    /// [`Config`](crate::Config). It is enforced on links we receive on.
    pub max_message_size: Option<u64>,
    /// On a link that we receive on: deliveries in rcv-settle-mode second stay unsettled after their outcome is told, until
    /// the peer settles them. Else the outcome settles them in both modes.
    pub settles_second: bool,
    /// Deliveries we hold as unsettled from an earlier attach: tag to state.
    pub unsettled: Option<RawMap>,
    /// Whether there are more of them; then only resumed deliveries may come.
    pub incomplete_unsettled: bool,
    /// Extensions we support on this link.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions we would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Further properties.
    pub properties: Option<RawMap>,
}

impl AttachReply {
    /// An answer with source and target byte for byte as the peer wrote them.
    pub fn echo(attach: &Attach) -> Self {
        Self { source: attach.source.clone(), target: attach.target.clone(), ..Self::default() }
    }
}
