//! A thread that makes publish commands and takes their answers.
//!
//! Invariant: every message is answered once, in the order in which it was sent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use amqp_codec::message::MessageBuilder;
use broker_core::{Command, Effect, EntityPath, LinkId, Message, QueueId, SubQueue, Ticket};
use broker_server::InProcessClient;
use bytes::{Bytes, BytesMut};

use super::load::Load;
use crate::Fallible;

/// Bytes of a body.
pub(super) const SIZE: usize = 1 << 10;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes batches of messages for one queue.
pub(super) struct Batches {
    queue: QueueId,
    /// Commands of a batch.
    size: u32,
    payload: Vec<u8>,
    /// Ticket of the next message.
    next: u64,
}

impl Batches {
    pub(super) fn new(queue: QueueId, size: u32) -> Self {
        Self { queue, size, payload: MessageBuilder::new().data(&[7; SIZE]).build().to_vec(), next: 0 }
    }

    /// One batch. Its payloads are pieces of one fresh buffer, as those that a connection has read from its socket.
    pub(super) fn make(&mut self) -> Vec<Command> {
        let count = self.size as usize;
        let mut buffer = BytesMut::with_capacity(self.payload.len() * count);
        for _ in 0..count {
            buffer.extend_from_slice(&self.payload);
        }
        let mut rest = buffer.freeze();
        let mut commands = Vec::with_capacity(count);
        for _ in 0..count {
            commands.push(self.publish(rest.split_to(self.payload.len())));
        }
        commands
    }

    fn publish(&mut self, payload: Bytes) -> Command {
        let ticket = Some(Ticket(self.next));
        self.next += 1;
        let message = Message { payload, durable: true, ..Message::default() };
        Command::Publish { queue: self.queue, message, ticket }
    }
}

/// Commands that open a queue for its generator.
pub(super) fn opening(number: u16) -> Vec<Command> {
    let path = EntityPath { entity: format!("scale-{number}").into(), sub_queue: SubQueue::Main };
    vec![Command::Connect, Command::OpenProducer { producer: LinkId(0), path, auto_create: true }]
}

/// The queue that was opened.
pub(super) fn opened(effects: &[Effect]) -> Fallible<QueueId> {
    match effects {
        [Effect::ProducerOpened { queue, .. }] => Ok(queue.queue),
        other => Err(format!("a queue was answered {other:?}").into()),
    }
}

/// Answers in the order of the messages.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Messages that are accepted, which is the ticket of the next answer.
    pub(super) accepted: u64,
}

impl Answers {
    /// Counts the accepted messages.
    pub(super) fn take(&mut self, effects: Vec<Effect>) -> Fallible<()> {
        for effect in effects {
            match effect {
                Effect::Published { first, last } if first.0 == self.accepted && last >= first => {
                    self.accepted = last.0 + 1;
                }
                other => return Err(format!("message {} was answered {other:?}", self.accepted).into()),
            }
        }
        Ok(())
    }
}

/// Publishes until it is `over`, and waits until all of it is answered.
pub(super) fn run(
    client: &InProcessClient,
    (number, load): (u16, Load),
    accepted: &AtomicU64,
    over: &AtomicBool,
) -> Fallible<()> {
    client.submit(opening(number));
    let mut batches = Batches::new(opened(&client.take(PATIENCE))?, load.batch());
    let mut answers = Answers::default();
    loop {
        while !over.load(Ordering::Relaxed)
            && batches.next - answers.accepted + u64::from(load.batch()) <= u64::from(load.window())
        {
            client.submit(batches.make());
        }
        if batches.next == answers.accepted {
            return Ok(());
        }
        let effects = client.take(PATIENCE);
        if effects.is_empty() {
            return Err(format!("{} messages are not answered", batches.next - answers.accepted).into());
        }
        let before = answers.accepted;
        answers.take(effects)?;
        accepted.fetch_add(answers.accepted - before, Ordering::Relaxed);
    }
}
