//! What a client is told of a refusal, and the log too.
//!
//! Invariant: every error text that leaves is in the log at `debug`, with the tracking id that the client has.

use amqp_codec::{performative::Error, types::Symbol};
use amqp_engine::Origin;
use tracing::debug;

use crate::{condition::Refusal, gateway::Gateway};

impl Gateway {
    /// The error that tells a client of a refusal. `place` is the entity it happened at, empty for none.
    pub(crate) fn error(&mut self, refusal: &Refusal, place: &str) -> Error {
        Error {
            condition: Symbol::from_static(refusal.named().condition),
            description: Some(self.told(refusal, place)),
            info: None,
        }
    }

    /// The text that tells a client of a refusal.
    pub(crate) fn told(&mut self, refusal: &Refusal, place: &str) -> String {
        let server = &self.config.server_name;
        let place = if place.is_empty() { server.clone() } else { format!("{server}:{place}") };
        let text = self.tracking.tracked(&refusal.text(), &place, self.now.utc);
        // Whoever quotes its tracking id to the operator is found by it.
        debug!(condition = refusal.named().condition, text, "told");
        text
    }
}

/// What the engine told the peer by itself.
pub(crate) fn by_engine(by: Origin, error: Option<&Error>) {
    if let (Origin::Engine, Some(error)) = (by, error) {
        debug!(condition = %error.condition, text = error.description.as_deref(), "told");
    }
}
