//! Helpers for tests of transactions.

use super::harness::*;
use crate::{
    ClientId, Command, CommitError, CoreConfig, Delivery, Effect, EntityError, EntitySettings, Lock, Message,
    Outcome, PublishError, SessionError, SettleError, Ticket, TransactionError, TransactionId,
};

/// The transaction of most tests.
pub(super) const TX: TransactionId = TransactionId(1);

/// Answer to an operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answered {
    Done,
    Publish(PublishError),
    Settle(SettleError),
    Request(EntityError),
    Session(SessionError),
    Transaction(CommitError),
}

impl Broker {
    /// Answer under this ticket; all other effects stay for later.
    pub(super) fn answer(&mut self, client: ClientId, ticket: Ticket, told: Vec<Effect>) -> Option<Answered> {
        let mut answer = None;
        for effect in told {
            let said = match effect {
                Effect::Published { first, last } | Effect::Settled { first, last }
                    if (first, last) == (ticket, ticket) =>
                {
                    Answered::Done
                }
                Effect::TransactionDone { ticket: done } if done == ticket => Answered::Done,
                Effect::PublishRefused { ticket: refused, error } if refused == ticket => {
                    Answered::Publish(error)
                }
                Effect::SettleRefused { ticket: refused, error } if refused == ticket => {
                    Answered::Settle(error)
                }
                Effect::RequestRefused { ticket: refused, error } if refused == ticket => {
                    Answered::Request(error)
                }
                Effect::SessionRefused { ticket: refused, error } if refused == ticket => {
                    Answered::Session(error)
                }
                Effect::TransactionRefused { ticket: refused, error } if refused == ticket => {
                    Answered::Transaction(error)
                }
                other => {
                    self.journal.effects.push((client, other));
                    continue;
                }
            };
            assert_eq!(answer.replace(said), None, "answered once");
        }
        answer
    }

    pub(super) fn declare_by(&mut self, client: ClientId, transaction: TransactionId) -> Answered {
        let ticket = self.ticket();
        let told = self.tell(client, Command::Declare { transaction, ticket });
        self.answer(client, ticket, told).unwrap()
    }

    pub(super) fn declare(&mut self, transaction: TransactionId) {
        assert_eq!(self.declare_by(ME, transaction), Answered::Done);
    }

    pub(super) fn discharge(&mut self, transaction: TransactionId, fail: bool) -> Answered {
        let ticket = self.ticket();
        let told = self.tell(ME, Command::Discharge { transaction, fail, ticket: Some(ticket) });
        self.answer(ME, ticket, told).unwrap()
    }

    pub(super) fn commit(&mut self, transaction: TransactionId) -> Answered {
        self.discharge(transaction, false)
    }

    pub(super) fn enlist(
        &mut self,
        transaction: TransactionId,
        command: Command,
        ticket: Ticket,
    ) -> Answered {
        self.enlist_as(transaction, command, false, ticket)
    }

    /// The same; of a settlement by a receiver that has settled, or has not.
    pub(super) fn enlist_as(
        &mut self,
        transaction: TransactionId,
        command: Command,
        settled: bool,
        ticket: Ticket,
    ) -> Answered {
        let told = self.tell(ME, Command::Enlist { transaction, command: Box::new(command), settled });
        self.answer(ME, ticket, told).unwrap()
    }

    pub(super) fn send_in(&mut self, transaction: TransactionId, queue: &str, texts: &[&str]) -> Answered {
        let messages = texts.iter().map(|text| message(text)).collect();
        self.send_messages_in(transaction, queue, messages)
    }

    pub(super) fn send_messages_in(
        &mut self,
        transaction: TransactionId,
        queue: &str,
        messages: Vec<Message>,
    ) -> Answered {
        let ticket = self.ticket();
        let queue = self.queue(queue);
        self.enlist(transaction, Command::PublishBatch { queue, messages, ticket: Some(ticket) }, ticket)
    }

    pub(super) fn settle_in(
        &mut self,
        transaction: TransactionId,
        delivery: &Delivery,
        outcome: Outcome,
    ) -> Answered {
        self.settle_in_as(transaction, delivery, outcome, false)
    }

    /// The same of a receiver that has settled, or has not.
    pub(super) fn settle_in_as(
        &mut self,
        transaction: TransactionId,
        delivery: &Delivery,
        outcome: Outcome,
        settled: bool,
    ) -> Answered {
        let ticket = self.ticket();
        let command = Command::Settle {
            queue: delivery.queue,
            sequence: delivery.sequence,
            lock: delivery.lock.unwrap().id,
            outcome,
            ticket: Some(ticket),
        };
        self.enlist_as(transaction, command, settled, ticket)
    }

    pub(super) fn settle_tokens_in(
        &mut self,
        transaction: TransactionId,
        locks: &[Lock],
        outcome: Outcome,
    ) -> Answered {
        let ticket = self.ticket();
        let tokens = locks.iter().map(|lock| lock.token).collect();
        let path = main_path("q");
        self.enlist(
            transaction,
            Command::SettleByToken { path, session: None, tokens, outcome, ticket },
            ticket,
        )
    }

    /// The client is lost, and comes back with nothing open.
    pub(super) fn leave(&mut self) {
        self.tell(ME, Command::Disconnect);
        self.tell(ME, Command::Connect);
        self.tell(ME, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
    }

    /// Texts of all messages of a queue that can be seen, in order.
    pub(super) fn shown(&mut self, queue: &str) -> Vec<String> {
        let peeked = self.peek(main_path(queue), 0, 1000);
        peeked.iter().map(|peeked| String::from_utf8(peeked.stored.payload.to_vec()).unwrap()).collect()
    }
}

pub(super) fn with_two_queues() -> Broker {
    let mut broker = Broker::with_queue(EntitySettings::default());
    broker.create("other", EntitySettings::default());
    broker
}

pub(super) fn limited(change: impl FnOnce(&mut CoreConfig)) -> Broker {
    let mut config = CoreConfig { token_key: [7; 16], ..CoreConfig::default() };
    change(&mut config);
    let mut broker = Broker::with(config);
    broker.create("q", EntitySettings::default());
    broker
}

pub(super) const fn transaction(error: TransactionError) -> Answered {
    Answered::Transaction(CommitError::Transaction(error))
}
