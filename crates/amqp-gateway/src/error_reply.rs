//! Error replies: the text of a refusal, for the client and for the log.
//!
//! Invariant: every error text that leaves goes to the log of refusals, with the tracking id that the client has. No
//! peer's frames are too small for that id.

use amqp_codec::{performative::Error, types::Symbol};
use amqp_engine::{Origin, config::SHORT_DESCRIPTION};
use broker_core::{SequenceNumber, SettleError};

use crate::{condition::Refusal, gateway::Gateway, refusal_log::Severity};

impl Gateway {
    /// The error that tells a client of a refusal. `place` is the entity it happened at, empty for none.
    pub(crate) fn error(&mut self, refusal: &Refusal, place: &str) -> Error {
        Error {
            condition: Symbol::from_static(refusal.named().condition),
            description: Some(self.error_text(refusal, place)),
            info: None,
        }
    }

    /// The text that tells a client of a refusal.
    pub(crate) fn error_text(&mut self, refusal: &Refusal, place: &str) -> String {
        let server = &self.config.server_name;
        let place = if place.is_empty() { server.clone() } else { format!("{server}:{place}") };
        let frame = usize::try_from(self.engine.peer().max_frame_size).unwrap_or(usize::MAX);
        let room = frame.saturating_sub(AROUND).max(SHORT_DESCRIPTION);
        let text = self.tracking.tracked(&refusal.text(), &place, self.now.utc, room);
        self.record.add_if_nameless(refusal, &self.grants, self.engine.peer());
        // A user quotes the tracking id to the operator, who finds the refusal by it.
        let condition = refusal.named().condition;
        self.config.refusals.write(self.now.instant, refusal.severity(), condition, &text);
        text
    }
}

/// Logs an error that the engine has sent to the peer by itself.
pub(crate) fn by_engine(gateway: &Gateway, by: Origin, error: Option<&Error>) {
    if let (Origin::Engine, Some(error)) = (by, error) {
        let text = error.description.as_deref().unwrap_or_default();
        let (log, now) = (&gateway.config.refusals, gateway.now.instant);
        log.write(now, Severity::Warning, error.condition.as_str(), text);
    }
}

/// Logs a completion with `settled=true` whose lock was lost before. The receiver is not told, because it has forgotten the
/// delivery.
pub(crate) fn completed_too_late(
    gateway: &Gateway,
    entity: &str,
    sequence: SequenceNumber,
    error: SettleError,
) {
    let condition = Refusal::Settle(error).named().condition;
    let text = format!(
        "message {} of `{entity}` was completed by container `{}` with settled=true, but {error}: it may be delivered again",
        sequence.0,
        gateway.engine.peer().container_id.as_str(),
    );
    gateway.config.refusals.write(gateway.now.instant, Severity::Warning, condition, &text);
}

/// Bytes of a frame that stand around the text of an error, at most: what it is in, its condition and a delivery-tag.
const AROUND: usize = 256;
