//! Receiving: deliveries, settlement and sessions of the client, and the end of a run, in which no fault strikes and every
//! remaining message is received.
//!
//! Invariant: every delivery goes to the model, unless its session was released before.

use std::{sync::atomic::Ordering, time::Duration};

use broker_core::{
    Command, Delivery, LinkId, Outcome, Properties, ReceiveMode, SessionWanted, UnsettledPolicy,
};

use super::{
    CoreWorld, HELD_MAX, HeldMessage, PLACE_LINKS, PendingRequest, Receiver, SESSION_LINKS, STEPS, TRANSFER,
    entities::path,
};
use crate::model::{EntityIndex, Id};

impl CoreWorld<'_> {
    pub(super) fn pick_held(&mut self) -> Option<HeldMessage> {
        let count = self.held.len() as u64;
        if count == 0 {
            return None;
        }
        let entity = usize::try_from(self.rng.below(count)).ok()?;
        Some(self.held.swap_remove(entity))
    }

    /// Asks for messages, or settles one.
    pub(super) fn take(&mut self) {
        match self.rng.below(4) {
            0 => {
                let link = u32::try_from(self.rng.below(STEPS as u64)).unwrap_or(0);
                self.ask(link, 5);
            }
            1 => self.take_session(),
            _ => self.settle(),
        }
    }

    pub(super) fn ask(&mut self, link: u32, more: u64) {
        if self.held.len() < HELD_MAX {
            let received = self.received.get(&link).copied().unwrap_or(0);
            let limit = received + 1 + self.rng.below(more);
            self.credit.insert(link, limit);
            self.commands.push(Command::Credit { consumer: LinkId(link), limit, drain: false });
        }
    }

    pub(super) fn take_session(&mut self) {
        let link = if self.rng.chance(50) { SESSION_LINKS[0] } else { SESSION_LINKS[1] };
        match self.receivers.get(&link).cloned().unwrap_or_default() {
            Receiver::Opening => {}
            Receiver::Open(_) if self.rng.chance(15) => self.close_session(link),
            Receiver::Open(_) => self.ask(link, 3),
            Receiver::Closed => {
                self.receivers.insert(link, Receiver::Opening);
                self.received.insert(link, 0);
                self.commands.push(Command::OpenConsumer {
                    consumer: LinkId(link),
                    path: path("steps"),
                    mode: ReceiveMode::PeekLock,
                    unsettled: UnsettledPolicy::Release,
                    session: Some(SessionWanted::Next { patience: Duration::from_millis(300) }),
                    auto_create: false,
                });
            }
        }
    }

    pub(super) fn close_session(&mut self, link: u32) {
        self.receivers.insert(link, Receiver::Closed);
        self.held.retain(|held| held.link != link);
        self.commands.push(Command::CloseConsumer { consumer: LinkId(link) });
    }

    fn settle(&mut self) {
        let Some(held) = self.pick_held() else { return };
        let HeldMessage { id, entity, queue, sequence, lock, .. } = held;
        let (outcome, ticket) = if self.rng.chance(75) {
            self.model.completing(id, entity);
            // A completion without an answer may be lost in a crash, and the message is delivered again.
            let asks = self.rng.chance(60);
            if !asks {
                self.count("completions without an answer");
            }
            (Outcome::Complete, asks.then(|| self.ticket(PendingRequest::Complete(id, entity))))
        } else if self.rng.chance(50) {
            (Outcome::Release(Properties::default()), None)
        } else {
            (Outcome::Abandon(Properties::default()), None)
        };
        self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket });
    }

    pub(super) fn on_session(&mut self, link: u32, session: &str) -> Result<(), String> {
        let held = |receiver: &Receiver| matches!(receiver, Receiver::Open(other) if other == session);
        if self.receivers.iter().any(|(other, receiver)| *other != link && held(receiver)) {
            return Err(format!("session {session} has two holders"));
        }
        self.receivers.insert(link, Receiver::Open(session.to_owned()));
        Ok(())
    }

    pub(super) fn on_delivery(&mut self, delivery: &Delivery) -> Result<(), String> {
        let link = delivery.consumer.0;
        let entity = if SESSION_LINKS.contains(&link) { STEPS } else { link as EntityIndex };
        let id = read_id(&delivery.stored.payload).ok_or("a message without its id")?;
        *self.received.entry(link).or_default() += 1;
        let sequence = delivery.sequence.0;
        if entity == TRANSFER {
            self.count("messages sent through an entity to one that is closed");
        }
        if entity == STEPS {
            let Some(Receiver::Open(session)) = self.receivers.get(&link).cloned() else { return Ok(()) };
            self.model.in_session(&session, id, entity, sequence).map_err(|broken| broken.to_string())?;
        }
        self.model.delivered(id, entity, sequence, self.now).map_err(|broken| broken.to_string())?;
        if let Some(lock) = delivery.lock {
            let held = HeldMessage {
                id,
                entity,
                queue: delivery.queue,
                sequence: delivery.sequence,
                lock: lock.id,
                link,
            };
            self.held.push(held);
        }
        Ok(())
    }

    /// Switches the faults off and receives every message at its entities.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.crash();
        self.boot()?;
        self.process.disk_faults.calm.store(true, Ordering::Relaxed);
        // All schedules are due, all locks of the time before are over.
        self.now += 60_000;
        let mut idle_rounds = 0;
        while idle_rounds < 40 {
            let before = self.model.delivered;
            self.drain_round()?;
            self.now += 100;
            idle_rounds = if self.model.delivered == before { idle_rounds + 1 } else { 0 };
        }
        self.model.check_drained().map_err(|broken| broken.to_string())
    }

    fn drain_round(&mut self) -> Result<(), String> {
        while let Some(HeldMessage { id, entity, queue, sequence, lock, .. }) = self.held.pop() {
            self.model.completing(id, entity);
            let ticket = Some(self.ticket(PendingRequest::Complete(id, entity)));
            let outcome = Outcome::Complete;
            self.commands.push(Command::Settle { queue, sequence, lock, outcome, ticket });
        }
        for link in 0..PLACE_LINKS {
            self.ask(link, 20);
        }
        for link in SESSION_LINKS {
            match self.receivers.get(&link).cloned().unwrap_or_default() {
                Receiver::Closed => self.take_session(),
                Receiver::Open(_) if self.rng.chance(40) => self.close_session(link),
                Receiver::Open(_) => self.ask(link, 20),
                Receiver::Opening => {}
            }
        }
        self.submit();
        for _ in 0..2 {
            self.process.node_step(self.now, &mut self.rng)?;
            while self.process.is_busy() {
                self.process.node_step(self.now, &mut self.rng)?;
                self.process.disk_step(&mut self.rng);
            }
        }
        self.read()
    }
}

fn read_id(payload: &[u8]) -> Option<Id> {
    let sections = amqp_codec::sections::Sections::scan(payload).ok()?;
    let properties = sections.properties_view(payload);
    properties.get(amqp_codec::sections::PropertyField::MessageId)?.as_str()?.parse().ok()
}
