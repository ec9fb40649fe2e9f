//! A link that receives from one entity, or from one of its sessions after the other.
//!
//! Invariant: what is seen goes to the model, unless the link was given up before.

use std::collections::{BTreeMap, BTreeSet};

use amqp_codec::{
    performative::{Attach, DeliveryState, Detach, Modified, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use broker_core::LockLifetime;

use super::{
    Mode,
    amqp_session::{AmqpSession, ClientContext, check_departure},
};
use crate::{
    model::{
        EntityIndex, Id, Incarnation, Incarnations, Location, Model, ObservedDelivery, Session,
        SettlementKind,
    },
    plan::{PlantedFault, SendTarget::Forwarder, Topology},
    reader,
};

const CREDIT_MAX: u64 = 20;
const SESSION_FILTER: &str = "com.microsoft:session-filter";
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
/// Property of an attach: the time in milliseconds to wait for a free session.
const PATIENCE: &str = "com.microsoft:timeout";
const PATIENCE_MS: u32 = 500;
/// .NET ticks at the start of 1970, and in a millisecond.
const TICKS_1970: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LinkState {
    Closed,
    Attaching,
    /// The broker has refused the attach, and is about to detach.
    Refused,
    Open,
    Detaching,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) handle: u32,
    pub(super) entity: EntityIndex,
    /// Location from which the link receives messages that were sent to `entity`.
    location: Location,
    address: String,
    dead_letter: bool,
    mode: Mode,
    /// Takes one session after the other.
    pub(super) takes_sessions: bool,
    pub(super) session: Option<Session>,
    link_state: LinkState,
    /// The first entity that it may find.
    first: Incarnation,
    /// Which one it has found.
    incarnations: Incarnations,
    pub(super) credit: u32,
    received: u32,
    /// Deliveries not yet settled, by delivery-id.
    held: BTreeMap<u32, (Id, EntityIndex)>,
    /// Those that a transaction is to settle, though they are not settled: the commit does it, or they are held again.
    enlisted: BTreeMap<u32, (Id, EntityIndex)>,
    /// Those that came back from a rollback.
    rolled_back: BTreeSet<u32>,
    /// The tokens of their locks.
    tokens: BTreeMap<(Id, EntityIndex), [u8; 16]>,
    last_first_delivery: BTreeMap<u64, u64>,
    /// Number of drain rounds without a message.
    idle: u32,
}

impl Receiver {
    /// A link to an address, not yet attached.
    pub(super) fn new(
        handle: u32,
        (entity, address): (EntityIndex, String),
        dead_letter: bool,
        mode: Mode,
        takes_sessions: bool,
    ) -> Self {
        Self {
            handle,
            entity,
            location: Location::Home,
            address: if dead_letter { format!("{address}/$DeadLetterQueue") } else { address },
            dead_letter,
            mode,
            takes_sessions,
            session: None,
            link_state: LinkState::Closed,
            first: 0,
            incarnations: Incarnations::default(),
            credit: 0,
            received: 0,
            held: BTreeMap::new(),
            enlisted: BTreeMap::new(),
            rolled_back: BTreeSet::new(),
            tokens: BTreeMap::new(),
            last_first_delivery: BTreeMap::new(),
            idle: 0,
        }
    }

    /// Receives the messages of an entity that could not be forwarded, and completes them.
    pub(super) fn for_failed_forwards(
        handle: u32,
        location: Location,
        entity: EntityIndex,
        topology: &Topology,
    ) -> Self {
        let address = match location {
            Location::FailedForward(forwarder) => topology.target_address(Forwarder(forwarder)),
            _ => format!("{}/$Transfer", topology.address(entity)),
        };
        Self { location, ..Self::new(handle, (entity, address), true, Mode::Second, false) }
    }

    /// Whether its entity is deleted now and then.
    fn is_recreated(&self, cx: &ClientContext<'_>) -> bool {
        !matches!(self.location, Location::FailedForward(_)) && cx.topology.is_recreated(self.entity)
    }

    pub(super) fn is_open(&self) -> bool {
        self.link_state == LinkState::Open
    }

    pub(super) fn is_closed(&self) -> bool {
        self.link_state == LinkState::Closed
    }

    /// Asks for the link, with this session where it takes sessions; `None` is the next one.
    pub(super) fn attach(&mut self, amqp: &mut AmqpSession, model: &Model, wanted: Option<Session>) {
        let mut attach = Attach::new(amqp.name(self.handle), self.handle, Role::Receiver);
        let mut source = Source::new(self.address.as_str());
        if self.takes_sessions {
            let name = wanted.map(|session| reader::session_name(session, amqp.holder));
            let wanted = name.as_deref().map_or(AnnotationValue::Null, AnnotationValue::Str);
            source.filter = Some(RawMap::with_symbol_keys(&[(SESSION_FILTER, wanted)]));
            let patience = [(PATIENCE, AnnotationValue::Uint(PATIENCE_MS))];
            attach.properties = Some(RawMap::with_symbol_keys(&patience));
        }
        attach.source = Some(source);
        attach.target = Some(Target::new("here"));
        attach.snd_settle_mode = (self.mode == Mode::Delete).then_some(SenderSettleMode::Settled);
        attach.rcv_settle_mode = (self.mode == Mode::Second).then_some(ReceiverSettleMode::Second);
        amqp.attach(attach);
        self.link_state = LinkState::Attaching;
        (self.session, self.credit, self.received) = (None, 0, 0);
        (self.first, self.last_first_delivery) =
            (model.lifetimes.first_incarnation(self.entity), BTreeMap::new());
    }

    /// Asks for a session, or for any.
    pub(super) fn take_session(&mut self, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        let takes_one = self.takes_sessions && cx.rng.chance(50);
        let wanted = takes_one.then(|| cx.rng.below(reader::SESSIONS));
        self.attach(amqp, cx.model, wanted);
    }

    pub(super) fn on_attach(
        &mut self,
        attach: &Attach,
        amqp: &AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        let Some(source) = attach.source.as_ref() else {
            if self.takes_sessions || self.is_recreated(cx) {
                self.link_state = LinkState::Refused;
                return Ok(());
            }
            return Err("the broker refused the link".into());
        };
        self.link_state = LinkState::Open;
        self.incarnations = cx.model.lifetimes.incarnations_since(self.entity, self.first);
        if self.takes_sessions {
            let filter = source.filter.as_ref().and_then(|filter| filter.get(SESSION_FILTER));
            let session = filter.and_then(RawValue::as_str).and_then(reader::session_of_name);
            let session = session.ok_or("an attach does not name its session")?;
            let until = attach.properties.as_ref().and_then(|map| map.get(LOCKED_UNTIL)?.as_i64());
            let until = until.ok_or("an attach does not say how long its session is locked")?;
            let until = u64::try_from((until - TICKS_1970) / TICKS_PER_MS).unwrap_or(0);
            self.session = Some(session);
            cx.model.count("sessions held");
            let granted = cx.model.sessions.granted((self.entity, session), amqp.holder, until, cx.now);
            return granted.map_err(|broken| broken.to_string());
        }
        Ok(())
    }

    /// The broker has detached the link: it answers, or a session is over, or none was to be had.
    pub(super) fn on_detach(
        &mut self,
        detach: &Detach,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        if self.is_recreated(cx) {
            return self.on_deletion(detach, amqp, cx);
        }
        if !self.takes_sessions {
            return Err(format!("the broker detached the link: {:?}", detach.error));
        }
        if self.link_state != LinkState::Detaching {
            amqp.script.detach(0, self.handle, true);
            self.leave(amqp, cx)?;
        }
        self.link_state = LinkState::Closed;
        Ok(())
    }

    /// The entity is gone, or was not there.
    fn on_deletion(
        &mut self,
        detach: &Detach,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        check_departure(detach, self.is_open())?;
        amqp.script.detach(0, self.handle, true);
        self.forget_held();
        if std::mem::replace(&mut self.link_state, LinkState::Closed) == LinkState::Refused {
            return Ok(());
        }
        let left = cx.model.detached_by_deletion(self.entity, self.incarnations, amqp.holder);
        left.map_err(|broken| broken.to_string())
    }

    /// Whether the link has outlived its entity.
    pub(super) fn check(&self, cx: &ClientContext<'_>) -> Result<(), String> {
        if !self.is_open() || !self.is_recreated(cx) {
            return Ok(());
        }
        cx.model.lifetimes.check_link(self.entity, self.incarnations).map_err(|broken| broken.to_string())
    }

    /// Gives the session back.
    pub(super) fn detach(
        &mut self,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        amqp.script.detach(0, self.handle, true);
        self.link_state = LinkState::Detaching;
        self.leave(amqp, cx)
    }

    fn forget_held(&mut self) {
        self.held.clear();
        self.enlisted.clear();
        self.rolled_back.clear();
    }

    fn leave(&mut self, amqp: &AmqpSession, cx: &mut ClientContext<'_>) -> Result<(), String> {
        self.forget_held();
        let Some(session) = self.session.take() else { return Ok(()) };
        let released = cx.model.released((self.entity, session), amqp.holder);
        released.map_err(|broken| broken.to_string())
    }

    pub(super) fn on_delivery(
        &mut self,
        delivery: u32,
        payload: &[u8],
        amqp: &AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        if !self.is_open() {
            return Ok(());
        }
        let read = reader::read(payload)?;
        self.received += 1;
        self.credit = self.credit.saturating_sub(1);
        let settled = self.mode == Mode::Delete;
        let locked_until = if settled { None } else { Some(self.lock_end(read.locked_until, amqp, cx)?) };
        if read.first_acquirer && !self.dead_letter && !self.takes_sessions {
            let last = self.last_first_delivery.entry(read.sequence >> 48).or_default();
            if read.sequence <= *last {
                return Err(format!("message {} came before one with a lower number", read.id));
            }
            *last = read.sequence;
        }
        let observed = read.observed(self.entity, amqp.holder, (&*cx.model, cx.topology), cx.now)?;
        if read.check_properties(observed.entity, cx.topology)? {
            cx.model.count("copies that an action has changed");
        }
        let observed = ObservedDelivery {
            location: if self.location == Location::Home { observed.location } else { self.location },
            incarnations: self.incarnations,
            dead_letter: self.dead_letter,
            session: self.session,
            locked_until,
            ..observed
        };
        let copy = (observed.id, observed.entity);
        if cx.model.delivered(observed).map_err(|broken| broken.to_string())? && !settled {
            // An earlier delivery of it is stale.
            self.held.retain(|_, other| *other != copy);
            self.enlisted.retain(|_, other| *other != copy);
            self.held.insert(delivery, copy);
            self.tokens.extend(read.token.map(|token| (copy, token)));
        }
        Ok(())
    }

    /// The end of the lock of a delivery, in milliseconds; the end of time where it ends with its link alone.
    fn lock_end(&self, told: Option<u64>, amqp: &AmqpSession, cx: &ClientContext<'_>) -> Result<u64, String> {
        // A queue that forwards has settings of its own, which are the default ones.
        let settings = cx
            .topology
            .settings(self.entity)
            .filter(|_| !matches!(self.location, Location::FailedForward(_)));
        let hold = settings.map_or(LockLifetime::Link, |settings| settings.hold);
        let is_timed = amqp.service_bus || self.takes_sessions || hold == LockLifetime::Lock;
        match (is_timed, told) {
            (true, Some(until)) => Ok(until),
            (true, None) => Err("a delivery does not say how long its lock lasts".into()),
            (false, Some(_)) if cx.topology.is_free_of(PlantedFault::HoldsExpire) => {
                Err("a delivery that is held by its link has a lock that ends".into())
            }
            (false, _) => Ok(u64::MAX),
        }
    }

    pub(super) fn ask(&mut self, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        if self.credit == 0 {
            self.credit = u32::try_from(1 + cx.rng.below(CREDIT_MAX)).unwrap_or(1);
            amqp.credit(self.handle, self.received, self.credit);
        }
    }

    /// Sets a message aside; its number will be asked for.
    pub(super) fn defer(&mut self, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        let Some(held) = self.pick(cx) else { return self.ask(amqp, cx) };
        let aside =
            Modified { delivery_failed: None, undeliverable_here: Some(true), message_annotations: None };
        self.dispose(
            held,
            false,
            (DeliveryState::Modified(Box::new(aside)), SettlementKind::Defer),
            amqp,
            cx,
        );
    }

    /// Asks for messages or settles one.
    pub(super) fn consume(&mut self, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        if self.mode == Mode::Delete || cx.rng.below(3) == 0 {
            self.ask(amqp, cx);
        } else {
            self.settle(amqp, cx);
        }
    }

    fn settle(&mut self, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        let Some((delivery, copy)) = self.pick(cx) else { return self.ask(amqp, cx) };
        let has_dead_letter_target = cx.topology.dead_letter_target(self.entity).is_some();
        let (state, settlement_kind) = match cx.rng.below(10) {
            // With forwarded dead letters a client rejects more often, so that there are some.
            0..=2 if has_dead_letter_target => (DeliveryState::Rejected(None), SettlementKind::DeadLetter),
            0..=5 => (DeliveryState::Accepted, SettlementKind::Complete),
            6 => (DeliveryState::Released, SettlementKind::Return),
            7 => (DeliveryState::Rejected(None), SettlementKind::DeadLetter),
            8 => {
                let failed = Modified {
                    delivery_failed: Some(true),
                    undeliverable_here: None,
                    message_annotations: None,
                };
                (DeliveryState::Modified(Box::new(failed)), SettlementKind::Return)
            }
            // Say nothing, and let the lock run out.
            _ => return,
        };
        self.dispose((delivery, copy), self.mode == Mode::First, (state, settlement_kind), amqp, cx);
    }

    fn dispose(
        &mut self,
        (delivery, copy): (u32, (Id, EntityIndex)),
        settled: bool,
        (state, settlement_kind): (DeliveryState, SettlementKind),
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) {
        self.held.remove(&delivery);
        if self.rolled_back.remove(&delivery) {
            cx.model.count("deliveries settled after a rollback");
        }
        // Another receiver of this client may have it from the queue to which it was forwarded, with a lock of its own.
        if !cx.model.messages.has_moved_from(copy, self.entity) {
            cx.model.messages.settling(copy, amqp.holder, settlement_kind);
        }
        if settled && settlement_kind == SettlementKind::Complete {
            cx.model.count("completions without an answer");
        }
        if !settled {
            amqp.settling.insert(delivery, (copy.0, copy.1, settlement_kind));
        }
        amqp.script.disposition(0, delivery, delivery, settled, Some(state));
    }

    /// Whether there are deliveries that are not settled.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// One of the deliveries that are not settled.
    pub(super) fn pick(&self, cx: &mut ClientContext<'_>) -> Option<(u32, (Id, EntityIndex))> {
        let count = self.held.len();
        if count == 0 {
            return None;
        }
        self.held.iter().nth(cx.index(count)).map(|(delivery, copy)| (*delivery, *copy))
    }

    /// One of the locks that it has.
    pub(super) fn pick_lock(&self, cx: &mut ClientContext<'_>) -> Option<((Id, EntityIndex), [u8; 16])> {
        let (_, copy) = self.pick(cx)?;
        Some((copy, *self.tokens.get(&copy)?))
    }

    /// A transaction has a delivery now, which is settled or not.
    pub(super) fn enlist(&mut self, delivery: u32, settled: bool) {
        if let Some(copy) = self.held.remove(&delivery).filter(|_| !settled) {
            self.enlisted.insert(delivery, copy);
        }
    }

    /// The broker has settled a delivery.
    pub(super) fn on_settled(&mut self, delivery: u32) {
        self.enlisted.remove(&delivery);
    }

    /// A transaction is not done: what it was to settle is held as before.
    pub(super) fn roll_back(&mut self) {
        self.rolled_back.extend(self.enlisted.keys());
        self.held.append(&mut self.enlisted);
    }

    /// A transaction is done: nothing that it was to settle may be left unsettled.
    pub(super) fn check_committed(&self) -> Result<(), String> {
        match self.enlisted.first_key_value() {
            None => Ok(()),
            Some((delivery, (id, _))) => {
                Err(format!("a commit has left delivery {delivery} of message {id} unsettled"))
            }
        }
    }

    /// Completes everything, and asks for more.
    pub(super) fn drain(&mut self, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) -> Result<(), String> {
        let busy = !self.held.is_empty();
        while let Some((&delivery, &copy)) = self.held.first_key_value() {
            self.dispose(
                (delivery, copy),
                false,
                (DeliveryState::Accepted, SettlementKind::Complete),
                amqp,
                cx,
            );
        }
        if self.credit == 0 {
            self.credit = 50;
            amqp.credit(self.handle, self.received, self.credit);
        } else if !busy {
            self.idle += 1;
        }
        // Nothing more comes from this session: on to the next.
        if self.takes_sessions && self.idle > 2 {
            self.idle = 0;
            return self.detach(amqp, cx);
        }
        Ok(())
    }
}
