//! State of the AMQP session that the links of one client share: the scripted peer, handles, delivery ids and pending
//! outcomes.
//!
//! Invariant: every delivery sent unsettled has one pending outcome, which its disposition removes.

use std::collections::BTreeMap;

use amqp_codec::{
    performative::{Attach, DeliveryState, Detach, Flow},
    raw::{AnnotationValue, RawMap},
};
use bytes::Bytes;
use testkit::Script;

use crate::{
    model::{EntityIndex, Id, Incarnations, Lifetime, Model, SendGroupId, SendPath, Session, SettlementKind},
    plan::{SendTarget, Topology},
    reader::{self, Key, NewMessage},
    rng::Rng,
};

/// State that a client may read and change during its turn.
pub(crate) struct ClientContext<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) model: &'a mut Model,
    pub(crate) topology: &'a Topology,
    pub(crate) body_max: u64,
    /// One message in a hundred so often has a time to live.
    pub(crate) ttl_percent: u64,
    pub(crate) now: u64,
}

/// Scheduled enqueue time in milliseconds; `None`: at once.
type Due = Option<u64>;

/// Whether a message is part of a batch or a transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Batched {
    No,
    Yes,
}

impl ClientContext<'_> {
    /// An index below `end`, which is not 0.
    pub(super) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.below(end as u64)).unwrap_or(0)
    }

    /// A new message of a send group; on a link it comes to no younger entity than the one that the link has found.
    pub(super) fn new_message(
        &mut self,
        group: SendGroupId,
        target: SendTarget,
        due: Due,
        (link, batched): (Option<Incarnations>, Batched),
    ) -> Bytes {
        let (number, session) = (self.rng.below(10), self.rng.below(reader::SESSIONS));
        let entities = self.topology.of(target, number);
        let (key, session) = self.key((group, batched), target, session);
        // No time to live where forwarding restarts it, or where expiry would remove a message of a session unseen.
        let forwarded = matches!(target, SendTarget::Forwarder(_));
        if forwarded {
            self.model.count("messages forwarded");
        }
        let steady = due.is_some() || forwarded;
        let steady = steady || entities.iter().any(|entity| self.topology.has_sessions(*entity));
        let fades = |dead_letter_target| {
            self.topology.settings(dead_letter_target).is_none_or(|there| !there.dead_letter_on_expiration)
        };
        let steady = steady
            || entities.iter().any(|entity| self.topology.dead_letter_target(*entity).is_some_and(fades));
        let ttl = (!steady && self.rng.chance(self.ttl_percent)).then(|| 1 + self.rng.below(10_000));
        let entities: Vec<_> = entities.into_iter().map(|entity| self.copy(entity, session, ttl)).collect();
        let copies = self.topology.reaches_topic(target);
        let send_path = SendPath { link, late: forwarded || (copies && due.is_some()), copies };
        let id = self.model.sending(group, &entities, send_path);
        if key != Key::Nothing {
            self.model.messages.keyed(id, session);
        }
        let length = self.rng.below(self.body_max);
        reader::write(&NewMessage { id, number, session, key, ttl, due, length })
    }

    /// Partition key of a message. In an entity without partitions it is the session.
    fn key(
        &mut self,
        (group, batched): (SendGroupId, Batched),
        target: SendTarget,
        session: Session,
    ) -> (Key, Session) {
        if !self.topology.is_partitioned(target) {
            return (Key::Session, session);
        }
        // Only a message of its own can do without, and only where there are no sessions.
        let entities = self.topology.all_of(target);
        let has_sessions = entities.iter().any(|entity| self.topology.has_sessions(*entity));
        let choice = match batched {
            _ if has_sessions => 2,
            Batched::Yes => 3,
            Batched::No => 4,
        };
        let key = Key::EACH.get(self.index(choice)).copied().unwrap_or(Key::Session);
        // The messages of one batch or transaction belong to one partition.
        (key, if batched == Batched::Yes { group % reader::SESSIONS } else { session })
    }

    /// Copy of a message at one entity, with its session and lifetime, for the model.
    fn copy(
        &self,
        entity: EntityIndex,
        session: Session,
        ttl: Option<u64>,
    ) -> (EntityIndex, Option<Session>, Option<Lifetime>) {
        let settings = self.topology.settings(entity);
        let dead_letters = settings.is_some_and(|settings| settings.dead_letter_on_expiration);
        let lifetime = ttl.map(|ttl| Lifetime { since: self.now, ttl, dead_letters });
        (entity, self.topology.has_sessions(entity).then_some(session), lifetime)
    }
}

