//! What the clients were promised, and whether the broker keeps it.
//!
//! Invariant: the model knows only what clients sent and saw. An oracle that fails names the message and the promise.

use std::collections::BTreeMap;

/// A message's name in the model; it travels in the body.
pub(crate) type Id = u64;

/// What the sender knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sent {
    /// No answer yet, or the connection was lost before it came: it may exist or not.
    Unknown,
    /// The broker said `accepted`: it exists.
    Accepted,
    /// The broker said `rejected`: it must not exist.
    Refused,
}

/// What the receivers know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    /// Nobody has finished with it.
    Open,
    /// A completion was sent and not confirmed: it may be gone or not.
    Completing,
    /// The broker confirmed the completion, or handed it out settled: it must never appear again.
    Gone,
}

#[derive(Clone, Debug)]
struct Lock {
    holder: u64,
    until: u64,
}

#[derive(Clone, Debug)]
struct Message {
    queue: usize,
    sent: Sent,
    fate: Fate,
    lock: Option<Lock>,
    delivery_count: u32,
    sequence: Option<u64>,
}

/// A delivery as a client saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) id: Id,
    pub(crate) queue: usize,
    pub(crate) sequence: u64,
    pub(crate) delivery_count: u32,
    /// End of the lock in milliseconds; `None`: handed out settled.
    pub(crate) locked_until: Option<u64>,
    /// Which link of which connection.
    pub(crate) holder: u64,
    pub(crate) now: u64,
}

/// A promise was broken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("message {id}: {promise} ({detail})")]
pub(crate) struct Broken {
    /// Which message.
    pub(crate) id: u64,
    /// Which promise.
    pub(crate) promise: &'static str,
    /// What was seen.
    pub(crate) detail: String,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    messages: BTreeMap<Id, Message>,
    sequences: BTreeMap<(usize, u64), Id>,
    /// Messages of a queue that were perhaps handed out settled to a connection that broke: gone, and nobody saw them.
    may_be_lost: BTreeMap<usize, u64>,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) delivered: u64,
}

impl Model {
    /// A client sends a new message; its name is the answer.
    pub(crate) fn sending(&mut self, queue: usize) -> Id {
        let id = self.messages.len() as Id + 1;
        let (sent, fate) = (Sent::Unknown, Fate::Open);
        let message = Message { queue, sent, fate, lock: None, delivery_count: 0, sequence: None };
        self.messages.insert(id, message);
        id
    }

    pub(crate) fn accepted(&mut self, id: Id) {
        if let Some(message) = self.messages.get_mut(&id) {
            message.sent = Sent::Accepted;
            self.accepted += 1;
        }
    }

    pub(crate) fn refused(&mut self, id: Id) {
        if let Some(message) = self.messages.get_mut(&id) {
            message.sent = Sent::Refused;
            self.refused += 1;
        }
    }

    /// A client sees a delivery. `Ok(false)`: its lock ended while it travelled, so that others may have seen the
    /// message since, and all promises about it with it.
    pub(crate) fn delivered(&mut self, seen: Seen) -> Result<bool, Broken> {
        self.delivered += 1;
        let Self { messages, sequences, .. } = self;
        let broken = |promise| Err(Broken { id: seen.id, promise, detail: format!("{seen:?}") });
        let Some(message) = messages.get_mut(&seen.id) else {
            return broken("only what was sent is delivered");
        };
        if message.queue != seen.queue {
            return broken("a message stays in its entity");
        }
        if message.sent == Sent::Refused {
            return broken("what was refused does not exist");
        }
        if seen.locked_until.is_some_and(|until| until <= seen.now) {
            return Ok(false);
        }
        if message.fate == Fate::Gone {
            return broken("settled stays settled");
        }
        if message.lock.as_ref().is_some_and(|lock| lock.until > seen.now) {
            return broken("no message has two live locks");
        }
        if seen.delivery_count < message.delivery_count {
            return broken("delivery counts never fall");
        }
        if message.sequence.is_some_and(|sequence| sequence != seen.sequence) {
            return broken("a message keeps its sequence number");
        }
        if *sequences.entry((seen.queue, seen.sequence)).or_insert(seen.id) != seen.id {
            return broken("sequence numbers never repeat");
        }
        message.sequence = Some(seen.sequence);
        message.delivery_count = seen.delivery_count;
        message.fate = if seen.locked_until.is_some() { Fate::Open } else { Fate::Gone };
        message.lock = seen.locked_until.map(|until| Lock { holder: seen.holder, until });
        Ok(true)
    }

    /// A client gives the message back or asks for its removal: from here on its lock may be gone.
    pub(crate) fn settling(&mut self, id: Id, holder: u64, complete: bool) {
        let Some(message) = self.messages.get_mut(&id) else { return };
        if message.lock.as_ref().is_some_and(|lock| lock.holder == holder) {
            message.lock = None;
        }
        if complete && message.fate == Fate::Open {
            message.fate = Fate::Completing;
        }
    }

    /// The broker confirmed a completion.
    pub(crate) fn completed(&mut self, id: Id) {
        if let Some(message) = self.messages.get_mut(&id) {
            message.fate = Fate::Gone;
        }
    }

    /// The connection behind `holder` is gone, and its locks may be, too.
    pub(crate) fn holder_gone(&mut self, holder: u64) {
        for message in self.messages.values_mut() {
            if message.lock.as_ref().is_some_and(|lock| lock.holder == holder) {
                message.lock = None;
            }
        }
    }

    /// A receive-and-delete connection broke with `credit` left: as many messages may have gone with it (SET-6).
    pub(crate) fn deleter_gone(&mut self, queue: usize, credit: u32) {
        *self.may_be_lost.entry(queue).or_default() += u64::from(credit);
    }

    /// The broker restarted: locks are volatile.
    pub(crate) fn restarted(&mut self) {
        for message in self.messages.values_mut() {
            message.lock = None;
        }
    }

    /// After everything was drained: whether anything accepted is missing.
    pub(crate) fn check_drained(&self) -> Result<(), Broken> {
        let mut may_be_lost = self.may_be_lost.clone();
        for (&id, message) in &self.messages {
            if message.sent != Sent::Accepted || message.fate != Fate::Open {
                continue;
            }
            let allowed = may_be_lost.entry(message.queue).or_default();
            if *allowed == 0 {
                let detail = format!("{message:?}");
                return Err(Broken { id, promise: "an accepted message survives", detail });
            }
            *allowed -= 1;
        }
        Ok(())
    }
}
