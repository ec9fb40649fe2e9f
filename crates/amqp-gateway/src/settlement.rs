//! What a settlement on the wire does to a message in the queue, and what the broker answers: the one table.
//!
//! The table is drawn in `docs/features/settlement.md`; the tests go through every combination.
//!
//! Invariant: the only place that knows both an AMQP outcome and a queue outcome.

use amqp_codec::{performative::DeliveryState, types::SenderSettleMode};

/// How the peer's words are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Face {
    /// Azure Service Bus: locks outlive links, `modified` is abandon or defer.
    ServiceBus,
    /// AMQP 1.0 as the standard says it.
    Plain,
}

/// The state in a disposition, without its data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    /// No state at all.
    Nothing,
    /// `received`: how far the peer has read; not an outcome.
    Received,
    /// `accepted`.
    Accepted,
    /// `rejected`.
    Rejected,
    /// `released`.
    Released,
    /// `modified`.
    Modified {
        /// It counts as a failed delivery.
        delivery_failed: Option<bool>,
        /// Not to this receiver again.
        undeliverable_here: Option<bool>,
    },
    /// `transactional-state` of a transaction that does not exist. Of one that does, the outcome in it is said.
    Transactional,
    /// `declared`, or a state nobody defined.
    Foreign,
}

impl Said {
    /// The state without its data.
    pub(crate) fn of(state: &DeliveryState) -> Self {
        match state {
            DeliveryState::Accepted => Self::Accepted,
            DeliveryState::Rejected(_) => Self::Rejected,
            DeliveryState::Released => Self::Released,
            DeliveryState::Modified(modified) => Self::Modified {
                delivery_failed: modified.delivery_failed,
                undeliverable_here: modified.undeliverable_here,
            },
            DeliveryState::Received { .. } => Self::Received,
            DeliveryState::Transactional { .. } => Self::Transactional,
            DeliveryState::Declared { .. } | DeliveryState::Other(_) => Self::Foreign,
        }
    }
}

/// What happens to the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Deed {
    /// Nothing.
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

/// What the peer is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// Nothing: the peer has settled, or has not decided yet.
    Nothing,
    /// `settled=true` with the peer's own outcome (a `rejected` without error) once it is durable; `rejected`
    /// with the reason when the lock is lost.
    WhenDone,
    /// `settled=true` with `rejected{amqp:transaction:unknown-id}`.
    NoTransaction,
    /// The link is detached with `amqp:invalid-field`.
    Detach,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Verdict {
    /// What happens to the message.
    pub(crate) deed: Deed,
    /// What the peer is told.
    pub(crate) answer: Answer,
}

/// What a disposition of the receiving peer means for one delivery that the broker sent.
///
/// `mode` is the link's sender settle mode: deliveries of a `settled` link were never open, so nothing said of
/// them counts. The receiver settle mode is no argument: in both modes a state with `settled=false` asks for an
/// answer and one with `settled=true` does not. `default_outcome` is the source's, for a peer that settles
/// without a word.
pub(crate) fn settlement(
    face: Face,
    mode: SenderSettleMode,
    settled: bool,
    said: Said,
    default_outcome: Said,
) -> Verdict {
    const IGNORED: Verdict = Verdict { deed: Deed::Nothing, answer: Answer::Nothing };
    if mode == SenderSettleMode::Settled {
        return IGNORED;
    }
    match (said, settled) {
        (Said::Nothing | Said::Received, false) => IGNORED,
        (Said::Nothing | Said::Received, true) => {
            Verdict { deed: deed_by_default(face, default_outcome), ..IGNORED }
        }
        (Said::Transactional, true) => Verdict { deed: unknown_transaction(face), ..IGNORED },
        (Said::Transactional, false) => {
            Verdict { deed: unknown_transaction(face), answer: Answer::NoTransaction }
        }
        (Said::Foreign, _) => Verdict { deed: Deed::Nothing, answer: Answer::Detach },
        (outcome, true) => Verdict { deed: deed(face, outcome), ..IGNORED },
        (outcome, false) => Verdict { deed: deed(face, outcome), answer: Answer::WhenDone },
    }
}

/// What an outcome does.
#[expect(clippy::match_same_arms, reason = "one row of the table each")]
fn deed(face: Face, outcome: Said) -> Deed {
    match (outcome, face) {
        (Said::Accepted, _) => Deed::Complete,
        (Said::Rejected, _) => Deed::DeadLetter,
        (Said::Released, _) => Deed::Release,
        (Said::Modified { undeliverable_here: Some(true), .. }, Face::ServiceBus) => Deed::Defer,
        // Most Service Bus SDKs leave `delivery-failed` away and still mean it.
        (Said::Modified { .. }, Face::ServiceBus) => Deed::Abandon,
        // The queue does not remember who refused a message; where this receiver may not see it again, nobody
        // should be handed it in a loop. RabbitMQ does the same.
        (Said::Modified { undeliverable_here: Some(true), .. }, Face::Plain) => Deed::DeadLetter,
        (Said::Modified { delivery_failed: Some(true), .. }, Face::Plain) => Deed::Abandon,
        (Said::Modified { .. }, Face::Plain) => Deed::Release,
        (Said::Nothing | Said::Received | Said::Transactional | Said::Foreign, _) => Deed::Nothing,
    }
}

/// A settlement that cannot be part of its transaction leaves a Service Bus lock as it is. The plain link's delivery is
/// over with the answer, so its message returns.
const fn unknown_transaction(face: Face) -> Deed {
    match face {
        Face::ServiceBus => Deed::Nothing,
        Face::Plain => Deed::Release,
    }
}

/// What the source's default outcome does; `Release` where it has none.
fn deed_by_default(face: Face, default_outcome: Said) -> Deed {
    match deed(face, default_outcome) {
        Deed::Nothing => Deed::Release,
        deed => deed,
    }
}

#[cfg(test)]
mod tests;
