//! Settlement rules: the effect of each disposition on the message, and the broker's reply, as one table.
//!
//! The table is drawn in `docs/features/settlement.md`; the tests go through every combination.
//!
//! Invariant: the only place that maps an AMQP outcome to a queue outcome.

use amqp_codec::{
    performative::{DeliveryState, Modified},
    types::SenderSettleMode,
};

use crate::dialect::Dialect;

/// An outcome of the protocol, without its data: what a peer makes of a delivery, and what the answer repeats.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WireOutcome {
    /// `accepted`.
    Accepted,
    /// `rejected`, answered without error.
    Rejected,
    /// `released`.
    Released,
    /// `modified` with its two flags.
    Modified {
        /// It counts as a failed delivery.
        delivery_failed: Option<bool>,
        /// Not to this receiver again.
        undeliverable_here: Option<bool>,
    },
}

impl WireOutcome {
    /// The outcome in a state; `None` for a state that is no outcome.
    pub(crate) fn of(state: &DeliveryState) -> Option<Self> {
        Some(match state {
            DeliveryState::Accepted => Self::Accepted,
            DeliveryState::Rejected(_) => Self::Rejected,
            DeliveryState::Released => Self::Released,
            DeliveryState::Modified(modified) => Self::Modified {
                delivery_failed: modified.delivery_failed,
                undeliverable_here: modified.undeliverable_here,
            },
            _ => return None,
        })
    }

    /// The state of the answering disposition.
    pub(crate) fn state(self) -> DeliveryState {
        match self {
            Self::Accepted => DeliveryState::Accepted,
            Self::Rejected => DeliveryState::Rejected(None),
            Self::Released => DeliveryState::Released,
            Self::Modified { delivery_failed, undeliverable_here } => {
                DeliveryState::Modified(Box::new(Modified {
                    delivery_failed,
                    undeliverable_here,
                    message_annotations: None,
                }))
            }
        }
    }
}

/// The state in a disposition, without its data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PeerState {
    /// No state at all.
    Nothing,
    /// `received`: how far the peer has read; not an outcome.
    Received,
    Outcome(WireOutcome),
    /// `transactional-state` of a transaction that does not exist. Of one that does, the outcome in it is said.
    Transactional,
    /// `declared`, or a state nobody defined.
    Foreign,
}

impl PeerState {
    /// The state, if there is one, without its data.
    pub(crate) fn of(state: Option<&DeliveryState>) -> Self {
        let Some(state) = state else { return Self::Nothing };
        match state {
            DeliveryState::Received { .. } => Self::Received,
            DeliveryState::Transactional { .. } => Self::Transactional,
            state => WireOutcome::of(state).map_or(Self::Foreign, Self::Outcome),
        }
    }

    /// The outcome that is said, if one is.
    pub(crate) const fn outcome(self) -> Option<WireOutcome> {
        if let Self::Outcome(outcome) = self { Some(outcome) } else { None }
    }
}

/// Effect of a settlement on the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum QueueAction {
    Nothing,
    /// Processed.
    Complete,
    /// Back, counted as failed.
    Abandon,
    /// Back, not counted.
    Release,
    /// To the dead-letter store.
    DeadLetter,
    /// Set aside.
    Defer,
}

/// Reply of the broker to a settlement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SettlementReply {
    /// Nothing: the peer has settled, or has not decided yet.
    Nothing,
    /// `settled=true` with the peer's own outcome (a `rejected` without error) once it is durable; `rejected`
    /// with the reason when the lock is lost.
    WhenDone,
    /// `settled=true` with `rejected{amqp:transaction:unknown-id}`; where the peer has settled, the link is detached with
    /// that condition, for nothing else would say it.
    NoTransaction,
    /// The link is detached with `amqp:invalid-field`.
    Detach,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SettlementRule {
    /// Effect of a settlement on the message.
    pub(crate) action: QueueAction,
    /// Reply of the broker to a settlement.
    pub(crate) answer: SettlementReply,
}

/// Rule for a disposition of the receiving peer about one delivery that the broker sent.
///
/// `mode` is the link's sender settle mode: deliveries of a `settled` link were never open, so nothing said of
/// them counts. The receiver settle mode is no argument: in both modes a state with `settled=false` asks for an
/// answer and one with `settled=true` does not. `default_outcome` is the source's, for a peer that settles
/// without a word; where it has none, the message is released.
pub(crate) fn settlement(
    dialect: Dialect,
    mode: SenderSettleMode,
    settled: bool,
    said: PeerState,
    default_outcome: Option<WireOutcome>,
) -> SettlementRule {
    const IGNORED: SettlementRule =
        SettlementRule { action: QueueAction::Nothing, answer: SettlementReply::Nothing };
    if mode == SenderSettleMode::Settled {
        return IGNORED;
    }
    match (said, settled) {
        (PeerState::Nothing | PeerState::Received, false) => IGNORED,
        (PeerState::Nothing | PeerState::Received, true) => {
            let action = default_outcome.map_or(QueueAction::Release, |outcome| action(dialect, outcome));
            SettlementRule { action, ..IGNORED }
        }
        // The link ends with it, and what that does to the message is its own rule.
        (PeerState::Transactional, true) => {
            SettlementRule { action: QueueAction::Nothing, answer: SettlementReply::NoTransaction }
        }
        (PeerState::Transactional, false) => {
            SettlementRule { action: unknown_transaction(dialect), answer: SettlementReply::NoTransaction }
        }
        (PeerState::Foreign, _) => {
            SettlementRule { action: QueueAction::Nothing, answer: SettlementReply::Detach }
        }
        (PeerState::Outcome(outcome), true) => SettlementRule { action: action(dialect, outcome), ..IGNORED },
        (PeerState::Outcome(outcome), false) => {
            SettlementRule { action: action(dialect, outcome), answer: SettlementReply::WhenDone }
        }
    }
}

/// Effect of an outcome.
#[expect(clippy::match_same_arms, reason = "one row of the table each")]
fn action(dialect: Dialect, outcome: WireOutcome) -> QueueAction {
    match (outcome, dialect) {
        (WireOutcome::Accepted, _) => QueueAction::Complete,
        (WireOutcome::Rejected, _) => QueueAction::DeadLetter,
        (WireOutcome::Released, _) => QueueAction::Release,
        (WireOutcome::Modified { undeliverable_here: Some(true), .. }, Dialect::ServiceBus) => {
            QueueAction::Defer
        }
        // Most Service Bus SDKs leave `delivery-failed` away and still mean it.
        (WireOutcome::Modified { .. }, Dialect::ServiceBus) => QueueAction::Abandon,
        // The queue does not remember who refused a message; where this receiver may not see it again, nobody
        // should be handed it in a loop. RabbitMQ does the same.
        (WireOutcome::Modified { undeliverable_here: Some(true), .. }, Dialect::Plain) => {
            QueueAction::DeadLetter
        }
        (WireOutcome::Modified { delivery_failed: Some(true), .. }, Dialect::Plain) => QueueAction::Abandon,
        (WireOutcome::Modified { .. }, Dialect::Plain) => QueueAction::Release,
    }
}

/// A settlement that cannot be part of its transaction leaves a Service Bus lock as it is. The plain link's delivery is
/// over with the answer, so its message returns.
const fn unknown_transaction(dialect: Dialect) -> QueueAction {
    match dialect {
        Dialect::ServiceBus => QueueAction::Nothing,
        Dialect::Plain => QueueAction::Release,
    }
}

#[cfg(test)]
mod tests;
