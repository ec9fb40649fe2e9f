//! The effects that one client received, in a form that can be compared between two nodes whose rounds end in other places.
//!
//! Answers are told apart by their tickets: several may come as one. What is delivered is compared without its order: it
//! follows from the places at which rounds end. Lock tokens are left out, and so are the ids of queues: after a restart, the id
//! of a deleted queue is given again if nothing of that queue is left in the journal.

use std::collections::BTreeMap;

use broker_core::{
    CommitError, Delivery, Effect, EntityReport, Fetched, PublishError, QueueInfo, QuotaError, Renewed,
    SessionError, Stored, Ticket,
};

#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Answers {
    pub(crate) by_ticket: BTreeMap<u64, String>,
    others: Vec<String>,
}

impl Answers {
    pub(crate) fn of(effects: &[Effect]) -> Self {
        let mut answers = Self::default();
        for effect in effects {
            answers.add(effect);
        }
        answers.others.sort();
        answers
    }

    fn add(&mut self, effect: &Effect) {
        // Bytes that are alive depend on what the journal has cleaned up: a message and its changes become one record.
        if let Some((ticket, limit)) = over_limit(effect) {
            return self.answer(ticket, format!("beyond {limit} bytes"));
        }
        match effect {
            Effect::Published { first, last } => self.add_range("published", *first, *last),
            Effect::Settled { first, last } => self.add_range("settled", *first, *last),
            Effect::ConsumerOpened { consumer, queue, session } => {
                let QueueInfo {
                    queue: _,
                    kind,
                    name,
                    max_message_bytes,
                    tier_message_bytes,
                    detects_duplicates,
                    partitioned,
                } = queue;
                self.others.push(format!(
                    "{consumer:?} {kind:?} {name} {max_message_bytes} {tier_message_bytes} {detects_duplicates} {partitioned} {session:?}"
                ));
            }
            Effect::Delivery(delivery) => self.others.push(delivered(delivery)),
            Effect::Peeked { ticket, messages } => {
                let messages = messages
                    .iter()
                    .map(|message| format!("{:?} {}", message.sequence, text(&message.stored)));
                let messages: Vec<String> = messages.collect();
                self.answer(*ticket, messages.join(", "));
            }
            Effect::Fetched { ticket, messages } => {
                let messages = messages.iter().map(|Fetched { sequence, lock, stored }| {
                    format!("{sequence:?} until {:?}: {}", lock.map(|lock| lock.until), text(stored))
                });
                let messages: Vec<String> = messages.collect();
                self.answer(*ticket, messages.join(", "));
            }
            Effect::Described { ticket, entities } => {
                let entities: Vec<String> = entities.iter().map(described).collect();
                self.answer(*ticket, entities.join(", "));
            }
            // Their order follows from the places of their records in the journal.
            Effect::SessionList { ticket, skip: _, ids } => {
                let mut ids = ids.clone();
                ids.sort();
                self.answer(*ticket, ids.join(", "));
            }
            Effect::PublishRefused { ticket, .. }
            | Effect::SettleRefused { ticket, .. }
            | Effect::Renewed(Renewed { ticket, .. })
            | Effect::Scheduled { ticket, .. }
            | Effect::Deleted { ticket, .. }
            | Effect::SessionRenewed { ticket, .. }
            | Effect::SessionState { ticket, .. }
            | Effect::SessionRefused { ticket, .. }
            | Effect::Rules { ticket, .. }
            | Effect::TransactionDone { ticket }
            | Effect::TransactionRefused { ticket, .. }
            | Effect::EntityDone { ticket }
            | Effect::RequestRefused { ticket, .. } => self.answer(*ticket, format!("{effect:?}")),
            other => self.others.push(format!("{other:?}")),
        }
    }

    fn add_range(&mut self, what: &str, first: Ticket, last: Ticket) {
        (first.0..=last.0).for_each(|ticket| self.answer(Ticket(ticket), what.to_owned()));
    }

    fn answer(&mut self, ticket: Ticket, answer: String) {
        let before = self.by_ticket.insert(ticket.0, answer);
        assert_eq!(before, None, "{ticket:?} is answered once");
    }
}

/// The limit of a namespace's bytes for which something was refused.
fn over_limit(effect: &Effect) -> Option<(Ticket, u64)> {
    let (Effect::PublishRefused { ticket, error: PublishError::QuotaExceeded(error) }
    | Effect::SessionRefused { ticket, error: SessionError::QuotaExceeded(error) }
    | Effect::TransactionRefused {
        ticket,
        error:
            CommitError::Publish(PublishError::QuotaExceeded(error))
            | CommitError::Session(SessionError::QuotaExceeded(error)),
    }) = effect
    else {
        return None;
    };
    match error {
        QuotaError::Namespace { limit, .. } => Some((*ticket, *limit)),
        _ => None,
    }
}

/// An entity without its version, which names its queue, and without what a restart forgets.
fn described(report: &EntityReport) -> String {
    let EntityReport { name, kind, settings, created_at, updated_at, .. } = report;
    let EntityReport { active_and_deferred, scheduled, dead_letter, transfer_dead_letter, bytes, .. } =
        report;
    let EntityReport { subscriptions, sql_filters, correlation_filters, .. } = report;
    format!(
        "{kind:?} {name} {settings:?} {created_at:?} {updated_at:?} {active_and_deferred} {scheduled} {dead_letter} \
         {transfer_dead_letter} {bytes} {subscriptions} {sql_filters} {correlation_filters}"
    )
}

fn delivered(delivery: &Delivery) -> String {
    let Delivery { consumer, queue: _, sequence, lock, stored } = delivery;
    let until = lock.map(|lock| lock.until);
    format!("{consumer:?} {sequence:?} until {until:?}: {}", text(stored))
}

/// A message as it is stored. Whether it was handed out before is left out: a look at it may come before its delivery or after
/// it, and a restart may forget it.
fn text(stored: &Stored) -> String {
    let Stored { enqueued_at, expires_at, delivery_count, state, payload, .. } = stored;
    let (number, rest) = payload.split_first_chunk::<8>().expect("the number of a message");
    let number = u64::from_le_bytes(*number);
    format!("{number} of {} bytes, {enqueued_at:?} {expires_at:?} {delivery_count} {state}", rest.len())
}