/// Recipient of the outcome of a sent delivery.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingDelivery {
    /// The sender of a send group.
    Sent(SendGroupId),
    /// Nobody: whether the transaction has it shows at its end.
    Enlisted,
    /// The coordinator: the name of a transaction.
    Declared,
    /// The coordinator: the end of one.
    Discharged(SendGroupId),
    /// The coordinator: the end of one that was rolled back.
    RolledBack,
}

/// A connection's side of all its links.
#[derive(Debug)]
pub(super) struct AmqpSession {
    pub(super) script: Script,
    /// Names the connection in the model.
    pub(super) holder: u64,
    /// Speaks as a Service Bus client does: its locks outlive its connection.
    pub(super) service_bus: bool,
    next_delivery: u32,
    /// With the link on which it was sent.
    pub(super) unanswered: BTreeMap<u32, (u32, PendingDelivery)>,
    /// Settlements sent with `settled=false` whose answers matter, by delivery-id.
    pub(super) settling: BTreeMap<u32, (Id, EntityIndex, SettlementKind)>,
    /// Our handles, by the name of the link and by the broker's handle.
    names: BTreeMap<String, u32>,
    remotes: BTreeMap<u32, u32>,
    next_name: u64,
}

impl AmqpSession {
    pub(super) fn new(script: Script, holder: u64, service_bus: bool) -> Self {
        Self {
            script,
            holder,
            service_bus,
            next_delivery: 0,
            unanswered: BTreeMap::new(),
            settling: BTreeMap::new(),
            names: BTreeMap::new(),
            remotes: BTreeMap::new(),
            next_name: 0,
        }
    }

    /// A new name for a link with this handle of ours.
    pub(super) fn name(&mut self, handle: u32) -> String {
        self.next_name += 1;
        let name = format!("link-{}-{}", self.holder, self.next_name);
        self.names.insert(name.clone(), handle);
        name
    }

    /// Sends an attach, in the client's dialect.
    pub(super) fn attach(&mut self, mut attach: Attach) {
        if self.service_bus && attach.properties.is_none() {
            let name = [("com.microsoft:receiver-name", AnnotationValue::Str("sim"))];
            attach.properties = Some(RawMap::with_symbol_keys(&name));
        }
        self.script.attach(0, attach);
    }

    /// Which of our links an attach answers.
    pub(super) fn attached(&mut self, attach: &Attach) -> Option<u32> {
        let handle = self.names.remove(attach.name.as_str())?;
        self.remotes.insert(attach.handle, handle);
        Some(handle)
    }

    /// Which of our links the broker means.
    pub(super) fn local(&self, remote: u32) -> Option<u32> {
        self.remotes.get(&remote).copied()
    }

    /// Which of our links the broker has detached.
    pub(super) fn detached(&mut self, detach: &Detach) -> Option<u32> {
        self.remotes.remove(&detach.handle)
    }

    /// A link is gone, and with it the answers that were to come on it.
    pub(super) fn forget(&mut self, handle: u32) {
        self.unanswered.retain(|_, (other, _)| *other != handle);
    }

    /// Grants credit, counted from `received`.
    pub(super) fn credit(&mut self, handle: u32, received: u32, credit: u32) {
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: u32::MAX >> 1,
            // Every transfer is a delivery of its own.
            next_outgoing_id: self.next_delivery,
            outgoing_window: 65_536,
            handle: Some(handle),
            delivery_count: Some(received),
            link_credit: Some(credit),
            ..Flow::default()
        };
        self.script.flow(0, flow);
    }

    /// Sends a message, and notes who waits for the answer; without anybody it is sent settled.
    pub(super) fn transfer(
        &mut self,
        handle: u32,
        state: Option<DeliveryState>,
        payload: &[u8],
        waiting: Option<PendingDelivery>,
    ) {
        let mut frame = Script::transfer_frame(handle, self.next_delivery, waiting.is_none());
        frame.state = state;
        self.script.transfer_with(0, frame, payload);
        if let Some(waiting) = waiting {
            self.unanswered.insert(self.next_delivery, (handle, waiting));
        }
        self.next_delivery += 1;
    }
}

/// Error condition with which the broker has detached a link.
pub(super) fn condition(detach: &Detach) -> &str {
    detach.error.as_ref().map_or("", |error| error.condition.as_str())
}

/// Whether a link that was refused, or was open, goes for the reason for which links of deleted entities go.
pub(super) fn check_departure(detach: &Detach, was_open: bool) -> Result<(), String> {
    let expected = if was_open { "amqp:resource-deleted" } else { "amqp:not-found" };
    if condition(detach) == expected {
        return Ok(());
    }
    Err(format!("a link of a deleted entity goes with {expected}, not with {:?}", detach.error))
}
