//! Context of every handler: the time of the call, the engine, the client, and the way out to the core and to the log.
//!
//! Invariant: every error text that leaves goes to the log of refusals, with the tracking id that the client has. No
//! peer's frames are too small for that id.

use std::sync::Arc;

use amqp_codec::{performative::Error, types::Symbol};
use amqp_engine::{Connection, LinkKey, Origin, config::SHORT_DESCRIPTION};
use broker_auth::{Right, Scope};
use broker_core::{Command, EntityPath, LockId, Outcome, QueueId, SequenceNumber, SettleError};

use crate::{
    address::AddressSyntax,
    condition::Refusal,
    config::{GatewayConfig, Now},
    connection::{Client, record::ConnectionRecord},
    dialect::Dialect,
    otel_spans::MessageSpans,
    refusal_log::Severity,
    tracking::Tracking,
    turn_work::TurnWork,
};

/// Bytes of a frame that stand around the text of an error, at most: what it is in, its condition and a delivery-tag.
const AROUND: usize = 256;

/// Parts of a connection that each handler may use, whatever link or session it serves.
#[derive(Debug)]
pub(crate) struct Cx {
    /// The time of the call.
    pub(crate) now: Now,
    pub(crate) config: Arc<GatewayConfig>,
    pub(crate) engine: Connection,
    /// Commands for the core, in order.
    pub(crate) commands: Vec<Command>,
    pub(crate) client: Client,
    pub(crate) tracking: Tracking,
    /// Facts that the log is to have.
    pub(crate) record: ConnectionRecord,
    /// Spans of the messages that pass.
    pub(crate) spans: MessageSpans,
    pub(crate) work: TurnWork,
}

impl Cx {
    /// Syntax of the addresses of a peer of this dialect.
    pub(crate) fn addresses(&self, dialect: Dialect) -> AddressSyntax<'_> {
        AddressSyntax::of(dialect, &self.config.address_prefixes)
    }

    /// The error that tells a client of a refusal. `place` is the entity it happened at, empty for none.
    pub(crate) fn error(&mut self, refusal: &Refusal, place: &str) -> Error {
        self.error_to(self.client.dialect(), refusal, place)
    }

    /// The same on a link of this dialect, which may be another than its connection's.
    pub(crate) fn error_to(&mut self, dialect: Dialect, refusal: &Refusal, place: &str) -> Error {
        let condition = refusal.condition_for(dialect);
        Error {
            condition: Symbol::from_static(condition),
            description: Some(self.text_of(refusal, condition, place)),
            info: None,
        }
    }

    /// The text that tells a client of a refusal in the answer of a node.
    pub(crate) fn error_text(&mut self, refusal: &Refusal, place: &str) -> String {
        self.text_of(refusal, refusal.named().condition, place)
    }

    /// The text that tells a client of a refusal, beside this condition.
    fn text_of(&mut self, refusal: &Refusal, condition: &str, place: &str) -> String {
        let server = &self.config.server_name;
        let place = if place.is_empty() { server.clone() } else { format!("{server}:{place}") };
        let frame = usize::try_from(self.engine.peer().max_frame_size).unwrap_or(usize::MAX);
        let room = frame.saturating_sub(AROUND).max(SHORT_DESCRIPTION);
        let text = self.tracking.tracked(&refusal.text(), &place, self.now.utc, room);
        self.record.add_if_nameless(refusal, self.client.grants(), self.engine.peer());
        // A user quotes the tracking id to the operator, who finds the refusal by it.
        let (log, namespace) = (&self.config.refusals, self.record.namespace());
        log.write(self.now.instant, refusal.severity(), namespace, condition, &text);
        text
    }

    /// The engine says that the connection is over.
    pub(crate) fn on_closed(&mut self, error: Option<&Error>, by: Origin) {
        self.log_engine_error(by, error);
        self.record.set_closed(by, error, self.engine.peer(), self.client.judges());
    }

    /// Closes the connection with an error.
    pub(crate) fn close(&mut self, why: &Refusal) {
        let mut error = self.error(why, "");
        let is_turned_away = matches!(why, Refusal::Placement(_) | Refusal::TooManyConnections { .. });
        // The text still tells why.
        if is_turned_away && self.client.reconnects_only_after_forced_closes() {
            error.condition = Symbol::from_static("amqp:connection:forced");
        }
        self.record.set_closing(why, &error);
        self.engine.close(Some(error));
    }

    /// Grants a sending peer credit anew when half of it is used. Credit is no throttle: it comes, whatever waits.
    #[inline]
    pub(crate) fn top_up(&mut self, link: LinkKey, window: u32) {
        if self.engine.link(link).credit_left() <= window / 2 {
            self.engine.grant_credit(link, window);
        }
    }

    /// Settles a message of which the peer says nothing, and for whose settlement nobody waits.
    pub(crate) fn settle_unanswered(
        &mut self,
        queue: QueueId,
        sequence: SequenceNumber,
        lock: LockId,
        outcome: Outcome,
    ) {
        self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket: None });
    }

    /// Checks that the client may do `right` at a store, or at its management node.
    pub(crate) fn claim(
        &self,
        path: &EntityPath,
        management: bool,
        right: Right,
    ) -> Result<(Scope, Right), Refusal> {
        self.client.claim(path, management, right, self.now.unix_seconds())
    }

    /// Logs an error that the engine has sent to the peer by itself.
    pub(crate) fn log_engine_error(&self, by: Origin, error: Option<&Error>) {
        if let (Origin::Engine, Some(error)) = (by, error) {
            let text = error.description.as_deref().unwrap_or_default();
            let (log, namespace) = (&self.config.refusals, self.record.namespace());
            log.write(self.now.instant, Severity::Warning, namespace, error.condition.as_str(), text);
        }
    }

    /// Logs a completion with `settled=true` whose lock was lost before. The receiver is not told, because it has forgotten
    /// the delivery.
    pub(crate) fn log_completed_too_late(&self, entity: &str, sequence: SequenceNumber, error: SettleError) {
        let condition = Refusal::Settle(error).named().condition;
        let text = format!(
            "message {} of `{entity}` was completed by container `{}` with settled=true, but {error}: it may be delivered again",
            sequence.0,
            self.engine.peer().container_id.as_str(),
        );
        let (log, namespace) = (&self.config.refusals, self.record.namespace());
        log.write(self.now.instant, Severity::Warning, namespace, condition, &text);
    }
}
